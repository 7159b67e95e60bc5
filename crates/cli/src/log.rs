// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What the library warns of, told on stderr as the command's own failures are.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::{env, fmt, io};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How much is told.
const VARIABLE: &str = "KOFI_LOG";

/// From now on warnings are told, or what `KOFI_LOG` says.
pub(crate) fn start() {
    let asked = env::var_os(VARIABLE).filter(|asked| !asked.is_empty());
    let level = asked.map_or(Some(LevelFilter::WARN), |asked| asked.to_str()?.parse().ok());
    tracing_subscriber::fmt()
        // A stderr that cannot be written to is nothing to tell on stderr.
        .log_internal_errors(false)
        .with_max_level(level.unwrap_or(LevelFilter::WARN))
        .event_format(Lines::default())
        .with_writer(io::stderr)
        .init();
    if level.is_none() {
        let asked = env::var_os(VARIABLE).unwrap_or_default();
        tracing::warn!(
            "{VARIABLE}={asked:?} is none of off, error, warn, info, debug and trace; it is ignored"
        );
    }
}

/// A line for each event. Many objects can find the same fault in the environment, so warnings that
/// were told are not repeated.
#[derive(Default)]
struct Lines {
    told: Mutex<HashSet<String>>,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        let name = match level {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        let mut line = format!("kofi: {name}: ");
        context.format_fields(Writer::new(&mut line), event)?;
        if level <= Level::WARN {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if !told.insert(line.clone()) {
                return Ok(());
            }
        }
        line.push('\n');
        writer.write_str(&line)
    }
}

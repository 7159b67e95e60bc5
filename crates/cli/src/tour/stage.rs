// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Where the two sides of the tour play: their lines come out in the order of the turns, while both
//! run, and wait for each other's messages, in threads of their own.

use std::fmt::{self, Display, Formatter};
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Result};

/// An argument of a call, or a field of an event.
pub(super) enum Arg {
    /// The name of an object, a constant, or an address.
    Name(String),
    Number(u64),
    Hex(u64),
    Text(Vec<u8>),
}

impl Arg {
    pub(super) fn name(name: impl Display) -> Self {
        Self::Name(name.to_string())
    }

    pub(super) fn text(bytes: &[u8]) -> Self {
        Self::Text(bytes.to_vec())
    }

    fn value(&self) -> Value {
        match self {
            Self::Name(name) if name == "NULL" => Value::Null,
            Self::Name(name) => name.as_str().into(),
            Self::Number(number) | Self::Hex(number) => (*number).into(),
            Self::Text(bytes) => String::from_utf8_lossy(bytes).into(),
        }
    }
}

impl Display for Arg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
            Self::Hex(number) => write!(f, "{number:#x}"),
            Self::Text(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
        }
    }
}

pub(super) type Fields<'a> = &'a [(&'static str, Arg)];

/// What was shown so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) calls: u32,
    pub(super) events: u32,
    pub(super) completions: u32,
}

/// The stage, which both sides share.
pub(super) struct Stage {
    json: bool,
    limit: Duration,
    start: Instant,
    play: Mutex<Play>,
    turn: Condvar,
}

struct Play {
    turn: u32,
    section: &'static str,
    counts: Counts,
}

/// One side of the tour.
pub(super) struct Actor {
    stage: Arc<Stage>,
    name: &'static str,
    style: Style,
}

impl Stage {
    /// A stage on which nobody waits longer than `limit` for a turn.
    pub(super) fn new(json: bool, limit: Duration) -> Arc<Self> {
        let play = Play { turn: 1, section: "", counts: Counts::default() };
        Arc::new(Self { json, limit, start: Instant::now(), play: Mutex::new(play), turn: Condvar::new() })
    }

    pub(super) fn server(self: &Arc<Self>) -> Actor {
        Actor { stage: self.clone(), name: "server", style: AnsiColor::Cyan.on_default() }
    }

    pub(super) fn client(self: &Arc<Self>) -> Actor {
        Actor { stage: self.clone(), name: "client", style: AnsiColor::Magenta.on_default() }
    }

    fn lock(&self) -> MutexGuard<'_, Play> {
        self.play.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last line.
    pub(super) fn finish(&self, place: impl Display) -> Result {
        let Counts { calls, events, completions } = self.lock().counts;
        let elapsed = self.start.elapsed();
        let mut out = anstream::stdout().lock();
        if self.json {
            let line = json!({
                "kind": "summary", "ok": true, "address": place.to_string(), "calls": calls, "events": events,
                "completions": completions, "seconds": elapsed.as_secs_f64(),
            });
            writeln!(out, "{line}")?;
        } else {
            let bold = Style::new().bold();
            writeln!(
                out,
                "\n{bold}The whole deck on {place}: {calls} calls, {events} events and {completions} completions \
                 as they should be, in {:.1} ms.{bold:#}",
                elapsed.as_secs_f64() * 1e3,
            )?;
        }
        Ok(())
    }
}

impl Actor {
    /// Waits for a turn of one's own.
    pub(super) fn enter(&self, turn: u32) -> Result {
        let stage = &self.stage;
        let late = |play: &mut Play| play.turn != turn;
        let (play, timeout) = stage
            .turn
            .wait_timeout_while(stage.lock(), stage.limit, late)
            .unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() && play.turn != turn {
            let (now, limit) = (play.turn, stage.limit);
            return Err(Failure::Run(format!(
                "the {} waited {limit:?} for step {turn} of the tour, but it got to step {now} only; try again \
                 on a machine that is less busy",
                self.name
            )));
        }
        Ok(())
    }

    /// Gives the turn to the other side.
    pub(super) fn leave(&self) {
        self.stage.lock().turn += 1;
        self.stage.turn.notify_all();
    }

    /// Begins a section.
    pub(super) fn section(&self, title: &'static str) -> Result {
        let mut play = self.stage.lock();
        let first = play.section.is_empty();
        play.section = title;
        if !self.stage.json {
            let bold = Style::new().bold();
            let gap = if first { "" } else { "\n" };
            writeln!(anstream::stdout(), "{gap}{bold}{title}{bold:#}")?;
        }
        Ok(())
    }

    /// Makes a call and shows it, with what it returned.
    pub(super) fn call<T, E>(
        &self,
        call: &'static str,
        args: Fields<'_>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T>
    where
        E: Into<kofi::Error>,
    {
        let result = make().map_err(Into::into);
        let returned = match &result {
            Ok(_) => 0,
            Err(error) => -error.errno().raw(),
        };
        let sign = match &result {
            Ok(_) => "0".into(),
            Err(error) => format!("-{:?}", error.errno()),
        };
        self.show_call(call, args, Some((returned, sign)))?;
        Ok(result?)
    }

    /// Shows what a call that waited has returned, when that is an error, as it should be.
    pub(super) fn returned(&self, call: &'static str, error: &kofi::Error) -> Result {
        let errno = error.errno();
        if self.stage.json {
            let mut line = self.line("return");
            line.insert("call".into(), call.into());
            line.insert("returned".into(), (-errno.raw()).into());
            return self.write_json(&line);
        }
        self.write(format_args!("  {call} = -{errno:?}"))
    }

    /// Shows a call that waits; what it brings is shown later.
    pub(super) fn waits(&self, call: &'static str, args: Fields<'_>) -> Result {
        self.show_call(call, args, None)
    }

    fn show_call(&self, call: &'static str, args: Fields<'_>, returned: Option<(i32, String)>) -> Result {
        self.stage.lock().counts.calls += 1;
        if self.stage.json {
            let mut line = self.line("call");
            line.insert("call".into(), call.into());
            line.insert("args".into(), object(args));
            if let Some((returned, _)) = returned {
                line.insert("returned".into(), returned.into());
            }
            return self.write_json(&line);
        }
        let args: Vec<_> = args.iter().map(|(_, arg)| arg.to_string()).collect();
        let dim = Style::new().dimmed();
        let outcome = returned.map_or_else(|| " …".into(), |(_, sign)| format!(" = {sign}"));
        self.write(format_args!("{call}({}){dim}{outcome}{dim:#}", args.join(", ")))
    }

    /// Shows an event.
    pub(super) fn event(&self, event: &'static str, fields: Fields<'_>) -> Result {
        self.stage.lock().counts.events += 1;
        self.show("event", "event", event, fields)
    }

    /// Shows a completion.
    pub(super) fn completion(&self, flags: impl Display, fields: Fields<'_>) -> Result {
        self.stage.lock().counts.completions += 1;
        self.show("completion", "flags", &flags.to_string().replace(", ", " | "), fields)
    }

    fn show(&self, kind: &str, key: &str, name: &str, fields: Fields<'_>) -> Result {
        if self.stage.json {
            let mut line = self.line(kind);
            line.insert(key.into(), name.into());
            if let Value::Object(fields) = object(fields) {
                line.extend(fields);
            }
            return self.write_json(&line);
        }
        let fields: String = fields.iter().map(|(name, arg)| format!("  {name} {arg}")).collect();
        let style = self.style.bold();
        self.write(format_args!("  {style}<- {name}{style:#}{fields}"))
    }

    fn line(&self, kind: &str) -> Map<String, Value> {
        let mut line = Map::new();
        line.insert("kind".into(), kind.into());
        line.insert("section".into(), self.stage.lock().section.into());
        line.insert("side".into(), self.name.into());
        line
    }

    fn write_json(&self, line: &Map<String, Value>) -> Result {
        Ok(writeln!(anstream::stdout(), "{}", serde_json::to_string(line)?)?)
    }

    fn write(&self, text: impl Display) -> Result {
        let style = self.style;
        Ok(writeln!(anstream::stdout(), "  {style}{}{style:#}  {text}", self.name)?)
    }
}

fn object(fields: Fields<'_>) -> Value {
    Value::Object(fields.iter().map(|(name, arg)| ((*name).to_owned(), arg.value())).collect())
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Where the two sides of the tour play: their lines come out in the order of the turns, while both
//! run, and wait for each other's messages, in threads of their own.

use std::fmt::{self, Display, Formatter};
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use serde::{Serialize, Serializer};
use serde_json::Value;

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
}

impl Serialize for Arg {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Name(name) if name == "NULL" => serializer.serialize_none(),
            Self::Name(name) => serializer.serialize_str(name),
            Self::Number(number) | Self::Hex(number) => serializer.serialize_u64(*number),
            Self::Text(bytes) => serializer.serialize_str(&String::from_utf8_lossy(bytes)),
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

/// Members of a JSON object, in order.
struct Object<'a>(Vec<(&'a str, Member<'a>)>);

#[derive(Serialize)]
#[serde(untagged)]
enum Member<'a> {
    Value(Value),
    Arg(&'a Arg),
    Object(Object<'a>),
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, member)| (name, member)))
    }
}

impl<'a> Object<'a> {
    fn with(mut self, name: &'a str, value: impl Into<Value>) -> Self {
        self.0.push((name, Member::Value(value.into())));
        self
    }

    fn and(mut self, fields: Fields<'a>) -> Self {
        self.0.extend(fields.iter().map(|(name, arg)| (*name, Member::Arg(arg))));
        self
    }

    fn write(&self) -> Result {
        Ok(writeln!(anstream::stdout(), "{}", serde_json::to_string(self)?)?)
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
        if self.json {
            let line = Object(Vec::new()).with("kind", "summary").with("ok", true);
            let line = line.with("address", place.to_string()).with("calls", calls).with("events", events);
            line.with("completions", completions).with("seconds", elapsed.as_secs_f64()).write()?;
        } else {
            let bold = Style::new().bold();
            writeln!(
                anstream::stdout(),
                "\n{bold}The tour on {place}: {calls} calls, {events} events and {completions} completions \
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
            return self.line("return").with("call", call).with("returned", -errno.raw()).write();
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
            let mut line = self.line("call").with("call", call);
            line.0.push(("args", Member::Object(Object(Vec::new()).and(args))));
            return match returned {
                Some((returned, _)) => line.with("returned", returned).write(),
                None => line.write(),
            };
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

    fn show(&self, kind: &str, key: &'static str, name: &str, fields: Fields<'_>) -> Result {
        if self.stage.json {
            return self.line(kind).with(key, name).and(fields).write();
        }
        let fields: String = fields.iter().map(|(name, arg)| format!("  {name} {arg}")).collect();
        let style = self.style.bold();
        self.write(format_args!("  {style}<- {name}{style:#}{fields}"))
    }

    fn line<'a>(&self, kind: &str) -> Object<'a> {
        let section = self.stage.lock().section;
        Object(Vec::new()).with("kind", kind).with("section", section).with("side", self.name)
    }

    fn write(&self, text: impl Display) -> Result {
        let style = self.style;
        Ok(writeln!(anstream::stdout(), "  {style}{}{style:#}  {text}", self.name)?)
    }
}

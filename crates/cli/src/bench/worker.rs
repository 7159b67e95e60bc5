// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! One side of one run, in a process of its own: what it is told, and what it tells.
//!
//! A server says `port N` on a line of its own once it listens. Each side says its results as one
//! JSON object a line. `library.c` is told and tells the same.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::json;

use super::{ours, plain};
use crate::failure::{Failure, Result};

/// The longest wait for anything that is to come.
pub(super) const STEP: Duration = Duration::from_secs(20);
/// Of connections opened to be held, so many are in flight.
pub(super) const FILL: usize = 32;
/// Endpoints that are open before memory is looked at: what is needed once is there by then.
pub(super) const BASE: usize = 24;
/// A client that lets its server fall asleep waits so long.
pub(super) const NAP: Duration = Duration::from_millis(1);
/// Messages between two looks at the clock, where that would cost more than the message.
pub(super) const STRIDE: u64 = 256;
/// The first byte of a stream's last message.
pub(super) const LAST: u8 = 1;

/// What one side is to do.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) measure: Measure,
    /// Bytes of a message.
    pub(super) size: usize,
    /// Sends, or connections, in flight.
    pub(super) window: usize,
    /// Connections that are open all the time.
    pub(super) held: usize,
    /// How long it is measured.
    pub(super) time: Duration,
    /// The processor to run on.
    pub(super) cpu: Option<usize>,
    /// Both sides share a processor: who finds nothing lets the other run.
    pub(super) yields: bool,
    /// How plain sockets are used.
    pub(super) variant: Variant,
    /// The server's address, for a client.
    pub(super) to: Option<SocketAddr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Measure {
    /// Ping-pong.
    Latency,
    /// Messages one way.
    Stream,
    /// Connections, each with one message.
    Connect,
    /// Connections that do nothing.
    Idle,
    /// Ping-pong with a server that has fallen asleep.
    Wake,
    /// Reads of the server's memory.
    Read,
    /// Writes into the server's memory: one at a time they are acknowledged, many only at the end.
    Write,
}

/// How plain sockets are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Variant {
    pub(super) wait: Wait,
    /// Most bytes of one call.
    pub(super) chunk: usize,
    /// Messages put into one call.
    pub(super) batch: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// Non-blocking calls, again and again.
    Poll,
    /// Blocking calls.
    Block,
    /// Non-blocking calls, and epoll.
    Epoll,
}

impl Default for Variant {
    fn default() -> Self {
        Self { wait: Wait::Poll, chunk: usize::MAX, batch: 1 }
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.wait.name())?;
        if self.chunk != usize::MAX {
            write!(f, ", {} KiB a call", self.chunk >> 10)?;
        }
        if self.batch > 1 {
            write!(f, ", {} messages a call", self.batch)?;
        }
        Ok(())
    }
}

impl Wait {
    fn name(self) -> &'static str {
        match self {
            Self::Poll => "polling",
            Self::Block => "blocking",
            Self::Epoll => "epoll",
        }
    }
}

impl Measure {
    const ALL: [Self; 7] =
        [Self::Latency, Self::Stream, Self::Connect, Self::Idle, Self::Wake, Self::Read, Self::Write];

    /// Whether it reaches the server's memory.
    pub(super) fn is_rma(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Stream => "stream",
            Self::Connect => "connect",
            Self::Idle => "idle",
            Self::Wake => "wake",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl Spec {
    pub(super) fn new(measure: Measure, time: Duration) -> Self {
        let (variant, yields) = (Variant::default(), false);
        Self { measure, size: 8, window: 1, held: 0, time, cpu: None, yields, variant, to: None }
    }

    /// Receives that a server keeps posted: as many as sends, within reason.
    pub(super) fn receives(&self) -> usize {
        self.window.min((RECEIVE_MEMORY / self.size.max(1)).max(2))
    }

    pub(super) fn arguments(&self) -> Vec<String> {
        let Self { measure, size, window, held, time, cpu, yields, variant, to } = self;
        let mut arguments = vec![
            format!("measure={}", measure.name()),
            format!("size={size}"),
            format!("window={window}"),
            format!("receives={}", self.receives()),
            format!("held={held}"),
            format!("millis={}", time.as_millis()),
            format!("yields={}", u8::from(*yields)),
            format!("wait={}", variant.wait.name()),
            format!("chunk={}", variant.chunk),
            format!("batch={}", variant.batch),
        ];
        arguments.extend(cpu.map(|cpu| format!("cpu={cpu}")));
        arguments.extend(to.map(|to| format!("port={}", to.port())));
        arguments
    }

    fn parse(arguments: &[String]) -> Result<Self> {
        let get = |wanted: &str| {
            let mut pairs = arguments.iter().filter_map(|argument| argument.split_once('='));
            pairs.find(|(key, _)| *key == wanted).map(|(_, value)| value)
        };
        let number = |key: &str| get(key).and_then(|value| value.parse::<usize>().ok());
        let wanted = |key: &str| number(key).ok_or_else(|| format!("--worker: wanted {key}=NUMBER"));
        let measure = Measure::ALL.into_iter().find(|measure| get("measure") == Some(measure.name()));
        let waits = [Wait::Poll, Wait::Block, Wait::Epoll];
        let wait = waits.into_iter().find(|wait| get("wait") == Some(wait.name()));
        let port = get("port").and_then(|port| port.parse::<u16>().ok());
        Ok(Self {
            measure: measure.ok_or_else(|| String::from("--worker: wanted measure=NAME"))?,
            size: wanted("size")?,
            window: wanted("window")?,
            held: wanted("held")?,
            time: Duration::from_millis(wanted("millis")? as u64),
            cpu: number("cpu"),
            yields: number("yields") == Some(1),
            variant: Variant {
                wait: wait.unwrap_or(Wait::Poll),
                chunk: wanted("chunk")?,
                batch: wanted("batch")?,
            },
            to: port.map(|port| (Ipv4Addr::LOCALHOST, port).into()),
        })
    }

    /// Whether this side sleeps until something comes.
    pub(super) fn sleeps(&self) -> bool {
        match self.measure {
            // Only the server does.
            Measure::Wake => self.to.is_none(),
            _ => self.variant.wait != Wait::Poll,
        }
    }

    /// Nothing was found: what to do before the next look.
    pub(super) fn relax(&self) {
        if self.yields {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Round trips that are measured in any case, however busy the machine is.
const FEWEST: usize = 100;
/// Memory of all receives of a stream, unless two need more.
const RECEIVE_MEMORY: usize = 4 << 20;

/// Does what the arguments of `--worker` say.
pub(super) fn run(arguments: &[String]) -> Result {
    let Some((stack, arguments)) = arguments.split_first() else {
        return Err(Failure::Run("--worker: wanted the name of a stack".into()));
    };
    let spec = Spec::parse(arguments)?;
    // Nobody is there to read what we find when whoever started us is gone.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if let Some(cpu) = spec.cpu {
        let mut set = CpuSet::new();
        set.set(cpu);
        let _ = sched_setaffinity(None, &set);
    }
    match (stack.as_str(), spec.to) {
        ("kofi", None) => ours::serve(&spec),
        ("kofi", Some(to)) => ours::connect(&spec, to),
        ("plain", None) => plain::serve(&spec),
        ("plain", Some(to)) => plain::connect(&spec, to),
        _ => Err(Failure::Run(format!("--worker: no stack {stack}"))),
    }
}

/// Says something to who started us.
pub(super) fn tell(line: &str) -> Result {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Times of round trips, in nanoseconds, after a while to warm up.
pub(super) struct Times {
    warm: Instant,
    end: Instant,
    nanos: Vec<u64>,
}

impl Times {
    pub(super) fn new(spec: &Spec) -> Self {
        let now = Instant::now();
        let warm = now + spec.time / 5;
        Self { warm, end: warm + spec.time, nanos: Vec::with_capacity(1 << 16) }
    }

    /// `false`: it is over.
    pub(super) fn record(&mut self, start: Instant, end: Instant) -> bool {
        if start >= self.warm {
            self.nanos.push((end - start).as_nanos() as u64);
        }
        end < self.end || self.nanos.len() < FEWEST
    }

    pub(super) fn tell(&self) -> Result {
        tell(&json!({ "nanos": self.nanos }).to_string())
    }
}

pub(super) fn tell_rate(count: u64, elapsed: Duration) -> Result {
    tell(&json!({ "count": count, "seconds": elapsed.as_secs_f64() }).to_string())
}

/// Memory of this process that nobody else has, in bytes.
pub(super) fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// What endpoints cost: called when there are `BASE` of them, and when all are there.
#[derive(Default)]
pub(super) struct Held {
    base: u64,
}

impl Held {
    pub(super) fn count(&mut self, open: usize, spec: &Spec) -> Result {
        if open == BASE {
            self.base = memory();
        }
        if open == spec.held {
            let bytes = memory().saturating_sub(self.base) as f64 / (spec.held - BASE).max(1) as f64;
            tell(&json!({ "bytes": bytes }).to_string())?;
        }
        Ok(())
    }
}

/// Processor time of this process.
pub(super) fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Waits by `wait`, and tells how much processor time that took.
pub(super) fn tell_idle(spec: &Spec, mut wait: impl FnMut(Duration) -> Result) -> Result {
    let (start, before) = (Instant::now(), cpu());
    loop {
        let left = spec.time.saturating_sub(start.elapsed());
        if left.is_zero() {
            break;
        }
        wait(left)?;
    }
    tell(
        &json!({ "cpu": (cpu() - before).as_secs_f64(), "seconds": start.elapsed().as_secs_f64() })
            .to_string(),
    )
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! One run: a server and a client as processes, and what they tell.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::worker::{Measure, STEP, Spec};

/// What a connection may take to come about, on a busy machine.
const CONNECTION: Duration = Duration::from_millis(10);

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stack {
    /// The Rust interface.
    Kofi,
    Plain,
    /// The libfabric to compare with, through its C interface.
    Stock,
    /// Another libfabric, driven by the same program.
    Library,
}

impl Stack {
    pub(super) const ALL: [Self; Self::COUNT] = [Self::Kofi, Self::Plain, Self::Stock, Self::Library];
    pub(super) const COUNT: usize = 4;

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kofi => "kofi",
            Self::Plain => "plain",
            Self::Stock => "stock",
            Self::Library => "library",
        }
    }

    /// Whether it may fail, and is left out then.
    pub(super) fn is_foreign(self) -> bool {
        matches!(self, Self::Stock | Self::Library)
    }
}

/// How sides are started.
pub(super) struct Programs {
    pub(super) kofi: PathBuf,
    pub(super) stock: Option<PathBuf>,
    pub(super) library: Option<PathBuf>,
    /// Processors for the server and the client, where there are two.
    pub(super) cpus: Option<[usize; 2]>,
}

/// What both sides said.
pub(super) struct Said {
    pub(super) server: Option<Value>,
    pub(super) client: Option<Value>,
    pub(super) idle: Option<Value>,
    /// System calls of both sides.
    pub(super) calls: Option<[u64; 2]>,
}

/// A side that runs, until it is dropped.
struct Side {
    child: Child,
    lines: Receiver<String>,
    what: &'static str,
}

impl Programs {
    /// The stacks that can be measured.
    pub(super) fn stacks(&self) -> impl Iterator<Item = Stack> {
        Stack::ALL.into_iter().filter(|stack| match stack {
            Stack::Kofi | Stack::Plain => true,
            Stack::Stock => self.stock.is_some(),
            Stack::Library => self.library.is_some(),
        })
    }

    fn command(&self, stack: Stack, counts: Option<&Path>) -> Result<Command, String> {
        let program = match stack {
            Stack::Kofi | Stack::Plain => &self.kofi,
            Stack::Stock => self.stock.as_ref().ok_or("stock libfabric is not available")?,
            Stack::Library => self.library.as_ref().ok_or("no --library is given")?,
        };
        let mut command = match counts {
            None => Command::new(program),
            Some(counts) => {
                let mut command = Command::new("perf");
                command.args(["stat", "-x,", "-e", "raw_syscalls:sys_enter", "-o"]);
                command.arg(counts).arg("--").arg(program);
                command
            }
        };
        if !stack.is_foreign() {
            command.args(["bench", "--worker", stack.name()]);
        }
        Ok(command)
    }

    /// Runs a server and a client. `counts`: where perf is to write their numbers of system calls.
    ///
    /// # Errors
    /// What a side said on stderr, or that it said nothing in time.
    pub(super) fn run(&self, stack: Stack, spec: &Spec, counts: Option<[&Path; 2]>) -> Result<Said, String> {
        let mut spec = spec.clone();
        spec.cpu = self.cpus.map(|[server, _]| server);
        spec.yields = self.cpus.is_none();
        spec.to = None;
        let limit = STEP + 2 * spec.time + CONNECTION * u32::try_from(spec.held).unwrap_or(u32::MAX);
        let mut server =
            Side::start(self.command(stack, counts.map(|[server, _]| server))?, "server", &spec)?;
        let port = server.line(limit)?;
        let port = port.strip_prefix("port ").and_then(|port| port.parse::<u16>().ok());
        let port = port.ok_or("the server said something else than its port")?;
        spec.to = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        spec.cpu = self.cpus.map(|[_, client]| client);
        let mut client =
            Side::start(self.command(stack, counts.map(|[_, client]| client))?, "client", &spec)?;
        let mut said = Said { server: None, client: None, idle: None, calls: None };
        said.client = match client.value(limit) {
            // The server may know more.
            Err(client) => return Err(server.failure().unwrap_or(client)),
            Ok(value) => Some(value),
        };
        if spec.measure == Measure::Idle {
            said.server = Some(server.value(limit)?);
            said.idle = Some(server.value(limit)?);
        }
        if let Some([server_counts, client_counts]) = counts {
            server.end();
            client.end();
            said.calls = Some([calls(server_counts)?, calls(client_counts)?]);
        }
        Ok(said)
    }
}

/// What perf counted.
fn calls(path: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("perf's numbers: {error}"))?;
    let line = text.lines().find(|line| line.contains("raw_syscalls:sys_enter"));
    let count = line.and_then(|line| line.split(',').next()).and_then(|count| count.parse().ok());
    count.ok_or_else(|| String::from("perf counted no system calls"))
}

/// Why perf cannot count system calls, if so.
pub(super) fn cannot_count() -> Option<String> {
    let mut perf = Command::new("perf");
    let output = perf.args(["stat", "-x,", "-e", "raw_syscalls:sys_enter", "--", "true"]).output();
    match output {
        Err(_) => Some("there is no perf to count them (Debian's linux-perf)".into()),
        Ok(output) if output.status.success() => None,
        Ok(_) => Some("perf may not count them here".into()),
    }
}

impl Side {
    fn start(mut command: Command, what: &'static str, spec: &Spec) -> Result<Self, String> {
        command.args(spec.arguments()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            format!("the {what}: {} does not start: {error}", command.get_program().display())
        })?;
        let (tell, lines) = mpsc::channel();
        if let Some(out) = child.stdout.take() {
            thread::spawn(move || pass_on(out, &tell));
        }
        Ok(Self { child, lines, what })
    }

    fn line(&mut self, limit: Duration) -> Result<String, String> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                Err(format!("the {} said nothing in {limit:?}", self.what))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(self.failure().unwrap_or_else(|| format!("the {} ended without a word", self.what)))
            }
        }
    }

    fn value(&mut self, limit: Duration) -> Result<Value, String> {
        let line = self.line(limit)?;
        serde_json::from_str(&line).map_err(|error| format!("the {} said no JSON: {error}", self.what))
    }

    /// What a side that has failed says on stderr.
    fn failure(&mut self) -> Option<String> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut text = String::new();
        self.child.stderr.take()?.read_to_string(&mut text).ok()?;
        let line = text.lines().find(|line| !line.is_empty())?;
        Some(format!("{}: {}", self.what, line.trim_start_matches("kofi: ")))
    }

    /// Waits for the side's end, not for ever.
    fn end(&mut self) {
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pass_on(out: ChildStdout, tell: &mpsc::Sender<String>) {
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        if tell.send(line).is_err() {
            return;
        }
    }
}

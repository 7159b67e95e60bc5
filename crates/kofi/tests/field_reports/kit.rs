// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What the scenarios share: processes of their own, raw peers, transfers that are checked.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kofi::{Buffers, Completion, CompletionQueue, Endpoint, Error, Event, EventQueue};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::common::PATIENCE;

/// A scenario that is not done by then hangs: far more than any takes on a busy machine.
const WATCHDOG: Duration = Duration::from_secs(150);
const ALONE: &str = "KOFI_TEST_ALONE";
const ROLE: &str = "KOFI_TEST_ROLE";

/// The path by which libtest knows the function that this type is inside of.
fn test_name(here: &str) -> &str {
    let inside = here.split_once("::").unwrap().1;
    inside.rsplit_once("::").unwrap().0
}

/// Whether this is the scenario's own process already; otherwise runs that to its end.
pub(crate) fn own_process(here: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let (mut output, writer) = std::io::pipe().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test_name(here), "--nocapture"])
        .env(ALONE, "")
        .stdin(Stdio::null())
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .spawn()
        .unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = output.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if start.elapsed() > WATCHDOG => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let output = reader.join().unwrap();
    match status {
        None => panic!("hangs, after {WATCHDOG:?}:\n{output}"),
        Some(status) => assert!(status.success(), "{status}:\n{output}"),
    }
    assert!(output.contains("1 passed"), "no such test:\n{output}");
    false
}

/// A process that plays another part of the scenario, by a function that [`role`] begins.
pub(crate) fn part(name: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ROLE, role).stdin(Stdio::null());
    command
}

/// What a part is to do; none when libtest runs it as one of all tests.
pub(crate) fn role() -> Option<String> {
    let role = std::env::var(ROLE).ok()?;
    // Whatever becomes of the scenario, its parts end with it.
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    Some(role)
}

/// A process that does not outlive the test.
pub(crate) struct Part(pub(crate) Child);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether the tests run with AddressSanitizer, which keeps memory that was freed.
pub(crate) fn sanitized() -> bool {
    std::env::var_os("KOFI_TEST_SANITIZED").is_some()
}

/// Bytes that differ from place to place, and with the seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    const BLOCK: usize = 1 << 20;
    let word = |i: usize| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ seed;
    let block: Vec<u8> = (0..BLOCK.min(len).div_ceil(8)).flat_map(|i| word(i).to_le_bytes()).collect();
    let mut bytes = Vec::with_capacity(len + BLOCK);
    while bytes.len() < len {
        // Each block is another one.
        let at = bytes.len();
        bytes.extend_from_slice(&block);
        if let Some(first) = bytes.get_mut(at..at + 8) {
            first.copy_from_slice(&word(at + 1).to_le_bytes());
        }
    }
    bytes.truncate(len);
    bytes
}

/// Whether the bytes are those of the pattern; a failed assertion would print them all.
#[track_caller]
pub(crate) fn same(bytes: &[u8], wanted: &[u8], what: &str) {
    assert_eq!(bytes.len(), wanted.len(), "{what}: length");
    if bytes != wanted {
        let differs = bytes.iter().zip(wanted).position(|(a, b)| a != b);
        panic!("{what}: byte {} of {} differs", differs.unwrap(), bytes.len());
    }
}

/// One end of a connection.
#[derive(Clone, Copy)]
pub(crate) struct End<'a>(pub(crate) &'a Endpoint, pub(crate) &'a CompletionQueue);

/// The next completion of `cq`, while `others` go on, too.
#[track_caller]
pub(crate) fn completion(cq: &CompletionQueue, others: &[&CompletionQueue]) -> Completion {
    let start = Instant::now();
    loop {
        match cq.poll() {
            Ok(done) => return done,
            Err(error) => assert!(error.is_again(), "{error}"),
        }
        others.iter().for_each(|other| other.progress());
        assert!(start.elapsed() < PATIENCE, "no completion in {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Sends a message, and checks what arrives and what completes.
#[track_caller]
pub(crate) fn transfer(from: End<'_>, to: End<'_>, len: usize, seed: u64) {
    let bytes = pattern(seed, len);
    to.0.recv(vec![0; len], seed).unwrap();
    from.0.send(bytes.clone(), seed).unwrap();
    let received = completion(to.1, &[from.1]);
    assert!(received.is_receive() && received.context == seed, "{received:?}");
    same(&received.into_received().unwrap(), &bytes, "message");
    let sent = completion(from.1, &[to.1]).ok().unwrap();
    assert!(!sent.is_receive() && sent.context == seed, "{sent:?}");
}

/// Every event of this queue for a time.
pub(crate) fn events_for(eq: &EventQueue, others: &[&EventQueue], time: Duration) -> Vec<Event> {
    let start = Instant::now();
    let mut events = Vec::new();
    loop {
        others.iter().for_each(|other| other.progress());
        match eq.wait(Duration::from_millis(1)) {
            Ok(event) => events.push(event),
            Err(Error::Empty) if start.elapsed() >= time => return events,
            Err(Error::Empty) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// A message of connection management: its kind and its private data.
pub(crate) fn cm(version: u8, kind: u8, len: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![version, kind];
    bytes.extend(len.to_be_bytes());
    bytes.resize(24, 0);
    bytes.extend(1u64.to_ne_bytes());
    bytes.extend(data);
    bytes
}

/// A peer that speaks by plain sockets, and is connected.
pub(crate) fn raw_request(addr: SocketAddr, data: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&cm(3, 0, data.len() as u16, data)).unwrap();
    stream
}

/// Whether the other side has closed the connection, as far as it is known by now.
pub(crate) fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut stream = stream;
    loop {
        match stream.read(&mut [0; 512]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

/// Open descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// A number of `/proc/self/status`.
pub(crate) fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// How late the system wakes who sleeps: nothing of ours can be more punctual.
pub(crate) struct Lag {
    worst: Duration,
}

impl Lag {
    /// Measures while `work` goes on.
    pub(crate) fn during<T>(work: impl FnOnce() -> T) -> (T, Duration) {
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut lag = Self { worst: Duration::ZERO };
                while done.load(Ordering::Relaxed) == 0 {
                    let start = Instant::now();
                    std::thread::sleep(Duration::from_millis(1));
                    lag.worst = lag.worst.max(start.elapsed() - Duration::from_millis(1));
                }
                lag.worst
            });
            let value = work();
            done.store(1, Ordering::Relaxed);
            (value, watch.join().unwrap())
        })
    }
}

/// What is logged at the default level and above it.
pub(crate) struct Log(AtomicUsize);

static LINES: Log = Log(AtomicUsize::new(0));

impl Log {
    /// Counts from now on.
    pub(crate) fn start() -> &'static Self {
        tracing::subscriber::set_global_default(&LINES).unwrap();
        &LINES
    }

    pub(crate) fn lines(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl tracing::Subscriber for &'static Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// Four pieces that are as long as `len` together.
pub(crate) fn pieces(len: usize) -> Buffers {
    let quarter = len / 4;
    [quarter, quarter, quarter, len - 3 * quarter].into_iter().map(|len| vec![0; len]).collect()
}

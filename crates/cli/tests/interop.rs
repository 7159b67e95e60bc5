// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `kofi pingpong` with libfabric's `fi_pingpong` as its peer, in both roles.
//!
//! Where `fi_pingpong` is not installed this is skipped, unless `KOFI_INTEROP=require`.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A run that is not done by then hangs.
const LIMIT: Duration = Duration::from_secs(120);
const KOFI: &[&str] = &[env!("CARGO_BIN_EXE_kofi"), "pingpong"];
const STOCK: &[&str] = &["fi_pingpong", "-p", "tcp", "-e", "msg"];

/// Both sides keep a processor busy: pairs that run at once would wait for each other's time slices.
static ALONE: Mutex<()> = Mutex::new(());

/// A side of a run, which does not outlive the test.
struct Side {
    name: &'static str,
    child: Child,
    output: Option<thread::JoinHandle<String>>,
}

impl Side {
    fn start(name: &'static str, command: &[&str], arguments: &[&str]) -> Self {
        let (program, own) = command.split_first().unwrap();
        let mut child = Command::new(program)
            .args(own)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let output = thread::spawn(move || {
            let errors = thread::spawn(move || {
                let mut text = String::new();
                err.read_to_string(&mut text).map(|_| text)
            });
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text + &errors.join().unwrap().unwrap()
        });
        Self { name, child, output: Some(output) }
    }

    /// Waits for the end; kills what does not end.
    fn end(&mut self, limit: Duration) -> (Option<ExitStatus>, String) {
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if start.elapsed() > limit => break None,
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        self.kill();
        (status, self.output.take().unwrap().join().unwrap())
    }

    fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until this side listens on the port. To try a connection would be taken for the client.
    fn wait_for_listener(&mut self, port: u16) -> Result<(), String> {
        let start = Instant::now();
        while !self.listens(port) {
            if start.elapsed() > LIMIT || self.child.try_wait().unwrap().is_some() {
                let (status, output) = self.end(Duration::ZERO);
                return Err(format!("{} ({status:?}) does not listen on port {port}:\n{output}", self.name));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Whether a socket of this very process listens there.
    fn listens(&self, port: u16) -> bool {
        let Ok(fds) = fs::read_dir(format!("/proc/{}/fd", self.child.id())) else { return false };
        let links = fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
        let sockets: Vec<_> = links.map(|link| link.to_string_lossy().into_owned()).collect();
        let tables =
            ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
        tables.iter().flat_map(|table| table.lines()).any(|line| {
            // number, local address:port, remote address:port, state (0A is LISTEN), …, inode
            let words: Vec<_> = line.split_whitespace().collect();
            words.len() > 9
                && words[1].ends_with(&format!(":{port:04X}"))
                && words[3] == "0A"
                && sockets.contains(&format!("socket:[{}]", words[9]))
        })
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether the peer is there.
fn stock_is_there() -> bool {
    match Command::new("fi_pingpong").arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let require = std::env::var_os("KOFI_INTEROP").is_some_and(|value| value == "require");
            assert!(!require, "KOFI_INTEROP=require, but fi_pingpong is not there: install libfabric-bin");
            say("skipped: fi_pingpong not found (Debian package libfabric-bin)");
            false
        }
        Err(error) => panic!("fi_pingpong: {error}"),
    }
}

/// Starts a server on a port that is free. Somebody else may take the port before the server does;
/// then another one is tried.
fn start_server(command: &[&str], arguments: &[&str]) -> (Side, String) {
    let mut why = String::new();
    for _ in 0..3 {
        let port = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        let text = port.to_string();
        let mut server = Side::start("server", command, &[&["-B", &text], arguments].concat());
        match server.wait_for_listener(port) {
            Ok(()) => return (server, text),
            Err(error) => why = error,
        }
    }
    panic!("{why}");
}

/// Runs a pair with these arguments on both sides, and checks the tables that both print.
fn pair(server: &[&str], client: &[&str], arguments: &[&str], host: &str, sizes: &[&str], iterations: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut server, port) = start_server(server, arguments);
    let mut client = Side::start("client", client, &[&["-P", &port], arguments, &[host]].concat());
    let client = client.end(LIMIT);
    // A server whose client has failed may wait for it for ever.
    let done = client.0.is_some_and(|status| status.success());
    let server = server.end(if done { LIMIT } else { Duration::from_secs(1) });
    let all =
        format!("{arguments:?}\nclient: {:?}\n{}\nserver: {:?}\n{}", client.0, client.1, server.0, server.1);
    for (status, output) in [client, server] {
        assert!(status.is_some_and(|status| status.success()), "{all}");
        let rows: Vec<Vec<_>> =
            output.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let found: Vec<_> = rows.iter().map(|row| row[0]).collect();
        assert_eq!(found, sizes, "{all}");
        for row in rows {
            assert_eq!((row[1], row[2]), (iterations, &*format!("={iterations}")), "{all}");
        }
    }
}

/// Both roles, with the same arguments.
fn both_roles(arguments: &[&str], sizes: &[&str], iterations: &str) {
    if !stock_is_there() {
        return;
    }
    let kofi_server = [KOFI, &["--server", "--wait", "30"]].concat();
    pair(&kofi_server, STOCK, arguments, "127.0.0.1", sizes, iterations);
    pair(STOCK, KOFI, arguments, "127.0.0.1", sizes, iterations);
}

const DEFAULT_SIZES: [&str; 6] = ["64", "256", "1k", "4k", "64k", "1m"];

#[test]
fn default_sizes() {
    both_roles(&[], &DEFAULT_SIZES, "10");
}

#[test]
fn default_sizes_checked() {
    both_roles(&["-c"], &DEFAULT_SIZES, "10");
}

#[test]
fn many_iterations_checked() {
    both_roles(&["-c", "-I", "100"], &DEFAULT_SIZES, "100");
}

#[test]
fn all_sizes_checked() {
    let sizes = [
        "0", "1", "2", "3", "4", "6", "8", "12", "16", "24", "32", "48", "64", "96", "128", "192", "256",
        "384", "512", "768", "1k", "1.5k", "2k", "3k", "4k", "6k", "8k", "12k", "16k", "24k", "32k", "48k",
        "64k", "96k", "128k", "192k", "256k", "384k", "512k", "768k", "1m", "1.5m", "2m", "3m", "4m", "6m",
    ];
    both_roles(&["-c", "-S", "all", "-I", "3"], &sizes, "3");
}

/// Around what is injected: fi_pingpong injects less than 128 bytes.
#[test]
fn small_sizes_checked() {
    for size in ["0", "1", "7", "127", "128", "129"] {
        both_roles(&["-c", "-S", size], &[size], "10");
    }
}

#[test]
fn one_odd_size_checked() {
    both_roles(&["-c", "-S", "1234567", "-I", "20"], &["1.1m"], "20");
}

#[test]
fn control_channel_over_ipv6() {
    if !stock_is_there() || TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let kofi_server = [KOFI, &["--server", "--wait", "30"]].concat();
    pair(&kofi_server, STOCK, &["-6", "-c"], "::1", &DEFAULT_SIZES, "10");
    pair(STOCK, KOFI, &["-6", "-c"], "::1", &DEFAULT_SIZES, "10");
}

/// Says it even when the test passes, whose output is not shown.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

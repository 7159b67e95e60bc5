// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The live objects of another process, asked for by this one.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use common::{PATIENCE, pair, say};
use kofi::{Errno, live};

const ROLE: &str = "KOFI_TEST_ROLE";
/// Their answer is more than a socket takes.
const MANY: usize = 2000;

/// A process with objects, which does what it is told.
struct Shown {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Shown {
    fn start(live: Option<&str>, role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_process_with_objects", "--nocapture"]).env(ROLE, role);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        match live {
            Some(value) => command.env("KOFI_LIVE", value),
            None => command.env_remove("KOFI_LIVE"),
        };
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut shown = Self { child, stdin, stdout };
        shown.wait_for("ready");
        shown
    }

    fn wait_for(&mut self, word: &str) {
        for line in (&mut self.stdout).lines() {
            if line.unwrap().ends_with(word) {
                return;
            }
        }
        panic!("the process has ended before it said {word}");
    }

    /// Its connection carries messages.
    fn works(&mut self) {
        self.stdin.write_all(b"work\n").unwrap();
        self.wait_for("worked");
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test of its own: what the others start.
#[test]
fn a_process_with_objects() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if let Some(pid) = role.strip_prefix("ask ") {
        let error = live::query(pid.parse().unwrap()).unwrap_err();
        println!("{}\nready", error.errno());
        return;
    }
    let pair = pair();
    let (server, client) = pair.connect();
    let side = &pair.client;
    let idle = || side.domain.endpoint(&side.info, &side.eq, &side.cq).unwrap();
    let _idle: Vec<_> = (0..role.parse().unwrap()).map(|_| idle()).collect();
    println!("ready");
    for line in std::io::stdin().lines() {
        assert_eq!(line.unwrap(), "work");
        for _ in 0..100 {
            server.recv(vec![0; 10], 1).unwrap();
            client.send(vec![7; 10], 2).unwrap();
            assert!(pair.server.cq.wait(PATIENCE).unwrap().error.is_none());
            assert!(pair.client.cq.wait(PATIENCE).unwrap().error.is_none());
        }
        println!("worked");
    }
}

#[test]
fn a_process_that_is_asked_to_shows_its_objects() {
    let mut shown = Shown::start(Some("1"), "0");
    shown.works();
    let text = live::query(shown.child.id()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let of = |kind: &str| {
        lines.iter().filter(|line| line.starts_with(&format!("{{\"object\":\"{kind}\""))).count()
    };
    assert_eq!(
        ["process", "fabric", "event_queue", "listener", "domain", "completion_queue", "endpoint"].map(of),
        [1, 2, 2, 1, 2, 2, 2],
        "{text}"
    );
    assert!(lines[0].contains(&format!("\"pid\":{}", shown.child.id())), "{text}");
    let sent = "\"sent\":{\"operations\":100,\"bytes\":1000}";
    let sender = lines.iter().find(|line| line.contains("\"endpoint\"") && line.contains(sent)).unwrap();
    for part in
        ["\"state\":\"connected\"", "\"local\":\"127.0.0.1:", "\"peer\":\"127.0.0.1:", "\"connected_ms\":"]
    {
        assert!(sender.contains(part), "{part} is not in {sender}");
    }
    // Nothing is changed by that.
    shown.works();
}

#[test]
fn who_shows_nothing_is_told_apart() {
    for value in [None, Some("0"), Some("nonsense")] {
        let shown = Shown::start(value, "0");
        let pid = shown.child.id();
        let error = live::query(pid).unwrap_err();
        assert_eq!(error.errno(), Errno::ECONNREFUSED);
        let text = error.to_string();
        assert!(text.contains("KOFI_LIVE=1") && text.contains(&pid.to_string()), "{text}");
    }
    // No system has so many.
    let error = live::query(u32::MAX).unwrap_err();
    assert_eq!(error.errno(), Errno::ENOENT);
}

/// Who asks and does not read holds up nobody for long, and the process not at all.
#[test]
fn who_does_not_read_holds_up_nobody() {
    let mut shown = Shown::start(Some("1"), &MANY.to_string());
    let name = format!("kofi-live-{}", shown.child.id());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let silent: Vec<_> = (0..2).map(|_| UnixStream::connect_addr(&address).unwrap()).collect();
    shown.works();
    let start = Instant::now();
    let text = live::query(shown.child.id()).unwrap();
    say(&format!("answered after {:?}", start.elapsed()));
    let endpoints = text.lines().filter(|line| line.starts_with("{\"object\":\"endpoint\"")).count();
    assert_eq!(endpoints, MANY + 2);
    drop(silent);
    shown.works();
}

#[test]
fn other_users_are_told_nothing() {
    let shown = Shown::start(Some("1"), "0");
    if !rustix::process::geteuid().is_root() {
        return say("other_users_are_told_nothing: only root can ask as somebody else: NOT TESTED");
    }
    let mut ask = Command::new(std::env::current_exe().unwrap());
    ask.args(["--exact", "a_process_with_objects", "--nocapture"]);
    ask.env(ROLE, format!("ask {}", shown.child.id())).uid(65534).gid(65534);
    match ask.output() {
        // The directory of the tests may be root's alone.
        Err(error) => say(&format!("other_users_are_told_nothing: {error}: NOT TESTED")),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("FI_EACCES"), "{text}");
        }
    }
}

/// A process may have it started by a call, and close what it opened as always.
#[test]
fn objects_that_are_shown_close_as_ever() {
    if !common::alone("objects_that_are_shown_close_as_ever") {
        return;
    }
    live::serve().unwrap();
    live::serve().unwrap();
    let pid = std::process::id();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut asked = 0;
            while !done.load(Ordering::Relaxed) {
                assert!(live::query(pid).unwrap().ends_with("{\"object\":\"end\"}\n"));
                asked += 1;
            }
            asked
        });
        for _ in 0..300 {
            let common::Pair { server, listener, client } = pair();
            drop(listener);
            for common::Side { fabric, eq, domain, cq, .. } in [server, client] {
                drop(cq);
                domain.close().unwrap();
                eq.close().unwrap();
                // Nobody is in the way, also not who looks at them just now.
                fabric.close().unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(asking.join().unwrap() > 0);
    });
}

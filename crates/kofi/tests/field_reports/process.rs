// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! B6: the process that a program shares with us.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kofi::{Hints, Progress, WaitObj};
use nix::sys::signal::{Signal, raise};

use crate::common::{loopback, pair, side};
use crate::fork::{End as Exit, forked};
use crate::kit::{End, events_for, transfer};

#[test]
fn bug_18_fork() {
    own_process!();
    const MESSAGES: u64 = 1000;
    let pair = pair();
    let (server, client) = pair.connect();
    let (s, c) = (End(&server, &pair.server.cq), End(&client, &pair.client.cq));
    transfer(c, s, 100, 0);
    let nothing: fn() -> i32 = || 0;
    let asks: fn() -> i32 = || {
        let hints = Hints::new().provider("tcp").dest(([127, 0, 0, 1], 4711));
        match kofi::getinfo(hints) {
            Ok(infos) => i32::from(infos.is_empty()),
            // An error that says something is fine, too.
            Err(error) => i32::from(error.errno().raw() <= 0),
        }
    };
    for (end, child) in [(Exit::AtOnce, nothing), (Exit::InOrder, nothing), (Exit::InOrder, asks)] {
        // While the child lives, and after it.
        let traffic = |count| {
            for i in 0..count {
                transfer(c, s, 500, i);
                transfer(s, c, 500, i);
            }
        };
        assert_eq!(forked(end, child, || traffic(20)), 0, "{end:?}");
        traffic(MESSAGES / 3 + 1);
    }
    let both = [&pair.server.eq, &pair.client.eq];
    for eq in both {
        assert!(events_for(eq, &both, Duration::from_millis(50)).is_empty());
    }
    let (server, client) = pair.connect();
    transfer(End(&client, &pair.client.cq), End(&server, &pair.server.cq), 1000, 1);
}

/// Which signals are ignored, and which have a handler, of the whole process.
fn dispositions() -> [String; 2] {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    ["SigIgn:", "SigCgt:"]
        .map(|name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned())
}

/// Signals that a thread blocks, by the names of the threads that are ours.
fn blocked() -> Vec<u64> {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| {
            let text = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let field = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            (field("Name:")? == "kofi-progress").then(|| u64::from_str_radix(field("SigBlk:")?, 16).ok())?
        })
        .collect()
}

#[test]
fn bug_36_signals() {
    own_process!();
    let before = dispositions();
    let open = |progress| {
        let hints = Hints::new().provider("tcp").source(loopback()).progress(progress);
        let info = kofi::getinfo(hints).unwrap().remove(0);
        let side = side(info, WaitObj::Unspec);
        let listener = side.fabric.passive_endpoint(&side.info).unwrap().bind(&side.eq).unwrap();
        (listener.listen().unwrap(), side)
    };
    kofi::getinfo(Hints::new()).unwrap();
    assert_eq!(dispositions(), before, "of fi_getinfo");
    {
        let pair = pair();
        let (server, client) = pair.connect();
        transfer(End(&client, &pair.client.cq), End(&server, &pair.server.cq), 100, 1);
        assert_eq!(dispositions(), before, "with a connection");
        assert!(blocked().is_empty(), "threads that nobody asked for");
    }
    assert_eq!(dispositions(), before, "after a connection");
    // The application's handlers stay, and run.
    let hits = Arc::new(AtomicUsize::new(0));
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        signal_hook::flag::register_usize(signal as i32, hits.clone(), signal as usize).unwrap();
    }
    let with_handlers = dispositions();
    assert_ne!(with_handlers, before);
    let opened = open(Progress::Auto);
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        hits.store(0, Ordering::SeqCst);
        raise(signal).unwrap();
        assert_eq!(hits.load(Ordering::SeqCst), signal as usize);
    }
    assert_eq!(dispositions(), with_handlers);
    // A new thread takes its name a moment after it was started.
    let start = std::time::Instant::now();
    while blocked().len() < 2 {
        assert!(start.elapsed() < crate::common::PATIENCE, "one for the domain, one for the listener");
    }
    let application = [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGCHLD,
        Signal::SIGALRM,
    ];
    for mask in blocked() {
        for signal in application {
            assert_ne!(mask & (1 << (signal as u32 - 1)), 0, "a thread of ours takes {signal}");
        }
    }
    drop(opened);
    assert_eq!(dispositions(), with_handlers, "after all is closed");
}

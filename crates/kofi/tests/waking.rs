// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Waking readers up: signals, several readers of one queue, one descriptor for several queues, and
//! the wait objects that spin (`fi_cq(3)`, `fi_poll(3)`).

#![allow(clippy::unwrap_used)]

mod common;

use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{PATIENCE, next, pair, pair_with};
use kofi::{CqAttr, EqAttr, Errno, Event, Result, WaitObj};

fn poll(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout)).unwrap() > 0
}

fn empty<T: std::fmt::Debug>(result: Result<T>) {
    assert_eq!(result.unwrap_err().errno(), Errno::EAGAIN);
}

const KINDS: [WaitObj; 5] =
    [WaitObj::Unspec, WaitObj::Fd, WaitObj::PollFd, WaitObj::MutexCond, WaitObj::Yield];

#[test]
fn a_signal_that_comes_first_is_not_lost() {
    for kind in KINDS {
        let pair = pair_with(kind);
        pair.server.cq.signal().unwrap();
        pair.server.eq.signal().unwrap();
        // Either would wait for ever.
        empty(pair.server.cq.sread(None));
        empty(pair.server.eq.sread(None));
        // One signal, one read.
        let start = Instant::now();
        empty(pair.server.cq.sread(Duration::from_millis(10)));
        empty(pair.server.eq.sread(Duration::from_millis(10)));
        assert!(start.elapsed() >= Duration::from_millis(20), "{kind:?}");
    }
    let pair = pair_with(WaitObj::None);
    assert_eq!(pair.server.cq.signal().unwrap_err().errno(), Errno::ENOSYS);
    assert_eq!(pair.server.eq.signal().unwrap_err().errno(), Errno::ENOSYS);
}

#[test]
fn a_signal_ends_all_reads_that_wait() {
    const READERS: usize = 3;
    for kind in KINDS {
        let pair = pair_with(kind);
        let started = AtomicUsize::new(0);
        let side = &pair.server;
        let started = &started;
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .flat_map(|_| {
                    let cq = scope.spawn(move || {
                        started.fetch_add(1, Ordering::SeqCst);
                        empty(side.cq.sread(None));
                    });
                    let eq = scope.spawn(move || {
                        started.fetch_add(1, Ordering::SeqCst);
                        empty(side.eq.sread(None));
                    });
                    [cq, eq]
                })
                .collect();
            // A signal for those that wait is none for those that are about to.
            while readers.iter().any(|reader| !reader.is_finished()) {
                if started.load(Ordering::SeqCst) == 2 * READERS {
                    side.cq.signal().unwrap();
                    side.eq.signal().unwrap();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
}

/// Every reader is woken while there is something to read, and a third party makes it so.
#[test]
fn readers_share_a_queue() {
    const MESSAGES: usize = 3000;
    const BATCH: usize = 30;
    for kind in KINDS {
        let pair = pair_with(kind);
        let (server, client) = pair.connect();
        let (read, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let cq = &pair.server.cq;
            let (read, done) = (&read, &done);
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(move || {
                        while !done.load(Ordering::SeqCst) {
                            match cq.sread(None) {
                                Ok(message) => {
                                    assert_eq!(message.into_received().unwrap(), [7; 8]);
                                    read.fetch_add(1, Ordering::SeqCst);
                                }
                                other => empty(other),
                            }
                        }
                    })
                })
                .collect();
            // Readers of the event queue take the socket's events, too.
            let driver = scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    pair.server.eq.progress();
                    std::thread::yield_now();
                }
            });
            let start = Instant::now();
            for sent in (0..MESSAGES).step_by(BATCH) {
                for _ in 0..BATCH {
                    server.recv(vec![0; 8], 0).unwrap();
                }
                for _ in 0..BATCH {
                    client.inject(&[7; 8]).unwrap();
                }
                while read.load(Ordering::SeqCst) < sent + BATCH {
                    pair.client.cq.ops().progress();
                    assert!(start.elapsed() < 3 * PATIENCE, "{kind:?}: a reader sleeps on");
                }
            }
            done.store(true, Ordering::SeqCst);
            while readers.iter().any(|reader| !reader.is_finished()) {
                cq.signal().unwrap();
                std::thread::yield_now();
            }
            driver.join().unwrap();
        });
    }
}

/// The same for readers that look for long before they sleep, or never do.
#[test]
fn readers_that_spin_share_a_queue() {
    for micros in ["0", "2000"] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["readers_share_a_queue", "--exact"])
            .env("KOFI_SPIN_US", micros)
            .status();
        assert!(child.unwrap().success(), "KOFI_SPIN_US={micros}");
    }
}

#[test]
fn descriptors_are_for_those_who_ask_or_leave_the_choice() {
    for kind in KINDS {
        let pair = pair_with(kind);
        let has = matches!(kind, WaitObj::Fd | WaitObj::PollFd | WaitObj::Unspec);
        assert_eq!(pair.server.eq.fd().is_ok(), has, "{kind:?}");
        assert_eq!(pair.server.cq.fd().is_ok(), has, "{kind:?}");
        let _connected = pair.connect();
    }
}

/// One descriptor for an event queue and two completion queues of two domains.
#[test]
fn a_set_has_one_descriptor_for_all() {
    const ROUNDS: usize = 500;
    let pair = pair();
    let set = pair.client.fabric.wait_set().unwrap();
    let eq = pair.client.fabric.event_queue_in(&set, EqAttr::default()).unwrap();
    let one = pair.client.domain.completion_queue_in(&set, CqAttr::default()).unwrap();
    let domain = pair.client.fabric.domain(&pair.client.info).unwrap();
    let two = domain.completion_queue_in(&set, CqAttr::default()).unwrap();
    assert_eq!(eq.fd().unwrap_err().errno(), Errno::ENOSYS);
    let wait = || {
        while set.try_wait().is_ok() {
            assert!(poll(set.fd(), PATIENCE), "nobody woke us");
        }
    };
    let connect = |domain: &kofi::Domain, cq| {
        let client = domain.endpoint(&pair.client.info, &eq, cq).unwrap().connect(b"").unwrap();
        let Event::ConnectionRequest(request) = next(&pair.server.eq, &[]) else { panic!() };
        let server = pair.server.domain.endpoint_for(&request, &pair.server.eq, &pair.server.cq).unwrap();
        let server = server.accept(b"").unwrap();
        let Event::Connected { .. } = next(&pair.server.eq, &[]) else { panic!() };
        wait();
        let Event::Connected { endpoint, .. } = eq.read().unwrap() else { panic!() };
        assert_eq!(endpoint, client.fid());
        (client, server)
    };
    let (client_one, server_one) = connect(&pair.client.domain, &one);
    let (client_two, server_two) = connect(&domain, &two);
    set.try_wait().unwrap();
    assert!(!poll(set.fd(), Duration::from_millis(20)), "nothing has happened");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                for server in [&server_one, &server_two] {
                    server.recv(vec![0; 8], 1).unwrap();
                    assert_eq!(pair.server.cq.wait(PATIENCE).unwrap().into_received().unwrap(), b"question");
                    server.inject(b"answer").unwrap();
                }
            }
        });
        for _ in 0..ROUNDS {
            for (client, cq, other) in [(&client_one, &one, &two), (&client_two, &two, &one)] {
                client.recv(vec![0; 8], 1).unwrap();
                client.inject(b"question").unwrap();
                wait();
                assert_eq!(cq.read().unwrap().into_received().unwrap(), b"answer");
                empty(other.read());
            }
        }
    });
    // A signal is something to do, too, and the end of a peer is an event.
    set.try_wait().unwrap();
    two.signal().unwrap();
    assert!(poll(set.fd(), PATIENCE));
    empty(set.try_wait());
    set.try_wait().unwrap();
    drop(server_two);
    assert!(poll(set.fd(), PATIENCE));
    wait();
    let Event::Shutdown { endpoint, .. } = eq.read().unwrap() else { panic!() };
    assert_eq!(endpoint, client_two.fid());
    // What is closed is no longer waited for.
    drop((client_two, two, domain));
    let mut rounds = 0;
    while set.try_wait().is_err() {
        rounds += 1;
        assert!(rounds < 100);
    }
    assert!(!poll(set.fd(), Duration::from_millis(20)));
}

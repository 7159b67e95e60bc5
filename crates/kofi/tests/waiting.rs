// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Blocking reads and wait objects (decisions D3, D16, D17; `fi_eq(3)`, `fi_cq(3)`, `fi_poll(3)`).

#![allow(clippy::unwrap_used)]

mod common;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{PATIENCE, loopback, pair, pair_with, server_at};
use kofi::{CqAttr, EqAttr, Errno, Error, Event, Fid, OpFlags, PeekedEvent, Result, WaitObj};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use nix::sys::time::TimeValLike;

fn poll(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout =
        timeout.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], timeout.as_ref()).unwrap() > 0
}

fn empty<T: std::fmt::Debug>(result: Result<T>) {
    assert_eq!(result.unwrap_err().errno(), Errno::EAGAIN);
}

#[test]
fn a_read_waits_the_whole_time() {
    let pair = pair();
    // Noise on the same wait objects: strangers that come and go, half a message.
    let addr = pair.listener.name().unwrap().socket_addr().unwrap();
    let stop = AtomicUsize::new(0);
    let _connected = pair.connect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while stop.load(Ordering::Relaxed) == 0 {
                let _ = std::net::TcpStream::connect(addr);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        for timeout in [0, 1, 20, 300].map(Duration::from_millis) {
            for _ in 0..3 {
                let start = Instant::now();
                empty(pair.server.eq.sread(timeout));
                assert!(start.elapsed() >= timeout);
                let start = Instant::now();
                empty(pair.server.cq.sread(timeout));
                assert!(start.elapsed() >= timeout);
            }
        }
        stop.store(1, Ordering::Relaxed);
    });
}

#[test]
fn microseconds_are_not_rounded_to_milliseconds() {
    let pair = pair();
    let time = kofi::sread_timeout(300, OpFlags::TIME_US).unwrap();
    assert_eq!(time, Some(Duration::from_micros(300)));
    // Noise makes single waits long; the shortest of many shows what a wait is meant to take.
    let shortest = (0..200)
        .map(|_| {
            let start = Instant::now();
            empty(pair.server.eq.sread(time));
            start.elapsed()
        })
        .min()
        .unwrap();
    assert!(shortest >= Duration::from_micros(300), "{shortest:?}");
    assert!(shortest < Duration::from_micros(1000), "{shortest:?}");
    assert_eq!(kofi::sread_timeout(5, OpFlags::TIME_MS).unwrap(), Some(Duration::from_millis(5)));
    assert_eq!(kofi::sread_timeout(-1, OpFlags::TIME_US).unwrap(), None);
    let both = kofi::sread_timeout(1, OpFlags::TIME_US | OpFlags::TIME_MS);
    assert_eq!(both.unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(kofi::sread_timeout(1, OpFlags::MORE).unwrap_err().errno(), Errno::EBADFLAGS);
}

#[test]
fn without_a_wait_object_there_is_no_wait() {
    let pair = pair_with(WaitObj::None);
    assert_eq!(pair.server.eq.sread(Duration::ZERO).unwrap_err().errno(), Errno::ENOSYS);
    assert_eq!(pair.server.cq.sread(Duration::ZERO).unwrap_err().errno(), Errno::ENOSYS);
    assert_eq!(pair.server.eq.fd().unwrap_err().errno(), Errno::ENOSYS);
    let _connected = pair.connect();
}

#[test]
fn a_signal_ends_a_wait_and_loses_nothing() {
    let seen = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(Signal::SIGUSR1 as i32, seen).unwrap();
    let pair = pair_with(WaitObj::Unspec);
    std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel();
        let server = &pair.server;
        let waiting = scope.spawn(move || {
            send.send(nix::sys::pthread::pthread_self()).unwrap();
            server.eq.sread(None)
        });
        let thread = receive.recv().unwrap();
        while !waiting.is_finished() {
            nix::sys::pthread::pthread_kill(thread, Signal::SIGUSR1).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        empty(waiting.join().unwrap());
    });
    let _connected = pair.connect();
}

#[test]
fn a_written_event_wakes_a_reader() {
    let (server, _listener) = server_at(loopback(), WaitObj::Unspec);
    let attr = EqAttr { flags: OpFlags::WRITE, ..EqAttr::default() };
    let eq = server.fabric.event_queue(attr).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| eq.sread(PATIENCE));
        std::thread::sleep(Duration::from_millis(20));
        eq.write(Fid(7), 3, b"entry", OpFlags::empty()).unwrap();
        let Event::Application { fid, event, entry } = reader.join().unwrap().unwrap() else { panic!() };
        assert_eq!((fid, event, entry.as_slice()), (Fid(7), 3, b"entry".as_slice()));
    });
    assert_eq!(server.eq.write(Fid(7), 3, b"", OpFlags::empty()).unwrap_err().errno(), Errno::EINVAL);
}

/// One thread on each of two queues of one domain: whoever takes the socket's event, both are woken.
#[test]
fn no_wake_up_is_lost_between_threads() {
    const ROUNDS: u64 = 2000;
    let pair = pair();
    let second = pair.server.domain.completion_queue(CqAttr::default()).unwrap();
    let (one, client_one) = pair.connect();
    let queues = kofi::Queues::new(&second, &second);
    let client = pair.client.domain.endpoint(&pair.client.info, &pair.client.eq, &pair.client.cq).unwrap();
    let client_two = client.connect(b"").unwrap();
    let Event::ConnectionRequest(request) = pair.server.eq.wait(PATIENCE).unwrap() else { panic!() };
    let two =
        pair.server.domain.endpoint_for(&request, &pair.server.eq, queues).unwrap().accept(b"").unwrap();
    let Event::Connected { .. } = pair.client.eq.wait(PATIENCE).unwrap() else { panic!() };
    std::thread::scope(|scope| {
        for (endpoint, cq) in [(&one, &pair.server.cq), (&two, &second)] {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    endpoint.recv(vec![0; 8], round).unwrap();
                    let done = cq.wait(PATIENCE).unwrap();
                    assert_eq!(done.context, round);
                    assert_eq!(done.into_received().unwrap(), round.to_le_bytes());
                    endpoint.inject(&round.to_le_bytes()).unwrap();
                }
            });
        }
        for round in 0..ROUNDS {
            for client in [&client_one, &client_two] {
                client.recv(vec![0; 8], 1).unwrap();
                client.inject(&round.to_le_bytes()).unwrap();
            }
            for _ in 0..2 {
                assert_eq!(
                    pair.client.cq.wait(PATIENCE).unwrap().into_received().unwrap(),
                    round.to_le_bytes()
                );
            }
        }
    });
}

/// The rule of `fi_trywait`: a descriptor is slept on only when it says so, and then wakes.
#[test]
fn descriptors_wake_for_everything() {
    const ROUNDS: u64 = 5000;
    let pair = pair_with(WaitObj::Fd);
    let (server, client) = pair.connect();
    let wait = |cq: &kofi::CompletionQueue| loop {
        match cq.try_wait() {
            Ok(()) => assert!(poll(cq.fd().unwrap(), Some(PATIENCE)), "nobody woke us"),
            Err(error) => assert_eq!(error.errno(), Errno::EAGAIN),
        }
        match cq.poll() {
            Ok(done) => return done,
            Err(error) => assert_eq!(error.errno(), Errno::EAGAIN),
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                server.recv(vec![0; 8], round).unwrap();
                assert_eq!(wait(&pair.server.cq).into_received().unwrap(), round.to_le_bytes());
                server.inject(&round.to_le_bytes()).unwrap();
            }
        });
        for round in 0..ROUNDS {
            client.recv(vec![0; 8], round).unwrap();
            client.inject(&round.to_le_bytes()).unwrap();
            assert_eq!(wait(&pair.client.cq).into_received().unwrap(), round.to_le_bytes());
        }
    });
    // Idle, the descriptor sleeps: no spinning.
    pair.client.cq.try_wait().unwrap();
    assert!(!poll(pair.client.cq.fd().unwrap(), Some(Duration::from_millis(50))));
    // The end of the peer wakes the event queue's descriptor.
    pair.client.eq.try_wait().unwrap();
    drop(server);
    assert!(poll(pair.client.eq.fd().unwrap(), Some(PATIENCE)));
    let Event::Shutdown { endpoint, .. } = pair.client.eq.read().unwrap() else { panic!() };
    assert_eq!(endpoint, client.fid());
}

/// A limit in time ends a wait on a descriptor, too.
#[test]
fn descriptors_wake_for_limits() {
    let (server, listener) = server_at(loopback(), WaitObj::Fd);
    drop(listener);
    // Somebody who accepts, and never answers.
    let silent = std::net::TcpListener::bind(loopback()).unwrap();
    let connector = server.domain.endpoint(&server.info, &server.eq, &server.cq).unwrap();
    let limit = Duration::from_millis(50);
    connector.set_limits(kofi::TimeLimits { connect: Some(limit), ..Default::default() }).unwrap();
    let start = Instant::now();
    let endpoint = connector.connect_to(silent.local_addr().unwrap(), b"").unwrap();
    let failed = loop {
        match server.eq.try_wait() {
            Ok(()) => assert!(poll(server.eq.fd().unwrap(), Some(PATIENCE))),
            Err(error) => assert_eq!(error.errno(), Errno::EAGAIN),
        }
        match server.eq.read() {
            Err(Error::ErrorAvailable) => break server.eq.read_error().unwrap(),
            other => empty(other),
        }
    };
    assert!(start.elapsed() >= limit);
    let Event::Failed { endpoint: fid, reason, .. } = failed else { panic!("{failed:?}") };
    assert_eq!((fid, reason.errno()), (endpoint.fid(), Errno::ETIMEDOUT));
}

#[test]
fn a_wait_set_waits_for_any_of_its_queues() {
    let pair = pair();
    let set = pair.client.fabric.wait_set().unwrap();
    let eq = pair.client.fabric.event_queue_in(&set, EqAttr::default()).unwrap();
    let cq = pair.client.domain.completion_queue_in(&set, CqAttr::default()).unwrap();
    empty(set.wait(Duration::from_millis(5)));
    let client = pair.client.domain.endpoint(&pair.client.info, &eq, &cq).unwrap().connect(b"").unwrap();
    let Event::ConnectionRequest(request) = pair.server.eq.wait(PATIENCE).unwrap() else { panic!() };
    let server = pair.server.domain.endpoint_for(&request, &pair.server.eq, &pair.server.cq).unwrap();
    let server = server.accept(b"").unwrap();
    set.wait(PATIENCE).unwrap();
    let Event::Connected { .. } = eq.read().unwrap() else { panic!() };
    empty(set.wait(Duration::ZERO));
    client.recv(vec![0; 8], 5).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| set.wait(PATIENCE));
        std::thread::sleep(Duration::from_millis(10));
        server.inject(b"hello").unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(cq.read().unwrap().into_received().unwrap(), b"hello");
    // Blocking reads work on queues of a set, too (slide 5 of the deck).
    empty(eq.sread(Duration::from_millis(5)));
    let set = set.close().unwrap_err();
    assert_eq!(set.error.errno(), Errno::EBUSY);
    drop((client, eq, cq));
    set.object.close().unwrap();
}

/// A queue that is opened into a set in which somebody waits.
#[test]
fn a_wait_set_learns_of_new_queues() {
    let (server, _listener) = server_at(loopback(), WaitObj::Unspec);
    let set = server.fabric.wait_set().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let start = Instant::now();
            (set.wait(Duration::from_secs(3)), start.elapsed())
        });
        std::thread::sleep(Duration::from_millis(50));
        let attr = EqAttr { flags: OpFlags::WRITE, ..EqAttr::default() };
        let eq = server.fabric.event_queue_in(&set, attr).unwrap();
        eq.write(Fid(7), 3, b"entry", OpFlags::empty()).unwrap();
        let (result, time) = waiting.join().unwrap();
        result.unwrap();
        assert!(time < Duration::from_secs(2), "asleep for {time:?}");
    });
}

/// Waiting takes no processor time, with a connection, after its peer has shut it down, and with
/// silent strangers at the listener.
#[test]
fn idle_costs_nothing() {
    let pair = pair();
    let (server, client) = pair.connect();
    server.recv(vec![0; 8], 0).unwrap();
    let addr = pair.listener.name().unwrap().socket_addr().unwrap();
    let strangers: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(addr).unwrap()).collect();
    let used = || {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
        Duration::from_micros((usage.user_time() + usage.system_time()).num_microseconds() as u64)
    };
    let check = |wait: &dyn Fn()| {
        let before = used();
        wait();
        let cpu = used() - before;
        assert!(cpu < Duration::from_millis(20), "{cpu:?} of processor time in a wait of 500 ms");
    };
    let time = Duration::from_millis(500);
    check(&|| empty(pair.server.cq.sread(time)));
    check(&|| empty(pair.server.eq.sread(time)));
    client.shutdown().unwrap();
    let Event::Shutdown { .. } = pair.server.eq.wait(PATIENCE).unwrap() else { panic!() };
    assert!(pair.server.cq.wait(PATIENCE).unwrap().error.is_some());
    check(&|| empty(pair.server.cq.sread(time)));
    check(&|| empty(pair.server.eq.sread(time)));
    drop(strangers);
}

/// Nobody takes an event that there is no room for, also when another reader has taken the one before it.
#[test]
fn an_event_without_room_stays() {
    let (server, _listener) = server_at(loopback(), WaitObj::Unspec);
    let attr = EqAttr { flags: OpFlags::WRITE, ..EqAttr::default() };
    let eq = server.fabric.event_queue(attr).unwrap();
    let room = |len: usize| {
        move |event: &PeekedEvent| match event {
            PeekedEvent::Application { entry, .. } if entry.len() > len => {
                Err(Error::TooSmall { call: "fi_eq_read", have: len, need: entry.len() })
            }
            _ => Ok(()),
        }
    };
    empty(eq.read_checked(room(9)));
    for len in [1, 5] {
        eq.write(Fid(7), 3, &vec![0; len], OpFlags::empty()).unwrap();
    }
    let entry = |event: Event| match event {
        Event::Application { entry, .. } => entry.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(entry(eq.read_checked(room(1)).unwrap()), 1);
    for _ in 0..2 {
        assert_eq!(eq.read_checked(room(1)).unwrap_err().errno(), Errno::ETOOSMALL);
        assert_eq!(eq.sread_checked(PATIENCE, room(1)).unwrap_err().errno(), Errno::ETOOSMALL);
    }
    assert_eq!(entry(eq.sread_checked(PATIENCE, room(5)).unwrap()), 5);
    empty(eq.sread_checked(Duration::ZERO, room(9)));
}

/// Programs for libfabric poll descriptors without `fi_trywait`.
#[test]
fn a_descriptor_tells_of_the_first_entry_without_try_wait() {
    let pair = pair();
    for asked_before in [true, false] {
        let attr = EqAttr { flags: OpFlags::WRITE, wait_obj: WaitObj::Fd, ..EqAttr::default() };
        let eq = pair.server.fabric.event_queue(attr).unwrap();
        if asked_before {
            assert!(!poll(eq.fd().unwrap(), Some(Duration::ZERO)));
        }
        eq.write(Fid(7), 1, b"event", OpFlags::empty()).unwrap();
        assert!(poll(eq.fd().unwrap(), Some(Duration::ZERO)));
        eq.read().unwrap();
        // Then the descriptor is as the manual has it.
        eq.try_wait().unwrap();
        assert!(!poll(eq.fd().unwrap(), Some(Duration::ZERO)));
        eq.write(Fid(7), 1, b"event", OpFlags::empty()).unwrap();
        assert!(poll(eq.fd().unwrap(), Some(Duration::ZERO)));
        eq.read().unwrap();
    }
}

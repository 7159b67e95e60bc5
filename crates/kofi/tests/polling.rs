// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! An endpoint that is polled, and receives each time, is not watched by the kernel meanwhile: who sleeps
//! afterwards, or in another thread, is woken all the same.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::{PATIENCE, Pair, pair, pair_with};
use kofi::{Completion, CqAttr, Endpoint, Error, Event, WaitObj};

/// Long for what takes 0.1 s, and less than limits in time, which wake everybody.
const PROMPTLY: Duration = Duration::from_secs(8);
/// More than the driver needs to see in a row.
const MESSAGES: usize = 100;

fn polled(pair: &Pair) -> Completion {
    let end = Instant::now() + PATIENCE;
    loop {
        match pair.server.cq.poll() {
            Err(Error::Empty) => assert!(Instant::now() < end, "no completion"),
            other => return other.unwrap(),
        }
    }
}

/// Messages that the server finds by polling.
fn warm_up(pair: &Pair, (server, client): (&Endpoint, &Endpoint)) {
    for number in 0..MESSAGES {
        server.recv(vec![0; 8], 0).unwrap();
        client.inject(&(number as u64).to_le_bytes()).unwrap();
        let message = polled(pair).into_received().unwrap();
        assert_eq!(message, (number as u64).to_le_bytes());
    }
}

/// Says something, then ends the connection, a little later.
fn later(pair: &Pair, client: &Endpoint) {
    std::thread::sleep(Duration::from_millis(50));
    client.inject(b"wake up!").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    client.shutdown().unwrap();
    assert!(matches!(pair.client.eq.wait(PATIENCE).unwrap(), Event::Shutdown { .. }));
}

#[test]
fn a_poller_that_goes_to_sleep_is_woken() {
    for kind in [WaitObj::Unspec, WaitObj::Fd] {
        let pair = pair_with(kind);
        let (server, client) = pair.connect();
        warm_up(&pair, (&server, &client));
        server.recv(vec![0; 8], 0).unwrap();
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| later(&pair, &client));
            assert_eq!(pair.server.cq.wait(PROMPTLY).unwrap().into_received().unwrap(), b"wake up!");
            assert!(matches!(pair.server.eq.wait(PROMPTLY).unwrap(), Event::Shutdown { .. }));
        });
        // Who wakes by itself, when its time is over, finds it, too.
        assert!(start.elapsed() < PROMPTLY, "{kind:?}");
    }
}

#[test]
fn who_sleeps_while_another_polls_is_woken() {
    let pair = pair();
    let (server, client) = pair.connect();
    std::thread::scope(|scope| {
        let start = Instant::now();
        let sleeper = scope.spawn(|| pair.server.eq.wait(PROMPTLY));
        warm_up(&pair, (&server, &client));
        server.recv(vec![0; 8], 0).unwrap();
        // Nobody polls from here on.
        later(&pair, &client);
        assert!(matches!(sleeper.join().unwrap().unwrap(), Event::Shutdown { .. }));
        assert!(start.elapsed() < PROMPTLY);
    });
}

#[test]
fn a_descriptor_that_is_asked_for_later_tells_of_all() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let pair = pair();
    let (server, client) = pair.connect();
    warm_up(&pair, (&server, &client));
    server.recv(vec![0; 8], 0).unwrap();
    let attr = CqAttr { wait_obj: WaitObj::Fd, ..CqAttr::default() };
    let queue = pair.server.domain.completion_queue(attr).unwrap();
    match queue.try_wait() {
        Ok(()) | Err(Error::Empty) => {}
        Err(error) => panic!("{error}"),
    }
    std::thread::scope(|scope| {
        scope.spawn(|| later(&pair, &client));
        let limit = Timespec { tv_sec: PROMPTLY.as_secs() as i64, tv_nsec: 0 };
        let fd = queue.fd().unwrap();
        assert_eq!(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&limit)).unwrap(), 1);
        assert_eq!(polled(&pair).into_received().unwrap(), b"wake up!");
    });
}

#[test]
fn the_end_of_a_polled_connection_is_seen() {
    let pair = pair();
    let (server, client) = pair.connect();
    warm_up(&pair, (&server, &client));
    server.recv(vec![0; 8], 0).unwrap();
    drop(client);
    assert!(polled(&pair).error.is_some());
    assert!(matches!(pair.server.eq.wait(PROMPTLY).unwrap(), Event::Shutdown { .. }));
}

#[test]
fn a_full_transport_is_seen_to_empty() {
    const LEN: usize = 8 << 20;
    let pair = pair();
    let (server, client) = pair.connect();
    warm_up(&pair, (&server, &client));
    // More than the sockets take: the rest leaves when the client reads.
    server.send(vec![7; LEN], 0).unwrap();
    client.recv(vec![0; LEN], 0).unwrap();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| pair.client.cq.wait(PATIENCE).unwrap().into_received().unwrap());
        assert!(!polled(&pair).is_receive());
        assert!(receiver.join().unwrap() == vec![7; LEN]);
    });
    warm_up(&pair, (&server, &client));
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Several threads at one queue or domain: whoever sleeps is woken for what others begin, leave or
//! take away.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::{PATIENCE, Side, loopback, pair, server_at, side};
use kofi::{EqAttr, Error, Event, Hints, Reason, TimeLimits, WaitObj};

/// Long enough for a thread to have fallen asleep.
const NAP: Duration = Duration::from_millis(50);
/// Much longer than a wake-up takes, much shorter than [`PATIENCE`].
const SOON: Duration = Duration::from_secs(3);

fn client_at(addr: std::net::SocketAddr, wait_obj: WaitObj) -> Side {
    side(kofi::getinfo(Hints::new().provider("tcp").dest(addr)).unwrap().remove(0), wait_obj)
}

/// Accepts one connection the way a tcp provider does, and then leaves it alone.
fn raw_peer(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = [0; 32];
    stream.read_exact(&mut request).unwrap();
    request[1] = 1;
    (request[2], request[3]) = (0, 0);
    stream.write_all(&request).unwrap();
    stream
}

/// An endpoint that is opened while somebody waits at its event queue already.
#[test]
fn a_waiting_reader_learns_of_new_endpoints() {
    let pair = pair();
    let eq = pair.client.fabric.event_queue(EqAttr::default()).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| eq.wait(SOON));
        std::thread::sleep(NAP);
        let client = pair.client.domain.endpoint(&pair.client.info, &eq, &pair.client.cq).unwrap();
        let client = client.connect(b"").unwrap();
        let Event::ConnectionRequest(request) = pair.server.eq.wait(PATIENCE).unwrap() else { panic!() };
        let server = pair.server.domain.endpoint_for(&request, &pair.server.eq, &pair.server.cq).unwrap();
        let _server = server.accept(b"").unwrap();
        let start = Instant::now();
        let Event::Connected { endpoint, .. } = reader.join().unwrap().unwrap() else { panic!() };
        assert_eq!(endpoint, client.fid());
        assert!(start.elapsed() < SOON / 2, "asleep for {:?}", start.elapsed());
    });
}

/// The same for a passive endpoint.
#[test]
fn a_waiting_reader_learns_of_new_listeners() {
    let (server, listener) = server_at(loopback(), WaitObj::Unspec);
    drop(listener);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| server.eq.wait(SOON));
        std::thread::sleep(NAP);
        let listener = server.fabric.passive_endpoint(&server.info).unwrap().bind(&server.eq).unwrap();
        let listener = listener.listen().unwrap();
        let client = client_at(listener.name().unwrap().socket_addr().unwrap(), WaitObj::Unspec);
        let _client =
            client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap().connect(b"").unwrap();
        let start = Instant::now();
        let Event::ConnectionRequest(_) = reader.join().unwrap().unwrap() else { panic!() };
        assert!(start.elapsed() < SOON / 2, "asleep for {:?}", start.elapsed());
    });
}

fn ends_in_time(wait_obj: WaitObj) {
    let silent = TcpListener::bind(loopback()).unwrap();
    let client = client_at(silent.local_addr().unwrap(), wait_obj);
    let endpoint = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
    let limit = Duration::from_millis(100);
    endpoint.set_limits(TimeLimits { shutdown: Some(limit), ..TimeLimits::default() }).unwrap();
    let endpoint = endpoint.connect(b"").unwrap();
    let _stream = raw_peer(&silent);
    let Event::Connected { .. } = client.eq.wait(PATIENCE).unwrap() else { panic!() };
    // More than the system takes: it cannot be sent.
    endpoint.send(vec![0; 64 << 20], 1).unwrap();
    let (ready, go) = mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            if wait_obj != WaitObj::Fd {
                ready.send(()).unwrap();
                return client.eq.wait(SOON);
            }
            while client.eq.try_wait().is_err() {}
            ready.send(()).unwrap();
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let mut fds = [PollFd::from_borrowed_fd(client.eq.fd().unwrap(), PollFlags::IN)];
            let start = Instant::now();
            while start.elapsed() < SOON {
                let timeout = Timespec { tv_sec: SOON.as_secs() as i64, tv_nsec: 0 };
                poll(&mut fds, Some(&timeout)).unwrap();
                if let Ok(event) = client.eq.read() {
                    return Ok(event);
                }
                let _ = client.eq.try_wait();
            }
            Err(Error::Empty)
        });
        go.recv().unwrap();
        std::thread::sleep(NAP);
        let start = Instant::now();
        endpoint.shutdown().unwrap();
        let Event::Shutdown { reason, .. } = reader.join().unwrap().unwrap() else { panic!() };
        assert_eq!(reason, Reason::ShutdownTimeout(limit));
        assert!(start.elapsed() >= limit && start.elapsed() < SOON / 2, "{:?}", start.elapsed());
    });
}

/// A limit in time that starts while somebody waits.
#[test]
fn a_waiting_reader_learns_of_new_limits() {
    ends_in_time(WaitObj::Unspec);
}

/// The same for somebody who polls the descriptor.
#[test]
fn a_descriptor_learns_of_new_limits() {
    ends_in_time(WaitObj::Fd);
}

/// Messages that come together, and as many readers at one queue: nobody sleeps beside a message.
#[test]
fn each_of_many_readers_is_woken() {
    const READERS: usize = 4;
    const ROUNDS: usize = 200;
    let pair = pair();
    let (server, client) = pair.connect();
    let (sender, taken) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut gates = Vec::new();
        for _ in 0..READERS {
            let (gate, open) = mpsc::channel();
            gates.push(gate);
            let (sender, cq) = (sender.clone(), &pair.server.cq);
            // Each takes one message of each round.
            scope.spawn(move || {
                while let Ok(()) = open.recv() {
                    let start = Instant::now();
                    let done = cq.wait(SOON);
                    sender.send((done.map(|done| done.len), start.elapsed())).unwrap();
                }
            });
        }
        for round in 0..ROUNDS {
            for gate in &gates {
                server.recv(vec![0; 8], 0).unwrap();
                gate.send(()).unwrap();
            }
            std::thread::sleep(Duration::from_millis(1));
            for _ in 0..READERS {
                client.inject(b"message").unwrap();
            }
            for _ in 0..READERS {
                let (done, time) = taken.recv_timeout(PATIENCE).unwrap();
                assert!(done == Ok(7) && time < SOON / 2, "round {round}: {done:?} after {time:?}");
            }
        }
    });
}

/// An error entry that another reader takes is not the end of a wait.
#[test]
fn a_wait_goes_on_when_another_reader_takes_the_error() {
    const READERS: usize = 4;
    const ROUNDS: usize = 400;
    let pair = pair();
    let (server, _client) = pair.connect();
    let (sender, taken) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            let (sender, cq) = (sender.clone(), &pair.server.cq);
            scope.spawn(move || {
                loop {
                    let done = cq.wait(PATIENCE);
                    let last = done.as_ref().map_or(true, |done| done.context == 0);
                    sender.send(done.map(|done| done.context)).unwrap();
                    if last {
                        break;
                    }
                }
            });
        }
        let cancel = |context| {
            server.recv(vec![0; 8], context).unwrap();
            server.cancel(context).unwrap();
            taken.recv_timeout(PATIENCE).unwrap()
        };
        let early = (0..ROUNDS).filter(|_| cancel(1) != Ok(1)).count();
        (0..READERS).for_each(|_| drop(cancel(0)));
        assert_eq!(early, 0, "waits that ended without anything");
    });
}

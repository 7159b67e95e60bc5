// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! B2: how connections come about and end, and the event queue.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kofi::{
    Endpoint, EqAttr, Errno, Error, Event, EventQueue, Fid, Hints, PeekedEvent, Reason, Result, TimeLimits,
    WaitObj,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::{PATIENCE, Pair, cpu, loopback, next, pair, server_at, side};
use crate::kit::{
    End, Lag, Log, cm, descriptors, events_for, is_closed, pattern, raw_request, sanitized, status, transfer,
};

/// How much later than wanted a wait may end.
const SLACK: Duration = Duration::from_millis(50);

fn addr(pair: &Pair) -> SocketAddr {
    pair.listener.name().unwrap().socket_addr().unwrap()
}

/// The client's end, which has not connected yet.
fn connector(pair: &Pair) -> kofi::Connector {
    pair.client.domain.endpoint(&pair.client.info, &pair.client.eq, &pair.client.cq).unwrap()
}

/// The next event of the server's queue, which is a connection request.
#[track_caller]
fn request(pair: &Pair) -> kofi::ConnectionRequest {
    match next(&pair.server.eq, &[&pair.client.eq]) {
        Event::ConnectionRequest(request) => request,
        other => panic!("{other:?}"),
    }
}

/// Waits of this length: none ends early or with anything; as a rule they end in time. That single ones
/// are late is the machine's doing, and so measured by those that are not.
fn waits<T: std::fmt::Debug>(
    what: &str,
    time: Duration,
    rounds: usize,
    read: impl Fn(Duration) -> Result<T>,
) {
    let mut times: Vec<_> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            let result = read(time);
            let elapsed = start.elapsed();
            assert_eq!(result.unwrap_err().errno(), Errno::EAGAIN, "{what}, {time:?}");
            assert!(elapsed >= time, "{what}: {time:?} were over after {elapsed:?}");
            elapsed
        })
        .collect();
    times.sort_unstable();
    let median = times[rounds / 2];
    assert!(median <= time + SLACK, "{what}: {time:?} took {times:?}");
}

#[test]
fn bug_02_sread_timeout() {
    own_process!();
    const TIMES: [(u64, usize); 4] = [(0, 20), (1, 20), (100, 20), (1000, 5)];
    let (quiet, noisy) = (pair(), pair());
    let _connected = quiet.connect();
    let stop = AtomicBool::new(false);
    // Half a message for the noisy queue's connection, a byte at a time.
    let mut stream = raw_request(addr(&noisy), b"");
    let Event::ConnectionRequest(asked) = next(&noisy.server.eq, &[]) else { panic!() };
    let endpoint = noisy.server.domain.endpoint_for(&asked, &noisy.server.eq, &noisy.server.cq).unwrap();
    let endpoint = endpoint.accept(b"").unwrap();
    let Event::Connected { .. } = next(&noisy.server.eq, &[]) else { panic!() };
    stream.read_exact(&mut [0; 32]).unwrap();
    endpoint.recv(vec![0; 1 << 20], 1).unwrap();
    let mut header = [0; 16];
    (header[0], header[6]) = (3, 16);
    header[8..].copy_from_slice(&(16u64 + (1 << 20)).to_le_bytes());
    stream.write_all(&header).unwrap();
    std::thread::scope(|scope| {
        let noise = [
            scope.spawn(|| {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    drop(TcpStream::connect(addr(&noisy)));
                    std::thread::sleep(Duration::from_millis(3));
                    count += 1;
                }
                count
            }),
            scope.spawn(|| {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    stream.write_all(&[7]).unwrap();
                    std::thread::sleep(Duration::from_millis(5));
                    count += 1;
                }
                count
            }),
        ];
        let readers = [(&quiet, "quiet"), (&noisy, "noisy")].into_iter().flat_map(|(pair, kind)| {
            let eq = scope.spawn(move || {
                for (time, rounds) in TIMES {
                    let time = Duration::from_millis(time);
                    waits(&format!("event queue, {kind}"), time, rounds, |time| pair.server.eq.sread(time));
                }
            });
            let cq = scope.spawn(move || {
                for (time, rounds) in TIMES {
                    let time = Duration::from_millis(time);
                    waits(&format!("completion queue, {kind}"), time, rounds, |time| {
                        pair.server.cq.sread(time)
                    });
                }
            });
            [eq, cq]
        });
        let results: Vec<_> = readers.collect::<Vec<_>>().into_iter().map(|reader| reader.join()).collect();
        stop.store(true, Ordering::Relaxed);
        for noise in noise {
            assert!(noise.join().unwrap() > 50, "that was no noise");
        }
        results.into_iter().for_each(Result::unwrap);
    });
}

#[test]
fn bug_04_refused() {
    own_process!();
    let dead = || TcpListener::bind(loopback()).unwrap().local_addr().unwrap();
    let info = kofi::getinfo(Hints::new().provider("tcp").dest(dead())).unwrap().remove(0);
    let client = side(info, WaitObj::Unspec);
    for round in 0..50 {
        let addr = dead();
        let refused = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
        let refused = refused.connect_to(addr, b"").unwrap();
        let start = Instant::now();
        let again = match client.eq.sread(PATIENCE) {
            Err(Error::ErrorAvailable) => client.eq.read_error().unwrap(),
            other => panic!("{other:?}"),
        };
        let took = start.elapsed();
        let Event::Failed { endpoint, reason, data } = again else { panic!("{again:?}") };
        assert_eq!((endpoint, reason.errno(), data), (refused.fid(), Errno::ECONNREFUSED, vec![]));
        assert!(reason.errno().raw() > 0);
        for text in [reason.to_string(), reason.errno().to_string()] {
            assert!(!text.is_empty() && !text.to_lowercase().contains("success"), "{text}");
        }
        assert!(took < Duration::from_secs(2), "{took:?}");
        // Exactly one.
        let more = client.eq.wait(Duration::from_millis(10));
        assert_eq!(more.unwrap_err().errno(), Errno::EAGAIN);
        assert_eq!(client.eq.read_error().unwrap_err().errno(), Errno::EAGAIN);

        let (server, listener) = server_at(addr, WaitObj::Unspec);
        let second = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
        let second = second.connect_to(listener.name().unwrap(), b"").unwrap();
        let Event::ConnectionRequest(request) = next(&server.eq, &[&client.eq]) else { panic!() };
        let accepted = server.domain.endpoint_for(&request, &server.eq, &server.cq).unwrap();
        let accepted = accepted.accept(b"").unwrap();
        let Event::Connected { .. } = next(&server.eq, &[&client.eq]) else { panic!() };
        match next(&client.eq, &[&server.eq]) {
            Event::Connected { endpoint, .. } => assert_eq!(endpoint, second.fid()),
            other => panic!("{other:?}"),
        }
        transfer(End(&second, &client.cq), End(&accepted, &server.cq), 64, round);
    }
}

/// One rejected client; whether the entry is looked at before it is read.
fn rejected(pair: &Pair, data: &[u8], peek: bool, settle: Duration) {
    let client = connector(pair).connect(b"").unwrap();
    request(pair).reject(data).unwrap();
    let eq = &pair.client.eq;
    let start = Instant::now();
    while !matches!(eq.peek(), Err(Error::ErrorAvailable)) {
        assert!(start.elapsed() < PATIENCE && matches!(eq.peek(), Err(Error::Empty | Error::ErrorAvailable)));
    }
    if peek {
        let (fid, seen) = eq.peek_error().unwrap();
        assert_eq!(fid, client.fid());
        assert_eq!(seen, PeekedEvent::Error { reason: Reason::Rejected, data: data.to_vec() });
    }
    let Event::Failed { endpoint, reason, data: got } = eq.read_error().unwrap() else { panic!() };
    assert_eq!((endpoint, reason.errno()), (client.fid(), Errno::ECONNREFUSED));
    assert_eq!(got, data);
    // It is the only event, and the rejecting side has none.
    assert!(events_for(eq, &[&pair.server.eq], settle).is_empty());
    assert_eq!(pair.server.eq.read().unwrap_err().errno(), Errno::EAGAIN);
}

#[test]
fn bug_05_reject() {
    own_process!();
    let pair = pair();
    for len in [0, 1, 16, 256] {
        for peek in [false, true] {
            rejected(&pair, &pattern(3, len), peek, Duration::from_millis(50));
        }
    }
    let (server, client) = pair.connect();
    transfer(End(&client, &pair.client.cq), End(&server, &pair.server.cq), 1000, 3);
    drop((server, client));
    // Nothing is left behind.
    let round = || rejected(&pair, &pattern(3, 16), false, Duration::ZERO);
    (0..20).for_each(|_| round());
    let (fds, kib) = (descriptors(), status("VmRSS"));
    (0..200).for_each(|_| round());
    assert!(descriptors() <= fds + 2, "{fds} descriptors have become {}", descriptors());
    assert!(sanitized() || status("VmRSS") < kib + 512, "{kib} KiB have become {}", status("VmRSS"));
}

#[test]
fn bug_06_private_data() {
    own_process!();
    const LIMIT: usize = 256;
    let pair = pair();
    let refused = connector(&pair).connect(&[0; LIMIT + 1]).unwrap_err();
    assert_eq!(refused.error.errno(), Errno::EINVAL);
    drop(refused);
    for len in [0, 1, 55, 56, 57, 255, LIMIT] {
        for peek in [false, true] {
            let (up, down) = (pattern(1, len), pattern(2, len));
            let client = connector(&pair).connect(&up).unwrap();
            if peek {
                let (fid, seen) = pair.server.eq.speek(PATIENCE).unwrap();
                assert_eq!(fid, pair.listener.fid());
                // A second look sees the same.
                assert_eq!(pair.server.eq.peek().unwrap(), (fid, seen.clone()));
                let PeekedEvent::ConnectionRequest { data, .. } = seen else { panic!("{seen:?}") };
                assert_eq!(data, up);
            }
            let request = request(&pair);
            assert_eq!((request.listener(), request.data()), (pair.listener.fid(), &up[..]));
            assert!(request.info().dest_addr.is_some());
            let server = pair.server.domain.endpoint_for(&request, &pair.server.eq, &pair.server.cq).unwrap();
            let too_much = server.accept(&[0; LIMIT + 1]).unwrap_err();
            assert_eq!(too_much.error.errno(), Errno::EINVAL);
            let server = too_much.object.accept(&down).unwrap();
            match next(&pair.server.eq, &[&pair.client.eq]) {
                // Nothing that was on somebody's stack.
                Event::Connected { endpoint, data } => assert_eq!((endpoint, data), (server.fid(), vec![])),
                other => panic!("{other:?}"),
            }
            if peek {
                let (fid, seen) = pair.client.eq.speek(PATIENCE).unwrap();
                assert_eq!((fid, seen), (client.fid(), PeekedEvent::Connected { data: down.clone() }));
            }
            match next(&pair.client.eq, &[&pair.server.eq]) {
                Event::Connected { endpoint, data } => assert_eq!((endpoint, data), (client.fid(), down)),
                other => panic!("{other:?}"),
            }
            transfer(End(&client, &pair.client.cq), End(&server, &pair.server.cq), 33, len as u64);
            drop((server, client));
            drain(&pair);
        }
    }
}

/// Takes the ends of connections that are closed out of the queues.
fn drain(pair: &Pair) {
    for eq in [&pair.server.eq, &pair.client.eq] {
        for event in events_for(eq, &[&pair.server.eq, &pair.client.eq], Duration::ZERO) {
            assert!(matches!(event, Event::Shutdown { .. }), "{event:?}");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Reject,
    EndpointRejectClose,
    EndpointCloseReject,
    EnableClose,
    AcceptClose,
    DiesAccept,
    DiesReject,
}

fn request_lifetime(order: Order) {
    const ROUNDS: usize = 1000;
    let pair = pair();
    let mut fds = 0;
    for round in 0..ROUNDS {
        let mut client = Some(connector(&pair).connect(b"abc").unwrap());
        let mut request = Some(request(&pair));
        // The request's own end comes early or late.
        let early = round % 2 == 1;
        if matches!(order, Order::DiesAccept | Order::DiesReject) {
            client = None;
            pair.server.eq.progress();
        }
        let asked = request.as_ref().unwrap();
        let open = || pair.server.domain.endpoint_for(asked, &pair.server.eq, &pair.server.cq).unwrap();
        match order {
            Order::Reject => asked.reject(b"no").unwrap(),
            // The peer is gone: it may be noticed, or not.
            Order::DiesReject => drop(asked.reject(b"no")),
            Order::EndpointRejectClose => {
                let endpoint = open();
                asked.reject(b"no").unwrap();
                assert_eq!(endpoint.accept(b"yes").unwrap_err().error.errno(), Errno::EINVAL);
            }
            Order::EndpointCloseReject => {
                drop(open());
                asked.reject(b"no").unwrap();
                assert_eq!(asked.reject(b"no").unwrap_err().errno(), Errno::EINVAL);
            }
            Order::EnableClose | Order::AcceptClose | Order::DiesAccept => {
                let endpoint = open();
                if early {
                    request = None;
                }
                match order {
                    Order::EnableClose => drop(endpoint),
                    Order::AcceptClose => endpoint.accept(b"yes").unwrap().close(),
                    _ => {
                        let accepted = endpoint.accept(b"yes");
                        (0..3).for_each(|_| pair.server.eq.progress());
                        drop(accepted);
                    }
                }
            }
        }
        drop(request);
        if let Some(client) = client {
            let mut events = Vec::new();
            while !matches!(events.last(), Some(Event::Failed { .. } | Event::Shutdown { .. })) {
                events.push(next(&pair.client.eq, &[&pair.server.eq]));
            }
            let of = |fid: &Fid| *fid == client.fid();
            match &events[..] {
                [Event::Failed { endpoint, .. }] => assert!(of(endpoint)),
                [Event::Connected { endpoint, .. }, Event::Shutdown { endpoint: end, .. }] => {
                    assert!(of(endpoint) && of(end));
                    assert_eq!(order, Order::AcceptClose);
                }
                other => panic!("{order:?}: the client saw {other:?}"),
            }
        }
        // Nothing comes after that, at either side.
        assert_eq!(pair.client.eq.read().unwrap_err().errno(), Errno::EAGAIN, "{order:?}");
        match pair.server.eq.wait(Duration::ZERO) {
            Err(error) => assert_eq!(error.errno(), Errno::EAGAIN),
            Ok(event) => panic!("{order:?}: {event:?} of an endpoint that is closed"),
        }
        if round == 20 {
            fds = descriptors();
        }
    }
    let start = Instant::now();
    // Sockets that linger are closed when the peer has closed its own.
    while descriptors() > fds + 2 {
        pair.server.eq.progress();
        pair.client.eq.progress();
        assert!(start.elapsed() < PATIENCE, "{order:?}: {fds} descriptors became {}", descriptors());
    }
    let (server, client) = pair.connect();
    transfer(End(&client, &pair.client.cq), End(&server, &pair.server.cq), 100, 1);
}

#[test]
fn bug_08_request_lifetime() {
    own_process!();
    for order in [
        Order::Reject,
        Order::EndpointRejectClose,
        Order::EndpointCloseReject,
        Order::EnableClose,
        Order::AcceptClose,
        Order::DiesAccept,
        Order::DiesReject,
    ] {
        request_lifetime(order);
    }
}

fn stampede(count: u32) {
    let info = kofi::getinfo(Hints::new().provider("tcp").source(loopback())).unwrap().remove(0);
    let server = side(info, WaitObj::Unspec);
    let size = EqAttr { size: 2 * count as usize, ..EqAttr::default() };
    let eq = server.fabric.event_queue(size).unwrap();
    let listener = server.fabric.passive_endpoint(&server.info).unwrap().bind(&eq).unwrap();
    let listener = listener.backlog(1024).unwrap().listen().unwrap();
    let dest = listener.name().unwrap();
    let client =
        side(kofi::getinfo(Hints::new().provider("tcp").dest(dest)).unwrap().remove(0), WaitObj::Unspec);
    let client_eq = client.fabric.event_queue(size).unwrap();
    // Opened before, so that they connect at once.
    let clients: Vec<_> =
        (0..count).map(|_| client.domain.endpoint(&client.info, &client_eq, &client.cq).unwrap()).collect();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let connected = scope.spawn(|| {
            let clients: Vec<_> = (0..)
                .zip(clients)
                .map(|(id, client): (u32, _)| client.connect(&id.to_le_bytes()).unwrap())
                .collect();
            let mut waiting: Vec<_> = clients.iter().map(Endpoint::fid).collect();
            while !waiting.is_empty() {
                match client_eq.wait(PATIENCE).unwrap() {
                    Event::Connected { endpoint, .. } => {
                        let at = waiting.iter().position(|fid| *fid == endpoint).unwrap();
                        waiting.swap_remove(at);
                    }
                    other => panic!("{other:?}"),
                }
            }
            (clients, start.elapsed())
        });
        std::thread::sleep(Duration::from_secs(2));
        let mut seen = vec![false; count as usize];
        let (mut accepted, mut done) = (Vec::new(), 0);
        while done < count {
            match eq.wait(PATIENCE).unwrap() {
                Event::ConnectionRequest(request) => {
                    let id = u32::from_le_bytes(request.data().try_into().unwrap());
                    assert!(!std::mem::replace(&mut seen[id as usize], true), "{id} twice");
                    let endpoint = server.domain.endpoint_for(&request, &eq, &server.cq).unwrap();
                    accepted.push(endpoint.accept(b"").unwrap());
                }
                Event::Connected { .. } => done += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        let (_clients, took) = connected.join().unwrap();
        assert!(took < Duration::from_secs(2 + 15), "{count} clients took {took:?}");
    });
}

#[test]
fn bug_09_connect_stampede() {
    own_process!();
    stampede(64);
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(4096, |most| most.min(4096));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }).unwrap();
    if wanted == 4096 {
        stampede(512);
    }
}

#[test]
fn bug_10_silent_clients() {
    own_process!();
    const HANDSHAKE: Duration = Duration::from_secs(10);
    let info = kofi::getinfo(Hints::new().provider("tcp").source(loopback())).unwrap().remove(0);
    let server = side(info, WaitObj::Unspec);
    let listener = server.fabric.passive_endpoint(&server.info).unwrap().bind(&server.eq).unwrap();
    let limits = TimeLimits { handshake: Some(HANDSHAKE), ..TimeLimits::default() };
    let listener = listener.limits(limits).listen().unwrap();
    let dest = listener.name().unwrap();
    let addr = dest.socket_addr().unwrap();
    let begun = Instant::now();
    let silent: Vec<_> = (0..100)
        .map(|i| {
            let mut stream = TcpStream::connect(addr).unwrap();
            if i >= 50 {
                stream.write_all(&cm(3, 0, 0, b"")[..5]).unwrap();
            }
            stream
        })
        .collect();
    let client =
        side(kofi::getinfo(Hints::new().provider("tcp").dest(dest)).unwrap().remove(0), WaitObj::Unspec);
    // No wait takes longer than it may; what the machine adds is measured beside it.
    let wait = |time: Duration| {
        let ((event, took), lag) = Lag::during(|| {
            let start = Instant::now();
            (server.eq.wait(time), start.elapsed())
        });
        assert!(took <= time + SLACK + 3 * lag, "a wait of {time:?} took {took:?}, and the lag is {lag:?}");
        event
    };
    let (done, took) = mpsc::channel();
    std::thread::scope(|scope| {
        let honest = scope.spawn(|| {
            let start = Instant::now();
            let endpoint = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
            let endpoint = endpoint.connect(b"honest").unwrap();
            let Event::Connected { .. } = client.eq.wait(PATIENCE).unwrap() else { panic!() };
            done.send(start.elapsed()).unwrap();
            endpoint
        });
        let (accepted, lag) = Lag::during(|| {
            let (mut accepted, mut connected) = (None, false);
            while !connected {
                match wait(Duration::from_secs(1)).unwrap() {
                    Event::ConnectionRequest(request) => {
                        assert_eq!(request.data(), b"honest");
                        assert!(accepted.is_none());
                        let endpoint = server.domain.endpoint_for(&request, &server.eq, &server.cq).unwrap();
                        accepted = Some(endpoint.accept(b"").unwrap());
                    }
                    Event::Connected { .. } => connected = true,
                    other => panic!("{other:?}"),
                }
            }
            accepted
        });
        let took = took.recv_timeout(PATIENCE).unwrap();
        assert!(took < Duration::from_secs(1) + 3 * lag, "the honest client waited for {took:?}");
        let _endpoints = (accepted, honest.join().unwrap());
        let before = cpu();
        for _ in 0..5 {
            assert_eq!(wait(Duration::from_secs(1)).unwrap_err().errno(), Errno::EAGAIN);
        }
        // The thread that measures takes some, too: it wakes a thousand times a second.
        let used = cpu() - before;
        assert!(used < Duration::from_millis(500), "{used:?} of processor time in 5 idle seconds");
    });
    // Beyond the scenario: they are closed, when their time is over.
    while !silent.iter().all(is_closed) {
        assert_eq!(server.eq.wait(Duration::from_millis(100)).unwrap_err().errno(), Errno::EAGAIN);
        assert!(begun.elapsed() < HANDSHAKE + PATIENCE);
    }
    assert!(begun.elapsed() >= HANDSHAKE - Duration::from_secs(1));
}

#[test]
fn bug_12_garbage() {
    own_process!();
    const ROUNDS: usize = 20;
    const EACH: usize = 10;
    let pair = pair();
    let addr = addr(&pair);
    drop(pair.connect());
    drain(&pair);
    let fds = descriptors();
    let log = Log::start();
    let mut thrown = 0;
    for round in 0..ROUNDS {
        let kinds: [Option<Vec<u8>>; 10] = [
            Some(b"GET / HTTP/1.1\r\n\r\n".to_vec()),
            Some(vec![0; 32]),
            Some(cm(2, 0, 0, b"")),
            Some(cm(4, 0, 0, b"")),
            Some(cm(3, 1, 0, b"")),
            Some(cm(3, 6, 0, b"")),
            Some(cm(3, 0, 0xffff, b"")),
            Some(cm(3, 0, 257, b"")),
            Some({
                let mut noise = pattern(round as u64, 64 * 1024);
                // Never a version that is right.
                noise[0] |= 0x80;
                noise
            }),
            // A reset.
            None,
        ];
        let mut open = Vec::new();
        for kind in &kinds {
            for _ in 0..EACH {
                let mut stream = TcpStream::connect(addr).unwrap();
                thrown += 1;
                match kind {
                    Some(bytes) => {
                        stream.set_nonblocking(true).unwrap();
                        // The listener may stop reading.
                        let _ = stream.write(bytes);
                        open.push(stream);
                    }
                    None => {
                        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                    }
                }
            }
        }
        // An honest client in the middle of it: its request is the only one.
        let (server, client) = pair.connect();
        transfer(End(&client, &pair.client.cq), End(&server, &pair.server.cq), 200, round as u64);
        let (took, lag) = Lag::during(|| {
            let start = Instant::now();
            while !open.is_empty() {
                pair.server.eq.progress();
                open.retain(|stream| !is_closed(stream));
                assert!(start.elapsed() < PATIENCE, "{} are open still", open.len());
            }
            start.elapsed()
        });
        assert!(took < Duration::from_secs(1) + 3 * lag, "{took:?}, and the lag is {lag:?}");
        drop((server, client));
        drain(&pair);
    }
    assert_eq!(thrown, 200 * 10);
    assert!(log.lines() <= thrown, "{} lines", log.lines());
    let start = Instant::now();
    while descriptors() > fds + 2 {
        drain(&pair);
        assert!(start.elapsed() < PATIENCE, "{fds} descriptors have become {}", descriptors());
    }
    let (server, client) = pair.connect();
    transfer(End(&client, &pair.client.cq), End(&server, &pair.server.cq), 200, 1);
}

/// Which ends came, by endpoint.
fn ends(pair: &Pair) -> HashMap<Fid, usize> {
    let mut ends = HashMap::new();
    let both = [&pair.server.eq, &pair.client.eq];
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        for eq in both {
            for event in events_for(eq, &both, Duration::ZERO) {
                let Event::Shutdown { endpoint, .. } = event else { panic!("{event:?}") };
                *ends.entry(endpoint).or_default() += 1;
            }
        }
    }
    ends
}

#[test]
fn bug_14_shutdown_once() {
    own_process!();
    for scene in ['a', 'b', 'c', 'd', 'f'] {
        let pair = pair();
        let (server, client) = pair.connect();
        transfer(End(&client, &pair.client.cq), End(&server, &pair.server.cq), 100, 1);
        let mut client = Some(client);
        let client_fid = client.as_ref().unwrap().fid();
        match scene {
            'a' => client.as_ref().unwrap().shutdown().unwrap(),
            'b' => server.shutdown().unwrap(),
            'c' => {
                client.as_ref().unwrap().shutdown().unwrap();
                server.shutdown().unwrap();
            }
            'd' => client.take().unwrap().close(),
            _ => {
                client.as_ref().unwrap().shutdown().unwrap();
                client.as_ref().unwrap().shutdown().unwrap();
            }
        }
        let ends = ends(&pair);
        let count = |fid| ends.get(&fid).copied().unwrap_or_default();
        assert_eq!(count(server.fid()), 1, "({scene}) {ends:?}");
        // Decision D4: its own side hears of it, too, unless it is closed.
        assert_eq!(count(client_fid), usize::from(scene != 'd'), "({scene}) {ends:?}");
        if scene == 'f' {
            client.as_ref().unwrap().shutdown().unwrap();
            assert!(self::ends(&pair).is_empty());
        }
    }
    // (e)
    let silent = TcpListener::bind(loopback()).unwrap();
    let info =
        kofi::getinfo(Hints::new().provider("tcp").dest(silent.local_addr().unwrap())).unwrap().remove(0);
    let client = side(info, WaitObj::Unspec);
    let endpoint = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
    let endpoint = endpoint.connect(b"").unwrap();
    assert!(events_for(&client.eq, &[], Duration::from_millis(100)).is_empty());
    let start = Instant::now();
    assert_eq!(endpoint.shutdown().unwrap_err().errno(), Errno::ENOTCONN);
    assert!(start.elapsed() < Duration::from_secs(1));
    assert!(events_for(&client.eq, &[], Duration::from_millis(500)).is_empty());
    let start = Instant::now();
    endpoint.close();
    assert!(start.elapsed() < Duration::from_secs(1));
    assert!(events_for(&client.eq, &[], Duration::from_millis(50)).is_empty());
}

/// Waits for the end of this endpoint.
#[track_caller]
fn ended(eq: &EventQueue, other: &EventQueue, endpoint: &Endpoint) {
    match next(eq, &[other]) {
        Event::Shutdown { endpoint: fid, .. } => assert_eq!(fid, endpoint.fid()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bug_28_churn() {
    own_process!();
    const CYCLES: u64 = 2000;
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: Some(256) }).unwrap();
    let pair = pair();
    let (mut fds, mut threads, mut kib) = (0, 0, 0);
    for cycle in 1..=CYCLES {
        let (server, client) = pair.connect();
        let (s, c) = (End(&server, &pair.server.cq), End(&client, &pair.client.cq));
        transfer(c, s, 64, cycle);
        transfer(s, c, 64, cycle);
        let (first, second) = match cycle % 2 {
            0 => ((&server, &pair.server.eq), (&client, &pair.client.eq)),
            _ => ((&client, &pair.client.eq), (&server, &pair.server.eq)),
        };
        first.0.shutdown().unwrap();
        ended(second.1, first.1, second.0);
        ended(first.1, second.1, first.0);
        drop((server, client));
        match cycle {
            100 => (fds, threads) = (descriptors(), status("Threads")),
            500 => kib = status("VmRSS"),
            _ => {}
        }
        if cycle % 100 == 0 {
            assert!(descriptors() <= fds + 2, "cycle {cycle}: {fds} descriptors are {}", descriptors());
            assert_eq!(status("Threads"), threads, "cycle {cycle}");
        }
    }
    let grown = status("VmRSS").saturating_sub(kib);
    assert!(sanitized() || grown < 1024, "{grown} KiB more after cycle 500");
}

#[test]
fn bug_32_close_order() {
    own_process!();
    let pair = pair();
    let (server, client) = pair.connect();
    let (s, c) = (End(&server, &pair.server.cq), End(&client, &pair.client.cq));
    let flows = |seed| {
        transfer(c, s, 5000, seed);
        transfer(s, c, 5000, seed);
    };
    flows(1);
    macro_rules! busy {
        ($($object:expr),*) => {$(
            let refused = $object.clone().close().unwrap_err();
            assert_eq!(refused.error.errno(), Errno::EBUSY, stringify!($object));
            drop(refused);
            flows(2);
        )*};
    }
    busy!(pair.client.domain, pair.client.fabric, pair.client.eq, pair.client.cq);
    busy!(pair.server.domain, pair.server.fabric, pair.server.eq, pair.server.cq);
    // The listener's queue, with no endpoint but the listener.
    let eq = pair.server.fabric.event_queue(EqAttr::default()).unwrap();
    let listener = pair.server.fabric.passive_endpoint(&pair.server.info).unwrap().bind(&eq).unwrap();
    let listener = listener.listen().unwrap();
    busy!(eq);
    // A domain with nothing but a memory region.
    let domain = pair.client.fabric.domain(&pair.client.info).unwrap();
    let region = domain.register(vec![0; 4096], kofi::OpFlags::SEND | kofi::OpFlags::RECV, 0).unwrap();
    busy!(domain);
    assert_eq!(region.close().total_len(), 4096);
    domain.close().unwrap();
    listener.close();
    eq.close().unwrap();
    // Nothing has changed: another connection, and the end of the first.
    let (second, third) = pair.connect();
    transfer(End(&third, &pair.client.cq), End(&second, &pair.server.cq), 500, 4);
    drop((second, third));
    drain(&pair);
    server.shutdown().unwrap();
    ended(&pair.client.eq, &pair.server.eq, &client);
    ended(&pair.server.eq, &pair.client.eq, &server);
    // The right order.
    drop((server, client));
    let Pair { server, listener, client } = pair;
    listener.close();
    for side in [server, client] {
        side.cq.close().unwrap();
        side.domain.close().unwrap();
        side.eq.close().unwrap();
        side.fabric.close().unwrap();
    }
}

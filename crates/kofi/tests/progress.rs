// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Automatic progress: peers are served while the application sleeps (`fi_domain(3)`,
//! `FI_PROGRESS_AUTO`).

#![allow(clippy::unwrap_used)]

mod common;

use std::io::Read;
use std::time::{Duration, Instant};

use common::{PATIENCE, Side, alone, client_of, cpu, loopback, next, side};
use kofi::{
    Endpoint, Event, Hints, Info, Listener, Message, OpFlags, PassiveEndpoint, Progress, Result, TimeLimits,
    WaitObj,
};

fn info(hints: Hints) -> Info {
    kofi::getinfo(hints.provider("tcp")).unwrap().remove(0)
}

fn auto() -> Info {
    info(Hints::new().source(loopback()).progress(Progress::Auto))
}

fn listening(listen: impl FnOnce(PassiveEndpoint, &Side) -> Result<Listener>) -> (Side, Listener) {
    let side = side(auto(), WaitObj::Unspec);
    let listener = listen(side.fabric.passive_endpoint(&side.info).unwrap(), &side).unwrap();
    (side, listener)
}

fn server() -> (Side, Listener) {
    listening(|listener, side| Ok(listener.bind(&side.eq)?.listen()?))
}

/// Both ends; nobody has called into the server's side since.
fn connected(server: &Side, listener: &Listener, client: &Side) -> (Endpoint, Endpoint) {
    let _ = listener;
    let endpoint =
        client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap().connect(b"").unwrap();
    let Event::ConnectionRequest(request) = server.eq.wait(PATIENCE).unwrap() else { panic!() };
    assert_eq!(request.info().domain_attr.data_progress, Progress::Auto);
    let accepted = server.domain.endpoint_for(&request, &server.eq, &server.cq).unwrap();
    for context in 0..10 {
        accepted.recv(vec![0; 1 << 20], context).unwrap();
    }
    let accepted = accepted.accept(b"").unwrap();
    let Event::Connected { .. } = client.eq.wait(PATIENCE).unwrap() else { panic!() };
    (accepted, endpoint)
}

/// Waits until so many threads of this process make progress: a new thread takes its name a moment
/// after it was started, and one that was joined leaves the list a moment later.
fn threads(wanted: usize) {
    let count = || {
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .filter(|name| name.trim() == "kofi-progress")
            .count()
    };
    let start = Instant::now();
    while count() != wanted {
        assert!(start.elapsed() < PATIENCE, "{} threads, {wanted} expected", count());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn it_is_granted_to_those_who_ask() {
    let attr = |hints: Hints| {
        let info = info(hints.source(loopback()));
        (info.domain_attr.control_progress, info.domain_attr.data_progress)
    };
    assert_eq!(attr(Hints::new()), (Progress::Manual, Progress::Manual));
    assert_eq!(attr(Hints::new().progress(Progress::Manual)), (Progress::Manual, Progress::Manual));
    assert_eq!(attr(Hints::new().progress(Progress::Unspec)), (Progress::Manual, Progress::Manual));
    assert_eq!(attr(Hints::new().progress(Progress::Auto)), (Progress::Auto, Progress::Auto));
    let mut data = Hints::new();
    data.domain_attr.data_progress = Some(Progress::Auto);
    assert_eq!(attr(data), (Progress::Manual, Progress::Auto));
}

#[test]
fn threads_are_joined() {
    if !alone("threads_are_joined") {
        return;
    }
    threads(0);
    let (server, listener) = server();
    let client = client_of(&listener, WaitObj::Unspec);
    // One for the listener, one for the domain, none for the client.
    threads(2);
    let (accepted, endpoint) = connected(&server, &listener, &client);
    drop(listener);
    threads(1);
    let Side { fabric, eq, domain, cq, .. } = server;
    // The domain is needed as long as anything of it is.
    drop((domain, cq));
    threads(1);
    endpoint.inject(b"still served").unwrap();
    drop(accepted);
    threads(0);
    eq.close().unwrap();
    fabric.close().unwrap();
    let (server, listener) = self::server();
    let Side { fabric, eq, domain, cq, .. } = server;
    drop((cq, listener));
    domain.close().unwrap();
    threads(0);
    drop((fabric, eq));
}

/// The server's only thread of its own sleeps until the client is done.
#[test]
fn a_peer_is_served_while_the_application_sleeps() {
    let (server, listener) = server();
    let client = client_of(&listener, WaitObj::Unspec);
    let (accepted, endpoint) = connected(&server, &listener, &client);
    let main = std::thread::current();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for context in 0..10u64 {
                // More than the sockets hold: it has to be read while it arrives.
                let message = Message {
                    buffers: vec![context as u8; 1 << 20].into(),
                    flags: OpFlags::DELIVERY_COMPLETE,
                    context,
                    ..Message::default()
                };
                endpoint.sendmsg(message).unwrap();
                let done = client.cq.wait(PATIENCE).unwrap();
                assert_eq!((done.context, done.error), (context, None));
            }
            main.unpark();
        });
        let start = Instant::now();
        std::thread::park_timeout(3 * PATIENCE);
        assert!(start.elapsed() < 3 * PATIENCE, "the peer was not served");
    });
    for context in 0..10 {
        let done = server.cq.read().unwrap();
        assert_eq!(done.context, context);
        assert_eq!(done.into_received().unwrap(), vec![context as u8; 1 << 20]);
    }
    drop(accepted);
}

/// What the application posts before it sleeps is sent, be it more than the socket takes, or small
/// and in quick succession.
#[test]
fn what_was_posted_is_sent_while_the_application_sleeps() {
    let (server, listener) = server();
    let client = client_of(&listener, WaitObj::Unspec);
    let (accepted, endpoint) = connected(&server, &listener, &client);
    let Event::Connected { .. } = server.eq.wait(PATIENCE).unwrap() else { panic!() };
    for context in 0..20 {
        accepted.send(vec![1; 64], context).unwrap();
    }
    accepted.send(vec![2; 8 << 20], 20).unwrap();
    for _ in 0..20 {
        endpoint.recv(vec![0; 64], 0).unwrap();
        assert_eq!(client.cq.wait(PATIENCE).unwrap().into_received().unwrap(), [1; 64]);
    }
    endpoint.recv(vec![0; 8 << 20], 0).unwrap();
    assert_eq!(client.cq.wait(PATIENCE).unwrap().into_received().unwrap(), vec![2; 8 << 20]);
    drop(accepted);
}

/// Limits in time end without anybody calling in: of a stranger at the listener, and of a peer that
/// does not answer.
#[test]
fn limits_are_kept_while_the_application_sleeps() {
    let limit = Some(Duration::from_millis(100));
    let limits = TimeLimits { handshake: limit, connect: limit, ..TimeLimits::default() };
    let (server, listener) =
        listening(|listener, side| Ok(listener.bind(&side.eq)?.limits(limits).listen()?));
    let addr = listener.name().unwrap().socket_addr().unwrap();
    let mut stranger = std::net::TcpStream::connect(addr).unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(stranger.read(&mut [0]).unwrap(), 0, "the listener lets a silent stranger go");

    let silent = std::net::TcpListener::bind(loopback()).unwrap();
    let connector = server.domain.endpoint(&server.info, &server.eq, &server.cq).unwrap();
    connector.set_limits(limits).unwrap();
    let _endpoint = connector.connect_to(silent.local_addr().unwrap(), b"").unwrap();
    let (mut socket, _) = silent.accept().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = Vec::new();
    socket.read_to_end(&mut request).unwrap();
    assert!(!request.is_empty(), "a request, and then the end");
}

/// Requests are read by the listener's thread, also those that had to wait for room in the queue.
#[test]
fn requests_arrive_while_the_application_sleeps() {
    const CLIENTS: usize = 20;
    let side = side(auto(), WaitObj::Unspec);
    let eq = side.fabric.event_queue(kofi::EqAttr { size: 2, ..Default::default() }).unwrap();
    let listener = side.fabric.passive_endpoint(&side.info).unwrap().bind(&eq).unwrap().listen().unwrap();
    let client = client_of(&listener, WaitObj::Unspec);
    let endpoints: Vec<_> = (0..CLIENTS)
        .map(|_| client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap().connect(b"").unwrap())
        .collect();
    for _ in 0..CLIENTS {
        let Event::ConnectionRequest(request) = next(&eq, &[]) else { panic!() };
        request.reject(b"no").unwrap();
        let Event::Failed { data, .. } = client.eq.wait(PATIENCE).unwrap() else { panic!() };
        assert_eq!(data, b"no");
    }
    drop(endpoints);
}

/// Idle, the threads sleep.
#[test]
fn idle_costs_nothing() {
    if !alone("idle_costs_nothing") {
        return;
    }
    let (server, listener) = server();
    let client = client_of(&listener, WaitObj::Unspec);
    let (_accepted, endpoint) = connected(&server, &listener, &client);
    let idle = |what: &str| {
        let before = cpu();
        std::thread::sleep(Duration::from_millis(500));
        let used = cpu() - before;
        assert!(used < Duration::from_millis(30), "{used:?} of processor time while {what}");
    };
    idle("connected");
    // A message without a receive, and then the peer's end: both wait for the application.
    for _ in 0..11 {
        endpoint.inject(b"message").unwrap();
    }
    client.cq.ops().progress();
    idle("a message waits");
    endpoint.shutdown().unwrap();
    idle("the peer is gone");
}

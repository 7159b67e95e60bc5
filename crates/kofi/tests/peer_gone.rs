// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Peers that answer no more, behind a real black hole: a network namespace whose loopback interface
//! goes down.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{PATIENCE, Pair, Side, client_of, next, say, server_at};
use kofi::{Endpoint, Errno, Error, Event, Reason, State, TimeLimits, WaitObj};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// The system asks after whole seconds.
const LIMIT: Duration = Duration::from_secs(1);

fn limits() -> TimeLimits {
    TimeLimits { keepalive: Some(LIMIT), peer: Some(LIMIT), ..TimeLimits::default() }
}

fn connect(addr: SocketAddr) -> (Pair, Endpoint, Endpoint) {
    let (server, listener) = server_at(addr, WaitObj::Unspec);
    let client = client_of(&listener, WaitObj::Unspec);
    let pair = Pair { server, listener, client };
    let (server, client) = pair.connect();
    for endpoint in [&server, &client] {
        endpoint.set_limits(limits()).unwrap();
    }
    (pair, server, client)
}

/// Sends until the peer, which does not receive, takes no more.
fn close_window(pair: &Pair, client: &Endpoint) {
    let stalls = || client.statistics().unwrap().traffic.transmit_stalls;
    let before = stalls();
    // The peer reads a bit of it in between.
    while stalls() < before + 3 {
        let _ = client.send(vec![0; 1 << 20], 3);
        pair.client.cq.progress();
        pair.server.cq.progress();
        std::thread::sleep(Duration::from_millis(10));
        if client.statistics().unwrap().transmits_pending > 8 {
            break;
        }
    }
}

/// `ip link set lo up` or `down`, where there may be no `ip`.
fn set_loopback(up: bool) {
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_ACK: u16 = 1 | 4;
    const LOOPBACK: i32 = 1;
    const IFF_UP: u32 = 1;
    let mut message = Vec::new();
    message.extend(32u32.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_ACK.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend((if up { IFF_UP } else { 0 }).to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None).unwrap();
    rustix::io::write(&socket, &message).unwrap();
    let mut answer = [0; 256];
    let count = rustix::io::read(&socket, &mut answer).unwrap();
    let error = i32::from_ne_bytes(answer[16..20].try_into().unwrap());
    assert_eq!((count >= 20, error), (true, 0), "the loopback interface cannot be set {up}");
}

/// Runs `test` in a network of its own; `false`: it did, or there is none to be had.
fn in_a_network(test: &str) -> bool {
    const INSIDE: &str = "KOFI_TEST_NETWORK";
    if std::env::var_os(INSIDE).is_some() {
        set_loopback(true);
        return true;
    }
    let unshare = |program: &std::ffi::OsStr| {
        let mut command = Command::new("unshare");
        command.arg("-rn").arg(program);
        command
    };
    if !unshare("true".as_ref()).output().is_ok_and(|output| output.status.success()) {
        let text =
            "unshare -rn gives no network namespace here: what happens behind a black hole is NOT TESTED";
        assert!(std::env::var_os("KOFI_NETNS").is_none_or(|value| value != "require"), "{text}");
        say(&format!("{test}: {text} (KOFI_NETNS=require makes that a failure)"));
        return false;
    }
    let mut child = unshare(std::env::current_exe().unwrap().as_ref());
    let status = child.args(["--exact", test, "--nocapture"]).env(INSIDE, "").status().unwrap();
    assert!(status.success());
    false
}

/// All of an endpoint's events from now on, and what its operations came to.
fn ending(side: &Side, other: &Side, endpoint: &Endpoint) -> (Reason, Vec<kofi::Completion>) {
    let Event::Shutdown { endpoint: fid, reason } = next(&side.eq, &[&other.eq]) else { panic!() };
    assert_eq!((fid, endpoint.state()), (endpoint.fid(), State::Disconnected));
    let mut completions = Vec::new();
    while let Ok(completion) = side.cq.poll() {
        completions.push(completion);
    }
    // One event, and no other.
    side.eq.progress();
    assert!(matches!(side.eq.read(), Err(Error::Empty)));
    (reason, completions)
}

#[test]
fn a_peer_behind_a_black_hole_is_given_up() {
    if !in_a_network("a_peer_behind_a_black_hole_is_given_up") {
        return;
    }
    let addresses: [SocketAddr; 2] = [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()];
    let families = addresses.map(|addr| {
        let (idle, busy, closed) = (connect(addr), connect(addr), connect(addr));
        busy.1.recv(vec![0; 8], 1).unwrap();
        close_window(&closed.0, &closed.2);
        (idle, busy, closed)
    });
    set_loopback(false);
    let start = Instant::now();
    for (idle, busy, closed) in families {
        // Something is outstanding at the client, nothing at the server: it asks by itself.
        let (pair, server, client) = busy;
        client.send(vec![0; 8], 2).unwrap();
        let (reason, done) = ending(&pair.client, &pair.server, &client);
        assert_eq!(reason, Reason::PeerTimeout(LIMIT));
        // The transport had taken the send.
        assert!(done.iter().all(|completion| completion.context == 2));
        assert_eq!(client.statistics().unwrap().reason, Some(reason));
        let (reason, done) = ending(&pair.server, &pair.client, &server);
        assert_eq!(reason, Reason::PeerTimeout(LIMIT));
        let error = done[0].error.unwrap();
        assert_eq!(
            (done.len(), error.errno, error.provider_errno),
            (1, Errno::ECANCELED, Errno::ETIMEDOUT.raw())
        );
        let Err(refused) = client.send(vec![0; 8], 2) else { panic!() };
        assert_eq!(refused.error.errno(), Errno::ESHUTDOWN);

        let (pair, server, client) = idle;
        assert_eq!(ending(&pair.client, &pair.server, &client).0, Reason::PeerTimeout(LIMIT));
        assert_eq!(ending(&pair.server, &pair.client, &server).0, Reason::PeerTimeout(LIMIT));

        // A window that is closed hides nothing.
        let (pair, _server, client) = closed;
        let pending = client.statistics().unwrap().transmits_pending;
        let (reason, done) = ending(&pair.client, &pair.server, &client);
        assert_eq!(reason, Reason::PeerTimeout(LIMIT));
        let failed = done.iter().filter(|completion| completion.error.is_some()).count();
        assert_eq!((failed, pending > 0), (pending, true));
    }
    say(&format!("all peers given up after {:?}", start.elapsed()));
}

/// A limit of none waits on: so it is for those who ask for that.
#[test]
fn without_limits_nobody_is_given_up() {
    if !in_a_network("without_limits_nobody_is_given_up") {
        return;
    }
    let (pair, server, client) = connect((Ipv4Addr::LOCALHOST, 0).into());
    for endpoint in [&server, &client] {
        endpoint.set_limits(TimeLimits { keepalive: None, peer: None, ..limits() }).unwrap();
    }
    set_loopback(false);
    client.send(vec![0; 8], 2).unwrap();
    assert!(matches!(pair.client.eq.wait(4 * LIMIT), Err(Error::Empty)));
    assert!(matches!(pair.server.eq.wait(LIMIT), Err(Error::Empty)));
    // The network is back, and with it the peer.
    set_loopback(true);
    server.recv(vec![0; 8], 1).unwrap();
    assert!(pair.server.cq.wait(6 * PATIENCE).unwrap().is_receive());
}

/// A peer that answers and merely receives nothing is there, however long that takes.
#[test]
fn a_peer_that_does_not_receive_is_not_given_up() {
    let (pair, server, client) = connect(common::loopback());
    close_window(&pair, &client);
    let before = client.statistics().unwrap();
    assert!(before.transmits_pending > 0);
    let end = Instant::now() + 6 * LIMIT;
    while Instant::now() < end {
        assert!(matches!(pair.client.eq.wait(LIMIT / 4), Err(Error::Empty)));
        pair.server.eq.progress();
    }
    let count = before.traffic.sent.operations + before.transmits_pending as u64;
    for _ in 0..count {
        server.recv(vec![0; 1 << 20], 1).unwrap();
        let end = Instant::now() + PATIENCE;
        while let Err(error) = pair.server.cq.poll() {
            assert_eq!(error, Error::Empty);
            assert!(Instant::now() < end);
            pair.client.cq.progress();
        }
    }
    assert_eq!(client.state(), State::Connected);
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The passive endpoint: what strangers can make it do, and for how long.
#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::HashSet;

use kofi_core::Deadline;
use kofi_core::passive_endpoint::{PassiveState, Taken};
use kofi_core::wire::{ByteOrder, WireError, cm};
use kofi_core::*;
use proptest::collection::vec;
use proptest::prelude::*;

const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2);
const HANDSHAKE: Duration = Duration::from_secs(10);
const DECISION: Duration = Duration::from_secs(60);
const LIMITS: TimeLimits = TimeLimits {
    connect: None,
    handshake: Some(HANDSHAKE),
    decision: Some(DECISION),
    shutdown: None,
    keepalive: None,
    peer: None,
};

fn at(since_start: Duration) -> Instant {
    Instant::from_nanos(0).after(since_start)
}

const START: Instant = Instant::from_nanos(0);

fn listening() -> PassiveEndpoint {
    let mut pep = PassiveEndpoint::new(LIMITS);
    pep.bind(true, 0).unwrap();
    pep.listen().unwrap();
    pep.listening();
    pep
}

fn request(data: &[u8]) -> Vec<u8> {
    cm::message("test", cm::Kind::Request, data).unwrap()
}

/// A connection whose request has arrived.
fn whole(pep: &mut PassiveEndpoint, now: Instant) -> RequestId {
    let id = pep.accepted(LOCAL, PEER, now).unwrap();
    pep.received(id, &request(b"hi"), now);
    id
}

/// One whose request is an unread event.
fn queued(pep: &mut PassiveEndpoint, now: Instant) -> RequestId {
    let id = whole(pep, now);
    let event = Event::ConnectionRequest { request: id, local: LOCAL, peer: PEER, data: b"hi".to_vec() };
    assert_eq!(pep.poll_request(1), Some(event));
    id
}

fn expire(pep: &mut PassiveEndpoint, now: Instant) -> Vec<RequestId> {
    let mut withdrawn = Vec::new();
    pep.expire(now, |id| withdrawn.push(id));
    withdrawn
}

fn drops(pep: &mut PassiveEndpoint) -> Vec<(RequestId, Reason)> {
    core::iter::from_fn(|| pep.poll_drop()).collect()
}

#[test]
fn calls_answer_by_state() {
    let errno = |result: Result<()>| result.unwrap_err().errno();
    let mut pep = PassiveEndpoint::new(LIMITS);
    assert_eq!(pep.listen().unwrap_err().errno(), Errno::ENOEQ);
    assert_eq!(errno(pep.bind(false, 0)), Errno::EINVAL);
    assert_eq!(errno(pep.bind(true, 1)), Errno::EINVAL);
    pep.bind(true, 0).unwrap();
    assert_eq!(errno(pep.bind(true, 0)), Errno::EINVAL);
    assert_eq!(errno(pep.set_backlog(0)), Errno::EINVAL);
    assert_eq!(pep.listen(), Ok(PassiveEndpoint::DEFAULT_BACKLOG));
    pep.set_backlog(7).unwrap();
    assert_eq!(pep.listen(), Ok(7));
    pep.check_set_name().unwrap();
    assert!(!pep.wants_accept(1), "it does not listen yet");
    pep.listening();
    assert_eq!(pep.state(), PassiveState::Listening);
    assert_eq!(pep.listen().unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(errno(pep.bind(true, 0)), Errno::EOPBADSTATE);
    assert_eq!(errno(pep.set_backlog(1)), Errno::EOPBADSTATE);
    assert_eq!(errno(pep.check_set_name()), Errno::EOPBADSTATE);
    assert!(pep.wants_accept(1));
}

#[test]
fn each_phase_has_its_limit() {
    type Phase = (fn(&mut PassiveEndpoint, Instant) -> RequestId, Duration, bool);
    let phases: [Phase; 3] = [
        (|pep, now| pep.accepted(LOCAL, PEER, now).unwrap(), HANDSHAKE, false),
        (whole, DECISION, false),
        (queued, DECISION, true),
    ];
    for (make, limit, withdrawn) in phases {
        let mut pep = listening();
        let id = make(&mut pep, START);
        assert_eq!(pep.next_deadline(), Some(at(HANDSHAKE)));
        let late = limit - Duration::from_nanos(1);
        assert_eq!(expire(&mut pep, at(late)), []);
        assert_eq!(drops(&mut pep), []);
        assert_eq!(pep.next_deadline(), Some(at(limit)));
        assert_eq!(expire(&mut pep, at(limit)), Vec::from_iter(withdrawn.then_some(id)));
        assert_eq!(drops(&mut pep), [(id, Reason::RequestTimeout(limit))]);
        // It is gone for good.
        assert!(pep.take_request(id).is_err());
        assert_eq!((pep.poll_request(1), pep.wants(id), pep.next_deadline()), (None, 0, None));
        assert_eq!(pep.close().count(), 0);
    }
    // A peer that says a byte now and then is not given more time.
    let mut pep = listening();
    let id = pep.accepted(LOCAL, PEER, START).unwrap();
    for (second, byte) in request(&[0; 200]).into_iter().enumerate() {
        let now = at(Duration::from_secs(second as u64));
        pep.expire(now, |_| panic!());
        pep.received(id, &[byte], now);
    }
    assert_eq!(drops(&mut pep), [(id, Reason::RequestTimeout(HANDSHAKE))]);
    // Without limits nothing ends.
    let mut pep = listening();
    let never = TimeLimits { handshake: None, decision: None, ..LIMITS };
    pep.set_limits(never);
    let arriving = pep.accepted(LOCAL, PEER, START).unwrap();
    let queued = queued(&mut pep, START);
    assert_eq!(pep.next_deadline(), None);
    pep.expire(Instant::from_nanos(u64::MAX), |_| panic!());
    assert_eq!(pep.take_request(queued).unwrap().deadline, None);
    assert_eq!(pep.wants(arriving), 32);
}

#[test]
fn a_request_that_was_read_has_its_deadline() {
    let mut pep = listening();
    let id = queued(&mut pep, at(Duration::from_secs(1)));
    let order = ByteOrder::from_probe(1u64.to_ne_bytes());
    let deadline = Deadline::start(at(Duration::from_secs(1)), Some(DECISION));
    assert_eq!(pep.take_request(id), Ok(Taken { order, deadline }));
    assert!(pep.take_request(id).is_err(), "once");
    assert_eq!(expire(&mut pep, at(DECISION * 2)), [], "the listener has nothing to do with it any more");
    assert_eq!(drops(&mut pep), []);
}

#[test]
fn silent_peers_make_room() {
    let mut pep = listening();
    let ids: Vec<_> = (0..PassiveEndpoint::MAX_ARRIVING as u64)
        .map(|n| pep.accepted(LOCAL, PEER, Instant::from_nanos(n)).unwrap())
        .collect();
    // These do not count: their requests have arrived.
    let now = at(Duration::from_secs(1));
    pep.received(ids[0], &request(b""), now);
    assert_eq!(drops(&mut pep), []);
    let one_more = pep.accepted(LOCAL, PEER, now).unwrap();
    assert_eq!(drops(&mut pep), []);
    for &oldest in &ids[1..4] {
        pep.accepted(LOCAL, PEER, now).unwrap();
        assert_eq!(drops(&mut pep), [(oldest, Reason::Crowded)]);
    }
    assert_eq!(pep.wants(one_more), 32);
    assert_eq!(pep.close().count(), PassiveEndpoint::MAX_ARRIVING + 1);
}

#[test]
fn a_full_event_queue_pauses_the_listener() {
    let mut pep = listening();
    assert!(!pep.wants_accept(0));
    assert!(pep.wants_accept(1));
    let first = whole(&mut pep, START);
    let second = pep.accepted(LOCAL, PEER, START).unwrap();
    // One request waits, so no more connections are taken; those taken go on.
    assert!(!pep.wants_accept(1));
    assert_eq!(pep.poll_request(0), None);
    assert!(pep.wants(second) > 0);
    pep.received(second, &request(b""), START);
    for id in [first, second] {
        assert!(!pep.wants_accept(5));
        assert!(
            matches!(pep.poll_request(5), Some(Event::ConnectionRequest { request, .. }) if request == id)
        );
    }
    assert_eq!(pep.poll_request(5), None);
    assert!(pep.wants_accept(5));
    // One that waits and goes away is not in the way.
    let third = whole(&mut pep, START);
    pep.lost(third);
    assert_eq!(drops(&mut pep), [(third, Reason::Cut)]);
    assert_eq!(pep.poll_request(5), None);
    assert!(pep.wants_accept(5));
}

#[test]
fn a_shortage_pauses_the_listener_for_longer_each_time() {
    let mut pep = listening();
    for round in 0..2 {
        let mut now = at(Duration::from_secs(100 * round));
        let mut told = 0;
        for millis in [10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000] {
            told += usize::from(pep.accept_failed(now).is_some());
            let until = now.after(Duration::from_millis(millis));
            assert!(!pep.wants_accept(1));
            assert_eq!(pep.next_deadline(), Some(until));
            pep.expire(now.after(Duration::from_millis(millis) - Duration::from_nanos(1)), |_| panic!());
            assert!(!pep.wants_accept(1), "{millis} ms");
            pep.expire(until, |_| panic!());
            assert!(pep.wants_accept(1), "{millis} ms");
            assert_eq!(pep.next_deadline(), None);
            now = until;
        }
        assert_eq!(told, 1, "it is worth one line in a log");
        // It is over.
        let id = pep.accepted(LOCAL, PEER, now).unwrap();
        pep.lost(id);
        drops(&mut pep);
        pep.expire(at(Duration::from_secs(90)), |_| panic!());
    }
}

#[test]
fn strangers_are_dropped() {
    let mut nack = request(b"");
    nack[1] = 6;
    for (bytes, error) in [
        (b"GET / HTTP/1.1\r\n".to_vec(), WireError::Version { found: b'G' }),
        (b"\n".to_vec(), WireError::Version { found: b'\n' }),
        (nack, WireError::MessageType { found: 6, wanted: "request" }),
    ] {
        let mut pep = listening();
        let id = pep.accepted(LOCAL, PEER, START).unwrap();
        pep.received(id, &bytes, START);
        assert_eq!(drops(&mut pep), [(id, Reason::Protocol(error))]);
        assert_eq!(pep.poll_request(1), None);
    }
}

#[test]
fn close_gives_back_what_is_not_read() {
    let mut pep = listening();
    let taken = queued(&mut pep, START);
    pep.take_request(taken).unwrap();
    let queued = queued(&mut pep, START);
    let arriving = pep.accepted(LOCAL, PEER, START).unwrap();
    pep.received(arriving, &request(b"")[..20], START);
    let lost = pep.accepted(LOCAL, PEER, START).unwrap();
    pep.lost(lost);
    let whole = whole(&mut pep, START);
    let all: HashSet<_> = pep.close().collect();
    // With those whose peers wait for an answer.
    assert_eq!(all, HashSet::from([(queued, true), (arriving, false), (whole, true), (lost, false)]));
}

#[derive(Clone, Debug)]
enum Action {
    Accept,
    Fail,
    Receive { which: usize, len: usize, wrong: bool },
    Lose(usize),
    Poll { room: usize },
    Take(usize),
    Wait(u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => Just(Action::Accept),
        1 => Just(Action::Fail),
        6 => (any::<usize>(), 1usize..60, prop::bool::weighted(0.05))
            .prop_map(|(which, len, wrong)| Action::Receive { which, len, wrong }),
        1 => any::<usize>().prop_map(Action::Lose),
        2 => (0usize..3).prop_map(|room| Action::Poll { room }),
        1 => any::<usize>().prop_map(Action::Take),
        1 => (0..20_000u64).prop_map(Action::Wait),
    ]
}

proptest! {
    /// Whatever happens, each connection is dropped once, or read once, or given back by close.
    #[test]
    fn each_connection_ends_once(actions in vec(action(), 1..200)) {
        let mut pep = listening();
        let mut now = START;
        // Those that the listener has, with the bytes that they have not said yet.
        let mut connections: Vec<(RequestId, Vec<u8>)> = Vec::new();
        let mut queued: Vec<RequestId> = Vec::new();
        let message = request(b"hello");
        for action in actions {
            let some = |which: usize| (!connections.is_empty()).then(|| which % connections.len());
            match action {
                Action::Accept if pep.wants_accept(1) => {
                    let id = pep.accepted(LOCAL, PEER, now).unwrap();
                    prop_assert!(connections.iter().all(|(other, _)| *other != id));
                    connections.push((id, message.clone()));
                }
                Action::Fail if pep.wants_accept(1) => {
                    pep.accept_failed(now);
                    prop_assert!(!pep.wants_accept(1));
                }
                Action::Accept | Action::Fail => {}
                Action::Receive { which, len, wrong } => {
                    if let Some(which) = some(which) {
                        let (id, rest) = &mut connections[which];
                        let len = len.min(pep.wants(*id)).min(rest.len());
                        let mut bytes: Vec<u8> = rest.drain(..len).collect();
                        if wrong && !bytes.is_empty() {
                            bytes.fill(0xff);
                        }
                        pep.received(*id, &bytes, now);
                    }
                }
                Action::Lose(which) => {
                    if let Some(which) = some(which) {
                        pep.lost(connections[which].0);
                    }
                }
                Action::Poll { room } => {
                    for left in (0..room).rev() {
                        let Some(event) = pep.poll_request(left + 1) else { break };
                        let Event::ConnectionRequest { request, data, .. } = event else { panic!() };
                        prop_assert_eq!(data.len(), 5);
                        queued.push(request);
                    }
                    prop_assert_eq!(pep.poll_request(0), None);
                }
                Action::Take(which) => {
                    if let Some(which) = some(which) {
                        let id = connections[which].0;
                        let unread = queued.iter().position(|&other| other == id);
                        prop_assert_eq!(pep.take_request(id).is_ok(), unread.is_some());
                        if let Some(unread) = unread {
                            queued.remove(unread);
                            connections.remove(which);
                        }
                    }
                }
                Action::Wait(millis) => {
                    now = now.after(Duration::from_millis(millis));
                    let withdrawn = expire(&mut pep, now);
                    for id in &withdrawn {
                        prop_assert!(queued.contains(id), "only an event that is there can be withdrawn");
                    }
                    queued.retain(|id| !withdrawn.contains(id));
                    prop_assert!(pep.next_deadline().is_none_or(|at| at > now), "it waits for the past");
                }
            }
            for (id, _) in drops(&mut pep) {
                let at = connections.iter().position(|(other, _)| *other == id);
                connections.remove(at.unwrap());
                prop_assert!(!queued.contains(&id));
            }
        }
        let left: HashSet<_> = connections.iter().map(|(id, _)| *id).collect();
        prop_assert_eq!(pep.close().map(|(id, _)| id).collect::<HashSet<_>>(), left);
    }
}

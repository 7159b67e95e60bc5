// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Every call on an endpoint in every state: what it answers, and that a refused call changes
//! nothing.
#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use kofi_core::Deadline;
use kofi_core::attr::CqAttr;
use kofi_core::message::{Memory, Place, PostReceive, ReadPlan, Send, Step, WritePlan};
use kofi_core::passive_endpoint::Taken;
use kofi_core::wire::header::{self, Header};
use kofi_core::wire::{ByteOrder, cm};
use kofi_core::*;

const START: Instant = Instant::from_nanos(0);
const ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const EQ: Fid = Fid(1);
const BOTH: OpFlags = OpFlags::TRANSMIT.union(OpFlags::RECV);
const ATTR: EndpointAttr = EndpointAttr {
    caps: Caps::MSG,
    tx_size: 2,
    rx_size: 2,
    inject_size: 4,
    tx_iov_limit: 4,
    rx_iov_limit: 4,
    rma_iov_limit: 4,
    total_buffered_recv: 0,
    max_msg_size: 100,
    dest_addr: None,
};

struct Bench {
    domain: Domain,
    cq: CqId,
    ep: EpId,
}

fn open(origin: Origin) -> Bench {
    let mut domain = Domain::new(TimeLimits::default());
    let cq = domain.open_cq(&CqAttr::default()).unwrap();
    let ep = domain.open_endpoint(Fid(2), ATTR, origin).unwrap();
    Bench { domain, cq, ep }
}

impl Bench {
    fn bind(mut self) -> Self {
        self.domain.bind_eq(self.ep, EQ, true, OpFlags::empty()).unwrap();
        self.domain.bind_cq(self.ep, self.cq, BOTH).unwrap();
        self
    }

    /// Writes what there is to write.
    fn flush(&mut self) {
        let mut plan = WritePlan::new(8).unwrap();
        self.domain.plan_write(self.ep, &mut plan);
        self.domain.sent(self.ep, plan.bytes().len());
    }

    fn state(&self) -> State {
        self.domain.state(self.ep).unwrap()
    }
}

/// An endpoint of that origin, in that state.
fn bench(active: bool, state: State) -> Bench {
    let mut bench = open(if active { Origin::Active } else { request(None) }).bind();
    let (domain, ep) = (&mut bench.domain, bench.ep);
    if state == State::Idle {
        return bench;
    }
    domain.enable(ep).unwrap();
    if state == State::Enabled {
        return bench;
    }
    if active {
        domain.connect(ep, Some(ADDR), b"", START).unwrap();
        if state == State::Connecting {
            return bench;
        }
        domain.transport_open(ep, ADDR);
        if state == State::Requested {
            return bench;
        }
    } else {
        domain.accept(ep, ADDR, ADDR, b"", START).unwrap();
        if state == State::Accepting {
            return bench;
        }
    }
    if state == State::Failed {
        domain.transport_failed(ep, Errno::ECONNRESET);
        return bench;
    }
    bench.flush();
    if active {
        let _ = bench.domain.take(ep, &cm::message("test", cm::Kind::Response, b"").unwrap());
    }
    match state {
        State::Draining => bench.domain.shutdown(ep, 0, START).unwrap(),
        State::Disconnected => bench.domain.end_of_stream(ep),
        _ => {}
    }
    bench
}

fn request(deadline: Option<Deadline>) -> Origin {
    Origin::Request(Taken { order: ByteOrder::Little, deadline })
}

/// The states that an endpoint of that origin comes through.
fn states(active: bool) -> impl Iterator<Item = State> {
    use State::*;
    [Idle, Enabled, Connecting, Requested, Accepting, Connected, Draining, Disconnected, Failed]
        .into_iter()
        .filter(move |state| match state {
            Connecting | Requested => active,
            Accepting => !active,
            _ => true,
        })
}

#[test]
fn each_call_answers_by_state() {
    use State::*;
    type Call = fn(&mut Bench) -> Result<()>;
    // What the call answers in each state, as an error number; none if it works.
    type Answer = fn(bool, State) -> Option<Errno>;
    let calls: [(&str, Call, Answer); 8] = [
        (
            "bind",
            |bench| bench.domain.bind_eq(bench.ep, EQ, true, OpFlags::empty()),
            |_, state| Some(if state == Idle { Errno::EINVAL } else { Errno::EOPBADSTATE }),
        ),
        (
            "enable",
            |bench| bench.domain.enable(bench.ep),
            |_, state| (state != Idle).then_some(Errno::EOPBADSTATE),
        ),
        (
            "connect",
            |bench| bench.domain.connect(bench.ep, Some(ADDR), b"", START).map(drop),
            |active, state| match state {
                Failed => Some(Errno::EOPBADSTATE),
                Idle | Enabled if active => None,
                _ => Some(Errno::EINVAL),
            },
        ),
        (
            "accept",
            |bench| bench.domain.accept(bench.ep, ADDR, ADDR, b"", START),
            |active, state| match state {
                Failed => Some(Errno::EOPBADSTATE),
                Idle | Enabled if !active => None,
                _ => Some(Errno::EINVAL),
            },
        ),
        (
            "shutdown",
            |bench| bench.domain.shutdown(bench.ep, 0, START),
            |_, state| match state {
                Connected | Draining | Disconnected => None,
                Failed => Some(Errno::EOPBADSTATE),
                _ => Some(Errno::ENOTCONN),
            },
        ),
        (
            "send",
            |bench| bench.domain.post_send(bench.ep, &Send::default()).map(drop),
            |_, state| match state {
                Connected => None,
                Draining | Disconnected => Some(Errno::ESHUTDOWN),
                Failed => Some(Errno::EOPBADSTATE),
                _ => Some(Errno::ENOTCONN),
            },
        ),
        (
            "receive",
            |bench| bench.domain.post_receive(bench.ep, &PostReceive::default()).map(drop),
            |_, state| match state {
                Idle | Failed => Some(Errno::EOPBADSTATE),
                Disconnected => Some(Errno::ESHUTDOWN),
                _ => None,
            },
        ),
        (
            "getpeer",
            |bench| bench.domain.peer(bench.ep).map(drop),
            |_, state| match state {
                Connected | Draining | Disconnected => None,
                _ => Some(Errno::ENOTCONN),
            },
        ),
    ];
    for active in [true, false] {
        for state in states(active) {
            for (name, call, answer) in &calls {
                let mut bench = bench(active, state);
                assert_eq!(bench.state(), state);
                let found = call(&mut bench).err().map(|error| error.errno());
                assert_eq!(found, answer(active, state), "{name}, {state:?}, active: {active}");
                if found.is_some() {
                    assert_eq!(bench.state(), state, "{name} was refused");
                }
                bench.domain.close_endpoint(bench.ep).unwrap();
                let again = call(&mut bench).err().map(|error| error.errno());
                assert_eq!(again, Some(Errno::EINVAL), "{name} on a closed endpoint");
            }
        }
    }
}

/// Arguments that are refused, whatever the state.
#[test]
fn a_refused_call_changes_nothing() {
    type Refused = (fn(&mut Bench) -> Result<()>, Errno);
    let active: [Refused; 3] = [
        (|bench| bench.domain.connect(bench.ep, None, b"", START).map(drop), Errno::EINVAL),
        (|bench| bench.domain.connect(bench.ep, Some(ADDR), &[0; 257], START).map(drop), Errno::EINVAL),
        (|bench| bench.domain.accept(bench.ep, ADDR, ADDR, b"", START), Errno::EINVAL),
    ];
    let passive: [Refused; 3] = [
        (|bench| bench.domain.connect(bench.ep, Some(ADDR), b"", START).map(drop), Errno::EINVAL),
        (|bench| bench.domain.accept(bench.ep, ADDR, ADDR, &[0; 257], START), Errno::EINVAL),
        (
            |bench| bench.domain.accept(bench.ep, ADDR, ADDR, b"", START.after(Duration::from_secs(1))),
            Errno::ETIMEDOUT,
        ),
    ];
    let limit = Deadline::start(START, Some(Duration::from_secs(1)));
    for (origin, cases) in [(Origin::Active, active), (request(limit), passive)] {
        for (call, errno) in cases {
            let mut bench = open(origin).bind();
            assert_eq!(call(&mut bench).unwrap_err().errno(), errno);
            assert_eq!(bench.state(), State::Idle);
            bench.domain.enable(bench.ep).unwrap();
            assert_eq!(call(&mut bench).unwrap_err().errno(), errno);
            assert_eq!(bench.state(), State::Enabled);
            assert_eq!(bench.domain.poll_event(), None);
            // And the right call still works.
            match origin {
                Origin::Active => drop(bench.domain.connect(bench.ep, Some(ADDR), b"", START).unwrap()),
                Origin::Request(_) => bench.domain.accept(bench.ep, ADDR, ADDR, b"", START).unwrap(),
            }
        }
    }
    // A queue that is missing can still be bound.
    for (origin, active) in [(Origin::Active, true), (request(None), false)] {
        let mut bench = open(origin);
        let start = |bench: &mut Bench| match active {
            true => bench.domain.connect(bench.ep, Some(ADDR), b"", START).map(drop),
            false => bench.domain.accept(bench.ep, ADDR, ADDR, b"", START),
        };
        assert_eq!(start(&mut bench).unwrap_err().errno(), Errno::ENOEQ);
        bench.domain.bind_eq(bench.ep, EQ, true, OpFlags::empty()).unwrap();
        for direction in [OpFlags::TRANSMIT, OpFlags::RECV] {
            assert_eq!(start(&mut bench).unwrap_err().errno(), Errno::ENOCQ);
            bench.domain.bind_cq(bench.ep, bench.cq, direction).unwrap();
        }
        start(&mut bench).unwrap();
    }
}

#[test]
fn posts_over_a_limit_are_refused() {
    let mut bench = bench(true, State::Connected);
    let (domain, ep) = (&mut bench.domain, bench.ep);
    let send = Send { len: 1, segments: 1, ..Send::default() };
    let with = |flags| Send { flags, ..send };
    for (send, errno) in [
        (Send { len: 101, ..send }, Errno::EMSGSIZE),
        (Send { len: u64::MAX, ..send }, Errno::EMSGSIZE),
        (Send { len: 5, ..with(OpFlags::INJECT) }, Errno::EMSGSIZE),
        (Send { segments: 5, ..send }, Errno::EINVAL),
        (with(OpFlags::COMMIT_COMPLETE), Errno::EBADFLAGS),
        (with(OpFlags::FENCE), Errno::EBADFLAGS),
        (with(OpFlags::from_bits_retain(1 << 63)), Errno::EBADFLAGS),
    ] {
        assert_eq!(domain.post_send(ep, &send).unwrap_err().errno(), errno, "{send:?}");
    }
    let receive = PostReceive { len: 1, segments: 1, ..PostReceive::default() };
    for (receive, errno) in [
        (PostReceive { segments: 5, ..receive }, Errno::EINVAL),
        (PostReceive { flags: OpFlags::INJECT, ..receive }, Errno::EBADFLAGS),
        (PostReceive { flags: OpFlags::MULTI_RECV, segments: 2, ..receive }, Errno::EINVAL),
    ] {
        assert_eq!(domain.post_receive(ep, &receive).unwrap_err().errno(), errno, "{receive:?}");
    }
    for _ in 0..2 {
        domain.post_send(ep, &send).unwrap();
        domain.post_receive(ep, &receive).unwrap();
    }
    assert_eq!(domain.post_send(ep, &send).unwrap_err().errno(), Errno::EAGAIN);
    assert_eq!(domain.post_receive(ep, &receive).unwrap_err().errno(), Errno::EAGAIN);
    assert_eq!(domain.cancel(ep, 1).unwrap_err().errno(), Errno::ENOENT);
    domain.cancel(ep, 0).unwrap();
    domain.post_receive(ep, &receive).unwrap();
    assert_eq!(domain.shutdown(ep, 1, START).unwrap_err().errno(), Errno::EINVAL);
}

/// A message that waits for a receive is started by its post: the transport may have nothing more.
#[test]
fn a_receive_takes_the_message_that_waits() {
    for payload in [0, 3] {
        let mut bench = bench(true, State::Connected);
        let (domain, ep) = (&mut bench.domain, bench.ep);
        let mut bytes = [0; header::MAX_LEN];
        let len = Header::message(payload, Some(5), false).emit(
            ByteOrder::from_probe(1u64.to_ne_bytes()),
            0,
            &mut bytes,
        );
        assert_eq!(domain.take(ep, &bytes[..len]), Step::Used(len));
        assert_eq!((domain.plan_read(ep), domain.take(ep, b"abc")), (None, Step::Blocked));
        let receive = PostReceive { len: 8, segments: 1, ..PostReceive::default() };
        let op = domain.post_receive(ep, &receive).unwrap();
        // It has met its message, and cannot be called back.
        assert_eq!(domain.cancel(ep, 0).unwrap_err().errno(), Errno::ENOENT);
        if payload > 0 {
            let place = Place { memory: Memory::Operation(op), offset: 0, len: payload };
            assert_eq!(domain.plan_read(ep), Some(ReadPlan { direct: Some(place) }));
            assert_eq!(domain.read_cq(bench.cq), Err(Error::Empty));
            domain.placed(ep, payload);
        }
        let (done, completion) = domain.read_cq(bench.cq).unwrap();
        assert_eq!((done, completion.len, completion.data), (op, payload, 5));
        assert_eq!(domain.plan_read(ep), Some(ReadPlan { direct: None }));
    }
}

/// With selective completion a success is told if the operation asks for it; a failure always is.
#[test]
fn selective_completion() {
    for selective in [false, true] {
        for flags in [OpFlags::empty(), OpFlags::COMPLETION] {
            for quiet in [false, true] {
                let mut bench = open(request(None));
                let (domain, ep) = (&mut bench.domain, bench.ep);
                let bind = if selective { BOTH | OpFlags::SELECTIVE_COMPLETION } else { BOTH };
                domain.bind_eq(ep, EQ, true, OpFlags::empty()).unwrap();
                domain.bind_cq(ep, bench.cq, bind).unwrap();
                domain.accept(ep, ADDR, ADDR, b"", START).unwrap();
                bench.flush();
                let (domain, ep) = (&mut bench.domain, bench.ep);
                for context in [1, 2] {
                    domain.post_send(ep, &Send { flags, context, quiet, ..Send::default() }).unwrap();
                    if context == 1 {
                        domain.sent(ep, 16);
                    }
                }
                let told = !quiet && (!selective || !flags.is_empty());
                assert_eq!(domain.cq_len(bench.cq), usize::from(told), "{selective} {flags:?} {quiet}");
                assert_eq!(domain.poll_released().is_some(), !told);
                if told {
                    assert_eq!(domain.read_cq(bench.cq).unwrap().1.context, 1);
                }
                domain.end_of_stream(ep);
                assert_eq!(domain.read_cq(bench.cq), Err(Error::ErrorAvailable));
                let error = domain.read_cq_error(bench.cq).unwrap().1;
                assert_eq!((error.context, error.errno), (2, Errno::ECANCELED));
                assert_eq!(error.provider_errno, Errno::ESHUTDOWN.raw());
                assert_eq!(domain.poll_released(), None);
            }
        }
    }
}

/// Each phase ends by its limit, in one event that says which.
#[test]
fn each_phase_has_its_limit() {
    use State::*;
    let limits = TimeLimits {
        connect: Some(Duration::from_secs(1)),
        handshake: Some(Duration::from_secs(2)),
        decision: None,
        shutdown: Some(Duration::from_secs(3)),
        ..TimeLimits::default()
    };
    for (active, state, limit) in [
        (true, Connecting, limits.connect),
        (true, Requested, limits.connect),
        (false, Accepting, limits.handshake),
        (true, Connected, None),
        (true, Draining, limits.shutdown),
        (false, Draining, limits.shutdown),
    ] {
        let mut bench = open(if active { Origin::Active } else { request(None) }).bind();
        let (domain, ep) = (&mut bench.domain, bench.ep);
        domain.set_limits(ep, limits).unwrap();
        if active {
            domain.connect(ep, Some(ADDR), b"", START).unwrap();
            if state != Connecting {
                domain.transport_open(ep, ADDR);
            }
        } else {
            domain.accept(ep, ADDR, ADDR, b"", START).unwrap();
        }
        if matches!(state, Connected | Draining) {
            bench.flush();
            let (domain, ep) = (&mut bench.domain, bench.ep);
            if active {
                let _ = domain.take(ep, &cm::message("test", cm::Kind::Response, b"").unwrap());
            }
            assert!(matches!(domain.poll_event(), Some((EQ, Entry { event: Event::Connected { .. }, .. }))));
            if state == Draining {
                domain.shutdown(ep, 0, START).unwrap();
            }
        }
        let (domain, ep) = (&mut bench.domain, bench.ep);
        assert_eq!(domain.state(ep), Ok(state));
        let Some(limit) = limit else {
            domain.expire(START.after(Duration::from_secs(1_000_000)));
            assert_eq!((domain.state(ep), domain.next_deadline()), (Ok(state), None));
            continue;
        };
        domain.expire(START.after(limit - Duration::from_nanos(1)));
        assert_eq!((domain.state(ep), domain.poll_event()), (Ok(state), None));
        assert_eq!(domain.next_deadline().map(|at| at.until(START)), Some(limit));
        domain.expire(START.after(limit));
        let (reason, event) = match domain.poll_event() {
            Some((EQ, Entry { event: Event::Error { reason, .. }, .. })) => (reason, Failed),
            Some((EQ, Entry { event: Event::Shutdown { reason }, .. })) => (reason, Disconnected),
            other => panic!("{other:?}"),
        };
        assert_eq!(domain.state(ep), Ok(event));
        assert_eq!(reason.errno(), Errno::ETIMEDOUT);
        let wanted = match state {
            Accepting => Reason::HandshakeTimeout(limit),
            Draining => Reason::ShutdownTimeout(limit),
            _ => Reason::ConnectTimeout(limit),
        };
        assert_eq!(reason, wanted);
        assert_eq!(domain.poll_transport(), Some((ep, TransportCommand::Close)));
        domain.expire(START.after(limit * 2));
        assert_eq!(
            (domain.poll_event(), domain.poll_transport(), domain.next_deadline()),
            (None, None, None)
        );
    }
}

/// What a failed operation says of itself.
#[test]
fn errors_of_operations_say_what_was_wanted_and_found() {
    let error = |errno, provider: Errno, len, overflow| CompletionError {
        context: 0,
        flags: OpFlags::RECV,
        len,
        overflow,
        offset: 0,
        buffer: None,
        data: 0,
        errno,
        provider_errno: provider.raw(),
    };
    let text = error(Errno::ETRUNC, Errno::ETRUNC, 10, 3).to_string();
    assert_eq!(text, "a message of 13 bytes for a receive of 10: 3 lost; post a longer one");
    let text = error(Errno::ECANCELED, Errno::ECONNREFUSED, 0, 0).to_string();
    assert!(text.starts_with("canceled, because the connection is over (Connection refused"), "{text}");
    let text = error(Errno::ECANCELED, Errno::ECANCELED, 0, 0).to_string();
    assert!(text.starts_with("canceled by fi_cancel"), "{text}");
}

/// A peer is gone when it has left unanswered for the limit what it was asked twice, and only then.
#[test]
fn a_peer_that_answers_nothing_is_given_up() {
    use kofi_core::liveness::Answers;
    const LIMIT: Duration = Duration::from_secs(8);
    let at = |seconds| START.after(Duration::from_secs(seconds));
    let silent =
        |seconds| Answers { outstanding: true, unanswered: true, heard: Duration::from_secs(seconds) };
    let answers = Answers { outstanding: true, unanswered: false, heard: LIMIT * 100 };
    for active in [true, false] {
        let mut bench = bench(active, State::Connected);
        let (domain, ep) = (&mut bench.domain, bench.ep);
        while domain.poll_event().is_some() {}
        let limits = TimeLimits { peer: Some(LIMIT), ..TimeLimits::default() };
        domain.set_limits(ep, limits).unwrap();
        domain.post_receive(ep, &PostReceive::default()).unwrap();
        // Idle for an hour, then asked: that is no silence of an hour.
        domain.check_peer(ep, &silent(3600), at(0));
        domain.check_peer(ep, &silent(3607), at(7));
        // It answers, though it takes nothing, and its silence begins anew.
        domain.check_peer(ep, &answers, at(8));
        domain.check_peer(ep, &silent(3607), at(9));
        // Asked again for as long, but heard meanwhile.
        domain.check_peer(ep, &silent(1), at(20));
        assert_eq!(domain.poll_event(), None);
        domain.check_peer(ep, &silent(8), at(21));
        let shutdown = Event::Shutdown { reason: Reason::PeerTimeout(LIMIT) };
        assert_eq!(domain.poll_event().map(|(_, entry)| entry.event), Some(shutdown));
        assert_eq!(domain.poll_transport(), Some((ep, TransportCommand::Close)));
        let error = domain.read_cq_error(bench.cq).unwrap().1;
        assert_eq!((error.errno, error.provider_errno), (Errno::ECANCELED, Errno::ETIMEDOUT.raw()));
        // It is over, once.
        domain.check_peer(ep, &silent(99), at(99));
        assert_eq!(domain.poll_event(), None);
        assert_eq!(domain.endpoint_statistics(ep).unwrap().reason, Some(Reason::PeerTimeout(LIMIT)));
    }
}

/// What the transport reports of a peer that was there before, and what of one that never was.
#[test]
fn silence_that_the_transport_reports_is_told_as_such() {
    let limit = TimeLimits::default().peer.unwrap();
    for errno in [Errno::ETIMEDOUT, Errno::EHOSTUNREACH, Errno::ENETUNREACH] {
        for (state, reason) in [
            (State::Connecting, Reason::Transport(errno)),
            (State::Requested, Reason::PeerTimeout(limit)),
            (State::Connected, Reason::PeerTimeout(limit)),
            (State::Draining, Reason::PeerTimeout(limit)),
        ] {
            let mut bench = bench(true, state);
            bench.domain.transport_failed(bench.ep, errno);
            let statistics = bench.domain.endpoint_statistics(bench.ep).unwrap();
            assert_eq!((statistics.reason, errno), (Some(reason), errno), "{state:?}");
        }
        // The system's own limit.
        let mut bench = bench(true, State::Connected);
        let none = TimeLimits { peer: None, ..TimeLimits::default() };
        bench.domain.set_limits(bench.ep, none).unwrap();
        bench.domain.transport_failed(bench.ep, errno);
        let statistics = bench.domain.endpoint_statistics(bench.ep).unwrap();
        assert_eq!(statistics.reason, Some(Reason::Transport(errno)));
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! A peer that does what it likes: it can end its own connection, once, and nothing else.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test it is an assertion")]

#[allow(dead_code, reason = "each test uses its part")]
mod driver;

use driver::{Host, Pipe};
use kofi_core::memory::Registration;
use kofi_core::message::{PostReceive, Send, WritePlan};
use kofi_core::wire::header::{Header, Kind, MAX_LEN, Segment, Segments};
use kofi_core::wire::{ByteOrder, WireError, cm};
use kofi_core::*;
use proptest::collection::vec;
use proptest::prelude::*;

const START: Instant = Instant::from_nanos(0);

/// An endpoint and the two directions of its connection to the peer, which the test plays.
struct Victim {
    host: Host,
    outgoing: Pipe,
    incoming: Pipe,
}

impl Victim {
    /// An endpoint that waits for the answer to its request.
    fn connecting() -> Self {
        Self::connecting_with(8)
    }

    /// One whose driver writes so many segments at a time.
    fn connecting_with(plan: usize) -> Self {
        let host = Host::active(START, plan, b"");
        let mut victim = Self { host, outgoing: Pipe::default(), incoming: Pipe::default() };
        victim.run(&[]);
        victim
    }

    /// One that is connected, and has had its event.
    fn connected() -> Self {
        Self::connecting().answered()
    }

    fn answered(self) -> Self {
        let mut victim = self;
        victim.run(&cm::message("test", cm::Kind::Response, b"").unwrap());
        assert_eq!(victim.events(), [Event::Connected { data: Vec::new() }]);
        victim
    }

    /// The peer says this.
    fn run(&mut self, bytes: &[u8]) {
        self.incoming.bytes.extend(bytes);
        for _ in 0..2 {
            self.host.write(&mut self.outgoing, usize::MAX);
            self.host.read(&mut self.incoming, usize::MAX);
            self.host.outputs(&mut self.outgoing, &mut self.incoming);
        }
    }

    /// The peer has said this, and ends its stream; nothing is sent to it any more. The time for receives
    /// is over.
    fn leaves_behind(&mut self, bytes: &[u8]) {
        self.incoming.bytes.extend(bytes);
        self.incoming.ended = true;
        self.host.read(&mut self.incoming, usize::MAX);
        self.host.now = self.host.now.after(core::time::Duration::from_secs(60));
        self.host.outputs(&mut self.outgoing, &mut self.incoming);
        assert!(matches!(self.events()[..], [Event::Shutdown { reason: Reason::Unreceived(_) }]));
    }

    /// Receives that are posted one by one, until one is refused: how many messages there are.
    fn receives_what_is_left(&mut self) -> usize {
        for count in 0.. {
            let before = self.host.done.len();
            let receive = PostReceive { len: 8, segments: 1, ..PostReceive::default() };
            if let Err(refused) = self.host.post_receive(&receive, vec![vec![0; 8]]) {
                assert_eq!(refused.errno(), Errno::ESHUTDOWN);
                return count;
            }
            for _ in 0..2 {
                self.host.outputs(&mut self.outgoing, &mut self.incoming);
                self.host.read(&mut self.incoming, usize::MAX);
            }
            self.host.outputs(&mut self.outgoing, &mut self.incoming);
            let done = self.host.done.get(before).expect("a receive that neither gets a message nor ends");
            if let Err(error) = &done.result {
                assert_eq!(error.errno, Errno::ECANCELED);
                return count;
            }
        }
        unreachable!()
    }

    fn receives(&mut self, count: usize, len: u64) {
        for context in 0..count as u64 {
            let receive = PostReceive { len, segments: 1, flags: OpFlags::empty(), context };
            self.host.post_receive(&receive, vec![vec![0; len as usize]]).unwrap();
        }
    }

    fn send(&mut self, flags: OpFlags) {
        let send = Send { len: 8, segments: 1, flags, ..Send::default() };
        self.host.post_send(&send, vec![vec![0; 8]]).unwrap();
    }

    fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Ok(entry) = self.host.eq.read().or_else(|_| self.host.eq.read_error()) {
            events.push(entry.event);
        }
        events
    }

    fn domain(&mut self) -> (&mut Domain, EpId) {
        (&mut self.host.domain, self.host.ep.unwrap())
    }

    /// The connection has ended as it should, with each operation complete.
    fn ended(&mut self, event: Event) {
        assert_eq!(self.events(), [event]);
        assert!(!self.host.open);
        assert_eq!(self.host.done.len() + self.host.released, self.host.posted);
    }
}

fn record(header: Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [0; MAX_LEN];
    let len = header.emit(native(), 0, &mut bytes);
    [&bytes[..len], payload].concat()
}

/// All records of a stream, each with its payload.
fn records(mut log: &[u8]) -> Vec<(Header, Vec<u8>)> {
    let mut records = Vec::new();
    while let Some(base) = log.first_chunk() {
        let len = Header::expected_len(base, native()).unwrap();
        let header = Header::parse(&log[..len], native()).unwrap();
        let (record, rest) = log.split_at(header.record_len() as usize);
        records.push((header, record[len..].to_vec()));
        log = rest;
    }
    assert_eq!(log, [], "a part of a record");
    records
}

fn native() -> ByteOrder {
    if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big }
}

/// What a peer can ask for by the thousand is written in plans of bounded size.
#[test]
fn many_acknowledgements_need_no_more_memory() {
    const MANY: usize = 1000;
    let mut victim = Victim::connected();
    victim.receives(MANY, 0);
    let (domain, ep) = victim.domain();
    // The transport takes nothing while all this arrives.
    let message = record(Header::message(0, None, true), &[]);
    for _ in 0..MANY {
        assert_eq!(domain.take(ep, &message), message::Step::Used(message.len()));
    }
    for segments in [0, 1, 2, 3, 64] {
        let mut plan = WritePlan::new(segments).unwrap();
        domain.plan_write(ep, &mut plan);
        let len = plan.bytes().len();
        assert!((1..=(segments.max(2) / 2 + 1) * MAX_LEN + cm::MAX_LEN).contains(&len), "{len} bytes");
    }
    let before = victim.outgoing.log.len();
    for _ in 0..MANY {
        victim.run(&[]);
    }
    assert_eq!(victim.outgoing.log.len() - before, MANY * 16, "all of them leave in the end");
}

/// Read requests are kept up to a bound; then nothing is read until a response has left.
#[test]
fn read_requests_are_kept_up_to_a_bound() {
    const MOST: usize = 1024;
    let mut victim = Victim::connected();
    let registration =
        Registration { access: OpFlags::REMOTE_READ, requested_key: 1, ..Registration::default() };
    victim.host.register(&registration, (0..100).collect()).unwrap();
    victim.receives(1, 0);
    let (domain, ep) = victim.domain();
    let segments =
        Segments::new(&[Segment { addr: 10, len: 5, key: 1 }, Segment { addr: 99, len: 1, key: 1 }]);
    let kind = Kind::ReadRequest(segments.unwrap());
    let request = record(Header { kind, ack: false, commit: false, payload: 0 }, &[]);
    // The transport takes nothing while all this arrives; an acknowledgement is wanted in between.
    let message = record(Header::message(0, None, true), &[]);
    for number in 0..=MOST {
        if number == 7 {
            assert_eq!(domain.take(ep, &message), message::Step::Used(message.len()));
        }
        assert_eq!(domain.take(ep, &request), message::Step::Used(request.len()));
    }
    assert_eq!(domain.take(ep, &request), message::Step::Blocked);
    assert_eq!(domain.plan_read(ep), None);
    assert_eq!(domain.poll_resumed(), None);
    let before = victim.outgoing.log.len();
    for _ in 0..2 * MOST {
        victim.host.write(&mut victim.outgoing, 10);
    }
    let (domain, ep) = victim.domain();
    assert_eq!(domain.poll_resumed(), Some(ep), "there is room");
    assert_eq!(domain.poll_resumed(), None);
    assert_eq!(domain.take(ep, &request), message::Step::Used(request.len()));
    for _ in 0..2 * MOST {
        victim.host.write(&mut victim.outgoing, 1000);
    }
    let mut log = &victim.outgoing.log[before..];
    for number in 0..MOST + 2 {
        if number == 7 {
            assert_eq!((log[1], log[4]), (0, 2), "the acknowledgement has its place");
            log = &log[16..];
        }
        assert_eq!((log[1], &log[16..22]), (3, &[10, 11, 12, 13, 14, 99][..]), "response {number}");
        log = &log[22..];
    }
    assert_eq!(log, []);
}

/// A response that leaves makes room for what its connection's input waited for. What that is answered with
/// comes behind all that was written together with the response.
#[test]
fn what_goes_on_when_a_response_has_left_is_not_taken_for_written() {
    let plain = |kind, payload| Header { kind, ack: false, commit: false, payload };
    let segment = |len| Segments::new(&[Segment { addr: 0, len, key: 1 }]).unwrap();
    let request = |len| record(plain(Kind::ReadRequest(segment(len)), 0), &[]);
    let write = |ack| {
        let kind = Kind::Write { data: Some(1), segments: segment(0) };
        record(Header { kind, ack, commit: false, payload: 0 }, &[])
    };
    let message = |ack| record(Header::message(0, None, ack), &[]);
    let response = (plain(Kind::ReadResponse, 1), vec![7]);
    let empty_response = (plain(Kind::ReadResponse, 0), vec![]);
    let ack = (Header::ACK, vec![]);
    let send = (Header::message(8, None, false), vec![0; 8]);
    // What arrives, the last of it without room; and what leaves.
    let cases = [
        (
            [write(false).repeat(64), request(1), write(true)].concat(),
            vec![response.clone(), send.clone(), ack.clone()],
        ),
        ([message(false).repeat(64), request(1), message(true)].concat(), vec![response, send.clone(), ack]),
        (request(0).repeat(1025), [vec![empty_response.clone(); 1024], vec![send, empty_response]].concat()),
    ];
    for (arriving, leaving) in cases {
        let mut victim = Victim::connecting_with(4096).answered();
        let access = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
        let registration = Registration { access, requested_key: 1, ..Registration::default() };
        victim.host.register(&registration, vec![7; 10]).unwrap();
        let (domain, ep) = victim.domain();
        domain.set_min_multi_recv(ep, 1).unwrap();
        let several = PostReceive { len: 8, segments: 1, flags: OpFlags::MULTI_RECV, context: 0 };
        victim.host.post_receive(&several, vec![vec![0; 8]]).unwrap();
        let (domain, ep) = victim.domain();
        let mut used = 0;
        while used < arriving.len() {
            let message::Step::Used(count) = domain.take(ep, &arriving[used..]) else { panic!() };
            used += count;
        }
        assert_eq!(domain.plan_read(ep), None, "it waits");
        victim.send(OpFlags::empty());
        // Room for one, but not enough that the peer is told to go on.
        let _ = victim.host.domain.read_cq(victim.host.cq);
        let before = victim.outgoing.log.len();
        for _ in 0..3 {
            victim.host.write(&mut victim.outgoing, usize::MAX);
        }
        assert_eq!(records(&victim.outgoing.log[before..]), leaving);
        assert!(victim.host.domain.plan_read(victim.host.ep.unwrap()).is_some(), "it goes on");
    }
}

/// A peer that is gone reads no responses, and what it asked for holds nothing up.
#[test]
fn nothing_waits_for_replies_that_cannot_be_sent() {
    let mut victim = Victim::connected();
    let registration =
        Registration { access: OpFlags::REMOTE_READ, requested_key: 1, ..Registration::default() };
    victim.host.register(&registration, vec![0; 10]).unwrap();
    let (domain, ep) = victim.domain();
    let kind = Kind::ReadRequest(Segments::new(&[Segment { addr: 0, len: 5, key: 1 }]).unwrap());
    let request = record(Header { kind, ack: false, commit: false, payload: 0 }, &[]);
    while domain.take(ep, &request) != message::Step::Blocked {}
    domain.write_failed(ep);
    assert_eq!(domain.poll_resumed(), Some(ep));
    for _ in 0..5000 {
        assert_eq!(domain.take(ep, &request), message::Step::Used(request.len()));
    }
    assert!(!domain.wants_write(ep));
}

/// Writes that are told wait for room in the queue. After the end of the peer's stream there is a limit for that,
/// which starts again whenever the application reads.
#[test]
fn what_waits_for_a_slow_reader_of_the_queue_is_not_lost() {
    const LIMIT: core::time::Duration = core::time::Duration::from_secs(5);
    for reads in [0, 1, 64] {
        let mut victim = Victim::connected();
        let registration =
            Registration { access: OpFlags::REMOTE_WRITE, requested_key: 1, ..Registration::default() };
        victim.host.register(&registration, vec![0; 10]).unwrap();
        let segments = Segments::new(&[Segment { addr: 0, len: 3, key: 1 }]).unwrap();
        let kind = Kind::Write { data: Some(1), segments };
        let write = record(Header { kind, ack: false, commit: false, payload: 3 }, b"abc");
        victim.incoming.bytes.extend(write.repeat(200));
        victim.incoming.ended = true;
        let mut told = 0;
        for round in 0..400 {
            victim.host.read(&mut victim.incoming, usize::MAX);
            victim.host.now = victim.host.now.after(LIMIT * 4 / 5);
            let now = victim.host.now;
            let cq = victim.host.cq;
            let (domain, ep) = victim.domain();
            domain.expire(now);
            if reads == 0 {
                assert_eq!(domain.state(ep).unwrap() == State::Disconnected, round > 0, "round {round}");
            }
            for _ in 0..reads {
                told += usize::from(domain.read_cq(cq).is_ok());
            }
        }
        assert_eq!(told, if reads == 0 { 0 } else { 200 });
        victim.run(&[]);
        let reason = if reads == 0 { Reason::Unreceived(LIMIT) } else { Reason::Peer };
        assert_eq!(victim.events(), [Event::Shutdown { reason }]);
    }
}

/// The application was told of the end, and may have given its memory to somebody else.
#[test]
fn nothing_is_written_to_memory_after_the_end() {
    let mut victim = Victim::connected();
    let access = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
    let registration = Registration { access, requested_key: 1, ..Registration::default() };
    let mr = victim.host.register(&registration, vec![7; 10]).unwrap();
    let segments = Segments::new(&[Segment { addr: 0, len: 3, key: 1 }]).unwrap();
    let write = record(
        Header { kind: Kind::Write { data: Some(1), segments }, ack: false, commit: false, payload: 3 },
        b"abc",
    );
    let message = record(Header::message(0, None, false), &[]);
    // As many as are kept, and one that waits in the transport.
    victim.leaves_behind(&[message.repeat(65), write, message].concat());
    assert_eq!(victim.receives_what_is_left(), 65);
    assert_eq!(victim.host.regions[mr.index()], Some(vec![7; 10]));
    assert!(!victim.host.open, "the transport is closed");
    assert_eq!(victim.events(), []);
}

/// Requests that cannot be answered any more hold up nothing behind them.
#[test]
fn what_is_left_behind_requests_is_received() {
    let mut victim = Victim::connected();
    let registration =
        Registration { access: OpFlags::REMOTE_READ, requested_key: 1, ..Registration::default() };
    victim.host.register(&registration, vec![0; 10]).unwrap();
    let kind = Kind::ReadRequest(Segments::new(&[Segment { addr: 0, len: 5, key: 1 }]).unwrap());
    let request = record(Header { kind, ack: false, commit: false, payload: 0 }, &[]);
    let message = record(Header::message(0, None, false), &[]);
    victim.leaves_behind(&[message.clone(), request.repeat(2000), message].concat());
    assert_eq!(victim.receives_what_is_left(), 2);
    assert!(!victim.host.open, "the transport is closed");
}

/// A response must be as long as the read.
#[test]
fn a_response_of_another_length_ends_the_connection() {
    for len in [0u64, 7, 9] {
        let mut victim = Victim::connected();
        let read = Send { len: 8, segments: 1, ..Send::default() };
        victim.host.post_read(&read, vec![vec![0; 8]], &[Segment { addr: 0, len: 8, key: 1 }]).unwrap();
        victim.run(&[]);
        let header = Header { kind: Kind::ReadResponse, ack: false, commit: false, payload: len };
        victim.run(&record(header, &vec![0; len as usize]));
        let error = WireError::ResponseLength { found: len, wanted: 8 };
        victim.ended(Event::Shutdown { reason: Reason::Protocol(error) });
    }
}

/// A read whose response is cut in the middle fails before the one behind it.
#[test]
fn reads_fail_in_order() {
    let mut victim = Victim::connected();
    for context in 0..3 {
        let read = Send { len: 8, segments: 1, context, ..Send::default() };
        victim.host.post_read(&read, vec![vec![0; 8]], &[Segment { addr: 0, len: 8, key: 1 }]).unwrap();
    }
    victim.run(&[]);
    let header = Header { kind: Kind::ReadResponse, ack: false, commit: false, payload: 8 };
    victim.run(&record(header, &[0; 5]));
    victim.incoming.ended = true;
    victim.run(&[]);
    let failed: Vec<_> =
        victim.host.done.iter().map(|done| done.result.as_ref().unwrap_err().context).collect();
    assert_eq!(failed, [0, 1, 2]);
}

/// Section 14: records that make no sense here.
#[test]
fn a_record_out_of_place_ends_the_connection() {
    let plain = |kind, payload| Header { kind, ack: false, commit: false, payload };
    let segments = Segments::new(&[Segment { addr: 0, len: 8, key: 1 }]).unwrap();
    let bad = |at: usize, byte: u8| {
        let mut bytes = record(Header::message(8, None, false), &[0; 8]);
        bytes[at] = byte;
        bytes
    };
    let cases = [
        (record(plain(Kind::ReadRequest(segments), 0), &[]), WireError::NoSuchMemory),
        (record(plain(Kind::Write { data: None, segments }, 8), &[0; 8]), WireError::NoSuchMemory),
        (record(plain(Kind::Write { data: Some(1), segments }, 8), &[0; 8]), WireError::NoSuchMemory),
        (record(plain(Kind::ReadResponse, 8), &[0; 8]), WireError::StrayReadResponse),
        (bad(1, 8), WireError::Operation { found: 8 }),
        (bad(6, 24), WireError::HeaderSize { found: 24, wanted: 16 }),
    ];
    for (bytes, error) in cases {
        // Whole, byte by byte, and behind a message that is fine.
        for (piece, before) in [(1000, 0), (1, 0), (1000, 1), (7, 3)] {
            let mut victim = Victim::connected();
            victim.receives(before + 2, 8);
            victim.send(OpFlags::DELIVERY_COMPLETE);
            victim.send(OpFlags::empty());
            victim.run(&[]);
            let mut input = record(Header::message(8, None, false), &[7; 8]).repeat(before);
            input.extend(&bytes);
            for piece in input.chunks(piece) {
                victim.run(piece);
            }
            let received = victim.host.done.iter().filter(|done| done.memory == [7; 8]).count();
            assert_eq!(received, before, "what came before counts");
            victim.ended(Event::Shutdown { reason: Reason::Protocol(error) });
        }
    }
}

/// Sizes are the peer's to choose; what they claim is neither allocated nor added up beyond 64 bits.
#[test]
fn a_message_of_any_size_is_only_a_promise() {
    for room in [0, 5, 20_000] {
        let mut victim = Victim::connected();
        victim.receives(2, room);
        let mut bytes = record(Header::message(0, None, true), &[]);
        bytes[8..16].fill(0xff);
        victim.run(&bytes);
        for _ in 0..100 {
            victim.run(&[1; 1000]);
        }
        assert!(victim.host.done.is_empty());
        victim.incoming.ended = true;
        victim.run(&[]);
        victim.ended(Event::Shutdown { reason: Reason::Cut });
    }
}

#[test]
fn a_wrong_answer_fails_the_endpoint() {
    let message = |kind| cm::message("test", kind, b"sorry").unwrap();
    let mut long = message(cm::Kind::Response);
    long[2..4].copy_from_slice(&257u16.to_be_bytes());
    let broken = |error| (Reason::Protocol(error), Vec::new());
    let cases = [
        (message(cm::Kind::Nack), (Reason::Rejected, b"sorry".to_vec())),
        (message(cm::Kind::Request), broken(WireError::MessageType { found: 0, wanted: "response or nack" })),
        (b"HTTP/1.1 400 Bad Request".to_vec(), broken(WireError::Version { found: b'H' })),
        (b"-".to_vec(), broken(WireError::Version { found: b'-' })),
        (long, broken(WireError::DataLength { found: 257 })),
    ];
    for (bytes, (reason, data)) in cases {
        for piece in [1000, 1, 31, 33] {
            let mut victim = Victim::connecting();
            victim.receives(3, 8);
            for piece in bytes.chunks(piece) {
                victim.run(piece);
            }
            victim.ended(Event::Error { reason, data: data.clone() });
            // Nothing that comes later makes a difference.
            victim.run(&message(cm::Kind::Response));
            assert_eq!(victim.events(), []);
        }
    }
}

#[test]
fn an_end_is_told_by_where_it_comes() {
    let response = cm::message("test", cm::Kind::Response, b"").unwrap();
    for len in 0..response.len() {
        let mut victim = Victim::connecting();
        victim.incoming.ended = true;
        victim.run(&response[..len]);
        victim.ended(Event::Error { reason: Reason::NoAnswer, data: Vec::new() });
    }
    let message = record(Header::message(8, Some(1), true), &[0; 8]);
    for len in 0..=message.len() {
        let mut victim = Victim::connected();
        victim.receives(2, 8);
        victim.incoming.ended = true;
        victim.run(&message[..len]);
        let reason = if [0, message.len()].contains(&len) { Reason::Peer } else { Reason::Cut };
        victim.ended(Event::Shutdown { reason });
    }
}

proptest! {
    #[test]
    fn any_bytes_end_the_connection_at_most_once(
        answer in prop::bool::weighted(0.8),
        records in vec(
            prop_oneof![
                3 => (0u8..9, 0u8..16, 0u8..3, 0u8..5, 2u8..16, 0u64..300, vec(any::<u8>(), 0..200)).prop_map(
                    |(op, flags, op_data, count, words, size, rest)| {
                        let front = [3, op, flags, 0, op_data, count, words * 8, 0];
                        [&front[..], &size.to_le_bytes(), &rest].concat()
                    }
                ),
                3 => (0usize..100, any::<bool>()).prop_map(|(len, ack)| {
                    record(Header::message(len as u64, None, ack), &vec![1; len])
                }),
                1 => vec(any::<u8>(), 0..100),
            ],
            0..12,
        ),
        pieces in vec(1usize..60, 1..6),
        receives in 0usize..10,
        sends in vec(any::<bool>(), 0..6),
    ) {
        let mut results = Vec::new();
        for pieces in [&[usize::MAX][..], &pieces] {
            let mut victim = if answer { Victim::connected() } else { Victim::connecting() };
            victim.receives(receives, 50);
            if answer {
                for &complete in &sends {
                    victim.send(if complete { OpFlags::DELIVERY_COMPLETE } else { OpFlags::empty() });
                }
            }
            victim.run(&[]);
            let input = records.concat();
            let mut rest = &input[..];
            for &piece in pieces.iter().cycle() {
                let (now, later) = rest.split_at(piece.min(rest.len()));
                victim.run(now);
                if later.is_empty() {
                    break;
                }
                rest = later;
            }
            victim.incoming.ended = true;
            victim.run(&[]);
            victim.host.now = START.after(core::time::Duration::from_secs(20));
            victim.run(&[]);
            // What came before the end can be received after it.
            while victim.host.open {
                victim.receives(1, 50);
                victim.run(&[]);
            }
            let events = victim.events();
            match &events[..] {
                [Event::Shutdown { .. }] => prop_assert!(answer),
                // Random bytes may be an answer.
                [Event::Error { .. }] | [Event::Connected { .. }, Event::Shutdown { .. }] => {
                    prop_assert!(!answer);
                }
                _ => panic!("{events:?}"),
            }
            prop_assert!(!victim.host.open);
            prop_assert_eq!(victim.host.done.len() + victim.host.released, victim.host.posted);
            let done: Vec<_> =
                victim.host.done.into_iter().map(|done| (done.result, done.memory)).collect();
            results.push((events, done));
        }
        prop_assert_eq!(&results[0], &results[1], "pieces make no difference");
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Peers that break the protocol, or say nothing: they lose their own connection, and nobody else
//! notices.
//!
//! Cases that send what not every implementation bears ask for [`hardened`] worlds.

use core::time::Duration;

use kofi_core::{Errno, OpFlags};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{Endpoint, Event, Raw, RawListener, ReceiveOp, SendOp, SocketAddr};

/// Long enough for what was written to arrive, so that the next bytes come apart.
const APART: Duration = Duration::from_millis(2);

/// A connection message.
fn message(kind: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    bytes[0] = 3;
    bytes[1] = kind;
    bytes[2..4].copy_from_slice(&(data.len() as u16).to_be_bytes());
    if kind != NACK {
        bytes[24..32].copy_from_slice(&1u64.to_ne_bytes());
    }
    bytes.extend_from_slice(data);
    bytes
}

const REQUEST: u8 = 0;
const RESPONSE: u8 = 1;
const NACK: u8 = 6;

/// A data header's fields, for records that are as wrong as a case wants.
#[derive(Clone, Copy)]
struct Record {
    version: u8,
    op: u8,
    flags: u16,
    op_data: u8,
    segments: u8,
    header: u8,
    sequence: u8,
    size: u64,
}

impl Record {
    /// A message of `len` bytes.
    const fn message(len: u64) -> Self {
        Self { version: 3, op: 0, flags: 0, op_data: 0, segments: 0, header: 16, sequence: 0, size: 16 + len }
    }

    fn bytes(&self, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![self.version, self.op];
        bytes.extend_from_slice(&self.flags.to_ne_bytes());
        bytes.extend_from_slice(&[self.op_data, self.segments, self.header, self.sequence]);
        bytes.extend_from_slice(&self.size.to_ne_bytes());
        bytes.extend_from_slice(rest);
        bytes
    }
}

fn write(world: &mut dyn World, peer: Raw, bytes: &[u8]) {
    if let Some(raw) = world.raw() {
        raw.write(peer, bytes);
    }
}

/// Writes the bytes in two pieces that arrive apart.
fn write_apart(world: &mut dyn World, peer: Raw, bytes: &[u8], at: usize) {
    write(world, peer, &bytes[..at]);
    run_for(world, APART);
    write(world, peer, &bytes[at..]);
}

/// The peer goes, in good order or not.
fn leave(world: &mut dyn World, peer: Raw, reset: bool) {
    if let Some(raw) = world.raw() {
        if reset { raw.reset(peer) } else { raw.close(peer) }
    }
}

#[track_caller]
fn read(world: &mut dyn World, peer: Raw, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    run_until(world, PATIENCE, |world| {
        if let Some(raw) = world.raw() {
            bytes.extend(raw.read(peer));
        }
        bytes.len() >= len
    });
    assert_eq!(bytes.len(), len, "{bytes:02x?}");
    bytes
}

/// The connection ends without another byte.
#[track_caller]
fn closed(world: &mut dyn World, peer: Raw) {
    let mut bytes = Vec::new();
    let ended = run_until(world, PATIENCE, |world| {
        world.raw().is_some_and(|raw| {
            bytes.extend(raw.read(peer));
            raw.ended(peer)
        })
    });
    assert!(ended, "still open");
    assert!(bytes.is_empty(), "an answer: {bytes:02x?}");
}

#[track_caller]
fn raw_connect(world: &mut dyn World, address: SocketAddr) -> Raw {
    world.raw().map_or_else(|| panic!("the case has asked for raw peers"), |raw| raw.connect(address))
}

/// The next raw connection that somebody made.
#[track_caller]
fn raw_accept(world: &mut dyn World, listener: RawListener) -> Raw {
    let mut peer = None;
    run_until(world, PATIENCE, |world| {
        peer = world.raw().and_then(|raw| raw.accept(listener));
        peer.is_some()
    });
    peer.unwrap_or_else(|| panic!("nobody connected"))
}

/// A raw client that was accepted by an endpoint of the server.
fn accepted(world: &mut dyn World, pair: &Pair) -> (Raw, Endpoint) {
    let peer = raw_connect(world, pair.address);
    write(world, peer, &message(REQUEST, &[]));
    let (request, _) = request(world, pair.server.eq);
    let server = pair.server.endpoint(world, Some(request));
    ok(world.accept(server, &[]));
    connected(world, pair.server.eq, server);
    assert_eq!(read(world, peer, 32), message(RESPONSE, &[]));
    (peer, server)
}

/// A client endpoint and the raw server it asked; the request has been read.
fn asked(world: &mut dyn World, side: &Side, listener: RawListener, address: SocketAddr) -> (Endpoint, Raw) {
    let ep = side.endpoint(world, None);
    ok(world.connect(ep, Some(address), b"hi"));
    let peer = raw_accept(world, listener);
    assert_eq!(read(world, peer, 34), message(REQUEST, b"hi"));
    (ep, peer)
}

fn listener(world: &mut dyn World, side: &Side) -> Result<(RawListener, SocketAddr), super::Lacking> {
    let address = side.address(world);
    Ok(raw(world)?.listen(address))
}

/// Wire 14, row 1: what is no request is closed without an answer, and the application sees nothing.
pub fn nonsense_is_no_request(world: &mut dyn World) -> Outcome {
    hardened(world)?;
    let pair = Pair::open(world);
    let mut wrong_version = message(REQUEST, b"data");
    wrong_version[0] = 4;
    let mut too_long = message(REQUEST, &[]);
    too_long[2..4].copy_from_slice(&257u16.to_be_bytes());
    let mut far_too_long = message(REQUEST, &[]);
    far_too_long[2..4].copy_from_slice(&u16::MAX.to_be_bytes());
    let stimuli: Vec<Vec<u8>> = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        vec![0; 32],
        vec![0xff; 400],
        b"\n".to_vec(),
        wrong_version,
        too_long,
        far_too_long,
        message(NACK, b"no"),
    ]
    .into_iter()
    .chain((1..=11).filter(|&kind| kind != NACK).map(|kind| message(kind, &[])))
    .collect();
    for bytes in stimuli {
        let peer = raw(world)?.connect(pair.address);
        write(world, peer, &bytes);
        closed(world, peer);
    }
    silent(world, pair.server.eq);
    pair.connect(world).close(world);
    PASSED
}

/// Wire 14, row 2: a request may come in pieces.
pub fn a_request_may_come_in_pieces(world: &mut dyn World) -> Outcome {
    hardened(world)?;
    let pair = Pair::open(world);
    let bytes = message(REQUEST, b"in two pieces");
    for at in 0..=bytes.len() {
        let peer = raw(world)?.connect(pair.address);
        write_apart(world, peer, &bytes, at);
        let (request, data) = request(world, pair.server.eq);
        assert_eq!(data, b"in two pieces");
        ok(world.reject(request, b"no"));
        assert_eq!(read(world, peer, 34), message(NACK, b"no"));
        closed(world, peer);
    }
    pair.close(world);
    PASSED
}

/// Wire 3.2: an answer may come in pieces: response and nack.
pub fn an_answer_may_come_in_pieces(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let (listener, address) = listener(world, &side)?;
    for kind in [RESPONSE, NACK] {
        let bytes = message(kind, b"an answer");
        for at in 0..=bytes.len() {
            let (ep, peer) = asked(world, &side, listener, address);
            write_apart(world, peer, &bytes, at);
            if kind == RESPONSE {
                assert_eq!(connected(world, side.eq, ep), b"an answer");
            } else {
                let error = event_error(world, side.eq);
                assert_eq!((error.errno, error.data.as_slice()), (Errno::ECONNREFUSED, &b"an answer"[..]));
            }
            ok(world.close_ep(ep));
            refused(world.eq_read(side.eq), Errno::EAGAIN);
        }
    }
    side.close(world);
    PASSED
}

/// D7: a peer that goes at any byte of its answer: one error entry.
pub fn a_peer_goes_at_each_byte_of_its_answer(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let (listener, address) = listener(world, &side)?;
    let bytes = message(RESPONSE, b"an answer");
    for len in 0..bytes.len() {
        for reset in [false, true] {
            let (ep, peer) = asked(world, &side, listener, address);
            write(world, peer, &bytes[..len]);
            run_for(world, APART);
            leave(world, peer, reset);
            assert_eq!(event_error(world, side.eq).errno, Errno::ECONNRESET);
            ok(world.close_ep(ep));
            refused(world.eq_read(side.eq), Errno::EAGAIN);
        }
    }
    side.close(world);
    PASSED
}

/// D7: a peer that goes at any byte of its request: nothing is seen of it.
pub fn a_peer_goes_at_each_byte_of_its_request(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    raw(world)?;
    let bytes = message(REQUEST, b"request");
    for len in 0..bytes.len() {
        for reset in [false, true] {
            let peer = raw(world)?.connect(pair.address);
            write(world, peer, &bytes[..len]);
            run_for(world, APART);
            leave(world, peer, reset);
        }
    }
    silent(world, pair.server.eq);
    pair.connect(world).close(world);
    PASSED
}

/// Wire 3.2, 10.3: an answer that is none: one error entry.
pub fn nonsense_is_no_answer(world: &mut dyn World) -> Outcome {
    hardened(world)?;
    let side = Side::open(world);
    let (listener, address) = listener(world, &side)?;
    let mut wrong_version = message(RESPONSE, &[]);
    wrong_version[0] = 1;
    let mut too_long = message(NACK, &[]);
    too_long[2..4].copy_from_slice(&300u16.to_be_bytes());
    let stimuli = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        b"SSH-2.0-OpenSSH\r\n".to_vec(),
        wrong_version,
        too_long,
        message(REQUEST, &[]),
        message(7, &[]),
    ];
    for bytes in stimuli {
        let (ep, peer) = asked(world, &side, listener, address);
        write(world, peer, &bytes);
        event_error(world, side.eq);
        closed(world, peer);
        silent(world, side.eq);
        ok(world.close_ep(ep));
    }
    side.close(world);
    PASSED
}

/// D12: a request that comes a byte at a time for ever is over the limit in the end; others are
/// served meanwhile.
pub fn a_dribbled_request_is_dropped_in_time(world: &mut dyn World) -> Outcome {
    hardened(world)?;
    let pair = Pair::open(world);
    ok(world.set_pep_limits(pair.pep, short_limits()));
    let peer = raw(world)?.connect(pair.address);
    let bytes = message(REQUEST, &[0; 256]);
    let connection = pair.connect(world);
    for byte in &bytes[..40] {
        write(world, peer, core::slice::from_ref(byte));
        run_for(world, Duration::from_millis(10));
    }
    closed(world, peer);
    silent(world, pair.server.eq);
    connection.exchange(world, b"undisturbed");
    connection.close(world);
    PASSED
}

/// D12: an answer that comes too slowly is a timeout at the client.
pub fn a_dribbled_answer_is_an_error_in_time(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let (listener, address) = listener(world, &side)?;
    let ep = side.endpoint(world, None);
    ok(world.set_ep_limits(ep, short_limits()));
    ok(world.connect(ep, Some(address), b"hi"));
    let peer = raw_accept(world, listener);
    for byte in &message(RESPONSE, &[0; 200])[..30] {
        write(world, peer, core::slice::from_ref(byte));
        run_for(world, Duration::from_millis(10));
    }
    assert_eq!(event_error(world, side.eq).errno, Errno::ETIMEDOUT);
    ok(world.close_ep(ep));
    side.close(world);
    PASSED
}

/// Wire 3.2: records right behind the answer, in one piece with it, are not lost.
pub fn records_behind_the_answer_are_received(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let (listener, address) = listener(world, &side)?;
    let mut bytes = message(RESPONSE, b"welcome");
    bytes.extend(Record::message(5).bytes(b"first"));
    bytes.extend(Record { sequence: 1, ..Record::message(6) }.bytes(b"second"));
    for at in 0..=bytes.len() {
        let (ep, peer) = asked(world, &side, listener, address);
        ok(world.recv(ep, ReceiveOp::new(16, 1)));
        ok(world.recv(ep, ReceiveOp::new(16, 2)));
        write_apart(world, peer, &bytes, at);
        assert_eq!(connected(world, side.eq, ep), b"welcome");
        assert_eq!(completion(world, side.cq).buffers[0][..5], *b"first");
        assert_eq!(completion(world, side.cq).buffers[0][..6], *b"second");
        ok(world.close_ep(ep));
    }
    side.close(world);
    PASSED
}

/// Wire 3.2: records that come with the request wait for the accept.
pub fn records_behind_the_request_are_received(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let peer = raw(world)?.connect(pair.address);
    let mut bytes = message(REQUEST, b"hasty");
    bytes.extend(Record::message(5).bytes(b"first"));
    write(world, peer, &bytes);
    let (request, data) = request(world, pair.server.eq);
    assert_eq!(data, b"hasty");
    let server = pair.server.endpoint(world, Some(request));
    ok(world.enable(server));
    ok(world.recv(server, ReceiveOp::new(16, 1)));
    ok(world.accept(server, &[]));
    connected(world, pair.server.eq, server);
    assert_eq!(completion(world, pair.server.cq).buffers[0][..5], *b"first");
    ok(world.close_ep(server));
    pair.close(world);
    PASSED
}

/// Wire 5, 6.1, 7: messages, with data and with an acknowledgement wanted, split at every byte.
pub fn a_stream_may_be_split_anywhere(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    raw(world)?;
    let mut bytes = Record::message(0).bytes(&[]);
    let with_data = Record { flags: 1, header: 24, size: 24 + 6, sequence: 1, ..Record::message(0) };
    let mut rest = 0x1122_3344_5566_7788_u64.to_ne_bytes().to_vec();
    rest.extend_from_slice(b"second");
    bytes.extend(with_data.bytes(&rest));
    bytes.extend(Record { flags: 4, sequence: 2, ..Record::message(5) }.bytes(b"third"));
    for at in 0..=bytes.len() {
        let (peer, server) = accepted(world, &pair);
        for context in 0..3 {
            ok(world.recv(server, ReceiveOp::new(16, context)));
        }
        write_apart(world, peer, &bytes, at);
        assert_eq!(completion(world, pair.server.cq).len, 0);
        let second = completion(world, pair.server.cq);
        assert!(second.flags.contains(OpFlags::REMOTE_CQ_DATA));
        assert_eq!((second.len, second.data, &second.buffers[0][..6]), (6, 0x1122_3344_5566_7788, &b"second"[..]));
        let third = completion(world, pair.server.cq);
        assert_eq!((third.len, &third.buffers[0][..5]), (5, &b"third"[..]));
        // One acknowledgement: 16 bytes, op 0, op_data 2, number 0.
        let ack = Record { op_data: 2, ..Record::message(0) };
        assert_eq!(read(world, peer, 16), ack.bytes(&[]));
        ok(world.close_ep(server));
        closed(world, peer);
    }
    pair.close(world);
    PASSED
}

/// Wire 10, D8: a peer that goes at any byte of a message: the receive fails once, then FI_SHUTDOWN.
pub fn a_peer_goes_at_each_byte_of_a_message(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    raw(world)?;
    let bytes = Record { flags: 1, header: 24, size: 24 + 9, ..Record::message(0) }.bytes(b"12345678123456789");
    for len in 0..bytes.len() {
        for reset in [false, true] {
            let (peer, server) = accepted(world, &pair);
            ok(world.recv(server, ReceiveOp::new(16, 1)));
            write(world, peer, &bytes[..len]);
            run_for(world, APART);
            leave(world, peer, reset);
            shut_down(world, pair.server.eq, server);
            refused(world.cq_read(pair.server.cq), Errno::EAVAIL);
            let failed = ok(world.cq_readerr(pair.server.cq));
            assert_eq!((failed.context, failed.errno), (1, Errno::ECANCELED));
            refused(world.cq_read(pair.server.cq), Errno::EAGAIN);
            ok(world.close_ep(server));
        }
    }
    pair.close(world);
    PASSED
}

/// Wire 10, D11: what a peer sent whole before it went is received, however it went, and then FI_SHUTDOWN comes. What
/// it did not send whole is not.
pub fn what_a_peer_sent_before_it_went_is_received(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    raw(world)?;
    let bytes = Record::message(5).bytes(b"hello");
    for more in [0, 10, 18] {
        for reset in [false, true] {
            let (peer, server) = accepted(world, &pair);
            write(world, peer, &bytes);
            write(world, peer, &bytes);
            write(world, peer, &bytes[..more]);
            run_for(world, APART);
            leave(world, peer, reset);
            run_for(world, APART);
            silent(world, pair.server.eq);
            for context in 0..2 {
                ok(world.recv(server, ReceiveOp::new(8, context)));
                let done = completion(world, pair.server.cq);
                assert_eq!((done.context, done.len), (context, 5));
            }
            shut_down(world, pair.server.eq, server);
            no_completion(world, pair.server.cq);
            ok(world.close_ep(server));
        }
    }
    pair.close(world);
    PASSED
}

/// D11: a shutdown sends what is queued, but not to a peer whose connection is known to be broken.
pub fn a_shutdown_after_a_reset_waits_for_nothing(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    raw(world)?;
    let (peer, server) = accepted(world, &pair);
    write(world, peer, &Record::message(5).bytes(b"hello"));
    let send = SendOp::new(*b"acknowledge this", 1).flags(OpFlags::DELIVERY_COMPLETE);
    ok(world.send(server, send));
    run_for(world, APART);
    if let Some(raw) = world.raw() {
        raw.reset(peer);
    }
    run_for(world, APART);
    silent(world, pair.server.eq);
    let start = world.now();
    ok(world.shutdown(server, 0));
    shut_down(world, pair.server.eq, server);
    assert!(world.now() - start < Duration::from_secs(2), "it waited for what cannot come");
    assert_eq!(completion_error(world, pair.server.cq).errno, Errno::ECANCELED);
    ok(world.close_ep(server));
    pair.close(world);
    PASSED
}

/// Wire 14: fields that stock ignores are ignored.
pub fn what_is_ignored_is_ignored(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    raw(world)?;
    let (peer, server) = accepted(world, &pair);
    let base = Record::message(4);
    let odd = [
        Record { version: 77, ..base },
        Record { sequence: 200, ..base },
        Record { segments: 9, ..base },
        Record { flags: 1 << 1, ..base },
        Record { flags: 0xff00, ..base },
        Record { flags: 1 << 7, ..base },
    ];
    for record in odd {
        ok(world.recv(server, ReceiveOp::new(16, 1)));
        write(world, peer, &record.bytes(b"fine"));
        assert_eq!(completion(world, pair.server.cq).buffers[0][..4], *b"fine");
    }
    ok(world.close_ep(server));
    pair.close(world);
    PASSED
}

/// Wire 14: records that no peer may send end the connection, with one FI_SHUTDOWN, and only that.
pub fn broken_records_end_their_connection(world: &mut dyn World) -> Outcome {
    hardened(world)?;
    let pair = Pair::open(world);
    let other = pair.connect(world);
    let base = Record::message(0);
    let mut records: Vec<(Record, Vec<u8>)> = Vec::new();
    for op in (8..=255).step_by(13) {
        records.push((Record { op, ..base }, vec![]));
    }
    for header in [0, 1, 15, 17, 24, 32, 120, 121, 255] {
        records.push((Record { header, size: 300, ..base }, vec![0; 300]));
    }
    for size in [0, 1, 15] {
        records.push((Record { size, ..base }, vec![]));
    }
    // Completion data that the header has no room for, or the record.
    records.push((Record { flags: 1, ..base }, vec![0; 8]));
    records.push((Record { flags: 1, header: 24, size: 23, ..base }, vec![0; 8]));
    // Acknowledgements, read responses and rendezvous that nothing waits for.
    records.push((Record { op_data: 2, ..base }, vec![]));
    records.push((Record { op_data: 2, size: 17, ..base }, vec![0]));
    records.push((Record { op: 3, ..base }, vec![]));
    records.push((Record { op: 3, size: 32, ..base }, vec![0; 16]));
    for op in [1, 5, 6, 7] {
        records.push((Record { op, header: 24, size: 24, ..base }, vec![0; 8]));
        records.push((Record { op, ..base }, vec![]));
    }
    // Remote access: no segments, too many, lengths that disagree, and no such memory.
    for op in [2, 4] {
        for segments in [0, 1, 2, 4, 5, 255] {
            let header = (16 + 24 * usize::from(segments)).min(255) as u8;
            let extra = usize::from(segments) * 24;
            records.push((Record { op, segments, header, size: u64::from(header), ..base }, vec![0; extra]));
            records.push((Record { op, segments, header, size: u64::from(header) + 8, ..base }, vec![0xff; extra + 8]));
        }
    }
    for (record, rest) in records {
        let (peer, server) = accepted(world, &pair);
        ok(world.recv(server, ReceiveOp::new(16, 1)));
        write(world, peer, &record.bytes(&rest));
        shut_down(world, pair.server.eq, server);
        assert_eq!(completion_error(world, pair.server.cq).errno, Errno::ECANCELED);
        closed(world, peer);
        ok(world.close_ep(server));
        refused(world.eq_read(pair.server.eq), Errno::EAGAIN);
    }
    other.exchange(world, b"undisturbed");
    other.close(world);
    PASSED
}

/// Records that claim to be enormous: no memory is asked for, what is received is cut off.
pub fn an_enormous_record_is_only_a_number(world: &mut dyn World) -> Outcome {
    hardened(world)?;
    let pair = Pair::open(world);
    for size in [1 << 31, 1 << 32, 1 << 63, u64::MAX] {
        let (peer, server) = accepted(world, &pair);
        ok(world.recv(server, ReceiveOp::new(16, 1)));
        write(world, peer, &Record { size, ..Record::message(0) }.bytes(&[7; 5000]));
        run_for(world, APART);
        if let Some(raw) = world.raw() {
            raw.close(peer);
        }
        shut_down(world, pair.server.eq, server);
        assert_eq!(completion_error(world, pair.server.cq).errno, Errno::ECANCELED);
        ok(world.close_ep(server));
    }
    pair.close(world);
    PASSED
}

/// Wire 3.1, 5, 10: the exact bytes of a connection: request, records in order, their numbers, end.
pub fn our_bytes_are_exact(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let (listener, address) = listener(world, &side)?;
    let (ep, peer) = asked(world, &side, listener, address);
    write(world, peer, &message(RESPONSE, &[]));
    connected(world, side.eq, ep);
    for number in 0..=256_u64 {
        let data = (number % 2 == 1).then_some(number);
        ok(world.send(ep, SendOp { data, ..SendOp::new(*b"abc", number) }));
        let record = Record { sequence: number as u8, ..Record::message(3) };
        let wanted = if number % 2 == 1 {
            let mut rest = number.to_ne_bytes().to_vec();
            rest.extend_from_slice(b"abc");
            Record { flags: 1, header: 24, size: 27, ..record }.bytes(&rest)
        } else {
            record.bytes(b"abc")
        };
        assert_eq!(read(world, peer, wanted.len()), wanted, "record {number}");
        assert_eq!(completion(world, side.cq).context, number);
    }
    ok(world.shutdown(ep, 0));
    shut_down(world, side.eq, ep);
    closed(world, peer);
    ok(world.close_ep(ep));
    side.close(world);
    PASSED
}

/// Wire 4: a peer whose probe is not ours speaks big endian from then on, and is spoken to likewise.
pub fn a_peer_of_the_other_byte_order(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let peer = raw(world)?.connect(pair.address);
    let mut request_bytes = message(REQUEST, &[]);
    request_bytes[24..32].copy_from_slice(&1u64.swap_bytes().to_ne_bytes());
    write(world, peer, &request_bytes);
    let (request, _) = request(world, pair.server.eq);
    let server = pair.server.endpoint(world, Some(request));
    ok(world.enable(server));
    ok(world.recv(server, ReceiveOp::new(16, 1)));
    ok(world.accept(server, &[]));
    connected(world, pair.server.eq, server);
    read(world, peer, 32);
    let mut bytes = vec![3, 0, 0, 4, 0, 0, 16, 0];
    bytes.extend_from_slice(&21u64.to_be_bytes());
    bytes.extend_from_slice(b"hello");
    write(world, peer, &bytes);
    assert_eq!(completion(world, pair.server.cq).buffers[0][..5], *b"hello");
    let mut ack = vec![3, 0, 0, 0, 2, 0, 16, 0];
    ack.extend_from_slice(&16u64.to_be_bytes());
    assert_eq!(read(world, peer, 16), ack);
    ok(world.close_ep(server));
    pair.close(world);
    PASSED
}

/// A crowd of silent peers does not keep an honest one out.
pub fn a_silent_crowd_keeps_nobody_out(world: &mut dyn World) -> Outcome {
    // As many transport connections as this cannot be had everywhere.
    faults(world)?;
    let pair = Pair::open(world);
    let crowd: Vec<Raw> = (0..1500).filter_map(|_| world.raw().map(|raw| raw.connect(pair.address))).collect();
    run_for(world, A_WHILE);
    let connection = pair.connect(world);
    connection.exchange(world, b"excuse me");
    let open = crowd.iter().filter(|&&peer| world.raw().is_some_and(|raw| !raw.ended(peer))).count();
    assert!(open <= 1024, "{open} silent connections are kept");
    connection.close(world);
    PASSED
}

/// Bytes of every kind, one wrong at a time: nothing but that connection ever notices.
pub fn one_wrong_byte_anywhere(world: &mut dyn World) -> Outcome {
    hardened(world)?;
    let pair = Pair::open(world);
    let other = pair.connect(world);
    let mut stream = message(REQUEST, b"xy");
    stream.extend(Record { flags: 4, ..Record::message(4) }.bytes(b"good"));
    stream.extend(Record { sequence: 1, ..Record::message(4) }.bytes(b"more"));
    for at in 0..stream.len() {
        for value in [0, 1, 2, 5, 0x7f, 0xff] {
            let mut bytes = stream.clone();
            bytes[at] ^= value;
            let peer = raw(world)?.connect(pair.address);
            write(world, peer, &bytes);
            run_for(world, APART);
            if let Some(raw) = world.raw() {
                raw.finish(peer);
            }
            run_for(world, APART);
            if let Ok(Event::ConnectionRequest { request, .. }) = world.eq_read(pair.server.eq) {
                let server = pair.server.endpoint(world, request);
                ok(world.enable(server));
                ok(world.recv(server, ReceiveOp::new(2, 1)));
                let _ = world.accept(server, &[]);
                run_for(world, APART * 2);
                ok(world.close_ep(server));
                let mut completions = 0;
                while !matches!(world.cq_read(pair.server.cq), Err(error) if error.errno() == Errno::EAGAIN) {
                    completions += 1;
                    let _ = world.cq_readerr(pair.server.cq);
                    assert!(completions <= 1, "completed twice");
                }
                assert_eq!(completions, 1, "did not complete");
            }
            if let Some(raw) = world.raw() {
                raw.close(peer);
            }
            refused(world.eq_read(pair.server.eq), Errno::EAGAIN);
        }
    }
    other.exchange(world, b"undisturbed");
    other.close(world);
    PASSED
}

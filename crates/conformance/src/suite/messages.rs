// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Sends and receives: contents, order, completions, limits.

use kofi_core::attr::CqAttr;
use kofi_core::{EndpointAttr, Errno, OpFlags};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{RegionOp, RmaIov, CompletionQueue, ReceiveOp, SendOp};

fn chunks(bytes: &[u8], lens: &[usize]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut out = Vec::new();
    for &len in lens {
        let (piece, tail) = rest.split_at(len.min(rest.len()));
        out.push(piece.to_vec());
        rest = tail;
    }
    out.push(rest.to_vec());
    out
}

fn joined(buffers: &[Vec<u8>], len: u64) -> Vec<u8> {
    let mut all = buffers.concat();
    all.truncate(len as usize);
    all
}

/// Messages of many lengths arrive as they were sent, both ways.
pub fn messages_of_any_length_arrive(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    for len in [0, 1, 15, 16, 17, 100, 4095, 4096, 65_535, 65_536, 300_000] {
        let bytes = pattern(len as u64, len);
        connection.exchange(world, &bytes);
        ok(world.recv(connection.client, ReceiveOp::new(len, 1)));
        ok(world.send(connection.server, SendOp::new(bytes.clone(), 2)));
        let done = completion(world, pair.client.cq);
        assert_eq!((done.context, done.len), (1, len as u64));
        assert!(done.buffers[0] == bytes, "contents of {len} bytes");
        assert_eq!(completion(world, pair.server.cq).context, 2);
    }
    connection.close(world);
    PASSED
}

/// What completions say: context and kind; a receive's length; nothing of remote data.
pub fn completions_say_what_they_were(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    ok(world.recv(connection.server, ReceiveOp::new(100, u64::MAX)));
    ok(world.send(connection.client, SendOp::new(*b"seven..", 0)));
    let received = completion(world, connection.pair.server.cq);
    assert_eq!(received.context, u64::MAX);
    assert!(received.flags.contains(OpFlags::MSG | OpFlags::RECV), "{:?}", received.flags);
    assert!(!received.flags.contains(OpFlags::REMOTE_CQ_DATA));
    assert_eq!(received.len, 7);
    let sent = completion(world, connection.pair.client.cq);
    assert_eq!(sent.context, 0);
    assert!(sent.flags.contains(OpFlags::MSG | OpFlags::SEND), "{:?}", sent.flags);
    connection.close(world);
    PASSED
}

/// Completion data of any value arrives with its message, and with no other.
pub fn completion_data_arrives(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    for (number, data) in [Some(0), None, Some(u64::MAX), Some(0x1122_3344_5566_7788)].into_iter().enumerate() {
        for len in [0, 32] {
            ok(world.recv(connection.server, ReceiveOp::new(32, number as u64)));
            let send = SendOp { data, ..SendOp::new(pattern(1, len), 9) };
            ok(world.send(connection.client, send));
            let done = completion(world, connection.pair.server.cq);
            assert_eq!(done.flags.contains(OpFlags::REMOTE_CQ_DATA), data.is_some());
            assert_eq!((done.len, done.data), (len as u64, data.unwrap_or(0)));
            completion(world, connection.pair.client.cq);
        }
    }
    connection.close(world);
    PASSED
}

/// Segments of any shape make one message, and one message fills segments of any shape.
pub fn segments_gather_and_scatter(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let bytes = pattern(8, 1000);
    let shapes: [&[usize]; 5] = [&[], &[1], &[0, 999], &[10, 0, 20], &[300, 300, 300]];
    for outgoing in shapes {
        for incoming in shapes {
            let buffers = chunks(&vec![0; 1000], incoming);
            ok(world.recv(connection.server, ReceiveOp { buffers, context: 1, ..ReceiveOp::default() }));
            let buffers = chunks(&bytes, outgoing);
            ok(world.send(connection.client, SendOp { buffers, context: 2, ..SendOp::default() }));
            let done = completion(world, connection.pair.server.cq);
            assert_eq!(done.len, 1000);
            assert!(joined(&done.buffers, done.len) == bytes, "{outgoing:?} to {incoming:?}");
            completion(world, connection.pair.client.cq);
        }
    }
    connection.close(world);
    PASSED
}

/// Many messages, receives posted late: nothing is lost, nothing overtakes.
pub fn messages_keep_their_order(world: &mut dyn World) -> Outcome {
    const COUNT: u64 = 500;
    let connection = Connected::open(world);
    let pair = connection.pair;
    let (mut sent, mut posted, mut received, mut reported) = (0, 0, 0, 0);
    let finished = run_until(world, PATIENCE, |world| {
        while sent < COUNT {
            let send = SendOp::new(pattern(sent, (sent * 37 % 700) as usize), sent);
            match world.send(connection.client, send) {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert_eq!(error.errno(), Errno::EAGAIN);
                    break;
                }
            }
        }
        while posted < COUNT && posted < received + 7 {
            ok(world.recv(connection.server, ReceiveOp::new(700, posted)));
            posted += 1;
        }
        while let Ok(done) = world.cq_read(pair.server.cq) {
            assert_eq!(done.context, received);
            assert!(joined(&done.buffers, done.len) == pattern(received, (received * 37 % 700) as usize));
            received += 1;
        }
        while let Ok(done) = world.cq_read(pair.client.cq) {
            assert_eq!(done.context, reported);
            reported += 1;
        }
        received == COUNT && reported == COUNT
    });
    assert!(finished, "{sent} sent, {received} received, {reported} reported");
    connection.close(world);
    PASSED
}

/// Messages that come before their receive wait, however many: the sender is slowed down instead.
pub fn messages_wait_for_their_receive(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let mut sent = 0;
    for _ in 0..200 {
        match world.send(connection.client, SendOp::new(pattern(sent, 20_000), sent)) {
            Ok(()) => sent += 1,
            Err(_) => break,
        }
    }
    run_for(world, A_WHILE);
    for number in 0..sent {
        ok(world.recv(connection.server, ReceiveOp::new(20_000, number)));
        let done = completion(world, connection.pair.server.cq);
        assert_eq!((done.context, done.len), (number, 20_000));
        assert!(done.buffers[0] == pattern(number, 20_000));
    }
    for number in 0..sent {
        assert_eq!(completion(world, connection.pair.client.cq).context, number);
    }
    connection.close(world);
    PASSED
}

/// Both directions at once do not wait for each other.
pub fn both_directions_run_at_once(world: &mut dyn World) -> Outcome {
    const COUNT: u64 = 40;
    let connection = Connected::open(world);
    let pair = connection.pair;
    let ends = [(connection.client, pair.client.cq), (connection.server, pair.server.cq)];
    for number in 0..COUNT {
        for (ep, _) in ends {
            ok(world.recv(ep, ReceiveOp::new(50_000, number)));
            ok(world.send(ep, SendOp::new(pattern(number, 50_000), 1000 + number)));
        }
    }
    for (_, cq) in ends {
        let (mut received, mut sent) = (0, 0);
        while received + sent < 2 * COUNT {
            let done = completion(world, cq);
            if done.flags.contains(OpFlags::RECV) {
                assert_eq!(done.context, received);
                assert!(done.buffers[0] == pattern(received, 50_000));
                received += 1;
            } else {
                assert_eq!(done.context, 1000 + sent);
                sent += 1;
            }
        }
    }
    connection.close(world);
    PASSED
}

/// Inject: no completion for a success, also with FI_INJECT only the flag's meaning; too long is
/// refused.
pub fn inject_is_quiet(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let limit = world.endpoint_attr().inject_size;
    ok(world.recv(connection.server, ReceiveOp::new(limit, 1)));
    ok(world.recv(connection.server, ReceiveOp::new(limit, 2)));
    let inject = SendOp { quiet: true, ..SendOp::new(pattern(1, limit), 0).flags(OpFlags::INJECT) };
    ok(world.send(connection.client, inject));
    assert_eq!(completion(world, connection.pair.server.cq).context, 1);
    no_completion(world, connection.pair.client.cq);
    ok(world.send(connection.client, SendOp::new(pattern(1, limit), 3).flags(OpFlags::INJECT)));
    assert_eq!(completion(world, connection.pair.server.cq).context, 2);
    assert_eq!(completion(world, connection.pair.client.cq).context, 3);
    let long = SendOp::new(pattern(1, limit + 1), 0).flags(OpFlags::INJECT);
    refused(world.send(connection.client, long), Errno::EMSGSIZE);
    connection.exchange(world, b"unharmed");
    connection.close(world);
    PASSED
}

/// FI_SELECTIVE_COMPLETION: only what asks for it is reported; errors always are.
pub fn selective_completion_reports_what_asks(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let attr = world.endpoint_attr();
    let client = ok(world.endpoint(pair.client.domain, &attr, None));
    ok(world.ep_bind_eq(client, pair.client.eq, OpFlags::empty()));
    let selective = OpFlags::TRANSMIT | OpFlags::RECV | OpFlags::SELECTIVE_COMPLETION;
    ok(world.ep_bind_cq(client, pair.client.cq, selective));
    ok(world.connect(client, Some(pair.address), &[]));
    let (request, _) = request(world, pair.server.eq);
    let connection = pair.accept(world, client, request);
    let server = connection.server;
    for (context, flags) in [(1, OpFlags::empty()), (2, OpFlags::COMPLETION), (3, OpFlags::empty())] {
        ok(world.recv(server, ReceiveOp::new(8, context)));
        ok(world.send(client, SendOp::new(*b"a", context).flags(flags)));
        completion(world, pair.server.cq);
        ok(world.recv(client, ReceiveOp { flags, ..ReceiveOp::new(8, 10 + context) }));
        ok(world.send(server, SendOp::new(*b"b", context)));
        completion(world, pair.server.cq);
    }
    // Between the two directions there is no order.
    let mut reported = [(); 2].map(|()| completion(world, pair.client.cq).context);
    reported.sort_unstable();
    assert_eq!(reported, [2, 12]);
    no_completion(world, pair.client.cq);
    ok(world.recv(client, ReceiveOp::new(8, 20)));
    ok(world.shutdown(server, 0));
    assert_eq!(completion_error(world, pair.client.cq).context, 20);
    shut_down(world, pair.client.eq, client);
    connection.close(world);
    PASSED
}

/// Wire 6.6: a message longer than its receive: FI_ETRUNC, the overflow's length, and the
/// connection goes on.
pub fn truncation_is_an_error_of_that_receive_only(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let bytes = pattern(4, 5000);
    for room in [0, 1, 4999] {
        ok(world.recv(connection.server, ReceiveOp::new(room, 1)));
        ok(world.send(connection.client, SendOp { data: Some(5), ..SendOp::new(bytes.clone(), 2) }));
        let failed = completion_error(world, connection.pair.server.cq);
        assert_eq!((failed.context, failed.errno), (1, Errno::ETRUNC));
        assert_eq!((failed.len, failed.overflow), (room as u64, 5000 - room as u64));
        assert!(failed.buffers[0] == bytes[..room]);
        completion(world, connection.pair.client.cq);
        connection.exchange(world, b"goes on");
    }
    connection.close(world);
    PASSED
}

/// D10: cancel takes the receive with that context, once.
pub fn cancel_takes_one_receive(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    for context in 1..=3 {
        ok(world.recv(connection.server, ReceiveOp::new(8, context)));
    }
    refused(world.cancel(connection.server, 99), Errno::ENOENT);
    ok(world.cancel(connection.server, 2));
    refused(world.cancel(connection.server, 2), Errno::ENOENT);
    let failed = completion_error(world, pair.server.cq);
    assert_eq!((failed.context, failed.errno, failed.len), (2, Errno::ECANCELED, 0));
    for context in [1, 3] {
        ok(world.send(connection.client, SendOp::new(*b"x", 0)));
        assert_eq!(completion(world, pair.server.cq).context, context);
        completion(world, pair.client.cq);
        refused(world.cancel(connection.server, context), Errno::ENOENT);
    }
    no_completion(world, pair.server.cq);
    connection.close(world);
    PASSED
}

/// D10: of two receives with one context the older is taken.
pub fn cancel_takes_the_oldest(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    ok(world.recv(connection.server, ReceiveOp::new(1, 5)));
    ok(world.recv(connection.server, ReceiveOp::new(2, 5)));
    ok(world.cancel(connection.server, 5));
    assert_eq!(completion_error(world, connection.pair.server.cq).buffers[0].len(), 1);
    ok(world.send(connection.client, SendOp::new(*b"xy", 0)));
    assert_eq!(completion(world, connection.pair.server.cq).buffers[0].len(), 2);
    connection.close(world);
    PASSED
}

/// Wire 7: FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE and FI_MATCH_COMPLETE complete when the receive has the
/// data.
pub fn delivery_complete_waits_for_the_receive(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    for level in [OpFlags::DELIVERY_COMPLETE, OpFlags::TRANSMIT_COMPLETE, OpFlags::MATCH_COMPLETE] {
        for len in [0, 100, 100_000] {
            ok(world.send(connection.client, SendOp::new(pattern(1, len), 1).flags(level)));
            no_completion(world, pair.client.cq);
            ok(world.recv(connection.server, ReceiveOp::new(len, 2)));
            assert_eq!(completion(world, pair.server.cq).context, 2);
            let done = completion(world, pair.client.cq);
            assert_eq!(done.context, 1);
            assert!(done.flags.contains(OpFlags::SEND));
        }
    }
    connection.close(world);
    PASSED
}

/// Wire 7: acknowledgements meet the right send, plain sends among them, truncated ones too.
pub fn acknowledgements_meet_their_send(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    for number in 0..60 {
        let level = if number % 3 == 0 { OpFlags::DELIVERY_COMPLETE } else { OpFlags::empty() };
        ok(world.send(connection.client, SendOp::new(pattern(number, 50), number).flags(level)));
    }
    for number in 0..60 {
        ok(world.recv(connection.server, ReceiveOp::new(if number % 5 == 0 { 10 } else { 50 }, number)));
    }
    for number in 0..60 {
        if number % 5 == 0 {
            assert_eq!(completion_error(world, pair.server.cq).context, number);
        } else {
            assert_eq!(completion(world, pair.server.cq).context, number);
        }
    }
    // Each kind keeps its own order.
    let (mut plain, mut acknowledged) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let context = completion(world, pair.client.cq).context;
        if context.is_multiple_of(3) { acknowledged.push(context) } else { plain.push(context) }
    }
    assert_eq!(acknowledged, (0..60).filter(|number| number % 3 == 0).collect::<Vec<_>>());
    assert_eq!(plain, (0..60).filter(|number| number % 3 != 0).collect::<Vec<_>>());
    connection.close(world);
    PASSED
}

/// Keeps messages without a receive, so that what is behind them arrives.
fn keeping(world: &mut dyn World) -> Outcome {
    match world.endpoint_attr().total_buffered_recv {
        0..100 => Err(super::Lacking("room for messages without a receive")),
        _ => PASSED,
    }
}

/// Wire 9: a message that nobody receives holds up neither messages nor what the other side waits for.
pub fn a_message_without_a_receive_holds_nothing_up(world: &mut dyn World) -> Outcome {
    keeping(world)?;
    let connection = Connected::open(world);
    let (server, pair) = (connection.server, connection.pair);
    let theirs = ok(world.mr_reg(pair.client.domain, RegionOp::new(pattern(1, 100), 1)));
    let ours = ok(world.mr_reg(pair.server.domain, RegionOp::new(pattern(2, 100), 1)));
    let iov = [RmaIov { addr: 0, len: 100, key: 1 }];
    ok(world.send(connection.client, SendOp::new(pattern(3, 50), 1)));
    assert_eq!(completion(world, pair.client.cq).context, 1);
    // What the server asked for comes behind the message.
    let level = OpFlags::DELIVERY_COMPLETE;
    ok(world.read(server, ReceiveOp::new(100, 2), &iov));
    assert!(completion(world, pair.server.cq).buffers[0] == pattern(1, 100));
    ok(world.write(server, SendOp::new(pattern(4, 100), 3).flags(level), &iov));
    assert_eq!(completion(world, pair.server.cq).context, 3);
    ok(world.recv(connection.client, ReceiveOp::new(8, 4)));
    ok(world.send(server, SendOp::new([5; 8], 5).flags(level)));
    assert_eq!(completion(world, pair.client.cq).context, 4);
    assert_eq!(completion(world, pair.server.cq).context, 5);
    // And so does what the client goes on with.
    ok(world.write(connection.client, SendOp::new(pattern(6, 100), 6).flags(level), &iov));
    assert_eq!(completion(world, pair.client.cq).context, 6);
    assert!(ok(world.mr_read(ours)) == pattern(6, 100));
    ok(world.recv(server, ReceiveOp::new(50, 7)));
    assert!(completion(world, pair.server.cq).buffers[0] == pattern(3, 50));
    ok(world.close_mr(ours));
    ok(world.close_mr(theirs));
    connection.close(world);
    PASSED
}

/// Wire 7: acknowledgements have no number: one that is due waits for those in front of it.
pub fn acknowledgements_wait_for_the_message_in_front(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let (client, server, pair) = (connection.client, connection.server, connection.pair);
    let mr = ok(world.mr_reg(pair.server.domain, RegionOp::new([0; 8], 1)));
    let iov = [RmaIov { addr: 0, len: 8, key: 1 }];
    let level = OpFlags::DELIVERY_COMPLETE;
    for number in 0..4 {
        ok(world.send(client, SendOp::new([1; 8], 10 * number).flags(level)));
        ok(world.write(client, SendOp::new([2; 8], 10 * number + 1).flags(level), &iov));
        ok(world.write(client, SendOp::new([3; 8], 10 * number + 2).flags(level), &iov));
    }
    no_completion(world, pair.client.cq);
    for number in 0..4 {
        ok(world.recv(server, ReceiveOp::new(8, number)));
        assert_eq!(completion(world, pair.server.cq).context, number);
        for context in [0, 1, 2] {
            assert_eq!(completion(world, pair.client.cq).context, 10 * number + context);
        }
        no_completion(world, pair.client.cq);
    }
    ok(world.close_mr(mr));
    connection.close(world);
    PASSED
}

/// Messages that came before their receive are received as others: with data, empty, cut, scattered,
/// in order, also after the peer has ended the connection.
pub fn kept_messages_are_as_others(world: &mut dyn World) -> Outcome {
    for end in [false, true] {
        let connection = Connected::open(world);
        let (client, server, pair) = (connection.client, connection.server, connection.pair);
        ok(world.send(client, SendOp { data: Some(7), ..SendOp::new(pattern(1, 20), 0) }));
        ok(world.send(client, SendOp::new([], 0)));
        ok(world.send(client, SendOp::new(pattern(2, 30), 0)));
        ok(world.send(client, SendOp::new(pattern(3, 3000), 0)));
        ok(world.send(client, SendOp::new(pattern(4, 40), 0)));
        if end {
            ok(world.shutdown(client, 0));
        }
        run_for(world, A_WHILE / 10);
        ok(world.recv(server, ReceiveOp { buffers: vec![vec![0; 7], vec![0; 13]], ..ReceiveOp::new(0, 1) }));
        let first = completion(world, pair.server.cq);
        assert_eq!((first.context, first.data, first.len), (1, 7, 20));
        assert!(first.flags.contains(OpFlags::REMOTE_CQ_DATA));
        assert_eq!(first.buffers.concat(), pattern(1, 20));
        ok(world.recv(server, ReceiveOp::new(5, 2)));
        let second = completion(world, pair.server.cq);
        assert_eq!((second.context, second.len), (2, 0));
        assert!(!second.flags.contains(OpFlags::REMOTE_CQ_DATA));
        ok(world.recv(server, ReceiveOp::new(10, 3)));
        let third = completion_error(world, pair.server.cq);
        assert_eq!((third.context, third.errno, third.len, third.overflow), (3, Errno::ETRUNC, 10, 20));
        assert_eq!(third.buffers[0], pattern(2, 30)[..10]);
        ok(world.recv(server, ReceiveOp::new(3000, 4)));
        ok(world.recv(server, ReceiveOp::new(40, 5)));
        assert!(completion(world, pair.server.cq).buffers[0] == pattern(3, 3000));
        assert_eq!(completion(world, pair.server.cq).buffers[0], pattern(4, 40));
        for _ in 0..5 {
            completion(world, pair.client.cq);
        }
        if end {
            shut_down(world, pair.client.eq, client);
            shut_down(world, pair.server.eq, server);
        } else {
            connection.exchange(world, b"goes on");
        }
        connection.close(world);
    }
    PASSED
}

/// What a peer can make us keep is bounded; nothing is lost by that.
pub fn kept_messages_are_bounded(world: &mut dyn World) -> Outcome {
    const LEN: usize = 200;
    let connection = Connected::open(world);
    let pair = connection.pair;
    let mr = ok(world.mr_reg(pair.server.domain, RegionOp::new([0; 8], 1)));
    let mut sent = 0;
    // A write behind each message tells whether the message was kept.
    let mut kept = 0;
    while sent < 5000 && kept == sent {
        ok(world.send(connection.client, SendOp::new(pattern(sent, LEN), sent)));
        let write = SendOp::new([1; 8], 1_000_000).flags(OpFlags::DELIVERY_COMPLETE);
        ok(world.write(connection.client, write, &[RmaIov { addr: 0, len: 8, key: 1 }]));
        sent += 1;
        run_until(world, A_WHILE, |world| {
            kept += u64::from(world.cq_read(pair.client.cq).is_ok_and(|done| done.context == 1_000_000));
            kept == sent
        });
    }
    assert!(kept < sent, "no bound");
    for number in 0..sent {
        ok(world.recv(connection.server, ReceiveOp::new(LEN, number)));
        let done = completion(world, pair.server.cq);
        assert_eq!(done.context, number);
        assert!(done.buffers[0] == pattern(number, LEN));
    }
    assert!(run_until(world, PATIENCE, |world| {
        kept += u64::from(world.cq_read(pair.client.cq).is_ok_and(|done| done.context == 1_000_000));
        kept == sent
    }));
    ok(world.close_mr(mr));
    connection.close(world);
    PASSED
}

/// A full transmit queue answers -FI_EAGAIN, and has room again after completions.
pub fn a_full_transmit_queue_says_again(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let attr = world.endpoint_attr();
    let connection = pair.connect_with(world, &attr, &EndpointAttr { tx_size: 4, ..attr });
    let send = |number| SendOp::new(*b"x", number).flags(OpFlags::DELIVERY_COMPLETE);
    let mut sent = 0;
    while world.send(connection.client, send(sent)).is_ok() {
        sent += 1;
        assert!(sent < 100_000, "no bound");
    }
    assert!(sent >= 4, "less than the size asked for");
    refused(world.send(connection.client, send(sent)), Errno::EAGAIN);
    ok(world.recv(connection.server, ReceiveOp::new(1, 0)));
    assert_eq!(completion(world, pair.client.cq).context, 0);
    ok(world.send(connection.client, send(sent)));
    for number in 1..=sent {
        ok(world.recv(connection.server, ReceiveOp::new(1, 0)));
        assert_eq!(completion(world, pair.client.cq).context, number);
    }
    connection.close(world);
    PASSED
}

/// A full receive queue answers -FI_EAGAIN, and has room again after completions.
pub fn a_full_receive_queue_says_again(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let attr = world.endpoint_attr();
    let connection = pair.connect_with(world, &EndpointAttr { rx_size: 3, ..attr }, &attr);
    let mut posted = 0;
    while world.recv(connection.server, ReceiveOp::new(8, posted)).is_ok() {
        posted += 1;
        assert!(posted < 100_000, "no bound");
    }
    assert!(posted >= 3, "less than the size asked for");
    refused(world.recv(connection.server, ReceiveOp::new(8, posted)), Errno::EAGAIN);
    ok(world.send(connection.client, SendOp::new(*b"x", 0)));
    assert_eq!(completion(world, pair.server.cq).context, 0);
    ok(world.recv(connection.server, ReceiveOp::new(8, posted)));
    connection.close(world);
    PASSED
}

/// More segments than the limit, unknown flags, too long a message: refused, and nothing happens.
pub fn limits_are_kept(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let attr = EndpointAttr { max_msg_size: 1000, ..world.endpoint_attr() };
    let connection = pair.connect_with(world, &attr, &attr);
    let (server, client) = (connection.server, connection.client);
    let many = vec![vec![1]; attr.tx_iov_limit + 1];
    refused(world.send(client, SendOp { buffers: many, ..SendOp::default() }), Errno::EINVAL);
    let many = vec![vec![1]; attr.rx_iov_limit + 1];
    refused(world.recv(server, ReceiveOp { buffers: many, ..ReceiveOp::default() }), Errno::EINVAL);
    refused(world.send(client, SendOp::new(vec![0; 1001], 0)), Errno::EMSGSIZE);
    refused(world.send(client, SendOp::new(*b"x", 0).flags(OpFlags::PEEK)), Errno::EBADFLAGS);
    let peek = ReceiveOp { flags: OpFlags::PEEK, ..ReceiveOp::new(1, 0) };
    refused(world.recv(server, peek), Errno::EBADFLAGS);
    no_completion(world, pair.client.cq);
    no_completion(world, pair.server.cq);
    connection.exchange(world, &pattern(0, 1000));
    connection.close(world);
    PASSED
}

/// One completion queue for several endpoints, and two for one endpoint.
pub fn completion_queues_are_shared_and_split(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let receives: CompletionQueue = ok(world.cq_open(pair.client.domain, &CqAttr { size: 8, ..CqAttr::default() }));
    let attr = world.endpoint_attr();
    let mut connections = Vec::new();
    for _ in 0..3 {
        let client = ok(world.endpoint(pair.client.domain, &attr, None));
        ok(world.ep_bind_eq(client, pair.client.eq, OpFlags::empty()));
        ok(world.ep_bind_cq(client, pair.client.cq, OpFlags::TRANSMIT));
        ok(world.ep_bind_cq(client, receives, OpFlags::RECV));
        ok(world.connect(client, Some(pair.address), &[]));
        let (request, _) = request(world, pair.server.eq);
        connections.push(pair.accept(world, client, request));
    }
    for (number, &Connected { client, server, .. }) in connections.iter().enumerate() {
        let number = number as u64;
        ok(world.recv(client, ReceiveOp::new(8, 100 + number)));
        ok(world.recv(server, ReceiveOp::new(8, 200 + number)));
        ok(world.send(client, SendOp::new(*b"x", 300 + number)));
        ok(world.send(server, SendOp::new(*b"x", 400 + number)));
    }
    let mut collect = |cq, count| {
        let mut contexts: Vec<_> = (0..count).map(|_| completion(world, cq).context).collect();
        contexts.sort_unstable();
        contexts
    };
    assert_eq!(collect(receives, 3), [100, 101, 102]);
    assert_eq!(collect(pair.client.cq, 3), [300, 301, 302]);
    assert_eq!(collect(pair.server.cq, 6), [200, 201, 202, 400, 401, 402]);
    for connection in connections {
        connection.close_endpoints(world);
    }
    ok(world.close_cq(receives));
    pair.close(world);
    PASSED
}

/// An endpoint that only sends needs no receive queue, and the other way round.
pub fn one_direction_needs_one_queue(world: &mut dyn World) -> Outcome {
    use kofi_core::Caps;
    let pair = Pair::open(world);
    let attr = world.endpoint_attr();
    let caps = attr.caps - (Caps::SEND | Caps::RECV);
    let client = ok(world.endpoint(pair.client.domain, &EndpointAttr { caps: caps | Caps::SEND, ..attr }, None));
    ok(world.ep_bind_eq(client, pair.client.eq, OpFlags::empty()));
    ok(world.ep_bind_cq(client, pair.client.cq, OpFlags::TRANSMIT));
    ok(world.connect(client, Some(pair.address), &[]));
    let (request, _) = request(world, pair.server.eq);
    let attr = EndpointAttr { caps: caps | Caps::RECV, ..attr };
    let server = ok(world.endpoint(pair.server.domain, &attr, Some(request)));
    ok(world.ep_bind_eq(server, pair.server.eq, OpFlags::empty()));
    ok(world.ep_bind_cq(server, pair.server.cq, OpFlags::RECV));
    let connection = pair.accept_by(world, client, server);
    connection.exchange(world, b"one way");
    connection.close(world);
    PASSED
}

/// Transports that move a byte at a time change nothing.
pub fn a_byte_at_a_time_is_enough(world: &mut dyn World) -> Outcome {
    faults(world)?.piece(1);
    let connection = Connected::open(world);
    for len in [0, 1, 100, 700] {
        connection.exchange(world, &pattern(2, len));
    }
    ok(world.send(connection.client, SendOp::new(pattern(1, 50), 1).flags(OpFlags::DELIVERY_COMPLETE)));
    ok(world.recv(connection.server, ReceiveOp::new(50, 2)));
    assert_eq!(completion(world, connection.pair.client.cq).context, 1);
    connection.close(world);
    PASSED
}

/// Transports that hold very little slow things down and change nothing.
pub fn a_narrow_transport_is_enough(world: &mut dyn World) -> Outcome {
    for capacity in [300, 1024] {
        faults(world)?.capacity(capacity);
        let connection = Connected::open(world);
        for len in [0, 1, 1000, 20_000] {
            connection.exchange(world, &pattern(2, len));
        }
        connection.close(world);
    }
    PASSED
}

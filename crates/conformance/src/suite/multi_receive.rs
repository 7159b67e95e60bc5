// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Receives for several messages (`FI_MULTI_RECV`, section 3).

use kofi_core::attr::CqAttr;
use kofi_core::{EndpointAttr, Errno, OpFlags, SrxAttr};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{Completion, CompletionQueue, ReceiveOp, SendOp};

fn quiet(bytes: &[u8]) -> SendOp {
    SendOp { quiet: true, ..SendOp::new(bytes, 0).flags(OpFlags::INJECT) }
}

/// A connection whose server gives buffers back with less than `min` bytes left.
fn open(world: &mut dyn World, min: u64) -> Connected {
    let connection = Connected::open(world);
    ok(world.set_min_multi_recv(connection.server, min));
    connection
}

/// The next completion is of this message, at this place.
#[track_caller]
fn part(world: &mut dyn World, cq: CompletionQueue, context: u64, offset: u64, bytes: &[u8]) -> Completion {
    let done = completion(world, cq);
    assert_eq!((done.context, done.offset, done.len), (context, offset, bytes.len() as u64), "{done:?}");
    assert!(done.flags.contains(OpFlags::MSG | OpFlags::RECV), "{:?}", done.flags);
    assert_eq!(done.buffers.concat(), bytes);
    assert_eq!(done.flags.contains(OpFlags::MULTI_RECV), done.rest.is_some());
    done
}

/// The next completion says that a buffer is given back, and no more.
#[track_caller]
fn given_back(world: &mut dyn World, cq: CompletionQueue, context: u64, left: usize) {
    let done = completion(world, cq);
    assert_eq!((done.context, done.flags, done.len), (context, OpFlags::MULTI_RECV, 0));
    assert_eq!(done.rest.map(|rest| rest.len()), Some(left));
}

/// Messages lie in the buffer one behind the other; the last one gives it back.
pub fn messages_share_a_buffer(world: &mut dyn World) -> Outcome {
    let connection = open(world, 10);
    let cq = connection.pair.server.cq;
    for round in 0..3 {
        ok(world.recv(connection.server, ReceiveOp::multi(100, round)));
        let mut offset = 0;
        for len in [30, 0, 1, 31, 33] {
            let bytes = pattern(len + round, len as usize);
            ok(world.send(connection.client, SendOp::new(bytes.clone(), 9)));
            let done = part(world, cq, round, offset, &bytes);
            offset += len;
            assert_eq!(done.rest.map(|rest| rest.len()), (offset > 90).then_some(5));
            completion(world, connection.pair.client.cq);
        }
    }
    no_completion(world, cq);
    connection.close(world);
    PASSED
}

/// fi_endpoint(3): the threshold counts for receives that are posted after it was set.
pub fn the_threshold_is_an_option(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let cq = connection.pair.server.cq;
    assert_eq!(ok(world.min_multi_recv(connection.server)), 16 * 1024);
    ok(world.recv(connection.server, ReceiveOp::multi(20_000, 1)));
    ok(world.set_min_multi_recv(connection.server, 0));
    assert_eq!(ok(world.min_multi_recv(connection.server)), 0);
    ok(world.recv(connection.server, ReceiveOp::multi(8, 2)));
    for (offset, last) in [(0, false), (3000, true)] {
        ok(world.send(connection.client, SendOp::new(pattern(offset, 3000), 9)));
        let done = part(world, cq, 1, offset, &pattern(offset, 3000));
        assert_eq!(done.rest.map(|rest| rest.len()), last.then_some(14_000));
        completion(world, connection.pair.client.cq);
    }
    // Without a threshold a buffer is used to its last byte.
    for (offset, last) in [(0, false), (4, true)] {
        ok(world.send(connection.client, quiet(b"four")));
        assert_eq!(part(world, cq, 2, offset, b"four").rest, last.then(Vec::new));
    }
    connection.close(world);
    PASSED
}

/// A message that is longer than what is left gives the buffer back, and goes to the next one.
pub fn a_message_without_room_goes_to_the_next(world: &mut dyn World) -> Outcome {
    let connection = open(world, 1);
    let cq = connection.pair.server.cq;
    ok(world.recv(connection.server, ReceiveOp::multi(100, 1)));
    ok(world.send(connection.client, quiet(&pattern(1, 60))));
    part(world, cq, 1, 0, &pattern(1, 60));
    // The next one may not be there yet, and it may be any receive.
    ok(world.send(connection.client, quiet(&pattern(2, 50))));
    given_back(world, cq, 1, 40);
    no_completion(world, cq);
    ok(world.recv(connection.server, ReceiveOp::multi(100, 2)));
    part(world, cq, 2, 0, &pattern(2, 50));
    ok(world.recv(connection.server, ReceiveOp::new(55, 3)));
    ok(world.send(connection.client, quiet(&pattern(3, 55))));
    given_back(world, cq, 2, 50);
    let done = completion(world, cq);
    assert_eq!((done.context, done.buffers.concat()), (3, pattern(3, 55)));
    connection.close(world);
    PASSED
}

/// A message that is longer than the whole buffer is cut, as in any receive.
pub fn a_message_without_any_room_is_cut(world: &mut dyn World) -> Outcome {
    let connection = open(world, 1);
    let cq = connection.pair.server.cq;
    ok(world.recv(connection.server, ReceiveOp::multi(40, 1)));
    ok(world.send(connection.client, quiet(&pattern(1, 60))));
    let failed = completion_error(world, cq);
    assert_eq!((failed.context, failed.errno), (1, Errno::ETRUNC));
    assert_eq!((failed.offset, failed.len, failed.overflow), (0, 40, 20));
    assert!(failed.flags.contains(OpFlags::RECV | OpFlags::MULTI_RECV), "{:?}", failed.flags);
    assert_eq!((failed.buffers.concat(), failed.rest), (pattern(1, 40), Some(vec![])));
    connection.exchange(world, b"goes on");
    connection.close(world);
    PASSED
}

/// Messages that came before their buffer go into it, with their data and acknowledgements.
pub fn messages_that_waited_share_a_buffer(world: &mut dyn World) -> Outcome {
    for buffered in [0, 1000] {
        let pair = Pair::open(world);
        let attr = world.endpoint_attr();
        let server = EndpointAttr { total_buffered_recv: buffered, ..attr };
        let connection = pair.connect_with(world, &server, &attr);
        ok(world.set_min_multi_recv(connection.server, 1));
        for number in 0..5 {
            let bytes = pattern(number, 100 * number as usize);
            let op = SendOp { data: Some(number), ..SendOp::new(bytes, number) };
            ok(world.send(connection.client, op.flags(OpFlags::DELIVERY_COMPLETE)));
        }
        run_for(world, A_WHILE);
        ok(world.recv(connection.server, ReceiveOp::multi(1000, 8)));
        let mut offset = 0;
        for number in 0..5 {
            let done = part(world, pair.server.cq, 8, offset, &pattern(number, 100 * number as usize));
            assert_eq!((done.data, done.rest.is_some()), (number, number == 4));
            offset += 100 * number;
            assert_eq!(completion(world, pair.client.cq).context, number);
        }
        connection.close(world);
    }
    PASSED
}

/// D10: a buffer is cancelled as a whole; messages in it stay.
pub fn a_buffer_can_be_cancelled(world: &mut dyn World) -> Outcome {
    let connection = open(world, 1);
    let cq = connection.pair.server.cq;
    ok(world.recv(connection.server, ReceiveOp::multi(100, 1)));
    ok(world.recv(connection.server, ReceiveOp::multi(100, 2)));
    ok(world.send(connection.client, quiet(b"stays")));
    part(world, cq, 1, 0, b"stays");
    for (context, left) in [(1, 95), (2, 100)] {
        ok(world.cancel(connection.server, context));
        let failed = completion_error(world, cq);
        assert_eq!((failed.context, failed.errno, failed.len), (context, Errno::ECANCELED, 0));
        assert!(failed.flags.contains(OpFlags::RECV | OpFlags::MULTI_RECV), "{:?}", failed.flags);
        assert_eq!(failed.rest.map(|rest| rest.len()), Some(left));
        refused(world.cancel(connection.server, context), Errno::ENOENT);
    }
    connection.exchange(world, b"goes on");
    connection.close(world);
    PASSED
}

/// D2, D8: the end of the connection gives buffers back, behind the messages in them.
pub fn the_end_gives_buffers_back(world: &mut dyn World) -> Outcome {
    for close in [false, true] {
        let connection = open(world, 1);
        let pair = connection.pair;
        for context in 1..=2 {
            ok(world.recv(connection.server, ReceiveOp::multi(100, context)));
        }
        ok(world.send(connection.client, quiet(b"one")));
        part(world, pair.server.cq, 1, 0, b"one");
        if close {
            ok(world.close_ep(connection.server));
        } else {
            ok(world.shutdown(connection.client, 0));
            shut_down(world, pair.server.eq, connection.server);
        }
        for (context, left) in [(1, 97), (2, 100)] {
            let failed = completion_error(world, pair.server.cq);
            assert_eq!((failed.context, failed.errno), (context, Errno::ECANCELED));
            assert_eq!(failed.rest.map(|rest| rest.len()), Some(left));
        }
        no_completion(world, pair.server.cq);
        ok(world.close_ep(connection.client));
        if !close {
            ok(world.close_ep(connection.server));
        }
        pair.close(world);
    }
    PASSED
}

/// A peer cannot fill the completion queue: its messages wait until some are read.
pub fn unread_messages_hold_the_sender_back(world: &mut dyn World) -> Outcome {
    const COUNT: u64 = 300;
    for len in [0, 1] {
        for buffered in [0, 10] {
            let pair = Pair::open(world);
            let attr = world.endpoint_attr();
            let server = EndpointAttr { total_buffered_recv: buffered, ..attr };
            let connection = pair.connect_with(world, &server, &attr);
            ok(world.set_min_multi_recv(connection.server, 1));
            ok(world.recv(connection.server, ReceiveOp::multi(1000, 1)));
            let mut acknowledged = 0;
            for number in 0..COUNT {
                let send = SendOp::new(vec![number as u8; len], number).flags(OpFlags::DELIVERY_COMPLETE);
                let sent = run_until(world, A_WHILE, |world| world.send(connection.client, send.clone()).is_ok());
                if !sent {
                    break;
                }
            }
            run_for(world, A_WHILE);
            while let Ok(done) = world.cq_read(pair.client.cq) {
                assert_eq!(done.context, acknowledged);
                acknowledged += 1;
            }
            assert!((60..150).contains(&acknowledged), "{acknowledged} messages in the queue");
            for number in 0..acknowledged + 20 {
                part(world, pair.server.cq, 1, number * len as u64, &vec![number as u8; len]);
            }
            connection.close(world);
        }
    }
    PASSED
}

/// fi_msg(3): the completion that gives a buffer back comes also where successes are not reported.
pub fn a_selective_queue_hears_of_the_buffer(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, _) = pair.ask(world, &[]);
    let attr = world.endpoint_attr();
    let server = ok(world.endpoint(pair.server.domain, &attr, Some(request)));
    ok(world.ep_bind_eq(server, pair.server.eq, OpFlags::empty()));
    ok(world.ep_bind_cq(server, pair.server.cq, OpFlags::TRANSMIT));
    let selective = OpFlags::RECV | OpFlags::SELECTIVE_COMPLETION;
    ok(world.ep_bind_cq(server, pair.server.cq, selective));
    let counter = ok(world.cntr_open(pair.server.domain));
    ok(world.ep_bind_cntr(server, counter, OpFlags::RECV));
    ok(world.set_min_multi_recv(server, 1));
    pair.accept_by(world, client, server);
    ok(world.recv(server, ReceiveOp::multi(12, 1)));
    for _ in 0..3 {
        ok(world.send(client, quiet(b"four")));
    }
    let done = part(world, pair.server.cq, 1, 8, b"four");
    assert_eq!(done.rest, Some(vec![]));
    let flags = OpFlags::MULTI_RECV | OpFlags::COMPLETION;
    ok(world.recv(server, ReceiveOp { flags, ..ReceiveOp::new(9, 2) }));
    for _ in 0..3 {
        ok(world.send(client, quiet(b"four")));
    }
    for offset in [0, 4] {
        part(world, pair.server.cq, 2, offset, b"four");
    }
    given_back(world, pair.server.cq, 2, 1);
    ok(world.recv(server, ReceiveOp::new(4, 3)));
    // Each message is counted, and nothing else.
    ok(world.cntr_wait(counter, 6, 20_000));
    assert_eq!((ok(world.cntr_read(counter)), ok(world.cntr_readerr(counter))), (6, 0));
    no_completion(world, pair.server.cq);
    ok(world.close_ep(client));
    ok(world.close_ep(server));
    ok(world.close_cntr(counter));
    pair.close(world);
    PASSED
}

/// Endpoints that share their receives fill one buffer, each with messages of its own.
pub fn endpoints_share_a_buffer(world: &mut dyn World) -> Outcome {
    const LEN: usize = 50_000;
    let pair = Pair::open(world);
    let srx = ok(world.srx_open(pair.server.domain, &SrxAttr { size: 10, iov_limit: 1 }));
    let idle = ok(world.cq_open(pair.server.domain, &CqAttr::default()));
    ok(world.srx_bind_cq(srx, idle, OpFlags::RECV));
    assert_eq!(ok(world.srx_min_multi_recv(srx)), 16 * 1024);
    ok(world.set_srx_min_multi_recv(srx, 1));
    assert_eq!(ok(world.srx_min_multi_recv(srx)), 1);
    let mut connections = Vec::new();
    for _ in 0..3 {
        let (client, request, _) = pair.ask(world, &[]);
        let server = pair.server.endpoint(world, Some(request));
        ok(world.ep_bind_srx(server, srx, OpFlags::empty()));
        connections.push(pair.accept_by(world, client, server));
    }
    ok(world.srx_recv(srx, ReceiveOp::multi(6 * LEN, 1)));
    ok(world.srx_recv(srx, ReceiveOp::multi(100, 2)));
    for round in 0..2 {
        for (salt, connection) in (10 * round..).zip(&connections) {
            ok(world.send(connection.client, SendOp::new(pattern(salt, LEN), 0)));
        }
    }
    let (mut offsets, mut last) = (Vec::new(), None);
    for number in 0..6 {
        let done = completion(world, pair.server.cq);
        assert_eq!((done.context, done.len), (1, LEN as u64));
        let known = [0, 1, 2, 10, 11, 12].into_iter().any(|salt| done.buffers[0] == pattern(salt, LEN));
        assert!(known, "a message that nobody sent");
        assert_eq!(done.rest.is_some(), number == 5, "the buffer comes with the last completion");
        offsets.push(done.offset as usize);
        last = done.rest;
    }
    assert_eq!(last, Some(vec![]));
    offsets.sort_unstable();
    assert_eq!(offsets, [0, 1, 2, 3, 4, 5].map(|number| number * LEN));
    ok(world.send(connections[1].client, quiet(b"next")));
    part(world, pair.server.cq, 2, 0, b"next");
    ok(world.srx_cancel(srx, 2));
    let failed = completion_error(world, idle);
    assert_eq!((failed.errno, failed.rest.map(|rest| rest.len())), (Errno::ECANCELED, Some(96)));
    ok(world.srx_recv(srx, ReceiveOp::multi(100, 3)));
    for connection in connections {
        connection.close_endpoints(world);
    }
    ok(world.close_srx(srx));
    let failed = completion_error(world, idle);
    assert_eq!((failed.context, failed.rest.map(|rest| rest.len())), (3, Some(100)));
    ok(world.close_cq(idle));
    pair.close(world);
    PASSED
}

/// One buffer, not several.
pub fn odd_buffers_are_refused(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let flags = OpFlags::MULTI_RECV;
    let two = ReceiveOp { buffers: vec![vec![0; 8], vec![0; 8]], flags, context: 1 };
    refused(world.recv(connection.server, two), Errno::EINVAL);
    let none = ReceiveOp { buffers: vec![], flags, context: 1 };
    refused(world.recv(connection.server, none), Errno::EINVAL);
    connection.exchange(world, b"goes on");
    connection.close(world);
    PASSED
}

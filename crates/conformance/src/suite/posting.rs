// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What becomes of operations before they leave: `FI_MORE` and `fi_cancel`.

use kofi_core::{Errno, OpFlags};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{ReceiveOp, RegionOp, RmaIov, SendOp};

/// Longer than what a transport takes without a reader.
const LONG: usize = 32 << 20;

const IOV: RmaIov = RmaIov { addr: 0, len: 4, key: 1 };

fn more(bytes: &[u8], context: u64) -> SendOp {
    SendOp::new(bytes, context).flags(OpFlags::MORE)
}

/// Operations that more are to follow leave in order with those, or as soon as anything moves.
pub fn more_holds_nothing_up(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    let mr = ok(world.mr_reg(pair.server.domain, RegionOp::new([0; 4], 1)));
    for last in [OpFlags::empty(), OpFlags::MORE] {
        for context in 0..100 {
            ok(world.recv(connection.server, ReceiveOp { flags: last, ..ReceiveOp::new(8, context) }));
        }
        for context in 0..100u64 {
            ok(world.send(connection.client, more(&context.to_ne_bytes(), context)));
        }
        ok(world.write(connection.client, more(b"save", 100), &[IOV]));
        let read = ReceiveOp { flags: last, ..ReceiveOp::new(4, 101) };
        ok(world.read(connection.client, read, &[IOV]));
        for context in 0..100u64 {
            let done = completion(world, pair.server.cq);
            assert_eq!((done.context, &*done.buffers[0]), (context, &context.to_ne_bytes()[..]));
        }
        let mut done = Vec::new();
        for _ in 0..102 {
            done.push(completion(world, pair.client.cq).context);
        }
        assert_eq!(done, (0..102).collect::<Vec<_>>());
        assert_eq!(ok(world.mr_read(mr)), b"save");
    }
    ok(world.close_mr(mr));
    connection.close(world);
    PASSED
}

/// Whoever waits, be it at the other end, gets what was posted with more to follow, and never was.
pub fn more_that_never_comes_is_not_waited_for(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    ok(world.recv(connection.server, ReceiveOp::new(8, 1)));
    ok(world.send(connection.client, more(b"alone", 2)));
    assert_eq!(ok(world.cq_sread(pair.server.cq, 20_000)).len, 5);
    assert_eq!(ok(world.cq_sread(pair.client.cq, 20_000)).context, 2);
    // A refused post sends what waits, too.
    ok(world.recv(connection.server, ReceiveOp::new(8, 3)));
    ok(world.send(connection.client, more(b"before", 4)));
    refused(world.send(connection.client, SendOp::new(*b"x", 5).flags(OpFlags::FENCE)), Errno::EBADFLAGS);
    assert_eq!(completion(world, pair.server.cq).len, 6);
    completion(world, pair.client.cq);
    // The end does.
    ok(world.recv(connection.server, ReceiveOp::new(8, 6)));
    ok(world.send(connection.client, more(b"the end", 7)));
    ok(world.shutdown(connection.client, 0));
    assert_eq!(completion(world, pair.server.cq).len, 7);
    shut_down(world, pair.server.eq, connection.server);
    connection.close(world);
    PASSED
}

/// D10: what has not begun to leave can be cancelled, and the stream goes on without it.
pub fn cancel_takes_what_has_not_begun(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    let client = connection.client;
    let mr = ok(world.mr_reg(pair.server.domain, RegionOp::new(*b"abcd", 1)));
    let bytes = pattern(1, LONG);
    ok(world.send(client, SendOp::new(bytes.clone(), 1)));
    run_for(world, A_WHILE);
    // It is under way, and nobody receives it.
    refused(world.cancel(client, 1), Errno::ENOENT);
    let kinds = [OpFlags::MSG | OpFlags::SEND, OpFlags::RMA | OpFlags::WRITE, OpFlags::RMA | OpFlags::READ];
    for round in [10, 20] {
        ok(world.send(client, SendOp::new(*b"send", round)));
        ok(world.write(client, SendOp::new(*b"writ", round + 1), &[IOV]));
        ok(world.read(client, ReceiveOp::new(4, round + 2), &[IOV]));
        ok(world.send(client, SendOp { quiet: true, ..SendOp::new([round as u8], 0).flags(OpFlags::INJECT) }));
    }
    // What was injected has no context.
    refused(world.cancel(client, 0), Errno::ENOENT);
    for (context, flags) in (10..).zip(kinds) {
        ok(world.cancel(client, context));
        refused(world.cancel(client, context), Errno::ENOENT);
        let failed = completion_error(world, pair.client.cq);
        assert_eq!((failed.context, failed.errno, failed.len), (context, Errno::ECANCELED, 0));
        assert_eq!(failed.flags, flags);
        assert_eq!(failed.buffers.concat().len(), 4);
    }
    // What is still there arrives, in order and whole.
    assert_eq!(ok(world.mr_read(mr)), b"abcd");
    let mut lens = vec![];
    for context in 0..4 {
        ok(world.recv(connection.server, ReceiveOp::new(LONG, context)));
        let done = completion(world, pair.server.cq);
        assert_eq!(done.context, context);
        let wanted: &[u8] = [&bytes, &[10][..], b"send", &[20][..]][context as usize];
        assert!(done.buffers[0][..done.len as usize] == *wanted, "message {context}");
        lens.push(done.len);
    }
    let mut done: Vec<_> = (0..4).map(|_| completion(world, pair.client.cq)).collect();
    done.sort_by_key(|done| done.context);
    assert_eq!(done.iter().map(|done| done.context).collect::<Vec<_>>(), [1, 20, 21, 22]);
    assert_eq!(done[3].buffers.concat(), b"writ");
    for context in [1, 20, 21, 22] {
        refused(world.cancel(client, context), Errno::ENOENT);
    }
    ok(world.close_mr(mr));
    connection.close(world);
    PASSED
}

/// Receives are cancelled before sends of the same context; a shutdown does not wait for what is cancelled.
pub fn a_shutdown_does_not_wait_for_what_is_cancelled(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    let client = connection.client;
    ok(world.send(client, SendOp::new(pattern(1, LONG), 1)));
    run_for(world, A_WHILE);
    ok(world.send(client, SendOp::new(*b"same", 5)));
    ok(world.recv(client, ReceiveOp::new(8, 5)));
    ok(world.cancel(client, 5));
    assert!(completion_error(world, pair.client.cq).flags.contains(OpFlags::RECV));
    ok(world.shutdown(client, 0));
    ok(world.cancel(client, 5));
    assert!(completion_error(world, pair.client.cq).flags.contains(OpFlags::SEND));
    ok(world.recv(connection.server, ReceiveOp::new(LONG, 2)));
    assert_eq!(completion(world, pair.server.cq).len, LONG as u64);
    shut_down(world, pair.server.eq, connection.server);
    assert_eq!(completion(world, pair.client.cq).context, 1);
    no_completion(world, pair.server.cq);
    connection.close(world);
    PASSED
}

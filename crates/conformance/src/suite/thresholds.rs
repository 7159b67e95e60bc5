// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Waits for more than one completion (`FI_CQ_COND_THRESHOLD`, `fi_cq(3)`).

use core::time::Duration;

use kofi_core::attr::{CqAttr, WaitCond};
use kofi_core::{Errno, OpFlags};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{CompletionQueue, ReceiveOp, SendOp};

/// A connection whose server has its receives told in a queue of its own.
fn open(world: &mut dyn World, wait_cond: WaitCond) -> (Connected, CompletionQueue) {
    let pair = Pair::open(world);
    let cq = ok(world.cq_open(pair.server.domain, &CqAttr { wait_cond, ..CqAttr::default() }));
    let (client, request, _) = pair.ask(world, &[]);
    let attr = world.endpoint_attr();
    let server = ok(world.endpoint(pair.server.domain, &attr, Some(request)));
    ok(world.ep_bind_eq(server, pair.server.eq, OpFlags::empty()));
    ok(world.ep_bind_cq(server, pair.server.cq, OpFlags::TRANSMIT));
    ok(world.ep_bind_cq(server, cq, OpFlags::RECV));
    pair.accept_by(world, client, server);
    for context in 0..8 {
        ok(world.recv(server, ReceiveOp::new(8, context)));
    }
    (Connected { pair, server, client }, cq)
}

fn send(world: &mut dyn World, connection: &Connected, count: usize) {
    for _ in 0..count {
        let send = SendOp { quiet: true, ..SendOp::new(*b"x", 0).flags(OpFlags::INJECT) };
        ok(world.send(connection.client, send));
    }
}

fn close(world: &mut dyn World, connection: &Connected, cq: CompletionQueue) {
    connection.close_endpoints(world);
    ok(world.close_cq(cq));
    connection.pair.close(world);
}

/// A wait ends when as many completions are there as it asks for.
pub fn a_wait_ends_with_enough_completions(world: &mut dyn World) -> Outcome {
    let (connection, cq) = open(world, WaitCond::Threshold);
    send(world, &connection, 3);
    let start = world.now();
    assert_eq!(ok(world.cq_sread_cond(cq, 3, 20_000)).context, 0);
    assert!(world.now() - start < PATIENCE / 2, "waited on");
    for context in 1..3 {
        assert_eq!(ok(world.cq_read(cq)).context, context);
    }
    // No condition, or one that one completion meets.
    for threshold in [0, 1] {
        send(world, &connection, 1);
        ok(world.cq_sread_cond(cq, threshold, 20_000));
    }
    close(world, &connection, cq);
    PASSED
}

/// After its whole time it gives what is there, or nothing.
pub fn a_wait_without_enough_takes_its_time(world: &mut dyn World) -> Outcome {
    const LIMIT: Duration = Duration::from_millis(150);
    let (connection, cq) = open(world, WaitCond::Threshold);
    send(world, &connection, 2);
    for wanted in [Some(0), Some(1), None] {
        let start = world.now();
        let waited = world.cq_sread_cond(cq, 5, LIMIT.as_millis() as i32);
        assert!(world.now() - start >= LIMIT, "{wanted:?}");
        match wanted {
            Some(context) => assert_eq!(ok(waited).context, context),
            None => drop(refused(waited, Errno::EAGAIN)),
        }
    }
    close(world, &connection, cq);
    PASSED
}

/// An error ends it, wherever it is in the queue.
pub fn a_wait_ends_with_an_error(world: &mut dyn World) -> Outcome {
    let (connection, cq) = open(world, WaitCond::Threshold);
    send(world, &connection, 1);
    run_for(world, A_WHILE);
    ok(world.cancel(connection.server, 5));
    let start = world.now();
    assert_eq!(ok(world.cq_sread_cond(cq, 5, 20_000)).context, 0);
    refused(world.cq_sread_cond(cq, 5, 20_000), Errno::EAVAIL);
    assert!(world.now() - start < PATIENCE / 2, "waited on");
    assert_eq!(ok(world.cq_readerr(cq)).context, 5);
    refused(world.cq_sread_cond(cq, 5, 10), Errno::EAGAIN);
    close(world, &connection, cq);
    PASSED
}

/// A queue without the condition waits for one completion, whatever the call says.
pub fn a_queue_without_a_condition_ignores_it(world: &mut dyn World) -> Outcome {
    let (connection, cq) = open(world, WaitCond::None);
    send(world, &connection, 1);
    let start = world.now();
    assert_eq!(ok(world.cq_sread_cond(cq, 5, 20_000)).context, 0);
    assert!(world.now() - start < PATIENCE / 2, "waited on");
    close(world, &connection, cq);
    PASSED
}

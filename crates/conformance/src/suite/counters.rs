// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Counters (`fi_cntr(3)`).

use kofi_core::{Errno, OpFlags};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{Counter, Endpoint, ReceiveOp, RegionOp, RmaIov, SendOp};

const IOV: RmaIov = RmaIov { addr: 0, len: 8, key: 1 };

/// Milliseconds that a wait takes at most, when there is what it waits for.
const PATIENT: i32 = 20_000;

/// A connection with these counters at each side; no completion queue if not `queues`.
fn counted(
    world: &mut dyn World,
    pair: &Pair,
    server: &[(Counter, OpFlags)],
    client: &[(Counter, OpFlags)],
    queues: bool,
) -> Connected {
    let attr = world.endpoint_attr();
    let bind = |world: &mut dyn World, side: &Side, ep: Endpoint, counters: &[(Counter, OpFlags)]| {
        ok(world.ep_bind_eq(ep, side.eq, OpFlags::empty()));
        if queues {
            ok(world.ep_bind_cq(ep, side.cq, OpFlags::TRANSMIT | OpFlags::RECV));
        }
        for &(counter, kinds) in counters {
            ok(world.ep_bind_cntr(ep, counter, kinds));
        }
    };
    let ep = ok(world.endpoint(pair.client.domain, &attr, None));
    bind(world, &pair.client, ep, client);
    let client = ep;
    ok(world.connect(client, Some(pair.address), &[]));
    let (request, _) = request(world, pair.server.eq);
    let ep = ok(world.endpoint(pair.server.domain, &attr, Some(request)));
    bind(world, &pair.server, ep, server);
    ok(world.accept(ep, &[]));
    connected(world, pair.server.eq, ep);
    connected(world, pair.client.eq, client);
    Connected { pair: *pair, server: ep, client }
}

/// Each kind of operation of an endpoint has its counter; what is injected counts, too.
pub fn counters_count_each_kind(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let kinds = [OpFlags::SEND, OpFlags::WRITE, OpFlags::READ];
    let remote = [OpFlags::RECV, OpFlags::REMOTE_WRITE, OpFlags::REMOTE_READ];
    let ours = kinds.map(|kind| (ok(world.cntr_open(pair.client.domain)), kind));
    let theirs = remote.map(|kind| (ok(world.cntr_open(pair.server.domain)), kind));
    let connection = counted(world, &pair, &theirs, &ours, true);
    let mr = ok(world.mr_reg(pair.server.domain, RegionOp::new([1; 8], 1)));
    let client = connection.client;
    let quiet = |buffer: [u8; 8]| SendOp { quiet: true, ..SendOp::new(buffer, 0).flags(OpFlags::INJECT) };
    for number in 0..3 {
        ok(world.recv(connection.server, ReceiveOp::new(8, number)));
    }
    ok(world.send(client, SendOp::new([1; 8], 0)));
    ok(world.send(client, SendOp::new([1; 8], 0)));
    ok(world.send(client, quiet([2; 8])));
    ok(world.write(client, SendOp { data: Some(4), ..SendOp::new([1; 8], 0) }, &[IOV]));
    ok(world.write(client, quiet([3; 8]), &[IOV]));
    ok(world.read(client, ReceiveOp::new(8, 0), &[IOV]));
    for (counters, wanted) in [(ours, [3, 2, 1]), (theirs, [3, 2, 1])] {
        for ((counter, kind), wanted) in counters.into_iter().zip(wanted) {
            ok(world.cntr_wait(counter, wanted, PATIENT));
            assert_eq!(ok(world.cntr_read(counter)), wanted, "{kind:?}");
            assert_eq!(ok(world.cntr_readerr(counter)), 0, "{kind:?}");
            refused(world.close_cntr(counter), Errno::EBUSY);
        }
    }
    connection.close_endpoints(world);
    ok(world.close_mr(mr));
    refused(world.close_domain(pair.client.domain), Errno::EBUSY);
    for (counter, _) in ours.into_iter().chain(theirs) {
        ok(world.close_cntr(counter));
        refused(world.cntr_read(counter), Errno::EINVAL);
    }
    pair.close(world);
    PASSED
}

/// What fails is counted apart, and ends a wait.
pub fn failures_are_counted_apart(world: &mut dyn World) -> Outcome {
    // A wait hears of failures that come after it has begun.
    holds_still(world)?;
    let pair = Pair::open(world);
    let counter = ok(world.cntr_open(pair.client.domain));
    let connection = counted(world, &pair, &[], &[(counter, OpFlags::RECV | OpFlags::READ)], true);
    ok(world.recv(connection.client, ReceiveOp::new(1, 1)));
    ok(world.recv(connection.client, ReceiveOp::new(8, 2)));
    ok(world.send(connection.server, SendOp::new([1; 8], 1)));
    refused(world.cntr_wait(counter, 1, PATIENT), Errno::EAVAIL);
    assert_eq!((ok(world.cntr_read(counter)), ok(world.cntr_readerr(counter))), (0, 1));
    ok(world.read(connection.client, ReceiveOp::new(8, 3), &[IOV]));
    refused(world.cntr_wait(counter, 1, PATIENT), Errno::EAVAIL);
    // The access was forbidden: all that was pending failed.
    assert_eq!((ok(world.cntr_read(counter)), ok(world.cntr_readerr(counter))), (0, 3));
    connection.close_endpoints(world);
    ok(world.close_cntr(counter));
    pair.close(world);
    PASSED
}

/// fi_cntr_wait, fi_cntr_add, fi_cntr_set.
pub fn a_wait_ends_at_its_threshold(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let counter = ok(world.cntr_open(side.domain));
    ok(world.cntr_wait(counter, 0, 0));
    refused(world.cntr_wait(counter, 1, 0), Errno::ETIMEDOUT);
    let before = world.now();
    refused(world.cntr_wait(counter, 1, 30), Errno::ETIMEDOUT);
    assert!(world.now() - before >= core::time::Duration::from_millis(30), "too short");
    ok(world.cntr_add(counter, 5, 0));
    ok(world.cntr_wait(counter, 5, 0));
    refused(world.cntr_wait(counter, 6, 0), Errno::ETIMEDOUT);
    ok(world.cntr_add(counter, 1, 2));
    assert_eq!((ok(world.cntr_read(counter)), ok(world.cntr_readerr(counter))), (6, 2));
    ok(world.cntr_set(counter, u64::MAX, 7));
    ok(world.cntr_add(counter, 2, 0));
    assert_eq!((ok(world.cntr_read(counter)), ok(world.cntr_readerr(counter))), (1, 7));
    ok(world.close_cntr(counter));
    side.close(world);
    PASSED
}

/// fi_ep_bind: one counter for each kind, before fi_enable, of the same domain.
pub fn odd_bindings_are_refused(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let counter = ok(world.cntr_open(side.domain));
    let other = Side::open(world);
    let foreign = ok(world.cntr_open(other.domain));
    let ep = side.endpoint(world, None);
    refused(world.ep_bind_cntr(ep, counter, OpFlags::empty()), Errno::EINVAL);
    refused(world.ep_bind_cntr(ep, counter, OpFlags::SEND | OpFlags::PEEK), Errno::EBADFLAGS);
    refused(world.ep_bind_cntr(ep, foreign, OpFlags::SEND), Errno::EINVAL);
    ok(world.ep_bind_cntr(ep, counter, OpFlags::SEND | OpFlags::READ));
    refused(world.ep_bind_cntr(ep, counter, OpFlags::READ), Errno::EINVAL);
    ok(world.ep_bind_cntr(ep, counter, OpFlags::RECV));
    ok(world.enable(ep));
    refused(world.ep_bind_cntr(ep, counter, OpFlags::WRITE), Errno::EOPBADSTATE);
    refused(world.close_cntr(counter), Errno::EBUSY);
    ok(world.close_ep(ep));
    ok(world.close_cntr(counter));
    ok(world.close_cntr(foreign));
    other.close(world);
    side.close(world);
    PASSED
}

/// An endpoint whose operations are counted needs no completion queue.
pub fn a_counter_will_do_without_a_queue(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (ours, theirs) = (ok(world.cntr_open(pair.client.domain)), ok(world.cntr_open(pair.server.domain)));
    let kinds = OpFlags::SEND | OpFlags::RECV | OpFlags::WRITE;
    let connection = counted(
        world,
        &pair,
        &[(theirs, kinds | OpFlags::REMOTE_WRITE)],
        &[(ours, kinds)],
        false,
    );
    let mr = ok(world.mr_reg(pair.server.domain, RegionOp::new([1; 8], 1)));
    ok(world.recv(connection.server, ReceiveOp::new(8, 0)));
    ok(world.send(connection.client, SendOp::new([1; 8], 0).flags(OpFlags::DELIVERY_COMPLETE)));
    ok(world.write(connection.client, SendOp { data: Some(3), ..SendOp::new([2; 8], 0) }, &[IOV]));
    ok(world.cntr_wait(ours, 2, PATIENT));
    ok(world.cntr_wait(theirs, 2, PATIENT));
    assert_eq!(ok(world.mr_read(mr)), [2; 8]);
    connection.close_endpoints(world);
    ok(world.close_mr(mr));
    ok(world.close_cntr(ours));
    ok(world.close_cntr(theirs));
    pair.close(world);
    PASSED
}

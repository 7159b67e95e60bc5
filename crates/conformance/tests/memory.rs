// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Each allocation inside of the machines fails once: the call says so, or the connection it was for
//! ends with a reason; nothing else happens, and the next attempt works.

use kofi_conformance::suite::fixture::*;
use kofi_conformance::world::{Event, Faults, ReceiveOp, SendOp};
use kofi_conformance::{FailingAllocator, Simulator, World, allocator};
use kofi_core::attr::{CqAttr, EqAttr};
use kofi_core::{Errno, OpFlags, Result};

#[global_allocator]
static ALLOCATOR: FailingAllocator = FailingAllocator;

/// Repeats a call that memory was missing for: once is enough, since one allocation fails.
fn twice<R>(world: &mut Simulator, mut call: impl FnMut(&mut Simulator) -> Result<R>) -> R {
    match call(world) {
        Err(error) if error.errno() == Errno::ENOMEM => ok(call(world)),
        other => ok(other),
    }
}

fn endpoint(
    world: &mut Simulator,
    side: &Side,
    request: Option<kofi_conformance::world::Request>,
) -> kofi_conformance::world::Endpoint {
    let attr = world.endpoint_attr();
    let ep = twice(world, |world| world.endpoint(side.domain, &attr, request));
    twice(world, |world| world.ep_bind_eq(ep, side.eq, OpFlags::empty()));
    twice(world, |world| world.ep_bind_cq(ep, side.cq, OpFlags::TRANSMIT | OpFlags::RECV));
    ep
}

fn side(world: &mut Simulator) -> Side {
    let process = world.process();
    let fabric = ok(world.fabric(process));
    let domain = ok(world.domain(fabric));
    let eq = twice(world, |world| world.eq_open(fabric, &EqAttr::default()));
    let cq = twice(world, |world| world.cq_open(domain, &CqAttr { size: 10, ..CqAttr::default() }));
    Side { process, fabric, domain, eq, cq }
}

/// Connects, exchanges, shuts down and closes, whatever fails once on the way.
fn live(world: &mut Simulator) {
    let (server, client) = (side(world), side(world));
    let (pep, address) = server.listen(world);
    let pair = Pair { server, client, pep, address };
    let (client, server) = 'connect: loop {
        let client = endpoint(world, &pair.client, None);
        twice(world, |world| World::connect(world, client, Some(pair.address), b"data"));
        let mut server = None;
        loop {
            match world.eq_sread(pair.server.eq, 1, OpFlags::empty()) {
                Ok(Event::ConnectionRequest { request, .. }) => {
                    let ep = endpoint(world, &pair.server, request);
                    twice(world, |world| World::accept(world, ep, b"answer"));
                    server = Some(ep);
                }
                Ok(Event::Connected { .. } | Event::Shutdown { .. }) => {}
                Err(error) if error.errno() == Errno::EAGAIN => {}
                other => panic!("{other:?}"),
            }
            match world.eq_sread(pair.client.eq, 1, OpFlags::empty()) {
                Ok(Event::Connected { data, .. }) => {
                    assert_eq!(data, b"answer");
                    let Some(server) = server else { panic!("connected to nobody") };
                    break 'connect (client, server);
                }
                Err(error) if error.errno() == Errno::EAGAIN => {}
                Err(_) => {
                    ok(world.eq_readerr(pair.client.eq, OpFlags::empty()));
                    ok(world.close_ep(client));
                    if let Some(server) = server {
                        ok(world.close_ep(server));
                    }
                    continue 'connect;
                }
                other => panic!("{other:?}"),
            }
        }
    };
    for context in 0..50 {
        twice(world, |world| world.recv(server, ReceiveOp::new(100, context)));
        let send = SendOp::new(pattern(context, 100), context).flags(OpFlags::DELIVERY_COMPLETE);
        twice(world, |world| world.send(client, send.clone()));
    }
    for context in 0..50 {
        let done = completion(world, pair.server.cq);
        assert_eq!((done.context, &done.buffers[0]), (context, &pattern(context, 100)));
        assert_eq!(completion(world, pair.client.cq).context, context);
    }
    ok(world.shutdown(client, 0));
    shut_down(world, pair.client.eq, client);
    ok(world.close_ep(client));
    ok(world.close_ep(server));
    pair.close(world);
}

#[test]
fn each_allocation_may_fail_once() {
    assert!(allocator::installed());
    for nth in 1.. {
        assert!(nth < 10_000, "no end");
        let mut world = Simulator::new(nth);
        let bystanders = Connected::open(&mut world);
        world.fail_allocation(nth);
        live(&mut world);
        let failed = !allocator::pending();
        world.fail_allocation(0);
        bystanders.exchange(&mut world, b"undisturbed");
        if !failed {
            assert!(nth > 20, "only {nth} allocations");
            return;
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Calls in the wrong state or with the wrong things (section 3.7): each is refused with its number,
//! and the object is unharmed (D15).

use kofi_core::attr::EqAttr;
use kofi_core::{Errno, OpFlags};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{ReceiveOp, SendOp};

/// Listening needs an event queue.
pub fn listen_without_an_event_queue(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let address = side.address(world);
    let pep = ok(world.passive_ep(side.fabric, Some(address)));
    refused(world.listen(pep), Errno::ENOEQ);
    ok(world.pep_bind(pep, side.eq, 0));
    ok(world.listen(pep));
    ok(world.close_pep(pep));
    side.close(world);
    PASSED
}

/// Listening once is enough.
pub fn listen_twice(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    refused(world.listen(pair.pep), Errno::EINVAL);
    pair.connect(world).close(world);
    PASSED
}

/// A passive endpoint takes one event queue, without flags, before it listens.
pub fn bind_a_passive_endpoint_wrongly(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let address = side.address(world);
    let pep = ok(world.passive_ep(side.fabric, Some(address)));
    refused(world.pep_bind(pep, side.eq, 1), Errno::EINVAL);
    ok(world.pep_bind(pep, side.eq, 0));
    refused(world.pep_bind(pep, side.eq, 0), Errno::EINVAL);
    ok(world.listen(pep));
    refused(world.pep_bind(pep, side.eq, 0), Errno::EOPBADSTATE);
    ok(world.close_pep(pep));
    side.close(world);
    PASSED
}

/// An event queue of another fabric is none for this one.
pub fn bind_a_foreign_event_queue(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let foreign = ok(world.fabric(side.process));
    let eq = ok(world.eq_open(foreign, &EqAttr::default()));
    let pep = ok(world.passive_ep(side.fabric, None));
    refused(world.pep_bind(pep, eq, 0), Errno::EINVAL);
    let attr = world.endpoint_attr();
    let ep = ok(world.endpoint(side.domain, &attr, None));
    refused(world.ep_bind_eq(ep, eq, OpFlags::empty()), Errno::EINVAL);
    // Neither counts as bound.
    ok(world.close_eq(eq));
    ok(world.close_fabric(foreign));
    ok(world.ep_bind_eq(ep, side.eq, OpFlags::empty()));
    ok(world.pep_bind(pep, side.eq, 0));
    ok(world.close_ep(ep));
    ok(world.close_pep(pep));
    side.close(world);
    PASSED
}

/// An endpoint takes one event queue, and one completion queue for each direction, with a direction.
pub fn bind_an_endpoint_wrongly(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let attr = world.endpoint_attr();
    let ep = ok(world.endpoint(side.domain, &attr, None));
    refused(world.ep_bind_eq(ep, side.eq, OpFlags::TRANSMIT), Errno::EINVAL);
    ok(world.ep_bind_eq(ep, side.eq, OpFlags::empty()));
    refused(world.ep_bind_eq(ep, side.eq, OpFlags::empty()), Errno::EINVAL);
    refused(world.ep_bind_cq(ep, side.cq, OpFlags::empty()), Errno::EINVAL);
    refused(world.ep_bind_cq(ep, side.cq, OpFlags::TRANSMIT | OpFlags::PEEK), Errno::EBADFLAGS);
    ok(world.ep_bind_cq(ep, side.cq, OpFlags::TRANSMIT));
    refused(world.ep_bind_cq(ep, side.cq, OpFlags::TRANSMIT | OpFlags::RECV), Errno::EINVAL);
    ok(world.ep_bind_cq(ep, side.cq, OpFlags::RECV));
    ok(world.enable(ep));
    ok(world.close_ep(ep));
    side.close(world);
    PASSED
}

/// Binding comes before enabling.
pub fn bind_after_enable(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let ep = side.endpoint(world, None);
    ok(world.enable(ep));
    refused(world.ep_bind_eq(ep, side.eq, OpFlags::empty()), Errno::EOPBADSTATE);
    refused(world.ep_bind_cq(ep, side.cq, OpFlags::RECV), Errno::EOPBADSTATE);
    refused(world.enable(ep), Errno::EOPBADSTATE);
    ok(world.close_ep(ep));
    side.close(world);
    PASSED
}

/// Enabling needs an event queue, and a completion queue for each direction.
pub fn enable_without_queues(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let side = pair.client;
    let attr = world.endpoint_attr();
    let ep = ok(world.endpoint(side.domain, &attr, None));
    refused(world.enable(ep), Errno::ENOEQ);
    refused(world.connect(ep, Some(pair.address), &[]), Errno::ENOEQ);
    ok(world.ep_bind_eq(ep, side.eq, OpFlags::empty()));
    refused(world.enable(ep), Errno::ENOCQ);
    ok(world.ep_bind_cq(ep, side.cq, OpFlags::TRANSMIT));
    refused(world.enable(ep), Errno::ENOCQ);
    refused(world.connect(ep, Some(pair.address), &[]), Errno::ENOCQ);
    ok(world.ep_bind_cq(ep, side.cq, OpFlags::RECV));
    ok(world.enable(ep));
    ok(world.close_ep(ep));
    pair.close(world);
    PASSED
}

/// An endpoint made for a request does not connect; one that is to connect does not accept.
pub fn connect_and_accept_mixed_up(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, _) = pair.ask(world, &[]);
    let server = pair.server.endpoint(world, Some(request));
    refused(world.connect(server, Some(pair.address), &[]), Errno::EINVAL);
    refused(world.accept(client, &[]), Errno::EINVAL);
    let fresh = pair.client.endpoint(world, None);
    refused(world.accept(fresh, &[]), Errno::EINVAL);
    ok(world.close_ep(fresh));
    let connection = pair.accept_by(world, client, server);
    connection.exchange(world, b"unharmed");
    connection.close(world);
    PASSED
}

/// D15: connect and accept twice.
pub fn connect_and_accept_twice(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let client = pair.client.endpoint(world, None);
    ok(world.connect(client, Some(pair.address), &[]));
    refused(world.connect(client, Some(pair.address), &[]), Errno::EINVAL);
    let (request, _) = request(world, pair.server.eq);
    let server = pair.server.endpoint(world, Some(request));
    ok(world.accept(server, &[]));
    refused(world.accept(server, &[]), Errno::EINVAL);
    connected(world, pair.server.eq, server);
    connected(world, pair.client.eq, client);
    refused(world.connect(client, Some(pair.address), &[]), Errno::EINVAL);
    refused(world.accept(server, &[]), Errno::EINVAL);
    let connection = Connected { pair, server, client };
    connection.exchange(world, b"unharmed");
    connection.close(world);
    PASSED
}

/// D15: sends before FI_CONNECTED, receives before enable.
pub fn operations_too_early(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let client = pair.client.endpoint(world, None);
    refused(world.recv(client, ReceiveOp::new(8, 0)), Errno::EOPBADSTATE);
    refused(world.send(client, SendOp::new(*b"x", 0)), Errno::ENOTCONN);
    ok(world.enable(client));
    refused(world.send(client, SendOp::new(*b"x", 0)), Errno::ENOTCONN);
    ok(world.connect(client, Some(pair.address), &[]));
    refused(world.send(client, SendOp::new(*b"x", 0)), Errno::ENOTCONN);
    let (request, _) = request(world, pair.server.eq);
    let server = pair.server.endpoint(world, Some(request));
    refused(world.send(server, SendOp::new(*b"x", 0)), Errno::ENOTCONN);
    pair.accept_by(world, client, server);
    no_completion(world, pair.client.cq);
    let connection = Connected { pair, server, client };
    connection.exchange(world, b"unharmed");
    connection.close(world);
    PASSED
}

/// A request is rejected once; a used handle is refused, not followed.
pub fn reject_twice(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, _) = pair.ask(world, &[]);
    ok(world.reject(request, &[]));
    refused(world.reject(request, &[]), Errno::EINVAL);
    let attr = world.endpoint_attr();
    refused(world.endpoint(pair.server.domain, &attr, Some(request)), Errno::EINVAL);
    event_error(world, pair.client.eq);
    ok(world.close_ep(client));
    pair.close(world);
    PASSED
}

/// Shutdown: flags are reserved, and there must be a connection.
pub fn shutdown_wrongly(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let idle = pair.client.endpoint(world, None);
    refused(world.shutdown(idle, 0), Errno::ENOTCONN);
    ok(world.close_ep(idle));
    let connection = pair.connect(world);
    refused(world.shutdown(connection.client, 1), Errno::EINVAL);
    connection.exchange(world, b"unharmed");
    connection.close(world);
    PASSED
}

/// The address of a listener stays.
pub fn set_name_after_listen(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let address = pair.server.address(world);
    refused(world.set_name(pair.pep, address), Errno::EOPBADSTATE);
    assert_eq!(ok(world.pep_name(pair.pep)), pair.address);
    pair.connect(world).close(world);
    PASSED
}

/// A completion queue belongs to its domain.
pub fn bind_a_foreign_completion_queue(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let domain = ok(world.domain(side.fabric));
    let attr = world.endpoint_attr();
    let ep = ok(world.endpoint(domain, &attr, None));
    refused(world.ep_bind_cq(ep, side.cq, OpFlags::TRANSMIT), Errno::EINVAL);
    ok(world.close_ep(ep));
    ok(world.close_domain(domain));
    side.close(world);
    PASSED
}

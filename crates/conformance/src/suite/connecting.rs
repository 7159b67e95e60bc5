// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Connect, accept, reject: from two endpoints to a connection, or to one event that says why not.

use core::time::Duration;

use kofi_core::{EndpointAttr, Errno, Error, OpFlags, TimeLimits};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{Death, Endpoint, Event, Object, ReceiveOp, SendOp, SocketAddr};

/// Most private data (3.5).
const MAX_DATA: usize = 256;

/// D7: after a failed connection nothing but close is legal, and no event comes.
fn dead(world: &mut dyn World, side: &Side, ep: Endpoint, address: SocketAddr) {
    refused(world.connect(ep, Some(address), &[]), Errno::EOPBADSTATE);
    refused(world.send(ep, SendOp::new(*b"x", 0)), Errno::EOPBADSTATE);
    refused(world.recv(ep, ReceiveOp::new(1, 0)), Errno::EOPBADSTATE);
    refused(world.shutdown(ep, 0), Errno::EOPBADSTATE);
    silent(world, side.eq);
    ok(world.close_ep(ep));
    silent(world, side.eq);
}

/// 3.2, 3.3: connect's data comes with FI_CONNREQ, accept's with the FI_CONNECTED of the active side
/// only.
pub fn private_data_goes_both_ways(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, data) = pair.ask(world, b"may I");
    assert_eq!(data, b"may I");
    let server = pair.server.endpoint(world, Some(request));
    ok(world.accept(server, b"you may"));
    assert_eq!(connected(world, pair.server.eq, server), b"");
    assert_eq!(connected(world, pair.client.eq, client), b"you may");
    let connection = Connected { pair, server, client };
    connection.exchange(world, b"hello");
    connection.close(world);
    PASSED
}

/// 3.5: private data of each length up to the limit arrives as it was.
pub fn private_data_of_any_length_arrives(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    for len in [0, 1, 31, 32, 33, 255, MAX_DATA] {
        let (question, answer) = (pattern(len as u64, len), pattern(1000 + len as u64, len));
        let (client, request, data) = pair.ask(world, &question);
        assert_eq!(data, question);
        let server = pair.server.endpoint(world, Some(request));
        ok(world.accept(server, &answer));
        connected(world, pair.server.eq, server);
        assert_eq!(connected(world, pair.client.eq, client), answer);
        ok(world.close_ep(client));
        ok(world.close_ep(server));
    }
    pair.close(world);
    PASSED
}

/// D1: too much private data is refused by the call, with the limit, and nothing is sent.
pub fn too_much_private_data_is_refused(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let long = pattern(0, MAX_DATA + 1);
    let client = pair.client.endpoint(world, None);
    let error = refused(world.connect(client, Some(pair.address), &long), Errno::EINVAL);
    if let Error::PrivateData { len, limit, .. } = error {
        assert_eq!((len, limit), (MAX_DATA + 1, MAX_DATA));
    }
    silent(world, pair.server.eq);
    ok(world.connect(client, Some(pair.address), &long[..MAX_DATA]));
    let (request, _) = request(world, pair.server.eq);
    let server = pair.server.endpoint(world, Some(request));
    refused(world.accept(server, &long), Errno::EINVAL);
    refused(world.reject(request, &long), Errno::EINVAL);
    silent(world, pair.client.eq);
    ok(world.accept(server, &long[..MAX_DATA]));
    connected(world, pair.server.eq, server);
    assert_eq!(connected(world, pair.client.eq, client).len(), MAX_DATA);
    Connected { pair, server, client }.close(world);
    PASSED
}

/// 3.3: a reject is an error entry with FI_ECONNREFUSED and the rejecter's data; D7: the endpoint
/// is dead.
pub fn a_reject_is_one_error_event(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    for data in [&b""[..], b"go away", &pattern(5, MAX_DATA)] {
        let (client, request, _) = pair.ask(world, b"please");
        ok(world.reject(request, data));
        let error = event_error(world, pair.client.eq);
        assert_eq!(error.about, Object::Endpoint(client));
        assert_eq!(error.errno, Errno::ECONNREFUSED);
        assert_eq!(error.data, data);
        dead(world, &pair.client, client, pair.address);
    }
    silent(world, pair.server.eq);
    pair.close(world);
    PASSED
}

/// 3.3: nobody listens: one error entry with FI_ECONNREFUSED; D7.
pub fn nobody_listens(world: &mut dyn World) -> Outcome {
    let client = Side::open(world);
    let server = world.process();
    let address = world.closed_address(server);
    let ep = client.endpoint(world, None);
    ok(world.connect(ep, Some(address), &[]));
    let error = event_error(world, client.eq);
    assert_eq!((error.about, error.errno), (Object::Endpoint(ep), Errno::ECONNREFUSED));
    dead(world, &client, ep, address);
    client.close(world);
    PASSED
}

/// D12: a listener that never answers: one error entry with FI_ETIMEDOUT, in time.
pub fn no_answer_is_an_error_in_time(world: &mut dyn World) -> Outcome {
    let client = Side::open(world);
    let address = client.address(world);
    let (_, address) = raw(world)?.listen(address);
    let ep = client.endpoint(world, None);
    let limit = Duration::from_millis(200);
    ok(world.set_ep_limits(ep, TimeLimits { connect: Some(limit), ..TimeLimits::default() }));
    let from = world.now();
    ok(world.connect(ep, Some(address), &[]));
    let error = event_error(world, client.eq);
    assert_eq!(error.errno, Errno::ETIMEDOUT);
    let took = world.now() - from;
    assert!((limit..limit * 3).contains(&took), "after {took:?}");
    dead(world, &client, ep, address);
    client.close(world);
    PASSED
}

/// D12: an address that never answers: the same, after the default limit at the latest.
pub fn a_silent_address_is_an_error_in_time(world: &mut dyn World) -> Outcome {
    let client = Side::open(world);
    let address = SocketAddr::from(([203, 0, 113, 1], 5000));
    faults(world)?.silence(address);
    let ep = client.endpoint(world, None);
    ok(world.connect(ep, Some(address), &[]));
    let error = event_error(world, client.eq);
    assert_eq!(error.errno, Errno::ETIMEDOUT);
    ok(world.close_ep(ep));
    client.close(world);
    PASSED
}

/// D12: a server that reads its requests but never decides: the client's limit ends it.
pub fn no_decision_is_an_error_at_the_client(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let client = pair.client.endpoint(world, None);
    ok(world.set_ep_limits(client, short_limits()));
    ok(world.connect(client, Some(pair.address), &[]));
    let (request, _) = request(world, pair.server.eq);
    assert_eq!(event_error(world, pair.client.eq).errno, Errno::ETIMEDOUT);
    // Now it decides, too late: the accepted endpoint ends one way or the other.
    run_for(world, A_WHILE);
    let server = pair.server.endpoint(world, Some(request));
    if world.accept(server, &[]).is_ok() {
        ends(world, &pair.server, server);
    }
    ok(world.close_ep(server));
    ok(world.close_ep(client));
    pair.close(world);
    PASSED
}

/// An accepted endpoint whose peer is gone: an error entry, or a connection and its end.
fn ends(world: &mut dyn World, side: &Side, ep: Endpoint) {
    match wait(world, "the end of a connection", |world| world.eq_read(side.eq)) {
        Ok(Event::Connected { ep: found, .. }) => {
            assert_eq!(found, ep);
            shut_down(world, side.eq, ep);
        }
        Err(error) => {
            assert_eq!(error.errno(), Errno::EAVAIL);
            assert_eq!(ok(world.eq_readerr(side.eq, OpFlags::empty())).about, Object::Endpoint(ep));
        }
        other => panic!("{other:?}"),
    }
    silent(world, side.eq);
}

/// 3.2: the address may come from the info, and has to come from somewhere.
pub fn the_address_may_come_from_the_info(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let ep = pair.client.endpoint(world, None);
    refused(world.connect(ep, None, &[]), Errno::EINVAL);
    ok(world.close_ep(ep));
    let attr = EndpointAttr { dest_addr: Some(pair.address), ..world.endpoint_attr() };
    let client = pair.client.endpoint_with(world, &attr, None);
    ok(world.connect(client, None, &[]));
    let (request, _) = request(world, pair.server.eq);
    pair.accept(world, client, request).close(world);
    PASSED
}

/// 3.2: names and peers of both sides agree, and the request shows them.
pub fn both_sides_agree_on_addresses(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let client = pair.client.endpoint(world, None);
    refused(world.ep_peer(client), Errno::ENOTCONN);
    ok(world.connect(client, Some(pair.address), &[]));
    refused(world.ep_peer(client), Errno::ENOTCONN);
    let Event::ConnectionRequest { request: Some(request), local, peer, .. } = event(world, pair.server.eq)
    else {
        panic!("no request");
    };
    assert_eq!(local, pair.address);
    let server = pair.server.endpoint(world, Some(request));
    refused(world.ep_peer(server), Errno::ENOTCONN);
    pair.accept_by(world, client, server);
    assert_eq!(ok(world.ep_name(client)), peer);
    assert_eq!(ok(world.ep_peer(server)), peer);
    assert_eq!(ok(world.ep_peer(client)), pair.address);
    assert_eq!(ok(world.ep_name(server)), pair.address);
    Connected { pair, server, client }.close(world);
    PASSED
}

/// 3.2: connect and accept enable; an endpoint that was enabled before connects as well.
pub fn enabling_first_is_allowed(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let client = pair.client.endpoint(world, None);
    ok(world.enable(client));
    ok(world.connect(client, Some(pair.address), &[]));
    let (request, _) = request(world, pair.server.eq);
    let server = pair.server.endpoint(world, Some(request));
    ok(world.enable(server));
    pair.accept_by(world, client, server).close(world);
    PASSED
}

/// 3.2: receives may be posted from enable on, and take the first messages.
pub fn receives_can_be_posted_before_connecting(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let client = pair.client.endpoint(world, None);
    ok(world.enable(client));
    ok(world.recv(client, ReceiveOp::new(8, 1)));
    ok(world.connect(client, Some(pair.address), &[]));
    ok(world.recv(client, ReceiveOp::new(8, 2)));
    let (request, _) = request(world, pair.server.eq);
    let server = pair.server.endpoint(world, Some(request));
    ok(world.accept(server, &[]));
    connected(world, pair.server.eq, server);
    ok(world.send(server, SendOp::new(*b"first", 3)));
    ok(world.send(server, SendOp::new(*b"second", 4)));
    for (context, bytes) in [(1, &b"first"[..]), (2, b"second")] {
        let done = completion(world, pair.client.cq);
        assert_eq!((done.context, &done.buffers[0][..bytes.len()]), (context, bytes));
    }
    connected(world, pair.client.eq, client);
    Connected { pair, server, client }.close(world);
    PASSED
}

/// 3.2: FI_CONNECTED comes once on each side, and nothing after it.
pub fn connected_comes_once(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    silent(world, connection.pair.client.eq);
    silent(world, connection.pair.server.eq);
    connection.close(world);
    PASSED
}

/// D7: receives posted before a connection that fails complete once, with FI_ECANCELED, before the
/// error entry.
pub fn receives_of_a_failed_connection_are_cancelled(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let client = pair.client.endpoint(world, None);
    ok(world.enable(client));
    ok(world.recv(client, ReceiveOp::new(8, 1)));
    ok(world.connect(client, Some(pair.address), &[]));
    let (request, _) = request(world, pair.server.eq);
    ok(world.reject(request, &[]));
    event_error(world, pair.client.eq);
    refused(world.cq_read(pair.client.cq), Errno::EAVAIL);
    let failed = ok(world.cq_readerr(pair.client.cq));
    assert_eq!((failed.context, failed.errno), (1, Errno::ECANCELED));
    no_completion(world, pair.client.cq);
    ok(world.close_ep(client));
    pair.close(world);
    PASSED
}

/// 3.2: a failed accept keeps the request: it can be rejected, or accepted by another endpoint.
pub fn a_failed_accept_keeps_the_request(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, _) = pair.ask(world, &[]);
    let attr = world.endpoint_attr();
    let bare = ok(world.endpoint(pair.server.domain, &attr, Some(request)));
    refused(world.accept(bare, &[]), Errno::ENOEQ);
    ok(world.ep_bind_eq(bare, pair.server.eq, OpFlags::empty()));
    refused(world.accept(bare, &[]), Errno::ENOCQ);
    ok(world.close_ep(bare));
    pair.accept(world, client, request).close(world);
    PASSED
}

/// 3.2: a reject after an endpoint was made from the request: that endpoint can only be closed.
pub fn a_reject_leaves_an_endpoint_without_its_request(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, _) = pair.ask(world, &[]);
    let server = pair.server.endpoint(world, Some(request));
    ok(world.reject(request, b"no"));
    assert_eq!(event_error(world, pair.client.eq).data, b"no");
    refused(world.accept(server, &[]), Errno::EINVAL);
    ok(world.close_ep(server));
    ok(world.close_ep(client));
    pair.close(world);
    PASSED
}

/// 3.2: a request is good for one accept or one reject.
pub fn a_request_is_used_once(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, _) = pair.ask(world, &[]);
    let server = pair.server.endpoint(world, Some(request));
    let other = pair.server.endpoint(world, Some(request));
    ok(world.accept(server, &[]));
    refused(world.accept(other, &[]), Errno::EINVAL);
    refused(world.reject(request, &[]), Errno::EINVAL);
    connected(world, pair.client.eq, client);
    connected(world, pair.server.eq, server);
    ok(world.close_ep(other));
    let connection = Connected { pair, server, client };
    connection.exchange(world, b"unharmed");
    connection.close(world);
    PASSED
}

/// 3.2: closing an endpoint that has not accepted leaves the request to be decided on.
pub fn an_endpoint_may_go_before_it_accepts(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, _) = pair.ask(world, &[]);
    let server = pair.server.endpoint(world, Some(request));
    ok(world.close_ep(server));
    ok(world.reject(request, &[]));
    event_error(world, pair.client.eq);
    ok(world.close_ep(client));
    pair.close(world);
    PASSED
}

/// 3.2: a client that goes before the answer: the accepted endpoint ends in one way.
pub fn a_client_goes_before_the_answer(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, _) = pair.ask(world, &[]);
    ok(world.close_ep(client));
    run_for(world, A_WHILE);
    let server = pair.server.endpoint(world, Some(request));
    if world.accept(server, &[]).is_ok() {
        ends(world, &pair.server, server);
    }
    ok(world.close_ep(server));
    pair.close(world);
    PASSED
}

/// 3.3: no descriptor for the transport: an error entry says so.
pub fn no_descriptor_to_connect_with(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    faults(world)?.no_descriptors_at_connect(1);
    let client = pair.client.endpoint(world, None);
    match world.connect(client, Some(pair.address), &[]) {
        Ok(()) => assert_eq!(event_error(world, pair.client.eq).errno, Errno::EMFILE),
        Err(error) => assert_eq!(error.errno(), Errno::EMFILE),
    }
    ok(world.close_ep(client));
    pair.connect(world).close(world);
    PASSED
}

/// D12, D7: the client's process dies at each byte of its request: the listener shows nothing of it
/// and serves the next.
pub fn a_client_dies_at_each_byte_of_its_request(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let data = pattern(3, 20);
    for bytes in 0..52 {
        for death in [Death::Killed, Death::Reset] {
            faults(world)?.next_connect_dies_after(bytes, death);
            let client = pair.client.endpoint(world, None);
            ok(world.connect(client, Some(pair.address), &data));
            event_error(world, pair.client.eq);
            ok(world.close_ep(client));
        }
    }
    silent(world, pair.server.eq);
    pair.connect(world).close(world);
    PASSED
}

/// D7: the server's process dies at each byte of its answer: one error entry at the client.
pub fn a_server_dies_at_each_byte_of_its_answer(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let data = pattern(4, 20);
    for bytes in 0..52 {
        for death in [Death::Killed, Death::Reset] {
            faults(world)?.next_accept_dies_after(bytes, death);
            let client = pair.client.endpoint(world, None);
            ok(world.connect(client, Some(pair.address), &[]));
            let mut server = None;
            let decided = run_until(world, PATIENCE, |world| {
                if let Ok(Event::ConnectionRequest { request, .. }) = world.eq_read(pair.server.eq) {
                    let ep = pair.server.endpoint(world, request);
                    let _ = world.accept(ep, &data);
                    server = Some(ep);
                }
                matches!(world.eq_read(pair.client.eq), Err(error) if error.errno() == Errno::EAVAIL)
            });
            assert!(decided, "no error entry, {bytes} bytes of the answer");
            ok(world.eq_readerr(pair.client.eq, OpFlags::empty()));
            ok(world.close_ep(client));
            if let Some(server) = server {
                ok(world.close_ep(server));
            }
        }
    }
    pair.connect(world).close(world);
    PASSED
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The passive endpoint: addresses, backlog, and what happens when more come than can be taken.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use kofi_core::attr::EqAttr;
use kofi_core::{Errno, OpFlags, TimeLimits};

use super::fixture::*;
use super::{Lacking, Outcome};
use crate::World;
use crate::world::{Event, Family, SocketAddr};

/// 3.1: port 0 is replaced by the system's choice, and `getname` gives it.
pub fn port_zero_becomes_a_port(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let (pep, address) = side.listen(world);
    assert_ne!(address.port(), 0);
    assert_eq!(Some(address.ip()), side.address(world).ip().into());
    ok(world.close_pep(pep));
    side.close(world);
    PASSED
}

/// 3.1: a passive endpoint without any address listens, too.
pub fn listening_without_an_address_works(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let pep = ok(world.passive_ep(side.fabric, None));
    ok(world.pep_bind(pep, side.eq, 0));
    ok(world.listen(pep));
    assert_ne!(ok(world.pep_name(pep)).port(), 0);
    ok(world.close_pep(pep));
    side.close(world);
    PASSED
}

/// 3.1: `setname` chooses the address, before listening.
pub fn set_name_chooses_the_address(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let address = side.address(world);
    let pep = ok(world.passive_ep(side.fabric, None));
    ok(world.set_name(pep, address));
    let name = ok(world.pep_name(pep));
    assert_eq!(name.ip(), address.ip());
    ok(world.pep_bind(pep, side.eq, 0));
    ok(world.listen(pep));
    assert_eq!(ok(world.pep_name(pep)).ip(), address.ip());
    ok(world.close_pep(pep));
    side.close(world);
    PASSED
}

/// D9: the name of a wildcard listener is the wildcard with the real port.
pub fn a_wildcard_listener_keeps_its_wildcard(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let wildcard = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let pep = ok(world.passive_ep(pair.server.fabric, Some(wildcard)));
    ok(world.pep_bind(pep, pair.server.eq, 0));
    ok(world.listen(pep));
    let name = ok(world.pep_name(pep));
    assert!(name.ip().is_unspecified() && name.port() != 0, "{name}");
    let mut address = pair.server.address(world);
    address.set_port(name.port());
    let connection = Pair { address, ..pair }.connect(world);
    connection.exchange(world, b"through the wildcard");
    ok(world.close_pep(pep));
    connection.close(world);
    PASSED
}

/// 3.1: the same over IPv6.
pub fn ipv6_works(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let address = world.address(pair.server.process, Family::V6).ok_or(Lacking("IPv6"))?;
    let pep = ok(world.passive_ep(pair.server.fabric, Some(address)));
    ok(world.pep_bind(pep, pair.server.eq, 0));
    ok(world.listen(pep));
    let address = ok(world.pep_name(pep));
    let connection = Pair { address, ..pair }.connect(world);
    connection.exchange(world, b"over IPv6");
    assert_eq!(ok(world.ep_peer(connection.client)), address);
    ok(world.close_pep(pep));
    connection.close(world);
    PASSED
}

/// 3.1: two cannot listen at one address; the second finds out when it binds or listens.
pub fn an_address_is_taken_once(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let result = world.passive_ep(pair.server.fabric, Some(pair.address)).and_then(|pep| {
        ok(world.pep_bind(pep, pair.server.eq, 0));
        let result = world.listen(pep);
        ok(world.close_pep(pep));
        result
    });
    refused(result, Errno::EADDRINUSE);
    pair.connect(world).close(world);
    PASSED
}

/// D6: the backlog is asked for before listening, and is at least 1.
pub fn the_backlog_is_set_before_listening(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let client = Side::open(world);
    let address = side.address(world);
    let pep = ok(world.passive_ep(side.fabric, Some(address)));
    refused(world.set_backlog(pep, 0), Errno::EINVAL);
    ok(world.set_backlog(pep, 1));
    ok(world.pep_bind(pep, side.eq, 0));
    ok(world.listen(pep));
    refused(world.set_backlog(pep, 2), Errno::EOPBADSTATE);
    let address = ok(world.pep_name(pep));
    let connection = Pair { server: side, client, pep, address }.connect(world);
    connection.exchange(world, b"through a backlog of one");
    connection.close(world);
    PASSED
}

/// 3.1: one listener serves many clients.
pub fn many_clients_are_served(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let connections: Vec<_> = (0..24).map(|_| pair.connect(world)).collect();
    for connection in &connections {
        connection.exchange(world, b"each has its own");
    }
    for connection in connections {
        connection.close_endpoints(world);
    }
    pair.close(world);
    PASSED
}

/// 3.1: clients that ask at the same time are all served, and get their own answer.
pub fn clients_that_ask_at_once_get_their_own_answer(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let clients: Vec<_> = (0..16u8)
        .map(|number| {
            let ep = pair.client.endpoint(world, None);
            ok(world.connect(ep, Some(pair.address), &[number]));
            ep
        })
        .collect();
    let mut servers = Vec::new();
    let mut answered = 0;
    let mut confirmed = 0;
    while answered < clients.len() || confirmed < clients.len() {
        let taken = wait(world, "a request or a connection", |world| {
            world.eq_read(pair.server.eq).or_else(|_| world.eq_read(pair.client.eq))
        });
        match ok(taken) {
            Event::ConnectionRequest { request, data, .. } => {
                let ep = pair.server.endpoint(world, request);
                ok(world.accept(ep, &data));
                servers.push(ep);
                answered += 1;
            }
            Event::Connected { ep, data } => {
                if let Some(number) = clients.iter().position(|&client| client == ep) {
                    assert_eq!(data, [number as u8], "somebody else's answer");
                    confirmed += 1;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    for ep in clients.into_iter().chain(servers) {
        ok(world.close_ep(ep));
    }
    pair.close(world);
    PASSED
}

/// D5: a full event queue pauses the listener; no request is lost, and no more than fit are queued
/// (which shows only where a read does not let the next request in).
pub fn a_full_event_queue_pauses_the_listener(world: &mut dyn World) -> Outcome {
    let server = Side::with_eq(world, &EqAttr { size: 2, ..EqAttr::default() });
    let client = Side::open(world);
    let (pep, address) = server.listen(world);
    let clients: Vec<_> = (0..7u8)
        .map(|number| {
            let ep = client.endpoint(world, None);
            ok(world.connect(ep, Some(address), &[number]));
            ep
        })
        .collect();
    run_for(world, A_WHILE);
    let mut seen = [false; 7];
    let mut at_once = 0;
    while seen.contains(&false) {
        match world.eq_read(server.eq) {
            Ok(Event::ConnectionRequest { request: Some(request), data, .. }) => {
                at_once += 1;
                assert!(world.reads_drive() || at_once <= 2, "more unread requests than the queue's size");
                assert!(!core::mem::replace(&mut seen[usize::from(data[0])], true), "a request came twice");
                ok(world.reject(request, &[]));
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => {
                at_once = 0;
                run_for(world, Duration::from_millis(20));
            }
        }
    }
    for ep in clients {
        ok(world.close_ep(ep));
    }
    Pair { server, client, pep, address }.close(world);
    PASSED
}

/// D5, D12: when the system has no descriptor for a connection, accepting pauses, and goes on.
pub fn a_listener_survives_a_shortage_of_descriptors(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    faults(world)?.no_descriptors_at_accept(3);
    let connection = pair.connect(world);
    connection.exchange(world, b"patience");
    connection.close(world);
    PASSED
}

/// D12: a transport connection that says nothing is dropped after the handshake's limit.
pub fn a_silent_peer_is_dropped_in_time(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    ok(world.set_pep_limits(pair.pep, short_limits()));
    let peer = raw(world)?.connect(pair.address);
    let from = world.now();
    let dropped = run_until(world, PATIENCE, |world| world.raw().is_some_and(|raw| raw.ended(peer)));
    assert!(dropped, "still there");
    assert!(world.now() - from >= Duration::from_millis(190), "too early");
    silent(world, pair.server.eq);
    pair.connect(world).close(world);
    PASSED
}

/// D12: a request that was read can be decided on until its limit, no longer.
pub fn a_decision_comes_too_late(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    ok(world.set_pep_limits(pair.pep, short_limits()));
    let (client, request, _) = pair.ask(world, &[]);
    let error = event_error(world, pair.client.eq);
    assert_eq!(error.errno, Errno::ECONNRESET, "the client's transport is gone");
    let server = pair.server.endpoint(world, Some(request));
    refused(world.accept(server, &[]), Errno::ETIMEDOUT);
    refused(world.reject(request, &[]), Errno::ETIMEDOUT);
    ok(world.close_ep(server));
    ok(world.close_ep(client));
    pair.close(world);
    PASSED
}

/// D12: a request that nobody reads until its limit is withdrawn.
pub fn an_unread_request_is_withdrawn_in_time(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    ok(world.set_pep_limits(pair.pep, short_limits()));
    let client = pair.client.endpoint(world, None);
    ok(world.connect(client, Some(pair.address), &[]));
    event_error(world, pair.client.eq);
    silent(world, pair.server.eq);
    ok(world.close_ep(client));
    pair.close(world);
    PASSED
}

/// D12: limits can be switched off: a request waits for as long as its peer does.
pub fn a_decision_can_take_its_time(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let limits = TimeLimits { decision: None, ..TimeLimits::default() };
    ok(world.set_pep_limits(pair.pep, limits));
    let (client, request, _) = pair.ask(world, &[]);
    run_for(world, Duration::from_secs(1));
    pair.accept(world, client, request).close(world);
    PASSED
}

/// D13: closing a listener withdraws its unread requests and refuses their peers.
pub fn closing_a_listener_refuses_unread_requests(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let clients: Vec<_> = (0..3).map(|_| pair.client.endpoint(world, None)).collect();
    for &client in &clients {
        ok(world.connect(client, Some(pair.address), &[]));
    }
    let there = run_until(world, PATIENCE, |world| world.eq_peek(pair.server.eq).is_ok());
    assert!(there, "no request came");
    run_for(world, A_WHILE);
    ok(world.close_pep(pair.pep));
    assert_eq!(refused(world.eq_read(pair.server.eq), Errno::EAGAIN).errno(), Errno::EAGAIN);
    for _ in &clients {
        event_error(world, pair.client.eq);
    }
    silent(world, pair.server.eq);
    for client in clients {
        ok(world.close_ep(client));
    }
    pair.server.close(world);
    pair.client.close(world);
    PASSED
}

/// D13: a request that was read can be accepted after its listener was closed.
pub fn a_read_request_outlives_its_listener(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, _) = pair.ask(world, &[]);
    ok(world.close_pep(pair.pep));
    let server = pair.server.endpoint(world, Some(request));
    ok(world.accept(server, b"still here"));
    connected(world, pair.server.eq, server);
    assert_eq!(connected(world, pair.client.eq, client), b"still here");
    let connection = Connected { pair, server, client };
    connection.exchange(world, b"hello");
    ok(world.close_ep(client));
    ok(world.close_ep(server));
    pair.server.close(world);
    pair.client.close(world);
    PASSED
}

/// D13: a request that was read can be rejected after its listener was closed.
pub fn a_read_request_can_be_rejected_without_its_listener(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, _) = pair.ask(world, &[]);
    ok(world.close_pep(pair.pep));
    ok(world.reject(request, b"gone"));
    assert_eq!(event_error(world, pair.client.eq).data, b"gone");
    ok(world.close_ep(client));
    pair.server.close(world);
    pair.client.close(world);
    PASSED
}

/// 3.1: once a listener is closed nobody can connect any more, and its address is free.
pub fn a_closed_listener_frees_its_address(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    pair.connect(world);
    ok(world.close_pep(pair.pep));
    let client = pair.client.endpoint(world, None);
    ok(world.connect(client, Some(pair.address), &[]));
    assert_eq!(event_error(world, pair.client.eq).errno, Errno::ECONNREFUSED);
    let pep = ok(world.passive_ep(pair.server.fabric, Some(pair.address)));
    ok(world.pep_bind(pep, pair.server.eq, 0));
    ok(world.listen(pep));
    Pair { pep, ..pair }.connect(world);
    PASSED
}

/// D5: two listeners can share an event queue; each request names its own.
pub fn listeners_share_an_event_queue(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (second, address) = pair.server.listen(world);
    for (pep, address) in [(second, address), (pair.pep, pair.address)] {
        let client = pair.client.endpoint(world, None);
        ok(world.connect(client, Some(address), &[]));
        match event(world, pair.server.eq) {
            Event::ConnectionRequest { pep: found, request: Some(request), .. } => {
                assert_eq!(found, pep);
                ok(world.reject(request, &[]));
            }
            other => panic!("{other:?}"),
        }
        event_error(world, pair.client.eq);
        ok(world.close_ep(client));
    }
    ok(world.close_pep(second));
    pair.close(world);
    PASSED
}

/// D1, 3.4: a request's event that is only looked at stays, and is whole when it is read.
pub fn a_request_can_be_looked_at(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let client = pair.client.endpoint(world, None);
    ok(world.connect(client, Some(pair.address), b"look"));
    for _ in 0..2 {
        match ok(wait(world, "a request", |world| world.eq_peek(pair.server.eq))) {
            Event::ConnectionRequest { pep, data, .. } => {
                assert_eq!((pep, data.as_slice()), (pair.pep, b"look".as_slice()));
            }
            other => panic!("{other:?}"),
        }
    }
    let (request, data) = request(world, pair.server.eq);
    assert_eq!(data, b"look");
    ok(world.reject(request, &[]));
    let error = ok(wait(world, "an error", |world| world.eq_readerr(pair.client.eq, OpFlags::empty())));
    assert_eq!(error.errno, Errno::ECONNREFUSED);
    ok(world.close_ep(client));
    pair.close(world);
    PASSED
}

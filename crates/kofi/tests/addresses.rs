// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Addresses, and what getinfo says of them (decision D9; `fi_getinfo(3)`, `fi_cm(3)`).

#![allow(clippy::unwrap_used)]

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use common::{PATIENCE, client_of, loopback, pair, server_at};
use kofi::{AddrFormat, Caps, EpType, Errno, Event, Hints, Query, WaitObj};

fn loopbacks() -> Vec<SocketAddr> {
    let six: SocketAddr = (Ipv6Addr::LOCALHOST, 0).into();
    let mut all = vec![loopback()];
    match std::net::TcpListener::bind(six) {
        Ok(_) => all.push(six),
        Err(error) => common::say(&format!("skipped: no IPv6 loopback ({error})")),
    }
    all
}

/// It does not come to listen at all addresses because it could not have one of them.
#[test]
fn a_listener_that_cannot_have_another_address_keeps_its_own() {
    for addr in loopbacks() {
        let (server, _) = server_at(addr, WaitObj::Unspec);
        let pep = server.fabric.passive_endpoint(&server.info).unwrap();
        let name = pep.ops().name().unwrap();
        // An address for documentation, which no host has.
        let foreign = SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).into(), 0);
        assert_eq!(pep.set_name(foreign).unwrap_err().errno(), Errno::EADDRNOTAVAIL);
        assert_eq!(pep.ops().name().unwrap(), name);
        pep.set_name(name.clone()).unwrap();
        let listener = pep.bind(&server.eq).unwrap().listen().unwrap();
        assert_eq!(listener.name().unwrap(), name);
    }
}

#[test]
fn a_listener_has_a_real_port() {
    for addr in loopbacks() {
        let (server, listener) = server_at(addr, WaitObj::Unspec);
        let name = listener.name().unwrap().socket_addr().unwrap();
        assert_eq!(name.ip(), addr.ip());
        assert_ne!(name.port(), 0);
        let client = client_of(&listener, WaitObj::Unspec);
        let endpoint = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
        let endpoint = endpoint.connect(b"").unwrap();
        let Event::ConnectionRequest(request) = server.eq.wait(PATIENCE).unwrap() else { panic!() };
        assert_eq!(request.info().src_addr, Some(name.into()));
        assert_eq!(request.info().dest_addr, Some(endpoint.name().unwrap()));
        let accepted = server.domain.endpoint_for(&request, &server.eq, &server.cq).unwrap();
        let accepted = accepted.accept(b"").unwrap();
        assert_eq!(accepted.peer().unwrap(), endpoint.name().unwrap());
        let Event::Connected { .. } = client.eq.wait(PATIENCE).unwrap() else { panic!() };
        assert_eq!(endpoint.peer().unwrap(), accepted.name().unwrap());
    }
}

#[test]
fn a_wildcard_listener_is_reached_at_every_address() {
    for wildcard in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
        if wildcard.is_ipv6() && loopbacks().len() < 2 {
            continue;
        }
        let (server, listener) = server_at((wildcard, 0).into(), WaitObj::Unspec);
        let name = listener.name().unwrap().socket_addr().unwrap();
        assert_eq!(name.ip(), wildcard);
        let target = loopbacks().into_iter().find(|addr| addr.is_ipv6() == wildcard.is_ipv6()).unwrap();
        let dest = SocketAddr::new(target.ip(), name.port());
        let client = common::side(kofi::getinfo(Hints::new().dest(dest)).unwrap().remove(0), WaitObj::Unspec);
        let endpoint = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
        let _endpoint = endpoint.connect(b"").unwrap();
        let Event::ConnectionRequest(request) = server.eq.wait(PATIENCE).unwrap() else { panic!() };
        // The request knows which of our addresses was reached.
        assert_eq!(request.info().src_addr, Some(dest.into()));
    }
}

#[test]
fn concrete_addresses_are_listed() {
    let infos = kofi::getinfo(Hints::new()).unwrap();
    assert!(infos.iter().all(|info| !info.src_addr.as_ref().unwrap().is_unspecified()));
    assert!(infos.iter().any(|info| info.src_addr == Some((Ipv4Addr::LOCALHOST, 0).into())));
    // Those that others can reach come first.
    let last = infos.last().unwrap().src_addr.as_ref().unwrap().socket_addr().unwrap();
    assert!(last.ip().is_loopback());
}

#[test]
fn a_link_local_address_keeps_its_scope() {
    let infos = kofi::getinfo(Hints::new().addr_format(AddrFormat::SockaddrIn6)).unwrap();
    let scoped = infos.iter().find_map(|info| match info.src_addr.as_ref()?.socket_addr()? {
        SocketAddr::V6(addr) if addr.ip().is_unicast_link_local() => Some(addr),
        _ => None,
    });
    let Some(addr) = scoped else {
        common::say("skipped: no interface has a link-local address");
        return;
    };
    assert_ne!(addr.scope_id(), 0);
    let (_server, listener) = server_at(addr.into(), WaitObj::Unspec);
    let Some(SocketAddr::V6(name)) = listener.name().unwrap().socket_addr() else { panic!() };
    assert_eq!((name.ip(), name.scope_id()), (addr.ip(), addr.scope_id()));
}

#[test]
fn hints_for_addresses_mean_what_they_say() {
    for format in [AddrFormat::SockaddrIn, AddrFormat::SockaddrIn6] {
        if format == AddrFormat::SockaddrIn6 && loopbacks().len() < 2 {
            continue;
        }
        let infos = kofi::getinfo(Hints::new().addr_format(format)).unwrap();
        assert!(infos.iter().all(|info| info.addr_format == format));
    }
    let query = || Query::new(Hints::new().endpoint_type(EpType::Msg)).node("127.0.0.1").service(5000);
    let addr = Some((Ipv4Addr::LOCALHOST, 5000).into());
    assert_eq!(kofi::getinfo(query().source()).unwrap()[0].src_addr, addr);
    let info = kofi::getinfo(query()).unwrap().remove(0);
    assert_eq!(info.dest_addr, addr);
    // The kernel's route look-up gives the source.
    assert_eq!(info.src_addr, Some((Ipv4Addr::LOCALHOST, 0).into()));
    let hinted = kofi::getinfo(Hints::new().dest((Ipv4Addr::LOCALHOST, 7))).unwrap().remove(0);
    assert_eq!(hinted.dest_addr, Some((Ipv4Addr::LOCALHOST, 7).into()));
}

#[test]
fn a_hinted_source_is_what_the_server_sees() {
    let pair = pair();
    let port = std::net::TcpListener::bind(loopback()).unwrap().local_addr().unwrap();
    let hints = Hints::new().source(port).dest(pair.listener.name().unwrap());
    let info = kofi::getinfo(hints).unwrap().remove(0);
    let endpoint = pair.client.domain.endpoint(&info, &pair.client.eq, &pair.client.cq).unwrap();
    let _endpoint = endpoint.connect(b"").unwrap();
    let Event::ConnectionRequest(request) = pair.server.eq.wait(PATIENCE).unwrap() else { panic!() };
    assert_eq!(request.info().dest_addr, Some(port.into()));
}

#[test]
fn no_match_says_why() {
    for (hints, field) in [
        (Hints::new().provider("nonesuch"), "prov_name"),
        (Hints::new().inject_size(usize::MAX), "inject_size"),
        (Hints::new().caps(Caps::MSG | Caps::ATOMIC), "caps"),
        (Hints::new().endpoint_type(EpType::Dgram), "type"),
        (Hints::new().domain("nonesuch0"), "domain"),
    ] {
        let error = kofi::getinfo(hints).unwrap_err();
        assert_eq!(error.errno(), Errno::ENODATA);
        assert!(error.to_string().contains(field), "{error}");
    }
    let error = kofi::getinfo(Query::new(Hints::new()).node("no.such.name.invalid")).unwrap_err();
    assert_eq!(error.errno(), Errno::ENODATA);
    assert!(error.to_string().contains("no.such.name.invalid"), "{error}");
}

#[test]
fn an_address_that_is_taken_is_refused() {
    let (server, listener) = server_at(loopback(), WaitObj::Unspec);
    let taken = listener.name().unwrap().socket_addr().unwrap();
    let info = kofi::getinfo(Hints::new().source(taken)).unwrap().remove(0);
    let second = server.fabric.passive_endpoint(&info);
    let error = match second.and_then(|second| Ok(second.bind(&server.eq)?)) {
        Err(error) => error,
        Ok(second) => second.listen().unwrap_err().error,
    };
    assert_eq!(error.errno(), Errno::EADDRINUSE, "{error}");
    // The first one is unharmed, and the port is free at once when it is gone.
    let client = client_of(&listener, WaitObj::Unspec);
    let endpoint = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
    let _endpoint = endpoint.connect(b"").unwrap();
    let Event::ConnectionRequest(_) = server.eq.wait(PATIENCE).unwrap() else { panic!() };
    listener.close();
    let _again = server.fabric.passive_endpoint(&info).unwrap().bind(&server.eq).unwrap().listen().unwrap();
}

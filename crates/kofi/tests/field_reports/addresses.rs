// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! B1: addresses, `fi_getinfo`, listening.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Output;
use std::time::{Duration, Instant};

use kofi::{AddrFormat, Caps, Errno, Event, Hints, Info, Query, WaitObj};

use crate::common::{loopback, next, pair, server_at, side};
use crate::kit::{End, Log, part, role, transfer};

fn addr(address: Option<&kofi::Address>) -> SocketAddr {
    address.unwrap().socket_addr().unwrap()
}

#[test]
fn bug_01_ephemeral_port() {
    own_process!();
    let mut tried = 0;
    for (node, reach) in [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "::1")] {
        let (ip, reach): (IpAddr, IpAddr) = (node.parse().unwrap(), reach.parse().unwrap());
        if TcpListener::bind((reach, 0)).is_err() {
            // Only IPv6 may be missing.
            assert!(ip.is_ipv6());
            continue;
        }
        let (server, listener) = server_at((ip, 0).into(), WaitObj::Unspec);
        let name = addr(Some(&listener.name().unwrap()));
        assert_ne!(name.port(), 0, "{node}");
        assert_eq!(name.ip(), ip, "the family and the address that were asked for");
        let dest = SocketAddr::new(reach, name.port());
        let client =
            side(kofi::getinfo(Hints::new().provider("tcp").dest(dest)).unwrap().remove(0), WaitObj::Unspec);
        let endpoint = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
        let endpoint = endpoint.connect(b"").unwrap();
        let Event::ConnectionRequest(request) = next(&server.eq, &[&client.eq]) else { panic!() };
        let accepted = server.domain.endpoint_for(&request, &server.eq, &server.cq).unwrap();
        let accepted = accepted.accept(b"").unwrap();
        let Event::Connected { .. } = next(&server.eq, &[&client.eq]) else { panic!() };
        let Event::Connected { .. } = next(&client.eq, &[&server.eq]) else { panic!() };
        transfer(End(&endpoint, &client.cq), End(&accepted, &server.cq), 100, 1);
        tried += 1;
    }
    assert!(tried >= 2);
}

#[test]
fn bug_19_address_hints() {
    own_process!();
    let tcp = || Hints::new().provider("tcp");
    let query = |hints: Hints| Query::new(hints).node("127.0.0.1").service(23456);
    // (a)
    for format in [AddrFormat::SockaddrIn, AddrFormat::SockaddrIn6] {
        match kofi::getinfo(tcp().addr_format(format)) {
            Err(error) => {
                assert_eq!((error.errno(), format), (Errno::ENODATA, AddrFormat::SockaddrIn6));
            }
            Ok(infos) => infos.iter().for_each(|info| {
                assert_eq!(info.addr_format, format);
                assert_eq!(addr(info.src_addr.as_ref()).is_ipv4(), format == AddrFormat::SockaddrIn);
            }),
        }
    }
    // (b), (c)
    let wanted: SocketAddr = ([127, 0, 0, 1], 23456).into();
    for info in kofi::getinfo(query(tcp()).source()).unwrap() {
        assert_eq!(addr(info.src_addr.as_ref()), wanted);
        assert_eq!(info.dest_addr, None);
    }
    for info in kofi::getinfo(query(tcp())).unwrap() {
        assert_eq!(addr(info.dest_addr.as_ref()), wanted);
    }
    // (d)
    let wanted: SocketAddr = ([127, 0, 0, 1], 34567).into();
    for info in kofi::getinfo(tcp().dest(wanted)).unwrap() {
        assert_eq!(addr(info.dest_addr.as_ref()), wanted);
    }
    // (e)
    let pair = pair();
    let listener = addr(Some(&pair.listener.name().unwrap()));
    let own = TcpListener::bind(loopback()).unwrap().local_addr().unwrap();
    let hinted = Query::new(tcp().source(own)).node("127.0.0.1").service(listener.port());
    let info = kofi::getinfo(hinted).unwrap().remove(0);
    assert_eq!(addr(info.src_addr.as_ref()), own);
    let client = side(info, WaitObj::Unspec);
    let endpoint = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
    let endpoint = endpoint.connect(b"").unwrap();
    let Event::ConnectionRequest(request) = next(&pair.server.eq, &[&client.eq]) else { panic!() };
    assert_eq!(addr(request.info().dest_addr.as_ref()), own);
    let accepted = pair.server.domain.endpoint_for(&request, &pair.server.eq, &pair.server.cq).unwrap();
    let accepted = accepted.accept(b"").unwrap();
    let Event::Connected { .. } = next(&pair.server.eq, &[&client.eq]) else { panic!() };
    let Event::Connected { .. } = next(&client.eq, &[&pair.server.eq]) else { panic!() };
    assert_eq!(addr(Some(&accepted.peer().unwrap())), own);
    transfer(End(&endpoint, &client.cq), End(&accepted, &pair.server.cq), 64, 1);
    // (f)
    let local = if_addrs::get_if_addrs().unwrap().into_iter().find(|interface| {
        matches!(interface.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local()) && interface.index.is_some()
    });
    if let Some(interface) = local {
        let scoped = Query::new(tcp().addr_format(AddrFormat::SockaddrIn6))
            .node(format!("{}%{}", interface.ip(), interface.name))
            .service(23456);
        for info in kofi::getinfo(scoped.source()).unwrap() {
            let SocketAddr::V6(addr) = addr(info.src_addr.as_ref()) else { panic!() };
            assert_eq!(Some(addr.scope_id()), interface.index);
        }
    }
}

/// Not a test by itself: a query in a process with its own environment, which prints what it gets.
#[test]
fn ask() {
    let Some(role) = role() else { return };
    let tcp = || Hints::new().provider("tcp");
    let hints = match role.as_str() {
        "unknown provider" => Hints::new().provider("no-such-provider"),
        "enormous injections" => tcp().inject_size(usize::MAX),
        "verbs" => Hints::new().provider("verbs"),
        "remote" => tcp().caps(Caps::MSG | Caps::REMOTE_COMM),
        "anything" => Hints::new(),
        _ => tcp(),
    };
    let result = kofi::getinfo(hints);
    let show = |info: &Info| {
        format!("{}={}", info.fabric_attr.prov_name, addr(info.src_addr.as_ref()).ip().is_loopback())
    };
    match result {
        Ok(infos) => println!("\nfound {}", infos.iter().map(show).collect::<Vec<_>>().join(" ")),
        Err(error) => println!("\nerror {}", error.errno().raw()),
    }
}

#[test]
fn bug_20_no_match() {
    own_process!();
    // The answer, and that nothing else was printed.
    let ask = |role: &str, interface: &str| {
        let mut command = part("addresses::ask", role);
        if !interface.is_empty() {
            command.env("FI_TCP_IFACE", interface);
        }
        let Output { status, stdout, stderr } = command.output().unwrap();
        assert!(status.success() && stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
        let stdout = String::from_utf8(stdout).unwrap();
        let (answers, rest): (Vec<_>, Vec<_>) = stdout
            .lines()
            .filter(|line| !line.is_empty())
            .partition(|line| line.starts_with("found ") || line.starts_with("error "));
        let libtest = ["running 1 test", "test addresses::ask ... ", "ok", "test result: ok."];
        for line in rest {
            assert!(libtest.iter().any(|own| line.starts_with(own)), "{role}: printed {line:?}");
        }
        assert_eq!(answers.len(), 1, "{stdout}");
        answers[0].to_owned()
    };
    let none = format!("error {}", Errno::ENODATA.raw());
    // (a), (b), (f)
    assert_eq!(ask("unknown provider", ""), none);
    assert_eq!(ask("enormous injections", ""), none);
    if !std::path::Path::new("/sys/class/infiniband").exists() {
        assert_eq!(ask("verbs", ""), none);
    }
    // (c)
    assert_eq!(ask("tcp", "nonexistent0"), none);
    // (d)
    let others = if_addrs::get_if_addrs().unwrap();
    if let Some(other) = others.iter().find(|interface| !interface.is_loopback() && interface.ip().is_ipv4())
    {
        let found = ask("tcp", &other.name);
        assert!(found.contains("tcp=false") && !found.contains("tcp=true"), "{found}");
    }
    // (e)
    let found = ask("remote", "");
    assert!(!found.contains("tcp=true"), "{found}");
    // No other provider is hidden by a filter of tcp's.
    let others = |found: &str| {
        let of_others = found.strip_prefix("found ").unwrap_or("").split(' ');
        of_others.filter(|name| !name.is_empty() && !name.starts_with("tcp=")).count()
    };
    assert_eq!(others(&ask("anything", "")), others(&ask("anything", "nonexistent0")));
}

/// Not a test by itself: listens with the environment's ports, and prints what came of it.
#[test]
fn listen() {
    let Some(role) = role() else { return };
    let log = Log::start();
    let wanted: usize = role.parse().unwrap();
    let info = kofi::getinfo(Hints::new().provider("tcp").source(([127, 0, 0, 1], 0))).unwrap().remove(0);
    let side = side(info, WaitObj::Unspec);
    let listen =
        || -> kofi::Result<_> { Ok(side.fabric.passive_endpoint(&side.info)?.bind(&side.eq)?.listen()?) };
    let listeners: Vec<_> = (0..wanted).map(|_| listen().unwrap()).collect();
    println!("\nlines {}", log.lines());
    let start = Instant::now();
    let more = listen().map(drop);
    println!("more {} {}", more.is_ok(), more.err().map_or(0, |error| error.errno().raw()));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    for listener in &listeners {
        let addr = addr(Some(&listener.name().unwrap()));
        TcpStream::connect(addr).unwrap();
        println!("port {}", addr.port());
    }
}

#[test]
fn bug_21_port_range() {
    own_process!();
    let run = |count: usize, range: [Option<u16>; 2]| {
        let mut command = part("addresses::listen", &count.to_string());
        for (name, value) in ["FI_TCP_PORT_LOW_RANGE", "FI_TCP_PORT_HIGH_RANGE"].iter().zip(range) {
            match value {
                Some(port) => command.env(name, port.to_string()),
                None => command.env_remove(name),
            };
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let numbers = |text: &str, name: &str| -> Vec<u16> {
        text.lines().filter_map(|line| line.strip_prefix(name)?.trim().parse().ok()).collect()
    };
    // Below the ports that the system gives to whoever asks for any.
    let ephemeral = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let end: u16 = ephemeral.split_whitespace().next().unwrap().parse().unwrap();
    let start = 9000 + (std::process::id() % 1000) as u16 * 4;
    let free = |low: u16| (low..low + 4).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    let low = (start..end).chain(9000..start.min(end)).step_by(4).find(|&low| free(low)).unwrap();

    let text = run(4, [Some(low), Some(low + 3)]);
    let mut ports = numbers(&text, "port ");
    ports.sort_unstable();
    assert_eq!(ports, (low..low + 4).collect::<Vec<_>>(), "{text}");
    // Decided: not -FI_EADDRINUSE, since there is no address that could be named.
    assert!(text.contains(&format!("more false {}", Errno::EADDRNOTAVAIL.raw())), "{text}");
    for range in [[Some(low + 3), Some(low)], [Some(low), None], [None, Some(low)]] {
        let text = run(1, range);
        assert!(text.contains("more true"), "{range:?}: {text}");
        assert_eq!(numbers(&text, "lines "), [1], "{range:?}: one line says that it is ignored");
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! File descriptors: closed on exec, given back, and what happens when there are none left.
//! One test: the limit is that of the whole process.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::{PATIENCE, pair};
use kofi::{Errno, Event};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, getrlimit, pidfd_getfd, setrlimit};

fn open() -> Vec<i32> {
    let mut fds: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    fds.sort_unstable();
    fds
}

#[test]
fn descriptors() {
    let before = open();
    let pair = pair();
    let _connected = pair.connect();

    // Each is closed on exec.
    for fd in open().into_iter().filter(|fd| !before.contains(fd)) {
        let Ok(info) = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")) else { continue };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
        assert_ne!(u32::from_str_radix(flags, 8).unwrap() & 0o2_000_000, 0, "descriptor {fd}: {info}");
    }

    // Small messages leave at once, at both ends.
    let pid = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap();
    let mut sockets = 0;
    for fd in open().into_iter().filter(|fd| !before.contains(fd)) {
        let Ok(copy) = pidfd_getfd(&pid, fd, PidfdGetfdFlags::empty()) else { continue };
        if let Ok(nodelay) = rustix::net::sockopt::tcp_nodelay(&copy) {
            assert!(nodelay, "descriptor {fd}");
            sockets += 1;
        }
    }
    assert_eq!(sockets, 3, "a listener and two ends");

    // Connections give theirs back.
    let mut counts = Vec::new();
    for _ in 0..50 {
        let (server, client) = pair.connect();
        client.shutdown().unwrap();
        let Event::Shutdown { .. } = pair.server.eq.wait(PATIENCE).unwrap() else { panic!() };
        let Event::Shutdown { .. } = pair.client.eq.wait(PATIENCE).unwrap() else { panic!() };
        drop((server, client));
        counts.push(open().len());
    }
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");

    // With none left the listener waits, without a busy loop, and takes the connection later.
    let limit = getrlimit(Resource::Nofile);
    let addr = pair.listener.name().unwrap().socket_addr().unwrap();
    let dup = |fd: &std::fs::File| fd.try_clone();
    let null = std::fs::File::open("/dev/null").unwrap();
    let stranger = std::net::TcpStream::connect(addr).unwrap();
    let most = open().into_iter().max().unwrap() as u64 + 8;
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum }).unwrap();
    let mut filling = Vec::new();
    while let Ok(file) = dup(&null) {
        filling.push(file);
    }
    let endpoint = pair.client.domain.endpoint(&pair.client.info, &pair.client.eq, &pair.client.cq).unwrap();
    let endpoint = endpoint.connect(b"").unwrap();
    // Ours cannot get a socket: one error event says so.
    match pair.client.eq.wait(PATIENCE).unwrap() {
        Event::Failed { endpoint: fid, reason, .. } => {
            assert_eq!((fid, reason.errno()), (endpoint.fid(), Errno::EMFILE));
        }
        other => panic!("{other:?}"),
    }
    let cpu = || {
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_THREAD).unwrap();
        use nix::sys::time::TimeValLike;
        Duration::from_micros((usage.user_time() + usage.system_time()).num_microseconds() as u64)
    };
    let used = cpu();
    assert!(pair.server.eq.sread(Duration::from_millis(400)).is_err());
    assert!(cpu() - used < Duration::from_millis(40), "{:?}", cpu() - used);
    filling.clear();
    drop(stranger);
    let endpoint = pair.client.domain.endpoint(&pair.client.info, &pair.client.eq, &pair.client.cq).unwrap();
    let _endpoint = endpoint.connect(b"at last").unwrap();
    let start = Instant::now();
    match pair.server.eq.wait(PATIENCE).unwrap() {
        Event::ConnectionRequest(request) => assert_eq!(request.data(), b"at last"),
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() < PATIENCE);
}

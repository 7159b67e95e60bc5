// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Sockets that another process has, too, as after a fork.

#![allow(clippy::unwrap_used)]

mod common;

use std::os::fd::OwnedFd;
use std::time::Duration;

use common::pair;
use kofi::TimeLimits;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Every socket of this process once more: what a child would hold.
fn held() -> Vec<OwnedFd> {
    let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| {
        let entry = entry.ok()?;
        let target = std::fs::read_link(entry.path()).ok()?;
        target.to_str()?.starts_with("socket:").then_some(())?;
        entry.file_name().to_str()?.parse().ok()
    });
    fds.collect::<Vec<i32>>()
        .into_iter()
        .filter_map(|fd| pidfd_getfd(&this, fd, PidfdGetfdFlags::empty()).ok())
        .collect()
}

/// What happens to a connection that was closed does not happen to the next one in its place.
#[test]
fn a_closed_connection_that_a_child_holds_harms_no_other() {
    let pair = pair();
    let (server, client) = pair.connect();
    let held = held();
    assert!(held.len() >= 3, "a listener, two connections");
    drop((server, client));
    let (server, client) = pair.connect();
    let limits = TimeLimits { shutdown: Some(Duration::from_millis(50)), ..TimeLimits::default() };
    client.set_limits(limits).unwrap();
    // A message that nobody receives yet.
    server.inject(b"early").unwrap();
    let event = pair.client.eq.wait(Duration::from_millis(300));
    assert!(event.is_err(), "{event:?}, but the peer is there");
    client.recv(vec![0; 8], 1).unwrap();
    assert_eq!(pair.client.cq.wait(common::PATIENCE).unwrap().into_received().unwrap(), b"early");
}

/// A listener that was closed does not go on in a child, where nobody accepts.
#[test]
fn a_closed_listener_that_a_child_holds_refuses() {
    let pair = pair();
    let held = held();
    assert!(!held.is_empty());
    let addr = pair.listener.name().unwrap().socket_addr().unwrap();
    drop(pair.listener);
    assert!(std::net::TcpStream::connect(addr).is_err());
}

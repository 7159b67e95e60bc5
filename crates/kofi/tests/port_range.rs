// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `FI_TCP_PORT_LOW_RANGE` and `FI_TCP_PORT_HIGH_RANGE`, in processes of their own.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::TcpListener;
use std::process::Command;
use std::sync::Mutex;

use common::{loopback, server_at};
use kofi::{Errno, WaitObj};

const CHILD: &str = "KOFI_TEST_LISTENERS";

/// Not a test by itself: opens listeners until one fails, and prints their ports.
#[test]
fn child() {
    let Ok(count) = std::env::var(CHILD) else { return };
    let count: usize = count.parse().unwrap();
    let mut listeners = Vec::new();
    for _ in 0..count {
        let (side, listener) = server_at(loopback(), WaitObj::Unspec);
        println!("port {}", listener.name().unwrap().socket_addr().unwrap().port());
        listeners.push((side, listener));
    }
    let (side, _) = &listeners[0];
    match side.fabric.passive_endpoint(&side.info) {
        Err(error) => println!("refused {}", error.errno().raw()),
        Ok(_) => println!("one more"),
    }
}

/// Not a test by itself: binds passive endpoints to all ports before any of them listens.
#[test]
fn late_child() {
    let Ok(count) = std::env::var(CHILD) else { return };
    let (side, listener) = server_at(loopback(), WaitObj::Unspec);
    drop(listener);
    let bound: Vec<_> = (0..count.parse().unwrap())
        .map(|_| side.fabric.passive_endpoint(&side.info).unwrap().bind(&side.eq).unwrap())
        .collect();
    // They stay open, each on a port of its own.
    let listeners: Vec<_> = bound.into_iter().map(|bound| bound.listen().unwrap()).collect();
    println!("{listeners:?}");
}

fn run(count: usize, low: &str, high: &str) -> String {
    run_child("child", count, low, high)
}

fn run_child(child: &str, count: usize, low: &str, high: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env(CHILD, count.to_string())
        .env("FI_TCP_PORT_LOW_RANGE", low)
        .env("FI_TCP_PORT_HIGH_RANGE", high)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Ranges that look free to two tests at a time would overlap.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Four free ports in a row, below those that the system gives to whoever asks for any, so that
/// nobody else takes them meanwhile.
fn free_range() -> u16 {
    let ephemeral = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let end: u16 = ephemeral.split_whitespace().next().unwrap().parse().unwrap();
    let start = 2000 + (std::process::id() % 1000) as u16 * 4;
    (start..end)
        .step_by(4)
        .find(|&low| (low..low + 4).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()))
        .unwrap()
}

#[test]
fn the_range_is_kept_to() {
    let _turn = ONE_AT_A_TIME.lock();
    let low = free_range();
    let range = low..=low + 3;
    let output = run(4, &low.to_string(), &(low + 3).to_string());
    let mut ports: Vec<u16> =
        output.lines().filter_map(|line| line.split("port ").nth(1)?.trim().parse().ok()).collect();
    ports.sort_unstable();
    assert_eq!(ports, range.collect::<Vec<_>>(), "{output}");
    assert!(output.contains(&format!("refused {}", Errno::EADDRNOTAVAIL.raw())), "{output}");
}

/// A port that is bound is taken, although nobody listens there yet.
#[test]
fn ports_are_distinct_before_they_listen() {
    let _turn = ONE_AT_A_TIME.lock();
    let low = free_range();
    run_child("late_child", 4, &low.to_string(), &(low + 3).to_string());
}

#[test]
fn a_range_that_makes_no_sense_is_ignored() {
    let _turn = ONE_AT_A_TIME.lock();
    for (low, high) in [("5000", "4000"), ("-1", "10"), ("many", "4000")] {
        assert!(run(1, low, high).contains("one more"));
    }
}

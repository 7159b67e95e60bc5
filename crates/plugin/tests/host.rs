// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The provider in a stock libfabric that loads it: Debian's programs, unchanged.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

#[path = "../../libfabric/tests/common/mod.rs"]
mod common;

use std::process::Command;

use common::{Installed, built, clean, have, run, symbols, text};

/// The provider as hosts find it.
fn installed(name: &str) -> Installed {
    Installed::of(&built("libkofi_fi.so"), "libkofi-fi.so", name)
}

/// A program on stock's library, which finds the provider.
fn hosted(installed: &Installed, program: &str) -> Command {
    let mut command = clean(program);
    command.env("FI_PROVIDER_PATH", installed.path());
    command
}

#[test]
fn needs_no_symbol_of_the_host() {
    if !have("readelf", "binutils") {
        return;
    }
    let (defined, needed) = symbols(&built("libkofi_fi.so"));
    assert_eq!(defined, ["fi_prov_ini"]);
    let of_host: Vec<_> = needed.iter().filter(|name| name.contains("fi_")).collect();
    assert!(of_host.is_empty(), "{of_host:?}");
}

#[test]
fn is_listed_and_found() {
    if !have("fi_info", "libfabric-bin") {
        return;
    }
    let installed = installed("listed");
    let fi_info = |arguments: &[&str]| {
        let output = run(hosted(&installed, "fi_info").args(arguments));
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        text(&output.stdout)
    };
    assert!(fi_info(&["-l"]).contains("kofi:\n    version: 206.0\n"));
    let entries = fi_info(&["-p", "kofi", "-t", "FI_EP_MSG"]);
    assert!(entries.contains("provider: kofi\n") && !entries.contains("provider: tcp"), "{entries}");
    // In full, and for hints that the host's own structures carry.
    let full = fi_info(&["-p", "kofi", "-t", "FI_EP_MSG", "-d", "lo", "-v"]);
    assert!(full.contains("prov_name: kofi\n") && full.contains("name: lo\n"), "{full}");
    // Those that were there before still are.
    assert!(fi_info(&["-p", "tcp", "-t", "FI_EP_MSG"]).contains("provider: tcp\n"));
}

/// `fi_pingpong` between providers of the host, by their names.
fn ping_pong(server: &str, client: &str, endpoint: &str, name: &str) {
    if have("fi_pingpong", "libfabric-bin") {
        let installed = installed(name);
        let on = |provider: &str| {
            let mut command = hosted(&installed, "fi_pingpong");
            command.args(["-p", provider]);
            command
        };
        common::ping_pong(|| on(server), || on(client), &["-e", endpoint]);
    }
}

#[test]
fn speaks_to_itself() {
    ping_pong("kofi", "kofi", "msg", "kofi-kofi");
}

#[test]
fn speaks_to_tcp() {
    ping_pong("kofi", "tcp", "msg", "kofi-tcp");
}

#[test]
fn tcp_speaks_to_it() {
    ping_pong("tcp", "kofi", "msg", "tcp-kofi");
}

/// The host layers its reliable datagrams on any provider of messages.
#[test]
fn carries_the_hosts_reliable_datagrams() {
    ping_pong("kofi;ofi_rxm", "kofi;ofi_rxm", "rdm", "rxm-rxm");
    ping_pong("kofi;ofi_rxm", "tcp;ofi_rxm", "rdm", "rxm-tcp");
}

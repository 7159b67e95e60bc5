// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The library exports what libfabric does, in the same versions, and nothing else. A change of tools must not change
//! that unseen: programs would not start.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{clean, have, library, run, symbols, text};

/// `name@version` and `name@@version` of all that a library defines.
fn exports(library: &Path) -> BTreeSet<String> {
    symbols(library).0.into_iter().collect()
}

/// The version nodes that a library defines, in order.
fn nodes(library: &Path) -> Vec<String> {
    let output = run(clean("readelf").args(["--version-info", "--wide"]).arg(library));
    let output = text(&output.stdout);
    let definitions = output.lines().skip_while(|line| !line.starts_with("Version definition section"));
    let definitions = definitions.take_while(|line| !line.trim().is_empty());
    definitions.filter_map(|line| Some(line.split_once("Name: ")?.1.trim().to_owned())).collect()
}

#[test]
fn exports_are_those_of_the_list() {
    if !have("readelf", "binutils") {
        return;
    }
    let list = include_str!("exports.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let wanted: BTreeSet<_> = list.map(str::to_owned).collect();
    let found = exports(&library());
    let missing: Vec<_> = wanted.difference(&found).collect();
    let surplus: Vec<_> = found.difference(&wanted).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:?}; not to be there: {surplus:?}");
}

#[test]
fn version_nodes_are_there_in_order() {
    if !have("readelf", "binutils") {
        return;
    }
    let wanted: Vec<_> = (0..=10).map(|node| format!("FABRIC_1.{node}")).collect();
    // In front is the library's own name.
    assert_eq!(nodes(&library())[1..], wanted);
}

/// A program built for the installed stock library finds all it asks for here.
#[test]
fn has_all_that_the_installed_library_has() {
    let stock = Path::new("/usr/lib/x86_64-linux-gnu/libfabric.so.1");
    if !stock.exists() || !have("readelf", "binutils") {
        println!("NOT TESTED: needs {}", stock.display());
        return;
    }
    // What is the default there need not be it here.
    let plain = |exports: BTreeSet<String>| -> BTreeSet<String> {
        exports.into_iter().map(|export| export.replace("@@", "@")).collect()
    };
    let (stock, ours) = (plain(exports(stock)), plain(exports(&library())));
    let missing: Vec<_> = stock.difference(&ours).filter(|name| name.starts_with("fi_")).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A library is a guest: signals, the process's end and fork(2) are the program's.
#[test]
fn leaves_the_process_alone() {
    if !have("readelf", "binutils") {
        return;
    }
    let (_, needed) = symbols(&library());
    // pthread_sigmask is for threads of ours, which block all signals.
    let forbidden = ["sigaction", "signal", "sigprocmask", "atexit", "on_exit", "pthread_atfork"];
    let names = needed.iter().map(|symbol| symbol.split('@').next().unwrap());
    let found: Vec<_> = names.filter(|name| forbidden.contains(name)).collect();
    assert!(found.is_empty(), "{found:?}");
}

/// Threads of ours may outlive a program's dlclose(3).
#[test]
fn stays_in_memory() {
    if !have("readelf", "binutils") {
        return;
    }
    let output = Command::new("readelf").args(["--dynamic", "--wide"]).arg(library()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("NODELETE"));
}

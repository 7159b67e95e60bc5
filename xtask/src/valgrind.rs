// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask valgrind`: the tests under valgrind, which also sees what a sanitizer cannot: system calls that are
//! given memory that nobody has written.

use crate::{process, setup, workspace};

/// Reports nothing but errors, and fails for these and for memory that nothing points to any more.
const RUNNER: &str = "valgrind --quiet --error-exitcode=97 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite --fair-sched=try";

/// Tests that are left out. Those that run in a process of their own (the field reports) are not, but that process is
/// not under valgrind.
const SKIPPED: [&str; 8] = [
    // These copy their own sockets by system calls that valgrind does not know.
    "descriptors",
    "a_closed_connection_that_a_child_holds_harms_no_other",
    "a_closed_listener_that_a_child_holds_refuses",
    // These count what thousands of operations ask of an allocator of their own.
    "counters",
    "messages",
    "messages_with_data",
    "remote_memory",
    // In its forked child, what the threads of other tests have counts as lost.
    "objects::process::tests::children_are_told_apart",
];

pub(crate) fn run() -> Result<(), String> {
    setup::provide(&[&setup::VALGRIND]);
    if let Some(why) = setup::VALGRIND.missing() {
        return Err(why);
    }
    let host = workspace::host()?;
    let mut cargo = workspace::cargo();
    cargo
        .env(format!("CARGO_TARGET_{}_RUNNER", host.to_uppercase().replace('-', "_")), RUNNER)
        // It is some thirty times slower. The number of cases makes no difference to what it looks for.
        .env("PROPTEST_CASES", "8")
        .args(["test", "--no-fail-fast", "--lib", "--bins", "--tests"])
        .args(["-p", "kofi-core", "-p", "kofi", "-p", "kofi-abi"])
        .args(["--target", &host])
        .arg("--target-dir")
        .arg(workspace::target_dir().join("valgrind"))
        .arg("--");
    for test in SKIPPED {
        cargo.args(["--skip", test]);
    }
    cargo.arg("--exact");
    process::run(&mut cargo)
}

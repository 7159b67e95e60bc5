// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask sanitize`: the tests with AddressSanitizer, which sees what goes wrong in memory that is not Rust's
//! to check: in dependencies, and in our unsafe code.

use std::fs;
use std::process::Command;

use crate::{process, workspace};

/// Whether the toolchain has the sanitizer's runtime, as rustup's have.
pub(crate) fn has_runtime() -> Result<bool, String> {
    let directory = workspace::ask_rustc(&["--print", "target-libdir"])?;
    let Ok(entries) = fs::read_dir(directory.trim()) else { return Ok(false) };
    // librustc-stable_rt.asan.a, with the toolchain's channel in its name.
    Ok(entries.flatten().any(|entry| entry.file_name().to_string_lossy().ends_with("_rt.asan.a")))
}

pub(crate) fn run() -> Result<(), String> {
    if !has_runtime()? {
        return Err("this Rust toolchain has no AddressSanitizer; rustup's on Linux do".to_owned());
    }
    process::run(tests()?.args([
        "-p",
        "kofi-core",
        "-p",
        "kofi",
        "-p",
        "kofi-abi",
        "-p",
        "kofi-conformance",
        "--",
        "--skip",
        FORKS,
    ]))?;
    let mut forks = tests()?;
    forks.env("ASAN_OPTIONS", "detect_leaks=0");
    process::run(forks.args(["-p", "kofi", "--test", "field_reports", "--", FORKS]))
}

/// Its children end in order, and what their parent's other threads know looks lost to them.
const FORKS: &str = "bug_18_fork";

fn tests() -> Result<Command, String> {
    let mut cargo = workspace::cargo();
    cargo
        // The sanitizer comes with stable toolchains; the option that links it is for nightly ones only.
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        // It keeps memory that was freed for a while: tests do not look at the size of the process then.
        .env("KOFI_TEST_SANITIZED", "address")
        // rustdoc has flags of its own, and documentation's examples are no other code: no doc tests.
        .args(["test", "--no-fail-fast", "--lib", "--bins", "--tests"])
        // With a target named, the flags do not reach macros and build scripts.
        .args(["--target", &workspace::host()?])
        .arg("--target-dir")
        .arg(workspace::target_dir().join("sanitize"));
    Ok(cargo)
}

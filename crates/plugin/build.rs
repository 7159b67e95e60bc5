// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Keeps the library in memory once it is there.

fn main() {
    // The host unloads its providers when a process ends; threads may still have destructors of ours then.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Gives the library its name and its symbols their versions.

use std::env;
use std::path::Path;

fn main() {
    let directory = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let map = Path::new(&directory).join("libfabric.map");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=libfabric.map");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfabric.so.1");
    // Threads of ours (progress, KOFI_LIVE) may still run when a program unloads it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // lld and gold take it beside the script that rustc itself writes, GNU ld does not; lld is the default.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", map.display());
}

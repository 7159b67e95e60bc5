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
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", map.display());
    // rustc writes a version script, too, with a node that has no name. GNU ld takes no other beside such a one
    // ("anonymous version tag cannot be combined with other version tags"); lld and gold do. lld comes with rustup's
    // rustc and is its default; that of a distribution may take GNU ld unless it is told.
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    if !env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("-fuse-ld=")) {
        println!("cargo::rustc-cdylib-link-arg=-fuse-ld=lld");
    }
}

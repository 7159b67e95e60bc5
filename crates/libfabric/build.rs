// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Gives the library its name.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfabric.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}

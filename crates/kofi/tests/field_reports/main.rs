// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What users of OFI have reported over the years, as scenarios with numbers: each plays one of them
//! from its first step to its last, over real sockets, in a process of its own with a watchdog.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
#[macro_use]
mod common;
/// At the beginning of a test: runs it in a process of its own, and is done where that was started.
macro_rules! own_process {
    () => {
        fn here() {}
        if !$crate::kit::own_process(std::any::type_name_of_val(&here)) {
            return;
        }
    };
}
mod fork;
mod kit;

mod addresses;
mod connecting;
mod data;
mod memory;
mod process;

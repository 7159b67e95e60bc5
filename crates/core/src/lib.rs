// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! kofi's core.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod errno;

pub use errno::Errno;

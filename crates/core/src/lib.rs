// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! kofi's core.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod errno;

pub use errno::Errno;

pub mod address;
pub mod enums;
pub mod flags;
pub mod hints;
pub mod info;
pub mod negotiate;
mod print;
pub mod version;

pub use address::Address;
pub use enums::{AddrFormat, AvType, EpType, Progress, Protocol, ResourceMgmt, Threading};
pub use flags::{Caps, Mode, MrMode, OpFlags, Order};
pub use hints::Hints;
pub use info::Info;
pub use negotiate::{Refusal, negotiate};
pub use version::Version;

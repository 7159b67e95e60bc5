// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Transport addresses (`addr_format` of `fi_getinfo(3)`).

pub use core::net::SocketAddr;

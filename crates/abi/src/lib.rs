// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The C interface of libfabric over kofi: what `libfabric.so.1` and the external provider have in common.
//!
//! * [`sys`] is what the C headers declare, [`layout`] what older ones declared;
//! * [`exports`] are the library's functions, [`getinfo`], [`tostr`], [`strerror`], [`param`] and [`log`] what is
//!   behind them, [`filter`] the form of their variables;
//! * [`info`], [`hints`] and [`address`] turn C's structures into kofi's, and back;
//! * [`objects`] are fabrics, queues, endpoints and the others;
//! * [`mod@boundary`] stands between C and Rust, [`heap`] is C's memory;
//! * [`mod@face`] says whom this copy of the code serves.

pub mod address;
pub mod boundary;
pub mod exports;
pub mod fabric;
pub mod face;
pub mod filter;
pub mod getinfo;
pub mod heap;
pub mod hints;
pub mod info;
pub mod layout;
pub mod log;
pub mod objects;
pub mod param;
pub mod strerror;
pub mod sys;
pub mod tostr;

pub use kofi_core::Version;

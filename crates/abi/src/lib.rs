// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The C interface of libfabric over kofi: what `libfabric.so.1` and the external provider have in common.
//!
//! * [`sys`] is what the C headers declare;
//! * [`layout`] is what older headers declared;
//! * [`mod@boundary`] stands between C and Rust.

pub mod boundary;
pub mod layout;
pub mod sys;

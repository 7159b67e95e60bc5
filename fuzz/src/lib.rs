// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What the fuzz targets do with an input; `fuzz_targets` only calls it, and `tests` runs it over the corpus.
//!
//! Each module says how it reads its input. Most are a **script**, which makes the choices of the driver, the
//! application and the clock, and a **stream**, the bytes that the peer says: so a capture from the wire is
//! an input as it is, behind a script. A script that is used up goes on with zeros.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "here it is an assertion")]

pub mod cm;
pub mod connection;
pub mod getinfo;
pub mod header;
pub mod listener;
pub mod peer;
pub mod seeds;

mod script;

/// The driver in miniature that core's own tests have.
#[allow(dead_code, unfulfilled_lint_expectations, reason = "core's tests use more of it")]
#[path = "../../crates/core/tests/driver/mod.rs"]
mod driver;

/// Offers and hints of core's own tests.
#[allow(dead_code, unfulfilled_lint_expectations, reason = "core's tests use more of it")]
#[path = "../../crates/core/tests/offers/mod.rs"]
mod offers;

/// A target: its name and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 6] = [
    ("cm", cm::run),
    ("header", header::run),
    ("listener", listener::run),
    ("connection", connection::run),
    ("peer", peer::run),
    ("getinfo", getinfo::run),
];

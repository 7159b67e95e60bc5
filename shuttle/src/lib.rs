// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! kofi's waiting and waking, as it is, over threads and system calls that shuttle orders as it likes: a
//! wake-up that is lost in any order of steps is a deadlock here.
//!
//! The files of `crates/kofi` are compiled into this crate. What they take from `crate::sync` are shuttle's
//! locks and atomics, and `rustix` is a model of the few system calls (`kernel.rs`): this crate goes by
//! that name, too.
#![allow(dead_code, unreachable_pub, reason = "the files have more than what is tested here")]
#![allow(clippy::unwrap_used, reason = "here it is an assertion")]
#![allow(clippy::result_large_err, reason = "the locks of the model are larger")]

extern crate self as rustix;

mod kernel;
pub use kernel::{event, fd, io, thread, time};

mod stand_ins;
use stand_ins::{clock, connection_request, fabric, live, sync};

#[path = "../../crates/kofi/src/event_queue.rs"]
mod event_queue;
#[path = "../../crates/kofi/src/returned.rs"]
mod returned;
#[path = "../../crates/kofi/src/future/turn.rs"]
mod turn;
#[path = "../../crates/kofi/src/wait.rs"]
mod wait;
#[path = "../../crates/kofi/src/wait_set.rs"]
mod wait_set;

#[cfg(test)]
mod tests;

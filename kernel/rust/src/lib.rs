// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The driver of kofi's machines in the Linux kernel, and the functions of `include-private/kofi_kernel.h`.
//!
//! * `sys`: what the kernel gives, by way of `kernel/shim`: memory, mutexes, waiting, work, sockets;
//! * one file for each class of object: what is around its machine in `kofi-core`, and its functions for C;
//! * `c`: the structures of the header.
//!
//! Locks, in the order in which they may be taken: wait set, domain or listener, requests of the fabric, event queue and the
//! other leaves. Handlers of queues run with none.
#![no_std]
#![feature(allocator_api)]

extern crate alloc;

mod c;
mod completion_queue;
mod counter;
mod domain;
mod endpoint;
mod error;
mod event_queue;
mod fabric;
mod getinfo;
mod info;
mod loans;
mod memory;
mod memory_region;
mod notice;
mod passive_endpoint;
mod requests;
mod shared_receive;
mod signal;
mod sys;
mod text;
mod wait_set;

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What threads share, as the standard library and the system have it. Files that take it from here can be
//! checked against the model in `shuttle/`, which puts another module in place of this one.

pub(crate) use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak, atomic};

pub(crate) use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

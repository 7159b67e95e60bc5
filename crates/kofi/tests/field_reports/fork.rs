// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! fork(2): the only unsafe code of these tests.

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

/// How a child ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// `_exit(2)`: at once.
    AtOnce,
    /// `exit(3)`: what was registered for the end of the process runs.
    InOrder,
}

/// Runs `child` in a forked process, while `parent` goes on here; the child's status.
pub(crate) fn forked(end: End, child: impl FnOnce() -> i32, parent: impl FnOnce()) -> i32 {
    // SAFETY: the child has a copy of this thread only. What it uses of the C library, the allocator
    // and the end of the process, is made ready for that by the C library; it takes no lock of ours.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // It must not come back into the test.
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
            match end {
                End::InOrder => std::process::exit(status),
                // SAFETY: it ends the process, whatever state that is in.
                End::AtOnce => unsafe { nix::libc::_exit(status) },
            }
        }
        ForkResult::Parent { child } => {
            parent();
            match waitpid(child, None).unwrap() {
                WaitStatus::Exited(_, status) => status,
                other => panic!("a child crashed: {other:?}"),
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Which process this is. After fork(2) a child has copies of its parent's objects, with the same sockets behind
//! them: whatever it did with them, closing included, would be done to the parent's connections.
//!
//! A page that children find empty (`MADV_WIPEONFORK`) tells, at the cost of a load and without a handler.

use core::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use kofi_core::{Errno, Error, Result};

static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// Names the process that an object was opened in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Process(u64);

fn word() -> Option<&'static AtomicU64> {
    // SAFETY: null, or a mapping of at least that size, which stays and is nobody else's.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

impl Process {
    /// This one, for an object of which all others come.
    pub(super) fn enter() -> Self {
        static MAPPED: OnceLock<()> = OnceLock::new();
        MAPPED.get_or_init(map);
        let Some(word) = word() else { return Self(0) };
        // Numbers of processes are used again, and begin anew in a namespace of their own.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        let name = time ^ u64::from(std::process::id()).rotate_right(16) | 1;
        match word.compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Self(name),
            Err(known) => Self(known),
        }
    }

    /// Refuses what another process has opened.
    ///
    /// # Errors
    /// -FI_EOPBADSTATE.
    #[inline]
    pub(super) fn check(self) -> Result<()> {
        if word().map_or(0, |word| word.load(Ordering::Relaxed)) == self.0 {
            return Ok(());
        }
        Err(Error::WrongState {
            call: "a call",
            object: "object",
            found: "of the parent process, which goes on using it",
            remedy: "open another one in this process",
            errno: Errno::EOPBADSTATE,
        })
    }
}

/// Without the page (no memory, an old kernel) children are not told from their parents.
fn map() {
    const LEN: usize = 4096;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever there is room.
    let page = unsafe { libc::mmap(ptr::null_mut(), LEN, access, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return;
    }
    // SAFETY: the mapping that has just been made. If it fails, children find the page as it is.
    unsafe { libc::madvise(page, LEN, libc::MADV_WIPEONFORK) };
    PAGE.store(page.cast(), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_told_apart() {
        let process = Process::enter();
        assert!(process.check().is_ok());
        assert_eq!(Process::enter(), process, "what is open would be stale");
        // SAFETY: the child does nothing but look and leave.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let stale = process.check().is_err();
            let own = Process::enter().check().is_ok();
            // SAFETY: leaves without running what is the parent's.
            unsafe { libc::_exit(if stale && own { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: waits for that child.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
        assert!(process.check().is_ok());
    }
}

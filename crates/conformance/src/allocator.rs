// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! A global allocator that can fail on demand, inside of calls to the machines and nowhere else.
//!
//! In a kernel an allocation that fails is ordinary, and one that must not fail is a crash. A binary
//! that installs [`FailingAllocator`] can show that the machines only ask in a way that can fail.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use std::alloc::System;

/// The system's allocator, which fails when told to.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: kofi_conformance::FailingAllocator = kofi_conformance::FailingAllocator;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FailingAllocator;

static INSTALLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether a machine is being called.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Allocations inside until one fails; zero: none will.
    static COUNTDOWN: Cell<u64> = const { Cell::new(0) };
    /// Allocations inside, so far.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Whether this allocation is to fail.
fn fails() -> bool {
    if !INSIDE.get() {
        return false;
    }
    COUNT.set(COUNT.get() + 1);
    let left = COUNTDOWN.get();
    COUNTDOWN.set(left.saturating_sub(1));
    left == 1
}

// SAFETY: all memory comes from `System` and goes back to it; an answer of null is always allowed.
unsafe impl GlobalAlloc for FailingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return core::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if fails() {
            return core::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Calls into a machine: allocations made by `call` count, and can fail.
pub(crate) fn inside<R>(call: impl FnOnce() -> R) -> R {
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _leave = Leave(INSIDE.replace(true));
    call()
}

/// Whether [`FailingAllocator`] is this program's allocator.
pub fn installed() -> bool {
    if !INSTALLED.load(Ordering::Relaxed) {
        let before = COUNT.get();
        drop(inside(|| core::hint::black_box(Box::new(0u64))));
        INSTALLED.store(COUNT.get() > before, Ordering::Relaxed);
    }
    INSTALLED.load(Ordering::Relaxed)
}

/// Lets the `nth` allocation from now on inside of this thread's machines fail; 0: none.
pub(crate) fn fail(nth: u64) {
    COUNTDOWN.set(nth);
}

/// Whether a failure that was asked for on this thread is still to come.
pub fn pending() -> bool {
    COUNTDOWN.get() > 0
}

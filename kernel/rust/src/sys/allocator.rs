// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The kernel's memory as Rust's.

use core::alloc::{GlobalAlloc, Layout};

use super::raw;

struct Kernel;

// SAFETY: the shim gives memory of that size and alignment, nobody else's, until it is freed with the same alignment.
unsafe impl GlobalAlloc for Kernel {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no condition.
        unsafe { raw::kofi_shim_alloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller says that it came from `alloc` with that layout.
        unsafe { raw::kofi_shim_free(memory, layout.align()) }
    }
}

#[global_allocator]
static ALLOCATOR: Kernel = Kernel;

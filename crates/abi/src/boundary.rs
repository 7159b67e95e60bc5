// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What stands between C and Rust: no panic passes, errors become numbers.

use core::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kofi_core::{Errno, Error};

/// What a function returns to C when its body panicked.
pub trait Broken {
    /// -FI_EOTHER, or what comes closest to it in this type.
    const BROKEN: Self;
}

impl Broken for c_int {
    const BROKEN: Self = -Errno::EOTHER.raw();
}

impl Broken for isize {
    const BROKEN: Self = -Errno::EOTHER.raw() as isize;
}

impl Broken for u64 {
    const BROKEN: Self = 0;
}

impl Broken for () {
    const BROKEN: Self = ();
}

impl<T> Broken for *mut T {
    const BROKEN: Self = core::ptr::null_mut();
}

impl<T> Broken for *const T {
    const BROKEN: Self = core::ptr::null();
}

/// Runs the body of a function that C has called. A panic is a bug of ours; it ends here, since C code cannot be
/// unwound through, and a program that uses a broken library should still be able to say so.
#[inline]
pub fn boundary<T: Broken>(body: impl FnOnce() -> T) -> T {
    // What the panic has left half done is locked, and its lock poisoned: later calls of it come here, too.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(T::BROKEN)
}

/// The number that C gets for an error.
#[inline]
pub fn negative(error: &Error) -> c_int {
    -error.errno().raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_an_error() {
        assert_eq!(boundary(|| -> c_int { panic!("on purpose") }), -256);
        assert_eq!(boundary(|| -> isize { 7 }), 7);
        assert!(boundary(|| -> *mut u8 { panic!("on purpose") }).is_null());
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Errors as C gets them, and the texts for who debugs.

use core::ffi::c_int;

use kofi_core::{Errno, Error, Result};

use crate::sys::show::tell_refusal;

/// The negative number for C. What it means in this case goes to the kernel's log, where that is wanted (dynamic debug).
#[cold]
fn refused(error: &Error) -> c_int {
    // These are how things go, not mistakes.
    if !error.is_again() && !matches!(error, Error::ErrorAvailable) {
        tell_refusal(error);
    }
    -error.errno().raw()
}

pub(crate) fn result(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => refused(&error),
    }
}

pub(crate) fn count(result: Result<usize>) -> isize {
    match result {
        Ok(count) => isize::try_from(count).unwrap_or(isize::MAX),
        Err(error) => refused(&error) as isize,
    }
}

pub(crate) fn system(call: &'static str, errno: Errno) -> Error {
    Error::System { call, errno, detail: alloc::string::String::new() }
}

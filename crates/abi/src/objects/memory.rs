// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory that operations and registrations use: C's until they are complete.

use core::ffi::c_void;

use kofi::{Buf, Buffers, foreign};
use kofi_core::{Error, Result};

use crate::sys::iovec;

/// Most segments that any object takes; lists are not read any further.
const MOST: usize = kofi_core::memory::IOV_LIMIT;

fn null(call: &'static str) -> Error {
    Error::Invalid { call, problem: "null with a length; give the memory, or length 0" }
}

/// One piece of memory.
///
/// # Errors
/// -FI_EINVAL for null with a length.
///
/// # Safety
/// As for [`foreign::memory`].
#[inline]
unsafe fn piece(call: &'static str, start: *const c_void, len: usize, writable: bool) -> Result<Buf> {
    if start.is_null() && len > 0 {
        return Err(null(call));
    }
    // SAFETY: see above.
    Ok(unsafe { foreign::memory(start.cast::<u8>().cast_mut(), len, writable) })
}

/// Memory that bytes are taken from.
///
/// # Errors
/// -FI_EINVAL for null with a length.
///
/// # Safety
/// As for [`foreign::memory`].
#[inline]
pub(super) unsafe fn source(call: &'static str, start: *const c_void, len: usize) -> Result<Buffers> {
    // SAFETY: see above.
    Ok(unsafe { piece(call, start, len, false)? }.into())
}

/// Memory that bytes are put into.
///
/// # Errors
/// -FI_EINVAL for null with a length.
///
/// # Safety
/// As for [`foreign::memory`].
#[inline]
pub(super) unsafe fn sink(call: &'static str, start: *mut c_void, len: usize) -> Result<Buffers> {
    // SAFETY: see above.
    Ok(unsafe { piece(call, start, len, true)? }.into())
}

/// A list that C hands over.
///
/// # Errors
/// -FI_EINVAL for null with a count, and for more than anything takes.
///
/// # Safety
/// Null, or so many are there during the call.
pub(super) unsafe fn list<'a, T>(
    call: &'static str,
    what: &'static str,
    start: *const T,
    count: usize,
) -> Result<&'a [T]> {
    if count > MOST {
        return Err(Error::TooManySegments { call, what, count, limit: MOST });
    }
    match (start.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null(call)),
        // SAFETY: see above.
        (false, _) => Ok(unsafe { core::slice::from_raw_parts(start, count) }),
    }
}

/// The pieces of a list.
///
/// # Errors
/// -FI_EINVAL for null where there should be something, and for too many.
///
/// # Safety
/// As for [`list`]; each piece as for [`foreign::memory`].
pub(super) unsafe fn pieces(
    call: &'static str,
    what: &'static str,
    iov: *const iovec,
    count: usize,
    writable: bool,
) -> Result<Buffers> {
    // SAFETY: see above.
    let iov = unsafe { list(call, what, iov, count)? };
    if let [only] = iov {
        // SAFETY: see above.
        return Ok(unsafe { piece(call, only.iov_base, only.iov_len, writable)? }.into());
    }
    // SAFETY: see above.
    iov.iter().map(|iov| unsafe { piece(call, iov.iov_base, iov.iov_len, writable) }).collect()
}

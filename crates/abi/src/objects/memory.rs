// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory that operations and registrations use: C's until they are complete.

use core::ffi::c_void;

use kofi::{Buffers, foreign};
use kofi_core::{Error, Result};

use crate::sys::iovec;

/// Most segments that any object takes; lists are not read any further.
const MOST: usize = kofi_core::memory::IOV_LIMIT;

fn null(call: &'static str) -> Error {
    Error::Invalid { call, problem: "null with a length; give the memory, or length 0" }
}

/// What C says of a piece.
fn piece(iov: &iovec) -> (*mut u8, usize) {
    (iov.iov_base.cast(), iov.iov_len)
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
    if start.is_null() && len > 0 {
        return Err(null(call));
    }
    // SAFETY: see above.
    Ok(unsafe { foreign::memory([(start.cast::<u8>().cast_mut(), len)], false) })
}

/// Memory that bytes are put into. Null is memory of no bytes, whatever its length: who expects messages without any
/// posts such receives, and other messages are cut.
///
/// # Safety
/// As for [`foreign::memory`].
#[inline]
pub(super) unsafe fn sink(start: *mut c_void, len: usize) -> Buffers {
    // SAFETY: see above.
    unsafe { foreign::memory([(start.cast(), len)], true) }
}

/// Memory that is registered.
///
/// # Errors
/// -FI_EINVAL for null with a length.
///
/// # Safety
/// As for [`foreign::memory`].
pub(super) unsafe fn region(call: &'static str, iov: &[iovec]) -> Result<Buffers> {
    if iov.iter().any(|iov| iov.iov_base.is_null() && iov.iov_len > 0) {
        return Err(null(call));
    }
    // SAFETY: see above.
    Ok(unsafe { foreign::memory(iov.iter().map(piece), true) })
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

/// Pieces that bytes are taken from.
///
/// # Errors
/// -FI_EINVAL for null with a length, and for too many.
///
/// # Safety
/// As for [`list`]; each piece as for [`foreign::memory`].
pub(super) unsafe fn sources(call: &'static str, iov: *const iovec, count: usize) -> Result<Buffers> {
    // SAFETY: see above.
    let iov = unsafe { list(call, "tx_attr.iov_limit", iov, count)? };
    if iov.iter().any(|iov| iov.iov_base.is_null() && iov.iov_len > 0) {
        return Err(null(call));
    }
    // SAFETY: see above.
    Ok(unsafe { foreign::memory(iov.iter().map(piece), false) })
}

/// Pieces that bytes are put into, null as in [`sink`].
///
/// # Errors
/// -FI_EINVAL for a list that is null, and for too many.
///
/// # Safety
/// As for [`list`]; each piece as for [`foreign::memory`].
pub(super) unsafe fn sinks(
    call: &'static str,
    limit: &'static str,
    iov: *const iovec,
    count: usize,
) -> Result<Buffers> {
    // SAFETY: see above.
    Ok(unsafe { foreign::memory(list(call, limit, iov, count)?.iter().map(piece), true) })
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory that operations and registrations use: C's until they are complete.

use core::ffi::c_void;

use kofi::{Buffers, foreign};
use kofi_core::{Error, Result};

use crate::sys::iovec;

/// Most segments that any object takes; lists are not read any further.
const MOST: usize = kofi_core::memory::IOV_LIMIT;

/// Refuses lengths that no memory has, and, where something has to be there, null with a length.
///
/// # Errors
/// -FI_EINVAL.
pub(super) fn check(call: &'static str, start: *const c_void, len: usize, null_is_empty: bool) -> Result<()> {
    let problem = if start.is_null() && len > 0 && !null_is_empty {
        "null with a length; give the memory, or length 0"
    } else if isize::try_from(len).is_err() {
        "a length that is more than any memory has"
    } else {
        return Ok(());
    };
    Err(Error::Invalid { call, problem })
}

/// [`check`] of all pieces.
fn check_all(call: &'static str, iov: &[iovec], null_is_empty: bool) -> Result<()> {
    iov.iter().try_for_each(|iov| check(call, iov.iov_base, iov.iov_len, null_is_empty))
}

/// What C says of a piece.
fn piece(iov: &iovec) -> (*mut u8, usize) {
    (iov.iov_base.cast(), iov.iov_len)
}

/// Memory that bytes are taken from.
///
/// # Errors
/// As for [`check`].
///
/// # Safety
/// As for [`foreign::memory`].
#[inline]
pub(super) unsafe fn source(call: &'static str, start: *const c_void, len: usize) -> Result<Buffers> {
    check(call, start, len, false)?;
    // SAFETY: see above.
    Ok(unsafe { foreign::memory([(start.cast::<u8>().cast_mut(), len)], false) })
}

/// Memory that bytes are put into. Null is memory of no bytes, whatever its length: who expects messages without any
/// posts such receives, and other messages are cut.
///
/// # Errors
/// As for [`check`].
///
/// # Safety
/// As for [`foreign::memory`].
#[inline]
pub(super) unsafe fn sink(call: &'static str, start: *mut c_void, len: usize) -> Result<Buffers> {
    check(call, start, len, true)?;
    // SAFETY: see above.
    Ok(unsafe { foreign::memory([(start.cast(), len)], true) })
}

/// Memory that is registered.
///
/// # Errors
/// As for [`check`].
///
/// # Safety
/// As for [`foreign::memory`].
pub(super) unsafe fn region(call: &'static str, iov: &[iovec]) -> Result<Buffers> {
    check_all(call, iov, false)?;
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
        (true, _) => Err(Error::Invalid { call, problem: "null with a count; give the list, or count 0" }),
        // SAFETY: see above.
        (false, _) => Ok(unsafe { core::slice::from_raw_parts(start, count) }),
    }
}

/// Pieces that bytes are taken from.
///
/// # Errors
/// As for [`list`], and for [`check`].
///
/// # Safety
/// As for [`list`]; each piece as for [`foreign::memory`].
pub(super) unsafe fn sources(call: &'static str, iov: *const iovec, count: usize) -> Result<Buffers> {
    // SAFETY: see above.
    let iov = unsafe { list(call, "tx_attr.iov_limit", iov, count)? };
    check_all(call, iov, false)?;
    // SAFETY: see above.
    Ok(unsafe { foreign::memory(iov.iter().map(piece), false) })
}

/// Pieces that bytes are put into, null as in [`sink`].
///
/// # Errors
/// As for [`list`], and for [`check`].
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
    let iov = unsafe { list(call, limit, iov, count)? };
    check_all(call, iov, true)?;
    // SAFETY: see above.
    Ok(unsafe { foreign::memory(iov.iter().map(piece), true) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kofi_core::Errno;

    #[test]
    fn what_no_memory_has_is_refused() {
        let mut bytes = [0u8; 4];
        let start: *mut c_void = bytes.as_mut_ptr().cast();
        let null = core::ptr::null_mut();
        let errno = |result: Result<Buffers>| result.err().map(|error| error.errno());
        let invalid = Some(Errno::EINVAL);
        for len in [usize::MAX, isize::MAX as usize + 1] {
            let iov = [iovec { iov_base: start, iov_len: 4 }, iovec { iov_base: start, iov_len: len }];
            // SAFETY: nothing is looked at.
            unsafe {
                assert_eq!(errno(source("test", start, len)), invalid);
                assert_eq!(errno(sink("test", start, len)), invalid);
                assert_eq!(errno(region("test", &iov)), invalid);
                assert_eq!(errno(sources("test", iov.as_ptr(), 2)), invalid);
                assert_eq!(errno(sinks("test", "limit", iov.as_ptr(), 2)), invalid);
                assert!(super::super::bytes("test", start, len).is_err());
            }
        }
        // SAFETY: nothing is looked at, and then the array's bytes are.
        unsafe {
            assert_eq!(errno(source("test", null, 1)), invalid);
            assert_eq!(errno(region("test", &[iovec { iov_base: null, iov_len: 1 }])), invalid);
            assert_eq!(errno(sources("test", core::ptr::null(), 1)), invalid);
            assert_eq!(errno(sinks("test", "limit", core::ptr::null(), 5)), invalid);
            assert_eq!(sink("test", null, 9).unwrap().total_len(), 0);
            assert_eq!(source("test", start, 4).unwrap().total_len(), 4);
        }
    }
}

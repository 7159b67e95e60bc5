// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Addresses and options, which several classes have (`fi_cm(3)`, `fi_endpoint(3)`).

use core::ffi::{c_int, c_void};

use kofi_core::{Address, Errno, Error, Result};

use super::place;
use crate::address;
use crate::sys::{FI_OPT_ENDPOINT, FI_SOCKADDR};

/// A socket address of `len` bytes, or of as many as its family has.
///
/// # Errors
/// -FI_EINVAL for what is none.
///
/// # Safety
/// Null, or so many bytes are there.
pub(super) unsafe fn read_name(
    call: &'static str,
    addr: *const c_void,
    len: Option<usize>,
) -> Result<Address> {
    let problem = "no socket address; give a sockaddr_in or sockaddr_in6";
    if addr.is_null() {
        return Err(Error::Invalid { call, problem });
    }
    // SAFETY: see above.
    let found = unsafe {
        let len = len.unwrap_or_else(|| address::len(FI_SOCKADDR, addr));
        address::read(FI_SOCKADDR, addr, len)
    };
    found.ok_or(Error::Invalid { call, problem })
}

/// As much of an address as there is room for, and how long it is.
///
/// # Errors
/// -FI_ETOOSMALL when not all of it has room; -FI_EINVAL without a place for it.
///
/// # Safety
/// `len` is null or to be read and written, and so many bytes can be written at `addr`.
pub(super) unsafe fn write_name(
    call: &'static str,
    name: &Address,
    addr: *mut c_void,
    len: *mut usize,
) -> Result<()> {
    // SAFETY: see above.
    let len = unsafe { place(call, len)? };
    let bytes = address::bytes(name);
    let have = core::mem::replace(len, bytes.len());
    let count = have.min(bytes.len());
    if addr.is_null() && count > 0 {
        return Err(Error::Invalid { call, problem: "null with a length where the address is to be stored" });
    }
    // SAFETY: see above.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast(), count) };
    match count < bytes.len() {
        true => Err(Error::TooSmall { call, have, need: bytes.len() }),
        false => Ok(()),
    }
}

/// -FI_ENOPROTOOPT.
pub(super) fn no_option(call: &'static str) -> Error {
    Error::System {
        call,
        errno: Errno::ENOPROTOOPT,
        detail: "the object has no such option, or it cannot be set; see fi_endpoint(3)".into(),
    }
}

/// `fi_getopt` of an option that is a `size_t`; `None` is one that there is not.
///
/// # Errors
/// -FI_ENOPROTOOPT, -FI_ETOOSMALL with the length that is needed, -FI_EINVAL without places.
///
/// # Safety
/// `len` is null or to be read and written, and so many bytes can be written at `value`.
pub(super) unsafe fn get_option(
    level: c_int,
    value: *mut c_void,
    len: *mut usize,
    option: impl FnOnce() -> Option<Result<usize>>,
) -> Result<()> {
    const CALL: &str = "fi_getopt";
    const NEED: usize = size_of::<usize>();
    let found = option().filter(|_| level == FI_OPT_ENDPOINT).ok_or_else(|| no_option(CALL))??;
    // SAFETY: see above.
    let len = unsafe { place(CALL, len)? };
    let have = core::mem::replace(len, NEED);
    if have < NEED {
        return Err(Error::TooSmall { call: CALL, have, need: NEED });
    }
    if value.is_null() {
        return Err(Error::Invalid { call: CALL, problem: "null where the option is to be stored" });
    }
    // SAFETY: see above; it need not be aligned.
    unsafe { value.cast::<usize>().write_unaligned(found) };
    Ok(())
}

/// `fi_setopt` of an option that is a `size_t`.
///
/// # Errors
/// -FI_EINVAL for another length.
///
/// # Safety
/// Null, or `len` bytes are there.
pub(super) unsafe fn option_value(value: *const c_void, len: usize) -> Result<usize> {
    if value.is_null() || len != size_of::<usize>() {
        let problem = "the option is a size_t; give one, and its length";
        return Err(Error::Invalid { call: "fi_setopt", problem });
    }
    // SAFETY: see above.
    Ok(unsafe { value.cast::<usize>().read_unaligned() })
}

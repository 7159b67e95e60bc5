// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Addresses, which several classes have (`fi_cm(3)`).

use core::ffi::c_void;

use kofi_core::{Address, Error, Result};

use super::place;
use crate::address;
use crate::sys::FI_SOCKADDR;

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

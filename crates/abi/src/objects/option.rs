// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Options, which several classes have (`fi_getopt`, `fi_setopt`: `fi_endpoint(3)`). All of them are a `size_t`.

use core::ffi::{c_int, c_void};

use kofi_core::{Errno, Error, Result};

use super::{Class, object, place, status};
use crate::sys::{FI_OPT_ENDPOINT, fid};

/// The options of a class; `None` is one that it does not have.
pub(super) trait Options: Class {
    fn get(&self, option: c_int) -> Option<Result<usize>>;

    /// The value is to be asked for only if there is such an option.
    fn set(&self, _option: c_int, _value: impl FnOnce() -> Result<usize>) -> Option<Result<()>> {
        None
    }
}

/// -FI_ENOPROTOOPT.
fn no_option(call: &'static str) -> Error {
    Error::System {
        call,
        errno: Errno::ENOPROTOOPT,
        detail: "the object has no such option, or it cannot be set; see fi_endpoint(3)".into(),
    }
}

pub(super) unsafe extern "C" fn getopt<T: Options>(
    fid: *mut fid,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    const CALL: &str = "fi_getopt";
    const NEED: usize = size_of::<usize>();
    status(|| {
        // SAFETY: the caller's object.
        let found = unsafe { object::<T, _>(CALL, fid)? }.get(option);
        let found = found.filter(|_| level == FI_OPT_ENDPOINT).ok_or_else(|| no_option(CALL))??;
        // SAFETY: the caller's place.
        let len = unsafe { place(CALL, len)? };
        let have = core::mem::replace(len, NEED);
        if have < NEED {
            return Err(Error::TooSmall { call: CALL, have, need: NEED });
        }
        if value.is_null() {
            return Err(Error::Invalid { call: CALL, problem: "null where the option is to be stored" });
        }
        // SAFETY: the caller's place of that length; it need not be aligned.
        unsafe { value.cast::<usize>().write_unaligned(found) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn setopt<T: Options>(
    fid: *mut fid,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    const CALL: &str = "fi_setopt";
    status(|| {
        // SAFETY: the caller's object.
        let object = unsafe { object::<T, _>(CALL, fid)? };
        let given = || {
            if value.is_null() || len != size_of::<usize>() {
                let problem = "the option is a size_t; give one, and its length";
                return Err(Error::Invalid { call: CALL, problem });
            }
            // SAFETY: the caller's value of that length; it need not be aligned.
            Ok(unsafe { value.cast::<usize>().read_unaligned() })
        };
        let known = if level == FI_OPT_ENDPOINT { object.set(option, given) } else { None };
        known.unwrap_or_else(|| Err(no_option(CALL)))
    })
}

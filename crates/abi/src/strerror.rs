// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `fi_strerror` (`fi_errno(3)`).

use core::ffi::{CStr, c_char, c_int};

use kofi_core::Errno;

/// The texts from FI_EOTHER on.
const TEXTS: [&CStr; 16] = [
    c"Unspecified error",
    c"Provided buffer is too small",
    c"Operation not permitted in current state",
    c"Error available",
    c"Flags not supported",
    c"Missing or unavailable event queue",
    c"Invalid resource domain",
    c"Missing or unavailable completion queue",
    c"CRC error",
    c"Truncation error",
    c"Required key not available",
    c"Missing or unavailable address vector",
    c"Queue has been overrun",
    c"Receiver not ready, no receive buffers available",
    c"Memory registration limit exceeded",
    c"Host unreachable due to firewall",
];

/// The text of an error number, which may be negative; the system's own below FI_EOTHER, and that of FI_EOTHER for a
/// number that there is not.
pub fn strerror(number: c_int) -> *const c_char {
    let number = number.unsigned_abs();
    let first = Errno::EOTHER.raw().unsigned_abs();
    match number.checked_sub(first) {
        // SAFETY: it takes any number. The text is the C library's, which keeps it at least until the next call of this
        // thread, as programs know it of strerror(3).
        None => unsafe { libc::strerror(number.cast_signed()) },
        Some(index) => TEXTS.get(index as usize).unwrap_or(&TEXTS[0]).as_ptr(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: c_int) -> &'static str {
        // SAFETY: a C text, and those of the system stay for numbers that it knows.
        unsafe { CStr::from_ptr(strerror(number)) }.to_str().unwrap()
    }

    #[test]
    fn texts_are_those_of_core() {
        for number in 1..300 {
            let errno = Errno::from_raw(number);
            if errno.name().is_some() {
                assert_eq!(text(number), errno.text());
                assert_eq!(text(-number), errno.text());
            }
        }
        assert_eq!(text(0), "Success");
        assert_eq!(text(272), "Unspecified error");
        assert_eq!(text(c_int::MIN), "Unspecified error");
    }
}

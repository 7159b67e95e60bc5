// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Texts for C: of error numbers, and `fi_tostr(3)`.

use core::ffi::{c_char, c_int, c_void};
use core::fmt::{self, Display, Write};

use kofi_core::flags::{Caps, Mode, MrMode, OpFlags, Order};
use kofi_core::{AddrFormat, AvType, EpType, Errno, Error, Progress, Protocol, Result, Threading, Version};

use crate::c;
use crate::info;

const TEXT: usize = 64;
const NUMBERS: usize = 272;

/// The texts of all error numbers, each with a zero behind it.
#[expect(clippy::indexing_slicing, reason = "the compiler runs it: what is out of range does not compile")]
static TEXTS: [[u8; TEXT]; NUMBERS] = {
    let mut texts = [[0; TEXT]; NUMBERS];
    let mut number = 0;
    while number < NUMBERS {
        let text = if number == 0 { "Success" } else { Errno::from_raw(number as i32).text() };
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            texts[number][at] = bytes[at];
            at += 1;
        }
        assert!(at < TEXT);
        number += 1;
    }
    texts
};

pub(crate) fn error(number: c_int) -> *const c_char {
    let index = number.unsigned_abs() as usize;
    match TEXTS.get(index) {
        Some(text) => text.as_ptr().cast(),
        None => c"Unknown error".as_ptr(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_strerror(number: c_int) -> *const c_char {
    error(number)
}

#[unsafe(no_mangle)]
extern "C" fn kofi_version() -> u32 {
    kofi_core::offer::API.raw()
}

/// Room of the caller's, of which the last byte is for a zero.
pub(crate) struct Room<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Room<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0 }
    }

    /// Puts the zero behind the text, and gives the length that all of it would have had.
    pub(crate) fn finish(self) -> usize {
        let end = self.len.min(self.bytes.len().saturating_sub(1));
        if let Some(place) = self.bytes.get_mut(end) {
            *place = 0;
        }
        self.len
    }
}

impl Write for Room<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let most = self.bytes.len().saturating_sub(1);
        if let Some(room) = self.bytes.get_mut(self.len.min(most)..most) {
            let count = text.len().min(room.len());
            if let (Some(to), Some(from)) = (room.get_mut(..count), text.as_bytes().get(..count)) {
                to.copy_from_slice(from);
            }
        }
        self.len += text.len();
        Ok(())
    }
}

fn tostr(kind: u32, data: *const c_void, room: &mut Room<'_>) -> Result<()> {
    const CALL: &str = "fi_tostr";
    let mut put = |text: &dyn Display| {
        let _ = write!(room, "{text}");
        Ok(())
    };
    let number = || c::borrow(CALL, data.cast::<u32>()).copied();
    let set = || c::borrow(CALL, data.cast::<u64>()).copied();
    match kind {
        0 => put(&info::to_info(c::borrow(CALL, data.cast())?)?),
        1 => put(&EpType::from_raw(number()?)),
        2 => put(&Caps::from_bits_retain(set()?)),
        3 | 20 => put(&OpFlags::from_bits_retain(set()?)),
        4 => put(&AddrFormat::from_raw(number()?)),
        5 => put(&info::to_tx(c::borrow(CALL, data.cast())?)),
        6 => put(&info::to_rx(c::borrow(CALL, data.cast())?)),
        7 => put(&info::to_ep(c::borrow(CALL, data.cast())?)?),
        8 => put(&info::to_domain(c::borrow(CALL, data.cast())?)?),
        9 => put(&info::to_fabric(c::borrow(CALL, data.cast())?)?),
        10 => put(&Threading::from_raw(number()?)),
        11 => put(&Progress::from_raw(number()?)),
        12 => put(&Protocol::from_raw(number()?)),
        13 => put(&Order::from_bits_retain(set()?)),
        14 => put(&Mode::from_bits_retain(set()?)),
        15 => put(&AvType::from_raw(number()?)),
        18 => put(&Version::from_raw(number()?)),
        19 => put(&match number()? {
            0 => "FI_NOTIFY",
            1 => "FI_CONNREQ",
            2 => "FI_CONNECTED",
            3 => "FI_SHUTDOWN",
            4 => "FI_MR_COMPLETE",
            5 => "FI_AV_COMPLETE",
            6 => "FI_JOIN_COMPLETE",
            _ => "Unknown",
        }),
        21 => put(&MrMode::from_bits_retain(set()?)),
        _ => Err(Error::Invalid { call: CALL, problem: "a type that has no text here" }),
    }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_tostr(kind: u32, data: *const c_void, text: *mut c_char, len: usize) -> c_int {
    let written = c::room("fi_tostr", text.cast(), len).and_then(|bytes| {
        let mut room = Room::new(bytes);
        tostr(kind, data, &mut room)?;
        Ok(room.finish())
    });
    crate::error::count(written) as c_int
}

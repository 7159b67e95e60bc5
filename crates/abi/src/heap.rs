// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory of the C heap: what programs free, or put in place of it, themselves.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_void};
use core::ptr;

/// A structure of plain numbers and pointers, which is whole with all bytes zero.
///
/// # Safety
/// Every pattern of bytes of its fields that C may leave there is valid, all zeros among them.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($name:ident)*) => {$(
        // SAFETY: numbers and raw pointers only.
        unsafe impl Plain for crate::sys::$name {}
    )*};
}

plain! {
    fi_info fi_fabric_attr fi_domain_attr fi_ep_attr fi_tx_attr fi_rx_attr fi_param
    fi_cq_attr fi_mr_attr fi_cntr_attr fi_cq_err_entry
}

/// The first `size` bytes of a structure, the rest zero: what an older program gives.
///
/// # Safety
/// `size` bytes at `from` can be read.
pub unsafe fn head<T: Plain>(from: *const T, size: usize) -> T {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the caller's word for the source; no more than the size of the target; bytes of a `Plain` are valid
    // whatever they are, and those that are not copied are zero.
    unsafe {
        let size = size.min(size_of::<T>());
        ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), size);
        value.assume_init()
    }
}

/// Makes blocks, and knows whether all could be had.
pub struct Blocks {
    whole: Cell<bool>,
}

impl Blocks {
    /// None are made yet.
    pub fn new() -> Self {
        Self { whole: Cell::new(true) }
    }

    /// Whether there was memory for all of them; those that there was none for are null.
    pub fn are_whole(&self) -> bool {
        self.whole.get()
    }

    fn block(&self, size: usize) -> *mut c_void {
        // SAFETY: any size can be asked for.
        let block = unsafe { libc::malloc(size) };
        self.whole.set(self.whole.get() && !block.is_null());
        block
    }

    /// With this value in it.
    pub fn value<T: Plain>(&self, value: T) -> *mut T {
        let block = self.block(size_of::<T>()).cast::<T>();
        if !block.is_null() {
            // SAFETY: malloc's memory is large enough and aligned for any type of C.
            unsafe { block.write(value) };
        }
        block
    }

    /// With this value in it; none, null, for none.
    pub fn optional<T: Plain>(&self, value: Option<T>) -> *mut T {
        value.map_or(ptr::null_mut(), |value| self.value(value))
    }

    /// With a copy of these bytes; none, null, for no bytes.
    pub fn bytes(&self, bytes: &[u8]) -> *mut u8 {
        if bytes.is_empty() {
            return ptr::null_mut();
        }
        let block = self.block(bytes.len()).cast::<u8>();
        if !block.is_null() {
            // SAFETY: it is that long, and new, so nothing overlaps.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), block, bytes.len()) };
        }
        block
    }

    /// With a C text, which ends at the first zero in it.
    pub fn text(&self, text: &str) -> *mut c_char {
        let bytes = text.as_bytes();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let mut whole = bytes[..end].to_vec();
        whole.push(0);
        self.bytes(&whole).cast()
    }
}

impl Default for Blocks {
    fn default() -> Self {
        Self::new()
    }
}

/// The text at `text`, with whatever is no UTF-8 replaced; `None` for null.
///
/// # Safety
/// Null, or a C text.
pub unsafe fn read_text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's word.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Gives a block back; null is none.
///
/// # Safety
/// Null, or a block of the C heap that nobody uses any more.
pub unsafe fn free<T>(block: *const T) {
    // SAFETY: the caller's word.
    unsafe { libc::free(block.cast_mut().cast()) };
}

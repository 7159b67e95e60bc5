// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory that a C program lends by pointer and length. For faces whose callers cannot be held to Rust's rules;
//! Rust programs have [`Buf`] and [`Endpoint::scope`](crate::Endpoint::scope).

use std::ptr::NonNull;

use crate::buffer::Buf;

/// Memory of somebody else. Nothing is allocated or counted for it, and completions come without it.
pub(crate) struct Foreign {
    /// Null only where there are no bytes.
    start: *mut u8,
    len: usize,
    writable: bool,
}

// SAFETY: who made it has promised that the memory may be used from any thread.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

/// A buffer for an operation, or for a registration, of `len` bytes from `start` on. Receives, reads of a peer's
/// memory and registrations for [`REMOTE_WRITE`](crate::OpFlags::REMOTE_WRITE) take only what is `writable`.
/// Null has no bytes.
///
/// # Safety
/// The memory must be there, and writable if it is said to be, from any thread: until the operation's completion was
/// read or its endpoint is closed, until [`MemoryRegion::close`](crate::MemoryRegion::close) has returned, or, where
/// the call refuses the buffer, until that is dropped. This is what `fi_msg(3)`, `fi_rma(3)` and `fi_mr(3)` ask of C
/// programs.
///
/// Bytes go from it and to it by system calls and copies, made under the domain's lock. If others write to them at
/// that moment, or to memory that is being received into, what comes out is a mix of both: of registered memory C
/// programs and their peers expect nothing else.
pub unsafe fn memory(start: *mut u8, len: usize, writable: bool) -> Buf {
    Buf::foreign(Foreign { start, len: if start.is_null() { 0 } else { len }, writable })
}

impl Foreign {
    fn start(&self) -> NonNull<u8> {
        NonNull::new(self.start).unwrap_or(NonNull::dangling())
    }

    pub(crate) fn address(&self) -> usize {
        self.start.addr()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: see `memory`.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        match self.writable {
            // SAFETY: see `memory`.
            true => Some(unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.len) }),
            false => None,
        }
    }

    /// Takes the first bytes off.
    pub(crate) fn split_to(&mut self, len: usize) -> Self {
        let len = len.min(self.len);
        let first = Self { start: self.start, len, writable: self.writable };
        // SAFETY: not beyond the end.
        self.start = unsafe { self.start.add(len) };
        self.len -= len;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffers;

    #[test]
    fn it_is_the_callers_memory() {
        let mut bytes = [1, 2, 3, 4, 5];
        // SAFETY: `bytes` outlives the buffers.
        let mut buffers = Buffers::from(unsafe { memory(bytes.as_mut_ptr(), bytes.len(), true) });
        buffers.make_divisible();
        let mut first = buffers.split_to(2);
        first.slices_mut(1, 1).for_each(|piece| piece.fill(9));
        buffers.slices_mut(0, 9).for_each(|piece| piece.fill(7));
        let addresses = (first.address(), buffers.address());
        drop((first, buffers));
        assert_eq!(bytes, [1, 9, 7, 7, 7]);
        assert_eq!(addresses, (bytes.as_ptr().addr(), bytes[2..].as_ptr().addr()));
    }

    #[test]
    fn memory_to_read_from_is_not_written_to() {
        let bytes = [1, 2, 3];
        // SAFETY: `bytes` outlives the buffer.
        let mut buf = unsafe { memory(bytes.as_ptr().cast_mut(), bytes.len(), false) };
        assert!(buf.as_mut_slice().is_none());
        assert_eq!(*buf, bytes);
        assert_eq!(buf.clone().into_vec(), bytes);
        // SAFETY: no bytes are there.
        let mut null = unsafe { memory(std::ptr::null_mut(), 9, true) };
        assert_eq!(null.as_mut_slice(), Some(&mut [][..]));
        assert_eq!(Buffers::from(null).address(), 0);
    }
}

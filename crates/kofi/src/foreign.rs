// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory that a C program lends by pointer and length. For faces whose callers cannot be held to Rust's rules;
//! Rust programs have [`Buf`](crate::Buf) and [`Endpoint::scope`](crate::Endpoint::scope).

use std::ptr::NonNull;

use smallvec::SmallVec;

use crate::buffer::Buffers;

/// Memory of somebody else. Nothing is allocated or counted for it, and completions come without it.
pub(crate) struct Foreign {
    pieces: SmallVec<[Piece; 4]>,
    writable: bool,
}

#[derive(Clone, Copy)]
struct Piece {
    /// Null only where there are no bytes.
    start: *mut u8,
    len: usize,
}

// SAFETY: who made it has promised that the memory may be used from any thread.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

/// Buffers for an operation, or for a registration: so many bytes from each start on. Receives, reads of a peer's
/// memory and registrations for [`REMOTE_WRITE`](crate::OpFlags::REMOTE_WRITE) take only what is `writable`.
/// Null has no bytes.
///
/// Nothing is allocated for up to four pieces, and none comes back: [`Buffers::iter`] shows nothing of them.
///
/// # Safety
/// The memory must be there, and writable if it is said to be, from any thread: until the operation's completion was
/// read or its endpoint is closed, until [`MemoryRegion::close`](crate::MemoryRegion::close) has returned, or, where
/// the call refuses the buffers, until these are dropped. This is what `fi_msg(3)`, `fi_rma(3)` and `fi_mr(3)` ask of
/// C programs.
///
/// Bytes go from it and to it by system calls and copies, made under the domain's lock; only there slices of it exist, for as
/// long as that takes. If others write to it at that moment, or it is given for several operations or pieces at once, what
/// comes out is a mix: of registered memory C programs and their peers expect nothing else. Rust calls such a race undefined; it is relied
/// on that nothing but those copies is compiled from it.
pub unsafe fn memory(pieces: impl IntoIterator<Item = (*mut u8, usize)>, writable: bool) -> Buffers {
    let piece = |(start, len): (*mut u8, usize)| Piece { start, len: if start.is_null() { 0 } else { len } };
    Buffers::foreign(Foreign { pieces: pieces.into_iter().map(piece).collect(), writable })
}

impl Piece {
    fn start(&self) -> NonNull<u8> {
        NonNull::new(self.start).unwrap_or(NonNull::dangling())
    }
}

impl Foreign {
    pub(crate) fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes in all pieces.
    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.len))
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Where the first piece begins.
    pub(crate) fn address(&self) -> usize {
        self.pieces.first().map_or(0, |first| first.start.addr())
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: see `memory`.
        self.pieces
            .iter()
            .map(|piece| unsafe { std::slice::from_raw_parts(piece.start().as_ptr(), piece.len) })
    }

    /// None of memory that is only for reading.
    pub(crate) fn slices_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let pieces = if self.writable { &self.pieces[..] } else { &[] };
        // SAFETY: see `memory`; each piece is there once.
        pieces
            .iter()
            .map(|piece| unsafe { std::slice::from_raw_parts_mut(piece.start().as_ptr(), piece.len) })
    }

    /// Takes the first bytes off the only piece.
    pub(crate) fn split_to(&mut self, len: usize) -> Self {
        let mut first = SmallVec::new();
        if let Some(piece) = self.pieces.first_mut() {
            let len = len.min(piece.len);
            first.push(Piece { start: piece.start, len });
            // SAFETY: not beyond the end.
            piece.start = unsafe { piece.start.add(len) };
            piece.len -= len;
        }
        Self { pieces: first, writable: self.writable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_callers_memory() {
        let mut bytes = [1, 2, 3, 4, 5];
        // SAFETY: `bytes` outlives the buffers.
        let mut buffers = unsafe { memory([(bytes.as_mut_ptr(), bytes.len())], true) };
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
    fn pieces_are_one_range() {
        let (mut one, mut two) = ([1, 2, 3], [4, 5]);
        let null = std::ptr::null_mut();
        // SAFETY: both outlive the buffers.
        let mut buffers = unsafe { memory([(one.as_mut_ptr(), 3), (null, 9), (two.as_mut_ptr(), 2)], true) };
        assert_eq!((buffers.count(), buffers.total_len(), buffers.is_not_owned()), (3, 5, true));
        assert!(buffers.slices(2, 2).eq([&[3][..], &[4]]));
        buffers.slices_mut(2, 2).for_each(|piece| piece.fill(9));
        assert_eq!(buffers.into_single().into_vec(), [1, 2, 9, 9, 5]);
        assert_eq!((one, two), ([1, 2, 9], [9, 5]));
    }

    #[test]
    fn memory_to_read_from_is_not_written_to() {
        let bytes = [1, 2, 3];
        // SAFETY: `bytes` outlives the buffers.
        let mut buffers = unsafe { memory([(bytes.as_ptr().cast_mut(), 3)], false) };
        assert!(!buffers.are_writable() && buffers.slices_mut(0, 3).next().is_none());
        let copy = buffers.clone();
        assert!(!copy.is_not_owned());
        assert_eq!(copy.into_single().into_vec(), bytes);
        // SAFETY: no bytes are there.
        let mut null = unsafe { memory([(std::ptr::null_mut(), 9)], true) };
        assert!(null.are_writable());
        assert_eq!((null.address(), null.total_len()), (0, 0));
    }
}

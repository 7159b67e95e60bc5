// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The caller's memory, as lists of kernel addresses.

use alloc::vec::Vec;

use kofi_core::offer::INJECT_SIZE;
use kofi_core::{Error, Result};

use crate::c;
use crate::sys::raw::{self, Piece};

/// Pieces that a list holds without memory of its own.
const FEW: usize = 4;

/// Memory of an operation or a region.
///
/// Places for these are used again and again, and keep what they have got: so in the end posting an operation needs no memory.
#[derive(Default)]
pub(crate) struct Pieces {
    count: usize,
    few: [Piece; FEW],
    many: Vec<Piece>,
    /// Bytes that were copied when they were posted: the only piece then.
    injected: Vec<u8>,
}

impl Pieces {
    /// Takes over the caller's list. Gives the bytes in all.
    pub(crate) fn set(&mut self, call: &'static str, memory: &c::Memory) -> Result<u64> {
        let count = memory.count as usize;
        self.count = 0;
        if count > c::IOV_LIMIT {
            let (what, limit) = ("KOFI_IOV_LIMIT", c::IOV_LIMIT);
            return Err(Error::TooManySegments { call, what, count, limit });
        }
        let place = if count <= FEW {
            &mut self.few[..]
        } else {
            let missing = count.saturating_sub(self.many.len());
            self.many.try_reserve(missing).map_err(|_| Error::NoMemory("a list of segments"))?;
            self.many.resize(count.max(self.many.len()), Piece::default());
            &mut self.many[..]
        };
        // SAFETY: the caller's list is there for the call, and there is room for all of it.
        let total = unsafe { raw::kofi_shim_flatten(memory, place.as_mut_ptr(), memory.count) };
        let problem = "the list of segments is neither one of kvec nor one of bio_vec, or has a null address";
        let total = u64::try_from(total).map_err(|_| Error::Invalid { call, problem })?;
        self.count = count;
        Ok(total)
    }

    /// Copies the bytes that the list names, at most [`INJECT_SIZE`], so that the caller's memory is free.
    pub(crate) fn inject(&mut self) -> Result<()> {
        let mut copy = core::mem::take(&mut self.injected);
        copy.clear();
        copy.try_reserve(INJECT_SIZE).map_err(|_| Error::NoMemory("an injected message"))?;
        for piece in self.list() {
            // SAFETY: the caller's memory is there for the call.
            let bytes = unsafe { core::slice::from_raw_parts(piece.base as *const u8, piece.len) };
            let room = INJECT_SIZE.saturating_sub(copy.len());
            copy.extend_from_slice(bytes.get(..room.min(piece.len)).unwrap_or_default());
        }
        let only = Piece { base: copy.as_ptr().addr(), len: copy.len() };
        // The bytes stay where they are as long as the vector is not touched.
        self.injected = copy;
        self.set_one(only);
        Ok(())
    }

    /// Takes the first `len` bytes away: the place of a message in a buffer for several, which is one piece.
    pub(crate) fn split_to(&mut self, len: u64) -> Option<Piece> {
        let piece = self.few.first_mut().filter(|_| self.count == 1)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(piece.len);
        let taken = Piece { base: piece.base, len };
        *piece = Piece { base: piece.base + len, len: piece.len - len };
        Some(taken)
    }

    /// Makes this the only piece.
    pub(crate) fn set_one(&mut self, piece: Piece) {
        self.few = [piece, Piece::default(), Piece::default(), Piece::default()];
        self.count = 1;
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    fn list(&self) -> &[Piece] {
        let list = if self.count <= FEW { &self.few[..] } else { &self.many[..] };
        list.get(..self.count).unwrap_or_default()
    }

    /// Address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.list().first().map_or(0, |piece| piece.base as u64)
    }

    /// The parts of the pieces that `len` bytes from `offset` on are in.
    pub(crate) fn range(&self, offset: u64, len: u64) -> impl Iterator<Item = Piece> + '_ {
        let (mut skip, mut left) = (offset as usize, len as usize);
        self.list().iter().filter_map(move |piece| {
            let cut = skip.min(piece.len);
            skip -= cut;
            let count = (piece.len - cut).min(left);
            left -= count;
            (count > 0).then_some(Piece { base: piece.base + cut, len: count })
        })
    }

    /// Copies bytes to this place.
    ///
    /// # Safety
    /// The pieces are memory that may be written: their owner said so when it posted or registered them, and has not got them back.
    pub(crate) unsafe fn copy_in(&self, offset: u64, len: u64, bytes: &[u8]) {
        let mut from = bytes;
        for piece in self.range(offset, len) {
            let (part, rest) = from.split_at(piece.len.min(from.len()));
            // SAFETY: as above; the bytes are not in that memory, which nobody has a reference to.
            unsafe { core::ptr::copy(part.as_ptr(), piece.base as *mut u8, part.len()) };
            from = rest;
        }
    }
}

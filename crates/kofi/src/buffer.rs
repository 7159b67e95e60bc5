// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory of operations: owned by the operation from its post on, given back by its completion.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use crate::buffer_scope::{Lent, Loans};
use crate::foreign::Foreign;

/// A buffer that an operation can own.
///
/// It never borrows: nobody can touch or free the memory while a transfer may. For memory that is only
/// borrowed there is [`Endpoint::scope`](crate::Endpoint::scope).
#[derive(Clone)]
pub struct Buf(Memory);

enum Memory {
    Owned(Vec<u8>),
    Shared(Arc<[u8]>),
    Static(&'static [u8]),
    /// The provider's, to be used again.
    Spare(Vec<u8>),
    /// Of a buffer for several messages: one of them, or what is left.
    Part {
        bytes: BytesMut,
        /// Bytes of the whole buffer.
        whole: usize,
    },
    /// Never in the hands of an application.
    Lent(Lent),
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        match self {
            Self::Owned(bytes) => Self::Owned(bytes.clone()),
            Self::Shared(bytes) => Self::Shared(bytes.clone()),
            Self::Static(bytes) => Self::Static(bytes),
            Self::Spare(bytes) => Self::Owned(bytes.clone()),
            Self::Part { bytes, whole } => Self::Part { bytes: bytes.clone(), whole: *whole },
            // A loan cannot be doubled.
            Self::Lent(lent) => Self::Owned(lent.as_slice().to_vec()),
        }
    }
}

impl Buf {
    /// A buffer of `len` zero bytes, to receive into.
    pub fn zeroed(len: usize) -> Self {
        vec![0; len].into()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Memory::Owned(bytes) | Memory::Spare(bytes) => bytes,
            Memory::Shared(bytes) => bytes,
            Memory::Static(bytes) => bytes,
            Memory::Lent(lent) => lent.as_slice(),
            Memory::Part { bytes, .. } => bytes,
        }
    }

    /// The bytes, to be written to; `None` when they are shared with others or static.
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        match &mut self.0 {
            Memory::Owned(bytes) | Memory::Spare(bytes) => Some(bytes),
            Memory::Shared(bytes) => Arc::get_mut(bytes),
            Memory::Static(_) => None,
            Memory::Lent(lent) => lent.as_mut_slice(),
            Memory::Part { bytes, .. } => Some(bytes),
        }
    }

    /// The bytes as a vector; copied when they were shared or static, or one of several messages in a
    /// buffer.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Memory::Owned(bytes) | Memory::Spare(bytes) => bytes,
            Memory::Shared(bytes) => bytes.to_vec(),
            Memory::Static(bytes) => bytes.to_vec(),
            Memory::Lent(lent) => lent.as_slice().to_vec(),
            Memory::Part { bytes, .. } => bytes.into(),
        }
    }

    /// The whole buffer again, of what is [left](crate::Completion::rest) of one that took several messages
    /// (`FI_MULTI_RECV`); its bytes are zero. Nothing is allocated.
    ///
    /// # Errors
    /// What was left, while messages that lie in the buffer are kept; try again without them.
    pub fn reclaim(self) -> Result<Self, Self> {
        let Memory::Part { mut bytes, whole } = self.0 else { return Ok(self) };
        // What is there is not worth being moved.
        let left = bytes.len();
        bytes.clear();
        let reclaimed = bytes.try_reclaim(whole);
        bytes.resize(if reclaimed { whole } else { left }, 0);
        let buf = Self(Memory::Part { bytes, whole });
        if reclaimed { Ok(buf) } else { Err(buf) }
    }

    /// Makes it a buffer for several messages, which [`split_to`](Self::split_to) takes apart.
    fn make_divisible(&mut self) {
        if matches!(self.0, Memory::Part { .. }) {
            return;
        }
        let buf = std::mem::replace(&mut self.0, Memory::Static(&[]));
        // Neither step copies or allocates a vector that is full, as buffers are.
        let bytes = BytesMut::from(Bytes::from(Self(buf).into_vec()));
        self.0 = Memory::Part { whole: bytes.len(), bytes };
    }

    /// Takes the first `len` bytes off a divisible buffer. They lie in the same memory; nobody else sees
    /// them.
    fn split_to(&mut self, len: usize) -> Self {
        match &mut self.0 {
            Memory::Part { bytes, whole } => {
                Self(Memory::Part { bytes: bytes.split_to(len.min(bytes.len())), whole: *whole })
            }
            _ => Self(Memory::Static(&[])),
        }
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl std::ops::Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<Vec<u8>> for Buf {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Memory::Owned(bytes))
    }
}

impl From<String> for Buf {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<Box<[u8]>> for Buf {
    fn from(bytes: Box<[u8]>) -> Self {
        bytes.into_vec().into()
    }
}

impl From<Arc<[u8]>> for Buf {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(Memory::Shared(bytes))
    }
}

impl From<&'static [u8]> for Buf {
    fn from(bytes: &'static [u8]) -> Self {
        Self(Memory::Static(bytes))
    }
}

impl<const N: usize> From<&'static [u8; N]> for Buf {
    fn from(bytes: &'static [u8; N]) -> Self {
        Self(Memory::Static(bytes))
    }
}

/// The segments of an operation: a message is gathered from them in order, or scattered over them.
#[derive(Clone)]
pub struct Buffers(Segments);

enum Segments {
    Own(SmallVec<[Buf; 1]>),
    /// A C program's.
    Foreign(Foreign),
}

impl Clone for Segments {
    fn clone(&self) -> Self {
        Self::Own(match self {
            Self::Own(bufs) => bufs.clone(),
            // What is the program's cannot be doubled.
            Self::Foreign(foreign) => foreign.slices().map(|bytes| bytes.to_vec().into()).collect(),
        })
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self(Segments::Own(SmallVec::new()))
    }
}

impl std::fmt::Debug for Buffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Segments::Own(bufs) => f.debug_tuple("Buffers").field(bufs).finish(),
            Segments::Foreign(_) => write!(f, "{} bytes of others", self.total_len()),
        }
    }
}

impl Buffers {
    pub(crate) fn lent(memory: Lent) -> Self {
        Buf(Memory::Lent(memory)).into()
    }

    pub(crate) fn foreign(memory: Foreign) -> Self {
        Self(Segments::Foreign(memory))
    }

    fn own(&self) -> &[Buf] {
        match &self.0 {
            Segments::Own(bufs) => bufs,
            Segments::Foreign(_) => &[],
        }
    }

    /// Whether they are borrowed from that scope.
    pub(crate) fn is_lent(&self, from: &Loans) -> bool {
        matches!(self.own(), [Buf(Memory::Lent(lent)), ..] if lent.is_of(from))
    }

    /// Whether they are somebody else's: borrowed, or a C program's.
    pub(crate) fn is_not_owned(&self) -> bool {
        matches!(self.0, Segments::Foreign(_)) || matches!(self.own(), [Buf(Memory::Lent(_)), ..])
    }

    /// Where the first segment begins, also if it has no bytes.
    pub(crate) fn address(&self) -> usize {
        match &self.0 {
            Segments::Own(bufs) => bufs.first().map_or(0, |first| first.as_slice().as_ptr().addr()),
            Segments::Foreign(foreign) => foreign.address(),
        }
    }

    /// How many segments there are.
    pub(crate) fn count(&self) -> usize {
        match &self.0 {
            Segments::Own(bufs) => bufs.len(),
            Segments::Foreign(foreign) => foreign.count(),
        }
    }

    /// Bytes in all segments.
    pub fn total_len(&self) -> usize {
        match &self.0 {
            Segments::Own(bufs) => bufs.iter().map(|buf| buf.len()).sum(),
            Segments::Foreign(foreign) => foreign.len(),
        }
    }

    /// The segments that a Rust program has given: none of those that are a [C program's](crate::foreign).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Buf> {
        self.own().iter()
    }

    fn all(&self) -> impl Iterator<Item = &[u8]> {
        let foreign = match &self.0 {
            Segments::Own(_) => None,
            Segments::Foreign(foreign) => Some(foreign),
        };
        self.own().iter().map(Buf::as_slice).chain(foreign.into_iter().flat_map(Foreign::slices))
    }

    /// The only segment, or all of them joined in a new one.
    pub fn into_single(self) -> Buf {
        match self.0 {
            Segments::Own(mut bufs) if bufs.len() == 1 => bufs.pop().unwrap_or_else(|| Vec::new().into()),
            _ => self.all().flatten().copied().collect::<Vec<u8>>().into(),
        }
    }

    /// Memory of a provider, which [`into_spare`](Self::into_spare) gives back to it.
    pub(crate) fn spare(bytes: Vec<u8>) -> Self {
        Buf(Memory::Spare(bytes)).into()
    }

    /// The provider's memory, if it is that.
    pub(crate) fn into_spare(self) -> Option<Vec<u8>> {
        match self.0 {
            Segments::Own(mut bufs) => match bufs.pop()?.0 {
                Memory::Spare(bytes) => Some(bytes),
                _ => None,
            },
            Segments::Foreign(_) => None,
        }
    }

    /// Copies the first `len` bytes of `from`, which fit.
    pub(crate) fn copy_from(&mut self, from: &Self, len: usize) {
        let mut offset = 0;
        for piece in from.slices(0, len as u64) {
            let mut rest = piece;
            for place in self.slices_mut(offset, piece.len() as u64) {
                let (bytes, tail) = rest.split_at(place.len().min(rest.len()));
                place.copy_from_slice(bytes);
                rest = tail;
            }
            offset += piece.len() as u64;
        }
    }

    /// Makes the buffer one for several messages.
    pub(crate) fn make_divisible(&mut self) {
        match &mut self.0 {
            Segments::Own(bufs) => bufs.iter_mut().for_each(Buf::make_divisible),
            // It is that as it is.
            Segments::Foreign(_) => {}
        }
    }

    /// Takes the first `len` bytes off a divisible buffer.
    pub(crate) fn split_to(&mut self, len: u64) -> Self {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        match &mut self.0 {
            Segments::Own(bufs) => bufs.first_mut().map(|buf| buf.split_to(len).into()).unwrap_or_default(),
            Segments::Foreign(foreign) => Self(Segments::Foreign(foreign.split_to(len))),
        }
    }

    /// Whether all of them can be written to: none is shared or static.
    pub(crate) fn are_writable(&mut self) -> bool {
        match &mut self.0 {
            Segments::Own(bufs) => bufs.iter_mut().all(|buf| buf.as_mut_slice().is_some()),
            Segments::Foreign(foreign) => foreign.is_writable(),
        }
    }

    /// The pieces that bytes `offset..offset + len` are in.
    pub(crate) fn slices(&self, offset: u64, len: u64) -> impl Iterator<Item = &[u8]> {
        let mut skip = offset;
        let mut left = len;
        self.all().filter_map(move |bytes| {
            let (start, end) = piece(bytes.len(), &mut skip, &mut left)?;
            bytes.get(start..end)
        })
    }

    /// The pieces that bytes `offset..offset + len` go to.
    pub(crate) fn slices_mut(&mut self, offset: u64, len: u64) -> impl Iterator<Item = &mut [u8]> {
        let mut skip = offset;
        let mut left = len;
        let (own, foreign) = match &mut self.0 {
            Segments::Own(bufs) => (bufs.as_mut_slice(), None),
            Segments::Foreign(foreign) => (&mut [][..], Some(foreign)),
        };
        let own = own.iter_mut().filter_map(Buf::as_mut_slice);
        own.chain(foreign.into_iter().flat_map(Foreign::slices_mut)).filter_map(move |bytes| {
            let (start, end) = piece(bytes.len(), &mut skip, &mut left)?;
            bytes.get_mut(start..end)
        })
    }
}

/// What of a segment of `len` bytes lies behind `skip` bytes, within `left` bytes.
fn piece(len: usize, skip: &mut u64, left: &mut u64) -> Option<(usize, usize)> {
    let start = usize::try_from(*skip).map_or(len, |skip| skip.min(len));
    *skip -= start as u64;
    let count = usize::try_from(*left).map_or(len - start, |left| left.min(len - start));
    *left -= count as u64;
    (count > 0).then_some((start, start + count))
}

impl IntoIterator for Buffers {
    type Item = Buf;
    type IntoIter = smallvec::IntoIter<[Buf; 1]>;

    fn into_iter(self) -> Self::IntoIter {
        match self.0 {
            Segments::Own(bufs) => bufs.into_iter(),
            Segments::Foreign(_) => SmallVec::new().into_iter(),
        }
    }
}

impl<B: Into<Buf>> From<B> for Buffers {
    fn from(buf: B) -> Self {
        Self(Segments::Own(SmallVec::from_buf([buf.into()])))
    }
}

impl<B: Into<Buf>> FromIterator<B> for Buffers {
    fn from_iter<I: IntoIterator<Item = B>>(bufs: I) -> Self {
        Self(Segments::Own(bufs.into_iter().map(Into::into).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_segments() {
        let bufs: Buffers = [vec![0, 1, 2], vec![], vec![3], vec![4, 5, 6, 7]].into_iter().collect();
        assert_eq!(bufs.total_len(), 8);
        for from in 0..=8u64 {
            for to in from..=8 {
                let bytes: Vec<u8> = bufs.slices(from, to - from).flatten().copied().collect();
                assert_eq!(bytes, (from as u8..to as u8).collect::<Vec<_>>());
            }
        }
        assert_eq!(bufs.into_single().as_slice(), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn copies_go_over_segments() {
        let from: Buffers = [vec![1, 2, 3], vec![4, 5], vec![6, 7]].into_iter().collect();
        let mut to: Buffers = [vec![0; 2], vec![0; 1], vec![0; 4]].into_iter().collect();
        to.copy_from(&from, 6);
        assert_eq!(to.into_single().as_slice(), [1, 2, 3, 4, 5, 6, 0]);
    }

    #[test]
    fn a_divided_buffer_becomes_whole_again() {
        let mut bufs: Buffers = vec![1, 2, 3, 4, 5].into();
        bufs.make_divisible();
        let (first, second) = (bufs.split_to(2), bufs.split_to(1));
        let rest = bufs.into_single();
        assert_eq!((&*first.into_single(), &*rest), (&[1, 2][..], &[4, 5][..]));
        let rest = rest.reclaim().unwrap_err();
        assert_eq!(second.into_single().into_vec(), [3]);
        let mut whole = rest.reclaim().unwrap();
        assert_eq!((whole.len(), whole.as_mut_slice().map(|bytes| bytes.len())), (5, Some(5)));
        whole.make_divisible();
        assert_eq!(whole.split_to(9).len(), 5);
        assert!(whole.is_empty());
    }

    #[test]
    fn shared_memory_is_not_written_to() {
        let shared: Arc<[u8]> = vec![1, 2].into();
        let mut buf: Buf = shared.clone().into();
        assert!(buf.as_mut_slice().is_none());
        assert!(Buf::from(b"static").as_mut_slice().is_none());
        assert!(Buf::from(shared.to_vec()).as_mut_slice().is_some());
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The choices in an input.

use arbitrary::Unstructured;

/// Bytes that stand for choices; zeros once they are used up.
pub(crate) struct Script<'a>(Unstructured<'a>);

impl<'a> Script<'a> {
    /// All of `data` is a script.
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(Unstructured::new(data))
    }

    /// A script and a stream: the first byte is the length of the script.
    pub(crate) fn and_stream(data: &'a [u8]) -> (Self, &'a [u8]) {
        let (&len, rest) = data.split_first().unwrap_or((&0, &[]));
        let (script, stream) = rest.split_at(usize::from(len).min(rest.len()));
        (Self::new(script), stream)
    }

    /// Whether it is used up.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.0.arbitrary().unwrap_or_default()
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub(crate) fn u64(&mut self) -> u64 {
        self.0.arbitrary().unwrap_or_default()
    }

    /// A number below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.int_in_range(0..=end - 1).unwrap_or_default()
    }

    /// A length from one byte: mostly short, at most 1655.
    pub(crate) fn length(&mut self) -> usize {
        match self.byte() {
            short @ ..160 => usize::from(short),
            long => (usize::from(long) - 152) * 16 + usize::from(long & 7),
        }
    }

    pub(crate) fn option(&mut self) -> Option<u64> {
        self.flag().then(|| self.u64())
    }
}

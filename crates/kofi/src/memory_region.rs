// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The memory region (`fi_mr(3)`): memory that peers can reach.

use std::sync::Arc;

use kofi_core::Result;
use kofi_core::wire::header::Segment;

use crate::buffer::Buffers;
use crate::provider::MemoryRegionOps;

/// Memory that is registered. Dropped, it is closed, and no peer can reach it any more.
///
/// A peer may change it at any time, so it is never lent as a slice: [`read`](Self::read) and
/// [`write`](Self::write) copy. Registered as `Arc<[u8]>` it cannot be written by anybody, and a clone
/// of that is at hand for reading.
pub struct MemoryRegion(Arc<dyn MemoryRegionOps>);

impl MemoryRegion {
    pub(crate) fn new(ops: Arc<dyn MemoryRegionOps>) -> Self {
        Self(ops)
    }

    /// The provider's operations.
    pub fn ops(&self) -> &Arc<dyn MemoryRegionOps> {
        &self.0
    }

    /// `fi_mr_key`: what a peer has to know to reach the memory.
    pub fn key(&self) -> u64 {
        self.0.key()
    }

    /// What a peer calls the first byte: 0, but under `FI_MR_VIRT_ADDR`.
    pub fn address(&self) -> u64 {
        self.0.address()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it, as a peer has to name it.
    pub fn remote(&self) -> Segment {
        Segment { addr: self.address(), len: self.len() as u64, key: self.key() }
    }

    /// Copies what is in the memory from byte `at` on.
    ///
    /// # Errors
    /// -FI_EINVAL beyond the end.
    pub fn read(&self, at: usize, bytes: &mut [u8]) -> Result<()> {
        self.0.read(at, bytes)
    }

    /// Copies into the memory, from byte `at` on.
    ///
    /// # Errors
    /// -FI_EINVAL beyond the end, or when the memory was given as shared or static.
    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        self.0.write(at, bytes)
    }

    /// `fi_close`: gives the memory back. A connection whose peer is in the middle of using it ends.
    pub fn close(self) -> Buffers {
        self.0.close()
    }
}

impl std::fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryRegion").field("key", &self.key()).field("len", &self.len()).finish()
    }
}

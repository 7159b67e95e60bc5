// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The memory region over TCP: its memory is the domain's, under the domain's lock, so that nobody
//! looks at it while a peer's bytes come in.

use std::sync::Arc;

use kofi_core::memory::Registration;
use kofi_core::{Error, MrId, MrMode, OpFlags, Result};
use rustix::rand::{GetRandomFlags, getrandom};

use super::domain::{Shared, State};
use crate::buffer::Buffers;
use crate::provider::{MemoryRegionOps, Refused, Region};
use crate::wait::{close_dropped, system};

pub(super) struct TcpMemoryRegion {
    domain: Arc<Shared>,
    id: MrId,
    key: u64,
    address: u64,
    len: usize,
}

impl TcpMemoryRegion {
    pub(super) fn open(domain: &Arc<Shared>, region: Region) -> Result<Self, Refused> {
        let Region { mut buffers, access, requested_key } = region;
        let refuse = |error, buffers| Err(Refused { error, buffers });
        if access.contains(OpFlags::REMOTE_WRITE) && !buffers.are_writable() {
            let problem = "shared or static memory cannot be written by peers; give a vector";
            return refuse(Error::Invalid { call: "fi_mr_regattr", problem }, buffers);
        }
        let random = match domain.mr_mode.contains(MrMode::PROV_KEY).then(random).transpose() {
            Ok(random) => random.unwrap_or_default(),
            Err(error) => return refuse(error, buffers),
        };
        let len = buffers.total_len();
        let address = buffers.address() as u64;
        let segments = buffers.count();
        let registration = Registration { len: len as u64, segments, address, access, requested_key };
        let mut state = domain.lock();
        let found = state.machine.register(&registration, random);
        let (id, key) = match found.and_then(|id| Ok((id, state.machine.mr_key(id)?))) {
            Ok(found) => found,
            Err(error) => return refuse(error, buffers),
        };
        state.put_region(id, buffers);
        drop(state);
        let address = if domain.mr_mode.contains(MrMode::VIRT_ADDR) { address } else { 0 };
        Ok(Self { domain: domain.clone(), id, key, address, len })
    }

    /// Runs with the region's memory, once the range was found to be within it.
    fn with(
        &self,
        call: &'static str,
        at: usize,
        len: usize,
        run: impl FnOnce(&mut State) -> Result<()>,
    ) -> Result<()> {
        if self.len.checked_sub(at).is_none_or(|room| len > room) {
            return Err(Error::Invalid {
                call,
                problem: "beyond the end of the memory region; it has as many bytes as were registered",
            });
        }
        run(&mut self.domain.lock())
    }
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    // So few bytes come whole.
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|errno| system("fi_mr_regattr", errno))?;
    Ok(u64::from_ne_bytes(bytes))
}

impl MemoryRegionOps for TcpMemoryRegion {
    fn key(&self) -> u64 {
        self.key
    }

    fn address(&self) -> u64 {
        self.address
    }

    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<()> {
        let len = bytes.len();
        self.with("read of a memory region", at, len, |state| {
            let mut rest = bytes;
            for piece in state.region(self.id)?.slices(at as u64, len as u64) {
                let (to, tail) = std::mem::take(&mut rest).split_at_mut(piece.len());
                to.copy_from_slice(piece);
                rest = tail;
            }
            Ok(())
        })
    }

    fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        const CALL: &str = "write to a memory region";
        self.with(CALL, at, bytes.len(), |state| {
            let buffers = state.region(self.id)?;
            if !buffers.are_writable() {
                let problem = "its memory was given as shared or static; give a vector";
                return Err(Error::Invalid { call: CALL, problem });
            }
            let mut rest = bytes;
            for piece in buffers.slices_mut(at as u64, bytes.len() as u64) {
                let (from, tail) = rest.split_at(piece.len());
                piece.copy_from_slice(from);
                rest = tail;
            }
            Ok(())
        })
    }

    fn close(&self) -> Buffers {
        self.domain.lock().close_region(self.id)
    }
}

impl Drop for TcpMemoryRegion {
    fn drop(&mut self) {
        close_dropped(|| drop(self.close()));
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory of operations and regions: where the machine says only which, the driver has it.

use kofi_core::message::Memory;
use kofi_core::multi_receive::Split;
use kofi_core::{EpId, Error, MrId, OpId, Result, offer};

use super::State;
use crate::buffer::Buffers;
use crate::buffer_scope::Loans;

/// Memory for so many injected messages is kept to be used again.
const MAX_SPARE: usize = 256;

impl State {
    /// Gives an operation its memory.
    pub(crate) fn remember(&mut self, op: OpId, buffers: Buffers) {
        if self.memory.len() <= op.index() {
            self.memory.resize_with(op.index() + 1, || None);
        }
        if let Some(place) = self.memory.get_mut(op.index()) {
            *place = Some(buffers);
        }
    }

    /// Gives messages in buffers for several their part of the memory.
    pub(super) fn split(&mut self) {
        while let Some(Split { buffer, part, len }) = self.machine.poll_split() {
            let whole = self.memory.get_mut(buffer.index()).and_then(Option::as_mut);
            let buffers = whole.map(|buffers| buffers.split_to(len)).unwrap_or_default();
            self.remember(part, buffers);
        }
    }

    pub(crate) fn put_region(&mut self, mr: MrId, buffers: Buffers) {
        if self.regions.len() <= mr.index() {
            self.regions.resize_with(mr.index() + 1, || None);
        }
        if let Some(place) = self.regions.get_mut(mr.index()) {
            *place = Some(buffers);
        }
    }

    pub(crate) fn region(&mut self, mr: MrId) -> Result<&mut Buffers> {
        // The place may be another region's by now.
        self.machine.mr_key(mr)?;
        let stale = Error::Stale { call: "a memory region", object: "memory region" };
        self.regions.get_mut(mr.index()).and_then(Option::as_mut).ok_or(stale)
    }

    /// `fi_close` of a memory region: from here on nothing reaches its memory.
    pub(crate) fn close_region(&mut self, mr: MrId) -> Buffers {
        if self.machine.close_mr(mr).is_err() {
            return Buffers::default();
        }
        let buffers = self.regions.get_mut(mr.index()).and_then(Option::take);
        self.settle();
        buffers.filter(|buffers| !buffers.is_not_owned()).unwrap_or_default()
    }

    /// A copy of bytes to be injected, in memory that is used again.
    pub(crate) fn spare(&mut self, bytes: &[u8]) -> Buffers {
        let mut memory = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(offer::INJECT_SIZE));
        memory.clear();
        memory.extend_from_slice(bytes);
        Buffers::spare(memory)
    }

    pub(crate) fn put_spare(&mut self, memory: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(memory);
        }
    }

    pub(crate) fn take_memory(&mut self, op: OpId) -> Buffers {
        let memory = self.take_any_memory(op);
        memory.filter(|buffers| !buffers.is_not_owned()).unwrap_or_default()
    }

    pub(crate) fn take_any_memory(&mut self, op: OpId) -> Option<Buffers> {
        self.memory.get_mut(op.index()).and_then(Option::take)
    }

    /// Gives up memory lent by that scope, where nothing needs it. `true`: some is still needed.
    pub(crate) fn end_loans(&mut self, ep: EpId, loans: &Loans) -> bool {
        let mut needed = false;
        for index in 0..self.memory.len() {
            let Some(place) = self.memory.get(index) else { break };
            let lent = place.as_ref().is_some_and(|buffers| buffers.is_lent(loans));
            let Some(op) = OpId::from_index(index).filter(|_| lent) else { continue };
            if !self.machine.is_done(op) {
                // What is no receive, or has begun, completes by itself.
                let _ = self.machine.cancel_receive(ep, op);
            }
            match self.machine.is_done(op) {
                true => drop(self.take_memory(op)),
                false => needed = true,
            }
        }
        self.settle_endpoint(ep);
        needed
    }
}

/// The buffers that bytes go to.
pub(super) fn memory_of<'a>(
    memory: &'a mut [Option<Buffers>],
    regions: &'a mut [Option<Buffers>],
    which: Memory,
) -> Option<&'a mut Buffers> {
    match which {
        Memory::Operation(op) => memory.get_mut(op.index()),
        Memory::Region(mr) => regions.get_mut(mr.index()),
    }?
    .as_mut()
}

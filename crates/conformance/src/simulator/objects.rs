// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What a simulator has of each object, by handle.

use core::time::Duration;

use kofi_core::attr::{WaitCond, WaitObj};
use kofi_core::event_queue::Fid;
use kofi_core::multi_receive::Split;
use kofi_core::passive_endpoint::Taken;
use kofi_core::{EpId, MrId, MrMode, SocketAddr, SrxId};

use super::driver::Link;
use super::network::End;
use crate::allocator::inside;
use crate::world::{Domain, Endpoint, EventQueue, Fabric, Object, PassiveEndpoint, Process, Request};

/// Objects by handle; a handle is never used again.
pub(super) struct Table<T>(Vec<Option<T>>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Table<T> {
    /// Handles given out so far.
    pub(super) fn given(&self) -> usize {
        self.0.len()
    }

    pub(super) fn insert(&mut self, object: T) -> u32 {
        self.0.push(Some(object));
        self.0.len() as u32 - 1
    }

    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.0.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.0.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        self.0.get_mut(index as usize)?.take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.0.iter().enumerate().filter_map(|(index, object)| Some((index as u32, object.as_ref()?)))
    }
}

/// The class of an object, in the number by which events name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tag {
    Passive,
    Endpoint,
    Queue,
}

impl Tag {
    pub(super) fn fid(self, index: u32) -> Fid {
        Fid((self as u64) << 32 | u64::from(index))
    }

    pub(super) fn split(fid: Fid) -> (Self, u32) {
        let tag = match fid.0 >> 32 {
            0 => Self::Passive,
            1 => Self::Endpoint,
            _ => Self::Queue,
        };
        (tag, fid.0 as u32)
    }
}

pub(super) fn object(fid: Fid) -> Object {
    match Tag::split(fid) {
        (Tag::Passive, index) => Object::PassiveEndpoint(PassiveEndpoint(index)),
        (Tag::Endpoint, index) => Object::Endpoint(Endpoint(index)),
        (Tag::Queue, index) => Object::EventQueue(EventQueue(index)),
    }
}

pub(super) struct FabricObject {
    pub(super) process: Process,
}

pub(super) struct QueueObject {
    pub(super) fabric: Fabric,
    pub(super) machine: kofi_core::EventQueue,
    pub(super) wait: WaitObj,
}

pub(super) struct PassiveObject {
    pub(super) fabric: Fabric,
    pub(super) machine: kofi_core::PassiveEndpoint,
    pub(super) eq: Option<EventQueue>,
    pub(super) address: Option<SocketAddr>,
    pub(super) listener: Option<u32>,
    pub(super) connections: Vec<Option<End>>,
    pub(super) timer: Option<kofi_core::Instant>,
}

pub(super) struct DomainObject {
    pub(super) fabric: Fabric,
    pub(super) machine: kofi_core::Domain,
    /// By the machine's number.
    pub(super) endpoints: Vec<Option<Endpoint>>,
    /// Buffers of each operation, by the machine's number.
    pub(super) memory: Vec<Vec<Vec<u8>>>,
    /// Operations that have memory, and the most that ever had at the same time.
    pub(super) live: usize,
    pub(super) most_live: usize,
    /// The most that ever were peers' at the same time.
    pub(super) most_remote: usize,
    /// Memory regions, by the machine's number; none once closed.
    pub(super) regions: Vec<Option<Vec<Vec<u8>>>>,
    pub(super) mr_mode: MrMode,
    pub(super) timer: Option<kofi_core::Instant>,
}

impl DomainObject {
    /// The operation has ended: its memory is the application's again.
    pub(super) fn forget(&mut self, op: kofi_core::OpId) -> Vec<Vec<u8>> {
        self.live -= 1;
        self.memory.get_mut(op.index()).map(core::mem::take).unwrap_or_default()
    }

    /// The operation has memory from now on.
    pub(super) fn remember(&mut self, op: kofi_core::OpId, buffers: Vec<Vec<u8>>) {
        self.live += 1;
        self.most_live = self.most_live.max(self.live);
        if self.memory.len() <= op.index() {
            self.memory.resize(op.index() + 1, Vec::new());
        }
        self.memory[op.index()] = buffers;
    }

    /// Gives messages in buffers for several their part of the memory.
    pub(super) fn split(&mut self) {
        while let Some(Split { buffer, part, len }) = inside(|| self.machine.poll_split()) {
            let memory = self.memory.get_mut(buffer.index()).and_then(|buffers| buffers.first_mut());
            let part_of = memory.map(|memory| memory.drain(..len as usize).collect()).unwrap_or_default();
            self.remember(part, vec![part_of]);
        }
    }

    /// What is left of a buffer for several messages.
    pub(super) fn rest(&mut self, buffer: Option<kofi_core::OpId>) -> Option<Vec<u8>> {
        buffer.map(|buffer| self.forget(buffer).concat())
    }
}

pub(super) struct CntrObject {
    pub(super) domain: Domain,
    pub(super) id: kofi_core::CntrId,
}

pub(super) struct SrxObject {
    pub(super) domain: Domain,
    pub(super) id: SrxId,
}

pub(super) struct RegionObject {
    pub(super) domain: Domain,
    pub(super) id: MrId,
    pub(super) address: u64,
}

pub(super) struct CqObject {
    pub(super) domain: Domain,
    pub(super) id: kofi_core::CqId,
    pub(super) wait: WaitObj,
    pub(super) cond: WaitCond,
}

pub(super) struct EndpointObject {
    pub(super) domain: Domain,
    pub(super) id: EpId,
    pub(super) eq: Option<EventQueue>,
    pub(super) request: Option<Request>,
    pub(super) link: Link,
    pub(super) woken: bool,
}

pub(super) struct RequestObject {
    /// Its transport; none once it was accepted, rejected or has expired.
    pub(super) end: Option<End>,
    pub(super) taken: Taken,
    pub(super) limit: Duration,
    pub(super) expired: bool,
}

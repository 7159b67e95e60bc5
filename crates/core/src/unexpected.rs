// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Messages that came before their receive: kept within a bound, so that what is behind them,
//! acknowledgements and read responses among it, does not wait in the transport.
//!
//! Only here the machine has bytes of its own: what is kept belongs to no operation yet. Beyond the
//! bound, or without memory, a message waits in the transport, and all behind it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::domain::Domain;
use crate::endpoint::{Endpoint, EpId, Incoming};
use crate::flags::OpFlags;
use crate::message::{Memory, Place};
use crate::operation::OpId;
use crate::wire::header::{Header, Kind};

/// Messages that a connection keeps, besides their bytes.
const MAX_KEPT: usize = 64;

/// A message without a receive.
#[derive(Debug)]
struct Kept {
    header: Header,
    /// What has arrived of it.
    bytes: Vec<u8>,
    /// Acknowledgements that are due to what came behind it, and have to wait for its own.
    acks_behind: u64,
    /// The receive that it is being copied to.
    receive: Option<OpId>,
}

/// Memory that a domain's connections take turns with: a peer that is faster than its receives sends
/// many short messages that are kept for a moment.
#[derive(Default, Debug)]
pub(crate) struct Spare {
    queue: VecDeque<Kept>,
    bytes: Vec<Vec<u8>>,
}

/// Memory of longer messages is not kept.
const MAX_SPARE: usize = 1024;

impl Spare {
    fn give(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= MAX_SPARE && self.bytes.len() < MAX_KEPT && self.bytes.try_reserve(1).is_ok() {
            bytes.clear();
            self.bytes.push(bytes);
        }
    }
}

/// The messages of a connection that have no receive.
#[derive(Default, Debug)]
pub(crate) struct Unexpected {
    kept: VecDeque<Kept>,
    bytes: u64,
}

impl Unexpected {
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins to keep a message. Gives whether there is room for it.
    fn keep(&mut self, header: Header, limit: u64, spare: &mut Spare) -> bool {
        let Some(bytes) = self.bytes.checked_add(header.payload).filter(|&bytes| bytes <= limit) else {
            return false;
        };
        let Ok(len) = usize::try_from(header.payload) else { return false };
        if limit == 0 || self.kept.len() >= MAX_KEPT {
            return false;
        }
        if self.kept.capacity() == 0 {
            core::mem::swap(&mut self.kept, &mut spare.queue);
        }
        let mut memory = spare.bytes.pop().unwrap_or_default();
        if self.kept.try_reserve(1).is_err() || memory.try_reserve_exact(len).is_err() {
            return false;
        }
        self.kept.push_back(Kept { header, bytes: memory, acks_behind: 0, receive: None });
        self.bytes = bytes;
        true
    }

    /// Takes what belongs to the message that is arriving. Gives how much that is, and whether the
    /// message is whole with it.
    fn fill(&mut self, input: &[u8]) -> (usize, bool) {
        let Some(last) = self.kept.back_mut() else { return (0, true) };
        let missing = last.header.payload - last.bytes.len() as u64;
        let count = usize::try_from(missing).map_or(input.len(), |missing| missing.min(input.len()));
        // There is memory for all of it since it began.
        last.bytes.extend_from_slice(input.get(..count).unwrap_or_default());
        (count, last.header.payload == last.bytes.len() as u64)
    }

    /// The first message, if all of it has arrived.
    fn first_whole(&mut self) -> Option<&mut Kept> {
        self.kept.front_mut().filter(|kept| kept.header.payload == kept.bytes.len() as u64)
    }

    /// The length of the first message, if that has arrived and has no receive yet.
    pub(crate) fn wants_receive(&mut self) -> Option<u64> {
        self.first_whole().filter(|kept| kept.receive.is_none()).map(|kept| kept.header.payload)
    }

    /// Whether the first message is being copied to its receive.
    pub(crate) fn is_met(&self) -> bool {
        self.kept.front().is_some_and(|kept| kept.receive.is_some())
    }

    /// The first message has a receive.
    pub(crate) fn meets(&mut self, receive: OpId) {
        if let Some(kept) = self.kept.front_mut() {
            kept.receive = Some(receive);
        }
    }

    fn take_first(&mut self, spare: &mut Spare) -> Option<Kept> {
        let mut kept = self.kept.pop_front()?;
        self.bytes -= kept.header.payload;
        spare.give(core::mem::take(&mut kept.bytes));
        if self.kept.is_empty() {
            // An idle connection keeps no memory.
            let queue = core::mem::take(&mut self.kept);
            if queue.capacity() > spare.queue.capacity() {
                spare.queue = queue;
            }
        }
        Some(kept)
    }

    /// The stream has ended: what has not arrived of the last message never will.
    pub(crate) fn cut(&mut self) {
        if self.kept.back().is_some_and(|last| last.header.payload != last.bytes.len() as u64)
            && let Some(last) = self.kept.pop_back()
        {
            self.bytes -= last.header.payload;
        }
    }

    /// Forgets all of them; gives the receive that one was being copied to.
    pub(crate) fn clear(&mut self) -> Option<OpId> {
        core::mem::take(self).kept.front().and_then(|kept| kept.receive)
    }
}

impl Endpoint {
    /// Whether messages wait for receives.
    pub(crate) fn has_unreceived(&self) -> bool {
        !self.rx.unexpected.is_empty() || self.rx.waiting_message().is_some()
    }

    /// An acknowledgement is due, behind those that have to wait for a receive: the peer takes them in
    /// order (section 7).
    pub(crate) fn acknowledge(&mut self) {
        match self.rx.unexpected.kept.iter_mut().rev().find(|kept| kept.header.ack) {
            Some(kept) => kept.acks_behind += 1,
            None => self.tx.replies.ack(),
        }
    }
}

impl Domain {
    /// A message has arrived that no receive is for: it is kept, or it waits in the transport.
    pub(crate) fn start_unexpected(&mut self, ep: EpId, header: Header) {
        let Self { endpoints, spare, .. } = self;
        let Some(endpoint) = endpoints.get_mut(ep.0) else { return };
        if !endpoint.is_open() {
            return;
        }
        let limit = endpoint.attr.total_buffered_recv;
        if !endpoint.rx.unexpected.keep(header, limit, spare) {
            return endpoint.wait_with(header);
        }
        endpoint.rx.incoming = if header.payload == 0 { Incoming::Header } else { Incoming::Unexpected };
        let most = &mut endpoint.traffic.unexpected_most;
        *most = (*most).max(endpoint.rx.unexpected.kept.len() as u32);
    }

    /// Takes bytes of a message that is kept.
    pub(crate) fn keep_bytes(&mut self, ep: EpId, input: &[u8]) -> usize {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return input.len() };
        let (used, whole) = endpoint.rx.unexpected.fill(input);
        if whole {
            endpoint.rx.incoming = Incoming::Header;
            self.meet(ep);
        }
        used
    }

    /// A message that was kept and has a receive now: copy these bytes to this place, then call
    /// [`delivered`](Self::delivered). To be asked after receives were posted and after bytes were taken,
    /// until it gives `None`; [`poll_split`](Self::poll_split) comes before it each time.
    pub fn poll_kept(&mut self, ep: EpId) -> Option<(Place, &[u8])> {
        let Self { endpoints, ops, .. } = self;
        let kept = endpoints.get_mut(ep.0)?.rx.unexpected.first_whole()?;
        let id = kept.receive?;
        let len = ops.get(id)?.len.min(kept.header.payload);
        let place = Place { memory: Memory::Operation(id), offset: 0, len };
        Some((place, kept.bytes.get(..len as usize).unwrap_or_default()))
    }

    /// The bytes that [`poll_kept`](Self::poll_kept) gave are in their place.
    pub fn delivered(&mut self, ep: EpId) {
        let Self { endpoints, spare, .. } = self;
        let Some(endpoint) = endpoints.get_mut(ep.0) else { return };
        let Some(Kept { header, acks_behind, receive: Some(id), .. }) =
            endpoint.rx.unexpected.take_first(spare)
        else {
            return;
        };
        for _ in 0..u64::from(header.ack) + acks_behind {
            // It was the first: what is still kept came behind it.
            endpoint.tx.replies.ack();
        }
        if let Some(op) = self.ops.get_mut(id)
            && let Kind::Message { data: Some(data) } = header.kind
        {
            op.data = Some(data);
            op.flags |= OpFlags::REMOTE_CQ_DATA;
        }
        self.received(ep, id, header.payload);
        let Some(endpoint) = self.endpoints.get(ep.0) else { return };
        let is_last = endpoint.rx.unexpected.is_empty();
        if !is_last {
            self.meet(ep);
        }
        let Some(endpoint) = self.endpoints.get(ep.0) else { return };
        match (endpoint.rx.waiting_message(), endpoint.rx.ended) {
            // There is room for it now, or a receive.
            (Some(header), _) => self.go_on(ep, header),
            (None, Some(reason)) if is_last => self.end(ep, reason),
            _ => {}
        }
    }

    /// Whether messages have arrived that wait for receives, be they kept or in the transport: the end
    /// of the connection has to wait for those ([`half_closed`](Self::half_closed)).
    pub fn has_unreceived(&self, ep: EpId) -> bool {
        self.endpoints.get(ep.0).is_some_and(Endpoint::has_unreceived)
    }
}

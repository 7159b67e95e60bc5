// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Remote memory access (`fi_rma(3)`): reads and writes of a peer's memory, and those that peers make
//! of ours.

use alloc::collections::VecDeque;

use crate::completion_queue::CqId;
use crate::domain::Domain;
use crate::endpoint::{Endpoint, EpId, Incoming, Payload, Sink};
use crate::flags::{Caps, OpFlags};
use crate::memory::{MrId, Pieces};
use crate::message::Send;
use crate::operation::{Extra, OpId, Operation};
use crate::wire::WireError;
use crate::wire::header::{Header, Kind, Segment, Segments};
use crate::{Error, Reason, Result};

/// Read requests of a connection that wait for their response to be sent. One more, and nothing is
/// read from the connection until a response has left. Two sides that both stop like that wait for
/// each other, so this is more than an honest peer has outstanding: stock has at most its `tx_attr.size`,
/// 256 unless set otherwise, we have [`MAX_READS`].
pub(crate) const MAX_RESPONSES: usize = 1024;
/// Reads that we have outstanding on a connection. What is queued behind them waits.
pub(crate) const MAX_READS: usize = 256;

/// A read response that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response {
    pub(crate) pieces: Pieces,
    /// Acknowledgements that go ahead of it.
    acks_before: u64,
}

impl Response {
    fn header(&self) -> Header {
        Header { kind: Kind::ReadResponse, ack: false, commit: false, payload: self.pieces.len() }
    }
}

/// What is to be sent without anybody's posting it: acknowledgements and read responses, in the order
/// in which what they answer arrived. Acknowledgements, which a peer can ask for by the thousand, are
/// only counted.
#[derive(Default, Debug)]
pub(crate) struct Replies {
    responses: VecDeque<Response>,
    /// Acknowledgements behind the last response.
    acks: u64,
    /// The transport takes nothing any more: nobody will read a reply.
    closed: bool,
}

/// A reply, in a record's place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply<'a> {
    Ack,
    Response(&'a Response),
}

impl Reply<'_> {
    pub(crate) fn header(&self) -> Header {
        match self {
            Self::Ack => Header::ACK,
            Self::Response(response) => response.header(),
        }
    }
}

impl Replies {
    pub(crate) fn is_empty(&self) -> bool {
        self.acks == 0 && self.responses.is_empty()
    }

    pub(crate) fn ack(&mut self) {
        self.acks += u64::from(!self.closed);
    }

    fn is_full(&self) -> bool {
        self.responses.len() >= MAX_RESPONSES
    }

    fn respond(&mut self, pieces: Pieces) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        self.responses.try_reserve(1).map_err(|_| Error::NoMemory("a read response"))?;
        self.responses.push_back(Response { pieces, acks_before: core::mem::take(&mut self.acks) });
        Ok(())
    }

    pub(crate) fn iter<'a>(&'a self) -> impl Iterator<Item = Reply<'a>> {
        fn acks<'a>(count: u64) -> impl Iterator<Item = Reply<'a>> {
            (0..count).map(|_| Reply::Ack)
        }
        let response = |response: &'a Response| {
            acks(response.acks_before).chain(core::iter::once(Reply::Response(response)))
        };
        self.responses.iter().flat_map(response).chain(acks(self.acks))
    }

    /// The first reply has been sent. Gives whether it was a response.
    pub(crate) fn sent(&mut self) -> bool {
        match self.responses.front_mut() {
            Some(Response { acks_before: 0, .. }) => {
                self.responses.pop_front();
                return true;
            }
            Some(response) => response.acks_before -= 1,
            None => self.acks = self.acks.saturating_sub(1),
        }
        false
    }

    /// Whether the transport takes nothing any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Nothing can be sent any more.
    pub(crate) fn close(&mut self) {
        self.responses = VecDeque::new();
        (self.acks, self.closed) = (0, true);
    }
}

impl Endpoint {
    /// Whether the endpoint is for this part of remote memory access: all of them, unless its
    /// capabilities name some (`fi_getinfo(3)`).
    fn accesses(&self, part: Caps) -> bool {
        let parts = Caps::READ | Caps::WRITE | Caps::REMOTE_READ | Caps::REMOTE_WRITE;
        let caps = self.attr.caps;
        caps.contains(Caps::RMA) && (caps.contains(part) || !caps.intersects(parts))
    }

    /// Whether a transfer of the peer uses the region.
    pub(crate) fn reaches(&self, mr: MrId) -> bool {
        let writes = match &self.rx.incoming {
            Incoming::Payload(Payload { sink: Sink::Write { .. }, .. }) => self.rx.pieces.reach(mr),
            _ => false,
        };
        writes || self.tx.replies.responses.iter().any(|response| response.pieces.reach(mr))
    }
}

impl Domain {
    /// `fi_writemsg` and its kind: `write` says what of our memory goes to the peer's memory `remote`.
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send); -FI_ENOSYS on an endpoint that is not for it; -FI_EINVAL
    /// without remote segments, for too many, or when their length is not that of the local ones.
    pub fn post_write(&mut self, ep: EpId, write: &Send, remote: &[Segment]) -> Result<OpId> {
        const CALL: &str = "fi_writemsg";
        let known = OpFlags::INJECT | OpFlags::REMOTE_CQ_DATA | OpFlags::COMMIT_COMPLETE;
        let mut op = self.check_transmit(CALL, ep, write, known)?;
        let segments = self.check_remote(CALL, ep, write, remote, Caps::WRITE)?;
        op.flags = OpFlags::RMA | OpFlags::WRITE;
        self.post_rma(ep, op, segments)
    }

    /// `fi_readmsg` and its kind: `read` says where in our memory the contents of the peer's memory
    /// `remote` go.
    ///
    /// # Errors
    /// As for [`post_write`](Self::post_write).
    pub fn post_read(&mut self, ep: EpId, read: &Send, remote: &[Segment]) -> Result<OpId> {
        const CALL: &str = "fi_readmsg";
        let mut op = self.check_transmit(CALL, ep, read, OpFlags::empty())?;
        let segments = self.check_remote(CALL, ep, read, remote, Caps::READ)?;
        // It is complete when the data is here; there is nothing to acknowledge.
        (op.ack, op.commit, op.data) = (false, false, None);
        op.flags = OpFlags::RMA | OpFlags::READ;
        self.post_rma(ep, op, segments)
    }

    fn check_remote(
        &self,
        call: &'static str,
        ep: EpId,
        local: &Send,
        remote: &[Segment],
        part: Caps,
    ) -> Result<Segments> {
        let endpoint = self.endpoint(call, ep)?;
        if !endpoint.accesses(part) {
            return Err(Error::Unsupported(match part {
                Caps::READ => "reading remote memory by an endpoint without FI_RMA and FI_READ",
                _ => "writing remote memory by an endpoint without FI_RMA and FI_WRITE",
            }));
        }
        let limit = endpoint.attr.rma_iov_limit;
        let too_many =
            Error::TooManySegments { call, what: "tx_attr.rma_iov_limit", count: remote.len(), limit };
        if remote.len() > limit {
            return Err(too_many);
        }
        if remote.is_empty() {
            let problem = "no remote segment; name the memory to be reached, also for no bytes";
            return Err(Error::Invalid { call, problem });
        }
        let total = remote.iter().try_fold(0u64, |sum, segment| sum.checked_add(segment.len));
        if total != Some(local.len) {
            let problem = "remote and local segments differ in length; make them the same";
            return Err(Error::Invalid { call, problem });
        }
        Segments::new(remote).ok_or(too_many)
    }

    fn post_rma(&mut self, ep: EpId, op: Operation, segments: Segments) -> Result<OpId> {
        let id = self.ops.insert_with(op, Extra::Remote(segments))?;
        let Self { endpoints, ops, .. } = self;
        if let Some(endpoint) = endpoints.get_mut(ep.0) {
            ops.push(&mut endpoint.tx.queue, id);
        }
        Ok(id)
    }

    // What peers do with our memory.

    /// A read request has arrived: its response is queued, or it waits until there is room for that.
    pub(crate) fn start_read(
        &mut self,
        ep: EpId,
        header: Header,
        segments: &Segments,
    ) -> Result<(), WireError> {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return Ok(()) };
        if !endpoint.accesses(Caps::REMOTE_READ) {
            return Err(WireError::MemoryAccess);
        }
        if endpoint.tx.replies.is_full() {
            endpoint.wait_with(header);
            return Ok(());
        }
        let pieces = self.regions.resolve_all(segments, OpFlags::REMOTE_READ)?;
        endpoint.rx.incoming = Incoming::Header;
        if endpoint.tx.replies.respond(pieces).is_err() {
            self.end(ep, Reason::NoMemory);
        }
        Ok(())
    }

    /// The response to the oldest read arrives.
    pub(crate) fn start_response(&mut self, ep: EpId, payload: u64) -> Result<(), WireError> {
        let Self { endpoints, ops, .. } = self;
        let Some(endpoint) = endpoints.get_mut(ep.0) else { return Ok(()) };
        if endpoint.rx.leftover {
            endpoint.rx.incoming = Incoming::Payload(Payload::of_nobody(payload));
            self.advance(ep, 0);
            return Ok(());
        }
        let wanted =
            endpoint.tx.reads.first().and_then(|id| ops.get(id)).ok_or(WireError::StrayReadResponse)?.len;
        if payload != wanted {
            return Err(WireError::ResponseLength { found: payload, wanted });
        }
        if let Some(id) = ops.take_first(&mut endpoint.tx.reads) {
            let sink = Sink::Read(id);
            endpoint.rx.incoming =
                Incoming::Payload(Payload { sink, room: payload, done: 0, total: payload, ack: false });
            self.advance(ep, 0);
        }
        Ok(())
    }

    /// A write has arrived, but for its payload. One that is to be reported waits until the receive
    /// queue has room: its reader decides how fast a peer can fill it.
    pub(crate) fn start_write(
        &mut self,
        ep: EpId,
        header: Header,
        data: Option<u64>,
        segments: &Segments,
    ) -> Result<(), WireError> {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return Ok(()) };
        if !endpoint.accesses(Caps::REMOTE_WRITE) {
            return Err(WireError::MemoryAccess);
        }
        if data.is_some()
            && let Some(binding) = endpoint.rx_cq
            && let Some(queue) = self.queues.get_mut(binding.cq.0)
            && queue.is_full()
        {
            queue.waited_for = true;
            endpoint.wait_with(header);
            return Ok(());
        }
        endpoint.rx.pieces = self.regions.resolve_all(segments, OpFlags::REMOTE_WRITE)?;
        let (sink, total) = (Sink::Write { data }, header.payload);
        endpoint.rx.incoming =
            Incoming::Payload(Payload { sink, room: total, done: 0, total, ack: header.ack });
        self.advance(ep, 0);
        Ok(())
    }

    /// A peer's write is in place: its data is told to the application.
    pub(crate) fn finish_write(&mut self, ep: EpId, payload: &Payload, data: Option<u64>) {
        self.count(ep, OpFlags::REMOTE_WRITE, true);
        if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
            endpoint.traffic.remote_written.add(payload.total);
        }
        if let Some(data) = data {
            let flags = OpFlags::RMA | OpFlags::REMOTE_WRITE | OpFlags::REMOTE_CQ_DATA;
            let mut op = Operation::new(flags, 0, payload.total);
            op.data = Some(data);
            match self.ops.insert(op) {
                Ok(id) => self.complete(ep, id, None),
                Err(_) => return self.end(ep, Reason::NoMemory),
            }
        }
        if payload.ack
            && let Some(endpoint) = self.endpoints.get_mut(ep.0)
        {
            endpoint.acknowledge();
        }
    }

    /// A completion queue has room again: writes that wait for it go on.
    pub(crate) fn room_made(&mut self, cq: CqId) {
        for index in 0..self.endpoints.places() {
            let Some(key) = self.endpoints.key_at(index) else { continue };
            if let Some(endpoint) = self.endpoints.get_mut(key)
                && endpoint.rx_cq.is_some_and(|binding| binding.cq == cq)
            {
                self.retry(EpId(key));
            }
        }
    }

    /// There may be room for what waits for it.
    pub(crate) fn retry(&mut self, ep: EpId) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        if endpoint.rx.unexpected.wants_receive().is_some() {
            self.meet(ep);
            self.mark_resumed(ep);
        }
        self.resume(ep);
    }

    /// What the connection's input waited for may be there: it goes on, and the driver is told to go
    /// on reading.
    pub(crate) fn resume(&mut self, ep: EpId) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        if let Incoming::Waiting(header) = endpoint.rx.incoming {
            self.go_on(ep, header);
        }
    }

    /// The record that the connection's input waited with is tried again.
    pub(crate) fn go_on(&mut self, ep: EpId, header: Header) {
        if let Err(error) = self.start(ep, header) {
            self.broken(ep, error);
        }
        if let Some(endpoint) = self.endpoints.get_mut(ep.0)
            && !matches!(endpoint.rx.incoming, Incoming::Waiting(_))
        {
            endpoint.goes_on_receiving();
            self.mark_resumed(ep);
        }
    }

    /// The driver is to go on with an endpoint.
    pub(crate) fn mark_resumed(&mut self, ep: EpId) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
            endpoint.rx.resumed = true;
            self.resumed = Some(self.resumed.map_or(ep.0.index, |first| first.min(ep.0.index)));
        }
    }

    /// An endpoint whose input had to wait, and has to no longer: the driver goes on reading. What it
    /// had kept comes first.
    pub fn poll_resumed(&mut self) -> Option<EpId> {
        let first = self.resumed.take()?;
        for index in first..self.endpoints.places() {
            if let Some(key) = self.endpoints.key_at(index)
                && let Some(endpoint) = self.endpoints.get_mut(key)
                && core::mem::take(&mut endpoint.rx.resumed)
            {
                self.resumed = Some(index + 1);
                return Some(EpId(key));
            }
        }
        None
    }
}

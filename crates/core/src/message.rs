// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Messages (`fi_msg(3)`): from a posted operation to bytes on the transport, and back.

use alloc::vec::Vec;

use crate::domain::Domain;
use crate::endpoint::{EpId, Incoming, Payload, Receive, Sink, State, Transmit};
use crate::event_queue::check_flags;
use crate::flags::OpFlags;
use crate::memory::{MrId, Pieces};
use crate::operation::{List, OpId, Operation, Operations};
use crate::rma::{MAX_READS, Reply};
use crate::wire::header::{BASE_LEN, Header, Kind, MAX_LEN};
use crate::wire::{ByteOrder, WireError};
use crate::{Errno, Error, Reason, Result};

/// A send to be posted, or the local side of a read or write.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Send {
    /// Bytes in all segments.
    pub len: u64,
    /// Segments.
    pub segments: usize,
    /// Completion data for the receiver (`FI_REMOTE_CQ_DATA`).
    pub data: Option<u64>,
    /// `FI_COMPLETION`, `FI_INJECT`, `FI_MORE`, and completion levels.
    pub flags: OpFlags,
    /// Comes back with the completion.
    pub context: u64,
    /// No success is reported, whatever the queue's binding says (`fi_inject`).
    pub quiet: bool,
}

/// A receive to be posted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PostReceive {
    /// Bytes in all segments.
    pub len: u64,
    /// Segments.
    pub segments: usize,
    /// `FI_COMPLETION`, `FI_MORE`, `FI_MULTI_RECV`.
    pub flags: OpFlags,
    /// Comes back with the completion.
    pub context: u64,
}

/// Whose memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// An operation's buffers.
    Operation(OpId),
    /// A memory region.
    Region(MrId),
}

/// Bytes of an operation's or a region's memory, from `offset` on over all of its segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Whose memory.
    pub memory: Memory,
    /// Where its bytes start.
    pub offset: u64,
    /// How many there are.
    pub len: u64,
}

/// What the driver is to do with the bytes it has given to [`Domain::take`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// That many bytes were used up; come again with the rest. With none of it left, all is done.
    Used(usize),
    /// The first `len` bytes go to this place: copy them, then call [`Domain::placed`].
    Place(Place),
    /// Nothing can take the bytes until a receive is posted, or [`Domain::poll_resumed`] says so: keep them.
    Blocked,
    /// The connection is over; the bytes are not wanted.
    Ended,
}

/// A piece of what is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// These bytes of [`WritePlan::bytes`].
    Bytes {
        /// Where they start.
        start: usize,
        /// How many there are.
        len: usize,
    },
    /// Bytes of a send or write, or those that a peer reads.
    Payload(Place),
}

/// What to write next, to be given to the transport by one vectored write.
#[derive(Debug)]
pub struct WritePlan {
    segments: Vec<Segment>,
    bytes: Vec<u8>,
    limit: usize,
}

impl WritePlan {
    /// A plan with room for `segments` segments, at least two, to be used again and again.
    ///
    /// # Errors
    /// -FI_ENOMEM.
    pub fn new(segments: usize) -> Result<Self> {
        let limit = segments.max(2);
        let mut plan = Self { segments: Vec::new(), bytes: Vec::new(), limit };
        let room = (limit / 2 + 1).saturating_mul(MAX_LEN).max(crate::wire::cm::MAX_LEN);
        let reserved = plan.segments.try_reserve_exact(limit).and(plan.bytes.try_reserve_exact(room));
        reserved.map_err(|_| Error::NoMemory("a plan of what to write"))?;
        Ok(plan)
    }

    /// The pieces, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Headers and connection messages that the pieces refer to.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of all pieces.
    pub fn total_len(&self) -> usize {
        let len = |segment: &Segment| match segment {
            Segment::Bytes { len, .. } => *len,
            Segment::Payload(place) => usize::try_from(place.len).unwrap_or(usize::MAX),
        };
        self.segments.iter().map(len).fold(0, usize::saturating_add)
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    fn clear(&mut self) {
        self.segments.clear();
        self.bytes.clear();
    }

    /// Room for one more record. Records without payload share a segment, so their bytes count, too:
    /// a peer can ask for any number of acknowledgements.
    fn has_room(&self) -> bool {
        self.segments.len() + 2 <= self.limit && self.bytes.len() + MAX_LEN <= self.bytes.capacity()
    }

    fn push_bytes(&mut self, bytes: &[u8], skip: &mut u64) {
        let rest = usize::try_from(*skip).ok().and_then(|skip| bytes.get(skip..)).unwrap_or_default();
        *skip -= (bytes.len() - rest.len()) as u64;
        if rest.is_empty() {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(rest);
        if let Some(Segment::Bytes { start: first, len }) = self.segments.last_mut()
            && *first + *len == start
        {
            *len += rest.len();
            return;
        }
        self.segments.push(Segment::Bytes { start, len: rest.len() });
    }

    fn push_payload(&mut self, op: OpId, len: u64, skip: u64) {
        if len > skip {
            let memory = Memory::Operation(op);
            self.segments.push(Segment::Payload(Place { memory, offset: skip, len: len - skip }));
        }
    }

    /// Gives whether all of it had room. If not, the plan ends there: it is a part of the stream.
    fn push_pieces(&mut self, pieces: &Pieces, skip: u64) -> bool {
        for piece in pieces.from(skip) {
            if self.segments.len() == self.limit {
                return false;
            }
            let memory = Memory::Region(piece.mr);
            self.segments.push(Segment::Payload(Place { memory, offset: piece.offset, len: piece.len }));
        }
        true
    }
}

/// What of a connection's input can be read next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadPlan {
    /// The next bytes go straight into this place; call [`Domain::placed`] for those that did.
    pub direct: Option<Place>,
}

/// Where a record to be written comes from.
#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Operation(OpId),
    Reply(Reply<'a>),
}

impl Source<'_> {
    fn header(&self, ops: &Operations) -> Option<Header> {
        match self {
            Self::Operation(id) => ops.header(*id),
            Self::Reply(reply) => Some(reply.header()),
        }
    }

    /// Bytes of the record.
    fn record_len(&self, ops: &Operations) -> Option<u64> {
        match self {
            Self::Operation(id) => ops.record_len(*id),
            Self::Reply(reply) => Some(reply.header().record_len()),
        }
    }
}

impl Transmit {
    /// Takes the oldest operation that is not complete.
    pub(crate) fn next_pending(&mut self, ops: &mut Operations) -> Option<OpId> {
        ops.take_first(&mut self.unacked)
            .or_else(|| ops.take_first(&mut self.reads))
            .or_else(|| ops.take_first(&mut self.queue))
    }

    /// Whether all that was queued has been written.
    pub(crate) fn is_empty(&self) -> bool {
        self.greeting.is_empty() && self.queue.len() == 0 && self.replies.is_empty()
    }

    /// The operation of which the transport has a part.
    fn started(&self) -> Option<OpId> {
        if self.written > 0 && !self.reply_started && self.greeting.is_empty() {
            self.queue.first()
        } else {
            None
        }
    }

    /// Whether something can be written now. A read cannot while many are outstanding, and holds up
    /// what is behind it.
    fn is_ready(&self, ops: &Operations) -> bool {
        // Of a reply that was started the rest is gone, so nothing can follow it.
        if self.replies.is_closed() {
            return false;
        }
        let queued = || self.queue.first().and_then(|id| ops.get(id));
        !self.greeting.is_empty()
            || !self.replies.is_empty()
            || queued().is_some_and(|op| self.reads.len() < MAX_READS || !op.flags.contains(OpFlags::READ))
    }

    /// The records to be written, in order: one that was started, replies, operations.
    fn records<'a>(&'a self, ops: &'a Operations) -> impl Iterator<Item = Source<'a>> {
        let first = self.started();
        let mut rest = match first {
            Some(id) => ops.next(id),
            None => self.queue.first(),
        };
        let mut first = first;
        // Mostly there are none, and then they cost nothing.
        let mut replies = (!self.replies.is_empty()).then(|| self.replies.iter());
        core::iter::from_fn(move || {
            if let Some(id) = first.take() {
                return Some(Source::Operation(id));
            }
            if let Some(reply) = replies.as_mut().and_then(Iterator::next) {
                return Some(Source::Reply(reply));
            }
            replies = None;
            let id = rest?;
            rest = ops.next(id);
            Some(Source::Operation(id))
        })
    }
}

impl Receive {
    /// The message that waits in the transport for a receive, or for room.
    pub(crate) fn waiting_message(&self) -> Option<Header> {
        match self.incoming {
            Incoming::Waiting(header) if matches!(header.kind, Kind::Message { .. }) => Some(header),
            _ => None,
        }
    }

    /// Takes the operation that a payload is arriving for, when the connection ends under it.
    pub(crate) fn take_current(&mut self) -> Option<OpId> {
        let Incoming::Payload(payload) = &self.incoming else { return None };
        let op = match payload.sink {
            Sink::Receive(op) | Sink::Read(op) => Some(op),
            Sink::Write { .. } | Sink::Nobody => None,
        };
        self.incoming = Incoming::Header;
        op
    }
}

impl Receive {
    /// Takes the read whose response is arriving; the rest of that is dropped.
    pub(crate) fn forget_read(&mut self) -> Option<OpId> {
        let Incoming::Payload(payload) = &mut self.incoming else { return None };
        let Sink::Read(op) = payload.sink else { return None };
        (payload.sink, payload.room) = (Sink::Nobody, 0);
        Some(op)
    }
}

impl Domain {
    /// `fi_sendmsg` and its kind.
    ///
    /// # Errors
    /// -FI_ENOTCONN before the endpoint is connected; -FI_ESHUTDOWN after it was;
    /// -FI_EOPBADSTATE after a failed connection; -FI_EMSGSIZE and -FI_EINVAL over a limit;
    /// -FI_EBADFLAGS; -FI_EAGAIN while the transmit queue is full.
    pub fn post_send(&mut self, ep: EpId, send: &Send) -> Result<OpId> {
        let known = OpFlags::INJECT | OpFlags::REMOTE_CQ_DATA | OpFlags::MATCH_COMPLETE;
        let op = self.check_transmit("fi_sendmsg", ep, send, known)?;
        self.enqueue(ep, op, |endpoint| &mut endpoint.tx.queue)
    }

    /// `fi_inject`, for a driver that writes at once: nothing need be posted for a message that the
    /// transport takes whole. Where nothing is to be written before it, its header is put into `header`;
    /// gives the header's length. The driver writes header and payload, before anything else. If the transport
    /// took both, it calls [`injected`](Self::injected). Otherwise it posts the message, and says how much
    /// was taken by [`sent`](Self::sent).
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    pub fn plan_inject(&self, ep: EpId, send: &Send, header: &mut [u8; MAX_LEN]) -> Result<Option<usize>> {
        const CALL: &str = "fi_sendmsg";
        let op = self.check_transmit(CALL, ep, send, OpFlags::INJECT | OpFlags::REMOTE_CQ_DATA)?;
        let endpoint = self.endpoint(CALL, ep)?;
        if op.ack || !send.quiet || !endpoint.tx.is_empty() || endpoint.tx.replies.is_closed() {
            return Ok(None);
        }
        let message = Header::message(op.len, op.data, false);
        Ok(Some(message.emit(endpoint.order, endpoint.tx.sequence, header)))
    }

    /// The transport took all of the message that [`plan_inject`](Self::plan_inject) gave the header of;
    /// its payload has `len` bytes.
    pub fn injected(&mut self, ep: EpId, len: u64) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
            endpoint.tx.sequence = endpoint.tx.sequence.wrapping_add(1);
            endpoint.traffic.sent.add(len);
            self.asked(ep);
            self.count(ep, OpFlags::MSG | OpFlags::SEND, true);
        }
    }

    /// What all operations of the transmit side have in common. Gives a send.
    pub(crate) fn check_transmit(
        &self,
        call: &'static str,
        ep: EpId,
        send: &Send,
        known: OpFlags,
    ) -> Result<Operation> {
        let endpoint = self.endpoint(call, ep)?;
        let attr = &endpoint.attr;
        match endpoint.state {
            State::Connected => {}
            State::Draining | State::Disconnected => {
                return Err(endpoint.wrong_state(call, Errno::ESHUTDOWN, "use a new endpoint"));
            }
            State::Failed => {
                return Err(endpoint.wrong_state(call, Errno::EOPBADSTATE, "use a new endpoint"));
            }
            _ => return Err(endpoint.wrong_state(call, Errno::ENOTCONN, "wait for FI_CONNECTED")),
        }
        let levels = OpFlags::INJECT_COMPLETE | OpFlags::TRANSMIT_COMPLETE | OpFlags::DELIVERY_COMPLETE;
        check_flags(call, send.flags, known | OpFlags::COMPLETION | OpFlags::MORE | levels)?;
        if send.segments > attr.tx_iov_limit {
            let (count, limit) = (send.segments, attr.tx_iov_limit);
            return Err(Error::TooManySegments { call, what: "tx_attr.iov_limit", count, limit });
        }
        // The length on the wire counts the header in.
        let limit = attr.max_msg_size.min(u64::MAX - MAX_LEN as u64);
        if send.len > limit {
            return Err(Error::TooLong { call, what: "ep_attr.max_msg_size", len: send.len, limit });
        }
        let inject = attr.inject_size as u64;
        if send.flags.contains(OpFlags::INJECT) && send.len > inject {
            return Err(Error::TooLong { call, what: "tx_attr.inject_size", len: send.len, limit: inject });
        }
        let limit = attr.tx_size;
        if endpoint.transmits_pending() >= limit {
            return Err(Error::Full { call, what: "the transmit queue (tx_attr.size)", limit });
        }
        let mut op = Operation::new(OpFlags::MSG | OpFlags::SEND, send.context, send.len);
        op.data = send.data;
        op.commit = send.flags.contains(OpFlags::COMMIT_COMPLETE);
        // A message is acknowledged once it is in its receive, so that it has met one.
        let acknowledged = OpFlags::TRANSMIT_COMPLETE | OpFlags::DELIVERY_COMPLETE | OpFlags::MATCH_COMPLETE;
        op.ack = op.commit || send.flags.intersects(acknowledged);
        (op.asked, op.quiet) = (send.flags.contains(OpFlags::COMPLETION), send.quiet);
        Ok(op)
    }

    fn enqueue(
        &mut self,
        ep: EpId,
        op: Operation,
        list: impl Fn(&mut crate::endpoint::Endpoint) -> &mut List,
    ) -> Result<OpId> {
        let id = self.ops.insert(op)?;
        let Self { endpoints, ops, .. } = self;
        if let Some(endpoint) = endpoints.get_mut(ep.0) {
            ops.push(list(endpoint), id);
        }
        Ok(id)
    }

    /// `fi_cancel`: the oldest operation posted with `context` that has not begun completes with
    /// `FI_ECANCELED`: a receive that no message has met, or else a send, write or read of which the
    /// transport has nothing yet.
    ///
    /// # Errors
    /// -FI_ENOENT when there is none (decision D10).
    pub fn cancel(&mut self, ep: EpId, context: u64) -> Result<()> {
        const CALL: &str = "fi_cancel";
        let Self { endpoints, ops, .. } = self;
        let endpoint = endpoints.get_mut(ep.0).ok_or(Error::Stale { call: CALL, object: "endpoint" })?;
        let wanted = |op: &Operation| op.context == context && !op.quiet;
        let started = endpoint.tx.started();
        let found = ops
            .remove(&mut endpoint.rx.posted, |_, op| wanted(op))
            .or_else(|| ops.remove(&mut endpoint.tx.queue, |id, op| Some(id) != started && wanted(op)));
        self.end_operation(ep, found.ok_or(Error::NoSuchOperation { context })?, Errno::ECANCELED);
        Ok(())
    }

    /// The same for one receive.
    ///
    /// # Errors
    /// -FI_ENOENT when it is none of the endpoint's that no message has reached.
    pub fn cancel_receive(&mut self, ep: EpId, op: OpId) -> Result<()> {
        let Self { endpoints, ops, .. } = self;
        let endpoint =
            endpoints.get_mut(ep.0).ok_or(Error::Stale { call: "fi_cancel", object: "endpoint" })?;
        let found = ops.remove(&mut endpoint.rx.posted, |id, _| id == op);
        let context = ops.get(op).map_or(0, |op| op.context);
        self.end_operation(ep, found.ok_or(Error::NoSuchOperation { context })?, Errno::ECANCELED);
        Ok(())
    }

    // Outgoing.

    /// Whether there is anything to write.
    pub fn wants_write(&self, ep: EpId) -> bool {
        self.endpoints.get(ep.0).is_some_and(|endpoint| {
            let open = endpoint.is_open() || matches!(endpoint.state, State::Requested | State::Accepting);
            open && endpoint.tx.is_ready(&self.ops)
        })
    }

    /// Plans the next write: as many records as `plan` has room for. Call [`sent`](Self::sent)
    /// with what the transport took, before anything else.
    pub fn plan_write(&self, ep: EpId, plan: &mut WritePlan) {
        plan.clear();
        if !self.wants_write(ep) {
            return;
        }
        let Some(endpoint) = self.endpoints.get(ep.0) else { return };
        let tx = &endpoint.tx;
        let mut skip = tx.written;
        if !tx.greeting.is_empty() {
            // Nothing is sent behind a greeting until it has left.
            plan.push_bytes(&tx.greeting, &mut skip);
            return;
        }
        let mut bytes = [0; MAX_LEN];
        let mut sequence = tx.sequence;
        let mut reads = tx.reads.len();
        for source in tx.records(&self.ops) {
            let Some(header) = source.header(&self.ops) else { return };
            let is_read = matches!(header.kind, Kind::ReadRequest(_));
            if !plan.has_room() || is_read && reads >= MAX_READS {
                break;
            }
            reads += usize::from(is_read);
            let len = header.emit(endpoint.order, sequence, &mut bytes);
            sequence = sequence.wrapping_add(1);
            plan.push_bytes(bytes.get(..len).unwrap_or_default(), &mut skip);
            match source {
                Source::Operation(op) => plan.push_payload(op, header.payload, skip),
                Source::Reply(Reply::Response(response)) => {
                    if !plan.push_pieces(&response.pieces, skip) {
                        break;
                    }
                }
                Source::Reply(Reply::Ack) => {}
            }
            skip = 0;
        }
    }

    /// The transport took `bytes` bytes of what was planned.
    pub fn sent(&mut self, ep: EpId, bytes: usize) {
        self.asked(ep);
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        let mut left = bytes as u64;
        if !endpoint.tx.greeting.is_empty() {
            endpoint.tx.written += left;
            if endpoint.tx.written >= endpoint.tx.greeting.len() as u64 {
                endpoint.tx.written = 0;
                self.greeted(ep);
            }
            return;
        }
        // What the input goes on with may have to be answered, and that was not written: it comes later.
        let mut responded = false;
        while left > 0 {
            let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
            let Some(source) = endpoint.tx.records(&self.ops).next() else { break };
            let Some(len) = source.record_len(&self.ops) else { break };
            let (op, served) = match source {
                Source::Operation(id) => (Some(id), None),
                Source::Reply(reply) => (None, Some(reply.header())),
            };
            let missing = len - endpoint.tx.written;
            if left < missing {
                endpoint.tx.written += left;
                endpoint.tx.reply_started = op.is_none();
                break;
            }
            left -= missing;
            match (op.and_then(|id| self.ops.get(id)), served) {
                (Some(op), _) => endpoint.traffic.wrote(op),
                (None, Some(header)) => endpoint.traffic.served(&header),
                (None, None) => {}
            }
            endpoint.tx.written = 0;
            endpoint.tx.reply_started = false;
            endpoint.tx.sequence = endpoint.tx.sequence.wrapping_add(1);
            match op {
                None => {
                    if endpoint.tx.replies.sent() {
                        self.count(ep, OpFlags::REMOTE_READ, true);
                        responded = true;
                    }
                }
                Some(id) => {
                    self.ops.take_first(&mut endpoint.tx.queue);
                    let (is_read, is_acked) = match self.ops.get(id) {
                        Some(op) => (op.flags.contains(OpFlags::READ), op.ack),
                        None => (false, false),
                    };
                    if is_read {
                        self.ops.push(&mut endpoint.tx.reads, id);
                    } else if is_acked {
                        self.ops.push(&mut endpoint.tx.unacked, id);
                    } else {
                        self.complete_send(ep, id);
                    }
                }
            }
        }
        if responded {
            self.resume(ep);
        }
    }

    /// A send, write or read is complete. What it reports is that, and nothing of its length or data
    /// (section 7).
    pub(crate) fn complete_send(&mut self, ep: EpId, id: OpId) {
        if let Some(op) = self.ops.get_mut(id) {
            op.len = 0;
            op.data = None;
        }
        self.complete(ep, id, None);
    }

    // Incoming.

    /// What can be read from the transport next; `None`: leave what has arrived where it is.
    pub fn plan_read(&self, ep: EpId) -> Option<ReadPlan> {
        let endpoint = self.endpoints.get(ep.0)?;
        if !(endpoint.is_open() || endpoint.state == State::Requested) {
            return None;
        }
        if endpoint.rx.ended.is_some() {
            return None;
        }
        let direct = match &endpoint.rx.incoming {
            Incoming::Payload(payload) => payload.place(&endpoint.rx.pieces, u64::MAX),
            Incoming::Waiting(_) => return None,
            _ => None,
        };
        Some(ReadPlan { direct })
    }

    /// Takes the bytes that come next in the peer's stream, as far as they go.
    pub fn take(&mut self, ep: EpId, input: &[u8]) -> Step {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return Step::Ended };
        let is_open = endpoint.is_open() || endpoint.state == State::Requested;
        if !is_open || endpoint.rx.leftover && endpoint.rx.ended.is_some() {
            return Step::Ended;
        }
        match &mut endpoint.rx.incoming {
            Incoming::Answer(assembly) => match assembly.take(input) {
                Ok(used) => {
                    if let Some((header, data)) = assembly.finish() {
                        self.answered(ep, header, data);
                    }
                    Step::Used(used)
                }
                Err(Error::Wire(error)) => self.broken(ep, error),
                Err(_) => {
                    self.end(ep, Reason::NoMemory);
                    Step::Ended
                }
            },
            Incoming::Header => match endpoint.rx.take_header(endpoint.order, input) {
                Err(error) => self.broken(ep, error),
                Ok((used, None)) => Step::Used(used),
                Ok((used, Some(header))) => match self.start(ep, header) {
                    Ok(()) => Step::Used(used),
                    Err(error) => self.broken(ep, error),
                },
            },
            Incoming::Unexpected => Step::Used(self.keep_bytes(ep, input)),
            Incoming::Waiting(_) if input.is_empty() => Step::Used(0),
            Incoming::Waiting(_) => Step::Blocked,
            Incoming::Payload(payload) => {
                let available = input.len() as u64;
                if let Some(place) = payload.place(&endpoint.rx.pieces, available) {
                    return if place.len > 0 { Step::Place(place) } else { Step::Used(0) };
                }
                // What has no room in the receive is dropped.
                let surplus = (payload.total - payload.done).min(available);
                self.advance(ep, surplus);
                Step::Used(surplus as usize)
            }
        }
    }

    /// The next `len` bytes of the peer's stream are in the place that was planned for them.
    pub fn placed(&mut self, ep: EpId, len: u64) {
        self.advance(ep, len);
    }

    pub(crate) fn advance(&mut self, ep: EpId, len: u64) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        if let Incoming::Payload(payload) = &mut endpoint.rx.incoming {
            payload.done = payload.done.saturating_add(len).min(payload.total);
            if payload.done == payload.total {
                let payload = *payload;
                endpoint.rx.incoming = Incoming::Header;
                match payload.sink {
                    Sink::Receive(id) => self.finish_message(ep, id, &payload),
                    Sink::Read(id) => {
                        endpoint.traffic.read.add(payload.total);
                        self.complete_send(ep, id);
                    }
                    Sink::Write { data } => self.finish_write(ep, &payload, data),
                    Sink::Nobody => {}
                }
            }
        }
    }

    /// A header has arrived.
    pub(crate) fn start(&mut self, ep: EpId, header: Header) -> Result<(), WireError> {
        let Self { endpoints, ops, .. } = self;
        let Some(endpoint) = endpoints.get_mut(ep.0) else { return Ok(()) };
        match header.kind {
            Kind::Message { .. } => self.start_message(ep, header),
            // What it is for was cancelled.
            Kind::Ack if endpoint.rx.leftover => {}
            Kind::Ack => {
                let id = ops.take_first(&mut endpoint.tx.unacked).ok_or(WireError::StrayAck)?;
                self.complete_send(ep, id);
            }
            // Nothing can be answered.
            Kind::ReadRequest(_) if endpoint.rx.leftover => endpoint.rx.incoming = Incoming::Header,
            Kind::ReadRequest(segments) => return self.start_read(ep, header, &segments),
            Kind::Write { .. } if endpoint.rx.leftover => self.end_leftover(ep),
            Kind::ReadResponse => return self.start_response(ep, header.payload),
            Kind::Write { data, segments } => return self.start_write(ep, header, data, &segments),
        }
        Ok(())
    }

    pub(crate) fn broken(&mut self, ep: EpId, error: WireError) -> Step {
        self.end(ep, Reason::Protocol(error));
        Step::Ended
    }
}

impl Payload {
    /// Bytes that are dropped.
    pub(crate) fn of_nobody(total: u64) -> Self {
        Self { sink: Sink::Nobody, room: 0, done: 0, total, ack: false }
    }

    /// Where the next bytes go, at most `available`; `None` when the receive is full.
    fn place(&self, pieces: &Pieces, available: u64) -> Option<Place> {
        let len = self.room.min(self.total).checked_sub(self.done).filter(|&len| len > 0)?;
        match self.sink {
            Sink::Receive(op) | Sink::Read(op) => {
                Some(Place { memory: Memory::Operation(op), offset: self.done, len: len.min(available) })
            }
            Sink::Write { .. } => {
                let piece = pieces.from(self.done).next()?;
                let memory = Memory::Region(piece.mr);
                Some(Place { memory, offset: piece.offset, len: piece.len.min(available) })
            }
            Sink::Nobody => None,
        }
    }
}

impl Receive {
    /// Puts a header together; gives the number of bytes used, and the header once it is whole.
    fn take_header(&mut self, order: ByteOrder, input: &[u8]) -> Result<(usize, Option<Header>), WireError> {
        if self.have == 0
            && let Some(base) = input.first_chunk()
        {
            // Mostly a header arrives whole, and is read where it is.
            let len = Header::expected_len(base, order)?;
            if let Some(bytes) = input.get(..len) {
                return Ok((len, Some(Header::parse(bytes, order)?)));
            }
        }
        let mut used = 0;
        loop {
            let need = match self.header.first_chunk() {
                Some(base) if self.have >= BASE_LEN => Header::expected_len(base, order)?,
                _ => BASE_LEN,
            };
            if self.have == need && need > 0 {
                let bytes = self.header.get(..need).unwrap_or_default();
                let header = Header::parse(bytes, order)?;
                self.have = 0;
                return Ok((used, Some(header)));
            }
            let missing = need.saturating_sub(self.have);
            let rest = input.get(used..).unwrap_or_default();
            let piece = rest.get(..missing).unwrap_or(rest);
            if piece.is_empty() {
                return Ok((used, None));
            }
            if let Some(place) = self.header.get_mut(self.have..self.have + piece.len()) {
                place.copy_from_slice(piece);
            }
            self.have += piece.len();
            used += piece.len();
        }
    }
}

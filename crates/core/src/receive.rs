// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Receives (`fi_msg(3)`): how they are posted, and which message meets which.

use crate::domain::Domain;
use crate::endpoint::{EpId, Incoming, Payload, Sink, State};
use crate::event_queue::check_flags;
use crate::flags::OpFlags;
use crate::message::PostReceive;
use crate::multi_receive::Buffer;
use crate::operation::{Extra, Failure, OpId, Operation, Role};
use crate::wire::header::{Header, Kind};
use crate::{Errno, Error, Reason, Result};

/// What a message that asks for a receive gets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Met {
    /// This one; it is in no list any more.
    Receive(OpId),
    /// None is posted.
    Nothing,
    /// There is one, but its completion has no room: this is tried again when there is some.
    Later,
}

impl Domain {
    /// `fi_recvmsg` and its kind.
    ///
    /// # Errors
    /// -FI_ENOSYS on an endpoint with a shared receive context: post the receive to that; -FI_EOPBADSTATE
    /// before `fi_enable` or after a failed connection; -FI_ESHUTDOWN once the connection is over and nothing is
    /// left that came before; -FI_EINVAL over a limit; -FI_EBADFLAGS; -FI_EAGAIN while the receive queue is full.
    pub fn post_receive(&mut self, ep: EpId, receive: &PostReceive) -> Result<OpId> {
        self.post_receive_until(ep, receive, false)
    }

    /// The same, and no error once the connection is over: a receive that nothing is left for stays posted, and
    /// completes with `FI_ECANCELED` when it is cancelled or the endpoint is closed. Programs for stock post what
    /// has completed once more before they look for FI_SHUTDOWN.
    ///
    /// # Errors
    /// As for [`post_receive`](Self::post_receive), without -FI_ESHUTDOWN.
    pub fn post_late_receive(&mut self, ep: EpId, receive: &PostReceive) -> Result<OpId> {
        self.post_receive_until(ep, receive, true)
    }

    /// `late`: until the endpoint is closed.
    fn post_receive_until(&mut self, ep: EpId, receive: &PostReceive, late: bool) -> Result<OpId> {
        const CALL: &str = "fi_recvmsg";
        let endpoint = self.endpoint(CALL, ep)?;
        if endpoint.rx.srx.is_some() {
            let what = "fi_recvmsg on an endpoint with a shared receive context (post the receive to that)";
            return Err(Error::Unsupported(what));
        }
        match endpoint.state {
            State::Idle => {
                return Err(endpoint.wrong_state(CALL, Errno::EOPBADSTATE, "call fi_enable first"));
            }
            State::Failed => {
                return Err(endpoint.wrong_state(CALL, Errno::EOPBADSTATE, "use a new endpoint"));
            }
            State::Disconnected if !endpoint.rx.leftover && !late => {
                return Err(endpoint.wrong_state(CALL, Errno::ESHUTDOWN, "use a new endpoint"));
            }
            _ => {}
        }
        let limit = endpoint.attr.rx_size;
        if endpoint.rx.posted.len() >= limit {
            return Err(Error::Full { call: CALL, what: "the receive queue (rx_attr.size)", limit });
        }
        let (limit, min) = (endpoint.attr.rx_iov_limit, endpoint.rx.min_multi_recv);
        let id = self.insert_receive(CALL, receive, limit, min)?;
        if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
            self.ops.push(&mut endpoint.rx.posted, id);
            if !endpoint.rx.unexpected.is_empty() || endpoint.rx.waiting_message().is_some() {
                self.meet(ep);
            }
        }
        Ok(id)
    }

    /// Checks a receive, and gives it a place in the table.
    pub(crate) fn insert_receive(
        &mut self,
        call: &'static str,
        receive: &PostReceive,
        iov_limit: usize,
        min_multi_recv: u64,
    ) -> Result<OpId> {
        let &PostReceive { len, segments, flags, context } = receive;
        check_flags(call, flags, OpFlags::COMPLETION | OpFlags::MORE | OpFlags::MULTI_RECV)?;
        if segments > iov_limit {
            let (what, limit) = ("rx_attr.iov_limit", iov_limit);
            return Err(Error::TooManySegments { call, what, count: segments, limit });
        }
        let mut op = Operation::new(OpFlags::MSG | OpFlags::RECV, context, len);
        op.asked = flags.contains(OpFlags::COMPLETION);
        if !flags.contains(OpFlags::MULTI_RECV) {
            return self.ops.insert(op);
        }
        if segments != 1 {
            let problem = "FI_MULTI_RECV takes one buffer; post several receives for several";
            return Err(Error::Invalid { call, problem });
        }
        op.role = Role::Buffer;
        self.ops.insert_with(op, Extra::Buffer(Buffer::new(min_multi_recv)))
    }

    /// Takes the receive for a message of `len` bytes: the oldest of the endpoint's, or of the context that it
    /// shares.
    fn take_receive(&mut self, ep: EpId, len: u64) -> Met {
        loop {
            let Self { endpoints, shared, ops, queues, splits, .. } = self;
            let Some(endpoint) = endpoints.get_mut(ep.0) else { return Met::Nothing };
            let list = match endpoint.rx.srx {
                None => &mut endpoint.rx.posted,
                Some(srx) => match shared.get_mut(srx.0) {
                    Some(shared) => &mut shared.posted,
                    None => return Met::Nothing,
                },
            };
            let Some(id) = list.first() else { return Met::Nothing };
            if ops.get(id).is_none_or(|op| op.role == Role::Ordinary) {
                ops.take_first(list);
                return Met::Receive(id);
            }
            let binding = endpoint.rx_cq;
            if !ops.has_room(id, len) {
                ops.take_first(list);
                self.retire(binding, id, None);
                continue;
            }
            if let Some(queue) = binding.and_then(|binding| queues.get_mut(binding.cq.0))
                && queue.is_full()
            {
                queue.waited_for = true;
                return Met::Later;
            }
            let announced = splits.try_reserve(1).map_err(|_| Error::NoMemory("a part of a buffer"));
            match announced.and_then(|()| ops.split(id, len)) {
                Ok((split, used_up)) => {
                    if used_up {
                        ops.take_first(list);
                    }
                    splits.push_back(split);
                    return Met::Receive(split.part);
                }
                Err(_) => {
                    self.end(ep, Reason::NoMemory);
                    return Met::Later;
                }
            }
        }
    }

    /// The oldest message of a connection that waits for a receive gets one, if there is one for it.
    pub(crate) fn meet(&mut self, ep: EpId) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        if endpoint.rx.unexpected.is_empty() {
            if let Some(header) = endpoint.rx.waiting_message()
                && let Err(error) = self.start(ep, header)
            {
                self.broken(ep, error);
            }
            return;
        }
        let Some(len) = endpoint.rx.unexpected.wants_receive() else { return };
        match self.take_receive(ep, len) {
            Met::Receive(id) => {
                if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
                    endpoint.goes_on_receiving();
                    endpoint.rx.unexpected.meets(id);
                }
            }
            Met::Nothing => self.queue_up(ep),
            Met::Later => {}
        }
    }

    /// The header of a message has arrived.
    pub(crate) fn start_message(&mut self, ep: EpId, header: Header) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        if !endpoint.rx.unexpected.is_empty() {
            return self.start_unexpected(ep, header);
        }
        match self.take_receive(ep, header.payload) {
            Met::Receive(id) => self.start_receive(ep, header, id),
            Met::Nothing => {
                self.start_unexpected(ep, header);
                self.wait_if_whole(ep);
            }
            Met::Later => self.start_unexpected(ep, header),
        }
    }

    /// Puts an endpoint among those that wait for a receive if it has one message to wait with: others go
    /// first while that is still arriving.
    fn wait_if_whole(&mut self, ep: EpId) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0)
            && (endpoint.rx.unexpected.wants_receive().is_some() || endpoint.rx.waiting_message().is_some())
        {
            self.queue_up(ep);
        }
    }

    /// A message meets the receive it goes into.
    fn start_receive(&mut self, ep: EpId, header: Header, id: OpId) {
        let Self { endpoints, ops, .. } = self;
        let Some(endpoint) = endpoints.get_mut(ep.0) else { return };
        endpoint.goes_on_receiving();
        let Some(op) = ops.get_mut(id) else { return };
        if let Kind::Message { data: Some(data) } = header.kind {
            op.data = Some(data);
            op.flags |= OpFlags::REMOTE_CQ_DATA;
        }
        let sink = Sink::Receive(id);
        let payload = Payload { sink, room: op.len, done: 0, total: header.payload, ack: header.ack };
        endpoint.rx.incoming = Incoming::Payload(payload);
        self.advance(ep, 0);
    }

    /// All of a message has arrived.
    pub(crate) fn finish_message(&mut self, ep: EpId, id: OpId, payload: &Payload) {
        // The acknowledgement is due now, in the order of arrival (section 7).
        if payload.ack
            && let Some(endpoint) = self.endpoints.get_mut(ep.0)
        {
            endpoint.acknowledge();
        }
        self.received(ep, id, payload.total);
    }

    /// A receive has its message, of `total` bytes.
    pub(crate) fn received(&mut self, ep: EpId, id: OpId, total: u64) {
        let mut overflow = 0;
        if let Some(op) = self.ops.get_mut(id) {
            overflow = total.saturating_sub(op.len);
            op.len = total - overflow;
        }
        if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
            endpoint.traffic.received.add(total - overflow);
        }
        let errno = Errno::ETRUNC;
        let failure = Failure { errno, provider_errno: errno.raw(), overflow };
        self.complete(ep, id, (overflow > 0).then_some(failure));
    }
}

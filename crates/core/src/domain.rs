// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The domain (`fi_domain(3)`): one machine for its endpoints, connections, queues and operations.
//!
//! # Call protocol
//!
//! A driver owns sockets, memory, clock and locks, and is a loop around the machine:
//!
//! * **Commands** come from the application: objects are opened, bound and closed here; connections
//!   are made in `connection.rs`, operations posted in `message.rs`.
//! * **Inputs** come from the transport: [`transport_open`](Domain::transport_open),
//!   [`transport_failed`](Domain::transport_failed), [`take`](Domain::take) and
//!   [`placed`](Domain::placed), [`sent`](Domain::sent), [`returned`](Domain::returned) for a
//!   transport that is [lent](crate::loan) memory, [`end_of_stream`](Domain::end_of_stream),
//!   [`drained`](Domain::drained), and [`expire`](Domain::expire) from the clock.
//! * **Outputs** are asked for: what to read and write next ([`plan_read`](Domain::plan_read),
//!   [`plan_write`](Domain::plan_write)), and after any command or input, until each gives `None`:
//!   [`poll_transport`](Domain::poll_transport), [`poll_event`](Domain::poll_event),
//!   [`poll_split`](Domain::poll_split), then [`poll_released`](Domain::poll_released),
//!   [`poll_resumed`](Domain::poll_resumed); for an endpoint that has taken bytes or was given receives
//!   [`poll_kept`](Domain::poll_kept).
//!
//! Memory is named, never touched: an [`OpId`] stands for the buffers of an operation from its post
//! until its completion is read or it is released, an [`MrId`](crate::MrId) for those of a memory
//! region until it is closed.

use alloc::collections::VecDeque;

use crate::attr::CqAttr;
use crate::completion_queue::{Completion, CompletionError, CompletionQueue, CqId};
use crate::count::list;
use crate::counter::Bound;
use crate::endpoint::{Binding, Endpoint, EndpointAttr, EpId, Incoming, Origin, State};
use crate::event_queue::{Entry, Fid};
use crate::flags::OpFlags;
use crate::liveness::Looks;
use crate::memory::Regions;
use crate::multi_receive::{Part, Split};
use crate::operation::{Failure, List, OpId, Operation, Operations, Role};
use crate::shared_receive::SharedReceive;
use crate::slab::Slab;
use crate::statistics::Totals;
use crate::time::{Earliest, Instant, TimeLimits};
use crate::{Errno, Error, Result, SocketAddr};

/// What the driver is to do with an endpoint's transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportCommand {
    /// Shut it down in both directions and close it. Nothing more is wanted of it. With memory [on
    /// loan](crate::loan), reset it, so that the memory comes back.
    Close,
    /// End the outgoing stream. The peer may still be receiving what was sent, and closing at once
    /// would take that from it if it sends something itself: read and drop that until it ends its
    /// stream, and memory on loan has come back, for the shutdown limit at most, then close.
    Finish,
    /// End the outgoing stream, and keep the transport: what has arrived can still be received.
    /// [`Close`](Self::Close) follows, unless the endpoint is closed before.
    EndOutput,
}

/// A domain.
#[derive(Default, Debug)]
pub struct Domain {
    pub(crate) endpoints: Slab<Endpoint>,
    pub(crate) queues: Slab<CompletionQueue>,
    pub(crate) counters: Slab<Bound>,
    pub(crate) ops: Operations,
    pub(crate) regions: Regions,
    pub(crate) shared: Slab<SharedReceive>,
    /// Parts of buffers that the driver has not been told of.
    pub(crate) splits: VecDeque<Split>,
    pub(crate) limits: TimeLimits,
    pub(crate) earliest: Earliest,
    pub(crate) looks: Looks,
    pub(crate) totals: Totals,
    events: VecDeque<(EpId, Fid, Entry)>,
    transports: VecDeque<(EpId, TransportCommand)>,
    released: List,
    /// Endpoints from this index on may have been resumed.
    pub(crate) resumed: Option<u32>,
    pub(crate) spare: crate::unexpected::Spare,
}

/// Events and transport commands that an endpoint can cause before they are polled.
const OUTPUTS_PER_ENDPOINT: usize = 2;

impl Domain {
    /// A domain whose endpoints start with these limits in time.
    pub fn new(limits: TimeLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Whether the domain can be closed.
    ///
    /// # Errors
    /// -FI_EBUSY while endpoints, shared receive contexts, completion queues, counters or memory regions are
    /// open.
    pub fn check_close(&self) -> Result<()> {
        let (counters, shared) = (self.counters.len(), self.shared.len());
        if self.endpoints.len() + self.queues.len() + self.regions.len() + counters + shared > 0 {
            return Err(Error::Busy {
                call: "fi_close",
                object: "domain",
                users: list(&[
                    (self.endpoints.len(), "endpoint"),
                    (shared, "shared receive context"),
                    (self.queues.len(), "completion queue"),
                    (counters, "counter"),
                    (self.regions.len(), "memory region"),
                ]),
            });
        }
        Ok(())
    }

    // Completion queues.

    /// `fi_cq_open`.
    ///
    /// # Errors
    /// -FI_ENOMEM when there is no memory for `attr.size` completions.
    pub fn open_cq(&mut self, attr: &CqAttr) -> Result<CqId> {
        self.ops.reserve(attr.size)?;
        Ok(CqId(self.queues.insert(CompletionQueue::new(attr.size), "a completion queue")?))
    }

    /// `fi_close` of a completion queue. Gives its unread completions back through
    /// [`poll_released`](Self::poll_released).
    ///
    /// # Errors
    /// -FI_EBUSY while endpoints or shared receive contexts are bound to it.
    pub fn close_cq(&mut self, cq: CqId) -> Result<()> {
        const CALL: &str = "fi_close";
        let queue = self.queues.get(cq.0).ok_or(Error::Stale { call: CALL, object: "completion queue" })?;
        if queue.bindings > 0 {
            return Err(Error::Busy {
                call: CALL,
                object: "completion queue",
                users: list(&[(queue.bindings, "bound direction")]),
            });
        }
        if let Some(mut queue) = self.queues.remove(cq.0) {
            while let Some(op) = self.ops.take_first(&mut queue.entries) {
                self.push_released(op);
            }
        }
        Ok(())
    }

    /// `fi_cq_read`: takes the next completion. The memory of the operation is the caller's again.
    ///
    /// # Errors
    /// -FI_EAGAIN when there is none, -FI_EAVAIL when it is an error.
    pub fn read_cq(&mut self, cq: CqId) -> Result<(OpId, Completion)> {
        let queue = self.queues.get_mut(cq.0);
        let queue = queue.ok_or(Error::Stale { call: "fi_cq_read", object: "completion queue" })?;
        let done = queue.read(&mut self.ops)?;
        self.entry_taken(cq);
        Ok(done)
    }

    /// `fi_cq_readerr`: takes the next completion, which is an error.
    ///
    /// # Errors
    /// -FI_EAGAIN when the next completion is none.
    pub fn read_cq_error(&mut self, cq: CqId) -> Result<(OpId, CompletionError)> {
        let queue = self.queues.get_mut(cq.0);
        let queue = queue.ok_or(Error::Stale { call: "fi_cq_readerr", object: "completion queue" })?;
        let done = queue.read_error(&mut self.ops)?;
        self.entry_taken(cq);
        Ok(done)
    }

    /// Peers that wait for room may go on.
    fn entry_taken(&mut self, cq: CqId) {
        if self.queues.get_mut(cq.0).is_some_and(CompletionQueue::has_room_for_waiting) {
            self.room_made(cq);
        }
    }

    /// Whether a wait for `threshold` completions is over (`FI_CQ_COND_THRESHOLD`): they are there, or an error
    /// is among what is, or peers wait for room and no more may come before something is read.
    pub fn cq_satisfies(&self, cq: CqId, threshold: usize) -> bool {
        let ready = |queue: &CompletionQueue| {
            queue.entries.len() >= threshold || queue.failures > 0 || queue.waited_for
        };
        self.queues.get(cq.0).is_some_and(ready)
    }

    /// Completions that wait to be read.
    pub fn cq_len(&self, cq: CqId) -> usize {
        self.queues.get(cq.0).map_or(0, |queue| queue.entries.len())
    }

    /// Completions that peers made and nobody has read: what they use of the table of operations.
    pub fn peer_completions(&self) -> usize {
        self.queues.keys().filter_map(|key| self.queues.get(key)).map(|queue| queue.remote).sum()
    }

    // Endpoints.

    /// `fi_endpoint`: `fid` is what its events carry.
    ///
    /// # Errors
    /// -FI_ENOMEM.
    pub fn open_endpoint(&mut self, fid: Fid, attr: EndpointAttr, origin: Origin) -> Result<EpId> {
        const WHAT: &str = "an endpoint";
        let outputs = OUTPUTS_PER_ENDPOINT * (self.endpoints.len() + 1);
        self.events.try_reserve(outputs).map_err(|_| Error::NoMemory(WHAT))?;
        self.transports.try_reserve(outputs).map_err(|_| Error::NoMemory(WHAT))?;
        Ok(EpId(self.endpoints.insert(Endpoint::new(fid, attr, origin, self.limits), WHAT)?))
    }

    /// `fi_ep_bind` to an event queue, which is named by its own identity.
    ///
    /// # Errors
    /// -FI_EINVAL for a second queue, one of another fabric, or flags; -FI_EOPBADSTATE once enabled.
    pub fn bind_eq(&mut self, ep: EpId, eq: Fid, same_fabric: bool, flags: OpFlags) -> Result<()> {
        self.endpoint_mut("fi_ep_bind", ep)?.bind_eq(eq, same_fabric, flags)
    }

    /// `fi_ep_bind` to a completion queue, for sends (`FI_TRANSMIT`), receives (`FI_RECV`) or both,
    /// perhaps with `FI_SELECTIVE_COMPLETION`.
    ///
    /// # Errors
    /// -FI_EINVAL without a direction or for a second queue; -FI_EBADFLAGS; -FI_EOPBADSTATE once enabled.
    pub fn bind_cq(&mut self, ep: EpId, cq: CqId, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        let endpoint = self.endpoints.get_mut(ep.0).ok_or(Error::Stale { call: CALL, object: "endpoint" })?;
        let queue =
            self.queues.get_mut(cq.0).ok_or(Error::Stale { call: CALL, object: "completion queue" })?;
        endpoint.bind_cq(cq, flags)?;
        for direction in [OpFlags::TRANSMIT, OpFlags::RECV] {
            queue.bindings += usize::from(flags.contains(direction));
        }
        Ok(())
    }

    /// `fi_enable`.
    ///
    /// # Errors
    /// -FI_ENOEQ or -FI_ENOCQ when a queue is missing; -FI_EOPBADSTATE when enabled already.
    pub fn enable(&mut self, ep: EpId) -> Result<()> {
        self.endpoint_mut("fi_enable", ep)?.enable("fi_enable")
    }

    /// `fi_close` of an endpoint: each pending operation completes with `FI_ECANCELED`, and nothing
    /// more comes of the endpoint. The driver closes the transport and purges unread events.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed already; -FI_EBUSY while its memory is [on loan](crate::loan).
    pub fn close_endpoint(&mut self, ep: EpId) -> Result<()> {
        const CALL: &str = "fi_close";
        let loans = self.endpoint(CALL, ep)?.tx.loans.count as usize;
        if loans > 0 {
            let users = list(&[(loans, "loan to the transport")]);
            return Err(Error::Busy { call: CALL, object: "endpoint", users });
        }
        self.cancel_all(ep, Errno::ECANCELED);
        self.events.retain(|(id, ..)| *id != ep);
        self.transports.retain(|(id, _)| *id != ep);
        if let Some(endpoint) = self.endpoints.remove(ep.0) {
            self.totals.closed(&endpoint);
            self.unbind_counters(&endpoint);
            if let Some(srx) = endpoint.rx.srx {
                self.unbind_srx(ep, srx);
            }
            for binding in [endpoint.tx_cq, endpoint.rx_cq].into_iter().flatten() {
                if let Some(queue) = self.queues.get_mut(binding.cq.0) {
                    queue.bindings -= 1;
                }
            }
        }
        Ok(())
    }

    /// Where the endpoint is in its life.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn state(&self, ep: EpId) -> Result<State> {
        Ok(self.endpoint("state", ep)?.state)
    }

    /// Whether the endpoint's transport is being made.
    pub fn is_connecting(&self, ep: EpId) -> bool {
        self.endpoints.get(ep.0).is_some_and(|endpoint| endpoint.state == State::Connecting)
    }

    /// Whether an endpoint is connected, with nothing to write or to be copied, and the domain has no
    /// outputs: nothing is to be asked for after an input.
    pub fn is_quiet(&self, ep: EpId) -> bool {
        self.events.is_empty()
            && self.transports.is_empty()
            && self.splits.is_empty()
            && self.released.len() == 0
            && self.resumed.is_none()
            && self.endpoints.get(ep.0).is_some_and(|endpoint| {
                endpoint.state == State::Connected
                    && endpoint.tx.is_empty()
                    && endpoint.rx.unexpected.is_empty()
            })
    }

    /// `fi_getpeer`.
    ///
    /// # Errors
    /// -FI_ENOTCONN before the endpoint is connected.
    pub fn peer(&self, ep: EpId) -> Result<SocketAddr> {
        let endpoint = self.endpoint("fi_getpeer", ep)?;
        match endpoint.state {
            State::Connected | State::Draining | State::Disconnected => endpoint.peer,
            _ => None,
        }
        .ok_or_else(|| endpoint.wrong_state("fi_getpeer", Errno::ENOTCONN, "wait for FI_CONNECTED"))
    }

    /// The endpoint's own address, as far as it has one.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn local(&self, ep: EpId) -> Result<Option<SocketAddr>> {
        Ok(self.endpoint("fi_getname", ep)?.local)
    }

    /// The limits in time that endpoints start with.
    pub fn default_limits(&self) -> TimeLimits {
        self.limits
    }

    /// Sets them, for endpoints that are opened from now on.
    pub fn set_default_limits(&mut self, limits: TimeLimits) {
        self.limits = limits;
    }

    /// The endpoint's limits in time.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn limits(&self, ep: EpId) -> Result<TimeLimits> {
        Ok(self.endpoint("fi_getopt", ep)?.limits)
    }

    /// Sets the endpoint's limits in time, for phases that start from now on.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn set_limits(&mut self, ep: EpId, limits: TimeLimits) -> Result<()> {
        self.endpoint_mut("fi_setopt", ep)?.limits = limits;
        Ok(())
    }

    // Outputs.

    /// What the driver is to do with a transport next.
    pub fn poll_transport(&mut self) -> Option<(EpId, TransportCommand)> {
        self.transports.pop_front()
    }

    /// The next event, and the event queue that it is for.
    pub fn poll_event(&mut self) -> Option<(Fid, Entry)> {
        self.poll_endpoint_event().map(|(_, eq, entry)| (eq, entry))
    }

    /// The same, with the endpoint that it is about.
    pub fn poll_endpoint_event(&mut self) -> Option<(EpId, Fid, Entry)> {
        self.events.pop_front()
    }

    /// An operation that ended without anybody to be told: its memory is free.
    pub fn poll_released(&mut self) -> Option<OpId> {
        loop {
            let op = self.ops.take_first(&mut self.released)?;
            self.ops.release(op);
            // What peers made has no memory.
            if !self.ops.get(op).is_some_and(Operation::is_remote) {
                return Some(op);
            }
        }
    }

    /// Whether the operation is complete, with its completion unread: nothing touches its memory any
    /// more, and the driver may drop it.
    pub fn is_done(&self, op: OpId) -> bool {
        self.ops.get(op).is_some_and(|op| op.done)
    }

    /// Whether something came of reading a completion: room for what waited in a transport, or an end that
    /// was behind it. The driver then polls for all that there is.
    pub fn has_outputs(&self) -> bool {
        self.resumed.is_some() || !self.events.is_empty() || !self.transports.is_empty()
    }

    /// The earliest moment at which [`expire`](Self::expire) may have something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.earliest.get()
    }

    // For the other parts of the machine.

    pub(crate) fn endpoint(&self, call: &'static str, ep: EpId) -> Result<&Endpoint> {
        self.endpoints.get(ep.0).ok_or(Error::Stale { call, object: "endpoint" })
    }

    pub(crate) fn endpoint_mut(&mut self, call: &'static str, ep: EpId) -> Result<&mut Endpoint> {
        self.endpoints.get_mut(ep.0).ok_or(Error::Stale { call, object: "endpoint" })
    }

    pub(crate) fn emit(&mut self, ep: EpId, event: crate::Event) {
        if let Some(endpoint) = self.endpoints.get(ep.0)
            && let Some(eq) = endpoint.eq
        {
            self.events.push_back((ep, eq, Entry { fid: endpoint.fid, event }));
        }
    }

    pub(crate) fn transport(&mut self, ep: EpId, command: TransportCommand) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
            endpoint.looks = 0;
        }
        self.transports.push_back((ep, command));
    }

    /// An operation has come to its end; it is in no list now. It waits for its memory, if that is on loan.
    pub(crate) fn complete(&mut self, ep: EpId, id: OpId, failure: Option<Failure>) {
        let Self { endpoints, ops, .. } = self;
        if endpoints.get_mut(ep.0).is_some_and(|endpoint| endpoint.hold(ops, id, failure)) {
            return;
        }
        self.finish(ep, id, failure);
    }

    /// It goes to the queue of its direction if there is one and somebody wants to know.
    pub(crate) fn finish(&mut self, ep: EpId, id: OpId, failure: Option<Failure>) {
        let Some(op) = self.ops.get(id) else { return };
        let (flags, role) = (op.flags, op.role);
        let (is_remote, is_incoming) = (op.is_remote(), op.is_incoming());
        if !is_remote {
            self.count(ep, flags, failure.is_none());
        }
        let mut endpoint = self.endpoints.get_mut(ep.0);
        if let (Some(endpoint), Some(failure)) = (&mut endpoint, &failure) {
            endpoint.traffic.failed(failure.errno);
        }
        let binding = endpoint.and_then(|endpoint| if is_incoming { endpoint.rx_cq } else { endpoint.tx_cq });
        match role {
            Role::Ordinary => self.report(binding, id, failure),
            Role::Buffer => self.retire(binding, id, failure),
            Role::Part => {
                let ended = self.ops.part_ended(id);
                self.report(binding, id, failure);
                if let Some((binding, buffer)) = ended {
                    self.end_buffer(binding, buffer);
                }
            }
        }
    }

    /// Puts an operation that has ended into the queue, or sets it free if nobody is to be told.
    pub(crate) fn report(&mut self, binding: Option<Binding>, id: OpId, failure: Option<Failure>) {
        let Some(op) = self.ops.get_mut(id) else { return };
        op.failure = failure;
        op.done = true;
        let (asked, quiet) = (op.asked, op.quiet);
        if let Some(Binding { cq, selective }) = binding
            && (failure.is_some() || !quiet && (asked || !selective))
            && let Some(queue) = self.queues.get_mut(cq.0)
        {
            return queue.push(&mut self.ops, id);
        }
        self.push_released(id);
    }

    /// Nobody is told of an operation: its memory is free, and that of a buffer that ends with it.
    fn push_released(&mut self, id: OpId) {
        let part = self.ops.part(id);
        self.ops.push(&mut self.released, id);
        if let Some(Part { buffer, last: true, .. }) = part {
            self.ops.push(&mut self.released, buffer);
        }
    }

    /// A pending operation fails with `FI_ECANCELED`; `cause` goes with it. It is in no list now.
    pub(crate) fn end_operation(&mut self, ep: EpId, id: OpId, cause: Errno) {
        if let Some(op) = self.ops.get_mut(id)
            && op.role != Role::Buffer
        {
            op.len = 0;
        }
        self.complete(ep, id, Some(Failure::canceled(cause)));
    }

    /// Each pending operation of the endpoint fails with `FI_ECANCELED`; `cause` goes with it. Receives of a
    /// shared context that no message has met are not the endpoint's.
    pub(crate) fn cancel_all(&mut self, ep: EpId, cause: Errno) {
        while let Some(id) = self.next_pending(ep) {
            self.end_operation(ep, id, cause);
        }
        if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
            // A message that waits for a receive is lost with the connection.
            endpoint.rx.incoming = Incoming::Header;
        }
    }

    /// The same, but what has arrived is still there to be received.
    pub(crate) fn cancel_posted(&mut self, ep: EpId, cause: Errno) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0)
            && let Some(id) = endpoint.rx.forget_read()
        {
            self.end_operation(ep, id, cause);
        }
        while let Some(id) = self.next_posted(ep) {
            self.end_operation(ep, id, cause);
        }
    }

    fn next_pending(&mut self, ep: EpId) -> Option<OpId> {
        let Self { endpoints, ops, .. } = self;
        let endpoint = endpoints.get_mut(ep.0)?;
        // What is here in part is older than its like: completions keep the order of posts.
        (endpoint.rx.take_current())
            .or_else(|| endpoint.tx.next_pending(ops))
            .or_else(|| endpoint.rx.unexpected.clear())
            .or_else(|| ops.take_first(&mut endpoint.rx.posted))
    }

    fn next_posted(&mut self, ep: EpId) -> Option<OpId> {
        let Self { endpoints, ops, .. } = self;
        let endpoint = endpoints.get_mut(ep.0)?;
        endpoint.tx.next_pending(ops).or_else(|| ops.take_first(&mut endpoint.rx.posted))
    }
}

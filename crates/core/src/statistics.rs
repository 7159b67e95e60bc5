// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What endpoints, domains and passive endpoints have done so far, in numbers.
//!
//! Plain integers under the lock that is held anyway; no clock is read for them.

use core::time::Duration;

use crate::completion_queue::CqId;
use crate::domain::Domain;
use crate::endpoint::{Endpoint, EpId, Incoming, State};
use crate::event_queue::Fid;
use crate::flags::OpFlags;
use crate::operation::Operation;
use crate::reason::Reason;
use crate::wire::header::{Header, Kind};
use crate::{Errno, Result, SocketAddr};

/// Operations of one kind, and their payload.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// How many were done.
    pub operations: u64,
    /// Their payload together, bytes.
    pub bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.operations = self.operations.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    fn merge(&mut self, other: &Self) {
        self.operations = self.operations.wrapping_add(other.operations);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

/// What went over connections, and what held it up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Messages that the transport has taken (`FI_SEND`).
    pub sent: Tally,
    /// Messages that receives have got, as far as they had room (`FI_RECV`).
    pub received: Tally,
    /// Writes to the peer's memory that the transport has taken (`FI_WRITE`).
    pub written: Tally,
    /// Reads of the peer's memory that are complete (`FI_READ`).
    pub read: Tally,
    /// The peer's writes to our memory that are in place (`FI_REMOTE_WRITE`).
    pub remote_written: Tally,
    /// The peer's reads of our memory whose data the transport has taken (`FI_REMOTE_READ`).
    pub remote_read: Tally,
    /// How often the transport woke the endpoint. Who polls a busy endpoint needs no waking.
    pub wakeups: u64,
    /// How often the transport took no more for the moment.
    pub transmit_stalls: u32,
    /// How often the peer's next record had to wait in the transport: for a receive to be posted once
    /// the bound for messages without one was reached, or for room for a completion or a response.
    pub receive_stalls: u32,
    /// Most messages without a receive that were kept at the same time.
    pub unexpected_most: u32,
    /// Operations that failed with `FI_ECANCELED`: cancelled, or pending at the end.
    pub canceled: u32,
    /// Receives that failed with `FI_ETRUNC`.
    pub truncated: u32,
}

// Each endpoint has it.
const _: () = assert!(size_of::<Traffic>() <= 128);

impl Traffic {
    /// An operation has wholly been written. Reads count when their data has come.
    pub(crate) fn wrote(&mut self, op: &Operation) {
        match (op.flags.contains(OpFlags::RMA), op.flags.contains(OpFlags::READ)) {
            (false, _) => self.sent.add(op.len),
            (true, false) => self.written.add(op.len),
            (true, true) => {}
        }
    }

    /// A reply has.
    pub(crate) fn served(&mut self, header: &Header) {
        if matches!(header.kind, Kind::ReadResponse) {
            self.remote_read.add(header.payload);
        }
    }

    pub(crate) fn failed(&mut self, errno: Errno) {
        let count = match errno {
            Errno::ETRUNC => &mut self.truncated,
            _ => &mut self.canceled,
        };
        *count = count.saturating_add(1);
    }

    fn merge(&mut self, other: &Self) {
        let Self { sent, received, written, read, remote_written, remote_read, .. } = self;
        sent.merge(&other.sent);
        received.merge(&other.received);
        written.merge(&other.written);
        read.merge(&other.read);
        remote_written.merge(&other.remote_written);
        remote_read.merge(&other.remote_read);
        self.wakeups = self.wakeups.wrapping_add(other.wakeups);
        self.transmit_stalls = self.transmit_stalls.saturating_add(other.transmit_stalls);
        self.receive_stalls = self.receive_stalls.saturating_add(other.receive_stalls);
        self.unexpected_most = self.unexpected_most.max(other.unexpected_most);
        self.canceled = self.canceled.saturating_add(other.canceled);
        self.truncated = self.truncated.saturating_add(other.truncated);
    }
}

/// An endpoint, as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct EndpointStatistics {
    /// Its identity.
    pub fid: Fid,
    /// Where it is in its life.
    pub state: State,
    /// Its own address, as far as it has one.
    pub local: Option<SocketAddr>,
    /// The peer's address, from connect or accept on.
    pub peer: Option<SocketAddr>,
    /// How long it has been connected, or was until its connection ended.
    pub connected: Option<Duration>,
    /// Why its connection ended, or came to nothing.
    pub reason: Option<Reason>,
    /// Sends, reads and writes that are pending.
    pub transmits_pending: usize,
    /// Receives that are posted, and wait for a message.
    pub receives_posted: usize,
    /// Messages that are kept until there is a receive for them.
    pub unexpected: usize,
    /// Their bytes.
    pub unexpected_bytes: u64,
    /// The peer's next record waits in the transport: see [`Traffic::receive_stalls`].
    pub receive_stalled: bool,
    /// What went over its connection.
    pub traffic: Traffic,
}

/// How connections ended, or came to nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Endings {
    /// In good order, by either side.
    pub orderly: u64,
    /// The peer's application rejected the request, or nobody listened.
    pub refused: u64,
    /// A limit in time was over: see [`TimeLimits`](crate::TimeLimits).
    pub timed_out: u64,
    /// The transport broke, or the peer went away in the middle.
    pub broken: u64,
    /// The peer broke the protocol.
    pub protocol: u64,
    /// For something of ours: no memory, or a memory region that was closed.
    pub ours: u64,
}

impl Endings {
    pub(crate) fn add(&mut self, reason: &Reason) {
        let count = match reason {
            Reason::Local | Reason::Peer => &mut self.orderly,
            Reason::Rejected | Reason::Transport(Errno::ECONNREFUSED) => &mut self.refused,
            Reason::ConnectTimeout(_)
            | Reason::HandshakeTimeout(_)
            | Reason::RequestTimeout(_)
            | Reason::ShutdownTimeout(_)
            | Reason::PeerTimeout(_)
            | Reason::Unreceived(_) => &mut self.timed_out,
            Reason::Cut | Reason::Transport(_) | Reason::NoAnswer => &mut self.broken,
            Reason::Protocol(_) => &mut self.protocol,
            Reason::Crowded | Reason::NoMemory | Reason::RegionClosed => &mut self.ours,
        };
        *count = count.wrapping_add(1);
    }
}

/// A domain, as it is now. Endpoints that are closed count in what has happened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct DomainStatistics {
    /// Endpoints that are open.
    pub endpoints: usize,
    /// Those of them that are connected.
    pub connected: usize,
    /// Shared receive contexts that are open.
    pub shared_receive_contexts: usize,
    /// Completion queues that are open.
    pub completion_queues: usize,
    /// Counters that are open.
    pub counters: usize,
    /// Memory regions that are registered.
    pub memory_regions: usize,
    /// Connections that came about.
    pub connections: u64,
    /// How connections ended, or came to nothing.
    pub endings: Endings,
    /// What went over all connections.
    pub traffic: Traffic,
}

impl DomainStatistics {
    /// Adds an endpoint that is open.
    pub fn add(&mut self, endpoint: &EndpointStatistics) {
        self.endpoints += 1;
        self.connected += usize::from(matches!(endpoint.state, State::Connected | State::Draining));
        self.traffic.merge(&endpoint.traffic);
    }
}

/// A completion queue, as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CqStatistics {
    /// Completions that wait to be read.
    pub unread: usize,
    /// Directions of endpoints that it is bound to.
    pub bindings: usize,
}

/// A passive endpoint, as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ListenerStatistics {
    /// Whether it listens.
    pub listening: bool,
    /// Its own address, as far as it has one.
    pub local: Option<SocketAddr>,
    /// Transport connections that it has accepted.
    pub accepted: u64,
    /// Connection requests that it has put into the event queue.
    pub requests: u64,
    /// Transport connections that it has dropped before their request was read, and why.
    pub dropped: Endings,
    /// Times that it paused because the system had no descriptors or no memory.
    pub pauses: u64,
    /// Connections whose request is arriving.
    pub arriving: usize,
    /// Requests that are unread, or wait for room in the event queue.
    pub waiting: usize,
}

/// What a domain counts besides its endpoints.
#[derive(Default, Debug)]
pub(crate) struct Totals {
    /// Of endpoints that are closed.
    closed: Traffic,
    pub(crate) connections: u64,
    pub(crate) endings: Endings,
}

impl Totals {
    pub(crate) fn closed(&mut self, endpoint: &Endpoint) {
        self.closed.merge(&endpoint.traffic);
    }
}

impl Endpoint {
    fn statistics(&self) -> EndpointStatistics {
        let rx = &self.rx;
        EndpointStatistics {
            fid: self.fid,
            state: self.state,
            local: self.local,
            peer: self.peer,
            connected: None,
            reason: self.reason,
            transmits_pending: self.transmits_pending(),
            receives_posted: rx.posted.len(),
            unexpected: rx.unexpected.len(),
            unexpected_bytes: rx.unexpected.bytes(),
            receive_stalled: matches!(rx.incoming, Incoming::Waiting(_)),
            traffic: self.traffic,
        }
    }

    /// The record with this header has to wait in the transport.
    pub(crate) fn wait_with(&mut self, header: Header) {
        // What is tried again, and waits again, has stalled once.
        if !matches!(self.rx.incoming, Incoming::Waiting(_)) {
            self.traffic.receive_stalls = self.traffic.receive_stalls.saturating_add(1);
        }
        self.rx.incoming = Incoming::Waiting(header);
    }
}

impl Domain {
    /// The endpoint, as it is now. How long it has been connected, who has a clock knows.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn endpoint_statistics(&self, ep: EpId) -> Result<EndpointStatistics> {
        Ok(self.endpoint("statistics", ep)?.statistics())
    }

    /// The endpoint at an index of the driver's table, below [`endpoint_places`](Self::endpoint_places).
    pub fn endpoint_at(&self, index: u32) -> Option<EpId> {
        self.endpoints.key_at(index).map(EpId)
    }

    /// Indices that endpoints may have.
    pub fn endpoint_places(&self) -> u32 {
        self.endpoints.places()
    }

    /// The domain, as it is now.
    pub fn statistics(&self) -> DomainStatistics {
        let mut statistics = self.statistics_without_open();
        for endpoint in self.endpoints.keys().filter_map(|key| self.endpoints.get(key)) {
            statistics.add(&endpoint.statistics());
        }
        statistics
    }

    /// The same without the endpoints that are open, to be [added](DomainStatistics::add) by who
    /// cannot look at all of them at once.
    pub fn statistics_without_open(&self) -> DomainStatistics {
        DomainStatistics {
            shared_receive_contexts: self.shared.len(),
            completion_queues: self.queues.len(),
            counters: self.counters.len(),
            memory_regions: self.regions.len(),
            connections: self.totals.connections,
            endings: self.totals.endings,
            traffic: self.totals.closed,
            ..DomainStatistics::default()
        }
    }

    /// The completion queue, as it is now; `None` when it is closed.
    pub fn cq_statistics(&self, cq: CqId) -> Option<CqStatistics> {
        let queue = self.queues.get(cq.0)?;
        Some(CqStatistics { unread: queue.entries.len(), bindings: queue.bindings })
    }

    /// All completion queues.
    pub fn cqs(&self) -> impl Iterator<Item = CqId> {
        self.queues.keys().map(CqId)
    }

    /// The transport has told of something.
    pub fn woken(&mut self, ep: EpId) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
            endpoint.traffic.wakeups = endpoint.traffic.wakeups.wrapping_add(1);
        }
    }

    /// The transport takes no more for the moment.
    pub fn transmit_stalled(&mut self, ep: EpId) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
            let stalls = &mut endpoint.traffic.transmit_stalls;
            *stalls = stalls.saturating_add(1);
        }
    }
}

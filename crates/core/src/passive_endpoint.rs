// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The passive endpoint (`fi_passive_ep(3)`): from listening to connection requests.
//!
//! The driver owns the sockets. It calls, in this order:
//!
//! * commands of the application: [`bind`](PassiveEndpoint::bind), [`listen`](PassiveEndpoint::listen),
//!   [`close`](PassiveEndpoint::close);
//! * inputs: [`accepted`](PassiveEndpoint::accepted) and [`accept_failed`](PassiveEndpoint::accept_failed)
//!   while [`wants_accept`](PassiveEndpoint::wants_accept); [`received`](PassiveEndpoint::received) and
//!   [`lost`](PassiveEndpoint::lost) for each transport connection; [`expire`](PassiveEndpoint::expire);
//! * then outputs, until each gives `None`: [`poll_drop`](PassiveEndpoint::poll_drop), then
//!   [`poll_request`](PassiveEndpoint::poll_request) with the room in the event queue.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use core::time::Duration;

use crate::slab::{Key, Slab};
use crate::statistics::{Endings, ListenerStatistics};
use crate::time::{Deadline, Earliest, Instant, TimeLimits};
use crate::wire::ByteOrder;
use crate::wire::cm::Assembly;
use crate::{Errno, Error, Event, Reason, Result, SocketAddr};

/// Names a transport connection at its passive endpoint, and the connection request it becomes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RequestId(Key);

impl RequestId {
    /// Index into a dense table; used again once the request is gone.
    pub fn index(self) -> usize {
        self.0.index as usize
    }
}

/// Where a passive endpoint is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassiveState {
    /// Created, perhaps bound.
    Idle,
    /// Connection requests come in.
    Listening,
}

#[derive(Debug)]
enum Phase {
    /// The request is arriving.
    Arriving(Assembly),
    /// The request is whole, and the event queue had no room yet.
    Whole { order: ByteOrder, data: Vec<u8> },
    /// The request is an unread event.
    Queued { order: ByteOrder },
}

#[derive(Debug)]
struct Connection {
    local: SocketAddr,
    peer: SocketAddr,
    phase: Phase,
    since: Instant,
    deadline: Option<Deadline>,
}

/// A request that the application has read. It is the application's now: it outlives the passive
/// endpoint, and is good for one accept or reject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Order of the data headers that the peer's probe asks for.
    pub order: ByteOrder,
    /// Until when it can be decided on.
    pub deadline: Option<Deadline>,
}

impl Taken {
    /// Whether the request can still be decided on.
    ///
    /// # Errors
    /// -FI_ETIMEDOUT when its limit in time has passed.
    pub fn check(&self, call: &'static str, now: Instant) -> Result<()> {
        match self.deadline {
            Some(deadline) if deadline.has_passed(now) => Err(Error::Expired { call, limit: deadline.limit }),
            _ => Ok(()),
        }
    }
}

/// A passive endpoint.
#[derive(Debug)]
pub struct PassiveEndpoint {
    state: PassiveState,
    bound: bool,
    backlog: usize,
    limits: TimeLimits,
    connections: Slab<Connection>,
    /// Connections whose request is arriving.
    arriving: usize,
    whole: VecDeque<RequestId>,
    dropped: Vec<(RequestId, Reason)>,
    /// The system ran out of something: nothing is accepted until then.
    paused_until: Option<Deadline>,
    /// Length of the last pause; zero once something was accepted after it.
    last_pause: Duration,
    earliest: Earliest,
    counts: Counts,
}

/// What it has done so far.
#[derive(Default, Debug)]
struct Counts {
    accepted: u64,
    requests: u64,
    dropped: Endings,
    pauses: u64,
}

impl PassiveEndpoint {
    /// Connections that a passive endpoint asks the system to queue (`FI_BACKLOG`).
    pub const DEFAULT_BACKLOG: usize = 4096;
    /// Transport connections whose request may be arriving at the same time. When one more comes
    /// the oldest is dropped, so that silent peers cannot keep honest ones out.
    pub const MAX_ARRIVING: usize = 1024;

    const FIRST_PAUSE: Duration = Duration::from_millis(10);
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);

    /// A passive endpoint in [`PassiveState::Idle`].
    pub fn new(limits: TimeLimits) -> Self {
        Self {
            state: PassiveState::Idle,
            bound: false,
            backlog: Self::DEFAULT_BACKLOG,
            limits,
            connections: Slab::default(),
            arriving: 0,
            whole: VecDeque::new(),
            dropped: Vec::new(),
            paused_until: None,
            last_pause: Duration::ZERO,
            earliest: Earliest::default(),
            counts: Counts::default(),
        }
    }

    /// The passive endpoint, as it is now. Its address is the driver's.
    pub fn statistics(&self) -> ListenerStatistics {
        let Counts { accepted, requests, dropped, pauses } = self.counts;
        ListenerStatistics {
            listening: self.state == PassiveState::Listening,
            local: None,
            accepted,
            requests,
            dropped,
            pauses,
            arriving: self.arriving,
            waiting: self.connections.len() - self.arriving,
        }
    }

    /// Where it is in its life.
    pub fn state(&self) -> PassiveState {
        self.state
    }

    /// `fi_pep_bind`: notes that an event queue is bound. `same_fabric` says whether the queue
    /// belongs to this endpoint's fabric.
    ///
    /// # Errors
    /// -FI_EINVAL for a second queue, one of another fabric, or flags; -FI_EOPBADSTATE once listening.
    pub fn bind(&mut self, same_fabric: bool, flags: u64) -> Result<()> {
        let problem = match self.state {
            PassiveState::Listening => return Err(self.wrong_state("fi_pep_bind")),
            _ if flags != 0 => "flags are reserved here; pass 0",
            _ if !same_fabric => "the event queue belongs to another fabric; open one in this fabric",
            _ if self.bound => "an event queue is bound already; a passive endpoint takes one",
            PassiveState::Idle => {
                self.bound = true;
                return Ok(());
            }
        };
        Err(Error::Invalid { call: "fi_pep_bind", problem })
    }

    /// `fi_setname`: whether the address may still change.
    ///
    /// # Errors
    /// -FI_EOPBADSTATE once listening.
    pub fn check_set_name(&self) -> Result<()> {
        match self.state {
            PassiveState::Idle => Ok(()),
            PassiveState::Listening => Err(self.wrong_state("fi_setname")),
        }
    }

    /// `fi_control(FI_BACKLOG)`: how many connections the system is asked to queue.
    ///
    /// # Errors
    /// -FI_EINVAL for zero; -FI_EOPBADSTATE once listening.
    pub fn set_backlog(&mut self, backlog: usize) -> Result<()> {
        match self.state {
            PassiveState::Listening => Err(self.wrong_state("fi_control(FI_BACKLOG)")),
            PassiveState::Idle if backlog == 0 => Err(Error::Invalid {
                call: "fi_control(FI_BACKLOG)",
                problem: "a backlog of 0; ask for 1 or more",
            }),
            PassiveState::Idle => {
                self.backlog = backlog;
                Ok(())
            }
        }
    }

    /// Sets the limits in time for connections that come from now on.
    pub fn set_limits(&mut self, limits: TimeLimits) {
        self.limits = limits;
    }

    /// The limits in time.
    pub fn limits(&self) -> TimeLimits {
        self.limits
    }

    /// Whether `fi_listen` may go on, and with which backlog. The driver then makes the system
    /// listen, and calls [`listening`](Self::listening) when that worked.
    ///
    /// # Errors
    /// -FI_ENOEQ without an event queue; -FI_EINVAL when it listens already.
    pub fn listen(&self) -> Result<usize> {
        match self.state {
            PassiveState::Idle if !self.bound => Err(Error::NoEventQueue { call: "fi_listen" }),
            PassiveState::Idle => Ok(self.backlog),
            PassiveState::Listening => Err(Error::WrongState {
                call: "fi_listen",
                object: "passive endpoint",
                found: "listening",
                remedy: "once is enough, or listen with another passive endpoint",
                errno: Errno::EINVAL,
            }),
        }
    }

    /// The system listens.
    pub fn listening(&mut self) {
        self.state = PassiveState::Listening;
    }

    fn wrong_state(&self, call: &'static str) -> Error {
        Error::WrongState {
            call,
            object: "passive endpoint",
            found: "listening",
            remedy: "do this before fi_listen",
            errno: Errno::EOPBADSTATE,
        }
    }

    /// Whether the driver should take the next transport connection: there is room for its request
    /// in the event queue, and no pause because of a shortage.
    pub fn wants_accept(&self, room: usize) -> bool {
        self.state == PassiveState::Listening
            && self.whole.is_empty()
            && room > 0
            && self.paused_until.is_none()
    }

    /// A transport connection was made; gives the name it goes by from now on.
    ///
    /// # Errors
    /// -FI_ENOMEM: the driver closes the transport; accepting pauses.
    pub fn accepted(&mut self, local: SocketAddr, peer: SocketAddr, now: Instant) -> Result<RequestId> {
        let result = self.insert(local, peer, now);
        match result {
            Ok(_) => self.last_pause = Duration::ZERO,
            Err(_) => {
                self.accept_failed(now);
            }
        }
        result
    }

    fn insert(&mut self, local: SocketAddr, peer: SocketAddr, now: Instant) -> Result<RequestId> {
        const WHAT: &str = "a connection that is being set up";
        let oldest = if self.arriving >= Self::MAX_ARRIVING {
            self.connections
                .keys()
                .filter(|&key| self.is_arriving(key))
                .min_by_key(|&key| self.connections.get(key).map(|connection| connection.since))
        } else {
            None
        };
        // One place in each list that the connection may come to, so that nothing fails later.
        let all = self.connections.len() + 1;
        self.whole.try_reserve(self.arriving + 1).map_err(|_| Error::NoMemory(WHAT))?;
        self.dropped.try_reserve(all).map_err(|_| Error::NoMemory(WHAT))?;
        let deadline = Deadline::start(now, self.limits.handshake);
        let phase = Phase::Arriving(Assembly::request());
        let connection = Connection { local, peer, phase, since: now, deadline };
        let id = RequestId(self.connections.insert(connection, WHAT)?);
        self.earliest.include(deadline);
        self.arriving += 1;
        self.counts.accepted += 1;
        // Only now, so that the new one has a place of its own in the driver's table, too, until
        // the driver has been told.
        if let Some(oldest) = oldest {
            self.drop_connection(RequestId(oldest), Reason::Crowded);
        }
        Ok(id)
    }

    /// The system could not give the next transport connection (no descriptors, no memory):
    /// accepting pauses, longer each time in a row. Gives the length of the pause the first time,
    /// for one line in a log.
    pub fn accept_failed(&mut self, now: Instant) -> Option<Duration> {
        self.counts.pauses += 1;
        let first = self.last_pause.is_zero();
        self.last_pause = (self.last_pause * 2).clamp(Self::FIRST_PAUSE, Self::LONGEST_PAUSE);
        self.paused_until = Deadline::start(now, Some(self.last_pause));
        self.earliest.include(self.paused_until);
        first.then_some(self.last_pause)
    }

    /// How many bytes the driver may read from the connection now; zero: leave it alone.
    pub fn wants(&self, id: RequestId) -> usize {
        match self.connections.get(id.0).map(|connection| &connection.phase) {
            Some(Phase::Arriving(assembly)) => assembly.missing(),
            _ => 0,
        }
    }

    /// Bytes have arrived, at most as many as [`wants`](Self::wants) said.
    pub fn received(&mut self, id: RequestId, bytes: &[u8], now: Instant) {
        let decision = self.limits.decision;
        let Some(connection) = self.connections.get_mut(id.0) else { return };
        let Phase::Arriving(assembly) = &mut connection.phase else { return };
        match assembly.take(bytes) {
            Err(Error::Wire(error)) => self.drop_connection(id, Reason::Protocol(error)),
            Err(_) => self.drop_connection(id, Reason::NoMemory),
            Ok(_) => {
                let Some((header, data)) = assembly.finish() else { return };
                connection.phase = Phase::Whole { order: header.order, data };
                connection.deadline = Deadline::start(now, decision);
                let deadline = connection.deadline;
                self.earliest.include(deadline);
                self.whole.push_back(id);
                self.arriving -= 1;
            }
        }
    }

    /// The peer has gone, or the transport broke. A queued request stays: what it leads to will tell.
    pub fn lost(&mut self, id: RequestId) {
        if self.connections.get(id.0).is_some_and(|c| !matches!(c.phase, Phase::Queued { .. })) {
            self.drop_connection(id, Reason::Cut);
        }
    }

    /// Time has passed: connections over their limit are dropped, a pause may end.
    /// Gives the queued requests whose event the driver must withdraw.
    pub fn expire(&mut self, now: Instant, mut withdraw: impl FnMut(RequestId)) {
        if !self.earliest.take_passed(now) {
            return;
        }
        self.paused_until = self.paused_until.filter(|pause| !pause.has_passed(now));
        self.earliest.include(self.paused_until);
        for index in 0..self.connections.places() {
            let Some(key) = self.connections.key_at(index) else { continue };
            let Some(connection) = self.connections.get(key) else { continue };
            match connection.deadline {
                Some(deadline) if deadline.has_passed(now) => {
                    if let Phase::Queued { .. } = connection.phase {
                        withdraw(RequestId(key));
                    }
                    self.drop_connection(RequestId(key), Reason::RequestTimeout(deadline.limit));
                }
                deadline => self.earliest.include(deadline),
            }
        }
    }

    /// The earliest moment at which [`expire`](Self::expire) may have something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.earliest.get()
    }

    /// A transport connection that the driver must close, and why.
    pub fn poll_drop(&mut self) -> Option<(RequestId, Reason)> {
        self.dropped.pop()
    }

    /// The next connection request for the event queue, which has `room`.
    pub fn poll_request(&mut self, room: usize) -> Option<Event> {
        if room == 0 {
            return None;
        }
        while let Some(id) = self.whole.pop_front() {
            let Some(connection) = self.connections.get_mut(id.0) else { continue };
            let Phase::Whole { order, data } = &mut connection.phase else { continue };
            let (order, data) = (*order, core::mem::take(data));
            connection.phase = Phase::Queued { order };
            self.counts.requests += 1;
            let (local, peer) = (connection.local, connection.peer);
            return Some(Event::ConnectionRequest { request: id, local, peer, data });
        }
        None
    }

    /// The application has read the request: it leaves the passive endpoint, the driver keeps its
    /// transport.
    ///
    /// # Errors
    /// -FI_EINVAL when there is no such request.
    pub fn take_request(&mut self, id: RequestId) -> Result<Taken> {
        const STALE: Error = Error::Stale { call: "fi_eq_read", object: "connection request" };
        match self.connections.get(id.0).ok_or(STALE)? {
            Connection { phase: Phase::Queued { order }, deadline, .. } => {
                let taken = Taken { order: *order, deadline: *deadline };
                self.connections.remove(id.0);
                Ok(taken)
            }
            _ => Err(STALE),
        }
    }

    /// `fi_close`: always works. Gives each transport connection to be closed, those dropped before
    /// among them, and whether its request has arrived, so that the peer should be told. Requests that
    /// were read live on.
    pub fn close(self) -> impl Iterator<Item = (RequestId, bool)> {
        let Self { connections, dropped, .. } = self;
        let held = (0..connections.places()).filter_map(move |index| {
            let key = connections.key_at(index)?;
            let asked = !matches!(connections.get(key)?.phase, Phase::Arriving(_));
            Some((RequestId(key), asked))
        });
        held.chain(dropped.into_iter().map(|(id, _)| (id, false)))
    }

    fn is_arriving(&self, key: Key) -> bool {
        matches!(self.connections.get(key), Some(Connection { phase: Phase::Arriving(_), .. }))
    }

    fn drop_connection(&mut self, id: RequestId, reason: Reason) {
        if let Some(connection) = self.connections.remove(id.0) {
            match connection.phase {
                Phase::Arriving(_) => self.arriving -= 1,
                Phase::Whole { .. } => self.whole.retain(|&whole| whole != id),
                Phase::Queued { .. } => {}
            }
            self.counts.dropped.add(&reason);
            self.dropped.push((id, reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_dropped_while_it_waits_for_room_holds_up_nobody() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let drops: [fn(&mut PassiveEndpoint, RequestId); 2] =
            [|pep, id| pep.lost(id), |pep, _| pep.expire(Instant::from_nanos(u64::MAX), |_| unreachable!())];
        for drop in drops {
            let limits = TimeLimits { decision: Some(Duration::from_secs(1)), ..TimeLimits::default() };
            let mut pep = PassiveEndpoint::new(limits);
            pep.bind(true, 0).unwrap();
            pep.listening();
            let now = Instant::from_nanos(0);
            let id = pep.accepted(address, address, now).unwrap();
            let request = crate::wire::cm::message("test", crate::wire::cm::Kind::Request, &[]).unwrap();
            pep.received(id, &request, now);
            assert!(!pep.wants_accept(1), "it waits for room");
            drop(&mut pep, id);
            assert!(pep.poll_drop().is_some());
            assert!(pep.wants_accept(1));
        }
    }

    #[test]
    fn a_newcomer_does_not_get_the_place_of_the_one_dropped_for_it() {
        let mut pep = PassiveEndpoint::new(TimeLimits::default());
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let accept = |pep: &mut PassiveEndpoint, nanos| {
            pep.accepted(address, address, Instant::from_nanos(nanos)).unwrap()
        };
        let first = accept(&mut pep, 0);
        for nanos in 1..PassiveEndpoint::MAX_ARRIVING as u64 {
            accept(&mut pep, nanos);
            assert_eq!(pep.poll_drop(), None);
        }
        let last = accept(&mut pep, 5000);
        assert_ne!(last.index(), first.index());
        assert_eq!(pep.poll_drop(), Some((first, Reason::Crowded)));
        assert_eq!(pep.poll_drop(), None);
        assert!(pep.wants(last) > 0);
    }
}

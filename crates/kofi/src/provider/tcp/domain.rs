// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The domain over TCP: a loop around [`kofi_core::Domain`], and its completion queues.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::panicking;
use std::time::Duration;

use kofi_core::attr::{CqAttr, WaitCond, WaitObj};
use kofi_core::endpoint::{EndpointAttr, Origin};
use kofi_core::message::{Memory, Segment, Send, Step, WritePlan};
use kofi_core::multi_receive::Split;
use kofi_core::offer;
use kofi_core::wire::header;
use kofi_core::{
    CompletionError, CqId, Domain, DomainStatistics, EndpointStatistics, Entry, EpId, Error, Event, Fid,
    Info, Instant, MrId, MrMode, OpFlags, OpId, Result, SrxAttr, State as EpState, TimeLimits,
    TransportCommand,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use smallvec::SmallVec;

use super::counter::{CntrShared, TcpCounter};
use super::endpoint::TcpEndpoint;
use super::locked::Locked;
use super::memory_region::TcpMemoryRegion;
use super::shared_receive::TcpSharedReceive;
use super::socket::{self, Connecting};
use super::{check_type, environment, offers};
use crate::buffer::Buffers;
use crate::buffer_scope::Loans;
use crate::clock::now;
use crate::completion_queue::{Completion, CqEntry};
use crate::connection_request::ConnectionRequest;
use crate::event_queue::EqShared;
use crate::fabric::{Child, FabricShared};
use crate::live::{self, Inspect, Report, patiently};
use crate::notice::{self, Notice, Subject, What};
use crate::progress::{self, ProgressThread};
use crate::provider::{
    CompletionQueueOps, CounterOps, DomainOps, EndpointOps, MemoryRegionOps, Refused, Region,
    SharedReceiveOps,
};
use crate::wait::{Alarm, Source, Waiter, broken, close_dropped, system, timespec};
use crate::wait_set::{Member, WaitSet};

/// Bytes read behind those that go straight to their place: headers, and messages with them.
const SCRATCH: usize = 16 * 1024;
/// Of those, behind a piece of a message that is as long: enough for any header.
const HEADERS: usize = 128;
/// Pieces of one write.
const SEGMENTS: usize = 128;
/// Bytes read from one connection before others get their turn.
const READ_BUDGET: usize = 4 << 20;
const EVENTS: usize = 64;
/// Sends up to so many bytes can wait for others, to leave with them by one write.
const DEFER_LEN: u64 = 2048;
/// After this time a send with FI_MORE wakes who sleeps.
const MORE_LIMIT: Duration = Duration::from_millis(1);
/// So many can wait.
const DEFER_COUNT: u32 = 64;
/// An application that posts at shorter intervals is about to post more, or to read completions.
const DEFER_INTERVAL: Duration = Duration::from_micros(10);
/// While only one endpoint receives, so many polls at most look at nothing else.
const MAX_HOT_POLLS: u32 = 64;
/// Bytes written to one connection before others get their turn.
const WRITE_BUDGET: usize = 4 << 20;
/// Connections that were shut down, and whose peers have not ended them yet; the oldest makes room.
const MAX_LINGERING: usize = 1024;
/// Endpoints that are looked at under one lock, to be shown to other processes.
const GLANCE: u32 = 32;
/// Messages that the hot endpoint has to receive in a row until its socket is watched no longer.
const HOT_HITS: u32 = 16;
/// Memory for so many injected messages is kept to be used again.
const MAX_SPARE: usize = 256;
/// Marks among events: of what wakes who sleeps, and of the alarm. Others carry [`EpId::bits`], so that
/// one which comes late is not taken for a later endpoint's.
const KICK: u64 = u64::MAX - 1;
const ALARM: u64 = u64::MAX;

pub(super) struct TcpDomain(Arc<Shared>, Progress);

/// Objects of the domain keep its thread, if it has one, and the last of them joins it.
pub(super) type Progress = Option<Arc<ProgressThread>>;

/// What the domain's objects share.
pub(super) struct Shared {
    pub(super) fabric: Arc<FabricShared>,
    fid: Fid,
    name: String,
    epoll: Arc<OwnedFd>,
    pub(super) mr_mode: MrMode,
    state: Mutex<State>,
    _child: Child,
}

/// Everything under the domain's lock.
pub(super) struct State {
    pub(super) machine: Domain,
    epoll: Arc<OwnedFd>,
    /// A thread drives the domain: nobody has to come back.
    auto: bool,
    connections: Vec<Option<Connection>>,
    /// Memory of operations, by their index.
    memory: Vec<Option<Buffers>>,
    /// Memory regions, by their index.
    regions: Vec<Option<Buffers>>,
    /// In the domain's epoll: wakes who sleeps when something can go on without an event.
    kick: OwnedFd,
    queues: HashMap<Fid, Weak<EqShared>>,
    /// Completion queues of shared receive contexts: what ends there need not be of the endpoint that is dealt
    /// with.
    shared_cqs: Vec<Arc<CqShared>>,
    /// Endpoints with something to do that no event will tell of again.
    ready: VecDeque<EpId>,
    /// The endpoint that received last: polled without asking for events first.
    hot: Option<EpId>,
    /// Polls of the hot endpoint until events are asked for, and how many there are in a row.
    hot_polls: u32,
    hot_limit: u32,
    /// How many polls of it in a row have found something.
    hot_hits: u32,
    /// The hot endpoint, if its socket is not watched: who makes progress looks at it.
    unwatched: Option<EpId>,
    /// Threads that sleep until the epoll descriptor tells of something.
    resting: usize,
    /// Anybody may sleep like that at any time, without saying so.
    exposed: bool,
    scratch: Vec<u8>,
    plan: WritePlan,
    /// What was sent on these may not have arrived yet.
    lingering: VecDeque<Lingering>,
    /// No limit in time of those is over before.
    linger_until: Option<Instant>,
    /// Memory for messages to be injected.
    spare: Vec<Vec<u8>>,
    /// Memory for bytes that wait for a receive.
    spare_kept: Vec<u8>,
    /// Small pieces of a write, put together.
    joined: Vec<u8>,
    alarm: Alarm,
    /// What is to be told of connections once the lock is free.
    pub(super) notices: Vec<Notice>,
}

/// A connection that was shut down on this side.
struct Lingering {
    /// Whose connection it was: the mark among events.
    ep: EpId,
    socket: OwnedFd,
    until: Instant,
}

/// An endpoint's transport.
struct Connection {
    id: EpId,
    socket: Option<OwnedFd>,
    readable: bool,
    writable: bool,
    /// The peer has ended its stream.
    ended: bool,
    /// Writing has failed.
    broken: Option<Errno>,
    /// Sends that wait for others.
    deferred: u32,
    /// When the last one was written, if completions were unread then.
    last_send: Option<Instant>,
    /// It is in [`State::ready`].
    queued: bool,
    /// Bytes that were read and wait for a receive to be posted.
    kept: Vec<u8>,
    /// How many of those have been used.
    kept_used: usize,
    /// Completion queues that its operations come to.
    cqs: SmallVec<[Arc<CqShared>; 2]>,
    /// Counters that count its operations.
    cntrs: SmallVec<[Arc<CntrShared>; 1]>,
    /// When it was connected, and until when.
    since: Option<Instant>,
    until: Option<Instant>,
}

impl Connection {
    fn new(id: EpId) -> Self {
        Self {
            id,
            socket: None,
            readable: false,
            writable: false,
            ended: false,
            broken: None,
            deferred: 0,
            last_send: None,
            queued: false,
            kept: Vec::new(),
            kept_used: 0,
            cqs: SmallVec::new(),
            cntrs: SmallVec::new(),
            since: None,
            until: None,
        }
    }
}

impl TcpDomain {
    pub(super) fn open(fabric: &Arc<FabricShared>, info: &Info) -> Result<Self> {
        let auto = progress::wanted(&info.domain_attr);
        let failed = |errno| system("fi_domain", errno);
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?);
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &kick, EventData::new_u64(KICK), flags).map_err(failed)?;
        let mut mr_mode = info.domain_attr.mr_mode;
        if mr_mode.contains(MrMode::BASIC) {
            // fi_mr(3): "equivalent to requiring … FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, and FI_MR_PROV_KEY".
            mr_mode |= MrMode::VIRT_ADDR | MrMode::PROV_KEY;
        }
        let state = State {
            machine: Domain::new(environment::limits()).with_mr_mode(mr_mode),
            epoll: epoll.clone(),
            auto,
            connections: Vec::new(),
            memory: Vec::new(),
            regions: Vec::new(),
            kick,
            queues: HashMap::new(),
            shared_cqs: Vec::new(),
            ready: VecDeque::new(),
            hot: None,
            hot_polls: 0,
            hot_limit: 1,
            hot_hits: 0,
            unwatched: None,
            resting: 0,
            // The thread sleeps whenever there is nothing to do.
            exposed: auto,
            scratch: vec![0; SCRATCH],
            plan: WritePlan::new(SEGMENTS)?,
            lingering: VecDeque::new(),
            linger_until: None,
            spare: Vec::new(),
            spare_kept: Vec::new(),
            joined: Vec::with_capacity(socket::JOIN),
            alarm: Alarm::new("fi_domain", &epoll, ALARM)?,
            notices: Vec::new(),
        };
        let shared = Arc::new(Shared {
            fabric: fabric.clone(),
            fid: fabric.new_fid(),
            name: info.domain_attr.name.clone(),
            epoll,
            mr_mode,
            state: Mutex::new(state),
            _child: fabric.child(|children| &mut children.domains),
        });
        fabric.add_object(Arc::downgrade(&shared) as Weak<dyn Inspect>);
        let start = || ProgressThread::start("fi_domain", shared.clone()).map(Arc::new);
        let thread = auto.then(start).transpose()?;
        Ok(Self(shared, thread))
    }

    fn open_endpoint(
        &self,
        info: &Info,
        request: Option<&ConnectionRequest>,
    ) -> Result<Arc<dyn EndpointOps>> {
        check_type("fi_endpoint", info)?;
        check_iov_limit("fi_endpoint", info.tx_attr.iov_limit.max(info.rx_attr.iov_limit))?;
        let pending = request.map(ConnectionRequest::pending).cloned();
        let origin = match &pending {
            None => Origin::Active,
            Some(pending) => Origin::Request(pending.taken),
        };
        let fid = self.0.fabric.new_fid();
        let id = {
            let mut state = self.0.lock();
            let id = state.machine.open_endpoint(fid, EndpointAttr::from(info), origin)?;
            if state.connections.len() <= id.index() {
                state.connections.resize_with(id.index() + 1, || None);
            }
            if let Some(place) = state.connections.get_mut(id.index()) {
                *place = Some(Connection::new(id));
            }
            id
        };
        Ok(Arc::new(TcpEndpoint::new(self.0.clone(), self.1.clone(), id, fid, info, pending)))
    }
}

fn check_iov_limit(call: &'static str, limit: usize) -> Result<()> {
    if limit > offers::IOV_LIMIT {
        let problem = "the info's iov_limit is over 4, which is what tcp has; split the operations";
        return Err(Error::Invalid { call, problem });
    }
    Ok(())
}

impl DomainOps for TcpDomain {
    fn cq_open(&self, attr: &CqAttr, wait_set: Option<&WaitSet>) -> Result<Arc<dyn CompletionQueueOps>> {
        const CALL: &str = "fi_cq_open";
        if (attr.wait_obj == WaitObj::Set) != wait_set.is_some() {
            let problem = "FI_WAIT_SET and a wait set go together: one was given without the other";
            return Err(Error::Invalid { call: CALL, problem });
        }
        let waiter = Waiter::new(CALL, attr.wait_obj, wait_set.map(|set| set.gathered().clone()))?;
        waiter.add_source(CALL, &(self.0.clone() as Arc<dyn Source>))?;
        let id = self.0.lock().machine.open_cq(attr)?;
        let shared = Arc::new(CqShared { id, domain: self.0.clone(), waiter, cond: attr.wait_cond });
        let queue = Arc::new(TcpCompletionQueue(shared.clone(), self.1.clone()));
        if let Some(set) = wait_set {
            set.add(shared);
        }
        Ok(queue)
    }

    fn cntr_open(&self, wait: WaitObj, wait_set: Option<&WaitSet>) -> Result<Arc<dyn CounterOps>> {
        Ok(Arc::new(TcpCounter::open(&self.0, wait, wait_set)?))
    }

    fn srx_context(&self, attr: &SrxAttr) -> Result<Arc<dyn SharedReceiveOps>> {
        check_iov_limit("fi_srx_context", attr.iov_limit)?;
        Ok(Arc::new(TcpSharedReceive::open(&self.0, self.1.clone(), *attr)?))
    }

    fn mr_reg(&self, region: Region) -> Result<Arc<dyn MemoryRegionOps>, Refused> {
        Ok(Arc::new(TcpMemoryRegion::open(&self.0, region)?))
    }

    fn endpoint(&self, info: &Info) -> Result<Arc<dyn EndpointOps>> {
        self.open_endpoint(info, None)
    }

    fn endpoint_for(&self, request: &ConnectionRequest) -> Result<Arc<dyn EndpointOps>> {
        self.open_endpoint(request.info(), Some(request))
    }

    fn limits(&self) -> TimeLimits {
        self.0.lock().machine.default_limits()
    }

    fn set_limits(&self, limits: TimeLimits) {
        self.0.lock().machine.set_default_limits(limits);
    }

    fn statistics(&self) -> DomainStatistics {
        self.0.lock().machine.statistics()
    }

    fn close(&self) -> Result<()> {
        self.0.lock().machine.check_close()
    }
}

impl Shared {
    pub(super) fn lock(&self) -> Locked<'_> {
        let whole = self.whole();
        Locked::new(whole.unwrap_or_else(|half_done| if panicking() { half_done } else { broken() }))
    }

    /// Locks what no panic has left half done.
    ///
    /// # Errors
    /// What is left of it: no connection, and no memory that one could still reach.
    fn whole(&self) -> Result<MutexGuard<'_, State>, MutexGuard<'_, State>> {
        self.state.lock().map_err(|poisoned| {
            let mut state = poisoned.into_inner();
            state.connections.clear();
            state.lingering.clear();
            state.memory.clear();
            state.regions.clear();
            state
        })
    }

    /// Watches an endpoint's socket. Edge triggered: nothing is told twice, and nothing has to be
    /// told to the kernel again.
    pub(super) fn watch(&self, ep: EpId, socket: &OwnedFd) -> rustix::io::Result<()> {
        watch(&self.epoll, ep, socket)
    }
}

fn watch(epoll: &OwnedFd, ep: EpId, socket: &OwnedFd) -> rustix::io::Result<()> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, socket, EventData::new_u64(ep.bits()), flags)
}

impl Shared {
    /// Waits until there is something to do, at most for `time`.
    pub(super) fn wait(&self, time: Duration) {
        self.rest();
        let mut fds = [PollFd::new(&*self.epoll, PollFlags::IN)];
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, Some(&timespec(time)));
        self.rise();
    }
}

impl Source for Shared {
    fn drive(&self) -> bool {
        match self.whole() {
            Ok(state) => Locked::new(state).progress(&self.epoll),
            // Others use the same event queue. Who uses this domain is told by what it calls next.
            Err(_) => {
                look(&self.epoll, &mut [MaybeUninit::uninit(); EVENTS]);
                false
            }
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn rest(&self) {
        let Ok(mut state) = self.whole() else { return };
        state.resting += 1;
        state.watch_all();
        if !state.ready.is_empty() {
            // Another thread has left that since.
            state.kick();
        }
    }

    fn rise(&self) {
        if let Ok(mut state) = self.whole() {
            state.resting -= 1;
        }
    }

    fn expose(&self) {
        let Ok(mut state) = self.whole() else { return };
        state.exposed = true;
        state.watch_all();
    }
}

impl Inspect for Shared {
    fn inspect(&self, fabric: u64, report: &mut Report) {
        let end = live::patience();
        let mut sums = None;
        let mut next = Some(0);
        while let Some(first) = next {
            // A few at a time, so that nobody waits for long.
            let Some(state) = patiently(&self.state, end) else { break };
            let sums = sums.get_or_insert_with(|| {
                let queues: Vec<_> =
                    state.machine.cqs().filter_map(|cq| state.machine.cq_statistics(cq)).collect();
                (state.machine.statistics_without_open(), queues)
            });
            let places = state.machine.endpoint_places();
            let last = places.min(first + GLANCE);
            let endpoints = (first..last).filter_map(|index| state.machine.endpoint_at(index));
            let endpoints: SmallVec<[_; GLANCE as usize]> =
                endpoints.filter_map(|ep| state.statistics(ep).ok()).collect();
            drop(state);
            for endpoint in &endpoints {
                sums.0.add(endpoint);
                report.endpoint(self.fid.0, endpoint);
            }
            next = (last < places).then_some(last);
        }
        for queue in sums.iter().flat_map(|(_, queues)| queues) {
            let mut object = report.object("completion_queue");
            object.number("domain", self.fid.0).completion_queue(queue);
        }
        let mut object = report.object("domain");
        object.number("fid", self.fid.0).number("fabric", fabric).text("name", &self.name);
        if next.is_some() {
            object.flag("busy", true);
        }
        if let Some((sums, _)) = &sums {
            object.domain(sums);
        }
    }
}

/// What has happened, without waiting.
fn look<'a>(epoll: &OwnedFd, events: &'a mut [MaybeUninit<epoll::Event>; EVENTS]) -> &'a [epoll::Event] {
    let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    epoll::wait(epoll, events, Some(&zero)).map_or(&[], |(events, _)| events)
}

impl State {
    /// Does what can be done without waiting. `true`: there is more.
    fn progress(&mut self, epoll: &OwnedFd) -> bool {
        let expired = self.machine.next_deadline().is_some_and(|at| at <= now());
        if expired {
            self.machine.expire(now());
        }
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let events = look(epoll, &mut events);
        let (mut others, mut alarmed) = (false, false);
        for event in events {
            let ep = match event.data.u64() {
                ALARM => {
                    alarmed = true;
                    self.alarm.seen();
                    self.end_lingering();
                    continue;
                }
                KICK => continue,
                bits => EpId::from_bits(bits),
            };
            let flags = event.flags;
            let is = |any| flags.intersects(any);
            let over = is(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            let Some(connection) = self.connection(ep).filter(|connection| connection.socket.is_some())
            else {
                // That it takes more is nothing to one that was shut down.
                if over || is(EventFlags::IN) {
                    self.linger_on(ep);
                }
                continue;
            };
            connection.readable |= is(EventFlags::IN) || over;
            connection.writable |= is(EventFlags::OUT) || over;
            connection.ended |= over;
            self.machine.woken(ep);
            others |= self.hot != Some(ep);
            self.enqueue(ep);
        }
        if let Some(ep) = self.unwatched
            && let Some(connection) = self.connection(ep)
        {
            // Nobody else tells whether something has come.
            connection.readable = true;
            self.enqueue(ep);
        }
        // The more endpoints receive, the less it is worth to look at one of them.
        self.hot_limit = if others { 1 } else { (self.hot_limit * 2).min(MAX_HOT_POLLS) };
        if others {
            self.hot_hits = 0;
        }
        self.hot_polls = self.hot_limit;
        for _ in 0..self.ready.len() {
            let Some(ep) = self.ready.pop_front() else { break };
            if let Some(connection) = self.connection(ep) {
                connection.queued = false;
                self.service(ep);
            }
        }
        if alarmed {
            self.check_peers(now());
        }
        self.settle();
        events.len() == EVENTS || !self.ready.is_empty()
    }

    /// As [`progress`](Self::progress), for a reader that polls: mostly the next message comes where
    /// the last one came, and one call to the system instead of two finds it.
    fn poll(&mut self, epoll: &OwnedFd) {
        if self.ready.is_empty()
            && self.hot_polls > 0
            && let Some(ep) = self.hot
            && let Some(connection) = self.connection_ref(ep)
            // If not, its transport has to take more: an event tells of that.
            && connection.writable
        {
            let has_kept = connection.kept_used < connection.kept.len();
            self.hot_polls -= 1;
            // Mostly nothing has come yet, and there is nothing else to do then.
            if has_kept || self.read(ep).is_some() {
                self.hot_hits = self.hot_hits.saturating_add(1);
                // Mostly a message has come, and nothing follows from that but its completion.
                if self.is_quiet(ep) {
                    self.notify(ep);
                } else {
                    self.service(ep);
                }
                self.unwatch(ep);
            }
            return;
        }
        self.progress(epoll);
    }

    /// Takes an endpoint that is polled, and receives each time, from what the kernel watches: it tells
    /// the epoll descriptor of each message otherwise, for nothing.
    fn unwatch(&mut self, ep: EpId) {
        if self.hot_hits < HOT_HITS || self.unwatched.is_some() || self.exposed || self.resting > 0 {
            return;
        }
        if self.is_steady(ep)
            && let Some(Connection { socket: Some(socket), .. }) = self.connection_ref(ep)
            && epoll::delete(&self.epoll, socket).is_ok()
        {
            self.unwatched = Some(ep);
        }
    }

    /// Whether reading tells all there is to know of an endpoint's transport.
    fn is_steady(&self, ep: EpId) -> bool {
        let connection = self.connection_ref(ep);
        connection.is_some_and(|connection| {
            connection.socket.is_some()
                && connection.writable
                && !connection.ended
                && connection.broken.is_none()
        }) && self.machine.plan_read(ep).is_some()
    }

    /// Has the endpoint that is not watched watched again. What came meanwhile is told as an event.
    fn watch_all(&mut self) {
        let Some(ep) = self.unwatched.take() else { return };
        self.hot_hits = 0;
        let Self { connections, epoll, .. } = self;
        if let Some(Some(Connection { socket: Some(socket), id, .. })) = connections.get(ep.index())
            && *id == ep
            && let Err(errno) = watch(epoll, ep, socket)
        {
            self.machine.transport_failed(ep, errno_of(errno));
            self.settle_endpoint(ep);
        }
    }

    /// Whether nothing is to be done for an endpoint until its transport has more, or the application.
    fn is_quiet(&self, ep: EpId) -> bool {
        let connection = self.connection_ref(ep);
        connection.is_some_and(|connection| {
            !(connection.readable || connection.ended)
                && connection.broken.is_none()
                && connection.kept_used == connection.kept.len()
        }) && self.machine.is_quiet(ep)
    }

    fn connection_ref(&self, ep: EpId) -> Option<&Connection> {
        self.connections.get(ep.index())?.as_ref().filter(|connection| connection.id == ep)
    }

    fn connection(&mut self, ep: EpId) -> Option<&mut Connection> {
        self.connections.get_mut(ep.index())?.as_mut().filter(|connection| connection.id == ep)
    }

    fn enqueue(&mut self, ep: EpId) {
        if let Some(connection) = self.connection(ep)
            && !connection.queued
        {
            connection.queued = true;
            self.ready.push_back(ep);
        }
    }

    /// Does for an endpoint all that its transport allows now.
    pub(super) fn service(&mut self, ep: EpId) {
        self.finish_connecting(ep);
        self.flush(ep);
        self.fill(ep);
        self.flush(ep);
        if self.unwatched == Some(ep) && !self.is_steady(ep) {
            self.watch_all();
        }
        self.settle_endpoint(ep);
    }

    /// The endpoint's socket, from connect or accept.
    pub(super) fn attach(&mut self, ep: EpId, socket: OwnedFd) {
        if let Some(connection) = self.connection(ep) {
            // Whether it is true is found out by trying. What can be read is told by an event: nothing
            // can yet, since the peer waits for what we write.
            connection.writable = true;
            connection.socket = Some(socket);
            self.keep_alive(ep);
        }
    }

    /// Has the system watch over the peer, as the endpoint's limits say.
    fn keep_alive(&mut self, ep: EpId) {
        if let Ok(limits) = self.machine.limits(ep)
            && let Some(Connection { socket: Some(socket), .. }) = self.connection(ep)
        {
            socket::keep_alive(socket, &limits);
            self.machine.hurry_look(ep, now());
        }
    }

    pub(super) fn set_limits(&mut self, ep: EpId, limits: TimeLimits) -> Result<()> {
        self.machine.set_limits(ep, limits)?;
        self.keep_alive(ep);
        self.settle();
        Ok(())
    }

    /// Looks whether peers answer that were sent something, once that is due.
    fn check_peers(&mut self, now: Instant) {
        while let Some(ep) = self.machine.poll_look(now) {
            let socket = self.connection_ref(ep).and_then(|connection| connection.socket.as_ref());
            if let Some(answers) = socket.and_then(socket::answers) {
                self.machine.check_peer(ep, &answers, now);
            }
        }
    }

    /// The endpoint, as it is now.
    pub(super) fn statistics(&self, ep: EpId) -> Result<EndpointStatistics> {
        let mut statistics = self.machine.endpoint_statistics(ep)?;
        let connection = self.connections.get(ep.index()).and_then(Option::as_ref);
        statistics.connected = connection.and_then(|connection| {
            let since = connection.since?;
            Some(connection.until.unwrap_or_else(now).until(since))
        });
        Ok(statistics)
    }

    /// Something is to be told of an endpoint's connection.
    pub(super) fn notice(&mut self, ep: EpId, what: impl FnOnce(&EndpointStatistics) -> What) {
        if notice::wanted()
            && let Ok(statistics) = self.machine.endpoint_statistics(ep)
        {
            let EndpointStatistics { fid, local, peer, .. } = statistics;
            self.notices.push(Notice { subject: Subject { fid, local, peer }, what: what(&statistics) });
        }
    }

    /// An event is about to be put into its queue.
    fn happened(&mut self, ep: EpId, entry: &Entry) {
        match &entry.event {
            Event::Connected { data } => {
                if let Some(connection) = self.connection(ep) {
                    connection.since = Some(now());
                }
                self.notice(ep, |_| What::Connected(data.len()));
            }
            Event::Shutdown { reason } => {
                if let Some(connection) = self.connection(ep) {
                    connection.until = Some(now());
                }
                self.notice(ep, |statistics| What::Shutdown(*reason, Box::new(statistics.traffic)));
            }
            Event::Error { reason, .. } => self.notice(ep, |_| What::Failed(*reason)),
            _ => {}
        }
    }

    pub(super) fn bind_eq(&mut self, eq: &Arc<EqShared>) {
        self.queues.retain(|_, queue| queue.strong_count() > 0);
        self.queues.insert(eq.fid(), Arc::downgrade(eq));
    }

    pub(super) fn bind_cq(&mut self, ep: EpId, cq: &Arc<CqShared>) {
        if let Some(connection) = self.connection(ep)
            && !connection.cqs.iter().any(|known| Arc::ptr_eq(known, cq))
        {
            connection.cqs.push(cq.clone());
        }
    }

    pub(super) fn bind_shared_cq(&mut self, cq: &Arc<CqShared>) {
        self.shared_cqs.push(cq.clone());
    }

    /// A shared receive context with that queue is closed.
    pub(super) fn unbind_shared_cq(&mut self, cq: &Arc<CqShared>) {
        if let Some(at) = self.shared_cqs.iter().position(|known| Arc::ptr_eq(known, cq)) {
            self.shared_cqs.swap_remove(at);
        }
    }

    pub(super) fn bind_cntr(&mut self, ep: EpId, cntr: &Arc<CntrShared>) {
        if let Some(connection) = self.connection(ep)
            && !connection.cntrs.iter().any(|known| Arc::ptr_eq(known, cntr))
        {
            connection.cntrs.push(cntr.clone());
        }
    }

    /// Gives messages in buffers for several their part of the memory.
    fn split(&mut self) {
        while let Some(Split { buffer, part, len }) = self.machine.poll_split() {
            let whole = self.memory.get_mut(buffer.index()).and_then(Option::as_mut);
            let buffers = whole.map(|buffers| buffers.split_to(len)).unwrap_or_default();
            self.remember(part, buffers);
        }
    }

    /// Endpoints that have to wait no longer go on.
    pub(super) fn go_on(&mut self) {
        while let Some(ep) = self.machine.poll_resumed() {
            self.service(ep);
        }
    }

    /// Gives an operation its memory.
    pub(super) fn remember(&mut self, op: OpId, buffers: Buffers) {
        if self.memory.len() <= op.index() {
            self.memory.resize_with(op.index() + 1, || None);
        }
        if let Some(place) = self.memory.get_mut(op.index()) {
            *place = Some(buffers);
        }
    }

    pub(super) fn put_region(&mut self, mr: MrId, buffers: Buffers) {
        if self.regions.len() <= mr.index() {
            self.regions.resize_with(mr.index() + 1, || None);
        }
        if let Some(place) = self.regions.get_mut(mr.index()) {
            *place = Some(buffers);
        }
    }

    pub(super) fn region(&mut self, mr: MrId) -> Result<&mut Buffers> {
        // The place may be another region's by now.
        self.machine.mr_key(mr)?;
        let stale = Error::Stale { call: "a memory region", object: "memory region" };
        self.regions.get_mut(mr.index()).and_then(Option::as_mut).ok_or(stale)
    }

    /// `fi_close` of a memory region: from here on nothing reaches its memory.
    pub(super) fn close_region(&mut self, mr: MrId) -> Buffers {
        if self.machine.close_mr(mr).is_err() {
            return Buffers::default();
        }
        let buffers = self.regions.get_mut(mr.index()).and_then(Option::take);
        self.settle();
        buffers.filter(|buffers| !buffers.is_not_owned()).unwrap_or_default()
    }

    /// A copy of bytes to be injected, in memory that is used again.
    pub(super) fn spare(&mut self, bytes: &[u8]) -> Buffers {
        let mut memory = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(offer::INJECT_SIZE));
        memory.clear();
        memory.extend_from_slice(bytes);
        Buffers::spare(memory)
    }

    pub(super) fn put_spare(&mut self, memory: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(memory);
        }
    }

    fn take_memory(&mut self, op: OpId) -> Buffers {
        let memory = self.take_any_memory(op);
        memory.filter(|buffers| !buffers.is_not_owned()).unwrap_or_default()
    }

    fn take_any_memory(&mut self, op: OpId) -> Option<Buffers> {
        self.memory.get_mut(op.index()).and_then(Option::take)
    }

    /// Gives up memory lent by that scope, where nothing needs it. `true`: some is still needed.
    pub(super) fn end_loans(&mut self, ep: EpId, loans: &Loans) -> bool {
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

    /// Peers that waited for room go on, or have come to their end.
    fn completions_read(&mut self) {
        if self.machine.has_outputs() {
            self.settle();
        }
    }

    /// A completion that was read, with the memory of its operation, and what is left of a buffer for
    /// several messages that ends with it.
    fn hand_out(
        &mut self,
        op: OpId,
        done: &kofi_core::Completion,
        error: Option<CompletionError>,
    ) -> Completion {
        let own = self.take_memory(op);
        let (buffers, rest) = match done.buffer {
            Some(buffer) => (own, Some(self.take_memory(buffer).into_single())),
            None if done.flags.contains(OpFlags::MULTI_RECV) => (Buffers::default(), Some(own.into_single())),
            None => (own, None),
        };
        self.completions_read();
        Completion {
            context: done.context,
            flags: done.flags,
            len: done.len as usize,
            data: done.flags.contains(OpFlags::REMOTE_CQ_DATA).then_some(done.data),
            buffers,
            offset: done.offset as usize,
            rest,
            error,
        }
    }

    /// A completion that was read, for who knows where the memory is.
    fn entry(&mut self, op: OpId, done: &kofi_core::Completion) -> CqEntry {
        let own = self.take_any_memory(op);
        if let Some(buffer) = done.buffer {
            self.take_any_memory(buffer);
        }
        let received = done.flags.contains(OpFlags::RECV);
        CqEntry {
            context: done.context,
            flags: done.flags,
            len: done.len as usize,
            address: own.filter(|_| received).map_or(0, |buffers| buffers.address()),
            data: done.data,
        }
    }

    fn read_entries(&mut self, cq: CqId, most: usize, each: &mut dyn FnMut(CqEntry)) -> Result<usize> {
        let mut count = 0;
        while count < most {
            match self.machine.read_cq(cq) {
                Ok((op, done)) => {
                    let entry = self.entry(op, &done);
                    each(entry);
                    count += 1;
                }
                Err(error) if count == 0 => return Err(error),
                Err(_) => break,
            }
        }
        self.completions_read();
        Ok(count)
    }

    /// `fi_close` of an endpoint. Its socket is closed, its memory comes with its completions.
    pub(super) fn close(&mut self, ep: EpId) {
        self.flush(ep);
        self.notice(ep, |statistics| What::Closed(Box::new(statistics.traffic)));
        if self.machine.close_endpoint(ep).is_err() {
            return;
        }
        if self.unwatched == Some(ep) {
            self.unwatched = None;
        }
        let connection = self.connections.get_mut(ep.index()).and_then(Option::take);
        if let Some(connection) = connection {
            if let Some(socket) = connection.socket {
                self.close_socket(socket, connection.readable);
            }
            connection.cqs.iter().for_each(|cq| cq.notify(&self.machine));
            connection.cntrs.iter().for_each(|cntr| cntr.notify());
        }
        self.settle();
    }

    fn close_socket(&mut self, socket: OwnedFd, unread: bool) {
        if unread {
            socket::discard(&socket, &mut self.scratch);
        }
        socket::close(socket);
    }

    /// Ends a connection so that the peer gets all that was sent: see [`TransportCommand::Finish`].
    /// The socket goes on to be watched as the endpoint's.
    fn linger(&mut self, ep: EpId, socket: OwnedFd, unread: bool) {
        socket::finish(&socket);
        let watched = self.unwatched != Some(ep) || watch(&self.epoll, ep, &socket).is_ok();
        if unread && socket::discard(&socket, &mut self.scratch) || !watched {
            return self.close_socket(socket, false);
        }
        if self.lingering.len() >= MAX_LINGERING
            && let Some(oldest) = self.lingering.pop_front()
        {
            self.close_socket(oldest.socket, true);
        }
        let limit = self.machine.limits(ep).ok().and_then(|limits| limits.shutdown);
        let until = now().after(limit.unwrap_or(Duration::MAX));
        self.linger_until = Some(self.linger_until.map_or(until, |known| known.min(until)));
        self.lingering.push_back(Lingering { ep, socket, until });
    }

    /// Something has come from a connection that was shut down, or its end.
    fn linger_on(&mut self, ep: EpId) {
        // Mostly the one that has waited longest.
        if let Some(at) = self.lingering.iter().position(|lingering| lingering.ep == ep)
            && let Some(lingering) = self.lingering.get(at)
            && socket::discard(&lingering.socket, &mut self.scratch)
        {
            self.lingering.remove(at);
        }
    }

    /// Closes those that have lingered for long enough.
    fn end_lingering(&mut self) {
        let now = now();
        if self.linger_until.is_some_and(|until| until <= now) {
            self.lingering.retain(|lingering| lingering.until > now);
            self.linger_until = self.lingering.iter().map(|lingering| lingering.until).min();
        }
    }

    fn finish_connecting(&mut self, ep: EpId) {
        if !self.machine.is_connecting(ep) {
            return;
        }
        let Some(Connection { socket: Some(socket), .. }) = self.connection(ep) else { return };
        match socket::connecting(socket) {
            Connecting::Done(local) => self.machine.transport_open(ep, local),
            Connecting::Pending => {}
            Connecting::Failed(errno) => self.machine.transport_failed(ep, errno_of(errno)),
        }
    }

    /// Writes an injected message at once, if nothing is to be written before it. Gives the number of its
    /// bytes that were written, header and all, and whether those are all.
    pub(super) fn inject(&mut self, ep: EpId, send: &Send, bytes: &[u8]) -> Result<(usize, bool)> {
        let Self { machine, connections, joined, .. } = self;
        let mut header = [0; header::MAX_LEN];
        let Some(len) = machine.plan_inject(ep, send, &mut header)? else { return Ok((0, false)) };
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return Ok((0, false)) };
        // Who has not read the completions of what was sent is perhaps about to send more.
        let unread = connection.cqs.iter().any(|cq| machine.cq_len(cq.id) > 0);
        let Some(socket) = connection.socket.as_ref().filter(|_| connection.writable && !unread) else {
            return Ok((0, false));
        };
        joined.clear();
        joined.extend_from_slice(header.get(..len).unwrap_or_default());
        joined.extend_from_slice(bytes);
        match socket::send(socket, joined) {
            Ok(count) if count == joined.len() => {
                machine.injected(ep, bytes.len() as u64);
                connection.last_send = None;
                Ok((count, true))
            }
            Ok(count) => Ok((count, false)),
            Err(Errno::INTR | Errno::AGAIN) => Ok((0, false)),
            Err(errno) => {
                self.write_broke(ep, errno);
                Ok((0, false))
            }
        }
    }

    /// Writing has failed. What the peer had sent before is still to be read.
    fn write_broke(&mut self, ep: EpId, errno: Errno) {
        if let Some(connection) = self.connection(ep) {
            connection.writable = false;
            // The first one says why; later ones only that it is broken.
            connection.broken.get_or_insert(errno);
            connection.readable = true;
        }
        self.machine.write_failed(ep);
        // Whoever got us here may leave before it is done.
        self.alarm.ring();
        self.enqueue(ep);
    }

    /// A receive was posted, and bytes wait for one: they go there, or wait until more are posted. So does
    /// an application that reads many completions, and posts a receive for each. It has to come back
    /// while completions are unread, and nobody sleeps.
    pub(super) fn receive_posted(&mut self, ep: EpId) {
        let Self { machine, connections, auto, resting, .. } = self;
        let Some(Some(connection)) = connections.get(ep.index()) else { return };
        let cqs = &connection.cqs;
        let comes_back = !*auto
            && *resting == 0
            && cqs.iter().any(|cq| machine.cq_len(cq.id) > 0)
            && !cqs.iter().any(|cq| cq.waiter.is_armed());
        if comes_back {
            self.enqueue(ep);
        } else {
            self.service(ep);
        }
    }

    /// Writes a send that was just posted, or lets it wait for those that are about to follow.
    ///
    /// It waits only while completions of earlier sends are unread, so that the application has to
    /// come back, and only behind posts in quick succession. Whatever makes progress writes it.
    ///
    /// With FI_MORE, it waits for the next post without, or for whatever makes progress.
    pub(super) fn flush_or_defer(&mut self, ep: EpId, len: u64, more: bool) {
        let Self { machine, connections, auto, alarm, .. } = self;
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return };
        if more && !*auto && connection.deferred < DEFER_COUNT {
            connection.deferred += 1;
            // Nobody may come, and somebody else sleep.
            alarm.set(Some(now().after(MORE_LIMIT)));
            return self.enqueue(ep);
        }
        // Who sleeps would not come back for it.
        let unread = || connection.cqs.iter().any(|cq| machine.cq_len(cq.id) > 0 && !cq.waiter.is_armed());
        let may_defer = len <= DEFER_LEN && !*auto && connection.deferred < DEFER_COUNT && unread();
        if may_defer {
            let now = now();
            let quick = connection.last_send.is_some_and(|last| now.until(last) < DEFER_INTERVAL);
            if quick {
                connection.last_send = Some(now);
                connection.deferred += 1;
                return self.enqueue(ep);
            }
        }
        // Who reads each completion before the next post is not about to post many: no clock for that.
        let many = may_defer || connection.deferred > 0;
        self.flush(ep);
        // Writing may have taken longer than the interval: that was not the application's time.
        if let Some(connection) = self.connection(ep) {
            connection.last_send = many.then(now);
        }
    }

    /// Writes what is queued, as far as the socket takes it.
    pub(super) fn flush(&mut self, ep: EpId) {
        let Self { machine, connections, memory, regions, plan, joined, unwatched, .. } = self;
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return };
        let Some(socket) = &connection.socket else { return };
        // Something is left to do that no event tells of.
        let (mut left, mut choked) = (false, false);
        connection.deferred = 0;
        let mut budget = WRITE_BUDGET;
        while connection.writable && machine.wants_write(ep) {
            machine.plan_write(ep, plan);
            let total = plan.total_len();
            let sent = if total <= socket::JOIN {
                joined.clear();
                each_piece(plan, memory, regions, |piece| joined.extend_from_slice(piece));
                socket::send(socket, joined)
            } else {
                let mut pieces: SmallVec<[IoSlice<'_>; 16]> = SmallVec::new();
                each_piece(plan, memory, regions, |piece| pieces.push(IoSlice::new(piece)));
                socket::send_all(socket, &pieces)
            };
            match sent {
                Ok(count) => {
                    machine.sent(ep, count);
                    if count < total {
                        // epoll(7): that is how a stream says, too, that it takes no more for now.
                        connection.writable = false;
                        machine.transmit_stalled(ep);
                        choked = *unwatched == Some(ep);
                    }
                    budget = budget.saturating_sub(count);
                    if budget == 0 {
                        left = true;
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    connection.writable = false;
                    machine.transmit_stalled(ep);
                    choked = *unwatched == Some(ep);
                }
                Err(errno) => return self.write_broke(ep, errno),
            }
        }
        if choked {
            // An event is to tell when that ends.
            self.watch_all();
        }
        if left {
            // Whoever got us here may leave before it is done.
            self.alarm.ring();
            self.enqueue(ep);
        }
    }

    /// Reads what has arrived, as far as there is a place for it.
    fn fill(&mut self, ep: EpId) {
        let mut budget = READ_BUDGET;
        loop {
            self.deliver(ep);
            let Some(connection) = self.connection(ep) else { return };
            let readable = connection.readable;
            if connection.kept_used < connection.kept.len() {
                if !self.use_kept(ep) {
                    break;
                }
                continue;
            }
            if !readable || self.machine.plan_read(ep).is_none() {
                break;
            }
            if budget == 0 {
                // Whoever got us here may leave before it is done.
                self.alarm.ring();
                return self.enqueue(ep);
            }
            budget = budget.saturating_sub(self.read(ep).unwrap_or(0));
        }
        self.drained(ep);
    }

    /// All has been read that could be: what does that mean for the connection?
    fn drained(&mut self, ep: EpId) {
        let Some(connection) = self.connection(ep) else { return };
        let (ended, broken, readable) = (connection.ended, connection.broken, connection.readable);
        let blocked = readable || connection.kept_used < connection.kept.len();
        let unreceived = self.machine.has_unreceived(ep);
        match broken {
            // The end of the peer's stream, or its error, would have been read by now.
            Some(errno) if !unreceived && (!blocked || self.machine.plan_read(ep).is_some()) => {
                self.machine.transport_failed(ep, errno_of(errno));
            }
            Some(errno) if self.machine.state(ep) == Ok(EpState::Accepting) => {
                self.machine.transport_failed(ep, errno_of(errno));
            }
            Some(_) => self.machine.half_closed(ep, now()),
            None if ended && (blocked || unreceived) => self.machine.half_closed(ep, now()),
            None => {}
        }
        self.machine.input_drained(ep);
    }

    /// One read from the socket: first into the place that is planned, then into the scratch memory.
    /// Gives the number of bytes, or none when nothing has come.
    fn read(&mut self, ep: EpId) -> Option<usize> {
        let Some(plan) = self.machine.plan_read(ep) else { return Some(0) };
        if plan.direct.is_some() {
            self.split();
        }
        let Self { connections, memory, regions, .. } = self;
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return Some(0) };
        let Some(socket) = &connection.socket else {
            connection.readable = false;
            return Some(0);
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        let (mut direct, mut behind, mut other) = (0, scratch.len(), false);
        let buffers = plan.direct.and_then(|place| Some((memory_of(memory, regions, place.memory)?, place)));
        let result = match buffers {
            None => socket::recv(socket, &mut scratch),
            Some((buffers, place)) => {
                let mut pieces: SmallVec<[IoSliceMut<'_>; 8]> = SmallVec::new();
                for piece in buffers.slices_mut(place.offset, place.len) {
                    direct += piece.len();
                    pieces.push(IoSliceMut::new(piece));
                }
                // Behind a long message comes mostly another one, whose bytes are to go to their place, too.
                if direct >= behind {
                    behind = HEADERS;
                }
                pieces.push(IoSliceMut::new(scratch.get_mut(..behind).unwrap_or_default()));
                socket::recv_all(socket, &mut pieces)
            }
        };
        let room = direct + behind;
        let count = match result {
            Ok(0) => {
                connection.readable = false;
                connection.ended = true;
                match connection.broken {
                    // The system tells of an error once, and a write has had it: this is no end in
                    // good order. After the others the peer may still have ended its stream.
                    Some(errno) if !matches!(errno, Errno::PIPE | Errno::CONNRESET) => {
                        self.machine.transport_failed(ep, errno_of(errno));
                    }
                    _ => self.machine.end_of_stream(ep),
                }
                Some(0)
            }
            Ok(count) => {
                if self.hot != Some(ep) {
                    self.hot = Some(ep);
                    self.hot_hits = 0;
                    other = self.unwatched.is_some();
                }
                // A stream that gives less than asked for has no more; what comes is told of anew.
                connection.readable = count == room || connection.ended;
                let placed = count.min(direct);
                if placed > 0 {
                    self.machine.placed(ep, placed as u64);
                }
                let rest = scratch.get(..count - placed).unwrap_or_default();
                let used = self.take(ep, rest);
                self.keep(ep, rest.get(used..).unwrap_or_default());
                Some(count)
            }
            Err(Errno::INTR) => Some(0),
            Err(Errno::AGAIN) => {
                connection.readable = false;
                None
            }
            Err(errno) => {
                connection.readable = false;
                connection.ended = true;
                self.machine.transport_failed(ep, errno_of(errno));
                Some(0)
            }
        };
        self.scratch = scratch;
        if other {
            self.watch_all();
        }
        count
    }

    /// Gives bytes to the machine, and puts them where it says. Gives the number that it took.
    fn take(&mut self, ep: EpId, input: &[u8]) -> usize {
        let mut used = 0;
        while let Some(rest) = input.get(used..).filter(|rest| !rest.is_empty()) {
            match self.machine.take(ep, rest) {
                Step::Used(count) => used += count,
                Step::Place(place) => {
                    self.split();
                    let mut from = rest;
                    if let Some(buffers) = memory_of(&mut self.memory, &mut self.regions, place.memory) {
                        for piece in buffers.slices_mut(place.offset, place.len) {
                            let (bytes, tail) = from.split_at(piece.len().min(from.len()));
                            piece.copy_from_slice(bytes);
                            from = tail;
                        }
                    }
                    self.machine.placed(ep, place.len);
                    used += place.len as usize;
                }
                Step::Blocked => break,
                Step::Ended => return input.len(),
            }
        }
        used
    }

    fn keep(&mut self, ep: EpId, rest: &[u8]) {
        if rest.is_empty() {
            return;
        }
        let mut kept = std::mem::take(&mut self.spare_kept);
        kept.clear();
        if kept.try_reserve_exact(rest.len()).is_err() {
            return self.machine.out_of_memory(ep);
        }
        kept.extend_from_slice(rest);
        if let Some(connection) = self.connection(ep) {
            connection.kept = kept;
            connection.kept_used = 0;
        }
    }

    /// Copies messages that the machine kept to receives that were posted since.
    fn deliver(&mut self, ep: EpId) {
        self.split();
        while let Some((place, bytes)) = self.machine.poll_kept(ep) {
            if let Some(buffers) = memory_of(&mut self.memory, &mut self.regions, place.memory) {
                let mut rest = bytes;
                for piece in buffers.slices_mut(place.offset, place.len) {
                    let (from, tail) = rest.split_at(piece.len().min(rest.len()));
                    piece.copy_from_slice(from);
                    rest = tail;
                }
            }
            self.machine.delivered(ep);
            self.split();
        }
    }

    /// Uses bytes that were kept. `false`: they have to wait on.
    fn use_kept(&mut self, ep: EpId) -> bool {
        let Some(connection) = self.connection(ep) else { return false };
        let (kept, from) = (std::mem::take(&mut connection.kept), connection.kept_used);
        let used = self.take(ep, kept.get(from..).unwrap_or_default());
        let Some(connection) = self.connection(ep) else { return false };
        connection.kept_used = from + used;
        if connection.kept_used < kept.len() {
            connection.kept = kept;
            return false;
        }
        connection.kept_used = 0;
        if kept.capacity() > self.spare_kept.capacity() {
            self.spare_kept = kept;
        }
        true
    }

    /// Does what the machine has to say after an endpoint was dealt with.
    pub(super) fn settle_endpoint(&mut self, ep: EpId) {
        self.settle();
        self.notify(ep);
    }

    /// Wakes who waits for what an endpoint's operations come to.
    pub(super) fn notify(&self, ep: EpId) {
        let Self { machine, connections, .. } = self;
        if let Some(Some(connection)) = connections.get(ep.index()) {
            connection.cqs.iter().for_each(|cq| cq.notify(machine));
            connection.cntrs.iter().for_each(|cntr| cntr.notify());
        }
    }

    /// Wakes who sleeps: something can go on without an event.
    pub(super) fn kick(&self) {
        // Full means that it is readable already.
        let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
    }

    /// Does what the machine has to say: transports to be closed, events, memory that is free.
    pub(super) fn settle(&mut self) {
        self.split();
        while let Some((ep, command)) = self.machine.poll_transport() {
            if let Some(connection) = self.connection(ep) {
                connection.kept = Vec::new();
                connection.kept_used = 0;
                let (socket, readable) = (connection.socket.take(), connection.readable);
                let cqs = connection.cqs.clone();
                connection.cntrs.iter().for_each(|cntr| cntr.notify());
                match socket {
                    Some(socket) if command == TransportCommand::Finish => self.linger(ep, socket, readable),
                    Some(socket) => self.close_socket(socket, readable),
                    None => {}
                }
                if self.unwatched == Some(ep) {
                    self.unwatched = None;
                }
                cqs.iter().for_each(|cq| cq.notify(&self.machine));
            }
        }
        while let Some((ep, eq, entry)) = self.machine.poll_endpoint_event() {
            self.happened(ep, &entry);
            if let Some(eq) = self.queues.get(&eq).and_then(Weak::upgrade) {
                eq.fill(|queue| queue.push(entry));
            }
        }
        while let Some(op) = self.machine.poll_released() {
            if let Some(memory) = self.take_memory(op).into_spare() {
                self.put_spare(memory);
            }
        }
        while let Some(ep) = self.machine.poll_resumed() {
            self.enqueue(ep);
            if self.resting > 0 || self.exposed {
                self.kick();
            }
        }
        self.shared_cqs.iter().for_each(|cq| cq.notify(&self.machine));
        if self.machine.wants_look() {
            self.machine.plan_look(now());
        }
        let machine = self.machine.next_deadline().into_iter().chain(self.machine.next_look());
        let due = machine.chain(self.linger_until);
        self.alarm.set(due.min());
    }
}

/// The pieces that a plan names.
fn each_piece<'a>(
    plan: &'a WritePlan,
    memory: &'a [Option<Buffers>],
    regions: &'a [Option<Buffers>],
    mut piece: impl FnMut(&'a [u8]),
) {
    for segment in plan.segments() {
        match segment {
            Segment::Bytes { start, len } => {
                piece(plan.bytes().get(*start..*start + *len).unwrap_or_default())
            }
            Segment::Payload(place) => {
                let buffers = match place.memory {
                    Memory::Operation(op) => memory.get(op.index()),
                    Memory::Region(mr) => regions.get(mr.index()),
                };
                if let Some(Some(buffers)) = buffers {
                    buffers.slices(place.offset, place.len).for_each(&mut piece);
                }
            }
        }
    }
}

/// The buffers that bytes go to.
fn memory_of<'a>(
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

pub(super) fn errno_of(errno: Errno) -> kofi_core::Errno {
    kofi_core::Errno::from_raw(errno.raw_os_error())
}

/// A completion queue.
pub(super) struct TcpCompletionQueue(Arc<CqShared>, #[expect(dead_code, reason = "kept")] Progress);

pub(super) struct CqShared {
    id: CqId,
    domain: Arc<Shared>,
    waiter: Waiter,
    cond: WaitCond,
}

impl CqShared {
    pub(super) fn id(&self) -> CqId {
        self.id
    }

    pub(super) fn notify(&self, machine: &Domain) {
        if self.waiter.is_armed() && machine.cq_len(self.id) > 0 {
            self.waiter.notify();
        }
    }

    fn take(&self, state: &mut State) -> Result<Completion> {
        let (op, done) = state.machine.read_cq(self.id)?;
        Ok(state.hand_out(op, &done, None))
    }

    /// Locks the domain, for a read that does not wait.
    ///
    /// # Errors
    /// -FI_EAGAIN when there is nothing to read, also after a look for more.
    fn lock_or_poll(&self) -> Result<Locked<'_>> {
        let mut state = self.domain.lock();
        if state.machine.cq_len(self.id) == 0 {
            state.poll(&self.domain.epoll);
            if state.machine.cq_len(self.id) == 0 {
                return Err(Error::Empty);
            }
        }
        Ok(state)
    }

    fn sread<T>(
        &self,
        threshold: usize,
        timeout: Option<Duration>,
        mut read: impl FnMut(&mut State) -> Result<T>,
    ) -> Result<T> {
        let threshold = if self.cond == WaitCond::Threshold { threshold } else { 0 };
        let waited = self.waiter.sread("fi_cq_sread", timeout, || {
            let mut state = self.domain.lock();
            if threshold > 1 && !state.machine.cq_satisfies(self.id, threshold) {
                return Err(Error::Empty);
            }
            read(&mut state)
        });
        match waited {
            // The wait is over: what is there will do.
            Err(Error::Empty) if threshold > 1 => read(&mut self.domain.lock()),
            other => other,
        }
    }
}

impl TcpCompletionQueue {
    pub(super) fn shared(&self) -> &Arc<CqShared> {
        &self.0
    }

    pub(super) fn belongs_to(&self, domain: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.0.domain, domain)
    }
}

impl CompletionQueueOps for TcpCompletionQueue {
    fn read(&self) -> Result<Completion> {
        self.0.take(&mut *self.0.lock_or_poll()?)
    }

    fn read_entries(&self, most: usize, each: &mut dyn FnMut(CqEntry)) -> Result<usize> {
        self.0.lock_or_poll()?.read_entries(self.0.id, most, each)
    }

    fn progress(&self) {
        self.0.waiter.drive();
    }

    fn read_error(&self) -> Result<Completion> {
        let mut state = self.0.domain.lock();
        let (op, error) = state.machine.read_cq_error(self.0.id)?;
        Ok(state.hand_out(op, &error.completion(), Some(error)))
    }

    fn read_error_entry(&self) -> Result<(CqEntry, CompletionError)> {
        let mut state = self.0.domain.lock();
        let (op, error) = state.machine.read_cq_error(self.0.id)?;
        let entry = state.entry(op, &error.completion());
        state.completions_read();
        Ok((entry, error))
    }

    fn sread(&self, threshold: usize, timeout: Option<Duration>) -> Result<Completion> {
        self.0.sread(threshold, timeout, |state| self.0.take(state))
    }

    fn sread_entries(
        &self,
        most: usize,
        threshold: usize,
        timeout: Option<Duration>,
        each: &mut dyn FnMut(CqEntry),
    ) -> Result<usize> {
        self.0.sread(threshold, timeout, |state| state.read_entries(self.0.id, most, each))
    }

    fn is_ready(&self) -> bool {
        self.0.lock_or_poll().is_ok()
    }

    fn signal(&self) -> Result<()> {
        self.0.waiter.signal("fi_cq_signal")
    }

    fn try_wait(&self) -> Result<()> {
        self.0.waiter.try_wait("fi_trywait", || self.0.is_empty())
    }

    fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.0.waiter.fd("fi_control(FI_GETWAIT)")
    }

    fn close(&self) -> Result<()> {
        let mut state = self.0.domain.lock();
        state.machine.close_cq(self.0.id)?;
        state.settle();
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for TcpCompletionQueue {
    fn drop(&mut self) {
        // Endpoints hold the queues that they are bound to: it is in use by none.
        close_dropped(|| drop(self.close()));
    }
}

impl Member for CqShared {
    fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    fn is_empty(&self) -> bool {
        self.domain.lock().machine.cq_len(self.id) == 0
    }
}

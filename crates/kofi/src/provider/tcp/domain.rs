// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The domain over TCP: a loop around [`kofi_core::Domain`], and its completion queues.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use kofi_core::attr::{CqAttr, WaitCond, WaitObj};
use kofi_core::endpoint::{EndpointAttr, Origin};
use kofi_core::message::{Memory, Segment, Step, WritePlan};
use kofi_core::multi_receive::Split;
use kofi_core::{
    CqId, Domain, EpId, Error, Fid, Info, Instant, MrId, MrMode, OpFlags, OpId, Result, SrxAttr,
    State as EpState, TransportCommand,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use smallvec::SmallVec;

use super::counter::{CntrShared, TcpCounter};
use super::endpoint::TcpEndpoint;
use super::memory_region::TcpMemoryRegion;
use super::shared_receive::TcpSharedReceive;
use super::socket::{self, Connecting};
use super::{check_type, environment, offers};
use crate::buffer::Buffers;
use crate::buffer_scope::Loans;
use crate::clock::now;
use crate::completion_queue::Completion;
use crate::connection_request::ConnectionRequest;
use crate::event_queue::EqShared;
use crate::fabric::{Child, FabricShared};
use crate::progress::{self, ProgressThread};
use crate::provider::{
    CompletionQueueOps, CounterOps, DomainOps, EndpointOps, MemoryRegionOps, Refused, Region,
    SharedReceiveOps,
};
use crate::wait::{Alarm, Source, Waiter, lock, system, timespec};
use crate::wait_set::{Member, WaitSet};

/// Bytes read behind those that go straight to their place: headers, and messages with them.
const SCRATCH: usize = 16 * 1024;
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
/// Mark among events of those.
const LINGERING: u64 = u64::MAX - 1;
/// Events of what wakes who sleeps.
const KICK: u64 = u64::MAX - 2;
/// Mark of the alarm among events; others carry the index of an endpoint.
const ALARM: u64 = u64::MAX;

pub(super) struct TcpDomain(Arc<Shared>, Progress);

/// Objects of the domain keep its thread, if it has one, and the last of them joins it.
pub(super) type Progress = Option<Arc<ProgressThread>>;

/// What the domain's objects share.
pub(super) struct Shared {
    pub(super) fabric: Arc<FabricShared>,
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
    /// Endpoints with something to do that no event will tell of again.
    ready: VecDeque<EpId>,
    /// The endpoint that received last: polled without asking for events first.
    hot: Option<EpId>,
    /// Polls of the hot endpoint until events are asked for, and how many there are in a row.
    hot_polls: u32,
    hot_limit: u32,
    scratch: Vec<u8>,
    plan: WritePlan,
    /// What was sent on these may not have arrived yet.
    lingering: VecDeque<Lingering>,
    /// Small pieces of a write, put together.
    joined: Vec<u8>,
    alarm: Alarm,
}

/// A connection that was shut down on this side.
struct Lingering {
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
    last_send: Instant,
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
            last_send: Instant::from_nanos(0),
            queued: false,
            kept: Vec::new(),
            kept_used: 0,
            cqs: SmallVec::new(),
            cntrs: SmallVec::new(),
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
            ready: VecDeque::new(),
            hot: None,
            hot_polls: 0,
            hot_limit: 1,
            scratch: vec![0; SCRATCH],
            plan: WritePlan::new(SEGMENTS)?,
            lingering: VecDeque::new(),
            joined: Vec::with_capacity(socket::JOIN),
            alarm: Alarm::new("fi_domain", &epoll, ALARM)?,
        };
        let shared = Arc::new(Shared {
            fabric: fabric.clone(),
            epoll,
            mr_mode,
            state: Mutex::new(state),
            _child: fabric.child(|children| &mut children.domains),
        });
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

    fn close(&self) -> Result<()> {
        self.0.lock().machine.check_close()
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Watches an endpoint's socket. Edge triggered: nothing is told twice, and nothing has to be
    /// told to the kernel again.
    pub(super) fn watch(&self, ep: EpId, socket: &OwnedFd) -> rustix::io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, socket, EventData::new_u64(ep.index() as u64), flags)
    }
}

impl Shared {
    /// Waits until there is something to do, at most for `time`.
    pub(super) fn wait(&self, time: Duration) {
        let mut fds = [PollFd::new(&*self.epoll, PollFlags::IN)];
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, Some(&timespec(time)));
    }
}

impl Source for Shared {
    fn drive(&self) -> bool {
        self.lock().progress(&self.epoll)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl State {
    /// Does what can be done without waiting. `true`: there is more.
    fn progress(&mut self, epoll: &OwnedFd) -> bool {
        let expired = self.machine.next_deadline().is_some_and(|at| at <= now());
        if expired {
            self.machine.expire(now());
        }
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
        let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = epoll::wait(epoll, &mut events[..], Some(&zero)).unwrap_or(0);
        let (mut others, mut linger) = (false, false);
        for event in events.iter().take(count) {
            let index = match event.data.u64() {
                ALARM => {
                    self.alarm.seen();
                    linger = true;
                    continue;
                }
                LINGERING => {
                    linger = true;
                    continue;
                }
                KICK => continue,
                index => index as usize,
            };
            let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else { continue };
            let flags = event.flags;
            let is = |any| flags.intersects(any);
            let over = is(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            connection.readable |= is(EventFlags::IN) || over;
            connection.writable |= is(EventFlags::OUT) || over;
            connection.ended |= over;
            let ep = connection.id;
            others |= self.hot != Some(ep);
            self.enqueue(ep);
        }
        // The more endpoints receive, the less it is worth to look at one of them.
        self.hot_limit = if others { 1 } else { (self.hot_limit * 2).min(MAX_HOT_POLLS) };
        self.hot_polls = self.hot_limit;
        for _ in 0..self.ready.len() {
            let Some(ep) = self.ready.pop_front() else { break };
            if let Some(connection) = self.connection(ep) {
                connection.queued = false;
                self.service(ep);
            }
        }
        if linger {
            let now = now();
            self.lingering.retain(|lingering| lingering.until > now && !socket::discard(&lingering.socket));
        }
        self.settle();
        count == EVENTS || !self.ready.is_empty()
    }

    /// As [`progress`](Self::progress), for a reader that polls: mostly the next message comes where
    /// the last one came, and one call to the system instead of two finds it.
    fn poll(&mut self, epoll: &OwnedFd) {
        if self.ready.is_empty()
            && self.hot_polls > 0
            && let Some(ep) = self.hot
            && let Some(connection) = self.connection(ep)
        {
            connection.readable = true;
            self.hot_polls -= 1;
            // Mostly nothing has come yet, and there is nothing else to do then.
            if self.has_kept(ep) || self.read(ep).is_some() {
                self.service(ep);
            }
            return;
        }
        self.progress(epoll);
    }

    /// Whether bytes that were read wait for a receive.
    fn has_kept(&self, ep: EpId) -> bool {
        let connection = self.connections.get(ep.index()).and_then(Option::as_ref);
        connection.is_some_and(|connection| connection.kept_used < connection.kept.len())
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
        self.settle_endpoint(ep);
    }

    /// The endpoint's socket, from connect or accept.
    pub(super) fn attach(&mut self, ep: EpId, socket: OwnedFd) {
        if let Some(connection) = self.connection(ep) {
            // Whether these are true is found out by trying.
            connection.readable = true;
            connection.writable = true;
            connection.socket = Some(socket);
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
        let buffers = self.regions.get_mut(mr.index()).and_then(Option::take).unwrap_or_default();
        self.settle();
        buffers
    }

    fn take_memory(&mut self, op: OpId) -> Buffers {
        let memory = self.memory.get_mut(op.index()).and_then(Option::take);
        memory.filter(|buffers| !buffers.is_lent(None)).unwrap_or_default()
    }

    /// Gives up memory lent by that scope, where nothing needs it. `true`: some is still needed.
    pub(super) fn end_loans(&mut self, ep: EpId, loans: &Loans) -> bool {
        let mut needed = false;
        for index in 0..self.memory.len() {
            let Some(place) = self.memory.get(index) else { break };
            let lent = place.as_ref().is_some_and(|buffers| buffers.is_lent(Some(loans)));
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

    /// The memory of an operation whose completion was read, and what is left of a buffer for several
    /// messages that ends with it.
    fn take_completed(
        &mut self,
        op: OpId,
        flags: OpFlags,
        buffer: Option<OpId>,
    ) -> (Buffers, Option<crate::Buf>) {
        let own = self.take_memory(op);
        let taken = match buffer {
            Some(buffer) => (own, Some(self.take_memory(buffer).into_single())),
            None if flags.contains(OpFlags::MULTI_RECV) => (Buffers::default(), Some(own.into_single())),
            None => (own, None),
        };
        if self.machine.has_resumed() {
            // Peers that waited for room go on.
            self.settle();
        }
        taken
    }

    /// `fi_close` of an endpoint. Its socket is closed, its memory comes with its completions.
    pub(super) fn close(&mut self, ep: EpId) {
        self.flush(ep);
        if self.machine.close_endpoint(ep).is_err() {
            return;
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

    /// Closes a socket. While a child of this process has it, too, it would go on to tell of events,
    /// and be taken for the next one of the same endpoint's place.
    fn close_socket(&self, socket: OwnedFd, unread: bool) {
        let _ = epoll::delete(&self.epoll, &socket);
        socket::close(socket, unread);
    }

    /// Ends a connection so that the peer gets all that was sent: see [`TransportCommand::Finish`].
    fn linger(&mut self, ep: EpId, socket: OwnedFd) {
        socket::finish(&socket);
        let limit = self.machine.limits(ep).ok().and_then(|limits| limits.shutdown);
        let until = now().after(limit.unwrap_or(Duration::MAX));
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        let watched = epoll::modify(&self.epoll, &socket, EventData::new_u64(LINGERING), flags);
        if socket::discard(&socket) || watched.is_err() {
            return self.close_socket(socket, false);
        }
        if self.lingering.len() >= MAX_LINGERING
            && let Some(oldest) = self.lingering.pop_front()
        {
            self.close_socket(oldest.socket, true);
        }
        self.lingering.push_back(Lingering { socket, until });
    }

    fn finish_connecting(&mut self, ep: EpId) {
        if self.machine.state(ep) != Ok(EpState::Connecting) {
            return;
        }
        let Some(Connection { socket: Some(socket), .. }) = self.connection(ep) else { return };
        match socket::connecting(socket) {
            Connecting::Done(local) => self.machine.transport_open(ep, local),
            Connecting::Pending => {}
            Connecting::Failed(errno) => self.machine.transport_failed(ep, errno_of(errno)),
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
        if len <= DEFER_LEN && !*auto && connection.deferred < DEFER_COUNT && unread() {
            let now = now();
            let quick = now.until(connection.last_send) < DEFER_INTERVAL;
            connection.last_send = now;
            if quick {
                connection.deferred += 1;
                return self.enqueue(ep);
            }
        }
        self.flush(ep);
        // Writing may have taken longer than the interval: that was not the application's time.
        if let Some(connection) = self.connection(ep) {
            connection.last_send = now();
        }
    }

    /// Writes what is queued, as far as the socket takes it.
    pub(super) fn flush(&mut self, ep: EpId) {
        let Self { machine, connections, memory, regions, plan, joined, .. } = self;
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return };
        let Some(socket) = &connection.socket else { return };
        // Something is left to do that no event tells of.
        let mut left = false;
        connection.deferred = 0;
        let mut budget = WRITE_BUDGET;
        while connection.writable && machine.wants_write(ep) {
            machine.plan_write(ep, plan);
            let mut pieces: SmallVec<[&[u8]; SEGMENTS]> = SmallVec::new();
            for segment in plan.segments() {
                match segment {
                    Segment::Bytes { start, len } => pieces.extend(plan.bytes().get(*start..*start + *len)),
                    Segment::Payload(place) => {
                        let buffers = match place.memory {
                            Memory::Operation(op) => memory.get(op.index()),
                            Memory::Region(mr) => regions.get(mr.index()),
                        };
                        let Some(Some(buffers)) = buffers else { continue };
                        pieces.extend(buffers.slices(place.offset, place.len));
                    }
                }
            }
            match socket::send(socket, &pieces, joined) {
                Ok(count) => {
                    machine.sent(ep, count);
                    budget = budget.saturating_sub(count);
                    if budget == 0 {
                        left = true;
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => connection.writable = false,
                Err(errno) => {
                    // What the peer had sent before is still to be read.
                    connection.writable = false;
                    connection.broken = Some(errno);
                    connection.readable = true;
                    machine.write_failed(ep);
                    left = true;
                }
            }
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
        self.split();
        let Self { connections, memory, regions, .. } = self;
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return Some(0) };
        let Some(socket) = &connection.socket else {
            connection.readable = false;
            return Some(0);
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut pieces: SmallVec<[IoSliceMut<'_>; 8]> = SmallVec::new();
        let mut direct = 0;
        if let Some(place) = plan.direct
            && let Some(buffers) = memory_of(memory, regions, place.memory)
        {
            for piece in buffers.slices_mut(place.offset, place.len) {
                direct += piece.len();
                pieces.push(IoSliceMut::new(piece));
            }
        }
        let room = direct + scratch.len();
        pieces.push(IoSliceMut::new(&mut scratch));
        let result = socket::recv(socket, &mut pieces);
        drop(pieces);
        let count = match result {
            Ok(0) => {
                connection.readable = false;
                connection.ended = true;
                self.machine.end_of_stream(ep);
                Some(0)
            }
            Ok(count) => {
                self.hot = Some(ep);
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
                self.machine.transport_failed(ep, errno_of(errno));
                Some(0)
            }
        };
        self.scratch = scratch;
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
        let Some(connection) = self.connection(ep) else { return };
        connection.kept.clear();
        connection.kept_used = 0;
        match connection.kept.try_reserve_exact(rest.len()) {
            Ok(()) => connection.kept.extend_from_slice(rest),
            Err(_) => self.machine.out_of_memory(ep),
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
        true
    }

    /// Does what the machine has to say after an endpoint was dealt with.
    pub(super) fn settle_endpoint(&mut self, ep: EpId) {
        self.settle();
        let Self { machine, connections, .. } = self;
        if let Some(Some(connection)) = connections.get(ep.index()) {
            connection.cqs.iter().for_each(|cq| cq.notify(machine));
            connection.cntrs.iter().for_each(|cntr| cntr.notify());
        }
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
                    Some(socket) if command == TransportCommand::Finish => self.linger(ep, socket),
                    Some(socket) => self.close_socket(socket, readable),
                    None => {}
                }
                cqs.iter().for_each(|cq| cq.notify(&self.machine));
            }
        }
        while let Some((eq, entry)) = self.machine.poll_event() {
            if let Some(eq) = self.queues.get(&eq).and_then(Weak::upgrade) {
                eq.fill(|queue| queue.push(entry));
            }
        }
        while let Some(op) = self.machine.poll_released() {
            self.take_memory(op);
        }
        while let Some(ep) = self.machine.poll_resumed() {
            self.enqueue(ep);
            // Full means that it is readable already.
            let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
        }
        let lingering = self.lingering.iter().map(|lingering| lingering.until).min();
        self.alarm.set(self.machine.next_deadline().into_iter().chain(lingering).min());
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
        let (buffers, rest) = state.take_completed(op, done.flags, done.buffer);
        Ok(Completion {
            context: done.context,
            flags: done.flags,
            len: done.len as usize,
            data: done.flags.contains(OpFlags::REMOTE_CQ_DATA).then_some(done.data),
            buffers,
            offset: done.offset as usize,
            rest,
            error: None,
        })
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
        let mut state = self.0.domain.lock();
        match self.0.take(&mut state) {
            Err(Error::Empty) => {
                state.poll(&self.0.domain.epoll);
                self.0.take(&mut state)
            }
            other => other,
        }
    }

    fn progress(&self) {
        self.0.waiter.drive();
    }

    fn read_error(&self) -> Result<Completion> {
        let mut state = self.0.domain.lock();
        let (op, error) = state.machine.read_cq_error(self.0.id)?;
        let (buffers, rest) = state.take_completed(op, error.flags, error.buffer);
        Ok(Completion {
            context: error.context,
            flags: error.flags,
            len: error.len as usize,
            data: error.flags.contains(OpFlags::REMOTE_CQ_DATA).then_some(error.data),
            buffers,
            offset: error.offset as usize,
            rest,
            error: Some(error),
        })
    }

    fn sread(&self, threshold: usize, timeout: Option<Duration>) -> Result<Completion> {
        let threshold = if self.0.cond == WaitCond::Threshold { threshold } else { 0 };
        let waited = self.0.waiter.sread("fi_cq_sread", timeout, || {
            let mut state = self.0.domain.lock();
            if threshold > 1 && !state.machine.cq_satisfies(self.0.id, threshold) {
                return Err(Error::Empty);
            }
            self.0.take(&mut state)
        });
        match waited {
            // The wait is over: what is there will do.
            Err(Error::Empty) if threshold > 1 => self.0.take(&mut self.0.domain.lock()),
            other => other,
        }
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
        let _ = self.close();
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

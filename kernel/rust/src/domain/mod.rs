// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The domain (`fi_domain(3)`): a loop around [`kofi_core::Domain`], driven by work in a workqueue.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ffi::c_int;
use core::fmt::Write;
use core::time::Duration;

mod reading;
mod writing;

use kofi_core::endpoint::State as EpState;
use kofi_core::message::{Memory, WritePlan};
use kofi_core::multi_receive::Split;
use kofi_core::offer;
use kofi_core::report::Object;
use kofi_core::{
    Domain as Machine, Entry, EpId, Errno, Error, Event, Fid, Instant, MrId, MrMode, OpId, Result,
    TransportCommand,
};

use crate::completion_queue::CompletionQueue;
use crate::counter::Counter;
use crate::error::{self, system};
use crate::event_queue::EventQueue;
use crate::fabric::{self, Child, Fabric};
use crate::loans::{self, Loans};
use crate::memory::Pieces;
use crate::notice::{self, What};
use crate::sys::lease;
use crate::sys::lock::{Guard, LockClass, Mutex};
use crate::sys::raw::Piece;
use crate::sys::show::{Show, Shown};
use crate::sys::socket::{self, Connecting, Socket};
use crate::sys::wait::{Wait, Woken};
use crate::sys::work::{Driven, Pump};
use crate::sys::{Class, Counted, now, warn};
use crate::{c, getinfo};

/// Bytes read behind those that go straight to their place: headers, and messages with them.
const SCRATCH: usize = 16 * 1024;
/// Segments of a plan of what to write.
const SEGMENTS: usize = 128;
/// Pieces of one call to the socket (the kernel's UIO_MAXIOV).
const MAX_PIECES: usize = 1024;
/// Bytes read from, or written to, one connection before others get their turn.
const BUDGET: usize = 1 << 20;
/// Connections that were shut down, and whose peers have not ended them yet; the oldest makes room.
const MAX_LINGERING: usize = 1024;
/// How long closing an endpoint that was not shut down waits for memory that TCP reads, before the connection is reset.
const GRACE: Duration = Duration::from_millis(200);
/// The same after a shutdown without a limit.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// Cookie of those; others carry the index of an endpoint.
const LINGERING: u64 = u64::MAX;

pub(crate) struct Domain {
    // First, since dropping it waits for what it runs.
    pump: Pump,
    shown: Shown,
    /// Its number in the fabric, and the interface.
    number: u64,
    name: [u8; c::NAME_MAX],
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) mr_mode: MrMode,
    /// Apart: it is too large to be handed around on the stack.
    state: Mutex<Box<State>>,
    /// Memory that was lent has come back, or a connection has ended.
    back: Wait,
    _child: Child,
    _counted: Counted,
}

/// Everything under the domain's lock.
pub(crate) struct State {
    pub(crate) machine: Machine,
    connections: Vec<Option<Connection>>,
    /// Memory of operations, by their index; grows when they are posted, never because of a peer.
    memory: Vec<Pieces>,
    /// As many operations at most were there at the same time.
    most_ops: usize,
    /// Memory regions, by their index.
    regions: Vec<Pieces>,
    /// Event queues that endpoints are bound to, by identity.
    queues: Vec<(Fid, Weak<EventQueue>)>,
    /// Endpoints with something to do that no event will tell of again. Has room for all of them.
    ready: VecDeque<EpId>,
    scratch: Vec<u8>,
    pieces: Vec<Piece>,
    plan: WritePlan,
    /// What was sent on these may not have arrived yet. Has room for [`MAX_LINGERING`].
    lingering: VecDeque<Lingering>,
    /// What TCP reads on.
    loans: Loans,
    /// Completion queues of shared receive contexts, each as often as it is bound to one.
    shared_cqs: Vec<Arc<CompletionQueue>>,
    /// A list of memory for the next operation.
    pub(crate) spare: Pieces,
}

/// A connection that was shut down on this side.
struct Lingering {
    ep: EpId,
    socket: Socket,
    until: Instant,
}

/// An endpoint's transport.
struct Connection {
    id: EpId,
    socket: Option<Socket>,
    readable: bool,
    writable: bool,
    /// The peer has ended its stream.
    ended: bool,
    /// Writing has failed.
    broken: Option<Errno>,
    /// It is in [`State::ready`].
    queued: bool,
    /// When it was connected, and when that ended.
    since: Option<Instant>,
    until: Option<Instant>,
    /// Whether large payloads are lent to TCP: until it copies one all the same.
    lends: bool,
    /// How often that was done.
    lent: u64,
    /// Bytes that were read and wait for a receive to be posted.
    kept: Vec<u8>,
    /// How many of those have been used.
    kept_used: usize,
    /// Completion queues that its operations come to: one for each direction, or one for both.
    cqs: [Option<Arc<CompletionQueue>>; 2],
    /// Counters that count its operations, one for each kind at most.
    cntrs: [Option<Arc<Counter>>; 6],
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
            queued: false,
            since: None,
            until: None,
            lends: true,
            lent: 0,
            kept: Vec::new(),
            kept_used: 0,
            cqs: [None, None],
            cntrs: [const { None }; 6],
        }
    }

    fn has_kept(&self) -> bool {
        self.kept_used < self.kept.len()
    }
}

/// Grows a table so that it has a place for `index`.
fn grow<T>(table: &mut Vec<T>, index: usize, what: &'static str, empty: impl FnMut() -> T) -> Result<()> {
    let missing = (index + 1).saturating_sub(table.len());
    table.try_reserve(missing).map_err(|_| Error::NoMemory(what))?;
    table.resize_with(table.len() + missing, empty);
    Ok(())
}

impl Domain {
    #[inline(never)]
    fn open(fabric: &Arc<Fabric>, info: &c::Info) -> Result<Arc<Self>> {
        let provider = c::text(&info.fabric.prov_name);
        if !provider.is_empty() && provider != offer::NAME {
            return Err(system("fi_domain", Errno::ENODEV));
        }
        let mut mr_mode = MrMode::from_bits_retain(info.domain.mr_mode);
        if mr_mode.contains(MrMode::BASIC) {
            // fi_mr(3): "equivalent to requiring … FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, and FI_MR_PROV_KEY".
            mr_mode |= MrMode::VIRT_ADDR | MrMode::PROV_KEY;
        }
        let domain = c::share(
            Self {
                pump: Pump::new::<Self>()?,
                shown: Shown::none(),
                number: fabric.new_fid().0,
                name: info.domain.name,
                fabric: fabric.clone(),
                mr_mode,
                state: Mutex::new(LockClass::Domain, State::new(mr_mode)?)?,
                back: Wait::new()?,
                _child: fabric.child(|children| &mut children.domains),
                _counted: Counted::new(Class::Domain),
            },
            "a domain",
        )?;
        // SAFETY: it is in its final place, and drops its pump before anything else.
        unsafe { domain.pump.drive(Arc::as_ptr(&domain)) };
        let name = format_args!("domain-{}", domain.number);
        // SAFETY: as above, and hidden before it is closed.
        unsafe { domain.shown.file(&fabric.directory, name, Arc::as_ptr(&domain)) };
        Ok(domain)
    }

    /// The domain of a handle.
    pub(crate) fn given(call: &'static str, domain: *const Self) -> Result<Arc<Self>> {
        c::borrow(call, domain)?;
        // SAFETY: a handle, of an object that is not closed: there is one reference at least for as long as the call takes.
        unsafe {
            Arc::increment_strong_count(domain);
            Ok(Arc::from_raw(domain))
        }
    }

    pub(crate) fn pump(&self) -> &Pump {
        &self.pump
    }

    /// What the pump would do, for a task that was woken instead.
    pub(crate) fn see_to_events(&self) {
        if self.pump.has_events() {
            self.run();
        }
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked { state: self.state.lock(), pump: &self.pump, back: &self.back }
    }

    /// `fi_close` of an endpoint. Its socket is closed; its memory is its owner's when this returns.
    ///
    /// What TCP reads on is waited for, so that the peer gets it and what was sent before it; after a shutdown all that is queued is. When
    /// the time for that is over, or a signal comes, the connection is reset.
    pub(crate) fn close_endpoint(&self, ep: EpId) {
        let mut locked = self.lock();
        if let Some(connection) = locked.connection(ep) {
            connection.lends = false;
        }
        locked.flush(ep);
        let until = now().after(locked.patience(ep));
        let mut is_reset = false;
        loop {
            let seq = self.back.seq();
            if locked.machine.loans(ep) == 0 && locked.machine.state(ep) != Ok(EpState::Draining) {
                return locked.close(ep);
            }
            if !is_reset && now() >= until {
                locked.reset(ep);
                is_reset = true;
                continue;
            }
            drop(locked);
            if is_reset {
                self.back.sleep_quietly(seq);
            } else if self.back.sleep(None, seq, Some(until)) == Woken::Interrupted {
                self.lock().reset(ep);
                is_reset = true;
            }
            locked = self.lock();
        }
    }
}

impl Show for Domain {
    /// The domain with its queues, then its endpoints, by their index.
    fn next(&self, from: u64) -> Option<u64> {
        if from == 0 {
            return Some(0);
        }
        let state = self.state.lock();
        let first = u32::try_from(from - 1).ok()?;
        let mut places = first..state.machine.endpoint_places();
        places.find(|&index| state.machine.endpoint_at(index).is_some()).map(|index| u64::from(index) + 1)
    }

    fn show(&self, line: u64, out: &mut dyn Write) {
        let state = self.state.lock();
        let machine = &state.machine;
        let Some(index) = line.checked_sub(1).and_then(|index| u32::try_from(index).ok()) else {
            Object::new(out, "domain")
                .number("fid", self.number)
                .number("fabric", self.fabric.id)
                .text("name", c::text(&self.name))
                .domain(&machine.statistics());
            for queue in machine.cqs().filter_map(|cq| machine.cq_statistics(cq)) {
                Object::new(out, "completion_queue").number("domain", self.number).completion_queue(&queue);
            }
            return;
        };
        let Some(ep) = machine.endpoint_at(index) else { return };
        let Ok(mut statistics) = machine.endpoint_statistics(ep) else { return };
        let connection = state.connections.get(ep.index()).and_then(Option::as_ref);
        statistics.connected = connection.and_then(|connection| {
            let since = connection.since?;
            Some(connection.until.unwrap_or_else(now).until(since))
        });
        Object::new(out, "endpoint")
            .number("fid", index.into())
            .number("domain", self.number)
            .number("lent", connection.map_or(0, |connection| connection.lent))
            .endpoint(&statistics);
    }
}

impl Driven for Domain {
    fn run(&self) {
        self.lock().progress();
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // No object is left in it. Peers of what lingers are to get what was sent, as far as it is up to us.
        let lingering = core::mem::take(&mut self.state.lock().lingering);
        lingering.into_iter().for_each(|lingering| lingering.socket.close(true));
    }
}

/// The domain's state, and what drives it.
pub(crate) struct Locked<'a> {
    pub(crate) state: Guard<'a, Box<State>>,
    pump: &'a Pump,
    back: &'a Wait,
}

impl core::ops::Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl core::ops::DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Locked<'_> {
    /// Does what can be done without waiting.
    fn progress(&mut self) {
        if self.machine.next_deadline().is_some_and(|at| at <= now()) {
            self.machine.expire(now());
        }
        self.check_peers(now());
        while let Some((ep, op)) = self.loans.give_up(now()) {
            warn(
                "memory was not given back by the network 10 s after its connection was reset; it may still be read",
            );
            self.came_back(ep, op, false);
        }
        while let Some((cookie, events)) = self.pump.next() {
            if cookie == LINGERING {
                continue;
            }
            if let Some(place) = loans::place(cookie) {
                if let Some((ep, op)) = self.loans.back(place) {
                    self.came_back(ep, op, events & lease::COPIED != 0);
                }
                continue;
            }
            let Some(Some(connection)) = self.connections.get_mut(cookie as usize) else { continue };
            connection.readable |= events & socket::IN != 0;
            connection.writable |= events & socket::OUT != 0;
            connection.ended |= events & socket::OVER != 0;
            let ep = connection.id;
            self.machine.woken(ep);
            self.enqueue(ep);
        }
        self.end_lingering();
        let mut settled = false;
        for _ in 0..self.ready.len() {
            let Some(ep) = self.ready.pop_front() else { break };
            if let Some(connection) = self.connection(ep) {
                connection.queued = false;
                self.service(ep);
                settled = true;
            }
        }
        if !settled {
            self.settle();
        }
        if !self.ready.is_empty() {
            self.pump.kick();
        }
    }

    /// TCP does not read that memory any more.
    fn came_back(&mut self, ep: EpId, op: OpId, copied: bool) {
        if let Some(connection) = self.connection(ep) {
            connection.lends &= !copied;
            // A connection that breaks gives back first, and tells then.
            if connection.socket.as_ref().is_some_and(Socket::is_broken) {
                self.machine.cancel_loans(ep, Errno::ECONNRESET);
            }
        }
        self.machine.returned(ep, op);
        self.enqueue(ep);
        self.back.wake();
    }

    /// How long closing an endpoint waits for memory that is out.
    fn patience(&self, ep: EpId) -> Duration {
        match self.machine.state(ep) {
            Ok(EpState::Connected) => GRACE,
            _ => self.shutdown_limit(ep),
        }
    }

    /// How long memory is waited for after a shutdown.
    fn shutdown_limit(&self, ep: EpId) -> Duration {
        let limit = self.machine.limits(ep).ok().and_then(|limits| limits.shutdown);
        limit.unwrap_or(SHUTDOWN_GRACE)
    }

    /// Gives up a connection, so that all memory that was lent comes back.
    fn reset(&mut self, ep: EpId) {
        // An endpoint that is not closed.
        let _ = self.machine.abandon(ep);
        if let Some(socket) = self.connection(ep).and_then(|connection| connection.socket.take()) {
            self.call_back(ep, socket);
        } else if let Some(at) = self.lingering.iter().position(|lingering| lingering.ep == ep)
            && let Some(Lingering { socket, .. }) = self.lingering.remove(at)
        {
            self.call_back(ep, socket);
        }
        self.settle_endpoint(ep);
    }

    fn call_back(&mut self, ep: EpId, socket: Socket) {
        self.machine.cancel_loans(ep, Errno::ETIMEDOUT);
        socket.abort();
        self.loans.call_back(ep, now());
    }

    /// Does for an endpoint all that its transport allows now.
    pub(crate) fn service(&mut self, ep: EpId) {
        self.finish_connecting(ep);
        self.flush(ep);
        self.fill(ep);
        self.flush(ep);
        self.settle_endpoint(ep);
    }

    /// Makes a place for an endpoint that the machine has opened.
    pub(crate) fn add_endpoint(&mut self, ep: EpId) -> Result<()> {
        const WHAT: &str = "an endpoint";
        let count = self.connections.len() + 1;
        self.ready.try_reserve(count).map_err(|_| Error::NoMemory(WHAT))?;
        grow(&mut self.connections, ep.index(), WHAT, || None)?;
        if let Some(place) = self.connections.get_mut(ep.index()) {
            *place = Some(Connection::new(ep));
        }
        Ok(())
    }

    /// The endpoint's socket, from connect or accept.
    pub(crate) fn attach(&mut self, ep: EpId, socket: Socket) {
        if let Err(errno) = socket.watch(self.pump, ep.index() as u64) {
            socket.close(false);
            return self.failed_at_once(ep, errno);
        }
        if let Some(connection) = self.connection(ep) {
            // Whether these are true is found out by trying.
            connection.readable = true;
            connection.writable = true;
            connection.socket = Some(socket);
            self.machine.hurry_look(ep, now());
        }
        // On a quick network the connection is there already.
        self.service(ep);
    }

    /// How it went is an event, also when it did not get far.
    pub(crate) fn failed_at_once(&mut self, ep: EpId, errno: Errno) {
        self.machine.transport_failed(ep, errno);
        self.settle_endpoint(ep);
    }

    pub(crate) fn bind_eq(&mut self, eq: &Arc<EventQueue>) -> Result<()> {
        self.queues.retain(|(_, queue)| queue.strong_count() > 0);
        if let Err(place) = self.queues.binary_search_by_key(&eq.fid, |&(fid, _)| fid) {
            self.queues.try_reserve(1).map_err(|_| Error::NoMemory("an endpoint's event queue"))?;
            self.queues.insert(place, (eq.fid, Arc::downgrade(eq)));
        }
        Ok(())
    }

    pub(crate) fn bind_cq(&mut self, ep: EpId, cq: &Arc<CompletionQueue>) {
        if let Some(connection) = self.connection(ep)
            && !connection.cqs.iter().flatten().any(|known| Arc::ptr_eq(known, cq))
            && let Some(place) = connection.cqs.iter_mut().find(|place| place.is_none())
        {
            *place = Some(cq.clone());
        }
    }

    /// Makes room for the queue of a shared receive context.
    pub(crate) fn reserve_shared_cq(&mut self) -> Result<()> {
        self.shared_cqs.try_reserve(1).map_err(|_| Error::NoMemory("a shared receive context's queue"))
    }

    pub(crate) fn bind_shared_cq(&mut self, cq: &Arc<CompletionQueue>) {
        self.shared_cqs.push(cq.clone());
    }

    pub(crate) fn unbind_shared_cq(&mut self, cq: &Arc<CompletionQueue>) {
        if let Some(at) = self.shared_cqs.iter().position(|known| Arc::ptr_eq(known, cq)) {
            self.shared_cqs.swap_remove(at);
        }
    }

    /// Serves endpoints whose messages have found a receive.
    pub(crate) fn go_on(&mut self) {
        while let Some(ep) = self.machine.poll_resumed() {
            self.service(ep);
        }
    }

    pub(crate) fn bind_cntr(&mut self, ep: EpId, cntr: &Arc<Counter>) {
        if let Some(connection) = self.connection(ep)
            && !connection.cntrs.iter().flatten().any(|known| Arc::ptr_eq(known, cntr))
            && let Some(place) = connection.cntrs.iter_mut().find(|place| place.is_none())
        {
            *place = Some(cntr.clone());
        }
    }

    /// Gives an operation its memory. Its place was made by [`reserve_memory`](Self::reserve_memory).
    pub(crate) fn remember(&mut self, op: OpId, pieces: &mut Pieces) {
        if let Some(place) = self.memory.get_mut(op.index()) {
            core::mem::swap(place, pieces);
        }
    }

    /// `fi_mr_reg`, once the machine has named the region.
    pub(crate) fn put_region(&mut self, mr: MrId, pieces: &mut Pieces) -> Result<()> {
        grow(&mut self.regions, mr.index(), "a memory region", Pieces::default)?;
        if let Some(place) = self.regions.get_mut(mr.index()) {
            core::mem::swap(place, pieces);
        }
        Ok(())
    }

    /// `fi_close` of a memory region: from here on nothing reaches its memory.
    pub(crate) fn close_region(&mut self, mr: MrId) {
        if self.machine.close_mr(mr).is_ok() {
            if let Some(place) = self.regions.get_mut(mr.index()) {
                *place = Pieces::default();
            }
            self.settle();
        }
    }

    /// Gives messages in buffers for several their part of the memory. `false`: there was no memory for a list of that.
    #[must_use]
    fn split(&mut self) -> bool {
        let mut done = true;
        while let Some(Split { buffer, part, len }) = self.machine.poll_split() {
            // A place more because a peer has sent something; the completion queue bounds how many.
            done &= grow(&mut self.memory, part.index(), "a message", Pieces::default).is_ok();
            let taken = self.memory.get_mut(buffer.index()).and_then(|whole| whole.split_to(len));
            self.posted(part);
            if let Some(place) = self.memory.get_mut(part.index())
                && let Some(piece) = taken
            {
                place.set_one(piece);
            }
        }
        done
    }

    /// Where the memory of an operation begins.
    pub(crate) fn address(&self, op: OpId) -> u64 {
        self.memory.get(op.index()).map_or(0, Pieces::address)
    }

    pub(crate) fn forget(&mut self, op: OpId) {
        if let Some(pieces) = self.memory.get_mut(op.index()) {
            pieces.clear();
        }
    }

    /// Closes an endpoint that has nothing on loan.
    pub(crate) fn close(&mut self, ep: EpId) {
        notice::tell_endpoint(&self.machine, ep, &What::Closed);
        if self.machine.close_endpoint(ep).is_err() {
            return;
        }
        let connection = self.connections.get_mut(ep.index()).and_then(Option::take);
        if let Some(connection) = connection {
            if let Some(socket) = connection.socket {
                socket.close(connection.readable);
            }
            connection.cqs.iter().flatten().for_each(|cq| cq.notify(&self.machine));
            connection.cntrs.iter().flatten().for_each(|cntr| cntr.notify());
        }
        self.settle();
    }

    /// Ends a connection so that the peer gets all that was sent: see [`TransportCommand::Finish`].
    fn linger(&mut self, ep: EpId, socket: Socket) {
        socket.finish();
        let limit = self.machine.limits(ep).ok().and_then(|limits| limits.shutdown);
        let on_loan = self.machine.loans(ep) > 0;
        let until =
            now().after(if on_loan { self.shutdown_limit(ep) } else { limit.unwrap_or(Duration::MAX) });
        if socket.watch(self.pump, LINGERING).is_err() || !on_loan && socket.discard() {
            return self.end_finished(ep, socket);
        }
        if self.lingering.len() >= MAX_LINGERING
            && let Some(Lingering { ep, socket, .. }) = self.lingering.pop_front()
        {
            self.end_finished(ep, socket);
        }
        self.lingering.push_back(Lingering { ep, socket, until });
        self.pump.alarm(Some(until));
    }

    /// Looks which of those that linger are done, or out of time.
    fn end_lingering(&mut self) {
        let mut at = 0;
        while let Some(Lingering { ep, socket, until }) = self.lingering.get(at) {
            let waits = self.machine.loans(*ep) > 0 || !socket.discard();
            if waits && *until > now() {
                // Here, and not in `settle`, which each message comes by.
                self.pump.alarm(Some(*until));
                at += 1;
            } else if let Some(Lingering { ep, socket, .. }) = self.lingering.remove(at) {
                self.end_finished(ep, socket);
            }
        }
    }

    /// A connection has lingered long enough.
    fn end_finished(&mut self, ep: EpId, socket: Socket) {
        match self.machine.loans(ep) {
            0 => socket.close(true),
            _ => self.call_back(ep, socket),
        }
    }

    fn finish_connecting(&mut self, ep: EpId) {
        if self.machine.state(ep) != Ok(EpState::Connecting) {
            return;
        }
        let Some(Connection { socket: Some(socket), .. }) = self.connection(ep) else { return };
        match socket.connecting() {
            Connecting::Done(local) => self.machine.transport_open(ep, local),
            Connecting::Pending => {}
            Connecting::Failed(errno) => self.machine.transport_failed(ep, errno),
        }
    }

    /// Does what the machine has to say after an endpoint was dealt with.
    pub(crate) fn settle_endpoint(&mut self, ep: EpId) {
        self.settle();
        let State { machine, connections, .. } = &mut **self.state;
        if let Some(Some(connection)) = connections.get(ep.index()) {
            connection.cqs.iter().flatten().for_each(|cq| cq.notify(machine));
            connection.cntrs.iter().flatten().for_each(|cntr| cntr.notify());
        }
    }

    /// Does what the machine has to say: transports to be closed, events, memory that is free.
    pub(crate) fn settle(&mut self) {
        // Where there was no memory, nothing has been received yet, and will not be: it is asked for anew before that.
        let _ = self.split();
        while let Some((ep, command)) = self.machine.poll_transport() {
            self.back.wake();
            if let Some(connection) = self.connection(ep) {
                if command == TransportCommand::EndOutput {
                    if let Some(socket) = &connection.socket {
                        socket.finish();
                    }
                } else {
                    connection.kept = Vec::new();
                    connection.kept_used = 0;
                    let (socket, readable) = (connection.socket.take(), connection.readable);
                    match socket {
                        Some(socket) if command == TransportCommand::Finish => self.linger(ep, socket),
                        Some(socket) if self.machine.loans(ep) > 0 => self.call_back(ep, socket),
                        Some(socket) => socket.close(readable),
                        None => {}
                    }
                }
                let State { machine, connections, .. } = &mut **self.state;
                if let Some(Some(connection)) = connections.get(ep.index()) {
                    connection.cqs.iter().flatten().for_each(|cq| cq.notify(machine));
                    connection.cntrs.iter().flatten().for_each(|cntr| cntr.notify());
                }
            }
        }
        while let Some((ep, eq, entry)) = self.machine.poll_endpoint_event() {
            self.happened(ep, &entry);
            let found = self.queues.binary_search_by_key(&eq, |&(fid, _)| fid).ok();
            let queue = found.and_then(|place| self.queues.get(place)).and_then(|(_, queue)| queue.upgrade());
            if let Some(queue) = queue {
                queue.fill(|queue| queue.push(entry));
            }
        }
        while let Some(op) = self.machine.poll_released() {
            self.forget(op);
        }
        while let Some(ep) = self.machine.poll_resumed() {
            self.enqueue(ep);
            self.pump.kick();
        }
        self.shared_cqs.iter().for_each(|cq| cq.notify(&self.machine));
        if self.machine.wants_look() {
            self.machine.plan_look(now());
        }
        let machine = self.machine.next_deadline().into_iter().chain(self.machine.next_look());
        let at = machine.chain(self.loans.deadline()).min();
        self.pump.alarm(at);
    }
}

impl State {
    #[inline(never)]
    fn new(mr_mode: MrMode) -> Result<Box<Self>> {
        const NO_MEMORY: Error = Error::NoMemory("a domain");
        let (mut scratch, mut pieces, mut lingering) = (Vec::new(), Vec::new(), VecDeque::new());
        scratch.try_reserve_exact(SCRATCH).map_err(|_| NO_MEMORY)?;
        scratch.resize(SCRATCH, 0);
        pieces.try_reserve_exact(MAX_PIECES).map_err(|_| NO_MEMORY)?;
        lingering.try_reserve_exact(MAX_LINGERING).map_err(|_| NO_MEMORY)?;
        let state = Self {
            machine: Machine::new(fabric::limits()).with_mr_mode(mr_mode),
            connections: Vec::new(),
            memory: Vec::new(),
            most_ops: 0,
            regions: Vec::new(),
            queues: Vec::new(),
            ready: VecDeque::new(),
            scratch,
            pieces,
            plan: WritePlan::new(SEGMENTS)?,
            lingering,
            loans: Loans::default(),
            shared_cqs: Vec::new(),
            spare: Pieces::default(),
        };
        Box::try_new(state).map_err(|_| NO_MEMORY)
    }

    fn connection(&mut self, ep: EpId) -> Option<&mut Connection> {
        self.connections.get_mut(ep.index())?.as_mut().filter(|connection| connection.id == ep)
    }

    /// An event of an endpoint's connection.
    fn happened(&mut self, ep: EpId, entry: &Entry) {
        let what = match &entry.event {
            Event::Connected { data } => {
                if let Some(connection) = self.connection(ep) {
                    connection.since = Some(now());
                }
                What::Connected(data.len())
            }
            Event::Shutdown { reason } => {
                if let Some(connection) = self.connection(ep) {
                    connection.until = Some(now());
                }
                What::Shutdown(*reason)
            }
            Event::Error { reason, .. } => What::Failed(*reason),
            _ => return,
        };
        notice::tell_endpoint(&self.machine, ep, &what);
    }

    /// Looks whether peers answer that were sent something, once that is due.
    fn check_peers(&mut self, now: Instant) {
        while let Some(ep) = self.machine.poll_look(now) {
            let on_loan = self.machine.loans(ep) > 0;
            if let Some(socket) = self.connection(ep).and_then(|connection| connection.socket.as_ref()) {
                let answers = socket.answers();
                if on_loan && !answers.outstanding {
                    // The peer has it all, but a network card has not let go of it.
                    socket.nudge();
                }
                self.machine.check_peer(ep, &answers, now);
            }
        }
    }

    fn enqueue(&mut self, ep: EpId) {
        if let Some(connection) = self.connection(ep)
            && !connection.queued
        {
            connection.queued = true;
            self.ready.push_back(ep);
        }
    }

    /// Makes sure that there is a place for the memory of whatever operation is posted next.
    pub(crate) fn reserve_memory(&mut self) -> Result<()> {
        // The machine takes a free place, or the next one behind all.
        let next = self.most_ops + 1;
        grow(&mut self.memory, next, "the memory of an operation", Pieces::default)
    }

    /// An operation was posted.
    pub(crate) fn posted(&mut self, op: OpId) {
        self.most_ops = self.most_ops.max(op.index() + 1);
    }
}

/// The memory that bytes go to.
fn memory_of<'a>(memory: &'a [Pieces], regions: &'a [Pieces], which: Memory) -> Option<&'a Pieces> {
    match which {
        Memory::Operation(op) => memory.get(op.index()),
        Memory::Region(mr) => regions.get(mr.index()),
    }
}

/// Refuses an info that is not for this kind of endpoint.
pub(crate) fn check_type(call: &'static str, info: &c::Info) -> Result<()> {
    match info.ep.ep_type {
        getinfo::EP_MSG => Ok(()),
        _ => {
            Err(Error::Invalid { call, problem: "the info is not for FI_EP_MSG; ask getinfo for that type" })
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_domain_open(
    fabric: *const Fabric,
    info: *const c::Info,
    domain: *mut *const Domain,
) -> c_int {
    const CALL: &str = "fi_domain";
    error::result((|| {
        let fabric = Fabric::given(CALL, fabric)?;
        let place = c::place(CALL, domain)?;
        c::give(place, Domain::open(&fabric, c::borrow(CALL, info)?)?);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_domain_close(domain: *const Domain) -> c_int {
    error::result((|| {
        let object = c::borrow("fi_close", domain)?;
        object.lock().machine.check_close()?;
        object.shown.hide();
        // SAFETY: the caller's handle, which it gives up.
        unsafe { c::take_back(domain) };
        Ok(())
    })())
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Clock, transport connections and listeners of the simulated network.
//!
//! A connection is two pipes. What is written into one arrives after a delay, in order; each read
//! and write moves as much as the [`Profile`] lets it. An end that closes with unread bytes, or that
//! is sent bytes after it closed, resets the connection, as the protocol says.

use core::cmp::{Ordering, Reverse};
use core::ops::Range;
use std::collections::{BinaryHeap, VecDeque};

use kofi_core::{Errno, RequestId, SocketAddr};

use super::observer::Observer;
use crate::world::{Death, Endpoint, PassiveEndpoint, Raw, RawListener, Request};

/// How much a transport call moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// As much as there is.
    Whole,
    /// At most this much.
    AtMost(usize),
    /// Anything from one byte on; small pieces are common.
    Random,
}

/// The manners of a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Delay of whatever crosses the network, nanoseconds.
    pub latency: Range<u64>,
    /// Delay until a process gets to run, nanoseconds.
    pub scheduling: Range<u64>,
    /// How much a transport call moves.
    pub piece: Piece,
    /// Bytes that a connection holds in each direction.
    pub capacity: usize,
    /// How long the transport reads memory of operations on after it has taken their bytes, nanoseconds;
    /// none: it copies them.
    pub lending: Option<Range<u64>>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            latency: 10_000..50_000,
            scheduling: 100..2_000,
            piece: Piece::Whole,
            capacity: 64 * 1024,
            lending: None,
        }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) connection: u32,
    /// 0: made it, 1: was asked.
    pub(crate) side: u8,
}

impl End {
    pub(crate) fn other(self) -> Self {
        Self { side: 1 - self.side, ..self }
    }
}

/// Who uses an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Nobody,
    Backlog(u32),
    Endpoint(Endpoint),
    Arriving(PassiveEndpoint, RequestId),
    Request(Request),
    Raw(Raw),
}

/// Something to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// An endpoint may read or write.
    Endpoint(Endpoint),
    /// A listener may accept.
    Passive(PassiveEndpoint),
    /// A request may read.
    Arriving(PassiveEndpoint, RequestId),
    /// The transport has read what an endpoint lent it, by its number.
    Returned(Endpoint, u64),
    /// A deadline of a domain.
    DomainTimer(u32),
    /// A deadline of a passive endpoint.
    PassiveTimer(PassiveEndpoint),
    /// A request that waits for its decision is over its limit.
    RequestTimer(Request),
    /// The transport connection of an endpoint is there, or cannot be had.
    Opened(Endpoint, u32, Option<Errno>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arrival {
    Bytes(usize),
    Fin,
    Reset,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Happening {
    Arrival(End, Arrival),
    Syn(u32, u8),
    Task(Task),
}

#[derive(PartialEq, Eq)]
struct Scheduled {
    at: u64,
    order: u64,
    happening: Happening,
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What comes into an end.
#[derive(Default)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    /// The first of `bytes`, which the reader can see.
    arrived: usize,
    /// The stream has ended, as far as the reader can see.
    ended: bool,
    /// The writer has ended the stream.
    finished: bool,
    /// Not before the last arrival.
    last_arrival: u64,
    /// The writer waits for room.
    starved: bool,
    written: u64,
    dies_after: Option<(u64, Death)>,
    observer: Option<Observer>,
}

pub(crate) struct Connection {
    pub(crate) address: [SocketAddr; 2],
    pub(crate) owner: [Owner; 2],
    /// `pipes[side]` comes into the end `side`.
    pipes: [Pipe; 2],
    capacity: usize,
    closed: [bool; 2],
    error: [Option<Errno>; 2],
}

pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    pub(crate) backlog: usize,
    pub(crate) queue: VecDeque<u32>,
    pub(crate) owner: Waker,
    pub(crate) open: bool,
}

/// Who is woken for a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waker {
    Passive(PassiveEndpoint),
    Raw(RawListener),
}

/// What a read found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Bytes(usize),
    Nothing,
    End,
    Error(Errno),
}

pub(crate) struct Network {
    pub(crate) now: u64,
    pub(crate) rng: fastrand::Rng,
    pub(crate) profile: Profile,
    pub(crate) happened: u64,
    /// Breaches of the protocol that an observer has seen.
    pub(crate) breaches: Vec<String>,
    pub(crate) observe: bool,
    pub(crate) silent: Vec<SocketAddr>,
    /// For the pipe that an end writes into from its start, taken by the next connect or accept.
    pub(crate) next_death: [Option<(u64, Death)>; 2],
    heap: BinaryHeap<Reverse<Scheduled>>,
    order: u64,
    connections: Vec<Connection>,
    listeners: Vec<Listener>,
    next_port: u16,
}

impl Network {
    pub(crate) fn new(seed: u64, profile: Profile) -> Self {
        Self {
            now: 0,
            rng: fastrand::Rng::with_seed(seed),
            profile,
            happened: 0,
            breaches: Vec::new(),
            observe: true,
            silent: Vec::new(),
            next_death: [None; 2],
            heap: BinaryHeap::new(),
            order: 0,
            connections: Vec::new(),
            listeners: Vec::new(),
            next_port: 49_152,
        }
    }

    // The clock.

    pub(crate) fn latency(&mut self) -> u64 {
        let range = self.profile.latency.clone();
        self.rng.u64(range)
    }

    fn scheduling(&mut self) -> u64 {
        let range = self.profile.scheduling.clone();
        self.rng.u64(range)
    }

    fn schedule(&mut self, at: u64, happening: Happening) {
        self.order += 1;
        self.heap.push(Reverse(Scheduled { at, order: self.order, happening }));
    }

    /// Does `task` when its process gets to run.
    pub(crate) fn soon(&mut self, task: Task) {
        let at = self.now + self.scheduling();
        self.schedule(at, Happening::Task(task));
    }

    pub(crate) fn at(&mut self, at: u64, task: Task) {
        self.schedule(at.max(self.now), Happening::Task(task));
    }

    /// Whether nothing will ever happen by itself.
    pub(crate) fn is_idle(&self) -> bool {
        self.heap.is_empty()
    }

    /// The next thing that happens until `limit`; the inner `None` was the network's own affair.
    pub(crate) fn next(&mut self, limit: u64) -> Option<Option<Task>> {
        if self.heap.peek().is_none_or(|Reverse(next)| next.at > limit) {
            self.now = self.now.max(limit);
            return None;
        }
        let Reverse(next) = self.heap.pop()?;
        self.now = next.at;
        self.happened += 1;
        Some(match next.happening {
            Happening::Task(task) => Some(task),
            Happening::Arrival(end, arrival) => self.arrive(end, arrival),
            Happening::Syn(connection, attempt) => self.syn(connection, attempt),
        })
    }

    // Listeners.

    /// A free port for `address` if its port is 0.
    pub(crate) fn bind(&mut self, mut address: SocketAddr) -> Result<SocketAddr, Errno> {
        if address.port() == 0 {
            address.set_port(self.next_port);
            self.next_port = self.next_port.checked_add(1).unwrap_or(49_152);
        } else if self.listeners.iter().any(|listener| listener.open && listener.address == address) {
            return Err(Errno::EADDRINUSE);
        }
        Ok(address)
    }

    pub(crate) fn listen(&mut self, address: SocketAddr, backlog: usize, owner: Waker) -> Result<u32, Errno> {
        if self.listeners.iter().any(|listener| listener.open && listener.address == address) {
            return Err(Errno::EADDRINUSE);
        }
        self.listeners.push(Listener { address, backlog, queue: VecDeque::new(), owner, open: true });
        Ok(self.listeners.len() as u32 - 1)
    }

    pub(crate) fn backlog(&self, listener: u32) -> usize {
        self.listeners.get(listener as usize).map_or(0, |listener| listener.queue.len())
    }

    pub(crate) fn accept(&mut self, listener: u32) -> Option<End> {
        let connection = self.listeners.get_mut(listener as usize)?.queue.pop_front()?;
        let end = End { connection, side: 1 };
        if let Some(dies) = self.next_death[1].take() {
            self.die_after(end, dies.0, dies.1);
        }
        Some(end)
    }

    /// Stops listening; connections in the backlog are reset.
    pub(crate) fn close_listener(&mut self, listener: u32) {
        let Some(listener) = self.listeners.get_mut(listener as usize) else { return };
        listener.open = false;
        for connection in core::mem::take(&mut listener.queue) {
            self.reset(End { connection, side: 1 });
        }
    }

    // Connections.

    pub(crate) fn connection(&self, id: u32) -> Option<&Connection> {
        self.connections.get(id as usize)
    }

    pub(crate) fn connect(&mut self, local: SocketAddr, peer: SocketAddr, owner: Owner) -> End {
        let local = self.bind(local).unwrap_or(local);
        let capacity = self.profile.capacity;
        let mut pipes = [Pipe::default(), Pipe::default()];
        if self.observe {
            pipes[0].observer = Some(Observer::default());
            pipes[1].observer = Some(Observer::default());
        }
        let connection = self.connections.len() as u32;
        self.connections.push(Connection {
            address: [local, peer],
            owner: [owner, Owner::Nobody],
            pipes,
            capacity,
            closed: [false; 2],
            error: [None; 2],
        });
        let end = End { connection, side: 0 };
        if let Some(dies) = self.next_death[0].take() {
            self.die_after(end, dies.0, dies.1);
        }
        let at = self.now + self.latency();
        self.schedule(at, Happening::Syn(connection, 0));
        end
    }

    /// A request for a transport connection reaches the other host.
    fn syn(&mut self, id: u32, attempt: u8) -> Option<Task> {
        let connection = self.connections.get(id as usize)?;
        let [_, to] = connection.address;
        let owner = connection.owner[0];
        if connection.closed[0] || self.silent.contains(&to) {
            return None;
        }
        let back = self.now + self.latency();
        let opened = |owner, error| match owner {
            Owner::Endpoint(ep) => Some(Task::Opened(ep, id, error)),
            _ => None,
        };
        let found = self.listeners.iter().position(|listener| {
            listener.open
                && listener.address.port() == to.port()
                && (listener.address.ip() == to.ip()
                    || listener.address.ip().is_unspecified() && listener.address.is_ipv4() == to.is_ipv4())
        });
        let Some(index) = found else {
            if let Some(connection) = self.connections.get_mut(id as usize) {
                connection.error[0] = Some(Errno::ECONNREFUSED);
                connection.closed[1] = true;
            }
            if let Some(task) = opened(owner, Some(Errno::ECONNREFUSED)) {
                self.schedule(back, Happening::Task(task));
            }
            return None;
        };
        let listener = &mut self.listeners[index];
        if listener.queue.len() >= listener.backlog {
            // The other system does not answer while its backlog is full; ours tries again.
            let again = self.now + (200_000_000 << attempt.min(8));
            self.schedule(again, Happening::Syn(id, attempt.saturating_add(1)));
            return None;
        }
        listener.queue.push_back(id);
        let waker = listener.owner;
        if let Some(connection) = self.connections.get_mut(id as usize) {
            connection.owner[1] = Owner::Backlog(index as u32);
        }
        if let Some(task) = opened(owner, None) {
            self.schedule(back, Happening::Task(task));
        }
        match waker {
            Waker::Passive(pep) => Some(Task::Passive(pep)),
            Waker::Raw(_) => None,
        }
    }

    pub(crate) fn set_owner(&mut self, end: End, owner: Owner) {
        if let Some(connection) = self.connections.get_mut(end.connection as usize) {
            connection.owner[usize::from(end.side)] = owner;
        }
    }

    /// A raw peer speaks out of `end`: nobody checks what it says.
    pub(crate) fn unobserve(&mut self, end: End) {
        if let Some(connection) = self.connections.get_mut(end.connection as usize) {
            connection.pipes[usize::from(1 - end.side)].observer = None;
        }
    }

    /// The end dies once it has written `bytes` more bytes.
    pub(crate) fn die_after(&mut self, end: End, bytes: u64, death: Death) {
        if let Some(connection) = self.connections.get_mut(end.connection as usize) {
            let pipe = &mut connection.pipes[usize::from(1 - end.side)];
            pipe.dies_after = Some((pipe.written + bytes, death));
        }
        if bytes == 0 {
            self.die(end, death);
        }
    }

    /// Most bytes that a write takes.
    pub(crate) fn most_written(&self) -> usize {
        match self.profile.piece {
            Piece::AtMost(most) => most,
            Piece::Whole | Piece::Random => self.profile.capacity,
        }
    }

    /// How much of `len` a call moves now.
    pub(crate) fn piece(&mut self, len: usize) -> usize {
        if len <= 1 {
            return len;
        }
        match self.profile.piece {
            Piece::Whole => len,
            Piece::AtMost(most) => len.min(most),
            Piece::Random => match self.rng.u8(..) {
                0..=39 => 1,
                40..=99 => self.rng.usize(1..=len.min(40)),
                100..=159 => self.rng.usize(1..=len),
                _ => len,
            },
        }
    }

    pub(crate) fn is_open(&self, end: End) -> bool {
        let side = usize::from(end.side);
        self.connection(end.connection).is_some_and(|c| !c.closed[side] && c.error[side].is_none())
    }

    pub(crate) fn readable(&self, end: End) -> usize {
        self.connection(end.connection).map_or(0, |c| c.pipes[usize::from(end.side)].arrived)
    }

    /// Whether the reader would find the end of the stream behind what has arrived.
    pub(crate) fn has_ended(&self, end: End) -> bool {
        let side = usize::from(end.side);
        self.connection(end.connection).is_none_or(|c| c.pipes[side].ended || c.error[side].is_some())
    }

    /// Whether a write would be of use.
    pub(crate) fn writable(&self, end: End) -> bool {
        let other = usize::from(1 - end.side);
        self.connection(end.connection).is_some_and(|c| {
            c.pipes[other].bytes.len() < c.capacity || c.error[usize::from(end.side)].is_some()
        })
    }

    /// Reads at most `most` bytes to the end of `into`.
    pub(crate) fn read(&mut self, end: End, most: usize, into: &mut Vec<u8>) -> Found {
        let side = usize::from(end.side);
        let available = self.readable(end).min(most);
        let len = self.piece(available);
        let Some(connection) = self.connections.get_mut(end.connection as usize) else { return Found::End };
        let pipe = &mut connection.pipes[side];
        if len == 0 {
            return match connection.error[side] {
                _ if most == 0 || pipe.arrived > 0 => Found::Nothing,
                Some(errno) => Found::Error(errno),
                None if pipe.ended => Found::End,
                None => Found::Nothing,
            };
        }
        let (front, back) = pipe.bytes.as_slices();
        let from_front = front.len().min(len);
        into.extend_from_slice(&front[..from_front]);
        into.extend_from_slice(&back[..len - from_front]);
        pipe.bytes.drain(..len);
        pipe.arrived -= len;
        if core::mem::take(&mut pipe.starved) {
            let writer = connection.owner[1 - side];
            self.wake(writer);
        }
        Found::Bytes(len)
    }

    /// Writes a part of `bytes` and gives its length.
    pub(crate) fn write(&mut self, end: End, bytes: &[u8]) -> Result<usize, Errno> {
        let side = usize::from(end.side);
        let Some(connection) = self.connections.get_mut(end.connection as usize) else {
            return Err(Errno::EPIPE);
        };
        if let Some(errno) = connection.error[side] {
            return Err(errno);
        }
        if connection.closed[side] {
            return Err(Errno::EPIPE);
        }
        let pipe = &mut connection.pipes[1 - side];
        let room = connection.capacity.saturating_sub(pipe.bytes.len());
        // Also when this fits exactly: the writer may have more than it has planned.
        pipe.starved = room <= bytes.len();
        // A fresh connection takes a whole connection message, whatever the profile says.
        let whole = pipe.written == 0 && matches!(self.profile.piece, Piece::Whole);
        let len = if whole { bytes.len().min(room) } else { self.piece(bytes.len().min(room)) };
        self.put(end, &bytes[..len]);
        Ok(len)
    }

    /// Puts all of `bytes` into the connection.
    pub(crate) fn put(&mut self, end: End, bytes: &[u8]) {
        let other = end.other();
        let delay = self.latency();
        let now = self.now;
        let Some(connection) = self.connections.get_mut(end.connection as usize) else { return };
        let pipe = &mut connection.pipes[usize::from(other.side)];
        let mut len = bytes.len();
        let mut death = None;
        if let Some((limit, how)) = pipe.dies_after
            && pipe.written + len as u64 >= limit
        {
            len = (limit - pipe.written) as usize;
            death = Some(how);
            pipe.dies_after = None;
        }
        let bytes = &bytes[..len];
        if len > 0 {
            pipe.bytes.extend(bytes);
            pipe.written += len as u64;
            pipe.last_arrival = (now + delay).max(pipe.last_arrival);
            let at = pipe.last_arrival;
            let breach = pipe.observer.as_mut().and_then(|observer| observer.see(end.side, bytes));
            if let Some(breach) = breach {
                pipe.observer = None;
                self.breaches.push(format!("connection {} side {}: {breach}", end.connection, end.side));
            }
            self.schedule(at, Happening::Arrival(other, Arrival::Bytes(len)));
        }
        if let Some(death) = death {
            self.die(end, death);
        }
    }

    /// The process behind `end` is gone.
    pub(crate) fn die(&mut self, end: End, death: Death) {
        let side = usize::from(end.side);
        let Some(connection) = self.connections.get_mut(end.connection as usize) else { return };
        let owner = connection.owner[side];
        connection.error[side].get_or_insert(Errno::ECONNRESET);
        match death {
            Death::Killed => self.close(end),
            Death::Reset => self.reset(end),
        }
        self.wake(owner);
    }

    /// Ends the outgoing stream.
    pub(crate) fn finish(&mut self, end: End) {
        let delay = self.latency();
        let now = self.now;
        let Some(connection) = self.connections.get_mut(end.connection as usize) else { return };
        let pipe = &mut connection.pipes[usize::from(1 - end.side)];
        if core::mem::replace(&mut pipe.finished, true) {
            return;
        }
        pipe.last_arrival = (now + delay).max(pipe.last_arrival);
        let at = pipe.last_arrival;
        self.schedule(at, Happening::Arrival(end.other(), Arrival::Fin));
    }

    /// Closes the end; unread bytes make it a reset.
    pub(crate) fn close(&mut self, end: End) {
        let side = usize::from(end.side);
        let Some(connection) = self.connections.get_mut(end.connection as usize) else { return };
        if connection.closed[side] {
            return;
        }
        connection.owner[side] = Owner::Nobody;
        if connection.pipes[side].arrived > 0 {
            return self.reset(end);
        }
        connection.closed[side] = true;
        self.finish(end);
    }

    /// Closes the end so that memory comes back that was lent to it: by a reset, if it is not broken already.
    pub(crate) fn recall(&mut self, end: End) {
        if self.is_open(end) { self.reset(end) } else { self.close(end) }
    }

    /// Breaks the connection from this end.
    pub(crate) fn reset(&mut self, end: End) {
        let side = usize::from(end.side);
        let at = self.now + self.latency();
        let Some(connection) = self.connections.get_mut(end.connection as usize) else { return };
        connection.closed[side] = true;
        connection.owner[side] = Owner::Nobody;
        self.schedule(at, Happening::Arrival(end.other(), Arrival::Reset));
    }

    /// Breaks the connection in the middle: both ends find out.
    pub(crate) fn break_connection(&mut self, end: End) {
        for end in [end, end.other()] {
            let at = self.now + self.latency();
            self.schedule(at, Happening::Arrival(end, Arrival::Reset));
        }
    }

    fn arrive(&mut self, end: End, arrival: Arrival) -> Option<Task> {
        let side = usize::from(end.side);
        let connection = self.connections.get_mut(end.connection as usize)?;
        if connection.closed[side] || connection.error[side].is_some() {
            // Bytes for an end that is gone are answered by a reset.
            if matches!(arrival, Arrival::Bytes(_)) && connection.closed[side] && !connection.closed[1 - side]
            {
                connection.pipes[side].bytes.clear();
                connection.pipes[side].arrived = 0;
                let at = self.now + self.latency();
                self.schedule(at, Happening::Arrival(end.other(), Arrival::Reset));
            }
            return None;
        }
        let pipe = &mut connection.pipes[side];
        match arrival {
            Arrival::Bytes(len) => pipe.arrived += len,
            Arrival::Fin => pipe.ended = true,
            Arrival::Reset => {
                let arrived = pipe.arrived;
                pipe.bytes.truncate(arrived);
                connection.error[side] = Some(Errno::ECONNRESET);
            }
        }
        let owner = connection.owner[side];
        self.wake(owner);
        None
    }

    fn wake(&mut self, owner: Owner) {
        match owner {
            Owner::Endpoint(ep) => self.soon(Task::Endpoint(ep)),
            Owner::Arriving(pep, request) => self.soon(Task::Arriving(pep, request)),
            Owner::Nobody | Owner::Backlog(_) | Owner::Request(_) | Owner::Raw(_) => {}
        }
    }
}

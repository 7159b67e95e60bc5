// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Random schedules: everything in one follows from its seed, and a model beside it knows what has to
//! come of it.
//!
//! What must hold in each: an operation completes exactly once, with the right contents and in the
//! right order; `FI_CONNECTED` or one error entry for each attempt to connect; `FI_SHUTDOWN` once and
//! last, after the last completion; nothing hangs; an honest client gets through once the trouble is
//! over; everything can be closed in the end, in the legal order and no other; nothing is left.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::OnceLock;

use kofi_core::attr::{CqAttr, EqAttr};
use kofi_core::{EndpointAttr, Errno, Error, OpFlags, SrxAttr, TimeLimits};

use crate::allocator;
use crate::simulator::{Piece, Profile, Simulator};
use crate::world::{
    Completion, CompletionError, CompletionQueue, Counter, Death, Domain, Endpoint, Event, EventQueue,
    Fabric, Family, Faults, MemoryRegion, Object, PassiveEndpoint, Raw, RawListener, RawPeers, ReceiveOp,
    RegionOp, Request, RmaIov, SendOp, SharedReceive, SocketAddr, World,
};

/// The first bytes of an honest client's private data.
const HONEST: [u8; 4] = *b"kofi";
/// Longest message.
const LONGEST: usize = 64 * 1024;
/// Bytes of the memory that each end of a connection opens to the other: one half is only read, the
/// other one is written to.
const WINDOW: usize = 8192;
const HALF: usize = WINDOW / 2;
/// Keys of windows have these bits, so that no stranger names one.
const KEY: u64 = 0x6b6f_6669_0000_0000;
/// A region of each side that strangers do name.
const COMMON: u64 = 1;
/// Completion data that says which connection and end a message is for has these bits.
const NAMED: u64 = 0x7372_7800_0000_0000;
const NAMED_MASK: u64 = 0xffff_ff00_0000_0000;
/// Everything is over by then, when no trouble is made any more.
const END: Duration = Duration::from_secs(60);

/// What a schedule did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Things that happened in the simulated world.
    pub happened: u64,
    /// Connections that came about.
    pub connections: u64,
    /// Attempts to connect that failed, as they should.
    pub failures: u64,
    /// Sends posted.
    pub sends: u64,
    /// Messages received.
    pub messages: u64,
    /// Reads and writes of remote memory posted.
    pub accesses: u64,
    /// Of those, the ones that endpoints' shared receives took.
    pub shared: u64,
    /// And those that were one of several in a buffer.
    pub parts: u64,
    /// Operations cancelled, before they began.
    pub cancelled: u64,
    /// Operations that completed with an error.
    pub errors: u64,
    /// Virtual time, nanoseconds.
    pub virtual_time: u64,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.happened += other.happened;
        self.connections += other.connections;
        self.failures += other.failures;
        self.sends += other.sends;
        self.messages += other.messages;
        self.shared += other.shared;
        self.parts += other.parts;
        self.cancelled += other.cancelled;
        self.accesses += other.accesses;
        self.errors += other.errors;
        self.virtual_time += other.virtual_time;
    }
}

/// Runs one schedule; panics when something that must hold does not, and shows what happened before
/// if that is to be recorded.
pub fn run(seed: u64, trace: bool) -> Tally {
    play(seed, trace).tally
}

/// Runs one schedule and gives what happened, too.
pub fn replay(seed: u64) -> (Tally, Vec<String>) {
    let schedule = play(seed, true);
    (schedule.tally, schedule.sim.trace().map(str::to_owned).collect())
}

fn play(seed: u64, trace: bool) -> Schedule {
    allocator::fail(0);
    let mut schedule = Schedule::new(seed, trace);
    schedule.play();
    schedule.finish();
    schedule.tally.happened = schedule.sim.happened();
    schedule.tally.virtual_time = schedule.sim.now().as_nanos() as u64;
    schedule
}

/// Bytes that messages are made of.
fn contents(salt: u64, len: usize) -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| {
        let mut rng = fastrand::Rng::with_seed(7);
        core::iter::repeat_with(|| rng.u8(..)).take(2 * LONGEST).collect()
    });
    let from = (salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % LONGEST;
    &bytes[from..from + len]
}

struct Side {
    fabric: Fabric,
    domain: Domain,
    eq: EventQueue,
    /// Most unread connection requests.
    eq_size: usize,
    tx_cq: CompletionQueue,
    rx_cq: CompletionQueue,
    common: MemoryRegion,
    /// Of all operations of its endpoints.
    counter: Counter,
    /// Receives that some of its endpoints share, and the queue for those that no message has met.
    srx: Option<(SharedReceive, CompletionQueue)>,
    /// What a shared buffer for several messages has to have left.
    min: usize,
    /// Shared receives that no message is known to have met, in order.
    receives: VecDeque<usize>,
    /// The newest one that a message has met.
    newest: usize,
    /// What was counted of those, and of messages in buffers for several.
    counted: u64,
}

struct Listener {
    side: usize,
    pep: PassiveEndpoint,
    address: SocketAddr,
    open: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Starting,
    Connected,
    Over,
    Failed,
    Closed,
}

struct Ep {
    handle: Endpoint,
    side: usize,
    phase: Phase,
    /// A connection of the model, and which end of it; none with a stranger at the other end.
    link: Option<(usize, usize)>,
    /// Its receives are its side's.
    shared: bool,
    /// What a buffer for several messages has to have left.
    min: usize,
    /// Receives that no message has met, in order.
    receives: VecDeque<usize>,
    /// Sends and writes by kind (acknowledged or not), and reads, that have not completed, in order.
    sends: [VecDeque<usize>; 3],
    selective: bool,
    /// Private data of its connect.
    asked: Vec<u8>,
    /// What a rejecter gave.
    rejected: Option<Vec<u8>>,
    shut: bool,
}

struct Message {
    salt: u64,
    len: usize,
    data: Option<u64>,
    /// It was never sent.
    cancelled: bool,
}

/// Memory that one end of a connection opens to the other.
struct Window {
    /// None once it is closed.
    mr: Option<MemoryRegion>,
    key: u64,
    /// What is in it once all that was posted has arrived.
    bytes: Vec<u8>,
    /// Writes posted.
    writes: usize,
    /// Completion data of those that had some, and their length.
    data: Vec<(u64, usize)>,
    /// How many of those were told.
    told: usize,
}

#[derive(Default)]
struct Link {
    sent: [Vec<Message>; 2],
    /// By the end that receives.
    received: [usize; 2],
    answer: Vec<u8>,
    /// By the end whose memory it is.
    windows: [Option<Window>; 2],
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Send {
        number: usize,
        ack: bool,
    },
    /// `writes`: of the window, with this one.
    Write {
        writes: usize,
        ack: bool,
    },
    /// `wanted` if nothing was written after `writes` writes; else up to where memory is only read.
    Read {
        writes: usize,
        wanted: Vec<u8>,
        sure: Vec<bool>,
    },
    Receive {
        room: usize,
    },
    /// A receive for several messages.
    Buffer {
        room: usize,
        min: usize,
        /// Where messages were, and how long.
        parts: Vec<(usize, usize)>,
    },
}

struct Op {
    side: usize,
    /// None for a receive that endpoints share.
    ep: Option<usize>,
    kind: Kind,
    cancelled: bool,
    /// A success is not reported.
    quiet: bool,
    done: bool,
}

impl Link {
    /// The number of the next message for this end.
    fn next(&self, end: usize) -> usize {
        let sent = &self.sent[1 - end];
        let from = self.received[end];
        (from..sent.len()).find(|&number| !sent[number].cancelled).unwrap_or(sent.len())
    }

    /// Messages that this end has not received.
    fn missing(&self, end: usize) -> usize {
        self.sent[1 - end][self.received[end]..].iter().filter(|message| !message.cancelled).count()
    }
}

struct Schedule {
    sim: Simulator,
    rng: fastrand::Rng,
    /// No trouble, no early end: all that is sent must arrive.
    polite: bool,
    /// Nobody is rejected.
    welcoming: bool,
    /// Endpoints open at the same time, from connects.
    most_eps: usize,
    sides: Vec<Side>,
    listeners: Vec<Listener>,
    eps: Vec<Ep>,
    links: Vec<Link>,
    ops: Vec<Op>,
    held: Vec<(usize, Request, Vec<u8>)>,
    raws: Vec<(Raw, VecDeque<Vec<u8>>)>,
    raw_listeners: Vec<(RawListener, SocketAddr)>,
    tally: Tally,
}

impl Schedule {
    fn new(seed: u64, trace: bool) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5ced_0000);
        let polite = rng.u8(..) < 64;
        let most_eps = [2, 4, 8, 24][rng.usize(..4)];
        let sim = Simulator::with_profile(seed, Self::profile(&mut rng));
        let mut sim = if trace { sim } else { sim.without_trace() };
        sim.set_plan(rng.usize(2..=20));
        let mut schedule = Self {
            sim,
            rng,
            polite,
            welcoming: false,
            most_eps,
            sides: Vec::new(),
            listeners: Vec::new(),
            eps: Vec::new(),
            links: Vec::new(),
            ops: Vec::new(),
            held: Vec::new(),
            raws: Vec::new(),
            raw_listeners: Vec::new(),
            tally: Tally::default(),
        };
        for _ in 0..schedule.rng.usize(2..=3) {
            schedule.open_side();
        }
        for _ in 0..schedule.rng.usize(1..=2) {
            schedule.open_listener();
        }
        schedule
    }

    fn profile(rng: &mut fastrand::Rng) -> Profile {
        let slowest = [2_000, 50_000, 5_000_000][rng.usize(..3)];
        Profile {
            latency: 1_000..slowest,
            scheduling: 100..[200, 20_000][rng.usize(..2)],
            piece: match rng.u8(..4) {
                0 => Piece::Whole,
                1 => Piece::AtMost(rng.usize(1..3000)),
                _ => Piece::Random,
            },
            capacity: [300, 2_000, 64 * 1024, 1 << 20][rng.usize(..4)],
        }
    }

    fn open_side(&mut self) {
        let process = self.sim.process();
        let eq_size = self.rng.usize(1..=6);
        let attr = EqAttr { size: eq_size, ..EqAttr::default() };
        let fabric = done(self.sim.fabric(process));
        let domain = done(self.sim.domain(fabric));
        let eq = done(self.sim.eq_open(fabric, &attr));
        let cq_attr = CqAttr { size: self.rng.usize(..20), ..CqAttr::default() };
        let tx_cq = done(self.sim.cq_open(domain, &cq_attr));
        let rx_cq = if self.rng.bool() { tx_cq } else { done(self.sim.cq_open(domain, &cq_attr)) };
        let common = done(self.sim.mr_reg(domain, RegionOp::new(vec![0; 64], COMMON)));
        let counter = done(self.sim.cntr_open(domain));
        let min = [0, 10, 500, 16 * 1024][self.rng.usize(..4)];
        let srx = self.rng.bool().then(|| {
            let attr = SrxAttr { size: self.rng.usize(1..60), iov_limit: 4 };
            let srx = done(self.sim.srx_open(domain, &attr));
            let unmet = done(self.sim.cq_open(domain, &cq_attr));
            done(self.sim.srx_bind_cq(srx, unmet, OpFlags::RECV));
            done(self.sim.set_srx_min_multi_recv(srx, min as u64));
            (srx, unmet)
        });
        let receives = VecDeque::new();
        let side = Side {
            fabric,
            domain,
            eq,
            eq_size,
            tx_cq,
            rx_cq,
            common,
            counter,
            srx,
            min,
            receives,
            newest: 0,
            counted: 0,
        };
        self.sides.push(side);
    }

    fn limits(&mut self) -> TimeLimits {
        if self.polite {
            return TimeLimits::default();
        }
        let mut limit = || {
            let millis = [1, 20, 500, 5_000][self.rng.usize(..4)];
            Duration::from_millis(millis)
        };
        TimeLimits {
            connect: Some(limit()),
            handshake: Some(limit()),
            decision: Some(limit()).filter(|limit| limit.as_millis() > 1),
            shutdown: Some(limit()),
            ..TimeLimits::default()
        }
    }

    fn open_listener(&mut self) {
        let side = self.rng.usize(..self.sides.len());
        let family = if self.rng.bool() { Family::V4 } else { Family::V6 };
        let process = crate::world::Process(side as u32);
        let Some(address) = self.sim.address(process, family) else { return };
        let pep = done(self.sim.passive_ep(self.sides[side].fabric, Some(address)));
        done(self.sim.pep_bind(pep, self.sides[side].eq, 0));
        if self.rng.bool() {
            let limits = self.limits();
            done(self.sim.set_pep_limits(pep, limits));
        }
        if self.rng.bool() {
            done(self.sim.set_backlog(pep, self.rng.usize(1..4)));
        }
        done(World::listen(&mut self.sim, pep));
        let address = done(self.sim.pep_name(pep));
        self.listeners.push(Listener { side, pep, address, open: true });
    }

    fn play(&mut self) {
        let actions = self.rng.usize(40..280);
        for _ in 0..actions {
            match self.rng.u8(..100) {
                0..=5 => self.connect(),
                6..=17 => self.read_events(),
                18..=29 => self.receive(),
                30..=39 => self.send(),
                40..=44 => self.access(),
                45..=52 => self.read_completions(),
                53..=54 => self.cancel_receive(),
                68 => self.cancel_send(),
                69 => self.cancel_shared(),
                55..=56 => self.decide_held(),
                57..=58 if !self.polite => self.end_one(),
                59..=61 if !self.polite => self.trouble(),
                62..=64 if !self.polite => self.stranger(),
                65 if !self.polite => self.close_listener(),
                67 if !self.polite => self.close_window(),
                66 => {
                    // Politeness includes that nobody is kept waiting until a limit.
                    let most = if self.polite { 5_000 } else { 5_000_000 };
                    let limit = Duration::from_micros(self.rng.u64(..most) >> self.rng.u8(..16));
                    self.run_for(limit);
                }
                _ => {
                    for _ in 0..self.rng.usize(1..25) {
                        self.sim.step(Duration::from_millis(1));
                    }
                }
            }
            self.feed_strangers();
        }
    }

    /// Trouble is over: everything has to come to its end now.
    fn finish(&mut self) {
        allocator::fail(0);
        self.sim.calm();
        let polite = self.polite;
        let end = self.sim.now() + END;
        while self.sim.now() < end {
            self.feed_strangers();
            self.read_all();
            if polite && self.everything_arrived() {
                break;
            }
            let left = end - self.sim.now();
            if !self.sim.step(left) {
                break;
            }
        }
        self.read_all();
        self.drop_held();
        self.run_for(END);
        self.read_all();
        for index in 0..self.eps.len() {
            let phase = self.eps[index].phase;
            assert!(phase != Phase::Starting, "endpoint {index} still connects");
        }
        for (index, ep) in self.eps.iter().enumerate() {
            let Some((link, end)) = ep.link.filter(|_| ep.phase == Phase::Connected) else { continue };
            let other = self.eps.iter().find(|other| other.link == Some((link, 1 - end)));
            let gone = other.is_none_or(|other| other.phase != Phase::Connected);
            assert!(!gone, "endpoint {index} does not notice that its peer has gone");
        }
        if polite {
            if !self.everything_arrived() {
                for (index, ep) in self.eps.iter().enumerate() {
                    let link = ep.link.map(|(link, end)| {
                        let link = &self.links[link];
                        (end, link.sent[1 - end].len(), link.received[end])
                    });
                    let (receives, sends) = (&ep.receives, &ep.sends);
                    self.sim.note(|| format!("{index}: {:?} {link:?} {receives:?} {sends:?}", ep.phase));
                }
                panic!("not all that was sent has arrived");
            }
            self.end_politely();
        }
        self.welcoming = true;
        for index in 0..self.listeners.len() {
            if self.listeners[index].open {
                self.honest_client(index);
            }
        }
        self.close_everything();
    }

    fn run_for(&mut self, limit: Duration) {
        let end = self.sim.now() + limit;
        while self.sim.now() < end {
            let left = end - self.sim.now();
            self.sim.step(left);
        }
    }

    // Connections.

    fn new_ep(&mut self, side: usize, request: Option<Request>) -> Option<usize> {
        let attr = EndpointAttr {
            tx_size: self.rng.usize(1..40),
            rx_size: self.rng.usize(1..40),
            total_buffered_recv: [0, 100, 3000, 1 << 20][self.rng.usize(..4)],
            ..self.sim.endpoint_attr()
        };
        let counted = OpFlags::SEND | OpFlags::RECV | OpFlags::READ | OpFlags::WRITE;
        let (domain, eq, tx_cq, rx_cq, counter) = {
            let side = &self.sides[side];
            (side.domain, side.eq, side.tx_cq, side.rx_cq, side.counter)
        };
        let handle = self.allowed(|world| world.endpoint(domain, &attr, request), &[Errno::EINVAL])?;
        let srx = self.sides[side].srx.map(|(srx, _)| srx).filter(|_| self.rng.u8(..4) > 0);
        let selective = self.rng.u8(..) < 50;
        let tx = if selective { OpFlags::SELECTIVE_COMPLETION } else { OpFlags::empty() } | OpFlags::TRANSMIT;
        let bound = self.allowed(
            |world| {
                world.ep_bind_eq(handle, eq, OpFlags::empty())?;
                world.ep_bind_cq(handle, tx_cq, tx)?;
                world.ep_bind_cq(handle, rx_cq, OpFlags::RECV)?;
                if let Some(srx) = srx {
                    world.ep_bind_srx(handle, srx, OpFlags::empty())?;
                }
                world.ep_bind_cntr(handle, counter, counted)
            },
            &[],
        );
        if bound.is_none() {
            done(self.sim.close_ep(handle));
            return None;
        }
        let limits = self.limits();
        done(self.sim.set_ep_limits(handle, limits));
        let min = [0, 10, 500, 16 * 1024][self.rng.usize(..4)];
        done(self.sim.set_min_multi_recv(handle, min as u64));
        self.eps.push(Ep {
            handle,
            side,
            phase: Phase::Idle,
            link: None,
            shared: srx.is_some(),
            min,
            receives: VecDeque::new(),
            sends: Default::default(),
            selective,
            asked: Vec::new(),
            rejected: None,
            shut: false,
        });
        Some(self.eps.len() - 1)
    }

    /// A call that may also fail for want of memory, or with one of `errnos`.
    fn allowed<R>(
        &mut self,
        call: impl FnOnce(&mut Simulator) -> kofi_core::Result<R>,
        errnos: &[Errno],
    ) -> Option<R> {
        match call(&mut self.sim) {
            Ok(result) => Some(result),
            Err(Error::NoMemory(_)) if !self.polite => None,
            Err(error) if errnos.contains(&error.errno()) => None,
            Err(error) => panic!("{:?}: {error}", error.errno()),
        }
    }

    fn connect(&mut self) {
        if self.eps.iter().filter(|ep| ep.phase != Phase::Closed).count() >= self.most_eps {
            return;
        }
        let side = self.rng.usize(..self.sides.len());
        let address = match self.rng.u8(..20) {
            0 if !self.polite => self.sim.closed_address(crate::world::Process(0)),
            1 if !self.polite => {
                let address = SocketAddr::from(([192, 0, 2, 1], 7));
                self.sim.silence(address);
                address
            }
            2..=3 if !self.polite => self.hostile_listener(),
            _ => {
                let listener = self.rng.usize(..self.listeners.len());
                self.listeners[listener].address
            }
        };
        let Some(index) = self.new_ep(side, None) else { return };
        let mut asked = HONEST.to_vec();
        asked.extend((index as u32).to_ne_bytes());
        let extra = [0, 0, 1, 200, 248][self.rng.usize(..5)];
        asked.extend_from_slice(contents(index as u64, extra));
        let handle = self.eps[index].handle;
        if self.rng.bool() && self.allowed(|world| world.enable(handle), &[]).is_some() {
            self.receive_at(index);
        }
        self.eps[index].asked = asked.clone();
        if self.allowed(|world| World::connect(world, handle, Some(address), &asked), &[]).is_some() {
            self.eps[index].phase = Phase::Starting;
        }
    }

    fn decide(&mut self, side: usize, request: Request, data: Vec<u8>) {
        let asker = match data.first_chunk::<8>() {
            Some(&[b'k', b'o', b'f', b'i', a, b, c, d]) => {
                let index = u32::from_ne_bytes([a, b, c, d]) as usize;
                self.eps.get(index).filter(|ep| ep.asked == data).map(|_| index)
            }
            _ => None,
        };
        let len = [0, 3, 256][self.rng.usize(..3)];
        let answer = contents(self.rng.u64(..), len);
        let late = [Errno::EINVAL, Errno::ETIMEDOUT];
        if !self.welcoming && self.rng.u8(..10) == 0 {
            match (self.allowed(|world| world.reject(request, answer), &late), asker) {
                (None, _) => self.held.push((side, request, data)),
                (Some(()), Some(asker)) => self.eps[asker].rejected = Some(answer.to_vec()),
                (Some(()), None) => {}
            }
            return;
        }
        let Some(index) = self.new_ep(side, Some(request)) else {
            self.held.push((side, request, data));
            return;
        };
        let handle = self.eps[index].handle;
        if self.rng.bool() && self.allowed(|world| world.enable(handle), &[]).is_some() {
            self.receive_at(index);
        }
        if let Some(asker) = asker {
            let link = self.links.len();
            let windows = [self.open_window(self.eps[asker].side, link, 0), self.open_window(side, link, 1)];
            self.links.push(Link { answer: answer.to_vec(), windows, ..Link::default() });
            self.eps[index].link = Some((link, 1));
            self.eps[asker].link = Some((link, 0));
        }
        match self.allowed(|world| World::accept(world, handle, answer), &late) {
            Some(()) => self.eps[index].phase = Phase::Starting,
            None => {
                self.eps[index].link = None;
                if let Some(asker) = asker {
                    self.eps[asker].link = None;
                }
                self.close_ep(index);
                self.held.push((side, request, data));
            }
        }
    }

    fn decide_held(&mut self) {
        if !self.held.is_empty() {
            let index = self.rng.usize(..self.held.len());
            let (side, request, data) = self.held.swap_remove(index);
            self.decide(side, request, data);
        }
    }

    fn drop_held(&mut self) {
        for (_, request, _) in core::mem::take(&mut self.held) {
            self.allowed(|world| world.reject(request, &[]), &[Errno::EINVAL, Errno::ETIMEDOUT]);
        }
    }

    // Events.

    fn read_events(&mut self) {
        let side = self.rng.usize(..self.sides.len());
        self.read_events_of(side);
    }

    fn read_events_of(&mut self, side: usize) {
        let mut requests = 0;
        loop {
            match self.sim.eq_read(self.sides[side].eq) {
                Ok(Event::ConnectionRequest { request: Some(request), data, .. }) => {
                    requests += 1;
                    assert!(requests <= self.sides[side].eq_size, "more requests than the queue's size");
                    match self.rng.u8(..10) {
                        0 if !self.polite => self.held.push((side, request, data)),
                        _ => self.decide(side, request, data),
                    }
                }
                Ok(Event::Connected { ep, data }) => {
                    let index = self.index(ep);
                    let ep = &mut self.eps[index];
                    assert_eq!(ep.phase, Phase::Starting, "FI_CONNECTED");
                    ep.phase = Phase::Connected;
                    self.tally.connections += 1;
                    match ep.link {
                        Some((link, 0)) => assert!(self.links[link].answer == data, "the answer's data"),
                        Some(_) => assert!(data.is_empty(), "data at the passive side"),
                        None => {}
                    }
                }
                Ok(Event::Shutdown { ep, .. }) => {
                    let index = self.index(ep);
                    assert_eq!(self.eps[index].phase, Phase::Connected, "FI_SHUTDOWN");
                    assert!(!self.polite || self.eps[index].shut, "FI_SHUTDOWN that nobody asked for");
                    self.eps[index].phase = Phase::Over;
                    self.all_complete(index);
                }
                Ok(other) => panic!("{other:?}"),
                Err(Error::Empty) => return,
                Err(Error::ErrorAvailable) => {
                    let error = done(self.sim.eq_readerr(self.sides[side].eq, OpFlags::empty()));
                    let Object::Endpoint(ep) = error.about else { panic!("{error:?}") };
                    let index = self.index(ep);
                    assert_eq!(self.eps[index].phase, Phase::Starting, "{error:?}");
                    let rejected = self.eps[index].rejected.take();
                    assert!(!self.polite || rejected.is_some(), "{error:?}");
                    if !error.data.is_empty() && self.eps[index].link.is_none() && rejected.is_some() {
                        assert_eq!(Some(error.data), rejected, "the reject's data");
                    }
                    self.eps[index].phase = Phase::Failed;
                    self.tally.failures += 1;
                    self.all_complete(index);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn index(&self, handle: Endpoint) -> usize {
        self.eps.iter().position(|ep| ep.handle == handle).unwrap_or_else(|| panic!("{handle:?}: unknown"))
    }

    /// The endpoint has ended: nothing of it is pending once its queues have been read.
    fn all_complete(&mut self, index: usize) {
        let side = self.eps[index].side;
        self.read_completions_of(side);
        let ep = &self.eps[index];
        let receives = ep.receives.len();
        assert!(receives == 0, "{receives} receives of endpoint {index} are pending after its end");
        let silent = |&&op: &&usize| !self.ops[op].quiet;
        let sends = ep.sends.iter().flatten().filter(silent).count();
        assert!(sends == 0, "{sends} sends of endpoint {index} are pending after its end");
    }

    // Operations.

    /// A random endpoint that is not closed.
    fn pick(&mut self) -> Option<usize> {
        // Mostly one that can do something.
        let connected = self.rng.u8(..4) > 0 && self.eps.iter().any(|ep| ep.phase == Phase::Connected);
        let open = |ep: &Ep| match ep.phase {
            Phase::Connected => true,
            Phase::Closed => false,
            _ => !connected,
        };
        let count = self.eps.iter().filter(|ep| open(ep)).count();
        if count == 0 {
            return None;
        }
        let nth = self.rng.usize(..count);
        self.eps.iter().enumerate().filter(|(_, ep)| open(ep)).nth(nth).map(|(index, _)| index)
    }

    fn len(&mut self) -> usize {
        match self.rng.u8(..100) {
            0..=49 => self.rng.usize(..64),
            50..=84 => self.rng.usize(..1000),
            85..=96 => self.rng.usize(..8192),
            _ => self.rng.usize(..LONGEST),
        }
    }

    fn split(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut rest = bytes;
        let mut buffers = Vec::new();
        for _ in 0..self.rng.usize(..4) {
            let (piece, tail) = rest.split_at(self.rng.usize(..=rest.len()));
            buffers.push(piece.to_vec());
            rest = tail;
        }
        buffers.push(rest.to_vec());
        buffers
    }

    fn receive(&mut self) {
        let waits = |ep: &Ep| {
            ep.link.is_some_and(|(link, end)| {
                let posted = if ep.shared { &self.sides[ep.side].receives } else { &ep.receives };
                ep.phase == Phase::Connected && self.links[link].missing(end) > posted.len()
            })
        };
        let waiting = self.eps.iter().position(waits);
        let waiting = waiting.filter(|_| self.rng.u8(..3) > 0);
        if let Some(index) = waiting.or_else(|| self.pick()) {
            // Endpoints that share are to find receives, and not only to wait for them.
            let most = if self.eps[index].shared { 16 } else { 6 };
            for _ in 0..self.rng.usize(1..most) {
                self.receive_at(index);
            }
        }
    }

    fn receive_at(&mut self, index: usize) {
        // Mostly there is room for what comes.
        let room = if self.rng.u8(..5) == 0 {
            self.len()
        } else {
            [64, 1000, 1000, 8192, 8192, LONGEST][self.rng.usize(..6)]
        };
        self.receive_into(index, room);
    }

    fn receive_into(&mut self, index: usize, room: usize) -> bool {
        static ZEROS: [u8; LONGEST] = [0; LONGEST];
        let context = self.ops.len();
        // A shared buffer has messages of several endpoints in it while they arrive.
        let several = self.rng.u8(..5) < if self.eps[index].shared { 3 } else { 1 };
        let mut buffers =
            if room <= 64 { self.split(&ZEROS[..room]) } else { vec![Vec::from(&ZEROS[..room])] };
        let mut flags = OpFlags::empty();
        if several {
            buffers = vec![buffers.concat()];
            flags |= OpFlags::MULTI_RECV;
        }
        flags.set(OpFlags::MORE, self.rng.u8(..4) == 0);
        let receive = ReceiveOp { buffers, flags, context: context as u64 };
        let Ep { handle, phase, side, shared, min, .. } = self.eps[index];
        let kind = |min| match several {
            true => Kind::Buffer { room, min, parts: Vec::new() },
            false => Kind::Receive { room },
        };
        if shared {
            let Some((srx, _)) = self.sides[side].srx else { return false };
            if self.allowed(|world| world.srx_recv(srx, receive), &[Errno::EAGAIN]).is_none() {
                return false;
            }
            let kind = kind(self.sides[side].min);
            self.ops.push(Op { side, ep: None, kind, cancelled: false, quiet: false, done: false });
            self.sides[side].receives.push_back(context);
            return true;
        }
        let refusals = [Errno::EAGAIN, Errno::EOPBADSTATE, Errno::ESHUTDOWN];
        if self.allowed(|world| world.recv(handle, receive), &refusals).is_none() {
            return false;
        }
        assert!(!matches!(phase, Phase::Over | Phase::Failed), "a receive after the end");
        let ep = Some(index);
        self.ops.push(Op { side, ep, kind: kind(min), cancelled: false, quiet: false, done: false });
        self.eps[index].receives.push_back(context);
        true
    }

    fn send(&mut self) {
        let Some(index) = self.pick() else { return };
        let count = self.rng.usize(1..6);
        self.send_at(index, count);
    }

    fn send_at(&mut self, index: usize, count: usize) {
        for _ in 0..count {
            let (handle, phase, link) = {
                let ep = &self.eps[index];
                (ep.handle, ep.phase, ep.link)
            };
            let len = self.len();
            let salt = self.rng.u64(..);
            let ack = self.rng.u8(..4) == 0;
            let (inject, quiet) = (len <= 64 && self.rng.u8(..4) == 0, self.rng.u8(..8) == 0);
            let mut data = self.rng.bool().then(|| self.rng.u64(..));
            if let Some((link, end)) = link
                && self.eps.iter().any(|ep| ep.shared && ep.link == Some((link, 1 - end)))
            {
                // Where endpoints share their receives a message has to say where it came.
                data = Some(
                    NAMED
                        | (link as u64) << 24
                        | (1 - end as u64) << 23
                        | self.links[link].sent[end].len() as u64,
                );
            }
            let asked = self.rng.bool();
            let mut flags = OpFlags::empty();
            flags.set(OpFlags::MORE, self.rng.u8(..4) == 0);
            flags.set(OpFlags::DELIVERY_COMPLETE, ack);
            flags.set(OpFlags::INJECT, inject);
            flags.set(OpFlags::COMPLETION, asked);
            let quiet = quiet || self.eps[index].selective && !asked;
            let context = self.ops.len();
            let bytes = contents(salt, len);
            let buffers = if self.rng.bool() { self.split(bytes) } else { vec![bytes.to_vec()] };
            let send = SendOp { buffers, data, flags, context: context as u64, quiet };
            let refusals = [Errno::EAGAIN, Errno::ENOTCONN, Errno::ESHUTDOWN, Errno::EOPBADSTATE];
            if self.allowed(|world| world.send(handle, send), &refusals).is_none() {
                return;
            }
            self.tally.sends += 1;
            // FI_CONNECTED may be there and unread.
            assert!(matches!(phase, Phase::Connected | Phase::Starting), "a send in phase {phase:?}");
            let number = match link {
                Some((link, end)) => {
                    self.links[link].sent[end].push(Message { salt, len, data, cancelled: false });
                    self.links[link].sent[end].len() - 1
                }
                None => 0,
            };
            self.push_op(index, Kind::Send { number, ack }, quiet);
            self.eps[index].sends[usize::from(ack)].push_back(context);
        }
    }

    fn push_op(&mut self, index: usize, kind: Kind, quiet: bool) {
        let (side, ep) = (self.eps[index].side, Some(index));
        self.ops.push(Op { side, ep, kind, cancelled: false, quiet, done: false });
    }

    fn open_window(&mut self, side: usize, link: usize, end: usize) -> Option<Window> {
        let key = KEY | (link * 2 + end) as u64;
        let bytes = contents(key, WINDOW).to_vec();
        let domain = self.sides[side].domain;
        let at = self.rng.usize(..=WINDOW);
        let buffers = vec![bytes[..at].to_vec(), bytes[at..].to_vec()];
        let region = RegionOp { buffers, ..RegionOp::new([], key) };
        let mr = self.allowed(|world| world.mr_reg(domain, region), &[])?;
        Some(Window { mr: Some(mr), key, bytes, writes: 0, data: Vec::new(), told: 0 })
    }

    fn close_window(&mut self) {
        if self.links.is_empty() {
            return;
        }
        let (link, end) = (self.rng.usize(..self.links.len()), self.rng.usize(..2));
        if let Some(mr) = self.links[link].windows[end].as_mut().and_then(|window| window.mr.take()) {
            done(self.sim.close_mr(mr));
        }
    }

    /// Reads and writes of the peer's window.
    fn access(&mut self) {
        let Some(index) = self.pick() else { return };
        for _ in 0..self.rng.usize(1..6) {
            let (handle, phase, selective) = {
                let ep = &self.eps[index];
                (ep.handle, ep.phase, ep.selective)
            };
            let Some((link, end)) = self.eps[index].link else { return };
            let Some(window) = &self.links[link].windows[1 - end] else { return };
            let (mut key, writes, told) = (window.key, window.writes, window.data.len());
            let is_read = self.rng.bool();
            let limit = [10, 100, 1000][self.rng.usize(..3)];
            let mut remote = Vec::new();
            for _ in 0..self.rng.usize(1..=4) {
                let len = self.rng.usize(..limit);
                // Mostly what is only read is read.
                let from = if is_read && self.rng.u8(..3) > 0 { 0 } else { HALF };
                remote.push((from + self.rng.usize(..=HALF - len), len));
            }
            let len: usize = remote.iter().map(|(_, len)| len).sum();
            let wrong = !self.polite && self.rng.u8(..40) == 0;
            if wrong && self.rng.bool() {
                key ^= 1 << 20;
            }
            let mut segments: Vec<RmaIov> =
                remote.iter().map(|&(at, len)| RmaIov { addr: at as u64, len: len as u64, key }).collect();
            if wrong && segments[0].key & 1 << 20 == 0 {
                segments[0].addr = (WINDOW - len + 1) as u64 + self.rng.u64(..=u64::MAX / 2);
            }
            let asked = self.rng.bool();
            let mut flags = OpFlags::empty();
            flags.set(OpFlags::MORE, self.rng.u8(..4) == 0);
            flags.set(OpFlags::COMPLETION, asked);
            let context = self.ops.len();
            let refusals = [Errno::EAGAIN, Errno::ENOTCONN, Errno::ESHUTDOWN, Errno::EOPBADSTATE];
            let (kind, list, quiet) = if is_read {
                let wanted =
                    remote.iter().flat_map(|&(at, len)| window.bytes[at..at + len].to_vec()).collect();
                let sure =
                    remote.iter().flat_map(|&(at, len)| core::iter::repeat_n(at < HALF, len)).collect();
                let zeros = vec![0; len];
                let read = ReceiveOp { buffers: self.split(&zeros), flags, context: context as u64 };
                if self.allowed(|world| World::read(world, handle, read, &segments), &refusals).is_none() {
                    return;
                }
                (Kind::Read { writes, wanted, sure }, 2, selective && !asked)
            } else {
                let ack = self.rng.u8(..3) == 0;
                let quiet = self.rng.u8(..8) == 0;
                flags.set(OpFlags::DELIVERY_COMPLETE, ack && self.rng.bool());
                flags.set(OpFlags::COMMIT_COMPLETE, ack && !flags.contains(OpFlags::DELIVERY_COMPLETE));
                flags.set(OpFlags::INJECT, len <= 64 && self.rng.bool());
                let number = ((link * 2 + 1 - end) as u64) << 32 | told as u64;
                let data = self.rng.bool().then_some(number);
                let bytes = contents(self.rng.u64(..), len);
                let write =
                    SendOp { buffers: self.split(bytes), data, flags, context: context as u64, quiet };
                if self.allowed(|world| World::write(world, handle, write, &segments), &refusals).is_none() {
                    return;
                }
                if let Some(window) = &mut self.links[link].windows[1 - end] {
                    let mut rest = bytes;
                    for (at, len) in remote {
                        let (piece, tail) = rest.split_at(len);
                        window.bytes[at..at + len].copy_from_slice(piece);
                        rest = tail;
                    }
                    window.writes += 1;
                    window.data.extend(data.map(|data| (data, len)));
                }
                (Kind::Write { writes: writes + 1, ack }, usize::from(ack), quiet || selective && !asked)
            };
            self.tally.accesses += 1;
            assert!(matches!(phase, Phase::Connected | Phase::Starting), "an access in phase {phase:?}");
            self.push_op(index, kind, quiet);
            self.eps[index].sends[list].push_back(context);
        }
    }

    /// A peer's write was told.
    fn told(&mut self, side: usize, len: u64, data: u64) {
        let (link, number) = ((data >> 32) as usize, data as u32 as usize);
        let window = self.links.get_mut(link / 2).and_then(|l| l.windows[link % 2].as_mut());
        let Some(window) = window else {
            assert!(!self.polite, "a write by nobody: {data:x}");
            return;
        };
        assert_eq!(window.told, number, "writes are told in order, once");
        assert_eq!(window.data.get(number), Some(&(data, len as usize)), "a write that was not made");
        window.told += 1;
        let ep = self.eps.iter().find(|ep| ep.link == Some((link / 2, link % 2)));
        assert!(ep.is_some_and(|ep| ep.side == side), "told to the wrong side");
    }

    /// Whether all that was written to a connection's windows is there.
    fn windows_are_whole(&mut self, link: usize) -> bool {
        let sim = &mut self.sim;
        self.links[link].windows.iter().flatten().all(|window| {
            window.told == window.data.len()
                && window.mr.is_none_or(|mr| done(sim.mr_read(mr)) == window.bytes)
        })
    }

    fn cancel_receive(&mut self) {
        let Some(index) = self.pick() else { return };
        let Some(&context) = self.eps[index].receives.back() else { return };
        let handle = self.eps[index].handle;
        if self.allowed(|world| world.cancel(handle, context as u64), &[Errno::ENOENT]).is_some() {
            self.cancelled(context);
        }
    }

    fn cancel_send(&mut self) {
        let Some(index) = self.pick() else { return };
        // What was posted last is most likely to be still there. Later writes may lie on top of a write.
        let ops = &self.ops;
        let wanted = |&&op: &&usize| !ops[op].cancelled && !matches!(ops[op].kind, Kind::Write { .. });
        let Some(&context) = self.eps[index].sends.iter().flatten().filter(wanted).max() else { return };
        let Ep { handle, link, .. } = self.eps[index];
        if self.allowed(|world| world.cancel(handle, context as u64), &[Errno::ENOENT]).is_some() {
            self.cancelled(context);
            if let (Kind::Send { number, .. }, Some((link, end))) = (&self.ops[context].kind, link) {
                self.links[link].sent[end][*number].cancelled = true;
            }
        }
    }

    fn cancel_shared(&mut self) {
        let side = self.rng.usize(..self.sides.len());
        let Side { srx: Some((srx, _)), receives, .. } = &self.sides[side] else { return };
        let (srx, Some(&context)) = (*srx, receives.back()) else { return };
        if self.allowed(|world| world.srx_cancel(srx, context as u64), &[Errno::ENOENT]).is_some() {
            self.cancelled(context);
        }
    }

    fn cancelled(&mut self, context: usize) {
        assert!(!core::mem::replace(&mut self.ops[context].cancelled, true), "cancelled twice");
        self.tally.cancelled += 1;
    }

    fn read_completions(&mut self) {
        let side = self.rng.usize(..self.sides.len());
        self.read_completions_of(side);
    }

    fn read_completions_of(&mut self, side: usize) {
        let Side { tx_cq, rx_cq, srx, .. } = self.sides[side];
        for cq in [Some(tx_cq), Some(rx_cq), srx.map(|(_, unmet)| unmet)].into_iter().flatten() {
            let unmet = srx.is_some_and(|(_, unmet)| unmet == cq);
            loop {
                match self.sim.cq_read(cq) {
                    Ok(completion) => self.completed(side, completion),
                    Err(Error::ErrorAvailable) => {
                        let failed = done(self.sim.cq_readerr(cq));
                        self.failed(side, failed, unmet);
                    }
                    Err(Error::Empty) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// Marks an operation as done and gives what it was. A buffer for several messages is not done yet.
    fn once(&mut self, side: usize, context: u64) -> (usize, Option<usize>, Kind) {
        let context = context as usize;
        let Some(op) = self.ops.get_mut(context) else { panic!("completion of nothing: {context}") };
        let done = !matches!(op.kind, Kind::Buffer { .. });
        assert!(!core::mem::replace(&mut op.done, done), "operation {context} completed twice");
        assert_eq!(op.side, side, "a completion in the wrong queue");
        (context, op.ep, op.kind.clone())
    }

    fn completed(&mut self, side: usize, completion: Completion) {
        let Completion { context, flags, len, data, buffers, offset, rest } = completion;
        if flags.contains(OpFlags::REMOTE_WRITE) {
            assert!(flags.contains(OpFlags::RMA | OpFlags::REMOTE_CQ_DATA), "{flags:?}");
            return self.told(side, len, data);
        }
        let (context, index, kind) = self.once(side, context);
        let (kind, index) = match (kind, index) {
            (Kind::Receive { room }, _) => {
                assert!(!self.ops[context].cancelled, "a cancelled receive succeeded");
                assert!(flags.contains(OpFlags::RECV), "{flags:?}");
                self.matched(side, context);
                return self.received(context, room, len as usize, 0, flags, data, &buffers);
            }
            (Kind::Buffer { .. }, _) => {
                if !buffers.is_empty() {
                    self.in_buffer(context, offset as usize, &buffers, len as usize);
                    self.received(context, len as usize, len as usize, 0, flags, data, &buffers);
                } else {
                    assert_eq!(flags, OpFlags::MULTI_RECV);
                }
                if let Some(rest) = rest {
                    assert!(flags.contains(OpFlags::MULTI_RECV), "{flags:?}");
                    self.given_back(context, &rest, !buffers.is_empty());
                }
                return;
            }
            (_, None) => panic!("operation {context} of nobody"),
            (kind, Some(index)) => (kind, index),
        };
        assert!(!self.ops[context].cancelled, "{kind:?} was cancelled, and succeeded");
        match kind {
            Kind::Write { .. } | Kind::Read { .. } => self.accessed(index, context, &kind, flags, &buffers),
            Kind::Send { number, ack } => {
                assert!(!self.ops[context].quiet, "a quiet send was reported");
                assert!(flags.contains(OpFlags::SEND), "{flags:?}");
                self.sent(index, context, usize::from(ack));
                if ack && let Some((link, end)) = self.eps[index].link {
                    // Its receive must have completed before.
                    let receiver = self.eps.iter().position(|ep| ep.link == Some((link, 1 - end)));
                    if let Some(receiver) = receiver
                        && self.links[link].received[1 - end] <= number
                    {
                        let side = self.eps[receiver].side;
                        self.read_completions_of(side);
                        assert!(self.links[link].received[1 - end] > number, "delivered to nobody");
                    }
                }
            }
            Kind::Receive { .. } | Kind::Buffer { .. } => {}
        }
    }

    /// A message has come into a buffer for several.
    fn in_buffer(&mut self, context: usize, offset: usize, buffers: &[Vec<u8>], len: usize) {
        let op = &mut self.ops[context];
        let Kind::Buffer { parts, .. } = &mut op.kind else { panic!("no buffer") };
        assert_eq!((buffers.len(), buffers[0].len()), (1, len), "memory of a message in buffer {context}");
        let last = parts.iter().map(|(offset, len)| offset + len).max();
        // Endpoints that share a buffer finish in any order.
        assert!(op.ep.is_none() || offset == last.unwrap_or(0), "offset {offset} behind {parts:?}");
        parts.push((offset, len));
        let side = &mut self.sides[op.side];
        side.counted += 1;
        self.tally.parts += 1;
        if op.ep.is_none() {
            side.newest = side.newest.max(context);
        } else if !op.cancelled {
            self.first(context);
        }
    }

    /// A buffer for several messages is the application's again: `part` if with one of those.
    fn given_back(&mut self, context: usize, rest: &[u8], part: bool) {
        let op = &mut self.ops[context];
        let Kind::Buffer { room, min, parts } = &mut op.kind else { panic!("no buffer") };
        assert!(!core::mem::replace(&mut op.done, true), "buffer {context} came back twice");
        parts.sort_unstable();
        let mut end = 0;
        for (offset, len) in parts {
            assert_eq!(*offset, end, "messages in buffer {context}");
            end += *len;
        }
        assert_eq!(end + rest.len(), *room, "what is left of buffer {context}");
        assert!(
            op.ep.is_none() || !part || rest.len() < (*min).max(1),
            "buffer {context} came back too early"
        );
        self.unlist(context);
    }

    /// The receive is in no queue any more.
    fn unlist(&mut self, context: usize) {
        let Op { side, ep, .. } = self.ops[context];
        let receives = match ep {
            Some(ep) => &mut self.eps[ep].receives,
            None => &mut self.sides[side].receives,
        };
        let at = receives.iter().position(|&op| op == context);
        let _ = at.and_then(|at| receives.remove(at));
        assert!(at.is_some(), "receive {context} was not pending");
    }

    fn accessed(&mut self, index: usize, context: usize, kind: &Kind, flags: OpFlags, buffers: &[Vec<u8>]) {
        assert!(!self.ops[context].quiet, "a quiet access was reported");
        let window = self.eps[index].link.and_then(|(link, end)| self.links[link].windows[1 - end].as_ref());
        match kind {
            Kind::Read { writes, wanted, sure } => {
                assert_eq!(flags, OpFlags::RMA | OpFlags::READ);
                let all = window.is_some_and(|window| window.writes == *writes);
                let found = buffers.concat();
                assert_eq!(found.len(), wanted.len());
                let wrong = (0..found.len()).find(|&at| (all || sure[at]) && found[at] != wanted[at]);
                assert_eq!(wrong, None, "contents of read {context}");
                self.sent(index, context, 2);
            }
            Kind::Write { writes, ack } => {
                assert_eq!(flags, OpFlags::RMA | OpFlags::WRITE);
                if let Some(window) = window
                    && let Some(mr) = window.mr
                    && (*ack && window.writes == *writes)
                {
                    assert!(done(self.sim.mr_read(mr)) == window.bytes, "write {context} is not in place");
                }
                self.sent(index, context, usize::from(*ack));
            }
            other => panic!("{other:?} is no access"),
        }
    }

    /// `unmet`: by a receive of a shared context, without any endpoint.
    fn failed(&mut self, side: usize, failed: CompletionError, unmet: bool) {
        let CompletionError { context, flags, len, overflow, data, errno, buffers, offset, rest } = failed;
        let (context, index, kind) = self.once(side, context);
        self.tally.errors += 1;
        match kind {
            Kind::Receive { room } if errno == Errno::ETRUNC => {
                assert!(!self.ops[context].cancelled && overflow > 0, "truncated by {overflow}");
                self.matched(side, context);
                self.received(context, room, len as usize, overflow as usize, flags, data, &buffers);
            }
            Kind::Receive { .. } => {
                assert_eq!((errno, len), (Errno::ECANCELED, 0));
                match index {
                    Some(_) => self.unlist(context),
                    None if unmet => self.unmet(side, context),
                    None => {
                        assert!(!self.ops[context].cancelled, "cancelled, and met by a message");
                        self.matched(side, context);
                    }
                }
            }
            Kind::Buffer { room, .. } => {
                if errno == Errno::ETRUNC {
                    assert_eq!((offset, len as usize), (0, room), "truncated");
                    self.in_buffer(context, 0, &buffers, room);
                    self.received(context, room, room, overflow as usize, flags, data, &buffers);
                } else {
                    assert_eq!((errno, len), (Errno::ECANCELED, 0));
                    if let [part] = &buffers[..] {
                        self.in_buffer(context, offset as usize, &buffers, part.len());
                    } else if index.is_some() {
                        self.sides[side].counted += 1;
                    } else {
                        assert!(unmet, "a shared buffer failed with an endpoint");
                        self.newest_is_before(side, context);
                    }
                }
                if let Some(rest) = rest {
                    assert!(flags.contains(OpFlags::MULTI_RECV), "{flags:?}");
                    self.given_back(context, &rest, false);
                }
            }
            Kind::Send { .. } | Kind::Write { .. } | Kind::Read { .. } => {
                assert_eq!(errno, Errno::ECANCELED);
                assert!(!self.polite || self.ops[context].cancelled, "operation {context} failed");
                let Some(index) = index else { panic!("operation {context} of nobody") };
                let list = match kind {
                    Kind::Send { ack, .. } | Kind::Write { ack, .. } => usize::from(ack),
                    _ => 2,
                };
                let sends = &mut self.eps[index].sends[list];
                let at = sends.iter().position(|&op| op == context);
                let _ = at.and_then(|at| sends.remove(at));
                assert!(at.is_some(), "not pending");
            }
        }
    }

    /// A message has met this receive, if it is its endpoint's: it is the first that was not cancelled.
    fn matched(&mut self, side: usize, context: usize) {
        match self.ops[context].ep {
            Some(_) => self.first(context),
            None => {
                let side = &mut self.sides[side];
                side.counted += 1;
                side.newest = side.newest.max(context);
            }
        }
        self.unlist(context);
    }

    fn first(&self, context: usize) {
        let Some(ep) = self.ops[context].ep else { return };
        let first = self.eps[ep].receives.iter().find(|&&op| !self.ops[op].cancelled);
        assert_eq!(first, Some(&context), "a message met another receive than the first");
    }

    /// A shared receive came back without a message.
    fn unmet(&mut self, side: usize, context: usize) {
        self.newest_is_before(side, context);
        self.unlist(context);
    }

    /// No receive that was posted after this one has met a message, unless this one was cancelled.
    fn newest_is_before(&self, side: usize, context: usize) {
        let newest = self.sides[side].newest;
        assert!(self.ops[context].cancelled || newest <= context, "{newest} was met before {context}");
    }

    #[allow(clippy::too_many_arguments)]
    fn received(
        &mut self,
        context: usize,
        room: usize,
        len: usize,
        overflow: usize,
        flags: OpFlags,
        data: u64,
        buffers: &[Vec<u8>],
    ) {
        self.tally.messages += 1;
        let place = match self.ops[context].ep {
            Some(index) => self.eps[index].link,
            None => {
                self.tally.shared += 1;
                let named = flags.contains(OpFlags::REMOTE_CQ_DATA) && data & NAMED_MASK == NAMED;
                named.then_some(((data & !NAMED_MASK) as usize >> 24, data as usize >> 23 & 1))
            }
        };
        let Some((link, end)) = place else { return };
        let Some(link) = self.links.get_mut(link) else { panic!("a message for no connection: {data:x}") };
        let number = link.next(end);
        link.received[end] = number + 1;
        let Some(message) = link.sent[1 - end].get(number) else { panic!("a message that nobody sent") };
        assert_eq!(len + overflow, message.len, "length of message {number}");
        assert_eq!(overflow, message.len.saturating_sub(room), "overflow of message {number}");
        let has_data = flags.contains(OpFlags::REMOTE_CQ_DATA);
        assert_eq!(has_data.then_some(data), message.data, "completion data of message {number}");
        let mut wanted = contents(message.salt, len);
        for buffer in buffers {
            let part = buffer.len().min(wanted.len());
            assert!(buffer[..part] == wanted[..part], "contents of message {number}");
            wanted = &wanted[part..];
        }
        assert!(wanted.is_empty(), "message {number} does not fit");
    }

    /// A send succeeded: sends of its kind complete in order.
    fn sent(&mut self, index: usize, context: usize, list: usize) {
        let ops = &self.ops;
        let sends = &mut self.eps[index].sends[list];
        while let Some(first) = sends.pop_front() {
            if first == context {
                return;
            }
            assert!(ops[first].quiet, "send {context} completed before {first}");
        }
        panic!("send {context} was not pending");
    }

    // Ends.

    fn end_one(&mut self) {
        let Some(index) = self.pick() else { return };
        if self.rng.bool() {
            self.close_ep(index);
        } else {
            self.shut_down(index);
        }
    }

    fn shut_down(&mut self, index: usize) {
        let handle = self.eps[index].handle;
        let refusals = [Errno::ENOTCONN, Errno::EOPBADSTATE];
        if self.allowed(|world| world.shutdown(handle, 0), &refusals).is_some() {
            self.eps[index].shut = true;
        }
    }

    fn close_ep(&mut self, index: usize) {
        let handle = self.eps[index].handle;
        done(self.sim.close_ep(handle));
        self.all_complete(index);
        self.eps[index].phase = Phase::Closed;
    }

    fn close_listener(&mut self) {
        if self.rng.u8(..4) > 0 {
            return;
        }
        let index = self.rng.usize(..self.listeners.len());
        if core::mem::replace(&mut self.listeners[index].open, false) {
            done(self.sim.close_pep(self.listeners[index].pep));
            self.open_listener();
        }
    }

    // Trouble.

    fn trouble(&mut self) {
        let ep = self.pick().map(|index| self.eps[index].handle);
        let death = if self.rng.bool() { Death::Killed } else { Death::Reset };
        let bytes = self.rng.u64(..2000) >> self.rng.u8(..8);
        match (self.rng.u8(..9), ep) {
            (0, Some(ep)) => self.sim.break_connection(ep),
            (1, Some(ep)) => self.sim.die_after(ep, bytes, death),
            (2, _) => self.sim.next_connect_dies_after(bytes, death),
            (3, _) => self.sim.next_accept_dies_after(bytes, death),
            (4, _) => self.sim.no_descriptors_at_accept(self.rng.usize(1..5)),
            (5, _) => self.sim.no_descriptors_at_connect(1),
            (6, _) => self.sim.fail_staging(self.rng.u64(1..20)),
            (7, _) => {
                let profile = Self::profile(&mut self.rng);
                self.sim.set_profile(profile);
            }
            _ => {
                self.sim.fail_allocation(self.rng.u64(1..30));
            }
        }
    }

    /// A stream that an honest peer could send, but for one thing.
    fn stream(&mut self, first: u8) -> Vec<u8> {
        let mut bytes = vec![0; 32];
        (bytes[0], bytes[1]) = (3, first);
        let data = self.rng.usize(..20);
        bytes[3] = data as u8;
        bytes[24..32].copy_from_slice(&1u64.to_ne_bytes());
        bytes.extend(core::iter::repeat_n(b's', data));
        for sequence in 0..self.rng.u8(..6) {
            if self.rng.u8(..3) == 0 {
                bytes.extend(self.stranger_access(sequence));
                continue;
            }
            let (len, flags) = (self.rng.usize(..100), [0, 1, 4, 5][self.rng.usize(..4)]);
            let header = if flags & 1 == 0 { 16 } else { 24 };
            bytes.extend([3, 0, flags, 0, 0, 0, header, sequence]);
            bytes.extend((u64::from(header) + len as u64).to_ne_bytes());
            bytes.extend(core::iter::repeat_n(sequence, usize::from(header) - 16 + len));
        }
        for _ in 0..self.rng.usize(..3) {
            let at = self.rng.usize(..bytes.len());
            bytes[at] = match self.rng.u8(..3) {
                0 => self.rng.u8(..),
                1 => bytes[at] ^ 1 << self.rng.u8(..8),
                _ => [0, 1, 2, 16, 24, 255][self.rng.usize(..6)],
            };
        }
        if self.rng.bool() {
            bytes.truncate(self.rng.usize(..=bytes.len()));
        }
        bytes
    }

    /// A record about memory.
    fn stranger_access(&mut self, sequence: u8) -> Vec<u8> {
        let op = [2, 2, 4, 4, 3][self.rng.usize(..5)];
        let (segments, flags) = match op {
            2 => (self.rng.u8(1..=4), 0),
            3 => (0, 0),
            _ => (self.rng.u8(1..=4), [0, 1, 4, 5, 8][self.rng.usize(..5)]),
        };
        let header = 16 + 8 * (flags & 1) + 24 * segments;
        let mut rest = vec![0xff; 8 * usize::from(flags & 1)];
        let mut total = 0;
        for _ in 0..segments {
            let len = self.rng.u64(..16);
            for word in [self.rng.u64(..50), len, if self.rng.u8(..8) == 0 { 2 } else { COMMON }] {
                rest.extend(word.to_ne_bytes());
            }
            total += if op == 4 { len } else { 0 };
        }
        let mut bytes = vec![3, op, flags, 0, 0, segments, header, sequence];
        bytes.extend((u64::from(header) + total).to_ne_bytes());
        bytes.extend(rest);
        bytes.extend(vec![b'w'; total as usize]);
        bytes
    }

    fn pieces(&mut self, bytes: &[u8]) -> VecDeque<Vec<u8>> {
        let mut rest = bytes;
        let mut pieces = VecDeque::new();
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(self.rng.usize(1..=rest.len()));
            pieces.push_back(piece.to_vec());
            rest = tail;
        }
        pieces
    }

    fn stranger(&mut self) {
        if self.raws.len() > 8 {
            return;
        }
        let address = self.listeners[self.rng.usize(..self.listeners.len())].address;
        let raw = RawPeers::connect(&mut self.sim, address);
        let bytes = self.stream(0);
        let pieces = self.pieces(&bytes);
        self.raws.push((raw, pieces));
    }

    fn hostile_listener(&mut self) -> SocketAddr {
        if self.raw_listeners.is_empty() {
            let address = SocketAddr::from(([198, 51, 100, 1], 0));
            let listener = RawPeers::listen(&mut self.sim, address);
            self.raw_listeners.push(listener);
        }
        self.raw_listeners[0].1
    }

    /// Strangers say a piece more, or go.
    fn feed_strangers(&mut self) {
        for index in 0..self.raw_listeners.len() {
            while let Some(raw) = RawPeers::accept(&mut self.sim, self.raw_listeners[index].0) {
                let first = [1, 1, 1, 6, 0][self.rng.usize(..5)];
                let bytes = self.stream(first);
                let pieces = self.pieces(&bytes);
                self.raws.push((raw, pieces));
            }
        }
        for index in 0..self.raws.len() {
            if self.rng.bool() {
                continue;
            }
            let raw = self.raws[index].0;
            if self.rng.bool() {
                RawPeers::read(&mut self.sim, raw);
            }
            match self.raws[index].1.pop_front() {
                Some(piece) => RawPeers::write(&mut self.sim, raw, &piece),
                None => match self.rng.u8(..40) {
                    0 => self.sim.finish(raw),
                    1 => RawPeers::close(&mut self.sim, raw),
                    2 => RawPeers::reset(&mut self.sim, raw),
                    _ => {}
                },
            }
        }
    }

    // The end.

    fn read_all(&mut self) {
        for side in 0..self.sides.len() {
            self.read_events_of(side);
            self.read_completions_of(side);
        }
        while self.polite && !self.held.is_empty() {
            self.decide_held();
        }
    }

    /// Posts the receives that are missing; gives whether nothing is on its way any more.
    fn everything_arrived(&mut self) -> bool {
        let mut all = true;
        for index in 0..self.eps.len() {
            let ep = &self.eps[index];
            all &= ep.phase != Phase::Starting;
            all &= ep.sends.iter().flatten().all(|&op| self.ops[op].quiet);
            if let Some((link, end)) = ep.link {
                let missing = self.links[link].missing(end);
                all &= missing == 0;
                let posted = if ep.shared { &self.sides[ep.side].receives } else { &ep.receives };
                for _ in posted.len()..missing {
                    if !self.receive_into(index, LONGEST) {
                        break;
                    }
                }
            }
        }
        // That takes long to look at, and is mostly true by now.
        all && (0..self.links.len()).all(|link| self.windows_are_whole(link))
    }

    /// Each connection ends by a shutdown from one side, and both are told.
    fn end_politely(&mut self) {
        for index in 0..self.eps.len() {
            let Some((link, 0)) = self.eps[index].link else { continue };
            let other = self.eps.iter().position(|ep| ep.link == Some((link, 1)));
            if self.eps[index].phase != Phase::Connected {
                continue;
            }
            let other = other.unwrap_or_else(|| panic!("a connection with one end"));
            let ends = [index, other];
            for end in ends {
                self.eps[end].shut = true;
            }
            let which = self.rng.usize(..2);
            let first = ends[which];
            // A shutdown sends what is queued, and waits for what is to be acknowledged.
            for _ in 0..self.rng.usize(..4) {
                if self.receive_into(ends[1 - which], LONGEST) {
                    self.send_at(first, 1);
                }
            }
            self.shut_down(first);
        }
        self.run_for(END);
        self.read_all();
        assert!(self.everything_arrived(), "a shutdown has lost something");
        for (index, ep) in self.eps.iter().enumerate() {
            assert!(ep.phase != Phase::Connected || ep.link.is_none(), "endpoint {index} was not shut down");
        }
    }

    /// A client that does everything right gets through.
    fn honest_client(&mut self, listener: usize) {
        let Listener { side: server, address, .. } = self.listeners[listener];
        let client = self.rng.usize(..self.sides.len());
        let was_polite = core::mem::replace(&mut self.polite, true);
        let Some(index) = self.new_ep(client, None) else { panic!("no endpoint") };
        let handle = self.eps[index].handle;
        let mut asked = HONEST.to_vec();
        asked.extend((index as u32).to_ne_bytes());
        self.eps[index].asked = asked.clone();
        self.eps[index].phase = Phase::Starting;
        done(World::connect(&mut self.sim, handle, Some(address), &asked));
        let end = self.sim.now() + END;
        while self.eps[index].phase == Phase::Starting && self.sim.now() < end {
            self.sim.step(Duration::from_secs(1));
            // A stranger that lingers may end now, and that is no fault of this client.
            self.polite = false;
            self.read_events_of(server);
            self.read_events_of(client);
            while !self.held.is_empty() {
                self.decide_held();
            }
        }
        self.polite = was_polite;
        let phase = self.eps[index].phase;
        assert!(phase == Phase::Connected, "an honest client does not get through: {phase:?}");
    }

    fn close_everything(&mut self) {
        for side in 0..self.sides.len() {
            let Side { fabric, eq, .. } = self.sides[side];
            busy(self.sim.close_fabric(fabric));
            let eps = self.eps.iter().any(|ep| ep.side == side && ep.phase != Phase::Closed);
            let listens = self.listeners.iter().any(|listener| listener.side == side && listener.open);
            if eps || listens {
                busy(self.sim.close_eq(eq));
            }
            let shares = |ep: &Ep| ep.side == side && ep.shared && ep.phase != Phase::Closed;
            if let Some((srx, unmet)) = self.sides[side].srx
                && self.eps.iter().any(shares)
            {
                busy(self.sim.close_srx(srx));
                busy(self.sim.close_cq(unmet));
            }
        }
        let mut order: Vec<usize> = (0..self.eps.len()).collect();
        self.rng.shuffle(&mut order);
        let (early, late) = order.split_at(self.rng.usize(..=order.len()));
        for &index in early {
            self.close_open_ep(index);
        }
        for index in 0..self.listeners.len() {
            if core::mem::replace(&mut self.listeners[index].open, false) {
                done(self.sim.close_pep(self.listeners[index].pep));
            }
        }
        for &index in late {
            self.close_open_ep(index);
        }
        self.drop_held();
        for index in 0..self.raws.len() {
            RawPeers::close(&mut self.sim, self.raws[index].0);
        }
        self.run_for(Duration::from_secs(1));
        self.read_all();
        self.drop_held();
        for side in 0..self.sides.len() {
            if let Some((srx, unmet)) = self.sides[side].srx {
                busy(self.sim.close_domain(self.sides[side].domain));
                done(self.sim.close_srx(srx));
                self.read_completions_of(side);
                done(self.sim.close_cq(unmet));
                self.sides[side].srx = None;
            }
        }
        if let Some(op) = self.ops.iter().position(|op| !op.done && !op.quiet) {
            panic!("operation {op} ({:?}) never completed", self.ops[op].kind);
        }
        for link in &mut self.links {
            for mr in link.windows.iter_mut().flatten().filter_map(|window| window.mr.take()) {
                done(self.sim.close_mr(mr));
            }
        }
        for (index, side) in self.sides.iter().enumerate() {
            // Of receives that are shared, or for several messages, counts what has come.
            let once =
                |op: &&Op| op.side == index && op.ep.is_some() && !matches!(op.kind, Kind::Buffer { .. });
            let posted = self.ops.iter().filter(once).count() as u64 + side.counted;
            let counted = done(self.sim.cntr_read(side.counter)) + done(self.sim.cntr_readerr(side.counter));
            assert_eq!(counted, posted, "operations counted at side {index}");
            done(self.sim.close_cntr(side.counter));
            busy(self.sim.close_domain(side.domain));
            done(self.sim.close_mr(side.common));
        }
        let footprint = self.sim.footprint();
        assert_eq!(footprint, crate::simulator::Footprint::default(), "something is left");
        for side in 0..self.sides.len() {
            let Side { fabric, domain, eq, tx_cq, rx_cq, .. } = self.sides[side];
            busy(self.sim.close_domain(domain));
            done(self.sim.close_cq(tx_cq));
            if rx_cq != tx_cq {
                done(self.sim.close_cq(rx_cq));
            }
            done(self.sim.close_domain(domain));
            busy(self.sim.close_fabric(fabric));
            done(self.sim.close_eq(eq));
            done(self.sim.close_fabric(fabric));
        }
    }

    fn close_open_ep(&mut self, index: usize) {
        if self.eps[index].phase != Phase::Closed {
            self.close_ep(index);
        }
    }
}

#[track_caller]
fn done<R>(result: kofi_core::Result<R>) -> R {
    result.unwrap_or_else(|error| panic!("{:?}: {error}", error.errno()))
}

#[track_caller]
fn busy(result: kofi_core::Result<()>) {
    match result {
        Err(error) if error.errno() == Errno::EBUSY => {}
        other => panic!("{other:?}, wanted FI_EBUSY"),
    }
}

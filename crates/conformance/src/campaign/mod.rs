// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Random schedules: everything in one follows from its seed, and a model beside it knows what has to
//! come of it.
//!
//! What must hold in each: an operation completes exactly once, with the right contents and in the
//! right order; `FI_CONNECTED` or one error entry for each attempt to connect; `FI_SHUTDOWN` once and
//! last, after the last completion; nothing hangs; an honest client gets through once the trouble is
//! over; everything can be closed in the end, in the legal order and no other; nothing is left.

mod completions;
mod connections;
mod end;
mod model;
mod operations;
mod trouble;

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::OnceLock;

use kofi_core::attr::{CqAttr, EqAttr};
use kofi_core::{Errno, Error, OpFlags, SrxAttr, TimeLimits};

use self::model::{Ep, Link, Listener, Op, Side};

use crate::allocator;
use crate::simulator::{Piece, Profile, Simulator};
use crate::world::{Family, Raw, RawListener, RegionOp, Request, SocketAddr, World};

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
    /// Messages received after the end of their connection was told.
    pub late: u64,
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
        self.late += other.late;
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

struct Schedule {
    sim: Simulator,
    rng: fastrand::Rng,
    /// No trouble, no early end: all that is sent must arrive.
    polite: bool,
    /// Nothing sent now is received before the end of its connection.
    late: bool,
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
            late: false,
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
            lending: rng.bool().then(|| 0..[20_000, 2_000_000, 100_000_000][rng.usize(..3)]),
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

    fn run_for(&mut self, limit: Duration) {
        let end = self.sim.now() + limit;
        while self.sim.now() < end {
            let left = end - self.sim.now();
            self.sim.step(left);
        }
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

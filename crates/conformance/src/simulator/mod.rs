// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The simulated network: kofi's machines, driven over connections in memory, by a virtual clock,
//! from a seed.
//!
//! Everything that happens follows from the seed and from the calls made, so that a failure can be
//! looked at again.

mod driver;
mod faults;
mod network;
mod objects;
mod observer;
mod raw;
mod trace;
mod world;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use kofi_core::message::WritePlan;
use kofi_core::{EpId, Errno, Error, Event as CoreEvent, OpFlags, Result, SrxId};

use crate::allocator::inside;
use crate::world::{
    Counter, Domain, Endpoint, Event, EventQueue, Family, MemoryRegion, Object, PassiveEndpoint, Process,
    SharedReceive,
};
use network::{End, Network, Task};
pub use network::{Piece, Profile};
use objects::{
    CntrObject, CqObject, DomainObject, EndpointObject, FabricObject, PassiveObject, QueueObject,
    RegionObject, RequestObject, SrxObject, Table, object,
};
use trace::Trace;

/// Segments that a write plan has room for.
const PLAN: usize = 16;

/// A world in memory.
pub struct Simulator {
    seed: u64,
    network: Network,
    trace: Trace,
    processes: u32,
    fabrics: Table<FabricObject>,
    queues: Table<QueueObject>,
    passives: Table<PassiveObject>,
    domains: Table<DomainObject>,
    cqs: Table<CqObject>,
    counters: Table<CntrObject>,
    shared: Table<SrxObject>,
    regions: Table<RegionObject>,
    endpoints: Table<EndpointObject>,
    requests: Table<RequestObject>,
    /// Endpoints with sends that more are to follow (`FI_MORE`).
    held: Vec<Endpoint>,
    raws: Vec<End>,
    raw_listeners: Vec<u32>,
    plan: WritePlan,
    scratch: Vec<u8>,
    no_accept: usize,
    no_connect: usize,
    fail_staging: u64,
}

/// How large the machines of a simulator have become: bounds that a peer must not move.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Footprint {
    /// Transport connections that belong to listeners.
    pub arriving: usize,
    /// Operations that have memory.
    pub operations: usize,
    /// Memory regions.
    pub regions: usize,
    /// Requests read and not decided on.
    pub requests: usize,
}

impl Simulator {
    /// A world with an ordinary network.
    pub fn new(seed: u64) -> Self {
        Self::with_profile(seed, Profile::default())
    }

    /// A world with a network of certain manners.
    pub fn with_profile(seed: u64, profile: Profile) -> Self {
        Self {
            seed,
            network: Network::new(seed, profile),
            trace: Trace::new(true),
            processes: 0,
            fabrics: Table::default(),
            queues: Table::default(),
            passives: Table::default(),
            domains: Table::default(),
            cqs: Table::default(),
            counters: Table::default(),
            shared: Table::default(),
            regions: Table::default(),
            endpoints: Table::default(),
            requests: Table::default(),
            held: Vec::new(),
            raws: Vec::new(),
            raw_listeners: Vec::new(),
            plan: WritePlan::new(PLAN).unwrap_or_else(|error| panic!("{error}")),
            scratch: Vec::new(),
            no_accept: 0,
            no_connect: 0,
            fail_staging: 0,
        }
    }

    /// Without a record of what happens: faster.
    pub fn without_trace(mut self) -> Self {
        self.trace = Trace::new(false);
        self
    }

    /// A write plan with this much room, to see that the machines do with any.
    pub fn set_plan(&mut self, segments: usize) {
        if let Ok(plan) = WritePlan::new(segments) {
            self.plan = plan;
        }
    }

    /// What has happened, as far as it is recorded; the oldest first.
    pub fn trace(&self) -> impl Iterator<Item = &str> {
        self.trace.lines()
    }

    /// Adds a line to the record.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        self.trace.add(self.network.now, line);
    }

    /// Things that have happened so far.
    pub fn happened(&self) -> u64 {
        self.network.happened
    }

    /// The first thing that broke the protocol on the wire.
    pub fn breach(&self) -> Option<&str> {
        self.network.breaches.first().map(String::as_str)
    }

    /// How large things are now.
    pub fn footprint(&self) -> Footprint {
        Footprint {
            arriving: self.passives.iter().map(|(_, p)| p.connections.iter().flatten().count()).sum(),
            operations: self
                .domains
                .iter()
                .map(|(_, d)| d.memory.iter().filter(|memory| !memory.is_empty()).count())
                .sum(),
            regions: self.domains.iter().map(|(_, d)| d.regions.iter().flatten().count()).sum(),
            requests: self.requests.iter().filter(|(_, request)| request.end.is_some()).count(),
        }
    }

    /// Breaks the transport connection of an endpoint, if it has one.
    pub fn break_connection(&mut self, ep: Endpoint) {
        if let Some(end) = self.endpoints.get(ep.0).and_then(|endpoint| endpoint.link.end) {
            self.trace.add(self.network.now, || format!("ep {}: connection broken", ep.0));
            self.network.break_connection(end);
        }
    }

    fn host(process: Process, family: Family) -> IpAddr {
        let number = process.0 as u16 + 1;
        match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::new(10, 0, (number >> 8) as u8, number as u8)),
            Family::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number)),
        }
    }

    fn event(&mut self, entry: kofi_core::Entry) -> Result<Event> {
        let about = object(entry.fid);
        Ok(match (entry.event, about) {
            (CoreEvent::ConnectionRequest { request, local, peer, data }, Object::PassiveEndpoint(pep)) => {
                Event::ConnectionRequest {
                    pep,
                    request: Some(self.hand_out(pep, request)?),
                    local,
                    peer,
                    data,
                }
            }
            (event, about) => Self::plain_event(event, about),
        })
    }

    fn plain_event(event: CoreEvent, about: Object) -> Event {
        match (event, about) {
            (CoreEvent::ConnectionRequest { local, peer, data, .. }, Object::PassiveEndpoint(pep)) => {
                Event::ConnectionRequest { pep, request: None, local, peer, data }
            }
            (CoreEvent::Connected { data }, Object::Endpoint(ep)) => Event::Connected { ep, data },
            (CoreEvent::Shutdown { reason }, Object::Endpoint(ep)) => {
                Event::Shutdown { ep, reason: Some(reason) }
            }
            (CoreEvent::Application { event, entry }, about) => Event::Application { about, event, entry },
            (event, about) => panic!("event {event:?} about {about:?}"),
        }
    }

    /// Room has come up in the queue: listeners that wait for it go on.
    pub(crate) fn room_made(&mut self, eq: EventQueue) {
        let Self { passives, network, .. } = self;
        for (index, passive) in passives.iter() {
            if passive.eq == Some(eq) && passive.listener.is_some() {
                network.soon(Task::Passive(PassiveEndpoint(index)));
            }
        }
    }

    fn listener_of(&self, pep: PassiveEndpoint, call: &'static str) -> Result<&PassiveObject> {
        self.passives.get(pep.0).ok_or(Error::Stale { call, object: "passive endpoint" })
    }

    fn passive_mut(&mut self, pep: PassiveEndpoint, call: &'static str) -> Result<&mut PassiveObject> {
        self.passives.get_mut(pep.0).ok_or(Error::Stale { call, object: "passive endpoint" })
    }

    fn queue_mut(&mut self, eq: EventQueue, call: &'static str) -> Result<&mut QueueObject> {
        self.queues.get_mut(eq.0).ok_or(Error::Stale { call, object: "event queue" })
    }

    /// The endpoint, its domain, and what else a call to the machine needs.
    fn parts(
        &mut self,
        ep: Endpoint,
        call: &'static str,
    ) -> Result<(&mut EndpointObject, &mut DomainObject, &mut Network)> {
        let stale = Error::Stale { call, object: "endpoint" };
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return Err(stale) };
        let Some(domain) = self.domains.get_mut(endpoint.domain.0) else { return Err(stale) };
        Ok((endpoint, domain, &mut self.network))
    }

    fn counter(&mut self, cntr: Counter, call: &'static str) -> Result<(&CntrObject, &mut DomainObject)> {
        let stale = Error::Stale { call, object: "counter" };
        let Some(counter) = self.counters.get(cntr.0) else { return Err(stale) };
        let Some(domain) = self.domains.get_mut(counter.domain.0) else { return Err(stale) };
        Ok((counter, domain))
    }

    /// A call to the machine for a shared receive context, and what follows from it.
    fn shared<R>(
        &mut self,
        srx: SharedReceive,
        call: &'static str,
        run: impl FnOnce(&mut kofi_core::Domain, SrxId) -> Result<R>,
    ) -> Result<R> {
        let stale = Error::Stale { call, object: "shared receive context" };
        let Some(&SrxObject { domain, id }) = self.shared.get(srx.0) else { return Err(stale) };
        let Some(object) = self.domains.get_mut(domain.0) else { return Err(stale) };
        let result = inside(|| run(&mut object.machine, id));
        self.pump(domain);
        result
    }

    fn region(&mut self, mr: MemoryRegion, call: &'static str) -> Result<(&RegionObject, &mut DomainObject)> {
        let stale = Error::Stale { call, object: "memory region" };
        let Some(region) = self.regions.get(mr.0) else { return Err(stale) };
        let Some(domain) = self.domains.get_mut(region.domain.0) else { return Err(stale) };
        Ok((region, domain))
    }

    /// A call to the machine for an endpoint, and what follows from it.
    fn command<R>(
        &mut self,
        ep: Endpoint,
        call: &'static str,
        run: impl FnOnce(&mut kofi_core::Domain, EpId) -> Result<R>,
    ) -> Result<R> {
        let (endpoint, domain, _) = self.parts(ep, call)?;
        let result = inside(|| run(&mut domain.machine, endpoint.id));
        let domain = endpoint.domain;
        self.pump(domain);
        self.wake(ep);
        result
    }

    fn keep(&mut self, domain: Domain, op: kofi_core::OpId, buffers: Vec<Vec<u8>>) {
        let Self { domains, network, .. } = self;
        if let Some(domain) = domains.get_mut(domain.0) {
            domain.remember(op, buffers);
            if op.index() >= domain.most_live + domain.most_remote {
                network.breaches.push(format!("operation {} of at most {}", op.index(), domain.most_live));
            }
        }
        self.pump(domain);
    }

    /// An operation was posted that is to be sent; at once, unless more is to follow.
    fn posted(&mut self, ep: Endpoint, flags: OpFlags) {
        if flags.contains(OpFlags::MORE) {
            self.held.push(ep);
        } else {
            self.wake(ep);
        }
    }

    /// Whatever makes progress sends what was held back.
    fn send_held(&mut self) {
        while let Some(ep) = self.held.pop() {
            self.wake(ep);
        }
    }

    /// Repeats `look` until it finds something, or the time is over.
    fn wait<R>(
        &mut self,
        limit: Option<Duration>,
        mut look: impl FnMut(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let end = limit.map(|limit| self.instant().after(limit).nanos());
        loop {
            self.send_held();
            match look(self) {
                Err(Error::Empty) => {}
                other => return other,
            }
            assert!(
                end.is_some() || !self.network.is_idle(),
                "a wait without a limit, and nothing will ever happen"
            );
            match self.network.next(end.unwrap_or(u64::MAX)) {
                None => return Err(Error::Empty),
                Some(None) => {}
                Some(Some(task)) => self.do_task(task),
            }
        }
    }
}

fn system(call: &'static str, errno: Errno) -> Error {
    Error::System { call, errno, detail: String::new() }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if self.trace.lines().next().is_none() {
                return;
            }
            let lines: Vec<&str> = self.trace.lines().collect();
            let from = lines.len().saturating_sub(150);
            eprintln!("simulator, seed {}, the last of {} lines:", self.seed, lines.len());
            for line in &lines[from..] {
                eprintln!("{line}");
            }
        } else if let Some(breach) = self.breach() {
            panic!("seed {}: on the wire: {breach}", self.seed);
        }
    }
}

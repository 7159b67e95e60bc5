// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The real library over real sockets on the loopback interface, as a world.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kofi::provider::{
    CompletionQueueOps, CounterOps, DomainOps, EndpointOps, MemoryRegionOps, Message, PassiveEndpointOps,
    Receive, Region, SharedReceiveOps,
};
use kofi_core::attr::{CqAttr, EqAttr, WaitObj};
use kofi_core::{
    Address, EndpointAttr, Error, Fid, Info, MrMode, OpFlags, Reason, Result, SrxAttr, TimeLimits,
};

use crate::world::{
    Completion, CompletionError, CompletionQueue, Counter, Domain, Endpoint, Event, EventError, EventQueue,
    Fabric, Family, MemoryRegion, Object, PassiveEndpoint, Process, Raw, RawListener, RawPeers, ReceiveOp,
    RegionOp, Request, RmaIov, SendOp, SharedReceive, World,
};

/// Objects by handle. Handles are never used twice.
struct Table<T> {
    objects: BTreeMap<u32, T>,
    next: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), next: 0 }
    }
}

impl<T> Table<T> {
    fn insert(&mut self, object: T) -> u32 {
        self.next += 1;
        self.objects.insert(self.next, object);
        self.next
    }

    fn get(&self, call: &'static str, object: &'static str, handle: u32) -> Result<&T> {
        self.objects.get(&handle).ok_or(Error::Stale { call, object })
    }

    fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<u32> {
        self.objects.iter().find(|(_, object)| wanted(object)).map(|(handle, _)| *handle)
    }
}

/// How long the world sleeps when there is nothing to do: an upper bound for how late it notices.
const NAP: Duration = Duration::from_micros(200);

/// The world of the `tcp` provider.
pub struct Tcp {
    start: Instant,
    progress: kofi::Progress,
    processes: u32,
    fabrics: Table<kofi::Fabric>,
    event_queues: Table<kofi::EventQueue>,
    passive: Table<(Arc<dyn PassiveEndpointOps>, Fid)>,
    requests: Table<kofi::ConnectionRequest>,
    domains: Table<Arc<dyn DomainOps>>,
    completion_queues: Table<Arc<dyn CompletionQueueOps>>,
    counters: Table<Arc<dyn CounterOps>>,
    shared: Table<Arc<dyn SharedReceiveOps>>,
    regions: Table<Arc<dyn MemoryRegionOps>>,
    endpoints: Table<Arc<dyn EndpointOps>>,
    raw: Peers,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            progress: kofi::Progress::Manual,
            processes: 0,
            fabrics: Table::default(),
            event_queues: Table::default(),
            passive: Table::default(),
            requests: Table::default(),
            domains: Table::default(),
            completion_queues: Table::default(),
            counters: Table::default(),
            shared: Table::default(),
            regions: Table::default(),
            endpoints: Table::default(),
            raw: Peers::default(),
        }
    }
}

fn info(progress: kofi::Progress, source: Option<SocketAddr>) -> Result<Info> {
    let hints = kofi::Hints::new().provider("tcp").progress(progress);
    let hints = match source {
        Some(source) => hints.source(source),
        None => hints,
    };
    let mut info = kofi::getinfo(hints)?.into_iter().next().ok_or(Error::Empty)?;
    if source.is_none() {
        info.src_addr = None;
    }
    Ok(info)
}

fn with_attr(mut info: Info, attr: &EndpointAttr) -> Info {
    info.caps = attr.caps;
    info.tx_attr.size = attr.tx_size;
    info.rx_attr.size = attr.rx_size;
    info.tx_attr.inject_size = attr.inject_size;
    info.tx_attr.iov_limit = attr.tx_iov_limit;
    info.tx_attr.rma_iov_limit = attr.rma_iov_limit;
    info.rx_attr.total_buffered_recv = usize::try_from(attr.total_buffered_recv).unwrap_or(usize::MAX);
    info.rx_attr.iov_limit = attr.rx_iov_limit;
    info.ep_attr.max_msg_size = usize::try_from(attr.max_msg_size).unwrap_or(usize::MAX);
    info.dest_addr = attr.dest_addr.map(Address::from);
    info
}

fn socket_addr(address: &Address) -> Result<SocketAddr> {
    address.socket_addr().ok_or(Error::Invalid { call: "fi_getname", problem: "no socket address" })
}

fn completion(done: kofi::Completion) -> Completion {
    Completion {
        context: done.context,
        flags: done.flags,
        len: done.len as u64,
        data: done.data.unwrap_or_default(),
        buffers: vectors(done.buffers),
        offset: done.offset as u64,
        rest: done.rest.map(kofi::Buf::into_vec),
    }
}

fn vectors(buffers: kofi::Buffers) -> Vec<Vec<u8>> {
    buffers.into_iter().map(kofi::Buf::into_vec).collect()
}

impl Tcp {
    /// The same with `FI_PROGRESS_AUTO`: threads drive everything, too.
    pub fn with_threads() -> Self {
        Self { progress: kofi::Progress::Auto, ..Self::default() }
    }

    /// Drives everything once, without waiting.
    fn drive(&self) {
        for queue in self.event_queues.objects.values() {
            queue.progress();
        }
        for queue in self.completion_queues.objects.values() {
            queue.progress();
        }
        for counter in self.counters.objects.values() {
            counter.progress();
        }
    }

    /// Tries until it gives something other than "nothing yet", or the time is over.
    fn until<T>(
        &mut self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let result = attempt(self);
            if !matches!(result, Err(Error::Empty)) || end.is_some_and(|end| end <= Instant::now()) {
                return result;
            }
            self.drive();
            let left = end.map_or(NAP, |end| end.saturating_duration_since(Instant::now()));
            std::thread::sleep(NAP.min(left));
        }
    }

    fn object(&self, fid: Fid) -> Object {
        if let Some(ep) = self.endpoints.find(|ep| ep.fid() == fid) {
            Object::Endpoint(Endpoint(ep))
        } else if let Some(pep) = self.passive.find(|(_, known)| *known == fid) {
            Object::PassiveEndpoint(PassiveEndpoint(pep))
        } else {
            Object::EventQueue(EventQueue(self.event_queues.find(|eq| eq.fid() == fid).unwrap_or(0)))
        }
    }

    fn fid(&self, object: Object) -> Result<Fid> {
        const CALL: &str = "fi_eq_write";
        Ok(match object {
            Object::Endpoint(ep) => self.endpoints.get(CALL, "endpoint", ep.0)?.fid(),
            Object::PassiveEndpoint(pep) => self.passive.get(CALL, "passive endpoint", pep.0)?.1,
            Object::EventQueue(eq) => self.event_queues.get(CALL, "event queue", eq.0)?.fid(),
        })
    }

    fn endpoint_of(&self, fid: Fid) -> Endpoint {
        Endpoint(self.endpoints.find(|ep| ep.fid() == fid).unwrap_or(0))
    }

    fn eq(&self, call: &'static str, eq: EventQueue) -> Result<&kofi::EventQueue> {
        self.event_queues.get(call, "event queue", eq.0)
    }

    fn pep(&self, call: &'static str, pep: PassiveEndpoint) -> Result<&Arc<dyn PassiveEndpointOps>> {
        Ok(&self.passive.get(call, "passive endpoint", pep.0)?.0)
    }

    fn cq(&self, call: &'static str, cq: CompletionQueue) -> Result<&Arc<dyn CompletionQueueOps>> {
        self.completion_queues.get(call, "completion queue", cq.0)
    }

    fn srx(&self, call: &'static str, srx: SharedReceive) -> Result<&Arc<dyn SharedReceiveOps>> {
        self.shared.get(call, "shared receive context", srx.0)
    }

    fn ep(&self, call: &'static str, ep: Endpoint) -> Result<&Arc<dyn EndpointOps>> {
        self.endpoints.get(call, "endpoint", ep.0)
    }

    fn event(&mut self, event: kofi::Event) -> Result<Event> {
        Ok(match event {
            kofi::Event::ConnectionRequest(request) => {
                let pep = self.passive.find(|(_, fid)| *fid == request.listener()).unwrap_or(0);
                let address = |address: &Option<Address>| socket_addr(address.as_ref().ok_or(Error::Empty)?);
                let local = address(&request.info().src_addr)?;
                let peer = address(&request.info().dest_addr)?;
                let data = request.data().to_vec();
                let request = Some(Request(self.requests.insert(request)));
                Event::ConnectionRequest { pep: PassiveEndpoint(pep), request, local, peer, data }
            }
            kofi::Event::Connected { endpoint, data } => {
                Event::Connected { ep: self.endpoint_of(endpoint), data }
            }
            kofi::Event::Shutdown { endpoint, reason } => {
                Event::Shutdown { ep: self.endpoint_of(endpoint), reason: Some(reason) }
            }
            kofi::Event::Application { fid, event, entry } => {
                Event::Application { about: self.object(fid), event, entry }
            }
            other => panic!("an ordinary read gave {other:?}"),
        })
    }

    fn peeked(&self, fid: Fid, event: kofi::PeekedEvent) -> Result<Event> {
        use kofi::PeekedEvent as E;
        Ok(match event {
            E::ConnectionRequest { local, peer, data, .. } => {
                let pep = PassiveEndpoint(self.passive.find(|(_, known)| *known == fid).unwrap_or(0));
                Event::ConnectionRequest { pep, request: None, local, peer, data }
            }
            E::Connected { data } => Event::Connected { ep: self.endpoint_of(fid), data },
            E::Shutdown { reason } => Event::Shutdown { ep: self.endpoint_of(fid), reason: Some(reason) },
            E::Application { event, entry } => Event::Application { about: self.object(fid), event, entry },
            E::Error { .. } => return Err(Error::ErrorAvailable),
        })
    }

    fn event_error(&self, fid: Fid, reason: Reason, data: Vec<u8>) -> EventError {
        EventError { about: self.object(fid), errno: reason.errno(), reason: Some(reason), data }
    }
}

impl World for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn step(&mut self, limit: Duration) -> bool {
        self.drive();
        std::thread::sleep(NAP.min(limit));
        self.drive();
        // What has happened shows only in the queues.
        true
    }

    fn holds_still(&self) -> bool {
        self.progress == kofi::Progress::Manual
    }

    fn reads_drive(&self) -> bool {
        true
    }

    fn bears_anything(&self) -> bool {
        true
    }

    fn process(&mut self) -> Process {
        self.processes += 1;
        Process(self.processes)
    }

    fn address(&mut self, _process: Process, family: Family) -> Option<SocketAddr> {
        let address: SocketAddr = match family {
            Family::V4 => ([127, 0, 0, 1], 0).into(),
            Family::V6 => (std::net::Ipv6Addr::LOCALHOST, 0).into(),
        };
        TcpListener::bind(address).is_ok().then_some(address)
    }

    fn closed_address(&mut self, _process: Process) -> SocketAddr {
        // A port that is bound, and not listened at, refuses connections and is nobody else's.
        self.raw.closed_port()
    }

    fn endpoint_attr(&self) -> EndpointAttr {
        match info(self.progress, Some(([127, 0, 0, 1], 0).into())) {
            Ok(info) => EndpointAttr::from(&info),
            Err(error) => panic!("{error}"),
        }
    }

    fn raw(&mut self) -> Option<&mut dyn RawPeers> {
        Some(&mut self.raw)
    }

    fn fabric(&mut self, _process: Process) -> Result<Fabric> {
        let fabric = kofi::Fabric::open(&info(self.progress, Some(([127, 0, 0, 1], 0).into()))?)?;
        Ok(Fabric(self.fabrics.insert(fabric)))
    }

    fn close_fabric(&mut self, fabric: Fabric) -> Result<()> {
        self.fabrics.get("fi_close", "fabric", fabric.0)?.clone().close()?;
        self.fabrics.objects.remove(&fabric.0);
        Ok(())
    }

    fn eq_open(&mut self, fabric: Fabric, attr: &EqAttr) -> Result<EventQueue> {
        let fabric = self.fabrics.get("fi_eq_open", "fabric", fabric.0)?;
        let queue = match attr.wait_obj {
            WaitObj::Set => return Err(Error::Unsupported("a wait set in this world")),
            _ => fabric.event_queue(*attr)?,
        };
        Ok(EventQueue(self.event_queues.insert(queue)))
    }

    fn eq_read(&mut self, eq: EventQueue) -> Result<Event> {
        let event = self.eq("fi_eq_read", eq)?.read()?;
        self.event(event)
    }

    fn eq_peek(&mut self, eq: EventQueue) -> Result<Event> {
        let (fid, event) = self.eq("fi_eq_read", eq)?.peek()?;
        self.peeked(fid, event)
    }

    fn eq_sread(&mut self, eq: EventQueue, timeout: i32, flags: OpFlags) -> Result<Event> {
        let queue = self.eq("fi_eq_sread", eq)?;
        let duration = kofi::sread_timeout(timeout, flags)?;
        let peek = flags.contains(OpFlags::PEEK);
        // A read without waiting says whether waiting is possible at all.
        match queue.speek(Duration::ZERO) {
            Err(Error::Empty) => {}
            Err(other) => return Err(other),
            Ok((fid, event)) if peek => return self.peeked(fid, event),
            Ok(_) => return self.eq_read(eq),
        }
        self.until(duration, |world| if peek { world.eq_peek(eq) } else { world.eq_read(eq) })
    }

    fn eq_readerr(&mut self, eq: EventQueue, flags: OpFlags) -> Result<EventError> {
        let queue = self.eq("fi_eq_readerr", eq)?;
        if flags.contains(OpFlags::PEEK) {
            return match queue.peek_error()? {
                (fid, kofi::PeekedEvent::Error { reason, data }) => Ok(self.event_error(fid, reason, data)),
                (_, other) => panic!("an error entry was {other:?}"),
            };
        }
        match queue.read_error()? {
            kofi::Event::Failed { endpoint, reason, data } => Ok(self.event_error(endpoint, reason, data)),
            other => panic!("an error entry was {other:?}"),
        }
    }

    fn eq_write(
        &mut self,
        eq: EventQueue,
        about: Object,
        event: u32,
        entry: &[u8],
        flags: OpFlags,
    ) -> Result<usize> {
        let fid = self.fid(about)?;
        self.eq("fi_eq_write", eq)?.write(fid, event, entry, flags)
    }

    fn close_eq(&mut self, eq: EventQueue) -> Result<()> {
        const CALL: &str = "fi_close";
        let queue = self.event_queues.objects.remove(&eq.0);
        let queue = queue.ok_or(Error::Stale { call: CALL, object: "event queue" })?;
        queue.close().map_err(|returned| {
            self.event_queues.objects.insert(eq.0, returned.object);
            returned.error
        })
    }

    fn passive_ep(&mut self, fabric: Fabric, source: Option<SocketAddr>) -> Result<PassiveEndpoint> {
        let fabric = self.fabrics.get("fi_passive_ep", "fabric", fabric.0)?;
        let pep = fabric.passive_endpoint(&info(self.progress, source)?)?.ops().clone();
        let fid = pep.fid();
        Ok(PassiveEndpoint(self.passive.insert((pep, fid))))
    }

    fn pep_bind(&mut self, pep: PassiveEndpoint, eq: EventQueue, flags: u64) -> Result<()> {
        const CALL: &str = "fi_pep_bind";
        self.pep(CALL, pep)?.bind(self.eq(CALL, eq)?, flags)
    }

    fn set_name(&mut self, pep: PassiveEndpoint, address: SocketAddr) -> Result<()> {
        self.pep("fi_setname", pep)?.set_name(&address.into())
    }

    fn pep_name(&mut self, pep: PassiveEndpoint) -> Result<SocketAddr> {
        socket_addr(&self.pep("fi_getname", pep)?.name()?)
    }

    fn set_backlog(&mut self, pep: PassiveEndpoint, backlog: usize) -> Result<()> {
        self.pep("fi_control", pep)?.set_backlog(backlog)
    }

    fn set_pep_limits(&mut self, pep: PassiveEndpoint, limits: TimeLimits) -> Result<()> {
        self.pep("fi_setopt", pep)?.set_limits(limits);
        Ok(())
    }

    fn listen(&mut self, pep: PassiveEndpoint) -> Result<()> {
        self.pep("fi_listen", pep)?.listen()
    }

    fn reject(&mut self, request: Request, data: &[u8]) -> Result<()> {
        self.requests.get("fi_reject", "connection request", request.0)?.reject(data)?;
        self.requests.objects.remove(&request.0);
        Ok(())
    }

    fn close_pep(&mut self, pep: PassiveEndpoint) -> Result<()> {
        self.pep("fi_close", pep)?.close();
        self.passive.objects.remove(&pep.0);
        Ok(())
    }

    fn domain_with(&mut self, fabric: Fabric, mr_mode: MrMode) -> Result<Domain> {
        let fabric = self.fabrics.get("fi_domain", "fabric", fabric.0)?;
        let mut info = info(self.progress, None)?;
        info.domain_attr.mr_mode = mr_mode;
        let domain = fabric.domain(&info)?;
        Ok(Domain(self.domains.insert(domain.ops().clone())))
    }

    fn close_domain(&mut self, domain: Domain) -> Result<()> {
        self.domains.get("fi_close", "domain", domain.0)?.close()?;
        self.domains.objects.remove(&domain.0);
        Ok(())
    }

    fn cq_open(&mut self, domain: Domain, attr: &CqAttr) -> Result<CompletionQueue> {
        let queue = self.domains.get("fi_cq_open", "domain", domain.0)?.cq_open(attr, None)?;
        Ok(CompletionQueue(self.completion_queues.insert(queue)))
    }

    fn cq_read(&mut self, cq: CompletionQueue) -> Result<Completion> {
        Ok(completion(self.cq("fi_cq_read", cq)?.read()?))
    }

    fn cq_sread_cond(&mut self, cq: CompletionQueue, threshold: usize, timeout: i32) -> Result<Completion> {
        let duration = kofi::sread_timeout(timeout, OpFlags::empty())?;
        let queue = self.cq("fi_cq_sread", cq)?.clone();
        if threshold > 1 {
            // The wait itself is what is tried; meanwhile the other side is driven from here.
            return std::thread::scope(|scope| {
                let reader = scope.spawn(|| queue.sread(threshold, duration));
                while !reader.is_finished() {
                    self.drive();
                    std::thread::sleep(NAP);
                }
                reader.join().unwrap_or(Err(Error::Empty)).map(completion)
            });
        }
        // A wait of no length says whether waiting is possible at all.
        match queue.sread(threshold, Some(Duration::ZERO)) {
            Err(Error::Empty) => self.until(duration, |world| world.cq_read(cq)),
            other => other.map(completion),
        }
    }

    fn cq_readerr(&mut self, cq: CompletionQueue) -> Result<CompletionError> {
        let done = self.cq("fi_cq_readerr", cq)?.read_error()?;
        let error = done.error.ok_or(Error::Empty)?;
        Ok(CompletionError {
            context: error.context,
            flags: error.flags,
            len: error.len,
            overflow: error.overflow,
            data: error.data,
            errno: error.errno,
            buffers: vectors(done.buffers),
            offset: done.offset as u64,
            rest: done.rest.map(kofi::Buf::into_vec),
        })
    }

    fn close_cq(&mut self, cq: CompletionQueue) -> Result<()> {
        self.cq("fi_close", cq)?.close()?;
        self.completion_queues.objects.remove(&cq.0);
        Ok(())
    }

    fn cntr_open(&mut self, domain: Domain) -> Result<Counter> {
        let counter =
            self.domains.get("fi_cntr_open", "domain", domain.0)?.cntr_open(WaitObj::Unspec, None)?;
        Ok(Counter(self.counters.insert(counter)))
    }

    fn cntr_read(&mut self, cntr: Counter) -> Result<u64> {
        Ok(self.counters.get("fi_cntr_read", "counter", cntr.0)?.read()?.value)
    }

    fn cntr_readerr(&mut self, cntr: Counter) -> Result<u64> {
        Ok(self.counters.get("fi_cntr_readerr", "counter", cntr.0)?.read()?.errors)
    }

    fn cntr_add(&mut self, cntr: Counter, value: u64, errors: u64) -> Result<()> {
        self.counters.get("fi_cntr_add", "counter", cntr.0)?.add(value, errors)
    }

    fn cntr_set(&mut self, cntr: Counter, value: u64, errors: u64) -> Result<()> {
        self.counters.get("fi_cntr_set", "counter", cntr.0)?.set(Some(value), Some(errors))
    }

    fn cntr_wait(&mut self, cntr: Counter, threshold: u64, timeout: i32) -> Result<()> {
        let duration = kofi::sread_timeout(timeout, OpFlags::empty())?;
        let counter = self.counters.get("fi_cntr_wait", "counter", cntr.0)?.clone();
        let before = counter.read()?;
        // A wait of no length drives one side only; here one thread drives both.
        match self.until(duration, |_| counter.read()?.check(threshold, &before)) {
            Err(Error::Empty) => counter.wait(threshold, Some(Duration::ZERO)),
            other => other,
        }
    }

    fn close_cntr(&mut self, cntr: Counter) -> Result<()> {
        self.counters.get("fi_close", "counter", cntr.0)?.close()?;
        self.counters.objects.remove(&cntr.0);
        Ok(())
    }

    fn srx_open(&mut self, domain: Domain, attr: &SrxAttr) -> Result<SharedReceive> {
        let srx = self.domains.get("fi_srx_context", "domain", domain.0)?.srx_context(attr)?;
        Ok(SharedReceive(self.shared.insert(srx)))
    }

    fn srx_bind_cq(&mut self, srx: SharedReceive, cq: CompletionQueue, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        self.srx(CALL, srx)?.bind_cq(self.cq(CALL, cq)?, flags)
    }

    fn srx_recv(&mut self, srx: SharedReceive, receive: ReceiveOp) -> Result<()> {
        let ReceiveOp { buffers, flags, context } = receive;
        let receive = Receive { buffers: buffers.into_iter().collect(), flags, context };
        Ok(self.srx("fi_recvmsg", srx)?.recv(receive)?)
    }

    fn srx_cancel(&mut self, srx: SharedReceive, context: u64) -> Result<()> {
        self.srx("fi_cancel", srx)?.cancel(context)
    }

    fn srx_min_multi_recv(&mut self, srx: SharedReceive) -> Result<u64> {
        self.srx("fi_getopt", srx)?.min_multi_recv()
    }

    fn set_srx_min_multi_recv(&mut self, srx: SharedReceive, min: u64) -> Result<()> {
        self.srx("fi_setopt", srx)?.set_min_multi_recv(min)
    }

    fn close_srx(&mut self, srx: SharedReceive) -> Result<()> {
        self.srx("fi_close", srx)?.close()?;
        self.shared.objects.remove(&srx.0);
        Ok(())
    }

    fn mr_reg(&mut self, domain: Domain, region: RegionOp) -> Result<MemoryRegion> {
        let RegionOp { buffers, access, key } = region;
        let region = Region { buffers: buffers.into_iter().collect(), access, requested_key: key };
        let region = self.domains.get("fi_mr_regattr", "domain", domain.0)?.mr_reg(region)?;
        Ok(MemoryRegion(self.regions.insert(region)))
    }

    fn mr_key(&mut self, mr: MemoryRegion) -> Result<u64> {
        Ok(self.regions.get("fi_mr_key", "memory region", mr.0)?.key())
    }

    fn mr_address(&mut self, mr: MemoryRegion) -> Result<u64> {
        Ok(self.regions.get("fi_mr_key", "memory region", mr.0)?.address())
    }

    fn mr_read(&mut self, mr: MemoryRegion) -> Result<Vec<u8>> {
        let region = self.regions.get("read", "memory region", mr.0)?;
        let mut bytes = vec![0; region.len()];
        region.read(0, &mut bytes)?;
        Ok(bytes)
    }

    fn mr_write(&mut self, mr: MemoryRegion, at: usize, bytes: &[u8]) -> Result<()> {
        self.regions.get("write", "memory region", mr.0)?.write(at, bytes)
    }

    fn close_mr(&mut self, mr: MemoryRegion) -> Result<Vec<Vec<u8>>> {
        let buffers = self.regions.get("fi_close", "memory region", mr.0)?.close();
        self.regions.objects.remove(&mr.0);
        Ok(vectors(buffers))
    }

    fn endpoint(
        &mut self,
        domain: Domain,
        attr: &EndpointAttr,
        request: Option<Request>,
    ) -> Result<Endpoint> {
        const CALL: &str = "fi_endpoint";
        let domain = self.domains.get(CALL, "domain", domain.0)?;
        let ep = match request {
            None => {
                let mut info = with_attr(info(self.progress, Some(([127, 0, 0, 1], 0).into()))?, attr);
                info.src_addr = None;
                domain.endpoint(&info)?
            }
            Some(request) => {
                let stale = Error::Stale { call: CALL, object: "connection request" };
                let request = self.requests.objects.get_mut(&request.0).ok_or(stale)?;
                let info = request.info_mut();
                *info = with_attr(info.clone(), attr);
                domain.endpoint_for(request)?
            }
        };
        Ok(Endpoint(self.endpoints.insert(ep)))
    }

    fn ep_bind_eq(&mut self, ep: Endpoint, eq: EventQueue, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        self.ep(CALL, ep)?.bind_eq(self.eq(CALL, eq)?, flags)
    }

    fn ep_bind_cq(&mut self, ep: Endpoint, cq: CompletionQueue, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        self.ep(CALL, ep)?.bind_cq(self.cq(CALL, cq)?, flags)
    }

    fn ep_bind_cntr(&mut self, ep: Endpoint, cntr: Counter, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        self.ep(CALL, ep)?.bind_cntr(self.counters.get(CALL, "counter", cntr.0)?, flags)
    }

    fn ep_bind_srx(&mut self, ep: Endpoint, srx: SharedReceive, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        self.ep(CALL, ep)?.bind_srx(self.srx(CALL, srx)?, flags)
    }

    fn min_multi_recv(&mut self, ep: Endpoint) -> Result<u64> {
        self.ep("fi_getopt", ep)?.min_multi_recv()
    }

    fn set_min_multi_recv(&mut self, ep: Endpoint, min: u64) -> Result<()> {
        self.ep("fi_setopt", ep)?.set_min_multi_recv(min)
    }

    fn enable(&mut self, ep: Endpoint) -> Result<()> {
        self.ep("fi_enable", ep)?.enable()
    }

    fn set_ep_limits(&mut self, ep: Endpoint, limits: TimeLimits) -> Result<()> {
        self.ep("fi_setopt", ep)?.set_limits(limits)
    }

    fn connect(&mut self, ep: Endpoint, address: Option<SocketAddr>, data: &[u8]) -> Result<()> {
        self.ep("fi_connect", ep)?.connect(address.map(Address::from).as_ref(), data)
    }

    fn accept(&mut self, ep: Endpoint, data: &[u8]) -> Result<()> {
        self.ep("fi_accept", ep)?.accept(data)
    }

    fn shutdown(&mut self, ep: Endpoint, flags: u64) -> Result<()> {
        self.ep("fi_shutdown", ep)?.shutdown(flags)
    }

    fn ep_name(&mut self, ep: Endpoint) -> Result<SocketAddr> {
        socket_addr(&self.ep("fi_getname", ep)?.name()?)
    }

    fn ep_peer(&mut self, ep: Endpoint) -> Result<SocketAddr> {
        socket_addr(&self.ep("fi_getpeer", ep)?.peer()?)
    }

    fn send(&mut self, ep: Endpoint, send: SendOp) -> Result<()> {
        let ep = self.ep("fi_sendmsg", ep)?;
        if send.quiet {
            return ep.inject(&send.buffers.concat(), send.data);
        }
        let buffers = send.buffers.into_iter().collect();
        Ok(ep.send(Message { buffers, data: send.data, flags: send.flags, context: send.context })?)
    }

    fn recv(&mut self, ep: Endpoint, receive: ReceiveOp) -> Result<()> {
        let ReceiveOp { buffers, flags, context } = receive;
        let receive = Receive { buffers: buffers.into_iter().collect(), flags, context };
        Ok(self.ep("fi_recvmsg", ep)?.recv(receive)?)
    }

    fn write(&mut self, ep: Endpoint, write: SendOp, remote: &[RmaIov]) -> Result<()> {
        let ep = self.ep("fi_writemsg", ep)?;
        if let (true, &[remote]) = (write.quiet, remote) {
            return ep.inject_write(&write.buffers.concat(), write.data, remote);
        }
        let buffers = write.buffers.into_iter().collect();
        let message = Message { buffers, data: write.data, flags: write.flags, context: write.context };
        Ok(ep.write(message, remote)?)
    }

    fn read(&mut self, ep: Endpoint, read: ReceiveOp, remote: &[RmaIov]) -> Result<()> {
        let ReceiveOp { buffers, flags, context } = read;
        let receive = Receive { buffers: buffers.into_iter().collect(), flags, context };
        Ok(self.ep("fi_readmsg", ep)?.read(receive, remote)?)
    }

    fn cancel(&mut self, ep: Endpoint, context: u64) -> Result<()> {
        self.ep("fi_cancel", ep)?.cancel(context)
    }

    fn close_ep(&mut self, ep: Endpoint) -> Result<()> {
        self.ep("fi_close", ep)?.close();
        self.endpoints.objects.remove(&ep.0);
        Ok(())
    }
}

/// Plain sockets.
#[derive(Default)]
struct Peers {
    streams: Table<Peer>,
    listeners: Table<TcpListener>,
    /// Bound, and not listening.
    closed: Vec<std::os::fd::OwnedFd>,
}

struct Peer {
    stream: Option<TcpStream>,
    ended: bool,
}

impl Peers {
    fn closed_port(&mut self) -> SocketAddr {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let bound = socket(AddressFamily::INET, SocketType::STREAM, None)
            .and_then(|socket| bind(&socket, &any).map(|()| socket));
        let socket = bound.unwrap_or_else(|error| panic!("no socket for a closed port: {error}"));
        let address = getsockname(&socket).ok().and_then(|address| SocketAddr::try_from(address).ok());
        self.closed.push(socket);
        address.unwrap_or(any)
    }

    fn add(&mut self, stream: std::io::Result<TcpStream>) -> Raw {
        let stream = stream.and_then(|stream| {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        let ended = stream.is_err();
        Raw(self.streams.insert(Peer { stream: stream.ok(), ended }))
    }

    fn peer(&mut self, raw: Raw) -> Option<&mut Peer> {
        self.streams.objects.get_mut(&raw.0)
    }
}

impl RawPeers for Peers {
    fn connect(&mut self, address: SocketAddr) -> Raw {
        self.add(TcpStream::connect(address))
    }

    fn listen(&mut self, address: SocketAddr) -> (RawListener, SocketAddr) {
        let listener = TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        let _ = listener.set_nonblocking(true);
        let address = listener.local_addr().unwrap_or(address);
        (RawListener(self.listeners.insert(listener)), address)
    }

    fn accept(&mut self, listener: RawListener) -> Option<Raw> {
        let (stream, _) = self.listeners.objects.get(&listener.0)?.accept().ok()?;
        Some(self.add(Ok(stream)))
    }

    fn write(&mut self, raw: Raw, bytes: &[u8]) {
        let Some(Peer { stream: Some(stream), .. }) = self.peer(raw) else { return };
        let mut rest = bytes;
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(NAP),
                // The other side has had enough.
                Err(_) => return,
            }
        }
    }

    fn read(&mut self, raw: Raw) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(peer) = self.peer(raw) else { return bytes };
        let Some(stream) = &mut peer.stream else { return bytes };
        let mut piece = [0; 4096];
        loop {
            match stream.read(&mut piece) {
                Ok(0) => {
                    peer.ended = true;
                    return bytes;
                }
                Ok(count) => bytes.extend(piece.iter().take(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return bytes,
                Err(_) => {
                    peer.ended = true;
                    return bytes;
                }
            }
        }
    }

    fn ended(&mut self, raw: Raw) -> bool {
        let Some(peer) = self.peer(raw) else { return true };
        if let Some(stream) = &peer.stream
            && !peer.ended
        {
            peer.ended = match stream.peek(&mut [0]) {
                Ok(count) => count == 0,
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            };
        }
        peer.ended
    }

    fn finish(&mut self, raw: Raw) {
        if let Some(Peer { stream: Some(stream), .. }) = self.peer(raw) {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    fn close(&mut self, raw: Raw) {
        if let Some(peer) = self.peer(raw) {
            peer.stream = None;
            peer.ended = true;
        }
    }

    fn reset(&mut self, raw: Raw) {
        if let Some(Peer { stream: Some(stream), .. }) = self.peer(raw) {
            let _ = rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO));
        }
        self.close(raw);
    }
}

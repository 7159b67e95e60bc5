// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The object model over simulated machines: the calls of [`World`].

use core::time::Duration;

use kofi_core::attr::{CqAttr, EqAttr, WaitCond, WaitObj};
use kofi_core::memory::Registration;
use kofi_core::message::{PostReceive, Send};
use kofi_core::time::sread_timeout;
use kofi_core::{
    Caps, EndpointAttr, Errno, Error, Event as CoreEvent, MrMode, OpFlags, Origin, Result, SocketAddr,
    SrxAttr, TimeLimits,
};

use super::driver::Link;
use super::network::{Owner, Waker};
use super::objects::{
    CntrObject, CqObject, DomainObject, EndpointObject, FabricObject, PassiveObject, QueueObject,
    RegionObject, SrxObject, Tag, object,
};
use super::{Simulator, system};
use crate::allocator::inside;
use crate::world::{
    Completion, CompletionError, CompletionQueue, Counter, Domain, Endpoint, Event, EventError, EventQueue,
    Fabric, Family, Faults, MemoryRegion, Object, PassiveEndpoint, Process, RawPeers, ReceiveOp, RegionOp,
    Request, RmaIov, SendOp, SharedReceive, World,
};

impl World for Simulator {
    fn name(&self) -> &'static str {
        "simulator"
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.network.now)
    }

    fn step(&mut self, limit: Duration) -> bool {
        self.send_held();
        let limit = self.instant().after(limit).nanos();
        match self.network.next(limit) {
            None => false,
            Some(None) => true,
            Some(Some(task)) => {
                self.do_task(task);
                true
            }
        }
    }

    fn reads_drive(&self) -> bool {
        false
    }

    fn process(&mut self) -> Process {
        self.processes += 1;
        Process(self.processes - 1)
    }

    fn address(&mut self, process: Process, family: Family) -> Option<SocketAddr> {
        Some(SocketAddr::new(Self::host(process, family), 0))
    }

    fn closed_address(&mut self, process: Process) -> SocketAddr {
        SocketAddr::new(Self::host(process, Family::V4), 9)
    }

    fn endpoint_attr(&self) -> EndpointAttr {
        EndpointAttr {
            caps: Caps::MSG | Caps::SEND | Caps::RECV | Caps::RMA,
            tx_size: 256,
            rx_size: 256,
            inject_size: 64,
            tx_iov_limit: 4,
            rx_iov_limit: 4,
            rma_iov_limit: 4,
            total_buffered_recv: 1000,
            max_msg_size: i64::MAX as u64,
            dest_addr: None,
        }
    }

    fn bears_anything(&self) -> bool {
        true
    }

    fn raw(&mut self) -> Option<&mut dyn RawPeers> {
        Some(self)
    }

    fn faults(&mut self) -> Option<&mut dyn Faults> {
        Some(self)
    }

    fn fabric(&mut self, process: Process) -> Result<Fabric> {
        Ok(Fabric(self.fabrics.insert(FabricObject { process })))
    }

    fn close_fabric(&mut self, fabric: Fabric) -> Result<()> {
        const CALL: &str = "fi_close";
        self.fabrics.get(fabric.0).ok_or(Error::Stale { call: CALL, object: "fabric" })?;
        let used = self.domains.iter().any(|(_, domain)| domain.fabric == fabric)
            || self.queues.iter().any(|(_, queue)| queue.fabric == fabric)
            || self.passives.iter().any(|(_, passive)| passive.fabric == fabric);
        if used {
            let users = "domains, passive endpoints or event queues".to_owned();
            return Err(Error::Busy { call: CALL, object: "fabric", users });
        }
        self.fabrics.remove(fabric.0);
        Ok(())
    }

    fn eq_open(&mut self, fabric: Fabric, attr: &EqAttr) -> Result<EventQueue> {
        self.fabrics.get(fabric.0).ok_or(Error::Stale { call: "fi_eq_open", object: "fabric" })?;
        let machine = inside(|| kofi_core::EventQueue::open(attr))?;
        Ok(EventQueue(self.queues.insert(QueueObject { fabric, machine, wait: attr.wait_obj })))
    }

    fn eq_read(&mut self, eq: EventQueue) -> Result<Event> {
        let queue = self.queue_mut(eq, "fi_eq_read")?;
        let entry = inside(|| queue.machine.read())?;
        self.room_made(eq);
        self.event(entry)
    }

    fn eq_peek(&mut self, eq: EventQueue) -> Result<Event> {
        let entry = self.queue_mut(eq, "fi_eq_read")?.machine.peek()?.clone();
        Ok(Self::plain_event(entry.event, object(entry.fid)))
    }

    fn eq_sread(&mut self, eq: EventQueue, limit: i32, flags: OpFlags) -> Result<Event> {
        let limit = sread_timeout(limit, flags)?;
        if self.queue_mut(eq, "fi_eq_sread")?.wait == WaitObj::None {
            return Err(Error::Unsupported("fi_eq_sread on a queue that was opened with FI_WAIT_NONE"));
        }
        self.wait(limit, |world| world.eq_read(eq))
    }

    fn eq_readerr(&mut self, eq: EventQueue, flags: OpFlags) -> Result<EventError> {
        let queue = self.queue_mut(eq, "fi_eq_readerr")?;
        let entry = if flags.contains(OpFlags::PEEK) {
            queue.machine.peek_error()?.clone()
        } else {
            inside(|| queue.machine.read_error())?
        };
        match entry.event {
            CoreEvent::Error { reason, data } => {
                Ok(EventError { about: object(entry.fid), errno: reason.errno(), reason: Some(reason), data })
            }
            event => panic!("{event:?} is no error"),
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
        let fid = match about {
            Object::PassiveEndpoint(pep) => Tag::Passive.fid(pep.0),
            Object::Endpoint(ep) => Tag::Endpoint.fid(ep.0),
            Object::EventQueue(eq) => Tag::Queue.fid(eq.0),
        };
        let queue = self.queue_mut(eq, "fi_eq_write")?;
        inside(|| queue.machine.write(fid, event, entry, flags))
    }

    fn close_eq(&mut self, eq: EventQueue) -> Result<()> {
        self.queue_mut(eq, "fi_close")?.machine.check_close()?;
        self.queues.remove(eq.0);
        Ok(())
    }

    fn passive_ep(&mut self, fabric: Fabric, source: Option<SocketAddr>) -> Result<PassiveEndpoint> {
        const CALL: &str = "fi_passive_ep";
        self.fabrics.get(fabric.0).ok_or(Error::Stale { call: CALL, object: "fabric" })?;
        let address = match source {
            Some(source) => Some(self.network.bind(source).map_err(|errno| system(CALL, errno))?),
            None => None,
        };
        let machine = kofi_core::PassiveEndpoint::new(TimeLimits::default());
        Ok(PassiveEndpoint(self.passives.insert(PassiveObject {
            fabric,
            machine,
            eq: None,
            address,
            listener: None,
            connections: Vec::new(),
            timer: None,
        })))
    }

    fn pep_bind(&mut self, pep: PassiveEndpoint, eq: EventQueue, flags: u64) -> Result<()> {
        let fabric = self.queue_mut(eq, "fi_pep_bind")?.fabric;
        let object = self.passive_mut(pep, "fi_pep_bind")?;
        object.machine.bind(object.fabric == fabric, flags)?;
        object.eq = Some(eq);
        self.queue_mut(eq, "fi_pep_bind")?.machine.bind_passive();
        Ok(())
    }

    fn set_name(&mut self, pep: PassiveEndpoint, address: SocketAddr) -> Result<()> {
        self.listener_of(pep, "fi_setname")?.machine.check_set_name()?;
        let address = self.network.bind(address).map_err(|errno| system("fi_setname", errno))?;
        self.passive_mut(pep, "fi_setname")?.address = Some(address);
        Ok(())
    }

    fn pep_name(&mut self, pep: PassiveEndpoint) -> Result<SocketAddr> {
        let object = self.listener_of(pep, "fi_getname")?;
        object.address.ok_or(Error::WrongState {
            call: "fi_getname",
            object: "passive endpoint",
            found: "without an address",
            remedy: "set one or listen first",
            errno: Errno::EOPBADSTATE,
        })
    }

    fn set_backlog(&mut self, pep: PassiveEndpoint, backlog: usize) -> Result<()> {
        self.passive_mut(pep, "fi_control")?.machine.set_backlog(backlog)
    }

    fn set_pep_limits(&mut self, pep: PassiveEndpoint, limits: TimeLimits) -> Result<()> {
        self.passive_mut(pep, "fi_setopt")?.machine.set_limits(limits);
        Ok(())
    }

    fn listen(&mut self, pep: PassiveEndpoint) -> Result<()> {
        const CALL: &str = "fi_listen";
        let object = self.listener_of(pep, CALL)?;
        let backlog = object.machine.listen()?;
        let process = self.fabrics.get(object.fabric.0).map_or(Process(0), |fabric| fabric.process);
        let address = match object.address {
            Some(address) => address,
            None => self
                .network
                .bind(SocketAddr::new(Self::host(process, Family::V4), 0))
                .map_err(|errno| system(CALL, errno))?,
        };
        let listener = self
            .network
            .listen(address, backlog, Waker::Passive(pep))
            .map_err(|errno| system(CALL, errno))?;
        let object = self.passive_mut(pep, CALL)?;
        object.address = Some(address);
        object.listener = Some(listener);
        object.machine.listening();
        self.trace.add(self.network.now, || format!("pep {}: listens at {address}", pep.0));
        Ok(())
    }

    fn reject(&mut self, request: Request, data: &[u8]) -> Result<()> {
        const CALL: &str = "fi_reject";
        const STALE: Error = Error::Stale { call: CALL, object: "connection request" };
        let object = self.requests.get_mut(request.0).ok_or(STALE)?;
        if object.expired {
            return Err(Error::Expired { call: CALL, limit: object.limit });
        }
        if object.end.is_none() {
            return Err(STALE);
        }
        let message = inside(|| kofi_core::connection::reject(data))?;
        if let Some(end) = object.end.take() {
            self.network.put(end, &message);
            self.network.close(end);
        }
        self.requests.remove(request.0);
        Ok(())
    }

    fn close_pep(&mut self, pep: PassiveEndpoint) -> Result<()> {
        const CALL: &str = "fi_close";
        let object =
            self.passives.remove(pep.0).ok_or(Error::Stale { call: CALL, object: "passive endpoint" })?;
        if let Some(listener) = object.listener {
            self.network.close_listener(listener);
        }
        if let Some(eq) = object.eq {
            if let Some(queue) = self.queues.get_mut(eq.0) {
                queue.machine.unbind_passive(Tag::Passive.fid(pep.0));
            }
            self.room_made(eq);
        }
        for (id, asked) in object.machine.close() {
            if let Some(end) = object.connections.get(id.index()).copied().flatten() {
                if asked && let Ok(message) = inside(|| kofi_core::connection::reject(&[])) {
                    self.network.put(end, &message);
                }
                self.network.close(end);
            }
        }
        Ok(())
    }

    fn domain_with(&mut self, fabric: Fabric, mr_mode: MrMode) -> Result<Domain> {
        self.fabrics.get(fabric.0).ok_or(Error::Stale { call: "fi_domain", object: "fabric" })?;
        Ok(Domain(self.domains.insert(DomainObject {
            fabric,
            machine: kofi_core::Domain::new(TimeLimits::default()).with_mr_mode(mr_mode),
            endpoints: Vec::new(),
            memory: Vec::new(),
            live: 0,
            most_live: 0,
            most_remote: 0,
            regions: Vec::new(),
            mr_mode,
            timer: None,
        })))
    }

    fn close_domain(&mut self, domain: Domain) -> Result<()> {
        let object = self.domains.get(domain.0).ok_or(Error::Stale { call: "fi_close", object: "domain" })?;
        object.machine.check_close()?;
        self.domains.remove(domain.0);
        Ok(())
    }

    fn cq_open(&mut self, domain: Domain, attr: &CqAttr) -> Result<CompletionQueue> {
        let object =
            self.domains.get_mut(domain.0).ok_or(Error::Stale { call: "fi_cq_open", object: "domain" })?;
        let id = inside(|| object.machine.open_cq(attr))?;
        let (wait, cond) = (attr.wait_obj, attr.wait_cond);
        Ok(CompletionQueue(self.cqs.insert(CqObject { domain, id, wait, cond })))
    }

    fn cq_read(&mut self, cq: CompletionQueue) -> Result<Completion> {
        const STALE: Error = Error::Stale { call: "fi_cq_read", object: "completion queue" };
        self.send_held();
        let object = self.cqs.get(cq.0).ok_or(STALE)?;
        let domain = self.domains.get_mut(object.domain.0).ok_or(STALE)?;
        let (op, done) = inside(|| domain.machine.read_cq(object.id))?;
        // A peer's write has no buffers of its own.
        let own = !done.flags.contains(OpFlags::REMOTE_WRITE);
        let mut buffers = if own { domain.forget(op) } else { Vec::new() };
        let mut rest = domain.rest(done.buffer);
        if rest.is_none() && done.flags.contains(OpFlags::MULTI_RECV) {
            rest = Some(core::mem::take(&mut buffers).concat());
        }
        let domain = object.domain;
        // What waited for room in the queue goes on.
        self.pump(domain);
        let kofi_core::Completion { context, flags, len, data, offset, .. } = done;
        Ok(Completion { context, flags, len, data, buffers, offset, rest })
    }

    fn cq_sread_cond(&mut self, cq: CompletionQueue, threshold: usize, limit: i32) -> Result<Completion> {
        let limit = sread_timeout(limit, OpFlags::empty())?;
        let object = self.cqs.get(cq.0);
        if object.is_some_and(|cq| cq.wait == WaitObj::None) {
            return Err(Error::Unsupported("fi_cq_sread on a queue that was opened with FI_WAIT_NONE"));
        }
        let threshold = match object {
            Some(CqObject { cond: WaitCond::Threshold, .. }) => threshold,
            _ => 0,
        };
        let waited = self.wait(limit, |world| {
            let object = world.cqs.get(cq.0);
            let domain = object.and_then(|object| world.domains.get(object.domain.0));
            match (object, domain) {
                (Some(object), Some(domain)) if !domain.machine.cq_satisfies(object.id, threshold) => {
                    Err(Error::Empty)
                }
                _ => world.cq_read(cq),
            }
        });
        match waited {
            // The time is over: what is there will do.
            Err(Error::Empty) => self.cq_read(cq),
            other => other,
        }
    }

    fn cq_readerr(&mut self, cq: CompletionQueue) -> Result<CompletionError> {
        const STALE: Error = Error::Stale { call: "fi_cq_readerr", object: "completion queue" };
        let object = self.cqs.get(cq.0).ok_or(STALE)?;
        let domain = self.domains.get_mut(object.domain.0).ok_or(STALE)?;
        let (op, failed) = inside(|| domain.machine.read_cq_error(object.id))?;
        let mut buffers = domain.forget(op);
        let mut rest = domain.rest(failed.buffer);
        if rest.is_none() && failed.flags.contains(OpFlags::MULTI_RECV) {
            rest = Some(core::mem::take(&mut buffers).concat());
        }
        let domain = object.domain;
        self.pump(domain);
        Ok(CompletionError {
            context: failed.context,
            flags: failed.flags,
            len: failed.len,
            overflow: failed.overflow,
            data: failed.data,
            errno: failed.errno,
            buffers,
            offset: failed.offset,
            rest,
        })
    }

    fn close_cq(&mut self, cq: CompletionQueue) -> Result<()> {
        const STALE: Error = Error::Stale { call: "fi_close", object: "completion queue" };
        let object = self.cqs.get(cq.0).ok_or(STALE)?;
        let domain = object.domain;
        let machine = self.domains.get_mut(domain.0).ok_or(STALE)?;
        machine.machine.close_cq(object.id)?;
        self.cqs.remove(cq.0);
        self.pump(domain);
        Ok(())
    }

    fn cntr_open(&mut self, domain: Domain) -> Result<Counter> {
        const STALE: Error = Error::Stale { call: "fi_cntr_open", object: "domain" };
        let object = self.domains.get_mut(domain.0).ok_or(STALE)?;
        let id = inside(|| object.machine.open_cntr())?;
        Ok(Counter(self.counters.insert(CntrObject { domain, id })))
    }

    fn cntr_read(&mut self, cntr: Counter) -> Result<u64> {
        let (object, domain) = self.counter(cntr, "fi_cntr_read")?;
        Ok(domain.machine.cntr(object.id)?.value)
    }

    fn cntr_readerr(&mut self, cntr: Counter) -> Result<u64> {
        let (object, domain) = self.counter(cntr, "fi_cntr_readerr")?;
        Ok(domain.machine.cntr(object.id)?.errors)
    }

    fn cntr_add(&mut self, cntr: Counter, value: u64, errors: u64) -> Result<()> {
        let (object, domain) = self.counter(cntr, "fi_cntr_add")?;
        domain.machine.change_cntr(object.id, |counter| counter.add(value, errors))
    }

    fn cntr_set(&mut self, cntr: Counter, value: u64, errors: u64) -> Result<()> {
        let (object, domain) = self.counter(cntr, "fi_cntr_set")?;
        domain.machine.change_cntr(object.id, |counter| *counter = kofi_core::Counter { value, errors })
    }

    fn cntr_wait(&mut self, cntr: Counter, threshold: u64, timeout: i32) -> Result<()> {
        let limit = sread_timeout(timeout, OpFlags::empty())?;
        let (object, domain) = self.counter(cntr, "fi_cntr_wait")?;
        let before = domain.machine.cntr(object.id)?;
        let waited = self.wait(limit, |world| {
            let (object, domain) = world.counter(cntr, "fi_cntr_wait")?;
            domain.machine.cntr(object.id)?.check(threshold, &before)
        });
        match waited {
            Err(Error::Empty) => Err(system("fi_cntr_wait", Errno::ETIMEDOUT)),
            other => other,
        }
    }

    fn close_cntr(&mut self, cntr: Counter) -> Result<()> {
        let (object, domain) = self.counter(cntr, "fi_close")?;
        domain.machine.close_cntr(object.id)?;
        self.counters.remove(cntr.0);
        Ok(())
    }

    fn srx_open(&mut self, domain: Domain, attr: &SrxAttr) -> Result<SharedReceive> {
        const STALE: Error = Error::Stale { call: "fi_srx_context", object: "domain" };
        let object = self.domains.get_mut(domain.0).ok_or(STALE)?;
        let id = inside(|| object.machine.open_srx(*attr))?;
        Ok(SharedReceive(self.shared.insert(SrxObject { domain, id })))
    }

    fn srx_bind_cq(&mut self, srx: SharedReceive, cq: CompletionQueue, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        let queue = self.cqs.get(cq.0).ok_or(Error::Stale { call: CALL, object: "completion queue" })?;
        let (id, domain) = (queue.id, queue.domain);
        if self.shared.get(srx.0).is_some_and(|object| object.domain != domain) {
            return Err(Error::Invalid { call: CALL, problem: "the completion queue is of another domain" });
        }
        self.shared(srx, CALL, |machine, srx| machine.bind_srx_cq(srx, id, flags))
    }

    fn srx_recv(&mut self, srx: SharedReceive, receive: ReceiveOp) -> Result<()> {
        const CALL: &str = "fi_recvmsg";
        let ReceiveOp { buffers, flags, context } = receive;
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let receive = PostReceive { len, segments: buffers.len(), flags, context };
        let stale = Error::Stale { call: CALL, object: "shared receive context" };
        let domain = self.shared.get(srx.0).map(|object| object.domain);
        let Some(domain) = domain else { return Err(stale) };
        let Some(object) = self.domains.get_mut(domain.0) else { return Err(stale) };
        let Some(&SrxObject { id, .. }) = self.shared.get(srx.0) else { return Err(stale) };
        let op = inside(|| object.machine.post_shared_receive(id, &receive))?;
        self.keep(domain, op, buffers);
        Ok(())
    }

    fn srx_cancel(&mut self, srx: SharedReceive, context: u64) -> Result<()> {
        self.shared(srx, "fi_cancel", |machine, srx| machine.cancel_srx(srx, context))
    }

    fn srx_min_multi_recv(&mut self, srx: SharedReceive) -> Result<u64> {
        self.shared(srx, "fi_getopt", |machine, srx| machine.srx_min_multi_recv(srx))
    }

    fn set_srx_min_multi_recv(&mut self, srx: SharedReceive, min: u64) -> Result<()> {
        self.shared(srx, "fi_setopt", |machine, srx| machine.set_srx_min_multi_recv(srx, min))
    }

    fn close_srx(&mut self, srx: SharedReceive) -> Result<()> {
        self.shared(srx, "fi_close", kofi_core::Domain::close_srx)?;
        self.shared.remove(srx.0);
        Ok(())
    }

    fn mr_reg(&mut self, domain: Domain, region: RegionOp) -> Result<MemoryRegion> {
        const STALE: Error = Error::Stale { call: "fi_mr_regattr", object: "domain" };
        let object = self.domains.get_mut(domain.0).ok_or(STALE)?;
        // Virtual addresses are made up, far apart, and with all their digits in use.
        let address = (self.regions.given() as u64 + 0x7f3a).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
        let RegionOp { buffers, access, key } = region;
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let segments = buffers.len();
        let registration = Registration { len, segments, address, access, requested_key: key };
        let id = inside(|| object.machine.register(&registration, address ^ self.seed))?;
        if object.regions.len() <= id.index() {
            object.regions.resize(id.index() + 1, None);
        }
        object.regions[id.index()] = Some(buffers);
        let address = if object.mr_mode.contains(MrMode::VIRT_ADDR) { address } else { 0 };
        Ok(MemoryRegion(self.regions.insert(RegionObject { domain, id, address })))
    }

    fn mr_key(&mut self, mr: MemoryRegion) -> Result<u64> {
        let (object, domain) = self.region(mr, "fi_mr_key")?;
        domain.machine.mr_key(object.id)
    }

    fn mr_address(&mut self, mr: MemoryRegion) -> Result<u64> {
        Ok(self.region(mr, "fi_mr_key")?.0.address)
    }

    fn mr_read(&mut self, mr: MemoryRegion) -> Result<Vec<u8>> {
        let (object, domain) = self.region(mr, "read")?;
        Ok(domain.regions[object.id.index()].as_ref().map(|pieces| pieces.concat()).unwrap_or_default())
    }

    fn mr_write(&mut self, mr: MemoryRegion, at: usize, bytes: &[u8]) -> Result<()> {
        let (object, domain) = self.region(mr, "write")?;
        let memory = domain.regions[object.id.index()].iter_mut().flatten().flatten();
        memory.skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
        Ok(())
    }

    fn close_mr(&mut self, mr: MemoryRegion) -> Result<Vec<Vec<u8>>> {
        let (object, domain) = self.region(mr, "fi_close")?;
        inside(|| domain.machine.close_mr(object.id))?;
        let memory = domain.regions[object.id.index()].take().unwrap_or_default();
        let domain = object.domain;
        self.regions.remove(mr.0);
        self.pump(domain);
        Ok(memory)
    }

    fn endpoint(
        &mut self,
        domain: Domain,
        attr: &EndpointAttr,
        request: Option<Request>,
    ) -> Result<Endpoint> {
        const CALL: &str = "fi_endpoint";
        let origin = match request {
            None => Origin::Active,
            Some(request) => {
                let object = self.requests.get(request.0);
                let object = object.filter(|object| object.end.is_some() || object.expired);
                let taken = object.ok_or(Error::Stale { call: CALL, object: "connection request" })?.taken;
                Origin::Request(taken)
            }
        };
        let object = self.domains.get_mut(domain.0).ok_or(Error::Stale { call: CALL, object: "domain" })?;
        let ep = Endpoint(self.endpoints.given() as u32);
        let id = inside(|| object.machine.open_endpoint(Tag::Endpoint.fid(ep.0), *attr, origin))?;
        if object.endpoints.len() <= id.index() {
            object.endpoints.resize(id.index() + 1, None);
        }
        object.endpoints[id.index()] = Some(ep);
        let link = Link::default();
        self.endpoints.insert(EndpointObject { domain, id, eq: None, request, link, woken: false });
        Ok(ep)
    }

    fn ep_bind_eq(&mut self, ep: Endpoint, eq: EventQueue, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        let Self { endpoints, domains, queues, .. } = self;
        let queue = queues.get_mut(eq.0).ok_or(Error::Stale { call: CALL, object: "event queue" })?;
        let stale = Error::Stale { call: CALL, object: "endpoint" };
        let Some(endpoint) = endpoints.get_mut(ep.0) else { return Err(stale) };
        let Some(domain) = domains.get_mut(endpoint.domain.0) else { return Err(stale) };
        let same_fabric = queue.fabric == domain.fabric;
        inside(|| queue.machine.bind_endpoint())?;
        let bound = inside(|| domain.machine.bind_eq(endpoint.id, Tag::Queue.fid(eq.0), same_fabric, flags));
        match bound {
            Ok(()) => endpoint.eq = Some(eq),
            Err(_) => queue.machine.unbind_endpoint(Tag::Queue.fid(u32::MAX)),
        }
        bound
    }

    fn ep_bind_cq(&mut self, ep: Endpoint, cq: CompletionQueue, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        let object = self.cqs.get(cq.0).ok_or(Error::Stale { call: CALL, object: "completion queue" })?;
        let (id, domain) = (object.id, object.domain);
        let (endpoint, object, _) = self.parts(ep, CALL)?;
        if endpoint.domain != domain {
            return Err(Error::Invalid { call: CALL, problem: "the completion queue is of another domain" });
        }
        inside(|| object.machine.bind_cq(endpoint.id, id, flags))
    }

    fn ep_bind_cntr(&mut self, ep: Endpoint, cntr: Counter, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        let object = self.counters.get(cntr.0).ok_or(Error::Stale { call: CALL, object: "counter" })?;
        let (id, domain) = (object.id, object.domain);
        let (endpoint, object, _) = self.parts(ep, CALL)?;
        if endpoint.domain != domain {
            return Err(Error::Invalid { call: CALL, problem: "the counter is of another domain" });
        }
        inside(|| object.machine.bind_cntr(endpoint.id, id, flags))
    }

    fn ep_bind_srx(&mut self, ep: Endpoint, srx: SharedReceive, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        let object = self.shared.get(srx.0);
        let object = object.ok_or(Error::Stale { call: CALL, object: "shared receive context" })?;
        let (id, domain) = (object.id, object.domain);
        let (endpoint, object, _) = self.parts(ep, CALL)?;
        if endpoint.domain != domain {
            let problem = "the shared receive context is of another domain";
            return Err(Error::Invalid { call: CALL, problem });
        }
        inside(|| object.machine.bind_srx(endpoint.id, id, flags))
    }

    fn min_multi_recv(&mut self, ep: Endpoint) -> Result<u64> {
        self.command(ep, "fi_getopt", |machine, id| machine.min_multi_recv(id))
    }

    fn set_min_multi_recv(&mut self, ep: Endpoint, min: u64) -> Result<()> {
        self.command(ep, "fi_setopt", |machine, id| machine.set_min_multi_recv(id, min))
    }

    fn enable(&mut self, ep: Endpoint) -> Result<()> {
        self.command(ep, "fi_enable", |machine, id| machine.enable(id))
    }

    fn set_ep_limits(&mut self, ep: Endpoint, limits: TimeLimits) -> Result<()> {
        self.command(ep, "fi_setopt", |machine, id| machine.set_limits(id, limits))
    }

    fn connect(&mut self, ep: Endpoint, address: Option<SocketAddr>, data: &[u8]) -> Result<()> {
        let now = self.instant();
        let address =
            self.command(ep, "fi_connect", |machine, id| machine.connect(id, address, data, now))?;
        if self.no_connect > 0 {
            self.no_connect -= 1;
            return self.command(ep, "fi_connect", |machine, id| {
                machine.transport_failed(id, Errno::EMFILE);
                Ok(())
            });
        }
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return Ok(()) };
        let fabric = self.domains.get(endpoint.domain.0).map(|domain| domain.fabric);
        let fabric = fabric.and_then(|fabric| self.fabrics.get(fabric.0));
        let process = fabric.map_or(Process(0), |fabric| fabric.process);
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        let local = SocketAddr::new(Self::host(process, family), 0);
        self.trace.add(self.network.now, || format!("ep {}: connects to {address}", ep.0));
        endpoint.link.end = Some(self.network.connect(local, address, Owner::Endpoint(ep)));
        Ok(())
    }

    fn accept(&mut self, ep: Endpoint, data: &[u8]) -> Result<()> {
        const CALL: &str = "fi_accept";
        let now = self.instant();
        self.command(ep, CALL, |machine, id| machine.check_accept(id, data, now))?;
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return Ok(()) };
        let request = endpoint.request.and_then(|request| self.requests.get_mut(request.0));
        let end = request.and_then(|request| request.end);
        let end = end.ok_or(Error::Stale { call: CALL, object: "connection request" })?;
        let Some(connection) = self.network.connection(end.connection) else { return Ok(()) };
        let [peer, local] = connection.address;
        self.command(ep, CALL, |machine, id| machine.accept(id, local, peer, data, now))?;
        self.network.set_owner(end, Owner::Endpoint(ep));
        if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
            endpoint.link.end = Some(end);
            if let Some(request) = endpoint.request {
                self.requests.remove(request.0);
            }
        }
        self.wake(ep);
        Ok(())
    }

    fn shutdown(&mut self, ep: Endpoint, flags: u64) -> Result<()> {
        let now = self.instant();
        self.command(ep, "fi_shutdown", |machine, id| machine.shutdown(id, flags, now))
    }

    fn ep_name(&mut self, ep: Endpoint) -> Result<SocketAddr> {
        let name = self.command(ep, "fi_getname", |machine, id| machine.local(id))?;
        name.ok_or(Error::WrongState {
            call: "fi_getname",
            object: "endpoint",
            found: "without an address",
            remedy: "connect first",
            errno: Errno::EOPBADSTATE,
        })
    }

    fn ep_peer(&mut self, ep: Endpoint) -> Result<SocketAddr> {
        self.command(ep, "fi_getpeer", |machine, id| machine.peer(id))
    }

    fn send(&mut self, ep: Endpoint, send: SendOp) -> Result<()> {
        let SendOp { buffers, data, flags, context, quiet } = send;
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let segments = buffers.len();
        let (endpoint, domain, _) = self.parts(ep, "fi_sendmsg")?;
        let send = Send { len, segments, data, flags, context, quiet };
        let op = inside(|| domain.machine.post_send(endpoint.id, &send))?;
        let domain = endpoint.domain;
        self.keep(domain, op, buffers);
        self.posted(ep, flags);
        Ok(())
    }

    fn recv(&mut self, ep: Endpoint, receive: ReceiveOp) -> Result<()> {
        let ReceiveOp { buffers, flags, context } = receive;
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let segments = buffers.len();
        let (endpoint, domain, _) = self.parts(ep, "fi_recvmsg")?;
        let receive = PostReceive { len, segments, flags, context };
        let op = inside(|| domain.machine.post_receive(endpoint.id, &receive))?;
        let domain = endpoint.domain;
        self.keep(domain, op, buffers);
        self.wake(ep);
        Ok(())
    }

    fn write(&mut self, ep: Endpoint, write: SendOp, remote: &[RmaIov]) -> Result<()> {
        let SendOp { buffers, data, flags, context, quiet } = write;
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let segments = buffers.len();
        let (endpoint, domain, _) = self.parts(ep, "fi_writemsg")?;
        let write = Send { len, segments, data, flags, context, quiet };
        let op = inside(|| domain.machine.post_write(endpoint.id, &write, remote))?;
        let domain = endpoint.domain;
        self.keep(domain, op, buffers);
        self.posted(ep, flags);
        Ok(())
    }

    fn read(&mut self, ep: Endpoint, read: ReceiveOp, remote: &[RmaIov]) -> Result<()> {
        let ReceiveOp { buffers, flags, context } = read;
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let segments = buffers.len();
        let (endpoint, domain, _) = self.parts(ep, "fi_readmsg")?;
        let read = Send { len, segments, flags, context, ..Send::default() };
        let op = inside(|| domain.machine.post_read(endpoint.id, &read, remote))?;
        let domain = endpoint.domain;
        self.keep(domain, op, buffers);
        self.posted(ep, flags);
        Ok(())
    }

    fn cancel(&mut self, ep: Endpoint, context: u64) -> Result<()> {
        self.command(ep, "fi_cancel", |machine, id| machine.cancel(id, context))
    }

    fn close_ep(&mut self, ep: Endpoint) -> Result<()> {
        let (endpoint, domain, _) = self.parts(ep, "fi_close")?;
        if domain.machine.loans(endpoint.id) > 0 {
            inside(|| domain.machine.abandon(endpoint.id))?;
        }
        let recalled = self.recall(ep);
        let (endpoint, domain, network) = self.parts(ep, "fi_close")?;
        inside(|| domain.machine.close_endpoint(endpoint.id))?;
        domain.endpoints[endpoint.id.index()] = None;
        match endpoint.link.end.take() {
            Some(end) if recalled => network.recall(end),
            Some(end) => network.close(end),
            None => {}
        }
        let (domain, eq) = (endpoint.domain, endpoint.eq);
        if let Some(queue) = eq.and_then(|eq| self.queues.get_mut(eq.0)) {
            queue.machine.unbind_endpoint(Tag::Endpoint.fid(ep.0));
        }
        if let Some(eq) = eq {
            self.room_made(eq);
        }
        self.endpoints.remove(ep.0);
        self.pump(domain);
        Ok(())
    }
}

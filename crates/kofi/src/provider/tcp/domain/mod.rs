// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The domain over TCP: a loop around [`kofi_core::Domain`].
//!
//! Here are its objects and how they are opened. What is done under its lock is in the modules: `driving`
//! looks what has happened and whose turn it is, `reading` and `writing` move bytes, `settling` carries out
//! what the machine says after each step, `closing` ends connections.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::panicking;

use kofi_core::attr::{CqAttr, WaitObj};
use kofi_core::endpoint::{EndpointAttr, Origin};
use kofi_core::message::WritePlan;
use kofi_core::{
    Domain, DomainStatistics, EpId, Error, Fid, Info, Instant, MrMode, Result, SrxAttr, TimeLimits,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

use super::completion_queue::{CqShared, TcpCompletionQueue};
use super::counter::TcpCounter;
use super::endpoint::TcpEndpoint;
use super::locked::Locked;
use super::memory_region::TcpMemoryRegion;
use super::shared_receive::TcpSharedReceive;
use super::{check_type, environment, offers, socket};
use crate::buffer::Buffers;
use crate::connection_request::ConnectionRequest;
use crate::event_queue::EqShared;
use crate::fabric::{Child, FabricShared};
use crate::live::Inspect;
use crate::notice::Notice;
use crate::progress::{self, ProgressThread};
use crate::provider::{
    CompletionQueueOps, CounterOps, DomainOps, EndpointOps, MemoryRegionOps, Refused, Region,
    SharedReceiveOps,
};
use crate::wait::{Alarm, broken, system};
use crate::wait_set::WaitSet;

mod closing;
mod connection;
mod driving;
mod inspect;
mod memory;
mod reading;
mod settling;
mod writing;

use closing::Lingering;
use connection::Connection;

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
            scratch: vec![0; reading::SCRATCH],
            plan: WritePlan::new(writing::SEGMENTS)?,
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
        Ok(Arc::new(TcpCompletionQueue::open(&self.0, self.1.clone(), attr, wait_set)?))
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
    pub(crate) fn lock(&self) -> Locked<'_> {
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
}

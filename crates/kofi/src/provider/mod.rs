// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Providers: who implements the objects. These traits are OFI's operation tables; the faces know
//! nothing else of a provider.
//!
//! The rules for the order of calls are checked when they are made, as C programs expect it. The
//! types of this crate's root stand on top, and make wrong orders impossible where types can.

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use kofi_core::attr::{CqAttr, WaitObj};
use kofi_core::flags::OpFlags;
use kofi_core::info::FabricAttr;
use kofi_core::wire::header::Segment;
use kofi_core::{
    Address, CompletionError, DomainStatistics, EndpointStatistics, Error, Fid, Info, ListenerStatistics,
    Result, SrxAttr, State, TimeLimits,
};

use crate::buffer::Buffers;
use crate::buffer_scope::Loans;
use crate::completion_queue::{Completion, CqEntry};
use crate::connection_request::ConnectionRequest;
use crate::event_queue::EventQueue;
use crate::fabric::FabricShared;
use crate::getinfo::Query;

pub(crate) mod tcp;

/// A provider: `struct fi_provider`.
pub trait Provider: Send + Sync {
    /// Its name, in `fabric_attr.prov_name`.
    fn name(&self) -> &'static str;

    /// All that it offers for the addresses of `query`, in order of preference, before hints are
    /// looked at.
    ///
    /// # Errors
    /// When the addresses make no sense.
    fn offers(&self, query: &Query) -> Result<Vec<Info>>;

    /// `fi_fabric`.
    ///
    /// # Errors
    /// -FI_ENODATA when there is no such fabric.
    fn fabric(&self, attr: &FabricAttr) -> Result<Arc<dyn FabricOps>>;
}

/// Operations of a fabric: `struct fi_ops_fabric`.
pub trait FabricOps: Send + Sync {
    /// `fi_domain`.
    ///
    /// # Errors
    /// -FI_ENOMEM, -FI_EMFILE.
    fn domain(&self, fabric: &Arc<FabricShared>, info: &Info) -> Result<Arc<dyn DomainOps>>;

    /// `fi_passive_ep`.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_EADDRINUSE, -FI_EADDRNOTAVAIL, -FI_EMFILE.
    fn passive_ep(&self, fabric: &Arc<FabricShared>, info: &Info) -> Result<Arc<dyn PassiveEndpointOps>>;
}

/// Operations of a passive endpoint: `struct fi_ops_cm`.
pub trait PassiveEndpointOps: Send + Sync {
    /// This object's identity.
    fn fid(&self) -> Fid;
    /// `fi_pep_bind`.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_EOPBADSTATE.
    fn bind(&self, eq: &EventQueue, flags: u64) -> Result<()>;
    /// `fi_setname`.
    ///
    /// # Errors
    /// -FI_EOPBADSTATE once listening, -FI_EADDRINUSE, -FI_EADDRNOTAVAIL.
    fn set_name(&self, addr: &Address) -> Result<()>;
    /// `fi_getname`.
    ///
    /// # Errors
    /// As the system reports.
    fn name(&self) -> Result<Address>;
    /// `fi_control(FI_BACKLOG)`.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_EOPBADSTATE.
    fn set_backlog(&self, backlog: usize) -> Result<()>;
    /// The limits in time for connection requests.
    fn limits(&self) -> TimeLimits;
    /// Sets them, for connections that come from now on.
    fn set_limits(&self, limits: TimeLimits);
    /// What it has done so far.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn statistics(&self) -> Result<ListenerStatistics>;
    /// `fi_listen`.
    ///
    /// # Errors
    /// -FI_ENOEQ, -FI_EINVAL, -FI_EADDRINUSE.
    fn listen(&self) -> Result<()>;
    /// `fi_close`: always works. Doing it again changes nothing.
    fn close(&self);
}

/// Operations of a domain: `struct fi_ops_domain`.
pub trait DomainOps: Send + Sync {
    /// `fi_cq_open`.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_ENOMEM, -FI_EMFILE.
    fn cq_open(
        &self,
        attr: &CqAttr,
        wait_set: Option<&crate::WaitSet>,
    ) -> Result<Arc<dyn CompletionQueueOps>>;
    /// `fi_cntr_open`.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_ENOMEM, -FI_EMFILE.
    fn cntr_open(&self, wait: WaitObj, wait_set: Option<&crate::WaitSet>) -> Result<Arc<dyn CounterOps>>;
    /// `fi_srx_context`.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_ENOMEM.
    fn srx_context(&self, attr: &SrxAttr) -> Result<Arc<dyn SharedReceiveOps>>;
    /// `fi_mr_regattr`.
    ///
    /// # Errors
    /// -FI_ENOKEY when the key is in use, -FI_EBADFLAGS, -FI_EINVAL; the memory comes back with it.
    fn mr_reg(&self, region: Region) -> Result<Arc<dyn MemoryRegionOps>, Refused>;
    /// `fi_endpoint`, to connect.
    ///
    /// # Errors
    /// -FI_EINVAL for an info of another kind, -FI_ENOMEM.
    fn endpoint(&self, info: &Info) -> Result<Arc<dyn EndpointOps>>;
    /// `fi_endpoint` with the info of a connection request, to accept.
    ///
    /// # Errors
    /// As for [`endpoint`](Self::endpoint).
    fn endpoint_for(&self, request: &ConnectionRequest) -> Result<Arc<dyn EndpointOps>>;
    /// The limits in time that its endpoints start with.
    fn limits(&self) -> TimeLimits;
    /// Sets them, for endpoints that are opened from now on.
    fn set_limits(&self, limits: TimeLimits);
    /// What its endpoints have done so far, those that are closed included.
    fn statistics(&self) -> DomainStatistics;
    /// `fi_close`.
    ///
    /// # Errors
    /// -FI_EBUSY while anything is open in the domain.
    fn close(&self) -> Result<()>;
}

/// Operations of a completion queue: `struct fi_ops_cq`.
pub trait CompletionQueueOps: Send + Sync {
    /// `fi_cq_read`.
    ///
    /// # Errors
    /// -FI_EAGAIN, -FI_EAVAIL.
    fn read(&self) -> Result<Completion>;
    /// `fi_cq_read` of up to `most` completions, for who knows where the memory is: what an operation owned is
    /// dropped. `each` is called with the domain locked, and must not call into it. Gives how many there were.
    ///
    /// # Errors
    /// As for [`read`](Self::read), when there is none before that.
    fn read_entries(&self, most: usize, each: &mut dyn FnMut(CqEntry)) -> Result<usize>;
    /// Lets all that feeds the queue go on, and reads nothing.
    fn progress(&self);
    /// Whether there is something to read, be it an error, after a look for more.
    fn is_ready(&self) -> bool;
    /// `fi_cq_readerr`.
    ///
    /// # Errors
    /// -FI_EAGAIN.
    fn read_error(&self) -> Result<Completion>;
    /// The same, as [`read_entries`](Self::read_entries).
    ///
    /// # Errors
    /// -FI_EAGAIN.
    fn read_error_entry(&self) -> Result<(CqEntry, CompletionError)>;
    /// `fi_cq_sread`: `threshold` counts on queues that were opened with `WaitCond::Threshold`.
    ///
    /// # Errors
    /// -FI_EAGAIN, -FI_EAVAIL, -FI_ENOSYS.
    fn sread(&self, threshold: usize, timeout: Option<Duration>) -> Result<Completion>;
    /// The same, as [`read_entries`](Self::read_entries).
    ///
    /// # Errors
    /// As for [`sread`](Self::sread).
    fn sread_entries(
        &self,
        most: usize,
        threshold: usize,
        timeout: Option<Duration>,
        each: &mut dyn FnMut(CqEntry),
    ) -> Result<usize>;
    /// `fi_cq_signal`.
    ///
    /// # Errors
    /// -FI_ENOSYS.
    fn signal(&self) -> Result<()>;
    /// `fi_trywait`.
    ///
    /// # Errors
    /// -FI_EAGAIN.
    fn try_wait(&self) -> Result<()>;
    /// `fi_control(FI_GETWAIT)`.
    ///
    /// # Errors
    /// -FI_ENOSYS when it was opened without a descriptor.
    fn fd(&self) -> Result<BorrowedFd<'_>>;
    /// `fi_close`.
    ///
    /// # Errors
    /// -FI_EBUSY while endpoints are bound.
    fn close(&self) -> Result<()>;
    /// For the provider that opened it.
    fn as_any(&self) -> &dyn Any;
}

/// Operations of a counter: `struct fi_ops_cntr`.
pub trait CounterOps: Send + Sync {
    /// Lets all that is counted go on.
    fn progress(&self);
    /// `fi_cntr_read` and `fi_cntr_readerr`, as far as progress was made.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn read(&self) -> Result<kofi_core::Counter>;
    /// `fi_cntr_add` and `fi_cntr_adderr`.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn add(&self, value: u64, errors: u64) -> Result<()>;
    /// `fi_cntr_set` and `fi_cntr_seterr`; a number that is not given stays.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn set(&self, value: Option<u64>, errors: Option<u64>) -> Result<()>;
    /// `fi_cntr_wait`.
    ///
    /// # Errors
    /// -FI_EAVAIL, -FI_ETIMEDOUT, -FI_ENOSYS.
    fn wait(&self, threshold: u64, timeout: Option<Duration>) -> Result<()>;
    /// Whether it has changed since it was read, after a look for more.
    fn is_ready(&self) -> bool;
    /// `fi_trywait`: a change since it was read is something to read.
    ///
    /// # Errors
    /// -FI_EAGAIN.
    fn try_wait(&self) -> Result<()>;
    /// `fi_control(FI_GETWAIT)`.
    ///
    /// # Errors
    /// -FI_ENOSYS when it was opened without a descriptor.
    fn fd(&self) -> Result<BorrowedFd<'_>>;
    /// `fi_close`.
    ///
    /// # Errors
    /// -FI_EBUSY while endpoints are bound.
    fn close(&self) -> Result<()>;
    /// For the provider that opened it.
    fn as_any(&self) -> &dyn Any;
}

/// Operations of a shared receive context: those of `struct fid_ep` that `fi_srx_context` gives.
pub trait SharedReceiveOps: Send + Sync {
    /// `fi_ep_bind` to a completion queue, for receives that no message has met.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_EBADFLAGS.
    fn bind_cq(&self, cq: &Arc<dyn CompletionQueueOps>, flags: OpFlags) -> Result<()>;
    /// `fi_recvmsg`.
    ///
    /// # Errors
    /// See [`kofi_core::Domain::post_shared_receive`]; -FI_EINVAL for memory that is shared.
    fn recv(&self, receive: Receive) -> Result<(), Refused>;
    /// `fi_cancel`.
    ///
    /// # Errors
    /// -FI_ENOENT when no such receive is pending.
    fn cancel(&self, context: u64) -> Result<()>;
    /// `fi_getopt(FI_OPT_MIN_MULTI_RECV)`, bytes.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn min_multi_recv(&self) -> Result<u64>;
    /// `fi_setopt(FI_OPT_MIN_MULTI_RECV)`, bytes, for receives that are posted from now on.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn set_min_multi_recv(&self, min: u64) -> Result<()>;
    /// `fi_close`: receives that no message has met complete with `FI_ECANCELED` in the bound queue.
    ///
    /// # Errors
    /// -FI_EBUSY while endpoints are bound.
    fn close(&self) -> Result<()>;
    /// For the provider that opened it.
    fn as_any(&self) -> &dyn Any;
}

/// Memory to be registered: `struct fi_mr_attr`.
#[derive(Debug, Default)]
pub struct Region {
    /// Where its bytes are.
    pub buffers: Buffers,
    /// `FI_SEND`, `FI_RECV`, `FI_READ`, `FI_WRITE`, `FI_REMOTE_READ`, `FI_REMOTE_WRITE`.
    pub access: OpFlags,
    /// The key; does not count under `FI_MR_PROV_KEY`.
    pub requested_key: u64,
}

/// Operations of a memory region: what is at `struct fid_mr`, and access to memory that peers may
/// change.
pub trait MemoryRegionOps: Send + Sync {
    /// `fi_mr_key`.
    fn key(&self) -> u64;
    /// What peers call the first byte.
    fn address(&self) -> u64;
    /// Bytes.
    fn len(&self) -> usize;
    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Copies out of it.
    ///
    /// # Errors
    /// -FI_EINVAL beyond its end, or once it is closed.
    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<()>;
    /// Copies into it.
    ///
    /// # Errors
    /// -FI_EINVAL beyond its end, once it is closed, or when its memory is shared or static.
    fn write(&self, at: usize, bytes: &[u8]) -> Result<()>;
    /// `fi_close`: gives the memory back. Doing it again gives none.
    fn close(&self) -> Buffers;
}

/// A message to be sent, or the local side of a write.
#[derive(Debug, Default)]
pub struct Message {
    /// Where its bytes are.
    pub buffers: Buffers,
    /// Completion data for the receiver.
    pub data: Option<u64>,
    /// `FI_COMPLETION`, `FI_INJECT`, `FI_MORE`, and completion levels.
    pub flags: OpFlags,
    /// Comes back with the completion.
    pub context: u64,
}

/// A receive to be posted, or the local side of a read.
#[derive(Debug, Default)]
pub struct Receive {
    /// Where the bytes go.
    pub buffers: Buffers,
    /// `FI_COMPLETION`, `FI_MORE`; `FI_MULTI_RECV` for one buffer that takes several messages.
    pub flags: OpFlags,
    /// Comes back with the completion.
    pub context: u64,
}

/// An operation that was not taken, with the memory it would have owned.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: Error,
    /// The caller's memory.
    pub buffers: Buffers,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

/// Operations of an endpoint: `struct fi_ops_cm` and `struct fi_ops_msg`.
pub trait EndpointOps: Send + Sync {
    /// This object's identity.
    fn fid(&self) -> Fid;
    /// `fi_ep_bind` to an event queue.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_EOPBADSTATE.
    fn bind_eq(&self, eq: &EventQueue, flags: OpFlags) -> Result<()>;
    /// `fi_ep_bind` to a completion queue.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_EBADFLAGS, -FI_EOPBADSTATE.
    fn bind_cq(&self, cq: &Arc<dyn CompletionQueueOps>, flags: OpFlags) -> Result<()>;
    /// `fi_ep_bind` to a counter.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_EBADFLAGS, -FI_EOPBADSTATE.
    fn bind_cntr(&self, cntr: &Arc<dyn CounterOps>, flags: OpFlags) -> Result<()>;
    /// `fi_ep_bind` to a shared receive context.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_EOPBADSTATE, -FI_ENOMEM.
    fn bind_srx(&self, srx: &Arc<dyn SharedReceiveOps>, flags: OpFlags) -> Result<()>;
    /// `fi_getopt(FI_OPT_MIN_MULTI_RECV)`, bytes.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn min_multi_recv(&self) -> Result<u64>;
    /// `fi_setopt(FI_OPT_MIN_MULTI_RECV)`, bytes, for receives that are posted from now on.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn set_min_multi_recv(&self, min: u64) -> Result<()>;
    /// `fi_enable`.
    ///
    /// # Errors
    /// -FI_ENOEQ, -FI_ENOCQ, -FI_EOPBADSTATE.
    fn enable(&self) -> Result<()>;
    /// `fi_connect`, to `dest` or else to the info's `dest_addr`.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_EOPBADSTATE, -FI_ENOEQ, -FI_ENOCQ; what the system says when it cannot start.
    fn connect(&self, dest: Option<&Address>, data: &[u8]) -> Result<()>;
    /// `fi_accept`.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_ETIMEDOUT, -FI_ENOEQ, -FI_ENOCQ.
    fn accept(&self, data: &[u8]) -> Result<()>;
    /// `fi_shutdown`.
    ///
    /// # Errors
    /// -FI_EINVAL, -FI_ENOTCONN, -FI_EOPBADSTATE.
    fn shutdown(&self, flags: u64) -> Result<()>;
    /// Where the endpoint is in its life.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn state(&self) -> Result<State>;
    /// `fi_getname`.
    ///
    /// # Errors
    /// -FI_EOPBADSTATE while it has no address.
    fn name(&self) -> Result<Address>;
    /// `fi_getpeer`.
    ///
    /// # Errors
    /// -FI_ENOTCONN before it is connected.
    fn peer(&self) -> Result<Address>;
    /// The limits in time.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn limits(&self) -> Result<TimeLimits>;
    /// Sets them, for phases that start from now on.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn set_limits(&self, limits: TimeLimits) -> Result<()>;
    /// What it has done so far.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    fn statistics(&self) -> Result<EndpointStatistics>;
    /// `fi_sendmsg`.
    ///
    /// # Errors
    /// See [`kofi_core::Domain::post_send`]; the memory comes back with it.
    fn send(&self, message: Message) -> Result<(), Refused>;
    /// `fi_inject` and `fi_injectdata`: the bytes are copied, and no success is reported.
    ///
    /// # Errors
    /// See [`kofi_core::Domain::post_send`].
    fn inject(&self, bytes: &[u8], data: Option<u64>) -> Result<()>;
    /// `fi_recvmsg`.
    ///
    /// # Errors
    /// See [`kofi_core::Domain::post_receive`]; -FI_EINVAL for memory that is shared.
    fn recv(&self, receive: Receive) -> Result<(), Refused>;
    /// The same for C programs, whose receives stay posted when the connection is over.
    ///
    /// # Errors
    /// See [`kofi_core::Domain::post_late_receive`]; -FI_EINVAL for memory that is shared.
    fn recv_late(&self, receive: Receive) -> Result<(), Refused>;
    /// `fi_writemsg`: into the peer's memory `remote`.
    ///
    /// # Errors
    /// See [`kofi_core::Domain::post_write`]; the memory comes back with it.
    fn write(&self, message: Message, remote: &[Segment]) -> Result<(), Refused>;
    /// `fi_inject_write` and `fi_inject_writedata`: the bytes are copied, and no success is reported.
    ///
    /// # Errors
    /// See [`kofi_core::Domain::post_write`].
    fn inject_write(&self, bytes: &[u8], data: Option<u64>, remote: Segment) -> Result<()>;
    /// `fi_readmsg`: from the peer's memory `remote`.
    ///
    /// # Errors
    /// See [`kofi_core::Domain::post_read`]; -FI_EINVAL for memory that is shared; it comes back.
    fn read(&self, receive: Receive, remote: &[Segment]) -> Result<(), Refused>;
    /// `fi_cancel`.
    ///
    /// # Errors
    /// -FI_ENOENT when no such operation is pending, or it has begun.
    fn cancel(&self, context: u64) -> Result<()>;
    /// The end of a scope: gives back all memory that operations of this endpoint have from it. That
    /// of operations that are complete at once; receives that no message has reached are cancelled;
    /// the others are waited for, as long as a shutdown may take, and then the endpoint is closed.
    fn end_loans(&self, loans: &Loans);
    /// `fi_close`: each pending operation completes with `FI_ECANCELED` first. Doing it again
    /// changes nothing.
    fn close(&self);
}

static PROVIDERS: [&dyn Provider; 1] = [&tcp::Tcp];

/// All providers, in order of preference.
pub fn all() -> &'static [&'static dyn Provider] {
    &PROVIDERS
}

/// The provider of that name.
///
/// # Errors
/// -FI_ENODEV when there is none.
pub fn find(name: &str) -> Result<&'static dyn Provider> {
    all().iter().copied().find(|provider| provider.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known: Vec<_> = all().iter().map(|provider| provider.name()).collect();
        Error::System {
            call: "fi_fabric",
            errno: kofi_core::Errno::ENODEV,
            detail: format!("there is no provider {name:?}; there are: {}", known.join(", ")),
        }
    })
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The object model as one linear API over handles: what the suite is written against.
//!
//! A world is a network and some processes in it, all driven by one thread. The simulator is one;
//! the real library over real sockets is another. Names and rules are OFI's. Two things are chosen so
//! that any implementation can offer them and a test can look inside:
//!
//! * handles are plain numbers, and a stale one is an error, never undefined;
//! * buffers are given by value, and come back with the completion.

use core::time::Duration;

pub use kofi_core::SocketAddr;
use kofi_core::attr::{CqAttr, EqAttr};
pub use kofi_core::wire::header::Segment as RmaIov;
use kofi_core::{EndpointAttr, Errno, MrMode, OpFlags, Reason, Result, SrxAttr, TimeLimits};

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub u32);
    )*};
}

handles! {
    /// A process: its objects share nothing with those of another one but the network.
    Process,
    /// `struct fid_fabric`.
    Fabric,
    /// `struct fid_domain`.
    Domain,
    /// `struct fid_eq`.
    EventQueue,
    /// `struct fid_cq`.
    CompletionQueue,
    /// `struct fid_cntr`.
    Counter,
    /// `struct fid_mr`.
    MemoryRegion,
    /// `struct fid_ep` of `fi_srx_context`.
    SharedReceive,
    /// `struct fid_pep`.
    PassiveEndpoint,
    /// `struct fid_ep`.
    Endpoint,
    /// A connection request that was read: the `handle` of the event's info.
    Request,
    /// A transport connection without an endpoint: a peer that can say anything.
    Raw,
    /// A transport listener without a passive endpoint.
    RawListener,
}

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Object {
    /// A passive endpoint.
    PassiveEndpoint(PassiveEndpoint),
    /// An endpoint.
    Endpoint(Endpoint),
    /// An event queue itself.
    EventQueue(EventQueue),
}

/// What `fi_eq_read` and `fi_eq_sread` give.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// `FI_CONNREQ`.
    ConnectionRequest {
        /// Who is asked.
        pep: PassiveEndpoint,
        /// For one accept or reject; `None` when the event was only looked at.
        request: Option<Request>,
        /// The address that was reached (`src_addr` of the event's info).
        local: SocketAddr,
        /// The address of the peer (`dest_addr` of the event's info).
        peer: SocketAddr,
        /// What the peer gave to `fi_connect`.
        data: Vec<u8>,
    },
    /// `FI_CONNECTED`.
    Connected {
        /// Which endpoint.
        ep: Endpoint,
        /// What the peer gave to `fi_accept`.
        data: Vec<u8>,
    },
    /// `FI_SHUTDOWN`.
    Shutdown {
        /// Which endpoint.
        ep: Endpoint,
        /// Why, where the implementation says.
        reason: Option<Reason>,
    },
    /// What `fi_eq_write` wrote.
    Application {
        /// As written.
        about: Object,
        /// As written.
        event: u32,
        /// As written.
        entry: Vec<u8>,
    },
}

/// What `fi_eq_readerr` gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventError {
    /// Which object.
    pub about: Object,
    /// `err`.
    pub errno: Errno,
    /// Why, where the implementation says more.
    pub reason: Option<Reason>,
    /// `err_data`: what the peer gave to `fi_reject`.
    pub data: Vec<u8>,
}

/// What `fi_cq_read` gives, and the operation's buffers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// As posted.
    pub context: u64,
    /// What it was.
    pub flags: OpFlags,
    /// Bytes received.
    pub len: u64,
    /// The sender's completion data, if `flags` has `FI_REMOTE_CQ_DATA`.
    pub data: u64,
    /// The buffers, as posted but for what was received. Of a message in a buffer for several: its part of
    /// that.
    pub buffers: Vec<Vec<u8>>,
    /// Of such a message: where in the buffer it began.
    pub offset: u64,
    /// If `flags` has `FI_MULTI_RECV`: what is left of the buffer.
    pub rest: Option<Vec<u8>>,
}

/// What `fi_cq_readerr` gives, and the operation's buffers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompletionError {
    /// As posted.
    pub context: u64,
    /// What it was.
    pub flags: OpFlags,
    /// Bytes received before it failed.
    pub len: u64,
    /// Bytes that had no room.
    pub overflow: u64,
    /// The sender's completion data.
    pub data: u64,
    /// Why it failed.
    pub errno: Errno,
    /// As in [`Completion`].
    pub buffers: Vec<Vec<u8>>,
    /// As in [`Completion`].
    pub offset: u64,
    /// As in [`Completion`].
    pub rest: Option<Vec<u8>>,
}

/// A send (`fi_sendmsg`, and with `quiet` `fi_inject`).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SendOp {
    /// The segments.
    pub buffers: Vec<Vec<u8>>,
    /// Completion data for the receiver; needs no flag.
    pub data: Option<u64>,
    /// Flags of `fi_sendmsg`.
    pub flags: OpFlags,
    /// Comes back with the completion.
    pub context: u64,
    /// `fi_inject`: no completion when it succeeds.
    pub quiet: bool,
}

impl SendOp {
    /// One buffer, no flags.
    pub fn new(buffer: impl Into<Vec<u8>>, context: u64) -> Self {
        Self { buffers: vec![buffer.into()], context, ..Self::default() }
    }

    /// With these flags, too.
    pub fn flags(mut self, flags: OpFlags) -> Self {
        self.flags |= flags;
        self
    }
}

/// A receive (`fi_recvmsg`).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReceiveOp {
    /// The segments, as long as they are.
    pub buffers: Vec<Vec<u8>>,
    /// Flags of `fi_recvmsg`.
    pub flags: OpFlags,
    /// Comes back with the completion.
    pub context: u64,
}

impl ReceiveOp {
    /// One buffer of `len` bytes, no flags.
    pub fn new(len: usize, context: u64) -> Self {
        Self { buffers: vec![vec![0; len]], context, ..Self::default() }
    }

    /// One buffer of `len` bytes for several messages.
    pub fn multi(len: usize, context: u64) -> Self {
        Self { flags: OpFlags::MULTI_RECV, ..Self::new(len, context) }
    }
}

/// A registration (`fi_mr_regattr`).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RegionOp {
    /// The pieces of memory.
    pub buffers: Vec<Vec<u8>>,
    /// What it is for.
    pub access: OpFlags,
    /// `requested_key`.
    pub key: u64,
}

impl RegionOp {
    /// One piece that peers may read and write.
    pub fn new(buffer: impl Into<Vec<u8>>, key: u64) -> Self {
        Self { buffers: vec![buffer.into()], access: OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE, key }
    }
}

/// A kind of address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A network, and processes that use it through one implementation of the object model.
///
/// Every call returns at once, but for the `sread` calls and [`step`](Self::step). Those let the
/// whole world make progress, not only the object they are for, so that one thread can play both
/// sides of a connection.
pub trait World {
    // The world itself.

    /// Its name, for messages.
    fn name(&self) -> &'static str;
    /// Time since some origin.
    fn now(&self) -> Duration;
    /// Lets everything make progress: until something has happened, but no longer than `limit`.
    /// Gives whether something (perhaps) happened.
    fn step(&mut self, limit: Duration) -> bool;
    /// Whether a read of an empty queue lets everything that feeds it make progress, and tries again.
    fn reads_drive(&self) -> bool;
    /// Whether nothing moves between two calls, so that a case can say how far something gets.
    fn holds_still(&self) -> bool {
        true
    }
    /// A new process.
    fn process(&mut self) -> Process;
    /// An address at which the process can be reached, with port 0; `None` without that family.
    fn address(&mut self, process: Process, family: Family) -> Option<SocketAddr>;
    /// An address of the process at which nobody listens, and nobody will.
    fn closed_address(&mut self, process: Process) -> SocketAddr;
    /// Attributes of an endpoint as the implementation offers them.
    fn endpoint_attr(&self) -> EndpointAttr;
    /// Whether the implementation promises to bear whatever bytes a peer sends.
    fn bears_anything(&self) -> bool {
        false
    }
    /// Peers that are no endpoints, if there can be any.
    fn raw(&mut self) -> Option<&mut dyn RawPeers> {
        None
    }
    /// Trouble on demand, if it can be had.
    fn faults(&mut self) -> Option<&mut dyn Faults> {
        None
    }

    // Fabric.

    /// `fi_fabric`.
    fn fabric(&mut self, process: Process) -> Result<Fabric>;
    /// `fi_close`.
    fn close_fabric(&mut self, fabric: Fabric) -> Result<()>;

    // Event queue.

    /// `fi_eq_open`.
    fn eq_open(&mut self, fabric: Fabric, attr: &EqAttr) -> Result<EventQueue>;
    /// `fi_eq_read`.
    fn eq_read(&mut self, eq: EventQueue) -> Result<Event>;
    /// `fi_eq_read` with `FI_PEEK`.
    fn eq_peek(&mut self, eq: EventQueue) -> Result<Event>;
    /// `fi_eq_sread`: milliseconds, or what `flags` says; negative waits for ever.
    fn eq_sread(&mut self, eq: EventQueue, timeout: i32, flags: OpFlags) -> Result<Event>;
    /// `fi_eq_readerr`; `FI_PEEK` in `flags` leaves the entry.
    fn eq_readerr(&mut self, eq: EventQueue, flags: OpFlags) -> Result<EventError>;
    /// `fi_eq_write`.
    fn eq_write(
        &mut self,
        eq: EventQueue,
        about: Object,
        event: u32,
        entry: &[u8],
        flags: OpFlags,
    ) -> Result<usize>;
    /// `fi_close`.
    fn close_eq(&mut self, eq: EventQueue) -> Result<()>;

    // Passive endpoint.

    /// `fi_passive_ep`, with `src_addr` of the info.
    fn passive_ep(&mut self, fabric: Fabric, source: Option<SocketAddr>) -> Result<PassiveEndpoint>;
    /// `fi_pep_bind`.
    fn pep_bind(&mut self, pep: PassiveEndpoint, eq: EventQueue, flags: u64) -> Result<()>;
    /// `fi_setname`.
    fn set_name(&mut self, pep: PassiveEndpoint, address: SocketAddr) -> Result<()>;
    /// `fi_getname`.
    fn pep_name(&mut self, pep: PassiveEndpoint) -> Result<SocketAddr>;
    /// `fi_control(FI_BACKLOG)`.
    fn set_backlog(&mut self, pep: PassiveEndpoint, backlog: usize) -> Result<()>;
    /// Limits in time for connections that come from now on.
    fn set_pep_limits(&mut self, pep: PassiveEndpoint, limits: TimeLimits) -> Result<()>;
    /// `fi_listen`.
    fn listen(&mut self, pep: PassiveEndpoint) -> Result<()>;
    /// `fi_reject`; works after the passive endpoint was closed, too.
    fn reject(&mut self, request: Request, data: &[u8]) -> Result<()>;
    /// `fi_close`.
    fn close_pep(&mut self, pep: PassiveEndpoint) -> Result<()>;

    // Domain and completion queue.

    /// `fi_domain`.
    fn domain(&mut self, fabric: Fabric) -> Result<Domain> {
        self.domain_with(fabric, MrMode::empty())
    }
    /// `fi_domain`, with these rules of memory registration.
    fn domain_with(&mut self, fabric: Fabric, mr_mode: MrMode) -> Result<Domain>;
    /// `fi_close`.
    fn close_domain(&mut self, domain: Domain) -> Result<()>;
    /// `fi_cq_open`.
    fn cq_open(&mut self, domain: Domain, attr: &CqAttr) -> Result<CompletionQueue>;
    /// `fi_cq_read`.
    fn cq_read(&mut self, cq: CompletionQueue) -> Result<Completion>;
    /// `fi_cq_sread`: milliseconds; negative waits for ever.
    fn cq_sread(&mut self, cq: CompletionQueue, timeout: i32) -> Result<Completion> {
        self.cq_sread_cond(cq, 0, timeout)
    }
    /// `fi_cq_sread` of a queue with `FI_CQ_COND_THRESHOLD`: waits for `threshold` completions.
    fn cq_sread_cond(&mut self, cq: CompletionQueue, threshold: usize, timeout: i32) -> Result<Completion>;
    /// `fi_cq_readerr`.
    fn cq_readerr(&mut self, cq: CompletionQueue) -> Result<CompletionError>;
    /// `fi_close`.
    fn close_cq(&mut self, cq: CompletionQueue) -> Result<()>;

    // Counter.

    /// `fi_cntr_open`.
    fn cntr_open(&mut self, domain: Domain) -> Result<Counter>;
    /// `fi_cntr_read`.
    fn cntr_read(&mut self, cntr: Counter) -> Result<u64>;
    /// `fi_cntr_readerr`.
    fn cntr_readerr(&mut self, cntr: Counter) -> Result<u64>;
    /// `fi_cntr_add` and `fi_cntr_adderr`.
    fn cntr_add(&mut self, cntr: Counter, value: u64, errors: u64) -> Result<()>;
    /// `fi_cntr_set` and `fi_cntr_seterr`.
    fn cntr_set(&mut self, cntr: Counter, value: u64, errors: u64) -> Result<()>;
    /// `fi_cntr_wait`: milliseconds; negative waits for ever.
    fn cntr_wait(&mut self, cntr: Counter, threshold: u64, timeout: i32) -> Result<()>;
    /// `fi_close`.
    fn close_cntr(&mut self, cntr: Counter) -> Result<()>;

    // Shared receive context.

    /// `fi_srx_context`.
    fn srx_open(&mut self, domain: Domain, attr: &SrxAttr) -> Result<SharedReceive>;
    /// `fi_ep_bind` to a completion queue, for receives that no message has met.
    fn srx_bind_cq(&mut self, srx: SharedReceive, cq: CompletionQueue, flags: OpFlags) -> Result<()>;
    /// `fi_recvmsg`.
    fn srx_recv(&mut self, srx: SharedReceive, receive: ReceiveOp) -> Result<()>;
    /// `fi_cancel`.
    fn srx_cancel(&mut self, srx: SharedReceive, context: u64) -> Result<()>;
    /// `fi_getopt(FI_OPT_MIN_MULTI_RECV)`.
    fn srx_min_multi_recv(&mut self, srx: SharedReceive) -> Result<u64>;
    /// `fi_setopt(FI_OPT_MIN_MULTI_RECV)`.
    fn set_srx_min_multi_recv(&mut self, srx: SharedReceive, min: u64) -> Result<()>;
    /// `fi_close`.
    fn close_srx(&mut self, srx: SharedReceive) -> Result<()>;

    // Memory region.

    /// `fi_mr_regattr`.
    fn mr_reg(&mut self, domain: Domain, region: RegionOp) -> Result<MemoryRegion>;
    /// `fi_mr_key`.
    fn mr_key(&mut self, mr: MemoryRegion) -> Result<u64>;
    /// What peers call the first byte: 0, but under `FI_MR_VIRT_ADDR`.
    fn mr_address(&mut self, mr: MemoryRegion) -> Result<u64>;
    /// The application looks at all of its memory.
    fn mr_read(&mut self, mr: MemoryRegion) -> Result<Vec<u8>>;
    /// The application changes its memory from byte `at` on.
    fn mr_write(&mut self, mr: MemoryRegion, at: usize, bytes: &[u8]) -> Result<()>;
    /// `fi_close`; gives the memory back.
    fn close_mr(&mut self, mr: MemoryRegion) -> Result<Vec<Vec<u8>>>;

    // Endpoint.

    /// `fi_endpoint`, from an info of `fi_getinfo` or from that of a connection request.
    fn endpoint(&mut self, domain: Domain, attr: &EndpointAttr, request: Option<Request>)
    -> Result<Endpoint>;
    /// `fi_ep_bind` to an event queue.
    fn ep_bind_eq(&mut self, ep: Endpoint, eq: EventQueue, flags: OpFlags) -> Result<()>;
    /// `fi_ep_bind` to a completion queue.
    fn ep_bind_cq(&mut self, ep: Endpoint, cq: CompletionQueue, flags: OpFlags) -> Result<()>;
    /// `fi_ep_bind` to a counter.
    fn ep_bind_cntr(&mut self, ep: Endpoint, cntr: Counter, flags: OpFlags) -> Result<()>;
    /// `fi_ep_bind` to a shared receive context.
    fn ep_bind_srx(&mut self, ep: Endpoint, srx: SharedReceive, flags: OpFlags) -> Result<()>;
    /// `fi_getopt(FI_OPT_MIN_MULTI_RECV)`.
    fn min_multi_recv(&mut self, ep: Endpoint) -> Result<u64>;
    /// `fi_setopt(FI_OPT_MIN_MULTI_RECV)`.
    fn set_min_multi_recv(&mut self, ep: Endpoint, min: u64) -> Result<()>;
    /// `fi_enable`.
    fn enable(&mut self, ep: Endpoint) -> Result<()>;
    /// Limits in time for phases that start from now on.
    fn set_ep_limits(&mut self, ep: Endpoint, limits: TimeLimits) -> Result<()>;
    /// `fi_connect`.
    fn connect(&mut self, ep: Endpoint, address: Option<SocketAddr>, data: &[u8]) -> Result<()>;
    /// `fi_accept`.
    fn accept(&mut self, ep: Endpoint, data: &[u8]) -> Result<()>;
    /// `fi_shutdown`.
    fn shutdown(&mut self, ep: Endpoint, flags: u64) -> Result<()>;
    /// `fi_getname`.
    fn ep_name(&mut self, ep: Endpoint) -> Result<SocketAddr>;
    /// `fi_getpeer`.
    fn ep_peer(&mut self, ep: Endpoint) -> Result<SocketAddr>;
    /// `fi_sendmsg`, `fi_inject`.
    fn send(&mut self, ep: Endpoint, send: SendOp) -> Result<()>;
    /// `fi_recvmsg`.
    fn recv(&mut self, ep: Endpoint, receive: ReceiveOp) -> Result<()>;
    /// `fi_writemsg`, `fi_inject_write`.
    fn write(&mut self, ep: Endpoint, write: SendOp, remote: &[RmaIov]) -> Result<()>;
    /// `fi_readmsg`.
    fn read(&mut self, ep: Endpoint, read: ReceiveOp, remote: &[RmaIov]) -> Result<()>;
    /// `fi_cancel`.
    fn cancel(&mut self, ep: Endpoint, context: u64) -> Result<()>;
    /// `fi_close`.
    fn close_ep(&mut self, ep: Endpoint) -> Result<()>;
}

/// Peers without endpoints: transport connections under the test's control.
pub trait RawPeers {
    /// Connects to a listener; what happens to the connection shows when it is used.
    fn connect(&mut self, address: SocketAddr) -> Raw;
    /// Listens at an address with port 0 and gives the real one.
    fn listen(&mut self, address: SocketAddr) -> (RawListener, SocketAddr);
    /// The next connection that somebody made to the listener.
    fn accept(&mut self, listener: RawListener) -> Option<Raw>;
    /// Writes all the bytes, in one piece where the transport can.
    fn write(&mut self, raw: Raw, bytes: &[u8]);
    /// What has arrived since the last call; only this takes it from the transport.
    fn read(&mut self, raw: Raw) -> Vec<u8>;
    /// Whether the other side has ended or broken the connection, and all was read.
    fn ended(&mut self, raw: Raw) -> bool;
    /// Ends the outgoing stream.
    fn finish(&mut self, raw: Raw);
    /// Closes in good order.
    fn close(&mut self, raw: Raw);
    /// Breaks the connection (`RST`).
    fn reset(&mut self, raw: Raw);
}

/// How a connection dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// The process is gone, its system ends the stream.
    Killed,
    /// The connection is reset.
    Reset,
}

/// Trouble on demand.
pub trait Faults {
    /// The next `count` times that a transport connection is to be taken from a listener's backlog
    /// there is no descriptor for it.
    fn no_descriptors_at_accept(&mut self, count: usize);
    /// The next `count` times that a transport connection is to be made there is no descriptor.
    fn no_descriptors_at_connect(&mut self, count: usize);
    /// Connection attempts to this address are never answered from now on.
    fn silence(&mut self, address: SocketAddr);
    /// The endpoint's process dies once `bytes` more bytes were written by it.
    fn die_after(&mut self, ep: Endpoint, bytes: u64, death: Death);
    /// The process of the endpoint that will connect next dies after its first `bytes` bytes.
    fn next_connect_dies_after(&mut self, bytes: u64, death: Death);
    /// The same for the endpoint that will accept next.
    fn next_accept_dies_after(&mut self, bytes: u64, death: Death);
    /// No transport call moves more than `bytes` bytes from now on.
    fn piece(&mut self, bytes: usize);
    /// Transport connections made from now on hold at most `bytes` bytes in each direction.
    fn capacity(&mut self, bytes: usize);
    /// The `nth` allocation from now on inside of the machines fails (from 1). Gives `false` where
    /// the program's allocator cannot do that.
    fn fail_allocation(&mut self, nth: u64) -> bool;
    /// No more trouble.
    fn calm(&mut self);
}

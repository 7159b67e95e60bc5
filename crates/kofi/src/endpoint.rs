// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The active endpoint (`fi_endpoint(3)`): to connect, to accept, and to carry messages.

use std::sync::Arc;

use kofi_core::flags::OpFlags;
use kofi_core::wire::header::Segment;
use kofi_core::{Address, EndpointStatistics, Fid, Result, State, TimeLimits};

use crate::buffer::Buffers;
use crate::completion_queue::CompletionQueue;
use crate::counter::Counter;
use crate::event_queue::EventQueue;
use crate::provider::{EndpointOps, Message, Receive, Refused};
use crate::returned::Returned;
use crate::shared_receive::SharedReceive;

/// Which completion queues an endpoint's operations come to, and which counters count them.
#[derive(Clone, Debug)]
pub struct Queues {
    transmit: Option<CompletionQueue>,
    receive: Option<CompletionQueue>,
    selective: OpFlags,
    counters: Vec<(Counter, OpFlags)>,
    shared: Option<SharedReceive>,
}

impl Queues {
    /// One queue for sends, one for receives.
    pub fn new(transmit: &CompletionQueue, receive: &CompletionQueue) -> Self {
        let (transmit, receive) = (Some(transmit.clone()), Some(receive.clone()));
        Self { transmit, receive, ..Self::none() }
    }

    /// No queue: operations are only counted. Memory that an operation owned does not come back.
    pub fn none() -> Self {
        Self {
            transmit: None,
            receive: None,
            selective: OpFlags::empty(),
            counters: Vec::new(),
            shared: None,
        }
    }

    /// A counter, too, for these kinds of operations: `FI_SEND`, `FI_RECV`, `FI_READ`, `FI_WRITE`,
    /// `FI_REMOTE_READ`, `FI_REMOTE_WRITE`; one for each kind.
    pub fn counter(mut self, counter: &Counter, kinds: OpFlags) -> Self {
        self.counters.push((counter.clone(), kinds));
        self
    }

    /// The endpoint takes its receives from this context, and is posted none itself.
    pub fn shared_receive(mut self, shared: &SharedReceive) -> Self {
        self.shared = Some(shared.clone());
        self
    }

    /// Successes are reported only for operations with `FI_COMPLETION`; failures always
    /// (`FI_SELECTIVE_COMPLETION`).
    pub fn selective(mut self) -> Self {
        self.selective = OpFlags::SELECTIVE_COMPLETION;
        self
    }

    pub(crate) fn bind(self, ep: &Arc<dyn EndpointOps>, eq: &EventQueue) -> Result<()> {
        ep.bind_eq(eq, OpFlags::empty())?;
        for (queue, direction) in [(&self.transmit, OpFlags::TRANSMIT), (&self.receive, OpFlags::RECV)] {
            if let Some(queue) = queue {
                ep.bind_cq(queue.ops(), direction | self.selective)?;
            }
        }
        for (counter, kinds) in &self.counters {
            ep.bind_cntr(counter.ops(), *kinds)?;
        }
        if let Some(shared) = &self.shared {
            ep.bind_srx(shared.ops(), OpFlags::empty())?;
        }
        ep.enable()
    }
}

impl From<&CompletionQueue> for Queues {
    fn from(queue: &CompletionQueue) -> Self {
        Self::new(queue, queue)
    }
}

impl From<&Self> for Queues {
    fn from(queues: &Self) -> Self {
        queues.clone()
    }
}

/// An endpoint that carries messages, once it is connected: an event tells when.
///
/// Dropped, it is closed: operations that are pending complete with `FI_ECANCELED` first. Unlike
/// [`shutdown`](Self::shutdown) that does not wait for anything to be sent.
#[must_use = "dropped, it is closed"]
pub struct Endpoint(Arc<dyn EndpointOps>);

/// An endpoint that can connect, and have receives posted before it does.
#[must_use = "dropped, it is closed"]
pub struct Connector(Endpoint);

/// An endpoint that can accept its connection request, and have receives posted before it does.
#[must_use = "dropped, it is closed"]
pub struct Acceptor(Endpoint);

impl Connector {
    pub(crate) fn new(ops: Arc<dyn EndpointOps>) -> Self {
        Self(Endpoint(ops))
    }

    /// `fi_connect`, to the info's `dest_addr`, with up to 256 bytes of data for the peer. How it
    /// went is an event.
    ///
    /// # Errors
    /// -FI_EINVAL without an address or with too much data; the endpoint is given back.
    pub fn connect(self, data: &[u8]) -> Result<Endpoint, Returned<Self>> {
        let result = self.0.0.connect(None, data);
        Returned::check(self, result).map(|connector| connector.0)
    }

    /// `fi_connect`, to another address.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub fn connect_to(self, dest: impl Into<Address>, data: &[u8]) -> Result<Endpoint, Returned<Self>> {
        let result = self.0.0.connect(Some(&dest.into()), data);
        Returned::check(self, result).map(|connector| connector.0)
    }
}

impl Acceptor {
    pub(crate) fn new(ops: Arc<dyn EndpointOps>) -> Self {
        Self(Endpoint(ops))
    }

    /// `fi_accept`, with up to 256 bytes of data for the peer. `FI_CONNECTED` follows as an event.
    ///
    /// # Errors
    /// -FI_EINVAL with too much data or after a reject, -FI_ETIMEDOUT when the request's limit in
    /// time has passed; the endpoint is given back.
    pub fn accept(self, data: &[u8]) -> Result<Endpoint, Returned<Self>> {
        let result = self.0.0.accept(data);
        Returned::check(self, result).map(|acceptor| acceptor.0)
    }
}

macro_rules! before_connection {
    ($($name:ident)*) => {$(
        impl $name {
            /// This object's identity, which its events carry.
            pub fn fid(&self) -> Fid {
                self.0.fid()
            }

            /// `fi_recv`: as [`Endpoint::recv`].
            ///
            /// # Errors
            /// As for [`Endpoint::recv`].
            pub fn recv(&self, buffers: impl Into<Buffers>, context: u64) -> Result<(), Refused> {
                self.0.recv(buffers, context)
            }

            /// `fi_cancel`: as [`Endpoint::cancel`].
            ///
            /// # Errors
            /// As for [`Endpoint::cancel`].
            pub fn cancel(&self, context: u64) -> Result<()> {
                self.0.cancel(context)
            }

            /// `FI_OPT_MIN_MULTI_RECV`: as [`Endpoint::set_min_multi_recv`].
            ///
            /// # Errors
            /// -FI_EINVAL when the endpoint is closed.
            pub fn set_min_multi_recv(&self, min: u64) -> Result<()> {
                self.0.set_min_multi_recv(min)
            }

            /// Limits in time for the phases of the connection.
            ///
            /// # Errors
            /// -FI_EINVAL when the endpoint is closed.
            pub fn set_limits(&self, limits: TimeLimits) -> Result<()> {
                self.0.set_limits(limits)
            }

            /// The provider's operations.
            pub fn ops(&self) -> &Arc<dyn EndpointOps> {
                self.0.ops()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.fid()).finish()
            }
        }
    )*};
}

before_connection! { Connector Acceptor }

impl Endpoint {
    /// This object's identity, which its events carry.
    pub fn fid(&self) -> Fid {
        self.0.fid()
    }

    /// The provider's operations.
    pub fn ops(&self) -> &Arc<dyn EndpointOps> {
        &self.0
    }

    /// `fi_send`: a message from one buffer, or gathered from several. Its completion gives the
    /// memory back, with `context`.
    ///
    /// # Errors
    /// -FI_EAGAIN while the transmit queue is full, -FI_ENOTCONN before the endpoint is connected,
    /// -FI_ESHUTDOWN after it was, -FI_EMSGSIZE, -FI_EINVAL with too many segments; the memory
    /// comes back with the error.
    pub fn send(&self, buffers: impl Into<Buffers>, context: u64) -> Result<(), Refused> {
        self.sendmsg(Message { buffers: buffers.into(), context, ..Message::default() })
    }

    /// `fi_senddata`: the same, with data for the receiver's completion.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn senddata(&self, buffers: impl Into<Buffers>, data: u64, context: u64) -> Result<(), Refused> {
        let buffers = buffers.into();
        self.sendmsg(Message { buffers, data: Some(data), context, ..Message::default() })
    }

    /// `fi_sendmsg`: the same, with flags.
    ///
    /// # Errors
    /// As for [`send`](Self::send); -FI_EBADFLAGS.
    pub fn sendmsg(&self, message: Message) -> Result<(), Refused> {
        self.0.send(message)
    }

    /// `fi_inject`: a message of up to `inject_size` bytes, which are copied. No success is reported.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn inject(&self, bytes: &[u8]) -> Result<()> {
        self.0.inject(bytes, None)
    }

    /// `fi_injectdata`: the same, with data for the receiver's completion.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn injectdata(&self, bytes: &[u8], data: u64) -> Result<()> {
        self.0.inject(bytes, Some(data))
    }

    /// `fi_recv`: takes a message into one buffer, or scatters it over several. Its completion gives
    /// the memory back, with `context`.
    ///
    /// # Errors
    /// -FI_EAGAIN while the receive queue is full, -FI_ESHUTDOWN once the connection is over,
    /// -FI_EINVAL with too many segments or memory that is shared; the memory comes back with the
    /// error.
    pub fn recv(&self, buffers: impl Into<Buffers>, context: u64) -> Result<(), Refused> {
        self.recvmsg(Receive { buffers: buffers.into(), flags: OpFlags::empty(), context })
    }

    /// `fi_recvmsg`: the same, with flags.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv); -FI_EBADFLAGS.
    pub fn recvmsg(&self, receive: Receive) -> Result<(), Refused> {
        self.0.recv(receive)
    }

    /// `fi_write`: into the peer's memory `addr` of the region with that key. Its completion gives the
    /// memory back, with `context`.
    ///
    /// # Errors
    /// As for [`send`](Self::send); -FI_ENOSYS on an endpoint without `FI_RMA` and `FI_WRITE`.
    pub fn write(
        &self,
        buffers: impl Into<Buffers>,
        addr: u64,
        key: u64,
        context: u64,
    ) -> Result<(), Refused> {
        let buffers = buffers.into();
        let remote = Segment { addr, len: buffers.total_len() as u64, key };
        self.writemsg(Message { buffers, context, ..Message::default() }, &[remote])
    }

    /// `fi_writedata`: the same, with data for the peer: that it can read from the completion queue of
    /// its receives.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn writedata(
        &self,
        buffers: impl Into<Buffers>,
        data: u64,
        addr: u64,
        key: u64,
        context: u64,
    ) -> Result<(), Refused> {
        let buffers = buffers.into();
        let remote = Segment { addr, len: buffers.total_len() as u64, key };
        self.writemsg(Message { buffers, data: Some(data), context, ..Message::default() }, &[remote])
    }

    /// `fi_writemsg`: the same, with flags, into up to four pieces of the peer's memory.
    ///
    /// # Errors
    /// As for [`write`](Self::write); -FI_EBADFLAGS; -FI_EINVAL when local and remote lengths differ.
    pub fn writemsg(&self, message: Message, remote: &[Segment]) -> Result<(), Refused> {
        self.0.write(message, remote)
    }

    /// `fi_inject_write`: up to `inject_size` bytes, which are copied. No success is reported.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn inject_write(&self, bytes: &[u8], addr: u64, key: u64) -> Result<()> {
        self.0.inject_write(bytes, None, Segment { addr, len: bytes.len() as u64, key })
    }

    /// `fi_inject_writedata`: the same, with data for the peer.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn inject_writedata(&self, bytes: &[u8], data: u64, addr: u64, key: u64) -> Result<()> {
        self.0.inject_write(bytes, Some(data), Segment { addr, len: bytes.len() as u64, key })
    }

    /// `fi_read`: from the peer's memory `addr` of the region with that key into one buffer, or
    /// scattered over several. Its completion gives them back, with `context`.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv); -FI_ENOTCONN before the endpoint is connected; -FI_ENOSYS on an
    /// endpoint without `FI_RMA` and `FI_READ`.
    pub fn read(
        &self,
        buffers: impl Into<Buffers>,
        addr: u64,
        key: u64,
        context: u64,
    ) -> Result<(), Refused> {
        let buffers = buffers.into();
        let remote = Segment { addr, len: buffers.total_len() as u64, key };
        self.readmsg(Receive { buffers, flags: OpFlags::empty(), context }, &[remote])
    }

    /// `fi_readmsg`: the same, with flags, from up to four pieces of the peer's memory.
    ///
    /// # Errors
    /// As for [`read`](Self::read); -FI_EBADFLAGS; -FI_EINVAL when local and remote lengths differ.
    pub fn readmsg(&self, receive: Receive, remote: &[Segment]) -> Result<(), Refused> {
        self.0.read(receive, remote)
    }

    /// `fi_cancel`: the oldest operation with this context that has not begun completes with `FI_ECANCELED`: a
    /// receive that no message has met, or else a send, write or read of which nothing has left.
    ///
    /// # Errors
    /// -FI_ENOENT when there is none.
    pub fn cancel(&self, context: u64) -> Result<()> {
        self.0.cancel(context)
    }

    /// `fi_shutdown`: what is queued is still sent; then `FI_SHUTDOWN` comes, here and at the peer.
    ///
    /// It returns at once: keep the endpoint, and read the event queue until the endpoint's
    /// [`Event::Shutdown`](crate::Event::Shutdown). Dropped before, it loses what is still queued.
    ///
    /// # Errors
    /// -FI_ENOTCONN before the endpoint is connected, -FI_EOPBADSTATE after a failed connection.
    pub fn shutdown(&self) -> Result<()> {
        self.0.shutdown(0)
    }

    /// `fi_getname`.
    ///
    /// # Errors
    /// -FI_EOPBADSTATE while it has no address.
    pub fn name(&self) -> Result<Address> {
        self.0.name()
    }

    /// `fi_getpeer`.
    ///
    /// # Errors
    /// -FI_ENOTCONN before the endpoint is connected.
    pub fn peer(&self) -> Result<Address> {
        self.0.peer()
    }

    /// Where the endpoint is in its life.
    pub fn state(&self) -> State {
        self.0.state().unwrap_or(State::Disconnected)
    }

    /// `FI_OPT_MIN_MULTI_RECV`, bytes: a buffer for several messages with less left is given back. 16384
    /// unless set.
    ///
    /// # Errors
    /// -FI_EINVAL when the endpoint is closed.
    pub fn min_multi_recv(&self) -> Result<u64> {
        self.0.min_multi_recv()
    }

    /// Sets `FI_OPT_MIN_MULTI_RECV`, bytes, for receives that are posted from now on.
    ///
    /// # Errors
    /// -FI_EINVAL when the endpoint is closed.
    pub fn set_min_multi_recv(&self, min: u64) -> Result<()> {
        self.0.set_min_multi_recv(min)
    }

    /// The limits in time.
    ///
    /// # Errors
    /// -FI_EINVAL when the endpoint is closed.
    pub fn limits(&self) -> Result<TimeLimits> {
        self.0.limits()
    }

    /// Limits in time for what is still to come.
    ///
    /// # Errors
    /// -FI_EINVAL when the endpoint is closed.
    pub fn set_limits(&self, limits: TimeLimits) -> Result<()> {
        self.0.set_limits(limits)
    }

    /// What it has done so far, and what holds it up: counts, bytes, times, addresses.
    ///
    /// # Errors
    /// -FI_EINVAL when the endpoint is closed.
    pub fn statistics(&self) -> Result<EndpointStatistics> {
        self.0.statistics()
    }

    /// `fi_close`, as dropping it.
    pub fn close(self) {
        self.0.close();
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("fid", &self.fid()).field("state", &self.state()).finish()
    }
}

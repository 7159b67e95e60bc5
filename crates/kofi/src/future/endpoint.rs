// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Endpoints with futures.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use kofi_core::wire::header::Segment as RmaIov;
use kofi_core::{
    Address, EndpointStatistics, Error, Fid, Info, Reason, Result, State as EpState, TimeLimits,
};

use super::hub::{AsyncDomain, Kind, Outgoing, Phase, Slot, poll_slot, slot};
use super::{Failed, Received};
use crate::buffer::Buffers;
use crate::provider::{EndpointOps, Message};

/// An endpoint whose connection and messages are futures.
///
/// It may be used from several tasks at once; clones are the same endpoint. Messages go out in the
/// order in which their futures were first polled, and receives get them in that order.
///
/// When the last clone is dropped, and no future of it is left, it is closed. That does not wait for
/// anything to be sent; [`shutdown`](Self::shutdown) does.
#[derive(Clone)]
pub struct AsyncEndpoint(Arc<Shared>);

struct Shared {
    domain: AsyncDomain,
    fid: Fid,
    ops: Arc<dyn EndpointOps>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.domain.0.with(|state| state.close(self.fid));
        drop(state);
        self.ops.close();
    }
}

impl AsyncDomain {
    /// An endpoint that connects to `dest`, with up to 256 bytes of data for the peer. `limit`
    /// bounds the time that it may take; `None` leaves the default of 10 s.
    pub fn connect(
        &self,
        dest: impl Into<Address>,
        data: impl Into<Vec<u8>>,
        limit: impl Into<Option<Duration>>,
    ) -> Connect {
        let domain = Some(self.clone());
        let request = Request { domain, dest: dest.into(), data: data.into(), limit: limit.into() };
        Connect(Connecting::Request(request))
    }
}

impl AsyncEndpoint {
    /// An endpoint that connects to `dest`, in a domain of its own: see [`AsyncDomain::connect`].
    pub fn connect(
        dest: impl Into<Address>,
        data: impl Into<Vec<u8>>,
        limit: impl Into<Option<Duration>>,
    ) -> Connect {
        let request = Request { domain: None, dest: dest.into(), data: data.into(), limit: limit.into() };
        Connect(Connecting::Request(request))
    }

    /// An endpoint of `domain` that `start` begins to connect or to accept.
    pub(super) fn start(
        domain: &AsyncDomain,
        ops: Arc<dyn EndpointOps>,
        start: impl FnOnce(&dyn EndpointOps) -> Result<()>,
    ) -> Result<Self> {
        let fid = ops.fid();
        // Its events may come while it starts.
        domain.0.with(|state| state.open(fid, ops.clone()));
        let endpoint = Self(Arc::new(Shared { domain: domain.clone(), fid, ops }));
        start(&*endpoint.0.ops)?;
        Ok(endpoint)
    }

    /// The domain that it is in.
    pub fn domain(&self) -> &AsyncDomain {
        &self.0.domain
    }

    /// What it has done so far, and what holds it up: counts, bytes, times, addresses.
    ///
    /// # Errors
    /// -FI_EINVAL when the endpoint is closed.
    pub fn statistics(&self) -> Result<EndpointStatistics> {
        self.0.ops.statistics()
    }

    /// Its identity.
    pub fn fid(&self) -> Fid {
        self.0.fid
    }

    /// Waits until it is connected. Sends wait for that by themselves.
    pub fn connected(&self) -> Connected {
        Connected(PhaseWait::new(self))
    }

    /// Waits until the connection is over, and gives the reason.
    pub fn ended(&self) -> Ended {
        Ended(PhaseWait::new(self))
    }

    /// What the peer gave when it accepted; empty on the accepting side.
    pub fn accept_data(&self) -> Vec<u8> {
        self.0.domain.0.with(|state| state.data(self.0.fid))
    }

    /// Sends a message from one buffer, or gathered from several. Gives the memory back.
    ///
    /// It waits for the connection and for room in the transmit queue. Once polled, the message goes
    /// out in its turn, also when the future is dropped.
    pub fn send(&self, buffers: impl Into<Buffers>) -> Transfer {
        self.send_message(Message { buffers: buffers.into(), ..Message::default() })
    }

    /// The same with completion data and flags, such as `FI_DELIVERY_COMPLETE`. The message's
    /// `context` is not used.
    pub fn send_message(&self, message: Message) -> Transfer {
        self.transfer(Kind::Send, message, &[])
    }

    /// Writes into the peer's memory `addr` of the region with that key. Gives the memory back.
    ///
    /// It waits and goes on as [`send`](Self::send) does, in one order with sends.
    pub fn write(&self, buffers: impl Into<Buffers>, addr: u64, key: u64) -> Transfer {
        let buffers = buffers.into();
        let remote = RmaIov { addr, len: buffers.total_len() as u64, key };
        self.write_message(Message { buffers, ..Message::default() }, &[remote])
    }

    /// The same with completion data and flags, into several pieces of the peer's memory. Completion
    /// data is for peers that read their completion queue themselves; futures do not tell of it.
    pub fn write_message(&self, message: Message, remote: &[RmaIov]) -> Transfer {
        self.transfer(Kind::Write, message, remote)
    }

    /// Reads from the peer's memory `addr` of the region with that key. Gives the memory back, with
    /// what was read.
    ///
    /// It waits and goes on as [`send`](Self::send) does, in one order with sends.
    pub fn read(&self, buffers: impl Into<Buffers>, addr: u64, key: u64) -> Transfer {
        let buffers = buffers.into();
        let remote = RmaIov { addr, len: buffers.total_len() as u64, key };
        self.transfer(Kind::Read, Message { buffers, ..Message::default() }, &[remote])
    }

    fn transfer(&self, kind: Kind, message: Message, remote: &[RmaIov]) -> Transfer {
        let outgoing = Outgoing { kind, message, remote: remote.into() };
        Transfer { endpoint: self.clone(), outgoing: Some(outgoing), slot: slot() }
    }

    /// Receives a message into one buffer, or scattered over several.
    ///
    /// It waits for the connection and for room in the receive queue. Dropped, it loses no message:
    /// one that had reached it goes to the next `recv`.
    pub fn recv(&self, buffers: impl Into<Buffers>) -> Recv {
        Recv { endpoint: self.clone(), buffers: Some(buffers.into()), slot: slot(), waiting: false }
    }

    /// Shuts the connection down when all is sent that was polled before, and waits for that.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown { wait: PhaseWait::new(self), started: false }
    }

    /// `fi_getname`.
    ///
    /// # Errors
    /// -FI_EOPBADSTATE while it has no address.
    pub fn name(&self) -> Result<Address> {
        self.0.ops.name()
    }

    /// `fi_getpeer`.
    ///
    /// # Errors
    /// -FI_ENOTCONN before it is connected.
    pub fn peer(&self) -> Result<Address> {
        self.0.ops.peer()
    }

    /// Where the endpoint is in its life.
    pub fn state(&self) -> EpState {
        self.0.ops.state().unwrap_or(EpState::Disconnected)
    }

    /// Limits in time for what is still to come.
    ///
    /// # Errors
    /// -FI_EINVAL when the endpoint is closed.
    pub fn set_limits(&self, limits: TimeLimits) -> Result<()> {
        self.0.ops.set_limits(limits)
    }
}

impl std::fmt::Debug for AsyncEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncEndpoint").field("fid", &self.fid()).field("state", &self.state()).finish()
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// The attempt could not be made.
    Refused(Error),
    /// The attempt failed.
    Failed {
        /// Why.
        reason: Reason,
        /// What the peer gave when it rejected.
        data: Vec<u8>,
    },
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Failed { reason, .. } => reason.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Refused(error) => error,
            ConnectError::Failed { reason, .. } => failed("fi_connect", reason),
        }
    }
}

fn failed(call: &'static str, reason: Reason) -> Error {
    Error::System { call, errno: reason.errno(), detail: reason.to_string() }
}

/// A wait for the connection to come about or to end.
struct PhaseWait {
    endpoint: AsyncEndpoint,
    /// Names it among those who wait for the same; zero before it does.
    id: u64,
}

impl PhaseWait {
    fn new(endpoint: &AsyncEndpoint) -> Self {
        Self { endpoint: endpoint.clone(), id: 0 }
    }

    /// `started`: something was done that may have to be driven.
    fn poll<T>(
        &mut self,
        cx: &Context<'_>,
        started: bool,
        wanted: impl Fn(&Phase) -> Option<T>,
    ) -> Poll<Result<T>> {
        let Shared { domain, fid, .. } = &*self.endpoint.0;
        let hub = &domain.0;
        let started = started || self.id == 0;
        let mut look = |looked: bool| {
            hub.with(|state| {
                if self.id == 0 {
                    self.id = state.new_id();
                }
                match (state.phase(*fid).and_then(&wanted), state.failed()) {
                    (Some(found), _) => Poll::Ready(Ok(found)),
                    (None, Some(error)) if looked => Poll::Ready(Err(error)),
                    (None, _) => {
                        state.watch(*fid, self.id, cx.waker());
                        Poll::Pending
                    }
                }
            })
        };
        if let Poll::Ready(found) = look(false) {
            return Poll::Ready(found);
        }
        hub.look(started);
        look(true)
    }
}

impl Drop for PhaseWait {
    fn drop(&mut self) {
        if self.id > 0 {
            let Shared { domain, fid, .. } = &*self.endpoint.0;
            domain.0.with(|state| state.unwatch(*fid, self.id));
        }
    }
}

/// A connection that is to be made.
struct Request {
    domain: Option<AsyncDomain>,
    dest: Address,
    data: Vec<u8>,
    limit: Option<Duration>,
}

impl Request {
    fn start(self) -> Result<AsyncEndpoint> {
        let Self { domain, dest, data, limit } = self;
        let domain = match domain {
            Some(domain) => domain,
            None => AsyncDomain::for_dest(&dest)?,
        };
        // A listener's own port is taken.
        let source = domain.info().src_addr.as_ref().and_then(|addr| addr.socket_addr());
        let source = source.map(|addr| Address::from(std::net::SocketAddr::new(addr.ip(), 0)));
        let info = Info { src_addr: source, dest_addr: Some(dest), ..domain.info().clone() };
        let hub = &domain.0;
        let ops = hub.domain.endpoint(&info, &hub.eq, &hub.cq)?.ops().clone();
        AsyncEndpoint::start(&domain, ops, |ops| {
            if limit.is_some() {
                ops.set_limits(TimeLimits { connect: limit, ..ops.limits()? })?;
            }
            ops.connect(None, &data)
        })
    }
}

/// [`AsyncEndpoint::connect`]. Dropped before it is ready, it closes the endpoint.
#[must_use = "a future does nothing before it is polled"]
pub struct Connect(Connecting);

enum Connecting {
    Request(Request),
    Endpoint(PhaseWait),
    Done,
}

impl Future for Connect {
    type Output = Result<AsyncEndpoint, ConnectError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut wait = match std::mem::replace(&mut self.0, Connecting::Done) {
            Connecting::Request(request) => PhaseWait::new(&request.start()?),
            Connecting::Endpoint(wait) => wait,
            Connecting::Done => return Poll::Pending,
        };
        let over = wait.poll(cx, false, |phase| match phase {
            Phase::Connecting => None,
            Phase::Connected | Phase::Ended(_) => Some(Ok(())),
            Phase::Failed(reason, data) => Some(Err((*reason, data.clone()))),
        })?;
        match over {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(wait.endpoint.clone())),
            Poll::Ready(Err((reason, data))) => Poll::Ready(Err(ConnectError::Failed { reason, data })),
            Poll::Pending => {
                self.0 = Connecting::Endpoint(wait);
                Poll::Pending
            }
        }
    }
}

/// [`AsyncEndpoint::connected`].
#[must_use = "a future does nothing before it is polled"]
pub struct Connected(PhaseWait);

impl Future for Connected {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.poll(cx, false, |phase| match phase {
            Phase::Connecting => None,
            Phase::Connected | Phase::Ended(_) => Some(Ok(())),
            Phase::Failed(reason, _) => Some(Err(failed("the connection", *reason))),
        })?
    }
}

/// [`AsyncEndpoint::ended`].
#[must_use = "a future does nothing before it is polled"]
pub struct Ended(PhaseWait);

impl Future for Ended {
    type Output = Result<Reason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Reason>> {
        self.0.poll(cx, false, |phase| match phase {
            Phase::Connecting | Phase::Connected => None,
            Phase::Ended(reason) | Phase::Failed(reason, _) => Some(*reason),
        })
    }
}

/// [`AsyncEndpoint::shutdown`]. Dropped, the shutdown goes on.
#[must_use = "a future does nothing before it is polled"]
pub struct Shutdown {
    wait: PhaseWait,
    started: bool,
}

impl Future for Shutdown {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let first = !std::mem::replace(&mut self.started, true);
        if first {
            let Shared { domain, fid, .. } = &*self.wait.endpoint.0;
            domain.0.with(|state| state.shutdown(*fid));
        }
        self.wait.poll(cx, first, |phase| match phase {
            Phase::Connecting | Phase::Connected => None,
            Phase::Ended(Reason::Local | Reason::Peer) => Some(Ok(())),
            Phase::Ended(reason) | Phase::Failed(reason, _) => Some(Err(failed("fi_shutdown", *reason))),
        })?
    }
}

/// [`AsyncEndpoint::send`], [`write`](AsyncEndpoint::write) and [`read`](AsyncEndpoint::read). Dropped,
/// it still goes on to its end.
#[must_use = "a future does nothing before it is polled"]
pub struct Transfer {
    endpoint: AsyncEndpoint,
    outgoing: Option<Outgoing>,
    slot: Slot<Buffers>,
}

impl Future for Transfer {
    type Output = Result<Buffers, Failed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { endpoint, outgoing, slot } = &mut *self;
        let outgoing = outgoing.take();
        let started = outgoing.is_some();
        if let Some(outgoing) = outgoing {
            endpoint.0.domain.0.with(|state| state.send(endpoint.0.fid, outgoing, slot));
        }
        poll_operation(endpoint, slot, started, cx)
    }
}

/// [`AsyncEndpoint::recv`]. Dropped, it is cancelled, and loses no message.
#[must_use = "a future does nothing before it is polled"]
pub struct Recv {
    endpoint: AsyncEndpoint,
    buffers: Option<Buffers>,
    slot: Slot<Received>,
    waiting: bool,
}

impl Future for Recv {
    type Output = Result<Received, Failed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { endpoint, buffers, slot, waiting } = &mut *self;
        let buffers = buffers.take();
        let started = buffers.is_some();
        if let Some(buffers) = buffers {
            *waiting = true;
            endpoint.0.domain.0.with(|state| state.receive(endpoint.0.fid, buffers, slot));
        }
        let result = poll_operation(endpoint, slot, started, cx);
        // After an error of the runtime the receive is still there, to be cancelled.
        *waiting =
            !matches!(&result, Poll::Ready(Ok(_)) | Poll::Ready(Err(Failed { completion: Some(_), .. })));
        result
    }
}

impl Drop for Recv {
    fn drop(&mut self) {
        if self.waiting {
            let Shared { domain, fid, .. } = &*self.endpoint.0;
            domain.0.with(|state| state.forget(*fid, &self.slot));
        }
    }
}

fn poll_operation<T>(
    endpoint: &AsyncEndpoint,
    slot: &Slot<T>,
    started: bool,
    cx: &mut Context<'_>,
) -> Poll<Result<T, Failed>> {
    ready!(endpoint.0.domain.0.poll_proceed(cx));
    if let Poll::Ready(result) = poll_slot(slot, cx) {
        return Poll::Ready(result);
    }
    let hub = &endpoint.0.domain.0;
    hub.look(started);
    if let Poll::Ready(result) = poll_slot(slot, cx) {
        return Poll::Ready(result);
    }
    match hub.with(|state| state.failed()) {
        Some(error) => Poll::Ready(Err(Failed { error, buffers: Buffers::default(), completion: None })),
        None => Poll::Pending,
    }
}

macro_rules! debug {
    ($($name:ident)*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

debug! { Connect Connected Ended Shutdown Transfer Recv }

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Listeners with futures.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use kofi_core::attr::{EqAttr, WaitObj};
use kofi_core::{Address, Error, Hints, Info, Result};

use super::endpoint::AsyncEndpoint;
use super::hub::AsyncDomain;
use super::queue::NextEvent;
use crate::connection_request::ConnectionRequest;
use crate::event_queue::{Event, EventQueue};
use crate::passive_endpoint::Listener;
use crate::returned::Returned;

/// A passive endpoint whose connection requests are futures. Dropped, it is closed; requests and
/// endpoints that it has given stay good.
///
/// ```no_run
/// # async fn serve(endpoint: kofi::AsyncEndpoint) -> kofi::Result<()> { Ok(()) }
/// # fn spawn(task: impl Future) {}
/// # async fn server() -> kofi::Result<()> {
/// let listener = kofi::AsyncListener::bind(([0, 0, 0, 0], 4711))?;
/// loop {
///     let endpoint = listener.accept().await?;
///     spawn(serve(endpoint));
/// }
/// # }
/// ```
pub struct AsyncListener {
    listener: Listener,
    eq: EventQueue,
    domain: AsyncDomain,
}

impl AsyncListener {
    /// Listens at an address of this host; port 0 takes any.
    ///
    /// # Errors
    /// -FI_ENODATA when no interface has that address, -FI_EADDRINUSE, -FI_EMFILE.
    pub fn bind(addr: impl Into<Address>) -> Result<Self> {
        let hints = Hints::new().provider("tcp").source(addr);
        let info = crate::getinfo(hints)?.into_iter().next().ok_or(Error::Empty)?;
        Self::open(&info)
    }

    /// Listens at the `src_addr` of an info from [`getinfo`](crate::getinfo()).
    ///
    /// # Errors
    /// -FI_EADDRINUSE, -FI_EMFILE.
    pub fn open(info: &Info) -> Result<Self> {
        Self::open_in(&AsyncDomain::open(info)?, info)
    }

    /// The same; endpoints that it accepts are in `domain`.
    ///
    /// # Errors
    /// -FI_EADDRINUSE, -FI_EMFILE.
    pub fn open_in(domain: &AsyncDomain, info: &Info) -> Result<Self> {
        let fabric = &domain.0.fabric;
        let eq = fabric.event_queue(EqAttr { wait_obj: WaitObj::Fd, ..EqAttr::default() })?;
        let listener = fabric.passive_endpoint(info)?.bind(&eq)?.listen()?;
        Ok(Self { listener, eq, domain: domain.clone() })
    }

    /// The address with its real port.
    ///
    /// # Errors
    /// What the system reports.
    pub fn name(&self) -> Result<Address> {
        self.listener.name()
    }

    /// The domain of the endpoints that it accepts.
    pub fn domain(&self) -> &AsyncDomain {
        &self.domain
    }

    /// Accepts the next connection request, with no data. The endpoint is given at once; its sends
    /// and receives wait for the connection.
    pub fn accept(&self) -> Accept<'_> {
        Accept(self.next_request())
    }

    /// The next connection request, to be accepted or rejected.
    pub fn next_request(&self) -> NextRequest<'_> {
        NextRequest { listener: self, next: self.eq.next_event() }
    }
}

impl std::fmt::Debug for AsyncListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AsyncListener").field(&self.listener).finish()
    }
}

/// A peer that asks for a connection; dropped, it is rejected.
#[derive(Debug)]
pub struct AsyncRequest {
    request: ConnectionRequest,
    domain: AsyncDomain,
}

impl AsyncRequest {
    /// What the peer gave when it connected.
    pub fn data(&self) -> &[u8] {
        self.request.data()
    }

    /// The address of the peer.
    pub fn peer(&self) -> Option<&Address> {
        self.request.info().dest_addr.as_ref()
    }

    /// The request itself.
    pub fn request_mut(&mut self) -> &mut ConnectionRequest {
        &mut self.request
    }

    /// Accepts it, with up to 256 bytes of data for the peer, in the listener's domain.
    ///
    /// # Errors
    /// -FI_EINVAL with too much data, -FI_ETIMEDOUT when the request's limit in time has passed,
    /// -FI_ENOMEM; the request is given back.
    pub fn accept(self, data: &[u8]) -> Result<AsyncEndpoint, Returned<Self>> {
        let domain = self.domain.clone();
        self.accept_in(&domain, data)
    }

    /// The same, in another domain.
    ///
    /// # Errors
    /// As for [`accept`](Self::accept).
    pub fn accept_in(self, domain: &AsyncDomain, data: &[u8]) -> Result<AsyncEndpoint, Returned<Self>> {
        let hub = &domain.0;
        let acceptor = hub.domain.endpoint_for(&self.request, &hub.eq, &hub.cq);
        let started = acceptor.and_then(|acceptor| {
            AsyncEndpoint::start(domain, acceptor.ops().clone(), |ops| ops.accept(data))
        });
        // From now on the endpoint is driven, also if no future of it is polled: its peer may access memory.
        hub.look(true);
        started.map_err(|error| Returned { error, object: self })
    }

    /// Tells the peer no, with up to 256 bytes of data.
    ///
    /// # Errors
    /// -FI_EINVAL with too much data, -FI_ETIMEDOUT when the request's limit in time has passed.
    pub fn reject(&self, data: &[u8]) -> Result<()> {
        self.request.reject(data)
    }
}

/// [`AsyncListener::next_request`]. Dropped, the request stays in the queue.
#[must_use = "a future does nothing before it is polled"]
pub struct NextRequest<'a> {
    listener: &'a AsyncListener,
    next: NextEvent<'a>,
}

impl Future for NextRequest<'_> {
    type Output = Result<AsyncRequest>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { listener, next } = &mut *self;
        loop {
            if let Event::ConnectionRequest(request) = ready!(pin!(&mut *next).poll(cx))? {
                return Poll::Ready(Ok(AsyncRequest { request, domain: listener.domain.clone() }));
            }
        }
    }
}

/// [`AsyncListener::accept`]. Dropped, the request stays in the queue.
#[must_use = "a future does nothing before it is polled"]
pub struct Accept<'a>(NextRequest<'a>);

impl Future for Accept<'_> {
    type Output = Result<AsyncEndpoint>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let request = ready!(pin!(&mut self.0).poll(cx))?;
            match request.accept(b"") {
                Ok(endpoint) => return Poll::Ready(Ok(endpoint)),
                // Its peer has given up, or its time was over.
                Err(Returned { error: Error::Expired { .. } | Error::Stale { .. }, .. }) => {}
                Err(returned) => return Poll::Ready(Err(returned.error)),
            }
        }
    }
}

macro_rules! debug {
    ($($name:ident)*) => {$(
        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

debug! { NextRequest Accept }

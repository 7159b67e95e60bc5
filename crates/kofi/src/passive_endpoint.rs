// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The passive endpoint (`fi_passive_ep(3)`): idle, bound to its event queue, listening.

use std::sync::Arc;

use kofi_core::{Address, Fid, ListenerStatistics, Result, TimeLimits};

use crate::event_queue::EventQueue;
use crate::provider::PassiveEndpointOps;
use crate::returned::Returned;

/// A passive endpoint that has no event queue yet.
pub struct PassiveEndpoint(Arc<dyn PassiveEndpointOps>);

/// A passive endpoint that can start to listen.
pub struct BoundPassiveEndpoint(Arc<dyn PassiveEndpointOps>);

/// A passive endpoint that listens: connection requests come to its event queue. Dropped, it is
/// closed; requests that were read stay good.
#[must_use = "dropped, it is closed"]
pub struct Listener(Arc<dyn PassiveEndpointOps>);

impl PassiveEndpoint {
    pub(crate) fn new(ops: Arc<dyn PassiveEndpointOps>) -> Self {
        Self(ops)
    }

    /// The provider's operations.
    pub fn ops(&self) -> &Arc<dyn PassiveEndpointOps> {
        &self.0
    }

    /// `fi_setname`: another address than the info's.
    ///
    /// # Errors
    /// -FI_EADDRINUSE, -FI_EADDRNOTAVAIL.
    pub fn set_name(&self, addr: impl Into<Address>) -> Result<()> {
        self.0.set_name(&addr.into())
    }

    /// `fi_pep_bind`: events come to this queue.
    ///
    /// # Errors
    /// -FI_EINVAL for a queue of another fabric; the endpoint is given back.
    pub fn bind(self, eq: &EventQueue) -> Result<BoundPassiveEndpoint, Returned<Self>> {
        let result = self.0.bind(eq, 0);
        Returned::check(self, result).map(|idle| BoundPassiveEndpoint(idle.0))
    }
}

impl BoundPassiveEndpoint {
    /// `fi_control(FI_BACKLOG)`: how many connections the system is asked to queue.
    ///
    /// # Errors
    /// -FI_EINVAL for zero; the endpoint is given back.
    pub fn backlog(self, backlog: usize) -> Result<Self, Returned<Self>> {
        let result = self.0.set_backlog(backlog);
        Returned::check(self, result)
    }

    /// `fi_getname`: the address, with its real port already.
    ///
    /// # Errors
    /// What the system reports.
    pub fn name(&self) -> Result<Address> {
        self.0.name()
    }

    /// Limits in time for connection requests.
    pub fn limits(self, limits: TimeLimits) -> Self {
        self.0.set_limits(limits);
        self
    }

    /// `fi_listen`.
    ///
    /// # Errors
    /// -FI_EADDRINUSE when somebody else listens there; the endpoint is given back.
    pub fn listen(self) -> Result<Listener, Returned<Self>> {
        let result = self.0.listen();
        Returned::check(self, result).map(|bound| Listener(bound.0))
    }
}

impl Listener {
    /// The provider's operations.
    pub fn ops(&self) -> &Arc<dyn PassiveEndpointOps> {
        &self.0
    }

    /// This object's identity.
    pub fn fid(&self) -> Fid {
        self.0.fid()
    }

    /// `fi_getname`: the address with its real port.
    ///
    /// # Errors
    /// What the system reports.
    pub fn name(&self) -> Result<Address> {
        self.0.name()
    }

    /// What it has done so far: connections, requests, and what it dropped for which reasons.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn statistics(&self) -> Result<ListenerStatistics> {
        self.0.statistics()
    }

    /// `fi_close`: requests that were not read are withdrawn, and their peers rejected.
    pub fn close(self) {
        self.0.close();
    }
}

macro_rules! debug {
    ($($name:ident)*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0.fid()).finish()
            }
        }
    )*};
}

debug! { PassiveEndpoint BoundPassiveEndpoint Listener }

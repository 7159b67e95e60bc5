// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory on loan to the transport.
//!
//! A transport may take the bytes of an operation by reference, and read the operation's memory until the
//! peer's system has acknowledged them. Such an operation has two ends: its bytes are
//! [sent](Domain::sent), and its memory has come back. It completes with the second. So:
//!
//! * the driver says of which operations it lends memory ([`lent`](Domain::lent)), and when that comes back
//!   ([`returned`](Domain::returned));
//! * what is posted behind an operation on loan completes behind it (`FI_ORDER_STRICT`);
//! * a shutdown ends the stream once all has come back, and `FI_SHUTDOWN` tells of an end only then: it is
//!   still the last of an endpoint (decision D11);
//! * an endpoint is [abandoned](Domain::abandon) before it is closed, and closed once all has come back.
//!
//! That the memory does come back is up to the driver, which resets a connection for it if need be.

use crate::domain::Domain;
use crate::endpoint::{Endpoint, EpId, State};
use crate::operation::{Failure, List, OpId, Operations};
use crate::{Errno, Event, Result};

/// What an endpoint has on loan.
#[derive(Default, Debug)]
pub(crate) struct Loans {
    /// Loans that have not come back.
    pub(crate) count: u32,
    /// Operations that have come to their end, but for memory on loan: the first has some, others may only be
    /// behind it.
    pub(crate) waiting: List,
    /// The end of the connection is to be told of once all has come back.
    end: bool,
}

impl Loans {
    /// Whether an operation that has come to its end has to wait.
    fn hold(&self, ops: &Operations, id: OpId) -> bool {
        ops.get(id).is_some_and(|op| op.loans > 0 || self.waiting.len() > 0 && !op.is_incoming())
    }
}

impl Endpoint {
    /// Holds an operation that has come to its end, if it has to wait for memory to come back.
    pub(crate) fn hold(&mut self, ops: &mut Operations, id: OpId, failure: Option<Failure>) -> bool {
        // Mostly nothing is on loan, and then this costs nothing.
        let holds = self.tx.loans.count > 0 && self.tx.loans.hold(ops, id);
        if holds {
            ops.push(&mut self.tx.loans.waiting, id);
            if let Some(op) = ops.get_mut(id) {
                op.failure = failure;
            }
        }
        holds
    }
}

impl Domain {
    /// The transport is about to be given bytes of the operation's memory by reference: to be said before
    /// [`sent`](Self::sent) says so of the bytes, once for each [`returned`](Self::returned) that will follow.
    pub fn lent(&mut self, ep: EpId, op: OpId) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0)
            && let Some(operation) = self.ops.get_mut(op)
        {
            operation.loans += 1;
            endpoint.tx.loans.count += 1;
        }
    }

    /// Memory that was [lent](Self::lent) has come back: the transport does not read it any more.
    pub fn returned(&mut self, ep: EpId, op: OpId) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        let Some(operation) = self.ops.get_mut(op).filter(|operation| operation.loans > 0) else { return };
        operation.loans -= 1;
        endpoint.tx.loans.count -= 1;
        while let Some(endpoint) = self.endpoints.get_mut(ep.0)
            && let Some(first) = endpoint.tx.loans.waiting.first()
            && let Some(operation) = self.ops.get_mut(first).filter(|operation| operation.loans == 0)
        {
            let failure = operation.failure.take();
            self.ops.take_first(&mut endpoint.tx.loans.waiting);
            self.finish(ep, first, failure);
        }
        if let Some(endpoint) = self.endpoints.get_mut(ep.0)
            && endpoint.tx.loans.count == 0
            && core::mem::take(&mut endpoint.tx.loans.end)
        {
            self.tell_end(ep);
        }
    }

    /// Loans of an endpoint's operations that have not come back.
    pub fn loans(&self, ep: EpId) -> u32 {
        self.endpoints.get(ep.0).map_or(0, |endpoint| endpoint.tx.loans.count)
    }

    /// Ends a connection before its endpoint is closed, for a driver that has to wait for memory on loan: all of
    /// its operations complete with `FI_ECANCELED`, as soon as they have their memory back. No event tells of it.
    ///
    /// # Errors
    /// -FI_EINVAL when the endpoint is closed.
    pub fn abandon(&mut self, ep: EpId) -> Result<()> {
        let endpoint = self.endpoint_mut("fi_close", ep)?;
        if endpoint.is_open() {
            endpoint.state = State::Disconnected;
            endpoint.deadline = None;
            endpoint.rx.leftover = false;
            self.cancel_loans(ep, Errno::ECANCELED);
            self.cancel_all(ep, Errno::ECANCELED);
        }
        Ok(())
    }

    /// A connection breaks, or the driver has reset it: what was sent on it, and waits for its memory, may not have
    /// arrived.
    pub fn cancel_loans(&mut self, ep: EpId, cause: Errno) {
        let Some(endpoint) = self.endpoints.get(ep.0) else { return };
        let mut at = endpoint.tx.loans.waiting.first();
        while let Some(id) = at {
            at = self.ops.next(id);
            if let Some(op) = self.ops.get_mut(id) {
                op.failure.get_or_insert(Failure::canceled(cause));
            }
        }
    }

    /// `FI_SHUTDOWN`, once nothing is on loan.
    pub(crate) fn tell_end(&mut self, ep: EpId) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        let Some(reason) = endpoint.reason else { return };
        if endpoint.tx.loans.count > 0 {
            endpoint.tx.loans.end = true;
            return;
        }
        self.emit(ep, Event::Shutdown { reason });
    }
}

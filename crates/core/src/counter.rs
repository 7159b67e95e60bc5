// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The counter (`fi_cntr(3)`): how many operations have completed, without saying which.

use crate::domain::Domain;
use crate::endpoint::{Endpoint, EpId};
use crate::event_queue::check_flags;
use crate::flags::OpFlags;
use crate::slab::Key;
use crate::{Error, Result};

/// Names a counter in its domain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CntrId(pub(crate) Key);

/// A counter. Both numbers wrap around.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counter {
    /// Operations that succeeded (`fi_cntr_read`).
    pub value: u64,
    /// Operations that failed (`fi_cntr_readerr`).
    pub errors: u64,
}

impl Counter {
    /// Adds to both numbers.
    pub fn add(&mut self, value: u64, errors: u64) {
        self.value = self.value.wrapping_add(value);
        self.errors = self.errors.wrapping_add(errors);
    }

    /// Whether a wait (`fi_cntr_wait`) that began at `before` is over.
    ///
    /// # Errors
    /// -FI_EAGAIN while it is not; -FI_EAVAIL when an operation has failed since.
    pub fn check(&self, threshold: u64, before: &Self) -> Result<()> {
        if self.errors != before.errors {
            return Err(Error::ErrorAvailable);
        }
        if self.value >= threshold { Ok(()) } else { Err(Error::Empty) }
    }
}

#[derive(Default, Debug)]
pub(crate) struct Bound {
    counter: Counter,
    /// Kinds of operations of endpoints that it counts.
    bindings: usize,
}

/// What can be counted of an endpoint.
const KINDS: [OpFlags; 6] = [
    OpFlags::SEND,
    OpFlags::RECV,
    OpFlags::READ,
    OpFlags::WRITE,
    OpFlags::REMOTE_READ,
    OpFlags::REMOTE_WRITE,
];

/// An endpoint's counters, one for each kind.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counters {
    counters: [Option<CntrId>; KINDS.len()],
    any: bool,
}

impl Counters {
    /// The counter of operations whose completion has these flags.
    fn get(&self, flags: OpFlags) -> Option<CntrId> {
        if !self.any {
            return None;
        }
        let kinds = KINDS.iter().zip(self.counters);
        kinds.filter(|(kind, _)| flags.contains(**kind)).find_map(|(_, counter)| counter)
    }

    /// Whether something of one of these kinds is counted.
    pub(crate) fn count(&self, kinds: OpFlags) -> bool {
        let bound = KINDS.iter().zip(self.counters).filter(|(_, counter)| counter.is_some());
        bound.into_iter().any(|(kind, _)| kinds.contains(*kind))
    }
}

impl Endpoint {
    fn bind_cntr(&mut self, cntr: CntrId, flags: OpFlags) -> Result<usize> {
        const CALL: &str = "fi_ep_bind";
        self.check_idle(CALL)?;
        check_flags(CALL, flags, KINDS.into_iter().collect())?;
        if flags.is_empty() {
            let problem = "no kind of operation given for a counter; pass FI_SEND, FI_RECV, FI_READ, …";
            return Err(Error::Invalid { call: CALL, problem });
        }
        if self.counters.count(flags) {
            let problem =
                "a counter is bound for that kind of operation already; an endpoint takes one for each";
            return Err(Error::Invalid { call: CALL, problem });
        }
        let mut count = 0;
        for (kind, place) in KINDS.iter().zip(&mut self.counters.counters) {
            if flags.contains(*kind) {
                *place = Some(cntr);
                count += 1;
            }
        }
        self.counters.any = true;
        Ok(count)
    }
}

impl Domain {
    /// `fi_cntr_open`.
    ///
    /// # Errors
    /// -FI_ENOMEM.
    pub fn open_cntr(&mut self) -> Result<CntrId> {
        Ok(CntrId(self.counters.insert(Bound::default(), "a counter")?))
    }

    /// `fi_close` of a counter.
    ///
    /// # Errors
    /// -FI_EBUSY while endpoints are bound to it.
    pub fn close_cntr(&mut self, cntr: CntrId) -> Result<()> {
        const CALL: &str = "fi_close";
        let bound = self.counters.get(cntr.0).ok_or(Error::Stale { call: CALL, object: "counter" })?;
        if bound.bindings > 0 {
            let users = crate::count::list(&[(bound.bindings, "bound kind of operation")]);
            return Err(Error::Busy { call: CALL, object: "counter", users });
        }
        self.counters.remove(cntr.0);
        Ok(())
    }

    /// `fi_cntr_read` and `fi_cntr_readerr`.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn cntr(&self, cntr: CntrId) -> Result<Counter> {
        let bound = self.counters.get(cntr.0);
        Ok(bound.ok_or(Error::Stale { call: "fi_cntr_read", object: "counter" })?.counter)
    }

    /// `fi_cntr_add`, `fi_cntr_set`, `fi_cntr_adderr`, `fi_cntr_seterr`.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn change_cntr(&mut self, cntr: CntrId, change: impl FnOnce(&mut Counter)) -> Result<()> {
        let bound = self.counters.get_mut(cntr.0);
        change(&mut bound.ok_or(Error::Stale { call: "fi_cntr_add", object: "counter" })?.counter);
        Ok(())
    }

    /// `fi_ep_bind` to a counter, for the kinds of operations in `flags`: `FI_SEND`, `FI_RECV`, `FI_READ`,
    /// `FI_WRITE`, `FI_REMOTE_READ`, `FI_REMOTE_WRITE`.
    ///
    /// # Errors
    /// -FI_EINVAL without a kind or for a second counter of a kind; -FI_EBADFLAGS; -FI_EOPBADSTATE once
    /// enabled.
    pub fn bind_cntr(&mut self, ep: EpId, cntr: CntrId, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        let endpoint = self.endpoints.get_mut(ep.0).ok_or(Error::Stale { call: CALL, object: "endpoint" })?;
        let bound = self.counters.get_mut(cntr.0).ok_or(Error::Stale { call: CALL, object: "counter" })?;
        bound.bindings += endpoint.bind_cntr(cntr, flags)?;
        Ok(())
    }

    /// The endpoint is closed: its counters are free of it.
    pub(crate) fn unbind_counters(&mut self, endpoint: &Endpoint) {
        for cntr in endpoint.counters.counters.into_iter().flatten() {
            if let Some(bound) = self.counters.get_mut(cntr.0) {
                bound.bindings -= 1;
            }
        }
    }

    /// An operation of the kind that `flags` says has ended.
    pub(crate) fn count(&mut self, ep: EpId, flags: OpFlags, success: bool) {
        if let Some(endpoint) = self.endpoints.get(ep.0)
            && let Some(cntr) = endpoint.counters.get(flags)
            && let Some(Bound { counter, .. }) = self.counters.get_mut(cntr.0)
        {
            let number = if success { &mut counter.value } else { &mut counter.errors };
            *number = number.wrapping_add(1);
        }
    }
}

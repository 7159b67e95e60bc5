// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What a domain's connections have lent to TCP: see [`kofi_core::loan`].

use alloc::vec::Vec;
use core::time::Duration;

use kofi_core::{EpId, Error, Instant, OpId, Result};

use crate::sys::lease::Lease;
use crate::sys::work::Pump;

/// Bytes of an operation from which on it is worth the while.
pub(crate) const WORTH: u64 = 32 * 1024;
/// How long after a reset a device may still have memory, before we do without.
const PATIENCE: Duration = Duration::from_secs(10);
/// In cookies of leases, beside their index.
const MARK: u64 = 1 << 32;

/// All leases of a domain. As many as were out at the same time, once.
#[derive(Default)]
pub(crate) struct Loans {
    table: Vec<Place>,
    /// Those that are not out. Has room for all.
    free: Vec<usize>,
    /// When the first of those that are called back is given up.
    until: Option<Instant>,
}

struct Place {
    lease: Option<Lease>,
    out: Option<Loan>,
}

/// A lease that is out.
struct Loan {
    ep: EpId,
    op: OpId,
    /// It is given up then.
    until: Option<Instant>,
}

/// The place of a lease, from the cookie that its pump gives.
pub(crate) fn place(cookie: u64) -> Option<usize> {
    (cookie & MARK != 0).then_some((cookie & (MARK - 1)) as usize)
}

impl Loans {
    /// A lease that is not out.
    pub(crate) fn lease(&mut self, pump: &Pump) -> Result<(usize, &Lease)> {
        const WHAT: &str = "a lease";
        if self.free.is_empty() {
            let index = self.table.len();
            self.table.try_reserve(1).map_err(|_| Error::NoMemory(WHAT))?;
            self.free.try_reserve(index + 1).map_err(|_| Error::NoMemory(WHAT))?;
            self.table.push(Place { lease: None, out: None });
            self.free.push(index);
        }
        let index = self.free.last().copied().unwrap_or_default();
        let place = self.table.get_mut(index).ok_or(Error::NoMemory(WHAT))?;
        let lease = match place.lease.take() {
            Some(lease) => lease,
            None => Lease::new(pump, MARK | index as u64)?,
        };
        Ok((index, place.lease.insert(lease)))
    }

    /// The lease that [`lease`](Self::lease) gave is out.
    pub(crate) fn lent(&mut self, index: usize, ep: EpId, op: OpId) {
        self.free.pop();
        if let Some(place) = self.table.get_mut(index) {
            place.out = Some(Loan { ep, op, until: None });
        }
    }

    /// It is back. Gives whose memory it was.
    pub(crate) fn back(&mut self, index: usize) -> Option<(EpId, OpId)> {
        let Loan { ep, op, .. } = self.table.get_mut(index)?.out.take()?;
        self.free.push(index);
        Some((ep, op))
    }

    /// An endpoint's connection was reset: what does not come back of its own is given up.
    pub(crate) fn call_back(&mut self, ep: EpId, now: Instant) {
        let until = now.after(PATIENCE);
        for loan in self.table.iter_mut().filter_map(|place| place.out.as_mut()).filter(|loan| loan.ep == ep)
        {
            loan.until.get_or_insert(until);
        }
        self.until.get_or_insert(until);
    }

    /// When [`give_up`](Self::give_up) has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Gives up one that is out for too long. Gives whose memory it was.
    pub(crate) fn give_up(&mut self, now: Instant) -> Option<(EpId, OpId)> {
        self.until.filter(|&until| until <= now)?;
        for index in 0..self.table.len() {
            let Some(place) = self.table.get_mut(index) else { continue };
            if place.out.as_ref().and_then(|loan| loan.until).is_none_or(|until| until > now) {
                continue;
            }
            place.lease = place.lease.take().and_then(Lease::give_up);
            if place.lease.is_none() {
                return self.back(index);
            }
        }
        let called = self.table.iter().filter_map(|place| place.out.as_ref()?.until);
        self.until = called.filter(|&until| until > now).min();
        None
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The counter over TCP: numbers in the domain, and who waits for them.

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kofi_core::attr::WaitObj;
use kofi_core::{CntrId, Counter, Errno, Error, Result};

use super::domain::Shared;
use crate::provider::CounterOps;
use crate::wait::{Waiter, close_dropped, lock};
use crate::wait_set::{Member, WaitSet};

pub(super) struct CntrShared {
    id: CntrId,
    domain: Arc<Shared>,
    waiter: Waiter,
    /// What the application has read: a wait set tells of what differs.
    seen: Mutex<Counter>,
}

pub(super) struct TcpCounter(Arc<CntrShared>);

impl CntrShared {
    pub(super) fn id(&self) -> CntrId {
        self.id
    }

    pub(super) fn belongs_to(&self, domain: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }

    /// The numbers may have changed.
    pub(super) fn notify(&self) {
        if self.waiter.is_armed() {
            self.waiter.notify();
        }
    }

    fn numbers(&self) -> Result<Counter> {
        self.domain.lock().machine.cntr(self.id)
    }

    fn read(&self) -> Result<Counter> {
        let numbers = self.numbers()?;
        *lock(&self.seen) = numbers;
        Ok(numbers)
    }

    fn change(&self, change: impl FnOnce(&mut Counter)) -> Result<()> {
        self.domain.lock().machine.change_cntr(self.id, change)?;
        self.notify();
        Ok(())
    }
}

impl TcpCounter {
    pub(super) fn open(domain: &Arc<Shared>, wait: WaitObj, wait_set: Option<&WaitSet>) -> Result<Self> {
        let waiter = domain.waiter("fi_cntr_open", wait, wait_set)?;
        let id = domain.lock().machine.open_cntr()?;
        let shared = Arc::new(CntrShared { id, domain: domain.clone(), waiter, seen: Mutex::default() });
        let counter = Self(shared.clone());
        if let Some(set) = wait_set {
            set.add(shared);
        }
        Ok(counter)
    }

    pub(super) fn shared(&self) -> &Arc<CntrShared> {
        &self.0
    }
}

impl CounterOps for TcpCounter {
    fn progress(&self) {
        self.0.waiter.drive();
    }

    fn read(&self) -> Result<Counter> {
        self.0.read()
    }

    fn add(&self, value: u64, errors: u64) -> Result<()> {
        self.0.change(|counter| counter.add(value, errors))
    }

    fn set(&self, value: Option<u64>, errors: Option<u64>) -> Result<()> {
        self.0.change(|counter| {
            counter.value = value.unwrap_or(counter.value);
            counter.errors = errors.unwrap_or(counter.errors);
        })
    }

    fn wait(&self, threshold: u64, timeout: Option<Duration>) -> Result<()> {
        const CALL: &str = "fi_cntr_wait";
        let before = self.0.numbers()?;
        match self.0.waiter.sread(CALL, timeout, || self.0.numbers()?.check(threshold, &before)) {
            Err(Error::Empty) => {
                let detail = format!("it has not come to {threshold}");
                Err(Error::System { call: CALL, errno: Errno::ETIMEDOUT, detail })
            }
            other => other,
        }
    }

    fn is_ready(&self) -> bool {
        self.0.waiter.drive();
        !self.0.is_empty()
    }

    fn try_wait(&self) -> Result<()> {
        self.0.waiter.try_wait("fi_trywait", || self.0.is_empty())
    }

    fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.0.waiter.fd("fi_control(FI_GETWAIT)")
    }

    fn close(&self) -> Result<()> {
        self.0.domain.lock().machine.close_cntr(self.0.id)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Member for CntrShared {
    fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    fn is_empty(&self) -> bool {
        self.numbers().is_ok_and(|numbers| numbers == *lock(&self.seen))
    }
}

impl Drop for TcpCounter {
    fn drop(&mut self) {
        // Endpoints hold the counters that they are bound to: it is in use by none.
        close_dropped(|| drop(self.close()));
    }
}

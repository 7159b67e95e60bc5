// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The counter (`fi_cntr(3)`), with waiting.

use std::sync::Arc;
use std::time::Duration;

use kofi_core::Result;

use crate::provider::CounterOps;

/// Counts the operations of endpoints that it is bound to ([`Queues::counter`](crate::Queues::counter)).
#[derive(Clone)]
pub struct Counter(Arc<dyn CounterOps>);

impl Counter {
    pub(crate) fn new(ops: Arc<dyn CounterOps>) -> Self {
        Self(ops)
    }

    /// The provider's operations.
    pub fn ops(&self) -> &Arc<dyn CounterOps> {
        &self.0
    }

    /// `fi_cntr_read`: operations that succeeded.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn read(&self) -> Result<u64> {
        // Whoever only counts drives the endpoints by that.
        self.0.progress();
        Ok(self.0.read()?.value)
    }

    /// `fi_cntr_readerr`: operations that failed.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn read_error(&self) -> Result<u64> {
        self.0.progress();
        Ok(self.0.read()?.errors)
    }

    /// `fi_cntr_add`.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn add(&self, value: u64) -> Result<()> {
        self.0.add(value, 0)
    }

    /// `fi_cntr_adderr`.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn add_error(&self, value: u64) -> Result<()> {
        self.0.add(0, value)
    }

    /// `fi_cntr_set` and `fi_cntr_seterr`.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn set(&self, value: u64, errors: u64) -> Result<()> {
        self.0.set(Some(value), Some(errors))
    }

    /// `fi_cntr_wait`: until so many operations have succeeded. `None` waits for ever.
    ///
    /// # Errors
    /// -FI_EAVAIL when an operation fails meanwhile, -FI_ETIMEDOUT, -FI_ENOSYS on a counter with
    /// `WaitObj::None`.
    pub fn wait(&self, threshold: u64, timeout: impl Into<Option<Duration>>) -> Result<()> {
        self.0.wait(threshold, timeout.into())
    }
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counter").finish_non_exhaustive()
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Sleeping until somebody wakes.

use core::ptr::NonNull;

use kofi_core::{Instant, Result};

use super::work::Pump;
use super::{made, raw};

/// Why a sleep has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Somebody woke us: look again.
    Wake,
    /// The time is over.
    Time,
    /// A signal came, or the thread is told to stop.
    Interrupted,
}

pub(crate) struct Wait(NonNull<raw::Wait>);

// SAFETY: the shim's functions may be called from any task.
unsafe impl Send for Wait {}
// SAFETY: as above, and at the same time.
unsafe impl Sync for Wait {}

impl Wait {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: no condition.
        made(unsafe { raw::kofi_shim_wait_new() }, "a wait queue").map(Self)
    }

    /// Number of wakes so far.
    pub(crate) fn seq(&self) -> u32 {
        // SAFETY: it lives as long as we do; so below.
        unsafe { raw::kofi_shim_wait_seq(self.0.as_ptr()) }
    }

    pub(crate) fn wake(&self) {
        // SAFETY: as above.
        unsafe { raw::kofi_shim_wait_wake(self.0.as_ptr()) }
    }

    /// Until there was a wake since `seq`. With a pump, what happens to its sockets wakes, too, and is for the caller
    /// to see to; what it waits for in all, it has waited for since that moment.
    pub(crate) fn sleep(&self, pump: Option<(&Pump, Instant)>, seq: u32, until: Option<Instant>) -> Woken {
        let until = until.map_or(u64::MAX, Instant::nanos);
        let (pump, since) =
            pump.map_or((core::ptr::null_mut(), 0), |(pump, since)| (pump.raw(), since.nanos()));
        // SAFETY: as above; we are called in process context.
        match unsafe { raw::kofi_shim_wait_sleep(self.0.as_ptr(), pump, seq, since, until) } {
            0 => Woken::Wake,
            1 => Woken::Time,
            _ => Woken::Interrupted,
        }
    }

    /// Until there was a wake since `seq`, or a while is over; for what ends in any case, signal or not.
    pub(crate) fn sleep_quietly(&self, seq: u32) {
        // SAFETY: as above; we are called in process context.
        unsafe { raw::kofi_shim_wait_quietly(self.0.as_ptr(), seq, 1000) };
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // SAFETY: nobody sleeps, since that borrows us.
        unsafe { raw::kofi_shim_wait_free(self.0.as_ptr()) };
    }
}

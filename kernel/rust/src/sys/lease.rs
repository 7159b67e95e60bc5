// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory that TCP reads where it is.

use core::ptr::NonNull;

use kofi_core::Result;

use super::work::Pump;
use super::{made, raw};

/// TCP does not read the memory any more.
pub(crate) const BACK: u32 = 1;
/// Of what was lent something was copied all the same.
pub(crate) const COPIED: u32 = 2;

/// One reading at a time. Dropped only when it is not out.
pub(crate) struct Lease(NonNull<raw::Lease>);

// SAFETY: the shim's functions may be called from any task.
unsafe impl Send for Lease {}
// SAFETY: who lends has the lock of what it is in.
unsafe impl Sync for Lease {}

impl Lease {
    /// A lease that tells `pump` by `cookie` when it is back.
    ///
    /// The pump outlives all leases that are out.
    pub(crate) fn new(pump: &Pump, cookie: u64) -> Result<Self> {
        // SAFETY: see the promise.
        made(unsafe { raw::kofi_shim_lease_new(pump.raw(), cookie) }, "a lease").map(Self)
    }

    /// Does without one that does not come back. `None`: nothing will be told of it any more. Otherwise it is back, which was told.
    pub(crate) fn give_up(self) -> Option<Self> {
        // SAFETY: it lives as long as we do, or from here on for itself.
        if unsafe { raw::kofi_shim_lease_give_up(self.raw()) } {
            core::mem::forget(self);
            return None;
        }
        Some(self)
    }

    pub(super) fn raw(&self) -> *mut raw::Lease {
        self.0.as_ptr()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // SAFETY: it is not out: see the promise of the type.
        unsafe { raw::kofi_shim_lease_free(self.raw()) };
    }
}

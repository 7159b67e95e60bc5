// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Work in the kernel's workqueues.

use core::ffi::c_void;
use core::ptr::NonNull;

use kofi_core::{Instant, Result};

use super::{made, raw};

/// What drives a domain or a listener.
pub(crate) struct Pump(NonNull<raw::Pump>);

// SAFETY: the shim's functions may be called from any task.
unsafe impl Send for Pump {}
// SAFETY: as above, and at the same time, but for `next`, which says so.
unsafe impl Sync for Pump {}

/// Has a pump.
pub(crate) trait Driven: Send + Sync {
    /// Runs in a workqueue.
    fn run(&self);
}

unsafe extern "C" fn run<T: Driven>(context: *mut c_void) {
    // SAFETY: `Pump::drive` was promised that the object lives until the pump is dropped, which waits for this.
    unsafe { &*context.cast::<T>() }.run();
}

impl Pump {
    /// A pump for an object of that type, which is not there yet.
    pub(crate) fn new<T: Driven>() -> Result<Self> {
        // SAFETY: `run` takes what it is given for what `drive` gives it.
        made(unsafe { raw::kofi_shim_pump_new(run::<T>) }, "work").map(Self)
    }

    /// Drives `object` from now on; to be called before anything else.
    ///
    /// # Safety
    /// It is the object that the pump was made for, and it is there, and where it is, until the pump has been dropped.
    pub(crate) unsafe fn drive<T: Driven>(&self, object: *const T) {
        // SAFETY: it lives as long as we do; so below.
        unsafe { raw::kofi_shim_pump_drive(self.0.as_ptr(), object.cast_mut().cast()) };
    }

    pub(crate) fn kick(&self) {
        // SAFETY: as above.
        unsafe { raw::kofi_shim_pump_kick(self.0.as_ptr()) };
    }

    /// Whether something has happened that nobody has looked at.
    pub(crate) fn has_events(&self) -> bool {
        // SAFETY: as above.
        unsafe { raw::kofi_pump_has_events(self.0.as_ptr()) }
    }

    pub(crate) fn alarm(&self, at: Option<Instant>) {
        if let Some(at) = at {
            // SAFETY: as above.
            unsafe { raw::kofi_shim_pump_alarm(self.0.as_ptr(), at.nanos()) };
        }
    }

    /// A socket that something has happened to: its cookie and what. To be called under the lock of what is driven.
    pub(crate) fn next(&self) -> Option<(u64, u32)> {
        let (mut cookie, mut events) = (0, 0);
        // SAFETY: as above; the caller's lock lets one of us in at a time.
        unsafe { raw::kofi_shim_pump_next(self.0.as_ptr(), &mut cookie, &mut events) }
            .then_some((cookie, events))
    }

    pub(super) fn raw(&self) -> *mut raw::Pump {
        self.0.as_ptr()
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        // SAFETY: its sockets are closed, and we are not called from what it runs: that has no hold on us.
        unsafe { raw::kofi_shim_pump_free(self.0.as_ptr()) };
    }
}

/// What calls a queue's handler.
pub(crate) struct Notifier(NonNull<raw::Notifier>);

// SAFETY: the shim's functions may be called from any task.
unsafe impl Send for Notifier {}
// SAFETY: as above, and at the same time.
unsafe impl Sync for Notifier {}

impl Notifier {
    pub(crate) fn new(handler: raw::Handler, context: *mut c_void, cpu: i32) -> Result<Self> {
        // SAFETY: who opened the queue vouches for its handler.
        made(unsafe { raw::kofi_shim_notifier_new(handler, context, cpu) }, "a handler").map(Self)
    }

    pub(crate) fn trigger(&self) {
        // SAFETY: it lives as long as we do; so below.
        unsafe { raw::kofi_shim_notifier_trigger(self.0.as_ptr()) };
    }

    /// Waits until the handler does not run. Not from within it.
    pub(crate) fn stop(&self) {
        // SAFETY: as above.
        unsafe { raw::kofi_shim_notifier_stop(self.0.as_ptr()) };
    }

    /// Whether the caller is the handler.
    pub(crate) fn is_current(&self) -> bool {
        // SAFETY: as above.
        unsafe { raw::kofi_shim_notifier_is_current(self.0.as_ptr()) }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        // SAFETY: queues are not closed by their handlers (`Signal::check_close`).
        unsafe { raw::kofi_shim_notifier_free(self.0.as_ptr()) };
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The kernel's mutex around a value.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use kofi_core::Result;

use super::{made, raw};

/// What a mutex is for: lockdep checks the order of classes.
#[derive(Clone, Copy)]
pub(crate) enum LockClass {
    Fabric = 0,
    Requests,
    EventQueue,
    Listener,
    Domain,
    WaitSet,
    Leaf,
}

pub(crate) struct Mutex<T> {
    raw: NonNull<raw::Mutex>,
    value: UnsafeCell<T>,
}

// SAFETY: the kernel's mutex lets one task at a time to the value, whichever it is.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    pub(crate) fn new(class: LockClass, value: T) -> Result<Self> {
        // SAFETY: no condition.
        let raw = made(unsafe { raw::kofi_shim_mutex_new(class as u32) }, "a mutex")?;
        Ok(Self { raw, value: UnsafeCell::new(value) })
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // SAFETY: the mutex lives as long as we do.
        unsafe { raw::kofi_shim_mutex_lock(self.raw.as_ptr()) };
        Guard(self)
    }
}

impl<T> Drop for Mutex<T> {
    fn drop(&mut self) {
        // SAFETY: nobody has a guard, since that borrows us.
        unsafe { raw::kofi_shim_mutex_free(self.raw.as_ptr()) };
    }
}

pub(crate) struct Guard<'a, T>(&'a Mutex<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: whoever has the guard has the mutex.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: whoever has the guard has the mutex, and this is the only guard.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: it was locked when the guard was made.
        unsafe { raw::kofi_shim_mutex_unlock(self.0.raw.as_ptr()) };
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The wait set (`fi_poll(3)`): one wait for several queues.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use kofi_core::{Error, Result};

use crate::c;
use crate::error;
use crate::fabric::{Child, Fabric};
use crate::signal::Sleeper;
use crate::sys::lock::{LockClass, Mutex};
use crate::sys::wait::{Wait, Woken};
use crate::sys::{Class, Counted, now};

/// A queue of the set.
pub(crate) trait Member: Send + Sync {
    fn is_empty(&self) -> bool;
}

pub(crate) struct WaitSet {
    wait: Wait,
    members: Mutex<Vec<Weak<dyn Member>>>,
    sleepers: AtomicU32,
    fabric: Arc<Fabric>,
    _child: Child,
    _counted: Counted,
}

impl WaitSet {
    /// The set that a queue is to be opened in, if one is given.
    pub(crate) fn given(
        call: &'static str,
        set: *const Self,
        fabric: &Arc<Fabric>,
    ) -> Result<Option<Arc<Self>>> {
        if set.is_null() {
            return Ok(None);
        }
        // SAFETY: a handle, of an object that is not closed: there is one reference at least for as long as the call takes.
        let set = unsafe {
            Arc::increment_strong_count(set);
            Arc::from_raw(set)
        };
        if !Arc::ptr_eq(&set.fabric, fabric) {
            return Err(Error::Invalid { call, problem: "the wait set belongs to another fabric" });
        }
        Ok(Some(set))
    }

    /// Makes room for a queue, which is put in by [`add`](Self::add).
    pub(crate) fn add(&self, member: Weak<dyn Member>) -> Result<()> {
        let mut members = self.members.lock();
        members.retain(|known| known.strong_count() > 0);
        members.try_reserve(1).map_err(|_| Error::NoMemory("a queue of a wait set"))?;
        members.push(member);
        Ok(())
    }

    pub(crate) fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wait.wake();
        }
    }

    fn any(&self) -> bool {
        let members = self.members.lock();
        members.iter().filter_map(Weak::upgrade).any(|member| !member.is_empty())
    }

    fn wait(&self, timeout: c_int) -> Result<()> {
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        let until = timeout.map(|timeout| now().after(timeout));
        let _sleeper = Sleeper::new(&self.sleepers);
        loop {
            let seq = self.wait.seq();
            if self.any() {
                return Ok(());
            }
            if self.wait.sleep(None, seq, until) != Woken::Wake {
                return if self.any() { Ok(()) } else { Err(Error::Empty) };
            }
        }
    }

    fn check_close(&self) -> Result<()> {
        let busy = |users: &str| {
            Err(Error::Busy {
                call: "fi_close",
                object: "wait set",
                users: kofi_core::error::text(format_args!("{users}")),
            })
        };
        if self.members.lock().iter().any(|member| member.strong_count() > 0) {
            return busy("queues that were opened in it");
        }
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            return busy("a task in fi_wait");
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_wait_open(fabric: *const Fabric, set: *mut *const WaitSet) -> c_int {
    const CALL: &str = "fi_wait_open";
    error::result((|| {
        let fabric = Fabric::given(CALL, fabric)?;
        let place = c::place(CALL, set)?;
        let object = WaitSet {
            wait: Wait::new()?,
            members: Mutex::new(LockClass::WaitSet, Vec::new())?,
            sleepers: AtomicU32::new(0),
            _child: fabric.child(|children| &mut children.wait_sets),
            fabric,
            _counted: Counted::new(Class::WaitSet),
        };
        c::give(place, c::share(object, "a wait set")?);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_wait(set: *const WaitSet, timeout: c_int) -> c_int {
    error::result(c::borrow("fi_wait", set).and_then(|set| set.wait(timeout)))
}

#[unsafe(no_mangle)]
extern "C" fn kofi_wait_close(set: *const WaitSet) -> c_int {
    error::result((|| {
        c::borrow("fi_close", set)?.check_close()?;
        // SAFETY: the caller's handle, which it gives up.
        unsafe { c::take_back(set) };
        Ok(())
    })())
}

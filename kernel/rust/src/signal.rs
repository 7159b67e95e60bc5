// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! How a queue tells that something has come: to those who sleep, to its handler, to its wait set.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;

use kofi_core::flags::OpFlags;
use kofi_core::{Error, Result};

use crate::c;
use crate::domain::Domain;
use crate::sys::now;
use crate::sys::wait::{Wait, Woken};
use crate::sys::work::Notifier;
use crate::wait_set::WaitSet;

pub(crate) struct Signal {
    wait: Wait,
    /// Blocking reads are possible.
    blocking: bool,
    /// Tasks in blocking reads.
    sleepers: AtomicU32,
    /// Blocking reads that are to end without anything.
    interrupts: AtomicU32,
    notifier: Option<Notifier>,
    /// The handler is to be called for what comes.
    armed: AtomicBool,
    pub(crate) set: Option<Arc<WaitSet>>,
}

impl Signal {
    pub(crate) fn new(call: &'static str, attr: &c::QueueAttr, set: Option<Arc<WaitSet>>) -> Result<Self> {
        let invalid = |problem| Err(Error::Invalid { call, problem });
        match attr.wait_obj {
            c::WAIT_SET if set.is_none() => return invalid("FI_WAIT_SET without a wait set"),
            c::WAIT_NONE | c::WAIT_UNSPEC if set.is_some() => {
                return invalid("a wait set without FI_WAIT_SET");
            }
            c::WAIT_NONE | c::WAIT_UNSPEC | c::WAIT_SET => {}
            _ => {
                return invalid("a wait object that the kernel does not have; FI_WAIT_NONE, _UNSPEC or _SET");
            }
        }
        let affinity = OpFlags::from_bits_retain(attr.flags).contains(OpFlags::AFFINITY);
        let cpu = if affinity { attr.signaling_vector } else { -1 };
        let notifier = match attr.handler {
            Some(handler) => Some(Notifier::new(handler, attr.handler_context, cpu)?),
            None => None,
        };
        Ok(Self {
            wait: Wait::new()?,
            blocking: attr.wait_obj != c::WAIT_NONE,
            sleepers: AtomicU32::new(0),
            interrupts: AtomicU32::new(0),
            armed: AtomicBool::new(notifier.is_some()),
            notifier,
            set,
        })
    }

    /// Something has come. To be called after the lock was taken that readers look under.
    pub(crate) fn notify(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wait.wake();
        }
        if let Some(set) = &self.set {
            set.wake();
        }
        if let Some(notifier) = &self.notifier
            && self.armed.swap(false, Ordering::SeqCst)
        {
            notifier.trigger();
        }
    }

    /// A read has found nothing: what comes now is worth a call. Under the lock that readers look under.
    pub(crate) fn rearm(&self) {
        if self.notifier.is_some() {
            self.armed.store(true, Ordering::SeqCst);
        }
    }

    /// Reads by `take` until there is something, `timeout` is over, or there is a reason to stop. What is read comes from
    /// `domain`, which the sleeping task drives, if it is from one.
    pub(crate) fn sread<T>(
        &self,
        call: &'static str,
        timeout: Option<Duration>,
        domain: Option<&Domain>,
        mut take: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        if !self.blocking {
            return Err(Error::Unsupported(call));
        }
        let since = now();
        let until = timeout.map(|timeout| since.after(timeout));
        let _sleeper = Sleeper::new(&self.sleepers);
        loop {
            let seq = self.wait.seq();
            match take() {
                Err(Error::Empty) => {}
                other => return other,
            }
            let pump = domain.map(|domain| (domain.pump(), since));
            if self.take_interrupt() || self.wait.sleep(pump, seq, until) != Woken::Wake {
                // What came at the last moment is not left behind.
                return take();
            }
            if let Some(domain) = domain {
                domain.see_to_events();
            }
        }
    }

    fn take_interrupt(&self) -> bool {
        let less = |count: u32| count.checked_sub(1);
        self.interrupts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    /// Ends every blocking read that there is, or else the next one.
    pub(crate) fn interrupt(&self, call: &'static str) -> Result<()> {
        if !self.blocking {
            return Err(Error::Unsupported(call));
        }
        let sleepers = self.sleepers.load(Ordering::SeqCst);
        self.interrupts.store(sleepers.max(1), Ordering::SeqCst);
        self.wait.wake();
        Ok(())
    }

    /// Whether the queue can be closed.
    pub(crate) fn check_close(&self, object: &'static str) -> Result<()> {
        let busy = |users: &str| {
            Err(Error::Busy {
                call: "fi_close",
                object,
                users: kofi_core::error::text(format_args!("{users}")),
            })
        };
        if self.notifier.as_ref().is_some_and(Notifier::is_current) {
            return busy("its handler, which is calling");
        }
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            return busy("a task in a blocking read");
        }
        Ok(())
    }

    /// Waits for the handler, which may be using the queue, before the queue goes: nothing is bound to it any more, so nothing calls the
    /// handler again. A blocking read of it ends.
    pub(crate) fn stop(&self) {
        if let Some(notifier) = &self.notifier {
            self.interrupts.store(u32::MAX, Ordering::SeqCst);
            self.wait.wake();
            notifier.stop();
        }
    }
}

/// A task in a blocking call.
pub(crate) struct Sleeper<'a>(&'a AtomicU32);

impl<'a> Sleeper<'a> {
    pub(crate) fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

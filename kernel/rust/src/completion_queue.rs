// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The completion queue (`fi_cq(3)`), with waiting.

use alloc::sync::{Arc, Weak};
use core::ffi::{c_char, c_int};
use core::time::Duration;

use kofi_core::attr::{CqAttr, WaitObj};
use kofi_core::flags::OpFlags;
use kofi_core::{CqId, Domain as Machine, Error, Result};

use crate::c;
use crate::domain::Domain;
use crate::error;
use crate::event_queue::check_flags;
use crate::signal::Signal;
use crate::sys::{Class, Counted};
use crate::text;
use crate::wait_set::{Member, WaitSet};

/// Completions that memory is had for when the queue is opened, at most: others find their own.
const MOST_AT_OPEN: usize = 65536;

pub(crate) struct CompletionQueue {
    id: CqId,
    domain: Arc<Domain>,
    signal: Signal,
    _counted: Counted,
}

impl CompletionQueue {
    /// A handle's object, to be held on to.
    pub(crate) fn given(call: &'static str, cq: *const Self) -> Result<Arc<Self>> {
        c::borrow(call, cq)?;
        // SAFETY: a handle, of an object that is not closed: there is one reference at least for as long as the call takes.
        unsafe {
            Arc::increment_strong_count(cq);
            Ok(Arc::from_raw(cq))
        }
    }

    pub(crate) fn id(&self) -> CqId {
        self.id
    }

    pub(crate) fn belongs_to(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }

    /// Tells who waits, if there is something to read. Under the domain's lock.
    pub(crate) fn notify(&self, machine: &Machine) {
        if machine.cq_len(self.id) > 0 {
            self.signal.notify();
        }
    }

    fn read(&self, entries: &mut [c::CqEntry]) -> Result<usize> {
        let mut state = self.domain.lock();
        let mut count = 0;
        for place in entries.iter_mut() {
            let (op, done) = match state.machine.read_cq(self.id) {
                Ok(found) => found,
                Err(_) if count > 0 => break,
                Err(error) => {
                    if error == Error::Empty {
                        self.signal.rearm();
                    }
                    return Err(error);
                }
            };
            let buf = if done.flags.contains(OpFlags::RECV) { state.address(op) } else { 0 };
            // What peers made has no memory.
            if !done.flags.contains(OpFlags::REMOTE_WRITE) {
                state.forget(op);
            }
            if let Some(buffer) = done.buffer {
                state.forget(buffer);
            }
            *place = c::CqEntry {
                context: done.context,
                flags: done.flags.bits(),
                len: done.len,
                buf,
                data: done.data,
            };
            count += 1;
        }
        if state.machine.has_outputs() {
            // Peers that waited for room go on, or have come to their end.
            state.settle();
        }
        Ok(count)
    }

    fn read_error(&self, place: &mut c::CqError) -> Result<()> {
        let mut state = self.domain.lock();
        let (op, error) = state.machine.read_cq_error(self.id)?;
        let buf = if error.flags.contains(OpFlags::RECV) { state.address(op) } else { 0 };
        state.forget(op);
        if let Some(buffer) = error.buffer {
            state.forget(buffer);
        }
        if state.machine.has_outputs() {
            state.settle();
        }
        *place = c::CqError {
            context: error.context,
            flags: error.flags.bits(),
            len: error.len,
            buf,
            data: error.data,
            olen: error.overflow,
            err: error.errno.raw(),
            prov_errno: error.provider_errno,
        };
        Ok(())
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // Closed before, but where opening it failed half way.
        let _ = self.domain.lock().machine.close_cq(self.id);
    }
}

impl Member for CompletionQueue {
    fn is_empty(&self) -> bool {
        self.domain.lock().machine.cq_len(self.id) == 0
    }
}

/// Where completions go.
fn entries<'a>(call: &'static str, entries: *mut c::CqEntry, count: usize) -> Result<&'a mut [c::CqEntry]> {
    if count == 0 {
        return Ok(&mut []);
    }
    if entries.is_null() || count > isize::MAX as usize / size_of::<c::CqEntry>() {
        return Err(Error::Invalid { call, problem: "no room for completions" });
    }
    // SAFETY: the caller says that there is so much room, and that it is its own.
    Ok(unsafe { core::slice::from_raw_parts_mut(entries, count) })
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cq_open(
    domain: *const Domain,
    attr: *const c::QueueAttr,
    cq: *mut *const CompletionQueue,
) -> c_int {
    const CALL: &str = "fi_cq_open";
    error::result((|| {
        let domain = Domain::given(CALL, domain)?;
        let place = c::place(CALL, cq)?;
        let default = c::QueueAttr::default();
        // SAFETY: null, or the caller's for the call.
        let attr = unsafe { attr.as_ref() }.unwrap_or(&default);
        let flags = check_flags(CALL, attr.flags, OpFlags::AFFINITY)?;
        if flags.contains(OpFlags::AFFINITY) && attr.signaling_vector < 0 {
            let problem = "FI_AFFINITY with a negative signaling_vector; it names a processor, from 0 on";
            return Err(Error::Invalid { call: CALL, problem });
        }
        let set = WaitSet::given(CALL, attr.wait_set, &domain.fabric)?;
        let signal = Signal::new(CALL, attr, set.clone())?;
        let size = usize::try_from(attr.size).unwrap_or(usize::MAX).min(MOST_AT_OPEN);
        let id = domain.lock().machine.open_cq(&CqAttr {
            size,
            wait_obj: WaitObj::Unspec,
            ..CqAttr::default()
        })?;
        let object = CompletionQueue { id, domain, signal, _counted: Counted::new(Class::CompletionQueue) };
        let object = c::share(object, "a completion queue")?;
        if let Some(set) = set {
            set.add(Arc::downgrade(&object) as Weak<dyn Member>)?;
        }
        c::give(place, object);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cq_read(cq: *const CompletionQueue, place: *mut c::CqEntry, count: usize) -> isize {
    const CALL: &str = "fi_cq_read";
    error::count((|| c::borrow(CALL, cq)?.read(entries(CALL, place, count)?))())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cq_sread(
    cq: *const CompletionQueue,
    place: *mut c::CqEntry,
    count: usize,
    threshold: usize,
    timeout: c_int,
) -> isize {
    const CALL: &str = "fi_cq_sread";
    error::count((|| {
        let queue = c::borrow(CALL, cq)?;
        let entries = entries(CALL, place, count)?;
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        let read = queue.signal.sread(CALL, timeout, Some(&queue.domain), || {
            if threshold > 1 && !queue.domain.lock().machine.cq_satisfies(queue.id, threshold) {
                return Err(Error::Empty);
            }
            queue.read(entries)
        });
        match read {
            // fi_cq(3): what there is, when the time is over or a signal came.
            Err(Error::Empty) if threshold > 1 => queue.read(entries),
            other => other,
        }
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cq_readerr(cq: *const CompletionQueue, place: *mut c::CqError, flags: u64) -> isize {
    const CALL: &str = "fi_cq_readerr";
    error::count((|| {
        check_flags(CALL, flags, OpFlags::empty())?;
        c::borrow(CALL, cq)?.read_error(c::place(CALL, place)?).map(|()| 1)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cq_signal(cq: *const CompletionQueue) -> c_int {
    const CALL: &str = "fi_cq_signal";
    error::result(c::borrow(CALL, cq).and_then(|queue| queue.signal.interrupt(CALL)))
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cq_strerror(_cq: *const CompletionQueue, prov_errno: c_int) -> *const c_char {
    text::error(prov_errno)
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cq_close(cq: *const CompletionQueue) -> c_int {
    error::result((|| {
        let queue = c::borrow("fi_close", cq)?;
        queue.signal.check_close("completion queue")?;
        {
            let mut state = queue.domain.lock();
            state.machine.close_cq(queue.id)?;
            state.settle();
        }
        queue.signal.stop();
        // SAFETY: the caller's handle, which it gives up.
        unsafe { c::take_back(cq) };
        Ok(())
    })())
}

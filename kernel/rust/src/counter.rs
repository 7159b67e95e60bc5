// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The counter (`fi_cntr(3)`), with waiting.

use alloc::sync::Arc;
use core::ffi::c_int;
use core::time::Duration;

use kofi_core::{CntrId, Counter as Values, Errno, Error, Result};

use crate::c;
use crate::domain::Domain;
use crate::error::{self, system};
use crate::signal::Signal;
use crate::sys::{Class, Counted, now};

pub(crate) struct Counter {
    id: CntrId,
    domain: Arc<Domain>,
    signal: Signal,
    _counted: Counted,
}

impl Counter {
    pub(crate) fn id(&self) -> CntrId {
        self.id
    }

    pub(crate) fn belongs_to(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }

    /// It may have changed. Under the domain's lock.
    pub(crate) fn notify(&self) {
        self.signal.notify();
    }

    fn values(&self) -> Result<Values> {
        self.domain.lock().machine.cntr(self.id)
    }

    fn change(&self, change: impl FnOnce(&mut Values)) -> Result<()> {
        self.domain.lock().machine.change_cntr(self.id, change)?;
        self.signal.notify();
        Ok(())
    }

    fn wait(&self, threshold: u64, timeout: c_int) -> Result<()> {
        const CALL: &str = "fi_cntr_wait";
        let before = self.values()?;
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        let until = timeout.map(|timeout| now().after(timeout));
        match self
            .signal
            .sread(CALL, timeout, Some(&self.domain), || self.values()?.check(threshold, &before))
        {
            Err(Error::Empty) if until.is_some_and(|until| until <= now()) => {
                Err(system(CALL, Errno::ETIMEDOUT))
            }
            other => other,
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // Closed before, but where opening it failed half way.
        let _ = self.domain.lock().machine.close_cntr(self.id);
    }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cntr_open(domain: *const Domain, wait_obj: u32, cntr: *mut *const Counter) -> c_int {
    const CALL: &str = "fi_cntr_open";
    error::result((|| {
        let domain = Domain::given(CALL, domain)?;
        let place = c::place(CALL, cntr)?;
        let signal = Signal::new(CALL, &c::QueueAttr { wait_obj, ..c::QueueAttr::default() }, None)?;
        let id = domain.lock().machine.open_cntr()?;
        let object = Counter { id, domain, signal, _counted: Counted::new(Class::Counter) };
        c::give(place, c::share(object, "a counter")?);
        Ok(())
    })())
}

/// 0 for a counter that is none, as there is no other answer.
fn value(cntr: *const Counter, which: impl FnOnce(Values) -> u64) -> u64 {
    c::borrow("fi_cntr_read", cntr).and_then(Counter::values).map_or(0, which)
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cntr_read(cntr: *const Counter) -> u64 {
    value(cntr, |values| values.value)
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cntr_readerr(cntr: *const Counter) -> u64 {
    value(cntr, |values| values.errors)
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cntr_add(cntr: *const Counter, value: u64) -> c_int {
    error::result(c::borrow("fi_cntr_add", cntr).and_then(|cntr| cntr.change(|values| values.add(value, 0))))
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cntr_set(cntr: *const Counter, value: u64) -> c_int {
    error::result(c::borrow("fi_cntr_set", cntr).and_then(|cntr| cntr.change(|values| values.value = value)))
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cntr_adderr(cntr: *const Counter, value: u64) -> c_int {
    let counter = c::borrow("fi_cntr_adderr", cntr);
    error::result(counter.and_then(|cntr| cntr.change(|values| values.add(0, value))))
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cntr_seterr(cntr: *const Counter, value: u64) -> c_int {
    let counter = c::borrow("fi_cntr_seterr", cntr);
    error::result(counter.and_then(|cntr| cntr.change(|values| values.errors = value)))
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cntr_wait(cntr: *const Counter, threshold: u64, timeout: c_int) -> c_int {
    error::result(c::borrow("fi_cntr_wait", cntr).and_then(|cntr| cntr.wait(threshold, timeout)))
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cntr_close(cntr: *const Counter) -> c_int {
    error::result((|| {
        let counter = c::borrow("fi_close", cntr)?;
        counter.signal.check_close("counter")?;
        counter.domain.lock().machine.close_cntr(counter.id)?;
        // SAFETY: the caller's handle, which it gives up.
        unsafe { c::take_back(cntr) };
        Ok(())
    })())
}

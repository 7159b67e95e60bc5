// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The counter (`fi_cntr(3)`).

use core::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kofi::provider::CounterOps;
use kofi_core::{Counter, Error, Result};

use super::domain::Domain;
use super::wait::{Waitable, control};
use super::{Class, Object, absent, free, new_fid, object, place, status, wait};
use crate::boundary::boundary;
use crate::sys::*;

pub(super) struct Cntr {
    ops: Arc<dyn CounterOps>,
    wait_obj: fi_wait_obj,
    /// Poll sets that it is in.
    pub(super) polls: AtomicUsize,
}

impl Cntr {
    pub(super) fn ops(&self) -> &Arc<dyn CounterOps> {
        &self.ops
    }
}

// SAFETY: a `fid_cntr` begins with a fid.
unsafe impl Class for Cntr {
    type Public = fid_cntr;
    const CLASS: usize = FI_CLASS_CNTR;
    const NAME: &'static str = "counter";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops = fi_ops { close: Some(close), control: Some(control::<Cntr>), ..absent::FID };
        &TABLE
    }
}

static OPS: fi_ops_cntr = fi_ops_cntr {
    size: size_of::<fi_ops_cntr>(),
    read,
    readerr,
    add,
    set,
    wait: cntr_wait,
    adderr,
    seterr,
    export_xpu: {
        extern "C" fn absent(_: *mut fid_cntr, _: u64, _: *mut fid_xpu_cntr) -> c_int {
            -kofi_core::Errno::ENOSYS.raw()
        }
        absent
    },
};

pub(super) unsafe extern "C" fn cntr_open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    const CALL: &str = "fi_cntr_open";
    status(|| {
        // SAFETY: the caller's object and place.
        let (domain, place) = unsafe { (object::<Domain, _>(CALL, domain)?, place(CALL, cntr)?) };
        let (mut wait_obj, mut wanted) = (FI_WAIT_UNSPEC, (kofi::WaitObj::Unspec, None));
        if !attr.is_null() {
            // SAFETY: the caller's attributes, of which only the fields of all versions are read.
            let (events, flags, wait_set) = unsafe {
                let attr = &raw const *attr;
                wait_obj = (*attr).wait_obj;
                ((*attr).events, (*attr).flags, (*attr).wait_set)
            };
            if events != FI_CNTR_EVENTS_COMP {
                return Err(Error::Unsupported("fi_cntr_open with events other than FI_CNTR_EVENTS_COMP"));
            }
            if flags != 0 {
                return Err(Error::Invalid { call: CALL, problem: "flags are reserved; pass 0" });
            }
            // SAFETY: the caller's wait set, if it is to be looked at.
            wanted = unsafe { wait::wanted(CALL, wait_obj, wait_set)? };
        }
        let ops = domain.domain.ops().cntr_open(wanted.0, wanted.1)?;
        let public = fid_cntr { fid: new_fid::<Cntr>(context), ops: &OPS };
        Object::give(place, domain.process, public, Cntr { ops, wait_obj, polls: AtomicUsize::new(0) });
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    const CALL: &str = "fi_close";
    status(|| {
        // SAFETY: the caller's object.
        let cntr = unsafe { object::<Cntr, _>(CALL, fid)? };
        super::poll::check_close(Cntr::NAME, cntr.polls.load(Ordering::Relaxed))?;
        cntr.ops.close()?;
        // SAFETY: the caller gives it up.
        unsafe { free::<Cntr>(fid) };
        Ok(())
    })
}

impl Waitable for Cntr {
    fn wait_obj(&self) -> fi_wait_obj {
        self.wait_obj
    }

    fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.ops.fd()
    }
}

/// A number of the counter; 0 of what is none, since there is no other way to say so.
unsafe fn number(cntr: *mut fid_cntr, of: impl FnOnce(Counter) -> u64) -> u64 {
    boundary(|| {
        // SAFETY: the caller's object.
        let Ok(cntr) = (unsafe { object::<Cntr, _>("fi_cntr_read", cntr) }) else { return 0 };
        // Whoever only counts drives the endpoints by that.
        cntr.ops.progress();
        cntr.ops.read().map_or(0, of)
    })
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: as there.
    unsafe { number(cntr, |numbers| numbers.value) }
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: as there.
    unsafe { number(cntr, |numbers| numbers.errors) }
}

unsafe fn change(cntr: *mut fid_cntr, change: impl FnOnce(&dyn CounterOps) -> Result<()>) -> c_int {
    // SAFETY: the caller's object.
    status(|| change(&**unsafe { object::<Cntr, _>("fi_cntr_set", cntr) }?.ops()))
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as there.
    unsafe { change(cntr, |ops| ops.add(value, 0)) }
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as there.
    unsafe { change(cntr, |ops| ops.add(0, value)) }
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as there.
    unsafe { change(cntr, |ops| ops.set(Some(value), None)) }
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as there.
    unsafe { change(cntr, |ops| ops.set(None, Some(value))) }
}

unsafe extern "C" fn cntr_wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: the caller's object.
    status(|| unsafe { object::<Cntr, _>("fi_cntr_wait", cntr) }?.ops.wait(threshold, wait::time(timeout)))
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The fabric (`fi_fabric(3)`).

use core::ffi::{c_int, c_void};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kofi::{Fabric, Info};
use kofi_core::{Error, Fid, Result};

use super::cntr::Cntr;
use super::cq::Cq;
use super::domain::domain_open;
use super::eq::{Eq, eq_open};
use super::pep::passive_ep;
use super::process::Process;
use super::request::Requests;
use super::wait::{Wait, wait_open};
use super::{Class, Object, absent, free, is, new_fid, object, status};
use crate::sys::{FI_CLASS_FABRIC, fi_info, fi_ops, fi_ops_fabric, fid, fid_domain, fid_fabric};

/// What all objects of a fabric know of it.
pub(super) struct Shared {
    pub(super) fabric: Fabric,
    names: Mutex<HashMap<Fid, Name>>,
    requests: Mutex<Requests>,
}

/// An object that events are about.
#[derive(Clone)]
pub(super) struct Name {
    pub(super) fid: *mut fid,
    /// What a passive endpoint was opened with.
    pub(super) listener: Option<Arc<Info>>,
}

// SAFETY: the pointer is only handed to the application.
unsafe impl Send for Name {}

impl Shared {
    pub(super) fn names(&self) -> MutexGuard<'_, HashMap<Fid, Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct FabricClass(pub(super) Arc<Shared>);

// SAFETY: a `fid_fabric` begins with a fid.
unsafe impl Class for FabricClass {
    type Public = fid_fabric;
    const CLASS: usize = FI_CLASS_FABRIC;
    const NAME: &'static str = "fabric";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops = fi_ops { close: Some(close), ..absent::FID };
        &TABLE
    }
}

impl Object<FabricClass> {
    /// The version of the interface that the application was built for.
    pub(super) fn api_version(&self) -> kofi::Version {
        // SAFETY: the library has set it when it opened the fabric.
        kofi::Version::from_raw(unsafe { (*self.public()).api_version })
    }
}

static OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: domain_open,
    passive_ep,
    eq_open,
    wait_open,
    trywait,
    domain2,
};

/// `fi_fabric`: opens the fabric that the attributes of `info` name, for an application of that version.
///
/// # Errors
/// -FI_ENODEV when there is no such provider.
pub fn open(info: &Info, api_version: u32, context: *mut c_void) -> Result<*mut fid_fabric> {
    let fabric = Fabric::open(info)?;
    let shared = Shared { fabric, names: Mutex::default(), requests: Mutex::default() };
    let public = fid_fabric { fid: new_fid::<FabricClass>(context), ops: &OPS, api_version };
    Ok(Object::make(Process::enter(), public, FabricClass(Arc::new(shared))))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    status(|| {
        // SAFETY: the caller's object.
        let fabric = unsafe { object::<FabricClass, _>("fi_close", fid)? };
        fabric.0.fabric.clone().close()?;
        // SAFETY: the caller gives it up, and nothing of it is open.
        unsafe { free::<FabricClass>(fid) };
        Ok(())
    })
}

unsafe extern "C" fn domain2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        let error = Error::BadFlags { call: "fi_domain2", found: flags, allowed: 0 };
        return status(|| Err(error));
    }
    // SAFETY: as there.
    unsafe { domain_open(fabric, info, domain, context) }
}

unsafe extern "C" fn trywait(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    const CALL: &str = "fi_trywait";
    status(|| {
        // SAFETY: the caller's object.
        unsafe { object::<FabricClass, _>(CALL, fabric)? };
        let problem = "no array of objects, or a negative number of them";
        let count = usize::try_from(count).ok().filter(|&count| count == 0 || !fids.is_null());
        let count = count.ok_or(Error::Invalid { call: CALL, problem })?;
        for index in 0..count {
            // SAFETY: the array has that many.
            let fid = unsafe { *fids.add(index) };
            // SAFETY: the caller's objects.
            unsafe {
                if is::<Cq>(fid) {
                    object::<Cq, _>(CALL, fid)?.ops().try_wait()?;
                } else if is::<Eq>(fid) {
                    object::<Eq, _>(CALL, fid)?.queue().try_wait()?;
                } else if is::<Cntr>(fid) {
                    object::<Cntr, _>(CALL, fid)?.ops().try_wait()?;
                } else {
                    object::<Wait, _>(CALL, fid)?.set().try_wait()?;
                }
            }
        }
        Ok(())
    })
}

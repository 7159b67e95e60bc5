// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The passive endpoint (`fi_passive_ep`, `fi_cm(3)`).

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use kofi::provider::PassiveEndpointOps;
use kofi_core::wire::cm;
use kofi_core::{Error, Result};

use super::eq::Eq;
use super::fabric::{FabricClass, Name, Shared};
use super::name::{read_name, write_name};
use super::option::{Options, getopt, setopt};
use super::{Class, Object, absent, bytes, free, new_fid, object, place, status};
use crate::info;
use crate::sys::*;

pub(super) struct Pep {
    ops: Arc<dyn PassiveEndpointOps>,
    shared: Arc<Shared>,
}

impl Pep {
    pub(super) fn ops(&self) -> &Arc<dyn PassiveEndpointOps> {
        &self.ops
    }
}

// SAFETY: a `fid_pep` begins with a fid.
unsafe impl Class for Pep {
    type Public = fid_pep;
    const CLASS: usize = FI_CLASS_PEP;
    const NAME: &'static str = "passive endpoint";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops =
            fi_ops { close: Some(close), bind: Some(bind), control: Some(control), ..absent::FID };
        &TABLE
    }
}

static OPS: fi_ops_ep = fi_ops_ep { getopt: getopt::<Pep>, setopt: setopt::<Pep>, ..absent::EP };
static CM: fi_ops_cm = fi_ops_cm { setname, getname, listen, reject, ..absent::CM };

pub(super) unsafe extern "C" fn passive_ep(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    pep: *mut *mut fid_pep,
    context: *mut c_void,
) -> c_int {
    const CALL: &str = "fi_passive_ep";
    status(|| {
        // SAFETY: the caller's object, info and place.
        let (fabric, info, place) =
            unsafe { (object::<FabricClass, _>(CALL, fabric)?, info::read(info)?, place(CALL, pep)?) };
        let shared = fabric.0.clone();
        let ops = shared.fabric.passive_endpoint(&info)?.ops().clone();
        let public = fid_pep { fid: new_fid::<Pep>(context), ops: &OPS, cm: &CM };
        let inner = Pep { ops: ops.clone(), shared: shared.clone() };
        Object::give(place, fabric.process, public, inner);
        let name = Name { fid: place.cast(), listener: Some(Arc::new(info)) };
        shared.names().insert(ops.fid(), name);
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    status(|| {
        // SAFETY: the caller's object.
        let pep = unsafe { object::<Pep, _>("fi_close", fid)? };
        pep.ops.close();
        pep.shared.names().remove(&pep.ops.fid());
        // SAFETY: the caller gives it up.
        unsafe { free::<Pep>(fid) };
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
    const CALL: &str = "fi_pep_bind";
    status(|| {
        // SAFETY: the caller's objects.
        let (pep, eq) = unsafe { (object::<Pep, _>(CALL, fid)?, object::<Eq, _>(CALL, bfid)?) };
        pep.ops.bind(eq.queue(), flags)
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    const CALL: &str = "fi_control(FI_BACKLOG)";
    status(|| {
        // SAFETY: the caller's object.
        let pep = unsafe { object::<Pep, _>(CALL, fid)? };
        match command {
            FI_BACKLOG => {
                // SAFETY: fi_cm(3): "the argument … is an int".
                let backlog = *unsafe { place(CALL, arg.cast::<c_int>())? };
                let problem = "a negative backlog";
                let backlog = usize::try_from(backlog).map_err(|_| Error::Invalid { call: CALL, problem })?;
                pep.ops.set_backlog(backlog)
            }
            _ => Err(Error::Unsupported("fi_control")),
        }
    })
}

impl Options for Pep {
    fn get(&self, option: c_int) -> Option<Result<usize>> {
        match option {
            FI_OPT_CM_DATA_SIZE => Some(Ok(cm::MAX_DATA)),
            _ => None,
        }
    }
}

unsafe extern "C" fn setname(fid: *mut fid, addr: *mut c_void, len: usize) -> c_int {
    const CALL: &str = "fi_setname";
    status(|| {
        // SAFETY: the caller's object and address.
        let (pep, addr) = unsafe { (object::<Pep, _>(CALL, fid)?, read_name(CALL, addr, Some(len))?) };
        pep.ops.set_name(&addr)
    })
}

unsafe extern "C" fn getname(fid: *mut fid, addr: *mut c_void, len: *mut usize) -> c_int {
    const CALL: &str = "fi_getname";
    status(|| {
        // SAFETY: the caller's object and places.
        unsafe { write_name(CALL, &object::<Pep, _>(CALL, fid)?.ops.name()?, addr, len) }
    })
}

unsafe extern "C" fn listen(pep: *mut fid_pep) -> c_int {
    // SAFETY: the caller's object.
    status(|| unsafe { object::<Pep, _>("fi_listen", pep) }?.ops.listen())
}

unsafe extern "C" fn reject(pep: *mut fid_pep, handle: *mut fid, param: *const c_void, len: usize) -> c_int {
    const CALL: &str = "fi_reject";
    status(|| {
        // SAFETY: the caller's object and bytes; the handle is only looked up.
        let (pep, data) = unsafe { (object::<Pep, _>(CALL, pep)?, bytes(CALL, param, len)?) };
        // What comes of it is told to the log, which may call us: nothing is locked meanwhile.
        let request = pep.shared.requests().take(CALL, handle)?;
        let result = request.reject(data);
        let rest = match &result {
            Ok(()) | Err(Error::Stale { .. } | Error::Expired { .. }) => {
                let none = pep.shared.requests().end(handle);
                drop(none);
                Some(request)
            }
            Err(_) => pep.shared.requests().put(handle, request),
        };
        drop(rest);
        result
    })
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The domain (`fi_domain(3)`).

use core::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kofi::TimeLimits;
use kofi_core::{Error, Progress, Result};

use super::cntr::cntr_open;
use super::cq::cq_open;
use super::ep::endpoint;
use super::eq::Eq;
use super::fabric::{FabricClass, Shared};
use super::poll::poll_open;
use super::srx::srx_ctx;
use super::{Class, Held, Object, absent, free, mr, new_fid, object, place, status};
use crate::info;
use crate::sys::*;

pub(super) struct Domain {
    pub(super) domain: kofi::Domain,
    pub(super) shared: Arc<Shared>,
    fabric: Held<FabricClass>,
    /// The event queue that it is bound to.
    eq: Mutex<Option<Held<Eq>>>,
    /// Poll sets.
    pub(super) polls: AtomicUsize,
}

impl Domain {
    pub(super) fn api_version(&self) -> kofi::Version {
        self.fabric.get().api_version()
    }
}

// SAFETY: a `fid_domain` begins with a fid.
unsafe impl Class for Domain {
    type Public = fid_domain;
    const CLASS: usize = FI_CLASS_DOMAIN;
    const NAME: &'static str = "domain";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops = fi_ops { close: Some(close), bind: Some(bind), ..absent::FID };
        &TABLE
    }
}

static OPS: fi_ops_domain =
    fi_ops_domain { cq_open, endpoint, cntr_open, poll_open, srx_ctx, endpoint2, ..absent::DOMAIN };

/// What `fi_connect` may take, if nobody has set a limit: servers of C programs accept when they come to it, and a host
/// that is not there is given up by Linux after 127 s.
const CONNECT: Duration = Duration::from_secs(130);

pub(super) unsafe extern "C" fn domain_open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    const CALL: &str = "fi_domain";
    status(|| {
        // SAFETY: the caller's object, info and place.
        let (fabric, info, place) =
            unsafe { (object::<FabricClass, _>(CALL, fabric)?, info::read(info)?, place(CALL, domain)?) };
        let shared = fabric.0.clone();
        let domain = shared.fabric.domain(&info)?;
        if std::env::var_os("KOFI_CONNECT_TIMEOUT_MS").is_none() {
            domain.ops().set_limits(TimeLimits { connect: Some(CONNECT), ..domain.ops().limits() });
        }
        let fabric_of = Held::new(fabric);
        let inner =
            Domain { domain, shared, fabric: fabric_of, eq: Mutex::new(None), polls: AtomicUsize::new(0) };
        let public = fid_domain { fid: new_fid::<Domain>(context), ops: &OPS, mr: &mr::OPS };
        let progress = [info.domain_attr.control_progress, info.domain_attr.data_progress];
        let process = match progress.contains(&Progress::Auto) {
            true => fabric.process.with_thread(),
            false => fabric.process,
        };
        Object::give(place, process, public, inner);
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    const CALL: &str = "fi_close";
    status(|| {
        // SAFETY: the caller's object.
        let domain = unsafe { object::<Domain, _>(CALL, fid)? };
        let polls = domain.polls.load(Ordering::Relaxed);
        if polls > 0 {
            return Err(Error::Busy {
                call: CALL,
                object: Domain::NAME,
                users: format!("{polls} poll sets"),
            });
        }
        domain.domain.clone().close()?;
        if let Some(eq) = domain.eq.lock().unwrap_or_else(PoisonError::into_inner).take() {
            eq.get().domains.fetch_sub(1, Ordering::Relaxed);
        }
        // SAFETY: the caller gives it up, and nothing in it is open.
        unsafe { free::<Domain>(fid) };
        Ok(())
    })
}

/// Nothing that a domain does here happens later, so no event ever comes of it.
unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
    const CALL: &str = "fi_domain_bind";
    status(|| {
        // SAFETY: the caller's objects.
        let (domain, eq) = unsafe { (object::<Domain, _>(CALL, fid)?, object::<Eq, _>(CALL, bfid)?) };
        if flags != 0 {
            return Err(Error::BadFlags { call: CALL, found: flags, allowed: 0 });
        }
        let mut bound = domain.eq.lock().unwrap_or_else(PoisonError::into_inner);
        if bound.is_some() {
            let problem = "an event queue is bound already; a domain takes one";
            return Err(Error::Invalid { call: CALL, problem });
        }
        eq.domains.fetch_add(1, Ordering::Relaxed);
        *bound = Some(Held::new(eq));
        Ok(())
    })
}

unsafe extern "C" fn endpoint2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        let error = Error::BadFlags { call: "fi_endpoint2", found: flags, allowed: 0 };
        return status(|| Result::Err(error));
    }
    // SAFETY: as there.
    unsafe { endpoint(domain, info, ep, context) }
}

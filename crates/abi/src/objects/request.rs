// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Connection requests: what `info->handle` of an `FI_CONNREQ` event points to.
//!
//! Programs hand these pointers back at any time, also when they are used up. So a pointer is compared with those of
//! the fabric's requests, and never followed.

use core::ffi::c_int;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use kofi::ConnectionRequest;
use kofi_core::{Error, Result};

use super::fabric::Shared;
use super::process::Process;
use super::{Class, Object, absent, free, new_fid, object, status};
use crate::sys::{FI_CLASS_CONNREQ, fi_ops, fid};

/// Handles that are used up keep their memory for so long, so that it is not a new request's soon.
const RETIRED: usize = 16;

pub(super) struct Handle(Weak<Shared>);

// SAFETY: `Public` is a fid.
unsafe impl Class for Handle {
    type Public = fid;
    const CLASS: usize = FI_CLASS_CONNREQ;
    const NAME: &'static str = "connection request";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops = fi_ops { close: Some(close), ..absent::FID };
        &TABLE
    }
}

/// The requests of a fabric that were shown to the application.
#[derive(Default)]
pub(super) struct Requests {
    open: HashMap<usize, Open>,
    retired: VecDeque<Owned>,
}

struct Open {
    handle: Owned,
    /// None while it was only looked at.
    request: Option<ConnectionRequest>,
}

/// The memory of a handle.
struct Owned(*mut fid);

// SAFETY: it is only compared, and freed.
unsafe impl Send for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by `reserve`, and in no table any more.
        unsafe { free::<Handle>(self.0) };
    }
}

impl Requests {
    /// A handle, for a request that is to be [put](Self::put).
    pub(super) fn reserve(&mut self, process: Process, shared: &Arc<Shared>) -> *mut fid {
        let public = new_fid::<Handle>(core::ptr::null_mut());
        let fid = Object::make(process, public, Handle(Arc::downgrade(shared)));
        self.open.insert(fid.addr(), Open { handle: Owned(fid), request: None });
        fid
    }

    /// The handle's request has been read.
    pub(super) fn put(&mut self, handle: *mut fid, request: ConnectionRequest) {
        if let Some(open) = self.open.get_mut(&handle.addr()) {
            open.request = Some(request);
        }
    }

    /// The request.
    ///
    /// # Errors
    /// -FI_EINVAL when it is used up, or there never was one.
    pub(super) fn get(&mut self, call: &'static str, handle: *const fid) -> Result<&mut ConnectionRequest> {
        let open = self.open.get_mut(&handle.addr());
        open.and_then(|open| open.request.as_mut()).ok_or(Error::Stale { call, object: Handle::NAME })
    }

    /// The request whose handle has that address was accepted or rejected, or is given up: dropped undecided, it is
    /// rejected.
    #[must_use = "to be dropped when nothing is locked"]
    pub(super) fn end(&mut self, handle: usize) -> Option<ConnectionRequest> {
        let Open { handle, request } = self.open.remove(&handle)?;
        if self.retired.len() >= RETIRED {
            self.retired.pop_front();
        }
        self.retired.push_back(handle);
        request
    }
}

/// `fi_close` of a handle refuses the request.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    const CALL: &str = "fi_close";
    status(|| {
        // SAFETY: the caller's, open or used up not long ago.
        let handle = unsafe { object::<Handle, _>(CALL, fid)? };
        let stale = Error::Stale { call: CALL, object: Handle::NAME };
        let shared = handle.0.upgrade().ok_or(stale.clone())?;
        let request = shared.requests().end(fid.addr());
        request.map(drop).ok_or(stale)
    })
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Connection requests: what `info->handle` of an `FI_CONNREQ` event points to.
//!
//! Programs hand these pointers back at any time, also when they are used up. So a pointer is compared with those of
//! the fabric's requests, and never followed.

use core::ffi::c_int;
use std::collections::{HashMap, VecDeque};
use std::sync::Weak;

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
    /// How many there have been.
    count: u64,
    retired: VecDeque<Owned>,
}

/// Names a request. Unlike the handle's address, no other one ever has the same name.
#[derive(Clone, Copy)]
pub(super) struct RequestName {
    handle: usize,
    number: u64,
}

struct Open {
    handle: Owned,
    number: u64,
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
    pub(super) fn reserve(&mut self, process: Process, shared: Weak<Shared>) -> *mut fid {
        let public = new_fid::<Handle>(core::ptr::null_mut());
        let fid = Object::make(process, public, Handle(shared));
        self.count += 1;
        self.open.insert(fid.addr(), Open { handle: Owned(fid), number: self.count, request: None });
        fid
    }

    /// The handle's request has been read, or was [taken](Self::take) and stays. Gives it back if the handle has been
    /// used up meanwhile.
    #[must_use = "to be dropped when nothing is locked"]
    pub(super) fn put(
        &mut self,
        handle: *const fid,
        request: ConnectionRequest,
    ) -> Option<ConnectionRequest> {
        match self.open.get_mut(&handle.addr()) {
            Some(open) => open.request.replace(request),
            None => Some(request),
        }
    }

    /// The request, to be used when nothing is locked; then it is [put](Self::put) back, or [ended](Self::end).
    ///
    /// # Errors
    /// -FI_EINVAL when it is used up, or there never was one.
    pub(super) fn take(&mut self, call: &'static str, handle: *const fid) -> Result<ConnectionRequest> {
        let open = self.open.get_mut(&handle.addr());
        open.and_then(|open| open.request.take()).ok_or(Error::Stale { call, object: Handle::NAME })
    }

    /// What an endpoint that is made for the handle's request keeps of it.
    pub(super) fn name(&self, handle: *const fid) -> Option<RequestName> {
        let number = self.open.get(&handle.addr())?.number;
        Some(RequestName { handle: handle.addr(), number })
    }

    /// The handle's request was rejected, or is given up: dropped undecided, it is rejected.
    #[must_use = "to be dropped when nothing is locked"]
    pub(super) fn end(&mut self, handle: *const fid) -> Option<ConnectionRequest> {
        self.name(handle).and_then(|name| self.end_named(name))
    }

    /// The same for one that was accepted, or whose endpoint is closed. It may have ended long ago, and its handle's
    /// memory be another's.
    #[must_use = "to be dropped when nothing is locked"]
    pub(super) fn end_named(&mut self, name: RequestName) -> Option<ConnectionRequest> {
        self.open.get(&name.handle).filter(|open| open.number == name.number)?;
        let Open { handle, request, .. } = self.open.remove(&name.handle)?;
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
        let request = shared.requests().end(fid);
        request.map(drop).ok_or(stale)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_later_requests() {
        let mut requests = Requests::default();
        let first = requests.reserve(Process::enter(), Weak::new());
        let name = requests.name(first).unwrap();
        assert!(requests.end(first).is_none() && requests.name(first).is_none());
        // The memory of the first handle becomes another's.
        let second = requests.reserve(Process::enter(), Weak::new());
        let open = requests.open.remove(&second.addr()).unwrap();
        requests.open.insert(first.addr(), open);
        assert!(requests.end_named(name).is_none());
        assert!(requests.name(first).is_some(), "a stranger's request was ended");
    }

    #[test]
    fn used_up_handles_are_kept_for_a_while() {
        let mut requests = Requests::default();
        for _ in 0..3 * RETIRED {
            let handle = requests.reserve(Process::enter(), Weak::new());
            assert!(requests.end(handle).is_none());
        }
        assert_eq!((requests.open.len(), requests.retired.len()), (0, RETIRED));
    }
}

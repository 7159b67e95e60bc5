// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The fabric (`fi_fabric(3)`): a network namespace, what is open in it, and the requests that wait for a decision.

use alloc::sync::Arc;
use core::ffi::c_int;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use kofi_core::fabric::Fabric as Children;
use kofi_core::offer;
use kofi_core::report::Object;
use kofi_core::{Errno, Fid, Result, TimeLimits};

use crate::error::system;
use crate::requests::{self, Requests};
use crate::sys::lock::{LockClass, Mutex};
use crate::sys::net::Net;
use crate::sys::show::{Show, Shown};
use crate::sys::{Class, Counted, raw};
use crate::{c, error};

pub(crate) struct Fabric {
    /// Its number, among all of the module.
    pub(crate) id: u64,
    shown: Shown,
    /// Where what is open in it is shown.
    pub(crate) directory: Shown,
    pub(crate) net: Net,
    children: Mutex<Children>,
    pub(crate) requests: Mutex<Requests>,
    next: AtomicU64,
    _module: Module,
    _counted: Counted,
}

/// The module cannot be removed while there is one of these.
struct Module;

impl Module {
    fn get() -> Self {
        // SAFETY: no condition.
        unsafe { raw::kofi_shim_module_get() };
        Self
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it was got when this was made.
        unsafe { raw::kofi_shim_module_put() };
    }
}

/// An object that is open in a fabric, which does not close before it.
pub(crate) struct Child {
    fabric: Arc<Fabric>,
    count: fn(&mut Children) -> &mut usize,
}

impl Drop for Child {
    fn drop(&mut self) {
        *(self.count)(&mut self.fabric.children.lock()) -= 1;
    }
}

impl Fabric {
    /// The fabric of a handle.
    pub(crate) fn given(call: &'static str, fabric: *const Self) -> Result<Arc<Self>> {
        c::borrow(call, fabric)?;
        // SAFETY: a handle, of an object that is not closed: there is one reference at least for as long as the call takes.
        unsafe {
            Arc::increment_strong_count(fabric);
            Ok(Arc::from_raw(fabric))
        }
    }

    pub(crate) fn child(self: &Arc<Self>, count: fn(&mut Children) -> &mut usize) -> Child {
        *count(&mut self.children.lock()) += 1;
        Child { fabric: self.clone(), count }
    }

    /// An identity that no other object of ours has.
    pub(crate) fn new_fid(&self) -> Fid {
        Fid(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

impl Show for Fabric {
    fn next(&self, from: u64) -> Option<u64> {
        (from == 0).then_some(0)
    }

    fn show(&self, _line: u64, out: &mut dyn Write) {
        let undecided = self.requests.lock().len();
        let wait_sets = self.children.lock().wait_sets;
        Object::new(out, "fabric")
            .number("fid", self.id)
            .text("provider", offer::NAME)
            .number("network_namespace", self.net.number().into())
            .number("undecided_requests", undecided as u64)
            .number("wait_sets", wait_sets as u64);
    }
}

/// The limits in time, from the module's parameters.
pub(crate) fn limits() -> TimeLimits {
    let mut millis = [0u32; 5];
    // SAFETY: there are five places.
    unsafe { raw::kofi_shim_limits(millis.as_mut_ptr()) };
    let limit = |millis: u32| (millis > 0).then_some(Duration::from_millis(millis.into()));
    let [connect, handshake, decision, shutdown, peer] = millis.map(limit);
    TimeLimits { connect, handshake, decision, shutdown, peer, ..TimeLimits::default() }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_fabric_open(
    attr: *const c::FabricAttr,
    net: *mut raw::Net,
    fabric: *mut *const Fabric,
) -> c_int {
    const CALL: &str = "fi_fabric";
    error::result((|| {
        let place = c::place(CALL, fabric)?;
        // SAFETY: null, or the caller's for the call.
        let provider = unsafe { attr.as_ref() }.map_or("", |attr| c::text(&attr.prov_name));
        if !provider.is_empty() && provider != offer::NAME {
            return Err(system(CALL, Errno::ENODEV));
        }
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let object = Fabric {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            shown: Shown::none(),
            directory: Shown::none(),
            net: Net::get(net)?,
            children: Mutex::new(LockClass::Fabric, Children::default())?,
            requests: Mutex::new(LockClass::Requests, Requests::default())?,
            next: AtomicU64::new(1),
            _module: Module::get(),
            _counted: Counted::new(Class::Fabric),
        };
        let object = c::share(object, "a fabric")?;
        object.directory.directory(format_args!("fabric-{}", object.id));
        // SAFETY: it is in its final place, and hidden before it is closed.
        unsafe { object.shown.file(&object.directory, format_args!("fabric"), Arc::as_ptr(&object)) };
        c::give(place, object);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_fabric_close(fabric: *const Fabric) -> c_int {
    error::result((|| {
        let object = c::borrow("fi_close", fabric)?;
        object.children.lock().check_close()?;
        object.shown.hide();
        object.directory.hide();
        let left = object.requests.lock().drain();
        for request in left {
            let _ = requests::reject(request.socket, request.local, request.peer, &[]);
        }
        // SAFETY: the caller's handle, which it gives up.
        unsafe { c::take_back(fabric) };
        Ok(())
    })())
}

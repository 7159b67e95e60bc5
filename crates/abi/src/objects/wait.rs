// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The wait set (`fi_poll(3)`), and the wait objects of queues and counters.

use core::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use kofi::{WaitObj, WaitSet};
use kofi_core::{Error, Result};

use super::fabric::FabricClass;
use super::{Class, Object, absent, free, new_fid, object, place, status};
use crate::sys::*;

pub(super) struct Wait(WaitSet);

impl Wait {
    pub(super) fn set(&self) -> &WaitSet {
        &self.0
    }
}

// SAFETY: a `fid_wait` begins with a fid.
unsafe impl Class for Wait {
    type Public = fid_wait;
    const CLASS: usize = FI_CLASS_WAIT;
    const NAME: &'static str = "wait set";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops = fi_ops { close: Some(close), control: Some(control::<Wait>), ..absent::FID };
        &TABLE
    }
}

static OPS: fi_ops_wait = fi_ops_wait { size: size_of::<fi_ops_wait>(), wait };

pub(super) unsafe extern "C" fn wait_open(
    fabric: *mut fid_fabric,
    attr: *mut fi_wait_attr,
    set: *mut *mut fid_wait,
) -> c_int {
    const CALL: &str = "fi_wait_open";
    status(|| {
        // SAFETY: the caller's object, its attributes or null, and its place.
        let (fabric, attr, place) =
            unsafe { (object::<FabricClass, _>(CALL, fabric)?, attr.as_ref(), place(CALL, set)?) };
        if let Some(attr) = attr {
            if attr.flags != 0 {
                return Err(Error::BadFlags { call: CALL, found: attr.flags, allowed: 0 });
            }
            if matches!(attr.wait_obj, FI_WAIT_NONE | FI_WAIT_SET) || attr.wait_obj > FI_WAIT_POLLFD {
                let problem = "FI_WAIT_NONE, FI_WAIT_SET or no wait object at all; ask for FI_WAIT_UNSPEC or FI_WAIT_FD";
                return Err(Error::Invalid { call: CALL, problem });
            }
        }
        let inner = Wait(fabric.0.fabric.wait_set()?);
        let public = fid_wait { fid: new_fid::<Wait>(core::ptr::null_mut()), ops: &OPS };
        Object::give(place, fabric.process, public, inner);
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    status(|| {
        // SAFETY: the caller's object.
        let set = unsafe { object::<Wait, _>("fi_close", fid)? };
        set.0.check_close()?;
        // SAFETY: the caller gives it up.
        unsafe { free::<Wait>(fid) };
        Ok(())
    })
}

impl Waitable for Wait {
    fn wait_obj(&self) -> fi_wait_obj {
        FI_WAIT_FD
    }

    fn fd(&self) -> Result<BorrowedFd<'_>> {
        Ok(self.0.fd())
    }
}

unsafe extern "C" fn wait(set: *mut fid_wait, timeout: c_int) -> c_int {
    const CALL: &str = "fi_wait";
    status(|| {
        // SAFETY: the caller's object.
        let set = unsafe { object::<Wait, _>(CALL, set)? };
        match set.0.wait(time(timeout)) {
            // fi_poll(3): "-FI_ETIMEDOUT".
            Err(Error::Empty) => {
                let detail = "no queue of the set has anything to read".into();
                Err(Error::System { call: CALL, errno: kofi_core::Errno::ETIMEDOUT, detail })
            }
            other => other,
        }
    })
}

/// Milliseconds; negative is for ever.
pub(super) fn time(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// The wait object of attributes, and the set for it. `FI_WAIT_NONE` counts as `FI_WAIT_UNSPEC`: stock's tcp gives
/// zeroed attributes a wait object, too, and programs rely on it.
///
/// # Errors
/// -FI_EINVAL for a number that stands for none, and for a set that is none.
///
/// # Safety
/// `set` is null or the caller's object.
pub(super) unsafe fn wanted<'a>(
    call: &'static str,
    wait_obj: fi_wait_obj,
    set: *mut fid_wait,
) -> Result<(WaitObj, Option<&'a WaitSet>)> {
    let wait_obj = match wait_obj {
        FI_WAIT_NONE | FI_WAIT_UNSPEC => WaitObj::Unspec,
        FI_WAIT_SET => {
            // SAFETY: see above.
            let set = unsafe { object::<Wait, _>(call, set)? };
            return Ok((WaitObj::Set, Some(&set.inner.0)));
        }
        FI_WAIT_FD => WaitObj::Fd,
        FI_WAIT_MUTEX_COND => WaitObj::MutexCond,
        FI_WAIT_YIELD => WaitObj::Yield,
        FI_WAIT_POLLFD => WaitObj::PollFd,
        _ => {
            return Err(Error::Invalid {
                call,
                problem: "no such wait object; take one of enum fi_wait_obj",
            });
        }
    };
    // The manual page says that the set is for FI_WAIT_SET; what is there otherwise is not looked at.
    Ok((wait_obj, None))
}

/// A class with a wait object.
pub(super) trait Waitable: Class {
    fn wait_obj(&self) -> fi_wait_obj;

    /// # Errors
    /// -FI_ENOSYS where there is none.
    fn fd(&self) -> Result<BorrowedFd<'_>>;
}

/// `FI_GETWAIT` and `FI_GETWAITOBJ`. Of queues and counters that leave the choice to the provider it is a descriptor.
/// -FI_ENOSYS for other commands, and for objects without a descriptor; -FI_ETOOSMALL for an array without room.
pub(super) unsafe extern "C" fn control<T: Waitable>(
    fid: *mut fid,
    command: c_int,
    arg: *mut c_void,
) -> c_int {
    const CALL: &str = "fi_control(FI_GETWAIT)";
    status(|| {
        // SAFETY: the caller's object, and below its argument for that command.
        let object = unsafe { object::<T, _>("fi_control", fid)? };
        match command {
            FI_GETWAITOBJ => {
                // SAFETY: an `enum fi_wait_obj`.
                *unsafe { place(CALL, arg.cast::<fi_wait_obj>())? } = match object.wait_obj() {
                    FI_WAIT_NONE | FI_WAIT_UNSPEC => FI_WAIT_FD,
                    chosen => chosen,
                };
                Ok(())
            }
            FI_GETWAIT if object.wait_obj() == FI_WAIT_POLLFD => {
                // SAFETY: a `struct fi_wait_pollfd`.
                let list = unsafe { place(CALL, arg.cast::<fi_wait_pollfd>())? };
                let fd = object.fd()?.as_raw_fd();
                let have = core::mem::replace(&mut list.nfds, 1);
                // It is the same as long as the object is there.
                list.change_index = 1;
                if have < 1 || list.fd.is_null() {
                    return Err(Error::TooSmall { call: CALL, have, need: 1 });
                }
                // SAFETY: the array has room for one.
                unsafe { list.fd.write(libc::pollfd { fd, events: libc::POLLIN, revents: 0 }) };
                Ok(())
            }
            FI_GETWAIT => {
                // SAFETY: an int.
                *unsafe { place(CALL, arg.cast::<c_int>())? } = object.fd()?.as_raw_fd();
                Ok(())
            }
            _ => Err(Error::Unsupported("fi_control")),
        }
    })
}

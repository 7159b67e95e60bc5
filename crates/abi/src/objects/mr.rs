// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The memory region (`fi_mr(3)`). An offset, which is reserved, is not looked at, as with stock.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use kofi::provider::MemoryRegionOps;
use kofi::{OpFlags, Region};
use kofi_core::{Error, Result};

use super::domain::Domain;
use super::{Class, Object, absent, free, memory, new_fid, object, place, status};
use crate::sys::*;

pub(super) struct Mr(Arc<dyn MemoryRegionOps>);

// SAFETY: a `fid_mr` begins with a fid.
unsafe impl Class for Mr {
    type Public = fid_mr;
    const CLASS: usize = FI_CLASS_MR;
    const NAME: &'static str = "memory region";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops = fi_ops { close: Some(close), control: Some(control), ..absent::FID };
        &TABLE
    }
}

pub(super) static OPS: fi_ops_mr = fi_ops_mr { size: size_of::<fi_ops_mr>(), reg, regv, regattr };

/// What all ways to register have in common.
struct Wanted {
    access: u64,
    requested_key: u64,
    flags: u64,
    context: *mut c_void,
}

/// The rights that a region gives.
const ACCESS: u64 = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
/// What memory of the host can be, and what can be told of it to counters: regions of ours are all the same.
const FLAGS: u64 = FI_RMA_EVENT | FI_RMA_PMEM | FI_HMEM_HOST_ALLOC;

const CALL: &str = "fi_mr_reg";
const LIMIT: &str = "domain_attr.mr_iov_limit";

/// # Safety
/// `fid` is the caller's object and `mr` its place; `iov` is its memory, until the region is closed.
unsafe fn register(fid: *mut fid, mr: *mut *mut fid_mr, iov: &[iovec], wanted: &Wanted) -> Result<()> {
    // SAFETY: see above.
    let (domain, place) = unsafe { (object::<Domain, _>(CALL, fid)?, place(CALL, mr)?) };
    if wanted.flags & !FLAGS != 0 {
        return Err(Error::BadFlags { call: CALL, found: wanted.flags, allowed: FLAGS });
    }
    // SAFETY: see above.
    let buffers = unsafe { memory::region(CALL, iov)? };
    // Programs pass more than rights, FI_RMA for one. Stock's providers look at the rights only.
    let access = OpFlags::from_bits_retain(wanted.access & ACCESS);
    let region = Region { buffers, access, requested_key: wanted.requested_key };
    let ops = domain.domain.ops().mr_reg(region)?;
    let key = ops.key();
    let public = fid_mr { fid: new_fid::<Mr>(wanted.context), mem_desc: core::ptr::null_mut(), key };
    Object::give(place, domain.process, public, Mr(ops));
    // Something that is not null, for programs that look at it.
    // SAFETY: the new object's.
    unsafe { (**place).mem_desc = (*place).cast() };
    Ok(())
}

unsafe extern "C" fn reg(
    fid: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    _offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    status(|| {
        let wanted = Wanted { access, requested_key, flags, context };
        let iov = iovec { iov_base: buf.cast_mut(), iov_len: len };
        // SAFETY: the caller's object, place and memory.
        unsafe { register(fid, mr, &[iov], &wanted) }
    })
}

unsafe extern "C" fn regv(
    fid: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    _offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    status(|| {
        let wanted = Wanted { access, requested_key, flags, context };
        // SAFETY: as above.
        unsafe {
            let iov = memory::list(CALL, LIMIT, iov, count)?;
            register(fid, mr, iov, &wanted)
        }
    })
}

unsafe extern "C" fn regattr(
    fid: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    status(|| {
        if attr.is_null() {
            return Err(Error::Invalid { call: CALL, problem: "null instead of attributes" });
        }
        // SAFETY: the caller's attributes, of which only the fields of all versions are read; the rest as above.
        unsafe {
            let attr = &raw const *attr;
            let wanted = Wanted {
                access: (*attr).access,
                requested_key: (*attr).requested_key,
                flags,
                context: (*attr).context,
            };
            let (iov, count) = ((*attr).mr_iov, (*attr).iov_count);
            let iov = match flags & !FLAGS {
                0 => memory::list(CALL, LIMIT, iov, count)?,
                // With other flags the list may be something else: it is not looked at.
                _ => &[],
            };
            register(fid, mr, iov, &wanted)
        }
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    status(|| {
        // SAFETY: the caller's object.
        let mr = unsafe { object::<Mr, _>("fi_close", fid)? };
        mr.0.close();
        // SAFETY: the caller gives it up.
        unsafe { free::<Mr>(fid) };
        Ok(())
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, _: *mut c_void) -> c_int {
    status(|| {
        // SAFETY: the caller's object.
        unsafe { object::<Mr, _>("fi_control", fid)? };
        match command {
            // Regions can be used from the start, and are found by address each time.
            FI_ENABLE | FI_REFRESH => Ok(()),
            _ => Err(Error::Unsupported("fi_control")),
        }
    })
}

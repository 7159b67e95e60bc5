// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The completion queue (`fi_cq(3)`).

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kofi::provider::CompletionQueueOps;
use kofi::{CqAttr, CqEntry, Version, WaitCond};
use kofi_core::{CompletionError, Error, Result};

use super::domain::Domain;
use super::wait::{Waitable, control};
use super::{Class, Object, absent, count, free, new_fid, object, place, status, text, wait};
use crate::sys::*;

pub(super) struct Cq {
    ops: Arc<dyn CompletionQueueOps>,
    /// Bytes of an entry: all formats are the beginning of the longest.
    entry_len: usize,
    wait_obj: fi_wait_obj,
    /// Bytes of an error entry, as the application's version has it.
    error_len: usize,
    /// Poll sets that it is in.
    pub(super) polls: AtomicUsize,
}

impl Cq {
    pub(super) fn ops(&self) -> &Arc<dyn CompletionQueueOps> {
        &self.ops
    }
}

// SAFETY: a `fid_cq` begins with a fid.
unsafe impl Class for Cq {
    type Public = fid_cq;
    const CLASS: usize = FI_CLASS_CQ;
    const NAME: &'static str = "completion queue";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops = fi_ops { close: Some(close), control: Some(control::<Cq>), ..absent::FID };
        &TABLE
    }
}

static OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal,
    strerror: cq_strerror,
    export_xpu: {
        extern "C" fn absent(_: *mut fid_cq, _: u64, _: *mut fid_xpu_cq) -> c_int {
            -kofi_core::Errno::ENOSYS.raw()
        }
        absent
    },
};

/// Bytes of `struct fi_cq_err_entry` in a version of the interface.
fn error_len(version: Version) -> usize {
    match version {
        version if version < Version::new(1, 5) => core::mem::offset_of!(fi_cq_err_entry, err_data_size),
        version if version < Version::new(1, 20) => core::mem::offset_of!(fi_cq_err_entry, src_addr),
        _ => size_of::<fi_cq_err_entry>(),
    }
}

pub(super) unsafe extern "C" fn cq_open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    const CALL: &str = "fi_cq_open";
    status(|| {
        // SAFETY: the caller's object and place.
        let (domain, place) = unsafe { (object::<Domain, _>(CALL, domain)?, place(CALL, cq)?) };
        let mut wanted = CqAttr { wait_obj: kofi::WaitObj::Unspec, ..CqAttr::default() };
        let (mut set, mut wait_obj, mut format) = (None, FI_WAIT_UNSPEC, FI_CQ_FORMAT_UNSPEC);
        if !attr.is_null() {
            // SAFETY: the caller's attributes, of which only the fields of all versions are read.
            let (size, flags, found, wait, cond, wait_set) = unsafe {
                let attr = &raw const *attr;
                (
                    (*attr).size,
                    (*attr).flags,
                    (*attr).format,
                    (*attr).wait_obj,
                    (*attr).wait_cond,
                    (*attr).wait_set,
                )
            };
            if flags & !FI_AFFINITY != 0 {
                return Err(Error::Invalid {
                    call: CALL,
                    problem: "flags other than FI_AFFINITY; leave them out",
                });
            }
            (format, wait_obj) = (found, wait);
            // SAFETY: the caller's wait set, if it is to be looked at.
            (wanted.wait_obj, set) = unsafe { wait::wanted(CALL, wait_obj, wait_set)? };
            wanted.size = size;
            // fi_cq(3): wait_cond is "ignored" for queues that nobody can wait on by calls.
            wanted.wait_cond = match cond {
                FI_CQ_COND_NONE => WaitCond::None,
                FI_CQ_COND_THRESHOLD => WaitCond::Threshold,
                _ => return Err(Error::Invalid { call: CALL, problem: "no such wait_cond" }),
            };
        }
        let entry_len = match format {
            FI_CQ_FORMAT_UNSPEC | FI_CQ_FORMAT_CONTEXT => size_of::<fi_cq_entry>(),
            FI_CQ_FORMAT_MSG => size_of::<fi_cq_msg_entry>(),
            FI_CQ_FORMAT_DATA => size_of::<fi_cq_data_entry>(),
            FI_CQ_FORMAT_TAGGED => size_of::<fi_cq_tagged_entry>(),
            _ => {
                return Err(Error::Invalid {
                    call: CALL,
                    problem: "no such format; take one of enum fi_cq_format",
                });
            }
        };
        let ops = domain.domain.ops().cq_open(&wanted, set)?;
        let error_len = error_len(domain.api_version());
        let inner = Cq { ops, entry_len, wait_obj, error_len, polls: AtomicUsize::new(0) };
        let public = fid_cq { fid: new_fid::<Cq>(context), ops: &OPS };
        Object::give(place, domain.process, public, inner);
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    const CALL: &str = "fi_close";
    status(|| {
        // SAFETY: the caller's object.
        let cq = unsafe { object::<Cq, _>(CALL, fid)? };
        super::poll::check_close(Cq::NAME, cq.polls.load(Ordering::Relaxed))?;
        cq.ops.close()?;
        // SAFETY: the caller gives it up.
        unsafe { free::<Cq>(fid) };
        Ok(())
    })
}

impl Waitable for Cq {
    fn wait_obj(&self) -> fi_wait_obj {
        self.wait_obj
    }

    fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.ops.fd()
    }
}

/// Entries of the application's array, one after the other.
struct Entries {
    next: *mut u8,
    len: usize,
}

impl Entries {
    /// # Errors
    /// -FI_EINVAL for null where entries are to be stored.
    fn new(cq: &Cq, buf: *mut c_void, count: usize) -> Result<Self> {
        if buf.is_null() && count > 0 {
            return Err(Error::Invalid {
                call: "fi_cq_read",
                problem: "null where completions are to be stored",
            });
        }
        Ok(Self { next: buf.cast(), len: cq.entry_len })
    }

    /// # Safety
    /// There is room for one more.
    #[inline]
    unsafe fn put(&mut self, entry: &CqEntry) {
        let at = self.next.cast::<fi_cq_tagged_entry>();
        // SAFETY: see above. Only what the format has is written; entries of all formats begin alike.
        unsafe {
            (&raw mut (*at).op_context).write(ptr::with_exposed_provenance_mut(entry.context as usize));
            if self.len > size_of::<fi_cq_entry>() {
                (&raw mut (*at).flags).write(entry.flags.bits());
                (&raw mut (*at).len).write(entry.len);
            }
            if self.len > size_of::<fi_cq_msg_entry>() {
                (&raw mut (*at).buf).write(ptr::with_exposed_provenance_mut(entry.address));
                (&raw mut (*at).data).write(entry.data);
            }
            if self.len > size_of::<fi_cq_data_entry>() {
                (&raw mut (*at).tag).write(0);
            }
            self.next = self.next.add(self.len);
        }
    }
}

/// Who sent what: a message endpoint has one peer, and `FI_SOURCE` is not offered.
///
/// # Safety
/// Null, or `count` addresses can be written there.
unsafe fn no_sources(sources: *mut fi_addr_t, count: usize) {
    if !sources.is_null() {
        // SAFETY: see above.
        (0..count).for_each(|index| unsafe { sources.add(index).write(FI_ADDR_NOTAVAIL) });
    }
}

unsafe extern "C" fn read(cq: *mut fid_cq, buf: *mut c_void, most: usize) -> isize {
    // SAFETY: as there.
    unsafe { readfrom(cq, buf, most, ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    most: usize,
    sources: *mut fi_addr_t,
) -> isize {
    count(|| {
        // SAFETY: the caller's object.
        let cq = unsafe { object::<Cq, _>("fi_cq_read", cq)? };
        let mut entries = Entries::new(cq, buf, most)?;
        // SAFETY: the array has `most` entries.
        let count = cq.ops.read_entries(most, &mut |entry| unsafe { entries.put(&entry) })?;
        // SAFETY: so has that of sources.
        unsafe { no_sources(sources, count) };
        Ok(count)
    })
}

unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    buf: *mut c_void,
    most: usize,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: as there.
    unsafe { sreadfrom(cq, buf, most, ptr::null_mut(), cond, timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    most: usize,
    sources: *mut fi_addr_t,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    count(|| {
        // SAFETY: the caller's object.
        let cq = unsafe { object::<Cq, _>("fi_cq_sread", cq)? };
        let mut entries = Entries::new(cq, buf, most)?;
        // The condition is a number, and no more than that can be given at once.
        let threshold = cond.addr().min(most);
        let time = wait::time(timeout);
        // SAFETY: the array has `most` entries.
        let count =
            cq.ops.sread_entries(most, threshold, time, &mut |entry| unsafe { entries.put(&entry) })?;
        // SAFETY: so has that of sources.
        unsafe { no_sources(sources, count) };
        Ok(count)
    })
}

unsafe extern "C" fn readerr(cq: *mut fid_cq, place: *mut fi_cq_err_entry, flags: u64) -> isize {
    const CALL: &str = "fi_cq_readerr";
    count(|| {
        // SAFETY: the caller's object.
        let cq = unsafe { object::<Cq, _>(CALL, cq)? };
        if place.is_null() {
            return Err(Error::Invalid { call: CALL, problem: "null where the entry is to be stored" });
        }
        if flags != 0 {
            return Err(Error::BadFlags { call: CALL, found: flags, allowed: 0 });
        }
        let (entry, error) = cq.ops.read_error_entry()?;
        tracing::debug!(target: "kofi::call", "{CALL}: {error}");
        // SAFETY: the caller's place, for an entry of its version.
        unsafe { store_error(place, cq.error_len, &entry, &error) };
        Ok(1)
    })
}

/// # Safety
/// The first `len` bytes of an entry can be written there.
unsafe fn store_error(place: *mut fi_cq_err_entry, len: usize, entry: &CqEntry, error: &CompletionError) {
    let full = fi_cq_err_entry {
        op_context: ptr::with_exposed_provenance_mut(entry.context as usize),
        flags: entry.flags.bits(),
        len: entry.len,
        buf: ptr::with_exposed_provenance_mut(entry.address),
        data: entry.data,
        tag: 0,
        olen: usize::try_from(error.overflow).unwrap_or(usize::MAX),
        err: error.errno.raw(),
        prov_errno: error.provider_errno,
        // No completion of ours has any. A buffer of the application's stays where it is.
        err_data: ptr::null_mut(),
        err_data_size: 0,
        src_addr: FI_ADDR_NOTAVAIL,
    };
    // SAFETY: see above.
    unsafe {
        let own = if len > core::mem::offset_of!(fi_cq_err_entry, err_data_size) && (*place).err_data_size > 0
        {
            (*place).err_data
        } else {
            ptr::null_mut()
        };
        ptr::copy_nonoverlapping((&raw const full).cast::<u8>(), place.cast(), len);
        (*place).err_data = own;
    }
}

unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    // SAFETY: the caller's object.
    status(|| unsafe { object::<Cq, _>("fi_cq_signal", cq) }?.ops.signal())
}

unsafe extern "C" fn cq_strerror(
    _: *mut fid_cq,
    prov_errno: c_int,
    _: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: the caller's buffer.
    unsafe { text(prov_errno, buf, len) }
}

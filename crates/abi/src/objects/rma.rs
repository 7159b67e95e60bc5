// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Remote memory access (`fi_rma(3)`).

use core::ffi::c_void;

use kofi::{Buffers, Message, OpFlags, Receive, RmaIov};
use kofi_core::Result;
use smallvec::SmallVec;

use super::ep::Ep;
use super::msg::{LEVELS, described, number, read_flags, write_flags};
use super::{bytes, memory, object, status};
use crate::sys::*;

pub(super) static OPS: fi_ops_rma = fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

const READ: &str = "fi_readmsg";
const READ_LIMIT: &str = "rx_attr.iov_limit";
const WRITE: &str = "fi_writemsg";
const REMOTE_LIMIT: &str = "tx_attr.rma_iov_limit";

/// Writes, with the endpoint's own flags.
#[inline]
fn post_write(
    ep: &Ep,
    buffers: Buffers,
    data: Option<u64>,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> Result<()> {
    let remote = RmaIov { addr, len: buffers.total_len() as u64, key };
    let flags = write_flags(ep.tx_flags() & (LEVELS | FI_INJECT | FI_COMMIT_COMPLETE));
    Ok(ep.ops().write(Message { buffers, data, flags, context: number(context) }, &[remote])?)
}

/// Reads, with the endpoint's own flags.
#[inline]
fn post_read(ep: &Ep, buffers: Buffers, addr: u64, key: u64, context: *mut c_void) -> Result<()> {
    let remote = RmaIov { addr, len: buffers.total_len() as u64, key };
    let flags = read_flags(ep.tx_flags() & LEVELS);
    Ok(ep.ops().read(Receive { buffers, flags, context: number(context) }, &[remote])?)
}

/// The peer's memory.
///
/// # Errors
/// -FI_EINVAL for null with a count, and for too many.
///
/// # Safety
/// The caller's list.
unsafe fn remote(call: &'static str, msg: &fi_msg_rma) -> Result<SmallVec<[RmaIov; 4]>> {
    // SAFETY: see above.
    let list = unsafe { memory::list(call, REMOTE_LIMIT, msg.rma_iov, msg.rma_iov_count)? };
    Ok(list.iter().map(|iov| RmaIov { addr: iov.addr, len: iov.len as u64, key: iov.key }).collect())
}

unsafe extern "C" fn read(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    _src_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: the caller's object; its memory, until the operation is complete.
        let (ep, buffers) = unsafe { (object::<Ep, _>(READ, ep)?, memory::sink(READ, buf, len)?) };
        post_read(ep, buffers, addr, key, context)
    })
}

unsafe extern "C" fn readv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    _src_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: as above.
        let (ep, buffers) =
            unsafe { (object::<Ep, _>(READ, ep)?, memory::sinks(READ, READ_LIMIT, iov, count)?) };
        post_read(ep, buffers, addr, key, context)
    })
}

unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    status(|| {
        // SAFETY: as above.
        let (ep, msg, buffers, remote) = unsafe {
            let msg = described(READ, msg)?;
            let buffers = memory::sinks(READ, READ_LIMIT, msg.msg_iov, msg.iov_count)?;
            (object::<Ep, _>(READ, ep)?, msg, buffers, remote(READ, msg)?)
        };
        let flags = read_flags(flags);
        Ok(ep.ops().read(Receive { buffers, flags, context: number(msg.context) }, &remote)?)
    })
}

unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    _dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: the caller's object; its memory, until the operation is complete.
        let (ep, buffers) = unsafe { (object::<Ep, _>(WRITE, ep)?, memory::source(WRITE, buf, len)?) };
        post_write(ep, buffers, None, addr, key, context)
    })
}

unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    _dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: as above.
        let (ep, buffers) = unsafe { (object::<Ep, _>(WRITE, ep)?, memory::sources(WRITE, iov, count)?) };
        post_write(ep, buffers, None, addr, key, context)
    })
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    status(|| {
        // SAFETY: as above.
        let (ep, msg, buffers, remote) = unsafe {
            let msg = described(WRITE, msg)?;
            let buffers = memory::sources(WRITE, msg.msg_iov, msg.iov_count)?;
            (object::<Ep, _>(WRITE, ep)?, msg, buffers, remote(WRITE, msg)?)
        };
        let flags = write_flags(flags);
        let data = flags.contains(OpFlags::REMOTE_CQ_DATA).then_some(msg.data);
        Ok(ep.ops().write(Message { buffers, data, flags, context: number(msg.context) }, &remote)?)
    })
}

unsafe extern "C" fn writedata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    _dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: as above.
        let (ep, buffers) = unsafe { (object::<Ep, _>(WRITE, ep)?, memory::source(WRITE, buf, len)?) };
        post_write(ep, buffers, Some(data), addr, key, context)
    })
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    status(|| {
        // SAFETY: the caller's object and bytes.
        let (ep, bytes) = unsafe { (object::<Ep, _>(WRITE, ep)?, bytes(WRITE, buf, len)?) };
        ep.ops().inject_write(bytes, None, RmaIov { addr, len: len as u64, key })
    })
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    _dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    status(|| {
        // SAFETY: the caller's object and bytes.
        let (ep, bytes) = unsafe { (object::<Ep, _>(WRITE, ep)?, bytes(WRITE, buf, len)?) };
        ep.ops().inject_write(bytes, Some(data), RmaIov { addr, len: len as u64, key })
    })
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Messages (`fi_msg(3)`).

use core::ffi::c_void;

use kofi::{Buffers, Message, OpFlags, Receive, Refused, State};
use kofi_core::{Error, Result};

use super::ep::Ep;
use super::{bytes, memory, object, status};
use crate::sys::*;

pub(super) static OPS: fi_ops_msg = fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

/// What an operation's context is to kofi: a number.
#[inline]
pub(super) fn number(context: *mut c_void) -> u64 {
    context.expose_provenance() as u64
}

/// The message that C describes.
///
/// # Errors
/// -FI_EINVAL for null.
///
/// # Safety
/// Null, or it is there.
pub(super) unsafe fn described<'a, T>(call: &'static str, message: *const T) -> Result<&'a T> {
    // SAFETY: see above.
    unsafe { message.as_ref() }.ok_or(Error::Invalid { call, problem: "null instead of a message" })
}

/// Flags of a call, as kofi has them. All operations of a connection happen in order, so each has the fence it asks for.
#[inline]
fn given(flags: u64) -> OpFlags {
    OpFlags::from_bits_retain(flags & !FI_FENCE)
}

/// Of a send, or by default. A message in its receive is as durable as it can be.
#[inline]
fn send_flags(flags: u64) -> OpFlags {
    let committed = if flags & FI_COMMIT_COMPLETE == 0 { 0 } else { FI_DELIVERY_COMPLETE };
    given(flags & !FI_COMMIT_COMPLETE | committed)
}

/// Of a write, or by default.
#[inline]
pub(super) fn write_flags(flags: u64) -> OpFlags {
    given(flags)
}

/// Of a read, or by default. It is complete when its data is here, which is what all levels ask for at least; nothing
/// of it can be copied before, and no data goes with it.
#[inline]
pub(super) fn read_flags(flags: u64) -> OpFlags {
    given(flags & !(FI_INJECT | FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE | FI_REMOTE_CQ_DATA))
}

/// What an endpoint's default flags may be to operations that do not know all of them.
pub(super) const LEVELS: u64 =
    FI_COMPLETION | FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
const SEND_DEFAULTS: u64 = LEVELS | FI_INJECT | FI_MATCH_COMPLETE | FI_COMMIT_COMPLETE;
const RECV_DEFAULTS: u64 = FI_COMPLETION | FI_MORE | FI_MULTI_RECV;

/// The default flags of a receive.
#[inline]
pub(super) fn recv_defaults(flags: u64) -> OpFlags {
    OpFlags::from_bits_retain(flags & RECV_DEFAULTS)
}

/// Posts a receive. On an endpoint that could be enabled that is done first, as programs do that post receives and accept
/// or connect then. After the end it stays posted, as with stock.
#[inline]
fn post_receive(ep: &Ep, receive: Receive) -> Result<()> {
    let (flags, context) = (receive.flags, receive.context);
    let Err(Refused { error, buffers }) = ep.ops().recv_late(receive) else { return Ok(()) };
    if !matches!(error, Error::WrongState { .. })
        || ep.ops().state()? != State::Idle
        || ep.ops().enable().is_err()
    {
        return Err(error);
    }
    Ok(ep.ops().recv(Receive { buffers, flags, context })?)
}

const RECV: &str = "fi_recvmsg";
const RECV_LIMIT: &str = "rx_attr.iov_limit";
const SEND: &str = "fi_sendmsg";

unsafe extern "C" fn recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    _src_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: the caller's object; its memory, until the operation is complete.
        let (ep, buffers) = unsafe { (object::<Ep, _>(RECV, ep)?, memory::sink(RECV, buf, len)?) };
        post_receive(ep, Receive { buffers, flags: recv_defaults(ep.rx_flags()), context: number(context) })
    })
}

unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    _src_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: as above.
        let (ep, buffers) =
            unsafe { (object::<Ep, _>(RECV, ep)?, memory::sinks(RECV, RECV_LIMIT, iov, count)?) };
        post_receive(ep, Receive { buffers, flags: recv_defaults(ep.rx_flags()), context: number(context) })
    })
}

/// What `fi_recvmsg` is to post.
///
/// # Errors
/// -FI_EINVAL for null where there should be something.
///
/// # Safety
/// The caller's message; its memory, until the operation is complete.
pub(super) unsafe fn receive(msg: *const fi_msg, flags: u64) -> Result<Receive> {
    // SAFETY: see above.
    unsafe {
        let msg = described(RECV, msg)?;
        let buffers = memory::sinks(RECV, RECV_LIMIT, msg.msg_iov, msg.iov_count)?;
        Ok(Receive { buffers, flags: given(flags), context: number(msg.context) })
    }
}

unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    status(|| {
        // SAFETY: as above.
        let (ep, receive) = unsafe { (object::<Ep, _>(RECV, ep)?, receive(msg, flags)?) };
        post_receive(ep, receive)
    })
}

/// Sends, with the endpoint's own flags.
#[inline]
fn post(ep: &Ep, buffers: Buffers, data: Option<u64>, context: *mut c_void) -> Result<()> {
    let flags = send_flags(ep.tx_flags() & SEND_DEFAULTS);
    Ok(ep.ops().send(Message { buffers, data, flags, context: number(context) })?)
}

unsafe extern "C" fn send(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    _dest_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: the caller's object; its memory, until the operation is complete.
        let (ep, buffers) = unsafe { (object::<Ep, _>(SEND, ep)?, memory::source(SEND, buf, len)?) };
        post(ep, buffers, None, context)
    })
}

unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    _dest_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: as above.
        let (ep, buffers) = unsafe { (object::<Ep, _>(SEND, ep)?, memory::sources(SEND, iov, count)?) };
        post(ep, buffers, None, context)
    })
}

unsafe extern "C" fn senddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    _dest_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: as above.
        let (ep, buffers) = unsafe { (object::<Ep, _>(SEND, ep)?, memory::source(SEND, buf, len)?) };
        post(ep, buffers, Some(data), context)
    })
}

unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    status(|| {
        // SAFETY: as above.
        let (ep, msg, buffers) = unsafe {
            let msg = described(SEND, msg)?;
            let buffers = memory::sources(SEND, msg.msg_iov, msg.iov_count)?;
            (object::<Ep, _>(SEND, ep)?, msg, buffers)
        };
        let flags = send_flags(flags);
        let data = flags.contains(OpFlags::REMOTE_CQ_DATA).then_some(msg.data);
        Ok(ep.ops().send(Message { buffers, data, flags, context: number(msg.context) })?)
    })
}

unsafe extern "C" fn inject(ep: *mut fid_ep, buf: *const c_void, len: usize, _dest_addr: fi_addr_t) -> isize {
    status(|| {
        // SAFETY: the caller's object and bytes.
        let (ep, bytes) = unsafe { (object::<Ep, _>(SEND, ep)?, bytes(SEND, buf, len)?) };
        ep.ops().inject(bytes, None)
    })
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    _dest_addr: fi_addr_t,
) -> isize {
    status(|| {
        // SAFETY: the caller's object and bytes.
        let (ep, bytes) = unsafe { (object::<Ep, _>(SEND, ep)?, bytes(SEND, buf, len)?) };
        ep.ops().inject(bytes, Some(data))
    })
}

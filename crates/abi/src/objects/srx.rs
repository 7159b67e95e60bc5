// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The shared receive context (`fi_srx_context`, `fi_endpoint(3)`).

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use kofi::provider::SharedReceiveOps;
use kofi::{OpFlags, Receive, SrxAttr};
use kofi_core::Result;

use super::cq::Cq;
use super::domain::Domain;
use super::msg::{number, receive, recv_defaults};
use super::option::{Options, getopt, setopt};
use super::{Class, Object, absent, ep, free, memory, new_fid, object, place, status};
use crate::sys::*;

pub(super) struct Srx {
    ops: Arc<dyn SharedReceiveOps>,
    /// Flags of receives that take none (`op_flags`).
    flags: OpFlags,
}

impl Srx {
    pub(super) fn ops(&self) -> &Arc<dyn SharedReceiveOps> {
        &self.ops
    }
}

// SAFETY: a `fid_ep` begins with a fid.
unsafe impl Class for Srx {
    type Public = fid_ep;
    const CLASS: usize = FI_CLASS_SRX_CTX;
    const NAME: &'static str = "shared receive context";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops =
            fi_ops { close: Some(close), bind: Some(bind), control: Some(control), ..absent::FID };
        &TABLE
    }
}

static OPS: fi_ops_ep = fi_ops_ep { cancel, getopt: getopt::<Srx>, setopt: setopt::<Srx>, ..absent::EP };
static CM: fi_ops_cm = absent::CM;
static MSG: fi_ops_msg = fi_ops_msg { recv, recvv, recvmsg, ..absent::MSG };
static RMA: fi_ops_rma = absent::RMA;

/// Receives that may be pending, and their segments, unless the attributes say otherwise.
fn default_attr() -> SrxAttr {
    let offer = kofi::info::RxAttr::default();
    SrxAttr { size: offer.size.max(256), iov_limit: kofi_core::memory::IOV_LIMIT }
}

pub(super) unsafe extern "C" fn srx_ctx(
    domain: *mut fid_domain,
    attr: *mut fi_rx_attr,
    srx: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    const CALL: &str = "fi_srx_context";
    status(|| {
        // SAFETY: the caller's object, its attributes or null, and its place.
        let (domain, attr, place) =
            unsafe { (object::<Domain, _>(CALL, domain)?, attr.as_ref(), place(CALL, srx)?) };
        let mut wanted = default_attr();
        let mut flags = OpFlags::empty();
        if let Some(attr) = attr {
            // 0 is "no wish".
            wanted.size = if attr.size == 0 { wanted.size } else { attr.size };
            wanted.iov_limit = if attr.iov_limit == 0 { wanted.iov_limit } else { attr.iov_limit };
            flags = recv_defaults(attr.op_flags);
        }
        let ops = domain.domain.ops().srx_context(&wanted)?;
        let public = fid_ep {
            fid: new_fid::<Srx>(context),
            ops: &OPS,
            cm: &CM,
            msg: &MSG,
            rma: &RMA,
            tagged: &ep::TAGGED,
            atomic: &ep::ATOMIC,
            collective: &ep::COLLECTIVE,
        };
        Object::give(place, domain.process, public, Srx { ops, flags });
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    status(|| {
        // SAFETY: the caller's object.
        let srx = unsafe { object::<Srx, _>("fi_close", fid)? };
        srx.ops.close()?;
        // SAFETY: the caller gives it up.
        unsafe { free::<Srx>(fid) };
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
    const CALL: &str = "fi_ep_bind";
    status(|| {
        // SAFETY: the caller's objects.
        let (srx, cq) = unsafe { (object::<Srx, _>(CALL, fid)?, object::<Cq, _>(CALL, bfid)?) };
        srx.ops.bind_cq(cq.ops(), OpFlags::from_bits_retain(flags))
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, _: *mut c_void) -> c_int {
    status(|| {
        // SAFETY: the caller's object.
        unsafe { object::<Srx, _>("fi_control", fid)? };
        match command {
            // It takes receives from the start.
            FI_ENABLE => Ok(()),
            _ => Err(kofi_core::Error::Unsupported("fi_control")),
        }
    })
}

unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> isize {
    // SAFETY: the caller's object.
    super::cancel(|| unsafe { object::<Srx, _>("fi_cancel", fid) }?.ops.cancel(number(context)))
}

impl Options for Srx {
    fn get(&self, option: c_int) -> Option<Result<usize>> {
        match option {
            FI_OPT_MIN_MULTI_RECV => Some(self.ops.min_multi_recv().map(|min| min as usize)),
            _ => None,
        }
    }

    fn set(&self, option: c_int, value: impl FnOnce() -> Result<usize>) -> Option<Result<()>> {
        match option {
            FI_OPT_MIN_MULTI_RECV => Some(value().and_then(|min| self.ops.set_min_multi_recv(min as u64))),
            _ => None,
        }
    }
}

const RECV: &str = "fi_recvmsg";

fn post(srx: &Srx, receive: Receive) -> Result<()> {
    Ok(srx.ops.recv(receive)?)
}

unsafe extern "C" fn recv(
    srx: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    _src_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: the caller's object; its memory, until the operation is complete.
        let (srx, buffers) = unsafe { (object::<Srx, _>(RECV, srx)?, memory::sink(RECV, buf, len)?) };
        post(srx, Receive { buffers, flags: srx.flags, context: number(context) })
    })
}

unsafe extern "C" fn recvv(
    srx: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    _src_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    status(|| {
        // SAFETY: as above.
        let (srx, buffers) =
            unsafe { (object::<Srx, _>(RECV, srx)?, memory::sinks(RECV, "rx_attr.iov_limit", iov, count)?) };
        post(srx, Receive { buffers, flags: srx.flags, context: number(context) })
    })
}

unsafe extern "C" fn recvmsg(srx: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    status(|| {
        // SAFETY: as above.
        let (srx, receive) = unsafe { (object::<Srx, _>(RECV, srx)?, receive(msg, flags)?) };
        post(srx, receive)
    })
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The endpoint (`fi_endpoint(3)`, `fi_cm(3)`): all but the transfer of data, which is in `msg.rs` and `rma.rs`.

use core::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kofi::provider::EndpointOps;
use kofi::{Info, OpFlags, State};
use kofi_core::wire::cm;
use kofi_core::{Error, Result};

use super::cntr::Cntr;
use super::cq::Cq;
use super::domain::Domain;
use super::eq::Eq;
use super::fabric::{Name, Shared};
use super::name::{read_name, write_name};
use super::option::{Options, getopt, setopt};
use super::pep::Pep;
use super::request::RequestName;
use super::srx::Srx;
use super::{Class, Object, absent, bytes, count, free, is, msg, new_fid, object, place, rma, status};
use crate::info;
use crate::sys::*;

/// An endpoint, or an alias of one.
pub(super) struct Ep {
    ops: Arc<dyn EndpointOps>,
    /// Flags of operations that take none (`op_flags`).
    tx_flags: AtomicU64,
    rx_flags: AtomicU64,
    is_alias: bool,
    common: Arc<Common>,
}

/// What aliases share.
struct Common {
    shared: Arc<Shared>,
    /// The request that it was made for.
    request: Option<RequestName>,
    tx_size: usize,
    rx_size: usize,
    max_msg_size: usize,
    inject_size: usize,
}

impl Ep {
    #[inline]
    pub(super) fn ops(&self) -> &dyn EndpointOps {
        &*self.ops
    }

    #[inline]
    pub(super) fn tx_flags(&self) -> u64 {
        self.tx_flags.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn rx_flags(&self) -> u64 {
        self.rx_flags.load(Ordering::Relaxed)
    }
}

// SAFETY: a `fid_ep` begins with a fid.
unsafe impl Class for Ep {
    type Public = fid_ep;
    const CLASS: usize = FI_CLASS_EP;
    const NAME: &'static str = "endpoint";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops =
            fi_ops { close: Some(close), bind: Some(bind), control: Some(control), ..absent::FID };
        &TABLE
    }
}

static OPS: fi_ops_ep = fi_ops_ep {
    cancel,
    getopt: getopt::<Ep>,
    setopt: setopt::<Ep>,
    rx_size_left,
    tx_size_left,
    ..absent::EP
};
static CM: fi_ops_cm = fi_ops_cm { getname, getpeer, connect, accept, shutdown, ..absent::CM };
pub(super) static TAGGED: fi_ops_tagged = absent::TAGGED;
pub(super) static ATOMIC: fi_ops_atomic = absent::ATOMIC;
pub(super) static COLLECTIVE: fi_ops_collective = absent::COLLECTIVE;

fn public(context: *mut c_void) -> fid_ep {
    fid_ep {
        fid: new_fid::<Ep>(context),
        ops: &OPS,
        cm: &CM,
        msg: &msg::OPS,
        rma: &rma::OPS,
        tagged: &TAGGED,
        atomic: &ATOMIC,
        collective: &COLLECTIVE,
    }
}

pub(super) unsafe extern "C" fn endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    const CALL: &str = "fi_endpoint";
    status(|| {
        // SAFETY: the caller's object, info and place.
        let (domain, info, handle, place) = unsafe {
            let domain = object::<Domain, _>(CALL, domain)?;
            (domain, info::read(info)?, (*info).handle.cast_const(), place(CALL, ep)?)
        };
        let (ops, request) = open(CALL, domain, &info, handle)?;
        let shared = domain.shared.clone();
        let common = Common {
            shared: shared.clone(),
            request,
            tx_size: info.tx_attr.size,
            rx_size: info.rx_attr.size,
            max_msg_size: info.ep_attr.max_msg_size,
            inject_size: info.tx_attr.inject_size,
        };
        let inner = Ep {
            ops: ops.clone(),
            tx_flags: AtomicU64::new(info.tx_attr.op_flags.bits()),
            rx_flags: AtomicU64::new(info.rx_attr.op_flags.bits()),
            is_alias: false,
            common: Arc::new(common),
        };
        Object::give(place, domain.process, public(context), inner);
        shared.names().insert(ops.fid(), Name { fid: place.cast(), listener: None });
        Ok(())
    })
}

/// The endpoint, and the request that it is for.
fn open(
    call: &'static str,
    domain: &Object<Domain>,
    info: &Info,
    handle: *const fid,
) -> Result<(Arc<dyn EndpointOps>, Option<RequestName>)> {
    let ops = domain.domain.ops();
    if handle.is_null() {
        return Ok((ops.endpoint(info)?, None));
    }
    let listens = |name: &Name| name.listener.is_some() && core::ptr::eq(name.fid, handle);
    if domain.shared.names().values().any(listens) {
        // fi_endpoint(3): a passive endpoint can become an active one, which has its address.
        // SAFETY: it is open, since it has a name.
        let pep = unsafe { object::<Pep, _>(call, handle)? };
        let info = Info { src_addr: Some(pep.ops().name()?), handle: None, ..info.clone() };
        pep.ops().close();
        return Ok((ops.endpoint(&info)?, None));
    }
    let requests = || domain.shared.requests();
    let (name, mut request) = {
        let mut requests = requests();
        (requests.name(handle), requests.take(call, handle)?)
    };
    *request.info_mut() = info.clone();
    let opened = ops.endpoint_for(&request);
    let rest = requests().put(handle, request);
    drop(rest);
    Ok((opened?, name))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    const CALL: &str = "fi_close";
    status(|| {
        // SAFETY: the caller's object.
        let ep = unsafe { object::<Ep, _>(CALL, fid)? };
        if !ep.is_alias {
            let aliases = Arc::strong_count(&ep.common) - 1;
            if aliases > 0 {
                return Err(Error::Busy {
                    call: CALL,
                    object: Ep::NAME,
                    users: format!("{aliases} aliases"),
                });
            }
            ep.ops.close();
            ep.common.shared.names().remove(&ep.ops.fid());
            ep.common.end_request();
        }
        // SAFETY: the caller gives it up.
        unsafe { free::<Ep>(fid) };
        Ok(())
    })
}

impl Common {
    fn end_request(&self) {
        if let Some(name) = self.request {
            let request = self.shared.requests().end_named(name);
            drop(request);
        }
    }
}

unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
    const CALL: &str = "fi_ep_bind";
    status(|| {
        let flags = OpFlags::from_bits_retain(flags);
        // SAFETY: the caller's objects.
        unsafe {
            let ep = object::<Ep, _>(CALL, fid)?;
            if is::<Cq>(bfid) {
                ep.ops.bind_cq(object::<Cq, _>(CALL, bfid)?.ops(), flags)
            } else if is::<Cntr>(bfid) {
                ep.ops.bind_cntr(object::<Cntr, _>(CALL, bfid)?.ops(), flags)
            } else if is::<Srx>(bfid) {
                ep.ops.bind_srx(object::<Srx, _>(CALL, bfid)?.ops(), flags)
            } else {
                ep.ops.bind_eq(object::<Eq, _>(CALL, bfid)?.queue(), flags)
            }
        }
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    const CALL: &str = "fi_control";
    status(|| {
        // SAFETY: the caller's object.
        let ep = unsafe { object::<Ep, _>(CALL, fid)? };
        match command {
            FI_ENABLE => match ep.ops.state()? {
                State::Idle | State::Failed | State::Disconnected => ep.ops.enable(),
                // By fi_recv, fi_connect or fi_accept, or by fi_enable itself: with stock once more is no error.
                _ => Ok(()),
            },
            FI_ALIAS => {
                // SAFETY: a `struct fi_alias`, whose place is the caller's.
                let (place, flags) = unsafe {
                    let alias = place(CALL, arg.cast::<fi_alias>())?;
                    (place(CALL, alias.fid)?, alias.flags)
                };
                *place = ep.alias(flags)?.cast();
                Ok(())
            }
            FI_GETOPSFLAG => {
                // SAFETY: a `uint64_t`, whose directions say which flags are asked for.
                let flags = unsafe { place(CALL, arg.cast::<u64>())? };
                *flags = ep.flags(*flags)?.load(Ordering::Relaxed);
                Ok(())
            }
            FI_SETOPSFLAG => {
                // SAFETY: a `uint64_t`.
                let flags = *unsafe { place(CALL, arg.cast::<u64>())? };
                ep.flags(flags)?.store(flags & !(FI_TRANSMIT | FI_RECV), Ordering::Relaxed);
                Ok(())
            }
            _ => Err(Error::Unsupported(CALL)),
        }
    })
}

impl Object<Ep> {
    /// `fi_ep_alias`: the same endpoint with other default flags for one direction.
    fn alias(&self, flags: u64) -> Result<*mut fid_ep> {
        let inner = Ep {
            ops: self.ops.clone(),
            tx_flags: AtomicU64::new(self.tx_flags()),
            rx_flags: AtomicU64::new(self.rx_flags()),
            is_alias: true,
            common: self.common.clone(),
        };
        inner.flags(flags)?.store(flags & !(FI_TRANSMIT | FI_RECV), Ordering::Relaxed);
        Ok(Self::make(self.process, public(self.context()), inner))
    }
}

impl Ep {
    /// Those of a direction.
    fn flags(&self, which: u64) -> Result<&AtomicU64> {
        match which & (FI_TRANSMIT | FI_RECV) {
            FI_TRANSMIT => Ok(&self.tx_flags),
            FI_RECV => Ok(&self.rx_flags),
            _ => Err(Error::Invalid {
                call: "fi_control",
                problem: "neither FI_TRANSMIT nor FI_RECV alone; say whose flags they are",
            }),
        }
    }
}

unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> isize {
    super::cancel(|| {
        // SAFETY: the caller's object.
        let ep = unsafe { object::<Ep, _>("fi_cancel", fid)? };
        ep.ops.cancel(context.expose_provenance() as u64)
    })
}

impl Options for Ep {
    fn get(&self, option: c_int) -> Option<Result<usize>> {
        Some(match option {
            FI_OPT_MIN_MULTI_RECV => self.ops.min_multi_recv().map(|min| min as usize),
            FI_OPT_CM_DATA_SIZE => Ok(cm::MAX_DATA),
            FI_OPT_TX_SIZE => Ok(self.common.tx_size),
            FI_OPT_RX_SIZE => Ok(self.common.rx_size),
            FI_OPT_MAX_MSG_SIZE | FI_OPT_MAX_RMA_SIZE => Ok(self.common.max_msg_size),
            FI_OPT_INJECT_MSG_SIZE | FI_OPT_INJECT_RMA_SIZE => Ok(self.common.inject_size),
            _ => return None,
        })
    }

    fn set(&self, option: c_int, value: impl FnOnce() -> Result<usize>) -> Option<Result<()>> {
        match option {
            FI_OPT_MIN_MULTI_RECV => Some(value().and_then(|min| self.ops.set_min_multi_recv(min as u64))),
            _ => None,
        }
    }
}

unsafe extern "C" fn rx_size_left(ep: *mut fid_ep) -> isize {
    count(|| {
        // SAFETY: the caller's object.
        let ep = unsafe { object::<Ep, _>("fi_rx_size_left", ep)? };
        Ok(ep.common.rx_size.saturating_sub(ep.ops.statistics()?.receives_posted))
    })
}

unsafe extern "C" fn tx_size_left(ep: *mut fid_ep) -> isize {
    count(|| {
        // SAFETY: the caller's object.
        let ep = unsafe { object::<Ep, _>("fi_tx_size_left", ep)? };
        Ok(ep.common.tx_size.saturating_sub(ep.ops.statistics()?.transmits_pending))
    })
}

unsafe extern "C" fn getname(fid: *mut fid, addr: *mut c_void, len: *mut usize) -> c_int {
    const CALL: &str = "fi_getname";
    status(|| {
        // SAFETY: the caller's object and places.
        unsafe { write_name(CALL, &object::<Ep, _>(CALL, fid)?.ops.name()?, addr, len) }
    })
}

unsafe extern "C" fn getpeer(ep: *mut fid_ep, addr: *mut c_void, len: *mut usize) -> c_int {
    const CALL: &str = "fi_getpeer";
    status(|| {
        // SAFETY: the caller's object and places.
        unsafe { write_name(CALL, &object::<Ep, _>(CALL, ep)?.ops.peer()?, addr, len) }
    })
}

unsafe extern "C" fn connect(
    ep: *mut fid_ep,
    addr: *const c_void,
    param: *const c_void,
    paramlen: usize,
) -> c_int {
    const CALL: &str = "fi_connect";
    status(|| {
        // SAFETY: the caller's object and bytes.
        let (ep, data) = unsafe { (object::<Ep, _>(CALL, ep)?, bytes(CALL, param, paramlen)?) };
        let dest = match addr.is_null() {
            true => None,
            // SAFETY: the caller's address.
            false => Some(unsafe { read_name(CALL, addr, None)? }),
        };
        ep.ops.connect(dest.as_ref(), data)
    })
}

unsafe extern "C" fn accept(ep: *mut fid_ep, param: *const c_void, paramlen: usize) -> c_int {
    const CALL: &str = "fi_accept";
    status(|| {
        // SAFETY: the caller's object and bytes.
        let (ep, data) = unsafe { (object::<Ep, _>(CALL, ep)?, bytes(CALL, param, paramlen)?) };
        ep.ops.accept(data)?;
        ep.common.end_request();
        Ok(())
    })
}

unsafe extern "C" fn shutdown(ep: *mut fid_ep, flags: u64) -> c_int {
    // SAFETY: the caller's object.
    status(|| unsafe { object::<Ep, _>("fi_shutdown", ep) }?.ops.shutdown(flags))
}

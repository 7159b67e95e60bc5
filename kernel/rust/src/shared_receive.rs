// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The shared receive context (`fi_srx_context`, `fi_endpoint(3)`): calls of the application, under the domain's lock.

use alloc::sync::Arc;
use core::ffi::{c_int, c_void};

use kofi_core::flags::OpFlags;
use kofi_core::offer::QUEUE_SIZE;
use kofi_core::{Error, Result, SrxAttr, SrxId};

use crate::c;
use crate::completion_queue::CompletionQueue;
use crate::domain::Domain;
use crate::endpoint::{self, Endpoint};
use crate::error;
use crate::sys::lock::{LockClass, Mutex};
use crate::sys::{Class, Counted};

pub(crate) struct SharedReceive {
    domain: Arc<Domain>,
    id: SrxId,
    /// Flags of receives that give none themselves.
    flags: OpFlags,
    /// For receives that no message has met.
    cq: Mutex<Option<Arc<CompletionQueue>>>,
    _counted: Counted,
}

impl SharedReceive {
    fn open(domain: &Arc<Domain>, attr: &c::RxAttr) -> Result<Arc<Self>> {
        const CALL: &str = "fi_srx_context";
        // What was put together by hand has zeros for "any".
        let size = if attr.size == 0 { QUEUE_SIZE.1 as u64 } else { attr.size };
        let iov_limit = if attr.iov_limit == 0 { c::IOV_LIMIT as u64 } else { attr.iov_limit };
        if size > QUEUE_SIZE.1 as u64 || iov_limit > c::IOV_LIMIT as u64 {
            let problem = "the attributes' size or iov_limit is over what getinfo gives";
            return Err(Error::Invalid { call: CALL, problem });
        }
        let attr_of = SrxAttr { size: size as usize, iov_limit: iov_limit as usize };
        let cq = Mutex::new(LockClass::Leaf, None)?;
        let id = domain.lock().machine.open_srx(attr_of)?;
        let flags = OpFlags::from_bits_retain(attr.op_flags);
        // Without the lock: where there is no memory, what was put together is dropped, and that closes the context.
        c::share(
            Self { domain: domain.clone(), id, flags, cq, _counted: Counted::new(Class::SharedReceive) },
            "a shared receive context",
        )
    }

    fn bind_cq(&self, queue: &Arc<CompletionQueue>, flags: u64) -> Result<()> {
        if !queue.belongs_to(&self.domain) {
            let problem = "the completion queue belongs to another domain; open one in the context's";
            return Err(Error::Invalid { call: "fi_ep_bind", problem });
        }
        let mut state = self.domain.lock();
        state.reserve_shared_cq()?;
        state.machine.bind_srx_cq(self.id, queue.id(), OpFlags::from_bits_retain(flags))?;
        state.bind_shared_cq(queue);
        drop(state);
        *self.cq.lock() = Some(queue.clone());
        Ok(())
    }

    fn recv(&self, op: &c::Op) -> Result<()> {
        let mut state = self.domain.lock();
        state.post_receive(op, self.flags, |machine, post| machine.post_shared_receive(self.id, post))?;
        // Messages that waited for it are there already.
        state.go_on();
        Ok(())
    }

    fn close(&self) -> Result<()> {
        let mut state = self.domain.lock();
        state.machine.close_srx(self.id)?;
        state.settle();
        drop(state);
        let cq = self.cq.lock().take();
        if let Some(cq) = cq {
            self.domain.lock().unbind_shared_cq(&cq);
        }
        Ok(())
    }
}

impl Drop for SharedReceive {
    fn drop(&mut self) {
        // Closed before, but where opening it failed half way.
        let _ = self.close();
    }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_srx_open(
    domain: *const Domain,
    attr: *const c::RxAttr,
    srx: *mut *const SharedReceive,
) -> c_int {
    const CALL: &str = "fi_srx_context";
    error::result((|| {
        let domain = Domain::given(CALL, domain)?;
        let place = c::place(CALL, srx)?;
        let default = c::RxAttr::default();
        // SAFETY: null, or the caller's for the call.
        let attr = unsafe { attr.as_ref() }.unwrap_or(&default);
        c::give(place, SharedReceive::open(&domain, attr)?);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_srx_bind_cq(srx: *const SharedReceive, cq: *const CompletionQueue, flags: u64) -> c_int {
    const CALL: &str = "fi_ep_bind";
    error::result((|| c::borrow(CALL, srx)?.bind_cq(&CompletionQueue::given(CALL, cq)?, flags))())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_srx_recv(srx: *const SharedReceive, op: *const c::Op) -> c_int {
    const CALL: &str = "fi_recvmsg";
    error::result((|| c::borrow(CALL, srx)?.recv(c::borrow(CALL, op)?))())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_srx_cancel(srx: *const SharedReceive, context: u64) -> c_int {
    error::result((|| {
        let srx = c::borrow("fi_cancel", srx)?;
        let mut state = srx.domain.lock();
        state.machine.cancel_srx(srx.id, context)?;
        state.settle();
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_srx_getopt(
    srx: *const SharedReceive,
    level: c_int,
    optname: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    error::result((|| {
        let srx = c::borrow("fi_getopt", srx)?;
        let min = || srx.domain.lock().machine.srx_min_multi_recv(srx.id);
        endpoint::get_option(level, optname, value, len, min)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_srx_setopt(
    srx: *const SharedReceive,
    level: c_int,
    optname: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    error::result((|| {
        let srx = c::borrow("fi_setopt", srx)?;
        let set = |min| srx.domain.lock().machine.set_srx_min_multi_recv(srx.id, min);
        endpoint::set_option(level, optname, value, len, set)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_srx_close(srx: *const SharedReceive) -> c_int {
    error::result((|| {
        c::borrow("fi_close", srx)?.close()?;
        // SAFETY: the caller's handle, which it gives up.
        unsafe { c::take_back(srx) };
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_bind_srx(ep: *const Endpoint, srx: *const SharedReceive, flags: u64) -> c_int {
    const CALL: &str = "fi_ep_bind";
    error::result((|| {
        let srx = c::borrow(CALL, srx)?;
        c::borrow(CALL, ep)?.bind_srx(&srx.domain, srx.id, flags)
    })())
}

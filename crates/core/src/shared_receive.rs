// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The shared receive context (`fi_srx_context`, `fi_endpoint(3)`): one queue of receives for several
//! endpoints. Whichever endpoint's message comes next takes the oldest.
//!
//! A receive belongs to no endpoint until a message has met it. From then on it is as any other of that
//! endpoint: it completes into its completion queue, and fails with its connection. One that is cancelled, or
//! still there when the context is closed, completes into the queue that is bound to the context itself.
//!
//! Endpoints with messages that wait for a receive take turns, in the order in which they began to wait. So an
//! invariant holds: while receives are posted, no endpoint waits for one.

use alloc::collections::VecDeque;

use crate::completion_queue::CqId;
use crate::domain::Domain;
use crate::endpoint::{Binding, EpId};
use crate::event_queue::check_flags;
use crate::flags::OpFlags;
use crate::info::RxAttr;
use crate::message::PostReceive;
use crate::multi_receive::MIN_MULTI_RECV;
use crate::operation::{Failure, List, OpId, Role};
use crate::slab::Key;
use crate::{Errno, Error, Result};

/// Names a shared receive context in its domain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SrxId(pub(crate) Key);

/// Attributes of a shared receive context, of `struct fi_rx_attr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrxAttr {
    /// Receives that may be pending.
    pub size: usize,
    /// Most segments of a receive.
    pub iov_limit: usize,
}

impl From<&RxAttr> for SrxAttr {
    fn from(attr: &RxAttr) -> Self {
        Self { size: attr.size, iov_limit: attr.iov_limit }
    }
}

#[derive(Debug)]
pub(crate) struct SharedReceive {
    attr: SrxAttr,
    pub(crate) posted: List,
    min_multi_recv: u64,
    /// For receives that no message has met.
    cq: Option<CqId>,
    /// Endpoints that are bound to it.
    bindings: usize,
    /// Those with a message that waits, each once. There is room for all of them.
    waiting: VecDeque<EpId>,
}

const CLASS: &str = "shared receive context";

impl Domain {
    /// `fi_srx_context`.
    ///
    /// # Errors
    /// -FI_ENOMEM.
    pub fn open_srx(&mut self, attr: SrxAttr) -> Result<SrxId> {
        let srx = SharedReceive {
            attr,
            posted: List::default(),
            min_multi_recv: MIN_MULTI_RECV,
            cq: None,
            bindings: 0,
            waiting: VecDeque::new(),
        };
        Ok(SrxId(self.shared.insert(srx, "a shared receive context")?))
    }

    /// `fi_close` of a shared receive context: its receives complete with `FI_ECANCELED` in the queue that is
    /// bound to it, or are given back through [`poll_released`](Self::poll_released).
    ///
    /// # Errors
    /// -FI_EBUSY while endpoints are bound to it.
    pub fn close_srx(&mut self, srx: SrxId) -> Result<()> {
        const CALL: &str = "fi_close";
        let bindings = self.srx(CALL, srx)?.bindings;
        if bindings > 0 {
            let users = crate::count::list(&[(bindings, "endpoint")]);
            return Err(Error::Busy { call: CALL, object: CLASS, users });
        }
        while let Some(shared) = self.shared.get_mut(srx.0)
            && let Some(id) = self.ops.take_first(&mut shared.posted)
        {
            self.cancel_shared(srx, id);
        }
        if let Some(SharedReceive { cq: Some(cq), .. }) = self.shared.remove(srx.0)
            && let Some(queue) = self.queues.get_mut(cq.0)
        {
            queue.bindings -= 1;
        }
        Ok(())
    }

    /// `fi_ep_bind` of a shared receive context to a completion queue, with `FI_RECV`.
    ///
    /// # Errors
    /// -FI_EINVAL for a second queue, or without that flag; -FI_EBADFLAGS.
    pub fn bind_srx_cq(&mut self, srx: SrxId, cq: CqId, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        check_flags(CALL, flags, OpFlags::RECV)?;
        let stale = Error::Stale { call: CALL, object: "completion queue" };
        let queue = self.queues.get_mut(cq.0).ok_or(stale)?;
        let shared = self.shared.get_mut(srx.0).ok_or(Error::Stale { call: CALL, object: CLASS })?;
        let problem = match shared.cq {
            _ if flags.is_empty() => "no direction given for a completion queue; pass FI_RECV",
            Some(_) => "a completion queue is bound already; a context takes one",
            None => {
                shared.cq = Some(cq);
                queue.bindings += 1;
                return Ok(());
            }
        };
        Err(Error::Invalid { call: CALL, problem })
    }

    /// `fi_ep_bind` of an endpoint to a shared receive context, from which it takes its receives.
    ///
    /// # Errors
    /// -FI_EINVAL for flags, or for a second context; -FI_EOPBADSTATE once enabled; -FI_ENOMEM.
    pub fn bind_srx(&mut self, ep: EpId, srx: SrxId, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        let shared = self.shared.get_mut(srx.0).ok_or(Error::Stale { call: CALL, object: CLASS })?;
        let stale = Error::Stale { call: CALL, object: "endpoint" };
        let endpoint = self.endpoints.get_mut(ep.0).ok_or(stale)?;
        endpoint.check_idle(CALL)?;
        let problem = if !flags.is_empty() {
            "flags are reserved for a shared receive context; pass 0"
        } else if endpoint.rx.srx.is_some() {
            "a shared receive context is bound already; an endpoint takes one"
        } else {
            // No peer can make it grow later.
            let missing = (shared.bindings + 1).saturating_sub(shared.waiting.len());
            let reserved = shared.waiting.try_reserve(missing);
            reserved.map_err(|_| Error::NoMemory("the endpoints of a shared receive context"))?;
            endpoint.rx.srx = Some(srx);
            shared.bindings += 1;
            return Ok(());
        };
        Err(Error::Invalid { call: CALL, problem })
    }

    /// `fi_recvmsg` of a shared receive context. Endpoints that go on because of it are told of by
    /// [`poll_resumed`](Self::poll_resumed).
    ///
    /// # Errors
    /// -FI_EINVAL over a limit; -FI_EBADFLAGS; -FI_EAGAIN while the receive queue is full; -FI_ENOMEM.
    pub fn post_shared_receive(&mut self, srx: SrxId, receive: &PostReceive) -> Result<OpId> {
        const CALL: &str = "fi_recvmsg";
        let SharedReceive { attr, posted, min_multi_recv, .. } = self.srx(CALL, srx)?;
        if posted.len() >= attr.size {
            let (what, limit) = ("the shared receive queue (rx_attr.size)", attr.size);
            return Err(Error::Full { call: CALL, what, limit });
        }
        let (limit, min) = (attr.iov_limit, *min_multi_recv);
        let id = self.insert_receive(CALL, receive, limit, min)?;
        if let Some(shared) = self.shared.get_mut(srx.0) {
            self.ops.push(&mut shared.posted, id);
        }
        self.serve(srx);
        Ok(id)
    }

    /// `fi_cancel` of a shared receive context: the oldest receive posted with `context` that no message has
    /// met completes with `FI_ECANCELED` in the queue that is bound to the context; without one it is given
    /// back through [`poll_released`](Self::poll_released).
    ///
    /// # Errors
    /// -FI_ENOENT when there is none.
    pub fn cancel_srx(&mut self, srx: SrxId, context: u64) -> Result<()> {
        const CALL: &str = "fi_cancel";
        let shared = self.shared.get_mut(srx.0).ok_or(Error::Stale { call: CALL, object: CLASS })?;
        let found = self.ops.remove(&mut shared.posted, |_, op| op.context == context);
        self.cancel_shared(srx, found.ok_or(Error::NoSuchOperation { context })?);
        Ok(())
    }

    /// `fi_getopt(FI_OPT_MIN_MULTI_RECV)` of a shared receive context, bytes.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn srx_min_multi_recv(&self, srx: SrxId) -> Result<u64> {
        Ok(self.srx("fi_getopt", srx)?.min_multi_recv)
    }

    /// `fi_setopt(FI_OPT_MIN_MULTI_RECV)` of a shared receive context, bytes, for receives that are posted from
    /// now on.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn set_srx_min_multi_recv(&mut self, srx: SrxId, min: u64) -> Result<()> {
        let stale = Error::Stale { call: "fi_setopt", object: CLASS };
        self.shared.get_mut(srx.0).ok_or(stale)?.min_multi_recv = min;
        Ok(())
    }

    fn srx(&self, call: &'static str, srx: SrxId) -> Result<&SharedReceive> {
        self.shared.get(srx.0).ok_or(Error::Stale { call, object: CLASS })
    }

    /// A receive that no message has met ends. It is in no list now.
    fn cancel_shared(&mut self, srx: SrxId, id: OpId) {
        let cq = self.shared.get(srx.0).and_then(|shared| shared.cq);
        let binding = cq.map(|cq| Binding { cq, selective: false });
        let failure = Failure::canceled(Errno::ECANCELED);
        match self.ops.get_mut(id) {
            Some(op) if op.role == Role::Buffer => return self.retire(binding, id, Some(failure)),
            Some(op) => op.len = 0,
            None => return,
        }
        self.report(binding, id, Some(failure));
    }

    /// An endpoint has a message that waits for a receive of its context. Of other endpoints this does nothing.
    pub(crate) fn queue_up(&mut self, ep: EpId) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0)
            && let Some(srx) = endpoint.rx.srx
            && let Some(shared) = self.shared.get_mut(srx.0)
            && !core::mem::replace(&mut endpoint.rx.waits, true)
        {
            shared.waiting.push_back(ep);
        }
    }

    /// Receives were posted: endpoints that wait for one go on, in turn.
    fn serve(&mut self, srx: SrxId) {
        while let Some(shared) = self.shared.get_mut(srx.0)
            && shared.posted.len() > 0
            && let Some(ep) = shared.waiting.pop_front()
        {
            if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
                endpoint.rx.waits = false;
            }
            self.meet(ep);
            self.mark_resumed(ep);
        }
    }

    /// The endpoint is closed: its context is free of it.
    pub(crate) fn unbind_srx(&mut self, ep: EpId, srx: SrxId) {
        if let Some(shared) = self.shared.get_mut(srx.0) {
            shared.bindings -= 1;
            shared.waiting.retain(|waiting| *waiting != ep);
        }
    }
}

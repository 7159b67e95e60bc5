// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The domain (`fi_domain(3)`): where endpoints, completion queues and memory regions are opened.

use std::sync::Arc;

use kofi_core::attr::{CqAttr, WaitObj};
use kofi_core::{DomainStatistics, Info, OpFlags, Result, SrxAttr};

use crate::buffer::Buffers;
use crate::completion_queue::CompletionQueue;
use crate::counter::Counter;
use crate::endpoint::{Acceptor, Connector, Queues};
use crate::memory_region::MemoryRegion;
use crate::provider::{DomainOps, Refused, Region};
use crate::returned::Returned;
use crate::shared_receive::SharedReceive;
use crate::wait_set::WaitSet;
use crate::{ConnectionRequest, EventQueue};

/// A domain. Calls on its objects may come from any thread.
#[derive(Clone)]
pub struct Domain(Arc<dyn DomainOps>);

impl Domain {
    pub(crate) fn new(ops: Arc<dyn DomainOps>) -> Self {
        Self(ops)
    }

    /// The provider's operations.
    pub fn ops(&self) -> &Arc<dyn DomainOps> {
        &self.0
    }

    /// `fi_cq_open`.
    ///
    /// # Errors
    /// -FI_ENOMEM, -FI_EMFILE.
    pub fn completion_queue(&self, attr: CqAttr) -> Result<CompletionQueue> {
        Ok(CompletionQueue::new(self.0.cq_open(&attr, None)?))
    }

    /// `fi_cq_open` into a wait set: `attr.wait_obj` is taken to be `WaitObj::Set`.
    ///
    /// # Errors
    /// As for [`completion_queue`](Self::completion_queue).
    pub fn completion_queue_in(&self, set: &WaitSet, attr: CqAttr) -> Result<CompletionQueue> {
        let attr = CqAttr { wait_obj: WaitObj::Set, ..attr };
        Ok(CompletionQueue::new(self.0.cq_open(&attr, Some(set))?))
    }

    /// `fi_cntr_open`: a counter of completions.
    ///
    /// # Errors
    /// -FI_ENOMEM, -FI_EMFILE.
    pub fn counter(&self, wait: WaitObj) -> Result<Counter> {
        Ok(Counter::new(self.0.cntr_open(wait, None)?))
    }

    /// `fi_cntr_open` into a wait set, which tells when the counter has changed since it was read.
    ///
    /// # Errors
    /// As for [`counter`](Self::counter).
    pub fn counter_in(&self, set: &WaitSet) -> Result<Counter> {
        Ok(Counter::new(self.0.cntr_open(WaitObj::Set, Some(set))?))
    }

    /// `fi_srx_context`: receives that several endpoints share ([`Queues::shared_receive`]). Those that no
    /// message has met when they are cancelled, or when the context is closed, complete in `cq`.
    ///
    /// # Errors
    /// -FI_EINVAL for a queue of another domain, -FI_ENOMEM.
    pub fn shared_receive(&self, attr: SrxAttr, cq: &CompletionQueue) -> Result<SharedReceive> {
        let ops = self.0.srx_context(&attr)?;
        ops.bind_cq(cq.ops(), OpFlags::RECV)?;
        Ok(SharedReceive::new(ops))
    }

    /// `fi_mr_reg`: lets peers reach memory, `access` says for what (`FI_REMOTE_READ`,
    /// `FI_REMOTE_WRITE`). They name it by `key`, or under `FI_MR_PROV_KEY` by the region's own.
    ///
    /// # Errors
    /// -FI_ENOKEY when the key is in use, -FI_EBADFLAGS, -FI_EINVAL with too many pieces, or for memory that
    /// is shared or static and to be written; the memory comes back with the error.
    pub fn register(
        &self,
        buffers: impl Into<Buffers>,
        access: OpFlags,
        key: u64,
    ) -> Result<MemoryRegion, Refused> {
        let region = Region { buffers: buffers.into(), access, requested_key: key };
        Ok(MemoryRegion::new(self.0.mr_reg(region)?))
    }

    /// `fi_endpoint`, `fi_ep_bind` and `fi_enable`: an endpoint that can connect. Its events come
    /// to `eq`, its completions to `queues`: one completion queue, or [`Queues`].
    ///
    /// # Errors
    /// -FI_EINVAL for an info that is no message endpoint's, or a queue of another fabric or domain.
    pub fn endpoint(&self, info: &Info, eq: &EventQueue, queues: impl Into<Queues>) -> Result<Connector> {
        let ops = self.0.endpoint(info)?;
        queues.into().bind(&ops, eq)?;
        Ok(Connector::new(ops))
    }

    /// The same for a connection request, which it can accept.
    ///
    /// # Errors
    /// As for [`endpoint`](Self::endpoint); the request can still be rejected then.
    pub fn endpoint_for(
        &self,
        request: &ConnectionRequest,
        eq: &EventQueue,
        queues: impl Into<Queues>,
    ) -> Result<Acceptor> {
        let ops = self.0.endpoint_for(request)?;
        queues.into().bind(&ops, eq)?;
        Ok(Acceptor::new(ops))
    }

    /// What its endpoints have done so far, those that are closed included.
    pub fn statistics(&self) -> DomainStatistics {
        self.0.statistics()
    }

    /// `fi_close`.
    ///
    /// # Errors
    /// -FI_EBUSY while anything is open in the domain; it is given back.
    pub fn close(self) -> Result<(), Returned<Self>> {
        let result = self.0.close();
        Returned::check(self, result).map(drop)
    }
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain").finish_non_exhaustive()
    }
}

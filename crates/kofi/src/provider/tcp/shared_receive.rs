// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The shared receive context over TCP: calls of the application, under the domain's lock.

use std::any::Any;
use std::sync::{Arc, Mutex};

use kofi_core::flags::OpFlags;
use kofi_core::{Error, Result, SrxAttr, SrxId};

use super::completion_queue::TcpCompletionQueue;
use super::domain::{Progress, Shared};
use super::endpoint::to_post;
use crate::provider::{CompletionQueueOps, Receive, Refused, SharedReceiveOps};
use crate::wait::{close_dropped, lock};

pub(super) struct TcpSharedReceive {
    domain: Arc<Shared>,
    _progress: Progress,
    id: SrxId,
    /// For receives that no message has met.
    cq: Mutex<Option<Arc<dyn CompletionQueueOps>>>,
}

impl TcpSharedReceive {
    pub(super) fn open(domain: &Arc<Shared>, progress: Progress, attr: SrxAttr) -> Result<Self> {
        let id = domain.lock().machine.open_srx(attr)?;
        Ok(Self { domain: domain.clone(), _progress: progress, id, cq: Mutex::new(None) })
    }

    pub(super) fn id(&self) -> SrxId {
        self.id
    }

    pub(super) fn belongs_to(&self, domain: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }
}

impl SharedReceiveOps for TcpSharedReceive {
    fn bind_cq(&self, cq: &Arc<dyn CompletionQueueOps>, flags: OpFlags) -> Result<()> {
        let queue = cq.as_any().downcast_ref::<TcpCompletionQueue>();
        let queue = queue.filter(|queue| queue.belongs_to(&self.domain)).ok_or(Error::Invalid {
            call: "fi_ep_bind",
            problem: "the completion queue belongs to another domain; open one in the context's",
        })?;
        let mut state = self.domain.lock();
        state.machine.bind_srx_cq(self.id, queue.shared().id(), flags)?;
        state.bind_shared_cq(queue.shared());
        drop(state);
        *lock(&self.cq) = Some(cq.clone());
        Ok(())
    }

    fn recv(&self, receive: Receive) -> Result<(), Refused> {
        let (post, buffers) = to_post(receive)?;
        let mut state = self.domain.lock();
        match state.machine.post_shared_receive(self.id, &post) {
            Err(error) => Err(Refused { error, buffers }),
            Ok(op) => {
                state.remember(op, buffers);
                // Messages that waited for it are there already.
                state.go_on();
                Ok(())
            }
        }
    }

    fn cancel(&self, context: u64) -> Result<()> {
        let mut state = self.domain.lock();
        state.machine.cancel_srx(self.id, context)?;
        state.settle();
        Ok(())
    }

    fn min_multi_recv(&self) -> Result<u64> {
        self.domain.lock().machine.srx_min_multi_recv(self.id)
    }

    fn set_min_multi_recv(&self, min: u64) -> Result<()> {
        self.domain.lock().machine.set_srx_min_multi_recv(self.id, min)
    }

    fn close(&self) -> Result<()> {
        let mut state = self.domain.lock();
        state.machine.close_srx(self.id)?;
        state.settle();
        drop(state);
        // Dropped, the queue may be closed: nothing is locked then.
        let cq = lock(&self.cq).take();
        if let Some(queue) = cq.as_ref().and_then(|cq| cq.as_any().downcast_ref::<TcpCompletionQueue>()) {
            self.domain.lock().unbind_shared_cq(queue.shared());
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for TcpSharedReceive {
    fn drop(&mut self) {
        // Endpoints hold the context that they are bound to: it is in use by none.
        close_dropped(|| drop(self.close()));
    }
}

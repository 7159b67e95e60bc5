// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The shared receive context (`fi_srx_context`, `fi_endpoint(3)`): receives for several endpoints.

use std::sync::Arc;

use kofi_core::Result;
use kofi_core::flags::OpFlags;

use crate::buffer::Buffers;
use crate::provider::{Receive, Refused, SharedReceiveOps};
use crate::returned::Returned;

/// Receives that endpoints share: whichever of them a message comes for takes the oldest. It completes in
/// the queue of that endpoint.
///
/// Closed, or dropped with the last endpoint that uses it, its receives complete with `FI_ECANCELED` in
/// the queue that it was opened with.
#[derive(Clone)]
pub struct SharedReceive(Arc<dyn SharedReceiveOps>);

impl SharedReceive {
    pub(crate) fn new(ops: Arc<dyn SharedReceiveOps>) -> Self {
        Self(ops)
    }

    /// The provider's operations.
    pub fn ops(&self) -> &Arc<dyn SharedReceiveOps> {
        &self.0
    }

    /// `fi_recv`: takes a message of any endpoint into one buffer, or scatters it over several. Its
    /// completion gives the memory back, with `context`.
    ///
    /// # Errors
    /// -FI_EAGAIN while the receive queue is full, -FI_EINVAL with too many segments or memory that is
    /// shared; the memory comes back with the error.
    pub fn recv(&self, buffers: impl Into<Buffers>, context: u64) -> Result<(), Refused> {
        self.recvmsg(Receive { buffers: buffers.into(), flags: OpFlags::empty(), context })
    }

    /// `fi_recvmsg`: the same, with flags.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv); -FI_EBADFLAGS.
    pub fn recvmsg(&self, receive: Receive) -> Result<(), Refused> {
        self.0.recv(receive)
    }

    /// `fi_cancel`: the oldest receive with this context that no message has met completes with
    /// `FI_ECANCELED`.
    ///
    /// # Errors
    /// -FI_ENOENT when there is none.
    pub fn cancel(&self, context: u64) -> Result<()> {
        self.0.cancel(context)
    }

    /// `FI_OPT_MIN_MULTI_RECV`, bytes: a buffer for several messages with less left is given back. 16384
    /// unless set.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn min_multi_recv(&self) -> Result<u64> {
        self.0.min_multi_recv()
    }

    /// Sets `FI_OPT_MIN_MULTI_RECV`, bytes, for receives that are posted from now on.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed.
    pub fn set_min_multi_recv(&self, min: u64) -> Result<()> {
        self.0.set_min_multi_recv(min)
    }

    /// `fi_close`.
    ///
    /// # Errors
    /// -FI_EBUSY while endpoints are bound; the context is as before then, and is given back.
    pub fn close(self) -> Result<(), Returned<Self>> {
        let result = self.0.close();
        Returned::check(self, result).map(drop)
    }
}

impl std::fmt::Debug for SharedReceive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedReceive").finish_non_exhaustive()
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The completion queue (`fi_cq(3)`), with waiting.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use kofi_core::flags::OpFlags;
use kofi_core::{CompletionError, Error, Result};

use crate::buffer::{Buf, Buffers};
use crate::provider::CompletionQueueOps;

/// An operation that has come to its end, and its memory.
#[derive(Debug)]
#[must_use]
pub struct Completion {
    /// As given when it was posted.
    pub context: u64,
    /// What it was: `FI_MSG | FI_SEND` or `FI_MSG | FI_RECV`.
    pub flags: OpFlags,
    /// Bytes received; 0 for what was sent.
    pub len: usize,
    /// The sender's completion data (`FI_REMOTE_CQ_DATA`).
    pub data: Option<u64>,
    /// The operation's memory.
    pub buffers: Buffers,
    /// Why it failed, if it did.
    pub error: Option<CompletionError>,
}

impl Completion {
    /// The memory of an operation with one segment, cut to what was received.
    pub fn into_received(self) -> Vec<u8> {
        let len = self.len;
        let mut bytes = self.into_buffer().into_vec();
        bytes.truncate(len);
        bytes
    }

    /// The memory of an operation with one segment.
    pub fn into_buffer(self) -> Buf {
        self.buffers.into_single()
    }

    /// Whether a receive has completed, and not a send.
    pub fn is_receive(&self) -> bool {
        self.flags.contains(OpFlags::RECV)
    }
}

/// A completion queue: `fi_cq_open(3)`.
#[derive(Clone)]
pub struct CompletionQueue(Arc<dyn CompletionQueueOps>);

impl CompletionQueue {
    pub(crate) fn new(ops: Arc<dyn CompletionQueueOps>) -> Self {
        Self(ops)
    }

    /// The provider's operations.
    pub fn ops(&self) -> &Arc<dyn CompletionQueueOps> {
        &self.0
    }

    /// `fi_cq_read`: the next completion, without waiting.
    ///
    /// # Errors
    /// [`Error::Empty`] (-FI_EAGAIN) when there is none, [`Error::ErrorAvailable`] (-FI_EAVAIL) when
    /// it is an error, for [`read_error`](Self::read_error).
    pub fn read(&self) -> Result<Completion> {
        self.0.read()
    }

    /// `fi_cq_readerr`: the next completion, which is an error.
    ///
    /// # Errors
    /// [`Error::Empty`] (-FI_EAGAIN) when the next completion is none.
    pub fn read_error(&self) -> Result<Completion> {
        self.0.read_error()
    }

    /// `fi_cq_sread`: waits for the next completion. `None` waits for ever, zero not at all.
    ///
    /// # Errors
    /// As for [`read`](Self::read); [`Error::Empty`] also after the whole time without a completion,
    /// or after a signal; [`Error::Unsupported`] (-FI_ENOSYS) on a queue with `WaitObj::None`.
    pub fn sread(&self, timeout: impl Into<Option<Duration>>) -> Result<Completion> {
        self.0.sread(timeout.into())
    }

    /// The next completion, be it a success or an error, without waiting.
    ///
    /// # Errors
    /// [`Error::Empty`] when there is none.
    pub fn poll(&self) -> Result<Completion> {
        self.or_error(self.read())
    }

    /// Waits for the next completion, be it a success or an error.
    ///
    /// # Errors
    /// As for [`sread`](Self::sread), without [`Error::ErrorAvailable`].
    pub fn wait(&self, timeout: impl Into<Option<Duration>>) -> Result<Completion> {
        self.or_error(self.sread(timeout))
    }

    fn or_error(&self, read: Result<Completion>) -> Result<Completion> {
        match read {
            Err(Error::ErrorAvailable) => self.read_error(),
            other => other,
        }
    }

    /// `fi_cq_signal`: each blocking read that waits now ends with [`Error::Empty`], or else the
    /// next one does.
    ///
    /// # Errors
    /// -FI_ENOSYS on a queue with `WaitObj::None`.
    pub fn signal(&self) -> Result<()> {
        self.0.signal()
    }

    /// `fi_trywait`: whether it is right to sleep on [`fd`](Self::fd) now.
    ///
    /// # Errors
    /// [`Error::Empty`] (-FI_EAGAIN): read first.
    pub fn try_wait(&self) -> Result<()> {
        self.0.try_wait()
    }

    /// The descriptor to poll for reading after [`try_wait`](Self::try_wait), of a queue that was
    /// opened with `WaitObj::Fd` or `PollFd`.
    ///
    /// # Errors
    /// -FI_ENOSYS for other queues.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.0.fd()
    }
}

impl std::fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompletionQueue").finish_non_exhaustive()
    }
}

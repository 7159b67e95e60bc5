// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The completion queue (`fi_cq(3)`), with waiting.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use kofi_core::flags::OpFlags;
use kofi_core::{CompletionError, Error, Result};

use crate::buffer::{Buf, Buffers};
use crate::clock::now;
use crate::provider::CompletionQueueOps;
use crate::returned::Returned;

/// An operation that has come to its end, and its memory.
#[derive(Debug)]
#[must_use]
pub struct Completion {
    /// As given when it was posted.
    pub context: u64,
    /// What it was: `FI_MSG | FI_SEND`, `FI_MSG | FI_RECV`, `FI_RMA | FI_READ`, `FI_RMA | FI_WRITE`; of a
    /// peer's write with data `FI_RMA | FI_REMOTE_WRITE`. `FI_MULTI_RECV`, alone or with others: no more
    /// messages go into a buffer that was posted for several.
    pub flags: OpFlags,
    /// Bytes received, or written by a peer; 0 for what was sent, written or read by us.
    pub len: usize,
    /// The sender's completion data (`FI_REMOTE_CQ_DATA`).
    pub data: Option<u64>,
    /// The operation's memory. Of a message in a buffer for several its part of that, exactly as long as the
    /// message: nobody else has it, and nothing was copied.
    pub buffers: Buffers,
    /// Of such a message: where in the buffer it began, in bytes.
    pub offset: usize,
    /// With `FI_MULTI_RECV` in `flags`: what is left of the buffer. It comes with the last completion of the
    /// buffer, and [`Buf::reclaim`] makes it whole again.
    pub rest: Option<Buf>,
    /// Why it failed, if it did.
    pub error: Option<CompletionError>,
}

impl Completion {
    /// The completion, if the operation succeeded.
    ///
    /// # Errors
    /// Why it failed. Its memory is dropped then: look at [`error`](Self::error) first to keep it.
    pub fn ok(self) -> Result<Self, CompletionError> {
        match self.error {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }

    /// What was received: the memory of the operation, joined if there were several segments, and cut
    /// to the length of the message.
    ///
    /// # Errors
    /// As for [`ok`](Self::ok).
    pub fn into_received(self) -> Result<Vec<u8>, CompletionError> {
        let done = self.ok()?;
        let len = done.len;
        let mut bytes = done.into_buffer().into_vec();
        bytes.truncate(len);
        Ok(bytes)
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

/// A completion without its memory, as C programs read it (`struct fi_cq_data_entry`): see
/// [`CompletionQueueOps::read_entries`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqEntry {
    /// As given when the operation was posted.
    pub context: u64,
    /// As in [`Completion`].
    pub flags: OpFlags,
    /// As in [`Completion`].
    pub len: usize,
    /// Where the memory of a receive begins, in a buffer for several messages that of the message; 0 for
    /// others.
    pub address: usize,
    /// The sender's completion data, if `flags` say that there are any.
    pub data: u64,
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
        self.0.sread(0, timeout.into())
    }

    /// `fi_cq_sread` of a queue that was opened with `WaitCond::Threshold`: waits until it has `threshold`
    /// completions, or an error among them, and gives the first. After the whole time, or after a signal, it
    /// gives what there is. Other queues wait for one completion.
    ///
    /// # Errors
    /// As for [`sread`](Self::sread).
    pub fn sread_threshold(
        &self,
        threshold: usize,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Completion> {
        self.0.sread(threshold, timeout.into())
    }

    /// The next completion, be it a success or an error, without waiting.
    ///
    /// # Errors
    /// [`Error::Empty`] when there is none.
    pub fn poll(&self) -> Result<Completion> {
        match self.read() {
            Err(Error::ErrorAvailable) => self.read_error(),
            // Who polls finds mostly none: then nothing is moved.
            Err(Error::Empty) => Err(Error::Empty),
            other => other,
        }
    }

    /// Waits for the next completion, be it a success or an error.
    ///
    /// # Errors
    /// As for [`sread`](Self::sread), without [`Error::ErrorAvailable`].
    pub fn wait(&self, timeout: impl Into<Option<Duration>>) -> Result<Completion> {
        let end = timeout.into().map(|timeout: Duration| now().after(timeout));
        loop {
            match self.sread(end.map(|end| end.until(now()))) {
                Err(Error::ErrorAvailable) => match self.read_error() {
                    // Another reader has taken it.
                    Err(Error::Empty) => {}
                    other => return other,
                },
                other => return other,
            }
        }
    }

    /// Lets all that feeds the queue go on, and reads nothing.
    pub fn progress(&self) {
        self.0.progress();
    }

    /// `fi_close`.
    ///
    /// # Errors
    /// -FI_EBUSY while endpoints are bound; the queue is as before then, and is given back.
    pub fn close(self) -> Result<(), Returned<Self>> {
        let result = self.0.close();
        Returned::check(self, result).map(drop)
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
    /// opened with `WaitObj::Fd` or `PollFd`, or with `Unspec`: then it is made when this is asked for the first time.
    ///
    /// # Errors
    /// -FI_ENOSYS for other queues; what the system says when it has no descriptor left.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.0.fd()
    }
}

impl std::fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompletionQueue").finish_non_exhaustive()
    }
}

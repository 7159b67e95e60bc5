// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The completion queue (`fi_cq(3)`): completed operations in the order of their completion,
//! errors among them.

use core::fmt;

use crate::count::Of;
use crate::flags::OpFlags;
use crate::multi_receive::Part;
use crate::operation::{List, OpId, Operations};
use crate::slab::Key;
use crate::{Errno, Error, Result};

/// Names a completion queue in its domain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CqId(pub(crate) Key);

/// An operation that succeeded (`struct fi_cq_data_entry`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// As given when it was posted.
    pub context: u64,
    /// What it was: `FI_MSG | FI_SEND`, `FI_MSG | FI_RECV`, `FI_RMA | FI_READ`, `FI_RMA | FI_WRITE`; for a
    /// peer's write `FI_RMA | FI_REMOTE_WRITE`. With `FI_REMOTE_CQ_DATA` `data` counts. `FI_MULTI_RECV`, alone or
    /// with others: no more messages go into this buffer.
    pub flags: OpFlags,
    /// Bytes received, or written by a peer; 0 for what was sent, written or read by us.
    pub len: u64,
    /// The sender's completion data.
    pub data: u64,
    /// Of a message in a buffer for several (`FI_MULTI_RECV`): where in it the message begins.
    pub offset: u64,
    /// With `FI_MULTI_RECV` in `flags`: the operation whose buffer this message was the last one in. What is
    /// left of its memory is the caller's again.
    pub buffer: Option<OpId>,
}

/// An operation that failed (`struct fi_cq_err_entry`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompletionError {
    /// As given when it was posted.
    pub context: u64,
    /// What it was.
    pub flags: OpFlags,
    /// Bytes transferred before it failed.
    pub len: u64,
    /// Bytes of the message that had no room (`olen`).
    pub overflow: u64,
    /// As in [`Completion`].
    pub offset: u64,
    /// As in [`Completion`].
    pub buffer: Option<OpId>,
    /// The sender's completion data.
    pub data: u64,
    /// Why it failed.
    pub errno: Errno,
    /// The number behind `errno`: what ended the connection, for operations that were pending then.
    pub provider_errno: i32,
}

impl CompletionError {
    /// What it has in common with successes.
    pub fn completion(&self) -> Completion {
        let Self { context, flags, len, data, offset, buffer, .. } = *self;
        Completion { context, flags, len, data, offset, buffer }
    }
}

impl fmt::Display for CompletionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { len, overflow, errno, provider_errno, .. } = *self;
        match errno {
            Errno::ETRUNC => {
                let whole = len.saturating_add(overflow);
                write!(
                    f,
                    "a message of {} for a receive of {len}: {overflow} lost; post a longer one",
                    Of(whole, "byte")
                )
            }
            Errno::ECANCELED if provider_errno != errno.raw() => {
                let cause = Errno::from_raw(provider_errno);
                write!(
                    f,
                    "canceled, because the connection is over ({cause}); its last event says why, connect anew"
                )
            }
            Errno::ECANCELED => {
                f.write_str("canceled by fi_cancel, or by closing the endpoint; post it anew")
            }
            _ => errno.fmt(f),
        }
    }
}

impl core::error::Error for CompletionError {}

/// A completion queue: a list of operations that wait to be told of.
#[derive(Default, Debug)]
pub(crate) struct CompletionQueue {
    pub(crate) entries: List,
    /// Endpoints that it is bound to, counted once for each direction.
    pub(crate) bindings: usize,
    /// Entries that are errors.
    pub(crate) failures: usize,
    /// Entries that peers made.
    pub(crate) remote: usize,
    /// How many of those it takes before peers have to wait.
    pub(crate) limit: usize,
    /// A peer waits.
    pub(crate) waited_for: bool,
}

/// Completions that peers make, by writes or by messages for one buffer, that any completion queue takes.
const LEAST: usize = 64;

impl CompletionQueue {
    pub(crate) fn new(size: usize) -> Self {
        Self { limit: size.max(LEAST), ..Self::default() }
    }

    /// Whether peers have to wait with what they would put in.
    pub(crate) fn is_full(&self) -> bool {
        self.remote >= self.limit
    }

    /// Whether peers that wait can go on. They do so with half of the room made, not for each entry.
    pub(crate) fn has_room_for_waiting(&mut self) -> bool {
        self.waited_for && self.remote <= self.limit / 2 && core::mem::take(&mut self.waited_for)
    }

    pub(crate) fn push(&mut self, ops: &mut Operations, id: OpId) {
        if let Some(op) = ops.get(id) {
            self.remote += usize::from(op.is_of_peer());
            self.failures += usize::from(op.failure.is_some());
        }
        ops.push(&mut self.entries, id);
    }

    /// `fi_cq_read`: takes the next completion.
    pub(crate) fn read(&mut self, ops: &mut Operations) -> Result<(OpId, Completion)> {
        let id = self.entries.first().ok_or(Error::Empty)?;
        let op = ops.get(id).ok_or(Error::Empty)?;
        if op.failure.is_some() {
            return Err(Error::ErrorAvailable);
        }
        let part = ops.part(id);
        let completion = Completion {
            context: op.context,
            flags: op.flags,
            len: op.len,
            data: op.data.unwrap_or_default(),
            offset: part.map_or(0, |part| part.offset),
            buffer: part.filter(|part| part.last).map(|part| part.buffer),
        };
        self.take(ops);
        Ok((id, completion))
    }

    /// `fi_cq_readerr`: takes the next completion, which is an error.
    pub(crate) fn read_error(&mut self, ops: &mut Operations) -> Result<(OpId, CompletionError)> {
        let id = self.entries.first().ok_or(Error::Empty)?;
        let op = ops.get(id).ok_or(Error::Empty)?;
        let failure = op.failure.ok_or(Error::Empty)?;
        let part = ops.part(id);
        let error = CompletionError {
            context: op.context,
            flags: op.flags,
            len: op.len,
            overflow: failure.overflow,
            offset: part.map_or(0, |part| part.offset),
            buffer: part.filter(|part| part.last).map(|part| part.buffer),
            data: op.data.unwrap_or_default(),
            errno: failure.errno,
            provider_errno: failure.provider_errno,
        };
        self.take(ops);
        Ok((id, error))
    }

    fn take(&mut self, ops: &mut Operations) {
        let Some(id) = ops.take_first(&mut self.entries) else { return };
        if let Some(op) = ops.get(id) {
            self.remote -= usize::from(op.is_of_peer());
            self.failures -= usize::from(op.failure.is_some());
        }
        if let Some(Part { buffer, last: true, .. }) = ops.part(id) {
            ops.release(buffer);
        }
        ops.release(id);
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Receives for several messages (`FI_MULTI_RECV`): messages lie in one buffer, one behind the other, until
//! what is left of it is too little.
//!
//! A message in such a buffer is an operation of its own, a *part*, which has the buffer's context. The
//! buffer's operation stays until its last part has completed: that completion carries `FI_MULTI_RECV`, and
//! gives the rest of the buffer back. If no part is left to carry it, when the next message has no room for
//! instance, the buffer's own operation completes, with that flag alone.
//!
//! Parts take places in the table of operations because peers send. So a completion queue counts them as it
//! counts peers' writes, and messages wait while it is full of unread ones.

use crate::domain::Domain;
use crate::endpoint::{Binding, EpId};
use crate::flags::OpFlags;
use crate::operation::{Extra, Failure, OpId, Operation, Operations, Role};
use crate::{Error, Result};

/// `FI_OPT_MIN_MULTI_RECV` unless it is set, bytes: a buffer with less left is given back.
pub const MIN_MULTI_RECV: u64 = 16 * 1024;

/// What the operation of a buffer has besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    /// Bytes that messages have.
    used: u64,
    /// What has to be left for another message.
    min: u64,
    /// Parts that have not completed.
    parts: u32,
    /// No message meets it any more.
    retired: bool,
    /// Where a failure is told that waits for the last part.
    binding: Option<Binding>,
}

/// What the operation of a message in a buffer has besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) buffer: OpId,
    /// Where in the buffer it begins.
    pub(crate) offset: u64,
    /// The buffer ends with it.
    pub(crate) last: bool,
}

/// A message has met a buffer for several. The next `len` bytes of what is left of the buffer's memory become
/// the memory of the message's operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Split {
    /// The operation that was posted.
    pub buffer: OpId,
    /// That of the message.
    pub part: OpId,
    /// Bytes of it, perhaps none.
    pub len: u64,
}

impl Buffer {
    pub(crate) fn new(min: u64) -> Self {
        Self { used: 0, min, parts: 0, retired: false, binding: None }
    }
}

impl Operations {
    fn buffer(&mut self, id: OpId) -> Option<&mut Buffer> {
        match self.extra_mut(id)? {
            Extra::Buffer(buffer) => Some(buffer),
            _ => None,
        }
    }

    /// What a part has besides; `None` for other operations.
    pub(crate) fn part(&self, id: OpId) -> Option<Part> {
        match (self.get(id)?.role, self.extra(id)?) {
            (Role::Part, Extra::Part(part)) => Some(*part),
            _ => None,
        }
    }

    /// Whether a message of `len` bytes goes into the buffer. The first one does, and loses what is too
    /// much; a later one that is too long goes to the next receive.
    pub(crate) fn has_room(&mut self, id: OpId, len: u64) -> bool {
        let whole = self.get(id).map_or(0, |op| op.len);
        self.buffer(id).is_none_or(|buffer| buffer.used == 0 || len <= whole - buffer.used)
    }

    /// Makes the part for a message of `len` bytes. Gives whether the buffer is used up with it, too.
    pub(crate) fn split(&mut self, id: OpId, len: u64) -> Result<(Split, bool)> {
        const STALE: Error = Error::Stale { call: "fi_recvmsg", object: "buffer" };
        let whole = self.get(id).ok_or(STALE)?;
        let (total, context, asked) = (whole.len, whole.context, whole.asked);
        let buffer = *self.buffer(id).ok_or(STALE)?;
        let room = total - buffer.used;
        let len = len.min(room);
        let mut op = Operation::new(OpFlags::MSG | OpFlags::RECV, context, len);
        (op.asked, op.role) = (asked, Role::Part);
        let extra = Extra::Part(Part { buffer: id, offset: buffer.used, last: false });
        let part = self.insert_with(op, extra)?;
        let used_up = room - len < buffer.min.max(1);
        if let Some(buffer) = self.buffer(id) {
            buffer.used += len;
            buffer.parts += 1;
            buffer.retired = used_up;
        }
        Ok((Split { buffer: id, part, len }, used_up))
    }

    /// A part has come to its end, and with it perhaps its buffer: the part says so, unless the buffer has
    /// a failure to tell. Then this gives the buffer, which completes behind the part, and where.
    pub(crate) fn part_ended(&mut self, id: OpId) -> Option<(Option<Binding>, OpId)> {
        let Part { buffer, .. } = self.part(id)?;
        let place = self.buffer(buffer)?;
        place.parts = place.parts.saturating_sub(1);
        if !place.retired || place.parts > 0 {
            return None;
        }
        let binding = place.binding;
        if self.get(buffer)?.failure.is_some() {
            return Some((binding, buffer));
        }
        if let Some(Extra::Part(part)) = self.extra_mut(id) {
            part.last = true;
        }
        if let Some(op) = self.get_mut(id) {
            // fi_msg(3): an entry "will always be generated when the buffer has been consumed".
            op.flags |= OpFlags::MULTI_RECV;
            op.asked = true;
        }
        None
    }
}

impl Domain {
    /// No more messages go into a buffer: it is used up, or failed. It is in no list now.
    pub(crate) fn retire(&mut self, binding: Option<Binding>, id: OpId, failure: Option<Failure>) {
        let Some(buffer) = self.ops.buffer(id) else { return };
        (buffer.retired, buffer.binding) = (true, binding);
        let parts = buffer.parts;
        if let Some(op) = self.ops.get_mut(id) {
            op.failure = failure;
        }
        if parts == 0 {
            self.end_buffer(binding, id);
        }
    }

    /// A buffer's own operation completes.
    pub(crate) fn end_buffer(&mut self, binding: Option<Binding>, id: OpId) {
        let Some(op) = self.ops.get_mut(id) else { return };
        // fi_cq(3): "If other flag bits are zero, the provider is reporting that the multi-recv buffer has been
        // released".
        op.flags = OpFlags::MULTI_RECV;
        if op.failure.is_some() {
            op.flags |= OpFlags::MSG | OpFlags::RECV;
        }
        (op.len, op.asked) = (0, true);
        let failure = op.failure;
        self.report(binding, id, failure);
    }

    /// The memory of a message in a buffer for several: to be asked after each command and input, and before
    /// bytes are put into the place of an operation.
    pub fn poll_split(&mut self) -> Option<Split> {
        self.splits.pop_front()
    }

    /// `fi_getopt(FI_OPT_MIN_MULTI_RECV)`, bytes.
    ///
    /// # Errors
    /// -FI_EINVAL when the endpoint is closed.
    pub fn min_multi_recv(&self, ep: EpId) -> Result<u64> {
        Ok(self.endpoint("fi_getopt", ep)?.rx.min_multi_recv)
    }

    /// `fi_setopt(FI_OPT_MIN_MULTI_RECV)`, bytes, for receives that are posted from now on.
    ///
    /// # Errors
    /// -FI_EINVAL when the endpoint is closed.
    pub fn set_min_multi_recv(&mut self, ep: EpId, min: u64) -> Result<()> {
        self.endpoint_mut("fi_setopt", ep)?.rx.min_multi_recv = min;
        Ok(())
    }
}

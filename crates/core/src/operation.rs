// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Operations: the table of all that were posted in a domain and whose completion is unread.
//!
//! An operation lives in exactly one list: its endpoint's queue while it is pending, a completion
//! queue's list once it has completed, the released list when nobody is to be told. That is how
//! each completes exactly once, and why a completion queue cannot overrun: the operation *is* the
//! completion's memory.

use alloc::vec::Vec;

use crate::flags::OpFlags;
use crate::multi_receive::{Buffer, Part};
use crate::wire::header::{Header, Kind, Segments};
use crate::{Errno, Error, Result};

/// Names an operation between post and completion; the driver's key to its memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct OpId(u32);

impl OpId {
    /// Index into a dense table.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// What has that index.
    pub fn from_index(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(Self)
    }
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) errno: Errno,
    pub(crate) provider_errno: i32,
    /// Bytes that had no room.
    pub(crate) overflow: u64,
}

impl Failure {
    /// The operation was pending when something ended it; `cause` says what.
    pub(crate) fn canceled(cause: Errno) -> Self {
        Self { errno: Errno::ECANCELED, provider_errno: cause.raw(), overflow: 0 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    next: Option<OpId>,
    /// Flags of the completion: what kind it was.
    pub(crate) flags: OpFlags,
    pub(crate) context: u64,
    /// Bytes posted; once complete, bytes transferred.
    pub(crate) len: u64,
    /// Completion data: to send, or received.
    pub(crate) data: Option<u64>,
    /// A success is reported also where only what asks for it is (`FI_COMPLETION`).
    pub(crate) asked: bool,
    /// No success is reported, and there is no context to name it by (`fi_inject`).
    pub(crate) quiet: bool,
    pub(crate) role: Role,
    /// The peer is asked for an acknowledgement.
    pub(crate) ack: bool,
    /// The peer is to make the data durable first.
    pub(crate) commit: bool,
    pub(crate) failure: Option<Failure>,
    /// How often its memory is on loan to the transport.
    pub(crate) loans: u32,
    /// Nothing touches its memory any more.
    pub(crate) done: bool,
}

/// What an operation is to receives that take several messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Nothing.
    Ordinary,
    /// It is such a receive.
    Buffer,
    /// It is one of the messages in it.
    Part,
}

impl Operation {
    pub(crate) fn new(flags: OpFlags, context: u64, len: u64) -> Self {
        Self {
            next: None,
            flags,
            context,
            len,
            data: None,
            asked: true,
            quiet: false,
            role: Role::Ordinary,
            ack: false,
            commit: false,
            failure: None,
            loans: 0,
            done: false,
        }
    }

    /// Whether a peer made it, and not the application.
    pub(crate) fn is_remote(&self) -> bool {
        self.flags.contains(OpFlags::REMOTE_WRITE)
    }

    /// Whether a peer gave it its place in the table, so that somebody has to bound how many there are.
    pub(crate) fn is_of_peer(&self) -> bool {
        self.is_remote() || self.role == Role::Part
    }

    /// Whether it is reported where receives are.
    pub(crate) fn is_incoming(&self) -> bool {
        self.flags.intersects(OpFlags::RECV | OpFlags::REMOTE_WRITE | OpFlags::MULTI_RECV)
    }
}

/// A queue of operations, linked through the table.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct List {
    head: Option<OpId>,
    tail: Option<OpId>,
    len: usize,
}

impl List {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn first(&self) -> Option<OpId> {
        self.head
    }
}

/// All operations of a domain.
#[derive(Default, Debug)]
pub(crate) struct Operations {
    table: Vec<Operation>,
    free: List,
    /// What some operations have besides, by [`OpId::index`]. Apart, so that ordinary messages do not
    /// pay for its size; as long as there has been need.
    extras: Vec<Option<Extra>>,
}

/// What only some operations have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extra {
    /// A read or write: the memory at the peer.
    Remote(Segments),
    /// A receive for several messages.
    Buffer(Buffer),
    /// One of those messages.
    Part(Part),
}

impl Operations {
    /// Makes room for `count` operations that are not there yet.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<()> {
        let missing = count.saturating_sub(self.free.len);
        self.table.try_reserve(missing).map_err(|_| Error::NoMemory("the table of operations"))
    }

    pub(crate) fn insert(&mut self, operation: Operation) -> Result<OpId> {
        let mut free = self.free;
        if let Some(id) = self.take_first(&mut free) {
            self.free = free;
            if let Some(place) = self.table.get_mut(id.index()) {
                *place = operation;
            }
            return Ok(id);
        }
        self.reserve(1)?;
        let id =
            OpId(u32::try_from(self.table.len()).map_err(|_| Error::NoMemory("the table of operations"))?);
        self.table.push(operation);
        Ok(id)
    }

    /// An operation that is not like all others.
    pub(crate) fn insert_with(&mut self, operation: Operation, extra: Extra) -> Result<OpId> {
        // Whatever place the operation gets; if there is no memory for that, it gets none.
        let missing = (self.table.len() + 1).saturating_sub(self.extras.len());
        self.extras.try_reserve(missing).map_err(|_| Error::NoMemory("the table of operations"))?;
        let id = self.insert(operation)?;
        if self.extras.len() <= id.index() {
            self.extras.resize(id.index() + 1, None);
        }
        if let Some(place) = self.extras.get_mut(id.index()) {
            *place = Some(extra);
        }
        Ok(id)
    }

    pub(crate) fn extra(&self, id: OpId) -> Option<&Extra> {
        self.extras.get(id.index())?.as_ref()
    }

    pub(crate) fn extra_mut(&mut self, id: OpId) -> Option<&mut Extra> {
        self.extras.get_mut(id.index())?.as_mut()
    }

    /// The header of the record that an operation sends.
    pub(crate) fn header(&self, id: OpId) -> Option<Header> {
        let op = self.get(id)?;
        if !op.flags.contains(OpFlags::RMA) {
            return Some(Header::message(op.len, op.data, op.ack));
        }
        let Some(&Extra::Remote(segments)) = self.extra(id) else { return None };
        let (kind, payload) = match op.flags.contains(OpFlags::READ) {
            true => (Kind::ReadRequest(segments), 0),
            false => (Kind::Write { data: op.data, segments }, op.len),
        };
        Some(Header { kind, ack: op.ack, commit: op.commit, payload })
    }

    /// Bytes of that record. As [`header`](Self::header), which has more to copy.
    pub(crate) fn record_len(&self, id: OpId) -> Option<u64> {
        let op = self.get(id)?;
        if op.flags.contains(OpFlags::RMA) {
            return self.header(id).map(|header| header.record_len());
        }
        Some(Header::message(op.len, op.data, op.ack).record_len())
    }

    pub(crate) fn get(&self, id: OpId) -> Option<&Operation> {
        self.table.get(id.index())
    }

    pub(crate) fn get_mut(&mut self, id: OpId) -> Option<&mut Operation> {
        self.table.get_mut(id.index())
    }

    pub(crate) fn release(&mut self, id: OpId) {
        let mut free = self.free;
        self.push(&mut free, id);
        self.free = free;
    }

    pub(crate) fn push(&mut self, list: &mut List, id: OpId) {
        if let Some(operation) = self.get_mut(id) {
            operation.next = None;
        }
        match list.tail.and_then(|tail| self.get_mut(tail)) {
            Some(last) => last.next = Some(id),
            None => list.head = Some(id),
        }
        list.tail = Some(id);
        list.len += 1;
    }

    pub(crate) fn take_first(&mut self, list: &mut List) -> Option<OpId> {
        let id = list.head?;
        list.head = self.next(id);
        if list.head.is_none() {
            list.tail = None;
        }
        list.len -= 1;
        Some(id)
    }

    /// The operation behind `id` in its list.
    pub(crate) fn next(&self, id: OpId) -> Option<OpId> {
        self.get(id).and_then(|operation| operation.next)
    }

    /// Takes the first operation that `wanted` picks out of `list`.
    pub(crate) fn remove(
        &mut self,
        list: &mut List,
        wanted: impl Fn(OpId, &Operation) -> bool,
    ) -> Option<OpId> {
        let mut before: Option<OpId> = None;
        let mut at = list.head;
        while let Some(id) = at {
            let operation = self.get(id)?;
            let next = operation.next;
            if wanted(id, operation) {
                match before.and_then(|before| self.get_mut(before)) {
                    Some(previous) => previous.next = next,
                    None => list.head = next,
                }
                if list.tail == Some(id) {
                    list.tail = before;
                }
                list.len -= 1;
                return Some(id);
            }
            before = at;
            at = next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::{collection::vec, prelude::*};

    #[derive(Clone, Debug)]
    enum Action {
        Insert(usize),
        /// From one list's front to another's end.
        Move(usize, usize),
        /// The n-th of a list, from wherever it is.
        Remove(usize, usize),
        Release(usize),
    }

    fn action() -> impl Strategy<Value = Action> {
        let list = || 0..3usize;
        prop_oneof![
            2 => list().prop_map(Action::Insert),
            2 => (list(), list()).prop_map(|(from, to)| Action::Move(from, to)),
            1 => (list(), 0..4usize).prop_map(|(list, at)| Action::Remove(list, at)),
            1 => list().prop_map(Action::Release),
        ]
    }

    proptest! {
        #[test]
        fn lists_do_what_queues_do(actions in vec(action(), 0..100)) {
            let mut ops = Operations::default();
            let mut lists = [List::default(); 3];
            // Contexts, which tell the operations apart.
            let mut models: [VecDeque<u64>; 3] = Default::default();
            let mut most = 0;
            for (context, action) in (0u64..).zip(actions) {
                match action {
                    Action::Insert(list) => {
                        let id = ops.insert(Operation::new(OpFlags::SEND, context, 0)).unwrap();
                        ops.push(&mut lists[list], id);
                        models[list].push_back(context);
                    }
                    Action::Move(from, to) => {
                        let id = ops.take_first(&mut lists[from]);
                        let context = models[from].pop_front();
                        prop_assert_eq!(id.map(|id| ops.get(id).unwrap().context), context);
                        if let (Some(id), Some(context)) = (id, context) {
                            ops.push(&mut lists[to], id);
                            models[to].push_back(context);
                        }
                    }
                    Action::Remove(list, at) => {
                        let wanted = models[list].remove(at);
                        let id = ops.remove(&mut lists[list], |_, op| Some(op.context) == wanted);
                        prop_assert_eq!(id.map(|id| ops.get(id).unwrap().context), wanted);
                        if let Some(id) = id {
                            ops.release(id);
                        }
                    }
                    Action::Release(list) => {
                        models[list].pop_front();
                        if let Some(id) = ops.take_first(&mut lists[list]) {
                            ops.release(id);
                        }
                    }
                }
                for (list, model) in lists.iter().zip(&models) {
                    let ids = core::iter::successors(list.first(), |&id| ops.next(id));
                    let contexts: VecDeque<_> = ids.map(|id| ops.get(id).unwrap().context).collect();
                    prop_assert_eq!((list.len(), &contexts), (model.len(), model));
                }
                most = most.max(models.iter().map(VecDeque::len).sum::<usize>());
                prop_assert_eq!(ops.table.len(), most, "places are used again");
            }
        }
    }
}

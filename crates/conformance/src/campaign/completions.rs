// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What the completion queues have to tell, operation by operation.

use kofi_core::{Errno, Error, OpFlags};

use super::model::{Kind, Op, Side};
use super::{NAMED, NAMED_MASK, Schedule, contents, done};
use crate::world::{Completion, CompletionError, World};

impl Schedule {
    pub(super) fn read_completions(&mut self) {
        let side = self.rng.usize(..self.sides.len());
        self.read_completions_of(side);
    }

    pub(super) fn read_completions_of(&mut self, side: usize) {
        let Side { tx_cq, rx_cq, srx, .. } = self.sides[side];
        for cq in [Some(tx_cq), Some(rx_cq), srx.map(|(_, unmet)| unmet)].into_iter().flatten() {
            let unmet = srx.is_some_and(|(_, unmet)| unmet == cq);
            loop {
                match self.sim.cq_read(cq) {
                    Ok(completion) => self.completed(side, completion),
                    Err(Error::ErrorAvailable) => {
                        let failed = done(self.sim.cq_readerr(cq));
                        self.failed(side, failed, unmet);
                    }
                    Err(Error::Empty) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// Marks an operation as done and gives what it was. A buffer for several messages is not done yet.
    pub(super) fn once(&mut self, side: usize, context: u64) -> (usize, Option<usize>, Kind) {
        let context = context as usize;
        let Some(op) = self.ops.get_mut(context) else { panic!("completion of nothing: {context}") };
        let done = !matches!(op.kind, Kind::Buffer { .. });
        assert!(!core::mem::replace(&mut op.done, done), "operation {context} completed twice");
        assert_eq!(op.side, side, "a completion in the wrong queue");
        (context, op.ep, op.kind.clone())
    }

    pub(super) fn completed(&mut self, side: usize, completion: Completion) {
        let Completion { context, flags, len, data, buffers, offset, rest } = completion;
        if flags.contains(OpFlags::REMOTE_WRITE) {
            assert!(flags.contains(OpFlags::RMA | OpFlags::REMOTE_CQ_DATA), "{flags:?}");
            return self.told(side, len, data);
        }
        let (context, index, kind) = self.once(side, context);
        let (kind, index) = match (kind, index) {
            (Kind::Receive { room }, _) => {
                assert!(!self.ops[context].cancelled, "a cancelled receive succeeded");
                assert!(flags.contains(OpFlags::RECV), "{flags:?}");
                self.matched(side, context);
                return self.received(context, room, len as usize, 0, flags, data, &buffers);
            }
            (Kind::Buffer { .. }, _) => {
                if !buffers.is_empty() {
                    self.in_buffer(context, offset as usize, &buffers, len as usize);
                    self.received(context, len as usize, len as usize, 0, flags, data, &buffers);
                } else {
                    assert_eq!(flags, OpFlags::MULTI_RECV);
                }
                if let Some(rest) = rest {
                    assert!(flags.contains(OpFlags::MULTI_RECV), "{flags:?}");
                    self.given_back(context, &rest, !buffers.is_empty());
                }
                return;
            }
            (_, None) => panic!("operation {context} of nobody"),
            (kind, Some(index)) => (kind, index),
        };
        assert!(!self.ops[context].cancelled, "{kind:?} was cancelled, and succeeded");
        match kind {
            Kind::Write { .. } | Kind::Read { .. } => self.accessed(index, context, &kind, flags, &buffers),
            Kind::Send { number, ack } => {
                assert!(!self.ops[context].quiet, "a quiet send was reported");
                assert!(flags.contains(OpFlags::SEND), "{flags:?}");
                self.sent(index, context, usize::from(ack));
                if ack && let Some((link, end)) = self.eps[index].link {
                    // Its receive must have completed before.
                    let receiver = self.eps.iter().position(|ep| ep.link == Some((link, 1 - end)));
                    if let Some(receiver) = receiver
                        && self.links[link].received[1 - end] <= number
                    {
                        let side = self.eps[receiver].side;
                        self.read_completions_of(side);
                        assert!(self.links[link].received[1 - end] > number, "delivered to nobody");
                    }
                }
            }
            Kind::Receive { .. } | Kind::Buffer { .. } => {}
        }
    }

    /// A message has come into a buffer for several.
    pub(super) fn in_buffer(&mut self, context: usize, offset: usize, buffers: &[Vec<u8>], len: usize) {
        let op = &mut self.ops[context];
        let Kind::Buffer { parts, .. } = &mut op.kind else { panic!("no buffer") };
        assert_eq!((buffers.len(), buffers[0].len()), (1, len), "memory of a message in buffer {context}");
        let last = parts.iter().map(|(offset, len)| offset + len).max();
        // Endpoints that share a buffer finish in any order.
        assert!(op.ep.is_none() || offset == last.unwrap_or(0), "offset {offset} behind {parts:?}");
        parts.push((offset, len));
        let side = &mut self.sides[op.side];
        side.counted += 1;
        self.tally.parts += 1;
        if op.ep.is_none() {
            side.newest = side.newest.max(context);
        } else if !op.cancelled {
            self.first(context);
        }
    }

    /// A buffer for several messages is the application's again: `part` if with one of those.
    pub(super) fn given_back(&mut self, context: usize, rest: &[u8], part: bool) {
        let op = &mut self.ops[context];
        let Kind::Buffer { room, min, parts } = &mut op.kind else { panic!("no buffer") };
        assert!(!core::mem::replace(&mut op.done, true), "buffer {context} came back twice");
        parts.sort_unstable();
        let mut end = 0;
        for (offset, len) in parts {
            assert_eq!(*offset, end, "messages in buffer {context}");
            end += *len;
        }
        assert_eq!(end + rest.len(), *room, "what is left of buffer {context}");
        assert!(
            op.ep.is_none() || !part || rest.len() < (*min).max(1),
            "buffer {context} came back too early"
        );
        self.unlist(context);
    }

    /// The receive is in no queue any more.
    pub(super) fn unlist(&mut self, context: usize) {
        let Op { side, ep, .. } = self.ops[context];
        let receives = match ep {
            Some(ep) => &mut self.eps[ep].receives,
            None => &mut self.sides[side].receives,
        };
        let at = receives.iter().position(|&op| op == context);
        let _ = at.and_then(|at| receives.remove(at));
        assert!(at.is_some(), "receive {context} was not pending");
    }

    pub(super) fn accessed(
        &mut self,
        index: usize,
        context: usize,
        kind: &Kind,
        flags: OpFlags,
        buffers: &[Vec<u8>],
    ) {
        assert!(!self.ops[context].quiet, "a quiet access was reported");
        let window = self.eps[index].link.and_then(|(link, end)| self.links[link].windows[1 - end].as_ref());
        match kind {
            Kind::Read { writes, wanted, sure } => {
                assert_eq!(flags, OpFlags::RMA | OpFlags::READ);
                let all = window.is_some_and(|window| window.writes == *writes);
                let found = buffers.concat();
                assert_eq!(found.len(), wanted.len());
                let wrong = (0..found.len()).find(|&at| (all || sure[at]) && found[at] != wanted[at]);
                assert_eq!(wrong, None, "contents of read {context}");
                self.sent(index, context, 2);
            }
            Kind::Write { writes, ack } => {
                assert_eq!(flags, OpFlags::RMA | OpFlags::WRITE);
                if let Some(window) = window
                    && let Some(mr) = window.mr
                    && (*ack && window.writes == *writes)
                {
                    assert!(done(self.sim.mr_read(mr)) == window.bytes, "write {context} is not in place");
                }
                self.sent(index, context, usize::from(*ack));
            }
            other => panic!("{other:?} is no access"),
        }
    }

    /// `unmet`: by a receive of a shared context, without any endpoint.
    pub(super) fn failed(&mut self, side: usize, failed: CompletionError, unmet: bool) {
        let CompletionError { context, flags, len, overflow, data, errno, buffers, offset, rest } = failed;
        let (context, index, kind) = self.once(side, context);
        self.tally.errors += 1;
        match kind {
            Kind::Receive { room } if errno == Errno::ETRUNC => {
                assert!(!self.ops[context].cancelled && overflow > 0, "truncated by {overflow}");
                self.matched(side, context);
                self.received(context, room, len as usize, overflow as usize, flags, data, &buffers);
            }
            Kind::Receive { .. } => {
                assert_eq!((errno, len), (Errno::ECANCELED, 0));
                match index {
                    Some(_) => self.unlist(context),
                    None if unmet => self.unmet(side, context),
                    None => {
                        assert!(!self.ops[context].cancelled, "cancelled, and met by a message");
                        self.matched(side, context);
                    }
                }
            }
            Kind::Buffer { room, .. } => {
                if errno == Errno::ETRUNC {
                    assert_eq!((offset, len as usize), (0, room), "truncated");
                    self.in_buffer(context, 0, &buffers, room);
                    self.received(context, room, room, overflow as usize, flags, data, &buffers);
                } else {
                    assert_eq!((errno, len), (Errno::ECANCELED, 0));
                    if let [part] = &buffers[..] {
                        self.in_buffer(context, offset as usize, &buffers, part.len());
                    } else if index.is_some() {
                        self.sides[side].counted += 1;
                    } else {
                        assert!(unmet, "a shared buffer failed with an endpoint");
                        self.newest_is_before(side, context);
                    }
                }
                if let Some(rest) = rest {
                    assert!(flags.contains(OpFlags::MULTI_RECV), "{flags:?}");
                    self.given_back(context, &rest, false);
                }
            }
            Kind::Send { .. } | Kind::Write { .. } | Kind::Read { .. } => {
                assert_eq!(errno, Errno::ECANCELED);
                let Some(index) = index else { panic!("operation {context} of nobody") };
                let ep = &self.eps[index];
                assert!(
                    !self.polite || self.ops[context].cancelled || ep.hurried,
                    "operation {context} failed"
                );
                if let Kind::Send { number, .. } = kind
                    && let Some((link, end)) = ep.link.filter(|_| ep.hurried)
                {
                    self.links[link].sent[end][number].cancelled = true;
                }
                let list = match kind {
                    Kind::Send { ack, .. } | Kind::Write { ack, .. } => usize::from(ack),
                    _ => 2,
                };
                let sends = &mut self.eps[index].sends[list];
                let at = sends.iter().position(|&op| op == context);
                let _ = at.and_then(|at| sends.remove(at));
                assert!(at.is_some(), "not pending");
            }
        }
    }

    /// A message has met this receive, if it is its endpoint's: it is the first that was not cancelled.
    pub(super) fn matched(&mut self, side: usize, context: usize) {
        match self.ops[context].ep {
            Some(_) => self.first(context),
            None => {
                let side = &mut self.sides[side];
                side.counted += 1;
                side.newest = side.newest.max(context);
            }
        }
        self.unlist(context);
    }

    pub(super) fn first(&self, context: usize) {
        let Some(ep) = self.ops[context].ep else { return };
        let first = self.eps[ep].receives.iter().find(|&&op| !self.ops[op].cancelled);
        assert_eq!(first, Some(&context), "a message met another receive than the first");
    }

    /// A shared receive came back without a message.
    pub(super) fn unmet(&mut self, side: usize, context: usize) {
        self.newest_is_before(side, context);
        self.unlist(context);
    }

    /// No receive that was posted after this one has met a message, unless this one was cancelled.
    pub(super) fn newest_is_before(&self, side: usize, context: usize) {
        let newest = self.sides[side].newest;
        assert!(self.ops[context].cancelled || newest <= context, "{newest} was met before {context}");
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn received(
        &mut self,
        context: usize,
        room: usize,
        len: usize,
        overflow: usize,
        flags: OpFlags,
        data: u64,
        buffers: &[Vec<u8>],
    ) {
        self.tally.messages += 1;
        let place = match self.ops[context].ep {
            Some(index) => {
                self.tally.late += u64::from(self.eps[index].leftover);
                self.eps[index].link
            }
            None => {
                self.tally.shared += 1;
                let named = flags.contains(OpFlags::REMOTE_CQ_DATA) && data & NAMED_MASK == NAMED;
                named.then_some(((data & !NAMED_MASK) as usize >> 24, data as usize >> 23 & 1))
            }
        };
        let Some((link, end)) = place else { return };
        let Some(link) = self.links.get_mut(link) else { panic!("a message for no connection: {data:x}") };
        let number = link.next(end);
        link.received[end] = number + 1;
        let Some(message) = link.sent[1 - end].get(number) else { panic!("a message that nobody sent") };
        assert_eq!(len + overflow, message.len, "length of message {number}");
        assert_eq!(overflow, message.len.saturating_sub(room), "overflow of message {number}");
        let has_data = flags.contains(OpFlags::REMOTE_CQ_DATA);
        assert_eq!(has_data.then_some(data), message.data, "completion data of message {number}");
        let mut wanted = contents(message.salt, len);
        for buffer in buffers {
            let part = buffer.len().min(wanted.len());
            assert!(buffer[..part] == wanted[..part], "contents of message {number}");
            wanted = &wanted[part..];
        }
        assert!(wanted.is_empty(), "message {number} does not fit");
    }

    /// A send succeeded: sends of its kind complete in order.
    pub(super) fn sent(&mut self, index: usize, context: usize, list: usize) {
        let ops = &self.ops;
        let sends = &mut self.eps[index].sends[list];
        while let Some(first) = sends.pop_front() {
            if first == context {
                return;
            }
            assert!(ops[first].quiet, "send {context} completed before {first}");
        }
        panic!("send {context} was not pending");
    }
}

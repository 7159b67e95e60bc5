// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What arrives: from the socket to its place.

use std::io::IoSliceMut;

use kofi_core::EpId;
use kofi_core::connection::Input;
use kofi_core::message::Step;
use rustix::io::Errno;
use smallvec::SmallVec;

use super::State;
use super::memory::memory_of;
use crate::clock::now;
use crate::provider::tcp::socket::{self, errno_of};

/// Bytes read behind those that go straight to their place: headers, and messages with them.
pub(super) const SCRATCH: usize = 16 * 1024;
/// Of those, behind a piece of a message that is as long: enough for any header.
const HEADERS: usize = 128;
/// Bytes read from one connection before others get their turn.
const READ_BUDGET: usize = 4 << 20;

impl State {
    /// A receive was posted, and bytes wait for one: they go there, or wait until more are posted. So does
    /// an application that reads many completions, and posts a receive for each. It has to come back
    /// while completions are unread, and nobody sleeps.
    pub(crate) fn receive_posted(&mut self, ep: EpId) {
        let Self { machine, connections, auto, resting, .. } = self;
        let Some(Some(connection)) = connections.get(ep.index()) else { return };
        let cqs = &connection.cqs;
        let comes_back = !*auto
            && *resting == 0
            && cqs.iter().any(|cq| machine.cq_len(cq.id()) > 0)
            && !cqs.iter().any(|cq| cq.is_armed());
        if comes_back {
            self.enqueue(ep);
        } else {
            self.service(ep);
        }
    }

    /// Reads what has arrived, as far as there is a place for it.
    pub(super) fn fill(&mut self, ep: EpId) {
        let mut budget = READ_BUDGET;
        loop {
            self.deliver(ep);
            let Some(connection) = self.connection(ep) else { return };
            let readable = connection.readable;
            if connection.kept_used < connection.kept.len() {
                if !self.use_kept(ep) {
                    break;
                }
                continue;
            }
            if !readable || self.machine.plan_read(ep).is_none() {
                break;
            }
            if budget == 0 {
                // Whoever got us here may leave before it is done.
                self.alarm.ring();
                return self.enqueue(ep);
            }
            budget = budget.saturating_sub(self.read(ep).unwrap_or(0));
        }
        let Some(connection) = self.connection(ep) else { return };
        let input = Input {
            blocked: connection.readable || connection.kept_used < connection.kept.len(),
            ended: connection.ended,
            broken: connection.broken.map(errno_of),
        };
        if self.machine.drained(ep, &input) {
            self.machine.half_closed(ep, now());
        }
    }

    /// One read from the socket: first into the place that is planned, then into the scratch memory.
    /// Gives the number of bytes, or none when nothing has come.
    pub(super) fn read(&mut self, ep: EpId) -> Option<usize> {
        let Some(plan) = self.machine.plan_read(ep) else { return Some(0) };
        if plan.direct.is_some() {
            self.split();
        }
        let Self { connections, memory, regions, .. } = self;
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return Some(0) };
        let Some(socket) = &connection.socket else {
            connection.readable = false;
            return Some(0);
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        let (mut direct, mut behind, mut other) = (0, scratch.len(), false);
        let buffers = plan.direct.and_then(|place| Some((memory_of(memory, regions, place.memory)?, place)));
        let result = match buffers {
            None => socket::recv(socket, &mut scratch),
            Some((buffers, place)) => {
                let mut pieces: SmallVec<[IoSliceMut<'_>; 8]> = SmallVec::new();
                for piece in buffers.slices_mut(place.offset, place.len) {
                    direct += piece.len();
                    pieces.push(IoSliceMut::new(piece));
                }
                // Behind a long message comes mostly another one, whose bytes are to go to their place, too.
                if direct >= behind {
                    behind = HEADERS;
                }
                pieces.push(IoSliceMut::new(scratch.get_mut(..behind).unwrap_or_default()));
                socket::recv_all(socket, &mut pieces)
            }
        };
        let room = direct + behind;
        let count = match result {
            Ok(0) => {
                connection.readable = false;
                connection.ended = true;
                self.machine.end_of_input(ep, connection.broken.map(errno_of));
                Some(0)
            }
            Ok(count) => {
                if self.hot != Some(ep) {
                    self.hot = Some(ep);
                    self.hot_hits = 0;
                    other = self.unwatched.is_some();
                }
                // A stream that gives less than asked for has no more; what comes is told of anew.
                connection.readable = count == room || connection.ended;
                let placed = count.min(direct);
                if placed > 0 {
                    self.machine.placed(ep, placed as u64);
                }
                let rest = scratch.get(..count - placed).unwrap_or_default();
                let used = self.take(ep, rest);
                self.keep(ep, rest.get(used..).unwrap_or_default());
                Some(count)
            }
            Err(Errno::INTR) => Some(0),
            Err(Errno::AGAIN) => {
                connection.readable = false;
                None
            }
            Err(errno) => {
                connection.readable = false;
                connection.ended = true;
                self.machine.transport_failed(ep, errno_of(errno));
                Some(0)
            }
        };
        self.scratch = scratch;
        if other {
            self.watch_all();
        }
        count
    }

    /// Gives bytes to the machine, and puts them where it says. Gives the number that it took.
    fn take(&mut self, ep: EpId, input: &[u8]) -> usize {
        let mut used = 0;
        while let Some(rest) = input.get(used..).filter(|rest| !rest.is_empty()) {
            match self.machine.take(ep, rest) {
                Step::Used(count) => used += count,
                Step::Place(place) => {
                    self.split();
                    let mut from = rest;
                    if let Some(buffers) = memory_of(&mut self.memory, &mut self.regions, place.memory) {
                        for piece in buffers.slices_mut(place.offset, place.len) {
                            let (bytes, tail) = from.split_at(piece.len().min(from.len()));
                            piece.copy_from_slice(bytes);
                            from = tail;
                        }
                    }
                    self.machine.placed(ep, place.len);
                    used += place.len as usize;
                }
                Step::Blocked => break,
                Step::Ended => return input.len(),
            }
        }
        used
    }

    fn keep(&mut self, ep: EpId, rest: &[u8]) {
        if rest.is_empty() {
            return;
        }
        let mut kept = std::mem::take(&mut self.spare_kept);
        kept.clear();
        if kept.try_reserve_exact(rest.len()).is_err() {
            return self.machine.out_of_memory(ep);
        }
        kept.extend_from_slice(rest);
        if let Some(connection) = self.connection(ep) {
            connection.kept = kept;
            connection.kept_used = 0;
        }
    }

    /// Copies messages that the machine kept to receives that were posted since.
    fn deliver(&mut self, ep: EpId) {
        self.split();
        while let Some((place, bytes)) = self.machine.poll_kept(ep) {
            if let Some(buffers) = memory_of(&mut self.memory, &mut self.regions, place.memory) {
                let mut rest = bytes;
                for piece in buffers.slices_mut(place.offset, place.len) {
                    let (from, tail) = rest.split_at(piece.len().min(rest.len()));
                    piece.copy_from_slice(from);
                    rest = tail;
                }
            }
            self.machine.delivered(ep);
            self.split();
        }
    }

    /// Uses bytes that were kept. `false`: they have to wait on.
    fn use_kept(&mut self, ep: EpId) -> bool {
        let Some(connection) = self.connection(ep) else { return false };
        let (kept, from) = (std::mem::take(&mut connection.kept), connection.kept_used);
        let used = self.take(ep, kept.get(from..).unwrap_or_default());
        let Some(connection) = self.connection(ep) else { return false };
        connection.kept_used = from + used;
        if connection.kept_used < kept.len() {
            connection.kept = kept;
            return false;
        }
        connection.kept_used = 0;
        if kept.capacity() > self.spare_kept.capacity() {
            self.spare_kept = kept;
        }
        true
    }
}

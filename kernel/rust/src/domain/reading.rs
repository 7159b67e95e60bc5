// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What comes from peers.

use kofi_core::connection::Input;
use kofi_core::message::Step;
use kofi_core::{EpId, Errno};

use super::{BUDGET, Locked, MAX_PIECES, State, memory_of};
use crate::sys::now;
use crate::sys::raw::Piece;

impl Locked<'_> {
    /// Reads what has arrived, as far as there is a place for it.
    pub(super) fn fill(&mut self, ep: EpId) {
        let mut budget = BUDGET;
        loop {
            self.deliver(ep);
            let Some(connection) = self.connection(ep) else { return };
            let readable = connection.readable;
            if connection.has_kept() {
                if !self.use_kept(ep) {
                    break;
                }
                continue;
            }
            if !readable || self.machine.plan_read(ep).is_none() {
                break;
            }
            if budget == 0 {
                self.enqueue(ep);
                return self.pump.kick();
            }
            budget = budget.saturating_sub(self.read(ep));
        }
        let Some(connection) = self.connection(ep) else { return };
        let input = Input {
            blocked: connection.readable || connection.has_kept(),
            ended: connection.ended,
            broken: connection.broken,
        };
        if self.machine.drained(ep, &input) {
            self.machine.half_closed(ep, now());
        }
    }

    /// One read from the socket: first into the place that is planned, then into the scratch memory. Gives the number of bytes.
    fn read(&mut self, ep: EpId) -> usize {
        let Some(plan) = self.machine.plan_read(ep) else { return 0 };
        if !self.split() {
            self.machine.out_of_memory(ep);
            return 0;
        }
        let State { machine, connections, memory, regions, pieces, scratch, .. } = &mut **self.state;
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return 0 };
        let Some(socket) = &connection.socket else {
            connection.readable = false;
            return 0;
        };
        pieces.clear();
        let mut direct = 0;
        let mut whole = true;
        if let Some(place) = plan.direct
            && let Some(found) = memory_of(memory, regions, place.memory)
        {
            for piece in found.range(place.offset, place.len) {
                if pieces.len() == MAX_PIECES {
                    whole = false;
                    break;
                }
                direct += piece.len;
                pieces.push(piece);
            }
        }
        let mut room = direct;
        if whole && pieces.len() < MAX_PIECES {
            pieces.push(Piece { base: scratch.as_mut_ptr().addr(), len: scratch.len() });
            room += scratch.len();
        }
        // SAFETY: the memory of operations and regions may be written until they are over, which takes the lock that we hold; the scratch
        // memory is ours.
        let result = unsafe { socket.recv(pieces, room) };
        match result {
            Ok(0) => {
                connection.readable = false;
                connection.ended = true;
                machine.end_of_input(ep, connection.broken);
                0
            }
            Ok(count) => {
                // A stream that gives less than asked for has no more; what comes is told of anew.
                connection.readable = count == room || connection.ended;
                let placed = count.min(direct);
                if placed > 0 {
                    machine.placed(ep, placed as u64);
                }
                let scratch = core::mem::take(scratch);
                let rest = scratch.get(..count - placed).unwrap_or_default();
                let used = self.take(ep, rest);
                self.keep(ep, rest.get(used..).unwrap_or_default());
                self.scratch = scratch;
                count
            }
            Err(Errno::EINTR) => 0,
            Err(Errno::EAGAIN) => {
                connection.readable = false;
                0
            }
            Err(errno) => {
                connection.readable = false;
                connection.ended = true;
                machine.transport_failed(ep, errno);
                0
            }
        }
    }

    /// Gives bytes to the machine, and puts them where it says. Gives the number that it took.
    fn take(&mut self, ep: EpId, input: &[u8]) -> usize {
        let mut used = 0;
        while let Some(rest) = input.get(used..).filter(|rest| !rest.is_empty()) {
            match self.machine.take(ep, rest) {
                Step::Used(count) => used += count,
                Step::Place(place) => {
                    if !self.split() {
                        self.machine.out_of_memory(ep);
                        return input.len();
                    }
                    if let Some(found) = memory_of(&self.memory, &self.regions, place.memory) {
                        // SAFETY: memory of operations and regions, as above.
                        unsafe { found.copy_in(place.offset, place.len, rest) };
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
        let Some(connection) = self.connection(ep) else { return };
        connection.kept.clear();
        connection.kept_used = 0;
        match connection.kept.try_reserve_exact(rest.len()) {
            Ok(()) => connection.kept.extend_from_slice(rest),
            Err(_) => self.machine.out_of_memory(ep),
        }
    }

    /// Copies messages that the machine kept to receives that were posted since.
    fn deliver(&mut self, ep: EpId) {
        while {
            if !self.split() {
                self.machine.out_of_memory(ep);
            }
            let State { machine, memory, regions, .. } = &mut **self.state;
            match machine.poll_kept(ep) {
                Some((place, bytes)) => {
                    if let Some(found) = memory_of(memory, regions, place.memory) {
                        // SAFETY: memory of operations and regions, as above.
                        unsafe { found.copy_in(place.offset, place.len, bytes) };
                    }
                    machine.delivered(ep);
                    true
                }
                None => false,
            }
        } {}
    }

    /// Uses bytes that were kept. `false`: they have to wait on.
    fn use_kept(&mut self, ep: EpId) -> bool {
        let Some(connection) = self.connection(ep) else { return false };
        let (kept, from) = (core::mem::take(&mut connection.kept), connection.kept_used);
        let used = self.take(ep, kept.get(from..).unwrap_or_default());
        let Some(connection) = self.connection(ep) else { return false };
        connection.kept_used = from + used;
        let waits = connection.kept_used < kept.len();
        if !waits {
            connection.kept_used = 0;
        }
        // Its memory is used again.
        connection.kept = kept;
        if !waits {
            connection.kept.clear();
        }
        !waits
    }
}

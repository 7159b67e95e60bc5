// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What goes to peers. TCP copies small pieces, and reads large ones where they are (see [`kofi_core::loan`]).

use alloc::vec::Vec;

use kofi_core::message::{Memory, Place, Segment, WritePlan};
use kofi_core::{EpId, Errno, OpId};

use super::{BUDGET, Locked, MAX_PIECES, State, memory_of};
use crate::loans::WORTH;
use crate::memory::Pieces;
use crate::sys::lease;
use crate::sys::raw::Piece;

impl Locked<'_> {
    /// Writes what is queued, as far as the socket takes it.
    pub(crate) fn flush(&mut self, ep: EpId) {
        let State { machine, connections, memory, regions, plan, pieces, loans, .. } = &mut **self.state;
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return };
        let Some(socket) = &connection.socket else { return };
        // Something is left to do that no event tells of.
        let mut left = false;
        let mut budget = BUDGET;
        while connection.writable && machine.wants_write(ep) {
            machine.plan_write(ep, plan);
            let first = plan.segments().first().and_then(worth_lending).filter(|_| connection.lends);
            let mut result = Err(Errno::EOPNOTSUPP);
            if let Some((op, place)) = first
                && let Some(found) = memory.get(op.index())
                && let Ok((index, lease)) = loans.lease(self.pump)
            {
                pieces.clear();
                pieces.extend(found.range(place.offset, place.len.min(BUDGET as u64)).take(MAX_PIECES));
                // SAFETY: the machine keeps the operation, and so its memory, until all that it lent is back.
                let (sent, events) = unsafe { socket.lend(lease, pieces) };
                if events & lease::BACK == 0 {
                    loans.lent(index, ep, op);
                    machine.lent(ep, op);
                }
                connection.lent += u64::from(sent.is_ok());
                connection.lends &= events & lease::COPIED == 0;
                result = sent;
            }
            if result == Err(Errno::EOPNOTSUPP) {
                let (total, more) =
                    gather(plan, memory, regions, connection.lends && first.is_none(), pieces);
                if pieces.is_empty() {
                    break;
                }
                // SAFETY: the plan's bytes are there, and the memory of operations and regions is not given back before they are over,
                // which takes the lock that we hold.
                result = unsafe { socket.send(pieces, total, more) };
            }
            match result {
                Ok(count) => {
                    machine.sent(ep, count);
                    budget = budget.saturating_sub(count);
                    if budget == 0 {
                        left = true;
                        break;
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    connection.writable = false;
                    machine.transmit_stalled(ep);
                }
                Err(errno) => {
                    // What the peer had sent before is still to be read.
                    connection.writable = false;
                    connection.broken = Some(errno);
                    connection.readable = true;
                    machine.write_failed(ep);
                    left = true;
                }
            }
        }
        if left {
            self.enqueue(ep);
            self.pump.kick();
        }
    }
}

/// The operation whose memory TCP is better off reading than copying. Regions are not lent: closing one would have to wait for peers.
fn worth_lending(segment: &Segment) -> Option<(OpId, Place)> {
    match segment {
        Segment::Payload(place @ Place { memory: Memory::Operation(op), len: WORTH.., .. }) => {
            Some((*op, *place))
        }
        _ => None,
    }
}

/// Lists the pieces of a plan, up to one that is to be lent, as far as that is wanted. Gives their bytes, and whether such a one follows.
fn gather(
    plan: &WritePlan,
    memory: &[Pieces],
    regions: &[Pieces],
    lend: bool,
    pieces: &mut Vec<Piece>,
) -> (usize, bool) {
    pieces.clear();
    let mut total = 0;
    for segment in plan.segments() {
        if lend && worth_lending(segment).is_some() {
            return (total, true);
        }
        match segment {
            Segment::Bytes { start, len } => {
                let Some(bytes) = plan.bytes().get(*start..*start + *len) else { break };
                if pieces.len() == MAX_PIECES {
                    break;
                }
                pieces.push(Piece { base: bytes.as_ptr().addr(), len: bytes.len() });
                total += bytes.len();
            }
            Segment::Payload(place) => {
                let Some(found) = memory_of(memory, regions, place.memory) else { break };
                let before = total;
                for piece in found.range(place.offset, place.len) {
                    if pieces.len() == MAX_PIECES {
                        break;
                    }
                    pieces.push(piece);
                    total += piece.len;
                }
                // What is listed is the beginning of the stream, without a gap.
                if ((total - before) as u64) < place.len {
                    break;
                }
            }
        }
    }
    (total, false)
}

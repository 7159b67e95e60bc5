// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What is sent: at once, or with what follows it.

use std::io::IoSlice;
use std::time::Duration;

use kofi_core::message::{Memory, Segment, Send, WritePlan};
use kofi_core::wire::header;
use kofi_core::{EpId, Result};
use rustix::io::Errno;
use smallvec::SmallVec;

use super::State;
use crate::buffer::Buffers;
use crate::clock::now;
use crate::provider::tcp::socket;

/// Pieces of one write.
pub(super) const SEGMENTS: usize = 128;
/// Bytes written to one connection before others get their turn.
const WRITE_BUDGET: usize = 4 << 20;
/// Sends up to so many bytes can wait for others, to leave with them by one write.
const DEFER_LEN: u64 = 2048;
/// So many can wait.
const DEFER_COUNT: u32 = 64;
/// An application that posts at shorter intervals is about to post more, or to read completions.
const DEFER_INTERVAL: Duration = Duration::from_micros(10);
/// After this time a send with FI_MORE wakes who sleeps.
const MORE_LIMIT: Duration = Duration::from_millis(1);

impl State {
    /// Writes an injected message at once, if nothing is to be written before it. Gives the number of its
    /// bytes that were written, header and all, and whether those are all.
    pub(crate) fn inject(&mut self, ep: EpId, send: &Send, bytes: &[u8]) -> Result<(usize, bool)> {
        let Self { machine, connections, joined, .. } = self;
        let mut header = [0; header::MAX_LEN];
        let Some(len) = machine.plan_inject(ep, send, &mut header)? else { return Ok((0, false)) };
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return Ok((0, false)) };
        // Who has not read the completions of what was sent is perhaps about to send more.
        let unread = connection.cqs.iter().any(|cq| machine.cq_len(cq.id()) > 0);
        let Some(socket) = connection.socket.as_ref().filter(|_| connection.writable && !unread) else {
            return Ok((0, false));
        };
        joined.clear();
        joined.extend_from_slice(header.get(..len).unwrap_or_default());
        joined.extend_from_slice(bytes);
        match socket::send(socket, joined) {
            Ok(count) if count == joined.len() => {
                machine.injected(ep, bytes.len() as u64);
                connection.last_send = None;
                Ok((count, true))
            }
            Ok(count) => Ok((count, false)),
            Err(Errno::INTR | Errno::AGAIN) => Ok((0, false)),
            Err(errno) => {
                self.write_broke(ep, errno);
                Ok((0, false))
            }
        }
    }

    /// Writes a send that was just posted, or lets it wait for those that are about to follow.
    ///
    /// It waits only while completions of earlier sends are unread, so that the application has to
    /// come back, and only behind posts in quick succession. Whatever makes progress writes it.
    ///
    /// With FI_MORE, it waits for the next post without, or for whatever makes progress.
    pub(crate) fn flush_or_defer(&mut self, ep: EpId, len: u64, more: bool) {
        let Self { machine, connections, auto, alarm, .. } = self;
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return };
        if more && !*auto && connection.deferred < DEFER_COUNT {
            connection.deferred += 1;
            // Nobody may come, and somebody else sleep.
            alarm.set(Some(now().after(MORE_LIMIT)));
            return self.enqueue(ep);
        }
        // Who sleeps would not come back for it.
        let unread = || connection.cqs.iter().any(|cq| machine.cq_len(cq.id()) > 0 && !cq.is_armed());
        let may_defer = len <= DEFER_LEN && !*auto && connection.deferred < DEFER_COUNT && unread();
        if may_defer {
            let now = now();
            let quick = connection.last_send.is_some_and(|last| now.until(last) < DEFER_INTERVAL);
            if quick {
                connection.last_send = Some(now);
                connection.deferred += 1;
                return self.enqueue(ep);
            }
        }
        // Who reads each completion before the next post is not about to post many: no clock for that.
        let many = may_defer || connection.deferred > 0;
        self.flush(ep);
        // Writing may have taken longer than the interval: that was not the application's time.
        if let Some(connection) = self.connection(ep) {
            connection.last_send = many.then(now);
        }
    }

    /// Writes what is queued, as far as the socket takes it.
    pub(crate) fn flush(&mut self, ep: EpId) {
        let Self { machine, connections, memory, regions, plan, joined, unwatched, .. } = self;
        let Some(Some(connection)) = connections.get_mut(ep.index()) else { return };
        let Some(socket) = &connection.socket else { return };
        // Something is left to do that no event tells of.
        let (mut left, mut choked) = (false, false);
        connection.deferred = 0;
        let mut budget = WRITE_BUDGET;
        while connection.writable && machine.wants_write(ep) {
            machine.plan_write(ep, plan);
            let total = plan.total_len();
            let sent = if total <= socket::JOIN {
                joined.clear();
                each_piece(plan, memory, regions, |piece| joined.extend_from_slice(piece));
                socket::send(socket, joined)
            } else {
                let mut pieces: SmallVec<[IoSlice<'_>; 16]> = SmallVec::new();
                each_piece(plan, memory, regions, |piece| pieces.push(IoSlice::new(piece)));
                socket::send_all(socket, &pieces)
            };
            match sent {
                Ok(count) => {
                    machine.sent(ep, count);
                    if count < total {
                        // epoll(7): that is how a stream says, too, that it takes no more for now.
                        connection.writable = false;
                        machine.transmit_stalled(ep);
                        choked = *unwatched == Some(ep);
                    }
                    budget = budget.saturating_sub(count);
                    if budget == 0 {
                        left = true;
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    connection.writable = false;
                    machine.transmit_stalled(ep);
                    choked = *unwatched == Some(ep);
                }
                Err(errno) => return self.write_broke(ep, errno),
            }
        }
        if choked {
            // An event is to tell when that ends.
            self.watch_all();
        }
        if left {
            // Whoever got us here may leave before it is done.
            self.alarm.ring();
            self.enqueue(ep);
        }
    }

    /// Writing has failed. What the peer had sent before is still to be read.
    fn write_broke(&mut self, ep: EpId, errno: Errno) {
        if let Some(connection) = self.connection(ep) {
            connection.writable = false;
            // The first one says why; later ones only that it is broken.
            connection.broken.get_or_insert(errno);
            connection.readable = true;
        }
        self.machine.write_failed(ep);
        // Whoever got us here may leave before it is done.
        self.alarm.ring();
        self.enqueue(ep);
    }
}

/// The pieces that a plan names.
fn each_piece<'a>(
    plan: &'a WritePlan,
    memory: &'a [Option<Buffers>],
    regions: &'a [Option<Buffers>],
    mut piece: impl FnMut(&'a [u8]),
) {
    for segment in plan.segments() {
        match segment {
            Segment::Bytes { start, len } => {
                piece(plan.bytes().get(*start..*start + *len).unwrap_or_default())
            }
            Segment::Payload(place) => {
                let buffers = match place.memory {
                    Memory::Operation(op) => memory.get(op.index()),
                    Memory::Region(mr) => regions.get(mr.index()),
                };
                if let Some(Some(buffers)) = buffers {
                    buffers.slices(place.offset, place.len).for_each(&mut piece);
                }
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Operations are posted and cancelled.

use kofi_core::{Errno, OpFlags};

use super::model::{Ep, Kind, Message, Op, Phase, Side, Window};
use super::{HALF, KEY, LONGEST, NAMED, Schedule, WINDOW, contents, done};
use crate::world::{ReceiveOp, RegionOp, RmaIov, SendOp, World};

impl Schedule {
    /// A random endpoint that is not closed.
    pub(super) fn pick(&mut self) -> Option<usize> {
        // Mostly one that can do something.
        let connected = self.rng.u8(..4) > 0 && self.eps.iter().any(|ep| ep.phase == Phase::Connected);
        let open = |ep: &Ep| match ep.phase {
            Phase::Connected => true,
            Phase::Closed => false,
            _ => !connected,
        };
        let count = self.eps.iter().filter(|ep| open(ep)).count();
        if count == 0 {
            return None;
        }
        let nth = self.rng.usize(..count);
        self.eps.iter().enumerate().filter(|(_, ep)| open(ep)).nth(nth).map(|(index, _)| index)
    }

    pub(super) fn len(&mut self) -> usize {
        match self.rng.u8(..100) {
            0..=49 => self.rng.usize(..64),
            50..=84 => self.rng.usize(..1000),
            85..=96 => self.rng.usize(..8192),
            _ => self.rng.usize(..LONGEST),
        }
    }

    pub(super) fn split(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut rest = bytes;
        let mut buffers = Vec::new();
        for _ in 0..self.rng.usize(..4) {
            let (piece, tail) = rest.split_at(self.rng.usize(..=rest.len()));
            buffers.push(piece.to_vec());
            rest = tail;
        }
        buffers.push(rest.to_vec());
        buffers
    }

    pub(super) fn receive(&mut self) {
        let waits = |ep: &Ep| {
            ep.link.is_some_and(|(link, end)| {
                let posted = if ep.shared { &self.sides[ep.side].receives } else { &ep.receives };
                ep.phase == Phase::Connected && self.links[link].missing(end) > posted.len()
            })
        };
        let waiting = self.eps.iter().position(waits);
        let waiting = waiting.filter(|_| self.rng.u8(..3) > 0);
        if let Some(index) = waiting.or_else(|| self.pick()) {
            // Endpoints that share are to find receives, and not only to wait for them.
            let most = if self.eps[index].shared { 16 } else { 6 };
            for _ in 0..self.rng.usize(1..most) {
                self.receive_at(index);
            }
        }
    }

    pub(super) fn receive_at(&mut self, index: usize) {
        // Mostly there is room for what comes.
        let room = if self.rng.u8(..5) == 0 {
            self.len()
        } else {
            [64, 1000, 1000, 8192, 8192, LONGEST][self.rng.usize(..6)]
        };
        self.receive_into(index, room);
    }

    pub(super) fn receive_into(&mut self, index: usize, room: usize) -> bool {
        static ZEROS: [u8; LONGEST] = [0; LONGEST];
        let context = self.ops.len();
        // A shared buffer has messages of several endpoints in it while they arrive.
        let several = self.rng.u8(..5) < if self.eps[index].shared { 3 } else { 1 };
        let mut buffers =
            if room <= 64 { self.split(&ZEROS[..room]) } else { vec![Vec::from(&ZEROS[..room])] };
        let mut flags = OpFlags::empty();
        if several {
            buffers = vec![buffers.concat()];
            flags |= OpFlags::MULTI_RECV;
        }
        flags.set(OpFlags::MORE, self.rng.u8(..4) == 0);
        let receive = ReceiveOp { buffers, flags, context: context as u64 };
        let Ep { handle, phase, side, shared, min, leftover, .. } = self.eps[index];
        let kind = |min| match several {
            true => Kind::Buffer { room, min, parts: Vec::new() },
            false => Kind::Receive { room },
        };
        if shared {
            let Some((srx, _)) = self.sides[side].srx else { return false };
            if self.allowed(|world| world.srx_recv(srx, receive), &[Errno::EAGAIN]).is_none() {
                return false;
            }
            let kind = kind(self.sides[side].min);
            self.ops.push(Op { side, ep: None, kind, cancelled: false, quiet: false, done: false });
            self.sides[side].receives.push_back(context);
            return true;
        }
        let refusals = [Errno::EAGAIN, Errno::EOPBADSTATE, Errno::ESHUTDOWN];
        if self.allowed(|world| world.recv(handle, receive), &refusals).is_none() {
            return false;
        }
        let over = matches!(phase, Phase::Over | Phase::Failed) && !leftover;
        assert!(!over, "a receive after the end");
        let ep = Some(index);
        self.ops.push(Op { side, ep, kind: kind(min), cancelled: false, quiet: false, done: false });
        self.eps[index].receives.push_back(context);
        true
    }

    pub(super) fn send(&mut self) {
        let Some(index) = self.pick() else { return };
        let count = self.rng.usize(1..6);
        self.send_at(index, count);
    }

    pub(super) fn send_at(&mut self, index: usize, count: usize) {
        for _ in 0..count {
            let (handle, phase, link) = {
                let ep = &self.eps[index];
                (ep.handle, ep.phase, ep.link)
            };
            let len = self.len();
            let salt = self.rng.u64(..);
            let ack = self.rng.u8(..4) == 0 && !self.late;
            let (inject, quiet) = (len <= 64 && self.rng.u8(..4) == 0, self.rng.u8(..8) == 0);
            let mut data = self.rng.bool().then(|| self.rng.u64(..));
            if let Some((link, end)) = link
                && self.eps.iter().any(|ep| ep.shared && ep.link == Some((link, 1 - end)))
            {
                // Where endpoints share their receives a message has to say where it came.
                data = Some(
                    NAMED
                        | (link as u64) << 24
                        | (1 - end as u64) << 23
                        | self.links[link].sent[end].len() as u64,
                );
            }
            let asked = self.rng.bool();
            let mut flags = OpFlags::empty();
            flags.set(OpFlags::MORE, self.rng.u8(..4) == 0);
            flags.set(OpFlags::DELIVERY_COMPLETE, ack);
            flags.set(OpFlags::INJECT, inject);
            flags.set(OpFlags::COMPLETION, asked);
            let quiet = quiet || self.eps[index].selective && !asked;
            let context = self.ops.len();
            let bytes = contents(salt, len);
            let buffers = if self.rng.bool() { self.split(bytes) } else { vec![bytes.to_vec()] };
            let send = SendOp { buffers, data, flags, context: context as u64, quiet };
            let refusals = [Errno::EAGAIN, Errno::ENOTCONN, Errno::ESHUTDOWN, Errno::EOPBADSTATE];
            if self.allowed(|world| world.send(handle, send), &refusals).is_none() {
                return;
            }
            self.tally.sends += 1;
            // FI_CONNECTED may be there and unread.
            assert!(matches!(phase, Phase::Connected | Phase::Starting), "a send in phase {phase:?}");
            let number = match link {
                Some((link, end)) => {
                    self.links[link].sent[end].push(Message { salt, len, data, cancelled: false });
                    self.links[link].sent[end].len() - 1
                }
                None => 0,
            };
            self.push_op(index, Kind::Send { number, ack }, quiet);
            self.eps[index].sends[usize::from(ack)].push_back(context);
        }
    }

    pub(super) fn push_op(&mut self, index: usize, kind: Kind, quiet: bool) {
        let (side, ep) = (self.eps[index].side, Some(index));
        self.ops.push(Op { side, ep, kind, cancelled: false, quiet, done: false });
    }

    pub(super) fn open_window(&mut self, side: usize, link: usize, end: usize) -> Option<Window> {
        let key = KEY | (link * 2 + end) as u64;
        let bytes = contents(key, WINDOW).to_vec();
        let domain = self.sides[side].domain;
        let at = self.rng.usize(..=WINDOW);
        let buffers = vec![bytes[..at].to_vec(), bytes[at..].to_vec()];
        let region = RegionOp { buffers, ..RegionOp::new([], key) };
        let mr = self.allowed(|world| world.mr_reg(domain, region), &[])?;
        Some(Window { mr: Some(mr), key, bytes, writes: 0, data: Vec::new(), told: 0 })
    }

    pub(super) fn close_window(&mut self) {
        if self.links.is_empty() {
            return;
        }
        let (link, end) = (self.rng.usize(..self.links.len()), self.rng.usize(..2));
        if let Some(mr) = self.links[link].windows[end].as_mut().and_then(|window| window.mr.take()) {
            done(self.sim.close_mr(mr));
        }
    }

    /// Reads and writes of the peer's window.
    pub(super) fn access(&mut self) {
        let Some(index) = self.pick() else { return };
        for _ in 0..self.rng.usize(1..6) {
            let (handle, phase, selective) = {
                let ep = &self.eps[index];
                (ep.handle, ep.phase, ep.selective)
            };
            let Some((link, end)) = self.eps[index].link else { return };
            let Some(window) = &self.links[link].windows[1 - end] else { return };
            let (mut key, writes, told) = (window.key, window.writes, window.data.len());
            let is_read = self.rng.bool();
            let limit = [10, 100, 1000][self.rng.usize(..3)];
            let mut remote = Vec::new();
            for _ in 0..self.rng.usize(1..=4) {
                let len = self.rng.usize(..limit);
                // Mostly what is only read is read.
                let from = if is_read && self.rng.u8(..3) > 0 { 0 } else { HALF };
                remote.push((from + self.rng.usize(..=HALF - len), len));
            }
            let len: usize = remote.iter().map(|(_, len)| len).sum();
            let wrong = !self.polite && self.rng.u8(..40) == 0;
            if wrong && self.rng.bool() {
                key ^= 1 << 20;
            }
            let mut segments: Vec<RmaIov> =
                remote.iter().map(|&(at, len)| RmaIov { addr: at as u64, len: len as u64, key }).collect();
            if wrong && segments[0].key & 1 << 20 == 0 {
                segments[0].addr = (WINDOW - len + 1) as u64 + self.rng.u64(..=u64::MAX / 2);
            }
            let asked = self.rng.bool();
            let mut flags = OpFlags::empty();
            flags.set(OpFlags::MORE, self.rng.u8(..4) == 0);
            flags.set(OpFlags::COMPLETION, asked);
            let context = self.ops.len();
            let refusals = [Errno::EAGAIN, Errno::ENOTCONN, Errno::ESHUTDOWN, Errno::EOPBADSTATE];
            let (kind, list, quiet) = if is_read {
                let wanted =
                    remote.iter().flat_map(|&(at, len)| window.bytes[at..at + len].to_vec()).collect();
                let sure =
                    remote.iter().flat_map(|&(at, len)| core::iter::repeat_n(at < HALF, len)).collect();
                let zeros = vec![0; len];
                let read = ReceiveOp { buffers: self.split(&zeros), flags, context: context as u64 };
                if self.allowed(|world| World::read(world, handle, read, &segments), &refusals).is_none() {
                    return;
                }
                (Kind::Read { writes, wanted, sure }, 2, selective && !asked)
            } else {
                let ack = self.rng.u8(..3) == 0;
                let quiet = self.rng.u8(..8) == 0;
                flags.set(OpFlags::DELIVERY_COMPLETE, ack && self.rng.bool());
                flags.set(OpFlags::COMMIT_COMPLETE, ack && !flags.contains(OpFlags::DELIVERY_COMPLETE));
                flags.set(OpFlags::INJECT, len <= 64 && self.rng.bool());
                let number = ((link * 2 + 1 - end) as u64) << 32 | told as u64;
                let data = self.rng.bool().then_some(number);
                let bytes = contents(self.rng.u64(..), len);
                let write =
                    SendOp { buffers: self.split(bytes), data, flags, context: context as u64, quiet };
                if self.allowed(|world| World::write(world, handle, write, &segments), &refusals).is_none() {
                    return;
                }
                if let Some(window) = &mut self.links[link].windows[1 - end] {
                    let mut rest = bytes;
                    for (at, len) in remote {
                        let (piece, tail) = rest.split_at(len);
                        window.bytes[at..at + len].copy_from_slice(piece);
                        rest = tail;
                    }
                    window.writes += 1;
                    window.data.extend(data.map(|data| (data, len)));
                }
                (Kind::Write { writes: writes + 1, ack }, usize::from(ack), quiet || selective && !asked)
            };
            self.tally.accesses += 1;
            assert!(matches!(phase, Phase::Connected | Phase::Starting), "an access in phase {phase:?}");
            self.push_op(index, kind, quiet);
            self.eps[index].sends[list].push_back(context);
        }
    }

    /// A peer's write was told.
    pub(super) fn told(&mut self, side: usize, len: u64, data: u64) {
        let (link, number) = ((data >> 32) as usize, data as u32 as usize);
        let window = self.links.get_mut(link / 2).and_then(|l| l.windows[link % 2].as_mut());
        let Some(window) = window else {
            assert!(!self.polite, "a write by nobody: {data:x}");
            return;
        };
        assert_eq!(window.told, number, "writes are told in order, once");
        assert_eq!(window.data.get(number), Some(&(data, len as usize)), "a write that was not made");
        window.told += 1;
        let ep = self.eps.iter().find(|ep| ep.link == Some((link / 2, link % 2)));
        assert!(ep.is_some_and(|ep| ep.side == side), "told to the wrong side");
    }

    /// Whether all that was written to a connection's windows is there.
    pub(super) fn windows_are_whole(&mut self, link: usize) -> bool {
        let sim = &mut self.sim;
        self.links[link].windows.iter().flatten().all(|window| {
            window.told == window.data.len()
                && window.mr.is_none_or(|mr| done(sim.mr_read(mr)) == window.bytes)
        })
    }

    pub(super) fn cancel_receive(&mut self) {
        let Some(index) = self.pick() else { return };
        let Some(&context) = self.eps[index].receives.back() else { return };
        let handle = self.eps[index].handle;
        if self.allowed(|world| world.cancel(handle, context as u64), &[Errno::ENOENT]).is_some() {
            self.cancelled(context);
        }
    }

    pub(super) fn cancel_send(&mut self) {
        let Some(index) = self.pick() else { return };
        // What was posted last is most likely to be still there. Later writes may lie on top of a write.
        let ops = &self.ops;
        let wanted = |&&op: &&usize| !ops[op].cancelled && !matches!(ops[op].kind, Kind::Write { .. });
        let Some(&context) = self.eps[index].sends.iter().flatten().filter(wanted).max() else { return };
        let Ep { handle, link, .. } = self.eps[index];
        if self.allowed(|world| world.cancel(handle, context as u64), &[Errno::ENOENT]).is_some() {
            self.cancelled(context);
            if let (Kind::Send { number, .. }, Some((link, end))) = (&self.ops[context].kind, link) {
                self.links[link].sent[end][*number].cancelled = true;
            }
        }
    }

    pub(super) fn cancel_shared(&mut self) {
        let side = self.rng.usize(..self.sides.len());
        let Side { srx: Some((srx, _)), receives, .. } = &self.sides[side] else { return };
        let (srx, Some(&context)) = (*srx, receives.back()) else { return };
        if self.allowed(|world| world.srx_cancel(srx, context as u64), &[Errno::ENOENT]).is_some() {
            self.cancelled(context);
        }
    }

    pub(super) fn cancelled(&mut self, context: usize) {
        assert!(!core::mem::replace(&mut self.ops[context].cancelled, true), "cancelled twice");
        self.tally.cancelled += 1;
    }
}

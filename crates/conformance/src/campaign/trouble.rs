// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Trouble: connections break, memory is short, strangers send what they like.

use std::collections::VecDeque;

use super::{COMMON, Schedule};
use crate::world::{Death, Faults, RawPeers, SocketAddr};

impl Schedule {
    pub(super) fn trouble(&mut self) {
        let ep = self.pick().map(|index| self.eps[index].handle);
        let death = if self.rng.bool() { Death::Killed } else { Death::Reset };
        let bytes = self.rng.u64(..2000) >> self.rng.u8(..8);
        match (self.rng.u8(..9), ep) {
            (0, Some(ep)) => self.sim.break_connection(ep),
            (1, Some(ep)) => self.sim.die_after(ep, bytes, death),
            (2, _) => self.sim.next_connect_dies_after(bytes, death),
            (3, _) => self.sim.next_accept_dies_after(bytes, death),
            (4, _) => self.sim.no_descriptors_at_accept(self.rng.usize(1..5)),
            (5, _) => self.sim.no_descriptors_at_connect(1),
            (6, _) => self.sim.fail_staging(self.rng.u64(1..20)),
            (7, _) => {
                let profile = Self::profile(&mut self.rng);
                self.sim.set_profile(profile);
            }
            _ => {
                self.sim.fail_allocation(self.rng.u64(1..30));
            }
        }
    }

    /// A stream that an honest peer could send, but for one thing.
    pub(super) fn stream(&mut self, first: u8) -> Vec<u8> {
        let mut bytes = vec![0; 32];
        (bytes[0], bytes[1]) = (3, first);
        let data = self.rng.usize(..20);
        bytes[3] = data as u8;
        bytes[24..32].copy_from_slice(&1u64.to_ne_bytes());
        bytes.extend(core::iter::repeat_n(b's', data));
        for sequence in 0..self.rng.u8(..6) {
            if self.rng.u8(..3) == 0 {
                bytes.extend(self.stranger_access(sequence));
                continue;
            }
            let (len, flags) = (self.rng.usize(..100), [0, 1, 4, 5][self.rng.usize(..4)]);
            let header = if flags & 1 == 0 { 16 } else { 24 };
            bytes.extend([3, 0, flags, 0, 0, 0, header, sequence]);
            bytes.extend((u64::from(header) + len as u64).to_ne_bytes());
            bytes.extend(core::iter::repeat_n(sequence, usize::from(header) - 16 + len));
        }
        for _ in 0..self.rng.usize(..3) {
            let at = self.rng.usize(..bytes.len());
            bytes[at] = match self.rng.u8(..3) {
                0 => self.rng.u8(..),
                1 => bytes[at] ^ 1 << self.rng.u8(..8),
                _ => [0, 1, 2, 16, 24, 255][self.rng.usize(..6)],
            };
        }
        if self.rng.bool() {
            bytes.truncate(self.rng.usize(..=bytes.len()));
        }
        bytes
    }

    /// A record about memory.
    pub(super) fn stranger_access(&mut self, sequence: u8) -> Vec<u8> {
        let op = [2, 2, 4, 4, 3][self.rng.usize(..5)];
        let (segments, flags) = match op {
            2 => (self.rng.u8(1..=4), 0),
            3 => (0, 0),
            _ => (self.rng.u8(1..=4), [0, 1, 4, 5, 8][self.rng.usize(..5)]),
        };
        let header = 16 + 8 * (flags & 1) + 24 * segments;
        let mut rest = vec![0xff; 8 * usize::from(flags & 1)];
        let mut total = 0;
        for _ in 0..segments {
            let len = self.rng.u64(..16);
            for word in [self.rng.u64(..50), len, if self.rng.u8(..8) == 0 { 2 } else { COMMON }] {
                rest.extend(word.to_ne_bytes());
            }
            total += if op == 4 { len } else { 0 };
        }
        let mut bytes = vec![3, op, flags, 0, 0, segments, header, sequence];
        bytes.extend((u64::from(header) + total).to_ne_bytes());
        bytes.extend(rest);
        bytes.extend(vec![b'w'; total as usize]);
        bytes
    }

    pub(super) fn pieces(&mut self, bytes: &[u8]) -> VecDeque<Vec<u8>> {
        let mut rest = bytes;
        let mut pieces = VecDeque::new();
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(self.rng.usize(1..=rest.len()));
            pieces.push_back(piece.to_vec());
            rest = tail;
        }
        pieces
    }

    pub(super) fn stranger(&mut self) {
        if self.raws.len() > 8 {
            return;
        }
        let address = self.listeners[self.rng.usize(..self.listeners.len())].address;
        let raw = RawPeers::connect(&mut self.sim, address);
        let bytes = self.stream(0);
        let pieces = self.pieces(&bytes);
        self.raws.push((raw, pieces));
    }

    pub(super) fn hostile_listener(&mut self) -> SocketAddr {
        if self.raw_listeners.is_empty() {
            let address = SocketAddr::from(([198, 51, 100, 1], 0));
            let listener = RawPeers::listen(&mut self.sim, address);
            self.raw_listeners.push(listener);
        }
        self.raw_listeners[0].1
    }

    /// Strangers say a piece more, or go.
    pub(super) fn feed_strangers(&mut self) {
        for index in 0..self.raw_listeners.len() {
            while let Some(raw) = RawPeers::accept(&mut self.sim, self.raw_listeners[index].0) {
                let first = [1, 1, 1, 6, 0][self.rng.usize(..5)];
                let bytes = self.stream(first);
                let pieces = self.pieces(&bytes);
                self.raws.push((raw, pieces));
            }
        }
        for index in 0..self.raws.len() {
            if self.rng.bool() {
                continue;
            }
            let raw = self.raws[index].0;
            if self.rng.bool() {
                RawPeers::read(&mut self.sim, raw);
            }
            match self.raws[index].1.pop_front() {
                Some(piece) => RawPeers::write(&mut self.sim, raw, &piece),
                None => match self.rng.u8(..40) {
                    0 => self.sim.finish(raw),
                    1 => RawPeers::close(&mut self.sim, raw),
                    2 => RawPeers::reset(&mut self.sim, raw),
                    _ => {}
                },
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Two domains, joined by a pipe whose bytes are changed on their way.
//!
//! Input: a script. Until a byte is changed the two must understand each other; after that each must still
//! keep its own promises, as in `connection`.

use core::time::Duration;

use kofi_core::{Reason, State};

use crate::connection::Side;
use crate::driver::Pipe;
use crate::script::Script;

struct World {
    sides: [Side; 2],
    /// By the side that writes; what arrives is kept to be read a second time.
    pipes: [Pipe; 2],
    arrived: [Vec<u8>; 2],
    /// Whether somebody has changed something, so that the two may come apart.
    tampered: bool,
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let sides = [Side::new(true, true, &mut script), Side::new(false, true, &mut script)];
    let mut world = World { sides, pipes: Default::default(), arrived: Default::default(), tampered: false };
    while !script.is_empty() {
        let what = script.byte();
        let side = usize::from(what & 1);
        match what >> 1 & 15 {
            0..=3 => world.round(side, usize::MAX, usize::MAX),
            4..=5 => world.round(side, script.length(), script.length()),
            6..=12 => world.sides[side].act(&mut script),
            13 => world.tamper(side, &mut script),
            14 => {
                let step = [1, 1_000, 5_000, 10_000][script.below(4)];
                world.pass(Duration::from_millis(step));
            }
            _ if script.byte() < 64 => {
                world.tampered = true;
                if script.flag() {
                    world.sides[side].suffer(&mut script);
                } else {
                    world.pipes[side].ended = true;
                }
            }
            _ => {}
        }
    }
    world.finish();
}

impl World {
    fn pass(&mut self, time: Duration) {
        for side in &mut self.sides {
            side.host.now = side.host.now.after(time);
        }
    }

    fn round(&mut self, side: usize, write: usize, read: usize) {
        let [first, second] = &mut self.pipes;
        let (outgoing, incoming) = if side == 0 { (first, second) } else { (second, first) };
        let before: Vec<u8> = incoming.bytes.iter().copied().collect();
        self.sides[side].round(outgoing, incoming, write, read);
        // A pipe that is abandoned loses its bytes without their being read, at its end.
        let left = incoming.bytes.len();
        self.arrived[1 - side].extend(&before[..before.len() - left]);
    }

    /// Changes bytes on their way.
    fn tamper(&mut self, side: usize, script: &mut Script<'_>) {
        let bytes = &mut self.pipes[side].bytes;
        let at = usize::from(script.byte());
        let Some(at) = at.checked_rem(bytes.len()) else { return };
        self.tampered = true;
        match script.byte() % 5 {
            0 => bytes[at] ^= 1 << (script.byte() & 7),
            1 => bytes[at] = script.byte(),
            2 => bytes.insert(at, script.byte()),
            3 => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }

    /// Until nothing moves any more.
    fn settle(&mut self) {
        let state = |world: &Self| {
            let side = |side: &Side| (side.state(), side.host.done.len(), side.host.open);
            let pipe = |pipe: &Pipe| (pipe.log.len(), pipe.bytes.len());
            (world.sides.each_ref().map(side), world.pipes.each_ref().map(pipe))
        };
        loop {
            let before = state(self);
            for side in [0, 1, 0, 1] {
                self.round(side, usize::MAX, usize::MAX);
            }
            if state(self) == before {
                return;
            }
            assert!(self.pipes.iter().all(|pipe| pipe.log.len() < 10_000_000), "it goes on for ever");
        }
    }

    fn finish(mut self) {
        self.settle();
        // Somebody must end it, or it goes on.
        let up = |side: &Side| matches!(side.state(), Some(State::Connected | State::Draining));
        if self.sides.iter().all(up) {
            let host = &mut self.sides[0].host;
            host.end_of_stream(host.ep.unwrap());
        }
        for _ in 0..3 {
            self.pass(Duration::from_secs(60));
            self.settle();
        }
        for side in [0, 1] {
            assert!(self.sides[side].is_over(), "side {side} hangs: {:?}", self.sides[side].state());
            let [first, second] = &mut self.pipes;
            let (outgoing, incoming) = if side == 0 { (first, second) } else { (second, first) };
            self.sides[side].close(outgoing, incoming);
        }
        for side in [0, 1] {
            let arrived = &self.arrived[1 - side];
            self.sides[side].check(arrived, &self.pipes[side].log, side == 0);
            if !self.tampered {
                assert!(self.pipes[1 - side].log.starts_with(arrived));
                let reason = self.sides[side].reason();
                assert!(!matches!(reason, Some(Reason::Protocol(_))), "{reason:?}");
            }
        }
    }
}

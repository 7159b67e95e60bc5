// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The end of a schedule: all that was posted comes to its end, an honest client gets through, and
//! everything closes.

use core::time::Duration;

use super::model::{Ep, Kind, Listener, Op, Phase, Side};
use super::{END, HONEST, LONGEST, Schedule, busy, done};
use crate::allocator;
use crate::world::{Faults, RawPeers, World};

impl Schedule {
    /// Trouble is over: everything has to come to its end now.
    pub(super) fn finish(&mut self) {
        allocator::fail(0);
        self.sim.calm();
        let polite = self.polite;
        let end = self.sim.now() + END;
        while self.sim.now() < end {
            self.feed_strangers();
            self.read_all();
            if polite && self.everything_arrived() {
                break;
            }
            let left = end - self.sim.now();
            if !self.sim.step(left) {
                break;
            }
        }
        self.read_all();
        self.drop_held();
        self.run_for(END);
        self.read_all();
        for index in 0..self.eps.len() {
            let phase = self.eps[index].phase;
            assert!(phase != Phase::Starting, "endpoint {index} still connects");
        }
        for (index, ep) in self.eps.iter().enumerate() {
            let Some((link, end)) = ep.link.filter(|_| ep.phase == Phase::Connected) else { continue };
            let other = self.eps.iter().find(|other| other.link == Some((link, 1 - end)));
            let gone = other.is_none_or(|other| other.phase != Phase::Connected);
            assert!(!gone, "endpoint {index} does not notice that its peer has gone");
        }
        if polite {
            if !self.everything_arrived() {
                for (index, ep) in self.eps.iter().enumerate() {
                    let link = ep.link.map(|(link, end)| {
                        let link = &self.links[link];
                        (end, link.sent[1 - end].len(), link.received[end])
                    });
                    let (receives, sends) = (&ep.receives, &ep.sends);
                    self.sim.note(|| format!("{index}: {:?} {link:?} {receives:?} {sends:?}", ep.phase));
                }
                panic!("not all that was sent has arrived");
            }
            self.end_politely();
        }
        self.welcoming = true;
        for index in 0..self.listeners.len() {
            if self.listeners[index].open {
                self.honest_client(index);
            }
        }
        self.close_everything();
    }

    pub(super) fn read_all(&mut self) {
        for side in 0..self.sides.len() {
            self.read_events_of(side);
            self.read_completions_of(side);
        }
        while self.polite && !self.held.is_empty() {
            self.decide_held();
        }
    }

    /// Posts the receives that are missing; gives whether nothing is on its way any more.
    pub(super) fn everything_arrived(&mut self) -> bool {
        let mut all = true;
        for index in 0..self.eps.len() {
            let ep = &self.eps[index];
            all &= ep.phase != Phase::Starting;
            all &= ep.sends.iter().flatten().all(|&op| self.ops[op].quiet);
            if let Some((link, end)) = ep.link {
                let missing = self.links[link].missing(end);
                all &= missing == 0;
                let posted = if ep.shared { &self.sides[ep.side].receives } else { &ep.receives };
                for _ in posted.len()..missing {
                    if !self.receive_into(index, LONGEST) {
                        break;
                    }
                }
            }
        }
        // That takes long to look at, and is mostly true by now.
        all && (0..self.links.len()).all(|link| self.windows_are_whole(link))
    }

    /// Each connection ends by a shutdown from one side, and both are told.
    pub(super) fn end_politely(&mut self) {
        // All or none: messages of others may take shared receives.
        self.late = self.rng.u8(..4) == 0;
        for index in 0..self.eps.len() {
            let Some((link, 0)) = self.eps[index].link else { continue };
            let other = self.eps.iter().position(|ep| ep.link == Some((link, 1)));
            if self.eps[index].phase != Phase::Connected {
                continue;
            }
            let other = other.unwrap_or_else(|| panic!("a connection with one end"));
            let ends = [index, other];
            for end in ends {
                self.eps[end].shut = true;
            }
            let which = self.rng.usize(..2);
            let first = ends[which];
            // A shutdown sends what is queued, and waits for what is to be acknowledged: what is received only
            // after the end cannot be.
            self.eps[first].hurried = self.late;
            for _ in 0..self.rng.usize(..4) {
                if self.late || self.receive_into(ends[1 - which], LONGEST) {
                    self.send_at(first, 1);
                }
            }
            self.shut_down(first);
        }
        self.run_for(END);
        self.read_all();
        let end = self.sim.now() + END;
        while !self.everything_arrived() {
            assert!(self.sim.now() < end, "a shutdown has lost something");
            self.sim.step(Duration::from_secs(1));
            self.read_all();
        }
        for (index, ep) in self.eps.iter().enumerate() {
            assert!(ep.phase != Phase::Connected || ep.link.is_none(), "endpoint {index} was not shut down");
        }
    }

    /// A client that does everything right gets through.
    pub(super) fn honest_client(&mut self, listener: usize) {
        let Listener { side: server, address, .. } = self.listeners[listener];
        let client = self.rng.usize(..self.sides.len());
        let was_polite = core::mem::replace(&mut self.polite, true);
        let Some(index) = self.new_ep(client, None) else { panic!("no endpoint") };
        let handle = self.eps[index].handle;
        let mut asked = HONEST.to_vec();
        asked.extend((index as u32).to_ne_bytes());
        self.eps[index].asked = asked.clone();
        self.eps[index].phase = Phase::Starting;
        done(World::connect(&mut self.sim, handle, Some(address), &asked));
        let end = self.sim.now() + END;
        while self.eps[index].phase == Phase::Starting && self.sim.now() < end {
            self.sim.step(Duration::from_secs(1));
            // A stranger that lingers may end now, and that is no fault of this client.
            self.polite = false;
            self.read_events_of(server);
            self.read_events_of(client);
            while !self.held.is_empty() {
                self.decide_held();
            }
        }
        self.polite = was_polite;
        let phase = self.eps[index].phase;
        assert!(phase == Phase::Connected, "an honest client does not get through: {phase:?}");
    }

    pub(super) fn close_everything(&mut self) {
        for side in 0..self.sides.len() {
            let Side { fabric, eq, .. } = self.sides[side];
            busy(self.sim.close_fabric(fabric));
            let eps = self.eps.iter().any(|ep| ep.side == side && ep.phase != Phase::Closed);
            let listens = self.listeners.iter().any(|listener| listener.side == side && listener.open);
            if eps || listens {
                busy(self.sim.close_eq(eq));
            }
            let shares = |ep: &Ep| ep.side == side && ep.shared && ep.phase != Phase::Closed;
            if let Some((srx, unmet)) = self.sides[side].srx
                && self.eps.iter().any(shares)
            {
                busy(self.sim.close_srx(srx));
                busy(self.sim.close_cq(unmet));
            }
        }
        let mut order: Vec<usize> = (0..self.eps.len()).collect();
        self.rng.shuffle(&mut order);
        let (early, late) = order.split_at(self.rng.usize(..=order.len()));
        for &index in early {
            self.close_open_ep(index);
        }
        for index in 0..self.listeners.len() {
            if core::mem::replace(&mut self.listeners[index].open, false) {
                done(self.sim.close_pep(self.listeners[index].pep));
            }
        }
        for &index in late {
            self.close_open_ep(index);
        }
        self.drop_held();
        for index in 0..self.raws.len() {
            RawPeers::close(&mut self.sim, self.raws[index].0);
        }
        self.run_for(Duration::from_secs(1));
        self.read_all();
        self.drop_held();
        for side in 0..self.sides.len() {
            if let Some((srx, unmet)) = self.sides[side].srx {
                busy(self.sim.close_domain(self.sides[side].domain));
                done(self.sim.close_srx(srx));
                self.read_completions_of(side);
                done(self.sim.close_cq(unmet));
                self.sides[side].srx = None;
            }
        }
        if let Some(op) = self.ops.iter().position(|op| !op.done && !op.quiet) {
            panic!("operation {op} ({:?}) never completed", self.ops[op].kind);
        }
        for link in &mut self.links {
            for mr in link.windows.iter_mut().flatten().filter_map(|window| window.mr.take()) {
                done(self.sim.close_mr(mr));
            }
        }
        for (index, side) in self.sides.iter().enumerate() {
            // Of receives that are shared, or for several messages, counts what has come.
            let once =
                |op: &&Op| op.side == index && op.ep.is_some() && !matches!(op.kind, Kind::Buffer { .. });
            let posted = self.ops.iter().filter(once).count() as u64 + side.counted;
            let counted = done(self.sim.cntr_read(side.counter)) + done(self.sim.cntr_readerr(side.counter));
            assert_eq!(counted, posted, "operations counted at side {index}");
            done(self.sim.close_cntr(side.counter));
            busy(self.sim.close_domain(side.domain));
            done(self.sim.close_mr(side.common));
        }
        let footprint = self.sim.footprint();
        assert_eq!(footprint, crate::simulator::Footprint::default(), "something is left");
        for side in 0..self.sides.len() {
            let Side { fabric, domain, eq, tx_cq, rx_cq, .. } = self.sides[side];
            busy(self.sim.close_domain(domain));
            done(self.sim.close_cq(tx_cq));
            if rx_cq != tx_cq {
                done(self.sim.close_cq(rx_cq));
            }
            done(self.sim.close_domain(domain));
            busy(self.sim.close_fabric(fabric));
            done(self.sim.close_eq(eq));
            done(self.sim.close_fabric(fabric));
        }
    }

    pub(super) fn close_open_ep(&mut self, index: usize) {
        if self.eps[index].phase != Phase::Closed {
            self.close_ep(index);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Connections are asked for, accepted and rejected, and what the event queues tell of them.

use std::collections::VecDeque;

use kofi_core::{EndpointAttr, Errno, Error, OpFlags, Reason};

use super::model::{Ep, Link, Phase};
use super::{HONEST, Schedule, contents, done};
use crate::world::{Endpoint, Event, Faults, Object, Request, SocketAddr, World};

impl Schedule {
    pub(super) fn new_ep(&mut self, side: usize, request: Option<Request>) -> Option<usize> {
        let attr = EndpointAttr {
            tx_size: self.rng.usize(1..40),
            rx_size: self.rng.usize(1..40),
            total_buffered_recv: [0, 100, 3000, 1 << 20][self.rng.usize(..4)],
            ..self.sim.endpoint_attr()
        };
        let counted = OpFlags::SEND | OpFlags::RECV | OpFlags::READ | OpFlags::WRITE;
        let (domain, eq, tx_cq, rx_cq, counter) = {
            let side = &self.sides[side];
            (side.domain, side.eq, side.tx_cq, side.rx_cq, side.counter)
        };
        let handle = self.allowed(|world| world.endpoint(domain, &attr, request), &[Errno::EINVAL])?;
        let srx = self.sides[side].srx.map(|(srx, _)| srx).filter(|_| self.rng.u8(..4) > 0);
        let selective = self.rng.u8(..) < 50;
        let tx = if selective { OpFlags::SELECTIVE_COMPLETION } else { OpFlags::empty() } | OpFlags::TRANSMIT;
        let bound = self.allowed(
            |world| {
                world.ep_bind_eq(handle, eq, OpFlags::empty())?;
                world.ep_bind_cq(handle, tx_cq, tx)?;
                world.ep_bind_cq(handle, rx_cq, OpFlags::RECV)?;
                if let Some(srx) = srx {
                    world.ep_bind_srx(handle, srx, OpFlags::empty())?;
                }
                world.ep_bind_cntr(handle, counter, counted)
            },
            &[],
        );
        if bound.is_none() {
            done(self.sim.close_ep(handle));
            return None;
        }
        let limits = self.limits();
        done(self.sim.set_ep_limits(handle, limits));
        let min = [0, 10, 500, 16 * 1024][self.rng.usize(..4)];
        done(self.sim.set_min_multi_recv(handle, min as u64));
        self.eps.push(Ep {
            handle,
            side,
            phase: Phase::Idle,
            leftover: false,
            hurried: false,
            link: None,
            shared: srx.is_some(),
            min,
            receives: VecDeque::new(),
            sends: Default::default(),
            selective,
            asked: Vec::new(),
            rejected: None,
            shut: false,
        });
        Some(self.eps.len() - 1)
    }

    pub(super) fn connect(&mut self) {
        if self.eps.iter().filter(|ep| ep.phase != Phase::Closed).count() >= self.most_eps {
            return;
        }
        let side = self.rng.usize(..self.sides.len());
        let address = match self.rng.u8(..20) {
            0 if !self.polite => self.sim.closed_address(crate::world::Process(0)),
            1 if !self.polite => {
                let address = SocketAddr::from(([192, 0, 2, 1], 7));
                self.sim.silence(address);
                address
            }
            2..=3 if !self.polite => self.hostile_listener(),
            _ => {
                let listener = self.rng.usize(..self.listeners.len());
                self.listeners[listener].address
            }
        };
        let Some(index) = self.new_ep(side, None) else { return };
        let mut asked = HONEST.to_vec();
        asked.extend((index as u32).to_ne_bytes());
        let extra = [0, 0, 1, 200, 248][self.rng.usize(..5)];
        asked.extend_from_slice(contents(index as u64, extra));
        let handle = self.eps[index].handle;
        if self.rng.bool() && self.allowed(|world| world.enable(handle), &[]).is_some() {
            self.receive_at(index);
        }
        self.eps[index].asked = asked.clone();
        if self.allowed(|world| World::connect(world, handle, Some(address), &asked), &[]).is_some() {
            self.eps[index].phase = Phase::Starting;
        }
    }

    pub(super) fn decide(&mut self, side: usize, request: Request, data: Vec<u8>) {
        let asker = match data.first_chunk::<8>() {
            Some(&[b'k', b'o', b'f', b'i', a, b, c, d]) => {
                let index = u32::from_ne_bytes([a, b, c, d]) as usize;
                self.eps.get(index).filter(|ep| ep.asked == data).map(|_| index)
            }
            _ => None,
        };
        let len = [0, 3, 256][self.rng.usize(..3)];
        let answer = contents(self.rng.u64(..), len);
        let late = [Errno::EINVAL, Errno::ETIMEDOUT];
        if !self.welcoming && self.rng.u8(..10) == 0 {
            match (self.allowed(|world| world.reject(request, answer), &late), asker) {
                (None, _) => self.held.push((side, request, data)),
                (Some(()), Some(asker)) => self.eps[asker].rejected = Some(answer.to_vec()),
                (Some(()), None) => {}
            }
            return;
        }
        let Some(index) = self.new_ep(side, Some(request)) else {
            self.held.push((side, request, data));
            return;
        };
        let handle = self.eps[index].handle;
        if self.rng.bool() && self.allowed(|world| world.enable(handle), &[]).is_some() {
            self.receive_at(index);
        }
        if let Some(asker) = asker {
            let link = self.links.len();
            let windows = [self.open_window(self.eps[asker].side, link, 0), self.open_window(side, link, 1)];
            self.links.push(Link { answer: answer.to_vec(), windows, ..Link::default() });
            self.eps[index].link = Some((link, 1));
            self.eps[asker].link = Some((link, 0));
        }
        match self.allowed(|world| World::accept(world, handle, answer), &late) {
            Some(()) => self.eps[index].phase = Phase::Starting,
            None => {
                self.eps[index].link = None;
                if let Some(asker) = asker {
                    self.eps[asker].link = None;
                }
                self.close_ep(index);
                self.held.push((side, request, data));
            }
        }
    }

    pub(super) fn decide_held(&mut self) {
        if !self.held.is_empty() {
            let index = self.rng.usize(..self.held.len());
            let (side, request, data) = self.held.swap_remove(index);
            self.decide(side, request, data);
        }
    }

    pub(super) fn drop_held(&mut self) {
        for (_, request, _) in core::mem::take(&mut self.held) {
            self.allowed(|world| world.reject(request, &[]), &[Errno::EINVAL, Errno::ETIMEDOUT]);
        }
    }

    pub(super) fn read_events(&mut self) {
        let side = self.rng.usize(..self.sides.len());
        self.read_events_of(side);
    }

    pub(super) fn read_events_of(&mut self, side: usize) {
        let mut requests = 0;
        loop {
            match self.sim.eq_read(self.sides[side].eq) {
                Ok(Event::ConnectionRequest { request: Some(request), data, .. }) => {
                    requests += 1;
                    assert!(requests <= self.sides[side].eq_size, "more requests than the queue's size");
                    match self.rng.u8(..10) {
                        0 if !self.polite => self.held.push((side, request, data)),
                        _ => self.decide(side, request, data),
                    }
                }
                Ok(Event::Connected { ep, data }) => {
                    let index = self.index(ep);
                    let ep = &mut self.eps[index];
                    assert_eq!(ep.phase, Phase::Starting, "FI_CONNECTED");
                    ep.phase = Phase::Connected;
                    self.tally.connections += 1;
                    match ep.link {
                        Some((link, 0)) => assert!(self.links[link].answer == data, "the answer's data"),
                        Some(_) => assert!(data.is_empty(), "data at the passive side"),
                        None => {}
                    }
                }
                Ok(Event::Shutdown { ep, reason }) => {
                    let index = self.index(ep);
                    assert_eq!(self.eps[index].phase, Phase::Connected, "FI_SHUTDOWN");
                    assert!(!self.polite || self.eps[index].shut, "FI_SHUTDOWN that nobody asked for");
                    self.eps[index].phase = Phase::Over;
                    self.eps[index].leftover = matches!(reason, Some(Reason::Unreceived(_)));
                    self.all_complete(index);
                }
                Ok(other) => panic!("{other:?}"),
                Err(Error::Empty) => return,
                Err(Error::ErrorAvailable) => {
                    let error = done(self.sim.eq_readerr(self.sides[side].eq, OpFlags::empty()));
                    let Object::Endpoint(ep) = error.about else { panic!("{error:?}") };
                    let index = self.index(ep);
                    assert_eq!(self.eps[index].phase, Phase::Starting, "{error:?}");
                    let rejected = self.eps[index].rejected.take();
                    assert!(!self.polite || rejected.is_some(), "{error:?}");
                    if !error.data.is_empty() && self.eps[index].link.is_none() && rejected.is_some() {
                        assert_eq!(Some(error.data), rejected, "the reject's data");
                    }
                    self.eps[index].phase = Phase::Failed;
                    self.tally.failures += 1;
                    self.all_complete(index);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(super) fn index(&self, handle: Endpoint) -> usize {
        self.eps.iter().position(|ep| ep.handle == handle).unwrap_or_else(|| panic!("{handle:?}: unknown"))
    }

    /// The endpoint has ended: nothing of it is pending once its queues have been read.
    pub(super) fn all_complete(&mut self, index: usize) {
        let side = self.eps[index].side;
        self.read_completions_of(side);
        let ep = &self.eps[index];
        let receives = ep.receives.len();
        // What was posted after the end, be that known or not, meets what came before.
        let late = ep.leftover && ep.phase == Phase::Over;
        assert!(receives == 0 || late, "{receives} receives of endpoint {index} are pending after its end");
        let silent = |&&op: &&usize| !self.ops[op].quiet;
        let sends = ep.sends.iter().flatten().filter(silent).count();
        assert!(sends == 0, "{sends} sends of endpoint {index} are pending after its end");
    }

    pub(super) fn end_one(&mut self) {
        let Some(index) = self.pick() else { return };
        if self.rng.bool() {
            self.close_ep(index);
        } else {
            self.shut_down(index);
        }
    }

    pub(super) fn shut_down(&mut self, index: usize) {
        let handle = self.eps[index].handle;
        let refusals = [Errno::ENOTCONN, Errno::EOPBADSTATE];
        if self.allowed(|world| world.shutdown(handle, 0), &refusals).is_some() {
            self.eps[index].shut = true;
        }
    }

    pub(super) fn close_ep(&mut self, index: usize) {
        let handle = self.eps[index].handle;
        done(self.sim.close_ep(handle));
        self.all_complete(index);
        self.eps[index].phase = Phase::Closed;
    }

    pub(super) fn close_listener(&mut self) {
        if self.rng.u8(..4) > 0 {
            return;
        }
        let index = self.rng.usize(..self.listeners.len());
        if core::mem::replace(&mut self.listeners[index].open, false) {
            done(self.sim.close_pep(self.listeners[index].pep));
            self.open_listener();
        }
    }
}

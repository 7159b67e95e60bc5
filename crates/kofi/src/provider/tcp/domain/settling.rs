// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What the machine has to say after each step: events, transports to be closed, memory that is free.

use std::sync::{Arc, Weak};

use kofi_core::{EndpointStatistics, Entry, EpId, Event, TransportCommand};

use super::State;
use super::connection::Connection;
use crate::clock::now;
use crate::event_queue::EqShared;
use crate::notice::{self, Notice, Subject, What};
use crate::provider::tcp::completion_queue::CqShared;
use crate::provider::tcp::socket;

impl State {
    /// Does what the machine has to say: transports to be closed, events, memory that is free.
    pub(crate) fn settle(&mut self) {
        self.split();
        while let Some((ep, command)) = self.machine.poll_transport() {
            if command == TransportCommand::EndOutput {
                if let Some(Connection { socket: Some(socket), .. }) = self.connection_ref(ep) {
                    socket::finish(socket);
                }
                self.notify(ep);
            } else if let Some(connection) = self.connection(ep) {
                connection.kept = Vec::new();
                connection.kept_used = 0;
                let (socket, readable) = (connection.socket.take(), connection.readable);
                let cqs = connection.cqs.clone();
                connection.cntrs.iter().for_each(|cntr| cntr.notify());
                match socket {
                    Some(socket) if command == TransportCommand::Finish => self.linger(ep, socket, readable),
                    Some(socket) => self.close_socket(socket, readable),
                    None => {}
                }
                if self.unwatched == Some(ep) {
                    self.unwatched = None;
                }
                cqs.iter().for_each(|cq| cq.notify(&self.machine));
            }
        }
        while let Some((ep, eq, entry)) = self.machine.poll_endpoint_event() {
            self.happened(ep, &entry);
            if let Some(eq) = self.queues.get(&eq).and_then(Weak::upgrade) {
                eq.fill(|queue| queue.push(entry));
            }
        }
        while let Some(op) = self.machine.poll_released() {
            if let Some(memory) = self.take_memory(op).into_spare() {
                self.put_spare(memory);
            }
        }
        while let Some(ep) = self.machine.poll_resumed() {
            self.enqueue(ep);
            if self.resting > 0 || self.exposed {
                self.kick();
            }
        }
        self.shared_cqs.iter().for_each(|cq| cq.notify(&self.machine));
        if self.machine.wants_look() {
            self.machine.plan_look(now());
        }
        let machine = self.machine.next_deadline().into_iter().chain(self.machine.next_look());
        let due = machine.chain(self.linger_until);
        self.alarm.set(due.min());
    }

    /// Does what the machine has to say after an endpoint was dealt with.
    pub(crate) fn settle_endpoint(&mut self, ep: EpId) {
        self.settle();
        self.notify(ep);
    }

    /// Wakes who waits for what an endpoint's operations come to.
    pub(crate) fn notify(&self, ep: EpId) {
        let Self { machine, connections, .. } = self;
        if let Some(Some(connection)) = connections.get(ep.index()) {
            connection.cqs.iter().for_each(|cq| cq.notify(machine));
            connection.cntrs.iter().for_each(|cntr| cntr.notify());
        }
    }

    /// An event is about to be put into its queue.
    fn happened(&mut self, ep: EpId, entry: &Entry) {
        match &entry.event {
            Event::Connected { data } => {
                if let Some(connection) = self.connection(ep) {
                    connection.since = Some(now());
                }
                self.notice(ep, What::Connected(data.len()));
            }
            Event::Shutdown { reason } => {
                if let Some(connection) = self.connection(ep) {
                    connection.until = Some(now());
                }
                self.notice(ep, What::Shutdown(*reason));
            }
            Event::Error { reason, .. } => self.notice(ep, What::Failed(*reason)),
            _ => {}
        }
    }

    /// Something is to be told of an endpoint's connection.
    pub(crate) fn notice(&mut self, ep: EpId, what: What) {
        if notice::wanted()
            && let Ok(statistics) = self.machine.endpoint_statistics(ep)
        {
            let EndpointStatistics { fid, local, peer, traffic, .. } = statistics;
            self.notices.push(Notice { subject: Subject { fid, local, peer }, what, traffic });
        }
    }

    pub(crate) fn bind_eq(&mut self, eq: &Arc<EqShared>) {
        self.queues.retain(|_, queue| queue.strong_count() > 0);
        self.queues.insert(eq.fid(), Arc::downgrade(eq));
    }

    pub(crate) fn bind_shared_cq(&mut self, cq: &Arc<CqShared>) {
        self.shared_cqs.push(cq.clone());
    }

    /// A shared receive context with that queue is closed.
    pub(crate) fn unbind_shared_cq(&mut self, cq: &Arc<CqShared>) {
        if let Some(at) = self.shared_cqs.iter().position(|known| Arc::ptr_eq(known, cq)) {
            self.shared_cqs.swap_remove(at);
        }
    }
}

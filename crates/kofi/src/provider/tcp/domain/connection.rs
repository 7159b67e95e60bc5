// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The connection of an endpoint: its socket, and who has to be told of it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use kofi_core::{EndpointStatistics, EpId, Instant, Result, TimeLimits};
use rustix::io::Errno;
use smallvec::SmallVec;

use super::State;
use super::driving::watch;
use crate::clock::now;
use crate::provider::tcp::completion_queue::CqShared;
use crate::provider::tcp::counter::CntrShared;
use crate::provider::tcp::socket::{self, Connecting, errno_of};

/// An endpoint's transport.
pub(super) struct Connection {
    pub(super) id: EpId,
    pub(super) socket: Option<OwnedFd>,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// The peer has ended its stream.
    pub(super) ended: bool,
    /// Writing has failed.
    pub(super) broken: Option<Errno>,
    /// Sends that wait for others.
    pub(super) deferred: u32,
    /// When the last one was written, if completions were unread then.
    pub(super) last_send: Option<Instant>,
    /// It is in [`State::ready`].
    pub(super) queued: bool,
    /// Bytes that were read and wait for a receive to be posted.
    pub(super) kept: Vec<u8>,
    /// How many of those have been used.
    pub(super) kept_used: usize,
    /// Completion queues that its operations come to.
    pub(super) cqs: SmallVec<[Arc<CqShared>; 2]>,
    /// Counters that count its operations.
    pub(super) cntrs: SmallVec<[Arc<CntrShared>; 1]>,
    /// When it was connected, and until when.
    pub(super) since: Option<Instant>,
    pub(super) until: Option<Instant>,
}

impl Connection {
    pub(super) fn new(id: EpId) -> Self {
        Self {
            id,
            socket: None,
            readable: false,
            writable: false,
            ended: false,
            broken: None,
            deferred: 0,
            last_send: None,
            queued: false,
            kept: Vec::new(),
            kept_used: 0,
            cqs: SmallVec::new(),
            cntrs: SmallVec::new(),
            since: None,
            until: None,
        }
    }
}

impl State {
    pub(super) fn connection_ref(&self, ep: EpId) -> Option<&Connection> {
        self.connections.get(ep.index())?.as_ref().filter(|connection| connection.id == ep)
    }

    pub(super) fn connection(&mut self, ep: EpId) -> Option<&mut Connection> {
        self.connections.get_mut(ep.index())?.as_mut().filter(|connection| connection.id == ep)
    }

    /// The endpoint's socket, from connect or accept. How it went is an event, also when it did not get far.
    pub(crate) fn attach(&mut self, ep: EpId, socket: rustix::io::Result<OwnedFd>) {
        match socket.and_then(|socket| watch(&self.epoll, ep, &socket).map(|()| socket)) {
            Ok(socket) => {
                if let Some(connection) = self.connection(ep) {
                    // Whether it is true is found out by trying. What can be read is told by an event:
                    // nothing can yet, since the peer waits for what we write.
                    connection.writable = true;
                    connection.socket = Some(socket);
                    self.keep_alive(ep);
                }
                // On a quick network the connection is there already.
                self.service(ep);
            }
            Err(errno) => {
                self.machine.transport_failed(ep, errno_of(errno));
                self.settle_endpoint(ep);
            }
        }
    }

    /// Has the system watch over the peer, as the endpoint's limits say.
    fn keep_alive(&mut self, ep: EpId) {
        if let Ok(limits) = self.machine.limits(ep)
            && let Some(Connection { socket: Some(socket), .. }) = self.connection(ep)
        {
            socket::keep_alive(socket, &limits);
            self.machine.hurry_look(ep, now());
        }
    }

    pub(crate) fn set_limits(&mut self, ep: EpId, limits: TimeLimits) -> Result<()> {
        self.machine.set_limits(ep, limits)?;
        self.keep_alive(ep);
        self.settle();
        Ok(())
    }

    pub(super) fn finish_connecting(&mut self, ep: EpId) {
        if !self.machine.is_connecting(ep) {
            return;
        }
        let Some(Connection { socket: Some(socket), .. }) = self.connection(ep) else { return };
        match socket::connecting(socket) {
            Connecting::Done(local) => self.machine.transport_open(ep, local),
            Connecting::Pending => {}
            Connecting::Failed(errno) => self.machine.transport_failed(ep, errno_of(errno)),
        }
    }

    /// Looks whether peers answer that were sent something, once that is due.
    pub(super) fn check_peers(&mut self, now: Instant) {
        while let Some(ep) = self.machine.poll_look(now) {
            let socket = self.connection_ref(ep).and_then(|connection| connection.socket.as_ref());
            if let Some(answers) = socket.and_then(socket::answers) {
                self.machine.check_peer(ep, &answers, now);
            }
        }
    }

    /// The endpoint, as it is now.
    pub(crate) fn statistics(&self, ep: EpId) -> Result<EndpointStatistics> {
        let mut statistics = self.machine.endpoint_statistics(ep)?;
        let connection = self.connections.get(ep.index()).and_then(Option::as_ref);
        statistics.connected = connection.and_then(|connection| {
            let since = connection.since?;
            Some(connection.until.unwrap_or_else(now).until(since))
        });
        Ok(statistics)
    }

    pub(crate) fn bind_cq(&mut self, ep: EpId, cq: &Arc<CqShared>) {
        if let Some(connection) = self.connection(ep)
            && !connection.cqs.iter().any(|known| Arc::ptr_eq(known, cq))
        {
            connection.cqs.push(cq.clone());
        }
    }

    pub(crate) fn bind_cntr(&mut self, ep: EpId, cntr: &Arc<CntrShared>) {
        if let Some(connection) = self.connection(ep)
            && !connection.cntrs.iter().any(|known| Arc::ptr_eq(known, cntr))
        {
            connection.cntrs.push(cntr.clone());
        }
    }
}

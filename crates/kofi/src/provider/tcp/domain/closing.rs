// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The end of connections: sockets are closed, or linger until the peer has all that was sent.

use std::os::fd::OwnedFd;
use std::time::Duration;

use kofi_core::{EpId, Instant};

use super::State;
use super::driving::watch;
use crate::clock::now;
use crate::notice::What;
use crate::provider::tcp::socket;

/// Connections that were shut down, and whose peers have not ended them yet; the oldest makes room.
const MAX_LINGERING: usize = 1024;

/// A connection that was shut down on this side.
pub(super) struct Lingering {
    /// Whose connection it was: the mark among events.
    ep: EpId,
    socket: OwnedFd,
    until: Instant,
}

impl State {
    /// `fi_close` of an endpoint. Its socket is closed, its memory comes with its completions.
    pub(crate) fn close(&mut self, ep: EpId) {
        self.flush(ep);
        self.notice(ep, What::Closed);
        if self.machine.close_endpoint(ep).is_err() {
            return;
        }
        if self.unwatched == Some(ep) {
            self.unwatched = None;
        }
        let connection = self.connections.get_mut(ep.index()).and_then(Option::take);
        if let Some(connection) = connection {
            if let Some(socket) = connection.socket {
                self.close_socket(socket, connection.readable);
            }
            connection.cqs.iter().for_each(|cq| cq.notify(&self.machine));
            connection.cntrs.iter().for_each(|cntr| cntr.notify());
        }
        self.settle();
    }

    pub(super) fn close_socket(&mut self, socket: OwnedFd, unread: bool) {
        if unread {
            socket::discard(&socket, &mut self.scratch);
        }
        socket::close(socket);
    }

    /// Ends a connection so that the peer gets all that was sent: see
    /// [`TransportCommand::Finish`](kofi_core::TransportCommand::Finish). The socket goes on to be watched as
    /// the endpoint's.
    pub(super) fn linger(&mut self, ep: EpId, socket: OwnedFd, unread: bool) {
        socket::finish(&socket);
        let watched = self.unwatched != Some(ep) || watch(&self.epoll, ep, &socket).is_ok();
        if unread && socket::discard(&socket, &mut self.scratch) || !watched {
            return self.close_socket(socket, false);
        }
        if self.lingering.len() >= MAX_LINGERING
            && let Some(oldest) = self.lingering.pop_front()
        {
            self.close_socket(oldest.socket, true);
        }
        let limit = self.machine.limits(ep).ok().and_then(|limits| limits.shutdown);
        let until = now().after(limit.unwrap_or(Duration::MAX));
        self.linger_until = Some(self.linger_until.map_or(until, |known| known.min(until)));
        self.lingering.push_back(Lingering { ep, socket, until });
    }

    /// Something has come from a connection that was shut down, or its end.
    pub(super) fn linger_on(&mut self, ep: EpId) {
        // Mostly the one that has waited longest.
        if let Some(at) = self.lingering.iter().position(|lingering| lingering.ep == ep)
            && let Some(lingering) = self.lingering.get(at)
            && socket::discard(&lingering.socket, &mut self.scratch)
        {
            self.lingering.remove(at);
        }
    }

    /// Closes those that have lingered for long enough.
    pub(super) fn end_lingering(&mut self) {
        let now = now();
        if self.linger_until.is_some_and(|until| until <= now) {
            self.lingering.retain(|lingering| lingering.until > now);
            self.linger_until = self.lingering.iter().map(|lingering| lingering.until).min();
        }
    }
}

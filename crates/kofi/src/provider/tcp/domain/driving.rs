// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Progress: what has happened to sockets, and whose turn it is.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use kofi_core::attr::WaitObj;
use kofi_core::{EpId, Error, Result};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};

use super::connection::Connection;
use super::{ALARM, KICK, Shared, State};
use crate::clock::now;
use crate::provider::tcp::locked::Locked;
use crate::provider::tcp::socket::errno_of;
use crate::wait::{Source, Waiter, timespec};
use crate::wait_set::WaitSet;

const EVENTS: usize = 64;
/// While only one endpoint receives, so many polls at most look at nothing else.
const MAX_HOT_POLLS: u32 = 64;
/// Messages that the hot endpoint has to receive in a row until its socket is watched no longer.
const HOT_HITS: u32 = 16;

impl Source for Shared {
    fn drive(&self) -> bool {
        match self.whole() {
            Ok(state) => Locked::new(state).progress(),
            // Others use the same event queue. Who uses this domain is told by what it calls next.
            Err(_) => {
                look(&self.epoll, &mut [MaybeUninit::uninit(); EVENTS]);
                false
            }
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn rest(&self) {
        let Ok(mut state) = self.whole() else { return };
        state.resting += 1;
        state.watch_all();
        if !state.ready.is_empty() {
            // Another thread has left that since.
            state.kick();
        }
    }

    fn rise(&self) {
        if let Ok(mut state) = self.whole() {
            state.resting -= 1;
        }
    }

    fn expose(&self) {
        let Ok(mut state) = self.whole() else { return };
        state.exposed = true;
        state.watch_all();
    }
}

impl Shared {
    /// Who waits for what the domain brings.
    pub(crate) fn waiter(
        self: &Arc<Self>,
        call: &'static str,
        wait: WaitObj,
        wait_set: Option<&WaitSet>,
    ) -> Result<Waiter> {
        if (wait == WaitObj::Set) != wait_set.is_some() {
            let problem = "FI_WAIT_SET and a wait set go together: one was given without the other";
            return Err(Error::Invalid { call, problem });
        }
        let waiter = Waiter::new(call, wait, wait_set.map(|set| set.gathered().clone()))?;
        waiter.add_source(call, &(self.clone() as Arc<dyn Source>))?;
        Ok(waiter)
    }

    /// Waits until there is something to do, at most for `time`.
    pub(crate) fn wait(&self, time: Duration) {
        self.rest();
        let mut fds = [PollFd::new(&*self.epoll, PollFlags::IN)];
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, Some(&timespec(time)));
        self.rise();
    }
}

impl State {
    /// Does what can be done without waiting. `true`: there is more.
    fn progress(&mut self) -> bool {
        let expired = self.machine.next_deadline().is_some_and(|at| at <= now());
        if expired {
            self.machine.expire(now());
        }
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let events = look(&self.epoll, &mut events);
        let (mut others, mut alarmed) = (false, false);
        for event in events {
            let ep = match event.data.u64() {
                ALARM => {
                    alarmed = true;
                    self.alarm.seen();
                    self.end_lingering();
                    continue;
                }
                KICK => continue,
                bits => EpId::from_bits(bits),
            };
            let flags = event.flags;
            let is = |any| flags.intersects(any);
            let over = is(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            let Some(connection) = self.connection(ep).filter(|connection| connection.socket.is_some())
            else {
                // That it takes more is nothing to one that was shut down.
                if over || is(EventFlags::IN) {
                    self.linger_on(ep);
                }
                continue;
            };
            connection.readable |= is(EventFlags::IN) || over;
            connection.writable |= is(EventFlags::OUT) || over;
            connection.ended |= over;
            self.machine.woken(ep);
            others |= self.hot != Some(ep);
            self.enqueue(ep);
        }
        if let Some(ep) = self.unwatched
            && let Some(connection) = self.connection(ep)
        {
            // Nobody else tells whether something has come.
            connection.readable = true;
            self.enqueue(ep);
        }
        // The more endpoints receive, the less it is worth to look at one of them.
        self.hot_limit = if others { 1 } else { (self.hot_limit * 2).min(MAX_HOT_POLLS) };
        if others {
            self.hot_hits = 0;
        }
        self.hot_polls = self.hot_limit;
        for _ in 0..self.ready.len() {
            let Some(ep) = self.ready.pop_front() else { break };
            if let Some(connection) = self.connection(ep) {
                connection.queued = false;
                self.service(ep);
            }
        }
        if alarmed {
            self.check_peers(now());
        }
        self.settle();
        events.len() == EVENTS || !self.ready.is_empty()
    }

    /// As [`progress`](Self::progress), for a reader that polls: mostly the next message comes where
    /// the last one came, and one call to the system instead of two finds it.
    pub(crate) fn poll(&mut self) {
        if self.ready.is_empty()
            && self.hot_polls > 0
            && let Some(ep) = self.hot
            && let Some(connection) = self.connection_ref(ep)
            // If not, its transport has to take more: an event tells of that.
            && connection.writable
        {
            let has_kept = connection.kept_used < connection.kept.len();
            self.hot_polls -= 1;
            // Mostly nothing has come yet, and there is nothing else to do then.
            if has_kept || self.read(ep).is_some() {
                self.hot_hits = self.hot_hits.saturating_add(1);
                // Mostly a message has come, and nothing follows from that but its completion.
                if self.is_quiet(ep) {
                    self.notify(ep);
                } else {
                    self.service(ep);
                }
                self.unwatch(ep);
            }
            return;
        }
        self.progress();
    }

    /// Does for an endpoint all that its transport allows now.
    pub(crate) fn service(&mut self, ep: EpId) {
        self.finish_connecting(ep);
        self.flush(ep);
        self.fill(ep);
        self.flush(ep);
        if self.unwatched == Some(ep) && !self.is_steady(ep) {
            self.watch_all();
        }
        self.settle_endpoint(ep);
    }

    /// Endpoints that have to wait no longer go on.
    pub(crate) fn go_on(&mut self) {
        while let Some(ep) = self.machine.poll_resumed() {
            self.service(ep);
        }
    }

    pub(super) fn enqueue(&mut self, ep: EpId) {
        if let Some(connection) = self.connection(ep)
            && !connection.queued
        {
            connection.queued = true;
            self.ready.push_back(ep);
        }
    }

    /// Whether nothing is to be done for an endpoint until its transport has more, or the application.
    fn is_quiet(&self, ep: EpId) -> bool {
        let connection = self.connection_ref(ep);
        connection.is_some_and(|connection| {
            !(connection.readable || connection.ended)
                && connection.broken.is_none()
                && connection.kept_used == connection.kept.len()
        }) && self.machine.is_quiet(ep)
    }

    /// Whether reading tells all there is to know of an endpoint's transport.
    fn is_steady(&self, ep: EpId) -> bool {
        let connection = self.connection_ref(ep);
        connection.is_some_and(|connection| {
            connection.socket.is_some()
                && connection.writable
                && !connection.ended
                && connection.broken.is_none()
        }) && self.machine.plan_read(ep).is_some()
    }

    /// Takes an endpoint that is polled, and receives each time, from what the kernel watches: it tells
    /// the epoll descriptor of each message otherwise, for nothing.
    fn unwatch(&mut self, ep: EpId) {
        if self.hot_hits < HOT_HITS || self.unwatched.is_some() || self.exposed || self.resting > 0 {
            return;
        }
        if self.is_steady(ep)
            && let Some(Connection { socket: Some(socket), .. }) = self.connection_ref(ep)
            && epoll::delete(&self.epoll, socket).is_ok()
        {
            self.unwatched = Some(ep);
        }
    }

    /// Has the endpoint that is not watched watched again. What came meanwhile is told as an event.
    pub(super) fn watch_all(&mut self) {
        let Some(ep) = self.unwatched.take() else { return };
        self.hot_hits = 0;
        let Self { connections, epoll, .. } = self;
        if let Some(Some(Connection { socket: Some(socket), id, .. })) = connections.get(ep.index())
            && *id == ep
            && let Err(errno) = watch(epoll, ep, socket)
        {
            self.machine.transport_failed(ep, errno_of(errno));
            self.settle_endpoint(ep);
        }
    }

    /// Wakes who sleeps: something can go on without an event.
    pub(crate) fn kick(&self) {
        // Full means that it is readable already.
        let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
    }
}

/// What has happened, without waiting.
fn look<'a>(epoll: &OwnedFd, events: &'a mut [MaybeUninit<epoll::Event>; EVENTS]) -> &'a [epoll::Event] {
    let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    epoll::wait(epoll, events, Some(&zero)).map_or(&[], |(events, _)| events)
}

/// Watches an endpoint's socket. Edge triggered: nothing is told twice, and nothing has to be told to the
/// kernel again.
pub(super) fn watch(epoll: &OwnedFd, ep: EpId, socket: &OwnedFd) -> rustix::io::Result<()> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, socket, EventData::new_u64(ep.bits()), flags)
}

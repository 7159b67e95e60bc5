// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Whether the peer is still there, while something that it was sent is outstanding.
//!
//! When nothing is outstanding, the transport itself asks from time to time
//! ([`TimeLimits::keepalive`](crate::TimeLimits::keepalive)). What matters is that the peer's system
//! answers, not that the peer takes what it is sent: who posts no receives is there.
//!
//! Only connections that something was sent on are looked at, from time to time:
//!
//! * when [`wants_look`](Domain::wants_look) says so, the driver calls [`plan_look`](Domain::plan_look)
//!   with the time, and wakes itself at [`next_look`](Domain::next_look);
//! * then it asks the transport of each endpoint that [`poll_look`](Domain::poll_look) gives, and tells the
//!   machine by [`check_peer`](Domain::check_peer).
//!
//! So an idle connection costs nothing, and a busy one no clock.

use core::time::Duration;

use crate::domain::Domain;
use crate::endpoint::{Endpoint, EpId, State};
use crate::time::Instant;
use crate::{Errno, Reason};

/// What the transport knows of the peer's answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answers {
    /// Something was sent that is not acknowledged, or waits in the transport to be sent.
    pub outstanding: bool,
    /// The peer was asked again, since it had not answered, and has not answered that either.
    pub unanswered: bool,
    /// How long ago the peer was heard last.
    pub heard: Duration,
}

/// How often to look, as a part of the limit: the peer's end is found by so much later.
const PARTS: u32 = 8;
/// A transport asks again after 200 ms at the earliest.
const SHORTEST: Duration = Duration::from_millis(250);
/// Looks in a row that find all acknowledged before there is no need for another: what waits behind a
/// window that has just closed does not show at once.
const LOOKS: u8 = 2;

/// When to look.
#[derive(Default, Debug)]
pub(crate) struct Looks {
    /// Something was sent, or is outstanding, that no look is planned for.
    wanted: bool,
    at: Option<Instant>,
    /// The endpoint to go on with, by index.
    next: Option<u32>,
}

impl Endpoint {
    /// What a broken transport means. Once there was a connection these errors come of silence only: of
    /// the transport's own limit, with what the network may have said meanwhile.
    pub(crate) fn broken_by(&self, errno: Errno) -> Reason {
        match (errno, self.limits.peer) {
            (Errno::ETIMEDOUT | Errno::EHOSTUNREACH | Errno::ENETUNREACH, Some(limit))
                if self.is_open() || self.local.is_some() =>
            {
                Reason::PeerTimeout(limit)
            }
            _ => Reason::Transport(errno),
        }
    }
}

/// How long after something was sent, and between two looks, to look; `None`: not at all.
fn interval(endpoint: &Endpoint) -> Option<Duration> {
    Some((endpoint.limits.peer? / PARTS).max(SHORTEST))
}

impl Domain {
    /// The transport has taken something, so that the peer has something to answer.
    pub(crate) fn asked(&mut self, ep: EpId) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0)
            && endpoint.limits.peer.is_some()
        {
            endpoint.looks = LOOKS;
            self.looks.wanted = true;
        }
    }

    /// Whether the driver is to [plan a look](Self::plan_look).
    pub fn wants_look(&self) -> bool {
        self.looks.wanted && self.looks.at.is_none()
    }

    /// Plans when to look whether peers answer: early enough for the shortest limit, also of endpoints on
    /// which something is sent until then.
    pub fn plan_look(&mut self, now: Instant) {
        self.looks.wanted = false;
        let has_transport = |endpoint: &&Endpoint| {
            !matches!(endpoint.state, State::Idle | State::Enabled | State::Disconnected | State::Failed)
        };
        let open = self.endpoints.keys().filter_map(|key| self.endpoints.get(key)).filter(has_transport);
        self.looks.at = open.filter_map(interval).min().map(|interval| now.after(interval));
    }

    /// An endpoint has got a transport, or other limits: a look that is planned already may come too late for
    /// it.
    pub fn hurry_look(&mut self, ep: EpId, now: Instant) {
        if let Some(interval) = self.endpoints.get(ep.0).and_then(interval)
            && let Some(at) = &mut self.looks.at
        {
            *at = (*at).min(now.after(interval));
        }
    }

    /// When to look; `None`: nothing was sent that needs it.
    pub fn next_look(&self) -> Option<Instant> {
        self.looks.at
    }

    /// An endpoint whose transport is to be looked at now, until there are no more.
    pub fn poll_look(&mut self, now: Instant) -> Option<EpId> {
        if self.looks.at.is_some_and(|at| at <= now) {
            self.looks.at = None;
            self.looks.next = Some(0);
        }
        let mut index = self.looks.next?;
        while index < self.endpoints.places() {
            let key = self.endpoints.key_at(index);
            index += 1;
            if let Some(key) = key
                && let Some(endpoint) = self.endpoints.get_mut(key).filter(|endpoint| endpoint.looks > 0)
            {
                endpoint.looks -= 1;
                self.looks.next = Some(index);
                return Some(EpId(key));
            }
        }
        self.looks.next = None;
        None
    }

    /// Ends the connection when the peer has not answered for the limit.
    pub fn check_peer(&mut self, ep: EpId, answers: &Answers, now: Instant) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        let Some(limit) = endpoint.limits.peer else { return };
        let mut outstanding = answers.outstanding;
        if answers.unanswered {
            // It may have been silent for long before, with nobody asking.
            let since = *endpoint.silent_since.get_or_insert(now);
            if limit <= now.until(since).min(answers.heard) {
                return self.end(ep, Reason::PeerTimeout(limit));
            }
            outstanding = true;
        } else {
            endpoint.silent_since = None;
        }
        if outstanding {
            endpoint.looks = LOOKS;
        }
        self.looks.wanted |= endpoint.looks > 0;
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Whether the peer is still there, while something that it was sent is outstanding.
//!
//! When nothing is outstanding, the transport itself asks from time to time
//! ([`TimeLimits::keepalive`](crate::TimeLimits::keepalive)). What matters is that the peer's system
//! answers, not that the peer takes what it is sent: who posts no receives is there.

use core::time::Duration;

use crate::domain::Domain;
use crate::endpoint::{Endpoint, EpId};
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
const LOOKS: u32 = 8;
/// A transport asks again after 200 ms at the earliest.
const SHORTEST: Duration = Duration::from_millis(250);

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

impl Domain {
    /// How long after something was sent, and between two looks, the driver is to
    /// [look](Self::check_peer) whether the peer answers; `None`: not at all.
    pub fn peer_check_interval(&self, ep: EpId) -> Option<Duration> {
        let limit = self.endpoints.get(ep.0)?.limits.peer?;
        Some((limit / LOOKS).max(SHORTEST))
    }

    /// Looks whether the peer answers, and ends the connection when it has not for the limit. Gives
    /// whether something is outstanding, so that the driver is to look again.
    pub fn check_peer(&mut self, ep: EpId, answers: &Answers, now: Instant) -> bool {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return false };
        let Some(limit) = endpoint.limits.peer else { return false };
        if !answers.unanswered {
            endpoint.silent_since = None;
            return answers.outstanding;
        }
        // It may have been silent for long before, with nobody asking.
        let since = *endpoint.silent_since.get_or_insert(now);
        if now.until(since).min(answers.heard) < limit {
            return true;
        }
        self.end(ep, Reason::PeerTimeout(limit));
        false
    }
}

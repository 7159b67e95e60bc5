// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Time as the driver tells it: the core reads no clock.

use core::time::Duration;

use crate::event_queue::check_flags;
use crate::flags::OpFlags;
use crate::{Error, Result};

/// Nanoseconds since an origin that the driver chooses and never moves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Instant(u64);

impl Instant {
    /// The moment `nanos` after the driver's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the driver's origin.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// This moment moved on by `by`; the end of time at the latest.
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long it is from `now` until this moment; zero once it has passed.
    pub fn until(self, now: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(now.0))
    }
}

/// How long each phase of a connection may take before it ends in one event that says so.
///
/// `None` waits for ever. The defaults are decision D12 of `docs/semantics.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeLimits {
    /// From `fi_connect` to the answer of the peer.
    pub connect: Option<Duration>,
    /// From an accepted transport connection to its complete connection request.
    pub handshake: Option<Duration>,
    /// From the connection request to `fi_accept` or `fi_reject`.
    pub decision: Option<Duration>,
    /// From `fi_shutdown` until everything queued has left, and from the end of the peer's stream
    /// until what it sent before has been received.
    pub shutdown: Option<Duration>,
    /// How long nothing comes from the peer before it is asked for a sign of life, which its system
    /// gives. `None` never asks.
    pub keepalive: Option<Duration>,
    /// How long the peer's system may leave unanswered what it was sent or asked, before the peer is
    /// taken to be gone. A peer that answers, but receives nothing, is there.
    pub peer: Option<Duration>,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            connect: Some(Duration::from_secs(10)),
            handshake: Some(Duration::from_secs(10)),
            decision: None,
            shutdown: Some(Duration::from_secs(5)),
            keepalive: Some(Duration::from_secs(30)),
            peer: Some(Duration::from_secs(30)),
        }
    }
}

/// The end of a limit in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// When the time is over.
    pub at: Instant,
    /// How long it was.
    pub limit: Duration,
}

impl Deadline {
    /// A limit that starts now; none without a limit.
    pub fn start(now: Instant, limit: Option<Duration>) -> Option<Self> {
        limit.map(|limit| Self { at: now.after(limit), limit })
    }

    /// Whether the time is over.
    pub fn has_passed(&self, now: Instant) -> bool {
        self.at <= now
    }
}

/// The time that a blocking read waits: `timeout` counts milliseconds, or what `flags` say
/// (`FI_TIME_MS`, `FI_TIME_US`: decision D17); negative waits for ever, which is `None`.
/// `FI_PEEK` may be among the flags.
///
/// # Errors
/// -FI_EINVAL for both units at once, -FI_EBADFLAGS for other flags.
pub fn sread_timeout(timeout: i32, flags: OpFlags) -> Result<Option<Duration>> {
    const CALL: &str = "fi_eq_sread";
    let units = OpFlags::TIME_US | OpFlags::TIME_MS;
    check_flags(CALL, flags, units | OpFlags::PEEK)?;
    if flags.contains(units) {
        let problem = "FI_TIME_US and FI_TIME_MS at once; give the unit that counts";
        return Err(Error::Invalid { call: CALL, problem });
    }
    let Ok(timeout) = u64::try_from(timeout) else { return Ok(None) };
    Ok(Some(match flags.contains(OpFlags::TIME_US) {
        true => Duration::from_micros(timeout),
        false => Duration::from_millis(timeout),
    }))
}

/// The earliest of many deadlines, without a heap.
///
/// Deadlines are mostly set and then taken back, so only a lower bound is kept; the owner looks at
/// each object when the bound has passed, and sets the bound anew.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Earliest(Option<Instant>);

impl Earliest {
    pub(crate) fn include(&mut self, deadline: Option<Deadline>) {
        if let Some(deadline) = deadline {
            self.0 = Some(self.0.map_or(deadline.at, |known| known.min(deadline.at)));
        }
    }

    pub(crate) fn get(self) -> Option<Instant> {
        self.0
    }

    /// Whether the bound has passed; it is forgotten then, and the caller includes what is left.
    pub(crate) fn take_passed(&mut self, now: Instant) -> bool {
        let passed = self.0.is_some_and(|at| at <= now);
        if passed {
            self.0 = None;
        }
        passed
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The clock that the machines are told of: `CLOCK_MONOTONIC`.

use kofi_core::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Now.
pub(crate) fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    Instant::from_nanos(u64::try_from(nanos).unwrap_or_default())
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Environment variables: `FI_TCP_*` as in `fi_tcp(7)`, `KOFI_*` for what is ours.

use std::env;
use std::ops::RangeInclusive;
use std::time::Duration;

use kofi_core::{TimeLimits, offer};
use tracing::warn;

/// `FI_TCP_IFACE`: the only interface to offer.
pub(super) fn interface() -> Option<String> {
    env::var("FI_TCP_IFACE").ok().filter(|name| !name.is_empty())
}

/// `FI_TCP_PORT_LOW_RANGE` and `FI_TCP_PORT_HIGH_RANGE`: ports of listeners that ask for any.
/// A range that makes no sense is ignored, with a warning.
pub(super) fn port_range() -> Option<RangeInclusive<u16>> {
    let (low, high) = match (number("FI_TCP_PORT_LOW_RANGE"), number("FI_TCP_PORT_HIGH_RANGE")) {
        (None, None) => return None,
        // One without the other is no range either.
        (low, high) => (low.unwrap_or_default(), high.unwrap_or_default()),
    };
    match (u16::try_from(low), u16::try_from(high.min(i64::from(u16::MAX)))) {
        (Ok(0), Ok(0)) => None,
        (Ok(low), Ok(high)) if 0 < low && low <= high => Some(low..=high),
        _ => {
            warn!(low, high, "FI_TCP_PORT_LOW_RANGE..HIGH_RANGE is no range of ports; any port is taken");
            None
        }
    }
}

/// `KOFI_CONNECT_TIMEOUT_MS`, `KOFI_HANDSHAKE_TIMEOUT_MS`, `KOFI_DECISION_TIMEOUT_MS` and
/// `KOFI_SHUTDOWN_TIMEOUT_MS`: limits in time; 0 waits for ever. `KOFI_KEEPALIVE_MS` and
/// `KOFI_PEER_TIMEOUT_MS`: when a silent peer is asked, and given up; 0 never does.
pub(super) fn limits() -> TimeLimits {
    let limit = |name, default| match number(name) {
        None => default,
        Some(0) => None,
        Some(millis) => match u64::try_from(millis) {
            Ok(millis) => Some(Duration::from_millis(millis)),
            Err(_) => {
                warn!("{name}={millis} is no time; it is ignored");
                default
            }
        },
    };
    let TimeLimits { connect, handshake, decision, shutdown, keepalive, peer } = TimeLimits::default();
    TimeLimits {
        connect: limit("KOFI_CONNECT_TIMEOUT_MS", connect),
        handshake: limit("KOFI_HANDSHAKE_TIMEOUT_MS", handshake),
        decision: limit("KOFI_DECISION_TIMEOUT_MS", decision),
        shutdown: limit("KOFI_SHUTDOWN_TIMEOUT_MS", shutdown),
        keepalive: limit("KOFI_KEEPALIVE_MS", keepalive),
        peer: limit("KOFI_PEER_TIMEOUT_MS", peer),
    }
}

/// What a queue of operations is to hold: any number, if one is asked for; otherwise `variable`, which is
/// `FI_TCP_TX_SIZE` or `FI_TCP_RX_SIZE`, or else the default.
pub(super) fn queue_size(variable: &str, hint: Option<usize>) -> usize {
    let size = offer::queue_size(hint);
    match number(variable).filter(|_| size == offer::QUEUE_SIZE.0) {
        None => size,
        Some(number) => match usize::try_from(number) {
            Ok(number @ 1..=MOST) => number,
            _ => {
                warn!("{variable}={number} is no number of operations (1 to {MOST}); it is ignored");
                size
            }
        },
    }
}

const MOST: usize = offer::QUEUE_SIZE.1;

fn number(name: &str) -> Option<i64> {
    let text = env::var(name).ok()?;
    match text.trim().parse() {
        Ok(number) => Some(number),
        Err(_) => {
            warn!("{name}={text:?} is no number; it is ignored");
            None
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What happens to connections, told to who debugs: `module kofi format "connection:" +p` in dynamic debug's control file.
//!
//! The same occasions as in user space (`crates/kofi/src/notice.rs`), where `tracing` is told of them. Nothing is told of
//! operations.

use core::fmt::{self, Display};
use core::net::SocketAddr;

use kofi_core::{Domain as Machine, EndpointStatistics, EpId, Reason, Traffic};

use crate::sys::show::tell_connection;

/// What happened.
pub(crate) enum What {
    /// `fi_listen`; with the backlog.
    Listening(usize),
    /// A request for the event queue; with the length of its data, as in the next ones.
    Requested(usize),
    /// A peer was dropped before its request was read.
    Dropped(Reason),
    /// `fi_connect`.
    Connecting(usize),
    /// `fi_accept`.
    Accepting(usize),
    /// `fi_reject`, or a request that was dropped undecided.
    Rejected(usize),
    /// `FI_CONNECTED`.
    Connected(usize),
    /// The error entry.
    Failed(Reason),
    /// `FI_SHUTDOWN`.
    Shutdown(Reason),
    /// `fi_close` of an endpoint.
    Closed,
    /// `fi_close` of a passive endpoint.
    ListenerClosed,
}

impl Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening(backlog) => write!(f, "listening, backlog {backlog}"),
            Self::Requested(data) => write!(f, "requested, {data} bytes of data"),
            Self::Dropped(reason) => write!(f, "dropped: {reason}"),
            Self::Connecting(data) => write!(f, "connecting, {data} bytes of data"),
            Self::Accepting(data) => write!(f, "accepting, {data} bytes of data"),
            Self::Rejected(data) => write!(f, "rejected, {data} bytes of data"),
            Self::Connected(data) => write!(f, "connected, {data} bytes of data"),
            Self::Failed(reason) => write!(f, "failed: {reason}"),
            Self::Shutdown(reason) => write!(f, "shut down: {reason}"),
            Self::Closed => f.write_str("closed"),
            Self::ListenerClosed => f.write_str("listener closed"),
        }
    }
}

/// An address, or `-`.
struct Address(Option<SocketAddr>);

impl Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(addr) => addr.fmt(f),
            None => f.write_str("-"),
        }
    }
}

struct Line<'a> {
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    what: &'a What,
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local, peer, what } = self;
        write!(f, "local {} peer {}: {what}", Address(*local), Address(*peer))
    }
}

/// Tells of a connection that belongs to no endpoint.
pub(crate) fn tell(local: Option<SocketAddr>, peer: Option<SocketAddr>, what: &What) {
    tell_connection(&Line { local, peer, what });
}

/// Tells of an endpoint's connection, and at its end what went over it.
pub(crate) fn tell_endpoint(machine: &Machine, ep: EpId, what: &What) {
    tell_connection(&Endpoint { machine, ep, what });
}

struct Endpoint<'a> {
    machine: &'a Machine,
    ep: EpId,
    what: &'a What,
}

impl Display for Endpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, ep, what } = self;
        let Ok(EndpointStatistics { local, peer, traffic, .. }) = machine.endpoint_statistics(*ep) else {
            return Ok(());
        };
        Line { local, peer, what }.fmt(f)?;
        if matches!(what, What::Shutdown(_) | What::Closed) {
            let Traffic { sent, received, .. } = traffic;
            write!(f, "; sent {} ({} bytes)", sent.operations, sent.bytes)?;
            write!(f, ", received {} ({} bytes)", received.operations, received.bytes)?;
        }
        Ok(())
    }
}

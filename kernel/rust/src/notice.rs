// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What happens to connections, told to who debugs: `module kofi format "connection:" +p` in dynamic debug's control file.
//!
//! The same occasions, in the same words, as in user space ([`kofi_core::notice`]).

use core::fmt::{self, Display};
use core::net::SocketAddr;

use kofi_core::notice::End;
pub(crate) use kofi_core::notice::What;
use kofi_core::{Domain as Machine, EndpointStatistics, EpId, Traffic};

use crate::sys::show::tell_connection;

struct Line<'a> {
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    what: &'a What,
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local, peer, what } = self;
        write!(f, "local {} peer {}: {what}", End(*local), End(*peer))
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

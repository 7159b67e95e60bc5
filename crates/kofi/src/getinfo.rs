// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `fi_getinfo(3)`: what the providers offer, narrowed by hints.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use kofi_core::hints::Hints;
use kofi_core::offer::format_matches;
use kofi_core::{Error, Info, Result};
use kofi_core::{Refusal, negotiate};

use crate::provider;

/// What is asked for: hints, and perhaps a node and a service to be looked up.
#[derive(Clone, Default, Debug)]
pub struct Query {
    hints: Hints,
    node: Option<String>,
    service: Option<String>,
    source: bool,
}

impl Query {
    /// Asks for what meets these hints.
    pub fn new(hints: Hints) -> Self {
        Self { hints, ..Self::default() }
    }

    /// A host's name or address: the destination, or with [`source`](Self::source) our own.
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// A port.
    pub fn service(mut self, service: impl ToString) -> Self {
        self.service = Some(service.to_string());
        self
    }

    /// Node and service are our own (`FI_SOURCE`).
    pub fn source(mut self) -> Self {
        self.source = true;
        self
    }

    /// The hints.
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// Our own address, as far as the query says: node and service go before hints.
    ///
    /// # Errors
    /// -FI_ENODATA when a name cannot be looked up.
    pub fn source_addrs(&self) -> Result<Vec<SocketAddr>> {
        if self.source && (self.node.is_some() || self.service.is_some()) {
            return self.look_up();
        }
        Ok(self.hints.src_addr.iter().filter_map(|addr| addr.socket_addr()).collect())
    }

    /// The peer's address, as far as the query says.
    ///
    /// # Errors
    /// -FI_ENODATA when a name cannot be looked up.
    pub fn dest_addrs(&self) -> Result<Vec<SocketAddr>> {
        if !self.source && (self.node.is_some() || self.service.is_some()) {
            return self.look_up();
        }
        Ok(self.hints.dest_addr.iter().filter_map(|addr| addr.socket_addr()).collect())
    }

    fn look_up(&self) -> Result<Vec<SocketAddr>> {
        let port = match &self.service {
            None => 0,
            Some(service) => service
                .parse()
                .map_err(|_| Error::NoMatch(format!("service {service:?} is no port number (0 to 65535)")))?,
        };
        let addrs = match &self.node {
            Some(node) => {
                let found = (node.as_str(), port).to_socket_addrs();
                let found = found.map_err(|error| {
                    Error::NoMatch(format!("node {node:?} cannot be looked up ({error}); try its address"))
                })?;
                found.collect()
            }
            None if self.source => {
                vec![(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()]
            }
            None => vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()],
        };
        let wanted = self.hints.addr_format.unwrap_or_default();
        let found: Vec<_> = unique(addrs).filter(|addr| format_matches(wanted, addr)).collect();
        match &self.node {
            Some(node) if found.is_empty() => Err(Error::NoMatch(format!(
                "node {node:?} has no address of the format {wanted}; leave addr_format out, or give another node"
            ))),
            _ => Ok(found),
        }
    }
}

fn unique(addrs: Vec<SocketAddr>) -> impl Iterator<Item = SocketAddr> {
    let mut seen = Vec::new();
    addrs.into_iter().filter(move |addr| {
        let new = !seen.contains(addr);
        seen.push(*addr);
        new
    })
}

impl From<Hints> for Query {
    fn from(hints: Hints) -> Self {
        Self::new(hints)
    }
}

/// An offer, and what came of the hints.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the provider offers.
    pub offer: Info,
    /// What it grants, or the first hint that it cannot meet.
    pub result: core::result::Result<Info, Refusal>,
}

/// Every offer of every provider, with the reason for each that does not match: what
/// [`getinfo`] leaves out.
///
/// # Errors
/// -FI_ENODATA when a name cannot be looked up.
pub fn explain(query: impl Into<Query>) -> Result<Vec<Outcome>> {
    let query = query.into();
    let mut outcomes = Vec::new();
    for provider in provider::all() {
        for offer in provider.offers(&query)? {
            let result = negotiate(&offer, &query.hints);
            outcomes.push(Outcome { offer, result });
        }
    }
    Ok(outcomes)
}

/// `fi_getinfo`: what matches, in order of preference.
///
/// # Errors
/// -FI_ENODATA when nothing matches; the text says, for each provider, which hint failed first.
pub fn getinfo(query: impl Into<Query>) -> Result<Vec<Info>> {
    Ok(matching(explain(query)?)?.0)
}

/// What matches, in order of preference, and why the other offers do not: each reason once.
///
/// # Errors
/// -FI_ENODATA with these reasons when nothing matches.
pub fn matching(outcomes: Vec<Outcome>) -> Result<(Vec<Info>, Vec<String>)> {
    let mut refusals = Vec::new();
    let mut infos = Vec::new();
    for outcome in outcomes {
        match outcome.result {
            Ok(info) => infos.push(info),
            Err(refusal) => {
                let refusal = refusal.to_string();
                if !refusals.contains(&refusal) {
                    refusals.push(refusal);
                }
            }
        }
    }
    if infos.is_empty() {
        let why = match refusals.is_empty() {
            true => "no provider has an interface for these addresses".into(),
            false => refusals.join("; "),
        };
        return Err(Error::NoMatch(why));
    }
    Ok((infos, refusals))
}

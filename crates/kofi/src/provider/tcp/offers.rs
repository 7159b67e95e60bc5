// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What the provider offers: one record for each address that it can use.

use std::net::{IpAddr, SocketAddr};

use if_addrs::{IfAddr, Interface};
use kofi_core::memory;
use kofi_core::offer::{self, Offer, format_matches};
use kofi_core::{Error, Hints, Info, Progress, Result};

use super::{environment, socket};
use crate::getinfo::Query;

pub(super) const IOV_LIMIT: usize = 4;
/// As libfabric's provider says it, since programs hand its numbers back as hints.
const MAX_MSG_SIZE: usize = usize::MAX;

/// Addresses of interfaces that are up, those that others can reach first.
fn interfaces() -> Result<Vec<Interface>> {
    let mut interfaces = if_addrs::get_if_addrs().map_err(|error| Error::System {
        call: "fi_getinfo",
        errno: kofi_core::Errno::from_raw(error.raw_os_error().unwrap_or_default()),
        detail: "interfaces cannot be listed; is netlink forbidden here?".into(),
    })?;
    if let Some(only) = environment::interface() {
        let known = list(interfaces.iter().map(|interface| interface.name.clone()));
        interfaces.retain(|interface| interface.name == only);
        if interfaces.is_empty() {
            return Err(Error::NoMatch(format!(
                "FI_TCP_IFACE={only}: no such interface (there are: {known})"
            )));
        }
    }
    interfaces.sort_by_key(|interface| (interface.is_loopback(), interface.is_link_local()));
    Ok(interfaces)
}

/// All offers for the addresses of `query`.
pub(super) fn offers(query: &Query) -> Result<Vec<Info>> {
    let hints = query.hints();
    let format = hints.addr_format.unwrap_or_default();
    let interfaces = interfaces()?;
    let (sources, dests) = (query.source_addrs()?, query.dest_addrs()?);
    let mut offers = Vec::new();
    let is_listed = sources.is_empty() && dests.is_empty();
    let mut offer = |source: SocketAddr, dest: Option<SocketAddr>| -> Result<()> {
        let interface = interfaces.iter().find(|interface| interface.ip() == source.ip());
        if (interface.is_some() || source.ip().is_unspecified()) && format_matches(format, &source) {
            offers.push(info(source, dest, interface, is_listed, hints)?);
        }
        Ok(())
    };
    if !dests.is_empty() {
        for dest in dests {
            match sources.iter().find(|source| source.is_ipv4() == dest.is_ipv4()) {
                Some(&source) => offer(source, Some(dest))?,
                // The kernel knows which of our addresses is right for this peer.
                None => offer(socket::route(dest)?, Some(dest))?,
            }
        }
    } else if !is_listed {
        sources.into_iter().try_for_each(|source| offer(source, None))?;
    } else {
        interfaces.iter().try_for_each(|interface| offer(with_scope(interface), None))?;
    }
    match environment::interface() {
        Some(only) if offers.is_empty() => {
            let has = list(interfaces.iter().map(|interface| interface.ip().to_string()));
            Err(Error::NoMatch(format!("FI_TCP_IFACE={only}: it has no address for this (it has: {has})")))
        }
        _ => Ok(offers),
    }
}

/// Each once, for a message.
fn list(names: impl Iterator<Item = String>) -> String {
    let mut unique: Vec<_> = names.collect();
    unique.sort();
    unique.dedup();
    unique.join(", ")
}

/// Automatic progress costs a thread, which is there for those who ask.
fn progress(hint: Option<Progress>) -> Progress {
    match hint {
        Some(Progress::Auto) => Progress::Auto,
        _ => Progress::Manual,
    }
}

fn with_scope(interface: &Interface) -> SocketAddr {
    match interface.ip() {
        IpAddr::V4(ip) => (ip, 0).into(),
        IpAddr::V6(ip) => {
            let scope = if ip.is_unicast_link_local() { interface.index.unwrap_or_default() } else { 0 };
            std::net::SocketAddrV6::new(ip, 0, 0, scope).into()
        }
    }
}

fn info(
    source: SocketAddr,
    dest: Option<SocketAddr>,
    interface: Option<&Interface>,
    is_listed: bool,
    hints: &Hints,
) -> Result<Info> {
    let offer = Offer {
        source,
        dest,
        domain: interface.map(|interface| interface.name.clone()),
        fabric: interface.map(network),
        tx_size: environment::queue_size("FI_TCP_TX_SIZE", hints.tx_attr.size),
        rx_size: environment::queue_size("FI_TCP_RX_SIZE", offer::receive_size(hints)),
        iov_limit: IOV_LIMIT,
        mr_iov_limit: memory::IOV_LIMIT,
        max_msg_size: MAX_MSG_SIZE,
        control_progress: progress(hints.domain_attr.control_progress),
        data_progress: progress(hints.domain_attr.data_progress),
        is_listed,
    };
    offer.info()
}

fn network(interface: &Interface) -> String {
    let prefix = match &interface.addr {
        IfAddr::V4(addr) => addr.netmask.to_bits().count_ones(),
        IfAddr::V6(addr) => addr.netmask.to_bits().count_ones(),
    };
    offer::network(interface.ip(), prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kofi_core::Version;
    use kofi_core::flags::MrMode;

    #[test]
    fn applications_of_before_1_5_find_it() {
        let old = || Hints::new().source(([127, 0, 0, 1], 0)).api_version(Version::new(1, 4));
        let basic = old().mr_mode(MrMode::BASIC);
        let scalable = old().mr_mode(MrMode::SCALABLE);
        let new = Hints::new().source(([127, 0, 0, 1], 0)).mr_mode(MrMode::empty());
        for (hints, granted) in [
            (old(), MrMode::BASIC),
            (basic, MrMode::BASIC),
            (scalable, MrMode::SCALABLE),
            (new, MrMode::empty()),
        ] {
            let infos = crate::getinfo(hints).unwrap();
            assert_eq!(infos[0].domain_attr.mr_mode, granted);
        }
    }

    #[test]
    fn a_node_without_an_address_of_the_format_is_not_left_out() {
        let hints = Hints::new().addr_format(kofi_core::AddrFormat::SockaddrIn6);
        let error = crate::getinfo(Query::new(hints).node("127.0.0.1").service(1)).unwrap_err();
        assert!(error.to_string().contains("no address of the format FI_SOCKADDR_IN6"), "{error}");
    }

    #[test]
    fn a_shared_receive_context_holds_more() {
        let mut hints = Hints::new().source(([127, 0, 0, 1], 0));
        let size = |hints: &Hints| crate::getinfo(hints.clone()).unwrap()[0].rx_attr.size;
        assert_eq!(size(&hints), offer::QUEUE_SIZE.0);
        hints.ep_attr.rx_ctx_cnt = Some(kofi_core::info::SHARED_CONTEXT);
        assert_eq!(size(&hints), offer::QUEUE_SIZE.1);
    }
}

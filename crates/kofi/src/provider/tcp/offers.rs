// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What the provider offers: one record for each address that it can use.

use std::net::{IpAddr, SocketAddr};

use if_addrs::{IfAddr, Interface};
use kofi_core::flags::{Caps, Mode, MrMode, OpFlags, Order};
use kofi_core::info::{DomainAttr, EpAttr, FabricAttr, RxAttr, TxAttr};
use kofi_core::memory;
use kofi_core::wire::header;
use kofi_core::{
    Address, AvType, EpType, Error, Info, Progress, Protocol, ResourceMgmt, Result, Threading, Version,
};

use super::{environment, socket};
use crate::getinfo::{Query, format_matches};

pub(super) const NAME: &str = "tcp";
const API: Version = Version { major: 1, minor: 17 };
pub(super) const INJECT_SIZE: usize = 128;
pub(super) const IOV_LIMIT: usize = 4;
/// The length on the wire counts the header in.
const MAX_MSG_SIZE: usize = usize::MAX - header::MAX_LEN;
/// Bytes of messages that are kept for each connection until there is a receive for them.
const BUFFERED: usize = 64 * 1024;
/// The default, and the most that can be asked for.
const QUEUE_SIZE: (usize, usize) = (256, 65536);

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
    let mut offer = |source: SocketAddr, dest: Option<SocketAddr>| {
        let interface = interfaces.iter().find(|interface| interface.ip() == source.ip());
        if (interface.is_some() || source.ip().is_unspecified()) && format_matches(format, &source) {
            offers.push(info(source, dest, interface, hints));
        }
    };
    if !dests.is_empty() {
        for dest in dests {
            match sources.iter().find(|source| source.is_ipv4() == dest.is_ipv4()) {
                Some(&source) => offer(source, Some(dest)),
                // The kernel knows which of our addresses is right for this peer.
                None => offer(socket::route(dest)?, Some(dest)),
            }
        }
    } else if !sources.is_empty() {
        sources.into_iter().for_each(|source| offer(source, None));
    } else {
        for interface in &interfaces {
            offer(with_scope(interface), None);
        }
        // fi_getinfo(3), FI_REMOTE_COMM: "endpoints located at remote nodes". Nobody was asked to list
        // this address, so whoever wants those gets none that they cannot reach.
        for offer in &mut offers {
            if offer
                .src_addr
                .as_ref()
                .and_then(|addr| addr.socket_addr())
                .is_some_and(|a| a.ip().is_loopback())
            {
                offer.caps -= Caps::REMOTE_COMM;
                offer.domain_attr.caps -= Caps::REMOTE_COMM;
            }
        }
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
    hints: &kofi_core::Hints,
) -> Info {
    let initiator = Caps::MSG | Caps::SEND | Caps::RMA | Caps::READ | Caps::WRITE;
    let target = Caps::MSG
        | Caps::RECV
        | Caps::MULTI_RECV
        | Caps::RMA
        | Caps::REMOTE_READ
        | Caps::REMOTE_WRITE
        | Caps::RMA_EVENT;
    let caps = initiator | target | Caps::LOCAL_COMM | Caps::REMOTE_COMM;
    let order = Order::SAS
        | Order::RAR
        | Order::RAW
        | Order::RAS
        | Order::WAW
        | Order::WAS
        | Order::SAW
        | Order::RMA_RAR
        | Order::RMA_RAW
        | Order::RMA_WAW;
    let (default, most) = QUEUE_SIZE;
    let size = |hint: Option<usize>| if hint.is_some() { most } else { default };
    let src_addr = Address::from(source);
    Info {
        caps,
        mode: Mode::empty(),
        addr_format: src_addr.addr_format(),
        src_addr: Some(src_addr),
        dest_addr: dest.map(Address::from),
        handle: None,
        tx_attr: TxAttr {
            caps: initiator,
            mode: Mode::empty(),
            op_flags: OpFlags::COMPLETION
                | OpFlags::INJECT
                | OpFlags::INJECT_COMPLETE
                | OpFlags::TRANSMIT_COMPLETE
                | OpFlags::DELIVERY_COMPLETE
                | OpFlags::COMMIT_COMPLETE
                | OpFlags::MATCH_COMPLETE,
            msg_order: order,
            comp_order: Order::STRICT,
            inject_size: INJECT_SIZE,
            size: size(hints.tx_attr.size),
            iov_limit: IOV_LIMIT,
            rma_iov_limit: header::MAX_SEGMENTS,
            tclass: 0,
        },
        rx_attr: RxAttr {
            caps: target,
            mode: Mode::empty(),
            op_flags: OpFlags::COMPLETION | OpFlags::MULTI_RECV,
            msg_order: order,
            comp_order: Order::STRICT,
            total_buffered_recv: BUFFERED,
            size: size(hints.rx_attr.size),
            iov_limit: IOV_LIMIT,
        },
        ep_attr: EpAttr {
            ep_type: EpType::Msg,
            protocol: Protocol::SockTcp,
            protocol_version: 0,
            max_msg_size: MAX_MSG_SIZE,
            max_order_raw_size: MAX_MSG_SIZE,
            max_order_waw_size: MAX_MSG_SIZE,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain_attr: DomainAttr {
            name: interface.map_or_else(|| "any".into(), |interface| interface.name.clone()),
            threading: Threading::Safe,
            control_progress: progress(hints.domain_attr.control_progress),
            data_progress: progress(hints.domain_attr.data_progress),
            resource_mgmt: ResourceMgmt::Enabled,
            av_type: AvType::Unspec,
            mr_mode: MrMode::BASIC | MrMode::SCALABLE,
            mr_key_size: 8,
            mr_iov_limit: memory::IOV_LIMIT,
            mr_cnt: 65536,
            cntr_cnt: 65536,
            cq_data_size: 8,
            cq_cnt: 65536,
            ep_cnt: 65536,
            tx_ctx_cnt: 65536,
            rx_ctx_cnt: 65536,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            max_ep_srx_ctx: 65536,
            caps: Caps::LOCAL_COMM | Caps::REMOTE_COMM,
            ..DomainAttr::default()
        },
        fabric_attr: FabricAttr {
            name: interface.map_or_else(|| "any".into(), network),
            prov_name: NAME.into(),
            prov_version: API,
            api_version: API,
        },
    }
}

/// The network of an interface's address, `192.0.2.0/24`.
fn network(interface: &Interface) -> String {
    match &interface.addr {
        IfAddr::V4(addr) => {
            format!("{}/{}", addr.ip & addr.netmask, addr.netmask.to_bits().count_ones())
        }
        IfAddr::V6(addr) => {
            format!("{}/{}", addr.ip & addr.netmask, addr.netmask.to_bits().count_ones())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kofi_core::Hints;

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
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What a `tcp` provider offers, whoever drives it: a record for each address that it can use
//! (`fi_getinfo(3)`), to be matched by [`negotiate`](crate::negotiate()).

use alloc::string::String;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{copy, text};
use crate::flags::{Caps, Mode, MrMode, OpFlags, Order};
use crate::info::{DomainAttr, EpAttr, FabricAttr, RxAttr, SHARED_CONTEXT, TxAttr};
use crate::wire::header;
use crate::{
    AddrFormat, Address, AvType, EpType, Hints, Info, Progress, Protocol, ResourceMgmt, Result, SocketAddr,
    Threading, Version,
};

/// The provider's name.
pub const NAME: &str = "tcp";
/// The version of the API that it has.
pub const API: Version = Version { major: 2, minor: 6 };
/// Its own version, as libfabric counts that of its providers for this API: programs ask for one at least that high.
pub const PROVIDER_VERSION: Version = Version { major: 206, minor: 0 };
/// Bytes of a message that can be injected.
pub const INJECT_SIZE: usize = 128;
/// Operations that a queue of an endpoint holds by default, and the most that can be asked for.
pub const QUEUE_SIZE: (usize, usize) = (256, 65536);
/// Bytes of messages that are kept for each connection until there is a receive for them.
const BUFFERED: usize = 64 * 1024;
/// What there may be no memory for.
const WHAT: &str = "a record of fi_getinfo";

/// An address, and what depends on the driver.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Our address.
    pub source: SocketAddr,
    /// The peer's.
    pub dest: Option<SocketAddr>,
    /// The name of the interface; `None` for an address of any.
    pub domain: Option<String>,
    /// The name of its [`network`]; `None` for an address of any.
    pub fabric: Option<String>,
    /// What the queues of an endpoint hold: [`queue_size`].
    pub tx_size: usize,
    /// The same for receives.
    pub rx_size: usize,
    /// Segments of an operation.
    pub iov_limit: usize,
    /// Segments of a memory region.
    pub mr_iov_limit: usize,
    /// Bytes of a message.
    pub max_msg_size: usize,
    /// Who makes progress with connections.
    pub control_progress: Progress,
    /// Who makes progress with messages.
    pub data_progress: Progress,
    /// Nobody has asked for this address: it is one of those that there are.
    pub is_listed: bool,
}

/// What a queue can hold at most, for this hint: without one, or with a zero for "any", the default.
pub fn queue_size(hint: Option<usize>) -> usize {
    let (default, most) = QUEUE_SIZE;
    if hint.is_some_and(|hint| hint > 0) { most } else { default }
}

/// The hint for a queue of receives. Many endpoints post to a receive context that they share, so that it holds
/// as much as there can be.
pub fn receive_size(hints: &Hints) -> Option<usize> {
    match hints.ep_attr.rx_ctx_cnt {
        Some(SHARED_CONTEXT) => Some(QUEUE_SIZE.1),
        _ => hints.rx_attr.size,
    }
}

/// Whether an address is of the format that was asked for.
pub fn format_matches(wanted: AddrFormat, addr: &SocketAddr) -> bool {
    match wanted {
        AddrFormat::SockaddrIn => addr.is_ipv4(),
        AddrFormat::SockaddrIn6 => addr.is_ipv6(),
        _ => true,
    }
}

/// The name of an address's network, `192.0.2.0/24`.
pub fn network(ip: IpAddr, prefix: u32) -> String {
    let first: IpAddr = match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(prefix)).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(prefix)).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    };
    text(format_args!("{first}/{prefix}"))
}

impl Offer {
    /// The record.
    ///
    /// # Errors
    /// -FI_ENOMEM.
    // By itself: its parts are not to be on a kernel's stack for all of the call.
    #[inline(never)]
    pub fn info(self) -> Result<Info> {
        let initiator = Caps::MSG | Caps::SEND | Caps::RMA | Caps::READ | Caps::WRITE;
        let target = Caps::MSG
            | Caps::RECV
            | Caps::MULTI_RECV
            | Caps::RMA
            | Caps::REMOTE_READ
            | Caps::REMOTE_WRITE
            | Caps::RMA_EVENT;
        // fi_getinfo(3), FI_REMOTE_COMM: "endpoints located at remote nodes". Whoever wants those gets no address
        // that they cannot reach, unless it was asked for.
        let places = match self.is_listed && self.source.ip().is_loopback() {
            true => Caps::LOCAL_COMM,
            false => Caps::LOCAL_COMM | Caps::REMOTE_COMM,
        };
        let name = |name: Option<String>| name.map_or_else(|| copy("any", WHAT), Ok);
        let order = Order::SAS
            | Order::RAR
            | Order::RAW
            | Order::RAS
            | Order::WAW
            | Order::WAS
            | Order::SAW
            | Order::RMA_RAR
            | Order::RMA_RAW
            | Order::RMA_WAW
            // There are no atomics, and programs ask for all that libfabric's provider lists.
            | Order::ATOMIC_RAR
            | Order::ATOMIC_RAW
            | Order::ATOMIC_WAW;
        let src_addr = Address::from(self.source);
        Ok(Info {
            caps: initiator | target | places,
            mode: Mode::empty(),
            addr_format: src_addr.addr_format(),
            src_addr: Some(src_addr),
            dest_addr: self.dest.map(Address::from),
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
                size: self.tx_size,
                iov_limit: self.iov_limit,
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
                size: self.rx_size,
                iov_limit: self.iov_limit,
            },
            ep_attr: EpAttr {
                ep_type: EpType::Msg,
                protocol: Protocol::SockTcp,
                protocol_version: 0,
                max_msg_size: self.max_msg_size,
                max_order_raw_size: self.max_msg_size,
                max_order_waw_size: self.max_msg_size,
                tx_ctx_cnt: 1,
                rx_ctx_cnt: 1,
                ..EpAttr::default()
            },
            domain_attr: DomainAttr {
                name: name(self.domain)?,
                threading: Threading::Safe,
                control_progress: self.control_progress,
                data_progress: self.data_progress,
                resource_mgmt: ResourceMgmt::Enabled,
                av_type: AvType::Unspec,
                mr_mode: MrMode::BASIC | MrMode::SCALABLE,
                mr_key_size: 8,
                mr_iov_limit: self.mr_iov_limit,
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
                caps: places,
                ..DomainAttr::default()
            },
            fabric_attr: FabricAttr {
                name: name(self.fabric)?,
                prov_name: copy(NAME, WHAT)?,
                prov_version: PROVIDER_VERSION,
                api_version: API,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    fn caps(source: IpAddr, is_listed: bool) -> (Caps, Caps) {
        let offer = Offer {
            source: SocketAddr::new(source, 0),
            dest: None,
            domain: None,
            fabric: None,
            tx_size: queue_size(None),
            rx_size: queue_size(Some(1)),
            iov_limit: 4,
            mr_iov_limit: 4,
            max_msg_size: 1,
            control_progress: Progress::Auto,
            data_progress: Progress::Auto,
            is_listed,
        };
        let info = offer.info().expect("memory");
        (info.caps, info.domain_attr.caps)
    }

    #[test]
    fn an_address_that_only_we_reach_is_remote_only_for_who_names_it() {
        let other: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
        for (source, is_listed, remote) in [
            (Ipv4Addr::LOCALHOST.into(), true, false),
            (Ipv6Addr::LOCALHOST.into(), true, false),
            (Ipv4Addr::LOCALHOST.into(), false, true),
            (other, true, true),
        ] {
            let (caps, domain) = caps(source, is_listed);
            assert_eq!((caps | domain).contains(Caps::REMOTE_COMM), remote, "{source}");
            assert_eq!((caps & domain).contains(Caps::REMOTE_COMM), remote, "{source}");
            assert!((caps & domain).contains(Caps::LOCAL_COMM));
        }
    }

    #[test]
    fn a_zero_asks_for_any_size() {
        assert_eq!([None, Some(0), Some(1), Some(70_000)].map(queue_size), [256, 256, 65536, 65536]);
    }
}

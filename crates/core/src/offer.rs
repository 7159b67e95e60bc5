// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What a `tcp` provider offers, whoever drives it: a record for each address that it can use
//! (`fi_getinfo(3)`), to be matched by [`negotiate`](crate::negotiate()).

use alloc::format;
use alloc::string::String;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::flags::{Caps, Mode, MrMode, OpFlags, Order};
use crate::info::{DomainAttr, EpAttr, FabricAttr, RxAttr, TxAttr};
use crate::wire::header;
use crate::{
    AddrFormat, Address, AvType, EpType, Info, Progress, Protocol, ResourceMgmt, SocketAddr, Threading,
    Version,
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
    /// Shared receive contexts of a domain.
    pub max_ep_srx_ctx: usize,
}

/// What a queue is to hold: whatever is asked for, or the default.
pub fn queue_size(is_asked_for: bool) -> usize {
    let (default, most) = QUEUE_SIZE;
    if is_asked_for { most } else { default }
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
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(prefix)).unwrap_or(0);
            format!("{}/{prefix}", Ipv4Addr::from_bits(ip.to_bits() & mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(prefix)).unwrap_or(0);
            format!("{}/{prefix}", Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
    }
}

impl Offer {
    /// The record.
    // By itself: its parts are not to be on a kernel's stack for all of the call.
    #[inline(never)]
    pub fn info(self) -> Info {
        let initiator = Caps::MSG | Caps::SEND | Caps::RMA | Caps::READ | Caps::WRITE;
        let target = Caps::MSG
            | Caps::RECV
            | Caps::MULTI_RECV
            | Caps::RMA
            | Caps::REMOTE_READ
            | Caps::REMOTE_WRITE
            | Caps::RMA_EVENT;
        let places = Caps::LOCAL_COMM | Caps::REMOTE_COMM;
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
        let src_addr = Address::from(self.source);
        Info {
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
                name: self.domain.unwrap_or_else(|| "any".into()),
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
                max_ep_srx_ctx: self.max_ep_srx_ctx,
                caps: places,
                ..DomainAttr::default()
            },
            fabric_attr: FabricAttr {
                name: self.fabric.unwrap_or_else(|| "any".into()),
                prov_name: NAME.into(),
                prov_version: PROVIDER_VERSION,
                api_version: API,
            },
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What the application asks for: `hints` of `fi_getinfo(3)`.

use alloc::{string::String, vec::Vec};

use crate::{
    address::Address,
    enums::{AddrFormat, AvType, EpType, Progress, Protocol, ResourceMgmt, Threading},
    flags::{Caps, Mode, MrMode, OpFlags, Order},
    info::Info,
    version::Version,
};

/// Criteria for an [`Info`]; `None` everywhere, as [`Hints::new`] gives it, is C's null pointer: anything goes.
///
/// ```
/// use kofi_core::{Caps, EpType, Hints};
///
/// let hints = Hints::new().provider("tcp").endpoint_type(EpType::Msg).caps(Caps::MSG);
/// ```
///
/// A zero (empty set, `Unspec`) means the same as `None`, with three exceptions: a `mode` says which modes the
/// application supports, an `mr_mode` likewise, and a count of contexts that is given excludes shared ones.
/// C's zeros in a structure that is present are therefore `Some` for these. Attributes younger than the version
/// that a C program was built for are `None`.
///
/// Attributes that no provider is measured against (`cq_cnt`, `ep_cnt`, the domain's context counts, `max_ep_*`,
/// `mr_key_size`, `msg_prefix_size`, `tclass`) have no hint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Needed capabilities.
    pub caps: Option<Caps>,
    /// Supported modes; `None`: all.
    pub mode: Option<Mode>,
    /// Wanted address format.
    pub addr_format: Option<AddrFormat>,
    /// Local address to use.
    pub src_addr: Option<Address>,
    /// Peer to reach.
    pub dest_addr: Option<Address>,
    /// Handed through to the result (`fi_getinfo(3)`, "handle").
    pub handle: Option<u64>,
    /// Transmit side.
    pub tx_attr: TxHints,
    /// Receive side.
    pub rx_attr: RxHints,
    /// Endpoint.
    pub ep_attr: EpHints,
    /// Domain.
    pub domain_attr: DomainHints,
    /// Fabric and provider.
    pub fabric_attr: FabricHints,
}

/// Criteria for a [`TxAttr`](crate::info::TxAttr).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxHints {
    /// Needed capabilities; those of the receive side are ignored.
    pub caps: Option<Caps>,
    /// Supported modes, if not those of [`Hints::mode`].
    pub mode: Option<Mode>,
    /// Default flags of operations.
    pub op_flags: Option<OpFlags>,
    /// Needed order of operations.
    pub msg_order: Option<Order>,
    /// Needed order of completions.
    pub comp_order: Option<Order>,
    /// Largest message to inject, in bytes.
    pub inject_size: Option<usize>,
    /// Operations to queue.
    pub size: Option<usize>,
    /// Buffers of one operation.
    pub iov_limit: Option<usize>,
    /// Remote ranges of one operation.
    pub rma_iov_limit: Option<usize>,
}

/// Criteria for an [`RxAttr`](crate::info::RxAttr).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RxHints {
    /// Needed capabilities; those of the transmit side are ignored.
    pub caps: Option<Caps>,
    /// Supported modes, if not those of [`Hints::mode`].
    pub mode: Option<Mode>,
    /// Default flags of operations.
    pub op_flags: Option<OpFlags>,
    /// Needed order of operations.
    pub msg_order: Option<Order>,
    /// Needed order of completions.
    pub comp_order: Option<Order>,
    /// Bytes to keep for messages that come before their receive.
    pub total_buffered_recv: Option<usize>,
    /// Operations to queue.
    pub size: Option<usize>,
    /// Buffers of one operation.
    pub iov_limit: Option<usize>,
}

/// Criteria for an [`EpAttr`](crate::info::EpAttr).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpHints {
    /// `type` in C.
    pub ep_type: Option<EpType>,
    /// Protocol on the wire.
    pub protocol: Option<Protocol>,
    /// Oldest version of that protocol.
    pub protocol_version: Option<u32>,
    /// Largest message to send, in bytes.
    pub max_msg_size: Option<usize>,
    /// Largest transfer, in bytes, that needs read-after-write order.
    pub max_order_raw_size: Option<usize>,
    /// Largest transfer, in bytes, that needs write-after-read order.
    pub max_order_war_size: Option<usize>,
    /// Largest transfer, in bytes, that needs write-after-write order.
    pub max_order_waw_size: Option<usize>,
    /// Bits of the tags to use.
    pub mem_tag_format: Option<u64>,
    /// Transmit contexts; 0: the provider's number; [`SHARED_CONTEXT`](crate::info::SHARED_CONTEXT).
    pub tx_ctx_cnt: Option<usize>,
    /// Receive contexts; 0: the provider's number; [`SHARED_CONTEXT`](crate::info::SHARED_CONTEXT).
    pub rx_ctx_cnt: Option<usize>,
    /// Authorization key.
    pub auth_key: Option<Vec<u8>>,
}

/// Criteria for a [`DomainAttr`](crate::info::DomainAttr).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainHints {
    /// Name of the domain.
    pub name: Option<String>,
    /// How the application's threads behave.
    pub threading: Option<Threading>,
    /// Needed progress of control operations.
    pub control_progress: Option<Progress>,
    /// Needed progress of data transfers.
    pub data_progress: Option<Progress>,
    /// Needed protection against overruns.
    pub resource_mgmt: Option<ResourceMgmt>,
    /// Kind of address vector.
    pub av_type: Option<AvType>,
    /// Supported registration modes; `None`: all.
    pub mr_mode: Option<MrMode>,
    /// Bytes of remote completion data.
    pub cq_data_size: Option<usize>,
    /// Counters to open.
    pub cntr_cnt: Option<usize>,
    /// Buffers of one memory region.
    pub mr_iov_limit: Option<usize>,
    /// Needed capabilities.
    pub caps: Option<Caps>,
    /// Supported modes of the domain; `None`: all.
    pub mode: Option<Mode>,
    /// Authorization key.
    pub auth_key: Option<Vec<u8>>,
    /// Bytes of provider data in an error entry.
    pub max_err_data: Option<usize>,
    /// Memory regions to register.
    pub mr_cnt: Option<usize>,
}

/// Criteria for a [`FabricAttr`](crate::info::FabricAttr).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricHints {
    /// Name of the fabric.
    pub name: Option<String>,
    /// Name of the provider.
    pub prov_name: Option<String>,
    /// Oldest version of the provider.
    pub prov_version: Option<Version>,
    /// Version of the interfaces: the first argument of `fi_getinfo`. Before 1.5, `mr_mode` has other rules.
    pub api_version: Option<Version>,
}

impl Hints {
    /// No criteria: every offer matches.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only this provider.
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.fabric_attr.prov_name = Some(name.into());
        self
    }

    /// Only this fabric.
    pub fn fabric(mut self, name: impl Into<String>) -> Self {
        self.fabric_attr.name = Some(name.into());
        self
    }

    /// Only this domain; for IP an interface.
    pub fn domain(mut self, name: impl Into<String>) -> Self {
        self.domain_attr.name = Some(name.into());
        self
    }

    /// The version of the interfaces that the application was written for.
    pub fn api_version(mut self, version: Version) -> Self {
        self.fabric_attr.api_version = Some(version);
        self
    }

    /// Only this kind of endpoint.
    pub fn endpoint_type(mut self, ep_type: EpType) -> Self {
        self.ep_attr.ep_type = Some(ep_type);
        self
    }

    /// Only this protocol.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.ep_attr.protocol = Some(protocol);
        self
    }

    /// At least these capabilities.
    pub fn caps(mut self, caps: Caps) -> Self {
        self.caps = Some(caps);
        self
    }

    /// No modes but these.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// No registration modes but these.
    pub fn mr_mode(mut self, mr_mode: MrMode) -> Self {
        self.domain_attr.mr_mode = Some(mr_mode);
        self
    }

    /// Only addresses of this format.
    pub fn addr_format(mut self, format: AddrFormat) -> Self {
        self.addr_format = Some(format);
        self
    }

    /// Use this local address.
    pub fn source(mut self, address: impl Into<Address>) -> Self {
        self.src_addr = Some(address.into());
        self
    }

    /// Reach this peer.
    pub fn dest(mut self, address: impl Into<Address>) -> Self {
        self.dest_addr = Some(address.into());
        self
    }

    /// The application calls from threads in this way.
    pub fn threading(mut self, threading: Threading) -> Self {
        self.domain_attr.threading = Some(threading);
        self
    }

    /// Control operations and data transfers progress at least in this way.
    pub fn progress(mut self, progress: Progress) -> Self {
        self.domain_attr.control_progress = Some(progress);
        self.domain_attr.data_progress = Some(progress);
        self
    }

    /// Messages up to this many bytes.
    pub fn max_msg_size(mut self, bytes: usize) -> Self {
        self.ep_attr.max_msg_size = Some(bytes);
        self
    }

    /// Injected messages up to this many bytes.
    pub fn inject_size(mut self, bytes: usize) -> Self {
        self.tx_attr.inject_size = Some(bytes);
        self
    }

    /// This many operations queued on the transmit and on the receive side.
    pub fn queue_sizes(mut self, tx: usize, rx: usize) -> Self {
        self.tx_attr.size = Some(tx);
        self.rx_attr.size = Some(rx);
        self
    }
}

/// Asks for exactly this info again, as applications do that pass a result back as hints.
impl From<&Info> for Hints {
    fn from(info: &Info) -> Self {
        info.clone().into()
    }
}

/// The same, without a copy.
impl From<Info> for Hints {
    fn from(info: Info) -> Self {
        let Info { tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, .. } = info;
        Self {
            caps: Some(info.caps),
            mode: Some(info.mode),
            addr_format: Some(info.addr_format),
            src_addr: info.src_addr,
            dest_addr: info.dest_addr,
            handle: info.handle,
            tx_attr: TxHints {
                caps: Some(tx_attr.caps),
                mode: Some(tx_attr.mode),
                op_flags: Some(tx_attr.op_flags),
                msg_order: Some(tx_attr.msg_order),
                comp_order: Some(tx_attr.comp_order),
                inject_size: Some(tx_attr.inject_size),
                size: Some(tx_attr.size),
                iov_limit: Some(tx_attr.iov_limit),
                rma_iov_limit: Some(tx_attr.rma_iov_limit),
            },
            rx_attr: RxHints {
                caps: Some(rx_attr.caps),
                mode: Some(rx_attr.mode),
                op_flags: Some(rx_attr.op_flags),
                msg_order: Some(rx_attr.msg_order),
                comp_order: Some(rx_attr.comp_order),
                total_buffered_recv: Some(rx_attr.total_buffered_recv),
                size: Some(rx_attr.size),
                iov_limit: Some(rx_attr.iov_limit),
            },
            ep_attr: EpHints {
                ep_type: Some(ep_attr.ep_type),
                protocol: Some(ep_attr.protocol),
                protocol_version: Some(ep_attr.protocol_version),
                max_msg_size: Some(ep_attr.max_msg_size),
                max_order_raw_size: Some(ep_attr.max_order_raw_size),
                max_order_war_size: Some(ep_attr.max_order_war_size),
                max_order_waw_size: Some(ep_attr.max_order_waw_size),
                mem_tag_format: Some(ep_attr.mem_tag_format),
                tx_ctx_cnt: Some(ep_attr.tx_ctx_cnt),
                rx_ctx_cnt: Some(ep_attr.rx_ctx_cnt),
                auth_key: Some(ep_attr.auth_key),
            },
            domain_attr: DomainHints {
                name: Some(domain_attr.name),
                threading: Some(domain_attr.threading),
                control_progress: Some(domain_attr.control_progress),
                data_progress: Some(domain_attr.data_progress),
                resource_mgmt: Some(domain_attr.resource_mgmt),
                av_type: Some(domain_attr.av_type),
                mr_mode: Some(domain_attr.mr_mode),
                cq_data_size: Some(domain_attr.cq_data_size),
                cntr_cnt: Some(domain_attr.cntr_cnt),
                mr_iov_limit: Some(domain_attr.mr_iov_limit),
                caps: Some(domain_attr.caps),
                mode: Some(domain_attr.mode),
                auth_key: Some(domain_attr.auth_key),
                max_err_data: Some(domain_attr.max_err_data),
                mr_cnt: Some(domain_attr.mr_cnt),
            },
            fabric_attr: FabricHints {
                name: Some(fabric_attr.name),
                prov_name: Some(fabric_attr.prov_name),
                prov_version: Some(fabric_attr.prov_version),
                api_version: Some(fabric_attr.api_version),
            },
        }
    }
}

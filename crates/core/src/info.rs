// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What a provider offers or grants: `fi_info` of `fi_getinfo(3)`.
//!
//! Names are C's. An offer carries maxima and supported sets; what [`negotiate`](crate::negotiate::negotiate)
//! grants from it carries what the application gets. Left out are C's pointers: the list link, the NIC, and the
//! objects already open (`fabric_attr->fabric`, `domain_attr->domain`).

use alloc::{string::String, vec::Vec};

use crate::{
    address::Address,
    enums::{AddrFormat, AvType, EpType, Progress, Protocol, ResourceMgmt, Threading},
    flags::{Caps, Mode, MrMode, OpFlags, Order},
    version::Version,
};

/// `FI_SHARED_CONTEXT`: a context count that asks for, or demands, a context shared between endpoints.
pub const SHARED_CONTEXT: usize = usize::MAX;

/// One way to communicate: fabric, domain and endpoint with all their attributes (`fi_getinfo(3)`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// What the endpoint can do.
    pub caps: Caps,
    /// What the application has to do.
    pub mode: Mode,
    /// Format of every address of this fabric.
    pub addr_format: AddrFormat,
    /// Local address; for an endpoint or listener opened from this info.
    pub src_addr: Option<Address>,
    /// Peer's address.
    pub dest_addr: Option<Address>,
    /// The passive endpoint or connection request that this info belongs to, by its owner's number.
    pub handle: Option<u64>,
    /// Transmit side.
    pub tx_attr: TxAttr,
    /// Receive side.
    pub rx_attr: RxAttr,
    /// Endpoint.
    pub ep_attr: EpAttr,
    /// Domain.
    pub domain_attr: DomainAttr,
    /// Fabric and provider.
    pub fabric_attr: FabricAttr,
}

/// Transmit context attributes (`fi_endpoint(3)`, "Transmit Context Attributes").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxAttr {
    /// Capabilities of the transmit side.
    pub caps: Caps,
    /// Modes of the transmit side.
    pub mode: Mode,
    /// Flags of operations that give none themselves; in an offer: those it supports.
    pub op_flags: OpFlags,
    /// Order of operations at the target.
    pub msg_order: Order,
    /// Order of completions.
    pub comp_order: Order,
    /// Largest injected message, in bytes.
    pub inject_size: usize,
    /// Operations that may be queued.
    pub size: usize,
    /// Buffers of one operation.
    pub iov_limit: usize,
    /// Remote ranges of one operation.
    pub rma_iov_limit: usize,
    /// Traffic class, `FI_TC_*` or a DSCP code point with bit 8 set.
    pub tclass: u32,
}

/// Receive context attributes (`fi_endpoint(3)`, "Receive Context Attributes").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RxAttr {
    /// Capabilities of the receive side.
    pub caps: Caps,
    /// Modes of the receive side.
    pub mode: Mode,
    /// Flags of operations that give none themselves; in an offer: those it supports.
    pub op_flags: OpFlags,
    /// Order in which the operations of a peer are processed.
    pub msg_order: Order,
    /// Order of completions.
    pub comp_order: Order,
    /// Bytes kept for messages that came before their receive.
    pub total_buffered_recv: usize,
    /// Operations that may be queued.
    pub size: usize,
    /// Buffers of one operation.
    pub iov_limit: usize,
}

/// Endpoint attributes (`fi_endpoint(3)`, "Endpoint Attributes").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpAttr {
    /// `type` in C.
    pub ep_type: EpType,
    /// Protocol on the wire.
    pub protocol: Protocol,
    /// Version of that protocol.
    pub protocol_version: u32,
    /// Largest message, in bytes.
    pub max_msg_size: usize,
    /// Bytes before each message that belong to the provider, under [`Mode::MSG_PREFIX`].
    pub msg_prefix_size: usize,
    /// Largest transfer, in bytes, that keeps read-after-write order.
    pub max_order_raw_size: usize,
    /// Largest transfer, in bytes, that keeps write-after-read order.
    pub max_order_war_size: usize,
    /// Largest transfer, in bytes, that keeps write-after-write order.
    pub max_order_waw_size: usize,
    /// The bits of a tag: the highest one set bounds them, alternating fields show how they are used (`fi_tagged(3)`).
    pub mem_tag_format: u64,
    /// Transmit contexts of the endpoint, or [`SHARED_CONTEXT`].
    pub tx_ctx_cnt: usize,
    /// Receive contexts of the endpoint, or [`SHARED_CONTEXT`].
    pub rx_ctx_cnt: usize,
    /// Bytes of an authorization key.
    pub auth_key_size: usize,
    /// The authorization key; empty in an offer.
    pub auth_key: Vec<u8>,
}

/// Domain attributes (`fi_domain(3)`, "Domain Attributes").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainAttr {
    /// Name of the domain; for IP the interface.
    pub name: String,
    /// Which calls may run at once.
    pub threading: Threading,
    /// Who drives connection management and address vectors.
    pub control_progress: Progress,
    /// Who drives data transfers.
    pub data_progress: Progress,
    /// Who prevents overruns.
    pub resource_mgmt: ResourceMgmt,
    /// Kind of address vector.
    pub av_type: AvType,
    /// Rules of memory registration.
    pub mr_mode: MrMode,
    /// Bytes of a memory key.
    pub mr_key_size: usize,
    /// Bytes of remote completion data.
    pub cq_data_size: usize,
    /// Best number of completion queues.
    pub cq_cnt: usize,
    /// Best number of endpoints.
    pub ep_cnt: usize,
    /// Best number of transmit contexts.
    pub tx_ctx_cnt: usize,
    /// Best number of receive contexts.
    pub rx_ctx_cnt: usize,
    /// Most transmit contexts of an endpoint.
    pub max_ep_tx_ctx: usize,
    /// Most receive contexts of an endpoint.
    pub max_ep_rx_ctx: usize,
    /// Most endpoints that share a transmit context; 0: none can.
    pub max_ep_stx_ctx: usize,
    /// Most endpoints that share a receive context; 0: none can.
    pub max_ep_srx_ctx: usize,
    /// Best number of counters.
    pub cntr_cnt: usize,
    /// Buffers of one memory region.
    pub mr_iov_limit: usize,
    /// Capabilities of the domain.
    pub caps: Caps,
    /// Modes of the domain.
    pub mode: Mode,
    /// Bytes of an authorization key.
    pub auth_key_size: usize,
    /// The authorization key; empty in an offer.
    pub auth_key: Vec<u8>,
    /// Most bytes of provider data in an error entry.
    pub max_err_data: usize,
    /// Best number of memory regions.
    pub mr_cnt: usize,
    /// Traffic class of endpoints that ask for none.
    pub tclass: u32,
}

/// Fabric attributes (`fi_fabric(3)`, "Fabric Attributes").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricAttr {
    /// Name of the fabric; for IP the network, `192.0.2.0/24`.
    pub name: String,
    /// Name of the provider.
    pub prov_name: String,
    /// Version of the provider.
    pub prov_version: Version,
    /// Version of the interfaces that the application asked for; in an offer: the newest it has.
    pub api_version: Version,
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Offers like those of libfabric's `tcp` provider, and hints against them. The fuzz target `getinfo` has them, too.

#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

use kofi_core::{
    AddrFormat, Address, AvType, Caps, EpType, Hints, Info, Mode, MrMode, OpFlags, Order, Progress, Protocol,
    ResourceMgmt, Threading, Version,
    info::{DomainAttr, EpAttr, FabricAttr, RxAttr, SHARED_CONTEXT, TxAttr},
};

pub(crate) const COMMON: Caps = Caps::MSG.union(Caps::RMA).union(Caps::RMA_PMEM);
pub(crate) const TX: Caps = COMMON.union(Caps::SEND).union(Caps::READ).union(Caps::WRITE);
pub(crate) const RX: Caps =
    COMMON.union(Caps::RECV).union(Caps::REMOTE_READ).union(Caps::REMOTE_WRITE).union(Caps::RMA_EVENT);
pub(crate) const REACH: Caps = Caps::LOCAL_COMM.union(Caps::REMOTE_COMM);

/// What libfabric 1.17's `tcp` offers for message endpoints on one interface.
pub(crate) fn tcp_offer() -> Info {
    let msg_order = Order::all() - Order::WAR - Order::SAR - Order::RMA_WAR - Order::ATOMIC_WAR - Order::DATA;
    Info {
        caps: TX | RX | REACH,
        mode: Mode::empty(),
        addr_format: AddrFormat::SockaddrIn,
        src_addr: Some("192.0.2.1:0".parse().unwrap()),
        tx_attr: TxAttr {
            caps: TX,
            op_flags: OpFlags::INJECT
                | OpFlags::INJECT_COMPLETE
                | OpFlags::TRANSMIT_COMPLETE
                | OpFlags::DELIVERY_COMPLETE
                | OpFlags::COMMIT_COMPLETE
                | OpFlags::COMPLETION,
            msg_order,
            comp_order: Order::STRICT,
            inject_size: 128,
            size: 1024,
            iov_limit: 4,
            rma_iov_limit: 4,
            ..TxAttr::default()
        },
        rx_attr: RxAttr {
            caps: RX,
            op_flags: OpFlags::COMPLETION,
            msg_order,
            comp_order: Order::STRICT,
            size: 65536,
            iov_limit: 4,
            ..RxAttr::default()
        },
        ep_attr: EpAttr {
            ep_type: EpType::Msg,
            protocol: Protocol::SockTcp,
            max_msg_size: usize::MAX,
            max_order_raw_size: usize::MAX,
            max_order_waw_size: usize::MAX,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain_attr: DomainAttr {
            name: "eth0".into(),
            threading: Threading::Safe,
            control_progress: Progress::Auto,
            data_progress: Progress::Auto,
            resource_mgmt: ResourceMgmt::Enabled,
            mr_mode: MrMode::BASIC | MrMode::SCALABLE,
            mr_key_size: 8,
            cq_data_size: 8,
            cq_cnt: 256,
            ep_cnt: 8192,
            tx_ctx_cnt: 8192,
            rx_ctx_cnt: 8192,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            max_ep_srx_ctx: 8192,
            mr_iov_limit: 1,
            caps: REACH,
            ..DomainAttr::default()
        },
        fabric_attr: FabricAttr {
            name: "192.0.2.0/24".into(),
            prov_name: "tcp".into(),
            prov_version: Version::new(117, 0),
            api_version: Version::new(1, 17),
        },
        ..Info::default()
    }
}

/// The same with tags, for endpoints on a shared receive context.
pub(crate) fn tagged_offer() -> Info {
    let mut offer = tcp_offer();
    for caps in [&mut offer.caps, &mut offer.tx_attr.caps, &mut offer.rx_attr.caps] {
        *caps |= Caps::TAGGED;
    }
    offer.ep_attr.rx_ctx_cnt = SHARED_CONTEXT;
    offer.ep_attr.mem_tag_format = 0x00aa_aaaa_aaaa_aaaa;
    offer
}

/// A provider that leans on the application: registration of everything and a context per operation.
pub(crate) fn demanding_offer() -> Info {
    let mut offer = tcp_offer();
    offer.fabric_attr.prov_name = "verbs".into();
    offer.mode = Mode::CONTEXT;
    offer.domain_attr.mr_mode = MrMode::BASIC | MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::PROV_KEY;
    offer.domain_attr.threading = Threading::Domain;
    offer.domain_attr.data_progress = Progress::Manual;
    offer.domain_attr.av_type = AvType::Table;
    offer.domain_attr.mode = Mode::RESTRICTED_COMP;
    offer.domain_attr.auth_key_size = 4;
    offer.ep_attr.auth_key_size = 4;
    offer
}

/// A numeric hint: its name in C, how to set it if it is not set, and the most that an offer allows.
pub(crate) struct Number(
    pub(crate) &'static str,
    pub(crate) fn(&mut Hints, usize),
    pub(crate) fn(&Info) -> usize,
);

macro_rules! number {
    ($attr:ident.$field:ident) => {
        number!($attr.$field, |info| info.$attr.$field as usize)
    };
    ($attr:ident.$field:ident, $limit:expr) => {
        Number(
            concat!(stringify!($attr), ".", stringify!($field)),
            |hints, number| _ = hints.$attr.$field.get_or_insert(number as _),
            $limit,
        )
    };
}

macro_rules! version {
    ($field:ident) => {
        Number(
            concat!("fabric_attr.", stringify!($field)),
            |hints, number| _ = hints.fabric_attr.$field.get_or_insert(Version::from_raw(number as u32)),
            |info| info.fabric_attr.$field.raw() as usize,
        )
    };
}

pub(crate) const NUMBERS: [Number; 22] = [
    number!(tx_attr.inject_size),
    number!(tx_attr.size),
    number!(tx_attr.iov_limit),
    number!(tx_attr.rma_iov_limit),
    number!(rx_attr.total_buffered_recv),
    number!(rx_attr.size),
    number!(rx_attr.iov_limit),
    number!(ep_attr.protocol_version),
    number!(ep_attr.max_msg_size),
    number!(ep_attr.max_order_raw_size),
    number!(ep_attr.max_order_war_size),
    number!(ep_attr.max_order_waw_size),
    number!(ep_attr.mem_tag_format, |info| {
        usize::MAX.checked_shr(info.ep_attr.mem_tag_format.leading_zeros()).unwrap_or(0)
    }),
    number!(ep_attr.tx_ctx_cnt, |info| info.domain_attr.max_ep_tx_ctx),
    number!(ep_attr.rx_ctx_cnt, |info| info.domain_attr.max_ep_rx_ctx),
    number!(domain_attr.cq_data_size),
    number!(domain_attr.cntr_cnt),
    number!(domain_attr.mr_iov_limit),
    number!(domain_attr.max_err_data),
    number!(domain_attr.mr_cnt),
    version!(prov_version),
    version!(api_version),
];

/// Sets a hint if it is not set. There is none for capabilities, which choose what other hints count at all.
pub(crate) type SetHint = fn(&mut Hints, u64);

pub(crate) const OTHERS: [SetHint; 15] = [
    |h, v| _ = h.mode.get_or_insert(Mode::from_bits_truncate(v)),
    |h, v| _ = h.tx_attr.mode.get_or_insert(Mode::from_bits_truncate(v)),
    |h, v| _ = h.domain_attr.mode.get_or_insert(Mode::from_bits_truncate(v)),
    |h, v| _ = h.domain_attr.mr_mode.get_or_insert(MrMode::from_bits_truncate(v)),
    |h, v| _ = h.ep_attr.ep_type.get_or_insert(EpType::from_raw(v as u32 % 4)),
    |h, v| _ = h.ep_attr.protocol.get_or_insert(Protocol::from_raw(v as u32 % 8)),
    |h, v| _ = h.ep_attr.rx_ctx_cnt.get_or_insert([0, 1, SHARED_CONTEXT][v as usize % 3]),
    |h, v| _ = h.domain_attr.threading.get_or_insert(Threading::from_raw(v as u32 % 7)),
    |h, v| _ = h.domain_attr.data_progress.get_or_insert(Progress::from_raw(v as u32 % 4)),
    |h, v| _ = h.domain_attr.resource_mgmt.get_or_insert(ResourceMgmt::from_raw(v as u32 % 4)),
    |h, v| _ = h.domain_attr.av_type.get_or_insert(AvType::from_raw(v as u32 % 3)),
    |h, v| _ = h.addr_format.get_or_insert(AddrFormat::from_raw(v as u32 % 10)),
    |h, v| _ = h.src_addr.get_or_insert(Address::Inet(([192, 0, 2, v as u8 % 3], 5000).into())),
    |h, v| _ = h.tx_attr.op_flags.get_or_insert(OpFlags::from_bits_truncate(v & v >> 7 & v >> 13)),
    |h, v| _ = h.rx_attr.msg_order.get_or_insert(Order::from_bits_truncate(v & v >> 7)),
];

/// An offer with other numbers and capabilities.
pub(crate) fn varied(mut offer: Info, n: &[usize], caps: u64) -> Info {
    offer.caps = (offer.caps & Caps::from_bits_truncate(caps)) | Caps::MSG | Caps::RMA | Caps::TAGGED;
    offer.ep_attr.mem_tag_format = 0x2a;
    offer.tx_attr.caps &= offer.caps;
    offer.rx_attr.caps &= offer.caps;
    offer.domain_attr.caps &= offer.caps;
    [offer.tx_attr.inject_size, offer.tx_attr.size, offer.tx_attr.iov_limit] = [n[0], n[1], n[2]];
    [offer.rx_attr.size, offer.rx_attr.iov_limit, offer.rx_attr.total_buffered_recv] = [n[3], n[4], n[5]];
    offer.ep_attr.protocol_version = n[6] as u32;
    [offer.ep_attr.max_msg_size, offer.ep_attr.max_order_raw_size] = [n[7], n[8]];
    offer.ep_attr.max_order_waw_size = n[9];
    [offer.domain_attr.cntr_cnt, offer.domain_attr.mr_cnt] = [n[10], n[11]];
    offer
}

/// Hints with a few criteria, of which some match.
pub(crate) fn some_hints(choices: &[(usize, u64)]) -> Hints {
    let mut hints = Hints::new();
    choices.iter().for_each(|choice| tighten(&mut hints, *choice));
    hints
}

pub(crate) fn tighten(hints: &mut Hints, (which, value): (usize, u64)) {
    match OTHERS.get(which) {
        Some(set) => set(hints, value),
        None => NUMBERS[which - OTHERS.len()].1(hints, value as usize % 20_000),
    }
}

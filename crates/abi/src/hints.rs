// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `hints` of `fi_getinfo(3)`, translated.
//!
//! A null attribute asks for nothing. In one that is there, a zero asks for nothing either, but for modes, which are
//! those that the application supports, and counts of contexts, where 0 is a number ([`Hints`]).

use kofi_core::hints::{DomainHints, EpHints, FabricHints, RxHints, TxHints};
use kofi_core::{
    AddrFormat, AvType, Caps, EpType, Hints, Mode, OpFlags, Order, Progress, Protocol, ResourceMgmt, Result,
    Threading, Version,
};

use crate::heap;
use crate::info::{Wide, auth_key, handle, mr_mode};
use crate::sys::{fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr};

use crate::layout::InfoLayout;

/// fi_getinfo(3): domain attributes from `cntr_cnt` on count from this version of the interfaces.
const DOMAIN_1_5: Version = Version::new(1, 5);

/// What an application asks for that wants this version of the interfaces.
///
/// # Errors
/// -FI_ENODATA for an address that is none.
///
/// # Safety
/// Null, or hints in that layout, whose pointers are null or good.
pub unsafe fn read(version: Version, hints: *const fi_info, layout: &InfoLayout) -> Result<Hints> {
    if hints.is_null() {
        return Ok(Hints::new().api_version(version));
    }
    // SAFETY: the caller's word, here and for the pointers below.
    unsafe {
        let wide = Wide::read(hints, layout);
        Ok(Hints {
            caps: Some(Caps::from_bits_retain(wide.info.caps)),
            mode: Some(Mode::from_bits_retain(wide.info.mode)),
            addr_format: Some(AddrFormat::from_raw(wide.info.addr_format)),
            src_addr: wide.address(wide.info.src_addr, wide.info.src_addrlen)?,
            dest_addr: wide.address(wide.info.dest_addr, wide.info.dest_addrlen)?,
            handle: handle(wide.info.handle),
            tx_attr: wide.tx_attr.map(tx_attr).unwrap_or_default(),
            rx_attr: wide.rx_attr.map(rx_attr).unwrap_or_default(),
            ep_attr: wide.ep_attr.map(|attr| ep_attr(attr)).unwrap_or_default(),
            domain_attr: wide.domain_attr.map(|attr| domain_attr(version, attr)).unwrap_or_default(),
            fabric_attr: FabricHints {
                api_version: Some(version),
                ..wide.fabric_attr.map(|attr| fabric_attr(attr)).unwrap_or_default()
            },
        })
    }
}

fn tx_attr(attr: fi_tx_attr) -> TxHints {
    TxHints {
        caps: Some(Caps::from_bits_retain(attr.caps)),
        mode: Some(Mode::from_bits_retain(attr.mode)),
        op_flags: Some(OpFlags::from_bits_retain(attr.op_flags)),
        msg_order: Some(Order::from_bits_retain(attr.msg_order)),
        comp_order: Some(Order::from_bits_retain(attr.comp_order)),
        inject_size: Some(attr.inject_size),
        size: number(attr.size),
        iov_limit: Some(attr.iov_limit),
        rma_iov_limit: Some(attr.rma_iov_limit),
    }
}

fn rx_attr(attr: fi_rx_attr) -> RxHints {
    RxHints {
        caps: Some(Caps::from_bits_retain(attr.caps)),
        mode: Some(Mode::from_bits_retain(attr.mode)),
        op_flags: Some(OpFlags::from_bits_retain(attr.op_flags)),
        msg_order: Some(Order::from_bits_retain(attr.msg_order)),
        comp_order: Some(Order::from_bits_retain(attr.comp_order)),
        total_buffered_recv: Some(attr.total_buffered_recv),
        size: number(attr.size),
        iov_limit: Some(attr.iov_limit),
    }
}

/// A size that providers have a default for, which a 0 asks for.
fn number(size: usize) -> Option<usize> {
    Some(size).filter(|size| *size != 0)
}

/// # Safety
/// Its pointers are null or good.
unsafe fn ep_attr(attr: fi_ep_attr) -> EpHints {
    EpHints {
        ep_type: Some(EpType::from_raw(attr.r#type)),
        protocol: Some(Protocol::from_raw(attr.protocol)),
        protocol_version: Some(attr.protocol_version),
        max_msg_size: Some(attr.max_msg_size),
        max_order_raw_size: Some(attr.max_order_raw_size),
        max_order_war_size: Some(attr.max_order_war_size),
        max_order_waw_size: Some(attr.max_order_waw_size),
        mem_tag_format: Some(attr.mem_tag_format),
        tx_ctx_cnt: Some(attr.tx_ctx_cnt),
        rx_ctx_cnt: Some(attr.rx_ctx_cnt),
        // SAFETY: the caller's word.
        auth_key: Some(unsafe { auth_key(attr.auth_key, attr.auth_key_size) }),
    }
}

/// # Safety
/// Its pointers are null or good.
unsafe fn domain_attr(version: Version, attr: fi_domain_attr) -> DomainHints {
    // SAFETY: the caller's word.
    let name = unsafe { heap::read_text(attr.name) };
    let hints = DomainHints {
        name,
        threading: Some(Threading::from_raw(attr.threading)),
        control_progress: Some(Progress::from_raw(attr.control_progress)),
        data_progress: Some(Progress::from_raw(attr.data_progress)),
        resource_mgmt: Some(ResourceMgmt::from_raw(attr.resource_mgmt)),
        av_type: Some(AvType::from_raw(attr.av_type)),
        mr_mode: Some(mr_mode(attr.mr_mode)),
        cq_data_size: Some(attr.cq_data_size),
        ..DomainHints::default()
    };
    if version < DOMAIN_1_5 {
        return hints;
    }
    DomainHints {
        cntr_cnt: Some(attr.cntr_cnt),
        mr_iov_limit: Some(attr.mr_iov_limit),
        caps: Some(Caps::from_bits_retain(attr.caps)),
        mode: Some(Mode::from_bits_retain(attr.mode)),
        // SAFETY: the caller's word.
        auth_key: Some(unsafe { auth_key(attr.auth_key, attr.auth_key_size) }),
        max_err_data: Some(attr.max_err_data),
        mr_cnt: Some(attr.mr_cnt),
        ..hints
    }
}

/// # Safety
/// Its pointers are null or good.
unsafe fn fabric_attr(attr: fi_fabric_attr) -> FabricHints {
    FabricHints {
        // SAFETY: the caller's word.
        name: unsafe { heap::read_text(attr.name) },
        // Of several forms, so that it is looked at apart from the others.
        prov_name: None,
        prov_version: Some(Version::from_raw(attr.prov_version)),
        api_version: None,
    }
}

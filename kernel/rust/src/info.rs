// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Records: the flat ones of C, and those that are matched and printed.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use kofi_core::error::copy;
use kofi_core::flags::{Caps, Mode, MrMode, OpFlags, Order};
use kofi_core::hints::{DomainHints, EpHints, FabricHints, RxHints, TxHints};
use kofi_core::info::{DomainAttr, EpAttr, FabricAttr, RxAttr, TxAttr};
use kofi_core::{
    AddrFormat, Address, AvType, EpType, Error, Hints, Info, Progress, Protocol, ResourceMgmt, Result,
    Threading, Version,
};

use crate::c;

/// Memory for a record, empty.
pub(crate) fn boxed() -> Result<Box<c::Info>> {
    // SAFETY: all of it are numbers and a pointer, for which zeros are fine.
    Box::try_new_zeroed().map(|info| unsafe { info.assume_init() }).map_err(|_| Error::NoMemory("a record"))
}

fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn address(addr: &c::Addr) -> Option<Address> {
    addr.get().map(Address::from)
}

fn put_address(addr: &Option<Address>) -> c::Addr {
    addr.as_ref().and_then(Address::socket_addr).map_or_else(c::Addr::default, c::Addr::from)
}

/// What there may be no memory for.
const WHAT: &str = "a copy of a record";

fn owned(bytes: &[u8]) -> Result<String> {
    copy(c::text(bytes), WHAT)
}

/// A key of that length: nothing here matches one.
fn auth_key(len: u64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    if len > 0 {
        key.try_reserve_exact(1).map_err(|_| Error::NoMemory(WHAT))?;
        key.push(0);
    }
    Ok(key)
}

pub(crate) fn to_tx(attr: &c::TxAttr) -> TxAttr {
    TxAttr {
        caps: Caps::from_bits_retain(attr.caps),
        mode: Mode::from_bits_retain(attr.mode),
        op_flags: OpFlags::from_bits_retain(attr.op_flags),
        msg_order: Order::from_bits_retain(attr.msg_order),
        comp_order: Order::from_bits_retain(attr.comp_order),
        inject_size: size(attr.inject_size),
        size: size(attr.size),
        iov_limit: size(attr.iov_limit),
        rma_iov_limit: size(attr.rma_iov_limit),
        tclass: attr.tclass,
    }
}

pub(crate) fn to_rx(attr: &c::RxAttr) -> RxAttr {
    RxAttr {
        caps: Caps::from_bits_retain(attr.caps),
        mode: Mode::from_bits_retain(attr.mode),
        op_flags: OpFlags::from_bits_retain(attr.op_flags),
        msg_order: Order::from_bits_retain(attr.msg_order),
        comp_order: Order::from_bits_retain(attr.comp_order),
        total_buffered_recv: size(attr.total_buffered_recv),
        size: size(attr.size),
        iov_limit: size(attr.iov_limit),
    }
}

pub(crate) fn to_ep(attr: &c::EpAttr) -> Result<EpAttr> {
    Ok(EpAttr {
        ep_type: EpType::from_raw(attr.ep_type),
        protocol: Protocol::from_raw(attr.protocol),
        protocol_version: attr.protocol_version,
        max_msg_size: size(attr.max_msg_size),
        msg_prefix_size: size(attr.msg_prefix_size),
        max_order_raw_size: size(attr.max_order_raw_size),
        max_order_war_size: size(attr.max_order_war_size),
        max_order_waw_size: size(attr.max_order_waw_size),
        mem_tag_format: attr.mem_tag_format,
        tx_ctx_cnt: size(attr.tx_ctx_cnt),
        rx_ctx_cnt: size(attr.rx_ctx_cnt),
        auth_key_size: size(attr.auth_key_size),
        auth_key: auth_key(attr.auth_key_size)?,
    })
}

pub(crate) fn to_domain(attr: &c::DomainAttr) -> Result<DomainAttr> {
    Ok(DomainAttr {
        name: owned(&attr.name)?,
        threading: Threading::from_raw(attr.threading),
        control_progress: Progress::from_raw(attr.control_progress),
        data_progress: Progress::from_raw(attr.data_progress),
        resource_mgmt: ResourceMgmt::from_raw(attr.resource_mgmt),
        av_type: AvType::from_raw(attr.av_type),
        mr_mode: MrMode::from_bits_retain(attr.mr_mode),
        mr_key_size: size(attr.mr_key_size),
        cq_data_size: size(attr.cq_data_size),
        cq_cnt: size(attr.cq_cnt),
        ep_cnt: size(attr.ep_cnt),
        tx_ctx_cnt: size(attr.tx_ctx_cnt),
        rx_ctx_cnt: size(attr.rx_ctx_cnt),
        max_ep_tx_ctx: size(attr.max_ep_tx_ctx),
        max_ep_rx_ctx: size(attr.max_ep_rx_ctx),
        max_ep_stx_ctx: size(attr.max_ep_stx_ctx),
        max_ep_srx_ctx: size(attr.max_ep_srx_ctx),
        cntr_cnt: size(attr.cntr_cnt),
        mr_iov_limit: size(attr.mr_iov_limit),
        caps: Caps::from_bits_retain(attr.caps),
        mode: Mode::from_bits_retain(attr.mode),
        auth_key_size: size(attr.auth_key_size),
        auth_key: auth_key(attr.auth_key_size)?,
        max_err_data: size(attr.max_err_data),
        mr_cnt: size(attr.mr_cnt),
        tclass: attr.tclass,
    })
}

pub(crate) fn to_fabric(attr: &c::FabricAttr) -> Result<FabricAttr> {
    Ok(FabricAttr {
        name: owned(&attr.name)?,
        prov_name: owned(&attr.prov_name)?,
        prov_version: Version::from_raw(attr.prov_version),
        api_version: Version::from_raw(attr.api_version),
    })
}

pub(crate) fn to_info(info: &c::Info) -> Result<Info> {
    Ok(Info {
        caps: Caps::from_bits_retain(info.caps),
        mode: Mode::from_bits_retain(info.mode),
        addr_format: AddrFormat::from_raw(info.addr_format),
        src_addr: address(&info.src_addr),
        dest_addr: address(&info.dest_addr),
        handle: (info.handle != 0).then_some(info.handle),
        tx_attr: to_tx(&info.tx),
        rx_attr: to_rx(&info.rx),
        ep_attr: to_ep(&info.ep)?,
        domain_attr: to_domain(&info.domain)?,
        fabric_attr: to_fabric(&info.fabric)?,
    })
}

/// Fills a record of C's.
#[inline(never)]
pub(crate) fn put(info: &Info, place: &mut c::Info) {
    let Info { tx_attr: tx, rx_attr: rx, ep_attr: ep, domain_attr: domain, fabric_attr: fabric, .. } = info;
    place.caps = info.caps.bits();
    place.mode = info.mode.bits();
    place.addr_format = info.addr_format.raw();
    place.present = u32::MAX;
    place.src_addr = put_address(&info.src_addr);
    place.dest_addr = put_address(&info.dest_addr);
    place.handle = info.handle.unwrap_or_default();
    place.tx = c::TxAttr {
        caps: tx.caps.bits(),
        mode: tx.mode.bits(),
        op_flags: tx.op_flags.bits(),
        msg_order: tx.msg_order.bits(),
        comp_order: tx.comp_order.bits(),
        inject_size: tx.inject_size as u64,
        size: tx.size as u64,
        iov_limit: tx.iov_limit as u64,
        rma_iov_limit: tx.rma_iov_limit as u64,
        tclass: tx.tclass,
        reserved: 0,
    };
    place.rx = c::RxAttr {
        caps: rx.caps.bits(),
        mode: rx.mode.bits(),
        op_flags: rx.op_flags.bits(),
        msg_order: rx.msg_order.bits(),
        comp_order: rx.comp_order.bits(),
        total_buffered_recv: rx.total_buffered_recv as u64,
        size: rx.size as u64,
        iov_limit: rx.iov_limit as u64,
    };
    place.ep = c::EpAttr {
        ep_type: ep.ep_type.raw(),
        protocol: ep.protocol.raw(),
        protocol_version: ep.protocol_version,
        reserved: 0,
        max_msg_size: ep.max_msg_size as u64,
        msg_prefix_size: ep.msg_prefix_size as u64,
        max_order_raw_size: ep.max_order_raw_size as u64,
        max_order_war_size: ep.max_order_war_size as u64,
        max_order_waw_size: ep.max_order_waw_size as u64,
        mem_tag_format: ep.mem_tag_format,
        tx_ctx_cnt: ep.tx_ctx_cnt as u64,
        rx_ctx_cnt: ep.rx_ctx_cnt as u64,
        auth_key_size: ep.auth_key_size as u64,
    };
    c::put_text(&mut place.domain.name, &domain.name);
    place.domain.threading = domain.threading.raw();
    place.domain.control_progress = domain.control_progress.raw();
    place.domain.data_progress = domain.data_progress.raw();
    place.domain.resource_mgmt = domain.resource_mgmt.raw();
    place.domain.av_type = domain.av_type.raw();
    place.domain.tclass = domain.tclass;
    place.domain.mr_mode = domain.mr_mode.bits();
    place.domain.mr_key_size = domain.mr_key_size as u64;
    place.domain.cq_data_size = domain.cq_data_size as u64;
    place.domain.cq_cnt = domain.cq_cnt as u64;
    place.domain.ep_cnt = domain.ep_cnt as u64;
    place.domain.tx_ctx_cnt = domain.tx_ctx_cnt as u64;
    place.domain.rx_ctx_cnt = domain.rx_ctx_cnt as u64;
    place.domain.max_ep_tx_ctx = domain.max_ep_tx_ctx as u64;
    place.domain.max_ep_rx_ctx = domain.max_ep_rx_ctx as u64;
    place.domain.max_ep_stx_ctx = domain.max_ep_stx_ctx as u64;
    place.domain.max_ep_srx_ctx = domain.max_ep_srx_ctx as u64;
    place.domain.cntr_cnt = domain.cntr_cnt as u64;
    place.domain.mr_iov_limit = domain.mr_iov_limit as u64;
    place.domain.caps = domain.caps.bits();
    place.domain.mode = domain.mode.bits();
    place.domain.auth_key_size = domain.auth_key_size as u64;
    place.domain.max_err_data = domain.max_err_data as u64;
    place.domain.mr_cnt = domain.mr_cnt as u64;
    c::put_text(&mut place.fabric.name, &fabric.name);
    c::put_text(&mut place.fabric.prov_name, &fabric.prov_name);
    place.fabric.prov_version = fabric.prov_version.raw();
    place.fabric.api_version = fabric.api_version.raw();
}

fn named(name: Option<String>) -> Option<String> {
    name.filter(|name| !name.is_empty())
}

/// Hints of C's: parts that are not there ask for nothing.
#[inline(never)]
pub(crate) fn to_hints(info: &c::Info) -> Result<Box<Hints>> {
    let mut hints = boxed_hints(Hints::from(to_info(info)?))?;
    let has = |part: u32| info.present & part != 0;
    if !has(c::HAS_TX_ATTR) {
        hints.tx_attr = TxHints::default();
    }
    if !has(c::HAS_RX_ATTR) {
        hints.rx_attr = RxHints::default();
    }
    if !has(c::HAS_EP_ATTR) {
        hints.ep_attr = EpHints::default();
    }
    match has(c::HAS_DOMAIN_ATTR) {
        true => hints.domain_attr.name = named(hints.domain_attr.name.take()),
        false => hints.domain_attr = DomainHints::default(),
    }
    match has(c::HAS_FABRIC_ATTR) {
        true => {
            hints.fabric_attr.name = named(hints.fabric_attr.name.take());
            hints.fabric_attr.prov_name = named(hints.fabric_attr.prov_name.take());
        }
        false => hints.fabric_attr = FabricHints::default(),
    }
    Ok(hints)
}

/// Where they are not in the way: the stack is needed by what is done with them.
pub(crate) fn boxed_hints(hints: Hints) -> Result<Box<Hints>> {
    Box::try_new(hints).map_err(|_| Error::NoMemory("hints"))
}

#[unsafe(no_mangle)]
extern "C" fn kofi_dupinfo(info: *const c::Info) -> *mut c::Info {
    let Ok(mut copy) = boxed() else { return core::ptr::null_mut() };
    // SAFETY: null, or the caller's for the call.
    if let Some(info) = unsafe { info.as_ref() } {
        *copy = *info;
        copy.next = core::ptr::null_mut();
    }
    Box::into_raw(copy)
}

/// Frees the records of a list, which its owner gives up.
pub(crate) fn free(list: *mut c::Info) {
    let mut next = list;
    while !next.is_null() {
        // SAFETY: a record of ours, which its owner gives up.
        let info = unsafe { Box::from_raw(next) };
        next = info.next;
    }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_freeinfo(list: *mut c::Info) {
    free(list);
}

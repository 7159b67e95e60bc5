// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Infos as text: the layout of `fi_tostr(3)` in libfabric 1.17, which `fi_info -v` shows.
//!
//! The pointers that an [`Info`] does not have (the open domain, the NIC) are printed as null.

use core::fmt::{Display, Formatter, Result};

use crate::{
    address::Address,
    flags::Order,
    info::{DomainAttr, EpAttr, FabricAttr, Info, RxAttr, SHARED_CONTEXT, TxAttr},
};

const TAB: &str = "    ";

/// Writes `name: value` lines, each with this indentation.
macro_rules! lines {
    ($f:expr, $indent:expr, $($name:literal $value:expr,)*) => {{
        $(writeln!($f, concat!("{}", $name, ": {}"), $indent, $value)?;)*
    }};
}

/// A set of flags in brackets.
struct Set<T>(T);

impl<T: Display> Display for Set<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "[ {} ]", self.0)
    }
}

/// Completion order, which is strict or none; other bits than `FI_ORDER_DATA` have no name here.
struct CompOrder(Order);

impl Display for CompOrder {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let ordered = match self.0 & Order::STRICT {
            Order::STRICT => "FI_ORDER_STRICT",
            order if order.is_empty() => "FI_ORDER_NONE",
            _ => "",
        };
        match (ordered, self.0.contains(Order::DATA)) {
            (_, false) => f.write_str(ordered),
            ("", true) => f.write_str("FI_ORDER_DATA"),
            (_, true) => write!(f, "{ordered}, FI_ORDER_DATA"),
        }
    }
}

/// A number of contexts, or that they are shared.
struct Contexts(usize);

impl Display for Contexts {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            SHARED_CONTEXT => f.write_str("FI_SHARED_CONTEXT"),
            count => Display::fmt(&count, f),
        }
    }
}

/// An address, or `(null)`.
struct MaybeAddress<'a>(&'a Option<Address>);

impl Display for MaybeAddress<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Some(address) => Display::fmt(address, f),
            None => f.write_str("(null)"),
        }
    }
}

impl Display for Info {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let c_len = |address: &Option<Address>| address.as_ref().map_or(0, Address::c_len);
        f.write_str("fi_info:\n")?;
        lines! { f, TAB,
            "caps" Set(self.caps),
            "mode" Set(self.mode),
            "addr_format" self.addr_format,
            "src_addrlen" c_len(&self.src_addr),
            "dest_addrlen" c_len(&self.dest_addr),
            "src_addr" MaybeAddress(&self.src_addr),
            "dest_addr" MaybeAddress(&self.dest_addr),
        }
        match self.handle {
            Some(handle) => writeln!(f, "{TAB}handle: {handle:#x}")?,
            None => writeln!(f, "{TAB}handle: (nil)")?,
        }
        tx_attr(&self.tx_attr, f, TAB)?;
        rx_attr(&self.rx_attr, f, TAB)?;
        ep_attr(&self.ep_attr, f, TAB)?;
        domain_attr(&self.domain_attr, f, TAB)?;
        fabric_attr(&self.fabric_attr, f, TAB)?;
        writeln!(f, "{TAB}nic: (nil)")
    }
}

fn tx_attr(attr: &TxAttr, f: &mut Formatter<'_>, indent: &str) -> Result {
    writeln!(f, "{indent}fi_tx_attr:")?;
    lines! { f, format_args!("{indent}{TAB}"),
        "caps" Set(attr.caps),
        "mode" Set(attr.mode),
        "op_flags" Set(attr.op_flags),
        "msg_order" Set(attr.msg_order),
        "comp_order" Set(CompOrder(attr.comp_order)),
        "inject_size" attr.inject_size,
        "size" attr.size,
        "iov_limit" attr.iov_limit,
        "rma_iov_limit" attr.rma_iov_limit,
        "tclass" format_args!("{:#x}", attr.tclass),
    }
    Ok(())
}

fn rx_attr(attr: &RxAttr, f: &mut Formatter<'_>, indent: &str) -> Result {
    writeln!(f, "{indent}fi_rx_attr:")?;
    lines! { f, format_args!("{indent}{TAB}"),
        "caps" Set(attr.caps),
        "mode" Set(attr.mode),
        "op_flags" Set(attr.op_flags),
        "msg_order" Set(attr.msg_order),
        "comp_order" Set(CompOrder(attr.comp_order)),
        "total_buffered_recv" attr.total_buffered_recv,
        "size" attr.size,
        "iov_limit" attr.iov_limit,
    }
    Ok(())
}

fn ep_attr(attr: &EpAttr, f: &mut Formatter<'_>, indent: &str) -> Result {
    writeln!(f, "{indent}fi_ep_attr:")?;
    lines! { f, format_args!("{indent}{TAB}"),
        "type" attr.ep_type,
        "protocol" attr.protocol,
        "protocol_version" attr.protocol_version,
        "max_msg_size" attr.max_msg_size,
        "msg_prefix_size" attr.msg_prefix_size,
        "max_order_raw_size" attr.max_order_raw_size,
        "max_order_war_size" attr.max_order_war_size,
        "max_order_waw_size" attr.max_order_waw_size,
        "mem_tag_format" format_args!("{:#018x}", attr.mem_tag_format),
        "tx_ctx_cnt" Contexts(attr.tx_ctx_cnt),
        "rx_ctx_cnt" Contexts(attr.rx_ctx_cnt),
        "auth_key_size" attr.auth_key_size,
    }
    Ok(())
}

fn domain_attr(attr: &DomainAttr, f: &mut Formatter<'_>, indent: &str) -> Result {
    writeln!(f, "{indent}fi_domain_attr:")?;
    lines! { f, format_args!("{indent}{TAB}"),
        "domain" "0x0",
        "name" attr.name,
        "threading" attr.threading,
        "control_progress" attr.control_progress,
        "data_progress" attr.data_progress,
        "resource_mgmt" attr.resource_mgmt,
        "av_type" attr.av_type,
        "mr_mode" Set(attr.mr_mode),
        "mr_key_size" attr.mr_key_size,
        "cq_data_size" attr.cq_data_size,
        "cq_cnt" attr.cq_cnt,
        "ep_cnt" attr.ep_cnt,
        "tx_ctx_cnt" attr.tx_ctx_cnt,
        "rx_ctx_cnt" attr.rx_ctx_cnt,
        "max_ep_tx_ctx" attr.max_ep_tx_ctx,
        "max_ep_rx_ctx" attr.max_ep_rx_ctx,
        "max_ep_stx_ctx" attr.max_ep_stx_ctx,
        "max_ep_srx_ctx" attr.max_ep_srx_ctx,
        "cntr_cnt" attr.cntr_cnt,
        "mr_iov_limit" attr.mr_iov_limit,
        "caps" Set(attr.caps),
        "mode" Set(attr.mode),
        "auth_key_size" attr.auth_key_size,
        "max_err_data" attr.max_err_data,
        "mr_cnt" attr.mr_cnt,
        "tclass" format_args!("{:#x}", attr.tclass),
    }
    Ok(())
}

fn fabric_attr(attr: &FabricAttr, f: &mut Formatter<'_>, indent: &str) -> Result {
    writeln!(f, "{indent}fi_fabric_attr:")?;
    lines! { f, format_args!("{indent}{TAB}"),
        "name" attr.name,
        "prov_name" attr.prov_name,
        "prov_version" attr.prov_version,
        "api_version" attr.api_version,
    }
    Ok(())
}

macro_rules! attributes {
    ($($name:ident $write:ident,)*) => {$(
        impl Display for $name {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                $write(self, f, "")
            }
        }
    )*};
}

attributes! {
    TxAttr tx_attr,
    RxAttr rx_attr,
    EpAttr ep_attr,
    DomainAttr domain_attr,
    FabricAttr fabric_attr,
}

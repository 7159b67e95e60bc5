// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Infos as JSON: the members of the C structures by their names, sets as lists of names.

use std::fmt::Display;

use kofi::{Address, Info, Order, Outcome};
use serde_json::{Value, json};

/// A set of flags, which prints as a list.
fn set(flags: impl Display) -> Value {
    flags.to_string().split(", ").filter(|name| !name.is_empty()).map(Value::from).collect()
}

/// Order of completions: `fi_tostr` has a name for all of it.
fn comp_order(order: Order) -> Value {
    if order == Order::STRICT { json!(["FI_ORDER_STRICT"]) } else { set(order) }
}

fn text(value: impl Display) -> Value {
    value.to_string().into()
}

fn address(address: &Option<Address>) -> Value {
    address.as_ref().map(text).into()
}

pub(super) fn info(info: &Info) -> Value {
    let Info { tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, .. } = info;
    json!({
        "caps": set(info.caps),
        "mode": set(info.mode),
        "addr_format": text(info.addr_format),
        "src_addr": address(&info.src_addr),
        "dest_addr": address(&info.dest_addr),
        "tx_attr": {
            "caps": set(tx_attr.caps),
            "mode": set(tx_attr.mode),
            "op_flags": set(tx_attr.op_flags),
            "msg_order": set(tx_attr.msg_order),
            "comp_order": comp_order(tx_attr.comp_order),
            "inject_size": tx_attr.inject_size,
            "size": tx_attr.size,
            "iov_limit": tx_attr.iov_limit,
            "rma_iov_limit": tx_attr.rma_iov_limit,
            "tclass": tx_attr.tclass,
        },
        "rx_attr": {
            "caps": set(rx_attr.caps),
            "mode": set(rx_attr.mode),
            "op_flags": set(rx_attr.op_flags),
            "msg_order": set(rx_attr.msg_order),
            "comp_order": comp_order(rx_attr.comp_order),
            "total_buffered_recv": rx_attr.total_buffered_recv,
            "size": rx_attr.size,
            "iov_limit": rx_attr.iov_limit,
        },
        "ep_attr": {
            "type": text(ep_attr.ep_type),
            "protocol": text(ep_attr.protocol),
            "protocol_version": ep_attr.protocol_version,
            "max_msg_size": ep_attr.max_msg_size,
            "msg_prefix_size": ep_attr.msg_prefix_size,
            "max_order_raw_size": ep_attr.max_order_raw_size,
            "max_order_war_size": ep_attr.max_order_war_size,
            "max_order_waw_size": ep_attr.max_order_waw_size,
            "mem_tag_format": ep_attr.mem_tag_format,
            "tx_ctx_cnt": ep_attr.tx_ctx_cnt,
            "rx_ctx_cnt": ep_attr.rx_ctx_cnt,
            "auth_key_size": ep_attr.auth_key_size,
        },
        "domain_attr": {
            "name": domain_attr.name,
            "threading": text(domain_attr.threading),
            "control_progress": text(domain_attr.control_progress),
            "data_progress": text(domain_attr.data_progress),
            "resource_mgmt": text(domain_attr.resource_mgmt),
            "av_type": text(domain_attr.av_type),
            "mr_mode": set(domain_attr.mr_mode),
            "mr_key_size": domain_attr.mr_key_size,
            "cq_data_size": domain_attr.cq_data_size,
            "cq_cnt": domain_attr.cq_cnt,
            "ep_cnt": domain_attr.ep_cnt,
            "tx_ctx_cnt": domain_attr.tx_ctx_cnt,
            "rx_ctx_cnt": domain_attr.rx_ctx_cnt,
            "max_ep_tx_ctx": domain_attr.max_ep_tx_ctx,
            "max_ep_rx_ctx": domain_attr.max_ep_rx_ctx,
            "max_ep_stx_ctx": domain_attr.max_ep_stx_ctx,
            "max_ep_srx_ctx": domain_attr.max_ep_srx_ctx,
            "cntr_cnt": domain_attr.cntr_cnt,
            "mr_iov_limit": domain_attr.mr_iov_limit,
            "caps": set(domain_attr.caps),
            "mode": set(domain_attr.mode),
            "auth_key_size": domain_attr.auth_key_size,
            "max_err_data": domain_attr.max_err_data,
            "mr_cnt": domain_attr.mr_cnt,
            "tclass": domain_attr.tclass,
        },
        "fabric_attr": {
            "name": fabric_attr.name,
            "prov_name": fabric_attr.prov_name,
            "prov_version": text(fabric_attr.prov_version),
            "api_version": text(fabric_attr.api_version),
        },
    })
}

/// An offer, with what is granted from it or with the hint that failed.
pub(super) fn outcome(outcome: &Outcome) -> Value {
    match &outcome.result {
        Ok(granted) => json!({ "matches": true, "offer": info(&outcome.offer), "granted": info(granted) }),
        Err(refusal) => json!({
            "matches": false,
            "offer": info(&outcome.offer),
            "refusal": {
                "provider": refusal.provider,
                "hint": refusal.field,
                "wanted": refusal.wanted,
                "found": refusal.found,
                "remedy": refusal.remedy,
            },
        }),
    }
}

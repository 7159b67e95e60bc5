// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `fi_info` and its attributes (`fi_getinfo(3)`).

use core::ffi::{c_char, c_int, c_void};

use super::{
    fi_av_type, fi_bus_type, fi_ep_type, fi_link_state, fi_progress, fi_resource_mgmt, fi_threading, fid,
    fid_domain, fid_fabric, fid_xpu_ctx,
};

c_structs! {
    /// One way to communicate (`fi_getinfo(3)`).
    pub struct fi_info {
        pub next: *mut fi_info,
        pub caps: u64,
        pub mode: u64,
        pub addr_format: u32,
        pub src_addrlen: usize,
        pub dest_addrlen: usize,
        pub src_addr: *mut c_void,
        pub dest_addr: *mut c_void,
        pub handle: *mut fid,
        pub tx_attr: *mut fi_tx_attr,
        pub rx_attr: *mut fi_rx_attr,
        pub ep_attr: *mut fi_ep_attr,
        pub domain_attr: *mut fi_domain_attr,
        pub fabric_attr: *mut fi_fabric_attr,
        pub nic: *mut fid_nic,
    }

    /// Fabric attributes (`fi_fabric(3)`).
    pub struct fi_fabric_attr {
        pub fabric: *mut fid_fabric,
        pub name: *mut c_char,
        pub prov_name: *mut c_char,
        pub prov_version: u32,
        pub api_version: u32,
    }

    /// Domain attributes (`fi_domain(3)`). `data_progress` is also called `progress`.
    pub struct fi_domain_attr {
        pub domain: *mut fid_domain,
        pub name: *mut c_char,
        pub threading: fi_threading,
        pub control_progress: fi_progress,
        pub data_progress: fi_progress,
        pub resource_mgmt: fi_resource_mgmt,
        pub av_type: fi_av_type,
        pub mr_mode: c_int,
        pub mr_key_size: usize,
        pub cq_data_size: usize,
        pub cq_cnt: usize,
        pub ep_cnt: usize,
        pub tx_ctx_cnt: usize,
        pub rx_ctx_cnt: usize,
        pub max_ep_tx_ctx: usize,
        pub max_ep_rx_ctx: usize,
        pub max_ep_stx_ctx: usize,
        pub max_ep_srx_ctx: usize,
        pub cntr_cnt: usize,
        pub mr_iov_limit: usize,
        pub caps: u64,
        pub mode: u64,
        pub auth_key: *mut u8,
        pub auth_key_size: usize,
        pub max_err_data: usize,
        pub mr_cnt: usize,
        pub tclass: u32,
        pub max_ep_auth_key: usize,
        pub max_group_id: u32,
        pub max_cntr_value: u64,
        pub max_err_cntr_value: u64,
        pub max_xpu_ctx_cnt: usize,
    }

    /// Endpoint attributes (`fi_endpoint(3)`).
    pub struct fi_ep_attr {
        pub r#type: fi_ep_type,
        pub protocol: u32,
        pub protocol_version: u32,
        pub max_msg_size: usize,
        pub msg_prefix_size: usize,
        pub max_order_raw_size: usize,
        pub max_order_war_size: usize,
        pub max_order_waw_size: usize,
        pub mem_tag_format: u64,
        pub tx_ctx_cnt: usize,
        pub rx_ctx_cnt: usize,
        pub auth_key_size: usize,
        pub auth_key: *mut u8,
        pub xpu_ctx: *mut fid_xpu_ctx,
    }

    /// Transmit context attributes (`fi_endpoint(3)`).
    pub struct fi_tx_attr {
        pub caps: u64,
        pub mode: u64,
        pub op_flags: u64,
        pub msg_order: u64,
        pub comp_order: u64,
        pub inject_size: usize,
        pub size: usize,
        pub iov_limit: usize,
        pub rma_iov_limit: usize,
        pub tclass: u32,
    }

    /// Receive context attributes (`fi_endpoint(3)`).
    pub struct fi_rx_attr {
        pub caps: u64,
        pub mode: u64,
        pub op_flags: u64,
        pub msg_order: u64,
        pub comp_order: u64,
        pub total_buffered_recv: usize,
        pub size: usize,
        pub iov_limit: usize,
    }

    /// Network interface (`fi_nic(3)`).
    pub struct fid_nic {
        pub fid: fid,
        pub device_attr: *mut fi_device_attr,
        pub bus_attr: *mut fi_bus_attr,
        pub link_attr: *mut fi_link_attr,
        pub prov_attr: *mut c_void,
    }

    /// Device of a network interface (`fi_nic(3)`).
    pub struct fi_device_attr {
        pub name: *mut c_char,
        pub device_id: *mut c_char,
        pub device_version: *mut c_char,
        pub vendor_id: *mut c_char,
        pub driver: *mut c_char,
        pub firmware: *mut c_char,
    }

    /// Bus of a network interface (`fi_nic(3)`). `attr` is a union with one member.
    pub struct fi_bus_attr {
        pub bus_type: fi_bus_type,
        pub attr: fi_pci_attr,
    }

    /// Place on a PCI bus (`fi_nic(3)`).
    pub struct fi_pci_attr {
        pub domain_id: u16,
        pub bus_id: u8,
        pub device_id: u8,
        pub function_id: u8,
    }

    /// Link of a network interface (`fi_nic(3)`).
    pub struct fi_link_attr {
        pub address: *mut c_char,
        pub mtu: usize,
        pub speed: usize,
        pub state: fi_link_state,
        pub network_type: *mut c_char,
    }
}

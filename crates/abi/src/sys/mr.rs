// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory regions (`fi_mr(3)`).

use core::ffi::{c_int, c_void};

use libc::iovec;

use super::{fi_hmem_iface, fid};

c_structs! {
    /// Memory region (`fi_mr(3)`).
    pub struct fid_mr {
        pub fid: fid,
        pub mem_desc: *mut c_void,
        pub key: u64,
    }

    /// What is to be registered (`fi_mr(3)`). `mr_iov` is also `dmabuf`, under `FI_MR_DMABUF`; `device` is a union.
    pub struct fi_mr_attr {
        pub mr_iov: *const iovec,
        pub iov_count: usize,
        pub access: u64,
        pub offset: u64,
        pub requested_key: u64,
        pub context: *mut c_void,
        pub auth_key_size: usize,
        pub auth_key: *mut u8,
        pub iface: fi_hmem_iface,
        pub device: u64,
        pub hmem_data: *mut c_void,
        pub page_size: usize,
        pub base_mr: *const fid_mr,
        pub sub_mr_cnt: usize,
    }

    /// Memory of a dma-buf (`fi_mr(3)`).
    pub struct fi_mr_dmabuf {
        pub fd: c_int,
        pub offset: u64,
        pub len: usize,
        pub base_addr: *mut c_void,
    }

    /// Argument of `FI_REFRESH` (`fi_mr(3)`).
    pub struct fi_mr_modify {
        pub flags: u64,
        pub attr: fi_mr_attr,
    }

    /// Argument of `FI_GET_RAW_MR` (`fi_mr(3)`).
    pub struct fi_mr_raw_attr {
        pub flags: u64,
        pub base_addr: *mut u64,
        pub raw_key: *mut u8,
        pub key_size: *mut usize,
    }

    /// Argument of `FI_MAP_RAW_MR` (`fi_mr(3)`).
    pub struct fi_mr_map_raw {
        pub flags: u64,
        pub base_addr: u64,
        pub raw_key: *mut u8,
        pub key_size: usize,
        pub key: *mut u64,
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Address vectors (`fi_av(3)`).

use core::ffi::{c_char, c_int, c_void};

use super::{fi_addr_t, fi_av_type, fid, fid_xpu_ctx};

c_structs! {
    /// Address vector (`fi_av(3)`).
    pub struct fid_av {
        pub fid: fid,
        pub ops: *const fi_ops_av,
    }

    /// Operations of an address vector.
    pub struct fi_ops_av {
        pub size: usize,
        pub insert: unsafe extern "C" fn(av: *mut fid_av, addr: *const c_void, count: usize, fi_addr: *mut fi_addr_t, flags: u64, context: *mut c_void) -> c_int,
        pub insertsvc: unsafe extern "C" fn(av: *mut fid_av, node: *const c_char, service: *const c_char, fi_addr: *mut fi_addr_t, flags: u64, context: *mut c_void) -> c_int,
        pub insertsym: unsafe extern "C" fn(av: *mut fid_av, node: *const c_char, nodecnt: usize, service: *const c_char, svccnt: usize, fi_addr: *mut fi_addr_t, flags: u64, context: *mut c_void) -> c_int,
        pub remove: unsafe extern "C" fn(av: *mut fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64) -> c_int,
        pub lookup: unsafe extern "C" fn(av: *mut fid_av, fi_addr: fi_addr_t, addr: *mut c_void, addrlen: *mut usize) -> c_int,
        pub straddr: unsafe extern "C" fn(av: *mut fid_av, addr: *const c_void, buf: *mut c_char, len: *mut usize) -> *const c_char,
        pub av_set: unsafe extern "C" fn(av: *mut fid_av, attr: *mut fi_av_set_attr, av_set: *mut *mut fid_av_set, context: *mut c_void) -> c_int,
        pub insert_auth_key: unsafe extern "C" fn(av: *mut fid_av, auth_key: *const c_void, auth_key_size: usize, fi_addr: *mut fi_addr_t, flags: u64) -> c_int,
        pub lookup_auth_key: unsafe extern "C" fn(av: *mut fid_av, fi_addr: fi_addr_t, auth_key: *mut c_void, auth_key_size: *mut usize) -> c_int,
        pub set_user_id: unsafe extern "C" fn(av: *mut fid_av, fi_addr: fi_addr_t, user_id: fi_addr_t, flags: u64) -> c_int,
        pub lookup2: unsafe extern "C" fn(av: *mut fid_av, fi_addr: fi_addr_t, buf: *mut c_void, len: *mut usize, flags: u64, ctx: *mut fid_xpu_ctx) -> c_int,
    }

    /// Address vector attributes (`fi_av(3)`).
    pub struct fi_av_attr {
        pub r#type: fi_av_type,
        pub rx_ctx_bits: c_int,
        pub count: usize,
        pub ep_per_node: usize,
        pub name: *const c_char,
        pub map_addr: *mut c_void,
        pub flags: u64,
    }

    /// Set of addresses (`fi_av_set(3)`).
    pub struct fid_av_set {
        pub fid: fid,
        pub ops: *const fi_ops_av_set,
    }

    /// Operations of a set of addresses.
    pub struct fi_ops_av_set {
        pub size: usize,
        pub set_union: unsafe extern "C" fn(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int,
        pub intersect: unsafe extern "C" fn(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int,
        pub diff: unsafe extern "C" fn(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int,
        pub insert: unsafe extern "C" fn(set: *mut fid_av_set, addr: fi_addr_t) -> c_int,
        pub remove: unsafe extern "C" fn(set: *mut fid_av_set, addr: fi_addr_t) -> c_int,
        pub addr: unsafe extern "C" fn(set: *mut fid_av_set, coll_addr: *mut fi_addr_t) -> c_int,
    }

    /// Attributes of a set of addresses (`fi_av_set(3)`).
    pub struct fi_av_set_attr {
        pub count: usize,
        pub start_addr: fi_addr_t,
        pub end_addr: fi_addr_t,
        pub stride: u64,
        pub comm_key_size: usize,
        pub comm_key: *mut u8,
        pub flags: u64,
    }
}

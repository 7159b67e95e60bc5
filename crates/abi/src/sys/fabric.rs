// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Fabrics and domains (`fi_fabric(3)`, `fi_domain(3)`).

use core::ffi::{c_int, c_void};

use libc::iovec;

use super::{
    fi_atomic_attr, fi_av_attr, fi_cntr_attr, fi_collective_attr, fi_collective_op, fi_cq_attr, fi_datatype,
    fi_eq_attr, fi_info, fi_mr_attr, fi_op, fi_poll_attr, fi_rx_attr, fi_tx_attr, fi_wait_attr, fi_xpu_attr,
    fid, fid_av, fid_cntr, fid_cq, fid_ep, fid_eq, fid_mr, fid_pep, fid_poll, fid_stx, fid_wait, fid_xpu_ctx,
};

c_structs! {
    /// Fabric (`fi_fabric(3)`).
    pub struct fid_fabric {
        pub fid: fid,
        pub ops: *const fi_ops_fabric,
        pub api_version: u32,
    }

    /// Operations of a fabric.
    pub struct fi_ops_fabric {
        pub size: usize,
        pub domain: unsafe extern "C" fn(fabric: *mut fid_fabric, info: *mut fi_info, dom: *mut *mut fid_domain, context: *mut c_void) -> c_int,
        pub passive_ep: unsafe extern "C" fn(fabric: *mut fid_fabric, info: *mut fi_info, pep: *mut *mut fid_pep, context: *mut c_void) -> c_int,
        pub eq_open: unsafe extern "C" fn(fabric: *mut fid_fabric, attr: *mut fi_eq_attr, eq: *mut *mut fid_eq, context: *mut c_void) -> c_int,
        pub wait_open: unsafe extern "C" fn(fabric: *mut fid_fabric, attr: *mut fi_wait_attr, waitset: *mut *mut fid_wait) -> c_int,
        pub trywait: unsafe extern "C" fn(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int,
        pub domain2: unsafe extern "C" fn(fabric: *mut fid_fabric, info: *mut fi_info, dom: *mut *mut fid_domain, flags: u64, context: *mut c_void) -> c_int,
    }

    /// Domain (`fi_domain(3)`).
    pub struct fid_domain {
        pub fid: fid,
        pub ops: *const fi_ops_domain,
        pub mr: *const fi_ops_mr,
    }

    /// Operations of a domain.
    pub struct fi_ops_domain {
        pub size: usize,
        pub av_open: unsafe extern "C" fn(domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av, context: *mut c_void) -> c_int,
        pub cq_open: unsafe extern "C" fn(domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq, context: *mut c_void) -> c_int,
        pub endpoint: unsafe extern "C" fn(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep, context: *mut c_void) -> c_int,
        pub scalable_ep: unsafe extern "C" fn(domain: *mut fid_domain, info: *mut fi_info, sep: *mut *mut fid_ep, context: *mut c_void) -> c_int,
        pub cntr_open: unsafe extern "C" fn(domain: *mut fid_domain, attr: *mut fi_cntr_attr, cntr: *mut *mut fid_cntr, context: *mut c_void) -> c_int,
        pub poll_open: unsafe extern "C" fn(domain: *mut fid_domain, attr: *mut fi_poll_attr, pollset: *mut *mut fid_poll) -> c_int,
        pub stx_ctx: unsafe extern "C" fn(domain: *mut fid_domain, attr: *mut fi_tx_attr, stx: *mut *mut fid_stx, context: *mut c_void) -> c_int,
        pub srx_ctx: unsafe extern "C" fn(domain: *mut fid_domain, attr: *mut fi_rx_attr, rx_ep: *mut *mut fid_ep, context: *mut c_void) -> c_int,
        pub query_atomic: unsafe extern "C" fn(domain: *mut fid_domain, datatype: fi_datatype, op: fi_op, attr: *mut fi_atomic_attr, flags: u64) -> c_int,
        pub query_collective: unsafe extern "C" fn(domain: *mut fid_domain, coll: fi_collective_op, attr: *mut fi_collective_attr, flags: u64) -> c_int,
        pub endpoint2: unsafe extern "C" fn(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep, flags: u64, context: *mut c_void) -> c_int,
        pub xpu_ctx: unsafe extern "C" fn(domain: *mut fid_domain, attr: *mut fi_xpu_attr, ctx: *mut *mut fid_xpu_ctx, context: *mut c_void) -> c_int,
    }

    /// Operations that register memory (`fi_mr(3)`).
    pub struct fi_ops_mr {
        pub size: usize,
        pub reg: unsafe extern "C" fn(fid: *mut fid, buf: *const c_void, len: usize, access: u64, offset: u64, requested_key: u64, flags: u64, mr: *mut *mut fid_mr, context: *mut c_void) -> c_int,
        pub regv: unsafe extern "C" fn(fid: *mut fid, iov: *const iovec, count: usize, access: u64, offset: u64, requested_key: u64, flags: u64, mr: *mut *mut fid_mr, context: *mut c_void) -> c_int,
        pub regattr: unsafe extern "C" fn(fid: *mut fid, attr: *const fi_mr_attr, flags: u64, mr: *mut *mut fid_mr) -> c_int,
    }
}

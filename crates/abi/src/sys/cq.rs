// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Completion queues (`fi_cq(3)`).

use core::ffi::{c_char, c_int, c_void};

use super::{fi_addr_t, fi_cq_format, fi_cq_wait_cond, fi_wait_obj, fid, fid_wait, fid_xpu_cq, fid_xpu_ctx};

c_structs! {
    /// Completion queue (`fi_cq(3)`).
    pub struct fid_cq {
        pub fid: fid,
        pub ops: *const fi_ops_cq,
    }

    /// Operations of a completion queue.
    pub struct fi_ops_cq {
        pub size: usize,
        pub read: unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize,
        pub readfrom: unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut c_void, count: usize, src_addr: *mut fi_addr_t) -> isize,
        pub readerr: unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize,
        pub sread: unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut c_void, count: usize, cond: *const c_void, timeout: c_int) -> isize,
        pub sreadfrom: unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut c_void, count: usize, src_addr: *mut fi_addr_t, cond: *const c_void, timeout: c_int) -> isize,
        pub signal: unsafe extern "C" fn(cq: *mut fid_cq) -> c_int,
        pub strerror: unsafe extern "C" fn(cq: *mut fid_cq, prov_errno: c_int, err_data: *const c_void, buf: *mut c_char, len: usize) -> *const c_char,
        pub export_xpu: unsafe extern "C" fn(cq: *mut fid_cq, flags: u64, xpu_cq: *mut fid_xpu_cq) -> c_int,
    }

    /// Completion queue attributes (`fi_cq(3)`).
    pub struct fi_cq_attr {
        pub size: usize,
        pub flags: u64,
        pub format: fi_cq_format,
        pub wait_obj: fi_wait_obj,
        pub signaling_vector: c_int,
        pub wait_cond: fi_cq_wait_cond,
        pub wait_set: *mut fid_wait,
        pub xpu_ctx: *mut fid_xpu_ctx,
    }

    /// Completion in `FI_CQ_FORMAT_CONTEXT` (`fi_cq(3)`).
    pub struct fi_cq_entry {
        pub op_context: *mut c_void,
    }

    /// Completion in `FI_CQ_FORMAT_MSG` (`fi_cq(3)`).
    pub struct fi_cq_msg_entry {
        pub op_context: *mut c_void,
        pub flags: u64,
        pub len: usize,
    }

    /// Completion in `FI_CQ_FORMAT_DATA` (`fi_cq(3)`).
    pub struct fi_cq_data_entry {
        pub op_context: *mut c_void,
        pub flags: u64,
        pub len: usize,
        pub buf: *mut c_void,
        pub data: u64,
    }

    /// Completion in `FI_CQ_FORMAT_TAGGED` (`fi_cq(3)`).
    pub struct fi_cq_tagged_entry {
        pub op_context: *mut c_void,
        pub flags: u64,
        pub len: usize,
        pub buf: *mut c_void,
        pub data: u64,
        pub tag: u64,
    }

    /// Completion of an operation that failed (`fi_cq(3)`).
    pub struct fi_cq_err_entry {
        pub op_context: *mut c_void,
        pub flags: u64,
        pub len: usize,
        pub buf: *mut c_void,
        pub data: u64,
        pub tag: u64,
        pub olen: usize,
        pub err: c_int,
        pub prov_errno: c_int,
        pub err_data: *mut c_void,
        pub err_data_size: usize,
        pub src_addr: fi_addr_t,
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Endpoints, passive ones, and their operations (`fi_endpoint(3)`).

use core::ffi::{c_int, c_void};

use libc::iovec;

use super::{
    fi_addr_t, fi_datatype, fi_ioc, fi_msg, fi_msg_atomic, fi_msg_collective, fi_msg_rma, fi_msg_tagged,
    fi_op, fi_rx_attr, fi_tx_attr, fid, fid_xpu_ep,
};

c_structs! {
    /// Endpoint, or shared receive context (`fi_endpoint(3)`).
    pub struct fid_ep {
        pub fid: fid,
        pub ops: *const fi_ops_ep,
        pub cm: *const fi_ops_cm,
        pub msg: *const fi_ops_msg,
        pub rma: *const fi_ops_rma,
        pub tagged: *const fi_ops_tagged,
        pub atomic: *const fi_ops_atomic,
        pub collective: *const fi_ops_collective,
    }

    /// Passive endpoint (`fi_endpoint(3)`).
    pub struct fid_pep {
        pub fid: fid,
        pub ops: *const fi_ops_ep,
        pub cm: *const fi_ops_cm,
    }

    /// Shared transmit context (`fi_endpoint(3)`).
    pub struct fid_stx {
        pub fid: fid,
        pub ops: *const fi_ops_ep,
    }

    /// Multicast group (`fi_cm(3)`).
    pub struct fid_mc {
        pub fid: fid,
        pub fi_addr: fi_addr_t,
    }

    /// Operations of endpoints, passive ones included (`fi_endpoint(3)`).
    pub struct fi_ops_ep {
        pub size: usize,
        pub cancel: unsafe extern "C" fn(fid: *mut fid, context: *mut c_void) -> isize,
        pub getopt: unsafe extern "C" fn(fid: *mut fid, level: c_int, optname: c_int, optval: *mut c_void, optlen: *mut usize) -> c_int,
        pub setopt: unsafe extern "C" fn(fid: *mut fid, level: c_int, optname: c_int, optval: *const c_void, optlen: usize) -> c_int,
        pub tx_ctx: unsafe extern "C" fn(sep: *mut fid_ep, index: c_int, attr: *mut fi_tx_attr, tx_ep: *mut *mut fid_ep, context: *mut c_void) -> c_int,
        pub rx_ctx: unsafe extern "C" fn(sep: *mut fid_ep, index: c_int, attr: *mut fi_rx_attr, rx_ep: *mut *mut fid_ep, context: *mut c_void) -> c_int,
        pub rx_size_left: unsafe extern "C" fn(ep: *mut fid_ep) -> isize,
        pub tx_size_left: unsafe extern "C" fn(ep: *mut fid_ep) -> isize,
        pub export_xpu: unsafe extern "C" fn(ep: *mut fid_ep, flags: u64, xpu_ep: *mut fid_xpu_ep) -> c_int,
    }

    /// Connection management (`fi_cm(3)`).
    pub struct fi_ops_cm {
        pub size: usize,
        pub setname: unsafe extern "C" fn(fid: *mut fid, addr: *mut c_void, addrlen: usize) -> c_int,
        pub getname: unsafe extern "C" fn(fid: *mut fid, addr: *mut c_void, addrlen: *mut usize) -> c_int,
        pub getpeer: unsafe extern "C" fn(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int,
        pub connect: unsafe extern "C" fn(ep: *mut fid_ep, addr: *const c_void, param: *const c_void, paramlen: usize) -> c_int,
        pub listen: unsafe extern "C" fn(pep: *mut fid_pep) -> c_int,
        pub accept: unsafe extern "C" fn(ep: *mut fid_ep, param: *const c_void, paramlen: usize) -> c_int,
        pub reject: unsafe extern "C" fn(pep: *mut fid_pep, handle: *mut fid, param: *const c_void, paramlen: usize) -> c_int,
        pub shutdown: unsafe extern "C" fn(ep: *mut fid_ep, flags: u64) -> c_int,
        pub join: unsafe extern "C" fn(ep: *mut fid_ep, addr: *const c_void, flags: u64, mc: *mut *mut fid_mc, context: *mut c_void) -> c_int,
    }

    /// Messages (`fi_msg(3)`).
    pub struct fi_ops_msg {
        pub size: usize,
        pub recv: unsafe extern "C" fn(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, context: *mut c_void) -> isize,
        pub recvv: unsafe extern "C" fn(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, src_addr: fi_addr_t, context: *mut c_void) -> isize,
        pub recvmsg: unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize,
        pub send: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, context: *mut c_void) -> isize,
        pub sendv: unsafe extern "C" fn(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, dest_addr: fi_addr_t, context: *mut c_void) -> isize,
        pub sendmsg: unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize,
        pub inject: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t) -> isize,
        pub senddata: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64, dest_addr: fi_addr_t, context: *mut c_void) -> isize,
        pub injectdata: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t) -> isize,
    }

    /// Remote memory access (`fi_rma(3)`).
    pub struct fi_ops_rma {
        pub size: usize,
        pub read: unsafe extern "C" fn(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) -> isize,
        pub readv: unsafe extern "C" fn(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, src_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) -> isize,
        pub readmsg: unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize,
        pub write: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) -> isize,
        pub writev: unsafe extern "C" fn(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) -> isize,
        pub writemsg: unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize,
        pub inject: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, addr: u64, key: u64) -> isize,
        pub writedata: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64, dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) -> isize,
        pub injectdata: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t, addr: u64, key: u64) -> isize,
    }

    /// Tagged messages (`fi_tagged(3)`).
    pub struct fi_ops_tagged {
        pub size: usize,
        pub recv: unsafe extern "C" fn(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, tag: u64, ignore: u64, context: *mut c_void) -> isize,
        pub recvv: unsafe extern "C" fn(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, src_addr: fi_addr_t, tag: u64, ignore: u64, context: *mut c_void) -> isize,
        pub recvmsg: unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize,
        pub send: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, tag: u64, context: *mut c_void) -> isize,
        pub sendv: unsafe extern "C" fn(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, dest_addr: fi_addr_t, tag: u64, context: *mut c_void) -> isize,
        pub sendmsg: unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize,
        pub inject: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, tag: u64) -> isize,
        pub senddata: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64, dest_addr: fi_addr_t, tag: u64, context: *mut c_void) -> isize,
        pub injectdata: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t, tag: u64) -> isize,
    }

    /// Atomic operations (`fi_atomic(3)`).
    pub struct fi_ops_atomic {
        pub size: usize,
        pub write: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize,
        pub writev: unsafe extern "C" fn(ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize,
        pub writemsg: unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize,
        pub inject: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op) -> isize,
        pub readwrite: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize,
        pub readwritev: unsafe extern "C" fn(ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize, resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize,
        pub readwritemsg: unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_atomic, resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize, flags: u64) -> isize,
        pub compwrite: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, compare: *const c_void, compare_desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize,
        pub compwritev: unsafe extern "C" fn(ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize, comparev: *const fi_ioc, compare_desc: *mut *mut c_void, compare_count: usize, resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize,
        pub compwritemsg: unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_atomic, comparev: *const fi_ioc, compare_desc: *mut *mut c_void, compare_count: usize, resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize, flags: u64) -> isize,
        pub writevalid: unsafe extern "C" fn(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int,
        pub readwritevalid: unsafe extern "C" fn(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int,
        pub compwritevalid: unsafe extern "C" fn(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int,
    }

    /// Collective operations (`fi_collective(3)`).
    pub struct fi_ops_collective {
        pub size: usize,
        pub barrier: unsafe extern "C" fn(ep: *mut fid_ep, coll_addr: fi_addr_t, context: *mut c_void) -> isize,
        pub broadcast: unsafe extern "C" fn(ep: *mut fid_ep, buf: *mut c_void, count: usize, desc: *mut c_void, coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: *mut c_void) -> isize,
        pub alltoall: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: *mut c_void) -> isize,
        pub allreduce: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64, context: *mut c_void) -> isize,
        pub allgather: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: *mut c_void) -> isize,
        pub reduce_scatter: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64, context: *mut c_void) -> isize,
        pub reduce: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64, context: *mut c_void) -> isize,
        pub scatter: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: *mut c_void) -> isize,
        pub gather: unsafe extern "C" fn(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: *mut c_void) -> isize,
        pub msg: unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_collective, resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize, flags: u64) -> isize,
        pub barrier2: unsafe extern "C" fn(ep: *mut fid_ep, coll_addr: fi_addr_t, flags: u64, context: *mut c_void) -> isize,
    }
}

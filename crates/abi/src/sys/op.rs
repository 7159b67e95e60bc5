// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Arguments of operations (`fi_msg(3)`, `fi_rma(3)`, `fi_tagged(3)`, `fi_atomic(3)`).

use core::ffi::c_void;

use libc::iovec;

use super::{fi_addr_t, fi_collective_op, fi_datatype, fi_op};

c_structs! {
    /// Argument of `fi_sendmsg` and `fi_recvmsg` (`fi_msg(3)`).
    pub struct fi_msg {
        pub msg_iov: *const iovec,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub addr: fi_addr_t,
        pub context: *mut c_void,
        pub data: u64,
    }

    /// Argument of `fi_readmsg` and `fi_writemsg` (`fi_rma(3)`).
    pub struct fi_msg_rma {
        pub msg_iov: *const iovec,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub addr: fi_addr_t,
        pub rma_iov: *const fi_rma_iov,
        pub rma_iov_count: usize,
        pub context: *mut c_void,
        pub data: u64,
    }

    /// Argument of `fi_tsendmsg` and `fi_trecvmsg` (`fi_tagged(3)`).
    pub struct fi_msg_tagged {
        pub msg_iov: *const iovec,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub addr: fi_addr_t,
        pub tag: u64,
        pub ignore: u64,
        pub context: *mut c_void,
        pub data: u64,
    }

    /// Argument of `fi_atomicmsg` and its kin (`fi_atomic(3)`).
    pub struct fi_msg_atomic {
        pub msg_iov: *const fi_ioc,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub addr: fi_addr_t,
        pub rma_iov: *const fi_rma_ioc,
        pub rma_iov_count: usize,
        pub datatype: fi_datatype,
        pub op: fi_op,
        pub context: *mut c_void,
        pub data: u64,
    }

    /// Range of remote memory (`fi_rma(3)`).
    pub struct fi_rma_iov {
        pub addr: u64,
        pub len: usize,
        pub key: u64,
    }

    /// Range of remote memory, counted in elements (`fi_atomic(3)`).
    pub struct fi_rma_ioc {
        pub addr: u64,
        pub count: usize,
        pub key: u64,
    }

    /// Range of local memory, counted in elements (`fi_atomic(3)`).
    pub struct fi_ioc {
        pub addr: *mut c_void,
        pub count: usize,
    }

    /// What an atomic operation can do (`fi_atomic(3)`).
    pub struct fi_atomic_attr {
        pub count: usize,
        pub size: usize,
    }

    /// Argument of collective operations (`fi_collective(3)`).
    pub struct fi_msg_collective {
        pub msg_iov: *const fi_ioc,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub coll_addr: fi_addr_t,
        pub root_addr: fi_addr_t,
        pub coll: fi_collective_op,
        pub datatype: fi_datatype,
        pub op: fi_op,
        pub context: *mut c_void,
    }

    /// What a collective operation can do (`fi_collective(3)`).
    pub struct fi_collective_attr {
        pub op: fi_op,
        pub datatype: fi_datatype,
        pub datatype_attr: fi_atomic_attr,
        pub max_members: usize,
        pub mode: u64,
    }
}

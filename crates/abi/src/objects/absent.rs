// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Operations that objects of ours do not have: -FI_ENOSYS. Programs call most slots of a table without looking, so
//! none may be empty.

use core::ffi::{c_char, c_int, c_void};

use kofi_core::Errno;

use crate::sys::*;

/// A table whose slots all say that.
macro_rules! absent {
    ($($(#[$doc:meta])* $name:ident: $table:ident { $($slot:ident($($arg:ty),*) -> $result:ty;)* })*) => {
        $($(#[$doc])*
        pub(super) const $name: $table = $table {
            size: size_of::<$table>(),
            $($slot: {
                extern "C" fn absent($(_: $arg),*) -> $result {
                    -Errno::ENOSYS.raw() as $result
                }
                absent
            },)*
        };)*
    };
}

/// Operations of every object.
pub(super) const FID: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: {
        extern "C" fn absent(_: *mut fid) -> c_int {
            -Errno::ENOSYS.raw()
        }
        Some(absent)
    },
    bind: {
        extern "C" fn absent(_: *mut fid, _: *mut fid, _: u64) -> c_int {
            -Errno::ENOSYS.raw()
        }
        Some(absent)
    },
    control: {
        extern "C" fn absent(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
            -Errno::ENOSYS.raw()
        }
        Some(absent)
    },
    ops_open: {
        extern "C" fn absent(
            _: *mut fid,
            _: *const c_char,
            _: u64,
            _: *mut *mut c_void,
            _: *mut c_void,
        ) -> c_int {
            -Errno::ENOSYS.raw()
        }
        Some(absent)
    },
    // Programs look before they call these.
    tostr: None,
    ops_set: None,
};

absent! {
    /// `struct fi_ops_ep`.
    EP: fi_ops_ep {
        cancel(*mut fid, *mut c_void) -> isize;
        getopt(*mut fid, c_int, c_int, *mut c_void, *mut usize) -> c_int;
        setopt(*mut fid, c_int, c_int, *const c_void, usize) -> c_int;
        tx_ctx(*mut fid_ep, c_int, *mut fi_tx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
        rx_ctx(*mut fid_ep, c_int, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
        rx_size_left(*mut fid_ep) -> isize;
        tx_size_left(*mut fid_ep) -> isize;
        export_xpu(*mut fid_ep, u64, *mut fid_xpu_ep) -> c_int;
    }
    /// `struct fi_ops_cm`.
    CM: fi_ops_cm {
        setname(*mut fid, *mut c_void, usize) -> c_int;
        getname(*mut fid, *mut c_void, *mut usize) -> c_int;
        getpeer(*mut fid_ep, *mut c_void, *mut usize) -> c_int;
        connect(*mut fid_ep, *const c_void, *const c_void, usize) -> c_int;
        listen(*mut fid_pep) -> c_int;
        accept(*mut fid_ep, *const c_void, usize) -> c_int;
        reject(*mut fid_pep, *mut fid, *const c_void, usize) -> c_int;
        shutdown(*mut fid_ep, u64) -> c_int;
        join(*mut fid_ep, *const c_void, u64, *mut *mut fid_mc, *mut c_void) -> c_int;
    }
    /// `struct fi_ops_msg`.
    MSG: fi_ops_msg {
        recv(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize;
        recvv(*mut fid_ep, *const iovec, *mut *mut c_void, usize, fi_addr_t, *mut c_void) -> isize;
        recvmsg(*mut fid_ep, *const fi_msg, u64) -> isize;
        send(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize;
        sendv(*mut fid_ep, *const iovec, *mut *mut c_void, usize, fi_addr_t, *mut c_void) -> isize;
        sendmsg(*mut fid_ep, *const fi_msg, u64) -> isize;
        inject(*mut fid_ep, *const c_void, usize, fi_addr_t) -> isize;
        senddata(*mut fid_ep, *const c_void, usize, *mut c_void, u64, fi_addr_t, *mut c_void) -> isize;
        injectdata(*mut fid_ep, *const c_void, usize, u64, fi_addr_t) -> isize;
    }
    /// `struct fi_ops_rma`.
    RMA: fi_ops_rma {
        read(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void) -> isize;
        readv(*mut fid_ep, *const iovec, *mut *mut c_void, usize, fi_addr_t, u64, u64, *mut c_void) -> isize;
        readmsg(*mut fid_ep, *const fi_msg_rma, u64) -> isize;
        write(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void) -> isize;
        writev(*mut fid_ep, *const iovec, *mut *mut c_void, usize, fi_addr_t, u64, u64, *mut c_void) -> isize;
        writemsg(*mut fid_ep, *const fi_msg_rma, u64) -> isize;
        inject(*mut fid_ep, *const c_void, usize, fi_addr_t, u64, u64) -> isize;
        writedata(*mut fid_ep, *const c_void, usize, *mut c_void, u64, fi_addr_t, u64, u64, *mut c_void) -> isize;
        injectdata(*mut fid_ep, *const c_void, usize, u64, fi_addr_t, u64, u64) -> isize;
    }
    /// `struct fi_ops_tagged`.
    TAGGED: fi_ops_tagged {
        recv(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void) -> isize;
        recvv(*mut fid_ep, *const iovec, *mut *mut c_void, usize, fi_addr_t, u64, u64, *mut c_void) -> isize;
        recvmsg(*mut fid_ep, *const fi_msg_tagged, u64) -> isize;
        send(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, u64, *mut c_void) -> isize;
        sendv(*mut fid_ep, *const iovec, *mut *mut c_void, usize, fi_addr_t, u64, *mut c_void) -> isize;
        sendmsg(*mut fid_ep, *const fi_msg_tagged, u64) -> isize;
        inject(*mut fid_ep, *const c_void, usize, fi_addr_t, u64) -> isize;
        senddata(*mut fid_ep, *const c_void, usize, *mut c_void, u64, fi_addr_t, u64, *mut c_void) -> isize;
        injectdata(*mut fid_ep, *const c_void, usize, u64, fi_addr_t, u64) -> isize;
    }
    /// `struct fi_ops_atomic`.
    ATOMIC: fi_ops_atomic {
        write(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, u64, u64, fi_datatype, fi_op, *mut c_void) -> isize;
        writev(*mut fid_ep, *const fi_ioc, *mut *mut c_void, usize, fi_addr_t, u64, u64, fi_datatype, fi_op, *mut c_void) -> isize;
        writemsg(*mut fid_ep, *const fi_msg_atomic, u64) -> isize;
        inject(*mut fid_ep, *const c_void, usize, fi_addr_t, u64, u64, fi_datatype, fi_op) -> isize;
        readwrite(*mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, u64, u64, fi_datatype, fi_op, *mut c_void) -> isize;
        readwritev(*mut fid_ep, *const fi_ioc, *mut *mut c_void, usize, *mut fi_ioc, *mut *mut c_void, usize, fi_addr_t, u64, u64, fi_datatype, fi_op, *mut c_void) -> isize;
        readwritemsg(*mut fid_ep, *const fi_msg_atomic, *mut fi_ioc, *mut *mut c_void, usize, u64) -> isize;
        compwrite(*mut fid_ep, *const c_void, usize, *mut c_void, *const c_void, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, u64, u64, fi_datatype, fi_op, *mut c_void) -> isize;
        compwritev(*mut fid_ep, *const fi_ioc, *mut *mut c_void, usize, *const fi_ioc, *mut *mut c_void, usize, *mut fi_ioc, *mut *mut c_void, usize, fi_addr_t, u64, u64, fi_datatype, fi_op, *mut c_void) -> isize;
        compwritemsg(*mut fid_ep, *const fi_msg_atomic, *const fi_ioc, *mut *mut c_void, usize, *mut fi_ioc, *mut *mut c_void, usize, u64) -> isize;
        writevalid(*mut fid_ep, fi_datatype, fi_op, *mut usize) -> c_int;
        readwritevalid(*mut fid_ep, fi_datatype, fi_op, *mut usize) -> c_int;
        compwritevalid(*mut fid_ep, fi_datatype, fi_op, *mut usize) -> c_int;
    }
    /// `struct fi_ops_collective`.
    COLLECTIVE: fi_ops_collective {
        barrier(*mut fid_ep, fi_addr_t, *mut c_void) -> isize;
        broadcast(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, fi_addr_t, fi_datatype, u64, *mut c_void) -> isize;
        alltoall(*mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_datatype, u64, *mut c_void) -> isize;
        allreduce(*mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_datatype, fi_op, u64, *mut c_void) -> isize;
        allgather(*mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_datatype, u64, *mut c_void) -> isize;
        reduce_scatter(*mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_datatype, fi_op, u64, *mut c_void) -> isize;
        reduce(*mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_addr_t, fi_datatype, fi_op, u64, *mut c_void) -> isize;
        scatter(*mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_addr_t, fi_datatype, u64, *mut c_void) -> isize;
        gather(*mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_addr_t, fi_datatype, u64, *mut c_void) -> isize;
        msg(*mut fid_ep, *const fi_msg_collective, *mut fi_ioc, *mut *mut c_void, usize, u64) -> isize;
        barrier2(*mut fid_ep, fi_addr_t, u64, *mut c_void) -> isize;
    }
    /// `struct fi_ops_domain`.
    DOMAIN: fi_ops_domain {
        av_open(*mut fid_domain, *mut fi_av_attr, *mut *mut fid_av, *mut c_void) -> c_int;
        cq_open(*mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void) -> c_int;
        endpoint(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int;
        scalable_ep(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int;
        cntr_open(*mut fid_domain, *mut fi_cntr_attr, *mut *mut fid_cntr, *mut c_void) -> c_int;
        poll_open(*mut fid_domain, *mut fi_poll_attr, *mut *mut fid_poll) -> c_int;
        stx_ctx(*mut fid_domain, *mut fi_tx_attr, *mut *mut fid_stx, *mut c_void) -> c_int;
        srx_ctx(*mut fid_domain, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
        query_atomic(*mut fid_domain, fi_datatype, fi_op, *mut fi_atomic_attr, u64) -> c_int;
        query_collective(*mut fid_domain, fi_collective_op, *mut fi_collective_attr, u64) -> c_int;
        endpoint2(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, u64, *mut c_void) -> c_int;
        xpu_ctx(*mut fid_domain, *mut fi_xpu_attr, *mut *mut fid_xpu_ctx, *mut c_void) -> c_int;
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Wait sets and poll sets (`fi_poll(3)`).

use core::ffi::{c_int, c_void};

use super::{fi_wait_obj, fid};

c_structs! {
    /// Wait set (`fi_poll(3)`).
    pub struct fid_wait {
        pub fid: fid,
        pub ops: *const fi_ops_wait,
    }

    /// Operations of a wait set.
    pub struct fi_ops_wait {
        pub size: usize,
        pub wait: unsafe extern "C" fn(waitset: *mut fid_wait, timeout: c_int) -> c_int,
    }

    /// Wait set attributes (`fi_poll(3)`).
    pub struct fi_wait_attr {
        pub wait_obj: fi_wait_obj,
        pub flags: u64,
    }

    /// Argument of `FI_GETWAIT` with `FI_WAIT_POLLFD` (`fi_poll(3)`).
    pub struct fi_wait_pollfd {
        pub change_index: u64,
        pub nfds: usize,
        pub fd: *mut libc::pollfd,
    }

    /// Argument of `FI_GETWAIT` with `FI_WAIT_MUTEX_COND` (`fi_poll(3)`): pthread objects.
    pub struct fi_mutex_cond {
        pub mutex: *mut libc::pthread_mutex_t,
        pub cond: *mut libc::pthread_cond_t,
    }

    /// Poll set (`fi_poll(3)`).
    pub struct fid_poll {
        pub fid: fid,
        pub ops: *const fi_ops_poll,
    }

    /// Operations of a poll set.
    pub struct fi_ops_poll {
        pub size: usize,
        pub poll: unsafe extern "C" fn(pollset: *mut fid_poll, context: *mut *mut c_void, count: c_int) -> c_int,
        pub poll_add: unsafe extern "C" fn(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int,
        pub poll_del: unsafe extern "C" fn(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int,
    }

    /// Poll set attributes (`fi_poll(3)`).
    pub struct fi_poll_attr {
        pub flags: u64,
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Event queues (`fi_eq(3)`).

use core::ffi::{c_char, c_int, c_void};

use super::{fi_info, fi_wait_obj, fid, fid_wait};

c_structs! {
    /// Event queue (`fi_eq(3)`).
    pub struct fid_eq {
        pub fid: fid,
        pub ops: *const fi_ops_eq,
    }

    /// Operations of an event queue.
    pub struct fi_ops_eq {
        pub size: usize,
        pub read: unsafe extern "C" fn(eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, flags: u64) -> isize,
        pub readerr: unsafe extern "C" fn(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> isize,
        pub write: unsafe extern "C" fn(eq: *mut fid_eq, event: u32, buf: *const c_void, len: usize, flags: u64) -> isize,
        pub sread: unsafe extern "C" fn(eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, timeout: c_int, flags: u64) -> isize,
        pub strerror: unsafe extern "C" fn(eq: *mut fid_eq, prov_errno: c_int, err_data: *const c_void, buf: *mut c_char, len: usize) -> *const c_char,
    }

    /// Event queue attributes (`fi_eq(3)`).
    pub struct fi_eq_attr {
        pub size: usize,
        pub flags: u64,
        pub wait_obj: fi_wait_obj,
        pub signaling_vector: c_int,
        pub wait_set: *mut fid_wait,
    }

    /// Event (`fi_eq(3)`).
    pub struct fi_eq_entry {
        pub fid: *mut fid,
        pub context: *mut c_void,
        pub data: u64,
    }

    /// Event of connection management (`fi_eq(3)`), followed by what the peer gave.
    pub struct fi_eq_cm_entry {
        pub fid: *mut fid,
        pub info: *mut fi_info,
        pub data: [u8; 0],
    }

    /// Event of a failure (`fi_eq(3)`).
    pub struct fi_eq_err_entry {
        pub fid: *mut fid,
        pub context: *mut c_void,
        pub data: u64,
        pub err: c_int,
        pub prov_errno: c_int,
        pub err_data: *mut c_void,
        pub err_data_size: usize,
    }
}

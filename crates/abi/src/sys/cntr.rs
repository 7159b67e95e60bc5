// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Counters (`fi_cntr(3)`).

use core::ffi::c_int;

use super::{fi_cntr_events, fi_wait_obj, fid, fid_wait, fid_xpu_cntr, fid_xpu_ctx};

c_structs! {
    /// Counter (`fi_cntr(3)`).
    pub struct fid_cntr {
        pub fid: fid,
        pub ops: *const fi_ops_cntr,
    }

    /// Operations of a counter.
    pub struct fi_ops_cntr {
        pub size: usize,
        pub read: unsafe extern "C" fn(cntr: *mut fid_cntr) -> u64,
        pub readerr: unsafe extern "C" fn(cntr: *mut fid_cntr) -> u64,
        pub add: unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int,
        pub set: unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int,
        pub wait: unsafe extern "C" fn(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int,
        pub adderr: unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int,
        pub seterr: unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int,
        pub export_xpu: unsafe extern "C" fn(cntr: *mut fid_cntr, flags: u64, xpu_cntr: *mut fid_xpu_cntr) -> c_int,
    }

    /// Counter attributes (`fi_cntr(3)`).
    pub struct fi_cntr_attr {
        pub events: fi_cntr_events,
        pub wait_obj: fi_wait_obj,
        pub wait_set: *mut fid_wait,
        pub flags: u64,
        pub xpu_ctx: *mut fid_xpu_ctx,
    }
}

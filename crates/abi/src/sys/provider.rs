// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Providers and logging (`fi_provider(3)`).

use core::ffi::{c_char, c_int, c_void};

use super::{fi_context, fi_fabric_attr, fi_info, fi_log_level, fi_log_subsys, fid, fid_fabric};

c_structs! {
    /// A provider, as a library loads it (`fi_provider(3)`).
    pub struct fi_provider {
        pub version: u32,
        pub fi_version: u32,
        pub context: fi_context,
        pub name: *const c_char,
        pub getinfo: Option<unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info) -> c_int>,
        pub fabric: Option<unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int>,
        pub cleanup: Option<unsafe extern "C" fn()>,
    }

    /// Where log lines go, if not to the library's own (`fi_open(3)`).
    pub struct fi_ops_log {
        pub size: usize,
        pub enabled: unsafe extern "C" fn(prov: *const fi_provider, level: fi_log_level, subsys: fi_log_subsys, flags: u64) -> c_int,
        pub ready: unsafe extern "C" fn(prov: *const fi_provider, level: fi_log_level, subsys: fi_log_subsys, flags: u64, showtime: *mut u64) -> c_int,
        pub log: unsafe extern "C" fn(prov: *const fi_provider, level: fi_log_level, subsys: fi_log_subsys, func: *const c_char, line: c_int, msg: *const c_char),
    }

    /// Object of `fi_open("logging")`.
    pub struct fid_logging {
        pub fid: fid,
        pub ops: *const fi_ops_log,
    }
}

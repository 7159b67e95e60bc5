// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Objects in general: [`fid`], and what belongs to no class.

use core::ffi::{c_char, c_int, c_void};

use super::fi_param_type;

c_structs! {
    /// What every object begins with (`fi_fabric(3)`).
    pub struct fid {
        pub fclass: usize,
        pub context: *mut c_void,
        pub ops: *const fi_ops,
    }

    /// Operations of every object.
    pub struct fi_ops {
        pub size: usize,
        pub close: Option<unsafe extern "C" fn(fid: *mut fid) -> c_int>,
        pub bind: Option<unsafe extern "C" fn(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int>,
        pub control: Option<unsafe extern "C" fn(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int>,
        pub ops_open: Option<unsafe extern "C" fn(fid: *mut fid, name: *const c_char, flags: u64, ops: *mut *mut c_void, context: *mut c_void) -> c_int>,
        pub tostr: Option<unsafe extern "C" fn(fid: *const fid, buf: *mut c_char, len: usize) -> c_int>,
        pub ops_set: Option<unsafe extern "C" fn(fid: *mut fid, name: *const c_char, flags: u64, ops: *mut c_void, context: *mut c_void) -> c_int>,
    }

    /// Argument of `FI_ALIAS` (`fi_endpoint(3)`, `fi_ep_alias`).
    pub struct fi_alias {
        pub fid: *mut *mut fid,
        pub flags: u64,
    }

    /// One of the environment variables that `fi_getparams` lists.
    pub struct fi_param {
        pub name: *const c_char,
        pub r#type: fi_param_type,
        pub help_string: *const c_char,
        pub value: *const c_char,
    }

    /// Memory that an application gives with an operation under `FI_CONTEXT`.
    pub struct fi_context {
        pub internal: [*mut c_void; 4],
    }

    /// Memory that an application gives with an operation under `FI_CONTEXT2`.
    pub struct fi_context2 {
        pub internal: [*mut c_void; 8],
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The library's own functions as C calls them, one for each version that they are exported in; the cdylib gives them
//! their names.
//!
//! # Safety
//! All are called by C programs, whose pointers are as the manual pages of each function want them.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;

use kofi_core::{Errno, Version};

use crate::boundary::boundary;
use crate::layout::InfoLayout;
use crate::sys::{
    fi_fabric_attr, fi_info, fi_log_level, fi_log_subsys, fi_param, fi_param_type, fi_provider, fi_type, fid,
    fid_fabric,
};
use crate::{fabric, getinfo, info, log, param, strerror, tostr};

/// `fi_getinfo` and `fi_dupinfo`, for programs whose structures have this layout.
macro_rules! infos {
    ($($layout:ident $getinfo:ident $dupinfo:ident,)*) => {$(
        /// `fi_getinfo(3)`.
        ///
        /// # Safety
        /// See the module.
        pub unsafe extern "C" fn $getinfo(
            version: u32,
            node: *const c_char,
            service: *const c_char,
            flags: u64,
            hints: *const fi_info,
            list: *mut *mut fi_info,
        ) -> c_int {
            // SAFETY: the caller's word.
            boundary(|| unsafe {
                getinfo::getinfo(version, node, service, flags, hints, &InfoLayout::$layout, list)
            })
        }

        /// `fi_dupinfo`; of null, `fi_allocinfo` (`fi_getinfo(3)`).
        ///
        /// # Safety
        /// See the module.
        pub unsafe extern "C" fn $dupinfo(from: *const fi_info) -> *mut fi_info {
            boundary(|| match from.is_null() {
                true => info::allocate(),
                // SAFETY: the caller's word.
                false => unsafe { info::duplicate(from, &InfoLayout::$layout) },
            })
        }
    )*};
}

infos! {
    FABRIC_1_0 fi_getinfo_1_0 fi_dupinfo_1_0,
    FABRIC_1_1 fi_getinfo_1_1 fi_dupinfo_1_1,
    FABRIC_1_2 fi_getinfo_1_2 fi_dupinfo_1_2,
    FABRIC_1_3 fi_getinfo_1_3 fi_dupinfo_1_3,
    FABRIC_1_7 fi_getinfo_1_7 fi_dupinfo_1_7,
    FABRIC_1_8 fi_getinfo_1_8 fi_dupinfo_1_8,
    FABRIC_1_9 fi_getinfo_1_9 fi_dupinfo_1_9,
    FABRIC_1_10 fi_getinfo_1_10 fi_dupinfo_1_10,
}

/// `fi_freeinfo(3)`.
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_freeinfo(list: *mut fi_info) {
    // SAFETY: the caller's word.
    boundary(|| unsafe { info::free(list) });
}

/// `fi_fabric(3)`.
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_fabric_1_1(
    attr: *mut fi_fabric_attr,
    place: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's word.
    boundary(|| unsafe { fabric::fabric(attr, &InfoLayout::FABRIC_1_1, place, context) })
}

/// `fi_fabric(3)`, for programs whose attributes do not say for which version of the interfaces they were built.
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_fabric_1_0(
    attr: *mut fi_fabric_attr,
    place: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's word.
    boundary(|| unsafe { fabric::fabric(attr, &InfoLayout::FABRIC_1_0, place, context) })
}

/// `fi_fabric2` (`fi_fabric(3)`); there are no flags.
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_fabric2(
    info: *mut fi_info,
    place: *mut *mut fid_fabric,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller's word.
        let attr = unsafe { info.as_ref() }.map(|info| info.fabric_attr);
        match attr {
            // SAFETY: the caller's word.
            Some(attr) if flags == 0 => unsafe {
                fabric::fabric(attr, &InfoLayout::FABRIC_1_10, place, context)
            },
            _ => -Errno::EINVAL.raw(),
        }
    })
}

/// `fi_version`: the newest version of the interfaces that can be asked for (`fi_getinfo(3)`).
pub extern "C" fn fi_version() -> u32 {
    getinfo::VERSION.raw()
}

/// `fi_strerror` (`fi_errno(3)`).
pub extern "C" fn fi_strerror(number: c_int) -> *const c_char {
    boundary(|| strerror::strerror(number))
}

/// `fi_tostr(3)`.
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_tostr(data: *const c_void, kind: fi_type) -> *mut c_char {
    // SAFETY: the caller's word.
    boundary(|| unsafe { tostr::tostr(data, kind) })
}

/// `fi_tostr_r` (`fi_tostr(3)`).
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_tostr_r(
    buf: *mut c_char,
    len: usize,
    data: *const c_void,
    kind: fi_type,
) -> *mut c_char {
    // SAFETY: the caller's word.
    boundary(|| unsafe { tostr::tostr_r(buf, len, data, kind) })
}

/// `fi_log_enabled` (`fi_provider(3)`).
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_log_enabled(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
) -> c_int {
    // SAFETY: the caller's word.
    boundary(|| unsafe { log::enabled(provider, level, subsys) })
}

/// `fi_log_ready` (`fi_provider(3)`).
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_log_ready(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    show_time: *mut u64,
) -> c_int {
    // SAFETY: the caller's word.
    boundary(|| unsafe { log::ready(provider, level, subsys, show_time) })
}

/// `fi_log` (`fi_provider(3)`), its variable arguments as a `va_list`.
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_vlog(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    function: *const c_char,
    line: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) {
    // SAFETY: the caller's word.
    boundary(|| unsafe { log::write(provider, level, subsys, function, line, format, arguments) });
}

/// `fi_param_define` (`fi_provider(3)`), its variable arguments as a `va_list`.
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_vparam_define(
    provider: *const fi_provider,
    name: *const c_char,
    kind: fi_param_type,
    help: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    // SAFETY: the caller's word.
    boundary(|| unsafe { param::define(provider, name, kind, help, arguments) })
}

/// `fi_param_get` (`fi_provider(3)`).
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_param_get(
    provider: *mut fi_provider,
    name: *const c_char,
    value: *mut c_void,
) -> c_int {
    // SAFETY: the caller's word.
    boundary(|| unsafe { param::get(provider, name, value) })
}

/// `fi_getparams`, as `fi_info -e` calls it.
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_getparams(list: *mut *mut fi_param, count: *mut c_int) -> c_int {
    // SAFETY: the caller's word.
    boundary(|| unsafe { param::list(list, count) })
}

/// `fi_freeparams`.
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_freeparams(list: *mut fi_param) {
    // SAFETY: the caller's word.
    boundary(|| unsafe { param::free(list) });
}

/// `fi_open(3)`: `logging` is what can be opened; there is no cache of registrations here.
///
/// # Safety
/// See the module.
pub unsafe extern "C" fn fi_open(
    version: u32,
    name: *const c_char,
    _attr: *mut c_void,
    attr_len: usize,
    flags: u64,
    place: *mut *mut fid,
    context: *mut c_void,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller's word.
        let (name, place) = unsafe { (crate::heap::read_text(name), place.as_mut()) };
        let (Some(name), Some(place)) = (name, place) else { return -Errno::EINVAL.raw() };
        *place = ptr::null_mut();
        if !name.eq_ignore_ascii_case("logging") {
            return -Errno::ENOSYS.raw();
        }
        if Version::from_raw(version) < Version::new(1, 13) || attr_len != 0 {
            return -Errno::EINVAL.raw();
        }
        if flags != 0 {
            return -Errno::EBADFLAGS.raw();
        }
        match log::open(context) {
            Ok(logging) => {
                *place = logging;
                0
            }
            Err(errno) => -errno.raw(),
        }
    })
}

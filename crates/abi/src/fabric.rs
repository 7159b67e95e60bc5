// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `fi_fabric(3)`: where a program's objects begin.

use core::ffi::{c_int, c_void};

use kofi_core::{Errno, Info, Version};

use crate::boundary::negative;
use crate::face::face;
use crate::layout::InfoLayout;
use crate::sys::{FI_LOG_INFO, FI_LOG_WARN, fi_fabric_attr, fid_fabric};
use crate::{heap, info, log, objects};

/// Opens a fabric. The version of the interfaces that the program was built for is in `attr`; before 1.5 there was no
/// such field, and it is taken to be 1.0.
///
/// # Safety
/// Null, or attributes in that layout with good pointers, and a place for the fabric.
pub unsafe fn fabric(
    attr: *const fi_fabric_attr,
    layout: &InfoLayout,
    place: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's word.
    let Some(attr) = (!attr.is_null()).then(|| unsafe { heap::head(attr, layout.fabric_attr) }) else {
        return -Errno::EINVAL.raw();
    };
    if place.is_null() || attr.name.is_null() || attr.prov_name.is_null() {
        return -Errno::EINVAL.raw();
    }
    let version = match layout.fabric_attr < InfoLayout::FABRIC_1_1.fabric_attr {
        true => Version::new(1, 0),
        false => Version::from_raw(attr.api_version),
    };
    // SAFETY: the caller's word.
    let fabric_attr = unsafe { info::fabric_attr(attr) };
    let name = fabric_attr.name.clone();
    let info = Info { fabric_attr, ..Info::default() };
    match objects::fabric::open(&info, version.raw(), context) {
        Ok(fabric) => {
            // SAFETY: the caller's word.
            unsafe { place.write(fabric) };
            log::line(
                FI_LOG_INFO,
                c"fi_fabric",
                format_args!("fabric {name} of {} is open", face().provider),
            );
            0
        }
        Err(error) => {
            log::line(FI_LOG_WARN, c"fi_fabric", format_args!("{error}"));
            negative(&error)
        }
    }
}

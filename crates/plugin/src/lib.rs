// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `libkofi-fi.so`: kofi as one more provider, `kofi`, of a stock libfabric that finds it in `FI_PROVIDER_PATH`
//! (`fi_provider(3)`), on x86-64. Its endpoints speak the protocol of `tcp`, to both.
//!
//! No symbol of the host is needed, so that it does not matter how the host was loaded. What the host says is only its
//! version: infos come in its layout.
#![cfg(target_arch = "x86_64")]

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::{mem, ptr};

use kofi_abi::boundary::boundary;
use kofi_abi::face::{self, Face, face};
use kofi_abi::layout::InfoLayout;
use kofi_abi::sys::{fi_context, fi_fabric_attr, fi_info, fi_provider, fid_fabric};
use kofi_abi::{fabric, getinfo};

/// The provider, in memory that the host writes to: it keeps notes in `context`.
struct Provider(UnsafeCell<fi_provider>);

// SAFETY: only the host uses it, which has a lock for that.
unsafe impl Sync for Provider {}

static PROVIDER: Provider = Provider(UnsafeCell::new(fi_provider {
    version: getinfo::PROVIDER_VERSION.raw(),
    fi_version: getinfo::VERSION.raw(),
    context: fi_context { internal: [ptr::null_mut(); 4] },
    name: c"kofi".as_ptr(),
    getinfo: Some(provider_getinfo),
    fabric: Some(provider_fabric),
    // Threads end with the objects that have them.
    cleanup: None,
}));

/// `fi_prov_ini`, which a host calls once it has loaded this library. Who has called it is seen by where it returns to.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn fi_prov_ini() -> *mut fi_provider {
    naked_asm!("mov rdi, [rsp]", "jmp {start}", start = sym start)
}

extern "C" fn start(caller: *const c_void) -> *mut fi_provider {
    boundary(|| {
        face::set(Face { provider: "kofi", layout: host_layout(caller), is_plugin: true });
        PROVIDER.0.get()
    })
}

/// The layout of the library that has this code in it. If that does not say its version, it is taken for the oldest
/// that loads providers of today's kind: what it has beyond that is not looked at.
fn host_layout(code: *const c_void) -> InfoLayout {
    let version = || {
        // SAFETY: all bytes zero is a whole one.
        let mut place: libc::Dl_info = unsafe { mem::zeroed() };
        // SAFETY: any address can be asked for; the text stays for as long as that library.
        let library = unsafe {
            (libc::dladdr(code, &mut place) != 0)
                .then(|| libc::dlopen(place.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD))
        };
        let library = library.filter(|library| !library.is_null())?;
        // SAFETY: a library that is loaded. It stays so, since it has loaded us.
        let symbol = unsafe {
            let symbol = libc::dlsym(library, c"fi_version".as_ptr());
            libc::dlclose(library);
            symbol
        };
        // SAFETY: a function pointer, or null; in a libfabric that name is this function.
        let version = unsafe { mem::transmute::<*mut c_void, Option<extern "C" fn() -> u32>>(symbol) }?;
        Some(kofi_abi::Version::from_raw(version()))
    };
    version().map_or(InfoLayout::FABRIC_1_3, InfoLayout::of_release)
}

unsafe extern "C" fn provider_getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    list: *mut *mut fi_info,
) -> c_int {
    // SAFETY: the host's word: hints in its layout.
    boundary(|| unsafe { getinfo::getinfo(version, node, service, flags, hints, &face().layout, list) })
}

unsafe extern "C" fn provider_fabric(
    attr: *mut fi_fabric_attr,
    place: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the host's word.
    boundary(|| unsafe { fabric::fabric(attr, &face().layout, place, context) })
}

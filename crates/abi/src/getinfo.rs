// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `fi_getinfo(3)`.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use std::env;
use std::ffi::CString;
use std::net::IpAddr;
use std::sync::OnceLock;

use kofi::{Query, explain, matching};
use kofi_core::{Errno, Error, Info, Result, Version};

use crate::boundary::negative;
use crate::face::face;
use crate::filter::{Filter, prov_name_admits};
use crate::layout::InfoLayout;
use crate::sys::{
    FI_LOG_DEBUG, FI_LOG_INFO, FI_LOG_WARN, FI_NUMERICHOST, FI_PROV_ATTR_ONLY, FI_SOCKADDR, FI_SOURCE,
    fi_info,
};
use crate::{address, heap, hints, info, log};

/// The version of the interfaces: `fi_version`.
pub const VERSION: Version = kofi_core::offer::API;
/// The version of the provider.
pub const PROVIDER_VERSION: Version = kofi_core::offer::PROVIDER_VERSION;

const FUNCTION: &CStr = c"fi_getinfo";

/// What the environment says at the first call.
struct Environment {
    providers: Filter,
}

/// Starts the library up, once.
fn environment() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        log::subscribe();
        let text = |name| env::var(name).ok();
        // A host sees to these itself.
        if face().is_plugin {
            return Environment { providers: Filter::default() };
        }
        let providers = Filter::new(text("FI_PROVIDER").as_deref());
        for name in providers.unknown(&[face().provider]) {
            log::line(
                FI_LOG_WARN,
                FUNCTION,
                format_args!(
                    "FI_PROVIDER: there is no provider {name:?} here; there is {:?}",
                    face().provider
                ),
            );
        }
        if let Some(path) = text("FI_PROVIDER_PATH").filter(|path| !path.is_empty()) {
            log::line(
                FI_LOG_WARN,
                FUNCTION,
                format_args!("FI_PROVIDER_PATH: no providers are loaded here; {path:?} is ignored"),
            );
        }
        for name in text("FI_HOOK").iter().flat_map(|names| names.split(';')).filter(|name| !name.is_empty())
        {
            log::line(
                FI_LOG_WARN,
                FUNCTION,
                format_args!("FI_HOOK: there are no hooks here; {name:?} is ignored"),
            );
        }
        Environment { providers }
    })
}

/// `fi_getinfo`, with hints in a layout.
///
/// # Safety
/// `node` and `service` are null or texts, `hints` is null or hints in that layout whose pointers are null or good,
/// `list` is null or a place for the result.
pub unsafe fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    layout: &InfoLayout,
    list: *mut *mut fi_info,
) -> c_int {
    let environment = environment();
    if list.is_null() {
        return -Errno::EINVAL.raw();
    }
    // Who does not say is of the first ones.
    let version = Version::from_raw(version).max(Version::new(1, 0));
    if version > VERSION {
        log::line(
            FI_LOG_WARN,
            FUNCTION,
            format_args!(
                "version {version} is asked for, but this library has {VERSION}; ask for that or less"
            ),
        );
        return -Errno::ENOSYS.raw();
    }
    // What the version that is asked for did not have has no meaning. A program that was built with the headers of that
    // time, but linked to this library, does not have it either.
    let layout = &layout.common(&InfoLayout::of_release(version));
    // SAFETY: the caller's word.
    unsafe { list.write(ptr::null_mut()) };
    if flags == FI_PROV_ATTR_ONLY {
        // SAFETY: the caller's word.
        return unsafe { put(list, [provider()]) };
    }
    // SAFETY: the caller's word.
    let (query, prov_name) = match unsafe { query(version, node, service, flags, hints, layout) } {
        Ok(query) => query,
        Err(error) => {
            log::line(FI_LOG_INFO, FUNCTION, format_args!("{error}"));
            // Whatever a provider makes of it, the answer is that there is none.
            return -Errno::ENODATA.raw();
        }
    };
    let name = face().provider;
    if !environment.providers.admits(name) {
        log::line(FI_LOG_INFO, FUNCTION, format_args!("provider {name} is left out by FI_PROVIDER"));
        return -Errno::ENODATA.raw();
    }
    // A host asks those that it wants, by names that are its own business.
    let wanted = prov_name.as_deref().filter(|_| !face().is_plugin);
    if let Some(wanted) = wanted.filter(|wanted| !prov_name_admits(wanted, name)) {
        log::line(
            FI_LOG_INFO,
            FUNCTION,
            format_args!(
                "wanted fabric_attr.prov_name {wanted}, there is {name}; ask for that or leave the hint out"
            ),
        );
        return -Errno::ENODATA.raw();
    }
    match matches(query) {
        // SAFETY: the caller's word.
        Ok(infos) => unsafe { put(list, infos) },
        Err(error) => {
            // Who has named a provider wonders most why it is not there.
            let level = if prov_name.is_some() { FI_LOG_WARN } else { FI_LOG_INFO };
            log::line(level, FUNCTION, format_args!("{error}"));
            match error.errno() {
                Errno::ENOMEM => negative(&error),
                _ => -Errno::ENODATA.raw(),
            }
        }
    }
}

/// What is asked for, but for the name of the provider, which comes beside it.
///
/// # Safety
/// As for [`getinfo`].
unsafe fn query(
    version: Version,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    layout: &InfoLayout,
) -> Result<(Query, Option<String>)> {
    // SAFETY: the caller's word.
    let (node, service) = unsafe { (heap::read_text(node), heap::read_text(service)) };
    // SAFETY: the caller's word.
    let (wide, hints) = unsafe {
        // Not by a reference: older programs' infos are shorter than ours.
        let wide = (!hints.is_null()).then(|| info::Wide::read(hints, layout));
        (wide, hints::read(version, hints, layout)?)
    };
    let domain_attr = wide.as_ref().and_then(|wide| wide.domain_attr);
    if let Some(count) = domain_attr.map(|attr| attr.max_ep_auth_key).filter(|count| *count != 0) {
        return Err(Error::NoMatch(format!(
            "wanted domain_attr.max_ep_auth_key {count}, {} has no authorization keys; leave the hint out",
            face().provider
        )));
    }
    let prov_name = wide.and_then(|wide| wide.fabric_attr).map(|attr| attr.prov_name);
    // SAFETY: the caller's word.
    let prov_name = prov_name.and_then(|name| unsafe { heap::read_text(name) });
    let mut query = Query::new(hints);
    if flags & FI_SOURCE != 0 {
        if node.is_none() && service.is_none() {
            return Err(Error::NoMatch(
                "FI_SOURCE is given, but neither node nor service; give one of them".into(),
            ));
        }
        query = query.source();
    }
    if let Some(node) = node {
        let is_number = node.split('%').next().is_some_and(|host| host.parse::<IpAddr>().is_ok());
        if flags & FI_NUMERICHOST != 0 && !is_number {
            return Err(Error::NoMatch(format!("FI_NUMERICHOST is given, but node {node:?} is no address")));
        }
        query = query.node(node);
    }
    if let Some(service) = service {
        query = query.service(port(&service)?);
    }
    Ok((query, prov_name))
}

/// The number of a service, which may be a name that the system knows (`services(5)`).
fn port(service: &str) -> Result<u16> {
    if let Ok(port) = service.parse() {
        return Ok(port);
    }
    let problem =
        || Error::NoMatch(format!("service {service:?} is no port (0 to 65535), nor a service's name"));
    let name = CString::new(service).map_err(|_| problem())?;
    // SAFETY: null pointers and zeros ask for anything.
    let stream = libc::addrinfo { ai_socktype: libc::SOCK_STREAM, ..unsafe { core::mem::zeroed() } };
    let mut list: *mut libc::addrinfo = ptr::null_mut();
    // SAFETY: texts and places; what is found is read before it is freed.
    let port = unsafe {
        if libc::getaddrinfo(ptr::null(), name.as_ptr(), &stream, &mut list) != 0 {
            return Err(problem());
        }
        let first = list.as_ref().and_then(|first| {
            address::read(FI_SOCKADDR, first.ai_addr.cast(), first.ai_addrlen as usize)?.socket_addr()
        });
        libc::freeaddrinfo(list);
        first
    };
    port.map(|addr| addr.port()).ok_or_else(problem)
}

/// What matches, in order of preference; otherwise why nothing does.
fn matches(query: Query) -> Result<Vec<Info>> {
    let (infos, refusals) = matching(explain(query)?)?;
    for refusal in refusals {
        log::line(FI_LOG_DEBUG, FUNCTION, format_args!("{refusal}"));
    }
    Ok(infos)
}

/// The entry of the provider that `FI_PROV_ATTR_ONLY` asks for.
fn provider() -> Info {
    let mut info = Info::default();
    info.fabric_attr.prov_name = kofi_core::offer::NAME.into();
    info.fabric_attr.prov_version = PROVIDER_VERSION;
    info
}

/// Links infos to a list.
///
/// # Safety
/// `list` is a place for it.
unsafe fn put(list: *mut *mut fi_info, infos: impl IntoIterator<Item = Info>) -> c_int {
    let mut tail = list;
    for info in infos {
        let Some(block) = info::write(&info) else {
            // SAFETY: made here, and nobody has them.
            unsafe {
                info::free(list.read());
                list.write(ptr::null_mut());
            }
            return -Errno::ENOMEM.raw();
        };
        // SAFETY: the caller's place, or a block that was made here.
        unsafe {
            if face().is_plugin {
                // fi_provider(3): the host puts its name for the provider there itself.
                let attr = (*block.as_ptr()).fabric_attr;
                heap::free((*attr).prov_name);
                (*attr).prov_name = ptr::null_mut();
            }
            tail.write(block.as_ptr());
            tail = &raw mut (*block.as_ptr()).next;
        }
    }
    0
}

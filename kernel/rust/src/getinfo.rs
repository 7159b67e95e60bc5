// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `fi_getinfo(3)`: what the provider offers, one record for each address that it can use.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::{c_char, c_int};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kofi_core::offer::{API, Offer, format_matches, network, queue_size};
use kofi_core::wire::header;
use kofi_core::{
    AddrFormat, Address, Errno, Error, Hints, Info, Progress, Refusal, Result, Version, negotiate,
};

use crate::error::{self, system};
use crate::sys::net::{Interface, Net};
use crate::sys::raw;
use crate::{c, info};

const CALL: &str = "fi_getinfo";
/// `FI_EP_MSG`.
pub(crate) const EP_MSG: u32 = 1;
/// The length on the wire counts the header in.
pub(crate) const MAX_MSG_SIZE: usize = isize::MAX as usize - header::MAX_LEN;
/// `FI_SOURCE`; and other flags that are known.
const SOURCE: u64 = 1 << 57;
const KNOWN: u64 = SOURCE | 1 << 53 | 1 << 54 | 1 << 55;

/// The addresses that node and service stand for.
#[inline(never)]
fn look_up(
    node: Option<&str>,
    service: Option<&str>,
    source: bool,
    format: AddrFormat,
) -> Result<Vec<SocketAddr>> {
    let port = match service {
        None => 0,
        Some(service) => service
            .parse()
            .map_err(|_| Error::NoMatch(format!("service {service:?} is no port number (0 to 65535)")))?,
    };
    let addrs = match node {
        Some(node) => {
            let ip: IpAddr = node.parse().map_err(|_| {
                Error::NoMatch(format!("node {node:?} is no address, and the kernel does not look up names"))
            })?;
            alloc::vec![SocketAddr::new(ip, port)]
        }
        None if source => {
            alloc::vec![(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()]
        }
        None => alloc::vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()],
    };
    Ok(addrs.into_iter().filter(|addr| format_matches(format, addr)).collect())
}

/// All offers for these addresses.
#[inline(never)]
fn offers(
    net: &Net,
    node: Option<&str>,
    service: Option<&str>,
    source: bool,
    hints: &Hints,
) -> Result<Vec<Info>> {
    let format = hints.addr_format.unwrap_or_default();
    let interfaces = net.interfaces()?;
    let link_local = |interface: &Interface| match interface.addr.ip() {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let given = node.is_some() || service.is_some();
    let hinted = |addr: &Option<Address>| addr.iter().filter_map(Address::socket_addr).collect();
    let found = if given { look_up(node, service, source, format)? } else { Vec::new() };
    let (sources, dests): (Vec<SocketAddr>, Vec<SocketAddr>) = match (given, source) {
        (true, true) => (found, hinted(&hints.dest_addr)),
        (true, false) => (hinted(&hints.src_addr), found),
        (false, _) => (hinted(&hints.src_addr), hinted(&hints.dest_addr)),
    };
    let mut offers = Vec::new();
    let mut offer = |source: SocketAddr, dest: Option<SocketAddr>| {
        let interface = interfaces.iter().find(|interface| interface.addr.ip() == source.ip());
        if (interface.is_some() || source.ip().is_unspecified()) && format_matches(format, &source) {
            offers.push(record(source, dest, interface, hints));
        }
    };
    if !dests.is_empty() {
        for dest in dests {
            match sources.iter().find(|source| source.is_ipv4() == dest.is_ipv4()) {
                Some(&source) => offer(source, Some(dest)),
                // A destination that cannot be reached is no offer.
                None => match net.route(dest) {
                    Ok(source) => offer(source, Some(dest)),
                    Err(_) => continue,
                },
            }
        }
    } else if !sources.is_empty() {
        sources.into_iter().for_each(|source| offer(source, None));
    } else {
        // Those that others can reach come first. (Sorting would take more of the stack than all the rest.)
        for rank in [(false, false), (false, true), (true, false), (true, true)] {
            let of_rank = |interface: &&Interface| (interface.loopback, link_local(interface)) == rank;
            interfaces.iter().filter(of_rank).for_each(|interface| offer(interface.addr, None));
        }
    }
    Ok(offers)
}

fn record(
    source: SocketAddr,
    dest: Option<SocketAddr>,
    interface: Option<&Interface>,
    hints: &Hints,
) -> Info {
    let asked = |hint: Option<usize>| hint.is_some_and(|hint| hint > 0);
    let offer = Offer {
        source,
        dest,
        domain: interface.map(|interface| interface.name().into()),
        fabric: interface.map(|interface| network(interface.addr.ip(), interface.prefix)),
        tx_size: queue_size(asked(hints.tx_attr.size)),
        rx_size: queue_size(asked(hints.rx_attr.size)),
        iov_limit: c::IOV_LIMIT,
        mr_iov_limit: c::IOV_LIMIT,
        max_msg_size: MAX_MSG_SIZE,
        control_progress: Progress::Auto,
        data_progress: Progress::Auto,
        max_ep_srx_ctx: 0,
    };
    offer.info()
}

/// What an offer comes to, or why it does not match. Apart, so that its records are not on the stack for all of the call.
#[inline(never)]
fn granted(offer: &Info, hints: &Hints) -> Result<Result<Box<c::Info>, Refusal>> {
    let found = match negotiate(offer, hints) {
        Ok(found) => found,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut record = info::boxed()?;
    info::put(&found, &mut record);
    Ok(Ok(record))
}

#[inline(never)]
fn getinfo(
    net: *mut raw::Net,
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const c::Info,
) -> Result<*mut c::Info> {
    let version = Version::from_raw(version);
    if version > API {
        return Err(system(CALL, Errno::ENOSYS));
    }
    if flags & !KNOWN != 0 {
        return Err(Error::BadFlags { call: CALL, found: flags & !KNOWN, allowed: KNOWN });
    }
    let net = Net::get(net)?;
    // SAFETY: null, or the caller's for the call.
    let mut hints = unsafe { hints.as_ref() }.map_or_else(Hints::new, info::to_hints);
    // kfabric's clients ask for 1.7 or for nothing, and its rules of registration are those of 1.5 and later.
    hints.fabric_attr.api_version = (version.raw() != 0).then_some(version);
    let offers =
        offers(&net, c::string(CALL, node)?, c::string(CALL, service)?, flags & SOURCE != 0, &hints)?;
    let mut why = String::from("no interface has these addresses");
    let mut list: Vec<Box<c::Info>> = Vec::new();
    for offer in offers {
        match granted(&offer, &hints)? {
            Ok(record) => {
                list.try_reserve(1).map_err(|_| Error::NoMemory("a list of records"))?;
                list.push(record);
            }
            Err(refusal) => why = refusal.to_string(),
        }
    }
    let mut next = core::ptr::null_mut();
    while let Some(mut record) = list.pop() {
        record.next = next;
        next = Box::into_raw(record);
    }
    if next.is_null() { Err(Error::NoMatch(why)) } else { Ok(next) }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_getinfo(
    net: *mut raw::Net,
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const c::Info,
    list: *mut *mut c::Info,
) -> c_int {
    error::result((|| {
        let place = c::place(CALL, list)?;
        *place = core::ptr::null_mut();
        *place = getinfo(net, version, node, service, flags, hints)?;
        Ok(())
    })())
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `fi_getinfo(3)`: what the provider offers, one record for each address that it can use.

use alloc::boxed::Box;
use core::ffi::{c_char, c_int};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ptr::null_mut;

use kofi_core::error::{copy, text};
use kofi_core::offer::{API, Offer, format_matches, network, queue_size, receive_size};
use kofi_core::wire::header;
use kofi_core::{
    AddrFormat, Address, Errno, Error, Hints, Info, Progress, Refusal, Result, Version, negotiate_into,
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

/// What is asked for.
struct Query<'a> {
    node: Option<&'a str>,
    service: Option<&'a str>,
    /// Both are our own.
    source: bool,
    hints: Box<Hints>,
}

/// Two addresses at most.
type Addrs = [Option<SocketAddr>; 2];

impl Query<'_> {
    /// Our addresses and the peer's, as far as the query says.
    fn addrs(&self) -> Result<(Addrs, Addrs)> {
        let hinted = |addr: &Option<Address>| [addr.as_ref().and_then(Address::socket_addr), None];
        let (ours, theirs) = (hinted(&self.hints.src_addr), hinted(&self.hints.dest_addr));
        if self.node.is_none() && self.service.is_none() {
            return Ok((ours, theirs));
        }
        let found = self.look_up()?;
        Ok(if self.source { (found, theirs) } else { (ours, found) })
    }

    /// The addresses that node and service stand for.
    fn look_up(&self) -> Result<Addrs> {
        let port = match self.service {
            None => 0,
            Some(service) => service.parse().map_err(|_| {
                Error::NoMatch(text(format_args!("service {service:?} is no port number (0 to 65535)")))
            })?,
        };
        let (v4, v6): (IpAddr, IpAddr) = match self.node {
            Some(node) => {
                let ip: IpAddr = node.parse().map_err(|_| {
                    let why = "is no address, and the kernel does not look up names";
                    Error::NoMatch(text(format_args!("node {node:?} {why}")))
                })?;
                return Ok([Some((ip, port).into()), None].map(|addr| self.of_format(addr)));
            }
            None if self.source => (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()),
            None => (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()),
        };
        Ok([v4, v6].map(|ip| self.of_format(Some((ip, port).into()))))
    }

    fn format(&self) -> AddrFormat {
        self.hints.addr_format.unwrap_or_default()
    }

    fn of_format(&self, addr: Option<SocketAddr>) -> Option<SocketAddr> {
        addr.filter(|addr| format_matches(self.format(), addr))
    }
}

/// The records that match, and why others do not.
struct Found {
    first: *mut c::Info,
    last: *mut c::Info,
    refusal: Option<Refusal>,
}

impl Drop for Found {
    fn drop(&mut self) {
        info::free(self.first);
    }
}

/// Matches all offers for these addresses.
#[inline(never)]
fn find(net: &Net, query: &Query<'_>) -> Result<Found> {
    let interfaces = net.interfaces()?;
    let link_local = |interface: &Interface| match interface.addr.ip() {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let (sources, dests) = query.addrs()?;
    let is_listed =
        sources.iter().chain(&dests).all(Option::is_none) && query.node.is_none() && query.service.is_none();
    let mut found = Found { first: null_mut(), last: null_mut(), refusal: None };
    let mut offer = |source: SocketAddr, dest: Option<SocketAddr>| {
        let interface = interfaces.iter().find(|interface| interface.addr.ip() == source.ip());
        if (interface.is_some() || source.ip().is_unspecified()) && format_matches(query.format(), &source) {
            return found.offer(source, dest, interface, is_listed, &query.hints);
        }
        Ok(())
    };
    if dests.iter().any(Option::is_some) {
        for dest in dests.into_iter().flatten() {
            match sources.iter().flatten().find(|source| source.is_ipv4() == dest.is_ipv4()) {
                Some(&source) => offer(source, Some(dest))?,
                // A destination that cannot be reached is no offer.
                None => match net.route(dest) {
                    Ok(source) => offer(source, Some(dest))?,
                    Err(_) => continue,
                },
            }
        }
    } else if !is_listed {
        sources.into_iter().flatten().try_for_each(|source| offer(source, None))?;
    } else {
        // Those that others can reach come first. (Sorting would take more of the stack than all the rest.)
        for rank in [(false, false), (false, true), (true, false), (true, true)] {
            let of_rank = |interface: &&Interface| (interface.loopback, link_local(interface)) == rank;
            interfaces.iter().filter(of_rank).try_for_each(|interface| offer(interface.addr, None))?;
        }
    }
    Ok(found)
}

impl Found {
    /// What an offer comes to. Apart, so that its records are not on the stack for all of the call.
    #[inline(never)]
    fn offer(
        &mut self,
        source: SocketAddr,
        dest: Option<SocketAddr>,
        interface: Option<&Interface>,
        is_listed: bool,
        hints: &Hints,
    ) -> Result<()> {
        let mut offer = offered(source, dest, interface, is_listed, hints)?;
        match negotiate_into(&mut offer, hints) {
            Ok(()) => {
                let mut record = info::boxed()?;
                info::put(&offer, &mut record);
                let record = Box::into_raw(record);
                // SAFETY: null, or the list's last record, which is ours.
                match unsafe { self.last.as_mut() } {
                    Some(last) => last.next = record,
                    None => self.first = record,
                }
                self.last = record;
            }
            Err(refusal) => self.refusal = Some(refusal),
        }
        Ok(())
    }
}

/// The offer for these addresses. Apart and not on the stack, as what follows needs it.
#[inline(never)]
fn offered(
    source: SocketAddr,
    dest: Option<SocketAddr>,
    interface: Option<&Interface>,
    is_listed: bool,
    hints: &Hints,
) -> Result<Box<Info>> {
    let offer = Offer {
        source,
        dest,
        domain: interface.map(|interface| copy(interface.name(), "an interface's name")).transpose()?,
        fabric: interface.map(|interface| network(interface.addr.ip(), interface.prefix)),
        tx_size: queue_size(hints.tx_attr.size),
        rx_size: queue_size(receive_size(hints)),
        iov_limit: c::IOV_LIMIT,
        mr_iov_limit: c::IOV_LIMIT,
        max_msg_size: MAX_MSG_SIZE,
        control_progress: Progress::Auto,
        data_progress: Progress::Auto,
        is_listed,
    };
    Box::try_new(offer.info()?).map_err(|_| Error::NoMemory("an offer"))
}

/// What is to be matched; apart, for the same reason.
#[inline(never)]
fn wanted(hints: *const c::Info, version: Version) -> Result<Box<Hints>> {
    // SAFETY: null, or the caller's for the call.
    let hints = unsafe { hints.as_ref() };
    let mut hints = hints.map_or_else(|| info::boxed_hints(Hints::new()), info::to_hints)?;
    // kfabric's clients ask for 1.7 or for nothing, and its rules of registration are those of 1.5 and later.
    hints.fabric_attr.api_version = (version.raw() != 0).then_some(version);
    Ok(hints)
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
    let hints = wanted(hints, version)?;
    let (node, service) = (c::string(CALL, node)?, c::string(CALL, service)?);
    let query = Query { node, service, source: flags & SOURCE != 0, hints };
    let mut found = find(&net, &query)?;
    let list = core::mem::replace(&mut found.first, null_mut());
    if !list.is_null() {
        return Ok(list);
    }
    Err(Error::NoMatch(match &found.refusal {
        Some(refusal) => text(format_args!("{refusal}")),
        None => text(format_args!("no interface has these addresses")),
    }))
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
        *place = null_mut();
        *place = getinfo(net, version, node, service, flags, hints)?;
        Ok(())
    })())
}

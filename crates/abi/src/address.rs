// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Addresses in C's form: `sockaddr_in`, `sockaddr_in6`, texts (`fi_getinfo(3)`, "Addressing formats").

use core::ffi::{CStr, c_void};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use kofi_core::Address;

use crate::sys::{
    FI_ADDR_STR, FI_FORMAT_UNSPEC, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IP,
};

/// The address at `addr`; `None` for a format that there is not here, or too few bytes for it.
///
/// # Safety
/// `len` bytes at `addr` can be read.
pub unsafe fn read(format: u32, addr: *const c_void, len: usize) -> Option<Address> {
    // SAFETY: the caller's word.
    let bytes = unsafe { core::slice::from_raw_parts(addr.cast::<u8>(), len) };
    match format {
        FI_FORMAT_UNSPEC | FI_SOCKADDR | FI_SOCKADDR_IN | FI_SOCKADDR_IN6 | FI_SOCKADDR_IP => {
            socket_addr(bytes).map(Address::Inet)
        }
        FI_ADDR_STR => Some(Address::Str(CStr::from_bytes_until_nul(bytes).ok()?.to_str().ok()?.to_owned())),
        _ => None,
    }
}

/// The first `N` bytes from `at` on.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn socket_addr(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(field(bytes, 0)?));
    let port = u16::from_be_bytes(field(bytes, 2)?);
    match family {
        libc::AF_INET => Some(SocketAddrV4::new(Ipv4Addr::from(field::<4>(bytes, 4)?), port).into()),
        libc::AF_INET6 => {
            let flow = u32::from_be_bytes(field(bytes, 4)?);
            let scope = u32::from_ne_bytes(field(bytes, 24)?);
            Some(SocketAddrV6::new(Ipv6Addr::from(field::<16>(bytes, 8)?), port, flow, scope).into())
        }
        _ => None,
    }
}

/// How long an address of this family is, by its first bytes: for calls that get no length, such as `fi_connect`.
///
/// # Safety
/// `addr` is an address of this format.
pub unsafe fn len(format: u32, addr: *const c_void) -> usize {
    if format == FI_ADDR_STR {
        // SAFETY: such an address is a text with its zero.
        return unsafe { CStr::from_ptr(addr.cast()) }.count_bytes() + 1;
    }
    // SAFETY: every socket address begins with its family.
    match i32::from(unsafe { addr.cast::<u16>().read_unaligned() }) {
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => size_of::<libc::sockaddr_in>(),
    }
}

/// The bytes of an address.
pub fn bytes(address: &Address) -> Vec<u8> {
    let mut bytes = vec![0; address.c_len()];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    match address {
        Address::Inet(SocketAddr::V4(v4)) => {
            put(0, &(libc::AF_INET as u16).to_ne_bytes());
            put(2, &v4.port().to_be_bytes());
            put(4, &v4.ip().octets());
        }
        Address::Inet(SocketAddr::V6(v6)) => {
            put(0, &(libc::AF_INET6 as u16).to_ne_bytes());
            put(2, &v6.port().to_be_bytes());
            put(4, &v6.flowinfo().to_be_bytes());
            put(8, &v6.ip().octets());
            put(24, &v6.scope_id().to_ne_bytes());
        }
        Address::Str(text) => put(0, text.as_bytes()),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for (text, format) in [
            ("192.0.2.1:5000", FI_SOCKADDR_IN),
            ("192.0.2.1:5000", FI_SOCKADDR),
            ("192.0.2.1:5000", FI_FORMAT_UNSPEC),
            ("[fe80::1%3]:7", FI_SOCKADDR_IN6),
            ("[2001:db8::1]:0", FI_SOCKADDR_IP),
            ("fi_shm://4711", FI_ADDR_STR),
        ] {
            let address: Address = text.parse().unwrap();
            let bytes = bytes(&address);
            // SAFETY: that many bytes are there, and they are an address.
            let (read, len) = unsafe {
                (read(format, bytes.as_ptr().cast(), bytes.len()), len(format, bytes.as_ptr().cast()))
            };
            assert_eq!(read, Some(address), "{text}");
            assert_eq!(len, bytes.len(), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_none() {
        let v4 = bytes(&"192.0.2.1:5000".parse().unwrap());
        let v6 = bytes(&"[::1]:5000".parse().unwrap());
        for (format, bytes) in [
            (FI_SOCKADDR_IN, &v4[..7]),
            (FI_SOCKADDR_IN6, &v6[..27]),
            (FI_SOCKADDR, &[][..]),
            (FI_SOCKADDR, &[0xff; 28][..]),
            (FI_ADDR_STR, b"no end"),
            (crate::sys::FI_SOCKADDR_IB, &[0; 48]),
        ] {
            // SAFETY: that many bytes are there.
            assert_eq!(unsafe { read(format, bytes.as_ptr().cast(), bytes.len()) }, None);
        }
    }
}

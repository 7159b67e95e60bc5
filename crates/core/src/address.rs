// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Transport addresses (`fi_getinfo(3)`, "Addressing formats").

use alloc::{borrow::ToOwned, string::String};
use core::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use crate::enums::AddrFormat;

/// The address of a listener, an endpoint or a peer.
///
/// The text form is that of `fi_av_straddr(3)`: `fi_sockaddr_in://192.0.2.1:5000`,
/// `fi_sockaddr_in6://[fe80::1%2]:5000`. Unlike libfabric it keeps the scope, without which a link-local address
/// cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// IPv4 or IPv6 with a port: `FI_SOCKADDR_IN`, `FI_SOCKADDR_IN6`.
    Inet(SocketAddr),
    /// `FI_ADDR_STR`: a provider's own text such as `fi_shm://4711`.
    Str(String),
}

/// A text that is no [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address such as 192.0.2.1:5000, [2001:db8::1]:5000 or fi_sockaddr_in://192.0.2.1:5000")]
pub struct InvalidAddress(pub String);

impl Address {
    /// The format that describes this address.
    pub const fn addr_format(&self) -> AddrFormat {
        match self {
            Self::Inet(SocketAddr::V4(_)) => AddrFormat::SockaddrIn,
            Self::Inet(SocketAddr::V6(_)) => AddrFormat::SockaddrIn6,
            Self::Str(_) => AddrFormat::Str,
        }
    }

    /// The address as the socket layer takes it; `None` for other formats.
    pub const fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Inet(address) => Some(*address),
            Self::Str(_) => None,
        }
    }

    /// Whether this is a wildcard, `0.0.0.0` or `::`, which a listener may bind but no peer can reach.
    pub const fn is_unspecified(&self) -> bool {
        match self {
            Self::Inet(address) => address.ip().is_unspecified(),
            Self::Str(_) => false,
        }
    }

    /// Bytes of the C form: `sockaddr_in`, `sockaddr_in6`, or the text with its terminating zero.
    pub const fn c_len(&self) -> usize {
        match self {
            Self::Inet(SocketAddr::V4(_)) => 16,
            Self::Inet(SocketAddr::V6(_)) => 28,
            Self::Str(text) => text.len() + 1,
        }
    }
}

impl<I: Into<IpAddr>> From<(I, u16)> for Address {
    fn from(addr: (I, u16)) -> Self {
        SocketAddr::from(addr).into()
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Inet(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address @ SocketAddr::V4(_)) => write!(f, "fi_sockaddr_in://{address}"),
            Self::Inet(address @ SocketAddr::V6(_)) => write!(f, "fi_sockaddr_in6://{address}"),
            Self::Str(text) => f.write_str(text),
        }
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    /// Reads what `Display` writes, and for Internet addresses also the bare forms, with port 0 if there is none.
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let address = match text.split_once("://") {
            None => text.parse().ok().or_else(|| Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, 0))),
            Some(("fi_sockaddr_in", rest)) => rest.parse().ok().map(SocketAddr::V4),
            Some(("fi_sockaddr_in6", rest)) => rest.parse().ok().map(SocketAddr::V6),
            // Formats that libfabric keeps in binary form and this library does not have.
            Some((scheme, _)) if scheme.starts_with("fi_addr_") || scheme.starts_with("fi_sockaddr") => None,
            Some(_) => return Ok(Self::Str(text.to_owned())),
        };
        address.map(Self::Inet).ok_or_else(|| InvalidAddress(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use core::net::{SocketAddrV4, SocketAddrV6};
    use proptest::prelude::*;

    fn inet() -> impl Strategy<Value = SocketAddr> {
        prop_oneof![
            any::<(u32, u16)>().prop_map(|(ip, port)| SocketAddrV4::new(ip.into(), port).into()),
            any::<(u128, u16, u32)>().prop_map(|(ip, port, scope)| SocketAddrV6::new(
                ip.into(),
                port,
                0,
                scope
            )
            .into()),
        ]
    }

    proptest! {
        #[test]
        fn text_round_trips(inet in inet()) {
            let address = Address::from(inet);
            prop_assert_eq!(address.to_string().parse(), Ok(address.clone()));
            prop_assert_eq!(inet.to_string().parse(), Ok(address));
        }

        #[test]
        fn any_text_is_an_address_or_an_error(text in ".{0,40}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
        }
    }

    #[test]
    fn says_what_it_is() {
        let v4: Address = "fi_sockaddr_in://127.0.0.1:5000".parse().unwrap();
        assert_eq!((v4.addr_format(), v4.c_len()), (AddrFormat::SockaddrIn, 16));
        let v6: Address = "::".parse().unwrap();
        assert_eq!((v6.addr_format(), v6.c_len()), (AddrFormat::SockaddrIn6, 28));
        assert!(v6.is_unspecified() && !v4.is_unspecified());
        assert_eq!(v6.to_string(), "fi_sockaddr_in6://[::]:0");
        let text: Address = "fi_shm://4711".parse().unwrap();
        assert_eq!((text.addr_format(), text.c_len(), text.socket_addr()), (AddrFormat::Str, 14, None));
    }

    #[test]
    fn wrong_texts_are_refused() {
        for text in [
            "",
            "localhost",
            "fi_sockaddr_in://[::1]:1",
            "fi_sockaddr_ib://x",
            "fi_addr_psmx://1",
            "1.2.3.4:x",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Enumerated attributes of `fi_getinfo(3)`, with libfabric's numbers and symbols.

use alloc::borrow::ToOwned;
use core::{fmt, str::FromStr};

use crate::flags::UnknownName;

/// `FI_PROV_SPECIFIC`: set in numbers that a provider chose for itself.
const PROVIDER_SPECIFIC: u32 = 1 << 31;

macro_rules! enums {
    ($($(#[$doc:meta])* $name:ident {
        $(#[$first_doc:meta])* $first:ident = 0 $first_symbol:literal,
        $($(#[$variant_doc:meta])* $variant:ident = $raw:literal $symbol:literal,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[$first_doc])*
            #[default]
            $first,
            $($(#[$variant_doc])* $variant,)*
            /// A number without a symbol here.
            Other(u32),
        }

        impl $name {
            /// From libfabric's number.
            pub const fn from_raw(raw: u32) -> Self {
                match raw {
                    0 => Self::$first,
                    $($raw => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// libfabric's number.
            pub const fn raw(self) -> u32 {
                match self {
                    Self::$first => 0,
                    $(Self::$variant => $raw,)*
                    Self::Other(other) => other,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match *self {
                    Self::$first => $first_symbol,
                    $(Self::$variant => $symbol,)*
                    Self::Other(raw) if raw & PROVIDER_SPECIFIC != 0 => "Provider specific",
                    Self::Other(_) => "Unknown",
                })
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(symbol: &str) -> Result<Self, UnknownName> {
                match symbol {
                    $first_symbol => Ok(Self::$first),
                    $($symbol => Ok(Self::$variant),)*
                    _ => Err(UnknownName(symbol.to_owned())),
                }
            }
        }

        #[cfg(test)]
        impl $name {
            const ALL: &[Self] = &[Self::$first, $(Self::$variant),*];
        }
    )*};
}

enums! {
    /// The kind of communication an endpoint offers (`fi_endpoint(3)`).
    EpType {
        /// Any.
        Unspec = 0 "FI_EP_UNSPEC",
        /// Connected, reliable, keeps message boundaries.
        Msg = 1 "FI_EP_MSG",
        /// Connectionless, unreliable.
        Dgram = 2 "FI_EP_DGRAM",
        /// Connectionless, reliable.
        Rdm = 3 "FI_EP_RDM",
        /// A byte stream.
        SockStream = 4 "FI_EP_SOCK_STREAM",
        /// UDP-like datagrams.
        SockDgram = 5 "FI_EP_SOCK_DGRAM",
    }

    /// How addresses are written (`fi_getinfo(3)`, "Addressing formats").
    AddrFormat {
        /// Any.
        Unspec = 0 "FI_FORMAT_UNSPEC",
        /// `struct sockaddr`: IPv4 or IPv6.
        Sockaddr = 1 "FI_SOCKADDR",
        /// `struct sockaddr_in`.
        SockaddrIn = 2 "FI_SOCKADDR_IN",
        /// `struct sockaddr_in6`.
        SockaddrIn6 = 3 "FI_SOCKADDR_IN6",
        /// `struct sockaddr_ib`.
        SockaddrIb = 4 "FI_SOCKADDR_IB",
        /// PSM.
        Psmx = 5 "FI_ADDR_PSMX",
        /// Cray GNI.
        Gni = 6 "FI_ADDR_GNI",
        /// IBM Blue Gene/Q.
        Bgq = 7 "FI_ADDR_BGQ",
        /// Mellanox MXM.
        Mlx = 8 "FI_ADDR_MLX",
        /// Text.
        Str = 9 "FI_ADDR_STR",
        /// PSM 2.
        Psmx2 = 10 "FI_ADDR_PSMX2",
        /// InfiniBand unreliable datagrams.
        IbUd = 11 "FI_ADDR_IB_UD",
        /// Amazon EFA.
        Efa = 12 "FI_ADDR_EFA",
        /// PSM 3.
        Psmx3 = 13 "FI_ADDR_PSMX3",
        /// Omni-Path.
        Opx = 14 "FI_ADDR_OPX",
        /// HPE Slingshot.
        Cxi = 15 "FI_ADDR_CXI",
        /// UCX (newer than 1.17).
        Ucx = 16 "FI_ADDR_UCX",
        /// `struct sockaddr_in` or `sockaddr_in6` (since 2.3).
        SockaddrIp = 17 "FI_SOCKADDR_IP",
    }

    /// The protocol below an endpoint: two providers with the same one interoperate (`fi_endpoint(3)`).
    Protocol {
        /// Any.
        Unspec = 0 "FI_PROTO_UNSPEC",
        /// InfiniBand reliable connections set up by the RDMA connection manager.
        RdmaCmIbRc = 1 "FI_PROTO_RDMA_CM_IB_RC",
        /// iWARP.
        Iwarp = 2 "FI_PROTO_IWARP",
        /// InfiniBand unreliable datagrams.
        IbUd = 3 "FI_PROTO_IB_UD",
        /// PSM.
        Psmx = 4 "FI_PROTO_PSMX",
        /// UDP.
        Udp = 5 "FI_PROTO_UDP",
        /// The `tcp` provider's messages.
        SockTcp = 6 "FI_PROTO_SOCK_TCP",
        /// Mellanox MXM.
        Mxm = 7 "FI_PROTO_MXM",
        /// Reliable datagrams over iWARP.
        IwarpRdm = 8 "FI_PROTO_IWARP_RDM",
        /// Reliable datagrams over InfiniBand.
        IbRdm = 9 "FI_PROTO_IB_RDM",
        /// Cray GNI.
        Gni = 10 "FI_PROTO_GNI",
        /// Reliable datagrams over connections.
        Rxm = 11 "FI_PROTO_RXM",
        /// Reliable datagrams over unreliable ones.
        Rxd = 12 "FI_PROTO_RXD",
        /// Mellanox.
        Mlx = 13 "FI_PROTO_MLX",
        /// Windows NetworkDirect.
        NetworkDirect = 14 "FI_PROTO_NETWORKDIRECT",
        /// PSM 2.
        Psmx2 = 15 "FI_PROTO_PSMX2",
        /// Shared memory.
        Shm = 16 "FI_PROTO_SHM",
        /// Several rails.
        Mrail = 17 "FI_PROTO_MRAIL",
        /// rsockets.
        Rstream = 18 "FI_PROTO_RSTREAM",
        /// InfiniBand extended reliable connections.
        RdmaCmIbXrc = 19 "FI_PROTO_RDMA_CM_IB_XRC",
        /// Amazon EFA.
        Efa = 20 "FI_PROTO_EFA",
        /// PSM 3.
        Psmx3 = 21 "FI_PROTO_PSMX3",
        /// Reliable datagrams over TCP.
        RxmTcp = 22 "FI_PROTO_RXM_TCP",
        /// Omni-Path.
        Opx = 23 "FI_PROTO_OPX",
        /// HPE Slingshot.
        Cxi = 24 "FI_PROTO_CXI",
        /// Reliable datagrams of the `tcp` provider.
        Xnet = 25 "FI_PROTO_XNET",
        /// Software collectives (newer than 1.17).
        Coll = 26 "FI_PROTO_COLL",
        /// UCX (newer than 1.17).
        Ucx = 27 "FI_PROTO_UCX",
        /// Shared memory, `sm2` provider (newer than 1.17).
        Sm2 = 28 "FI_PROTO_SM2",
    }

    /// How calls from several threads may meet (`fi_domain(3)`).
    Threading {
        /// Any.
        Unspec = 0 "FI_THREAD_UNSPEC",
        /// Any thread, any object.
        Safe = 1 "FI_THREAD_SAFE",
        /// One thread per object at a time.
        Fid = 2 "FI_THREAD_FID",
        /// One thread per domain at a time.
        Domain = 3 "FI_THREAD_DOMAIN",
        /// One thread per completion queue or counter, with the endpoints bound to it, at a time.
        Completion = 4 "FI_THREAD_COMPLETION",
        /// One thread per endpoint at a time.
        Endpoint = 5 "FI_THREAD_ENDPOINT",
    }

    /// Who drives operations on (`fi_domain(3)`).
    Progress {
        /// Any.
        Unspec = 0 "FI_PROGRESS_UNSPEC",
        /// The provider.
        Auto = 1 "FI_PROGRESS_AUTO",
        /// The application, by its calls.
        Manual = 2 "FI_PROGRESS_MANUAL",
        /// The application; one call drives control and data (since 1.21).
        ControlUnified = 3 "FI_PROGRESS_CONTROL_UNIFIED",
    }

    /// What an address vector hands out (`fi_av(3)`).
    AvType {
        /// Any.
        Unspec = 0 "FI_AV_UNSPEC",
        /// Opaque values.
        Map = 1 "FI_AV_MAP",
        /// Indices.
        Table = 2 "FI_AV_TABLE",
    }

    /// Who keeps queues from overrunning (`fi_domain(3)`).
    ResourceMgmt {
        /// Any.
        Unspec = 0 "FI_RM_UNSPEC",
        /// The application.
        Disabled = 1 "FI_RM_DISABLED",
        /// The provider.
        Enabled = 2 "FI_RM_ENABLED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    macro_rules! each_value_round_trips {
        ($($name:ident)*) => {$(
            for value in $name::ALL {
                assert_eq!($name::from_raw(value.raw()), *value);
                assert_eq!(value.to_string().parse(), Ok(*value));
            }
            assert_eq!($name::from_raw(99), $name::Other(99));
            assert_eq!($name::from_raw(99).raw(), 99);
            assert_eq!($name::from_raw(99).to_string(), "Unknown");
            assert!("Unknown".parse::<$name>().is_err());
        )*};
    }

    #[test]
    fn numbers_and_symbols_round_trip() {
        each_value_round_trips!(EpType AddrFormat Protocol Threading Progress AvType ResourceMgmt);
        assert_eq!(Protocol::from_raw(1 << 31 | 5).to_string(), "Provider specific");
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The bytes that libfabric's `tcp` provider puts on the wire, for every release since 1.8.
//!
//! A connection starts with one [`cm`] message each way; after it each direction is a plain
//! sequence of records, a [`header`] and its payload. Section numbers in comments are those of
//! `docs/wire.md`.

use crate::count::Of;

pub mod cm;
pub mod header;

/// Order of the bytes in data headers, agreed by the probe of the connection messages (section 4).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ByteOrder {
    /// Both ends are little endian.
    #[default]
    Little,
    /// Both ends are big endian, or they differ: then the wire is big endian both ways.
    Big,
}

impl ByteOrder {
    /// From the peer's probe, eight bytes that hold 1 in its own order.
    pub fn from_probe(probe: [u8; 8]) -> Self {
        if cfg!(target_endian = "little") && u64::from_le_bytes(probe) == 1 {
            Self::Little
        } else {
            Self::Big
        }
    }

    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    fn put_u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    fn put_u64(self, value: u64) -> [u8; 8] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }
}

/// How a peer's bytes break the protocol. Any of them ends its connection, and only that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The first byte of a connection message is not the protocol's version.
    #[error("it speaks version {found} of the connection protocol, wanted {wanted}; is it a libfabric tcp peer?", wanted = cm::VERSION)]
    Version {
        /// What was found.
        found: u8,
    },
    /// A connection message of a type that has no place here.
    #[error("connection message of type {found} where a {wanted} belongs; is it a libfabric tcp peer?")]
    MessageType {
        /// What was found.
        found: u8,
        /// What belongs here.
        wanted: &'static str,
    },
    /// The announced private data is over the limit.
    #[error("it announces {} of private data, at most {limit} fit; it has to send less", Of(u64::from(*found), "byte"), limit = cm::MAX_DATA)]
    DataLength {
        /// What was found.
        found: u16,
    },
    /// An operation code that does not exist.
    #[error(
        "data record with unknown operation {found}, wanted are those of protocol version 3; is it a newer peer?"
    )]
    Operation {
        /// What was found.
        found: u8,
    },
    /// An operation that this kind of endpoint cannot take.
    #[error(
        "{what} sent to an endpoint that cannot take it, which is FI_EP_MSG; the peer has to use that, too"
    )]
    Misdirected {
        /// The kind of record.
        what: &'static str,
    },
    /// The header's length does not fit its operation.
    #[error(
        "data record with a header of {}, its operation needs {wanted}; is it a libfabric tcp peer?", Of(u64::from(*found), "byte")
    )]
    HeaderSize {
        /// What was found.
        found: u8,
        /// What the operation and its flags need.
        wanted: u8,
    },
    /// The record's length is less than that of its header, or more than its kind can have.
    #[error(
        "data record of {}, impossible for its kind and header of {header}; is it a libfabric tcp peer?", Of(*found, "byte")
    )]
    RecordSize {
        /// What was found.
        found: u64,
        /// Length of its header.
        header: u8,
    },
    /// Remote segments: none, or more than four.
    #[error("{}, 1 to {limit} are allowed; it has to split the operation", Of(u64::from(*found), "remote segment"), limit = header::MAX_SEGMENTS)]
    SegmentCount {
        /// What was found.
        found: u8,
    },
    /// An acknowledgement without anything to acknowledge.
    #[error("an acknowledgement, but nothing waits for one; is it a libfabric tcp peer?")]
    StrayAck,
    /// A read response without a read.
    #[error("a read response, but no read is outstanding; is it a libfabric tcp peer?")]
    StrayReadResponse,
    /// A read response of another length than the read.
    #[error("a read response of {} to a read of {wanted}; is it a libfabric tcp peer?", Of(*found, "byte"))]
    ResponseLength {
        /// What was found.
        found: u64,
        /// What was asked for.
        wanted: u64,
    },
    /// Remote access by a key that names no memory.
    #[error("remote access by a key of no registered memory; it was closed, or the peer has another key")]
    NoSuchMemory,
    /// Remote access of a kind that the memory, or the endpoint, is not for.
    #[error(
        "remote access that the memory or the endpoint is not for; register it for FI_REMOTE_READ or _WRITE"
    )]
    MemoryAccess,
    /// Remote access beyond the memory's bounds.
    #[error(
        "remote access to {} at {addr:#x}, outside of the region; addresses start at 0, or with FI_MR_VIRT_ADDR at its own", Of(*len, "byte")
    )]
    MemoryRange {
        /// Where it starts.
        addr: u64,
        /// How long it is.
        len: u64,
    },
}

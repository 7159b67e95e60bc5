// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Connection messages: request, response and nack (section 3).

use alloc::vec::Vec;

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ByteOrder, WireError};
use crate::{Error, Result};

/// The version of the connection protocol, unchanged since libfabric 1.8.
pub const VERSION: u8 = 3;
/// Length of a message without its private data, bytes.
pub const HEADER_LEN: usize = 32;
/// Most private data that a message carries, bytes (`FI_OPT_CM_DATA_SIZE`).
pub const MAX_DATA: usize = 256;
/// Length of the longest message, bytes.
pub const MAX_LEN: usize = HEADER_LEN + MAX_DATA;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    version: u8,
    kind: u8,
    data_len: U16,
    unused: [u8; 20],
    probe: [u8; 8],
}

/// What a connection message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The active side asks for a connection.
    Request,
    /// The passive side has accepted.
    Response,
    /// The passive side has rejected.
    Nack,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Request => 0,
            Self::Response => 1,
            Self::Nack => 6,
        }
    }
}

/// The fixed part of a connection message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it says.
    pub kind: Kind,
    /// Bytes of private data that follow, at most [`MAX_DATA`].
    pub data_len: usize,
    /// Order of the data headers to come.
    pub order: ByteOrder,
}

impl Header {
    /// Reads a header that should be a request (on the passive side).
    ///
    /// # Errors
    /// The checks are made in the order of section 3.2: version, type, length.
    pub fn parse_request(bytes: &[u8; HEADER_LEN]) -> Result<Self, WireError> {
        Self::parse(bytes, &[Kind::Request], "request")
    }

    /// Reads a header that should be a response or a nack (on the active side).
    ///
    /// # Errors
    /// As for [`Header::parse_request`].
    pub fn parse_answer(bytes: &[u8; HEADER_LEN]) -> Result<Self, WireError> {
        Self::parse(bytes, &[Kind::Response, Kind::Nack], "response or nack")
    }

    fn parse(bytes: &[u8; HEADER_LEN], kinds: &[Kind], wanted: &'static str) -> Result<Self, WireError> {
        let raw: &Raw = zerocopy::transmute_ref!(bytes);
        if raw.version != VERSION {
            return Err(WireError::Version { found: raw.version });
        }
        let Some(&kind) = kinds.iter().find(|kind| kind.code() == raw.kind) else {
            return Err(WireError::MessageType { found: raw.kind, wanted });
        };
        let data_len = raw.data_len.get();
        if usize::from(data_len) > MAX_DATA {
            return Err(WireError::DataLength { found: data_len });
        }
        Ok(Self { kind, data_len: usize::from(data_len), order: ByteOrder::from_probe(raw.probe) })
    }
}

/// A whole message, to be sent by one write: stock passive sides do not reassemble (section 3.2).
///
/// # Errors
/// [`Error::PrivateData`] when `data` is over [`MAX_DATA`]; [`Error::NoMemory`].
pub fn message(call: &'static str, kind: Kind, data: &[u8]) -> Result<Vec<u8>> {
    let data_len = check_data(call, data)?;
    // A nack carries no probe.
    let probe = if kind == Kind::Nack { 0u64 } else { 1 };
    let raw = Raw {
        version: VERSION,
        kind: kind.code(),
        data_len: U16::new(data_len),
        unused: [0; 20],
        probe: probe.to_ne_bytes(),
    };
    let mut message = Vec::new();
    message
        .try_reserve_exact(HEADER_LEN + data.len())
        .map_err(|_| Error::NoMemory("a connection message"))?;
    message.extend_from_slice(raw.as_bytes());
    message.extend_from_slice(data);
    Ok(message)
}

/// The length of `data` if it fits into a message.
///
/// # Errors
/// [`Error::PrivateData`]: nothing is truncated (decision D1).
pub fn check_data(call: &'static str, data: &[u8]) -> Result<u16> {
    match u16::try_from(data.len()) {
        Ok(len) if data.len() <= MAX_DATA => Ok(len),
        _ => Err(Error::PrivateData { call, len: data.len(), limit: MAX_DATA }),
    }
}

/// A message put together from pieces of any size, never reading past its end.
#[derive(Debug)]
pub struct Assembly {
    answer: bool,
    bytes: Vec<u8>,
    header: Option<Header>,
}

impl Assembly {
    /// For the request that a passive side waits for.
    pub fn request() -> Self {
        Self { answer: false, bytes: Vec::new(), header: None }
    }

    /// For the answer that an active side waits for.
    pub fn answer() -> Self {
        Self { answer: true, bytes: Vec::new(), header: None }
    }

    /// Bytes still missing of the part that is being read; zero when the message is whole.
    pub fn missing(&self) -> usize {
        let need = self.header.map_or(HEADER_LEN, |header| HEADER_LEN + header.data_len);
        need.saturating_sub(self.bytes.len())
    }

    /// Takes from the front of `input` what belongs to the message and gives the number of bytes.
    ///
    /// # Errors
    /// [`WireError`] when it is no such message; [`Error::NoMemory`].
    pub fn take(&mut self, input: &[u8]) -> Result<usize> {
        let mut used = 0;
        while used < input.len() {
            let missing = self.missing();
            if missing == 0 {
                break;
            }
            let rest = input.get(used..).unwrap_or_default();
            let piece = rest.get(..missing).unwrap_or(rest);
            self.bytes
                .try_reserve_exact(missing)
                .map_err(|_| Error::NoMemory("a connection message that is arriving"))?;
            self.bytes.extend_from_slice(piece);
            used += piece.len();
            // A stranger often says so little that the rest of a header would never come.
            if let Some(&found) = self.bytes.first()
                && found != VERSION
            {
                return Err(WireError::Version { found }.into());
            }
            if self.header.is_none()
                && let Some(bytes) = self.bytes.first_chunk()
            {
                let parse = if self.answer { Header::parse_answer } else { Header::parse_request };
                self.header = Some(parse(bytes)?);
            }
        }
        Ok(used)
    }

    /// The header and the private data of the whole message; `None` while bytes are missing.
    pub fn finish(&mut self) -> Option<(Header, Vec<u8>)> {
        let header = self.header?;
        if self.missing() > 0 {
            return None;
        }
        let mut data = core::mem::take(&mut self.bytes);
        data.drain(..HEADER_LEN);
        Some((header, data))
    }
}

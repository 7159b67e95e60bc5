// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Headers of data records (sections 5 and 6).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ByteOrder, WireError};

/// Length of the base header, bytes.
pub const BASE_LEN: usize = 16;
/// Length of the longest header: a write to four segments with completion data, bytes.
pub const MAX_LEN: usize = BASE_LEN + 8 + MAX_SEGMENTS * SEGMENT_LEN;
/// Most remote segments that a record names.
pub const MAX_SEGMENTS: usize = 4;

const VERSION: u8 = 3;
const SEGMENT_LEN: usize = 24;
const ACK: u8 = 2;

const REMOTE_CQ_DATA: u16 = 1 << 0;
const DELIVERY_COMPLETE: u16 = 1 << 2;
const COMMIT_COMPLETE: u16 = 1 << 3;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Base {
    version: u8,
    op: u8,
    flags: [u8; 2],
    op_data: u8,
    segment_count: u8,
    header_len: u8,
    sequence: u8,
    size: [u8; 8],
}

/// A piece of remote memory (section 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Segment {
    /// Offset into the region, or virtual address, as the target registered it.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Key of the region.
    pub key: u64,
}

/// One to four remote segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segments {
    count: usize,
    list: [Segment; MAX_SEGMENTS],
}

impl Segments {
    /// The segments of `list`; `None` when there are none or more than [`MAX_SEGMENTS`].
    pub fn new(list: &[Segment]) -> Option<Self> {
        let mut segments = Self { count: list.len(), list: [Segment::default(); MAX_SEGMENTS] };
        if list.is_empty() {
            return None;
        }
        segments.list.get_mut(..list.len())?.copy_from_slice(list);
        Some(segments)
    }

    /// The segments, in the order in which their bytes travel.
    pub fn as_slice(&self) -> &[Segment] {
        self.list.get(..self.count).unwrap_or_default()
    }

    fn wire_len(&self) -> usize {
        self.count * SEGMENT_LEN
    }
}

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A message, for the next posted receive.
    Message {
        /// Completion data for the receiver.
        data: Option<u64>,
    },
    /// An acknowledgement of the oldest record that asked for one.
    Ack,
    /// Asks for the contents of remote memory.
    ReadRequest(Segments),
    /// The answer to the oldest read request.
    ReadResponse,
    /// Puts its payload into remote memory.
    Write {
        /// Completion data for the target.
        data: Option<u64>,
        /// Where the payload goes.
        segments: Segments,
    },
}

impl Kind {
    fn header_len(&self) -> usize {
        let data_len = |data: &Option<u64>| if data.is_some() { 8 } else { 0 };
        BASE_LEN
            + match self {
                Self::Message { data } => data_len(data),
                Self::Ack | Self::ReadResponse => 0,
                Self::ReadRequest(segments) => segments.wire_len(),
                Self::Write { data, segments } => data_len(data) + segments.wire_len(),
            }
    }
}

/// The header of one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the record is.
    pub kind: Kind,
    /// The sender wants an acknowledgement once the payload has arrived (section 7).
    pub ack: bool,
    /// The target is to make the payload durable before it acknowledges.
    pub commit: bool,
    /// Bytes of payload that follow the header.
    pub payload: u64,
}

impl Header {
    /// A message of `payload` bytes.
    pub const fn message(payload: u64, data: Option<u64>, ack: bool) -> Self {
        Self { kind: Kind::Message { data }, ack, commit: false, payload }
    }

    /// An acknowledgement.
    pub const ACK: Self = Self { kind: Kind::Ack, ack: false, commit: false, payload: 0 };

    /// Bytes of this header on the wire.
    pub fn wire_len(&self) -> usize {
        self.kind.header_len()
    }

    /// Bytes of the whole record on the wire.
    pub fn record_len(&self) -> u64 {
        self.payload.saturating_add(self.wire_len() as u64)
    }

    /// Length of the header that starts with `base`, before the rest of it has arrived.
    ///
    /// # Errors
    /// [`WireError`] when no record of that operation has such a header. What stock ignores is
    /// ignored: version, sequence, unknown flags, segment count where it has no meaning.
    pub fn expected_len(base: &[u8; BASE_LEN], order: ByteOrder) -> Result<usize, WireError> {
        let base: &Base = zerocopy::transmute_ref!(base);
        let flags = order.u16(base.flags);
        let data_len = if flags & REMOTE_CQ_DATA != 0 { 8 } else { 0 };
        let segments = usize::from(base.segment_count) * SEGMENT_LEN;
        let (extra, targets) = match base.op {
            // An ack has no fields of its own, whatever its flags.
            0 if base.op_data == ACK => (0, false),
            0 => (data_len, false),
            1 | 5 => return Err(WireError::Misdirected { what: "tagged message" }),
            2 => (segments, true),
            3 => (0, false),
            4 => (data_len + segments, true),
            6 | 7 => return Err(WireError::Misdirected { what: "rendezvous record" }),
            found => return Err(WireError::Operation { found }),
        };
        if targets && !(1..=MAX_SEGMENTS).contains(&usize::from(base.segment_count)) {
            return Err(WireError::SegmentCount { found: base.segment_count });
        }
        let wanted = BASE_LEN + extra;
        if usize::from(base.header_len) != wanted {
            return Err(WireError::HeaderSize { found: base.header_len, wanted: wanted as u8 });
        }
        Ok(wanted)
    }

    /// Reads a whole header: `bytes` has the length that [`Header::expected_len`] gave.
    ///
    /// # Errors
    /// [`WireError`] when the record's length or its segments make no sense.
    pub fn parse(bytes: &[u8], order: ByteOrder) -> Result<Self, WireError> {
        let too_short = WireError::HeaderSize { found: bytes.len() as u8, wanted: BASE_LEN as u8 };
        let (base, mut rest) = bytes.split_first_chunk::<BASE_LEN>().ok_or(too_short)?;
        let wanted = Self::expected_len(base, order)?;
        let base: &Base = zerocopy::transmute_ref!(base);
        let mut word = || {
            let (word, tail) = rest
                .split_first_chunk::<8>()
                .ok_or(WireError::HeaderSize { found: bytes.len() as u8, wanted: wanted as u8 })?;
            rest = tail;
            Ok::<_, WireError>(order.u64(*word))
        };
        let size = order.u64(base.size);
        let bad_size = WireError::RecordSize { found: size, header: base.header_len };
        let payload = size.checked_sub(wanted as u64).ok_or(bad_size)?;
        let flags = order.u16(base.flags);
        let is_ack = base.op == 0 && base.op_data == ACK;
        let data = match base.op {
            0 | 4 if flags & REMOTE_CQ_DATA != 0 && !is_ack => Some(word()?),
            _ => None,
        };
        let mut segments = || {
            let mut list = [Segment::default(); MAX_SEGMENTS];
            let mut total = 0u64;
            let count = usize::from(base.segment_count);
            for segment in list.iter_mut().take(count) {
                *segment = Segment { addr: word()?, len: word()?, key: word()? };
                total = total.checked_add(segment.len).ok_or(bad_size)?;
            }
            Ok::<_, WireError>((Segments { count, list }, total))
        };
        let kind = match base.op {
            0 if is_ack => Kind::Ack,
            0 => Kind::Message { data },
            2 => Kind::ReadRequest(segments()?.0),
            3 => Kind::ReadResponse,
            _ => {
                let (segments, total) = segments()?;
                if total != payload {
                    return Err(bad_size);
                }
                Kind::Write { data, segments }
            }
        };
        if payload != 0 && matches!(kind, Kind::Ack | Kind::ReadRequest(_)) {
            return Err(bad_size);
        }
        let wants_ack = matches!(kind, Kind::Message { .. } | Kind::Write { .. });
        Ok(Self {
            kind,
            ack: wants_ack && flags & (DELIVERY_COMPLETE | COMMIT_COMPLETE) != 0,
            commit: wants_ack && flags & COMMIT_COMPLETE != 0,
            payload,
        })
    }

    /// Writes the header to the front of `out` and gives its length. `sequence` counts the records
    /// of a connection and direction: debug builds of libfabric check it (section 5.3).
    pub fn emit(&self, order: ByteOrder, sequence: u8, out: &mut [u8; MAX_LEN]) -> usize {
        let (op, op_data, data, segments) = match &self.kind {
            Kind::Message { data } => (0, 0, *data, None),
            Kind::Ack => (0, ACK, None, None),
            Kind::ReadRequest(segments) => (2, 0, None, Some(segments)),
            Kind::ReadResponse => (3, 0, None, None),
            Kind::Write { data, segments } => (4, 0, *data, Some(segments)),
        };
        let mut flags = 0;
        for (set, bit) in
            [(data.is_some(), REMOTE_CQ_DATA), (self.ack, DELIVERY_COMPLETE), (self.commit, COMMIT_COMPLETE)]
        {
            flags |= if set { bit } else { 0 };
        }
        let wire_len = self.wire_len();
        let base = Base {
            version: VERSION,
            op,
            flags: order.put_u16(flags),
            op_data,
            segment_count: segments.map_or(0, |segments| segments.count as u8),
            header_len: wire_len as u8,
            sequence,
            size: order.put_u64(self.record_len()),
        };
        let words = data
            .into_iter()
            .chain(segments.into_iter().flat_map(|s| s.as_slice()).flat_map(|s| [s.addr, s.len, s.key]));
        let (head, tail) = out.split_at_mut(BASE_LEN);
        head.copy_from_slice(base.as_bytes());
        for (place, word) in tail.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&order.put_u64(word));
        }
        wire_len
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Headers of records: any bytes are a header or an error, and what is written reads back.
//!
//! Input: one byte that says what the rest is: a header from the wire, or a script that makes one.

use kofi_core::wire::header::{BASE_LEN, Header, Kind, MAX_LEN, MAX_SEGMENTS, Segment, Segments};
use kofi_core::wire::{ByteOrder, WireError};

use crate::script::Script;

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&what, rest)) = data.split_first() else { return };
    for order in [ByteOrder::Little, ByteOrder::Big] {
        match what & 1 {
            0 => read(rest, order),
            _ => write(&mut Script::new(rest), order),
        }
    }
}

/// Reads a header as an endpoint does: its length first, then all of it.
fn parse(bytes: &[u8], order: ByteOrder) -> Result<Header, WireError> {
    let Some(base) = bytes.first_chunk::<BASE_LEN>() else {
        return Err(Header::parse(bytes, order).expect_err("less than a header"));
    };
    let len = Header::expected_len(base, order)?;
    assert!((BASE_LEN..=MAX_LEN).contains(&len) && len == usize::from(base[6]), "{len}");
    for short in bytes.iter().enumerate().map(|(short, _)| short).take(len) {
        assert!(Header::parse(&bytes[..short], order).is_err(), "{short} of {len} bytes");
    }
    let header = Header::parse(bytes.get(..len).unwrap_or(bytes), order)?;
    assert_eq!(Header::parse(bytes, order), Ok(header), "what follows a header does not matter");
    assert_eq!(header.wire_len(), len);
    Ok(header)
}

fn emit(header: &Header, order: ByteOrder, sequence: u8) -> Vec<u8> {
    let mut bytes = [0xee; MAX_LEN];
    let len = header.emit(order, sequence, &mut bytes);
    assert!(bytes[len..].iter().all(|&byte| byte == 0xee), "it writes behind the header");
    bytes[..len].to_vec()
}

/// The same bytes in the other order.
fn swap(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(flags) = bytes.get_mut(2..4) {
        flags.reverse();
    }
    if let Some(words) = bytes.get_mut(8..) {
        words.chunks_exact_mut(8).for_each(<[u8]>::reverse);
    }
    bytes
}

fn other(order: ByteOrder) -> ByteOrder {
    if order == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little }
}

fn read(bytes: &[u8], order: ByteOrder) {
    let bytes = &bytes[..bytes.len().min(MAX_LEN)];
    let found = parse(bytes, order);
    assert_eq!(parse(&swap(bytes), other(order)), found, "the order changes the meaning");
    let Ok(header) = found else { return };
    let emitted = emit(&header, order, bytes[7]);
    assert_eq!(parse(&emitted, order), Ok(header));
    // All that counts is written again as it was.
    assert_eq!(emitted[1], bytes[1]);
    assert_eq!(emitted[6..], bytes[6..emitted.len()]);
}

/// A header that could be sent.
fn header(script: &mut Script<'_>) -> Header {
    let what = script.byte();
    let mut payload = script.u64().min(u64::MAX - MAX_LEN as u64);
    let (commit, ack) = (script.flag(), script.flag());
    let data = script.option();
    let mut segments = || {
        let count = 1 + script.below(MAX_SEGMENTS);
        let longest = u64::MAX / 8;
        let list: Vec<_> = core::iter::repeat_with(|| Segment {
            addr: script.u64(),
            len: script.u64().min(longest),
            key: script.u64(),
        })
        .take(count)
        .collect();
        Segments::new(&list).expect("one to four")
    };
    let kind = match what % 5 {
        0 => Kind::Message { data },
        1 => Kind::Ack,
        2 => Kind::ReadRequest(segments()),
        3 => Kind::ReadResponse,
        _ => Kind::Write { data, segments: segments() },
    };
    match kind {
        Kind::Ack | Kind::ReadRequest(_) => payload = 0,
        Kind::Write { segments, .. } => payload = segments.as_slice().iter().map(|segment| segment.len).sum(),
        _ => {}
    }
    let answered = matches!(kind, Kind::Message { .. } | Kind::Write { .. });
    Header { kind, ack: answered && (ack || commit), commit: answered && commit, payload }
}

fn write(script: &mut Script<'_>, order: ByteOrder) {
    let header = header(script);
    let sequence = script.byte();
    let bytes = emit(&header, order, sequence);
    assert_eq!((bytes[0], usize::from(bytes[6]), bytes[7]), (3, bytes.len(), sequence));
    assert_eq!(parse(&bytes, order), Ok(header));
    assert_eq!(emit(&header, other(order), sequence), swap(&bytes));
    assert_eq!(header.record_len(), header.payload + bytes.len() as u64);
}

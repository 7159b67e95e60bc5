// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Properties of the wire codec: what is written reads back, whatever a peer sends is either
//! understood or refused, and the size of the pieces it comes in makes no difference.
#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

use kofi_core::Error;
use kofi_core::wire::cm::{self, Assembly};
use kofi_core::wire::header::{BASE_LEN, Header, Kind, MAX_LEN, MAX_SEGMENTS, Segment, Segments};
use kofi_core::wire::{ByteOrder, WireError};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

// Data records.

/// Segments whose lengths add up to the payload of a record.
fn segments() -> impl Strategy<Value = Segments> {
    let longest = (u64::MAX - MAX_LEN as u64) / MAX_SEGMENTS as u64;
    let segment = (any::<u64>(), 0..=longest, any::<u64>());
    vec(segment.prop_map(|(addr, len, key)| Segment { addr, len, key }), 1..=MAX_SEGMENTS)
        .prop_map(|list| Segments::new(&list).unwrap())
}

/// Any header that can be sent.
fn header() -> impl Strategy<Value = Header> {
    // The length of a record counts its header, and has 64 bits.
    let payload = prop_oneof![0..100_000u64, 0..=u64::MAX - MAX_LEN as u64];
    let plain = |kind, payload| Header { kind, ack: false, commit: false, payload };
    prop_oneof![
        (option::of(any::<u64>()), payload.clone(), any::<bool>(), any::<bool>()).prop_map(
            |(data, payload, ack, commit)| Header {
                kind: Kind::Message { data },
                ack: ack || commit,
                commit,
                payload
            }
        ),
        Just(Header::ACK),
        segments().prop_map(move |segments| plain(Kind::ReadRequest(segments), 0)),
        payload.prop_map(move |payload| plain(Kind::ReadResponse, payload)),
        (option::of(any::<u64>()), segments(), any::<bool>(), any::<bool>()).prop_map(
            |(data, segments, ack, commit)| Header {
                kind: Kind::Write { data, segments },
                ack: ack || commit,
                commit,
                payload: segments.as_slice().iter().map(|segment| segment.len).sum(),
            }
        ),
    ]
}

/// Bytes with a header in front that is often nearly right.
fn nearly_a_header() -> impl Strategy<Value = Vec<u8>> {
    let op = prop_oneof![4 => 0u8..9, 1 => any::<u8>()];
    let flags = prop_oneof![4 => 0u8..16, 1 => any::<u8>()];
    let op_data = prop_oneof![4 => 0u8..4, 1 => any::<u8>()];
    let count = prop_oneof![4 => 0u8..6, 1 => any::<u8>()];
    let len = prop_oneof![4 => (2u8..16).prop_map(|words| words * 8), 1 => any::<u8>()];
    let size = prop_oneof![4 => 0u64..200, 1 => any::<u64>()];
    let rest = vec(any::<u8>(), 0..=184);
    (any::<bool>(), op, flags, op_data, count, len, size, rest).prop_map(
        |(big, op, flags, op_data, count, len, size, rest)| {
            let (flags, size) = match big {
                true => (u16::from(flags).to_be_bytes(), size.to_be_bytes()),
                false => (u16::from(flags).to_le_bytes(), size.to_le_bytes()),
            };
            let front = [3, op, flags[0], flags[1], op_data, count, len, 0];
            [&front[..], &size, &rest].concat()
        },
    )
}

fn emit(header: &Header, order: ByteOrder, sequence: u8) -> Vec<u8> {
    let mut bytes = [0xee; MAX_LEN];
    let len = header.emit(order, sequence, &mut bytes);
    assert!(bytes[len..].iter().all(|&byte| byte == 0xee), "nothing is written behind the header");
    bytes[..len].to_vec()
}

/// Reads a header as an endpoint does: its length first, then all of it.
fn parse(bytes: &[u8], order: ByteOrder) -> Result<Header, WireError> {
    let len = Header::expected_len(bytes.first_chunk().unwrap(), order)?;
    Header::parse(&bytes[..len], order)
}

fn read_as_an_endpoint_does(bytes: &[u8]) {
    for order in ORDERS {
        // Never reads behind what it was given, whatever that is.
        let whole = Header::parse(bytes, order);
        let Some(base) = bytes.first_chunk::<BASE_LEN>() else {
            assert!(matches!(whole, Err(WireError::HeaderSize { .. })));
            continue;
        };
        let len = Header::expected_len(base, order);
        match &len {
            Ok(len) => assert!((BASE_LEN..=MAX_LEN).contains(len) && *len == usize::from(base[6])),
            Err(error) => assert_eq!(whole, Err(*error)),
        }
        if let Ok(header) = whole {
            assert_eq!(len, Ok(header.wire_len()));
            assert_eq!(parse(bytes, order), Ok(header), "what follows a header does not matter");
            assert_eq!(parse(&emit(&header, order, 0), order), Ok(header));
        }
    }
}

proptest! {
    #[test]
    fn a_header_reads_as_it_was_written(header in header(), sequence: u8) {
        for order in ORDERS {
            let bytes = emit(&header, order, sequence);
            prop_assert_eq!(bytes.len(), header.wire_len());
            prop_assert_eq!((bytes[0], usize::from(bytes[6]), bytes[7]), (3, bytes.len(), sequence));
            prop_assert_eq!(parse(&bytes, order), Ok(header));
            for len in 0..bytes.len() {
                prop_assert!(Header::parse(&bytes[..len], order).is_err(), "{} bytes are too few", len);
            }
        }
    }

    #[test]
    fn what_stock_leaves_to_chance_is_ignored(
        header in header(), version: u8, sequence: u8, op_data: u8, count: u8, unknown: u16,
    ) {
        for order in ORDERS {
            let mut bytes = emit(&header, order, 0);
            (bytes[0], bytes[7]) = (version, sequence);
            if !matches!(header.kind, Kind::ReadRequest(_) | Kind::Write { .. }) {
                bytes[5] = count;
            }
            // Releases up to 1.12 have numbers of their own in writes and reads.
            if !matches!(header.kind, Kind::Ack | Kind::Message { .. }) {
                bytes[4] = op_data;
            }
            let known = 0b1101u16;
            let flags = match order {
                ByteOrder::Little => (unknown & !known).to_le_bytes(),
                ByteOrder::Big => (unknown & !known).to_be_bytes(),
            };
            bytes[2] |= flags[0];
            bytes[3] |= flags[1];
            prop_assert_eq!(parse(&bytes, order), Ok(header));
        }
    }

    #[test]
    fn any_bytes_are_a_header_or_an_error(bytes in vec(any::<u8>(), 0..=200)) {
        read_as_an_endpoint_does(&bytes);
    }

    #[test]
    fn nearly_right_bytes_are_a_header_or_an_error(bytes in nearly_a_header()) {
        read_as_an_endpoint_does(&bytes);
    }
}

/// Section 14: what is wrong with a record is said, and the same in both orders.
#[test]
fn malformed_records_are_refused() {
    let message = Header::message(8, None, false);
    let with_data = Header::message(8, Some(1), false);
    let plain = |kind, payload| Header { kind, ack: false, commit: false, payload };
    let one = Segments::new(&[Segment { addr: 0, len: 8, key: 1 }]).unwrap();
    let read = plain(Kind::ReadRequest(one), 0);
    let write = plain(Kind::Write { data: None, segments: one }, 8);
    let response = plain(Kind::ReadResponse, 8);
    for order in ORDERS {
        let refused = |header: &Header, change: &dyn Fn(&mut [u8]), error: WireError| {
            // Room behind the header, so that a longer one can be read.
            let mut bytes = emit(header, order, 0);
            bytes.resize(300, 0);
            change(&mut bytes);
            assert_eq!(parse(&bytes, order), Err(error), "{header:?} {order:?}");
        };
        let size = |size: u64| match order {
            ByteOrder::Little => size.to_le_bytes(),
            ByteOrder::Big => size.to_be_bytes(),
        };
        let set_size = |value: u64| move |bytes: &mut [u8]| bytes[8..16].copy_from_slice(&size(value));

        for found in 8..=255 {
            refused(&message, &|bytes| bytes[1] = found, WireError::Operation { found });
        }
        // Too long, too short for the operation's fields, or for any header.
        let ack = Header::ACK;
        for header in [&message, &with_data, &ack, &read, &write, &response] {
            let wanted = header.wire_len() as u8;
            for found in (0..=255).filter(|&found| found != wanted) {
                refused(header, &|bytes| bytes[6] = found, WireError::HeaderSize { found, wanted });
            }
            // A record shorter than its header.
            for found in 0..u64::from(wanted) {
                refused(header, &set_size(found), WireError::RecordSize { found, header: wanted });
            }
        }
        for found in [0, 5, 6, 255] {
            for header in [&read, &write] {
                refused(header, &|bytes| bytes[5] = found, WireError::SegmentCount { found });
            }
        }
        // Payload where none can be, or not that of the segments.
        for (header, found) in [(&ack, 17), (&read, 41), (&write, 47), (&write, 49), (&write, u64::MAX)] {
            let wire_len = header.wire_len() as u8;
            refused(header, &set_size(found), WireError::RecordSize { found, header: wire_len });
        }
        // Lengths of segments that wrap around, to that of the payload.
        let two = [Segment { addr: 0, len: u64::MAX, key: 1 }, Segment { addr: 0, len: 9, key: 1 }];
        let segments = Segments::new(&two).unwrap();
        let wrapped = plain(Kind::Write { data: None, segments }, 8);
        refused(&wrapped, &|_| {}, WireError::RecordSize { found: 72, header: 64 });
        let wrapped = plain(Kind::ReadRequest(segments), 0);
        refused(&wrapped, &|_| {}, WireError::RecordSize { found: 64, header: 64 });
    }
}

// Connection messages.

fn kind() -> impl Strategy<Value = cm::Kind> {
    prop_oneof![Just(cm::Kind::Request), Just(cm::Kind::Response), Just(cm::Kind::Nack)]
}

fn assembly(kind: cm::Kind) -> Assembly {
    if kind == cm::Kind::Request { Assembly::request() } else { Assembly::answer() }
}

/// A message, once it is whole.
type Message = Option<(cm::Header, Vec<u8>)>;

/// What comes of `input`, given in pieces of these lengths over and over: the message or the error,
/// and the bytes used up.
fn assemble(kind: cm::Kind, input: &[u8], pieces: &[usize]) -> (Result<Message, Error>, usize) {
    let mut assembly = assembly(kind);
    let mut used = 0;
    for &piece in pieces.iter().cycle() {
        let rest = &input[used..];
        let piece = piece.min(rest.len());
        let before = assembly.missing();
        match assembly.take(&rest[..piece]) {
            Ok(0) => break,
            Ok(taken) => {
                assert!(taken == piece || assembly.missing() == 0, "{taken} of {piece}, {before} missing");
                used += taken;
            }
            Err(error) => return (Err(error), used),
        }
    }
    (Ok(assembly.finish()), used)
}

proptest! {
    #[test]
    fn a_message_comes_in_any_pieces(
        kind in kind(),
        data in vec(any::<u8>(), 0..=cm::MAX_DATA),
        behind in vec(any::<u8>(), 0..50),
        pieces in vec(1usize..100, 1..8),
    ) {
        let message = cm::message("test", kind, &data).unwrap();
        let input = [&message[..], &behind].concat();
        let (found, used) = assemble(kind, &input, &pieces);
        prop_assert_eq!(used, message.len(), "what comes behind is left alone");
        let (header, found) = found.unwrap().unwrap();
        prop_assert_eq!((header.kind, header.data_len), (kind, data.len()));
        prop_assert_eq!(found, data);
        // A part of it is no message yet, and no error.
        let (found, used) = assemble(kind, &message[..message.len() - 1], &pieces);
        prop_assert_eq!((found, used), (Ok(None), message.len() - 1));
    }

    #[test]
    fn pieces_make_no_difference(
        kind in kind(),
        version in prop_oneof![9 => Just(3u8), 1 => any::<u8>()],
        code in prop_oneof![4 => 0u8..2, 1 => Just(6), 1 => any::<u8>()],
        len in prop_oneof![4 => 0u16..=256, 1 => any::<u16>()],
        rest in vec(any::<u8>(), 0..=196),
        pieces in vec(1usize..40, 1..8),
    ) {
        let input = [&[version, code], &len.to_be_bytes()[..], &rest].concat();
        let (whole, used) = assemble(kind, &input, &[input.len()]);
        let (cut, cut_used) = assemble(kind, &input, &pieces);
        prop_assert_eq!(&whole, &cut);
        if whole.is_ok() {
            prop_assert_eq!(used, cut_used);
            prop_assert!(used <= cm::HEADER_LEN + usize::from(len));
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(kind in kind(), input in vec(any::<u8>(), 0..=200)) {
        let mut assembly = assembly(kind);
        if let Ok(used) = assembly.take(&input) {
            prop_assert!(used <= input.len());
        }
    }
}

/// Section 14: version, type and length are checked, in this order.
#[test]
fn malformed_connection_messages_are_refused() {
    let refuse = |kind: cm::Kind, bytes: &[u8], error: WireError| {
        assert_eq!(assembly(kind).take(bytes), Err(error.into()), "{kind:?} {bytes:02x?}");
    };
    for kind in [cm::Kind::Request, cm::Kind::Response, cm::Kind::Nack] {
        let good = cm::message("test", kind, b"").unwrap();
        let with = |version: u8, code: u8, len: u16| {
            let mut bytes = good.clone();
            (bytes[0], bytes[1]) = (version, code);
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
            bytes
        };
        let code = good[1];
        for found in (0..=255).filter(|&found| found != 3) {
            refuse(kind, &with(found, 99, 999), WireError::Version { found });
            // The first byte is enough to know that it is something else.
            refuse(kind, &[found], WireError::Version { found });
        }
        let (fits, wanted): (&[u8], _) = match kind {
            cm::Kind::Request => (&[0], "request"),
            _ => (&[1, 6], "response or nack"),
        };
        for found in (0..=255).filter(|found| !fits.contains(found)) {
            refuse(kind, &with(3, found, 999), WireError::MessageType { found, wanted });
        }
        for found in 257..=u16::MAX {
            refuse(kind, &with(3, code, found), WireError::DataLength { found });
        }
    }
}

#[test]
fn too_much_private_data_is_not_sent() {
    for kind in [cm::Kind::Request, cm::Kind::Response, cm::Kind::Nack] {
        assert_eq!(cm::message("test", kind, &[0; 256]).unwrap().len(), cm::MAX_LEN);
        let error = Error::PrivateData { call: "test", len: 257, limit: 256 };
        assert_eq!(cm::message("test", kind, &[0; 257]), Err(error));
        // A length whose low 16 bits would be small.
        assert!(cm::message("test", kind, &[0; 0x1_0001]).is_err());
    }
}

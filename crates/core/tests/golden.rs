// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Bytes that libfabric put on the wire (`data/`, numbered as in section 13 of `docs/wire.md`): we
//! read in them what was meant, and write the same.
//!
//! libfabric fills two bytes of a header with whatever its buffer held before: the sequence number
//! (its debug builds alone count), and the number of remote segments in records that have none.
//! These are compared as zero.
// The captures were made on little-endian machines, and a connection message carries the order of
// the machine that writes it.
#![cfg(target_endian = "little")]
#![expect(clippy::unwrap_used, reason = "a capture that does not read ends the test")]

use kofi_core::wire::cm;
use kofi_core::wire::header::{BASE_LEN, Header, Kind, MAX_LEN, Segment, Segments};
use kofi_core::wire::{ByteOrder, ByteOrder::Big, ByteOrder::Little};

/// The records of a file: a title line, then for each record a line with its direction and name,
/// and lines of hexadecimal bytes.
fn records(file: &str) -> Vec<Vec<u8>> {
    let mut lines = file.lines();
    assert!(lines.next().unwrap().starts_with("# E"), "a file starts with its title");
    let mut records: Vec<Vec<u8>> = Vec::new();
    for line in lines {
        if line.starts_with(['>', '<']) {
            records.push(Vec::new());
        } else {
            let bytes = line.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap());
            records.last_mut().unwrap().extend(bytes);
        }
    }
    records
}

macro_rules! records {
    ($name:literal) => {
        records(include_str!(concat!("data/", $name, ".hex")))
    };
}

fn connection_message(bytes: &[u8], kind: cm::Kind, data: &[u8], order: ByteOrder) {
    let mut assembly =
        if kind == cm::Kind::Request { cm::Assembly::request() } else { cm::Assembly::answer() };
    assert_eq!(assembly.take(bytes), Ok(bytes.len()));
    let (header, found) = assembly.finish().unwrap();
    assert_eq!(header, cm::Header { kind, data_len: data.len(), order });
    assert_eq!(found, data);
    assert_eq!(cm::message("test", kind, data).unwrap(), bytes);
}

/// `bytes` starts with `header`, both ways, and its payload is `payload`.
fn record(bytes: &[u8], order: ByteOrder, header: &Header, payload: &[u8]) {
    let base = bytes.first_chunk::<BASE_LEN>().unwrap();
    let len = Header::expected_len(base, order).unwrap();
    let (front, rest) = bytes.split_at(len);
    assert_eq!(Header::parse(front, order).as_ref(), Ok(header));
    assert_eq!(rest, payload);

    let mut emitted = [0; MAX_LEN];
    assert_eq!(header.emit(order, 0, &mut emitted), len);
    let mut front = front.to_vec();
    if !matches!(header.kind, Kind::ReadRequest(_) | Kind::Write { .. }) {
        front[5] = 0;
    }
    front[7] = 0;
    assert_eq!(&emitted[..len], front);
}

fn count(range: core::ops::Range<u8>) -> Vec<u8> {
    range.collect()
}

fn segments(list: &[(u64, u64)]) -> Segments {
    let list: Vec<_> = list.iter().map(|&(addr, len)| Segment { addr, len, key: 0xabcd }).collect();
    Segments::new(&list).unwrap()
}

#[test]
fn e1_connect() {
    let [request, response] = &records!("e1-connect")[..] else { panic!() };
    connection_message(request, cm::Kind::Request, b"hello-there", Little);
    connection_message(response, cm::Kind::Response, b"welcome", Little);
}

#[test]
fn e2_reject() {
    let [nack] = &records!("e2-reject")[..] else { panic!() };
    // A nack carries no probe; its byte order says nothing, and there are no records after it.
    connection_message(nack, cm::Kind::Nack, b"go away", Big);
}

#[test]
fn e3_message() {
    let [message] = &records!("e3-message")[..] else { panic!() };
    record(message, Little, &Header::message(8, None, false), &count(0..8));
}

#[test]
fn e4_completion_data() {
    let [message, empty] = &records!("e4-data")[..] else { panic!() };
    record(message, Little, &Header::message(32, Some(0x1122_3344_5566_7788), false), &count(0..32));
    record(empty, Little, &Header::message(0, Some(0x99aa_bbcc_ddee_ff00), false), &[]);
}

#[test]
fn e5_acknowledgement() {
    let [message, ack] = &records!("e5-ack")[..] else { panic!() };
    let payload = [count(0..10), count(0x64..0x72)].concat();
    record(message, Little, &Header::message(24, None, true), &payload);
    record(ack, Little, &Header::ACK, &[]);
}

#[test]
fn e6_write() {
    let [write] = &records!("e6-write")[..] else { panic!() };
    let kind = Kind::Write { data: None, segments: segments(&[(0x40, 10), (0x80, 14)]) };
    let payload = [count(0..10), count(0x64..0x72)].concat();
    record(write, Little, &Header { kind, ack: true, commit: false, payload: 24 }, &payload);
}

#[test]
fn e7_write_with_completion_data() {
    let [write] = &records!("e7-write-data")[..] else { panic!() };
    let kind = Kind::Write { data: Some(0x0102_0304_0506_0708), segments: segments(&[(300, 20)]) };
    record(write, Little, &Header { kind, ack: false, commit: false, payload: 20 }, &count(0..20));
}

#[test]
fn e8_read() {
    let [request, response] = &records!("e8-read")[..] else { panic!() };
    let kind = Kind::ReadRequest(segments(&[(0, 48)]));
    record(request, Little, &Header { kind, ack: false, commit: false, payload: 0 }, &[]);
    // Its segment count is what the request's buffer held.
    let kind = Kind::ReadResponse;
    record(response, Little, &Header { kind, ack: false, commit: false, payload: 48 }, &[]);
}

#[test]
fn e12_big_endian_peer() {
    let [probe, header] = &records!("e12-big-endian")[..] else { panic!() };
    let order = ByteOrder::from_probe(*probe.first_chunk().unwrap());
    assert_eq!(order, Big);
    record(header, order, &Header::message(16, None, false), &[]);
}

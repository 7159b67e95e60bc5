// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Inputs to begin with, made from what libfabric put on the wire (`crates/core/tests/data`). They are kept in
//! `corpus`; `KOFI_SEEDS=write cargo test` in this directory writes them again after a script's meaning changed.

use kofi_core::wire::ByteOrder;
use kofi_core::wire::header::{self, Header, Kind, MAX_LEN, Segments};

/// A seed: its target, its name, and the input.
pub type Seed = (&'static str, String, Vec<u8>);

/// A name, what the application does before the peer says the rest, and what the peer says.
type Stream<'a> = (&'a str, &'a [&'a [u8]], Vec<u8>);

/// The captures with connection messages, and those with records.
const GREETINGS: [(&str, &str); 2] = [
    ("e1-connect", include_str!("../../crates/core/tests/data/e1-connect.hex")),
    ("e2-reject", include_str!("../../crates/core/tests/data/e2-reject.hex")),
];
const RECORDS: [(&str, &str); 6] = [
    ("e3-message", include_str!("../../crates/core/tests/data/e3-message.hex")),
    ("e4-data", include_str!("../../crates/core/tests/data/e4-data.hex")),
    ("e5-ack", include_str!("../../crates/core/tests/data/e5-ack.hex")),
    ("e6-write", include_str!("../../crates/core/tests/data/e6-write.hex")),
    ("e7-write-data", include_str!("../../crates/core/tests/data/e7-write-data.hex")),
    ("e8-read", include_str!("../../crates/core/tests/data/e8-read.hex")),
];

/// The parts of a capture, each with its name.
fn parts(capture: &str) -> Vec<(String, Vec<u8>)> {
    let mut parts: Vec<(String, Vec<u8>)> = Vec::new();
    for line in capture.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix(['>', '<']) {
            parts.push((name.trim().replace(' ', "-"), Vec::new()));
        } else if let Some((_, bytes)) = parts.last_mut() {
            let hex = line.split_whitespace().map(|byte| u8::from_str_radix(byte, 16));
            bytes.extend(hex.map(|byte| byte.expect("hexadecimal digits")));
        }
    }
    parts
}

/// A script and a stream.
fn input(script: &[&[u8]], stream: &[u8]) -> Vec<u8> {
    let script = script.concat();
    let len = u8::try_from(script.len()).expect("a short script");
    [&[len], &script[..], stream].concat()
}

/// All seeds.
pub fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut seed = |target, name: &str, input: Vec<u8>| seeds.push((target, name.to_owned(), input));

    let greetings: Vec<_> = GREETINGS.iter().flat_map(|(_, capture)| parts(capture)).collect();
    let greeting = |wanted: &str| {
        let found = greetings.iter().find(|(name, _)| name == wanted);
        found.map(|(_, bytes)| bytes.clone()).expect("a capture of that name")
    };
    let (request, response) = (greeting("request"), greeting("response"));
    for (name, bytes) in &greetings {
        let answer = u8::from(name != "request");
        seed("cm", name, input(&[&[answer, 0, 30, 2]], bytes));
    }

    for (file, capture) in RECORDS {
        for (name, bytes) in parts(capture) {
            seed("header", &format!("{file}-{name}"), [&[0], &bytes[..bytes.len().min(120)]].concat());
        }
    }
    for kind in 0..5u8 {
        let script: Vec<u8> = [1, kind].into_iter().chain(1..100).collect();
        seed("header", &format!("made-{kind}"), script);
    }

    {
        let (accept, read, lose): (&[u8], &[u8], &[u8]) = (&[0], &[10], &[9, 0]);
        let hear = |len| [4, 0, len];
        let request_of = |which, len| [7, which, len];
        let mut listener = |name, script: &[&[u8]]| {
            seed("listener", name, input(&[&[&[0u8][..]], script].concat(), &request.repeat(2)));
        };
        listener("request", &[accept, &hear(32), &hear(11), read]);
        listener("pieces", &[accept, accept, &hear(3), &hear(29), &hear(11), &request_of(1, 10), lose, read]);
        listener(
            "full",
            &[accept, accept, &request_of(0, 90), &request_of(1, 90), &request_of(1, 90), read, read],
        );
        listener(
            "late",
            &[accept, &[12, 255, 2], accept, &[13, 0, 3], accept, &request_of(0, 200), &[12, 3, 2], read],
        );
        listener("shortage", &[&[3], &[12, 10, 0], accept, &[3], &[12, 20, 0], accept]);
        listener("crowd", &[&[14, 3], accept, &request_of(0, 40), read]);
        listener("stranger", &[accept, &hear(1), &hear(1), &hear(32), &hear(9), &hear(32)]);
    }

    {
        let feed = |len| [0, len];
        let receive = |len| [10, 0, len, 1];
        let send = |len, what| [10, 3, len, 1, what];
        let shutdown: &[u8] = &[10, 11];
        for (file, capture) in RECORDS {
            let records: Vec<u8> = parts(capture).into_iter().flat_map(|(_, bytes)| bytes).collect();
            let script: [&[u8]; 8] = [
                &[8, 0],
                &receive(24),
                &feed(39),
                &send(24, 6),
                &receive(8),
                &feed(20),
                &receive(32),
                &feed(150),
            ];
            for (side, greeting) in [(1, &response), (0, &request)] {
                let script = [&[side], &script.concat()[..]].concat();
                let name = format!("{file}-{}", if side == 1 { "active" } else { "passive" });
                seed("connection", &name, input(&[&script], &[&greeting[..], &records].concat()));
            }
        }
        let records = parts(RECORDS[0].1).remove(0).1.repeat(3);
        let stream = [&response[..], &records].concat();
        let mut connection = |name, script: &[&[u8]]| {
            seed("connection", name, input(&[&[&[1u8, 3, 0][..]], script].concat(), &stream));
        };
        connection("shutdown", &[&receive(8), &feed(60), &send(9, 6), shutdown, &feed(20), &receive(3)]);
        connection(
            "late-receive",
            &[&feed(100), &[9, 0], &feed(0), &receive(4), &[7, 1], &feed(0), &receive(8)],
        );
        connection("broken", &[&receive(8), &feed(70), &send(9, 0), &[8, 0, 0], &feed(10)]);
        connection("cancel", &[&receive(8), &receive(8), &[10, 6, 1], &feed(90), &[6, 3, 3], &receive(200)]);
        connection("timeout", &[&receive(8), &[7, 3], &feed(90)]);
        // Many acknowledgements fall due while nothing can be written.
        let stream = [&response[..], &parts(RECORDS[2].1).remove(0).1.repeat(20)].concat();
        let script = [&[1, 0, 0], &receive(24).repeat(20)[..], &[0, 39, 4, 255, 5, 0, 255]].concat();
        seed("connection", "many-acks", input(&[&script], &stream));
        // Remote memory: what a peer may do with ours, and what it may not; our own accesses; and messages that
        // come before their receive and are kept.
        let piece = |addr, len, key| header::Segment { addr, len, key };
        let segments = |list: &[header::Segment]| Segments::new(list).expect("up to four pieces");
        let record = |kind, ack, payload: &[u8], len| {
            let header = Header { kind, ack, commit: false, payload: len };
            let mut bytes = [0; MAX_LEN];
            let end = header.emit(ByteOrder::Little, 0, &mut bytes);
            [&bytes[..end], payload].concat()
        };
        let write = |data, ack, list: &[header::Segment]| {
            let len = list.iter().map(|piece| piece.len).sum();
            record(Kind::Write { data, segments: segments(list) }, ack, &vec![0xab; len as usize], len)
        };
        let read = |list: &[header::Segment]| record(Kind::ReadRequest(segments(list)), false, &[], 0);
        let response = |len| record(Kind::ReadResponse, false, &vec![0xcd; len], len as u64);
        let two = [piece(0, 30, 1), piece(290, 10, 1)];
        let streams: [Stream<'_>; 10] = [
            ("written", &[], [write(None, true, &two), write(Some(9), false, &two[..1])].concat()),
            ("read", &[], [read(&two), read(&[piece(0, 300, 2)]), read(&two[1..])].concat()),
            (
                "written-and-read",
                &[],
                [write(None, false, &two), read(&two), write(None, true, &two)].concat(),
            ),
            ("read-only", &[], [read(&[piece(0, 300, 2)]), write(None, false, &[piece(0, 8, 2)])].concat()),
            ("out-of-range", &[], write(None, false, &[piece(0, 8, 1), piece(295, 6, 1)])),
            ("no-such-key", &[], read(&[piece(0, 8, 3)])),
            // Our read of two pieces, our write that is acknowledged, and their answers.
            (
                "reads",
                &[&[10, 9, 1, 5, 40, 1, 7, 9, 1, 0], &[10, 9, 0, 5, 8, 1, 0]],
                [response(49), response(8)].concat(),
            ),
            ("writes", &[&[10, 7, 0, 5, 40, 1, 2, 0], &feed(40)], record(Kind::Ack, false, &[], 0)),
            // A region is closed in the middle of a write to it.
            ("closed", &[&feed(70), &[10, 10, 0]], write(None, true, &two)),
            ("many-writes", &[], write(Some(1), false, &[piece(0, 0, 1)]).repeat(250)),
        ];
        for (name, script, stream) in streams {
            let first = feed(39);
            let begin: [&[u8]; 2] = [&[1, 3, 0], &first];
            let later = [20, 100, 255, 255].map(feed);
            let rest = later.each_ref().map(|feed| &feed[..]);
            let script = [&begin[..], script, &rest].concat();
            seed("connection", name, input(&script, &[&greeting("response")[..], &stream].concat()));
        }
        let stream = [&greeting("response")[..], &parts(RECORDS[0].1).remove(0).1.repeat(5)].concat();
        let kept: &[&[u8]] =
            &[&[1, 3, 2], &feed(255), &receive(4), &[5, 99, 0], &receive(100), &feed(0), &receive(9)];
        seed("connection", "kept", input(kept, &stream));
        seed(
            "connection",
            "kept-and-ended",
            input(&[kept, &[&[9, 0], &feed(0), &receive(9)]].concat(), &stream),
        );
        seed("connection", "nack", input(&[&[1, 3, 0], &receive(4), &feed(200)], &greeting("nack")));
    }

    {
        let both: &[u8] = &[0, 1, 0, 1];
        let act = |side: u8| side | 6 << 1;
        let receive = |side, len| [act(side), 0, len, 1];
        let send = |side, len, what| [act(side), 3, len, 1, what];
        let mut peer = |name, script: &[&[u8]]| {
            let plans: &[u8] = &[7, 0, 2, 1];
            seed("peer", name, [&[plans, both, both], script].concat().concat());
        };
        peer(
            "messages",
            &[&send(0, 30, 6), &send(0, 5, 9), both, &receive(1, 30), &receive(1, 3), both, both],
        );
        peer("shutdown", &[&send(1, 40, 4), &[act(1), 11], both, &receive(0, 40), both, both]);
        peer("pieces", &[&send(0, 200, 14), &receive(1, 100), &[8, 20, 9], &[9, 20, 9], &[8, 100, 9], both]);
        for kind in 0..5 {
            let tamper: &[u8] = &[26, 17, kind, 3];
            peer(
                ["flipped", "changed", "inserted", "removed", "truncated"][usize::from(kind)],
                &[&receive(1, 40), &send(0, 30, 6), &[0], tamper, &send(0, 30, 0), both],
            );
        }
        // An acknowledgement falls due while a record has left in part.
        peer(
            "crossing",
            &[
                &send(0, 200, 0),
                &send(1, 30, 6),
                &receive(0, 40),
                &receive(1, 200),
                &[1],
                &[8, 50, 159],
                both,
                both,
            ],
        );
        peer("broken", &[&send(0, 50, 6), &[30, 0, 1, 0], both, &receive(1, 9), both]);
        // Reads and writes of the other's memory, in pieces, in both directions.
        let put = |side: u8, len, what| [act(side), 7, 0, 0, 10, len, what, 1];
        let get = |side: u8, len| [act(side), 9, 1, 0, 10, len, 1, 0, 9, 0];
        peer("written", &[&put(0, 90, 2), &put(0, 40, 4), both, &put(1, 80, 3), both, both]);
        peer("read", &[&get(0, 90), &get(0, 40), both, &get(1, 80), both, both]);
        peer(
            "mixed",
            &[
                &put(0, 90, 4),
                &get(0, 90),
                &send(0, 30, 6),
                &[8, 20, 9],
                &receive(1, 30),
                both,
                &get(1, 99),
                both,
            ],
        );
        peer(
            "kept",
            &[&send(0, 30, 6), &send(0, 90, 0), both, both, &receive(1, 20), &receive(1, 99), both, both],
        );
        peer("late", &[&send(1, 50, 4), both, &[28, 3], &send(0, 10, 0), both]);
    }

    for (name, text) in [
        ("ipv4", "fi_sockaddr_in://192.0.2.1:5000"),
        ("ipv6", "fi_sockaddr_in6://[fe80::1%2]:5000"),
        ("bare", "192.0.2.1"),
        ("shm", "fi_shm://4711"),
        ("caps", "FI_MSG, FI_RMA|FI_TAGGED,FI_SOURCE"),
        ("mode", "FI_CONTEXT | FI_LOCAL_MR"),
        ("mr-mode", "FI_MR_LOCAL, FI_MR_PROV_KEY"),
        ("op-flags", "FI_DELIVERY_COMPLETE,FI_INJECT"),
        ("order", "FI_ORDER_SAS"),
        ("enum", "FI_EP_MSG"),
    ] {
        // A few hints of each kind with it.
        let script: Vec<u8> = [0].into_iter().chain((0..40).flat_map(|which| [which, 9])).collect();
        seed("getinfo", name, input(&[&script], text.as_bytes()));
    }
    for offer in [1, 2, 128, 129, 130u8] {
        let script: Vec<u8> = (0..20).flat_map(|step| [step * 3 + offer % 3, 1 + step % 2]).collect();
        seed("getinfo", &format!("offer-{offer}"), input(&[&[offer], &script], b"tcp"));
    }
    seeds
}

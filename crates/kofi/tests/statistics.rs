// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What endpoints, domains and listeners say they have done.

#![allow(clippy::unwrap_used)]

mod common;

use common::{PATIENCE, next, pair};
use kofi::{Event, OpFlags, Reason, State, Tally};

fn tally(operations: u64, bytes: u64) -> Tally {
    Tally { operations, bytes }
}

/// Reads `count` completions of a side while the other one is kept going.
fn completions(side: &common::Side, other: &common::Side, count: usize) -> Vec<kofi::Completion> {
    let end = std::time::Instant::now() + PATIENCE;
    let mut done = Vec::new();
    while done.len() < count {
        other.cq.progress();
        match side.cq.poll() {
            Ok(completion) => done.push(completion),
            Err(kofi::Error::Empty) => {
                assert!(std::time::Instant::now() < end, "{} of {count} in {PATIENCE:?}", done.len());
            }
            Err(error) => panic!("{error}"),
        }
    }
    done
}

#[test]
fn everything_is_counted_once() {
    let pair = pair();
    let (server, client) = pair.connect();
    let region = pair.server.domain.register(vec![1; 64], OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE, 7);
    let region = region.unwrap();

    // Two messages before their receives, of which one is too long for its receive.
    client.send(vec![1; 10], 0).unwrap();
    client.send(vec![2; 20], 0).unwrap();
    completions(&pair.client, &pair.server, 2);
    // A read's response comes behind both.
    client.read(vec![0; 8], region.address(), region.key(), 0).unwrap();
    completions(&pair.client, &pair.server, 1);
    let waiting = server.statistics().unwrap();
    assert_eq!((waiting.unexpected, waiting.unexpected_bytes), (2, 30));
    assert_eq!(waiting.receives_posted, 0);
    server.recv(vec![0; 10], 0).unwrap();
    server.recv(vec![0; 5], 0).unwrap();
    let received = completions(&pair.server, &pair.client, 2);
    assert!(received[0].error.is_none() && received[1].error.is_some());
    let message = kofi::Message { flags: OpFlags::DELIVERY_COMPLETE, ..Default::default() };
    let message = kofi::Message { buffers: vec![3; 16].into(), ..message };
    client.writemsg(message, &[kofi::RmaIov { addr: region.address(), len: 16, key: region.key() }]).unwrap();
    completions(&pair.client, &pair.server, 1);
    // One that is taken back.
    server.recv(vec![0; 5], 9).unwrap();
    assert_eq!(server.statistics().unwrap().receives_posted, 1);
    server.cancel(9).unwrap();
    completions(&pair.server, &pair.client, 1);

    let (at_client, at_server) = (client.statistics().unwrap(), server.statistics().unwrap());
    assert_eq!(at_client.traffic.sent, tally(2, 30));
    assert_eq!(at_client.traffic.read, tally(1, 8));
    assert_eq!(at_client.traffic.written, tally(1, 16));
    assert_eq!(at_client.traffic.received, tally(0, 0));
    assert_eq!(at_server.traffic.received, tally(2, 15));
    assert_eq!(at_server.traffic.remote_read, tally(1, 8));
    assert_eq!(at_server.traffic.remote_written, tally(1, 16));
    assert_eq!((at_server.traffic.truncated, at_server.traffic.canceled), (1, 1));
    assert_eq!((at_server.unexpected, at_server.traffic.unexpected_most), (0, 2));
    assert!(at_server.traffic.wakeups > 0 && at_client.traffic.wakeups > 0);
    for (one, other) in [(&at_client, &at_server), (&at_server, &at_client)] {
        assert_eq!((one.state, one.local, one.reason), (State::Connected, other.peer, None));
        assert!(one.connected.is_some() && one.local.is_some());
    }
    assert_eq!(at_client.fid, client.fid());

    let totals = pair.server.domain.statistics();
    assert_eq!((totals.endpoints, totals.connected, totals.connections), (1, 1, 1));
    assert_eq!((totals.completion_queues, totals.memory_regions, totals.counters), (1, 1, 0));
    assert_eq!(totals.traffic.received, tally(2, 15));

    // Closed endpoints count in their domain.
    client.shutdown().unwrap();
    let Event::Shutdown { .. } = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let ended = server.statistics().unwrap();
    assert_eq!((ended.state, ended.reason), (State::Disconnected, Some(Reason::Peer)));
    let connected = ended.connected.unwrap();
    assert_eq!(server.statistics().unwrap().connected, Some(connected), "it has ended");
    server.close();
    let totals = pair.server.domain.statistics();
    assert_eq!((totals.endpoints, totals.connected, totals.connections), (0, 0, 1));
    assert_eq!((totals.endings.orderly, totals.traffic.received), (1, tally(2, 15)));

    let listener = pair.listener.statistics().unwrap();
    assert!(listener.listening && listener.local.is_some());
    assert_eq!((listener.accepted, listener.requests, listener.waiting), (1, 1, 0));
}

/// Who does not receive stalls the sender, and both sides can see it.
#[test]
fn stalls_are_counted() {
    let pair = pair();
    let (server, client) = pair.connect();
    const LEN: usize = 1 << 20;
    let mut sent = 0;
    while client.statistics().unwrap().traffic.transmit_stalls == 0 {
        match client.send(vec![0; LEN], 0) {
            Ok(()) => sent += 1,
            Err(refused) => assert!(refused.error.is_again(), "{refused}"),
        }
        pair.client.cq.progress();
        pair.server.cq.progress();
    }
    let stalled = server.statistics().unwrap();
    assert_eq!((stalled.receive_stalled, stalled.traffic.receive_stalls), (true, 1));
    for _ in 0..sent {
        server.recv(vec![0; LEN], 0).unwrap();
        completions(&pair.server, &pair.client, 1);
    }
    let over = server.statistics().unwrap();
    assert_eq!((over.receive_stalled, over.traffic.received), (false, tally(sent, sent * LEN as u64)));
}

/// What a listener drops is counted by its reason.
#[test]
fn a_listener_counts_what_it_drops() {
    use std::io::Write;
    let pair = pair();
    let address = pair.listener.name().unwrap().socket_addr().unwrap();
    std::net::TcpStream::connect(address).unwrap().write_all(&[0xff; 512]).unwrap();
    let end = std::time::Instant::now() + PATIENCE;
    while pair.listener.statistics().unwrap().dropped.protocol == 0 {
        pair.server.eq.progress();
        assert!(std::time::Instant::now() < end, "{:?}", pair.listener.statistics());
    }
}

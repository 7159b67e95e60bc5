// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory on loan to the transport, step by step; in random order it is in `pair.rs`.
#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

#[allow(dead_code, reason = "each test uses its part")]
mod driver;

use driver::{Host, Pipe};
use kofi_core::message::Send;
use kofi_core::*;

/// A connection whose first host lends what it sends; with the pipes, by the side that writes.
fn connected() -> ([Host; 2], [Pipe; 2]) {
    let now = Instant::from_nanos(0);
    let mut hosts = [Host::active(now, 8, b""), Host::passive(now, 8)];
    hosts[0].lends = true;
    let mut pipes = <[Pipe; 2]>::default();
    for _ in 0..4 {
        round(&mut hosts, &mut pipes);
    }
    for host in &mut hosts {
        assert!(matches!(host.eq.read().unwrap().event, Event::Connected { .. }));
    }
    (hosts, pipes)
}

fn round([first, second]: &mut [Host; 2], [out, back]: &mut [Pipe; 2]) {
    first.write(out, 1 << 20);
    first.read(back, 1 << 20);
    first.outputs(out, back);
    second.write(back, 1 << 20);
    second.read(out, 1 << 20);
    second.outputs(back, out);
}

fn send(host: &mut Host, context: u64, len: usize) {
    let send = Send { len: len as u64, segments: 1, context, ..Send::default() };
    host.post_send(&send, vec![vec![context as u8; len]]).unwrap();
}

/// Contexts of what is complete, and how it went.
fn told(host: &Host) -> Vec<(u64, Option<Errno>)> {
    let told = host.done.iter().map(|done| match &done.result {
        Ok(done) => (done.context, None),
        Err(error) => (error.context, Some(error.errno)),
    });
    told.collect()
}

#[test]
fn a_send_completes_once_its_memory_is_back_and_so_does_what_is_behind_it() {
    let (mut hosts, mut pipes) = connected();
    for (context, len) in [(1, 100), (2, 0), (3, 100)] {
        send(&mut hosts[0], context, len);
    }
    round(&mut hosts, &mut pipes);
    assert_eq!((told(&hosts[0]), hosts[0].domain.loans(hosts[0].ep.unwrap())), (vec![], 2));
    // The later loan is back first.
    hosts[0].give_back(1);
    round(&mut hosts, &mut pipes);
    assert_eq!(told(&hosts[0]), []);
    hosts[0].give_back(0);
    round(&mut hosts, &mut pipes);
    assert_eq!(told(&hosts[0]), [(1, None), (2, None), (3, None)]);
}

#[test]
fn what_is_on_loan_counts_as_pending() {
    let (mut hosts, mut pipes) = connected();
    for context in 0..16 {
        send(&mut hosts[0], context, 10);
    }
    round(&mut hosts, &mut pipes);
    let one_more = Send { len: 1, segments: 1, ..Send::default() };
    let refused = hosts[0].post_send(&one_more, vec![vec![0]]).unwrap_err();
    assert_eq!(refused.errno(), Errno::EAGAIN);
    hosts[0].give_back(0);
    round(&mut hosts, &mut pipes);
    send(&mut hosts[0], 16, 10);
}

/// That it was written says nothing of whether it has arrived.
#[test]
fn a_send_on_loan_fails_with_its_connection_and_the_end_is_told_of_last() {
    let (mut hosts, mut pipes) = connected();
    send(&mut hosts[0], 1, 100);
    round(&mut hosts, &mut pipes);
    let ep = hosts[0].ep.unwrap();
    hosts[0].domain.transport_failed(ep, Errno::ECONNRESET);
    round(&mut hosts, &mut pipes);
    assert!(!hosts[0].open, "the transport is closed, so that it gives the memory back");
    assert!(told(&hosts[0]).is_empty() && hosts[0].eq.is_empty());
    hosts[0].give_back(0);
    round(&mut hosts, &mut pipes);
    assert_eq!(told(&hosts[0]), [(1, Some(Errno::ECANCELED))]);
    assert!(matches!(hosts[0].eq.read().unwrap().event, Event::Shutdown { .. }));
}

/// Its system has acknowledged all before it ended the stream, but a device may be late to let go.
#[test]
fn a_send_on_loan_succeeds_though_the_peer_ends_its_stream() {
    let (mut hosts, mut pipes) = connected();
    send(&mut hosts[0], 1, 100);
    round(&mut hosts, &mut pipes);
    let ep = hosts[0].ep.unwrap();
    hosts[0].domain.end_of_stream(ep);
    assert_eq!(hosts[0].domain.poll_transport(), Some((ep, TransportCommand::Finish)));
    round(&mut hosts, &mut pipes);
    assert!(told(&hosts[0]).is_empty() && hosts[0].eq.is_empty());
    hosts[0].give_back(0);
    round(&mut hosts, &mut pipes);
    assert_eq!(told(&hosts[0]), [(1, None)]);
    assert_eq!(hosts[0].eq.read().unwrap().event, Event::Shutdown { reason: Reason::Peer });
}

#[test]
fn a_shutdown_ends_the_stream_once_all_memory_is_back() {
    let (mut hosts, mut pipes) = connected();
    send(&mut hosts[0], 1, 100);
    let (ep, now) = (hosts[0].ep.unwrap(), hosts[0].now);
    hosts[0].domain.shutdown(ep, 0, now).unwrap();
    round(&mut hosts, &mut pipes);
    assert!(hosts[0].open && hosts[0].eq.is_empty());
    hosts[0].give_back(0);
    round(&mut hosts, &mut pipes);
    assert_eq!(told(&hosts[0]), [(1, None)]);
    assert_eq!(hosts[0].eq.read().unwrap().event, Event::Shutdown { reason: Reason::Local });
}

#[test]
fn an_endpoint_is_closed_once_all_memory_is_back() {
    let (mut hosts, mut pipes) = connected();
    send(&mut hosts[0], 1, 100);
    round(&mut hosts, &mut pipes);
    let host = &mut hosts[0];
    let ep = host.ep.unwrap();
    let refused = host.domain.close_endpoint(ep).unwrap_err();
    assert_eq!(refused.errno(), Errno::EBUSY);
    assert!(refused.to_string().contains("1 loan"), "{refused}");
    host.domain.abandon(ep).unwrap();
    let late = host.post_send(&Send { len: 1, segments: 1, ..Send::default() }, vec![vec![0]]);
    assert_eq!(late.unwrap_err().errno(), Errno::ESHUTDOWN);
    host.give_back(0);
    host.domain.close_endpoint(ep).unwrap();
    round(&mut hosts, &mut pipes);
    assert_eq!(told(&hosts[0]), [(1, Some(Errno::ECANCELED))]);
    assert!(hosts[0].eq.is_empty());
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Receives that endpoints share, and buffers for several messages, by the safe API.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod common;

use common::*;
use kofi::{
    CqAttr, Errno, Error, Event, OpFlags, Queues, Receive, SharedReceive, SrxAttr, WaitCond, WaitObj,
};

const ATTR: SrxAttr = SrxAttr { size: 64, iov_limit: 4 };

fn several(len: usize, context: u64) -> Receive {
    Receive { buffers: vec![0; len].into(), flags: OpFlags::MULTI_RECV, context }
}

/// An accepted endpoint that takes its receives from `shared`, and its peer.
fn connect(pair: &Pair, shared: &SharedReceive) -> (kofi::Endpoint, kofi::Endpoint) {
    let client = pair.client.domain.endpoint(&pair.client.info, &pair.client.eq, &pair.client.cq).unwrap();
    let client = client.connect(b"").unwrap();
    let Event::ConnectionRequest(request) = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let queues = Queues::from(&pair.server.cq).shared_receive(shared);
    let server = pair.server.domain.endpoint_for(&request, &pair.server.eq, queues).unwrap();
    let server = server.accept(b"").unwrap();
    let Event::Connected { .. } = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let Event::Connected { .. } = next(&pair.client.eq, &[&pair.server.eq]) else { panic!() };
    (server, client)
}

/// Messages lie in the memory that was posted, and the memory is used again without another one.
#[test]
fn a_buffer_goes_round() {
    let pair = pair();
    let shared = pair.server.domain.shared_receive(ATTR, &pair.server.cq).unwrap();
    shared.set_min_multi_recv(1).unwrap();
    let ends = [connect(&pair, &shared), connect(&pair, &shared)];
    let mut buffer: kofi::Buf = vec![0; 30].into();
    for round in 0..5u8 {
        let place = buffer.as_ptr();
        let receive = Receive { buffers: buffer.into(), flags: OpFlags::MULTI_RECV, context: 1 };
        shared.recvmsg(receive).unwrap();
        let mut messages = Vec::new();
        let mut rest = None;
        for number in 0..3u8 {
            assert!(rest.is_none(), "the buffer comes with its last message");
            ends[usize::from(number % 2)].1.inject(&[round, number, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
            let mut done = pair.server.cq.wait(PATIENCE).unwrap().ok().unwrap();
            assert_eq!((done.context, done.len, done.offset), (1, 10, 10 * usize::from(number)));
            rest = done.rest.take();
            let message = done.into_buffer();
            assert_eq!(message.as_ptr().addr(), place.addr() + 10 * usize::from(number), "copied");
            messages.push(message);
        }
        let rest = rest.unwrap().reclaim().unwrap_err();
        for (number, message) in (0u8..).zip(&messages) {
            assert_eq!(message[..2], [round, number]);
        }
        drop(messages);
        buffer = rest.reclaim().unwrap();
        assert_eq!((buffer.len(), buffer.as_ptr()), (30, place));
    }
}

#[test]
fn a_context_outlives_its_handle() {
    let pair = pair();
    let unmet = pair.server.domain.completion_queue(CqAttr::default()).unwrap();
    let shared = pair.server.domain.shared_receive(ATTR, &unmet).unwrap();
    let (server, client) = connect(&pair, &shared);
    for context in 0..3 {
        shared.recv(vec![0; 8], context).unwrap();
    }
    let refused = server.recv(vec![0; 9], 3).unwrap_err();
    assert_eq!((refused.error.errno(), refused.buffers.total_len()), (Errno::ENOSYS, 9));
    let shared = shared.close().unwrap_err();
    assert_eq!(shared.error.errno(), Errno::EBUSY);
    shared.object.cancel(1).unwrap();
    assert_eq!(unmet.wait(PATIENCE).unwrap().error.unwrap().errno, Errno::ECANCELED);
    let unmet = unmet.close().unwrap_err().object;
    drop(shared);
    client.inject(b"hello").unwrap();
    assert_eq!(pair.server.cq.wait(PATIENCE).unwrap().into_received().unwrap(), b"hello");
    drop(server);
    // The last who used it.
    let done = unmet.wait(PATIENCE).unwrap();
    assert_eq!((done.context, done.buffers.total_len()), (2, 8));
    unmet.close().unwrap();
}

/// Memory that nobody waits for any more is freed, not leaked and not touched.
#[test]
fn buffers_of_a_closed_queue_are_freed() {
    let pair = pair();
    let (server, client) = pair.connect();
    server.set_min_multi_recv(1).unwrap();
    server.recvmsg(several(100, 1)).unwrap();
    server.recvmsg(several(4, 2)).unwrap();
    client.inject(&[1; 99]).unwrap();
    client.inject(&[2; 4]).unwrap();
    let first = pair.server.cq.wait(PATIENCE).unwrap();
    assert_eq!((first.context, first.len), (1, 99));
    // What is left of the first buffer, and the second message, stay unread.
    std::thread::sleep(std::time::Duration::from_millis(20));
    pair.server.cq.progress();
    drop((server, client));
    assert_eq!(pair.server.cq.read().unwrap().flags, OpFlags::MULTI_RECV);
    pair.server.cq.close().unwrap();
    assert_eq!(&*first.into_buffer(), [1; 99]);
}

/// A buffer that is cancelled under a message ends in the context's queue when the message does, whoever makes
/// it do so; a reader that sleeps on that queue is woken.
#[test]
fn a_buffer_that_ends_with_another_endpoints_message_wakes_its_reader() {
    const LEN: usize = 32 << 20;
    let pair = pair();
    let unmet = pair.server.domain.completion_queue(CqAttr::default()).unwrap();
    let shared = pair.server.domain.shared_receive(ATTR, &unmet).unwrap();
    let (server, client) = connect(&pair, &shared);
    shared.recvmsg(several(2 * LEN, 1)).unwrap();
    // All of it can't be under way without the client's doing more.
    client.send(vec![0; LEN], 2).unwrap();
    while shared.cancel(1).is_ok() {
        // It was not there yet.
        let error = match unmet.poll() {
            Ok(done) => done.error.unwrap(),
            Err(Error::Empty) => break,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(error.errno, Errno::ECANCELED);
        shared.recvmsg(several(2 * LEN, 1)).unwrap();
        pair.server.cq.progress();
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| unmet.wait(PATIENCE));
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(server);
        let start = std::time::Instant::now();
        let done = waiting.join().unwrap().unwrap();
        // Limits in time that are past wake it, too.
        assert!(start.elapsed() < PATIENCE / 5, "it was told, but not woken");
        assert_eq!(done.error.unwrap().errno, Errno::ECANCELED);
        assert_eq!((done.context, done.flags.contains(OpFlags::MULTI_RECV)), (1, true));
    });
    let part = pair.server.cq.wait(PATIENCE).unwrap();
    assert_eq!((part.buffers.total_len(), part.error.unwrap().errno), (LEN, Errno::ECANCELED));
}

/// Messages for one buffer are told up to a bound, and wait then. Who waits for more of them gets what there is.
#[test]
fn a_wait_for_more_messages_than_can_be_told_ends() {
    const MANY: usize = 1000;
    let pair = pair();
    let attr = CqAttr { wait_cond: WaitCond::Threshold, ..CqAttr::default() };
    let cq = pair.server.domain.completion_queue(attr).unwrap();
    let client = pair.client.domain.endpoint(&pair.client.info, &pair.client.eq, &pair.client.cq).unwrap();
    let client = client.connect(b"").unwrap();
    let Event::ConnectionRequest(request) = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let server = pair.server.domain.endpoint_for(&request, &pair.server.eq, &cq).unwrap();
    server.ops().set_min_multi_recv(1).unwrap();
    server.ops().recv(several(MANY + 1, 1)).unwrap();
    let server = server.accept(b"").unwrap();
    let Event::Connected { .. } = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let Event::Connected { .. } = next(&pair.client.eq, &[&pair.server.eq]) else { panic!() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..MANY {
                while client.inject(b"x").is_err() {
                    pair.client.cq.progress();
                }
            }
            // Injected ones may still wait to leave.
            pair.client.cq.progress();
        });
        for number in 0..MANY {
            let start = std::time::Instant::now();
            let done = cq.sread_threshold(MANY - number, PATIENCE).unwrap().ok().unwrap();
            assert_eq!((done.len, done.offset), (1, number));
            assert!(start.elapsed() < PATIENCE / 2, "message {number} came after the whole time");
        }
    });
    drop(server);
}

/// A signal ends a wait for many completions, and gives what there is.
#[test]
fn a_signal_ends_a_wait_for_many() {
    let pair = pair();
    let attr = CqAttr { wait_cond: WaitCond::Threshold, ..CqAttr::default() };
    let cq = pair.client.domain.completion_queue(attr).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cq.sread_threshold(5, PATIENCE));
        std::thread::sleep(std::time::Duration::from_millis(20));
        cq.signal().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap_err(), Error::Empty);
    });
}

#[test]
fn a_wait_set_tells_of_counters() {
    let pair = pair();
    let set = pair.server.fabric.wait_set().unwrap();
    let counter = pair.server.domain.counter_in(&set).unwrap();
    assert!(pair.server.domain.counter(WaitObj::Set).is_err());
    let shared = pair.server.domain.shared_receive(ATTR, &pair.server.cq).unwrap();
    let client = pair.client.domain.endpoint(&pair.client.info, &pair.client.eq, &pair.client.cq).unwrap();
    let client = client.connect(b"").unwrap();
    let Event::ConnectionRequest(request) = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let queues = Queues::from(&pair.server.cq).shared_receive(&shared).counter(&counter, OpFlags::RECV);
    let server = pair.server.domain.endpoint_for(&request, &pair.server.eq, queues).unwrap();
    let server = server.accept(b"").unwrap();
    let Event::Connected { .. } = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let Event::Connected { .. } = next(&pair.client.eq, &[&pair.server.eq]) else { panic!() };
    let time = std::time::Duration::from_millis(5);
    assert_eq!(set.wait(time).unwrap_err(), Error::Empty);
    for wanted in 1..3 {
        shared.recv(vec![0; 8], 1).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| set.wait(PATIENCE));
            std::thread::sleep(std::time::Duration::from_millis(10));
            client.inject(b"counted").unwrap();
            waiting.join().unwrap().unwrap();
        });
        // It tells until the number has been read.
        set.wait(time).unwrap();
        assert_eq!(counter.read().unwrap(), wanted);
        assert_eq!(set.wait(time).unwrap_err(), Error::Empty);
    }
    // An error is a change, and ends waits for the number.
    std::thread::scope(|scope| {
        shared.recv(vec![0; 1], 2).unwrap();
        let number = scope.spawn(|| counter.wait(9, PATIENCE));
        std::thread::sleep(std::time::Duration::from_millis(10));
        client.inject(b"too long").unwrap();
        assert_eq!(number.join().unwrap().unwrap_err().errno(), Errno::EAVAIL);
        set.wait(PATIENCE).unwrap();
        assert_eq!((counter.read().unwrap(), counter.read_error().unwrap()), (2, 1));
    });
    assert_eq!(set.wait(time).unwrap_err(), Error::Empty);
    drop((server, client));
}

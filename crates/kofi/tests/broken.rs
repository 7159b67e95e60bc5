// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What is left after a panic in the middle of a call: nobody goes on with what is half done.

#![allow(clippy::unwrap_used)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{PATIENCE, next, pair};
use kofi::Event;

/// A bug of ours, in the middle of a call that has its domain locked.
fn panics<R>(call: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

#[test]
fn a_broken_domain_does_nothing_and_ends_its_connections() {
    let pair = pair();
    let (server, client) = pair.connect();
    let empty = pair.server.domain.completion_queue(Default::default()).unwrap();
    server.recv(vec![0; 100], 1).unwrap();
    server.recv(vec![0; 100], 2).unwrap();
    client.send(b"a message", 3).unwrap();
    let _sent = pair.client.cq.wait(PATIENCE).unwrap();
    let read = || {
        while let Err(kofi::Error::Empty) =
            pair.server.cq.ops().read_entries(1, &mut |_| panic!("on purpose"))
        {}
    };
    // Who sleeps meanwhile is woken, and told.
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| panics(|| empty.wait(PATIENCE)));
        assert!(panics(read));
        assert!(sleeper.join().unwrap());
    });
    assert!(panics(|| server.send(b"another", 4)));
    assert!(panics(|| pair.server.cq.poll()));
    assert!(panics(|| server.statistics()));
    // The peer does not wait for somebody who is no longer there.
    let Event::Shutdown { .. } = pair.client.eq.wait(PATIENCE).unwrap() else { panic!() };
    // What is broken can still be dropped.
    assert!(!panics(|| drop(server)));
    // Other domains go on, those of the same queues and listener too.
    let domain = pair.server.fabric.domain(&pair.server.info).unwrap();
    let cq = domain.completion_queue(Default::default()).unwrap();
    let again = pair.client.domain.endpoint(&pair.client.info, &pair.client.eq, &pair.client.cq).unwrap();
    let again = again.connect(b"").unwrap();
    let Event::ConnectionRequest(request) = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let acceptor = domain.endpoint_for(&request, &pair.server.eq, &cq).unwrap();
    acceptor.recv(vec![0; 100], 5).unwrap();
    let accepted = acceptor.accept(b"").unwrap();
    let Event::Connected { .. } = next(&pair.client.eq, &[&pair.server.eq]) else { panic!() };
    again.send(b"hello", 6).unwrap();
    assert_eq!(cq.wait(PATIENCE).unwrap().into_received().unwrap(), b"hello");
    drop((accepted, again, client));
    assert!(!panics(|| drop(pair)));
}

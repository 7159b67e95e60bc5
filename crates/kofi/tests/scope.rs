// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Scopes: however one ends, borrowed memory is back, and nothing is written to it afterwards.

#![allow(clippy::unwrap_used)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use common::{PATIENCE, Side, pair};
use kofi::{Completion, Endpoint, Errno, OpFlags, TimeLimits};

/// More than the buffers of two sockets hold.
const LARGE: usize = 64 << 20;
const LIMIT: Duration = Duration::from_millis(200);

/// The next completion of `side`, while `other` is kept going.
fn completion(side: &Side, other: &Side) -> Completion {
    let end = Instant::now() + PATIENCE;
    loop {
        other.cq.progress();
        match side.cq.wait(Duration::from_millis(1)) {
            Err(kofi::Error::Empty) => assert!(Instant::now() < end, "no completion"),
            other => return other.unwrap(),
        }
    }
}

fn limit(endpoint: &Endpoint) {
    endpoint.set_limits(TimeLimits { shutdown: Some(LIMIT), ..TimeLimits::default() }).unwrap();
}

/// Both ends still work.
fn check(server: (&Side, &Endpoint), client: (&Side, &Endpoint)) {
    for (from, to) in [(server, client), (client, server)] {
        to.1.recv(vec![0; 8], 1).unwrap();
        from.1.send(b"still ok", 2).unwrap();
        assert!(completion(from.0, to.0).error.is_none());
        assert_eq!(completion(to.0, from.0).into_received().unwrap(), b"still ok");
    }
}

#[test]
fn borrowed_memory_is_sent_and_received() {
    let pair = pair();
    let (server, client) = pair.connect();
    for len in [1, 4096, LARGE] {
        let question: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let mut answer = vec![0; len];
        client.scope(|mine| {
            server.scope(|theirs| {
                let borrowed = theirs.recv(&mut answer, 1).unwrap();
                let borrowed = borrowed.take().unwrap_err();
                mine.send(&question, 2).unwrap();
                let received = completion(&pair.server, &pair.client);
                assert!((received.len, received.error, received.buffers.total_len()) == (len, None, 0));
                assert_eq!(borrowed.take().unwrap(), question);
            });
            let sent = completion(&pair.client, &pair.server);
            assert!((sent.context, sent.error, sent.buffers.total_len()) == (2, None, 0));
        });
        assert_eq!(answer, question);
    }
    check((&pair.server, &server), (&pair.client, &client));
}

#[test]
fn borrowed_memory_is_written_and_read() {
    let pair = pair();
    let (server, client) = pair.connect();
    let access = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
    let region = pair.server.domain.register(vec![0; 64], access, 7).unwrap();
    let (addr, key) = (region.address(), region.key());
    let (out, mut back) = ([5; 64], [0; 64]);
    client.scope(|scope| {
        scope.write(&out, addr, key, 1).unwrap();
        assert_eq!(completion(&pair.client, &pair.server).context, 1);
        let borrowed = scope.read(&mut back, addr, key, 2).unwrap();
        assert!(completion(&pair.client, &pair.server).error.is_none());
        assert_eq!(borrowed.take().unwrap(), out);
    });
    check((&pair.server, &server), (&pair.client, &client));
}

#[test]
fn receives_that_nothing_came_for_are_cancelled() {
    let pair = pair();
    let (server, client) = pair.connect();
    let mut memory = [[0; 8]; 3];
    // One of the same context that is not the scope's stays.
    server.recv(vec![0; 8], 1).unwrap();
    server.scope(|scope| {
        for piece in &mut memory {
            drop(scope.recv(piece, 1).unwrap());
        }
    });
    memory.fill([1; 8]);
    client.send(b"the rest", 2).unwrap();
    let mut cancelled = 0;
    let received = loop {
        let done = completion(&pair.server, &pair.client);
        match done.error {
            None => break done,
            Some(error) => assert_eq!((error.errno, done.buffers.total_len()), (Errno::ECANCELED, 0)),
        }
        cancelled += 1;
    };
    assert_eq!((cancelled, received.into_received().unwrap().as_slice()), (3, &b"the rest"[..]));
    assert_eq!(completion(&pair.client, &pair.server).context, 2);
    assert_eq!(memory, [[1; 8]; 3]);
    check((&pair.server, &server), (&pair.client, &client));
}

#[test]
fn completions_need_not_be_read() {
    let pair = pair();
    let (server, client) = pair.connect();
    let mut memory = [0; 8];
    server.scope(|scope| {
        drop(scope.recv(&mut memory, 1).unwrap());
        client.scope(|scope| scope.send(b"a string", 2).unwrap());
        let end = Instant::now() + PATIENCE;
        while pair.server.cq.try_wait().is_ok() {
            assert!(Instant::now() < end, "no completion");
        }
    });
    assert_eq!(&memory, b"a string");
    let received = completion(&pair.server, &pair.client);
    assert_eq!((received.context, received.len, received.buffers.total_len()), (1, 8, 0));
    assert_eq!(completion(&pair.client, &pair.server).context, 2);
    check((&pair.server, &server), (&pair.client, &client));
}

/// The end of a scope cancels no send: it waits for all of them.
#[test]
fn sends_go_out_before_the_end() {
    const COUNT: usize = 8;
    let pair = pair();
    let (server, client) = pair.connect();
    let message = vec![7; LARGE / COUNT];
    for _ in 0..COUNT {
        server.recv(vec![0; LARGE / COUNT], 1).unwrap();
    }
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..COUNT {
                let received = pair.server.cq.wait(PATIENCE).unwrap().into_received().unwrap();
                assert_eq!(received, message);
            }
        });
        client.scope(|scope| {
            for _ in 0..COUNT {
                scope.send(&message, 2).unwrap();
            }
        });
    });
    for _ in 0..COUNT {
        assert!(completion(&pair.client, &pair.server).error.is_none());
    }
    check((&pair.server, &server), (&pair.client, &client));
}

#[test]
fn a_peer_that_does_not_read_is_given_up() {
    let pair = pair();
    let (_server, client) = pair.connect();
    limit(&client);
    let message = vec![0; LARGE];
    let start = Instant::now();
    client.scope(|scope| scope.send(&message, 1).unwrap());
    assert!(start.elapsed() >= LIMIT);
    let failed = completion(&pair.client, &pair.server);
    assert_eq!((failed.error.unwrap().errno, failed.buffers.total_len()), (Errno::ECANCELED, 0));
    assert!(client.send(b"on a closed endpoint", 2).is_err());
}

#[test]
fn a_message_that_stops_half_way_is_given_up() {
    let pair = pair();
    let (server, client) = pair.connect();
    limit(&server);
    // Nobody drives the client any more: the sockets take a part.
    client.send(vec![7; LARGE], 1).unwrap();
    let mut memory = vec![0; LARGE];
    let start = Instant::now();
    server.scope(|scope| {
        drop(scope.recv(&mut memory, 1).unwrap());
        pair.server.cq.progress();
    });
    assert!(start.elapsed() >= LIMIT);
    assert_eq!((memory[0], memory[LARGE - 1]), (7, 0));
    memory.fill(1);
    // What comes now does not come there.
    assert!(completion(&pair.client, &pair.server).error.is_some());
    assert_eq!(memory, [1; LARGE]);
    assert_eq!(completion(&pair.server, &pair.client).error.unwrap().errno, Errno::ECANCELED);
}

#[test]
fn a_panic_waits_for_the_memory() {
    let pair = pair();
    let (server, client) = pair.connect();
    let mut memory = [0; 8];
    let result = catch_unwind(AssertUnwindSafe(|| {
        server.scope(|scope| {
            drop(scope.recv(&mut memory, 1).unwrap());
            std::panic::resume_unwind(Box::new("of the application"));
        })
    }));
    assert!(result.is_err());
    memory.fill(1);
    assert_eq!(completion(&pair.server, &pair.client).error.unwrap().errno, Errno::ECANCELED);
    check((&pair.server, &server), (&pair.client, &client));
    assert_eq!(memory, [1; 8]);
}

#[test]
fn refused_operations_lend_nothing() {
    let pair = pair();
    let (server, client) = pair.connect();
    let (mut memory, bytes) = ([0; 8], [0; 8]);
    server.shutdown().unwrap();
    while !matches!(common::next(&pair.server.eq, &[&pair.client.eq]), kofi::Event::Shutdown { .. }) {}
    server.scope(|scope| {
        assert_eq!(scope.send(&bytes, 1).unwrap_err().errno(), Errno::ESHUTDOWN);
        assert!(scope.recv(&mut memory, 1).is_err());
        assert!(format!("{scope:?}").contains("outstanding: 0"));
    });
    drop(client);
}

/// Completions may be read by another thread, and memory be taken by a third.
#[test]
fn threads_share_a_scope() {
    const ROUNDS: u64 = 200;
    let pair = pair();
    let (server, client) = pair.connect();
    let mut memory = vec![[0u8; 8]; ROUNDS as usize];
    let messages: Vec<[u8; 8]> = (0..ROUNDS).map(u64::to_le_bytes).collect();
    server.scope(|scope| {
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..ROUNDS {
                    assert!(pair.server.cq.wait(PATIENCE).unwrap().error.is_none());
                }
            });
            threads.spawn(|| {
                client.scope(|scope| {
                    for message in &messages {
                        while let Err(error) = scope.send(message, 0) {
                            assert!(error.is_again(), "{error}");
                            let _ = pair.client.cq.poll();
                        }
                    }
                });
            });
            for (piece, message) in memory.iter_mut().zip(&messages) {
                let mut borrowed = scope.recv(piece, 0).unwrap();
                let end = Instant::now() + PATIENCE;
                let received = loop {
                    match borrowed.take() {
                        Ok(received) => break received,
                        Err(again) => borrowed = again,
                    }
                    assert!(Instant::now() < end, "nothing came");
                    std::thread::yield_now();
                };
                assert_eq!(received, message);
            }
        });
    });
    assert_eq!(memory, messages);
}

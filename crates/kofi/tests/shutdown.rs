// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The end of a connection on the real system (decisions D4, D8, D11).

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use common::{PATIENCE, pair};
use kofi::{Event, Reason};

/// What was queued at a shutdown arrives, even though the peer sends something meanwhile, and even
/// though the endpoint is closed at once.
#[test]
fn a_shutdown_delivers_against_traffic() {
    const LEN: usize = 1 << 20;
    for round in 0..10 {
        let pair = pair();
        let (server, client) = pair.connect();
        for context in 0..3 {
            server.recv(vec![0; LEN], context).unwrap();
        }
        for _ in 0..3 {
            client.send(vec![round; LEN], 1).unwrap();
        }
        client.shutdown().unwrap();
        for _ in 0..20 {
            let _ = server.inject(&[7; 100]);
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // The client goes on reading its event queue, as it has to, until it is told.
            scope.spawn(|| {
                let Event::Shutdown { reason, .. } = pair.client.eq.wait(PATIENCE).unwrap() else { panic!() };
                assert_eq!(reason, Reason::Local);
                drop(client);
                let end = Instant::now() + 2 * PATIENCE;
                while !done.load(Ordering::Relaxed) && Instant::now() < end {
                    pair.client.eq.progress();
                    std::thread::yield_now();
                }
            });
            for context in 0..3 {
                let received = loop {
                    let completion = pair.server.cq.wait(PATIENCE).unwrap();
                    if completion.is_receive() {
                        break completion;
                    }
                };
                assert_eq!((received.context, received.error), (context, None));
                assert!(received.into_received().unwrap().iter().all(|&byte| byte == round));
            }
            let Ok(Event::Shutdown { .. }) = pair.server.eq.wait(PATIENCE) else { panic!() };
            done.store(true, Ordering::Relaxed);
        });
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What is told to `tracing` of connections, and that a subscriber may call kofi when it is told.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use common::runtime::join;
use common::{PATIENCE, Pair, next};
use kofi::{AsyncEndpoint, AsyncListener, Event, block_on};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

/// One event: its message, and its fields as text.
#[derive(Clone, Debug, Default)]
struct Told(String, HashMap<&'static str, String>);

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.0 = text;
        } else {
            self.1.insert(field.name(), text);
        }
    }
}

type Then = Arc<dyn Fn(&Told) + Send + Sync>;

/// Keeps what is told, and does something each time.
#[derive(Clone, Default)]
struct Listening {
    told: Arc<Mutex<Vec<Told>>>,
    then: Arc<Mutex<Option<Then>>>,
}

impl Listening {
    fn then(&self, then: impl Fn(&Told) + Send + Sync + 'static) {
        *self.then.lock().unwrap() = Some(Arc::new(then));
    }

    fn messages(&self, fid: kofi::Fid) -> Vec<String> {
        let told = self.told.lock().unwrap();
        let of = told.iter().filter(|told| told.1.get("fid") == Some(&fid.0.to_string()));
        of.map(|told| told.0.clone()).collect()
    }

    fn field(&self, fid: kofi::Fid, message: &str, field: &str) -> String {
        let told = self.told.lock().unwrap();
        let is = |told: &&Told| told.0 == message && told.1.get("fid") == Some(&fid.0.to_string());
        told.iter().find(is).unwrap_or_else(|| panic!("no {message:?} in {told:?}")).1[field].clone()
    }
}

impl Subscriber for Listening {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "kofi::connection"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut told = Told::default();
        event.record(&mut told);
        self.told.lock().unwrap().push(told.clone());
        let then = self.then.lock().unwrap().clone();
        if let Some(then) = then {
            then(&told);
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Fails instead of hanging when `test` blocks.
fn in_time(test: impl FnOnce(Listening) + Send + 'static) {
    let (done, finished) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let listening = Listening::default();
        tracing::subscriber::with_default(listening.clone(), || test(listening));
        let _ = done.send(());
    });
    match finished.recv_timeout(3 * PATIENCE) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("a subscriber that calls kofi hangs"),
        _ => thread.join().unwrap(),
    }
}

#[test]
fn a_connection_is_told_from_its_beginning_to_its_end() {
    in_time(|listening| {
        let pair = common::pair();
        let (server, client) = pair.connect();
        let listener = pair.listener.fid();
        let fids = (server.fid(), client.fid());
        client.send(b"message", 0).unwrap();
        server.recv(vec![0; 7], 0).unwrap();
        let _ = pair.server.cq.wait(PATIENCE).unwrap();
        client.shutdown().unwrap();
        let Event::Shutdown { .. } = next(&pair.client.eq, &[&pair.server.eq]) else { panic!() };
        let Event::Shutdown { .. } = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
        let (local, peer) = (client.name().unwrap(), client.peer().unwrap());
        server.close();
        client.close();
        pair.listener.close();
        assert_eq!(listening.messages(listener), ["listening", "connection request", "listener closed"]);
        assert_eq!(listening.messages(fids.0), ["accepting", "connected", "shutdown", "closed"]);
        assert_eq!(listening.messages(fids.1), ["connecting", "connected", "shutdown", "closed"]);
        assert_eq!(listening.field(fids.1, "connected", "local"), local.socket_addr().unwrap().to_string());
        assert_eq!(listening.field(fids.1, "connected", "peer"), peer.socket_addr().unwrap().to_string());
        assert_eq!(listening.field(fids.1, "connecting", "data_len"), "7");
        assert_eq!(listening.field(fids.1, "shutdown", "sent_bytes"), "7");
        assert_eq!(listening.field(fids.0, "shutdown", "received"), "1");
        assert_eq!(listening.field(fids.0, "shutdown", "reason"), "the peer shut the connection down");
    });
}

#[test]
fn a_rejected_and_a_failed_connection_are_told_with_the_reason() {
    in_time(|listening| {
        let pair = common::pair();
        let Pair { server, listener, client } = &pair;
        let endpoint = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
        let endpoint = endpoint.connect(b"").unwrap();
        let Event::ConnectionRequest(request) = next(&server.eq, &[&client.eq]) else { panic!() };
        request.reject(b"no").unwrap();
        let Event::Failed { .. } = next(&client.eq, &[&server.eq]) else { panic!() };
        assert_eq!(listening.messages(listener.fid()), ["listening", "connection request", "rejected"]);
        assert_eq!(listening.field(listener.fid(), "rejected", "data_len"), "2");
        assert_eq!(listening.messages(endpoint.fid()), ["connecting", "connection failed"]);
        let reason = listening.field(endpoint.fid(), "connection failed", "reason");
        assert!(reason.contains("rejected"), "{reason}");
    });
}

/// Whatever a subscriber calls, of the objects that it is told of and of others, nothing is locked.
#[test]
fn a_subscriber_may_call_kofi() {
    in_time(|listening| {
        let pair = Arc::new(common::pair());
        let (server, client) = pair.connect();
        let (server, client) = (Arc::new(server), Arc::new(client));
        let (objects, endpoints) =
            (Arc::downgrade(&pair), [Arc::downgrade(&server), Arc::downgrade(&client)]);
        listening.then(move |_| {
            kofi::getinfo(kofi::Hints::new().provider("tcp")).unwrap();
            for endpoint in endpoints.iter().filter_map(std::sync::Weak::upgrade) {
                endpoint.name().unwrap();
                endpoint.statistics().unwrap();
                let _ = endpoint.send(b"from a subscriber", 0);
            }
            let Some(pair) = objects.upgrade() else { return };
            pair.listener.name().unwrap();
            pair.listener.statistics().unwrap();
            for side in [&pair.server, &pair.client] {
                side.domain.statistics();
                let _ = side.eq.peek();
                let _ = side.cq.poll();
            }
        });
        // All that is told while a connection comes about, is rejected and ends.
        let more = pair.connect();
        let rejected = {
            let client = &pair.client;
            client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap().connect(b"").unwrap()
        };
        let Event::ConnectionRequest(request) = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
        drop(request);
        let Event::Failed { .. } = next(&pair.client.eq, &[&pair.server.eq]) else { panic!() };
        drop((rejected, more));
        client.shutdown().unwrap();
        let end = std::time::Instant::now() + PATIENCE;
        while client.state() != kofi::State::Disconnected {
            pair.server.eq.progress();
            pair.client.eq.progress();
            assert!(std::time::Instant::now() < end);
        }
        drop((server, client, pair));
    });
}

/// Futures have a lock of their own around all that.
#[test]
fn a_subscriber_may_call_endpoints_of_futures() {
    in_time(|listening| {
        block_on(async {
            let listener = AsyncListener::bind(common::loopback()).unwrap();
            let first = AsyncEndpoint::connect(listener.name().unwrap(), b"", None);
            let (accepted, first) = join(listener.accept(), first).await;
            let (accepted, first) = (accepted.unwrap(), first.unwrap());
            let endpoints = [accepted.clone(), first.clone()];
            listening.then(move |_| {
                for endpoint in &endpoints {
                    endpoint.accept_data();
                    endpoint.statistics().unwrap();
                    endpoint.domain().pending_operations();
                }
            });
            let dest = listener.name().unwrap();
            let second = listener.domain().connect(dest, b"", None);
            let (other, second) = join(listener.accept(), second).await;
            let (other, second) = (other.unwrap(), second.unwrap());
            second.shutdown().await.unwrap();
            drop((other, second));
            first.shutdown().await.unwrap();
            let _ = accepted.ended().await;
            *listening.then.lock().unwrap() = None;
        });
    });
}

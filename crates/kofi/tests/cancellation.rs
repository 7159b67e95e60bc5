// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Futures that are dropped: at each point where they wait, and what is left then.

#![allow(clippy::unwrap_used)]

mod common;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use common::proxy::Proxy;
use common::runtime::{AsyncPair, Runtime, join, listener, pair, polls};
use common::{PATIENCE, client_of, loopback, server_at};
use kofi::future::Recv;
use kofi::{AsyncDomain, AsyncEndpoint, Event, Reason, WaitObj};

on_each_runtime! {
    a_dropped_recv_loses_no_message
    a_message_that_is_arriving_goes_to_the_next_recv
    messages_of_several_dropped_receives_keep_their_order
    a_message_goes_to_who_waits_already
    a_message_is_passed_on_again
    a_small_memory_that_was_dropped_cuts_its_message
    a_dropped_send_still_goes_out
    sends_dropped_before_the_connection_go_out
    a_dropped_connect_closes_its_endpoint
    a_dropped_accept_leaves_the_request
    a_dropped_shutdown_goes_on
    waiting_for_the_connection_can_be_dropped
    waiting_for_queues_can_be_dropped
    random_drops_lose_nothing
}

const LARGE: usize = 8 << 20;

/// A connection that holds back what the client sends.
struct Held {
    pair: AsyncPair,
    proxy: Proxy,
}

impl Held {
    async fn new() -> Self {
        let listener = listener();
        let proxy = Proxy::new(listener.name().unwrap().socket_addr().unwrap());
        let (client, server) = join(AsyncEndpoint::connect(proxy.addr(), b"", None), listener.accept()).await;
        let (client, server) = (client.unwrap(), server.unwrap());
        let pair = AsyncPair { listener, domain: client.domain().clone(), server, client };
        pair.check().await;
        Self { pair, proxy }
    }

    /// Sends `message`, and drops a receive while it arrives in there. The rest is held back.
    async fn drop_while_arriving(&self, message: &[u8]) {
        self.proxy.hold(1000);
        assert!(message.len() > 2000);
        let _ = polls(pin!(self.pair.client.send(message.to_vec())), 1).await;
        // What a drop does not cancel any more has been reached.
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < PATIENCE);
            let mut recv = Box::pin(self.pair.server.recv(vec![0; message.len()]));
            assert!(polls(recv.as_mut(), 1).await.is_none());
            yield_now().await;
            drop(recv);
            let mut looks = 0;
            while self.pair.server.domain().pending_operations() == 1 {
                if looks == 50 {
                    return;
                }
                looks += 1;
                assert!(polls(pin!(self.pair.server.ended()), 1).await.is_none());
                yield_now().await;
            }
        }
    }
}

/// Lets the runtime do what it has to do.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    std::thread::sleep(Duration::from_micros(50));
}

/// Calls `test` with 0, 1, 2 … until it says that the future was ready within so many polls.
async fn for_each_poll<T: Future<Output = bool>>(mut test: impl FnMut(usize) -> T) {
    for most in 0..100 {
        if test(most).await && most > 0 {
            return;
        }
    }
    panic!("it is polled again and again");
}

fn a_dropped_recv_loses_no_message(runtime: Runtime) {
    runtime.run(async {
        let pair = pair().await;
        let pair = &pair;
        // Before anything is sent.
        for count in 0..3 {
            let mut recv = Box::pin(pair.server.recv(vec![0; 64]));
            for _ in 0..count {
                assert!(polls(recv.as_mut(), 1).await.is_none());
            }
            drop(recv);
            pair.check().await;
        }
        // While a message comes, and when it has come.
        for_each_poll(|most| async move {
            let mut recv = Box::pin(pair.server.recv(vec![0; 64]));
            let before = polls(recv.as_mut(), most.min(1)).await;
            assert!(before.is_none());
            pair.client.send(b"first").await.unwrap();
            let received = polls(recv.as_mut(), most.saturating_sub(1)).await;
            let ready = received.is_some();
            drop(recv);
            let message = match received {
                Some(message) => message,
                None => pair.server.recv(vec![0; 32]).await,
            };
            assert_eq!(message.unwrap().into_vec(), b"first");
            pair.check().await;
            ready
        })
        .await;
        // Its message has come, the task is woken, and it is dropped instead of being polled.
        let mut recv = Box::pin(pair.server.recv(vec![0; 64]));
        assert!(polls(recv.as_mut(), 1).await.is_none());
        let other = pair.server.recv(vec![0; 64]);
        let (_, other) = join(
            async {
                pair.client.send(b"one").await.unwrap();
                pair.client.send(b"two").await.unwrap();
            },
            other,
        )
        .await;
        assert_eq!(other.unwrap().into_vec(), b"two");
        drop(recv);
        assert_eq!(pair.server.recv(vec![0; 64]).await.unwrap().into_vec(), b"one");
        pair.check().await;
    });
}

fn a_message_that_is_arriving_goes_to_the_next_recv(runtime: Runtime) {
    runtime.run(async {
        let held = Held::new().await;
        let Held { pair, proxy } = &held;
        for round in 0..5u8 {
            let message: Vec<u8> = (0..LARGE).map(|at| (at as u8).wrapping_mul(31) ^ round).collect();
            held.drop_while_arriving(&message).await;
            let _ = polls(pin!(pair.client.send(b"behind")), 1).await;
            let memory = if round == 2 { 16 } else { LARGE + 5 };
            match round {
                // Others that come before the rest does are dropped, too.
                0 => {
                    for _ in 0..3 {
                        assert!(polls(pin!(pair.server.recv(vec![0; LARGE])), 1).await.is_none());
                    }
                }
                // All is there before anybody asks.
                1 => {
                    proxy.release();
                    while pair.server.domain().pending_operations() > 0 {
                        assert!(polls(pin!(pair.server.ended()), 1).await.is_none());
                        yield_now().await;
                    }
                }
                _ => {}
            }
            let recv = pair.server.recv(vec![0; memory]);
            let (received, ()) = join(recv, async { proxy.release() }).await;
            let received = received.unwrap();
            assert_eq!(received.len, LARGE);
            // In its own memory if that is large enough, else in that of the dropped one.
            assert_eq!(received.buffers.total_len(), memory.max(LARGE));
            assert!(received.into_vec() == message, "round {round}");
            assert_eq!(pair.server.recv(vec![0; 64]).await.unwrap().into_vec(), b"behind");
            pair.check().await;
        }
        // The connection ends instead: there is no message for the next one.
        held.drop_while_arriving(&[1; LARGE]).await;
        let (recv, ()) = join(pair.server.recv(vec![0; LARGE]), async { proxy.cut() }).await;
        assert!(recv.unwrap_err().is_end());
        assert_eq!(pair.server.domain().pending_operations(), 0);
    });
}

fn messages_of_several_dropped_receives_keep_their_order(runtime: Runtime) {
    runtime.run(async {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]] {
            let pair = pair().await;
            let mut receives: Vec<_> =
                (0..3).map(|_| Some(Box::pin(pair.server.recv(vec![0; 64])))).collect();
            for recv in receives.iter_mut().flatten() {
                assert!(polls(recv.as_mut(), 1).await.is_none());
            }
            for message in [b"1", b"2", b"3"] {
                pair.client.send(message).await.unwrap();
            }
            // The last one has come, so all have.
            let last = pair.server.recv(vec![0; 64]);
            let (_, last) = join(pair.client.send(b"4"), last).await;
            assert_eq!(last.unwrap().into_vec(), b"4");
            for at in order {
                receives[at] = None;
            }
            for message in [b"1", b"2", b"3"] {
                assert_eq!(pair.server.recv(vec![0; 64]).await.unwrap().into_vec(), message);
            }
            pair.check().await;
        }
    });
}

/// A message that is passed on to a receive is passed on again when that is dropped at once, too.
fn a_message_is_passed_on_again(runtime: Runtime) {
    runtime.run(async {
        let pair = pair().await;
        for _ in 0..10 {
            let mut first = Box::pin(pair.server.recv(vec![0; 64]));
            let mut second = Box::pin(pair.server.recv(vec![0; 64]));
            assert!(polls(first.as_mut(), 1).await.is_none());
            assert!(polls(second.as_mut(), 1).await.is_none());
            pair.client.send(b"kept").await.unwrap();
            while pair.server.domain().pending_operations() > 1 {
                assert!(polls(pin!(pair.server.ended()), 1).await.is_none());
                yield_now().await;
            }
            drop(first);
            drop(second);
            assert_eq!(pair.server.recv(vec![0; 64]).await.unwrap().into_vec(), b"kept");
            pair.check().await;
        }
    });
}

/// The message of a dropped receive goes to a receive that was posted behind it and waits.
fn a_message_goes_to_who_waits_already(runtime: Runtime) {
    runtime.run(async {
        let held = Held::new().await;
        let Held { pair, proxy } = &held;
        for second_arrives in [false, true] {
            proxy.hold(2000);
            let mut first = Box::pin(pair.server.recv(vec![0; LARGE]));
            let mut second = Box::pin(pair.server.recv(vec![0; LARGE + 2]));
            let mut third = Box::pin(pair.server.recv(vec![0; LARGE]));
            assert!(polls(first.as_mut(), 1).await.is_none());
            assert!(polls(second.as_mut(), 1).await.is_none());
            assert!(polls(third.as_mut(), 1).await.is_none());
            let first_len = if second_arrives { 100 } else { LARGE };
            let _ = polls(pin!(pair.client.send(vec![1; first_len])), 1).await;
            if second_arrives {
                let _ = polls(pin!(pair.client.send(vec![2; LARGE])), 1).await;
            }
            // Time for 2000 bytes to arrive: the start of the first message, or all of it and the start
            // of the second, which is in the memory of the second receive then.
            for _ in 0..50 {
                assert!(polls(pin!(pair.server.ended()), 1).await.is_none());
                yield_now().await;
            }
            drop(first);
            let (second, ()) = join(second, async {
                if !second_arrives {
                    proxy.release();
                }
            })
            .await;
            let second = second.unwrap();
            if !second_arrives {
                assert_eq!(second.buffers.total_len(), LARGE + 2, "its own memory");
                let _ = polls(pin!(pair.client.send(vec![2; LARGE])), 1).await;
            }
            assert!(second.into_vec() == vec![1; first_len]);
            proxy.release();
            assert!(third.await.unwrap().into_vec() == vec![2; LARGE]);
            pair.check().await;
        }
    });
}

fn a_small_memory_that_was_dropped_cuts_its_message(runtime: Runtime) {
    runtime.run(async {
        let pair = pair().await;
        let mut recv = Box::pin(pair.server.recv(vec![0; 4]));
        assert!(polls(recv.as_mut(), 1).await.is_none());
        pair.client.send(b"too long").await.unwrap();
        let (_, next) = join(pair.client.send(b"next"), pair.server.recv(vec![0; 64])).await;
        assert_eq!(next.unwrap().into_vec(), b"next");
        drop(recv);
        let failed = pair.server.recv(vec![0; 64]).await.unwrap_err();
        assert_eq!(failed.completion.unwrap().overflow, 4);
        assert_eq!(failed.buffers.into_single().as_slice(), b"too ");
        pair.check().await;
    });
}

fn a_dropped_send_still_goes_out(runtime: Runtime) {
    runtime.run(async {
        let pair = pair().await;
        let pair = &pair;
        for len in [8, LARGE] {
            for_each_poll(|most| async move {
                let message = vec![most as u8; len];
                let receive = async {
                    let received = pair.server.recv(vec![0; len]).await.unwrap().into_vec();
                    assert_eq!(received, vec![most as u8; len]);
                };
                let send = async { polls(pin!(pair.client.send(message)), most).await.is_some() };
                let done = match most {
                    0 => send.await,
                    1 => {
                        let done = send.await;
                        receive.await;
                        done
                    }
                    // A large one is not polled again before it is received.
                    _ => join(send, receive).await.0,
                };
                pair.check().await;
                done
            })
            .await;
        }
        // More than the sockets hold, however much that is, and more than the queue.
        let message = |number: u64| number.to_le_bytes().repeat(5000);
        let mut count = 0;
        while pair.domain.pending_operations() <= 200 {
            let _ = polls(pin!(pair.client.send(message(count))), 1).await;
            count += 1;
        }
        for number in count..count + 100 {
            let _ = polls(pin!(pair.client.send(message(number))), 1).await;
        }
        for number in 0..count + 100 {
            assert_eq!(pair.server.recv(vec![0; 40_000]).await.unwrap().into_vec(), message(number));
        }
        pair.check().await;
    });
}

fn sends_dropped_before_the_connection_go_out(runtime: Runtime) {
    runtime.run(async {
        let listener = listener();
        let domain = AsyncDomain::open(listener.domain().info()).unwrap();
        let connect = domain.connect(listener.name().unwrap(), b"", None);
        let accept = async {
            let server = listener.accept().await.unwrap();
            for number in 0..3u64 {
                assert!(polls(pin!(server.recv(vec![0; 8])), 1).await.is_none());
                let _ = polls(pin!(server.send(number.to_le_bytes().to_vec())), 1).await;
            }
            server
        };
        let (client, server) = join(connect, accept).await;
        let client = client.unwrap();
        for number in 0..3u64 {
            assert_eq!(client.recv(vec![0; 8]).await.unwrap().into_vec(), number.to_le_bytes());
        }
        AsyncPair { listener, domain, server, client }.check().await;
    });
}

fn a_dropped_connect_closes_its_endpoint(runtime: Runtime) {
    runtime.run(async {
        let listener = listener();
        let domain = AsyncDomain::open(listener.domain().info()).unwrap();
        let (listener, domain) = (&listener, &domain);
        // The listener's side does nothing: the client waits for its answer at its first poll.
        for most in [0, 1] {
            let connect = domain.connect(listener.name().unwrap(), b"dropped", None);
            assert!(polls(pin!(connect), most).await.is_none());
            assert_eq!(domain.pending_operations(), 0);
            if most > 0 {
                // The peer had asked, and is gone.
                let request = listener.next_request().await.unwrap();
                assert_eq!(request.data(), b"dropped");
                let server = request.accept(b"").unwrap();
                let end = server.recv(vec![0; 8]).await.unwrap_err();
                assert!(end.is_end(), "{end}");
                server.ended().await.unwrap();
            }
        }
        // The answer has come, the task is woken, and the future is dropped.
        let mut connect = Box::pin(domain.connect(listener.name().unwrap(), b"", None));
        assert!(polls(connect.as_mut(), 1).await.is_none());
        let server = listener.accept().await.unwrap();
        let _ = polls(pin!(server.recv(vec![0; 8])), 1).await;
        drop(connect);
        server.ended().await.unwrap();
        // Everything still works.
        let (client, server) =
            join(domain.connect(listener.name().unwrap(), b"", None), listener.accept()).await;
        let (client, server) = (client.unwrap(), server.unwrap());
        let pair = AsyncPair { listener: self::listener(), domain: domain.clone(), server, client };
        pair.check().await;
    });
}

fn a_dropped_accept_leaves_the_request(runtime: Runtime) {
    runtime.run(async {
        let listener = listener();
        let (server, sync_listener) = server_at(loopback(), WaitObj::Unspec);
        drop((server, sync_listener));
        let domain = AsyncDomain::open(listener.domain().info()).unwrap();
        let (listener, domain) = (&listener, &domain);
        // Nobody is there yet.
        for most in [0, 1, 1, 1] {
            assert!(polls(pin!(listener.accept()), most).await.is_none());
            assert!(polls(pin!(listener.next_request()), most).await.is_none());
        }
        for_each_poll(|most| async move {
            let mut accept = Box::pin(listener.next_request());
            let before = polls(accept.as_mut(), most.min(1)).await;
            assert!(before.is_none());
            // Two clients ask; how far the listener has got with them is for it to know.
            let mut first = Box::pin(domain.connect(listener.name().unwrap(), b"first", None));
            assert!(polls(first.as_mut(), 1).await.is_none());
            let mut second = Box::pin(domain.connect(listener.name().unwrap(), b"second", None));
            assert!(polls(second.as_mut(), 1).await.is_none());
            let accepted = polls(accept.as_mut(), most.saturating_sub(1)).await;
            let ready = accepted.is_some();
            drop(accept);
            let request = match accepted {
                Some(request) => request,
                None => listener.next_request().await,
            };
            let request = request.unwrap();
            assert_eq!(request.data(), b"first");
            let server = request.accept(b"").unwrap();
            let client = first.await.unwrap();
            let pair = AsyncPair { listener: self::listener(), domain: domain.clone(), server, client };
            pair.check().await;
            let request = listener.next_request().await.unwrap();
            assert_eq!(request.data(), b"second");
            request.reject(b"").unwrap();
            second.await.unwrap_err();
            ready
        })
        .await;
    });
}

fn a_dropped_shutdown_goes_on(runtime: Runtime) {
    runtime.run(async {
        for_each_poll(|most| async move {
            let pair = pair().await;
            // More than the socket takes has to be sent before.
            let _ = polls(pin!(pair.client.send(vec![7; LARGE])), 1).await;
            let shutdown = polls(pin!(pair.client.shutdown()), most).await;
            assert!(shutdown.is_none(), "the message is still to be received");
            if most == 0 {
                assert_eq!(pair.server.recv(vec![0; LARGE]).await.unwrap().into_vec(), vec![7; LARGE]);
                pair.check().await;
                return false;
            }
            let received = pair.server.recv(vec![0; LARGE]).await.unwrap();
            assert_eq!(received.into_vec(), vec![7; LARGE]);
            assert!(pair.server.recv(vec![0; 8]).await.unwrap_err().is_end());
            assert_eq!(pair.server.ended().await.unwrap(), Reason::Peer);
            assert_eq!(pair.client.ended().await.unwrap(), Reason::Local);
            assert_eq!(pair.client.domain().pending_operations(), 0);
            most == 1
        })
        .await;
        // The end has come, the task is woken, and the future is dropped.
        let pair = pair().await;
        let mut shutdown = Box::pin(pair.client.shutdown());
        let _ = polls(shutdown.as_mut(), 1).await;
        pair.server.ended().await.unwrap();
        drop(shutdown);
        assert_eq!(pair.client.ended().await.unwrap(), Reason::Local);
    });
}

fn waiting_for_the_connection_can_be_dropped(runtime: Runtime) {
    runtime.run(async {
        let pair = pair().await;
        for most in [0, 1, 2] {
            let _ = polls(pin!(pair.server.connected()), most).await;
            assert!(polls(pin!(pair.server.ended()), most.min(1)).await.is_none());
            pair.check().await;
        }
        pair.server.connected().await.unwrap();
        let mut ended = Box::pin(pair.server.ended());
        assert!(polls(ended.as_mut(), 1).await.is_none());
        pair.client.shutdown().await.unwrap();
        drop(ended);
        assert_eq!(pair.server.ended().await.unwrap(), Reason::Peer);
    });
}

fn waiting_for_queues_can_be_dropped(runtime: Runtime) {
    let (server, listener) = server_at(loopback(), WaitObj::Fd);
    let client = client_of(&listener, WaitObj::Fd);
    runtime.run(async {
        let endpoint = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
        let endpoint = endpoint.connect(b"").unwrap();
        let Event::ConnectionRequest(request) = server.eq.next_event().await.unwrap() else { panic!() };
        let accepted = server.domain.endpoint_for(&request, &server.eq, &server.cq).unwrap();
        let accepted = accepted.accept(b"").unwrap();
        let Event::Connected { .. } = server.eq.next_event().await.unwrap() else { panic!() };
        let Event::Connected { .. } = client.eq.next_event().await.unwrap() else { panic!() };
        let (server, endpoint, accepted) = (&server, &endpoint, &accepted);
        for most in [0, 1, 1] {
            assert!(polls(pin!(server.eq.next_event()), most).await.is_none());
            assert!(polls(pin!(server.cq.next_completion()), most).await.is_none());
        }
        for_each_poll(|most| async move {
            accepted.recv(vec![0; 8], most as u64).unwrap();
            let mut next = Box::pin(server.cq.next_completion());
            let mut other = Box::pin(server.cq.next_completion());
            assert!(polls(next.as_mut(), most.min(1)).await.is_none());
            assert!(polls(other.as_mut(), 1).await.is_none());
            endpoint.inject(b"message").unwrap();
            let read = polls(next.as_mut(), most.saturating_sub(1)).await;
            let ready = read.is_some();
            drop(next);
            // Whoever still waits is woken.
            let message = match read {
                Some(message) => message,
                None => other.await,
            };
            let message = message.unwrap();
            assert_eq!(message.context, most as u64);
            assert_eq!(message.into_received().unwrap(), b"message");
            ready
        })
        .await;
        let mut next = Box::pin(server.eq.next_event());
        assert!(polls(next.as_mut(), 1).await.is_none());
        endpoint.shutdown().unwrap();
        drop(next);
        let Event::Shutdown { .. } = server.eq.next_event().await.unwrap() else { panic!() };
    });
}

/// Receives come and go at random while messages of all sizes arrive: each comes once, and in order.
fn random_drops_lose_nothing(runtime: Runtime) {
    const MESSAGES: u64 = 400;
    for seed in 0..5 {
        let mut random = fastrand::Rng::with_seed(seed);
        runtime.run(async {
            let pair = pair().await;
            let message = |number: u64| {
                let len = match number % 7 {
                    0 => 300_000,
                    1 => 8,
                    _ => 8 + (number as usize * 37) % 5000,
                };
                let mut bytes = vec![number as u8; len];
                bytes[..8].copy_from_slice(&number.to_le_bytes());
                bytes
            };
            let sender = async {
                let mut random = fastrand::Rng::with_seed(!seed);
                for number in 0..MESSAGES {
                    let send = pair.client.send(message(number));
                    match random.u8(..3) {
                        0 => _ = send.await.unwrap(),
                        _ => _ = polls(pin!(send), 1).await,
                    }
                    if random.bool() {
                        yield_now().await;
                    }
                }
            };
            let receiver = async {
                let mut expected = 0;
                let mut waiting: Vec<Pin<Box<Recv>>> = Vec::new();
                while expected < MESSAGES {
                    let recv = Box::pin(pair.server.recv(vec![0; 300_000]));
                    waiting.push(recv);
                    // Only the first one takes messages, so that their order shows; others wait behind
                    // it, and come and go.
                    for recv in waiting.iter_mut().skip(1) {
                        if random.u8(..4) == 0 && polls(recv.as_mut(), 0).await.is_some() {
                            unreachable!("it was not polled");
                        }
                    }
                    let most = random.usize(..4);
                    let received = polls(waiting[0].as_mut(), most).await;
                    if let Some(received) = received {
                        let bytes = received.unwrap().into_vec();
                        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                        assert_eq!(number, expected, "seed {seed}");
                        assert!(bytes == message(number), "seed {seed}, message {number}");
                        expected += 1;
                        drop(waiting.remove(0));
                    } else if random.bool() {
                        drop(waiting.remove(0));
                    }
                    if waiting.len() > 3 {
                        waiting.truncate(random.usize(..3));
                    }
                    yield_now().await;
                }
            };
            join(sender, receiver).await;
            pair.check().await;
        });
    }
}

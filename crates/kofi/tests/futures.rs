// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Futures: what they do when they are left alone.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::runtime::{Runtime, join, join_all, listener, on_a_thread, pair};
use common::{PATIENCE, alone, client_of, cpu, loopback, server_at};
use kofi::future::ConnectError;
use kofi::{AsyncDomain, AsyncEndpoint, Errno, Event, Message, OpFlags, Reason, WaitObj};

on_each_runtime! {
    a_connection_lives_and_ends
    large_messages_go_both_ways
    many_clients_share_a_listener
    more_is_sent_and_received_than_queues_hold
    memory_of_the_peer_is_read_and_written
    failures_say_why
    a_silent_peer_is_given_up
    queues_are_awaited
    tasks_on_several_threads_share_an_endpoint
    idle_costs_nothing
}

fn a_connection_lives_and_ends(runtime: Runtime) {
    runtime.run(async {
        let pair = pair().await;
        pair.server.connected().await.unwrap();
        pair.check().await;
        // Sends and receives may start before the connection is there, at both ends.
        let connect = AsyncEndpoint::connect(pair.listener.name().unwrap(), b"", None);
        let server = async {
            let server = pair.listener.accept().await.unwrap();
            server.send(b"early").await.unwrap();
            server
        };
        let client = async {
            let client = connect.await.unwrap();
            assert_eq!(client.recv(vec![0; 16]).await.unwrap().into_vec(), b"early");
            client
        };
        let (_, _) = join(server, client).await;
        // Completion data, and a completion level.
        let message = Message {
            buffers: b"acknowledged".into(),
            data: Some(42),
            flags: OpFlags::DELIVERY_COMPLETE,
            ..Message::default()
        };
        let (sent, received) = join(pair.client.send_message(message), pair.server.recv(vec![0; 16])).await;
        assert_eq!(sent.unwrap().into_single().as_slice(), b"acknowledged");
        let received = received.unwrap();
        assert_eq!((received.data, received.into_vec().as_slice()), (Some(42), &b"acknowledged"[..]));
        // The end: all that was sent comes first.
        let sends = join_all((0..10u64).map(|number| pair.client.send(number.to_le_bytes().to_vec())));
        let (sent, ()) = join(sends, async {
            for number in 0..10u64 {
                assert_eq!(pair.server.recv(vec![0; 8]).await.unwrap().into_vec(), number.to_le_bytes());
            }
            let (shutdown, end) = join(pair.client.shutdown(), pair.server.recv(vec![0; 8])).await;
            shutdown.unwrap();
            let failed = end.unwrap_err();
            assert!(failed.is_end(), "{failed}");
            assert_eq!(failed.buffers.total_len(), 8);
        })
        .await;
        assert!(sent.iter().all(Result::is_ok));
        assert_eq!(pair.client.ended().await.unwrap(), Reason::Local);
        assert_eq!(pair.server.ended().await.unwrap(), Reason::Peer);
        // Afterwards everything says so.
        assert!(pair.client.send(b"late").await.unwrap_err().is_end());
        assert!(pair.server.recv(vec![0; 8]).await.unwrap_err().is_end());
        pair.server.shutdown().await.unwrap();
        assert_eq!(pair.client.domain().pending_operations(), 0);
        assert_eq!(pair.server.domain().pending_operations(), 0);
    });
}

fn large_messages_go_both_ways(runtime: Runtime) {
    const LEN: usize = 16 << 20;
    runtime.run(async {
        let pair = pair().await;
        let work = join_all((0..4u8).flat_map(|round| {
            [(&pair.client, &pair.server), (&pair.server, &pair.client)].map(|(from, to)| async move {
                let (sent, received) = join(from.send(vec![round; LEN]), to.recv(vec![0; LEN])).await;
                sent.unwrap();
                assert_eq!(received.unwrap().into_vec(), vec![round; LEN]);
            })
        }));
        work.await;
        pair.check().await;
    });
}

fn many_clients_share_a_listener(runtime: Runtime) {
    const CLIENTS: u64 = 50;
    runtime.run(async {
        let listener = listener();
        let domain = AsyncDomain::open(listener.domain().info()).unwrap();
        let server = async {
            let mut endpoints = Vec::new();
            for _ in 0..CLIENTS {
                endpoints.push(listener.accept().await.unwrap());
            }
            join_all(endpoints.into_iter().map(|endpoint| async move {
                while let Ok(message) = endpoint.recv(vec![0; 64]).await {
                    endpoint.send(message.into_vec()).await.unwrap();
                }
            }))
            .await;
        };
        let clients = join_all((0..CLIENTS).map(|client| {
            let (domain, addr) = (domain.clone(), listener.name().unwrap());
            async move {
                let endpoint = domain.connect(addr, b"", PATIENCE).await.unwrap();
                for number in 0..20u64 {
                    let message = [client.to_le_bytes(), number.to_le_bytes()].concat();
                    endpoint.send(message.clone()).await.unwrap();
                    assert_eq!(endpoint.recv(vec![0; 64]).await.unwrap().into_vec(), message);
                }
                endpoint.shutdown().await.unwrap();
            }
        }));
        join(server, clients).await;
        assert_eq!(domain.pending_operations(), 0);
    });
}

fn more_is_sent_and_received_than_queues_hold(runtime: Runtime) {
    const COUNT: u64 = 2000;
    runtime.run(async {
        let pair = pair().await;
        let size = pair.domain.info().tx_attr.size as u64;
        assert!(size < COUNT, "{size}");
        let sends = join_all((0..COUNT).map(|number| pair.client.send(number.to_le_bytes().to_vec())));
        let receives = join_all((0..COUNT).map(|_| pair.server.recv(vec![0; 8])));
        let (sent, received) = join(sends, receives).await;
        assert!(sent.iter().all(Result::is_ok));
        for (number, message) in (0..COUNT).zip(received) {
            assert_eq!(message.unwrap().into_vec(), number.to_le_bytes());
        }
        pair.check().await;
    });
}

/// Remote memory, in one order with messages; dropped, an access goes on.
fn memory_of_the_peer_is_read_and_written(runtime: Runtime) {
    const LEN: usize = 4 << 20;
    runtime.run(async {
        let pair = pair().await;
        let access = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
        let region = pair.server.domain().domain().register(vec![1; LEN], access, 5).unwrap();
        let (addr, key) = (region.address(), region.key());
        assert_eq!(
            pair.client.read(vec![0; LEN], addr, key).await.unwrap().into_single().as_slice(),
            [1; LEN]
        );
        assert_eq!(pair.client.write(vec![2; LEN], addr, key).await.unwrap().total_len(), LEN);
        let written = pair.client.write(vec![3; 8], addr + 8, key);
        let _ = common::runtime::polls(std::pin::pin!(written), 1).await;
        let read = pair.client.read(vec![0; LEN], addr, key);
        let _ = common::runtime::polls(std::pin::pin!(read), 1).await;
        // A message behind them comes behind them.
        let (sent, received) = join(pair.client.send(b"done"), pair.server.recv(vec![0; 8])).await;
        sent.unwrap();
        assert_eq!(received.unwrap().into_vec(), b"done");
        let mut bytes = [0; 24];
        region.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2]);
        while pair.domain.pending_operations() > 0 {
            pair.client.read(vec![0; 8], addr, key).await.unwrap();
        }
        pair.check().await;
        // Beyond its end: the access fails, and with it the connection.
        let failed = pair.client.read(vec![0; 8], addr + LEN as u64, key).await.unwrap_err();
        assert!(failed.is_end(), "{failed}");
        assert_eq!(failed.buffers.total_len(), 8);
    });
}

fn failures_say_why(runtime: Runtime) {
    runtime.run(async {
        let pair = pair().await;
        // Too long for the memory: the memory comes back, and the connection goes on.
        let (_, received) = join(pair.client.send(vec![1; 100]), pair.server.recv(vec![0; 10])).await;
        let failed = received.unwrap_err();
        assert_eq!(failed.error.errno(), Errno::ETRUNC);
        assert_eq!(failed.completion.unwrap().overflow, 90);
        assert_eq!(failed.buffers.into_single().as_slice(), [1; 10]);
        pair.check().await;
        // Not even posted.
        let shared: std::sync::Arc<[u8]> = vec![0; 8].into();
        let failed = pair.server.recv(shared.clone()).await.unwrap_err();
        assert_eq!((failed.error.errno(), failed.buffers.total_len()), (Errno::EINVAL, 8));
        let five = (0..5).map(|_| vec![0; 8]).collect::<kofi::Buffers>();
        let failed = pair.client.send(five).await.unwrap_err();
        assert_eq!((failed.error.errno(), failed.buffers.total_len()), (Errno::EINVAL, 40));
        pair.check().await;
        // Rejected, with the reason of the application.
        let connect = pair.domain.connect(pair.listener.name().unwrap(), b"may I?", None);
        let reject = async { pair.listener.next_request().await.unwrap().reject(b"no") };
        let (connected, rejected) = join(connect, reject).await;
        rejected.unwrap();
        match connected.unwrap_err() {
            ConnectError::Failed { reason: Reason::Rejected, data } => assert_eq!(data, b"no"),
            other => panic!("{other:?}"),
        }
        // Nobody listens there.
        let nobody = std::net::TcpListener::bind(loopback()).unwrap().local_addr().unwrap();
        let error: kofi::Error = AsyncEndpoint::connect(nobody, b"", None).await.unwrap_err().into();
        assert_eq!(error.errno(), Errno::ECONNREFUSED);
        // Too much private data is refused at once.
        let error = AsyncEndpoint::connect(nobody, vec![0; 257], None).await.unwrap_err();
        assert!(matches!(error, ConnectError::Refused(_)));
        // The peer vanishes: receives end.
        let (end, ()) = join(pair.server.recv(vec![0; 8]), async { drop((pair.client, pair.domain)) }).await;
        assert!(end.unwrap_err().is_end());
    });
}

fn a_silent_peer_is_given_up(runtime: Runtime) {
    let silent = std::net::TcpListener::bind(loopback()).unwrap();
    let limit = Duration::from_millis(50);
    let start = Instant::now();
    runtime.run(async {
        let connect = AsyncEndpoint::connect(silent.local_addr().unwrap(), b"", limit);
        match connect.await.unwrap_err() {
            ConnectError::Failed { reason: Reason::ConnectTimeout(time), .. } => assert_eq!(time, limit),
            other => panic!("{other:?}"),
        }
    });
    assert!(start.elapsed() >= limit);
}

/// The lower level: queues of objects that the program opened itself.
fn queues_are_awaited(runtime: Runtime) {
    let (server, listener) = server_at(loopback(), WaitObj::Fd);
    let client = client_of(&listener, WaitObj::PollFd);
    runtime.run(async {
        let endpoint = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
        let endpoint = endpoint.connect(b"").unwrap();
        let Event::ConnectionRequest(request) = server.eq.next_event().await.unwrap() else { panic!() };
        let accepted = server.domain.endpoint_for(&request, &server.eq, &server.cq).unwrap();
        accepted.recv(vec![0; 8], 1).unwrap();
        let accepted = accepted.accept(b"").unwrap();
        let (event, ()) = join(client.eq.next_event(), async {
            let Event::Connected { .. } = server.eq.next_event().await.unwrap() else { panic!() };
        })
        .await;
        let Event::Connected { .. } = event.unwrap() else { panic!() };
        let (message, ()) = join(server.cq.next_completion(), async {
            endpoint.send(b"message", 2).unwrap();
            assert_eq!(client.cq.next_completion().await.unwrap().context, 2);
        })
        .await;
        assert_eq!(message.unwrap().into_received().unwrap(), b"message");
        // Error entries are completions and events, too.
        accepted.recv(vec![0; 8], 3).unwrap();
        accepted.cancel(3).unwrap();
        assert!(server.cq.next_completion().await.unwrap().error.is_some());
        let nobody = std::net::TcpListener::bind(loopback()).unwrap().local_addr().unwrap();
        let failing = client.domain.endpoint(&client.info, &client.eq, &client.cq).unwrap();
        let _failing = failing.connect_to(nobody, b"").unwrap();
        let Event::Failed { .. } = client.eq.next_event().await.unwrap() else { panic!() };
    });
    let (other, _listener) = server_at(loopback(), WaitObj::MutexCond);
    let error = runtime.run(other.eq.next_event()).unwrap_err();
    assert_eq!(error.errno(), Errno::ENOSYS);
}

/// Threads with a runtime of their own each wait for the same endpoint; each message comes once.
fn tasks_on_several_threads_share_an_endpoint(runtime: Runtime) {
    const MESSAGES: usize = 500;
    const THREADS: usize = 3;
    // The connection's runtime goes on while the threads have theirs.
    runtime.run(async {
        let pair = pair().await;
        let readers = (0..THREADS).map(|_| {
            let server = pair.server.clone();
            on_a_thread(move || {
                kofi::block_on(async {
                    let mut seen = Vec::new();
                    while let Ok(message) = server.recv(vec![0; 8]).await {
                        seen.push(u64::from_le_bytes(message.into_vec().try_into().unwrap()));
                    }
                    seen
                })
            })
        });
        let readers: Vec<_> = readers.collect();
        let client = pair.client.clone();
        let sender = on_a_thread(move || {
            kofi::block_on(async {
                for number in 0..MESSAGES as u64 {
                    client.send(number.to_le_bytes().to_vec()).await.unwrap();
                }
                client.shutdown().await.unwrap();
            });
        });
        let (parts, ()) = join(join_all(readers), sender).await;
        assert!(parts.iter().all(|part| part.is_sorted()));
        let mut seen = parts.concat();
        seen.sort_unstable();
        assert_eq!(seen, (0..MESSAGES as u64).collect::<Vec<_>>());
    });
}

/// Waiting takes no processor time, on any runtime, and ends at once.
fn idle_costs_nothing(runtime: Runtime) {
    let module = match runtime {
        Runtime::BlockOn => "block_on",
        #[cfg(feature = "tokio")]
        Runtime::Tokio => "tokio",
        #[cfg(feature = "tokio")]
        Runtime::TokioThreads => "tokio_threads",
        #[cfg(feature = "async-io")]
        Runtime::AsyncIo => "async_io",
    };
    if !alone(&format!("{module}::idle_costs_nothing")) {
        return;
    }
    let time = Duration::from_millis(500);
    runtime.run(async {
        let pair = pair().await;
        pair.check().await;
        let client = pair.client.clone();
        let sender = std::thread::spawn(move || {
            // A moment until the others wait.
            std::thread::sleep(Duration::from_millis(100));
            let before = cpu();
            std::thread::sleep(time);
            let used = cpu() - before;
            kofi::block_on(client.send(b"wake up")).unwrap();
            used
        });
        let mut accept = std::pin::pin!(pair.listener.accept());
        assert!(common::runtime::polls(accept.as_mut(), 1).await.is_none());
        assert_eq!(pair.server.recv(vec![0; 8]).await.unwrap().into_vec(), b"wake up");
        let used = sender.join().unwrap();
        assert!(used < Duration::from_millis(30), "{used:?} of processor time in {time:?}");
    });
}

/// A future that nobody would wake says so instead of hanging.
#[test]
#[cfg(not(any(feature = "tokio", feature = "async-io")))]
fn without_a_runtime_there_is_an_error() {
    use std::task::{Context, Poll, Waker};
    let listener = listener();
    let mut accept = std::pin::pin!(listener.accept());
    let Poll::Ready(result) = accept.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it waits")
    };
    assert!(result.unwrap_err().to_string().contains("kofi::block_on"));
}

/// The same when the runtime goes away.
#[test]
#[cfg(feature = "tokio")]
fn a_runtime_that_is_gone_is_an_error() {
    let runtime = Runtime::Tokio;
    let pair = runtime.run(async {
        let pair = pair().await;
        pair.check().await;
        pair
    });
    let failed = runtime.run(async { pair.server.recv(vec![0; 8]).await.unwrap_err() });
    assert!(!failed.is_end(), "{failed}");
    assert!(runtime.run(async { pair.client.ended().await }).is_err());
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! B3: the data path.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kofi::{
    AsyncEndpoint, AsyncListener, CompletionQueue, CqAttr, Endpoint, Errno, Event, Hints, Message, OpFlags,
    Queues, WaitObj,
};

use crate::common::{PATIENCE, Pair, cpu, loopback, next, pair, pair_with, say, server_at, side};
use crate::kit::{End, Lag, Part, completion, events_for, part, pattern, pieces, role, same, transfer};

fn ends<'a>(pair: &'a Pair, endpoints: &'a (Endpoint, Endpoint)) -> (End<'a>, End<'a>) {
    (End(&endpoints.0, &pair.server.cq), End(&endpoints.1, &pair.client.cq))
}

#[track_caller]
fn quiet(cq: &CompletionQueue) {
    assert_eq!(cq.poll().unwrap_err().errno(), Errno::EAGAIN);
}

#[test]
fn bug_22_truncation() {
    own_process!();
    const MESSAGES: [(usize, usize); 9] = [
        (16, 100),
        (100, 100),
        (4096, 100),
        (1000, 1 << 20),
        (5000, 1000),
        (5000, 1001),
        (5000, 1002),
        (5000, 1003),
        (5000, 1004),
    ];
    for (scattered, late) in [(false, false), (false, true), (true, false), (true, true)] {
        let pair = pair();
        let endpoints = pair.connect();
        let (server, client) = ends(&pair, &endpoints);
        for (context, (room, len)) in (1..).zip(MESSAGES) {
            let bytes = pattern(context, len);
            let post = || {
                let buffers = if scattered { pieces(room) } else { vec![0; room].into() };
                server.0.recv(buffers, context).unwrap();
            };
            if !late {
                post();
            }
            client.0.send(bytes.clone(), context).unwrap();
            if late {
                // It arrives, and is kept, or stays where it is.
                assert!(
                    events_for(&pair.server.eq, &[&pair.client.eq], Duration::from_millis(20)).is_empty()
                );
                quiet(server.1);
                post();
            }
            let received = completion(server.1, &[client.1]);
            assert_eq!(received.context, context);
            assert_eq!(received.buffers.total_len(), room);
            let whole = received.buffers.clone().into_single();
            same(&whole[..room.min(len)], &bytes[..room.min(len)], "what had room");
            assert!(whole[room.min(len)..].iter().all(|byte| *byte == 0), "written behind the message");
            match &received.error {
                None => assert!(len <= room && received.len == len),
                Some(error) => {
                    assert!(len > room);
                    assert_eq!((error.errno, error.context), (Errno::ETRUNC, context));
                    assert_eq!((error.overflow, error.len), ((len - room) as u64, room as u64));
                }
            }
            let sent = completion(client.1, &[server.1]).ok().unwrap();
            assert_eq!(sent.context, context);
            assert!(pair.server.eq.read().is_err() && pair.client.eq.read().is_err());
        }
        transfer(server, client, 100, 77);
        transfer(client, server, 100, 78);
        assert!(events_for(&pair.server.eq, &[&pair.client.eq], Duration::from_millis(20)).is_empty());
        assert!(events_for(&pair.client.eq, &[&pair.server.eq], Duration::from_millis(20)).is_empty());
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Op {
    Send,
    SendMsg,
    SendMsgCompletion,
    Inject,
    InjectData,
    InjectWriteData,
}

fn inject_matrix(selective: bool) {
    const DATA: u64 = 0xa5a5_a5a5_a5a5_a5a5;
    const REGION: usize = 256;
    let pair = pair();
    let queues = Queues::new(&pair.client.cq, &pair.client.cq);
    let queues = if selective { queues.selective() } else { queues };
    let client = pair.client.domain.endpoint(&pair.client.info, &pair.client.eq, queues).unwrap();
    let client = client.connect(b"").unwrap();
    let Event::ConnectionRequest(request) = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let server = pair.server.domain.endpoint_for(&request, &pair.server.eq, &pair.server.cq).unwrap();
    let server = server.accept(b"").unwrap();
    let Event::Connected { .. } = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let Event::Connected { .. } = next(&pair.client.eq, &[&pair.server.eq]) else { panic!() };
    assert_eq!(pair.client.info.domain_attr.cq_data_size, 8, "all of the data travels");
    let most = pair.client.info.tx_attr.inject_size;
    let region = pair
        .server
        .domain
        .register(vec![0; REGION], OpFlags::REMOTE_WRITE | OpFlags::REMOTE_READ, 99)
        .unwrap();
    let (scq, ccq) = (&pair.server.cq, &pair.client.cq);

    for op in [Op::Send, Op::SendMsg, Op::SendMsgCompletion, Op::Inject, Op::InjectData, Op::InjectWriteData]
    {
        for len in [0, 1, most] {
            let mut bytes = pattern(len as u64, len);
            let original = bytes.clone();
            let write = op == Op::InjectWriteData;
            if !write {
                server.recv(vec![0; REGION], 9).unwrap();
            }
            let message = |flags| Message { buffers: original.clone().into(), context: 5, flags, data: None };
            match op {
                Op::Send => client.send(bytes.clone(), 5).unwrap(),
                Op::SendMsg => client.sendmsg(message(OpFlags::empty())).unwrap(),
                Op::SendMsgCompletion => client.sendmsg(message(OpFlags::COMPLETION)).unwrap(),
                Op::Inject => client.inject(&bytes).unwrap(),
                Op::InjectData => client.injectdata(&bytes, DATA).unwrap(),
                Op::InjectWriteData => {
                    client.inject_writedata(&bytes, DATA, region.address(), region.key()).unwrap();
                }
            }
            // It is ours again.
            bytes.fill(0xff);
            let arrived = completion(scq, &[ccq]).ok().unwrap();
            let data = matches!(op, Op::InjectData | Op::InjectWriteData).then_some(DATA);
            assert_eq!((arrived.data, arrived.len), (data, len), "{op:?}");
            assert_eq!(arrived.flags.contains(OpFlags::REMOTE_CQ_DATA), data.is_some(), "{op:?}");
            if write {
                assert!(arrived.flags.contains(OpFlags::REMOTE_WRITE));
                let mut written = vec![0; len];
                region.read(0, &mut written).unwrap();
                same(&written, &original, "written");
            } else {
                assert_eq!(arrived.context, 9);
                same(&arrived.into_received().unwrap(), &original, "received");
            }
            // Where it was sent: each success that is to be told of, and no other.
            let told = match op {
                Op::Send | Op::SendMsg => !selective,
                Op::SendMsgCompletion => true,
                Op::Inject | Op::InjectData | Op::InjectWriteData => false,
            };
            if told {
                let sent = completion(ccq, &[scq]).ok().unwrap();
                assert_eq!(sent.context, 5, "{op:?}");
            }
            for _ in 0..20 {
                quiet(ccq);
                quiet(scq);
            }
        }
    }
    let refused = client.inject(&vec![0; most + 1]).unwrap_err();
    assert_eq!(refused.errno(), Errno::EMSGSIZE);
    // Errors are always told of: what is pending at the end, and what comes later.
    client.recv(vec![0; 8], 6).unwrap();
    client.shutdown().unwrap();
    let cancelled = completion(ccq, &[scq]);
    assert_eq!((cancelled.context, cancelled.error.unwrap().errno), (6, Errno::ECANCELED));
    let late = client.send(b"late", 7).unwrap_err();
    assert_eq!(late.error.errno(), Errno::ESHUTDOWN);
    assert_eq!(client.inject(b"late").unwrap_err().errno(), Errno::ESHUTDOWN);
    quiet(ccq);
}

#[test]
fn bug_23_inject_and_selective() {
    own_process!();
    inject_matrix(false);
    inject_matrix(true);
}

/// What the system could give, in bytes.
fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn bug_24_big_two_way() {
    own_process!();
    const COUNT: u64 = 8;
    const SIZE: usize = 64 << 20;
    if available() < 3 << 30 {
        return say("BUG-24 is not run: it needs 3 GiB of memory");
    }
    let pair = pair();
    let endpoints = pair.connect();
    let (server, client) = ends(&pair, &endpoints);
    for (end, salt) in [(server, 0), (client, 100)] {
        for i in 0..COUNT {
            end.0.recv(vec![0; SIZE], i).unwrap();
            // Shared memory: half of it is enough.
            end.0.send(Arc::<[u8]>::from(pattern(salt + i, SIZE)), i).unwrap();
        }
    }
    let start = Instant::now();
    let (mut sent, mut received) = ([0, 0], [0, 0]);
    while sent.iter().chain(&received).sum::<u64>() < 4 * COUNT {
        for (i, (end, salt)) in [(server, 100), (client, 0)].into_iter().enumerate() {
            let done = match end.1.poll() {
                Ok(done) => done.ok().unwrap(),
                Err(error) => {
                    assert!(error.is_again(), "{error}");
                    continue;
                }
            };
            if done.is_receive() {
                // In order, and whole.
                assert_eq!((done.context, done.len), (received[i], SIZE));
                same(&done.into_buffer(), &pattern(salt + received[i], SIZE), "big message");
                received[i] += 1;
            } else {
                assert_eq!(done.context, sent[i]);
                sent[i] += 1;
            }
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{sent:?} sent, {received:?} received");
    }
    if available() > 8 << 30 {
        let len = (2 << 30) + (1 << 20) + 3;
        let bytes = Arc::<[u8]>::from(pattern(5, len));
        server.0.recv(vec![0; len], 1).unwrap();
        client.0.send(bytes.clone(), 2).unwrap();
        let start = Instant::now();
        let received = loop {
            match server.1.poll() {
                Ok(done) => break done.ok().unwrap(),
                Err(error) => assert!(error.is_again(), "{error}"),
            }
            client.1.progress();
            assert!(start.elapsed() < Duration::from_secs(60), "2 GiB do not arrive");
        };
        assert_eq!((received.len, received.context), (len, 1));
        same(&received.into_buffer(), &bytes, "more than 2 GiB");
        assert_eq!(completion(client.1, &[server.1]).ok().unwrap().context, 2);
    }
    // No vector is longer than what is offered: an endpoint that was asked to take less says so.
    let mut info = pair.client.info.clone();
    info.ep_attr.max_msg_size = 1000;
    let small = pair.client.domain.endpoint(&info, &pair.client.eq, &pair.client.cq).unwrap();
    let small = small.connect(b"").unwrap();
    let Event::ConnectionRequest(request) = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let other = pair.server.domain.endpoint_for(&request, &pair.server.eq, &pair.server.cq).unwrap();
    let other = other.accept(b"").unwrap();
    let Event::Connected { .. } = next(&pair.server.eq, &[&pair.client.eq]) else { panic!() };
    let Event::Connected { .. } = next(&pair.client.eq, &[&pair.server.eq]) else { panic!() };
    let refused = small.send(vec![7; 1001], 3).unwrap_err();
    assert_eq!((refused.error.errno(), refused.buffers.total_len()), (Errno::EMSGSIZE, 1001));
    transfer(End(&small, client.1), End(&other, server.1), 1000, 4);
}

/// Lengths from 1 byte to 1 MiB, small ones far more often.
fn lengths(seed: u64, count: usize) -> impl Iterator<Item = usize> {
    let mut random = seed;
    (0..count).map(move |_| {
        let mut draw = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let bits = draw() % 21;
        1 + (draw() % (1 << bits)) as usize
    })
}

#[test]
fn bug_25_threads() {
    own_process!();
    const THREADS: u64 = 8;
    const MESSAGES: usize = 1000;
    let done = AtomicBool::new(false);
    let queues: Mutex<Vec<CompletionQueue>> = Mutex::default();
    std::thread::scope(|scope| {
        let infos = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                let hints = Hints::new().provider("tcp").dest(([127, 0, 0, 1], 7777));
                assert!(!kofi::getinfo(hints).unwrap().is_empty());
                count += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            count
        });
        let trywaits = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                for cq in queues.lock().unwrap().clone() {
                    match cq.try_wait() {
                        Ok(()) => {}
                        Err(error) => assert_eq!(error.errno(), Errno::EAGAIN),
                    }
                    count += 1;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            count
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|id| {
                let queues = &queues;
                scope.spawn(move || {
                    let pair = pair_with(WaitObj::Fd);
                    queues.lock().unwrap().push(pair.client.cq.clone());
                    let endpoints = pair.connect();
                    let (server, client) = ends(&pair, &endpoints);
                    for (i, len) in (0u64..).zip(lengths(id + 1, MESSAGES)) {
                        match i % 2 {
                            0 => transfer(client, server, len, i),
                            _ => transfer(server, client, len, i),
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.store(true, Ordering::Relaxed);
        assert!(infos.join().unwrap() > 0 && trywaits.join().unwrap() > 0);
    });
    one_endpoint_for_many_threads();
}

/// Four threads send on one endpoint, while two read its queue.
fn one_endpoint_for_many_threads() {
    const SENDERS: u32 = 4;
    const MESSAGES: u32 = 1000;
    const WINDOW: u64 = 32;
    let pair = pair();
    let (server, client) = pair.connect();
    let (client, cq) = (&client, &pair.client.cq);
    let completed = AtomicU32::new(0);
    let letter = |who: u32, number: u32| {
        let mut bytes = vec![(who * 31 + number) as u8; 512];
        bytes[..4].copy_from_slice(&who.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    (0..WINDOW).for_each(|_| server.recv(vec![0; 512], 0).unwrap());
    std::thread::scope(|scope| {
        for who in 0..SENDERS {
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    let mut bytes = letter(who, number).into();
                    while let Err(refused) = client.send(bytes, who.into()) {
                        assert!(refused.error.is_again(), "{}", refused.error);
                        bytes = refused.buffers;
                        std::thread::yield_now();
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while completed.load(Ordering::SeqCst) < SENDERS * MESSAGES {
                    match cq.poll() {
                        Ok(done) => {
                            assert!(!done.ok().unwrap().is_receive());
                            completed.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => assert!(error.is_again(), "{error}"),
                    }
                    std::thread::yield_now();
                }
            });
        }
        let mut numbers = [0; SENDERS as usize];
        for _ in 0..SENDERS * MESSAGES {
            let bytes = pair.server.cq.wait(PATIENCE).unwrap().into_received().unwrap();
            let who = u32::from_le_bytes(bytes[..4].try_into().unwrap());
            let number = &mut numbers[who as usize];
            assert_eq!(bytes, letter(who, *number), "the order of one thread");
            *number += 1;
            server.recv(bytes, 0).unwrap();
        }
    });
    assert_eq!(completed.into_inner(), SENDERS * MESSAGES);
}

fn poll(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout)).unwrap() > 0
}

/// The next completion, waited for by the descriptor only.
#[track_caller]
fn by_descriptor(cq: &CompletionQueue) -> kofi::Completion {
    loop {
        match cq.poll() {
            Ok(done) => return done.ok().unwrap(),
            Err(error) => assert!(error.is_again(), "{error}"),
        }
        match cq.try_wait() {
            Ok(()) => assert!(poll(cq.fd().unwrap(), PATIENCE), "a wake-up was lost"),
            Err(error) => assert!(error.is_again(), "{error}"),
        }
    }
}

/// Five seconds in which nothing happens, for readers of both sides.
fn idle(pair: &Pair) {
    const TIME: Duration = Duration::from_secs(5);
    let before = cpu();
    std::thread::scope(|scope| {
        for cq in [&pair.server.cq, &pair.client.cq] {
            scope.spawn(move || {
                let start = Instant::now();
                assert_eq!(cq.sread(TIME).unwrap_err().errno(), Errno::EAGAIN);
                assert!(start.elapsed() >= TIME);
            });
        }
    });
    let used = cpu() - before;
    assert!(used < Duration::from_millis(50), "{used:?} of processor time in 5 s");
}

#[test]
fn bug_26_idle_and_wake_up() {
    own_process!();
    // (a)
    let quiet_pair = pair();
    let endpoints = quiet_pair.connect();
    let (server, client) = ends(&quiet_pair, &endpoints);
    (0..100).for_each(|i| {
        if i % 2 == 0 { transfer(client, server, 200, i) } else { transfer(server, client, 200, i) }
    });
    idle(&quiet_pair);
    // (d)
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let result = client.1.sread(PATIENCE);
            (result.map(drop), Instant::now())
        });
        std::thread::sleep(Duration::from_millis(300));
        let signal = Instant::now();
        let ((result, woken), lag) = Lag::during(|| {
            client.1.signal().unwrap();
            reader.join().unwrap()
        });
        assert_eq!(result.unwrap_err().errno(), Errno::EAGAIN);
        let took = woken - signal;
        assert!(took < Duration::from_millis(100) + 3 * lag, "{took:?}, and the lag is {lag:?}");
    });
    // (c)
    client.0.shutdown().unwrap();
    let Event::Shutdown { .. } = next(&quiet_pair.server.eq, &[&quiet_pair.client.eq]) else { panic!() };
    let Event::Shutdown { .. } = next(&quiet_pair.client.eq, &[&quiet_pair.server.eq]) else { panic!() };
    idle(&quiet_pair);

    // (b)
    const PINGS: u64 = 10_000;
    let pair = pair_with(WaitObj::Fd);
    let endpoints = pair.connect();
    let (server, client) = ends(&pair, &endpoints);
    for _ in 0..200 {
        quiet(client.1);
        if client.1.try_wait().is_ok() {
            assert!(!poll(client.1.fd().unwrap(), Duration::ZERO), "to be slept on, and readable");
        }
    }
    std::thread::scope(|scope| {
        for (end, first) in [(server, false), (client, true)] {
            scope.spawn(move || {
                for i in 0..PINGS {
                    end.0.recv(vec![0; 64], i).unwrap();
                    if first {
                        end.0.send(vec![1; 64], i).unwrap();
                        let (one, two) = (by_descriptor(end.1), by_descriptor(end.1));
                        assert!(one.is_receive() != two.is_receive());
                    } else {
                        assert!(by_descriptor(end.1).is_receive());
                        end.0.send(vec![1; 64], i).unwrap();
                        assert!(!by_descriptor(end.1).is_receive());
                    }
                }
            });
        }
    });
    // (e)
    (0..3).for_each(|i| server.0.recv(vec![0; 64], i).unwrap());
    (0..3).for_each(|i| client.0.send(vec![2; 64], i).unwrap());
    for _ in 0..3 {
        assert!(!by_descriptor(client.1).is_receive());
    }
    for i in 0..3 {
        assert_eq!(by_descriptor(server.1).context, i);
    }
    // (b) with remote memory: only its descriptor wakes the target, which waits without an end.
    const LEN: usize = 1 << 20;
    let access = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
    let region = pair.server.domain.register(vec![0; LEN], access, 5).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                quiet(server.1);
                if server.1.try_wait().is_ok() && !done.load(Ordering::SeqCst) {
                    assert!(poll(server.1.fd().unwrap(), PATIENCE), "the target was not woken");
                }
            }
        });
        for round in 0..50 {
            let bytes = pattern(round, LEN);
            client.0.write(bytes.clone(), region.address(), region.key(), 1).unwrap();
            assert_eq!(by_descriptor(client.1).context, 1);
            client.0.read(vec![0; LEN], region.address(), region.key(), 2).unwrap();
            same(&by_descriptor(client.1).into_buffer(), &bytes, "remote memory");
        }
        done.store(true, Ordering::SeqCst);
        server.1.signal().unwrap();
    });
    futures_that_wait_cost_nothing();
}

/// The same for futures: one that waits costs nothing, and is woken by what comes.
fn futures_that_wait_cost_nothing() {
    let listener = AsyncListener::bind(loopback()).unwrap();
    let addr = listener.name().unwrap();
    let client = std::thread::spawn(move || {
        kofi::block_on(async move {
            let endpoint = AsyncEndpoint::connect(addr, b"", None).await.unwrap();
            let received = endpoint.recv(vec![0; 8]).await.unwrap();
            let before = cpu();
            let second = endpoint.recv(vec![0; 8]).await.unwrap();
            (received.len, second.len, cpu() - before)
        })
    });
    let server = kofi::block_on(async {
        let server = listener.accept().await.unwrap();
        server.send(b"one").await.unwrap();
        server
    });
    std::thread::sleep(Duration::from_secs(5));
    kofi::block_on(server.send(b"second")).unwrap();
    let (one, second, used) = client.join().unwrap();
    assert_eq!((one, second), (3, 6));
    assert!(used < Duration::from_millis(50), "{used:?} of processor time in 5 s");
}

/// Not a test by itself: a peer that either answers, or connects and never calls in again.
#[test]
fn peer() {
    let Some(role) = role() else { return };
    let (letter, dest) = role.split_once(' ').unwrap();
    let dest: std::net::SocketAddr = dest.parse().unwrap();
    let info = kofi::getinfo(Hints::new().provider("tcp").dest(dest)).unwrap().remove(0);
    let side = side(info, WaitObj::Unspec);
    let _region = side.domain.register(vec![7; 65536], OpFlags::REMOTE_READ, 5).unwrap();
    let endpoint = side.domain.endpoint(&side.info, &side.eq, &side.cq).unwrap();
    let endpoint = endpoint.connect(letter.as_bytes()).unwrap();
    let Event::Connected { .. } = side.eq.wait(PATIENCE).unwrap() else { panic!() };
    loop {
        if letter == "B" {
            std::thread::park();
            continue;
        }
        endpoint.recv(vec![0; 128], 1).unwrap();
        let bytes = loop {
            let done = side.cq.wait(None).unwrap();
            if done.is_receive() {
                break done.into_received().unwrap();
            }
        };
        endpoint.send(bytes, 2).unwrap();
    }
}

#[test]
fn bug_27_peer_killed() {
    own_process!();
    const COUNT: u64 = 8;
    const LEN: usize = 4 << 20;
    // A handler in place of the default, which would end the process: it is to see nothing.
    let pipe = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(nix::sys::signal::Signal::SIGPIPE as i32, pipe.clone()).unwrap();
    let (server, listener) = server_at(loopback(), WaitObj::Unspec);
    let addr = listener.name().unwrap().socket_addr().unwrap();
    let start = |letter: &str| {
        let mut command = part("data::peer", &format!("{letter} {addr}"));
        Part(command.stdout(Stdio::null()).spawn().unwrap())
    };
    let (mut dying, _living) = (start("B"), start("C"));
    let b_queue = server.domain.completion_queue(CqAttr::default()).unwrap();
    let (mut b, mut c, mut connected) = (None, None, 0);
    while connected < 2 {
        match server.eq.wait(PATIENCE).unwrap() {
            Event::ConnectionRequest(request) => {
                let (place, cq) = match request.data() {
                    b"B" => (&mut b, &b_queue),
                    _ => (&mut c, &server.cq),
                };
                let endpoint = server.domain.endpoint_for(&request, &server.eq, cq).unwrap();
                *place = Some(endpoint.accept(b"").unwrap());
            }
            Event::Connected { .. } => connected += 1,
            other => panic!("{other:?}"),
        }
    }
    let (b, c) = (b.unwrap(), c.unwrap());
    let echo = |seed| {
        let bytes = pattern(seed, 100);
        c.recv(vec![0; 128], 1).unwrap();
        c.send(bytes.clone(), 2).unwrap();
        let mut got = None;
        for _ in 0..2 {
            let done = server.cq.wait(PATIENCE).unwrap().ok().unwrap();
            if done.is_receive() {
                got = Some(done.into_received().unwrap());
            }
        }
        same(&got.unwrap(), &bytes, "the other connection");
    };
    echo(1);
    for i in 0..COUNT {
        b.recv(vec![0; LEN], i).unwrap();
        b.send(vec![i as u8; LEN], COUNT + i).unwrap();
    }
    b.read(vec![0; 1000], 0, 5, 2 * COUNT).unwrap();
    // What the system takes is on its way.
    let mut seen = HashSet::new();
    let mut complete = |done: kofi::Completion| {
        assert!(seen.insert(done.context), "operation {} twice", done.context);
        assert!(done.context <= 2 * COUNT);
        if done.context < COUNT || done.context == 2 * COUNT {
            assert!(done.error.is_some(), "from a peer that said nothing");
        }
        let len = if done.context == 2 * COUNT { 1000 } else { LEN };
        assert_eq!(done.buffers.total_len(), len, "its memory comes back");
    };
    while let Ok(done) = b_queue.wait(Duration::from_millis(100)) {
        complete(done);
    }
    dying.0.kill().unwrap();
    dying.0.wait().unwrap();
    let killed = Instant::now();
    match server.eq.wait(PATIENCE).unwrap() {
        Event::Shutdown { endpoint, .. } => assert_eq!(endpoint, b.fid()),
        other => panic!("{other:?}"),
    }
    let told = killed.elapsed();
    assert!(told < Duration::from_secs(2), "told after {told:?}");
    // Decision D11: all operations are complete before.
    while let Ok(done) = b_queue.poll() {
        complete(done);
    }
    assert_eq!(seen.len() as u64, 2 * COUNT + 1, "each operation completes");
    assert!(events_for(&server.eq, &[], Duration::from_millis(500)).is_empty(), "one event");
    quiet(&b_queue);
    assert_eq!(b.send(b"late", 0).unwrap_err().error.errno(), Errno::ESHUTDOWN);
    echo(2);
    let start = Instant::now();
    b.close();
    assert!(start.elapsed() < Duration::from_secs(2));
    echo(3);
    assert!(!pipe.load(Ordering::SeqCst), "SIGPIPE");
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Once all is set up, operations allocate nothing, at either side, however their ends are waited for.

#![allow(clippy::unwrap_used)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{PATIENCE, Pair, pair};
use kofi::{
    Buf, Completion, CompletionQueue, Counter, CqEntry, Endpoint, Event, MemoryRegion, OpFlags, Queues,
    Result, WaitObj, foreign,
};

/// The system's allocator, which counts what each thread asks for.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: all is passed on to the system's allocator as it is. Counting allocates nothing: the thread's
// counter is initialised by a constant, and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that are asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; the pointer came from there.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Rounds until memory has grown as far as it does, and rounds that count.
const WARM: usize = 300;
const ROUNDS: usize = 1000;

/// Runs `round` often. This thread allocates nothing by it, once it is warm.
#[track_caller]
fn allocates_nothing(what: &str, mut round: impl FnMut()) {
    (0..WARM).for_each(|_| round());
    let before = ALLOCATIONS.get();
    (0..ROUNDS).for_each(|_| round());
    let count = ALLOCATIONS.get() - before;
    assert_eq!(count, 0, "{what}: {count} allocations in {ROUNDS} rounds");
}

#[test]
fn allocations_are_seen() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![0u8; 100]));
    drop(std::hint::black_box(Vec::<u8>::with_capacity(100)));
    assert_eq!(ALLOCATIONS.get(), before + 2);
}

/// How completions are waited for.
#[derive(Clone, Copy, Debug)]
enum Way {
    Poll,
    Block,
}

/// A side, and its buffers while no operation has them.
struct End<'a> {
    endpoint: &'a Endpoint,
    cq: &'a CompletionQueue,
    way: Way,
    incoming: Vec<Buf>,
    outgoing: Option<Buf>,
    /// Receives that are posted.
    posted: usize,
}

const INCOMING: u64 = 1;
const OUTGOING: u64 = 2;

impl<'a> End<'a> {
    fn new(endpoint: &'a Endpoint, cq: &'a CompletionQueue, way: Way, len: usize) -> Self {
        let incoming = vec![Buf::zeroed(len), Buf::zeroed(len)];
        Self { endpoint, cq, way, incoming, outgoing: Some(Buf::zeroed(len)), posted: 0 }
    }

    fn next(&self) -> Completion {
        match self.way {
            Way::Block => self.cq.wait(PATIENCE).unwrap().ok().unwrap(),
            Way::Poll => loop {
                match self.cq.poll() {
                    Ok(done) => return done.ok().unwrap(),
                    Err(error) => assert!(error.is_again(), "{error}"),
                }
                std::thread::yield_now();
            },
        }
    }

    /// The next completion, whose memory is taken back.
    fn take(&mut self) -> (bool, Option<u64>) {
        let done = self.next();
        let (received, data) = (done.is_receive(), done.data);
        if received {
            self.posted -= 1;
            self.incoming.push(done.into_buffer());
        } else if done.context == OUTGOING {
            assert!(self.outgoing.replace(done.into_buffer()).is_none());
        }
        (received, data)
    }

    /// Waits for a message; its completion data.
    fn received(&mut self) -> Option<u64> {
        loop {
            if let (true, data) = self.take() {
                return data;
            }
        }
    }

    /// Waits until the outgoing buffer is back.
    fn sent(&mut self) {
        while self.outgoing.is_none() {
            self.take();
        }
    }

    /// A receive is posted. A message that came before its receive would be kept, and memory be had for it.
    fn ready(&mut self) {
        while self.posted == 0 {
            self.endpoint.recv(self.incoming.pop().unwrap(), INCOMING).unwrap();
            self.posted += 1;
        }
    }

    fn send(&mut self) {
        self.endpoint.send(self.outgoing.take().unwrap(), OUTGOING).unwrap();
    }
}

/// Both sides, each in a thread of its own: what they do in a round, and that neither allocates.
fn on_both_sides(
    what: &str,
    pair: &Pair,
    len: usize,
    client: impl Fn(&mut End<'_>) + Sync,
    server: impl Fn(&mut End<'_>) + Sync,
) {
    for way in [Way::Poll, Way::Block] {
        let (accepted, connected) = pair.connect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut end = End::new(&accepted, &pair.server.cq, way, len);
                allocates_nothing(&format!("{what}, {len} bytes, {way:?}, server"), || server(&mut end));
            });
            let mut end = End::new(&connected, &pair.client.cq, way, len);
            allocates_nothing(&format!("{what}, {len} bytes, {way:?}, client"), || client(&mut end));
        });
        shut_down(pair, &accepted, &connected);
        for cq in [&pair.server.cq, &pair.client.cq] {
            while let Ok(cancelled) = cq.poll() {
                assert!(cancelled.error.is_some());
            }
        }
    }
}

fn shut_down(pair: &Pair, accepted: &Endpoint, connected: &Endpoint) {
    connected.shutdown().unwrap();
    for (eq, endpoint) in [(&pair.server.eq, accepted), (&pair.client.eq, connected)] {
        match common::next(eq, &[&pair.server.eq, &pair.client.eq]) {
            Event::Shutdown { endpoint: fid, .. } => assert_eq!(fid, endpoint.fid()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn messages() {
    let pair = pair();
    for len in [0, 64, 5000, 300_000] {
        on_both_sides(
            "messages",
            &pair,
            len,
            |end| {
                end.ready();
                end.send();
                end.received();
                end.sent();
            },
            |end| {
                end.ready();
                end.received();
                end.ready();
                end.send();
                end.sent();
            },
        );
    }
}

#[test]
fn messages_with_data() {
    let pair = pair();
    on_both_sides(
        "messages with data",
        &pair,
        64,
        |end| {
            end.ready();
            end.endpoint.senddata(end.outgoing.take().unwrap(), 7, OUTGOING).unwrap();
            end.received();
            end.sent();
        },
        |end| {
            end.ready();
            assert_eq!(end.received(), Some(7));
            end.ready();
            end.send();
            end.sent();
        },
    );
}

/// As C programs do it: on memory that is theirs, and completions are read without it.
#[test]
fn memory_of_c_programs() {
    let pair = pair();
    for len in [0, 64, 5000, 300_000] {
        let (accepted, connected) = pair.connect();
        let side = |endpoint: &Endpoint, cq: &CompletionQueue, first: bool| {
            let (mut incoming, mut outgoing) = (vec![0; len], vec![0; len]);
            // SAFETY: both live until the endpoint is closed, and nobody else uses them before that.
            let lend = |memory: &mut Vec<u8>| unsafe {
                let half = memory.len() / 2;
                let (first, second) = memory.split_at_mut(half);
                foreign::memory([first, second].map(|piece| (piece.as_mut_ptr(), piece.len())), true)
            };
            let incoming_at = incoming.as_ptr().addr();
            endpoint.recv(lend(&mut incoming), INCOMING).unwrap();
            let mut round = || {
                let (mut sent, mut received, mut again) = (false, false, false);
                if first {
                    endpoint.send(lend(&mut outgoing), OUTGOING).unwrap();
                }
                while !(sent && received) {
                    let mut each = |entry: CqEntry| match entry.context {
                        INCOMING => {
                            assert_eq!((entry.len, entry.address), (len, incoming_at));
                            received = true;
                        }
                        _ => {
                            assert_eq!(entry.address, 0);
                            sent = true;
                        }
                    };
                    match cq.ops().read_entries(8, &mut each) {
                        Ok(count) => assert!((1..=2).contains(&count)),
                        Err(error) => assert!(error.is_again(), "{error}"),
                    }
                    if received && !again {
                        again = true;
                        // The next message is to meet it.
                        endpoint.recv(lend(&mut incoming), INCOMING).unwrap();
                        if !first {
                            endpoint.send(lend(&mut outgoing), OUTGOING).unwrap();
                        }
                    }
                    std::thread::yield_now();
                }
            };
            allocates_nothing(&format!("memory of C programs, {len} bytes"), &mut round);
            endpoint.cancel(INCOMING).unwrap();
            while !matches!(cq.ops().read_error_entry(), Ok((entry, _)) if entry.context == INCOMING) {}
        };
        std::thread::scope(|scope| {
            scope.spawn(|| side(&accepted, &pair.server.cq, false));
            side(&connected, &pair.client.cq, true);
        });
        shut_down(&pair, &accepted, &connected);
    }
}

/// A region in the server's domain, for the client.
fn region(pair: &Pair, len: usize) -> MemoryRegion {
    let access = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
    pair.server.domain.register(vec![0; len], access, 5).unwrap()
}

#[test]
fn remote_memory() {
    let pair = pair();
    for len in [64, 5000, 300_000] {
        let region = region(&pair, len);
        let (addr, key) = (region.address(), region.key());
        on_both_sides(
            "remote memory",
            &pair,
            len,
            |end| {
                end.ready();
                let buffer = end.outgoing.take().unwrap();
                end.endpoint.write(buffer, addr, key, OUTGOING).unwrap();
                end.sent();
                let buffer = end.outgoing.take().unwrap();
                end.endpoint.read(buffer, addr, key, OUTGOING).unwrap();
                end.sent();
                // The target is told of this one, and answers.
                let buffer = end.outgoing.take().unwrap();
                end.endpoint.writedata(buffer, 9, addr, key, OUTGOING).unwrap();
                end.received();
                end.sent();
            },
            |end| {
                let told = end.next();
                assert_eq!((told.data, told.len), (Some(9), len));
                end.send();
                end.sent();
            },
        );
    }
}

/// Two counters in place of the queues: one that waits and one that is looked at.
struct Counted {
    sent: Counter,
    received: Counter,
}

impl Counted {
    fn new(domain: &kofi::Domain) -> (Self, Queues) {
        let open = || domain.counter(WaitObj::Unspec).unwrap();
        let (sent, received) = (open(), open());
        let queues =
            Queues::none().counter(&sent, OpFlags::SEND | OpFlags::WRITE).counter(&received, OpFlags::RECV);
        (Self { sent, received }, queues)
    }

    fn wait(counter: &Counter, way: Way, value: u64) -> Result<()> {
        match way {
            Way::Block => counter.wait(value, PATIENCE),
            Way::Poll => loop {
                if counter.read()? >= value {
                    return Ok(());
                }
                std::thread::yield_now();
            },
        }
    }
}

/// Static memory to send from, and memory that is made before to receive into: without a queue it does not
/// come back.
#[test]
fn counters() {
    const MEMORY: usize = 1 + WARM + ROUNDS;
    let pair = pair();
    for way in [Way::Poll, Way::Block] {
        let (client_counts, queues) = Counted::new(&pair.client.domain);
        let client = pair.client.domain.endpoint(&pair.client.info, &pair.client.eq, queues).unwrap();
        let client = client.connect(b"").unwrap();
        let Event::ConnectionRequest(request) = common::next(&pair.server.eq, &[&pair.client.eq]) else {
            panic!()
        };
        let (server_counts, queues) = Counted::new(&pair.server.domain);
        let server = pair.server.domain.endpoint_for(&request, &pair.server.eq, queues).unwrap();
        let server = server.accept(b"").unwrap();
        for eq in [&pair.server.eq, &pair.client.eq] {
            let Event::Connected { .. } = common::next(eq, &[&pair.server.eq, &pair.client.eq]) else {
                panic!()
            };
        }
        let buffers = || -> Vec<Buf> { (0..MEMORY).map(|_| Buf::zeroed(64)).collect() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut buffers, mut round) = (buffers(), 0);
                allocates_nothing(&format!("counters, {way:?}, server"), || {
                    round += 1;
                    if round == 1 {
                        server.recv(buffers.pop().unwrap(), 0).unwrap();
                    }
                    Counted::wait(&server_counts.received, way, round).unwrap();
                    server.recv(buffers.pop().unwrap(), 0).unwrap();
                    server.send(b"answer", 0).unwrap();
                    Counted::wait(&server_counts.sent, way, round).unwrap();
                });
            });
            let (mut buffers, mut round) = (buffers(), 0);
            allocates_nothing(&format!("counters, {way:?}, client"), || {
                round += 1;
                client.recv(buffers.pop().unwrap(), 0).unwrap();
                client.send(b"message", 0).unwrap();
                Counted::wait(&client_counts.sent, way, round).unwrap();
                Counted::wait(&client_counts.received, way, round).unwrap();
            });
        });
        shut_down(&pair, &server, &client);
    }
}
#[test]
fn injected_messages_and_writes() {
    let pair = pair();
    let region = region(&pair, 64);
    let (addr, key) = (region.address(), region.key());
    on_both_sides(
        "inject",
        &pair,
        64,
        |end| {
            end.ready();
            end.endpoint.inject(&[7; 64]).unwrap();
            end.endpoint.inject_write(&[8; 64], addr, key).unwrap();
            end.endpoint.inject_writedata(&[9; 64], 9, addr, key).unwrap();
            assert_eq!(end.received(), Some(5));
        },
        |end| {
            end.ready();
            // A message, and what is told of a write.
            end.take();
            end.take();
            end.ready();
            end.endpoint.injectdata(&[7; 64], 5).unwrap();
        },
    );
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory regions, and remote reads and writes of them (`fi_mr(3)`, `fi_rma(3)`).

use kofi_core::attr::CqAttr;
use kofi_core::{Caps, EndpointAttr, Errno, MrMode, OpFlags};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{Domain, Endpoint, MemoryRegion, ReceiveOp, RegionOp, RmaIov, SendOp};

const KEY: u64 = 0xabcd;
/// A message that is not kept when nobody receives it.
const LARGE: usize = 200_000;
const READ: OpFlags = OpFlags::RMA.union(OpFlags::READ);
const WRITE: OpFlags = OpFlags::RMA.union(OpFlags::WRITE);
const WRITTEN: OpFlags = OpFlags::RMA.union(OpFlags::REMOTE_WRITE).union(OpFlags::REMOTE_CQ_DATA);

fn iov(addr: u64, len: usize, key: u64) -> RmaIov {
    RmaIov { addr, len: len as u64, key }
}

/// A connection whose server has `bytes` registered for everything.
fn with_region(world: &mut dyn World, bytes: Vec<u8>) -> (Connected, MemoryRegion) {
    let connection = Connected::open(world);
    let mr = ok(world.mr_reg(connection.pair.server.domain, RegionOp::new(bytes, KEY)));
    assert_eq!(ok(world.mr_key(mr)), KEY);
    assert_eq!(ok(world.mr_address(mr)), 0);
    (connection, mr)
}

/// Closes the region and all else.
fn close(world: &mut dyn World, connection: &Connected, mr: MemoryRegion) {
    ok(world.close_mr(mr));
    connection.close(world);
}

/// Writes and waits until the client has its completion.
#[track_caller]
fn put(world: &mut dyn World, connection: &Connected, bytes: &[u8], remote: &[RmaIov]) {
    let write = SendOp::new(bytes, 5).flags(OpFlags::DELIVERY_COMPLETE);
    ok(world.write(connection.client, write, remote));
    let done = completion(world, connection.pair.client.cq);
    assert_eq!((done.context, done.flags), (5, WRITE));
}

/// Reads into one buffer.
#[track_caller]
fn get(world: &mut dyn World, connection: &Connected, remote: &[RmaIov]) -> Vec<u8> {
    let len = remote.iter().map(|segment| segment.len as usize).sum();
    ok(world.read(connection.client, ReceiveOp::new(len, 6), remote));
    let mut done = completion(world, connection.pair.client.cq);
    assert_eq!((done.context, done.flags), (6, READ));
    done.buffers.remove(0)
}

/// Wire 6.4, 6.5: any number of bytes can be written and read, at any place.
pub fn reads_and_writes_of_any_length(world: &mut dyn World) -> Outcome {
    const LEN: usize = 300_000;
    let (connection, mr) = with_region(world, vec![0; LEN]);
    let mut model = vec![0; LEN];
    for (at, len) in [(0, 0), (LEN, 0), (0, 1), (LEN - 1, 1), (7, 100), (1000, 9000), (5, 200_000), (0, LEN)] {
        let bytes = pattern(len as u64, len);
        put(world, &connection, &bytes, &[iov(at as u64, len, KEY)]);
        model[at..at + len].copy_from_slice(&bytes);
        assert!(ok(world.mr_read(mr)) == model, "written {len} at {at}");
        assert!(get(world, &connection, &[iov(at as u64, len, KEY)]) == bytes, "read {len} at {at}");
    }
    no_completion(world, connection.pair.server.cq);
    close(world, &connection, mr);
    PASSED
}

/// fi_cq(3): flags say what it was; the target hears nothing of reads and plain writes.
pub fn completions_say_read_or_write(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, pattern(1, 100));
    let cq = connection.pair.client.cq;
    ok(world.write(connection.client, SendOp::new(*b"hello", 1), &[iov(3, 5, KEY)]));
    let done = completion(world, cq);
    assert_eq!((done.context, done.flags, done.len), (1, WRITE, 0));
    assert_eq!(done.buffers, [b"hello".to_vec()]);
    ok(world.read(connection.client, ReceiveOp::new(5, 2), &[iov(3, 5, KEY)]));
    let done = completion(world, cq);
    assert_eq!((done.context, done.flags, done.len), (2, READ, 0));
    assert_eq!(done.buffers, [b"hello".to_vec()]);
    no_completion(world, connection.pair.server.cq);
    close(world, &connection, mr);
    PASSED
}

/// Wire 6.5: a write with data is told to the target, and uses up no receive.
pub fn a_write_with_data_is_told(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, vec![0; 100]);
    let server = connection.pair.server.cq;
    ok(world.recv(connection.server, ReceiveOp::new(8, 9)));
    for (data, len) in [(0, 0), (u64::MAX, 20), (7, 100)] {
        let write = SendOp { data: Some(data), ..SendOp::new(pattern(data, len), 1) };
        ok(world.write(connection.client, write, &[iov(0, len, KEY)]));
        let told = completion(world, server);
        assert_eq!((told.flags, told.len, told.data), (WRITTEN, len as u64, data));
        assert!(told.buffers.is_empty(), "buffers of nobody");
        assert!(ok(world.mr_read(mr))[..len] == pattern(data, len), "told before it was there");
        assert_eq!(completion(world, connection.pair.client.cq).context, 1);
    }
    no_completion(world, server);
    ok(world.send(connection.client, SendOp::new(*b"message", 2)));
    assert_eq!(completion(world, server).context, 9, "the receive is still there");
    assert_eq!(completion(world, connection.pair.client.cq).context, 2);
    close(world, &connection, mr);
    PASSED
}

/// Wire 6.3: local and remote segments need not fit each other; a region may be of several pieces.
pub fn segments_of_both_sides_differ(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let domain = connection.pair.server.domain;
    let pieces = vec![pattern(1, 40), Vec::new(), pattern(2, 3), pattern(3, 57)];
    let region = RegionOp { buffers: pieces.clone(), ..RegionOp::new([], 1) };
    let a = ok(world.mr_reg(domain, region));
    let b = ok(world.mr_reg(domain, RegionOp::new(pattern(4, 50), 2)));
    let remote = [iov(30, 20, 1), iov(10, 5, 2), iov(0, 0, 1), iov(99, 1, 1)];
    let (whole, other) = (pieces.concat(), pattern(4, 50));
    let wanted = [&whole[30..50], &other[10..15], &whole[99..]].concat();
    let buffers = vec![vec![0; 1], vec![0; 0], vec![0; 22], vec![0; 3]];
    ok(world.read(connection.client, ReceiveOp { buffers, ..ReceiveOp::new(0, 1) }, &remote));
    assert_eq!(completion(world, connection.pair.client.cq).buffers.concat(), wanted);
    let bytes = pattern(9, 26);
    let buffers = vec![bytes[..11].to_vec(), bytes[11..25].to_vec(), Vec::new(), bytes[25..].to_vec()];
    let flags = OpFlags::DELIVERY_COMPLETE;
    ok(world.write(connection.client, SendOp { buffers, flags, ..SendOp::default() }, &remote));
    completion(world, connection.pair.client.cq);
    let (mut whole, mut other) = (whole, other);
    whole[30..50].copy_from_slice(&bytes[..20]);
    other[10..15].copy_from_slice(&bytes[20..25]);
    whole[99] = bytes[25];
    assert_eq!(ok(world.mr_read(a)), whole);
    assert_eq!(ok(world.mr_read(b)), other);
    assert_eq!(ok(world.close_mr(a)).concat(), whole, "the memory comes back");
    ok(world.close_mr(b));
    connection.close(world);
    PASSED
}

/// fi_rma(3), fi_inject_write: no completion, and a limit.
pub fn inject_write_is_quiet(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, vec![0; 4096]);
    let limit = world.endpoint_attr().inject_size;
    let quiet = SendOp { quiet: true, data: Some(3), ..SendOp::new(pattern(1, limit), 0).flags(OpFlags::INJECT) };
    ok(world.write(connection.client, quiet, &[iov(9, limit, KEY)]));
    assert_eq!(completion(world, connection.pair.server.cq).data, 3);
    assert!(ok(world.mr_read(mr))[9..9 + limit] == pattern(1, limit));
    no_completion(world, connection.pair.client.cq);
    let long = SendOp::new(vec![0; limit + 1], 0).flags(OpFlags::INJECT);
    refused(world.write(connection.client, long, &[iov(0, limit + 1, KEY)]), Errno::EMSGSIZE);
    close(world, &connection, mr);
    PASSED
}

/// Wire 9: what was posted first is there first: reads see earlier writes, messages come after them.
pub fn operations_keep_their_order(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, vec![0; 64]);
    let (client, pair) = (connection.client, connection.pair);
    for round in 0..30u8 {
        ok(world.recv(connection.server, ReceiveOp::new(1, 0)));
        ok(world.write(client, SendOp::new(vec![round; 32], 1), &[iov(0, 32, KEY)]));
        ok(world.read(client, ReceiveOp::new(64, 2), &[iov(0, 64, KEY)]));
        ok(world.write(client, SendOp::new(vec![round; 32], 3), &[iov(32, 32, KEY)]));
        ok(world.send(client, SendOp::new([round], 4)));
        assert_eq!(completion(world, pair.server.cq).buffers, [[round]]);
        assert_eq!(ok(world.mr_read(mr)), [round; 64], "a message came before the write in front of it");
        let mut contexts = Vec::new();
        for _ in 0..4 {
            let done = completion(world, pair.client.cq);
            contexts.push(done.context);
            if done.context == 2 {
                assert_eq!(done.buffers[0][..32], [round; 32], "a read came before the write in front of it");
            }
        }
        contexts.sort_unstable();
        assert_eq!(contexts, [1, 2, 3, 4]);
    }
    close(world, &connection, mr);
    PASSED
}

/// Wire 6.4: responses come in the order of the requests, also of many, from both sides at once.
pub fn many_reads_complete_in_order(world: &mut dyn World) -> Outcome {
    const COUNT: u64 = 200;
    for len in [1usize, 10_000] {
        let (connection, mr) = with_region(world, pattern(1, 20_000));
        let pair = connection.pair;
        let mine = ok(world.mr_reg(pair.client.domain, RegionOp::new(pattern(2, 20_000), 77)));
        for number in 0..COUNT {
            let read = ReceiveOp::new(len, number);
            ok(world.read(connection.client, read.clone(), &[iov(number, len, KEY)]));
            ok(world.read(connection.server, read, &[iov(number, len, 77)]));
        }
        for number in 0..COUNT {
            for (cq, salt) in [(pair.client.cq, 1), (pair.server.cq, 2)] {
                let done = completion(world, cq);
                assert_eq!((done.context, done.flags), (number, READ));
                let wanted = &pattern(salt, 20_000)[number as usize..][..len];
                assert!(done.buffers[0] == wanted, "read {number}");
            }
        }
        ok(world.close_mr(mine));
        close(world, &connection, mr);
    }
    PASSED
}

/// Wire 7: writes complete, at a level that says so, when they are in place.
pub fn a_write_completes_at_its_level(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, vec![0; 100_000]);
    let levels = [
        OpFlags::INJECT_COMPLETE,
        OpFlags::TRANSMIT_COMPLETE,
        OpFlags::DELIVERY_COMPLETE,
        OpFlags::COMMIT_COMPLETE,
    ];
    for (salt, level) in levels.into_iter().enumerate() {
        for len in [0, 100, 100_000] {
            let bytes = pattern(salt as u64, len);
            ok(world.write(connection.client, SendOp::new(bytes.clone(), 1).flags(level), &[iov(0, len, KEY)]));
            assert_eq!(completion(world, connection.pair.client.cq).context, 1);
            if level != OpFlags::INJECT_COMPLETE {
                assert!(ok(world.mr_read(mr))[..len] == bytes, "complete before it was in place");
            }
        }
    }
    close(world, &connection, mr);
    PASSED
}

/// Wire 7: acknowledgements of writes and messages meet what they are for.
pub fn acknowledgements_of_writes_meet_them(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, vec![0; 64]);
    let flags = OpFlags::DELIVERY_COMPLETE;
    for number in 0..60 {
        if number % 3 == 0 {
            ok(world.send(connection.client, SendOp::new([1; 8], number).flags(flags)));
        } else {
            ok(world.write(connection.client, SendOp::new([2; 8], number).flags(flags), &[iov(0, 8, KEY)]));
        }
        if number % 7 == 0 {
            ok(world.read(connection.client, ReceiveOp::new(8, 1000), &[iov(0, 8, KEY)]));
        }
    }
    for _ in 0..20 {
        ok(world.recv(connection.server, ReceiveOp::new(8, 0)));
    }
    let mut next = 0;
    for _ in 0..69 {
        let done = completion(world, connection.pair.client.cq);
        if done.context == 1000 {
            assert_eq!(done.flags, READ);
            continue;
        }
        assert_eq!(done.context, next);
        assert_eq!(done.flags.contains(OpFlags::RMA), next % 3 != 0);
        next += 1;
    }
    close(world, &connection, mr);
    PASSED
}

/// fi_mr(3): FI_MR_VIRT_ADDR and FI_MR_PROV_KEY.
pub fn virtual_addresses_and_keys_of_the_provider(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let fabric = connection.pair.server.fabric;
    // A connection needs its own domain: the server's endpoint is made in one with other rules.
    connection.close_endpoints(world);
    let domain = ok(world.domain_with(fabric, MrMode::VIRT_ADDR | MrMode::PROV_KEY));
    let cq = ok(world.cq_open(domain, &CqAttr::default()));
    let server = Side { domain, cq, ..connection.pair.server };
    let pair = Pair { server, ..connection.pair };
    let connected = pair.connect(world);
    let region = RegionOp { buffers: vec![pattern(1, 70), pattern(2, 30)], ..RegionOp::new([], 1) };
    let a = ok(world.mr_reg(domain, region));
    let b = ok(world.mr_reg(domain, RegionOp::new(pattern(3, 100), 1)));
    let keys = [ok(world.mr_key(a)), ok(world.mr_key(b))];
    assert_ne!(keys[0], keys[1], "the requested key does not count");
    let base = ok(world.mr_address(a));
    assert_ne!(base, 0);
    let whole = [pattern(1, 70), pattern(2, 30)].concat();
    assert_eq!(get(world, &connected, &[iov(base, 100, keys[0])]), whole);
    assert_eq!(get(world, &connected, &[iov(base + 60, 20, keys[0])]), whole[60..80]);
    put(world, &connected, b"here", &[iov(base + 68, 4, keys[0])]);
    assert_eq!(ok(world.mr_read(a))[68..72], *b"here");
    // An offset is not an address here.
    refuses(world, &connected, iov(0, 1, keys[0]));
    ok(world.close_mr(a));
    ok(world.close_mr(b));
    connected.close_endpoints(world);
    ok(world.close_cq(cq));
    ok(world.close_domain(domain));
    connection.pair.close(world);
    PASSED
}

/// A read of what may not be read ends the connection, at both sides.
#[track_caller]
fn refuses(world: &mut dyn World, connection: &Connected, remote: RmaIov) {
    ok(world.read(connection.client, ReceiveOp::new(remote.len as usize, 8), &[remote]));
    ends(world, connection);
}

#[track_caller]
fn ends(world: &mut dyn World, connection: &Connected) {
    let failed = completion_error(world, connection.pair.client.cq);
    assert_eq!((failed.context, failed.errno), (8, Errno::ECANCELED));
    connection.both_shut_down(world);
}

/// Wire 14: access to memory that is not registered for it ends that connection, changes nothing, and
/// disturbs nobody else.
pub fn forbidden_access_ends_its_connection(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let bystander = pair.connect(world);
    let domain = pair.server.domain;
    let access = |access| RegionOp { access, ..RegionOp::new(pattern(1, 100), 0) };
    let both = ok(world.mr_reg(domain, RegionOp::new(pattern(1, 100), 1)));
    let read_only = ok(world.mr_reg(domain, RegionOp { key: 2, ..access(OpFlags::REMOTE_READ) }));
    let write_only = ok(world.mr_reg(domain, RegionOp { key: 3, ..access(OpFlags::REMOTE_WRITE) }));
    let local = ok(world.mr_reg(domain, RegionOp { key: 4, ..access(OpFlags::READ | OpFlags::WRITE) }));
    let closed = ok(world.mr_reg(domain, RegionOp::new(pattern(1, 100), 5)));
    ok(world.close_mr(closed));
    let cases = [
        (true, true, iov(0, 8, 99)),
        (true, true, iov(93, 8, 1)),
        (true, true, iov(101, 8, 1)),
        (true, true, iov(u64::MAX, 8, 1)),
        (true, true, iov(u64::MAX - 7, 8, 1)),
        (false, true, iov(0, 8, 2)),
        (true, false, iov(0, 8, 3)),
        (true, true, iov(0, 8, 4)),
        (true, true, iov(0, 8, 5)),
    ];
    for (read, write, remote) in cases {
        for (tried, second) in [(read, false), (read, true)] {
            if tried {
                let connection = pair.connect(world);
                let remote = if second { vec![iov(0, 2, 1), RmaIov { len: 8, ..remote }] } else { vec![remote] };
                let len = if second { 10 } else { 8 };
                ok(world.read(connection.client, ReceiveOp::new(len, 8), &remote));
                ends(world, &connection);
                connection.close_endpoints(world);
            }
        }
        for data in [None, Some(1)] {
            if write {
                let connection = pair.connect(world);
                let write = SendOp { data, ..SendOp::new([0xee; 8], 8).flags(OpFlags::DELIVERY_COMPLETE) };
                ok(world.write(connection.client, write, &[remote]));
                ends(world, &connection);
                connection.close_endpoints(world);
            }
        }
    }
    for mr in [both, read_only, write_only, local] {
        assert!(ok(world.mr_read(mr)) == pattern(1, 100), "{mr:?} was changed");
        ok(world.close_mr(mr));
    }
    no_completion(world, pair.server.cq);
    bystander.exchange(world, b"undisturbed");
    bystander.close(world);
    PASSED
}

/// fi_mr(3): a key names one region, and is free again when that is closed.
pub fn a_key_names_one_region(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, pattern(1, 10));
    let domain = connection.pair.server.domain;
    refused(world.mr_reg(domain, RegionOp::new([0; 10], KEY)), Errno::ENOKEY);
    ok(world.close_mr(mr));
    refused(world.mr_key(mr), Errno::EINVAL);
    refused(world.close_mr(mr), Errno::EINVAL);
    let again = ok(world.mr_reg(domain, RegionOp::new(pattern(2, 10), KEY)));
    // Each domain has keys of its own.
    let other = ok(world.mr_reg(connection.pair.client.domain, RegionOp::new(pattern(3, 10), KEY)));
    assert_eq!(get(world, &connection, &[iov(0, 10, KEY)]), pattern(2, 10));
    ok(world.close_mr(other));
    close(world, &connection, again);
    PASSED
}

/// fi_mr(3): what makes no sense is refused; an empty region is one.
pub fn odd_registrations_are_refused(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, Vec::new());
    let domain = connection.pair.server.domain;
    let message = RegionOp { access: OpFlags::MSG, ..RegionOp::new([0; 4], 1) };
    refused(world.mr_reg(domain, message), Errno::EBADFLAGS);
    let pieces = RegionOp { buffers: vec![vec![0; 1]; 100], ..RegionOp::new([], 1) };
    refused(world.mr_reg(domain, pieces), Errno::EINVAL);
    assert_eq!(get(world, &connection, &[iov(0, 0, KEY)]), []);
    put(world, &connection, &[], &[iov(0, 0, KEY)]);
    close(world, &connection, mr);
    PASSED
}

/// The application changes its memory, and a read sees it.
pub fn the_application_changes_its_memory(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, vec![0; 10]);
    ok(world.mr_write(mr, 4, b"here"));
    assert_eq!(get(world, &connection, &[iov(0, 10, KEY)]), b"\0\0\0\0here\0\0");
    assert_eq!(ok(world.close_mr(mr)), [b"\0\0\0\0here\0\0"]);
    connection.close(world);
    PASSED
}

/// Close order: a region keeps its domain open.
pub fn a_region_keeps_its_domain(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let domain = ok(world.domain(side.fabric));
    let mr = ok(world.mr_reg(domain, RegionOp::new([1; 8], 1)));
    refused(world.close_domain(domain), Errno::EBUSY);
    ok(world.close_mr(mr));
    ok(world.close_domain(domain));
    side.close(world);
    PASSED
}

/// Decision D18: closing a region that a peer is in the middle of using ends that connection.
pub fn closing_a_region_ends_what_uses_it(world: &mut dyn World) -> Outcome {
    const LEN: usize = 32 << 20;
    holds_still(world)?;
    if let Some(faults) = world.faults() {
        faults.capacity(4000);
    }
    for read in [true, false] {
        let (connection, mr) = with_region(world, vec![7; LEN]);
        let other = ok(world.mr_reg(connection.pair.server.domain, RegionOp::new([1; 8], 2)));
        if read {
            ok(world.read(connection.client, ReceiveOp::new(LEN, 8), &[iov(0, LEN, KEY)]));
        } else {
            let write = SendOp::new(vec![9; LEN], 8).flags(OpFlags::DELIVERY_COMPLETE);
            ok(world.write(connection.client, write, &[iov(0, LEN, KEY)]));
        }
        // Until it is under way, which shows only in a write.
        run_until(world, core::time::Duration::from_millis(20), |world| {
            !read && ok(world.mr_read(mr))[0] == 9
        });
        let memory = ok(world.close_mr(mr)).concat();
        assert_eq!(memory.len(), LEN);
        ends(world, &connection);
        let next = connection.pair.connect(world);
        assert_eq!(get(world, &next, &[iov(0, 8, 2)]), [1; 8]);
        next.close_endpoints(world);
        close(world, &connection, other);
    }
    PASSED
}

/// Completions that peers make are bounded: a writer waits while nobody reads them, and none is lost.
pub fn unread_completions_hold_the_writer_back(world: &mut dyn World) -> Outcome {
    const COUNT: u64 = 2000;
    let (connection, mr) = with_region(world, vec![0; 8]);
    let pair = connection.pair;
    let mut posted = 0;
    let mut complete = 0;
    let mut post = |world: &mut dyn World| {
        while posted < COUNT {
            let write = SendOp { data: Some(posted), ..SendOp::new([1; 8], posted) };
            match world.write(connection.client, write.flags(OpFlags::DELIVERY_COMPLETE), &[iov(0, 8, KEY)]) {
                Ok(()) => posted += 1,
                Err(error) if error.errno() == Errno::EAGAIN => break,
                Err(error) => panic!("{error}"),
            }
        }
        while let Ok(done) = world.cq_read(pair.client.cq) {
            assert_eq!(done.context, complete);
            complete += 1;
        }
        complete
    };
    run_until(world, A_WHILE * 3, |world| post(world) == COUNT);
    assert!(post(world) < COUNT, "no bound");
    for number in 0..COUNT {
        let told = wait(world, "a peer's write", |world| {
            post(world);
            world.cq_read(pair.server.cq)
        });
        assert_eq!(ok(told).data, number);
    }
    assert!(run_until(world, PATIENCE, |world| post(world) == COUNT), "writes that never completed");
    // A message behind all that comes through.
    connection.exchange(world, b"goes on");
    close(world, &connection, mr);
    PASSED
}

/// Capabilities: who asks for no remote access has none, at either side.
pub fn endpoints_without_the_capability(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let attr = world.endpoint_attr();
    let parts = Caps::READ | Caps::WRITE | Caps::REMOTE_READ | Caps::REMOTE_WRITE;
    let with = |caps| EndpointAttr { caps: (attr.caps - parts - Caps::RMA) | caps, ..attr };
    let mr = ok(world.mr_reg(pair.server.domain, RegionOp::new([1; 8], KEY)));
    let read = |world: &mut dyn World, ep: Endpoint| world.read(ep, ReceiveOp::new(8, 8), &[iov(0, 8, KEY)]);
    let write = |world: &mut dyn World, ep: Endpoint| {
        world.write(ep, SendOp::new([2; 8], 8).flags(OpFlags::DELIVERY_COMPLETE), &[iov(0, 8, KEY)])
    };
    let reader = pair.connect_with(world, &with(Caps::RMA), &with(Caps::RMA | Caps::READ));
    refused(write(world, reader.client), Errno::ENOSYS);
    ok(read(world, reader.client));
    assert_eq!(completion(world, pair.client.cq).flags, READ);
    let writer = pair.connect_with(world, &with(Caps::RMA), &with(Caps::RMA | Caps::WRITE));
    refused(read(world, writer.client), Errno::ENOSYS);
    ok(write(world, writer.client));
    assert_eq!(completion(world, pair.client.cq).flags, WRITE);
    let none = pair.connect_with(world, &with(Caps::RMA), &with(Caps::empty()));
    refused(read(world, none.client), Errno::ENOSYS);
    refused(write(world, none.client), Errno::ENOSYS);
    for (caps, reads) in [
        (Caps::empty(), true),
        (Caps::empty(), false),
        (Caps::RMA | Caps::REMOTE_WRITE, true),
        (Caps::RMA | Caps::REMOTE_READ, false),
    ] {
        let connection = pair.connect_with(world, &with(caps), &with(Caps::RMA));
        ok(if reads { read(world, connection.client) } else { write(world, connection.client) });
        ends(world, &connection);
        connection.close_endpoints(world);
    }
    for connection in [reader, writer, none] {
        connection.close_endpoints(world);
    }
    ok(world.close_mr(mr));
    pair.close(world);
    PASSED
}

/// Limits, wrong times and lengths that differ: refused, and nothing happens.
pub fn odd_requests_are_refused(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, vec![0; 2000]);
    let attr = EndpointAttr { max_msg_size: 1000, tx_size: 2, ..world.endpoint_attr() };
    let pair = connection.pair;
    let early = pair.client.endpoint(world, None);
    refused(world.write(early, SendOp::new([1; 8], 0), &[iov(0, 8, KEY)]), Errno::ENOTCONN);
    refused(world.read(early, ReceiveOp::new(8, 0), &[iov(0, 8, KEY)]), Errno::ENOTCONN);
    ok(world.close_ep(early));
    let next = pair.connect_with(world, &attr, &attr);
    let ep = next.client;
    for (remote, errno) in [
        (vec![iov(0, 1, KEY); 9], Errno::EINVAL),
        (vec![], Errno::EINVAL),
        (vec![iov(0, 7, KEY)], Errno::EINVAL),
        (vec![iov(0, usize::MAX, KEY), iov(0, 10, KEY)], Errno::EINVAL),
    ] {
        refused(world.write(ep, SendOp::new([1; 9], 0), &remote), errno);
        refused(world.read(ep, ReceiveOp::new(9, 0), &remote), errno);
    }
    refused(world.write(ep, SendOp::new(vec![0; 1001], 0), &[iov(0, 1001, KEY)]), Errno::EMSGSIZE);
    refused(world.read(ep, ReceiveOp::new(1001, 0), &[iov(0, 1001, KEY)]), Errno::EMSGSIZE);
    let inject = ReceiveOp { flags: OpFlags::INJECT, ..ReceiveOp::new(8, 0) };
    refused(world.read(ep, inject, &[iov(0, 8, KEY)]), Errno::EBADFLAGS);
    refused(world.write(ep, SendOp::new([1; 8], 0).flags(OpFlags::PEEK), &[iov(0, 8, KEY)]), Errno::EBADFLAGS);
    ok(world.shutdown(ep, 0));
    shut_down(world, pair.client.eq, ep);
    refused(world.write(ep, SendOp::new([1; 8], 0), &[iov(0, 8, KEY)]), Errno::ESHUTDOWN);
    refused(world.read(ep, ReceiveOp::new(8, 0), &[iov(0, 8, KEY)]), Errno::ESHUTDOWN);
    no_completion(world, pair.client.cq);
    assert!(ok(world.mr_read(mr)) == [0; 2000]);
    shut_down(world, pair.server.eq, next.server);
    next.close_endpoints(world);
    close(world, &connection, mr);
    PASSED
}

/// Reads that are pending count for the size of the transmit queue.
pub fn reads_take_places_of_the_transmit_queue(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let attr = world.endpoint_attr();
    let connection = pair.connect_with(world, &attr, &EndpointAttr { tx_size: 3, ..attr });
    let mr = ok(world.mr_reg(pair.server.domain, RegionOp::new([1; 8], KEY)));
    // A message that nobody receives holds up what is behind it.
    let (len, flags) = (LARGE, OpFlags::DELIVERY_COMPLETE);
    ok(world.send(connection.client, SendOp::new(vec![0; len], 0).flags(flags)));
    let mut posted = 1;
    while world.read(connection.client, ReceiveOp::new(8, posted), &[iov(0, 8, KEY)]).is_ok() {
        posted += 1;
        assert!(posted < 100_000, "no bound");
        world.step(A_WHILE / 1000);
    }
    refused(world.read(connection.client, ReceiveOp::new(8, 0), &[iov(0, 8, KEY)]), Errno::EAGAIN);
    ok(world.recv(connection.server, ReceiveOp::new(len, 0)));
    let mut contexts: Vec<u64> = (0..posted).map(|_| completion(world, pair.client.cq).context).collect();
    contexts.sort_unstable();
    assert_eq!(contexts, (0..posted).collect::<Vec<_>>());
    close(world, &connection, mr);
    PASSED
}

/// D8: reads and writes outstanding when the peer goes fail once.
pub fn outstanding_reads_fail_once(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, vec![0; 8]);
    let pair = connection.pair;
    // A message that nobody receives holds up what is behind it.
    let level = OpFlags::DELIVERY_COMPLETE;
    ok(world.send(connection.client, SendOp::new(vec![0; LARGE], 0).flags(level)));
    for context in 1..4 {
        ok(world.read(connection.client, ReceiveOp::new(8, context), &[iov(0, 8, KEY)]));
        ok(world.write(connection.client, SendOp::new([3; 8], 10 + context).flags(level), &[iov(0, 8, KEY)]));
    }
    run_for(world, A_WHILE / 10);
    ok(world.close_ep(connection.server));
    let mut contexts: Vec<u64> = (0..7)
        .map(|_| {
            let failed = completion_error(world, pair.client.cq);
            assert_eq!((failed.errno, failed.len), (Errno::ECANCELED, 0));
            failed.context
        })
        .collect();
    contexts.sort_unstable();
    assert_eq!(contexts, [0, 1, 2, 3, 11, 12, 13]);
    shut_down(world, pair.client.eq, connection.client);
    no_completion(world, pair.client.cq);
    ok(world.close_ep(connection.client));
    ok(world.close_mr(mr));
    pair.close(world);
    PASSED
}

/// D11: a shutdown waits for the responses to what was read.
pub fn a_shutdown_waits_for_reads(world: &mut dyn World) -> Outcome {
    let (connection, mr) = with_region(world, pattern(1, 100_000));
    ok(world.read(connection.client, ReceiveOp::new(100_000, 1), &[iov(0, 100_000, KEY)]));
    ok(world.shutdown(connection.client, 0));
    let done = completion(world, connection.pair.client.cq);
    assert!(done.buffers[0] == pattern(1, 100_000));
    connection.both_shut_down(world);
    close(world, &connection, mr);
    PASSED
}

/// Transports that move a byte at a time, or hold very little, change nothing.
pub fn narrow_transports_are_enough(world: &mut dyn World) -> Outcome {
    for narrow in [false, true] {
        let faults = faults(world)?;
        if narrow {
            faults.capacity(300);
        } else {
            faults.piece(1);
        }
        let (connection, mr) = with_region(world, pattern(1, 500));
        let remote = [iov(10, 100, KEY), iov(400, 100, KEY), iov(0, 1, KEY), iov(200, 0, KEY)];
        let whole = pattern(1, 500);
        let wanted = [&whole[10..110], &whole[400..], &whole[..1]].concat();
        for _ in 0..3 {
            assert_eq!(get(world, &connection, &remote), wanted);
        }
        put(world, &connection, &pattern(5, 201), &remote);
        assert_eq!(get(world, &connection, &remote), pattern(5, 201));
        close(world, &connection, mr);
        world.faults().into_iter().for_each(|faults| faults.calm());
    }
    PASSED
}

/// FI_SELECTIVE_COMPLETION counts for reads and writes, too; a peer's data is told in any case.
pub fn selective_completion_of_reads_and_writes(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let attr = world.endpoint_attr();
    let selective = OpFlags::TRANSMIT | OpFlags::RECV | OpFlags::SELECTIVE_COMPLETION;
    let bind = |world: &mut dyn World, side: Side, ep: Endpoint| {
        ok(world.ep_bind_eq(ep, side.eq, OpFlags::empty()));
        ok(world.ep_bind_cq(ep, side.cq, selective));
    };
    let client = ok(world.endpoint(pair.client.domain, &attr, None));
    bind(world, pair.client, client);
    ok(world.connect(client, Some(pair.address), &[]));
    let (request, _) = request(world, pair.server.eq);
    let server = ok(world.endpoint(pair.server.domain, &attr, Some(request)));
    bind(world, pair.server, server);
    pair.accept_by(world, client, server);
    let domain: Domain = pair.server.domain;
    let mr = ok(world.mr_reg(domain, RegionOp::new([1; 8], KEY)));
    for (context, flags) in [(1, OpFlags::empty()), (2, OpFlags::COMPLETION)] {
        ok(world.write(client, SendOp { data: Some(4), ..SendOp::new([2; 8], context).flags(flags) }, &[iov(0, 8, KEY)]));
        assert_eq!(completion(world, pair.server.cq).data, 4);
        ok(world.read(client, ReceiveOp { flags, ..ReceiveOp::new(8, 10 + context) }, &[iov(0, 8, KEY)]));
    }
    assert_eq!(completion(world, pair.client.cq).context, 2);
    assert_eq!(completion(world, pair.client.cq).context, 12);
    no_completion(world, pair.client.cq);
    ok(world.close_ep(client));
    ok(world.close_ep(server));
    ok(world.close_mr(mr));
    pair.close(world);
    PASSED
}

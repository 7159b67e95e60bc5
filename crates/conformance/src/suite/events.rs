// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The event queue: order, waiting, the application's own events.

use core::time::Duration;

use kofi_core::attr::{CqAttr, EqAttr, WaitObj};
use kofi_core::{Errno, OpFlags};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{Event, Object};

fn writable(size: usize) -> EqAttr {
    EqAttr { size, flags: OpFlags::WRITE, ..EqAttr::default() }
}

/// 3.4: an empty queue answers -FI_EAGAIN, to each kind of read.
pub fn an_empty_queue_says_again(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    refused(world.eq_read(side.eq), Errno::EAGAIN);
    refused(world.eq_peek(side.eq), Errno::EAGAIN);
    refused(world.eq_readerr(side.eq, OpFlags::empty()), Errno::EAGAIN);
    refused(world.eq_sread(side.eq, 0, OpFlags::empty()), Errno::EAGAIN);
    refused(world.cq_read(side.cq), Errno::EAGAIN);
    refused(world.cq_readerr(side.cq), Errno::EAGAIN);
    refused(world.cq_sread(side.cq, 0), Errno::EAGAIN);
    side.close(world);
    PASSED
}

/// 3.4: what is written is read, in order; a look leaves it.
pub fn written_events_are_read_in_order(world: &mut dyn World) -> Outcome {
    let side = Side::with_eq(world, &writable(8));
    let about = Object::EventQueue(side.eq);
    for number in 0..5u32 {
        let entry = pattern(u64::from(number), number as usize * 7);
        assert_eq!(ok(world.eq_write(side.eq, about, number, &entry, OpFlags::empty())), entry.len());
    }
    for number in 0..5u32 {
        let entry = pattern(u64::from(number), number as usize * 7);
        let wanted = Event::Application { about, event: number, entry };
        assert_eq!(ok(world.eq_peek(side.eq)), wanted);
        assert_eq!(ok(world.eq_sread(side.eq, -1, OpFlags::empty())), wanted);
    }
    refused(world.eq_read(side.eq), Errno::EAGAIN);
    side.close(world);
    PASSED
}

/// 3.4: writing needs FI_WRITE.
pub fn writing_needs_the_flag(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let about = Object::EventQueue(side.eq);
    refused(world.eq_write(side.eq, about, 0, b"entry", OpFlags::empty()), Errno::EINVAL);
    silent(world, side.eq);
    side.close(world);
    PASSED
}

/// 3.4, D5: a full queue refuses what the application writes, and takes it once there is room.
pub fn a_full_queue_refuses_writes(world: &mut dyn World) -> Outcome {
    let side = Side::with_eq(world, &writable(3));
    let about = Object::EventQueue(side.eq);
    let mut written = 0;
    let error = loop {
        match world.eq_write(side.eq, about, written, &[], OpFlags::empty()) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 100_000, "no bound");
    };
    assert!(matches!(error.errno(), Errno::EOVERRUN | Errno::EAGAIN), "{error}");
    assert!(written >= 3, "less than the size asked for");
    ok(world.eq_read(side.eq));
    ok(world.eq_write(side.eq, about, written, &[], OpFlags::empty()));
    for number in 1..=written {
        let Event::Application { event, .. } = ok(world.eq_read(side.eq)) else { panic!() };
        assert_eq!(event, number);
    }
    side.close(world);
    PASSED
}

/// 3.4: an entry that is too long is refused; so are unknown flags.
pub fn odd_writes_are_refused(world: &mut dyn World) -> Outcome {
    let side = Side::with_eq(world, &writable(3));
    let about = Object::EventQueue(side.eq);
    refused(world.eq_write(side.eq, about, 0, &[0; 64 * 1024], OpFlags::empty()), Errno::EINVAL);
    refused(world.eq_write(side.eq, about, 0, &[], OpFlags::INJECT), Errno::EBADFLAGS);
    silent(world, side.eq);
    side.close(world);
    PASSED
}

/// 3.4: attributes that make no sense are refused.
pub fn odd_attributes_are_refused(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    let flags = EqAttr { flags: OpFlags::INJECT, ..EqAttr::default() };
    refused(world.eq_open(side.fabric, &flags), Errno::EINVAL);
    let vector = EqAttr { flags: OpFlags::AFFINITY, signaling_vector: -1, ..EqAttr::default() };
    refused(world.eq_open(side.fabric, &vector), Errno::EINVAL);
    let eq = ok(world.eq_open(side.fabric, &EqAttr { flags: OpFlags::AFFINITY, ..EqAttr::default() }));
    ok(world.close_eq(eq));
    side.close(world);
    PASSED
}

/// D16: a wait that finds nothing takes its full time, not much more, and answers -FI_EAGAIN.
pub fn a_wait_takes_its_full_time(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    for (timeout, flags, wanted) in [
        (120, OpFlags::empty(), Duration::from_millis(120)),
        (60, OpFlags::TIME_MS, Duration::from_millis(60)),
        (2500, OpFlags::TIME_US, Duration::from_micros(2500)),
    ] {
        // A busy machine may keep a thread from waking in time, but not each time.
        let quickest = (0..5).map(|_| {
            let from = world.now();
            refused(world.eq_sread(side.eq, timeout, flags), Errno::EAGAIN);
            let took = world.now() - from;
            assert!(took >= wanted, "{took:?} for {wanted:?}");
            took
        });
        let quickest = quickest.min().unwrap_or_default();
        assert!(quickest <= wanted * 5 / 4 + Duration::from_millis(5), "{quickest:?} for {wanted:?}");
    }
    let from = world.now();
    refused(world.cq_sread(side.cq, 50), Errno::EAGAIN);
    assert!(world.now() - from >= Duration::from_millis(50));
    side.close(world);
    PASSED
}

/// D17: the two units exclude each other.
pub fn two_units_are_refused(world: &mut dyn World) -> Outcome {
    let side = Side::open(world);
    refused(world.eq_sread(side.eq, 1, OpFlags::TIME_MS | OpFlags::TIME_US), Errno::EINVAL);
    side.close(world);
    PASSED
}

/// D16: a wait ends when something comes, before its time.
pub fn a_wait_ends_with_the_event(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let client = pair.client.endpoint(world, None);
    let from = world.now();
    ok(world.connect(client, Some(pair.address), &[]));
    let event = ok(world.eq_sread(pair.server.eq, 30_000, OpFlags::empty()));
    assert!(world.now() - from < Duration::from_secs(5));
    let Event::ConnectionRequest { request: Some(request), .. } = event else { panic!("{event:?}") };
    let server = pair.server.endpoint(world, Some(request));
    ok(world.accept(server, &[]));
    let event = ok(world.eq_sread(pair.client.eq, -1, OpFlags::empty()));
    assert!(matches!(event, Event::Connected { .. }), "{event:?}");
    connected(world, pair.server.eq, server);
    Connected { pair, server, client }.close(world);
    PASSED
}

/// D16: a queue that was opened without a wait object cannot be waited on, but read.
pub fn a_queue_without_a_wait_object_cannot_wait(world: &mut dyn World) -> Outcome {
    let side = Side::with_eq(world, &EqAttr { wait_obj: WaitObj::None, ..writable(4) });
    refused(world.eq_sread(side.eq, 1, OpFlags::empty()), Errno::ENOSYS);
    refused(world.eq_sread(side.eq, 0, OpFlags::empty()), Errno::ENOSYS);
    ok(world.eq_write(side.eq, Object::EventQueue(side.eq), 7, &[], OpFlags::empty()));
    ok(world.eq_read(side.eq));
    let cq = ok(world.cq_open(side.domain, &CqAttr { wait_obj: WaitObj::None, ..CqAttr::default() }));
    refused(world.cq_sread(cq, 1), Errno::ENOSYS);
    ok(world.close_cq(cq));
    side.close(world);
    PASSED
}

/// D14: one queue in order: an error at its head makes reads answer -FI_EAVAIL, behind and before
/// other events.
pub fn errors_keep_their_place(world: &mut dyn World) -> Outcome {
    let side = Side::with_eq(world, &writable(8));
    let about = Object::EventQueue(side.eq);
    let other = world.process();
    let address = world.closed_address(other);
    ok(world.eq_write(side.eq, about, 1, &[], OpFlags::empty()));
    let ep = side.endpoint(world, None);
    ok(world.connect(ep, Some(address), &[]));
    run_for(world, A_WHILE);
    ok(world.eq_write(side.eq, about, 2, &[], OpFlags::empty()));
    refused(world.eq_readerr(side.eq, OpFlags::empty()), Errno::EAGAIN);
    let Event::Application { event: 1, .. } = ok(world.eq_read(side.eq)) else { panic!("order") };
    for _ in 0..2 {
        refused(world.eq_read(side.eq), Errno::EAVAIL);
        refused(world.eq_peek(side.eq), Errno::EAVAIL);
        refused(world.eq_sread(side.eq, 10, OpFlags::empty()), Errno::EAVAIL);
    }
    let looked = ok(world.eq_readerr(side.eq, OpFlags::PEEK));
    assert_eq!(ok(world.eq_readerr(side.eq, OpFlags::empty())), looked);
    assert_eq!(looked.about, Object::Endpoint(ep));
    refused(world.eq_readerr(side.eq, OpFlags::empty()), Errno::EAGAIN);
    let Event::Application { event: 2, .. } = ok(world.eq_read(side.eq)) else { panic!("order") };
    ok(world.close_ep(ep));
    side.close(world);
    PASSED
}

/// D5: a queue full of the application's events still takes FI_CONNECTED and FI_SHUTDOWN of each
/// endpoint.
pub fn endpoints_have_their_own_room(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let side = Side::with_eq(world, &writable(1));
    let clients: Vec<_> = (0..4).map(|_| side.endpoint(world, None)).collect();
    let mut servers = Vec::new();
    let about = Object::EventQueue(side.eq);
    while world.eq_write(side.eq, about, 9, &[], OpFlags::empty()).is_ok() {}
    for &client in &clients {
        ok(world.connect(client, Some(pair.address), &[]));
        let (request, _) = request(world, pair.server.eq);
        let server = pair.server.endpoint(world, Some(request));
        ok(world.accept(server, &[]));
        connected(world, pair.server.eq, server);
        servers.push(server);
    }
    run_for(world, A_WHILE);
    for &server in &servers {
        ok(world.close_ep(server));
    }
    run_for(world, A_WHILE);
    let (mut connected, mut ended) = (0, 0);
    loop {
        match world.eq_read(side.eq) {
            Ok(Event::Application { event: 9, .. }) => {}
            Ok(Event::Connected { .. }) => connected += 1,
            Ok(Event::Shutdown { .. }) => ended += 1,
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.errno(), Errno::EAGAIN);
                break;
            }
        }
    }
    assert_eq!((connected, ended), (clients.len(), clients.len()));
    for client in clients {
        ok(world.close_ep(client));
    }
    side.close(world);
    pair.close(world);
    PASSED
}

/// 3.2: closing an endpoint takes its unread events with it, and nobody else's.
pub fn closing_purges_unread_events(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (first, request_1, _) = pair.ask(world, &[]);
    let (second, request_2, _) = pair.ask(world, &[]);
    ok(world.reject(request_1, &[]));
    ok(world.reject(request_2, &[]));
    run_for(world, A_WHILE);
    ok(world.close_ep(first));
    let error = event_error(world, pair.client.eq);
    assert_eq!(error.about, Object::Endpoint(second));
    silent(world, pair.client.eq);
    ok(world.close_ep(second));
    pair.close(world);
    PASSED
}

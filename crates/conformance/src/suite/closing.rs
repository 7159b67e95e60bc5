// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Shutdown, close and death: what is still delivered, what completes, and what comes last.

use core::time::Duration;

use kofi_core::{Errno, OpFlags, TimeLimits};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{Death, Endpoint, Event, Object, ReceiveOp, SendOp};

/// Every completion that is there, in order: context and whether it succeeded.
fn drain(world: &mut dyn World, side: &Side) -> Vec<(u64, Result<(), Errno>)> {
    let mut found = Vec::new();
    loop {
        match world.cq_read(side.cq) {
            Ok(done) => found.push((done.context, Ok(()))),
            Err(error) if error.errno() == Errno::EAVAIL => {
                let failed = ok(world.cq_readerr(side.cq));
                found.push((failed.context, Err(failed.errno)));
            }
            Err(_) => return found,
        }
    }
}

/// D4, D11: a shutdown raises FI_SHUTDOWN on both sides, once each.
pub fn shutdown_is_one_event_on_each_side(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    ok(world.shutdown(connection.client, 0));
    connection.both_shut_down(world);
    ok(world.shutdown(connection.client, 0));
    ok(world.shutdown(connection.server, 0));
    silent(world, pair.client.eq);
    silent(world, pair.server.eq);
    connection.close(world);
    PASSED
}

/// D4: both sides shut down at the same time: still one event each.
pub fn both_sides_shut_down(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    ok(world.shutdown(connection.client, 0));
    ok(world.shutdown(connection.server, 0));
    connection.both_shut_down(world);
    silent(world, pair.client.eq);
    silent(world, pair.server.eq);
    connection.close(world);
    PASSED
}

/// D11: a shutdown sends what was queued; the peer gets all of it, then FI_SHUTDOWN.
pub fn shutdown_drains_what_was_queued(world: &mut dyn World) -> Outcome {
    const COUNT: u64 = 40;
    let connection = Connected::open(world);
    let pair = connection.pair;
    for number in 0..COUNT {
        ok(world.recv(connection.server, ReceiveOp::new(30_000, number)));
    }
    for number in 0..COUNT {
        ok(world.send(connection.client, SendOp::new(pattern(number, 30_000), number)));
    }
    ok(world.shutdown(connection.client, 0));
    shut_down(world, pair.server.eq, connection.server);
    for number in 0..COUNT {
        let done = ok(world.cq_read(pair.server.cq));
        assert_eq!((done.context, done.len), (number, 30_000));
        assert!(done.buffers[0] == pattern(number, 30_000));
    }
    shut_down(world, pair.client.eq, connection.client);
    assert_eq!(drain(world, &pair.client), (0..COUNT).map(|number| (number, Ok(()))).collect::<Vec<_>>());
    connection.close(world);
    PASSED
}

/// D11: what arrived before the peer's shutdown goes to receives that are posted after it.
pub fn data_before_a_shutdown_is_still_received(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    for number in 0..3 {
        ok(world.send(connection.client, SendOp::new(pattern(number, 100), number)));
    }
    ok(world.shutdown(connection.client, 0));
    shut_down(world, pair.client.eq, connection.client);
    silent(world, pair.server.eq);
    for number in 0..3 {
        ok(world.recv(connection.server, ReceiveOp::new(100, number)));
        let done = completion(world, pair.server.cq);
        assert_eq!((done.context, done.len), (number, 100));
        assert!(done.buffers[0] == pattern(number, 100));
    }
    shut_down(world, pair.server.eq, connection.server);
    connection.close(world);
    PASSED
}

/// D11: the same for messages without a payload, whose header is all there is.
pub fn empty_messages_before_a_shutdown_are_received(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    for number in 0..3 {
        ok(world.send(connection.client, SendOp::new([], number)));
    }
    ok(world.shutdown(connection.client, 0));
    shut_down(world, pair.client.eq, connection.client);
    silent(world, pair.server.eq);
    for number in 0..3 {
        ok(world.recv(connection.server, ReceiveOp::new(1, number)));
        let done = completion(world, pair.server.cq);
        assert_eq!((done.context, done.len), (number, 0));
    }
    shut_down(world, pair.server.eq, connection.server);
    connection.close(world);
    PASSED
}

/// D12: data that nobody receives holds FI_SHUTDOWN back for a limited time only.
pub fn unreceived_data_holds_the_end_back_for_a_limited_time(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    ok(world.set_ep_limits(connection.server, short_limits()));
    ok(world.send(connection.client, SendOp::new(*b"nobody wants this", 0)));
    ok(world.shutdown(connection.client, 0));
    connection.both_shut_down(world);
    refused(world.send(connection.server, SendOp::new(*b"x", 0)), Errno::ESHUTDOWN);
    // It is still there.
    ok(world.recv(connection.server, ReceiveOp::new(32, 1)));
    let done = completion(world, connection.pair.server.cq);
    assert_eq!((done.context, &done.buffers[0][..17]), (1, &b"nobody wants this"[..]));
    nothing_is_left(world, &connection, 2);
    connection.close(world);
    PASSED
}

/// Of what the peer had sent before the end nothing is left: a receive is refused, or ends as soon as that is known.
fn nothing_is_left(world: &mut dyn World, connection: &Connected, context: u64) {
    let Connected { pair, server, .. } = *connection;
    if world.recv(server, ReceiveOp::new(8, context)).is_ok() {
        let failed = completion_error(world, pair.server.cq);
        assert_eq!((failed.context, failed.errno), (context, Errno::ECANCELED));
    }
    refused(world.recv(server, ReceiveOp::new(8, context)), Errno::ESHUTDOWN);
    silent(world, pair.server.eq);
    no_completion(world, pair.server.cq);
}

/// Messages that nobody has received when the client has shut down, and the server was told.
fn unreceived(world: &mut dyn World, connection: &Connected, messages: impl IntoIterator<Item = Vec<u8>>) {
    let Connected { server, client, .. } = *connection;
    ok(world.set_ep_limits(server, short_limits()));
    for bytes in messages {
        ok(world.send(client, SendOp { quiet: true, ..SendOp::new(bytes, 0) }));
    }
    ok(world.shutdown(client, 0));
    connection.both_shut_down(world);
}

/// D11: what the peer had sent before the end is received after it, be it kept or in the transport; what finds nothing
/// more is cancelled.
pub fn what_came_before_the_end_is_received_after_it(world: &mut dyn World) -> Outcome {
    const COUNT: u64 = 70;
    let connection = Connected::open(world);
    let pair = connection.pair;
    unreceived(world, &connection, (0..COUNT).map(|number| pattern(number, number as usize % 50)));
    for (from, left) in [(0, 1), (1, 4), (5, COUNT - 5)] {
        for number in from..from + left {
            ok(world.recv(connection.server, ReceiveOp::new(60, number)));
        }
        for number in from..from + left {
            let done = completion(world, pair.server.cq);
            let bytes = pattern(number, number as usize % 50);
            assert_eq!((done.context, done.len), (number, bytes.len() as u64));
            assert_eq!(done.buffers[0][..bytes.len()], bytes);
        }
    }
    nothing_is_left(world, &connection, COUNT);
    connection.close(world);
    PASSED
}

/// D11: the same for a message that is too long, and for a buffer for several.
pub fn what_is_left_after_the_end_meets_receives_of_all_kinds(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    unreceived(world, &connection, (0..5).map(|number| pattern(number, 100)));
    ok(world.recv(connection.server, ReceiveOp::new(60, 1)));
    let failed = completion_error(world, pair.server.cq);
    assert_eq!((failed.context, failed.errno, failed.overflow), (1, Errno::ETRUNC, 40));
    ok(world.recv(connection.server, ReceiveOp::multi(100_000, 2)));
    for number in 1..5 {
        let done = completion(world, pair.server.cq);
        assert_eq!((done.context, done.offset), (2, (number - 1) * 100));
        assert_eq!(done.buffers.concat(), pattern(number, 100));
    }
    let failed = completion_error(world, pair.server.cq);
    assert_eq!((failed.context, failed.errno), (2, Errno::ECANCELED));
    assert!(failed.flags.contains(OpFlags::MULTI_RECV), "{:?}", failed.flags);
    nothing_is_left(world, &connection, 3);
    connection.close(world);
    PASSED
}

/// D2, D11: what is left after the end is nobody's once the endpoint is closed, and holds nothing up.
pub fn what_is_left_after_the_end_goes_with_the_endpoint(world: &mut dyn World) -> Outcome {
    for receives in [0, 1] {
        let connection = Connected::open(world);
        let pair = connection.pair;
        unreceived(world, &connection, (0..70).map(|number| pattern(number, 40)));
        for context in 0..receives {
            ok(world.recv(connection.server, ReceiveOp::new(40, context)));
            assert_eq!(completion(world, pair.server.cq).buffers[0], pattern(context, 40));
        }
        ok(world.close_ep(connection.server));
        no_completion(world, pair.server.cq);
        silent(world, pair.server.eq);
        ok(world.close_ep(connection.client));
        pair.close(world);
    }
    PASSED
}

/// D8, D11: pending receives complete once, with FI_ECANCELED, before FI_SHUTDOWN; on both sides.
pub fn pending_receives_are_cancelled_before_the_end(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    for context in 0..5 {
        ok(world.recv(connection.server, ReceiveOp::new(8, context)));
        ok(world.recv(connection.client, ReceiveOp::new(8, context)));
    }
    ok(world.shutdown(connection.client, 0));
    let wanted: Vec<_> = (0..5).map(|context| (context, Err(Errno::ECANCELED))).collect();
    for (side, ep) in [(pair.client, connection.client), (pair.server, connection.server)] {
        shut_down(world, side.eq, ep);
        assert_eq!(drain(world, &side), wanted);
        no_completion(world, side.cq);
    }
    connection.close(world);
    PASSED
}

/// D2: operations pending at close complete before close returns.
pub fn close_completes_what_is_pending(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    for context in 0..5 {
        ok(world.recv(connection.client, ReceiveOp::new(8, context)));
    }
    for context in 5..8 {
        let send = SendOp::new(*b"x", context).flags(OpFlags::DELIVERY_COMPLETE);
        ok(world.send(connection.client, send));
    }
    ok(world.close_ep(connection.client));
    let mut found = drain(world, &pair.client);
    found.sort_unstable_by_key(|&(context, _)| context);
    assert_eq!(found, (0..8).map(|context| (context, Err(Errno::ECANCELED))).collect::<Vec<_>>());
    no_completion(world, pair.client.cq);
    silent(world, pair.client.eq);
    ok(world.close_ep(connection.server));
    pair.close(world);
    PASSED
}

/// 3.2: closing one side is FI_SHUTDOWN at the other, after its receives were cancelled.
pub fn a_close_is_a_shutdown_at_the_peer(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    ok(world.recv(connection.server, ReceiveOp::new(8, 1)));
    ok(world.close_ep(connection.client));
    shut_down(world, pair.server.eq, connection.server);
    assert_eq!(drain(world, &pair.server), [(1, Err(Errno::ECANCELED))]);
    silent(world, pair.server.eq);
    ok(world.close_ep(connection.server));
    pair.close(world);
    PASSED
}

/// 3.2: after the end nothing can be sent or received.
pub fn after_the_end_nothing_is_taken(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    ok(world.shutdown(connection.client, 0));
    refused(world.send(connection.client, SendOp::new(*b"x", 0)), Errno::ESHUTDOWN);
    connection.both_shut_down(world);
    for ep in [connection.client, connection.server] {
        refused(world.send(ep, SendOp::new(*b"x", 0)), Errno::ESHUTDOWN);
        refused(world.recv(ep, ReceiveOp::new(1, 0)), Errno::ESHUTDOWN);
        refused(world.connect(ep, Some(pair.address), &[]), Errno::EINVAL);
    }
    no_completion(world, pair.client.cq);
    no_completion(world, pair.server.cq);
    connection.close(world);
    PASSED
}

/// D8, D12: a shutdown whose data the peer never takes ends in its limit; what was not sent fails.
pub fn a_shutdown_that_cannot_drain_ends_in_time(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    ok(world.set_ep_limits(connection.client, short_limits()));
    let send = SendOp::new(*b"x", 1).flags(OpFlags::DELIVERY_COMPLETE);
    ok(world.send(connection.client, send));
    let from = world.now();
    ok(world.shutdown(connection.client, 0));
    shut_down(world, pair.client.eq, connection.client);
    let took = world.now() - from;
    assert!(took >= Duration::from_millis(190) && took < Duration::from_secs(3), "{took:?}");
    assert_eq!(drain(world, &pair.client), [(1, Err(Errno::ECANCELED))]);
    connection.close(world);
    PASSED
}

/// D8: the process dies at each byte of a message and its record: what had arrived whole is received,
/// the rest fails, one FI_SHUTDOWN comes last.
pub fn a_peer_dies_at_each_byte_of_a_message(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    faults(world)?;
    for death in [Death::Killed, Death::Reset] {
        for bytes in 0..=56 {
            let connection = pair.connect(world);
            for context in 0..2 {
                ok(world.recv(connection.server, ReceiveOp::new(32, context)));
            }
            faults(world)?.die_after(connection.client, bytes, death);
            for context in 0..2 {
                // A client that is dead already cannot send.
                let _ = world.send(connection.client, SendOp::new(pattern(context, 12), context));
            }
            shut_down(world, pair.server.eq, connection.server);
            let found = drain(world, &pair.server);
            assert_eq!(found.len(), 2, "{bytes}: {found:?}");
            for (number, (context, result)) in found.into_iter().enumerate() {
                assert_eq!(context, number as u64);
                let whole = bytes >= 28 * (context + 1);
                match result {
                    Ok(()) => assert!(whole, "{bytes}: received what was not sent"),
                    // A reset may overtake what was sent before it.
                    Err(errno) => {
                        assert_eq!(errno, Errno::ECANCELED);
                        assert!(!whole || death == Death::Reset, "{bytes}: lost");
                    }
                }
            }
            silent(world, pair.server.eq);
            connection.close_endpoints(world);
            drain(world, &pair.client);
        }
    }
    pair.close(world);
    PASSED
}

/// D8: sends that wait for an acknowledgement fail once when the peer dies.
pub fn unacknowledged_sends_fail_once(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    for context in 0..4 {
        let send = SendOp::new(*b"x", context).flags(OpFlags::DELIVERY_COMPLETE);
        ok(world.send(connection.client, send));
    }
    run_for(world, A_WHILE);
    ok(world.close_ep(connection.server));
    shut_down(world, pair.client.eq, connection.client);
    let wanted: Vec<_> = (0..4).map(|context| (context, Err(Errno::ECANCELED))).collect();
    assert_eq!(drain(world, &pair.client), wanted);
    no_completion(world, pair.client.cq);
    ok(world.close_ep(connection.client));
    pair.close(world);
    PASSED
}

/// 3.2: other endpoints on the same queues do not notice.
pub fn a_close_disturbs_nobody_else(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (doomed, other) = (pair.connect(world), pair.connect(world));
    ok(world.recv(doomed.server, ReceiveOp::new(8, 1)));
    ok(world.close_ep(doomed.client));
    shut_down(world, pair.server.eq, doomed.server);
    drain(world, &pair.server);
    other.exchange(world, b"here");
    ok(world.close_ep(doomed.server));
    other.exchange(world, b"still here");
    other.close(world);
    PASSED
}

/// 3.6: an endpoint can be closed in each of its states.
pub fn an_endpoint_can_always_be_closed(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let attr = world.endpoint_attr();
    // Created, bound, enabled.
    let ep = ok(world.endpoint(pair.client.domain, &attr, None));
    ok(world.close_ep(ep));
    let ep = pair.client.endpoint(world, None);
    ok(world.close_ep(ep));
    let ep = pair.client.endpoint(world, None);
    ok(world.enable(ep));
    ok(world.recv(ep, ReceiveOp::new(8, 1)));
    ok(world.close_ep(ep));
    assert_eq!(drain(world, &pair.client), [(1, Err(Errno::ECANCELED))]);
    // Connecting: at each stage.
    for micros in [0, 10, 20, 50, 100, 200, 500, 5000] {
        let ep = pair.client.endpoint(world, None);
        ok(world.connect(ep, Some(pair.address), &[]));
        run_for(world, Duration::from_micros(micros));
        ok(world.close_ep(ep));
    }
    // Their requests may have come; their peers are gone.
    run_for(world, A_WHILE);
    while let Ok(Event::ConnectionRequest { request: Some(request), .. }) = world.eq_read(pair.server.eq) {
        let ep = pair.server.endpoint(world, Some(request));
        let _ = world.accept(ep, &[]);
        ok(world.close_ep(ep));
    }
    // Accepting, connected, shutting down.
    let (client, request, _) = pair.ask(world, &[]);
    let server = pair.server.endpoint(world, Some(request));
    ok(world.accept(server, &[]));
    ok(world.close_ep(server));
    ok(world.close_ep(client));
    let connection = pair.connect(world);
    ok(world.shutdown(connection.client, 0));
    ok(world.close_ep(connection.client));
    shut_down(world, pair.server.eq, connection.server);
    ok(world.close_ep(connection.server));
    silent(world, pair.server.eq);
    silent(world, pair.client.eq);
    pair.close(world);
    PASSED
}

/// 3.6: what is in use cannot be closed, a refused close changes nothing, and the legal order works.
pub fn close_order(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let Pair { server, client, pep, .. } = connection.pair;
    for side in [server, client] {
        refused(world.close_fabric(side.fabric), Errno::EBUSY);
        refused(world.close_domain(side.domain), Errno::EBUSY);
        refused(world.close_eq(side.eq), Errno::EBUSY);
        refused(world.close_cq(side.cq), Errno::EBUSY);
    }
    connection.exchange(world, b"unharmed");
    ok(world.close_ep(connection.server));
    ok(world.close_ep(connection.client));
    refused(world.close_domain(server.domain), Errno::EBUSY);
    ok(world.close_cq(server.cq));
    ok(world.close_domain(server.domain));
    refused(world.close_eq(server.eq), Errno::EBUSY);
    refused(world.close_fabric(server.fabric), Errno::EBUSY);
    ok(world.close_pep(pep));
    refused(world.close_fabric(server.fabric), Errno::EBUSY);
    ok(world.close_eq(server.eq));
    ok(world.close_fabric(server.fabric));
    client.close(world);
    PASSED
}

/// 3.6: a refused close of an event queue leaves it alive.
pub fn a_refused_close_leaves_the_queue_alive(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    refused(world.close_eq(pair.server.eq), Errno::EBUSY);
    let client = pair.client.endpoint(world, None);
    refused(world.close_eq(pair.client.eq), Errno::EBUSY);
    ok(world.connect(client, Some(pair.address), &[]));
    let (request, _) = request(world, pair.server.eq);
    refused(world.close_eq(pair.server.eq), Errno::EBUSY);
    ok(world.reject(request, &[]));
    event_error(world, pair.client.eq);
    ok(world.close_ep(client));
    pair.close(world);
    PASSED
}

/// 3.6: a completion queue with unread completions closes once nobody is bound.
pub fn unread_completions_do_not_hold_a_queue(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    ok(world.recv(connection.client, ReceiveOp::new(8, 1)));
    ok(world.recv(connection.server, ReceiveOp::new(8, 1)));
    ok(world.send(connection.client, SendOp::new(*b"x", 2)));
    run_for(world, A_WHILE);
    connection.close(world);
    PASSED
}

/// 3.7: what is closed is closed: every call on it is refused.
pub fn closed_objects_are_gone(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let Pair { client, .. } = connection.pair;
    connection.close(world);
    let ep: Endpoint = connection.client;
    refused(world.close_ep(ep), Errno::EINVAL);
    refused(world.send(ep, SendOp::new(*b"x", 0)), Errno::EINVAL);
    refused(world.recv(ep, ReceiveOp::new(1, 0)), Errno::EINVAL);
    refused(world.shutdown(ep, 0), Errno::EINVAL);
    refused(world.close_eq(client.eq), Errno::EINVAL);
    refused(world.eq_read(client.eq), Errno::EINVAL);
    refused(world.close_cq(client.cq), Errno::EINVAL);
    refused(world.cq_read(client.cq), Errno::EINVAL);
    refused(world.close_domain(client.domain), Errno::EINVAL);
    refused(world.close_fabric(client.fabric), Errno::EINVAL);
    refused(world.close_pep(connection.pair.pep), Errno::EINVAL);
    PASSED
}

/// D12: limits that are off: a shutdown waits for as long as the peer takes.
pub fn a_shutdown_without_a_limit_waits(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    ok(world.set_ep_limits(connection.client, TimeLimits { shutdown: None, ..TimeLimits::default() }));
    let send = SendOp::new(*b"x", 1).flags(OpFlags::DELIVERY_COMPLETE);
    ok(world.send(connection.client, send));
    ok(world.shutdown(connection.client, 0));
    run_for(world, Duration::from_secs(1));
    refused(world.eq_read(pair.client.eq), Errno::EAGAIN);
    ok(world.recv(connection.server, ReceiveOp::new(1, 2)));
    assert_eq!(completion(world, pair.client.cq).context, 1);
    connection.both_shut_down(world);
    connection.close(world);
    PASSED
}

/// D14: the end of one endpoint and the failure of another are told in order, each about its own.
pub fn ends_and_failures_name_their_endpoint(world: &mut dyn World) -> Outcome {
    let connection = Connected::open(world);
    let pair = connection.pair;
    let (failing, request, _) = pair.ask(world, &[]);
    ok(world.reject(request, &[]));
    run_for(world, A_WHILE);
    ok(world.shutdown(connection.client, 0));
    let error = event_error(world, pair.client.eq);
    assert_eq!(error.about, Object::Endpoint(failing));
    shut_down(world, pair.client.eq, connection.client);
    ok(world.close_ep(failing));
    connection.close(world);
    PASSED
}

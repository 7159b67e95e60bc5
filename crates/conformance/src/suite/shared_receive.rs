// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Shared receive contexts (section 3): receives of one queue for several endpoints.

use kofi_core::attr::CqAttr;
use kofi_core::{EndpointAttr, Errno, OpFlags, SrxAttr};

use super::Outcome;
use super::fixture::*;
use crate::World;
use crate::world::{CompletionQueue, Endpoint, ReceiveOp, SendOp, SharedReceive};

const ATTR: SrxAttr = SrxAttr { size: 100, iov_limit: 4 };

/// A server whose endpoints share their receives.
struct Shared {
    pair: Pair,
    srx: SharedReceive,
    /// For receives that no message has met.
    idle: CompletionQueue,
}

impl Shared {
    fn open(world: &mut dyn World) -> Self {
        let pair = Pair::open(world);
        let srx = ok(world.srx_open(pair.server.domain, &ATTR));
        let idle = ok(world.cq_open(pair.server.domain, &CqAttr::default()));
        ok(world.srx_bind_cq(srx, idle, OpFlags::RECV));
        Self { pair, srx, idle }
    }

    fn connect(&self, world: &mut dyn World) -> Connected {
        let attr = world.endpoint_attr();
        self.connect_with(world, &attr)
    }

    /// A connection to an endpoint with certain attributes that shares the receives.
    fn connect_with(&self, world: &mut dyn World, attr: &EndpointAttr) -> Connected {
        let pair = self.pair;
        let (client, request, _) = pair.ask(world, &[]);
        let server = pair.server.endpoint_with(world, attr, Some(request));
        ok(world.ep_bind_srx(server, self.srx, OpFlags::empty()));
        pair.accept_by(world, client, server)
    }

    fn recv(&self, world: &mut dyn World, len: usize, context: u64) {
        ok(world.srx_recv(self.srx, ReceiveOp::new(len, context)));
    }

    /// The next message at the server is this one, in this receive.
    #[track_caller]
    fn expect(&self, world: &mut dyn World, context: u64, bytes: &[u8]) {
        let done = completion(world, self.pair.server.cq);
        assert_eq!((done.context, done.len), (context, bytes.len() as u64));
        assert_eq!(done.buffers[0][..bytes.len()], *bytes);
    }

    fn close(&self, world: &mut dyn World, connections: &[Connected]) {
        for connection in connections {
            connection.close_endpoints(world);
        }
        ok(world.close_srx(self.srx));
        ok(world.close_cq(self.idle));
        self.pair.close(world);
    }
}

fn send(world: &mut dyn World, ep: Endpoint, bytes: &[u8]) {
    ok(world.send(ep, SendOp { quiet: true, ..SendOp::new(bytes, 0).flags(OpFlags::INJECT) }));
}

/// Receives are used in the order in which they were posted, whoever's message comes.
pub fn receives_go_to_whoever_comes_first(world: &mut dyn World) -> Outcome {
    let shared = Shared::open(world);
    let connections = [shared.connect(world), shared.connect(world)];
    for context in 1..=4 {
        shared.recv(world, 10, context);
    }
    for (context, from) in [(1, 0), (2, 1), (3, 1), (4, 0)] {
        let bytes = [context as u8, from as u8];
        send(world, connections[from].client, &bytes);
        shared.expect(world, context, &bytes);
    }
    no_completion(world, shared.pair.server.cq);
    shared.close(world, &connections);
    PASSED
}

/// Endpoints whose messages wait for a receive take turns, in the order in which they came.
pub fn messages_that_wait_take_turns(world: &mut dyn World) -> Outcome {
    let shared = Shared::open(world);
    let attr = world.endpoint_attr();
    // Messages are kept by the one endpoint, and left in the transport by the other.
    let connections = [
        shared.connect(world),
        shared.connect_with(world, &EndpointAttr { total_buffered_recv: 0, ..attr }),
        shared.connect(world),
    ];
    for (number, connection) in connections.iter().enumerate() {
        for message in 0..3 {
            send(world, connection.client, &[number as u8, message]);
        }
        // It is there before the next one comes.
        run_for(world, A_WHILE);
    }
    for round in 0..3 {
        for number in 0..3 {
            shared.recv(world, 10, 7);
            shared.expect(world, 7, &[number, round]);
        }
    }
    // With receives for all of them at once nobody is left out.
    for connection in &connections {
        for message in 0..3 {
            send(world, connection.client, &[9, message]);
        }
    }
    run_for(world, A_WHILE);
    for context in 0..9 {
        shared.recv(world, 10, context);
    }
    let mut contexts: Vec<_> = (0..9).map(|_| completion(world, shared.pair.server.cq).context).collect();
    contexts.sort_unstable();
    assert_eq!(contexts, (0..9).collect::<Vec<_>>());
    shared.close(world, &connections);
    PASSED
}

/// Long messages of several endpoints arrive at the same time, each in its receive.
pub fn long_messages_do_not_mix(world: &mut dyn World) -> Outcome {
    const LEN: usize = 300_000;
    let shared = Shared::open(world);
    let connections = [shared.connect(world), shared.connect(world), shared.connect(world)];
    for context in 0..6 {
        shared.recv(world, LEN, context);
    }
    for number in 0..2 {
        for (salt, connection) in (10 * number..).zip(&connections) {
            ok(world.send(connection.client, SendOp::new(pattern(salt, LEN), salt)));
        }
    }
    let mut found = Vec::new();
    for _ in 0..6 {
        let done = completion(world, shared.pair.server.cq);
        assert_eq!(done.len, LEN as u64);
        let salt = [0, 1, 2, 10, 11, 12].into_iter().find(|&salt| done.buffers[0] == pattern(salt, LEN));
        found.push(salt.unwrap_or_else(|| panic!("a message that nobody sent")));
    }
    for salt in 0..3 {
        let at = |salt| found.iter().position(|&found| found == salt);
        assert!(at(salt) < at(salt + 10), "{found:?}");
    }
    shared.close(world, &connections);
    PASSED
}

/// An endpoint that shares its receives has none of its own.
pub fn receives_of_the_endpoint_are_refused(world: &mut dyn World) -> Outcome {
    let shared = Shared::open(world);
    let connection = shared.connect(world);
    refused(world.recv(connection.server, ReceiveOp::new(10, 1)), Errno::ENOSYS);
    refused(world.cancel(connection.server, 1), Errno::ENOENT);
    shared.recv(world, 10, 2);
    // Its receives are the context's.
    refused(world.cancel(connection.server, 2), Errno::ENOENT);
    send(world, connection.client, b"x");
    shared.expect(world, 2, b"x");
    shared.close(world, &[connection]);
    PASSED
}

/// D10: what no message has met can be cancelled, and completes in the context's own queue.
pub fn cancel_takes_the_oldest_of_the_context(world: &mut dyn World) -> Outcome {
    let shared = Shared::open(world);
    let connection = shared.connect(world);
    for (len, context) in [(1, 5), (2, 6), (3, 5)] {
        shared.recv(world, len, context);
    }
    refused(world.srx_cancel(shared.srx, 9), Errno::ENOENT);
    ok(world.srx_cancel(shared.srx, 5));
    let failed = completion_error(world, shared.idle);
    assert_eq!((failed.context, failed.errno, failed.len), (5, Errno::ECANCELED, 0));
    assert_eq!(failed.buffers[0].len(), 1);
    for context in [6, 5] {
        send(world, connection.client, b"yz");
        shared.expect(world, context, b"yz");
        refused(world.srx_cancel(shared.srx, context), Errno::ENOENT);
    }
    no_completion(world, shared.idle);
    shared.close(world, &[connection]);
    PASSED
}

/// Section 6: the context outlives its endpoints; then its receives are given back.
pub fn closing_gives_receives_back(world: &mut dyn World) -> Outcome {
    let shared = Shared::open(world);
    let pair = shared.pair;
    let connection = shared.connect(world);
    for context in 0..3 {
        shared.recv(world, 10, context);
    }
    refused(world.close_srx(shared.srx), Errno::EBUSY);
    refused(world.close_cq(shared.idle), Errno::EBUSY);
    ok(world.close_ep(connection.server));
    // No message has met them: they are none of the endpoint's business.
    no_completion(world, pair.server.cq);
    ok(world.close_ep(connection.client));
    refused(world.close_domain(pair.server.domain), Errno::EBUSY);
    ok(world.close_srx(shared.srx));
    for context in 0..3 {
        let failed = completion_error(world, shared.idle);
        assert_eq!((failed.context, failed.errno), (context, Errno::ECANCELED));
        assert_eq!(failed.buffers[0].len(), 10);
    }
    refused(world.srx_recv(shared.srx, ReceiveOp::new(1, 1)), Errno::EINVAL);
    refused(world.srx_cancel(shared.srx, 1), Errno::EINVAL);
    refused(world.close_srx(shared.srx), Errno::EINVAL);
    ok(world.close_cq(shared.idle));
    // One without a queue tells nobody.
    let srx = ok(world.srx_open(pair.server.domain, &ATTR));
    ok(world.srx_recv(srx, ReceiveOp::new(10, 1)));
    ok(world.srx_recv(srx, ReceiveOp::multi(10, 2)));
    ok(world.srx_cancel(srx, 1));
    ok(world.close_srx(srx));
    pair.close(world);
    PASSED
}

/// The end of one endpoint leaves receives, and messages, to the others.
pub fn an_end_disturbs_no_other_endpoint(world: &mut dyn World) -> Outcome {
    let shared = Shared::open(world);
    let connections = [shared.connect(world), shared.connect(world)];
    shared.recv(world, 10, 1);
    ok(world.shutdown(connections[0].client, 0));
    shut_down(world, shared.pair.server.eq, connections[0].server);
    shut_down(world, shared.pair.client.eq, connections[0].client);
    no_completion(world, shared.pair.server.cq);
    send(world, connections[1].client, b"still");
    shared.expect(world, 1, b"still");
    // One that goes while its message waits takes no receive with it.
    let third = shared.connect(world);
    send(world, third.client, b"lost");
    run_for(world, A_WHILE);
    ok(world.close_ep(third.server));
    send(world, connections[1].client, b"kept");
    run_for(world, A_WHILE);
    shared.recv(world, 10, 2);
    shared.expect(world, 2, b"kept");
    ok(world.close_ep(third.client));
    shared.close(world, &connections);
    PASSED
}

/// What a peer sent before it ended its stream is received once there are receives.
pub fn messages_before_an_end_wait_for_receives(world: &mut dyn World) -> Outcome {
    let shared = Shared::open(world);
    let connections = [shared.connect(world), shared.connect(world)];
    for connection in &connections {
        send(world, connection.client, b"last");
        ok(world.shutdown(connection.client, 0));
        shut_down(world, shared.pair.client.eq, connection.client);
    }
    silent(world, shared.pair.server.eq);
    for context in 0..2 {
        shared.recv(world, 10, context);
        shared.expect(world, context, b"last");
    }
    for _ in 0..2 {
        event(world, shared.pair.server.eq);
    }
    shared.close(world, &connections);
    PASSED
}

/// A receive that has a part of its message fails with the connection; the next one is as before.
pub fn a_receive_fails_with_its_message(world: &mut dyn World) -> Outcome {
    raw(world)?;
    let shared = Shared::open(world);
    let pair = shared.pair;
    let other = shared.connect(world);
    // A peer that asks, and says half a message.
    let mut bytes = vec![0; 32];
    bytes[0] = 3;
    bytes[24..32].copy_from_slice(&1u64.to_ne_bytes());
    bytes.extend([3, 0, 0, 0, 0, 0, 16, 0]);
    bytes.extend((16 + 10u64).to_ne_bytes());
    bytes.extend(b"half");
    let peer = raw(world)?.connect(pair.address);
    raw(world)?.write(peer, &bytes);
    let (request, _) = request(world, pair.server.eq);
    let server = pair.server.endpoint(world, Some(request));
    ok(world.ep_bind_srx(server, shared.srx, OpFlags::empty()));
    ok(world.accept(server, &[]));
    connected(world, pair.server.eq, server);
    for context in 1..=2 {
        // Long enough for all of it, be it kept first or not.
        ok(world.srx_recv(shared.srx, ReceiveOp::new(100, context)));
    }
    run_for(world, A_WHILE);
    raw(world)?.reset(peer);
    shut_down(world, pair.server.eq, server);
    send(world, other.client, b"whole");
    let first = wait(world, "a completion", |world| world.cq_read(pair.server.cq));
    match first {
        // It was kept, and no receive was spent on it.
        Ok(done) => assert_eq!((done.context, done.len), (1, 5)),
        Err(_) => {
            let failed = ok(world.cq_readerr(pair.server.cq));
            assert_eq!((failed.context, failed.errno, failed.len), (1, Errno::ECANCELED, 0));
            shared.expect(world, 2, b"whole");
        }
    }
    ok(world.close_ep(server));
    shared.close(world, &[other]);
    PASSED
}

/// Completions of shared receives say what those of others do.
pub fn shared_receives_are_as_others(world: &mut dyn World) -> Outcome {
    let shared = Shared::open(world);
    let connection = shared.connect(world);
    let counter = ok(world.cntr_open(shared.pair.server.domain));
    let buffers = vec![vec![0; 2], vec![0; 4]];
    ok(world.srx_recv(shared.srx, ReceiveOp { buffers, context: 1, ..ReceiveOp::default() }));
    let op = SendOp { data: Some(77), ..SendOp::new(*b"seven..", 2).flags(OpFlags::DELIVERY_COMPLETE) };
    ok(world.send(connection.client, op));
    let failed = completion_error(world, shared.pair.server.cq);
    assert_eq!((failed.errno, failed.len, failed.overflow, failed.data), (Errno::ETRUNC, 6, 1, 77));
    assert_eq!(failed.buffers, [b"se".to_vec(), b"ven.".to_vec()]);
    assert_eq!(completion(world, shared.pair.client.cq).context, 2);
    // A sender that waits to be matched waits for a shared receive, too.
    ok(world.send(connection.client, SendOp::new(*b"match", 3).flags(OpFlags::MATCH_COMPLETE)));
    no_completion(world, shared.pair.client.cq);
    shared.recv(world, 5, 4);
    shared.expect(world, 4, b"match");
    assert_eq!(completion(world, shared.pair.client.cq).context, 3);
    ok(world.close_cntr(counter));
    shared.close(world, &[connection]);
    PASSED
}

/// Wrong orders and limits.
pub fn odd_uses_of_a_context_are_refused(world: &mut dyn World) -> Outcome {
    let shared = Shared::open(world);
    let pair = shared.pair;
    let small = ok(world.srx_open(pair.server.domain, &SrxAttr { size: 2, iov_limit: 1 }));
    refused(world.srx_bind_cq(small, pair.server.cq, OpFlags::empty()), Errno::EINVAL);
    refused(world.srx_bind_cq(small, pair.server.cq, OpFlags::TRANSMIT), Errno::EBADFLAGS);
    refused(world.srx_bind_cq(small, pair.client.cq, OpFlags::RECV), Errno::EINVAL);
    refused(world.srx_bind_cq(shared.srx, pair.server.cq, OpFlags::RECV), Errno::EINVAL);
    let two = ReceiveOp { buffers: vec![vec![0], vec![0]], ..ReceiveOp::default() };
    refused(world.srx_recv(small, two), Errno::EINVAL);
    refused(world.srx_recv(small, ReceiveOp { flags: OpFlags::INJECT, ..ReceiveOp::new(1, 1) }), Errno::EBADFLAGS);
    for context in 0..2 {
        ok(world.srx_recv(small, ReceiveOp::new(1, context)));
    }
    refused(world.srx_recv(small, ReceiveOp::new(1, 2)), Errno::EAGAIN);
    ok(world.srx_cancel(small, 0));
    ok(world.srx_recv(small, ReceiveOp::new(1, 2)));
    let ep = pair.client.endpoint(world, None);
    refused(world.ep_bind_srx(ep, small, OpFlags::empty()), Errno::EINVAL);
    ok(world.close_ep(ep));
    let ep = pair.server.endpoint(world, None);
    refused(world.ep_bind_srx(ep, small, OpFlags::RECV), Errno::EINVAL);
    ok(world.ep_bind_srx(ep, small, OpFlags::empty()));
    refused(world.ep_bind_srx(ep, small, OpFlags::empty()), Errno::EINVAL);
    refused(world.close_srx(small), Errno::EBUSY);
    ok(world.close_ep(ep));
    let ep = pair.server.endpoint(world, None);
    ok(world.enable(ep));
    refused(world.ep_bind_srx(ep, small, OpFlags::empty()), Errno::EOPBADSTATE);
    ok(world.close_ep(ep));
    ok(world.close_srx(small));
    shared.close(world, &[]);
    PASSED
}

/// D11: what an endpoint's peer had sent before the end takes shared receives until the endpoint is closed, and only
/// those that it needs.
pub fn what_is_left_after_the_end_takes_shared_receives(world: &mut dyn World) -> Outcome {
    let shared = Shared::open(world);
    let connections = [shared.connect(world), shared.connect(world)];
    let [over, lives] = &connections;
    let pair = shared.pair;
    ok(world.set_ep_limits(over.server, short_limits()));
    for message in 0..3 {
        send(world, over.client, &[0, message]);
    }
    ok(world.shutdown(over.client, 0));
    over.both_shut_down(world);
    for context in 0..2 {
        shared.recv(world, 10, context);
        shared.expect(world, context, &[0, context as u8]);
    }
    ok(world.close_ep(over.server));
    // The third message has gone with it.
    for context in 2..4 {
        shared.recv(world, 10, context);
    }
    no_completion(world, pair.server.cq);
    for context in 2..4 {
        send(world, lives.client, &[1, context as u8]);
        shared.expect(world, context, &[1, context as u8]);
    }
    ok(world.close_ep(over.client));
    shared.close(world, &connections[1..]);
    PASSED
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Two domains, joined by a pipe that cuts the stream wherever it likes: what is sent arrives whole
//! and in order, and whatever happens, each operation completes once and each endpoint's last event
//! comes after that.
#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

#[allow(dead_code, reason = "each test uses its part")]
mod driver;

use core::time::Duration;

use driver::{Done, Host, Pipe};
use kofi_core::message::{PostReceive, Send};
use kofi_core::wire::header::{BASE_LEN, Header};
use kofi_core::wire::{ByteOrder, cm};
use kofi_core::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// What an application does, or the transport.
#[derive(Clone, Debug)]
enum Action {
    Send { side: usize, len: usize, segments: usize, data: Option<u64>, level: OpFlags, inject: bool },
    Receive { side: usize, len: usize, segments: usize },
    Move { side: usize, most: usize },
}

fn action() -> impl Strategy<Value = Action> {
    let len = || prop_oneof![1 => Just(0usize), 2 => 0usize..200, 2 => 0usize..5000];
    let level = prop_oneof![
        2 => Just(OpFlags::empty()),
        1 => Just(OpFlags::INJECT_COMPLETE),
        1 => Just(OpFlags::TRANSMIT_COMPLETE),
        1 => Just(OpFlags::DELIVERY_COMPLETE),
    ];
    prop_oneof![
        2 => (0..2usize, len(), 1..=4usize, option::of(any::<u64>()), level, prop::bool::weighted(0.2)).prop_map(
            |(side, len, segments, data, level, inject)| {
                Action::Send { side, len, segments, data, level, inject }
            }
        ),
        2 => (0..2usize, len(), 1..=4usize).prop_map(|(side, len, segments)| Action::Receive { side, len, segments }),
        3 => (0..2usize, prop_oneof![1usize..40, 1usize..4000])
            .prop_map(|(side, most)| Action::Move { side, most }),
    ]
}

/// A message that was sent, as its receiver should see it.
struct Sent {
    bytes: Vec<u8>,
    data: Option<u64>,
    acknowledged: bool,
    quiet: bool,
    context: u64,
}

struct World {
    hosts: [Host; 2],
    /// By the side that writes.
    pipes: [Pipe; 2],
    sent: [Vec<Sent>; 2],
    /// Lengths of the receives posted.
    posted: [Vec<usize>; 2],
    /// Receives that may be pending after the end was told.
    late: [usize; 2],
    /// Bytes that may still be written until the connection breaks.
    budget: usize,
    /// Whether the break is an end of both streams, or an error.
    quiet_end: bool,
}

/// Cuts memory into segments, some of which may be empty.
fn cut(bytes: &[u8], segments: usize) -> Vec<Vec<u8>> {
    let (mut rest, mut list) = (bytes, Vec::new());
    for left in (1..segments).rev() {
        let (piece, tail) = rest.split_at(rest.len() / (left * 2));
        list.push(piece.to_vec());
        rest = tail;
    }
    list.push(rest.to_vec());
    list
}

impl World {
    fn new(plan: usize, lends: bool) -> Self {
        let now = Instant::from_nanos(0);
        let mut hosts = [Host::active(now, plan, b"hello"), Host::passive(now, plan)];
        for host in &mut hosts {
            host.lends = lends;
        }
        Self {
            hosts,
            pipes: Default::default(),
            sent: Default::default(),
            posted: Default::default(),
            late: [0; 2],
            budget: usize::MAX,
            quiet_end: false,
        }
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Move { side, most } => self.step(side, most),
            Action::Receive { side, len, segments } => self.receive(side, len, segments),
            Action::Send { side, len, segments, data, level, inject } => {
                let len = if inject { len % 129 } else { len };
                let context = self.sent[side].len() as u64;
                let bytes: Vec<u8> = (0..len).map(|at| (at as u64 * 7 + context * 31 + 3) as u8).collect();
                let flags = level | if inject { OpFlags::INJECT } else { OpFlags::empty() };
                let send = Send { len: len as u64, segments, data, flags, context, quiet: inject };
                let host = &mut self.hosts[side];
                match host.ep.map(|_| host.post_send(&send, cut(&bytes, segments))) {
                    None => {}
                    Some(Ok(())) => {
                        let levels = OpFlags::TRANSMIT_COMPLETE | OpFlags::DELIVERY_COMPLETE;
                        let acknowledged = level.intersects(levels);
                        self.sent[side].push(Sent { bytes, data, acknowledged, quiet: inject, context });
                    }
                    Some(Err(error)) => {
                        let fine = [Errno::EAGAIN, Errno::ENOTCONN, Errno::ESHUTDOWN, Errno::EOPBADSTATE];
                        assert!(fine.contains(&error.errno()), "{error}");
                    }
                }
            }
        }
    }

    fn receive(&mut self, side: usize, len: usize, segments: usize) {
        let context = self.posted[side].len() as u64;
        let receive = PostReceive { len: len as u64, segments, flags: OpFlags::empty(), context };
        let host = &mut self.hosts[side];
        match host.ep.map(|_| host.post_receive(&receive, cut(&vec![0xee; len], segments))) {
            None => {}
            Some(Ok(())) => self.posted[side].push(len),
            Some(Err(error)) => {
                assert!([Errno::ESHUTDOWN, Errno::EOPBADSTATE].contains(&error.errno()), "{error}");
            }
        }
    }

    /// Receives what had arrived before the end was told, one by one, until nothing is left of that.
    fn receive_the_rest(&mut self, side: usize, most: usize) {
        let host = &self.hosts[side];
        let state = host.ep.map(|ep| host.domain.state(ep).unwrap());
        let mut posted = self.posted[side].len();
        while state == Some(State::Disconnected) {
            self.late[side] = 1;
            self.receive(side, 5000, 1);
            if self.posted[side].len() == posted {
                break;
            }
            posted += 1;
            self.settle(most);
            self.late[side] = 0;
            self.check_last_event(side);
        }
    }

    /// One round of a host's loop.
    fn step(&mut self, side: usize, most: usize) {
        let [first, second] = &mut self.pipes;
        let (outgoing, incoming) = if side == 0 { (first, second) } else { (second, first) };
        let host = &mut self.hosts[side];
        host.give_back(most);
        if self.budget > 0 {
            let before = outgoing.log.len();
            host.write(outgoing, most.min(self.budget));
            self.budget -= outgoing.log.len() - before;
        }
        if self.budget == 0 {
            (outgoing.ended, incoming.ended) = (true, true);
            if let Some(ep) = host.ep
                && !self.quiet_end
            {
                host.domain.transport_failed(ep, Errno::ECONNRESET);
            }
        }
        host.read(incoming, most);
        host.outputs(outgoing, incoming);
        self.check_delivery_complete(side);
        self.check_last_event(side);
    }

    /// Runs until nothing moves any more.
    fn settle(&mut self, most: usize) {
        let state = |world: &Self| {
            let host = |host: &Host| {
                let state = host.ep.map(|ep| (host.domain.state(ep).unwrap(), host.domain.loans(ep)));
                (state, host.done.len(), host.open)
            };
            let pipe = |pipe: &Pipe| (pipe.log.len(), pipe.bytes.len());
            (world.hosts.each_ref().map(host), world.pipes.each_ref().map(pipe))
        };
        loop {
            let before = state(self);
            // Twice: an end of the stream is seen by the round after the one that read the rest.
            for side in [0, 1, 0, 1] {
                self.step(side, most);
            }
            if state(self) == before {
                return;
            }
            assert!(self.pipes.iter().all(|pipe| pipe.log.len() < 1_000_000), "it goes on for ever");
        }
    }

    /// A send that asked for it completes only after its message has arrived.
    fn check_delivery_complete(&self, side: usize) {
        let acknowledged = self.sent[side].iter().filter(|sent| sent.acknowledged);
        let told = completions(&self.hosts[side], OpFlags::SEND)
            .filter(
                |done| matches!(&done.result, Ok(it) if self.sent[side][it.context as usize].acknowledged),
            )
            .count();
        let arrived = completions(&self.hosts[1 - side], OpFlags::RECV).count();
        if let Some(last) = acknowledged.filter(|sent| !sent.quiet).take(told).last() {
            assert!(arrived as u64 > last.context, "message {} has not arrived", last.context);
        }
    }

    /// The event that ends an endpoint comes after all completions, and nothing comes after it.
    fn check_last_event(&self, side: usize) {
        let host = &self.hosts[side];
        let Some(ep) = host.ep else { return };
        let over = matches!(host.domain.state(ep).unwrap(), State::Disconnected | State::Failed);
        if over && !host.has_lent() {
            let pending = host.posted - host.done.len() - host.released;
            let late = if host.open { self.late[side] } else { 0 };
            assert!(pending <= late, "{pending} operations are pending at the end");
        }
    }

    fn events(&mut self, side: usize) -> Vec<Event> {
        let eq = &mut self.hosts[side].eq;
        let mut events = Vec::new();
        while let Ok(entry) = eq.read().or_else(|_| eq.read_error()) {
            assert_eq!(entry.fid, driver::application::FID);
            events.push(entry.event);
        }
        events
    }

    /// The k-th message that `side` received is the k-th that the other sent, as far as it fits.
    fn check_received(&self, side: usize) -> usize {
        let mut received = 0;
        let messages = completions(&self.hosts[side], OpFlags::RECV).zip(&self.sent[1 - side]);
        for ((done, sent), &room) in messages.zip(&self.posted[side]) {
            let len = sent.bytes.len().min(room);
            let (context, flags, found, data) = match &done.result {
                Ok(it) => {
                    assert!(sent.bytes.len() <= room);
                    (it.context, it.flags, it.len, it.data)
                }
                Err(it) if it.errno == Errno::ECANCELED => break,
                Err(it) => {
                    assert_eq!((it.errno, it.overflow), (Errno::ETRUNC, (sent.bytes.len() - len) as u64));
                    assert!(it.overflow > 0);
                    (it.context, it.flags, it.len, it.data)
                }
            };
            assert_eq!((context, found), (received, len as u64), "messages arrive in order");
            assert_eq!(flags.contains(OpFlags::REMOTE_CQ_DATA), sent.data.is_some());
            assert_eq!(data, sent.data.unwrap_or_default());
            assert_eq!(done.memory[..len], sent.bytes[..len]);
            assert!(done.memory[len..].iter().all(|&byte| byte == 0xee), "it is written behind the message");
            received += 1;
        }
        received as usize
    }

    /// Sends that succeed do so in order, each kind for itself, and say nothing but that.
    fn check_sends(&self, side: usize) {
        for acknowledged in [false, true] {
            let mut told: Vec<u64> = Vec::new();
            for done in completions(&self.hosts[side], OpFlags::SEND) {
                let context = match &done.result {
                    Ok(it) => {
                        assert_eq!((it.len, it.data, it.flags), (0, 0, OpFlags::MSG | OpFlags::SEND));
                        assert!(!self.sent[side][it.context as usize].quiet);
                        it.context
                    }
                    Err(it) => {
                        assert_eq!((it.errno, it.len), (Errno::ECANCELED, 0));
                        it.context
                    }
                };
                let sent = &self.sent[side][context as usize];
                assert_eq!(done.memory, sent.bytes);
                told.extend((sent.acknowledged == acknowledged).then_some(context));
            }
            assert!(told.is_sorted_by(|a, b| a < b), "{told:?}");
        }
    }

    /// All that a side wrote is a connection message, then records with the right numbers.
    fn check_sequence(&self, side: usize) {
        let log = &self.pipes[side].log[..];
        let mut rest = match log.get(cm::HEADER_LEN..) {
            Some(rest) => rest.get(usize::from(log[3])..).unwrap_or_default(),
            None => &[],
        };
        let order = if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big };
        let mut sequence = 0u8;
        while let Some(base) = rest.first_chunk::<BASE_LEN>() {
            assert_eq!(base[7], sequence);
            sequence = sequence.wrapping_add(1);
            let len = Header::expected_len(base, order).unwrap();
            let Some(bytes) = rest.get(..len) else { return };
            let record = Header::parse(bytes, order).unwrap().record_len() as usize;
            rest = rest.get(record..).unwrap_or_default();
        }
    }

    /// The end: everything can be closed, and nothing is left over.
    fn close(mut self) {
        for side in [0, 1] {
            let [first, second] = &mut self.pipes;
            let (outgoing, incoming) = if side == 0 { (first, second) } else { (second, first) };
            let host = &mut self.hosts[side];
            if let Some(ep) = host.ep.take() {
                assert!(host.domain.close_cq(host.cq).is_err_and(|error| error.errno() == Errno::EBUSY));
                if host.has_lent() {
                    assert!(host.domain.close_endpoint(ep).is_err_and(|error| error.errno() == Errno::EBUSY));
                    host.ep = Some(ep);
                    host.domain.abandon(ep).unwrap();
                    while host.has_lent() {
                        host.give_back(host.posted);
                        host.outputs(outgoing, incoming);
                    }
                    host.ep = None;
                }
                host.domain.close_endpoint(ep).unwrap();
                host.eq.unbind_endpoint(driver::application::FID);
                assert!(host.domain.close_endpoint(ep).is_err_and(|error| error.errno() == Errno::EINVAL));
            }
            host.outputs(outgoing, incoming);
            assert_eq!(host.done.len() + host.released, host.posted, "each operation completes once");
            host.domain.close_cq(host.cq).unwrap();
            host.domain.check_close().unwrap();
            host.eq.check_close().unwrap();
            assert!(host.eq.is_empty());
        }
    }
}

fn completions(host: &Host, direction: OpFlags) -> impl Iterator<Item = &Done> {
    host.done.iter().filter(move |done| {
        let (Ok(Completion { flags, .. }) | Err(CompletionError { flags, .. })) = &done.result;
        flags.contains(direction)
    })
}

proptest! {
    #[test]
    fn what_is_sent_arrives(
        early in vec(action(), 0..20),
        actions in vec(action(), 1..60),
        most in prop_oneof![1usize..50, 1usize..9000],
        plan in 2usize..12,
        closer in 0..2usize,
        lends: bool,
    ) {
        let mut world = World::new(plan, lends);
        for action in &early {
            world.act(action);
        }
        // Only what is posted can be in the way of a connection, and it is not.
        world.settle(most);
        prop_assert_eq!(world.events(0), [Event::Connected { data: b"welcome".to_vec() }]);
        prop_assert_eq!(world.events(1), [Event::Connected { data: Vec::new() }]);
        for action in &actions {
            world.act(action);
        }
        // Receives that are late.
        for side in [0, 1] {
            while world.posted[side].len() < world.sent[1 - side].len() {
                world.receive(side, 5000, 2);
            }
        }
        world.settle(most);
        for side in [0, 1] {
            prop_assert_eq!(world.check_received(side), world.sent[1 - side].len());
            let told = completions(&world.hosts[side], OpFlags::SEND).count();
            let quiet = world.sent[side].iter().filter(|sent| sent.quiet).count();
            prop_assert_eq!((told + quiet, world.hosts[side].released), (world.sent[side].len(), quiet));
            prop_assert!(completions(&world.hosts[side], OpFlags::SEND).all(|done| done.result.is_ok()));
        }

        let host = &mut world.hosts[closer];
        host.domain.shutdown(host.ep.unwrap(), 0, host.now).unwrap();
        world.settle(most);
        prop_assert_eq!(world.events(closer), [Event::Shutdown { reason: Reason::Local }]);
        prop_assert_eq!(world.events(1 - closer), [Event::Shutdown { reason: Reason::Peer }]);
        for side in [0, 1] {
            world.check_sends(side);
            world.check_sequence(side);
        }
        world.close();
    }

    /// A shutdown at any moment: what was sent before it arrives, if there are receives for it.
    #[test]
    fn a_shutdown_drains(
        actions in vec(action(), 1..40),
        most in prop_oneof![1usize..50, 1usize..9000],
        closer in 0..2usize,
        again: bool,
        lends: bool,
        late: bool,
    ) {
        let mut world = World::new(8, lends);
        world.settle(most);
        for action in &actions {
            world.act(action);
        }
        if !late {
            for _ in world.posted[1 - closer].len()..world.sent[closer].len() {
                world.receive(1 - closer, 5000, 1);
            }
        }
        for _ in 0..1 + usize::from(again) {
            let host = &mut world.hosts[closer];
            host.domain.shutdown(host.ep.unwrap(), 0, host.now).unwrap();
        }
        world.settle(most);
        // An acknowledgement may be behind a message that this side has no receive for.
        let stuck = world.hosts[closer].open;
        let now = Instant::from_nanos(0).after(Duration::from_secs(5));
        for host in &mut world.hosts {
            host.now = now;
        }
        world.settle(most);
        // The other side may have been told only then that nothing more comes.
        for host in &mut world.hosts {
            host.now = now.after(Duration::from_secs(5));
        }
        world.settle(most);
        world.receive_the_rest(closer, most);
        world.receive_the_rest(1 - closer, most);
        if !stuck {
            prop_assert_eq!(world.check_received(1 - closer), world.sent[closer].len());
        }
        for side in [0, 1] {
            prop_assert!(!world.hosts[side].open);
            let events = world.events(side);
            let [Event::Connected { .. }, Event::Shutdown { reason }] = &events[..] else {
                panic!("{events:?}");
            };
            match reason {
                Reason::Local => {
                    prop_assert_eq!(side, closer);
                    prop_assert!(completions(&world.hosts[side], OpFlags::SEND).all(|done| done.result.is_ok()));
                }
                Reason::ShutdownTimeout(_) => prop_assert_eq!(side, closer),
                Reason::Peer | Reason::Unreceived(_) | Reason::Cut => prop_assert_ne!(side, closer),
                reason => panic!("{reason:?}"),
            }
            world.check_received(side);
            world.check_sends(side);
            world.check_sequence(side);
        }
        world.close();
    }

    #[test]
    fn a_break_at_any_byte_ends_each_operation_once(
        actions in vec(action(), 1..60),
        budget in prop_oneof![0usize..400, 0usize..60_000],
        most in prop_oneof![1usize..50, 1usize..9000],
        quiet_end: bool,
        lends: bool,
    ) {
        let mut world = World::new(8, lends);
        (world.budget, world.quiet_end) = (budget, quiet_end);
        for action in &actions {
            world.act(action);
        }
        world.settle(most);
        world.budget = 0;
        world.settle(most);
        // For what waits for a receive.
        for host in &mut world.hosts {
            host.now = Instant::from_nanos(0).after(Duration::from_secs(20));
        }
        world.settle(most);
        for side in [0, 1] {
            world.receive_the_rest(side, most);
            let events = world.events(side);
            match &events[..] {
                [] => prop_assert!(side == 1 && world.hosts[1].ep.is_none()),
                [Event::Error { data, .. }] => prop_assert!(data.is_empty()),
                [Event::Connected { .. }, Event::Shutdown { .. }] => {}
                _ => panic!("{events:?}"),
            }
            prop_assert!(!world.hosts[side].open);
            world.check_received(side);
            world.check_sends(side);
            world.check_sequence(side);
        }
        world.close();
    }

    /// Closing an endpoint needs no shutdown and no peer.
    #[test]
    fn close_ends_each_operation_once(actions in vec(action(), 1..60), lends: bool) {
        let mut world = World::new(8, lends);
        for action in &actions {
            world.act(action);
        }
        world.close();
    }
}

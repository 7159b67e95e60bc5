// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! When the driver is to look whether peers answer, and what comes of it, for any schedule of sends and of
//! silences.
#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use kofi_core::attr::CqAttr;
use kofi_core::liveness::Answers;
use kofi_core::message::{Send, WritePlan};
use kofi_core::passive_endpoint::Taken;
use kofi_core::wire::ByteOrder;
use kofi_core::*;
use proptest::prelude::*;

const ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const BOTH: OpFlags = OpFlags::TRANSMIT.union(OpFlags::RECV);
const LIMIT: Duration = Duration::from_secs(8);
const STEP: Duration = Duration::from_millis(250);

/// A connected endpoint, and what its transport knows.
struct Peer {
    ep: EpId,
    /// It answers nothing from then on.
    silent_from: Option<Instant>,
    /// The oldest byte that is not acknowledged was sent then.
    unacknowledged: Option<Instant>,
    heard: Instant,
    /// Looks at it since it was last sent something.
    looks: u32,
    over: Option<Instant>,
}

struct World {
    domain: Domain,
    cq: CqId,
    peers: Vec<Peer>,
    now: Instant,
}

impl World {
    fn new(peers: usize, limit: Option<Duration>) -> Self {
        let mut domain = Domain::new(TimeLimits { peer: limit, ..TimeLimits::default() });
        let cq = domain.open_cq(&CqAttr::default()).unwrap();
        let now = Instant::from_nanos(0);
        let attr = EndpointAttr {
            caps: Caps::MSG,
            tx_size: 1000,
            rx_size: 2,
            inject_size: 4,
            tx_iov_limit: 4,
            rx_iov_limit: 4,
            rma_iov_limit: 4,
            total_buffered_recv: 0,
            max_msg_size: 100,
            dest_addr: None,
        };
        let taken = Taken { order: ByteOrder::Little, deadline: None };
        let mut world = Self { domain, cq, peers: Vec::new(), now };
        for index in 0..peers {
            let domain = &mut world.domain;
            let ep = domain.open_endpoint(Fid(index as u64 + 2), attr, Origin::Request(taken)).unwrap();
            domain.bind_eq(ep, Fid(1), true, OpFlags::empty()).unwrap();
            domain.bind_cq(ep, cq, BOTH).unwrap();
            domain.enable(ep).unwrap();
            domain.accept(ep, ADDR, ADDR, b"", now).unwrap();
            world.peers.push(Peer {
                ep,
                silent_from: None,
                unacknowledged: None,
                heard: now,
                looks: 0,
                over: None,
            });
            // The answer to its request.
            world.flush(index);
        }
        world
    }

    fn flush(&mut self, index: usize) {
        let ep = self.peers[index].ep;
        let mut plan = WritePlan::new(8).unwrap();
        self.domain.plan_write(ep, &mut plan);
        let len = plan.bytes().len();
        self.domain.sent(ep, len);
        let peer = &mut self.peers[index];
        peer.looks = 0;
        peer.unacknowledged.get_or_insert(self.now);
        while self.domain.read_cq(self.cq).is_ok() {}
    }

    fn send(&mut self, index: usize) {
        if self.peers[index].over.is_none() {
            self.domain.post_send(self.peers[index].ep, &Send::default()).unwrap();
            self.flush(index);
        }
    }

    /// Acknowledges what came while the peer was there.
    fn acknowledge(&mut self) {
        for peer in &mut self.peers {
            let there = peer.silent_from.is_none_or(|at| self.now < at);
            if there && peer.unacknowledged.take().is_some() {
                peer.heard = self.now;
            }
        }
    }

    /// What a driver does when it is woken, and at the end of whatever it did.
    fn drive(&mut self) {
        let now = self.now;
        while let Some(ep) = self.domain.poll_look(now) {
            let peer = self.peers.iter_mut().find(|peer| peer.ep == ep).unwrap();
            peer.looks += 1;
            let since = peer.unacknowledged;
            let answers = Answers {
                outstanding: since.is_some(),
                unanswered: since.is_some_and(|since| now.until(since) >= Duration::from_millis(200)),
                heard: now.until(peer.heard),
            };
            self.domain.check_peer(ep, &answers, now);
        }
        while let Some((ep, _, entry)) = self.domain.poll_endpoint_event() {
            if let Event::Shutdown { reason } = entry.event {
                assert_eq!(reason, Reason::PeerTimeout(LIMIT));
                let peer = self.peers.iter_mut().find(|peer| peer.ep == ep).unwrap();
                assert_eq!(peer.over.replace(now), None);
            }
        }
        while self.domain.poll_transport().is_some() {}
        if self.domain.wants_look() {
            self.domain.plan_look(now);
        }
    }
}

/// What happens within a quarter of a second.
#[derive(Clone, Debug)]
enum Happening {
    Send(usize),
    Silence(usize),
    Nothing,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        4 => (0..3usize).prop_map(Happening::Send),
        1 => (0..3usize).prop_map(Happening::Silence),
        20 => Just(Happening::Nothing),
    ];
    prop::collection::vec(one, 0..300)
}

proptest! {
    #[test]
    fn who_answers_is_kept_and_who_does_not_is_given_up_in_time(happenings in happenings()) {
        let mut world = World::new(3, Some(LIMIT));
        world.drive();
        // What was sent last is given the time that it takes.
        let quiet = (0..60).map(|_| Happening::Nothing);
        for happening in happenings.into_iter().chain(quiet) {
            match happening {
                Happening::Send(index) => world.send(index),
                Happening::Silence(index) => {
                    let now = world.now;
                    world.peers[index].silent_from.get_or_insert(now);
                }
                Happening::Nothing => {}
            }
            world.drive();
            world.acknowledge();
            world.now = world.now.after(STEP);
            if world.domain.next_look().is_some_and(|at| at <= world.now) {
                world.drive();
            }
        }
        for peer in &world.peers {
            match (peer.over, peer.unacknowledged) {
                (Some(over), Some(asked)) => {
                    prop_assert!(peer.silent_from.is_some(), "a peer that answers was given up");
                    // Not before the limit, and an eighth later at most: that from a look's distance to another.
                    let took = over.until(asked);
                    prop_assert!(took >= LIMIT && took <= LIMIT + LIMIT / 4 + STEP * 2, "{took:?}");
                }
                (Some(_), None) => prop_assert!(false, "nothing was outstanding"),
                (None, Some(_)) => prop_assert!(false, "a silent peer was kept"),
                // Nothing is looked at for ever.
                (None, None) => prop_assert!(peer.looks <= 3, "{} looks", peer.looks),
            }
        }
        prop_assert_eq!((world.domain.next_look(), world.domain.wants_look()), (None, false));
    }
}

/// Each that something was sent on is looked at, and no other.
#[test]
fn a_look_is_at_those_that_were_asked() {
    let mut world = World::new(3, Some(LIMIT));
    let pass = |world: &mut World| {
        world.acknowledge();
        world.now = world.now.after(LIMIT);
        world.drive();
    };
    world.drive();
    for _ in 0..4 {
        pass(&mut world);
    }
    assert_eq!(world.peers.iter().map(|peer| peer.looks).collect::<Vec<_>>(), [2, 2, 2]);
    world.send(1);
    world.drive();
    for _ in 0..4 {
        pass(&mut world);
    }
    assert_eq!(world.peers.iter().map(|peer| peer.looks).collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!(world.domain.next_look(), None);
}

/// Without a limit nobody is looked at, and no clock is asked for.
#[test]
fn without_a_limit_there_are_no_looks() {
    let mut world = World::new(1, None);
    world.send(0);
    assert!(!world.domain.wants_look());
    assert_eq!(world.domain.next_look(), None);
}

/// A shorter limit than the others' hurries the look that is planned for them.
#[test]
fn a_shorter_limit_is_kept_to() {
    let mut world = World::new(2, Some(LIMIT));
    world.drive();
    assert_eq!(world.domain.next_look(), Some(world.now.after(LIMIT / 8)));
    let ep = world.peers[0].ep;
    world.domain.set_limits(ep, TimeLimits { peer: Some(LIMIT / 2), ..TimeLimits::default() }).unwrap();
    world.domain.hurry_look(ep, world.now);
    assert_eq!(world.domain.next_look(), Some(world.now.after(LIMIT / 16)));
}

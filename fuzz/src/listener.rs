// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The passive endpoint, driven as a real driver does it: connections come, say what they like in pieces, go, run
//! into their limits; the application reads events, or does not, and closes.
//!
//! Input: script and stream. The script has one action after the other, the stream is shared by all strangers.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::HashSet;

use kofi_core::attr::EqAttr;
use kofi_core::wire::cm::{self, HEADER_LEN, Kind};
use kofi_core::{
    Entry, Error, Event, EventQueue, Fid, Instant, PassiveEndpoint, Reason, RequestId, SocketAddr, TimeLimits,
};

use crate::script::Script;

const FID: Fid = Fid(3);
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Arriving,
    Whole,
    Queued,
}

struct Connection {
    id: RequestId,
    peer: SocketAddr,
    phase: Phase,
    said: Vec<u8>,
}

struct Listener<'a> {
    pep: PassiveEndpoint,
    eq: EventQueue,
    size: usize,
    now: Instant,
    stream: &'a [u8],
    /// Those that the passive endpoint has.
    connections: Vec<Connection>,
    /// All that ever were: none comes twice.
    ever: HashSet<RequestId>,
    accepted: usize,
    /// Whether accepting ever paused.
    paused: bool,
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let (mut script, stream) = Script::and_stream(data);
    let mut listener = Listener::new(&mut script, stream);
    // One input has a crowd at most once: it takes its time.
    let mut crowd = true;
    while !script.is_empty() {
        match script.byte() % 16 {
            0..=2 => listener.accept(),
            3 => listener.refuse(),
            4..=6 => listener.hear(&mut script),
            7..=8 => listener.hear_request(&mut script),
            9 => listener.lose(&mut script),
            10..=11 => listener.read_event(),
            12 => listener.wait(&mut script),
            13 => listener.set_limits(&mut script),
            14 if crowd => {
                crowd = false;
                listener.crowd(&mut script);
            }
            _ => {}
        }
    }
    listener.close();
}

impl<'a> Listener<'a> {
    fn new(script: &mut Script<'_>, stream: &'a [u8]) -> Self {
        let size = 1 + script.below(5);
        let mut eq = EventQueue::open(&EqAttr { size, ..EqAttr::default() }).unwrap();
        let mut pep = PassiveEndpoint::new(TimeLimits::default());
        pep.bind(true, 0).unwrap();
        eq.bind_passive();
        pep.listen().unwrap();
        pep.listening();
        let (connections, ever) = (Vec::new(), HashSet::new());
        Self {
            pep,
            eq,
            size,
            now: Instant::from_nanos(0),
            stream,
            connections,
            ever,
            accepted: 0,
            paused: false,
        }
    }

    fn pick(&self, script: &mut Script<'_>) -> Option<usize> {
        let which = usize::from(script.byte());
        which.checked_rem(self.connections.len())
    }

    fn find(&self, id: RequestId) -> Option<usize> {
        self.connections.iter().position(|connection| connection.id == id)
    }

    fn count(&self, phase: Phase) -> usize {
        self.connections.iter().filter(|connection| connection.phase == phase).count()
    }

    /// Nearly as many strangers as there may be.
    fn crowd(&mut self, script: &mut Script<'_>) {
        let missing = PassiveEndpoint::MAX_ARRIVING - script.below(3);
        while self.connections.len() < missing && self.pep.wants_accept(self.eq.room()) {
            self.take_connection();
            // They come one after the other.
            self.now = self.now.after(Duration::from_nanos(1));
        }
        self.outputs();
    }

    fn accept(&mut self) {
        if !self.pep.wants_accept(self.eq.room()) {
            return;
        }
        let id = self.take_connection();
        let places = self.connections.iter().filter(|other| other.id.index() == id.index()).count();
        assert_eq!(places, 1, "a place that is taken");
        self.outputs();
    }

    fn take_connection(&mut self) -> RequestId {
        let peer = SocketAddr::from(([192, 0, 2, 1], self.accepted as u16));
        self.accepted += 1;
        let id = self.pep.accepted(LOCAL, peer, self.now).expect("memory");
        assert!(self.ever.insert(id), "a name that was there before");
        assert_eq!(self.pep.wants(id), HEADER_LEN);
        self.connections.push(Connection { id, peer, phase: Phase::Arriving, said: Vec::new() });
        id
    }

    fn refuse(&mut self) {
        if self.pep.wants_accept(self.eq.room()) {
            self.pep.accept_failed(self.now);
            self.paused = true;
            assert!(!self.pep.wants_accept(self.eq.room()), "it should pause");
            self.outputs();
        }
    }

    /// A stranger says the next bytes of the stream.
    fn hear(&mut self, script: &mut Script<'_>) {
        let Some(which) = self.pick(script) else { return };
        let len = script.length().min(self.pep.wants(self.connections[which].id)).min(self.stream.len());
        let (bytes, rest) = self.stream.split_at(len);
        self.stream = rest;
        self.say(which, bytes);
    }

    /// One that said nothing wrong yet says more of a request.
    fn hear_request(&mut self, script: &mut Script<'_>) {
        let Some(which) = self.pick(script) else { return };
        let connection = &self.connections[which];
        let private = [connection.id.index() as u8; cm::MAX_DATA];
        let private = &private[..connection.id.index() * 37 % (cm::MAX_DATA + 1)];
        let request = cm::message("fuzz", Kind::Request, private).unwrap();
        let rest = request.get(connection.said.len()..).unwrap_or_default();
        let len = (script.length() + 1).min(self.pep.wants(connection.id)).min(rest.len());
        self.say(which, &rest[..len]);
    }

    fn say(&mut self, which: usize, bytes: &[u8]) {
        let connection = &mut self.connections[which];
        let before = self.pep.wants(connection.id);
        if connection.phase == Phase::Arriving {
            assert!((1..=cm::MAX_LEN).contains(&before));
        } else {
            assert_eq!(before, 0, "its request is whole");
        }
        self.pep.received(connection.id, bytes, self.now);
        connection.said.extend(bytes);
        if before > 0 && self.pep.wants(connection.id) == 0 && is_request(&connection.said) {
            connection.phase = Phase::Whole;
        }
        self.outputs();
    }

    fn lose(&mut self, script: &mut Script<'_>) {
        let Some(which) = self.pick(script) else { return };
        let Connection { id, phase, .. } = self.connections[which];
        self.pep.lost(id);
        self.outputs();
        assert_eq!(self.find(id).is_some(), phase == Phase::Queued);
    }

    fn wait(&mut self, script: &mut Script<'_>) {
        let units = u32::from(script.byte());
        let step = [
            Duration::from_millis(1),
            Duration::from_millis(100),
            Duration::from_secs(1),
            // Until the end of time, after a few of them.
            Duration::from_secs(1 << 33),
        ][script.below(4)];
        self.now = self.now.after(step.saturating_mul(units));
        self.expire();
        self.outputs();
    }

    fn expire(&mut self) {
        let mut withdrawn = Vec::new();
        self.pep.expire(self.now, |id| withdrawn.push(id));
        for id in withdrawn {
            let at = self.find(id).expect("a request that is there");
            assert_eq!(self.connections[at].phase, Phase::Queued);
            let before = self.eq.room();
            self.eq.withdraw(|entry| request_of(entry) == Some(id));
            assert_eq!(self.eq.room(), before + 1, "an event that is there, once");
            // It has to be dropped, too.
            self.connections[at].phase = Phase::Whole;
        }
        assert!(self.pep.next_deadline().is_none_or(|at| at > self.now), "it waits for the past");
    }

    fn set_limits(&mut self, script: &mut Script<'_>) {
        let mut limit = || match script.byte() {
            0 => None,
            millis => Some(Duration::from_millis(u64::from(millis) * 50)),
        };
        let limits = TimeLimits { handshake: limit(), decision: limit(), ..TimeLimits::default() };
        self.pep.set_limits(limits);
    }

    fn outputs(&mut self) {
        while let Some((id, reason)) = self.pep.poll_drop() {
            let at = self.find(id).expect("a connection is dropped once");
            let Connection { phase, said, .. } = self.connections.swap_remove(at);
            assert_ne!(phase, Phase::Queued, "its event is still there");
            match reason {
                Reason::Protocol(_) => assert!(phase == Phase::Arriving && !is_request(&said)),
                Reason::Crowded => {
                    assert_eq!(phase, Phase::Arriving);
                    assert_eq!(self.count(Phase::Arriving), PassiveEndpoint::MAX_ARRIVING, "there was room");
                }
                Reason::Cut | Reason::RequestTimeout(_) => {}
                reason => panic!("{reason:?}"),
            }
            assert_eq!(self.pep.wants(id), 0);
            assert!(self.pep.take_request(id).is_err());
        }
        while let Some(event) = self.pep.poll_request(self.eq.room()) {
            let Event::ConnectionRequest { request, local, peer, ref data } = event else { panic!() };
            let at = self.find(request).expect("a connection that is there");
            let connection = &mut self.connections[at];
            assert_eq!(connection.phase, Phase::Whole, "a request comes once");
            assert_eq!((local, peer), (LOCAL, connection.peer));
            assert_eq!(data[..], connection.said[HEADER_LEN..]);
            connection.phase = Phase::Queued;
            self.eq.push(Entry { fid: FID, event });
        }
        assert!(self.count(Phase::Arriving) <= PassiveEndpoint::MAX_ARRIVING);
        assert!(self.count(Phase::Queued) <= self.size);
        assert_eq!(self.eq.room(), self.size - self.count(Phase::Queued));
        let waits = self.count(Phase::Whole) > 0;
        assert!(!waits || self.eq.room() == 0, "a request waits although there is room");
        assert!(!waits || !self.pep.wants_accept(1), "one that waits goes first");
        assert!(waits || self.paused || self.pep.wants_accept(1), "nothing is in the way");
    }

    fn read_event(&mut self) {
        let Ok(entry) = self.eq.read() else {
            assert_eq!((self.count(Phase::Queued), self.eq.read()), (0, Err(Error::Empty)));
            return;
        };
        let id = request_of(&entry).expect("nothing else is there");
        let at = self.find(id).expect("a connection that is there");
        assert_eq!(self.connections.swap_remove(at).phase, Phase::Queued);
        self.pep.take_request(id).expect("an event that was read");
        assert!(self.pep.take_request(id).is_err(), "once");
        self.outputs();
    }

    fn close(mut self) {
        self.expire();
        self.outputs();
        let left: HashSet<_> = self.connections.iter().map(|c| (c.id, c.phase != Phase::Arriving)).collect();
        let closed: Vec<_> = self.pep.close().collect();
        assert_eq!(closed.len(), left.len());
        assert_eq!(closed.into_iter().collect::<HashSet<_>>(), left);
        self.eq.unbind_passive(FID);
        assert!(self.eq.is_empty());
        assert_eq!(self.eq.room(), self.size);
        self.eq.check_close().unwrap();
    }
}

fn request_of(entry: &Entry) -> Option<RequestId> {
    match &entry.event {
        Event::ConnectionRequest { request, .. } => Some(*request),
        _ => None,
    }
}

/// Whether this is a whole request, judged by itself.
fn is_request(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_LEN
        && bytes[..2] == [3, 0]
        && usize::from(u16::from_be_bytes([bytes[2], bytes[3]])) == bytes.len() - HEADER_LEN
        && bytes.len() <= cm::MAX_LEN
}

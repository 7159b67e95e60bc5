// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The driver: a plain loop around the machines, as `kofi_core::domain` describes it.

use std::collections::VecDeque;

use kofi_core::event_queue::Fid;
use kofi_core::message::{Memory, Place, Segment, Step};
use kofi_core::{Errno, Event as CoreEvent, Instant, OpId, State, TransportCommand};

use super::Simulator;
use super::network::{End, Found, Owner, Task};
use super::objects::{DomainObject, Tag};
use crate::allocator::inside;
use crate::world::{Domain, Endpoint, PassiveEndpoint, Request};

/// Bytes read ahead of what the machine has taken.
const STAGING: usize = 8 * 1024;

/// What an endpoint has of the network.
#[derive(Default)]
pub(crate) struct Link {
    pub(crate) end: Option<End>,
    /// Bytes read and not taken yet, from `taken` on.
    staging: Vec<u8>,
    taken: usize,
    greeted: bool,
    write_failed: bool,
    /// What the transport reads on, by numbers that grow.
    loans: VecDeque<Loan>,
    lent: u64,
}

/// Memory of an operation that the transport reads on.
struct Loan {
    number: u64,
    op: OpId,
    place: Place,
    /// What it was when it was lent, and has to be until it comes back.
    bytes: Vec<u8>,
}

impl Simulator {
    pub(crate) fn instant(&self) -> Instant {
        Instant::from_nanos(self.network.now)
    }

    pub(crate) fn do_task(&mut self, task: Task) {
        match task {
            Task::Endpoint(ep) => {
                if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
                    endpoint.woken = false;
                    self.drive(ep);
                }
            }
            Task::Returned(ep, number) => self.returned(ep, number),
            Task::Passive(pep) => self.drive_passive(pep),
            Task::Arriving(pep, request) => self.drive_arriving(pep, request),
            Task::DomainTimer(domain) => {
                let now = self.instant();
                if let Some(object) = self.domains.get_mut(domain) {
                    object.timer = None;
                    inside(|| object.machine.expire(now));
                    self.trace.add(self.network.now, || format!("domain {domain}: time"));
                    self.pump(Domain(domain));
                }
            }
            Task::PassiveTimer(pep) => self.passive_time(pep),
            Task::RequestTimer(request) => {
                if let Some(object) = self.requests.get_mut(request.0)
                    && let Some(end) = object.end.take()
                {
                    object.expired = true;
                    self.network.close(end);
                }
            }
            Task::Opened(ep, connection, error) => self.opened(ep, connection, error),
        }
    }

    fn opened(&mut self, ep: Endpoint, connection: u32, error: Option<Errno>) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        let Some(end) = endpoint.link.end.filter(|end| end.connection == connection) else { return };
        let Some(domain) = self.domains.get_mut(endpoint.domain.0) else { return };
        self.trace.add(self.network.now, || format!("ep {}: transport {error:?}", ep.0));
        match (error, self.network.connection(connection)) {
            (None, Some(connection)) => {
                let local = connection.address[usize::from(end.side)];
                inside(|| domain.machine.transport_open(endpoint.id, local));
            }
            (errno, _) => inside(|| {
                domain.machine.transport_failed(endpoint.id, errno.unwrap_or(Errno::ENOTCONN));
            }),
        }
        let domain = endpoint.domain;
        self.pump(domain);
        self.wake(ep);
    }

    pub(crate) fn wake(&mut self, ep: Endpoint) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0)
            && !endpoint.woken
        {
            endpoint.woken = true;
            self.network.soon(Task::Endpoint(ep));
        }
    }

    /// Reads and writes once, as far as the transport and the machine let it.
    fn drive(&mut self, ep: Endpoint) {
        let Some(end) = self.endpoints.get(ep.0).and_then(|endpoint| endpoint.link.end) else { return };
        self.deliver(ep);
        let mut again = self.drive_reads(ep, end);
        self.deliver(ep);
        again |= self.drive_writes(ep, end);
        if let Some(endpoint) = self.endpoints.get(ep.0) {
            let domain = endpoint.domain;
            self.pump(domain);
        }
        if again {
            self.wake(ep);
        }
    }

    /// Copies messages that were kept to receives that were posted since.
    fn deliver(&mut self, ep: Endpoint) {
        let Some(endpoint) = self.endpoints.get(ep.0) else { return };
        let Some(domain) = self.domains.get_mut(endpoint.domain.0) else { return };
        let id = endpoint.id;
        domain.split();
        while let Some((place, bytes)) = inside(|| domain.machine.poll_kept(id)) {
            fill(&mut domain.memory, &mut domain.regions, place, bytes);
            inside(|| domain.machine.delivered(id));
            domain.split();
        }
    }

    /// Gives whether there is more to read.
    fn drive_reads(&mut self, ep: Endpoint, end: End) -> bool {
        let now = self.instant();
        let Self { endpoints, domains, network, trace, scratch, .. } = self;
        let Some(endpoint) = endpoints.get_mut(ep.0) else { return false };
        let Some(domain) = domains.get_mut(endpoint.domain.0) else { return false };
        let (id, link) = (endpoint.id, &mut endpoint.link);
        domain.split();
        if matches!(domain.machine.state(id), Ok(State::Connecting | State::Accepting)) {
            // Nothing can be wanted yet, but the transport may break.
            if network.has_ended(end) && network.readable(end) == 0 {
                if let Found::Error(errno) = network.read(end, 1, scratch) {
                    inside(|| domain.machine.transport_failed(id, errno));
                } else if matches!(domain.machine.state(id), Ok(State::Accepting)) {
                    inside(|| domain.machine.end_of_stream(id));
                }
            }
            return false;
        }
        loop {
            // What was read ahead comes first.
            let staged = link.staging.get(link.taken..).unwrap_or_default();
            let blocked = match inside(|| domain.machine.take(id, staged)) {
                Step::Used(used) => {
                    link.taken += used;
                    if link.taken < link.staging.len() {
                        continue;
                    }
                    link.staging.clear();
                    link.taken = 0;
                    false
                }
                Step::Place(place) => {
                    domain.split();
                    let staged = &link.staging[link.taken..][..place.len as usize];
                    fill(&mut domain.memory, &mut domain.regions, place, staged);
                    link.taken += place.len as usize;
                    inside(|| domain.machine.placed(id, place.len));
                    continue;
                }
                Step::Blocked => true,
                Step::Ended => return false,
            };
            domain.split();
            let plan = if blocked { None } else { domain.machine.plan_read(id) };
            let Some(plan) = plan else {
                if network.has_ended(end) {
                    inside(|| domain.machine.half_closed(id, now));
                }
                inside(|| domain.machine.input_drained(id));
                return false;
            };
            scratch.clear();
            let most = plan.direct.map_or(0, |place| place.len as usize).min(1 << 20) + STAGING;
            match network.read(end, most, scratch) {
                Found::Bytes(len) => {
                    trace.add(network.now, || format!("ep {}: read {len}", ep.0));
                    let mut rest = scratch.as_slice();
                    if let Some(place) = plan.direct {
                        let direct = rest.len().min(place.len as usize);
                        let place = Place { len: direct as u64, ..place };
                        fill(&mut domain.memory, &mut domain.regions, place, &rest[..direct]);
                        inside(|| domain.machine.placed(id, direct as u64));
                        rest = &rest[direct..];
                    }
                    if self_out_of_memory(&mut self.fail_staging) && !rest.is_empty() {
                        inside(|| domain.machine.out_of_memory(id));
                        return false;
                    }
                    link.staging.extend_from_slice(rest);
                    if link.staging.is_empty() {
                        // Take notice of what has been placed, then look for more.
                        return network.readable(end) > 0 || network.has_ended(end) || {
                            inside(|| domain.machine.input_drained(id));
                            false
                        };
                    }
                    // One read a turn lets others in between.
                    while link.taken < link.staging.len() {
                        let staged = &link.staging[link.taken..];
                        match inside(|| domain.machine.take(id, staged)) {
                            Step::Used(used) => link.taken += used,
                            Step::Place(place) => {
                                domain.split();
                                fill(
                                    &mut domain.memory,
                                    &mut domain.regions,
                                    place,
                                    &staged[..place.len as usize],
                                );
                                link.taken += place.len as usize;
                                inside(|| domain.machine.placed(id, place.len));
                            }
                            Step::Blocked => return network.has_ended(end),
                            Step::Ended => return false,
                        }
                    }
                    return true;
                }
                Found::Nothing => {
                    inside(|| domain.machine.input_drained(id));
                    return false;
                }
                Found::End => {
                    trace.add(network.now, || format!("ep {}: end of stream", ep.0));
                    inside(|| domain.machine.end_of_stream(id));
                    if domain.machine.has_unreceived(id) {
                        inside(|| domain.machine.half_closed(id, now));
                    }
                    return false;
                }
                Found::Error(errno) => {
                    trace.add(network.now, || format!("ep {}: {errno:?}", ep.0));
                    inside(|| domain.machine.transport_failed(id, errno));
                    if domain.machine.has_unreceived(id) {
                        inside(|| domain.machine.half_closed(id, now));
                    }
                    return false;
                }
            }
        }
    }

    /// Gives whether there is more to write.
    fn drive_writes(&mut self, ep: Endpoint, end: End) -> bool {
        let now = self.instant();
        let Self { endpoints, domains, network, trace, scratch, plan, .. } = self;
        let Some(endpoint) = endpoints.get_mut(ep.0) else { return false };
        let Some(domain) = domains.get_mut(endpoint.domain.0) else { return false };
        let (id, link) = (endpoint.id, &mut endpoint.link);
        if link.write_failed || !domain.machine.wants_write(id) {
            return false;
        }
        inside(|| domain.machine.plan_write(id, plan));
        scratch.clear();
        // More than the transport can take at once need not be gathered.
        let most = network.most_written();
        for segment in plan.segments() {
            match *segment {
                Segment::Bytes { start, len } => {
                    scratch.extend_from_slice(&plan.bytes()[start..start + len]);
                }
                Segment::Payload(place) => {
                    let len = place.len.min(most.saturating_sub(scratch.len()) as u64);
                    gather(domain, Place { len, ..place }, scratch);
                    if len < place.len {
                        break;
                    }
                }
            }
        }
        if scratch.is_empty() {
            return false;
        }
        if !core::mem::replace(&mut link.greeted, true)
            && scratch.len() != 32 + usize::from(u16::from_be_bytes([scratch[2], scratch[3]]))
        {
            network.breaches.push(format!("ep {}: the connection message is not one write", ep.0));
        }
        match network.write(end, scratch) {
            Ok(len) => {
                trace.add(network.now, || format!("ep {}: wrote {len} of {}", ep.0, scratch.len()));
                let accepting = matches!(domain.machine.state(id), Ok(State::Accepting));
                if let Some(range) = network.profile.lending.clone() {
                    let mut rest = scratch.get(..len).unwrap_or_default();
                    for segment in plan.segments() {
                        let (len, lent) = match *segment {
                            Segment::Bytes { len, .. } => (len, None),
                            Segment::Payload(place) => match place.memory {
                                Memory::Operation(op) => (place.len as usize, Some((op, place))),
                                Memory::Region(_) => (place.len as usize, None),
                            },
                        };
                        let bytes = rest.split_off(..len.min(rest.len())).unwrap_or_default();
                        if let Some((op, place)) = lent
                            && !bytes.is_empty()
                        {
                            let place = Place { len: bytes.len() as u64, ..place };
                            link.lent += 1;
                            link.loans.push_back(Loan {
                                number: link.lent,
                                op,
                                place,
                                bytes: bytes.to_vec(),
                            });
                            inside(|| domain.machine.lent(id, op));
                            let at = network.now + network.rng.u64(range.clone());
                            network.at(at, Task::Returned(ep, link.lent));
                        }
                    }
                }
                inside(|| domain.machine.sent(id, len));
                if accepting && matches!(domain.machine.state(id), Ok(State::Connected)) {
                    // Records may have come behind the request already.
                    return true;
                }
                if domain.machine.wants_write(id) {
                    return network.writable(end);
                }
                // A shutdown that has nothing left to send ends when reading says so.
                matches!(domain.machine.state(id), Ok(State::Draining))
            }
            Err(errno) => {
                // What has arrived before is still there to be read; then reading will tell, too.
                trace.add(network.now, || format!("ep {}: write: {errno:?}", ep.0));
                link.write_failed = true;
                inside(|| domain.machine.write_failed(id));
                if domain.machine.has_unreceived(id) {
                    inside(|| domain.machine.half_closed(id, now));
                } else if network.readable(end) == 0 {
                    inside(|| domain.machine.transport_failed(id, errno));
                }
                false
            }
        }
    }

    /// The transport does not read that memory any more.
    fn returned(&mut self, ep: Endpoint, number: u64) {
        let Self { endpoints, domains, network, trace, .. } = self;
        let Some(endpoint) = endpoints.get_mut(ep.0) else { return };
        let Some(domain) = domains.get_mut(endpoint.domain.0) else { return };
        let loans = &mut endpoint.link.loans;
        // What a reset has brought back earlier is not there any more.
        let Some(loan) = loans.iter().position(|loan| loan.number == number).and_then(|at| loans.remove(at))
        else {
            return;
        };
        trace.add(network.now, || {
            format!("ep {}: {} bytes of {:?} returned", ep.0, loan.bytes.len(), loan.op)
        });
        if !loan.is_as_it_was(domain) {
            network.breaches.push(format!("ep {}: {:?} on loan was given back or changed", ep.0, loan.op));
        }
        inside(|| domain.machine.returned(endpoint.id, loan.op));
        let domain = endpoint.domain;
        self.pump(domain);
        self.wake(ep);
    }

    /// Brings back all that the transport reads on, as a reset does. Gives whether there was anything.
    pub(crate) fn recall(&mut self, ep: Endpoint) -> bool {
        let numbers = self.endpoints.get(ep.0).map(|endpoint| {
            let loans = endpoint.link.loans.iter();
            loans.map(|loan| loan.number).collect::<Vec<_>>()
        });
        let numbers = numbers.unwrap_or_default();
        numbers.iter().for_each(|&number| self.returned(ep, number));
        !numbers.is_empty()
    }

    /// Takes what a domain has to say, after each command and input.
    pub(crate) fn pump(&mut self, domain: Domain) {
        let Some(object) = self.domains.get_mut(domain.0) else { return };
        object.most_remote = object.most_remote.max(object.machine.peer_completions());
        while let Some((id, command)) = inside(|| object.machine.poll_transport()) {
            let ep = object.endpoints.get(id.index()).copied().flatten();
            if let Some(ep) = ep
                && let Some(endpoint) = self.endpoints.get_mut(ep.0)
                && let Some(end) = endpoint.link.end
            {
                self.trace.add(self.network.now, || format!("ep {}: transport {command:?}", ep.0));
                if command == TransportCommand::EndOutput {
                    self.network.finish(end);
                    continue;
                }
                endpoint.link.end = None;
                if command == TransportCommand::Finish || endpoint.link.loans.is_empty() {
                    // The network keeps what was sent, whatever comes after: there is no need to linger.
                    self.network.close(end);
                } else {
                    self.network.recall(end);
                    for loan in &endpoint.link.loans {
                        self.network.soon(Task::Returned(ep, loan.number));
                    }
                }
            }
        }
        while let Some((eq, entry)) = inside(|| object.machine.poll_event()) {
            self.trace.add(self.network.now, || format!("event {:?} {:?}", entry.fid, entry.event));
            let (_, index) = Tag::split(eq);
            if let Some(queue) = self.queues.get_mut(index) {
                inside(|| queue.machine.push(entry));
            }
        }
        object.split();
        while let Some(op) = inside(|| object.machine.poll_released()) {
            object.forget(op);
        }
        if let Some(at) = object.machine.next_deadline()
            && object.timer.is_none_or(|timer| at < timer)
        {
            object.timer = Some(at);
            self.network.at(at.nanos(), Task::DomainTimer(domain.0));
        }
        while let Some(object) = self.domains.get_mut(domain.0)
            && let Some(id) = inside(|| object.machine.poll_resumed())
        {
            if let Some(ep) = object.endpoints.get(id.index()).copied().flatten() {
                self.wake(ep);
            }
        }
    }

    // Passive endpoints.

    fn drive_passive(&mut self, pep: PassiveEndpoint) {
        // What waits for room goes first; then there may be room to accept more.
        self.pump_passive(pep);
        loop {
            let now = self.instant();
            let room = self.room(pep);
            let Some(object) = self.passives.get_mut(pep.0) else { return };
            let (Some(listener), true) = (object.listener, object.machine.wants_accept(room)) else { break };
            if self.network.backlog(listener) == 0 {
                break;
            }
            if self.no_accept > 0 {
                self.no_accept -= 1;
                let pause = inside(|| object.machine.accept_failed(now));
                self.trace.add(self.network.now, || format!("pep {}: no descriptor, {pause:?}", pep.0));
                break;
            }
            let Some(end) = self.network.accept(listener) else { break };
            let Some(connection) = self.network.connection(end.connection) else { break };
            let [peer, local] = connection.address;
            match inside(|| object.machine.accepted(local, peer, now)) {
                Ok(id) => {
                    self.trace.add(self.network.now, || format!("pep {}: accepted {id:?}", pep.0));
                    if object.connections.len() <= id.index() {
                        object.connections.resize(id.index() + 1, None);
                    }
                    object.connections[id.index()] = Some(end);
                    self.network.set_owner(end, Owner::Arriving(pep, id));
                    self.network.soon(Task::Arriving(pep, id));
                }
                Err(error) => {
                    self.trace.add(self.network.now, || format!("pep {}: {error}", pep.0));
                    self.network.close(end);
                }
            }
            // A crowd pushes out the silent.
            self.pump_passive(pep);
        }
        self.pump_passive(pep);
    }

    fn drive_arriving(&mut self, pep: PassiveEndpoint, id: kofi_core::RequestId) {
        let now = self.instant();
        let Some(object) = self.passives.get_mut(pep.0) else { return };
        let Some(end) = object.connections.get(id.index()).copied().flatten() else { return };
        if self.network.connection(end.connection).map(|c| c.owner[usize::from(end.side)])
            != Some(Owner::Arriving(pep, id))
        {
            return;
        }
        loop {
            let wanted = object.machine.wants(id);
            if wanted == 0 {
                break;
            }
            self.scratch.clear();
            match self.network.read(end, wanted, &mut self.scratch) {
                Found::Bytes(_) => inside(|| object.machine.received(id, &self.scratch, now)),
                Found::Nothing => break,
                Found::End | Found::Error(_) => {
                    inside(|| object.machine.lost(id));
                    break;
                }
            }
        }
        self.drive_passive(pep);
    }

    fn passive_time(&mut self, pep: PassiveEndpoint) {
        let now = self.instant();
        let Some(object) = self.passives.get_mut(pep.0) else { return };
        self.trace.add(self.network.now, || format!("pep {}: time", pep.0));
        object.timer = None;
        let mut withdrawn = Vec::new();
        object.machine.expire(now, |id| withdrawn.push(id));
        let eq = object.eq;
        if !withdrawn.is_empty()
            && let Some(eq) = eq
            && let Some(queue) = self.queues.get_mut(eq.0)
        {
            let fid = Tag::Passive.fid(pep.0);
            queue.machine.withdraw(|entry| {
                entry.fid == fid
                    && matches!(&entry.event, CoreEvent::ConnectionRequest { request, .. } if withdrawn.contains(request))
            });
            // Other listeners may wait for that room.
            self.room_made(eq);
        }
        self.drive_passive(pep);
    }

    fn room(&self, pep: PassiveEndpoint) -> usize {
        let eq = self.passives.get(pep.0).and_then(|object| object.eq);
        eq.and_then(|eq| self.queues.get(eq.0)).map_or(0, |queue| queue.machine.room())
    }

    pub(crate) fn pump_passive(&mut self, pep: PassiveEndpoint) {
        loop {
            let room = self.room(pep);
            let Some(object) = self.passives.get_mut(pep.0) else { return };
            if let Some((id, reason)) = inside(|| object.machine.poll_drop()) {
                self.trace.add(self.network.now, || format!("pep {}: dropped {id:?}: {reason}", pep.0));
                if let Some(end) = object.connections.get_mut(id.index()).and_then(Option::take) {
                    self.network.close(end);
                }
                continue;
            }
            let Some(event) = inside(|| object.machine.poll_request(room)) else { break };
            self.trace.add(self.network.now, || format!("pep {}: event {event:?}", pep.0));
            if let Some(queue) = object.eq.and_then(|eq| self.queues.get_mut(eq.0)) {
                let fid: Fid = Tag::Passive.fid(pep.0);
                inside(|| queue.machine.push(kofi_core::Entry { fid, event }));
            }
        }
        let Some(object) = self.passives.get_mut(pep.0) else { return };
        if let Some(at) = object.machine.next_deadline()
            && object.timer.is_none_or(|timer| at < timer)
        {
            object.timer = Some(at);
            self.network.at(at.nanos(), Task::PassiveTimer(pep));
        }
    }

    /// The request has been read: the application decides on it, and until then there is a limit.
    pub(crate) fn hand_out(
        &mut self,
        pep: PassiveEndpoint,
        id: kofi_core::RequestId,
    ) -> kofi_core::Result<Request> {
        const STALE: kofi_core::Error =
            kofi_core::Error::Stale { call: "fi_eq_read", object: "connection request" };
        let object = self.passives.get_mut(pep.0).ok_or(STALE)?;
        let taken = inside(|| object.machine.take_request(id))?;
        let end = object.connections.get_mut(id.index()).and_then(Option::take).ok_or(STALE)?;
        let limit = object.machine.limits().decision.unwrap_or_default();
        let request = Request(self.requests.insert(super::RequestObject {
            end: Some(end),
            taken,
            limit,
            expired: false,
        }));
        self.network.set_owner(end, Owner::Request(request));
        if let Some(at) = taken.deadline {
            self.network.at(at.at.nanos(), Task::RequestTimer(request));
        }
        Ok(request)
    }
}

/// Whether the driver is to run out of memory now.
fn self_out_of_memory(fail: &mut u64) -> bool {
    let now = *fail == 1;
    *fail = fail.saturating_sub(1);
    now
}

/// Copies `bytes` to their place.
fn fill(memory: &mut [Vec<Vec<u8>>], regions: &mut [Option<Vec<Vec<u8>>>], place: Place, mut bytes: &[u8]) {
    let mut skip = place.offset as usize;
    let segments = match place.memory {
        Memory::Operation(op) => memory.get_mut(op.index()),
        Memory::Region(mr) => regions.get_mut(mr.index()).and_then(Option::as_mut),
    };
    for segment in segments.into_iter().flatten() {
        if skip >= segment.len() {
            skip -= segment.len();
            continue;
        }
        let room = &mut segment[skip..];
        let len = room.len().min(bytes.len());
        room[..len].copy_from_slice(&bytes[..len]);
        bytes = &bytes[len..];
        skip = 0;
        if bytes.is_empty() {
            return;
        }
    }
    assert!(bytes.is_empty(), "a place outside of its operation's or region's memory: {place:?}");
}

impl Loan {
    fn is_as_it_was(&self, domain: &DomainObject) -> bool {
        let mut now = Vec::new();
        let there = domain.memory.get(self.op.index()).is_some_and(|memory| !memory.is_empty());
        if there {
            gather(domain, self.place, &mut now);
        }
        now == self.bytes
    }
}

/// Copies the bytes of a place to the end of `into`.
fn gather(domain: &DomainObject, place: Place, into: &mut Vec<u8>) {
    let (mut skip, mut left) = (place.offset as usize, place.len as usize);
    let segments = match place.memory {
        Memory::Operation(op) => domain.memory.get(op.index()),
        Memory::Region(mr) => domain.regions.get(mr.index()).and_then(Option::as_ref),
    };
    for segment in segments.into_iter().flatten() {
        if skip >= segment.len() {
            skip -= segment.len();
            continue;
        }
        let len = (segment.len() - skip).min(left);
        into.extend_from_slice(&segment[skip..skip + len]);
        left -= len;
        skip = 0;
        if left == 0 {
            return;
        }
    }
    assert!(left == 0, "a place outside of its operation's or region's memory: {place:?}");
}

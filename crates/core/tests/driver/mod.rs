// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! A driver in miniature, over pipes in memory instead of sockets: everything that a real one does
//! with the machines, in the order in which it does it.
//! What the application does is in `application.rs`.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test it is an assertion")]

pub(crate) mod application;

use std::collections::VecDeque;

use application::{ADDR, EQ};
use kofi_core::message::{Memory, Place, Segment, Step, WritePlan};
use kofi_core::*;

/// The kernel's buffers of one direction of a connection.
#[derive(Default)]
pub(crate) struct Pipe {
    pub(crate) bytes: VecDeque<u8>,
    /// The writer has closed its end.
    pub(crate) ended: bool,
    /// The reader has: what is written from now on goes nowhere.
    pub(crate) abandoned: bool,
    /// All that was ever written.
    pub(crate) log: Vec<u8>,
}

/// A completion, and the memory of its operation.
pub(crate) struct Done {
    pub(crate) result: Result<Completion, CompletionError>,
    pub(crate) memory: Vec<u8>,
}

/// One process: a domain with one endpoint, and a listener if it is the passive side.
pub(crate) struct Host {
    pub(crate) domain: Domain,
    pub(crate) cq: CqId,
    pub(crate) eq: EventQueue,
    pub(crate) ep: Option<EpId>,
    listener: Option<(PassiveEndpoint, RequestId)>,
    /// Buffers of pending operations, by [`OpId::index`]: the driver's table of memory.
    memory: Vec<Option<Vec<Vec<u8>>>>,
    /// Memory regions, by [`MrId::index`].
    pub(crate) regions: Vec<Option<Vec<u8>>>,
    /// Bytes that were read and not used up.
    staged: Vec<u8>,
    plan: WritePlan,
    buffered: u64,
    /// The transport reads memory of operations on: what it was lent, and the bytes at that time.
    pub(crate) lends: bool,
    loans: Vec<(OpId, Place, Vec<u8>)>,
    /// Whether it has a transport.
    pub(crate) open: bool,
    pub(crate) posted: usize,
    pub(crate) released: usize,
    pub(crate) done: Vec<Done>,
    pub(crate) now: Instant,
}

impl Host {
    /// The bytes of a place, in all the segments that they are in.
    fn place(&mut self, place: Place) -> impl Iterator<Item = &mut u8> {
        let segments = match place.memory {
            Memory::Operation(op) => {
                self.memory[op.index()].as_mut().expect("memory of a pending operation").as_mut_slice()
            }
            Memory::Region(mr) => {
                core::slice::from_mut(self.regions[mr.index()].as_mut().expect("memory of an open region"))
            }
        };
        segments.iter_mut().flatten().skip(place.offset as usize).take(place.len as usize)
    }

    /// Writes what is to be written, as far as the transport takes it.
    pub(crate) fn write(&mut self, pipe: &mut Pipe, most: usize) {
        let Some(ep) = self.ep.filter(|_| self.open) else { return };
        self.domain.plan_write(ep, &mut self.plan);
        let mut bytes = Vec::new();
        let mut lent = Vec::new();
        for segment in self.plan.segments().to_vec() {
            match segment {
                Segment::Bytes { start, len } => bytes.extend(&self.plan.bytes()[start..start + len]),
                Segment::Payload(place) => {
                    let len = place.len.min((most.saturating_sub(bytes.len())) as u64);
                    let place = Place { len, ..place };
                    let from = bytes.len();
                    bytes.extend(self.place(place).map(|byte| *byte));
                    if let Memory::Operation(op) = place.memory
                        && self.lends
                        && len > 0
                    {
                        lent.push((op, place, bytes[from..].to_vec()));
                    }
                }
            }
        }
        bytes.truncate(most);
        pipe.log.extend(&bytes);
        if !pipe.abandoned {
            pipe.bytes.extend(&bytes);
        }
        for loan in lent {
            self.domain.lent(ep, loan.0);
            self.loans.push(loan);
        }
        self.domain.sent(ep, bytes.len());
    }

    /// Whether the transport reads memory on.
    pub(crate) fn has_lent(&self) -> bool {
        !self.loans.is_empty()
    }

    /// One of its loans comes back: the operation's memory is still there, and what it was.
    pub(crate) fn give_back(&mut self, which: usize) {
        let Some(ep) = self.ep.filter(|_| self.has_lent()) else { return };
        let (op, place, bytes) = self.loans.remove(which % self.loans.len());
        assert!(self.place(place).map(|byte| *byte).eq(bytes), "{op:?} was given back under the transport");
        self.domain.returned(ep, op);
    }

    /// Reads what has arrived, as far as it can be used.
    pub(crate) fn read(&mut self, pipe: &mut Pipe, most: usize) {
        if let Some((pep, id)) = &mut self.listener {
            let len = most.min(pep.wants(*id)).min(pipe.bytes.len());
            let bytes: Vec<u8> = pipe.bytes.drain(..len).collect();
            pep.received(*id, &bytes, self.now);
            if pipe.ended && pipe.bytes.is_empty() {
                pep.lost(*id);
            }
            if pep.poll_drop().is_some() {
                (self.listener, self.open) = (None, false);
            } else if let Some(Event::ConnectionRequest { request, .. }) = pep.poll_request(1) {
                let taken = pep.take_request(request).unwrap();
                self.listener = None;
                let ep = self.endpoint(Origin::Request(taken));
                self.domain.accept(ep, ADDR, ADDR, b"welcome", self.now).unwrap();
            }
            return;
        }
        let Some(ep) = self.ep.filter(|_| self.open) else { return };
        if let Some(plan) = self.domain.plan_read(ep) {
            let mut len = most.min(pipe.bytes.len());
            if let Some(direct) = plan.direct.filter(|_| self.staged.is_empty()) {
                // Straight into the receive, and no further: a real driver reads on behind it.
                len = len.min(usize::try_from(direct.len).unwrap());
                let place = Place { len: len as u64, ..direct };
                self.place(place).zip(pipe.bytes.drain(..len)).for_each(|(to, from)| *to = from);
                self.domain.placed(ep, len as u64);
            } else {
                self.staged.extend(pipe.bytes.drain(..len));
            }
        }
        let mut staged = core::mem::take(&mut self.staged);
        let mut used = 0;
        let blocked = loop {
            match self.domain.take(ep, &staged[used..]) {
                Step::Used(len) => used += len,
                Step::Place(place) => {
                    self.place(place).zip(&staged[used..]).for_each(|(to, from)| *to = *from);
                    used += place.len as usize;
                    self.domain.placed(ep, place.len);
                }
                Step::Blocked => break true,
                Step::Ended => break false,
            }
            if used == staged.len() {
                break self.domain.plan_read(ep).is_none();
            }
        };
        staged.drain(..used);
        self.staged = staged;
        self.deliver();
        if pipe.bytes.is_empty() || blocked {
            match pipe.ended {
                true if blocked => self.domain.half_closed(ep, self.now),
                true => self.end_of_stream(ep),
                false => {}
            }
            self.domain.input_drained(ep);
        }
    }

    /// All has been read; what is kept waits for receives.
    pub(crate) fn end_of_stream(&mut self, ep: EpId) {
        self.domain.end_of_stream(ep);
        if self.domain.has_unreceived(ep) {
            self.domain.half_closed(ep, self.now);
        }
    }

    /// Copies messages that the machine kept to receives that were posted since.
    fn deliver(&mut self) {
        let Some(ep) = self.ep else { return };
        while let Some((place, bytes)) = self.domain.poll_kept(ep) {
            let bytes = bytes.to_vec();
            self.place(place).zip(&bytes).for_each(|(to, from)| *to = *from);
            self.domain.delivered(ep);
        }
    }

    /// Does what the machine wants done, and reads the completion queue.
    pub(crate) fn outputs(&mut self, outgoing: &mut Pipe, incoming: &mut Pipe) {
        self.deliver();
        self.domain.expire(self.now);
        // Whatever waited is tried again in each round.
        while self.domain.poll_resumed().is_some() {}
        while let Some((_, command)) = self.domain.poll_transport() {
            outgoing.ended = true;
            self.open = command == TransportCommand::EndOutput;
        }
        if !self.open {
            (outgoing.ended, incoming.abandoned) = (true, true);
            incoming.bytes.clear();
        }
        while let Some((EQ, entry)) = self.domain.poll_event() {
            let ends = matches!(entry.event, Event::Shutdown { .. });
            assert!(!ends || !self.has_lent(), "an end is told of under the transport's reading");
            self.eq.push(entry);
        }
        while let Some(op) = self.domain.poll_released() {
            self.memory[op.index()].take().expect("it ends once");
            self.released += 1;
        }
        loop {
            let (op, result) = match self.domain.read_cq(self.cq) {
                Ok((op, completion)) => (op, Ok(completion)),
                Err(Error::ErrorAvailable) => {
                    let (op, error) = self.domain.read_cq_error(self.cq).unwrap();
                    (op, Err(error))
                }
                // Reading may have made room for what waited, and an end follow from that.
                Err(_) if self.domain.has_outputs() => return self.outputs(outgoing, incoming),
                Err(_) => return,
            };
            let memory = match &result {
                // A peer's write has no buffers of its own.
                Ok(done) if done.flags.contains(OpFlags::REMOTE_WRITE) => Vec::new(),
                _ => self.memory[op.index()].take().expect("it completes once").concat(),
            };
            self.done.push(Done { result, memory });
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! A connection whose peer says what it likes, in pieces, while the application posts, cancels, shuts down.
//!
//! Input: script and stream. The script begins with the side that we are and goes on with actions; the stream is
//! all that the peer says, from its connection message on.
//!
//! What has to hold: each operation completes once, before the endpoint's last event; that comes once; plans are
//! bounded, and there is one as long as something is to be written; what was received is what a second reading of
//! the stream finds in it, message by message; what we write is well formed; nothing hangs.

use core::time::Duration;

use kofi_core::message::{PostReceive, Segment, Send, WritePlan};
use kofi_core::wire::ByteOrder;
use kofi_core::wire::cm::{self, Assembly, HEADER_LEN};
use kofi_core::wire::header::{BASE_LEN, Header, Kind, MAX_LEN};
use kofi_core::{Errno, Error, Event, Instant, OpFlags, Reason, State};

use crate::driver::application::FID;
use crate::driver::{Host, Pipe};
use crate::script::Script;

/// What memory holds that nothing was received into.
const BLANK: u8 = 0xee;

/// One side of a connection and what an application expects of it.
pub(crate) struct Side {
    pub(crate) host: Host,
    /// A plan of its own for each side, to look at what would be written.
    plan: WritePlan,
    limit: usize,
    events: Vec<Event>,
    /// Contexts of sends that were posted, and whether each is told of.
    sends: Vec<bool>,
    /// Lengths of receives that were posted.
    receives: Vec<usize>,
    shut: bool,
}

impl Side {
    pub(crate) fn new(active: bool, script: &mut Script<'_>) -> Self {
        let now = Instant::from_nanos(0);
        let limit = script.below(12);
        let host = match active {
            true => Host::active(now, limit, b"hello"),
            false => Host::passive(now, limit),
        };
        let plan = WritePlan::new(limit).unwrap();
        let (events, sends, receives) = (Vec::new(), Vec::new(), Vec::new());
        Self { host, plan, limit: limit.max(2), events, sends, receives, shut: false }
    }

    pub(crate) fn state(&self) -> Option<State> {
        self.host.ep.map(|ep| self.host.domain.state(ep).expect("it is open"))
    }

    pub(crate) fn is_over(&self) -> bool {
        match self.state() {
            None => !self.host.open,
            Some(state) => matches!(state, State::Disconnected | State::Failed),
        }
    }

    /// What the application does.
    pub(crate) fn act(&mut self, script: &mut Script<'_>) {
        let Some(ep) = self.host.ep else { return };
        let refused = |result: Result<(), Error>, fine: &[Errno]| match result {
            Ok(()) => false,
            Err(error) if fine.contains(&error.errno()) => true,
            Err(error) => panic!("{error}"),
        };
        match script.byte() % 8 {
            0..=2 => {
                let (len, segments) = (script.length(), 1 + script.below(4));
                let context = self.receives.len() as u64;
                let receive = PostReceive { len: len as u64, segments, context, ..PostReceive::default() };
                let memory = cut(&vec![BLANK; len], segments);
                let fine = [Errno::EAGAIN, Errno::ESHUTDOWN, Errno::EOPBADSTATE];
                if !refused(self.host.post_receive(&receive, memory), &fine) {
                    self.receives.push(len);
                }
            }
            3..=5 => {
                let (len, segments, what) = (script.length(), 1 + script.below(4), script.byte());
                let context = self.sends.len() as u64;
                let inject = what & 1 == 1 && len <= 128;
                let level = [
                    OpFlags::empty(),
                    OpFlags::INJECT_COMPLETE,
                    OpFlags::TRANSMIT_COMPLETE,
                    OpFlags::DELIVERY_COMPLETE,
                ][usize::from(what >> 1 & 3)];
                let flags = level | if inject { OpFlags::INJECT } else { OpFlags::empty() };
                let data = (what & 8 != 0).then_some(u64::MAX - context);
                let quiet = what & 16 != 0;
                let send = Send { len: len as u64, segments, data, flags, context, quiet };
                let memory = cut(&contents(context, len), segments);
                let fine = [Errno::EAGAIN, Errno::ENOTCONN, Errno::ESHUTDOWN, Errno::EOPBADSTATE];
                if !refused(self.host.post_send(&send, memory), &fine) {
                    self.sends.push(!quiet);
                }
            }
            6 => {
                let context = u64::from(script.byte());
                refused(self.host.domain.cancel(ep, context), &[Errno::ENOENT]);
            }
            _ => {
                let fine = [Errno::ENOTCONN, Errno::EOPBADSTATE];
                let now = self.host.now;
                self.shut |= !refused(self.host.domain.shutdown(ep, 0, now), &fine);
            }
        }
    }

    /// What can happen to a transport, or to the driver.
    pub(crate) fn suffer(&mut self, script: &mut Script<'_>) {
        let Some(ep) = self.host.ep else { return };
        match script.byte() % 3 {
            0 => self.host.domain.transport_failed(ep, Errno::ECONNRESET),
            1 => self.host.domain.out_of_memory(ep),
            _ => self.host.domain.end_of_stream(ep),
        }
    }

    /// One round of the driver's loop.
    pub(crate) fn round(&mut self, outgoing: &mut Pipe, incoming: &mut Pipe, write: usize, read: usize) {
        self.check_plans();
        self.host.write(outgoing, write);
        self.host.read(incoming, read);
        self.host.outputs(outgoing, incoming);
        self.after();
    }

    fn check_plans(&mut self) {
        let Some(ep) = self.host.ep else { return };
        let domain = &self.host.domain;
        domain.plan_write(ep, &mut self.plan);
        assert_eq!(
            domain.wants_write(ep),
            !self.plan.is_empty(),
            "there is a plan if something is to be written"
        );
        let bytes = self.plan.bytes().len();
        assert!(self.plan.segments().len() <= self.limit);
        assert!(bytes <= ((self.limit / 2 + 1) * MAX_LEN).max(cm::MAX_LEN), "{bytes} bytes in a plan");
        let mut at = 0;
        for segment in self.plan.segments() {
            match *segment {
                Segment::Bytes { start, len } => {
                    assert!(start == at && len > 0);
                    at += len;
                }
                Segment::Payload(place) => assert!(place.len > 0),
            }
        }
        assert_eq!(at, bytes, "bytes that nobody writes");
        if let Some(place) = domain.plan_read(ep).and_then(|plan| plan.direct) {
            assert!(place.len > 0);
        }
    }

    /// After the driver has done what the machine wanted.
    fn after(&mut self) {
        let Host { domain, eq, .. } = &mut self.host;
        while let Ok(entry) = eq.read().or_else(|_| eq.read_error()) {
            assert_eq!(entry.fid, FID);
            self.events.push(entry.event);
        }
        assert!(domain.next_deadline().is_none_or(|at| at > self.host.now), "it waits for the past");
        let over = self.is_over();
        if over {
            let Host { done, released, posted, open, .. } = &self.host;
            assert_eq!(done.len() + released, *posted, "operations are pending behind the last event");
            assert!(!open);
        }
        let last = match &self.events[..] {
            [] => self.host.ep.is_none() && !self.host.open,
            [Event::Connected { .. }] => false,
            [Event::Error { reason, data }] => {
                assert!(data.is_empty() || *reason == Reason::Rejected);
                true
            }
            [Event::Connected { .. }, Event::Shutdown { reason }] => {
                assert!(self.shut || *reason != Reason::Local);
                true
            }
            events => panic!("{events:?}"),
        };
        assert_eq!(over, last, "{:?}", self.state());
    }

    /// Closes all, and looks for what is left.
    pub(crate) fn close(&mut self, outgoing: &mut Pipe, incoming: &mut Pipe) {
        if let Some(ep) = self.host.ep.take() {
            assert_eq!(
                self.host.domain.close_cq(self.host.cq).map_err(|error| error.errno()),
                Err(Errno::EBUSY)
            );
            self.host.domain.close_endpoint(ep).unwrap();
            self.host.eq.unbind_endpoint(FID);
        }
        self.host.outputs(outgoing, incoming);
        let Host { domain, eq, done, released, posted, cq, .. } = &mut self.host;
        assert_eq!(done.len() + *released, *posted, "each operation completes once");
        assert!(eq.is_empty());
        domain.close_cq(*cq).unwrap();
        domain.check_close().unwrap();
        eq.check_close().unwrap();
        self.check_sends();
    }

    /// Sends complete once, untouched, and say nothing but that.
    fn check_sends(&self) {
        let mut told = vec![false; self.sends.len()];
        for done in &self.host.done {
            let (context, flags, fine) = match &done.result {
                Ok(it) => (it.context, it.flags, (it.len, it.data) == (0, 0)),
                Err(it) => (it.context, it.flags, (it.len, it.errno) == (0, Errno::ECANCELED)),
            };
            if flags.contains(OpFlags::SEND) {
                assert!(fine, "{:?}", done.result);
                let context = context as usize;
                assert!(self.sends[context] || done.result.is_err());
                assert!(!core::mem::replace(&mut told[context], true), "it completes once");
                assert_eq!(done.memory, contents(context as u64, done.memory.len()));
            }
        }
    }

    /// What was received is what the peer sent, message by message.
    fn check_received(&self, messages: &[Message]) {
        let mut messages = messages.iter();
        let mut last = None;
        for done in &self.host.done {
            let (Ok((context, flags, len, data, overflow)) | Err((context, flags, len, data, overflow))) =
                match &done.result {
                    Ok(it) => Ok((it.context, it.flags, it.len, it.data, 0)),
                    Err(it) => Err((it.context, it.flags, it.len, it.data, it.overflow)),
                };
            if !flags.contains(OpFlags::RECV) {
                continue;
            }
            match &done.result {
                Err(it) if it.errno == Errno::ECANCELED => {
                    assert_eq!((len, overflow), (0, 0));
                    continue;
                }
                Err(it) => assert!(it.errno == Errno::ETRUNC && overflow > 0),
                Ok(_) => {}
            }
            assert!(last < Some(context), "messages go into receives in order");
            last = Some(context);
            let message = messages.next().expect("a message that was sent");
            let room = self.receives[context as usize];
            let fits = message.payload.len().min(room);
            assert_eq!((len as usize, overflow as usize), (fits, message.payload.len() - fits));
            assert_eq!(flags.contains(OpFlags::REMOTE_CQ_DATA), message.data.is_some());
            assert_eq!(data, message.data.unwrap_or_default());
            assert_eq!(done.memory[..fits], message.payload[..fits]);
            assert!(
                done.memory[fits..].iter().all(|&byte| byte == BLANK),
                "it is written behind the message"
            );
        }
    }

    /// What was received and what was written, against the whole stream that the peer sent.
    pub(crate) fn check(&self, stream: &[u8], written: &[u8], active: bool) {
        let (order, messages) = read_stream(stream, active);
        self.check_received(&messages);
        let acks = check_written(written, order);
        let wanted = messages.iter().take(self.received()).filter(|message| message.ack).count();
        assert!(acks <= wanted as u64, "{acks} acknowledgements for {wanted} messages");
    }

    /// What ended it.
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self.events.last() {
            Some(Event::Error { reason, .. } | Event::Shutdown { reason }) => Some(*reason),
            _ => None,
        }
    }

    /// Receives that a message went into.
    fn received(&self) -> usize {
        let met = |errno| errno != Errno::ECANCELED;
        let received = self.host.done.iter().filter(|done| match &done.result {
            Ok(it) => it.flags.contains(OpFlags::RECV),
            Err(it) => it.flags.contains(OpFlags::RECV) && met(it.errno),
        });
        received.count()
    }
}

/// What the messages of a send with this context are made of.
fn contents(context: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 7 + context * 31 + 3) as u8).collect()
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

/// A message in a stream.
#[derive(Debug)]
struct Message {
    payload: Vec<u8>,
    data: Option<u64>,
    ack: bool,
}

/// A second reading of a stream: the connection message at its front, then records as far as they are whole and
/// right. Gives the order that records have, if there is a connection, and the messages.
fn read_stream(stream: &[u8], answer: bool) -> (Option<ByteOrder>, Vec<Message>) {
    let mut messages = Vec::new();
    let mut assembly = if answer { Assembly::answer() } else { Assembly::request() };
    let Ok(used) = assembly.take(stream) else { return (None, messages) };
    let Some((greeting, _)) = assembly.finish().filter(|(greeting, _)| greeting.kind != cm::Kind::Nack)
    else {
        return (None, messages);
    };
    let order = greeting.order;
    let mut rest = &stream[used..];
    while let Some(base) = rest.first_chunk::<BASE_LEN>() {
        let Ok(len) = Header::expected_len(base, order) else { break };
        let Some(Ok(header)) = rest.get(..len).map(|bytes| Header::parse(bytes, order)) else { break };
        match header.kind {
            Kind::Ack => {}
            Kind::Message { data } => {
                let Ok(size) = usize::try_from(header.payload) else { break };
                let Some(payload) = rest.get(len..).and_then(|rest| rest.get(..size)) else { break };
                messages.push(Message { payload: payload.to_vec(), data, ack: header.ack });
            }
            _ => break,
        }
        rest = &rest[header.record_len() as usize..];
    }
    (Some(order), messages)
}

/// What an honest side wrote: a connection message, then numbered records, the last of which may not be whole.
/// Gives how many acknowledgements are among them.
fn check_written(log: &[u8], order: Option<ByteOrder>) -> u64 {
    let mut rest = match log.get(HEADER_LEN..) {
        Some(rest) => rest.get(usize::from(log[3])..).unwrap_or_default(),
        None => &[],
    };
    let Some(order) = order else {
        assert!(rest.is_empty(), "records before there is a connection");
        return 0;
    };
    let (mut sequence, mut acks) = (0u8, 0);
    while let Some(base) = rest.first_chunk::<BASE_LEN>() {
        assert_eq!(base[7], sequence, "records are numbered");
        sequence = sequence.wrapping_add(1);
        let len = Header::expected_len(base, order).expect("a header of ours");
        let Some(bytes) = rest.get(..len) else { break };
        let header = Header::parse(bytes, order).expect("a header of ours");
        acks += u64::from(header.kind == Kind::Ack);
        rest = rest.get(header.record_len() as usize..).unwrap_or_default();
    }
    acks
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let (mut script, stream) = Script::and_stream(data);
    let active = script.flag();
    let mut side = Side::new(active, &mut script);
    let (mut outgoing, mut incoming) = (Pipe::default(), Pipe::default());
    let mut unsaid = stream;
    let mut said = |incoming: &mut Pipe, len: usize| {
        let (now, later) = unsaid.split_at(len.min(unsaid.len()));
        unsaid = later;
        incoming.bytes.extend(now);
    };
    while !script.is_empty() {
        match script.byte() % 16 {
            0..=3 => {
                said(&mut incoming, script.length());
                side.round(&mut outgoing, &mut incoming, usize::MAX, usize::MAX);
            }
            4 => said(&mut incoming, script.length()),
            5..=6 => {
                let (write, read) = (script.length(), script.length());
                side.round(&mut outgoing, &mut incoming, write, read);
            }
            7 => {
                let step = [1, 1_000, 5_000, 10_000][script.below(4)];
                side.host.now = side.host.now.after(Duration::from_millis(step));
            }
            8 if script.byte() < 64 => side.suffer(&mut script),
            9 if script.byte() < 64 => incoming.ended = true,
            _ => side.act(&mut script),
        }
    }
    // The rest of it, all at once; then nothing more comes, and time passes.
    said(&mut incoming, usize::MAX);
    for ended in [false, true] {
        incoming.ended |= ended;
        // Twice: an end is seen in the round behind the one that read the rest.
        for _ in 0..2 {
            side.round(&mut outgoing, &mut incoming, usize::MAX, usize::MAX);
        }
    }
    side.host.now = side.host.now.after(Duration::from_secs(60));
    for _ in 0..2 {
        side.round(&mut outgoing, &mut incoming, usize::MAX, usize::MAX);
    }
    assert!(side.is_over(), "it hangs: {:?}", side.state());
    side.close(&mut outgoing, &mut incoming);

    side.check(stream, &outgoing.log, active);
}

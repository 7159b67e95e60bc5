// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! A connection whose peer says what it likes, in pieces, while the application posts, cancels, shuts down.
//!
//! Input: script and stream. The script begins with the side that we are and goes on with actions; the stream is
//! all that the peer says, from its connection message on. There are two memory regions that the peer may reach,
//! one of them for reading only.
//!
//! What has to hold: each operation completes once, before the endpoint's last event; that comes once; plans are
//! bounded, and there is one as long as something is to be written; what was received is what a second reading of
//! the stream finds in it, message by message, and so is what was read from the peer; regions hold what the writes
//! in the stream make of them, as far as these came, and nothing else; read requests are answered in order and
//! in length; what we write is well formed; nothing hangs.

use core::time::Duration;

use kofi_core::memory::Registration;
use kofi_core::message::{PostReceive, Segment, Send, WritePlan};
use kofi_core::wire::ByteOrder;
use kofi_core::wire::cm::{self, Assembly, HEADER_LEN};
use kofi_core::wire::header::{self, BASE_LEN, Header, Kind, MAX_LEN, Segments};
use kofi_core::{Errno, Error, Event, Instant, MrId, OpFlags, Reason, State};

use crate::driver::application::FID;
use crate::driver::{Done, Host, Pipe};
use crate::script::Script;

/// What memory holds that nothing was received into.
const BLANK: u8 = 0xee;
/// Keys of the regions, from 1 on, and what peers may do with them.
const ACCESS: [OpFlags; 2] = [OpFlags::REMOTE_READ.union(OpFlags::REMOTE_WRITE), OpFlags::REMOTE_READ];
/// Bytes of each region.
const REGION: usize = 300;

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
    /// Reads that were posted.
    reads: u64,
    /// Operations that were posted before the end.
    posted: Option<usize>,
    regions: Vec<Option<MrId>>,
    /// It only asks for what the peer has.
    honest: bool,
    shut: bool,
}

impl Side {
    pub(crate) fn new(active: bool, honest: bool, script: &mut Script<'_>) -> Self {
        let now = Instant::from_nanos(0);
        let limit = script.below(12);
        let buffered = [0, 100, 65536][script.below(3)];
        let mut host = match active {
            true => Host::active_keeping(now, limit, b"hello", buffered),
            false => Host::passive_keeping(now, limit, buffered),
        };
        let regions = (1..).zip(ACCESS).map(|(requested_key, access)| {
            let registration = Registration { access, requested_key, segments: 1, ..Registration::default() };
            Some(host.register(&registration, initial(requested_key)).unwrap())
        });
        let regions = regions.collect();
        let plan = WritePlan::new(limit).unwrap();
        let (events, sends, receives) = (Vec::new(), Vec::new(), Vec::new());
        let (reads, posted, shut) = (0, None, false);
        let limit = limit.max(2);
        Self { host, plan, limit, events, sends, receives, reads, posted, regions, honest, shut }
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
        match script.byte() % 12 {
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
                if !refused(self.host.post_send(&send, memory), &NOT_NOW) {
                    self.sends.push(!quiet);
                }
            }
            6 => {
                let context = u64::from(script.byte());
                refused(self.host.domain.cancel(ep, context), &[Errno::ENOENT]);
            }
            7..=8 => {
                let (remote, what) = (self.remote(script), script.byte());
                let (len, segments) = (total(&remote), 1 + script.below(4));
                let level = [
                    OpFlags::empty(),
                    OpFlags::TRANSMIT_COMPLETE,
                    OpFlags::DELIVERY_COMPLETE,
                    OpFlags::COMMIT_COMPLETE,
                ][usize::from(what & 3)];
                let context = self.sends.len() as u64;
                let (data, quiet) = ((what & 4 != 0).then_some(context), what & 8 != 0);
                let write = Send { len: len as u64, segments, data, flags: level, context, quiet };
                let memory = cut(&contents(context, len), segments);
                if !refused(self.host.post_write(&write, memory, &remote), &NOT_NOW) {
                    self.sends.push(!quiet);
                }
            }
            9 => {
                let remote = self.remote(script);
                let (len, segments) = (total(&remote), 1 + script.below(4));
                let read = Send { len: len as u64, segments, context: self.reads, ..Send::default() };
                let memory = cut(&vec![BLANK; len], segments);
                if !refused(self.host.post_read(&read, memory, &remote), &NOT_NOW) {
                    self.reads += 1;
                }
            }
            10 => {
                let which = script.below(2);
                // An honest side's peer relies on them.
                if let Some(mr) = self.regions[which].take_if(|_| !self.honest) {
                    self.host.domain.close_mr(mr).unwrap();
                }
            }
            _ => {
                let fine = [Errno::ENOTCONN, Errno::EOPBADSTATE];
                let now = self.host.now;
                self.shut |= !refused(self.host.domain.shutdown(ep, 0, now), &fine);
            }
        }
    }

    /// Some of the peer's memory, in up to four pieces.
    fn remote(&self, script: &mut Script<'_>) -> Vec<header::Segment> {
        let pieces = 1 + script.below(4);
        let piece = |script: &mut Script<'_>| match self.honest {
            true => {
                let addr = script.below(REGION);
                let len = script.length().min(REGION - addr);
                header::Segment { addr: addr as u64, len: len as u64, key: 1 }
            }
            false => {
                let (addr, len, key) = (script.length(), script.length(), script.byte());
                header::Segment { addr: addr as u64, len: len as u64, key: u64::from(key & 3) }
            }
        };
        (0..pieces).map(|_| piece(script)).collect()
    }

    /// What can happen to a transport, or to the driver.
    pub(crate) fn suffer(&mut self, script: &mut Script<'_>) {
        let Some(ep) = self.host.ep else { return };
        match script.byte() % 3 {
            0 => self.host.domain.transport_failed(ep, Errno::ECONNRESET),
            1 => self.host.domain.out_of_memory(ep),
            _ => self.host.end_of_stream(ep),
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
            let Host { released, posted, open, .. } = &self.host;
            let ended = self.completed() + released;
            // What came before the end may be received after it.
            let before = if *open { *self.posted.get_or_insert(*posted) } else { *posted };
            assert!(ended >= before, "operations are pending behind the last event");
            assert!(!open || matches!(self.reason(), Some(Reason::Unreceived(_))), "{:?}", self.reason());
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
        let completed = self.completed();
        let Host { domain, eq, released, posted, cq, .. } = &mut self.host;
        assert_eq!(completed + *released, *posted, "each operation completes once");
        assert!(eq.is_empty());
        for mr in self.regions.iter().flatten() {
            domain.close_mr(*mr).unwrap();
        }
        domain.close_cq(*cq).unwrap();
        domain.check_close().unwrap();
        eq.check_close().unwrap();
        self.check_sends();
    }

    /// Operations of ours that have completed; a peer's writes are told of, too.
    fn completed(&self) -> usize {
        self.host.done.iter().filter(|done| !flags(done).contains(OpFlags::REMOTE_WRITE)).count()
    }

    /// Sends and writes complete once, untouched, and say nothing but that.
    fn check_sends(&self) {
        let mut told = vec![false; self.sends.len()];
        for done in &self.host.done {
            let (context, flags, fine) = match &done.result {
                Ok(it) => (it.context, it.flags, (it.len, it.data) == (0, 0)),
                Err(it) => (it.context, it.flags, (it.len, it.errno) == (0, Errno::ECANCELED)),
            };
            if flags.contains(OpFlags::SEND) || flags.contains(OpFlags::RMA | OpFlags::WRITE) {
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
        let said = read_stream(stream, active);
        self.check_received(&said.messages);
        self.check_reads(&said.responses);
        self.check_writes(&said.writes);
        self.check_regions(&said.writes);
        let (acks, responses) = check_written(written, said.order);
        let wanted = said.messages.iter().take(self.received()).filter(|message| message.ack).count()
            + said.writes.iter().filter(|write| write.ack).count();
        assert!(acks <= wanted as u64, "{acks} acknowledgements for {wanted} messages and writes");
        assert!(said.requests.starts_with(&responses), "{responses:?} for {:?}", said.requests);
    }

    /// What came for our reads is what the peer answered, one by one. One that was cancelled before it left is
    /// told of at once, and no request of it went out.
    fn check_reads(&self, responses: &[Vec<u8>]) {
        let mut responses = responses.iter();
        let mut told = vec![false; self.reads as usize];
        let mut last = None;
        for done in self.host.done.iter().filter(|done| flags(done).contains(OpFlags::RMA | OpFlags::READ)) {
            let context = match &done.result {
                Ok(it) => {
                    assert_eq!((it.len, it.data), (0, 0));
                    assert!(last < Some(it.context), "reads complete in order");
                    last = Some(it.context);
                    assert_eq!(Some(&done.memory), responses.next());
                    it.context
                }
                Err(it) => {
                    assert_eq!((it.len, it.errno), (0, Errno::ECANCELED));
                    it.context
                }
            };
            assert!(!std::mem::replace(&mut told[context as usize], true), "it completes twice");
        }
    }

    /// What is told of the peer's writes: those with data, in order.
    fn check_writes(&self, writes: &[Write]) {
        let mut writes = writes.iter().filter_map(|write| Some((write.places.len(), write.data?)));
        for done in self.host.done.iter().filter(|done| flags(done).contains(OpFlags::REMOTE_WRITE)) {
            let told = done.result.as_ref().expect("a success");
            assert_eq!(Some((told.len as usize, told.data)), writes.next());
        }
    }

    /// Regions are what the writes make of them, up to some byte.
    fn check_regions(&self, writes: &[Write]) {
        let (found, mut model): (Vec<_>, Vec<_>) = (1..)
            .zip(&self.host.regions)
            .map(|(key, region)| (region.clone().expect("a region"), initial(key)))
            .unzip();
        let mut differing =
            found.iter().flatten().zip(model.iter().flatten()).filter(|(a, b)| a != b).count();
        for (place, byte) in writes.iter().flat_map(|write| write.places.iter().zip(&write.payload)) {
            if differing == 0 {
                return;
            }
            // What is refused ends the connection: nothing that comes later is written.
            let Some((region, at)) = *place else { break };
            let (found, model) = (found[region][at], &mut model[region][at]);
            differing -= usize::from(*model != found);
            *model = *byte;
            differing += usize::from(*model != found);
        }
        assert_eq!(differing, 0, "a region holds what nobody wrote");
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

/// Why something cannot be posted.
const NOT_NOW: [Errno; 4] = [Errno::EAGAIN, Errno::ENOTCONN, Errno::ESHUTDOWN, Errno::EOPBADSTATE];

fn flags(done: &Done) -> OpFlags {
    match &done.result {
        Ok(it) => it.flags,
        Err(it) => it.flags,
    }
}

fn total(segments: &[header::Segment]) -> usize {
    segments.iter().map(|segment| segment.len as usize).sum()
}

/// What a region holds before anybody writes.
fn initial(key: u64) -> Vec<u8> {
    (0..REGION as u64).map(|at| (at * 3 + key * 101) as u8).collect()
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

/// A write in a stream.
#[derive(Debug)]
struct Write {
    payload: Vec<u8>,
    data: Option<u64>,
    ack: bool,
    /// The region and the byte of it that each byte goes to; none from where the write is refused.
    places: Vec<Option<(usize, usize)>>,
}

impl Write {
    fn places(segments: &Segments) -> Vec<Option<(usize, usize)>> {
        let may = |segment: &header::Segment| {
            let region = usize::try_from(segment.key.checked_sub(1)?).ok()?;
            let end = segment.addr.checked_add(segment.len)?;
            let writable = ACCESS.get(region)?.contains(OpFlags::REMOTE_WRITE);
            (writable && end <= REGION as u64).then_some(region)
        };
        let fine = segments.as_slice().iter().all(|segment| may(segment).is_some());
        let places = segments.as_slice().iter().flat_map(|segment| {
            let region = may(segment).filter(|_| fine);
            let len = if fine { segment.len as usize } else { 1 };
            (0..len).map(move |at| Some((region?, segment.addr as usize + at)))
        });
        places.collect()
    }
}

/// What a stream says, as far as it is whole and right.
#[derive(Default)]
struct Said {
    /// The order that records have, if there is a connection.
    order: Option<ByteOrder>,
    messages: Vec<Message>,
    writes: Vec<Write>,
    /// Lengths of what is to be read.
    requests: Vec<u64>,
    responses: Vec<Vec<u8>>,
}

/// A second reading of a stream: the connection message at its front, then records as far as they are whole and
/// right. A write at the end of the stream may be there in part.
fn read_stream(stream: &[u8], answer: bool) -> Said {
    let mut said = Said::default();
    let mut assembly = if answer { Assembly::answer() } else { Assembly::request() };
    let Ok(used) = assembly.take(stream) else { return said };
    let Some((greeting, _)) = assembly.finish().filter(|(greeting, _)| greeting.kind != cm::Kind::Nack)
    else {
        return said;
    };
    let order = greeting.order;
    said.order = Some(order);
    let mut rest = &stream[used..];
    while let Some(base) = rest.first_chunk::<BASE_LEN>() {
        let Ok(len) = Header::expected_len(base, order) else { break };
        let Some(Ok(header)) = rest.get(..len).map(|bytes| Header::parse(bytes, order)) else { break };
        let behind = &rest[len..];
        let size = usize::try_from(header.payload).unwrap_or(usize::MAX).min(behind.len());
        let (payload, is_whole) = (behind[..size].to_vec(), size as u64 == header.payload);
        let ack = header.ack || header.commit;
        match header.kind {
            Kind::Ack => {}
            Kind::ReadRequest(segments) => {
                let len =
                    segments.as_slice().iter().fold(0u64, |sum, segment| sum.saturating_add(segment.len));
                said.requests.push(len);
            }
            Kind::Write { data, segments } => {
                said.writes.push(Write { payload, data, ack, places: Write::places(&segments) });
            }
            Kind::Message { data } if is_whole => said.messages.push(Message { payload, data, ack }),
            Kind::ReadResponse if is_whole => said.responses.push(payload),
            Kind::Message { .. } | Kind::ReadResponse => {}
        }
        if !is_whole {
            break;
        }
        rest = &rest[header.record_len() as usize..];
    }
    said
}

/// What an honest side wrote: a connection message, then numbered records, the last of which may not be whole.
/// Gives how many acknowledgements are among them, and how long the responses to reads are.
fn check_written(log: &[u8], order: Option<ByteOrder>) -> (u64, Vec<u64>) {
    let mut rest = match log.get(HEADER_LEN..) {
        Some(rest) => rest.get(usize::from(log[3])..).unwrap_or_default(),
        None => &[],
    };
    let Some(order) = order else {
        assert!(rest.is_empty(), "records before there is a connection");
        return (0, Vec::new());
    };
    let (mut sequence, mut acks, mut responses) = (0u8, 0, Vec::new());
    while let Some(base) = rest.first_chunk::<BASE_LEN>() {
        assert_eq!(base[7], sequence, "records are numbered");
        sequence = sequence.wrapping_add(1);
        let len = Header::expected_len(base, order).expect("a header of ours");
        let Some(bytes) = rest.get(..len) else { break };
        let header = Header::parse(bytes, order).expect("a header of ours");
        acks += u64::from(header.kind == Kind::Ack);
        if header.kind == Kind::ReadResponse {
            responses.push(header.payload);
        }
        rest = rest.get(header.record_len() as usize..).unwrap_or_default();
    }
    (acks, responses)
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let (mut script, stream) = Script::and_stream(data);
    let active = script.flag();
    let mut side = Side::new(active, false, &mut script);
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
        // Each round makes room for more of what waits; an end is seen in the one behind the last.
        let mut before = usize::MAX;
        while before != side.host.done.len() + outgoing.log.len() {
            before = side.host.done.len() + outgoing.log.len();
            for _ in 0..2 {
                side.round(&mut outgoing, &mut incoming, usize::MAX, usize::MAX);
            }
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

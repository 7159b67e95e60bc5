// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Both sides over kofi.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kofi::{
    Buffers, Caps, Completion, CompletionQueue, CqAttr, Domain, Endpoint, EpType, EqAttr, Error, Event,
    EventQueue, Fabric, Fid, Hints, Info, Listener, Message, OpFlags, RmaIov,
};

use super::worker::{self, FILL, Held, LAST, Measure, NAP, STEP, STRIDE, Spec, Times, tell, tell_rate};
use crate::failure::{Failure, Result};

/// Events that may be unread.
const EVENTS: usize = 4096;
/// Bytes of the one message of a connection.
const HELLO: usize = 8;
/// The key of the server's memory.
const KEY: u64 = 1;

struct Side<'a> {
    spec: &'a Spec,
    info: Info,
    eq: EventQueue,
    domain: Domain,
    cq: CompletionQueue,
    _listener: Option<Listener>,
}

pub(super) fn serve(spec: &Spec) -> Result {
    let info = first(spec, Hints::new().source((Ipv4Addr::LOCALHOST, 0)))?;
    let fabric = Fabric::open(&info)?;
    let eq = fabric.event_queue(EqAttr { size: EVENTS, ..EqAttr::default() })?;
    let listener = fabric.passive_endpoint(&info)?.bind(&eq)?.listen()?;
    let domain = fabric.domain(&info)?;
    let cq = domain.completion_queue(CqAttr::default())?;
    let name = listener.name()?;
    let name = name.socket_addr().ok_or_else(|| format!("wanted a socket address, found {name}"))?;
    tell(&format!("port {}", name.port()))?;
    let side = Side { spec, info, eq, domain, cq, _listener: Some(listener) };
    match spec.measure {
        Measure::Latency | Measure::Wake => side.echo(),
        Measure::Stream => side.sink(),
        Measure::Connect => side.accept_all(),
        Measure::Idle => side.hold(),
        Measure::Read | Measure::Write => side.lend(),
    }
}

pub(super) fn connect(spec: &Spec, to: SocketAddr) -> Result {
    let info = first(spec, Hints::new().dest(to))?;
    let fabric = Fabric::open(&info)?;
    let eq = fabric.event_queue(EqAttr { size: EVENTS, ..EqAttr::default() })?;
    let domain = fabric.domain(&info)?;
    let cq = domain.completion_queue(CqAttr::default())?;
    let side = Side { spec, info, eq, domain, cq, _listener: None };
    match spec.measure {
        Measure::Latency | Measure::Wake => side.ping(),
        Measure::Stream => side.stream(),
        Measure::Read | Measure::Write if spec.window == 1 => side.reach(),
        Measure::Read | Measure::Write => side.reach_all(),
        Measure::Connect => side.connect_all(),
        Measure::Idle => {
            let _held = side.fill(true)?;
            std::thread::sleep(Duration::MAX);
            Ok(())
        }
    }
}

impl Side<'_> {
    /// The next event, by looking for it again and again, or by sleeping where connections are made.
    fn event(&self) -> Result<Event> {
        if self.spec.measure == Measure::Connect && self.spec.sleeps() {
            return Ok(self.eq.wait(STEP)?);
        }
        let end = Instant::now() + STEP;
        loop {
            match self.eq.read() {
                Err(Error::Empty) if Instant::now() < end => self.spec.relax(),
                Err(Error::ErrorAvailable) => return Err(failed(&self.eq.read_error()?)),
                other => return Ok(other?),
            }
        }
    }

    /// The next completion, by looking for it again and again or by sleeping; none when the
    /// connection is over.
    fn completion(&self) -> Result<Option<Completion>> {
        let sleeps = self.spec.sleeps();
        loop {
            let completion = if sleeps { self.cq.wait(STEP) } else { self.cq.poll() };
            match completion {
                Err(Error::Empty) if !sleeps => self.spec.relax(),
                Ok(Completion { error: Some(_), .. }) => return Ok(None),
                other => return Ok(Some(other?)),
            }
        }
    }

    /// The one connection of a server, with receives posted.
    fn accept(&self) -> Result<Endpoint> {
        let Event::ConnectionRequest(request) = self.event()? else {
            return Err(Failure::Run("wanted FI_CONNREQ, found another event".into()));
        };
        let acceptor = self.domain.endpoint_for(&request, &self.eq, &self.cq)?;
        for _ in 0..self.spec.receives() {
            acceptor.recv(vec![0; self.spec.size], 0)?;
        }
        let endpoint = acceptor.accept(b"")?;
        self.connected()?;
        Ok(endpoint)
    }

    /// The one connection of a client, with receives posted.
    fn open(&self) -> Result<Endpoint> {
        let connector = self.domain.endpoint(&self.info, &self.eq, &self.cq)?;
        for _ in 0..2 {
            connector.recv(vec![0; self.spec.size], 0)?;
        }
        let endpoint = connector.connect(b"")?;
        self.connected()?;
        Ok(endpoint)
    }

    fn connected(&self) -> Result<Fid> {
        match self.event()? {
            Event::Connected { endpoint, .. } => Ok(endpoint),
            other => Err(failed(&other)),
        }
    }

    fn inject_size(&self) -> usize {
        self.info.tx_attr.inject_size
    }

    /// Answers each message with one of the same size.
    fn echo(&self) -> Result {
        let endpoint = self.accept()?;
        let mut message = vec![0; self.spec.size];
        loop {
            let Some(received) = self.completion()? else { return Ok(()) };
            if !received.is_receive() {
                message = received.into_buffer().into_vec();
                continue;
            }
            if message.len() <= self.inject_size() {
                endpoint.inject(&message)?;
            } else {
                while message.is_empty() {
                    let Some(sent) = self.completion()? else { return Ok(()) };
                    message = sent.into_buffer().into_vec();
                }
                endpoint.send(std::mem::take(&mut message), 0)?;
            }
            endpoint.recv(received.into_buffer(), 0)?;
        }
    }

    fn ping(&self) -> Result {
        let endpoint = self.open()?;
        let mut message = vec![0; self.spec.size];
        let injected = message.len() <= self.inject_size();
        let sleeps = self.spec.measure == Measure::Wake;
        let mut times = Times::new(self.spec);
        loop {
            if sleeps {
                std::thread::sleep(NAP);
            }
            let start = Instant::now();
            if injected {
                endpoint.inject(&message)?;
            } else {
                endpoint.send(std::mem::take(&mut message), 0)?;
            }
            let mut answer = None;
            while answer.is_none() || !injected && message.is_empty() {
                let completion = self.completion()?.ok_or_else(gone)?;
                if completion.is_receive() {
                    answer = Some(completion.into_buffer());
                } else {
                    message = completion.into_buffer().into_vec();
                }
            }
            let more = times.record(start, Instant::now());
            if let Some(buffer) = answer {
                endpoint.recv(buffer, 0)?;
            }
            if !more {
                return times.tell();
            }
        }
    }

    /// Keeps so many sends in flight as the window has.
    fn stream(&self) -> Result {
        let endpoint = self.open()?;
        let message: Arc<[u8]> = vec![0; self.spec.size].into();
        let (start, mut sent) = (Instant::now(), 0u64);
        for _ in 0..self.spec.window {
            endpoint.send(message.clone(), 0)?;
            sent += 1;
        }
        loop {
            let _ = self.completion()?.ok_or_else(gone)?;
            if self.spec.size > 4096 || sent.is_multiple_of(STRIDE) {
                let over = start.elapsed() >= self.spec.time;
                if over {
                    break;
                }
            }
            endpoint.send(message.clone(), 0)?;
            sent += 1;
        }
        for _ in 1..self.spec.window {
            let _ = self.completion()?.ok_or_else(gone)?;
        }
        let mut last = vec![0; self.spec.size];
        if let Some(first) = last.first_mut() {
            *first = LAST;
        }
        endpoint.send(last, 0)?;
        sent += 1;
        loop {
            let completion = self.completion()?.ok_or_else(gone)?;
            if completion.is_receive() {
                return check(&completion.into_received().map_err(Error::from)?, sent, start.elapsed());
            }
        }
    }

    /// Takes messages up to the last one, and says how many there were.
    fn sink(&self) -> Result {
        let endpoint = self.accept()?;
        let mut count = 0u64;
        while let Some(completion) = self.completion()? {
            count += 1;
            let buffer = completion.into_buffer();
            if buffer.first() == Some(&LAST) {
                endpoint.inject(&count.to_le_bytes())?;
                break;
            }
            endpoint.recv(buffer, 0)?;
        }
        // The client has what it needs, and ends the connection.
        loop {
            if let Event::Shutdown { .. } = self.event()? {
                return Ok(());
            }
        }
    }

    /// Has memory that the client reads and writes.
    fn lend(&self) -> Result {
        let access = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
        let _region = self.domain.register(vec![0; self.spec.size], access, KEY)?;
        let _endpoint = self.accept()?;
        // The end of the connection completes the receives.
        while self.completion()?.is_some() {}
        Ok(())
    }

    fn access(&self, endpoint: &Endpoint, buffers: impl Into<Buffers>, flags: OpFlags) -> Result {
        if self.spec.measure == Measure::Read {
            return Ok(endpoint.read(buffers, 0, KEY, 0)?);
        }
        let buffers = buffers.into();
        let remote = RmaIov { addr: 0, len: buffers.total_len() as u64, key: KEY };
        Ok(endpoint.writemsg(Message { buffers, flags, ..Message::default() }, &[remote])?)
    }

    /// Reads or writes one after the other.
    fn reach(&self) -> Result {
        let endpoint = self.open()?;
        let mut buffers: Buffers = vec![0; self.spec.size].into();
        let mut times = Times::new(self.spec);
        loop {
            let start = Instant::now();
            self.access(&endpoint, buffers, OpFlags::DELIVERY_COMPLETE)?;
            buffers = self.completion()?.ok_or_else(gone)?.buffers;
            if !times.record(start, Instant::now()) {
                return times.tell();
            }
        }
    }

    /// Keeps as many reads or writes in flight as the window has.
    fn reach_all(&self) -> Result {
        let endpoint = self.open()?;
        let memory: Arc<[u8]> = vec![0; self.spec.size].into();
        let fresh = || match self.spec.measure {
            Measure::Read => vec![0; self.spec.size].into(),
            _ => Buffers::from(memory.clone()),
        };
        let window = match self.spec.measure {
            Measure::Read => self.spec.receives(),
            _ => self.spec.window,
        };
        let (start, mut count) = (Instant::now(), 0u64);
        for _ in 0..window {
            self.access(&endpoint, fresh(), OpFlags::empty())?;
            count += 1;
        }
        while start.elapsed() < self.spec.time {
            let buffers = self.completion()?.ok_or_else(gone)?.buffers;
            self.access(&endpoint, buffers, OpFlags::empty())?;
            count += 1;
        }
        // The last one tells that all are there.
        self.access(&endpoint, fresh(), OpFlags::DELIVERY_COMPLETE)?;
        for _ in 0..=window {
            let _ = self.completion()?.ok_or_else(gone)?;
        }
        tell_rate(count + 1, start.elapsed())
    }

    /// Opens connections that are there all the time.
    fn fill(&self, counted: bool) -> Result<Vec<Endpoint>> {
        let mut endpoints = Vec::with_capacity(self.spec.held);
        let (mut held, mut connected) = (Held::default(), 0);
        while connected < self.spec.held {
            while endpoints.len() < self.spec.held.min(connected + FILL) {
                endpoints.push(self.domain.endpoint(&self.info, &self.eq, &self.cq)?.connect(b"")?);
            }
            self.connected()?;
            connected += 1;
            if counted {
                held.count(connected, self.spec)?;
            }
        }
        Ok(endpoints)
    }

    /// Connections with one message each.
    fn connect_all(&self) -> Result {
        let _held = self.fill(false)?;
        let mut open = HashMap::new();
        let (start, mut done, mut more) = (Instant::now(), 0u64, true);
        while more || !open.is_empty() {
            while more && open.len() < self.spec.window {
                let endpoint = self.domain.endpoint(&self.info, &self.eq, &self.cq)?.connect(b"")?;
                open.insert(endpoint.fid(), endpoint);
            }
            let fid = match self.event()? {
                Event::Connected { endpoint, .. } => endpoint,
                Event::Shutdown { .. } => continue,
                other => return Err(failed(&other)),
            };
            let Some(endpoint) = open.remove(&fid) else { continue };
            endpoint.send(&[7; HELLO], 0)?;
            let _ = self.completion()?.ok_or_else(gone)?;
            endpoint.shutdown()?;
            drop(endpoint);
            done += 1;
            more = start.elapsed() < self.spec.time;
        }
        tell_rate(done, start.elapsed())
    }

    /// Accepts whoever comes, takes messages, and closes what the client has ended.
    fn accept_all(&self) -> Result {
        let mut open = HashMap::new();
        loop {
            let mut idle = true;
            let event = if self.spec.sleeps() { self.eq.wait(STEP) } else { self.eq.read() };
            match event {
                Ok(Event::ConnectionRequest(request)) => {
                    let acceptor = self.domain.endpoint_for(&request, &self.eq, &self.cq)?;
                    acceptor.recv(vec![0; HELLO], 0)?;
                    let endpoint = acceptor.accept(b"")?;
                    open.insert(endpoint.fid(), endpoint);
                    idle = false;
                }
                Ok(Event::Shutdown { endpoint, .. }) => {
                    open.remove(&endpoint);
                    idle = false;
                }
                Ok(_) => idle = false,
                Err(Error::ErrorAvailable) => return Err(failed(&self.eq.read_error()?)),
                Err(Error::Empty) => {}
                Err(error) => return Err(error.into()),
            }
            while self.cq.poll().is_ok() {
                idle = false;
            }
            if idle {
                self.spec.relax();
            }
        }
    }

    /// Accepts all connections, then waits.
    fn hold(&self) -> Result {
        let mut endpoints = Vec::with_capacity(self.spec.held);
        let (mut held, mut connected) = (Held::default(), 0);
        while connected < self.spec.held {
            match self.event()? {
                Event::ConnectionRequest(request) => {
                    endpoints.push(self.domain.endpoint_for(&request, &self.eq, &self.cq)?.accept(b"")?);
                }
                Event::Connected { .. } => {
                    connected += 1;
                    held.count(connected, self.spec)?;
                }
                other => return Err(failed(&other)),
            }
        }
        worker::tell_idle(self.spec, |time| match self.eq.wait(time) {
            Err(Error::Empty) => Ok(()),
            other => Err(failed(&other?)),
        })
    }
}

fn first(spec: &Spec, hints: Hints) -> Result<Info> {
    let caps = if spec.measure.is_rma() { Caps::MSG | Caps::RMA } else { Caps::MSG };
    let hints = hints.provider("tcp").endpoint_type(EpType::Msg).caps(caps);
    Ok(kofi::getinfo(hints)?.swap_remove(0))
}

fn failed(event: &Event) -> Failure {
    Failure::Run(format!("wanted a connection, found {event:?}"))
}

fn gone() -> Failure {
    Failure::Run("the connection ended in the middle of the run".into())
}

/// The server says how many messages it got.
pub(super) fn check(answer: &[u8], sent: u64, elapsed: Duration) -> Result {
    match answer.first_chunk() {
        Some(count) if u64::from_le_bytes(*count) == sent => tell_rate(sent, elapsed),
        _ => Err(Failure::Run(format!("wanted {sent} messages to arrive, the server says {answer:02x?}"))),
    }
}

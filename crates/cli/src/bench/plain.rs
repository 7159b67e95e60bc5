// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Both sides over plain TCP sockets: what could be had without any fabric.
//!
//! The same bytes go in the same number of round trips: a message has a header of 16 bytes, a
//! connection starts with 32 bytes in each direction. A read or write of the server's memory names that by 24
//! bytes more, and is answered.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};

use super::ours::check;
use super::worker::{self, Held, LAST, Measure, NAP, STRIDE, Spec, Times, Wait, tell, tell_rate};
use crate::failure::{Failure, Result};

/// Bytes before each message.
const HEADER: usize = 16;
/// Bytes that name memory.
const PLACE: usize = 24;
/// Bytes that a client starts with, and a server answers with.
const GREETING: usize = 32;
/// The one message of a connection.
const HELLO: usize = HEADER + 8;

pub(super) fn serve(spec: &Spec) -> Result {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| failed("listen", &error))?;
    // As many as may come at a time.
    socket2::SockRef::from(&listener).listen(4096).map_err(|error| failed("listen", &error))?;
    let address = listener.local_addr().map_err(|error| failed("name", &error))?;
    tell(&format!("port {}", address.port()))?;
    let result = match spec.measure {
        Measure::Read if spec.window > 1 => Wire::accept(spec, &listener).and_then(|wire| answer(spec, wire)),
        Measure::Latency | Measure::Wake | Measure::Read => {
            Wire::accept(spec, &listener).and_then(|wire| echo(spec, wire))
        }
        Measure::Write if spec.window == 1 => Wire::accept(spec, &listener).and_then(|wire| echo(spec, wire)),
        Measure::Stream | Measure::Write => Wire::accept(spec, &listener).and_then(|wire| sink(spec, wire)),
        Measure::Connect if spec.variant.wait == Wait::Epoll => accept_all(&listener),
        Measure::Connect => accept_in_turn(spec, &listener),
        Measure::Idle => return hold(spec, &listener),
    };
    match result {
        // So the client ends a run.
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Ok(()),
        other => other.map_err(|error| failed("serve", &error)),
    }
}

pub(super) fn connect(spec: &Spec, to: SocketAddr) -> Result {
    match spec.measure {
        Measure::Read if spec.window > 1 => {
            let wire = Wire::connect(spec, to).map_err(|error| failed("connect", &error))?;
            ask(spec, wire)
        }
        Measure::Latency | Measure::Wake | Measure::Read => {
            let wire = Wire::connect(spec, to).map_err(|error| failed("connect", &error))?;
            ping(spec, wire)
        }
        Measure::Write if spec.window == 1 => {
            let wire = Wire::connect(spec, to).map_err(|error| failed("connect", &error))?;
            ping(spec, wire)
        }
        Measure::Stream | Measure::Write => {
            let wire = Wire::connect(spec, to).map_err(|error| failed("connect", &error))?;
            stream(spec, wire)
        }
        Measure::Connect => {
            let _held = fill(spec, to, false)?;
            let (start, done) = (Instant::now(), connect_all(spec, to));
            tell_rate(done.map_err(|error| failed("connect", &error))?, start.elapsed())
        }
        Measure::Idle => {
            let _held = fill(spec, to, true)?;
            std::thread::sleep(Duration::MAX);
            Ok(())
        }
    }
}

fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::Run(format!("plain sockets: {what}: {error}"))
}

/// One connection, used as the variant says.
struct Wire<'a> {
    spec: &'a Spec,
    socket: TcpStream,
    epoll: Option<OwnedFd>,
}

impl<'a> Wire<'a> {
    fn accept(spec: &'a Spec, listener: &TcpListener) -> io::Result<Self> {
        Self::new(spec, listener.accept()?.0)
    }

    fn connect(spec: &'a Spec, to: SocketAddr) -> io::Result<Self> {
        Self::new(spec, TcpStream::connect(to)?)
    }

    fn new(spec: &'a Spec, socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let wait = match (spec.measure, spec.to) {
            // Only the server sleeps.
            (Measure::Wake, Some(_)) => Wait::Poll,
            _ => spec.variant.wait,
        };
        socket.set_nonblocking(wait != Wait::Block)?;
        let mut epoll = None;
        if wait == Wait::Epoll {
            let new = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            epoll::add(
                &new,
                &socket,
                EventData::new_u64(0),
                EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET,
            )?;
            epoll = Some(new);
        }
        Ok(Self { spec, socket, epoll })
    }

    fn wait(&self) -> io::Result<()> {
        match &self.epoll {
            Some(epoll) => wait(epoll, &mut [NO_EVENT], None).map(drop),
            None => {
                self.spec.relax();
                Ok(())
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait()?,
                other => return other,
            }
        }
    }

    fn read_exact(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let most = buffer.len().min(self.spec.variant.chunk);
            let count = self.read(buffer.get_mut(..most).unwrap_or_default())?;
            buffer = buffer.get_mut(count..).unwrap_or_default();
        }
        Ok(())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let most = bytes.len().min(self.spec.variant.chunk);
            match self.socket.write(bytes.get(..most).unwrap_or_default()) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait()?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

const NO_EVENT: epoll::Event = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };

fn wait(epoll: &OwnedFd, events: &mut [epoll::Event], time: Option<Duration>) -> io::Result<usize> {
    let time = time.and_then(|time| rustix::event::Timespec::try_from(time).ok());
    Ok(epoll::wait(epoll, events, time.as_ref())?)
}

/// Bytes of a request and of its answer.
fn lengths(spec: &Spec) -> (usize, usize) {
    match spec.measure {
        Measure::Read => (HEADER + PLACE, HEADER + spec.size),
        Measure::Write => (HEADER + PLACE + spec.size, HEADER),
        _ => (HEADER + spec.size, HEADER + spec.size),
    }
}

fn echo(spec: &Spec, mut wire: Wire<'_>) -> io::Result<()> {
    let (request, answer) = lengths(spec);
    let (mut request, answer) = (vec![0; request], vec![0; answer]);
    loop {
        wire.read_exact(&mut request)?;
        wire.write_all(&answer)?;
    }
}

/// Answers requests that come many at a time.
fn answer(spec: &Spec, mut wire: Wire<'_>) -> io::Result<()> {
    let (request, answer) = lengths(spec);
    let (mut requests, answer) = (vec![0; request * spec.window], vec![0; answer]);
    let mut have = 0;
    loop {
        have += wire.read(&mut requests)?;
        while have >= request {
            wire.write_all(&answer)?;
            have -= request;
        }
    }
}

/// Keeps as many requests in flight as fabrics may have.
fn ask(spec: &Spec, mut wire: Wire<'_>) -> Result {
    let (request, answer) = lengths(spec);
    let (request, mut answer) = (vec![0; request], vec![0; answer]);
    let (start, mut count, mut open) = (Instant::now(), 0u64, spec.receives());
    let mut exchange = || {
        wire.write_all(&request.repeat(open))?;
        while open > 0 {
            wire.read_exact(&mut answer)?;
            count += 1;
            open -= 1;
            if start.elapsed() < spec.time {
                wire.write_all(&request)?;
                open += 1;
            }
        }
        Ok(())
    };
    exchange().map_err(|error| failed("read", &error))?;
    tell_rate(count, start.elapsed())
}

fn ping(spec: &Spec, mut wire: Wire<'_>) -> Result {
    let (request, answer) = lengths(spec);
    let (request, mut answer) = (vec![0; request], vec![0; answer]);
    let mut times = Times::new(spec);
    loop {
        if spec.measure == Measure::Wake {
            std::thread::sleep(NAP);
        }
        let start = Instant::now();
        let answered = wire.write_all(&request).and_then(|()| wire.read_exact(&mut answer));
        answered.map_err(|error| failed("ping-pong", &error))?;
        if !times.record(start, Instant::now()) {
            return times.tell();
        }
    }
}

fn stream(spec: &Spec, mut wire: Wire<'_>) -> Result {
    let (frame, _) = lengths(spec);
    let batch = vec![0; frame * spec.variant.batch];
    let mut last = vec![0; frame];
    if let Some(flag) = last.first_mut() {
        *flag = LAST;
    }
    let (start, mut sent) = (Instant::now(), 0u64);
    let mut send = |bytes: &[u8]| wire.write_all(bytes).map_err(|error| failed("stream", &error));
    loop {
        send(&batch)?;
        sent += spec.variant.batch as u64;
        if (spec.size > 4096 || sent.is_multiple_of(STRIDE)) && start.elapsed() >= spec.time {
            break;
        }
    }
    send(&last)?;
    let mut answer = [0; HEADER + 8];
    wire.read_exact(&mut answer).map_err(|error| failed("the server's count", &error))?;
    check(answer.get(HEADER..).unwrap_or_default(), sent + 1, start.elapsed())
}

/// Small messages are read many at a time, large ones into their place.
fn sink(spec: &Spec, mut wire: Wire<'_>) -> io::Result<()> {
    let (frame, _) = lengths(spec);
    let mut buffer = vec![0; frame.max(256 << 10).min(spec.variant.chunk.max(frame))];
    let whole = buffer.len() - buffer.len() % frame;
    let (mut total, mut count) = (0usize, 0u64);
    loop {
        // Where in the buffer the next byte of its message belongs.
        let at = total % frame;
        let most = (whole - at).min(spec.variant.chunk);
        let read = wire.read(buffer.get_mut(at..at + most).unwrap_or_default())?;
        let end = at + read;
        total += read;
        // A message is there once its last byte is.
        let mut start = 0;
        while start + frame <= end {
            count += 1;
            if buffer.get(start) == Some(&LAST) {
                let mut answer = [0; HEADER + 8];
                answer[HEADER..].copy_from_slice(&count.to_le_bytes());
                return wire.write_all(&answer).and_then(|()| wire.read(&mut answer).map(drop));
            }
            start += frame;
        }
        // The beginning of a message that is not whole goes to the front.
        if start > 0 {
            buffer.copy_within(start..end, 0);
        }
    }
}

/// A client's connection, with its greeting sent.
fn greet(to: SocketAddr) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect(to)?;
    socket.set_nodelay(true)?;
    socket.write_all(&[1; GREETING])?;
    Ok(socket)
}

/// Opens connections that are there all the time.
fn fill(spec: &Spec, to: SocketAddr, counted: bool) -> Result<Vec<TcpStream>> {
    let mut sockets = Vec::with_capacity(spec.held);
    let mut held = Held::default();
    for open in 1..=spec.held {
        let socket = greet(to).and_then(|mut socket| {
            socket.read_exact(&mut [0; GREETING])?;
            Ok(socket)
        });
        sockets.push(socket.map_err(|error| failed("connect", &error))?);
        if counted {
            held.count(open, spec)?;
        }
    }
    Ok(sockets)
}

/// Connections with one message each; gives their number.
fn connect_all(spec: &Spec, to: SocketAddr) -> io::Result<u64> {
    let (start, mut done) = (Instant::now(), 0);
    let poll = spec.variant.wait == Wait::Poll;
    let mut open = std::collections::VecDeque::new();
    loop {
        let more = start.elapsed() < spec.time;
        while more && open.len() < spec.window {
            let socket = greet(to)?;
            socket.set_nonblocking(poll)?;
            open.push_back(socket);
        }
        // The server is asked in this order, too.
        let Some(mut socket) = open.pop_front() else { return Ok(done) };
        read_all(spec, &mut socket, &mut [0; GREETING])?;
        socket.write_all(&[7; HELLO])?;
        done += 1;
    }
}

fn read_all(spec: &Spec, socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut used = 0;
    while let Some(rest) = buffer.get_mut(used..).filter(|rest| !rest.is_empty()) {
        match socket.read(rest) {
            Ok(0) => break,
            Ok(count) => used += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => spec.relax(),
            Err(error) => return Err(error),
        }
    }
    Ok(used)
}

/// A server that deals with one connection after the other, with as few calls as can be.
fn accept_in_turn(spec: &Spec, listener: &TcpListener) -> io::Result<()> {
    let poll = spec.variant.wait == Wait::Poll;
    listener.set_nonblocking(poll)?;
    let mut held = Vec::with_capacity(spec.held);
    loop {
        let mut socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                spec.relax();
                continue;
            }
            Err(error) => return Err(error),
        };
        socket.set_nonblocking(poll)?;
        socket.set_nodelay(true)?;
        if read_all(spec, &mut socket, &mut [0; GREETING])? < GREETING {
            continue;
        }
        socket.write_all(&[2; GREETING])?;
        if held.len() < spec.held {
            held.push(socket);
            continue;
        }
        // One byte more than there is: the end is seen, too.
        read_all(spec, &mut socket, &mut [0; HELLO + 1])?;
    }
}

/// A server that deals with all connections as they have something.
fn accept_all(listener: &TcpListener) -> io::Result<()> {
    const LISTENER: u64 = u64::MAX;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut open: Vec<Option<(TcpStream, usize)>> = Vec::new();
    let mut events = [NO_EVENT; 64];
    loop {
        let count = wait(&epoll, &mut events, None)?;
        for event in events.iter().take(count) {
            let mut index = event.data.u64() as usize;
            if event.data.u64() == LISTENER {
                let Ok((socket, _)) = listener.accept() else { continue };
                socket.set_nonblocking(true)?;
                socket.set_nodelay(true)?;
                index = open.iter().position(Option::is_none).unwrap_or_else(|| {
                    open.push(None);
                    open.len() - 1
                });
                let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
                epoll::add(&epoll, &socket, EventData::new_u64(index as u64), flags)?;
                open[index] = Some((socket, 0));
            }
            let Some(place) = open.get_mut(index) else { continue };
            while let Some((socket, used)) = place {
                let mut buffer = [0; GREETING + HELLO];
                match socket.read(&mut buffer) {
                    Ok(0) => *place = None,
                    Ok(count) => {
                        if *used < GREETING && *used + count >= GREETING {
                            socket.write_all(&[2; GREETING])?;
                        }
                        *used += count;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

/// Accepts all connections, then waits.
fn hold(spec: &Spec, listener: &TcpListener) -> Result {
    let mut held = Held::default();
    let mut sockets = Vec::with_capacity(spec.held);
    let mut open = || {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for index in 0..spec.held {
            let (mut socket, _) = listener.accept()?;
            socket.set_nodelay(true)?;
            read_all(spec, &mut socket, &mut [0; GREETING])?;
            socket.write_all(&[2; GREETING])?;
            let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&epoll, socket.as_fd(), EventData::new_u64(index as u64), flags)?;
            sockets.push(socket);
            held.count(index + 1, spec).map_err(|_| ErrorKind::BrokenPipe)?;
        }
        Ok(epoll)
    };
    let epoll = open().map_err(|error: io::Error| failed("accept", &error))?;
    worker::tell_idle(spec, |time| {
        wait(&epoll, &mut [NO_EVENT], Some(time)).map(drop).map_err(|error| failed("epoll", &error))
    })
}

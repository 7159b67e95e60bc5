// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The connection whose messages are measured.

use std::fmt::Display;
use std::time::{Duration, Instant};

use kofi::{
    Caps, Completion, CompletionQueue, Connector, CqAttr, Domain, Endpoint, EpType, EqAttr, Error, Event,
    EventQueue, Fabric, Hints, Info, Listener, Message, OpFlags, Queues,
};

use super::control::{Control, Role};
use super::pattern::Pattern;
use super::{Options, STEP};
use crate::failure::{Failure, Result};

/// The last message, in both directions.
const FIN: &[u8; 4] = b"fin\0";
/// Receives have room for `fi_pingpong`'s own words, too.
const SMALLEST_RECEIVE: usize = 64;
/// How long a queue is read again and again before it is waited on: several times what waking up
/// takes. With less, a side that sleeps once is so late with its answer that the other one sleeps, too,
/// and so on for ever.
const SPIN: Duration = Duration::from_micros(300);
/// Empty reads between two looks at the clock.
const READS: u32 = 16;

pub(super) struct Link {
    endpoint: Endpoint,
    queues: [CompletionQueue; 2],
    eq: EventQueue,
    inject_size: usize,
    /// The message to be sent next.
    message: Vec<u8>,
    check: Option<Check>,
    /// A server listens until the end, so that a second client is told something.
    _listener: Option<Listener>,
}

#[derive(Default)]
struct Check {
    sent: Pattern,
    received: Pattern,
}

/// What is open before the endpoint is.
struct Parts {
    domain: Domain,
    eq: EventQueue,
    transmit: CompletionQueue,
    receive: CompletionQueue,
}

impl Parts {
    fn open(fabric: &Fabric, info: &Info, eq: EventQueue) -> Result<Self> {
        let domain = fabric.domain(info)?;
        let transmit = domain.completion_queue(CqAttr::default())?;
        let receive = domain.completion_queue(CqAttr::default())?;
        Ok(Self { domain, eq, transmit, receive })
    }

    fn queues(&self) -> Queues {
        Queues::new(&self.transmit, &self.receive)
    }
}

impl Link {
    /// The server's end: listens, tells the client where, and accepts it.
    pub(super) fn accept(control: &mut Control, options: &Options) -> Result<Self> {
        let hints = match options.domain {
            // The address that the client has reached us at is one that it can reach again.
            None => hints(options).source((control.local_ip()?, 0)),
            Some(_) => hints(options),
        };
        let info = first(hints)?;
        let fabric = Fabric::open(&info)?;
        let eq = fabric.event_queue(EqAttr::default())?;
        let listener = fabric.passive_endpoint(&info)?.bind(&eq)?.listen()?;
        let name = listener.name()?;
        options.say(Role::Server, || format!("the endpoint listens at {name}"));
        let name = name.socket_addr().ok_or_else(|| {
            format!("wanted an IP address for the client to connect to, found {name}; use -p tcp")
        })?;
        control.send_name(name)?;
        let request = match event(&eq, "FI_CONNREQ")? {
            Event::ConnectionRequest(request) => request,
            other => return Err(unexpected("FI_CONNREQ", &other)),
        };
        options.say(Role::Server, || format!("connection request:\n{}", request.info()));
        let parts = Parts::open(&fabric, request.info(), eq)?;
        let acceptor = parts.domain.endpoint_for(&request, &parts.eq, parts.queues())?;
        acceptor.recv(vec![0; receive_len(options)], 0)?;
        let endpoint = acceptor.accept(b"")?;
        Self::connected(parts, endpoint, request.info(), options, Some(listener))
    }

    /// The client's end: learns where the server listens, and connects.
    pub(super) fn connect(control: &mut Control, options: &Options) -> Result<Self> {
        let name = control.receive_name()?;
        options.say(Role::Client, || format!("the server's endpoint listens at {name}"));
        let info = first(hints(options).dest(name))?;
        options.say(Role::Client, || format!("connecting with\n{info}"));
        let fabric = Fabric::open(&info)?;
        let eq = fabric.event_queue(EqAttr::default())?;
        let parts = Parts::open(&fabric, &info, eq)?;
        let connector: Connector = parts.domain.endpoint(&info, &parts.eq, parts.queues())?;
        connector.recv(vec![0; receive_len(options)], 0)?;
        let endpoint = connector.connect(b"")?;
        Self::connected(parts, endpoint, &info, options, None)
    }

    fn connected(
        parts: Parts,
        endpoint: Endpoint,
        info: &Info,
        options: &Options,
        listener: Option<Listener>,
    ) -> Result<Self> {
        match event(&parts.eq, "FI_CONNECTED")? {
            Event::Connected { endpoint: fid, .. } if fid == endpoint.fid() => {}
            other => return Err(unexpected("FI_CONNECTED", &other)),
        }
        if info.ep_attr.max_msg_size < options.largest() {
            let (limit, largest) = (info.ep_attr.max_msg_size, options.largest());
            return Err(Failure::Run(format!(
                "wanted messages of {largest} bytes, the endpoint takes up to {limit}; choose one with -S"
            )));
        }
        Ok(Self {
            endpoint,
            queues: [parts.transmit, parts.receive],
            eq: parts.eq,
            inject_size: info.tx_attr.inject_size,
            message: Vec::new(),
            check: options.check.then(Check::default),
            _listener: listener,
        })
    }

    /// From now on, messages have this size.
    pub(super) fn set_size(&mut self, size: usize) {
        self.message.resize(size, 0);
    }

    /// Sends a message, and waits until its memory is free again.
    pub(super) fn send(&mut self) -> Result {
        if let Some(check) = &mut self.check {
            check.sent.fill(&mut self.message);
        }
        if self.message.len() < self.inject_size {
            return self
                .endpoint
                .inject(&self.message)
                .map_err(|error| self.failed("a message to be sent", &error));
        }
        let message = std::mem::take(&mut self.message);
        self.endpoint.send(message, 0).map_err(|refused| self.failed("a message to be sent", &refused))?;
        let [transmit, _] = &self.queues;
        self.message = self.complete(transmit, "the completion of a send")?.into_buffer().into_vec();
        Ok(())
    }

    /// Waits for a message, and makes room for the next one.
    pub(super) fn receive(&mut self) -> Result {
        let [_, receive] = &self.queues;
        let completion = self.complete(receive, "a message")?;
        let (found, wanted) = (completion.len, self.message.len());
        if found != wanted {
            return Err(Failure::Run(format!(
                "wanted a message of {wanted} bytes, found one of {found}; give both sides the same -I and -S"
            )));
        }
        let buffer = completion.into_buffer();
        if let Some(check) = &mut self.check {
            let bytes = buffer.get(..found).unwrap_or_default();
            if let Some((at, wanted)) = check.received.check(bytes) {
                let found = bytes.get(at).copied().unwrap_or_default();
                return Err(Failure::Run(format!(
                    "wanted byte {at} of a message of {} bytes to be {wanted:#04x}, found {found:#04x}; the data \
                     is corrupt, or the other side runs without -c",
                    bytes.len(),
                )));
            }
        }
        self.endpoint.recv(buffer, 0).map_err(|refused| self.failed("a receive to be posted", &refused))
    }

    /// The last message in both directions, and the end.
    pub(super) fn finish(self) -> Result {
        let fin = Message { buffers: FIN.into(), flags: OpFlags::TRANSMIT_COMPLETE, ..Message::default() };
        self.endpoint.sendmsg(fin).map_err(|refused| self.failed("the last message to be sent", &refused))?;
        let [transmit, receive] = &self.queues;
        let _ = self.complete(transmit, "the completion of the last message")?;
        let last = self.complete(receive, "the peer's last message")?;
        if last.into_received().ok().as_deref() != Some(FIN.as_slice()) {
            return Err(Failure::Run(
                "wanted \"fin\" as the peer's last message, found another; give both sides the same -I and -S".into(),
            ));
        }
        // The peer may have been quicker: then the connection is over already.
        let _ = self.endpoint.shutdown();
        Ok(())
    }

    /// The next completion of a queue.
    ///
    /// It is looked for again and again at first, since sleeping and waking up would be measured
    /// otherwise; but not for long, since the peer may need this processor.
    fn complete(&self, queue: &CompletionQueue, wanted: &str) -> Result<Completion> {
        let mut reads = 0u32;
        let mut since = None;
        let completion = loop {
            match queue.poll() {
                Err(Error::Empty) => reads = reads.wrapping_add(1),
                other => break other,
            }
            if reads.is_multiple_of(READS) && since.get_or_insert_with(Instant::now).elapsed() > SPIN {
                break queue.wait(STEP);
            }
            std::hint::spin_loop();
        };
        match completion {
            Ok(Completion { error: Some(error), .. }) => Err(self.failed(wanted, &error.errno)),
            Ok(completion) => Ok(completion),
            Err(Error::Empty) => Err(Failure::Run(format!(
                "wanted {wanted}, nothing came in {STEP:?}; is the peer still running, with the same -I and -S?"
            ))),
            Err(error) => Err(error.into()),
        }
    }

    /// An operation failed: if the connection has ended, that is why.
    fn failed(&self, wanted: &str, error: &dyn Display) -> Failure {
        match self.eq.read() {
            Ok(Event::Shutdown { reason, .. }) => {
                Failure::Run(format!("wanted {wanted}, but the connection ended: {reason}"))
            }
            _ => Failure::Run(format!("wanted {wanted}, found: {error}")),
        }
    }
}

fn hints(options: &Options) -> Hints {
    let hints = Hints::new().provider(&options.provider).endpoint_type(EpType::Msg).caps(Caps::MSG);
    match &options.domain {
        Some(domain) => hints.domain(domain),
        None => hints,
    }
}

fn first(hints: Hints) -> Result<Info> {
    Ok(kofi::getinfo(hints)?.swap_remove(0))
}

fn receive_len(options: &Options) -> usize {
    options.largest().max(SMALLEST_RECEIVE)
}

fn event(eq: &EventQueue, wanted: &str) -> Result<Event> {
    match eq.wait(STEP) {
        Ok(Event::Failed { reason, .. }) => Err(Failure::Run(format!("the connection failed: {reason}"))),
        Err(Error::Empty) => {
            Err(Failure::Run(format!("wanted {wanted}, nothing came in {STEP:?}; is the peer running?")))
        }
        other => Ok(other?),
    }
}

fn unexpected(wanted: &str, found: &Event) -> Failure {
    Failure::Run(format!("wanted {wanted}, found {found:?}"))
}

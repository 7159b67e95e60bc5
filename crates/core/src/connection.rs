// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! How connections come about and end (`fi_cm(3)`): connect, accept, shutdown, and what the
//! transport and the clock have to say.

use alloc::vec::Vec;

use crate::domain::{Domain, TransportCommand};
use crate::endpoint::{EpId, Incoming, Origin, Payload, Sink, State};
use crate::time::{Deadline, Instant};
use crate::wire::cm::{self, Assembly, Header};
use crate::{Errno, Error, Event, Reason, Result, SocketAddr};

/// How a transport stands, once all has been read from it that could be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Input {
    /// There is more, which nothing can take now.
    pub blocked: bool,
    /// The peer has ended its stream, behind what there is.
    pub ended: bool,
    /// Writing has failed, by this error.
    pub broken: Option<Errno>,
}

impl Domain {
    /// `fi_connect`: the driver makes a transport connection to the address that this gives, then
    /// calls [`transport_open`](Self::transport_open) or [`transport_failed`](Self::transport_failed).
    /// Success here means started: how it went is an event.
    ///
    /// # Errors
    /// -FI_EINVAL on an endpoint that was made for a request or has connected before, without an
    /// address, or with too much private data; -FI_EOPBADSTATE after a failed connection;
    /// -FI_ENOEQ and -FI_ENOCQ as for `fi_enable`, which is implied.
    pub fn connect(
        &mut self,
        ep: EpId,
        dest: Option<SocketAddr>,
        data: &[u8],
        now: Instant,
    ) -> Result<SocketAddr> {
        const CALL: &str = "fi_connect";
        let endpoint = self.endpoint_mut(CALL, ep)?;
        endpoint.check_start(CALL, true, data)?;
        let dest = dest.or(endpoint.attr.dest_addr).ok_or(Error::Invalid {
            call: CALL,
            problem: "no address: neither given here nor in the info's dest_addr; give one, or ask getinfo for the peer",
        })?;
        endpoint.tx.greeting = cm::message(CALL, cm::Kind::Request, data)?;
        endpoint.rx.incoming = Incoming::Answer(Assembly::answer());
        endpoint.peer = Some(dest);
        endpoint.state = State::Connecting;
        endpoint.deadline = Deadline::start(now, endpoint.limits.connect);
        let deadline = endpoint.deadline;
        self.earliest.include(deadline);
        Ok(dest)
    }

    /// Whether `fi_accept` may go on. The driver then takes the request's transport (which a reject
    /// may have used up) and calls [`accept`](Self::accept).
    ///
    /// # Errors
    /// -FI_EINVAL on an endpoint that was not made for a request or has accepted, or with too much
    /// private data; -FI_ETIMEDOUT when the limit for the decision has passed; -FI_ENOEQ and
    /// -FI_ENOCQ as for `fi_enable`, which is implied.
    pub fn check_accept(&self, ep: EpId, data: &[u8], now: Instant) -> Result<()> {
        const CALL: &str = "fi_accept";
        let endpoint = self.endpoint(CALL, ep)?;
        endpoint.check_start(CALL, false, data)?;
        match endpoint.origin {
            Origin::Request(taken) => taken.check(CALL, now),
            Origin::Active => Ok(()),
        }
    }

    /// `fi_accept`, with the transport in the driver's hands: the answer is ready to be written.
    ///
    /// # Errors
    /// As for [`check_accept`](Self::check_accept).
    pub fn accept(
        &mut self,
        ep: EpId,
        local: SocketAddr,
        peer: SocketAddr,
        data: &[u8],
        now: Instant,
    ) -> Result<()> {
        self.check_accept(ep, data, now)?;
        let endpoint = self.endpoint_mut("fi_accept", ep)?;
        endpoint.tx.greeting = cm::message("fi_accept", cm::Kind::Response, data)?;
        (endpoint.local, endpoint.peer) = (Some(local), Some(peer));
        endpoint.state = State::Accepting;
        endpoint.deadline = Deadline::start(now, endpoint.limits.handshake);
        let deadline = endpoint.deadline;
        self.earliest.include(deadline);
        Ok(())
    }

    /// `fi_shutdown`: what is queued is still sent, within the limit for it; then the connection
    /// ends with `FI_SHUTDOWN` here and at the peer. The driver reads what has arrived, then calls
    /// [`input_drained`](Self::input_drained). Doing it again changes nothing.
    ///
    /// # Errors
    /// -FI_EINVAL for flags; -FI_ENOTCONN before the endpoint is connected; -FI_EOPBADSTATE after a
    /// failed connection.
    pub fn shutdown(&mut self, ep: EpId, flags: u64, now: Instant) -> Result<()> {
        const CALL: &str = "fi_shutdown";
        let endpoint = self.endpoint_mut(CALL, ep)?;
        if flags != 0 {
            return Err(Error::Invalid { call: CALL, problem: "flags are reserved; pass 0" });
        }
        match endpoint.state {
            State::Connected => {
                if let Some(reason @ Reason::Transport(_)) = endpoint.rx.ended {
                    // Nothing can be sent any more.
                    self.end(ep, reason);
                    return Ok(());
                }
                endpoint.state = State::Draining;
                endpoint.deadline = Deadline::start(now, endpoint.limits.shutdown);
                let deadline = endpoint.deadline;
                self.earliest.include(deadline);
                Ok(())
            }
            State::Draining | State::Disconnected => Ok(()),
            State::Failed => {
                Err(endpoint.wrong_state(CALL, Errno::EOPBADSTATE, "close it, and use a new endpoint"))
            }
            _ => Err(endpoint.wrong_state(CALL, Errno::ENOTCONN, "wait for FI_CONNECTED, or close it")),
        }
    }

    /// The transport that [`connect`](Self::connect) asked for is there.
    pub fn transport_open(&mut self, ep: EpId, local: SocketAddr) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0)
            && endpoint.state == State::Connecting
        {
            endpoint.local = Some(local);
            endpoint.state = State::Requested;
        }
    }

    /// The transport could not be made, or it broke. What had arrived before is still received, as after
    /// [`end_of_stream`](Self::end_of_stream), unless the application has shut the connection down.
    pub fn transport_failed(&mut self, ep: EpId, errno: Errno) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        let reason = endpoint.broken_by(errno);
        endpoint.tx.replies.close();
        endpoint.rx.unexpected.cut();
        let receives = endpoint.state == State::Connected || endpoint.rx.leftover;
        if receives && !endpoint.rx.unexpected.is_empty() {
            endpoint.rx.ended.get_or_insert(reason);
            return;
        }
        self.end(ep, reason);
    }

    /// The transport takes nothing any more. What it still gives is read on: the connection is over
    /// only with that ([`transport_failed`](Self::transport_failed)), and nothing waits for a reply to
    /// be sent until then.
    pub fn write_failed(&mut self, ep: EpId) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0) {
            endpoint.tx.replies.close();
            self.resume(ep);
        }
    }

    /// The driver could not keep what the peer sent.
    pub fn out_of_memory(&mut self, ep: EpId) {
        self.end(ep, Reason::NoMemory);
    }

    /// Reading has found the end of the stream; writing had failed before by `broken`, if it had. A system tells of
    /// an error once, and a write has had it: then this is no end in good order. After an error that means that
    /// the peer takes nothing any more, it may still have ended its stream.
    pub fn end_of_input(&mut self, ep: EpId, broken: Option<Errno>) {
        match broken {
            Some(errno) if !matches!(errno, Errno::EPIPE | Errno::ECONNRESET) => {
                self.transport_failed(ep, errno);
            }
            _ => self.end_of_stream(ep),
        }
    }

    /// The peer has ended its stream, and all of it has been received.
    pub fn end_of_stream(&mut self, ep: EpId) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        let reason = match endpoint.rx.incoming {
            Incoming::Answer(_) => Reason::NoAnswer,
            Incoming::Header if endpoint.rx.have == 0 => Reason::Peer,
            _ => Reason::Cut,
        };
        endpoint.rx.unexpected.cut();
        if endpoint.is_open() && !endpoint.rx.unexpected.is_empty() {
            endpoint.rx.ended = Some(reason);
            return;
        }
        self.end(ep, reason);
    }

    /// The peer has ended its stream, or the transport broke, and what it sent before waits for a receive to
    /// be posted ([`has_unreceived`](Self::has_unreceived)).
    /// There is a limit for that, from the last message on that found a receive, so that a reader of
    /// the event queue is told in the end.
    pub fn half_closed(&mut self, ep: EpId, now: Instant) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0)
            && endpoint.is_open()
            && !endpoint.rx.half_closed
        {
            endpoint.rx.half_closed = true;
            if endpoint.deadline.is_none() {
                endpoint.deadline = Deadline::start(now, endpoint.limits.shutdown);
            }
            let deadline = endpoint.deadline;
            self.earliest.include(deadline);
        }
    }

    /// The driver has read all that it could, and says how the transport stands: what does that mean for the
    /// connection? Gives whether it is [half closed](Self::half_closed), to be said with the time.
    pub fn drained(&mut self, ep: EpId, input: &Input) -> bool {
        let Input { blocked, ended, broken } = *input;
        let unreceived = self.has_unreceived(ep);
        let half_closed = match broken {
            // The end of the peer's stream, or its error, would have been read by now.
            Some(errno)
                if !unreceived && (!blocked || self.plan_read(ep).is_some())
                    || self.state(ep) == Ok(State::Accepting) =>
            {
                self.transport_failed(ep, errno);
                false
            }
            Some(_) => true,
            None => ended && (blocked || unreceived),
        };
        self.input_drained(ep);
        half_closed
    }

    /// The driver has read all that had arrived, or all that posted receives can take. A shutdown
    /// that waited for this and has nothing left to send is finished.
    pub fn input_drained(&mut self, ep: EpId) {
        if let Some(endpoint) = self.endpoints.get(ep.0)
            && endpoint.state == State::Draining
            && endpoint.tx.is_empty()
            && endpoint.tx.unacked.len() + endpoint.tx.reads.len() == 0
            && endpoint.tx.loans.count == 0
            && !matches!(endpoint.rx.incoming, Incoming::Payload(Payload { sink: Sink::Read(_), .. }))
        {
            self.end(ep, Reason::Local);
        }
    }

    /// Time has passed: whatever is over its limit ends.
    pub fn expire(&mut self, now: Instant) {
        if !self.earliest.take_passed(now) {
            return;
        }
        for index in 0..self.endpoints.places() {
            let Some(ep) = self.endpoints.key_at(index).map(EpId) else { continue };
            let Some(endpoint) = self.endpoints.get(ep.0) else { continue };
            match endpoint.deadline {
                Some(deadline) if deadline.has_passed(now) => {
                    // Room in a queue is told of when there is much. One who reads little still reads.
                    if endpoint.rx.half_closed && endpoint.state == State::Connected {
                        self.retry(ep);
                    }
                    let Some(endpoint) = self.endpoints.get_mut(ep.0) else { continue };
                    if endpoint.rx.unexpected.is_met() {
                        endpoint.goes_on_receiving();
                    }
                    if endpoint.deadline.is_none() {
                        continue;
                    }
                    let reason = match endpoint.state {
                        State::Connecting | State::Requested => Reason::ConnectTimeout,
                        State::Accepting => Reason::HandshakeTimeout,
                        State::Draining => Reason::ShutdownTimeout,
                        _ => Reason::Unreceived,
                    };
                    let reason = reason(deadline.limit);
                    match endpoint.state {
                        // Memory on loan comes back for sure only when the transport is closed.
                        State::Connected if endpoint.has_unreceived() && endpoint.tx.loans.count == 0 => {
                            self.end_before_received(ep, reason);
                        }
                        _ => self.end(ep, reason),
                    }
                }
                deadline => self.earliest.include(deadline),
            }
        }
    }

    /// The greeting has left: a request now waits for its answer, an answer makes the connection.
    pub(crate) fn greeted(&mut self, ep: EpId) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        endpoint.tx.greeting = Vec::new();
        if endpoint.state == State::Accepting {
            endpoint.state = State::Connected;
            endpoint.deadline = None;
            self.totals.connections += 1;
            self.emit(ep, Event::Connected { data: Vec::new() });
        }
    }

    /// The answer to the request has arrived.
    pub(crate) fn answered(&mut self, ep: EpId, header: Header, data: Vec<u8>) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        if header.kind == cm::Kind::Nack {
            return self.fail(ep, Reason::Rejected, data);
        }
        endpoint.order = header.order;
        endpoint.rx.incoming = Incoming::Header;
        endpoint.state = State::Connected;
        endpoint.deadline = None;
        self.totals.connections += 1;
        self.emit(ep, Event::Connected { data });
    }

    /// The connection is over, or will never be: pending operations complete, then one event tells.
    pub(crate) fn end(&mut self, ep: EpId, reason: Reason) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        match endpoint.state {
            State::Connecting | State::Requested | State::Accepting => self.fail(ep, reason, Vec::new()),
            State::Connected | State::Draining => {
                endpoint.state = State::Disconnected;
                endpoint.deadline = None;
                endpoint.reason = Some(reason);
                // Also a peer that has nothing to say any more may still be receiving what is on loan.
                let orderly =
                    reason == Reason::Local || reason == Reason::Peer && endpoint.tx.loans.count > 0;
                self.totals.endings.add(&reason);
                if !orderly {
                    self.cancel_loans(ep, reason.errno());
                }
                self.cancel_all(ep, reason.errno());
                self.tell_end(ep);
                self.transport(ep, if orderly { TransportCommand::Finish } else { TransportCommand::Close });
            }
            State::Disconnected if endpoint.rx.leftover => {
                endpoint.rx.leftover = false;
                self.cancel_all(ep, reason.errno());
                self.transport(ep, TransportCommand::Close);
            }
            State::Idle | State::Enabled | State::Disconnected | State::Failed => {}
        }
    }

    /// The connection is over for having waited for receives long enough: pending operations complete, and
    /// the one event tells. What has arrived stays where it is, and its transport with it, until receives
    /// posted from now on have met it or the endpoint is closed. Nothing is sent any more.
    fn end_before_received(&mut self, ep: EpId, reason: Reason) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        endpoint.state = State::Disconnected;
        endpoint.deadline = None;
        endpoint.reason = Some(reason);
        endpoint.rx.leftover = true;
        endpoint.tx.replies.close();
        self.totals.endings.add(&reason);
        let is_writing =
            matches!(endpoint.rx.incoming, Incoming::Payload(Payload { sink: Sink::Write { .. }, .. }));
        self.cancel_posted(ep, reason.errno());
        self.tell_end(ep);
        self.transport(ep, TransportCommand::EndOutput);
        if is_writing {
            self.end_leftover(ep);
        } else {
            // What waits for room to answer waits for nothing now.
            self.resume(ep);
        }
    }

    /// A write is among what is left: it would reach memory that is the application's again since it was told
    /// of the end. What is behind it may speak of it, so that is not received either.
    pub(crate) fn end_leftover(&mut self, ep: EpId) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        let reason = endpoint.reason.unwrap_or(Reason::Peer);
        endpoint.rx.incoming = Incoming::Header;
        if endpoint.rx.unexpected.is_empty() {
            return self.end(ep, reason);
        }
        endpoint.rx.ended.get_or_insert(reason);
    }

    fn fail(&mut self, ep: EpId, reason: Reason, data: Vec<u8>) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0) else { return };
        endpoint.state = State::Failed;
        endpoint.deadline = None;
        endpoint.reason = Some(reason);
        self.totals.endings.add(&reason);
        endpoint.tx.greeting = Vec::new();
        self.cancel_all(ep, reason.errno());
        self.emit(ep, Event::Error { reason, data });
        self.transport(ep, TransportCommand::Close);
    }
}

/// `fi_reject`: the message that tells the peer, for the driver to write before it closes the
/// request's transport.
///
/// # Errors
/// -FI_EINVAL with too much private data; -FI_ENOMEM.
pub fn reject(data: &[u8]) -> Result<Vec<u8>> {
    cm::message("fi_reject", cm::Kind::Nack, data)
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The active endpoint (`fi_endpoint(3)`): its states and what it is made of.

use alloc::vec::Vec;

use crate::completion_queue::CqId;
use crate::counter::Counters;
use crate::event_queue::Fid;
use crate::flags::{Caps, OpFlags};
use crate::info::Info;
use crate::loan::Loans;
use crate::memory::Pieces;
use crate::multi_receive::MIN_MULTI_RECV;
use crate::operation::{List, OpId};
use crate::passive_endpoint::Taken;
use crate::reason::Reason;
use crate::rma::Replies;
use crate::shared_receive::SrxId;
use crate::slab::Key;
use crate::statistics::Traffic;
use crate::time::{Deadline, Instant, TimeLimits};
use crate::unexpected::Unexpected;
use crate::wire::cm::Assembly;
use crate::wire::header::{self, Header};
use crate::wire::{ByteOrder, cm};
use crate::{Errno, Error, Result, SocketAddr};

/// Names an endpoint in its domain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EpId(pub(crate) Key);

impl EpId {
    /// Index into a dense table; used again once the endpoint is closed.
    pub fn index(self) -> usize {
        self.0.index as usize
    }

    /// A number that no other endpoint of the domain has, nor had: for a driver to mark what it asks
    /// the system for. The lower half is the index.
    pub fn bits(self) -> u64 {
        self.0.bits()
    }

    /// The endpoint of these [`bits`](Self::bits). It may be closed.
    pub fn from_bits(bits: u64) -> Self {
        Self(Key::from_bits(bits))
    }
}

/// Where an endpoint is in its life.
///
/// ```text
/// Idle ── enable ──▶ Enabled ─┬─ connect ─▶ Connecting ─▶ Requested ─┬─▶ Connected ─▶ Draining ─▶ Disconnected
///                             └─ accept ──▶ Accepting ───────────────┘
///                       Connecting, Requested and Accepting can end in Failed
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Created; queues can be bound.
    Idle,
    /// Ready to connect or accept; receives can be posted.
    Enabled,
    /// The transport connection is being made.
    Connecting,
    /// The request is on its way, or waits for its answer.
    Requested,
    /// The answer to the peer's request is on its way.
    Accepting,
    /// Messages flow.
    Connected,
    /// `fi_shutdown` was called, what was queued is being sent.
    Draining,
    /// It was connected and is no longer.
    Disconnected,
    /// The connection could not be made.
    Failed,
}

impl State {
    /// The state's name, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "not enabled",
            Self::Enabled => "not connected",
            Self::Connecting | Self::Requested => "connecting",
            Self::Accepting => "accepting",
            Self::Connected => "connected",
            Self::Draining => "shutting down",
            Self::Disconnected => "shut down",
            Self::Failed => "dead after a failed connection",
        }
    }
}

/// Which side of a connection an endpoint is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It is to connect.
    Active,
    /// It was made for a connection request, and is to accept it.
    Request(Taken),
}

/// What the information record says that matters to the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointAttr {
    /// Capabilities: which directions it uses.
    pub caps: Caps,
    /// Sends that may be pending.
    pub tx_size: usize,
    /// Receives that may be pending.
    pub rx_size: usize,
    /// Longest injected message, bytes.
    pub inject_size: usize,
    /// Most segments of a send.
    pub tx_iov_limit: usize,
    /// Most segments of a receive.
    pub rx_iov_limit: usize,
    /// Most remote segments of a read or write.
    pub rma_iov_limit: usize,
    /// Bytes of messages that are kept until there is a receive for them.
    pub total_buffered_recv: u64,
    /// Longest message, bytes.
    pub max_msg_size: u64,
    /// Where to connect when `fi_connect` does not say.
    pub dest_addr: Option<SocketAddr>,
}

impl From<&Info> for EndpointAttr {
    fn from(info: &Info) -> Self {
        Self {
            caps: info.caps,
            tx_size: info.tx_attr.size,
            rx_size: info.rx_attr.size,
            inject_size: info.tx_attr.inject_size,
            tx_iov_limit: info.tx_attr.iov_limit,
            rx_iov_limit: info.rx_attr.iov_limit,
            rma_iov_limit: info.tx_attr.rma_iov_limit,
            total_buffered_recv: info.rx_attr.total_buffered_recv as u64,
            max_msg_size: info.ep_attr.max_msg_size as u64,
            dest_addr: info.dest_addr.as_ref().and_then(|addr| addr.socket_addr()),
        }
    }
}

/// A bound completion queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) cq: CqId,
    /// Successes are reported only when asked for (`FI_SELECTIVE_COMPLETION`).
    pub(crate) selective: bool,
}

/// The outgoing half of a connection.
#[derive(Default, Debug)]
pub(crate) struct Transmit {
    /// A connection message, ahead of all records.
    pub(crate) greeting: Vec<u8>,
    /// Operations not wholly written yet.
    pub(crate) queue: List,
    /// Operations written, whose acknowledgement has not come.
    pub(crate) unacked: List,
    /// Reads whose request was written, and whose response has not come.
    pub(crate) reads: List,
    /// Memory that the transport reads on.
    pub(crate) loans: Loans,
    /// What the peer's records are answered with.
    pub(crate) replies: Replies,
    /// The first record is a reply that was written in part.
    pub(crate) reply_started: bool,
    /// Bytes already written of the greeting or the first record.
    pub(crate) written: u64,
    /// Number of the first record, modulo 256.
    pub(crate) sequence: u8,
}

/// What the incoming half waits for.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The connection message that answers the request.
    Answer(Assembly),
    /// The rest of a record's header.
    Header,
    /// The rest of a record's payload.
    Payload(Payload),
    /// The rest of a message that is kept until there is a receive for it.
    Unexpected,
    /// What the record whose header has arrived needs, and cannot have now: a message a receive, a
    /// read request room for its response, a write with completion data room in the completion queue.
    Waiting(Header),
}

/// What a payload is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sink {
    /// A message, for a receive.
    Receive(OpId),
    /// The response to a read.
    Read(OpId),
    /// The response to a read that was cancelled when the connection ended.
    Nobody,
    /// A write, into the pieces that [`Receive::pieces`] names.
    Write {
        /// Completion data for the application.
        data: Option<u64>,
    },
}

/// A payload that is arriving.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    pub(crate) sink: Sink,
    /// Bytes there is room for.
    pub(crate) room: u64,
    /// Bytes arrived.
    pub(crate) done: u64,
    /// Bytes of the payload.
    pub(crate) total: u64,
    pub(crate) ack: bool,
}

/// The incoming half of a connection.
#[derive(Debug)]
pub(crate) struct Receive {
    /// Receives that no message has met; of the shared context if there is one.
    pub(crate) posted: List,
    pub(crate) srx: Option<SrxId>,
    /// It is among those who wait for a receive of that.
    pub(crate) waits: bool,
    pub(crate) min_multi_recv: u64,
    pub(crate) incoming: Incoming,
    /// Where the write that is arriving goes.
    pub(crate) pieces: Pieces,
    /// Messages that wait for a receive.
    pub(crate) unexpected: Unexpected,
    /// The peer's stream has ended, and all of it has been taken. So ends the connection once those
    /// messages are received.
    pub(crate) ended: Option<Reason>,
    /// The driver is to be told to go on reading.
    pub(crate) resumed: bool,
    /// The part of a header that has arrived, when it came in pieces.
    pub(crate) header: [u8; header::MAX_LEN],
    pub(crate) have: usize,
    /// The peer has ended its stream; what it sent before is not all received yet.
    pub(crate) half_closed: bool,
    /// The connection is over, and messages that came before can still be received.
    pub(crate) leftover: bool,
}

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) fid: Fid,
    pub(crate) attr: EndpointAttr,
    pub(crate) origin: Origin,
    pub(crate) state: State,
    pub(crate) eq: Option<Fid>,
    pub(crate) tx_cq: Option<Binding>,
    pub(crate) rx_cq: Option<Binding>,
    pub(crate) counters: Counters,
    pub(crate) limits: TimeLimits,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) order: ByteOrder,
    pub(crate) tx: Transmit,
    pub(crate) rx: Receive,
    pub(crate) traffic: Traffic,
    /// Why the connection ended, or came to nothing.
    pub(crate) reason: Option<Reason>,
    /// The peer leaves unanswered what it was sent since then.
    pub(crate) silent_since: Option<Instant>,
    /// Looks at whether the peer answers that are due since something was sent.
    pub(crate) looks: u8,
}

impl Endpoint {
    pub(crate) fn new(fid: Fid, attr: EndpointAttr, origin: Origin, limits: TimeLimits) -> Self {
        Self {
            fid,
            attr,
            origin,
            state: State::Idle,
            eq: None,
            tx_cq: None,
            rx_cq: None,
            counters: Counters::default(),
            limits,
            deadline: None,
            local: None,
            peer: None,
            order: match origin {
                Origin::Active => ByteOrder::default(),
                Origin::Request(taken) => taken.order,
            },
            tx: Transmit::default(),
            rx: Receive {
                posted: List::default(),
                srx: None,
                waits: false,
                min_multi_recv: MIN_MULTI_RECV,
                incoming: Incoming::Header,
                pieces: Pieces::default(),
                unexpected: Unexpected::default(),
                ended: None,
                resumed: false,
                header: [0; header::MAX_LEN],
                have: 0,
                half_closed: false,
                leftover: false,
            },
            traffic: Traffic::default(),
            reason: None,
            silent_since: None,
            looks: 0,
        }
    }

    /// An answer for `call`, which this endpoint's state does not allow.
    pub(crate) fn wrong_state(&self, call: &'static str, errno: Errno, remedy: &'static str) -> Error {
        Error::WrongState { call, object: "endpoint", found: self.state.name(), remedy, errno }
    }

    pub(crate) fn check_idle(&self, call: &'static str) -> Result<()> {
        match self.state {
            State::Idle => Ok(()),
            _ => Err(self.wrong_state(call, Errno::EOPBADSTATE, "do this before fi_enable")),
        }
    }

    /// `fi_ep_bind` to an event queue.
    pub(crate) fn bind_eq(&mut self, eq: Fid, same_fabric: bool, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        self.check_idle(CALL)?;
        let problem = if !flags.is_empty() {
            "flags are reserved for an event queue; pass 0"
        } else if !same_fabric {
            "the event queue belongs to another fabric; open one in this fabric"
        } else if self.eq.is_some() {
            "an event queue is bound already; an endpoint takes one"
        } else {
            self.eq = Some(eq);
            return Ok(());
        };
        Err(Error::Invalid { call: CALL, problem })
    }

    /// `fi_ep_bind` to a completion queue, for the directions in `flags`.
    pub(crate) fn bind_cq(&mut self, cq: CqId, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_ep_bind";
        let directions = OpFlags::TRANSMIT | OpFlags::RECV;
        self.check_idle(CALL)?;
        crate::event_queue::check_flags(CALL, flags, directions | OpFlags::SELECTIVE_COMPLETION)?;
        let binding = Binding { cq, selective: flags.contains(OpFlags::SELECTIVE_COMPLETION) };
        let (tx, rx) = (flags.contains(OpFlags::TRANSMIT), flags.contains(OpFlags::RECV));
        let problem = if !flags.intersects(directions) {
            "no direction given for a completion queue; pass FI_TRANSMIT, FI_RECV or both"
        } else if (tx && self.tx_cq.is_some()) || (rx && self.rx_cq.is_some()) {
            "a completion queue is bound for that direction already; an endpoint takes one for each"
        } else {
            if tx {
                self.tx_cq = Some(binding);
            }
            if rx {
                self.rx_cq = Some(binding);
            }
            return Ok(());
        };
        Err(Error::Invalid { call: CALL, problem })
    }

    /// `fi_enable`: what the endpoint uses must be bound.
    pub(crate) fn enable(&mut self, call: &'static str) -> Result<()> {
        self.check_idle(call)?;
        self.check_bound(call)?;
        self.state = State::Enabled;
        Ok(())
    }

    fn check_bound(&self, call: &'static str) -> Result<()> {
        let uses = |direction: Caps| {
            let both = Caps::SEND | Caps::RECV;
            self.attr.caps.contains(direction) || !self.attr.caps.intersects(both)
        };
        if self.eq.is_none() {
            return Err(Error::NoEventQueue { call });
        }
        // Who only counts needs no queue.
        let tx_counted = self.counters.count(OpFlags::SEND | OpFlags::READ | OpFlags::WRITE);
        if uses(Caps::SEND) && self.tx_cq.is_none() && !tx_counted {
            return Err(Error::NoCompletionQueue { call, direction: "FI_TRANSMIT" });
        }
        if uses(Caps::RECV) && self.rx_cq.is_none() && !self.counters.count(OpFlags::RECV) {
            return Err(Error::NoCompletionQueue { call, direction: "FI_RECV" });
        }
        Ok(())
    }

    /// What connect and accept need: an endpoint that is enabled or can be (they do it implicitly), of
    /// the right origin, and private data that fits.
    pub(crate) fn check_start(&self, call: &'static str, active: bool, data: &[u8]) -> Result<()> {
        match self.state {
            State::Idle | State::Enabled => {}
            State::Failed => {
                return Err(self.wrong_state(call, Errno::EOPBADSTATE, "close it and use a new endpoint"));
            }
            _ => {
                return Err(self.wrong_state(
                    call,
                    Errno::EINVAL,
                    "an endpoint connects once in its life: use a new one",
                ));
            }
        }
        if active != matches!(self.origin, Origin::Active) {
            let problem = if active {
                "the endpoint was made for a connection request; accept that instead"
            } else {
                "the endpoint was not made for a connection request; use connect, or the event's info"
            };
            return Err(Error::Invalid { call, problem });
        }
        cm::check_data(call, data)?;
        match self.state {
            State::Idle => self.check_bound(call),
            _ => Ok(()),
        }
    }

    /// What waited has come further. After the end of the peer's stream the application is receiving what is
    /// left: the limit for that starts again.
    pub(crate) fn goes_on_receiving(&mut self) {
        if self.rx.half_closed && self.state == State::Connected {
            self.rx.half_closed = false;
            self.deadline = None;
        }
    }

    /// Whether what the peer sends, or has sent, is received.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Connected | State::Draining) || self.rx.leftover
    }

    /// Sends, reads and writes that are pending.
    pub(crate) fn transmits_pending(&self) -> usize {
        let tx = &self.tx;
        tx.queue.len() + tx.unacked.len() + tx.reads.len() + tx.loans.waiting.len()
    }
}

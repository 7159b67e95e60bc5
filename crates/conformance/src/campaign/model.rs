// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The model: what the schedule knows of each side, connection and operation, and so what has to come of it.

use std::collections::VecDeque;

use crate::world::{
    CompletionQueue, Counter, Domain, Endpoint, EventQueue, Fabric, MemoryRegion, PassiveEndpoint,
    SharedReceive, SocketAddr,
};

pub(super) struct Side {
    pub(super) fabric: Fabric,
    pub(super) domain: Domain,
    pub(super) eq: EventQueue,
    /// Most unread connection requests.
    pub(super) eq_size: usize,
    pub(super) tx_cq: CompletionQueue,
    pub(super) rx_cq: CompletionQueue,
    pub(super) common: MemoryRegion,
    /// Of all operations of its endpoints.
    pub(super) counter: Counter,
    /// Receives that some of its endpoints share, and the queue for those that no message has met.
    pub(super) srx: Option<(SharedReceive, CompletionQueue)>,
    /// What a shared buffer for several messages has to have left.
    pub(super) min: usize,
    /// Shared receives that no message is known to have met, in order.
    pub(super) receives: VecDeque<usize>,
    /// The newest one that a message has met.
    pub(super) newest: usize,
    /// What was counted of those, and of messages in buffers for several.
    pub(super) counted: u64,
}

pub(super) struct Listener {
    pub(super) side: usize,
    pub(super) pep: PassiveEndpoint,
    pub(super) address: SocketAddr,
    pub(super) open: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Idle,
    Starting,
    Connected,
    Over,
    Failed,
    Closed,
}

pub(super) struct Ep {
    pub(super) handle: Endpoint,
    pub(super) side: usize,
    pub(super) phase: Phase,
    /// It is over, and what came before may be received.
    pub(super) leftover: bool,
    /// What its peer has no receives for when it shuts down need not all leave in time.
    pub(super) hurried: bool,
    /// A connection of the model, and which end of it; none with a stranger at the other end.
    pub(super) link: Option<(usize, usize)>,
    /// Its receives are its side's.
    pub(super) shared: bool,
    /// What a buffer for several messages has to have left.
    pub(super) min: usize,
    /// Receives that no message has met, in order.
    pub(super) receives: VecDeque<usize>,
    /// Sends and writes by kind (acknowledged or not), and reads, that have not completed, in order.
    pub(super) sends: [VecDeque<usize>; 3],
    pub(super) selective: bool,
    /// Private data of its connect.
    pub(super) asked: Vec<u8>,
    /// What a rejecter gave.
    pub(super) rejected: Option<Vec<u8>>,
    pub(super) shut: bool,
}

pub(super) struct Message {
    pub(super) salt: u64,
    pub(super) len: usize,
    pub(super) data: Option<u64>,
    /// It was never sent.
    pub(super) cancelled: bool,
}

/// Memory that one end of a connection opens to the other.
pub(super) struct Window {
    /// None once it is closed.
    pub(super) mr: Option<MemoryRegion>,
    pub(super) key: u64,
    /// What is in it once all that was posted has arrived.
    pub(super) bytes: Vec<u8>,
    /// Writes posted.
    pub(super) writes: usize,
    /// Completion data of those that had some, and their length.
    pub(super) data: Vec<(u64, usize)>,
    /// How many of those were told.
    pub(super) told: usize,
}

#[derive(Default)]
pub(super) struct Link {
    pub(super) sent: [Vec<Message>; 2],
    /// By the end that receives.
    pub(super) received: [usize; 2],
    pub(super) answer: Vec<u8>,
    /// By the end whose memory it is.
    pub(super) windows: [Option<Window>; 2],
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Send {
        number: usize,
        ack: bool,
    },
    /// `writes`: of the window, with this one.
    Write {
        writes: usize,
        ack: bool,
    },
    /// `wanted` if nothing was written after `writes` writes; else up to where memory is only read.
    Read {
        writes: usize,
        wanted: Vec<u8>,
        sure: Vec<bool>,
    },
    Receive {
        room: usize,
    },
    /// A receive for several messages.
    Buffer {
        room: usize,
        min: usize,
        /// Where messages were, and how long.
        parts: Vec<(usize, usize)>,
    },
}

pub(super) struct Op {
    pub(super) side: usize,
    /// None for a receive that endpoints share.
    pub(super) ep: Option<usize>,
    pub(super) kind: Kind,
    pub(super) cancelled: bool,
    /// A success is not reported.
    pub(super) quiet: bool,
    pub(super) done: bool,
}

impl Link {
    /// The number of the next message for this end.
    pub(super) fn next(&self, end: usize) -> usize {
        let sent = &self.sent[1 - end];
        let from = self.received[end];
        (from..sent.len()).find(|&number| !sent[number].cancelled).unwrap_or(sent.len())
    }

    /// Messages that this end has not received.
    pub(super) fn missing(&self, end: usize) -> usize {
        self.sent[1 - end][self.received[end]..].iter().filter(|message| !message.cancelled).count()
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The event queue (`fi_eq(3)`): bounded, in one order, with room kept for each bound endpoint.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::attr::EqAttr;
use crate::count::list;
use crate::flags::OpFlags;
use crate::passive_endpoint::RequestId;
use crate::{Error, Reason, Result, SocketAddr};

/// Identity of an object, chosen by the driver; events carry that of the object they are about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Fid(pub u64);

/// What an event tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// `FI_CONNREQ`: a peer asks the passive endpoint for a connection.
    ConnectionRequest {
        /// Names the request at its passive endpoint.
        request: RequestId,
        /// The address that the peer reached us at.
        local: SocketAddr,
        /// The address of the peer.
        peer: SocketAddr,
        /// What the peer gave to `fi_connect`.
        data: Vec<u8>,
    },
    /// `FI_CONNECTED`: the endpoint can send.
    Connected {
        /// What the peer gave to `fi_accept`; empty on the accepting side.
        data: Vec<u8>,
    },
    /// `FI_SHUTDOWN`: the endpoint's last event, after its last completion.
    Shutdown {
        /// Why.
        reason: Reason,
    },
    /// An event that the application wrote with `fi_eq_write`.
    Application {
        /// The number of the event.
        event: u32,
        /// Its entry, as written.
        entry: Vec<u8>,
    },
    /// The connection could not be made (`fi_eq_readerr`); the endpoint is dead.
    Error {
        /// Why.
        reason: Reason,
        /// What the peer gave to `fi_reject`.
        data: Vec<u8>,
    },
}

impl Event {
    /// Whether it is read by `fi_eq_readerr`.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error { .. })
    }

    /// Whether it comes out of the room that bound endpoints have for themselves.
    fn is_reserved(&self) -> bool {
        matches!(self, Self::Connected { .. } | Self::Shutdown { .. } | Self::Error { .. })
    }
}

/// An event and the object it is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The object.
    pub fid: Fid,
    /// What happened.
    pub event: Event,
}

/// Most bytes of an entry that the application writes.
pub const MAX_WRITTEN: usize = 1024;

/// Each endpoint can have two unread events: how its connection came about, and how it ended.
const PER_ENDPOINT: usize = 2;

/// An event queue.
///
/// `size` bounds the events that others cause: connection requests and those the application
/// writes. Connection requests that find no room wait at their listener (decision D5). Each bound
/// endpoint adds room for its own two, so that these are never lost.
#[derive(Debug)]
pub struct EventQueue {
    entries: VecDeque<Entry>,
    size: usize,
    /// Entries that count against `size`.
    ordinary: usize,
    writable: bool,
    endpoints: usize,
    passive: usize,
}

impl EventQueue {
    /// Opens a queue with memory for all that it will hold.
    ///
    /// # Errors
    /// As [`EqAttr::check`]; -FI_ENOMEM.
    pub fn open(attr: &EqAttr) -> Result<Self> {
        let size = attr.check()?;
        let mut entries = VecDeque::new();
        entries.try_reserve(size).map_err(|_| Error::NoMemory("an event queue of that size"))?;
        Ok(Self {
            entries,
            size,
            ordinary: 0,
            writable: attr.flags.contains(OpFlags::WRITE),
            endpoints: 0,
            passive: 0,
        })
    }

    /// Keeps room for an endpoint that is being bound.
    ///
    /// # Errors
    /// -FI_ENOMEM.
    pub fn bind_endpoint(&mut self) -> Result<()> {
        let want = self.size + PER_ENDPOINT * (self.endpoints + 1);
        self.entries
            .try_reserve(want.saturating_sub(self.entries.len()))
            .map_err(|_| Error::NoMemory("an endpoint's events"))?;
        self.endpoints += 1;
        Ok(())
    }

    /// Gives back the room kept by [`bind_endpoint`](Self::bind_endpoint) for an endpoint that could not be bound.
    pub fn cancel_bind(&mut self) {
        self.endpoints = self.endpoints.saturating_sub(1);
    }

    /// Notes that a passive endpoint is bound.
    pub fn bind_passive(&mut self) {
        self.passive += 1;
    }

    /// Forgets an endpoint that closes, and its unread events with it.
    pub fn unbind_endpoint(&mut self, fid: Fid) {
        self.endpoints = self.endpoints.saturating_sub(1);
        self.purge(fid);
    }

    /// Forgets a passive endpoint that closes, and its unread connection requests with it.
    pub fn unbind_passive(&mut self, fid: Fid) {
        self.passive = self.passive.saturating_sub(1);
        self.purge(fid);
    }

    /// Events that wait to be read.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Endpoints that are bound to it.
    pub fn endpoints(&self) -> usize {
        self.endpoints
    }

    /// Passive endpoints that are bound to it.
    pub fn passive_endpoints(&self) -> usize {
        self.passive
    }

    /// Takes back what `wanted` picks among the unread events.
    pub fn withdraw(&mut self, wanted: impl Fn(&Entry) -> bool) {
        self.entries.retain(|entry| !wanted(entry));
        self.ordinary = self.entries.iter().filter(|entry| !entry.event.is_reserved()).count();
    }

    fn purge(&mut self, fid: Fid) {
        self.withdraw(|entry| entry.fid == fid);
    }

    /// Whether the queue can be closed.
    ///
    /// # Errors
    /// -FI_EBUSY while endpoints are bound to it.
    pub fn check_close(&self) -> Result<()> {
        if self.endpoints + self.passive > 0 {
            return Err(Error::Busy {
                call: "fi_close",
                object: "event queue",
                users: list(&[(self.endpoints, "endpoint"), (self.passive, "passive endpoint")]),
            });
        }
        Ok(())
    }

    /// How many connection requests it can take.
    pub fn room(&self) -> usize {
        self.size.saturating_sub(self.ordinary)
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts in an event of a bound object. Connection requests are given only while there is
    /// [`room`](Self::room), and each endpoint's own events have theirs.
    pub fn push(&mut self, entry: Entry) {
        if !entry.event.is_reserved() {
            self.ordinary += 1;
        }
        self.entries.push_back(entry);
    }

    /// `fi_eq_write`: puts in an event of the application's own and gives the length of its entry.
    ///
    /// # Errors
    /// -FI_EINVAL without `FI_WRITE` in the queue's attributes, or when the entry is longer than
    /// [`MAX_WRITTEN`]; -FI_EBADFLAGS; -FI_EOVERRUN when the queue is full; -FI_ENOMEM.
    pub fn write(&mut self, fid: Fid, event: u32, entry: &[u8], flags: OpFlags) -> Result<usize> {
        if !self.writable {
            return Err(Error::Invalid {
                call: "fi_eq_write",
                problem: "the event queue was opened without FI_WRITE; open it with that flag",
            });
        }
        check_flags("fi_eq_write", flags, OpFlags::empty())?;
        if entry.len() > MAX_WRITTEN {
            return Err(Error::Invalid {
                call: "fi_eq_write",
                problem: "the entry is longer than 1024 bytes; write a reference to it instead",
            });
        }
        if self.room() == 0 {
            return Err(Error::Overrun { limit: self.size });
        }
        let mut copy = Vec::new();
        copy.try_reserve_exact(entry.len()).map_err(|_| Error::NoMemory("a written event"))?;
        copy.extend_from_slice(entry);
        self.push(Entry { fid, event: Event::Application { event, entry: copy } });
        Ok(entry.len())
    }

    /// The next event, left in the queue (`FI_PEEK`).
    ///
    /// # Errors
    /// -FI_EAGAIN when there is none, -FI_EAVAIL when it is an error entry.
    pub fn peek(&self) -> Result<&Entry> {
        match self.entries.front() {
            None => Err(Error::Empty),
            Some(entry) if entry.event.is_error() => Err(Error::ErrorAvailable),
            Some(entry) => Ok(entry),
        }
    }

    /// `fi_eq_read`: takes the next event.
    ///
    /// # Errors
    /// As for [`peek`](Self::peek).
    pub fn read(&mut self) -> Result<Entry> {
        self.peek()?;
        self.take()
    }

    /// `fi_eq_readerr`: takes the next event, which is an error entry.
    ///
    /// # Errors
    /// -FI_EAGAIN when the next entry is none.
    pub fn read_error(&mut self) -> Result<Entry> {
        match self.entries.front() {
            Some(entry) if entry.event.is_error() => self.take(),
            _ => Err(Error::Empty),
        }
    }

    /// The error entry that is next, left in the queue.
    ///
    /// # Errors
    /// As for [`read_error`](Self::read_error).
    pub fn peek_error(&self) -> Result<&Entry> {
        match self.entries.front() {
            Some(entry) if entry.event.is_error() => Ok(entry),
            _ => Err(Error::Empty),
        }
    }

    fn take(&mut self) -> Result<Entry> {
        let entry = self.entries.pop_front().ok_or(Error::Empty)?;
        if !entry.event.is_reserved() {
            self.ordinary -= 1;
        }
        Ok(entry)
    }
}

/// Refuses flags outside of `allowed`.
pub(crate) fn check_flags(call: &'static str, flags: OpFlags, allowed: OpFlags) -> Result<()> {
    let unknown = flags.difference(allowed);
    if unknown.is_empty() {
        return Ok(());
    }
    Err(Error::BadFlags { call, found: unknown.bits(), allowed: allowed.bits() })
}

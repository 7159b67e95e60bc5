// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The event queue (`fi_eq(3)`), with waiting.

use std::time::Duration;

use kofi_core::attr::{EqAttr, WaitObj};
use kofi_core::event_queue::{self as core_eq, Entry};
use kofi_core::flags::OpFlags;
use kofi_core::{Error, Fid, Reason, RequestId, Result};

use crate::connection_request::ConnectionRequest;
use crate::fabric::{Child, FabricShared};
use crate::live::{self, Inspect, Report, patiently};
use crate::returned::Returned;
use crate::sync::{Arc, BorrowedFd, Mutex, Weak};
use crate::wait::{Waiter, lock};
use crate::wait_set::WaitSet;

/// What has happened. The number in each is the [`Fid`] of the object that it happened to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// `FI_CONNREQ`: a peer asks a passive endpoint for a connection. Dropped, it is rejected.
    ConnectionRequest(ConnectionRequest),
    /// `FI_CONNECTED`: the endpoint can send.
    Connected {
        /// The endpoint.
        endpoint: Fid,
        /// What the peer gave when it accepted; empty on the accepting side.
        data: Vec<u8>,
    },
    /// `FI_SHUTDOWN`: the endpoint's last event, after its last completion.
    Shutdown {
        /// The endpoint.
        endpoint: Fid,
        /// Why.
        reason: Reason,
    },
    /// An error entry: the endpoint could not be connected, and is dead.
    Failed {
        /// The endpoint.
        endpoint: Fid,
        /// Why.
        reason: Reason,
        /// What the peer gave when it rejected.
        data: Vec<u8>,
    },
    /// An event that the application wrote.
    Application {
        /// The object that was named.
        fid: Fid,
        /// The event's number.
        event: u32,
        /// Its entry.
        entry: Vec<u8>,
    },
}

/// What a passive endpoint is to its event queue.
pub(crate) trait Requests: Send + Sync {
    /// Hands the transport of a request over.
    fn take_request(&self, request: RequestId, peek: &Entry) -> Result<ConnectionRequest>;
}

/// What a look at the next event shows: all of it but the connection request itself.
pub use kofi_core::event_queue::Event as PeekedEvent;

/// An event queue: `fi_eq_open(3)`. Clones are the same queue.
#[derive(Clone)]
pub struct EventQueue(Arc<EqShared>);

pub(crate) struct EqShared {
    fid: Fid,
    pub(crate) fabric: Arc<FabricShared>,
    /// A leaf: nothing else is locked, and nothing is called, under this lock.
    queue: Mutex<core_eq::EventQueue>,
    pub(crate) waiter: Waiter,
    listeners: Mutex<Vec<(Fid, Weak<dyn Requests>)>>,
    _child: Child,
}

impl EqShared {
    pub(crate) fn fid(&self) -> Fid {
        self.fid
    }

    /// Puts in what `fill` has for the room that there is, and wakes who waits.
    pub(crate) fn fill(&self, fill: impl FnOnce(&mut core_eq::EventQueue)) {
        fill(&mut lock(&self.queue));
        self.waiter.notify();
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut core_eq::EventQueue) -> T) -> T {
        f(&mut lock(&self.queue))
    }

    pub(crate) fn add_listener(&self, fid: Fid, listener: Weak<dyn Requests>) {
        lock(&self.listeners).push((fid, listener));
    }

    pub(crate) fn remove_listener(&self, fid: Fid) {
        lock(&self.listeners).retain(|(known, _)| *known != fid);
    }

    fn event(&self, entry: Entry) -> Result<Event> {
        use core_eq::Event as E;
        let endpoint = entry.fid;
        Ok(match entry.event {
            E::ConnectionRequest { request, .. } => {
                let listener = lock(&self.listeners)
                    .iter()
                    .find(|(fid, _)| *fid == endpoint)
                    .and_then(|(_, listener)| listener.upgrade());
                // A listener that has just been closed has taken its requests with it.
                let listener = listener.ok_or(Error::Empty)?;
                Event::ConnectionRequest(listener.take_request(request, &entry)?)
            }
            E::Connected { data } => Event::Connected { endpoint, data },
            E::Shutdown { reason } => Event::Shutdown { endpoint, reason },
            E::Error { reason, data } => Event::Failed { endpoint, reason, data },
            E::Application { event, entry } => Event::Application { fid: endpoint, event, entry },
        })
    }

    /// Reads with `take` until it gives something other than a request that was withdrawn meanwhile.
    fn read_with(&self, take: impl Fn(&mut core_eq::EventQueue) -> Result<Entry>) -> Result<Event> {
        loop {
            let (entry, full) = self.with(|queue| {
                let full = queue.room() == 0;
                take(queue).map(|entry| (entry, full))
            })?;
            if full {
                // Another thread may have found no room for a request, and sleep, or be about to.
                self.waiter.drive_again();
            }
            match self.event(entry) {
                Err(Error::Empty | Error::Stale { .. }) => {}
                other => return other,
            }
        }
    }
}

impl EventQueue {
    pub(crate) fn open(
        fabric: &Arc<FabricShared>,
        attr: &EqAttr,
        wait_set: Option<&WaitSet>,
    ) -> Result<Self> {
        const CALL: &str = "fi_eq_open";
        match (attr.wait_obj, wait_set) {
            (WaitObj::Set, None) => {
                return Err(Error::Invalid {
                    call: CALL,
                    problem: "FI_WAIT_SET without a wait set; open the queue in one, or with another wait object",
                });
            }
            (WaitObj::Set, Some(_)) | (_, None) => {}
            (_, Some(_)) => {
                return Err(Error::Invalid {
                    call: CALL,
                    problem: "a wait set without FI_WAIT_SET; ask for that wait object, or leave the set out",
                });
            }
        }
        let shared = Arc::new(EqShared {
            fid: fabric.new_fid(),
            fabric: fabric.clone(),
            queue: Mutex::new(core_eq::EventQueue::open(attr)?),
            waiter: Waiter::new(CALL, attr.wait_obj, wait_set.map(|set| set.gathered().clone()))?,
            listeners: Mutex::new(Vec::new()),
            _child: fabric.child(|children| &mut children.event_queues),
        });
        if let Some(set) = wait_set {
            set.add(shared.clone());
        }
        fabric.add_object(Arc::downgrade(&shared) as Weak<dyn Inspect>);
        Ok(Self(shared))
    }

    pub(crate) fn shared(&self) -> &Arc<EqShared> {
        &self.0
    }

    /// This object's identity.
    pub fn fid(&self) -> Fid {
        self.0.fid
    }

    /// `fi_eq_read`: the next event, without waiting.
    ///
    /// # Errors
    /// [`Error::Empty`] (-FI_EAGAIN) when there is none, [`Error::ErrorAvailable`] (-FI_EAVAIL) when
    /// it is an error entry, for [`read_error`](Self::read_error).
    pub fn read(&self) -> Result<Event> {
        self.or_drive(core_eq::EventQueue::read)
    }

    /// `fi_eq_readerr`: the next event, which is an error entry.
    ///
    /// # Errors
    /// [`Error::Empty`] (-FI_EAGAIN) when the next entry is none.
    pub fn read_error(&self) -> Result<Event> {
        self.or_drive(core_eq::EventQueue::read_error)
    }

    /// The next event, be it an ordinary or an error entry. Nothing is driven for it.
    pub(crate) fn next_unread(&self) -> Result<Event> {
        match self.0.read_with(core_eq::EventQueue::read) {
            Err(Error::ErrorAvailable) => self.0.read_with(core_eq::EventQueue::read_error),
            other => other,
        }
    }

    /// [`read`](Self::read) of an event that `check` finds good; any other stays, whoever else reads. `check` is
    /// called with the queue locked, and must not call into it.
    ///
    /// # Errors
    /// As for [`read`](Self::read), and what `check` says.
    pub fn read_checked(&self, check: impl Fn(&PeekedEvent) -> Result<()>) -> Result<Event> {
        self.or_drive(|queue| take_checked(queue, &check))
    }

    /// [`sread`](Self::sread), likewise.
    ///
    /// # Errors
    /// As for [`sread`](Self::sread), and what `check` says.
    pub fn sread_checked(
        &self,
        timeout: impl Into<Option<Duration>>,
        check: impl Fn(&PeekedEvent) -> Result<()>,
    ) -> Result<Event> {
        let read = || self.0.read_with(|queue| take_checked(queue, &check));
        self.0.waiter.sread("fi_eq_sread", timeout.into(), read)
    }

    /// `fi_eq_sread`: waits for the next event. `None` waits for ever, zero not at all.
    ///
    /// # Errors
    /// As for [`read`](Self::read); [`Error::Empty`] also after the whole time without an event, or
    /// after a signal; [`Error::Unsupported`] (-FI_ENOSYS) on a queue with `WaitObj::None`.
    pub fn sread(&self, timeout: impl Into<Option<Duration>>) -> Result<Event> {
        let timeout = timeout.into();
        self.0.waiter.sread("fi_eq_sread", timeout, || self.0.read_with(core_eq::EventQueue::read))
    }

    /// Waits for the next event, be it an ordinary or an error entry: [`sread`](Self::sread) and
    /// [`read_error`](Self::read_error) in one.
    ///
    /// # Errors
    /// As for [`sread`](Self::sread), without [`Error::ErrorAvailable`].
    pub fn wait(&self, timeout: impl Into<Option<Duration>>) -> Result<Event> {
        let read = || match self.0.read_with(core_eq::EventQueue::read) {
            // Empty after all, if another reader has taken it.
            Err(Error::ErrorAvailable) => self.0.read_with(core_eq::EventQueue::read_error),
            other => other,
        };
        self.0.waiter.sread("fi_eq_sread", timeout.into(), read)
    }

    /// `fi_eq_read` with `FI_PEEK`: a copy of the next event, which stays.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn peek(&self) -> Result<(Fid, PeekedEvent)> {
        let peek = || self.0.with(|queue| queue.peek().map(|entry| (entry.fid, entry.event.clone())));
        match peek() {
            Err(Error::Empty) => {
                self.0.waiter.drive();
                peek()
            }
            other => other,
        }
    }

    /// `fi_eq_sread` with `FI_PEEK`: waits for the next event, and leaves it.
    ///
    /// # Errors
    /// As for [`sread`](Self::sread).
    pub fn speek(&self, timeout: impl Into<Option<Duration>>) -> Result<(Fid, PeekedEvent)> {
        let peek = || self.0.with(|queue| queue.peek().map(|entry| (entry.fid, entry.event.clone())));
        self.0.waiter.sread("fi_eq_sread", timeout.into(), peek)
    }

    /// `fi_eq_readerr` with `FI_PEEK`: a copy of the error entry that is next, which stays.
    ///
    /// # Errors
    /// As for [`read_error`](Self::read_error).
    pub fn peek_error(&self) -> Result<(Fid, PeekedEvent)> {
        self.0.with(|queue| queue.peek_error().map(|entry| (entry.fid, entry.event.clone())))
    }

    /// Lets all that feeds the queue go on, and reads nothing.
    pub fn progress(&self) {
        self.0.waiter.drive();
    }

    /// `fi_eq_write`: puts in an event of the application's own, about any object.
    ///
    /// # Errors
    /// -FI_EINVAL when the queue was opened without `FI_WRITE` or the entry is too long,
    /// -FI_EBADFLAGS for flags, -FI_EOVERRUN when the queue is full.
    pub fn write(&self, fid: Fid, event: u32, entry: &[u8], flags: OpFlags) -> Result<usize> {
        let written = self.0.with(|queue| queue.write(fid, event, entry, flags))?;
        self.0.waiter.notify();
        Ok(written)
    }

    /// `fi_trywait`: whether it is right to sleep on [`fd`](Self::fd) now.
    ///
    /// # Errors
    /// [`Error::Empty`] (-FI_EAGAIN): read first.
    pub fn try_wait(&self) -> Result<()> {
        self.0.waiter.try_wait("fi_trywait", || self.0.with(|queue| queue.is_empty()))
    }

    /// The descriptor to poll for reading after [`try_wait`](Self::try_wait), of a queue that was
    /// opened with `WaitObj::Fd` or `PollFd`, or with `Unspec`: then it is made when this is asked for the first time.
    ///
    /// # Errors
    /// -FI_ENOSYS for other queues; what the system says when it has no descriptor left.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.0.waiter.fd("fi_control(FI_GETWAIT)")
    }

    /// Wakes readers up: each blocking read that waits now ends with [`Error::Empty`], or else the
    /// next one does. What `fi_cq_signal` is to completion queues.
    ///
    /// # Errors
    /// -FI_ENOSYS on a queue with `WaitObj::None`.
    pub fn signal(&self) -> Result<()> {
        self.0.waiter.signal("fi_eq_signal")
    }

    /// `fi_close`.
    ///
    /// # Errors
    /// -FI_EBUSY while endpoints are bound; the queue is as before then, and is given back.
    pub fn close(self) -> Result<(), Returned<Self>> {
        let result = self.0.with(|queue| queue.check_close());
        Returned::check(self, result).map(drop)
    }

    fn or_drive(&self, take: impl Fn(&mut core_eq::EventQueue) -> Result<Entry>) -> Result<Event> {
        match self.0.read_with(&take) {
            Err(Error::Empty) => {
                self.0.waiter.drive();
                self.0.read_with(&take)
            }
            other => other,
        }
    }
}

fn take_checked(
    queue: &mut core_eq::EventQueue,
    check: impl Fn(&PeekedEvent) -> Result<()>,
) -> Result<Entry> {
    check(&queue.peek()?.event)?;
    queue.read()
}

impl std::fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventQueue").field("fid", &self.0.fid).finish_non_exhaustive()
    }
}

impl Inspect for EqShared {
    fn inspect(&self, fabric: u64, report: &mut Report) {
        let queue = patiently(&self.queue, live::patience());
        let mut object = report.object("event_queue");
        object.number("fid", self.fid.0).number("fabric", fabric);
        match queue {
            Some(queue) => object.event_queue(&queue),
            None => object.flag("busy", true),
        };
    }
}

impl crate::wait_set::Member for EqShared {
    fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    fn is_empty(&self) -> bool {
        self.with(|queue| queue.is_empty())
    }
}

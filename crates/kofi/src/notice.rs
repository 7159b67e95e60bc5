// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What happens to connections, told to `tracing` under the target `kofi::connection`.
//!
//! A subscriber may call kofi itself, so it must find nothing locked: what is told while a lock is
//! held waits until it is free ([`Hold`]). Operations that carry data tell nothing.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;

use kofi_core::{Fid, Reason, Traffic};
use tracing::level_filters::LevelFilter;
use tracing::{Level, event};

const TARGET: &str = "kofi::connection";

/// Which connection, of which object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) fid: Fid,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// `fi_listen`; with the backlog.
    Listening(usize),
    /// A request for the event queue; with the length of its data, as in the next ones.
    Requested(usize),
    /// A peer was dropped before its request was read.
    Dropped(Reason),
    /// `fi_connect`.
    Connecting(usize),
    /// `fi_accept`.
    Accepting(usize),
    /// `fi_reject`, or a request that was dropped undecided.
    Rejected(usize),
    /// `FI_CONNECTED`.
    Connected(usize),
    /// The error entry.
    Failed(Reason),
    /// `FI_SHUTDOWN`.
    Shutdown(Reason, Box<Traffic>),
    /// `fi_close` of an endpoint.
    Closed(Box<Traffic>),
    /// `fi_close` of a passive endpoint.
    ListenerClosed,
}

#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) subject: Subject,
    pub(crate) what: What,
}

/// Whether anybody may want to know. Asks no subscriber, so this is for under locks, too.
pub(crate) fn wanted() -> bool {
    LevelFilter::current() >= LevelFilter::INFO
}

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
    static WAITING: RefCell<Vec<Notice>> = const { RefCell::new(Vec::new()) };
}

/// While there is one, what this thread tells waits. To be had before a lock, and dropped after it.
pub(crate) struct Hold(PhantomData<*const ()>);

impl Hold {
    pub(crate) fn new() -> Self {
        HELD.set(HELD.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let held = HELD.get().saturating_sub(1);
        HELD.set(held);
        if held == 0 {
            // A thread that is ending has nothing left to tell.
            let waiting = WAITING.try_with(|waiting| std::mem::take(&mut *waiting.borrow_mut()));
            waiting.unwrap_or_default().iter().for_each(Notice::emit);
        }
    }
}

/// Tells now, or once nothing is locked.
pub(crate) fn tell(subject: Subject, what: What) {
    Notice { subject, what }.tell();
}

impl Notice {
    pub(crate) fn tell(self) {
        if HELD.get() == 0 {
            self.emit();
        } else {
            let _ = WAITING.try_with(|waiting| waiting.borrow_mut().push(self));
        }
    }

    fn emit(&self) {
        let Self { subject: Subject { fid: Fid(fid), local, peer }, what } = self;
        let (local, peer) = (Address(*local), Address(*peer));
        macro_rules! tell {
            ($level:ident, $text:literal $(, $field:ident = $value:expr)*) => {
                event!(target: TARGET, Level::$level, fid, %local, %peer $(, $field = $value)*, $text)
            };
        }
        match what {
            What::Listening(backlog) => {
                event!(target: TARGET, Level::INFO, fid, %local, backlog, "listening");
            }
            What::Requested(data_len) => tell!(DEBUG, "connection request", data_len = data_len),
            What::Dropped(reason) => tell!(DEBUG, "connection dropped", reason = display(reason)),
            What::Connecting(data_len) => tell!(DEBUG, "connecting", data_len = data_len),
            What::Accepting(data_len) => tell!(DEBUG, "accepting", data_len = data_len),
            What::Rejected(data_len) => tell!(DEBUG, "rejected", data_len = data_len),
            What::Connected(data_len) => tell!(INFO, "connected", data_len = data_len),
            What::Failed(reason) => tell!(INFO, "connection failed", reason = display(reason)),
            What::Shutdown(reason, traffic) => tell!(
                INFO,
                "shutdown",
                reason = display(reason),
                sent = traffic.sent.operations,
                sent_bytes = traffic.sent.bytes,
                received = traffic.received.operations,
                received_bytes = traffic.received.bytes
            ),
            What::Closed(traffic) => tell!(
                DEBUG,
                "closed",
                sent = traffic.sent.operations,
                sent_bytes = traffic.sent.bytes,
                received = traffic.received.operations,
                received_bytes = traffic.received.bytes
            ),
            What::ListenerClosed => event!(target: TARGET, Level::DEBUG, fid, %local, "listener closed"),
        }
    }
}

/// An address, or `-`.
struct Address(Option<SocketAddr>);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(addr) => addr.fmt(f),
            None => f.write_str("-"),
        }
    }
}

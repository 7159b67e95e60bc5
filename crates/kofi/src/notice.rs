// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What happens to connections, told to `tracing` under the target `kofi::connection`.
//!
//! A subscriber may call kofi itself, so it must find nothing locked: what is told while a lock is
//! held waits until it is free ([`Hold`]). Operations that carry data tell nothing.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::net::SocketAddr;

use kofi_core::notice::End;
pub(crate) use kofi_core::notice::What;
use kofi_core::{Fid, Traffic};
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

#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) subject: Subject,
    pub(crate) what: What,
    /// What went over the connection: told at its end.
    pub(crate) traffic: Traffic,
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
    Notice { subject, what, traffic: Traffic::default() }.tell();
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
        let Self { subject: Subject { fid: Fid(fid), local, peer }, what, traffic } = self;
        let (local, peer, text) = (End(*local), End(*peer), what.text());
        let Traffic { sent, received, .. } = traffic;
        macro_rules! tell {
            ($level:ident $(, $field:ident = $value:expr)*) => {
                event!(target: TARGET, Level::$level, fid, %local, %peer $(, $field = $value)*, "{text}")
            };
        }
        macro_rules! tell_end {
            ($level:ident $(, $field:ident = $value:expr)*) => {
                tell!(
                    $level $(, $field = $value)*,
                    sent = sent.operations,
                    sent_bytes = sent.bytes,
                    received = received.operations,
                    received_bytes = received.bytes
                )
            };
        }
        match what {
            What::Listening(backlog) => {
                event!(target: TARGET, Level::INFO, fid, %local, backlog, "{text}");
            }
            What::Requested(data_len)
            | What::Connecting(data_len)
            | What::Accepting(data_len)
            | What::Rejected(data_len) => tell!(DEBUG, data_len = data_len),
            What::Connected(data_len) => tell!(INFO, data_len = data_len),
            What::Dropped(reason) => tell!(DEBUG, reason = display(reason)),
            What::Failed(reason) => tell!(INFO, reason = display(reason)),
            What::Shutdown(reason) => tell_end!(INFO, reason = display(reason)),
            What::Closed => tell_end!(DEBUG),
            What::ListenerClosed => event!(target: TARGET, Level::DEBUG, fid, %local, "{text}"),
        }
    }
}

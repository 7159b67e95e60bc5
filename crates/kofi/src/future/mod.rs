// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Futures over connections, messages and queues, for any executor.
//!
//! [`AsyncListener`] and [`AsyncEndpoint`] are for most programs; [`EventQueue::next_event`](crate::EventQueue::next_event) and
//! [`CompletionQueue::next_completion`](crate::CompletionQueue::next_completion) are the blocking reads as futures, for programs that post
//! operations themselves.
//!
//! # Runtimes
//!
//! The features `tokio` and `async-io` let these runtimes watch descriptors; [`block_on`] needs
//! neither. Which one it is shows when a future is first polled; [`AsyncDomain::open_on`] takes
//! another one. Work is done where futures are polled, and where the runtime wakes wakers: peers are
//! served while tasks do something else, also those that wait for nothing.
//!
//! # What happens when a future is dropped
//!
//! A future does nothing before it is polled. Dropped at any later point, it loses neither a message
//! nor a connection:
//!
//! | future | dropped |
//! |---|---|
//! | [`AsyncListener::accept`], [`next_request`](AsyncListener::next_request) | the request stays in the queue |
//! | [`AsyncEndpoint::connect`] | the endpoint is closed; the peer is told |
//! | [`AsyncEndpoint::recv`] | the receive is cancelled (`fi_cancel`). A message that had reached it goes to the next `recv` of the endpoint |
//! | [`AsyncEndpoint::send`], [`write`](AsyncEndpoint::write), [`read`](AsyncEndpoint::read) | it goes on to its end, and its memory is freed then |
//! | [`AsyncEndpoint::shutdown`] | the shutdown goes on |
//! | [`AsyncEndpoint::connected`], [`ended`](AsyncEndpoint::ended) | nothing |
//! | `next_event`, `next_completion` | nothing was read |
//!
//! The message of a dropped `recv` comes in the memory of the `recv` that gets it, if it fits there
//! and that memory is not in use for the message behind it already; else in the memory that it was
//! received into. It was cut if it did not fit into that, and then fails with `FI_ETRUNC`.

use std::task::{Context, Poll, Waker};

use kofi_core::{CompletionError, Errno, Error};

use crate::buffer::Buffers;
use crate::provider::Refused;

mod endpoint;
mod hub;
mod listener;
mod queue;
mod runtime;
mod turn;

pub use endpoint::{AsyncEndpoint, Connect, ConnectError, Connected, Ended, Recv, Shutdown, Transfer};
pub use hub::AsyncDomain;
pub use listener::{Accept, AsyncListener, AsyncRequest, NextRequest};
pub use queue::{NextCompletion, NextEvent};
#[cfg(feature = "async-io")]
pub use runtime::AsyncIo;
#[cfg(feature = "tokio")]
pub use runtime::Tokio;
pub use runtime::{BlockOn, Readiness, Runtime, block_on};

/// A message that was received.
#[derive(Debug)]
pub struct Received {
    /// The memory; its first [`len`](Self::len) bytes are the message.
    pub buffers: Buffers,
    /// Bytes received.
    pub len: usize,
    /// The sender's completion data.
    pub data: Option<u64>,
}

impl Received {
    /// The message: memory with one segment, cut to what was received.
    pub fn into_vec(self) -> Vec<u8> {
        let mut bytes = self.buffers.into_single().into_vec();
        bytes.truncate(self.len);
        bytes
    }
}

/// An operation that failed, with its memory.
#[derive(Debug)]
pub struct Failed {
    /// Why.
    pub error: Error,
    /// The operation's memory.
    pub buffers: Buffers,
    /// What the completion said; `None` when the operation was not even posted.
    pub completion: Option<CompletionError>,
}

impl Failed {
    /// Whether the connection is over, as opposed to something being wrong with the operation.
    pub fn is_end(&self) -> bool {
        matches!(self.error.errno(), Errno::ECANCELED | Errno::ESHUTDOWN)
    }

    pub(crate) fn from_completion(call: &'static str, error: CompletionError, buffers: Buffers) -> Self {
        let detail = match error.errno {
            Errno::ETRUNC => {
                format!("the message was {} bytes longer than the memory given for it", error.overflow)
            }
            Errno::ECANCELED => {
                let cause = Errno::from_raw(error.provider_errno);
                format!("the connection was over before the operation was complete ({cause})")
            }
            _ => String::new(),
        };
        let cause = Error::System { call, errno: error.errno, detail };
        Self { error: cause, buffers, completion: Some(error) }
    }
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Self {
        Self { error: refused.error, buffers: refused.buffers, completion: None }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// An error of the runtime, in our terms.
fn runtime_error(error: &std::io::Error) -> Error {
    Error::System {
        call: "the runtime",
        errno: error.raw_os_error().map_or(Errno::EIO, Errno::from_raw),
        detail: error.to_string(),
    }
}

/// Keeps `waker` as the one to wake. Gives the one that was kept before, to be dropped outside of
/// all locks: that may drop a task, and futures of this crate with it.
#[must_use]
fn keep_waker(place: &mut Option<Waker>, waker: &Waker) -> Option<Waker> {
    match place {
        Some(known) if known.will_wake(waker) => None,
        _ => place.replace(waker.clone()),
    }
}

/// `Pending`, with the task to be polled again soon.
fn again<T>(cx: &Context<'_>) -> Poll<T> {
    cx.waker().wake_by_ref();
    Poll::Pending
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What a call can answer besides success: each error says what was wanted, what was found and what to do.

use core::fmt;
use core::time::Duration;

use alloc::string::String;

use crate::Errno;
use crate::completion_queue::CompletionError;
use crate::wire::WireError;

/// A refused call. Nothing has changed by it: the object stays as it was.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object is in a state that does not allow the call.
    #[error("{call}: the {object} is {found}; {remedy}")]
    WrongState {
        /// The call that was refused.
        call: &'static str,
        /// The class of the object.
        object: &'static str,
        /// The state it was found in.
        found: &'static str,
        /// What to do instead.
        remedy: &'static str,
        /// The number that stands for it (`fi_cm(3)`, `fi_endpoint(3)`).
        errno: Errno,
    },
    /// An argument is not what the call takes.
    #[error("{call}: {problem}")]
    Invalid {
        /// The call that was refused.
        call: &'static str,
        /// What was wanted and what was found.
        problem: &'static str,
    },
    /// Private data of a connection request, an accept or a reject is over the limit
    /// (`FI_OPT_CM_DATA_SIZE`).
    #[error(
        "{call}: {len} bytes of private data, at most {limit} fit; send the rest as a message once connected"
    )]
    PrivateData {
        /// The call that was refused.
        call: &'static str,
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// A message is longer than the endpoint can carry.
    #[error("{call}: {len} bytes, but {what} is {limit}; send it in parts")]
    TooLong {
        /// The call that was refused.
        call: &'static str,
        /// Name of the attribute that limits it.
        what: &'static str,
        /// Bytes given.
        len: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// More scatter/gather segments than the endpoint takes.
    #[error(
        "{call}: {count} segments, but {what} is {limit}; split the operation or copy into fewer buffers"
    )]
    TooManySegments {
        /// The call that was refused.
        call: &'static str,
        /// Name of the attribute that limits it.
        what: &'static str,
        /// Segments given.
        count: usize,
        /// Segments allowed.
        limit: usize,
    },
    /// No event queue is bound, and the call needs one.
    #[error("{call}: no event queue is bound; bind one first")]
    NoEventQueue {
        /// The call that was refused.
        call: &'static str,
    },
    /// No completion queue is bound for a direction that the endpoint uses.
    #[error("{call}: no completion queue is bound for {direction}; bind one with that flag")]
    NoCompletionQueue {
        /// The call that was refused.
        call: &'static str,
        /// `FI_TRANSMIT` or `FI_RECV`.
        direction: &'static str,
    },
    /// The object is still in use.
    #[error("{call}: the {object} is still in use by {users}; close those first")]
    Busy {
        /// The call that was refused.
        call: &'static str,
        /// The class of the object.
        object: &'static str,
        /// What uses it.
        users: String,
    },
    /// A table or queue is full; it has room again after completions or events have been read.
    #[error("{call}: all {limit} places of {what} are taken; read completions, then try again")]
    Full {
        /// The call that was refused.
        call: &'static str,
        /// What is full.
        what: &'static str,
        /// Its size.
        limit: usize,
    },
    /// The queue has nothing to read.
    #[error("there is nothing to read, and nothing came in the time given")]
    Empty,
    /// The next entry is an error entry: read it with the call for errors.
    #[error(
        "the next entry is an error: read it with read_error (fi_eq_readerr, fi_cq_readerr), or use wait"
    )]
    ErrorAvailable,
    /// The application's own event does not fit: the queue is full of unread events.
    #[error("fi_eq_write: the event queue holds {limit} unread events, its size; read some first")]
    Overrun {
        /// Events the queue takes.
        limit: usize,
    },
    /// Flags that the call does not know.
    #[error("{call}: flags {found:#x} are not known here; allowed are {allowed:#x}")]
    BadFlags {
        /// The call that was refused.
        call: &'static str,
        /// The unknown bits.
        found: u64,
        /// All bits the call takes.
        allowed: u64,
    },
    /// Memory could not be had.
    #[error("no memory for {0}")]
    NoMemory(&'static str),
    /// Memory is registered under that key already.
    #[error("{call}: key {key:#x} names another region; choose another key, or let FI_MR_PROV_KEY choose")]
    KeyInUse {
        /// The call that was refused.
        call: &'static str,
        /// The key.
        key: u64,
    },
    /// The handle names no living object of this class.
    #[error("{call}: that {object} does not exist (any more)")]
    Stale {
        /// The call that was refused.
        call: &'static str,
        /// The class of the object.
        object: &'static str,
    },
    /// `fi_cancel` found no pending operation with this context.
    #[error(
        "fi_cancel: no operation that has not begun has context {context:#x}; it is under way, has completed or \
         was never posted"
    )]
    NoSuchOperation {
        /// The context searched for.
        context: u64,
    },
    /// The provider has no such operation.
    #[error("{0} is not offered here")]
    Unsupported(&'static str),
    /// The buffer is smaller than what is to be stored.
    #[error("{call}: the buffer has {have} bytes, {need} are needed")]
    TooSmall {
        /// The call that was refused.
        call: &'static str,
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The limit in time for a decision has passed.
    #[error("{call}: the request is older than the {limit:?} it may wait for a decision; its peer is gone")]
    Expired {
        /// The call that was refused.
        call: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The operating system refused.
    #[error("{call}: {errno}{}{detail}", if detail.is_empty() { "" } else { ": " })]
    System {
        /// The call that was refused.
        call: &'static str,
        /// The system's error number.
        errno: Errno,
        /// What to do, where we know.
        detail: String,
    },
    /// A hint could not be met: the text says which, at which provider, and why.
    #[error("fi_getinfo: {0}")]
    NoMatch(String),
    /// An operation failed.
    #[error("{0}")]
    Operation(#[from] CompletionError),
    /// The peer's bytes break the protocol.
    #[error("the peer broke the protocol: {0}")]
    Wire(#[from] WireError),
}

/// As much of a text as there is memory for: an error must not end a kernel that has none left.
pub fn text(what: fmt::Arguments<'_>) -> String {
    struct Fallible(String);

    impl fmt::Write for Fallible {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0.try_reserve(part.len()).map_err(|_| fmt::Error)?;
            self.0.push_str(part);
            Ok(())
        }
    }

    let mut text = Fallible(String::new());
    // Where it ends is where the memory did.
    let _ = fmt::Write::write_fmt(&mut text, what);
    text.0
}

impl Error {
    /// The error number that the C faces return, negated (`fi_errno(3)`).
    pub fn errno(&self) -> Errno {
        match self {
            Self::WrongState { errno, .. } | Self::System { errno, .. } => *errno,
            Self::Invalid { .. }
            | Self::PrivateData { .. }
            | Self::TooManySegments { .. }
            | Self::Stale { .. } => Errno::EINVAL,
            Self::TooLong { .. } => Errno::EMSGSIZE,
            Self::NoEventQueue { .. } => Errno::ENOEQ,
            Self::NoCompletionQueue { .. } => Errno::ENOCQ,
            Self::Busy { .. } => Errno::EBUSY,
            Self::Full { .. } | Self::Empty => Errno::EAGAIN,
            Self::ErrorAvailable => Errno::EAVAIL,
            Self::Overrun { .. } => Errno::EOVERRUN,
            Self::BadFlags { .. } => Errno::EBADFLAGS,
            Self::KeyInUse { .. } => Errno::ENOKEY,
            Self::NoMemory(_) => Errno::ENOMEM,
            Self::NoSuchOperation { .. } => Errno::ENOENT,
            Self::Unsupported(_) => Errno::ENOSYS,
            Self::TooSmall { .. } => Errno::ETOOSMALL,
            Self::Expired { .. } => Errno::ETIMEDOUT,
            Self::NoMatch(_) => Errno::ENODATA,
            Self::Operation(error) => error.errno,
            Self::Wire(_) => Errno::EPROTONOSUPPORT,
        }
    }

    /// Whether the same call can succeed later without anything else being changed.
    pub fn is_again(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Empty)
    }
}

/// What a call answers.
pub type Result<T, E = Error> = core::result::Result<T, E>;

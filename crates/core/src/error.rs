// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What a call can answer besides success: each error says what was wanted, what was found and what to do.

use core::fmt;
use core::time::Duration;

use alloc::string::String;

use crate::Errno;
use crate::completion_queue::CompletionError;
use crate::count::Of;
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
        "{call}: {} of private data, at most {limit} fit; send the rest as a message once connected", Of(*len as u64, "byte")
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
    #[error("{call}: {}, but {what} is {limit}; send it in parts", Of(*len, "byte"))]
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
        "{call}: {}, but {what} is {limit}; split the operation or copy into fewer buffers", Of(*count as u64, "segment")
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
    #[error("{call}: {what} is full, with {}; read completions, then try again", Of(*limit as u64, "place"))]
    Full {
        /// The call that was refused.
        call: &'static str,
        /// What is full.
        what: &'static str,
        /// Its size.
        limit: usize,
    },
    /// The queue has nothing to read.
    #[error("there is nothing to read, and nothing came in the time given; try again, or wait for longer")]
    Empty,
    /// The next entry is an error entry: read it with the call for errors.
    #[error(
        "the next entry is an error; read it with read_error (fi_eq_readerr, fi_cq_readerr), or use wait"
    )]
    ErrorAvailable,
    /// The application's own event does not fit: the queue is full of unread events.
    #[error("fi_eq_write: the event queue holds {}, its size; read some first", Of(*limit as u64, "unread event"))]
    Overrun {
        /// Events the queue takes.
        limit: usize,
    },
    /// Flags that the call does not know.
    #[error("{call}: flags {found:#x} are not known here; leave them out: allowed are {allowed:#x}")]
    BadFlags {
        /// The call that was refused.
        call: &'static str,
        /// The unknown bits.
        found: u64,
        /// All bits the call takes.
        allowed: u64,
    },
    /// Memory could not be had.
    #[error("no memory for {0}; close what is not needed, ask for less, or raise the limit of the process")]
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
    #[error("{call}: that {object} does not exist (any more); it was closed or used up, take a new one")]
    Stale {
        /// The call that was refused.
        call: &'static str,
        /// The class of the object.
        object: &'static str,
    },
    /// `fi_cancel` found no pending operation with this context.
    #[error(
        "fi_cancel: no operation that has not begun has context {context:#x}; it is under way or has completed: look for \
         its completion, or it was never posted"
    )]
    NoSuchOperation {
        /// The context searched for.
        context: u64,
    },
    /// The provider has no such operation.
    #[error("{0} is not offered here; it needs an object that was opened for it (wait object, capabilities)")]
    Unsupported(&'static str),
    /// The buffer is smaller than what is to be stored.
    #[error("{call}: the buffer has {}, wanted {need}; give a larger one", Of(*have as u64, "byte"))]
    TooSmall {
        /// The call that was refused.
        call: &'static str,
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The limit in time for a decision has passed.
    #[error(
        "{call}: the request is older than the {limit:?} it may wait for a decision; its peer was let go, decide sooner or raise TimeLimits::decision"
    )]
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

/// A copy of a text.
///
/// # Errors
/// -FI_ENOMEM, naming `what`.
pub fn copy(text: &str, what: &'static str) -> Result<String> {
    let mut copy = String::new();
    copy.try_reserve_exact(text.len()).map_err(|_| Error::NoMemory(what))?;
    copy.push_str(text);
    Ok(copy)
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

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;
    use crate::Reason;
    use crate::flags::OpFlags;

    const CALL: &str = "fi_call";
    const TIME: Duration = Duration::from_secs(2);

    fn errors() -> Vec<Error> {
        let errno = Errno::EMFILE;
        let failed = |errno, provider_errno| {
            let (flags, context, len, overflow, data, offset, buffer) = (OpFlags::RECV, 1, 2, 3, 4, 0, None);
            CompletionError { context, flags, len, overflow, data, offset, buffer, errno, provider_errno }
        };
        let all = [
            Error::WrongState {
                call: CALL,
                object: "endpoint",
                found: "connected",
                remedy: "close it",
                errno,
            },
            Error::Invalid { call: CALL, problem: "this, but that is wanted; give that" },
            Error::PrivateData { call: CALL, len: 300, limit: 256 },
            Error::TooLong { call: CALL, what: "max_msg_size", len: 2, limit: 1 },
            Error::TooManySegments { call: CALL, what: "iov_limit", count: 5, limit: 4 },
            Error::NoEventQueue { call: CALL },
            Error::NoCompletionQueue { call: CALL, direction: "FI_RECV" },
            Error::Busy { call: CALL, object: "domain", users: crate::count::list(&[(1, "endpoint")]) },
            Error::Full { call: CALL, what: "the transmit queue", limit: 7 },
            Error::Empty,
            Error::ErrorAvailable,
            Error::Overrun { limit: 7 },
            Error::BadFlags { call: CALL, found: 1, allowed: 2 },
            Error::NoMemory("an endpoint"),
            Error::KeyInUse { call: CALL, key: 7 },
            Error::Stale { call: CALL, object: "endpoint" },
            Error::NoSuchOperation { context: 7 },
            Error::Unsupported(CALL),
            Error::TooSmall { call: CALL, have: 1, need: 2 },
            Error::Expired { call: CALL, limit: TIME },
            Error::System { call: CALL, errno, detail: errno.advice().into() },
            Error::NoMatch("tcp lacks a hint; leave it out".into()),
            Error::Operation(failed(Errno::ETRUNC, 0)),
            Error::Operation(failed(Errno::ECANCELED, Errno::ECANCELED.raw())),
            Error::Operation(failed(Errno::ECANCELED, Errno::ETIMEDOUT.raw())),
        ];
        // Who adds a variant adds it above, too.
        let wire = wire_errors().into_iter().map(Error::Wire);
        all.into_iter()
            .chain(wire)
            .inspect(|error| match error {
                Error::WrongState { .. } | Error::Invalid { .. } | Error::PrivateData { .. } => {}
                Error::TooLong { .. } | Error::TooManySegments { .. } | Error::NoEventQueue { .. } => {}
                Error::NoCompletionQueue { .. } | Error::Busy { .. } | Error::Full { .. } | Error::Empty => {}
                Error::ErrorAvailable | Error::Overrun { .. } | Error::BadFlags { .. } => {}
                Error::NoMemory(_) | Error::KeyInUse { .. } | Error::Stale { .. } => {}
                Error::NoSuchOperation { .. } | Error::Unsupported(_) | Error::TooSmall { .. } => {}
                Error::Expired { .. } | Error::System { .. } | Error::NoMatch(_) => {}
                Error::Operation(_) | Error::Wire(_) => {}
            })
            .collect()
    }

    fn wire_errors() -> Vec<WireError> {
        use WireError as W;
        let all = [
            W::Version { found: 4 },
            W::MessageType { found: 9, wanted: "request" },
            W::DataLength { found: 300 },
            W::Operation { found: 99 },
            W::Misdirected { what: "a tagged message" },
            W::HeaderSize { found: 1, wanted: 16 },
            W::RecordSize { found: 1, header: 16 },
            W::SegmentCount { found: 5 },
            W::StrayAck,
            W::StrayReadResponse,
            W::ResponseLength { found: 1, wanted: 2 },
            W::NoSuchMemory,
            W::MemoryAccess,
            W::MemoryRange { addr: 1, len: 2 },
        ];
        all.into_iter()
            .inspect(|error| match error {
                W::Version { .. } | W::MessageType { .. } | W::DataLength { .. } | W::Operation { .. } => {}
                W::Misdirected { .. } | W::HeaderSize { .. } | W::RecordSize { .. } => {}
                W::SegmentCount { .. } | W::StrayAck | W::StrayReadResponse => {}
                W::ResponseLength { .. } | W::NoSuchMemory | W::MemoryAccess | W::MemoryRange { .. } => {}
            })
            .collect()
    }

    fn reasons() -> Vec<Reason> {
        use Reason as R;
        let transport = [
            Errno::ECONNREFUSED,
            Errno::ECONNRESET,
            Errno::ETIMEDOUT,
            Errno::EHOSTUNREACH,
            Errno::ENETUNREACH,
            Errno::EMFILE,
            Errno::EADDRNOTAVAIL,
            Errno::EACCES,
            Errno::ENOBUFS,
        ];
        let all = [
            R::Cut,
            R::Rejected,
            R::NoAnswer,
            R::ConnectTimeout(TIME),
            R::HandshakeTimeout(TIME),
            R::RequestTimeout(TIME),
            R::Crowded,
            R::ShutdownTimeout(TIME),
            R::Unreceived(TIME),
            R::PeerTimeout(TIME),
            R::RegionClosed,
            R::NoMemory,
        ];
        let all = all.into_iter().chain(transport.map(R::Transport));
        all.chain(wire_errors().into_iter().map(R::Protocol))
            .inspect(|reason| match reason {
                // In good order: there is nothing to do.
                R::Local | R::Peer => {}
                R::Cut | R::Transport(_) | R::Rejected | R::NoAnswer | R::ConnectTimeout(_) => {}
                R::HandshakeTimeout(_) | R::RequestTimeout(_) | R::Crowded | R::ShutdownTimeout(_) => {}
                R::Unreceived(_) | R::PeerTimeout(_) | R::Protocol(_) | R::RegionClosed | R::NoMemory => {}
            })
            .collect()
    }

    /// The text names what was wanted and found, and behind a semicolon, or as a question, what to do.
    fn check(text: &str) {
        let remedy = text.split_once("; ").map(|(_, remedy)| remedy);
        assert!(remedy.is_some_and(|remedy| remedy.len() > 5) || text.ends_with('?'), "what to do: {text}");
        let plain = text.is_ascii() && !text.contains('\n') && !text.ends_with(['.', ' ', ';', ':']);
        assert!(plain && !text.contains("  "), "{text}");
        let plural = text.split(' ').zip(text.split(' ').skip(1));
        let wrong = |(count, what): (&str, &str)| count == "1" && what.ends_with('s') && what != "is";
        assert!(!plural.into_iter().any(wrong), "grammar: {text}");
    }

    #[test]
    fn each_error_says_what_to_do() {
        for error in errors() {
            check(&error.to_string());
        }
    }

    #[test]
    fn each_reason_says_what_to_do() {
        for reason in reasons() {
            check(&reason.to_string());
        }
    }

    /// The numbers for C programs are those of the manual pages.
    #[test]
    fn each_error_has_a_number_with_a_name() {
        assert!(errors().iter().all(|error| error.errno().name().is_some()));
        assert!(reasons().iter().all(|reason| reason.errno().name().is_some()));
    }
}

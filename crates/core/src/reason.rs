// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Why a connection came to nothing, or to an end.

use core::time::Duration;

use crate::Errno;
use crate::wire::WireError;

/// What ended a connection or an attempt to make one. It comes with the one event that tells of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// `fi_shutdown` on this side.
    #[error("this side shut the connection down")]
    Local,
    /// The peer ended it in good order.
    #[error("the peer shut the connection down")]
    Peer,
    /// The peer ended it in the middle of a record.
    #[error("the peer went away in the middle of a message; see at the peer whether it crashed")]
    Cut,
    /// The transport to the peer broke, or could not be made.
    #[error("transport: {errno}{then}{advice}", errno = _0,
        then = if _0.advice().is_empty() { "" } else { "; " }, advice = _0.advice())]
    Transport(Errno),
    /// The peer's application rejected the request.
    #[error("the peer's application rejected the connection request; its data, if any, says why")]
    Rejected,
    /// The peer closed the transport instead of answering the request.
    #[error(
        "the peer closed the connection without an answer to the request; is it a libfabric tcp listener?"
    )]
    NoAnswer,
    /// The peer took too long to accept the transport connection or to answer the request.
    #[error("no answer from the peer within {0:?}; is it reading its event queue?")]
    ConnectTimeout(Duration),
    /// The answer to the request could not be sent in time.
    #[error(
        "the answer to the connection request could not be sent within {0:?}; is the peer still there, and does it read?"
    )]
    HandshakeTimeout(Duration),
    /// The request took too long to arrive, or to be decided on.
    #[error(
        "the connection request was not complete, or not decided on, within {0:?}; accept or reject sooner, or raise the limit"
    )]
    RequestTimeout(Duration),
    /// Too many others were asking, and this one had been silent for the longest time.
    #[error(
        "dropped in favour of newer connections, because its request had not arrived; who opens so many?"
    )]
    Crowded,
    /// What was queued at `fi_shutdown` could not be sent in time.
    #[error("what was queued could not be sent within {0:?} after shutdown; does the peer post receives?")]
    ShutdownTimeout(Duration),
    /// The peer is gone, and what it had sent was not received in time. Until the endpoint is closed it can be.
    #[error(
        "the peer shut the connection down, and no receive was posted for what it had sent within {0:?}; post them sooner, or now, before the endpoint is closed"
    )]
    Unreceived(Duration),
    /// The peer, or the network to it, is gone: nothing that it was asked was answered for so long
    /// ([`TimeLimits::peer`](crate::TimeLimits::peer)).
    #[error(
        "the peer has not answered for {0:?}; it, its host or the network to it is gone: see which, and connect anew"
    )]
    PeerTimeout(Duration),
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Protocol(WireError),
    /// A memory region was closed while the peer's transfer used it.
    #[error(
        "a memory region was closed in the middle of the peer's access to it; agree on the end with the peer first"
    )]
    RegionClosed,
    /// Memory for what the peer sent could not be had.
    #[error("no memory to take what the peer sent; raise the limit of the process, or receive sooner")]
    NoMemory,
}

impl Reason {
    /// The number for error entries: what the manual pages give for the case.
    pub fn errno(self) -> Errno {
        match self {
            Self::Local | Self::Peer | Self::Unreceived(_) => Errno::ESHUTDOWN,
            Self::Cut => Errno::ECONNRESET,
            Self::Transport(errno) => errno,
            Self::Rejected => Errno::ECONNREFUSED,
            Self::NoAnswer => Errno::ECONNRESET,
            Self::ConnectTimeout(_)
            | Self::HandshakeTimeout(_)
            | Self::RequestTimeout(_)
            | Self::Crowded
            | Self::ShutdownTimeout(_)
            | Self::PeerTimeout(_) => Errno::ETIMEDOUT,
            Self::Protocol(WireError::Version { .. }) => Errno::ENOPROTOOPT,
            Self::Protocol(_) => Errno::EIO,
            Self::RegionClosed => Errno::ECANCELED,
            Self::NoMemory => Errno::ENOMEM,
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What happens to connections, for who watches them: user space tells `tracing`, the kernel module dynamic
//! debug. Nothing is told of operations.

use core::fmt::{self, Display};
use core::net::SocketAddr;

use crate::Reason;

/// What happened. As text it comes with its number or its reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// `fi_listen`; with the backlog.
    Listening(usize),
    /// A request for the event queue; with the length of its data in bytes, as in the next ones.
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
    Shutdown(Reason),
    /// `fi_close` of an endpoint.
    Closed,
    /// `fi_close` of a passive endpoint.
    ListenerClosed,
}

impl What {
    /// The text without the number or the reason.
    pub fn text(&self) -> &'static str {
        match self {
            Self::Listening(_) => "listening",
            Self::Requested(_) => "connection request",
            Self::Dropped(_) => "connection dropped",
            Self::Connecting(_) => "connecting",
            Self::Accepting(_) => "accepting",
            Self::Rejected(_) => "rejected",
            Self::Connected(_) => "connected",
            Self::Failed(_) => "connection failed",
            Self::Shutdown(_) => "shutdown",
            Self::Closed => "closed",
            Self::ListenerClosed => "listener closed",
        }
    }
}

impl Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())?;
        match self {
            Self::Listening(backlog) => write!(f, ", backlog {backlog}"),
            Self::Requested(data)
            | Self::Connecting(data)
            | Self::Accepting(data)
            | Self::Rejected(data)
            | Self::Connected(data) => write!(f, ", {data} bytes of data"),
            Self::Dropped(reason) | Self::Failed(reason) | Self::Shutdown(reason) => write!(f, ": {reason}"),
            Self::Closed | Self::ListenerClosed => Ok(()),
        }
    }
}

/// The address of one end of a connection, or `-` where it is not known.
#[derive(Clone, Copy, Debug)]
pub struct End(pub Option<SocketAddr>);

impl Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(addr) => addr.fmt(f),
            None => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_text_has_its_number_or_reason() {
        assert_eq!(What::Listening(5).to_string(), "listening, backlog 5");
        assert_eq!(What::Connected(0).to_string(), "connected, 0 bytes of data");
        assert_eq!(What::Shutdown(Reason::Peer).to_string(), "shutdown: the peer shut the connection down");
        assert_eq!(What::ListenerClosed.to_string(), "listener closed");
    }

    #[test]
    fn an_end_without_an_address_has_a_mark() {
        assert_eq!(End(None).to_string(), "-");
        assert_eq!(End(Some(([10, 0, 0, 1], 7).into())).to_string(), "10.0.0.1:7");
    }
}

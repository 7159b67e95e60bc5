// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Live objects as text, for who looks at them from outside: one JSON object a line.
//!
//! User space shows it to other processes, the kernel module in debugfs. Neither data nor keys are told.

use core::fmt::{self, Display, Write};
use core::net::SocketAddr;

use crate::statistics::CqStatistics;
use crate::{DomainStatistics, Endings, EndpointStatistics, EventQueue, ListenerStatistics, Tally, Traffic};

/// A line in the making; whole when dropped. Names are the caller's, and need no escape.
///
/// What the output refuses is lost: who needs to know asks the output.
pub struct Object<'a>(&'a mut dyn Write);

impl<'a> Object<'a> {
    /// An object of this kind, behind what `out` has already.
    pub fn new(out: &'a mut dyn Write, kind: &str) -> Self {
        let _ = write!(out, "{{\"object\":\"{kind}\"");
        Self(out)
    }

    fn name(&mut self, name: &str) {
        let _ = write!(self.0, ",\"{name}\":");
    }

    /// A member that is a number.
    pub fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.name(name);
        let _ = write!(self.0, "{value}");
        self
    }

    /// A member that is true or false.
    pub fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.name(name);
        let _ = write!(self.0, "{value}");
        self
    }

    /// A member that is a text.
    pub fn text(&mut self, name: &str, value: impl Display) -> &mut Self {
        self.name(name);
        let _ = self.0.write_char('"');
        let _ = write!(Escaped(self.0), "{value}");
        let _ = self.0.write_char('"');
        self
    }

    /// A member that is an address; none without one.
    pub fn address(&mut self, name: &str, value: Option<SocketAddr>) -> &mut Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    fn tally(&mut self, name: &str, value: &Tally) -> &mut Self {
        self.name(name);
        let Tally { operations, bytes } = value;
        let _ = write!(self.0, "{{\"operations\":{operations},\"bytes\":{bytes}}}");
        self
    }

    fn traffic(&mut self, of: &Traffic) -> &mut Self {
        self.tally("sent", &of.sent)
            .tally("received", &of.received)
            .tally("written", &of.written)
            .tally("read", &of.read)
            .tally("remote_written", &of.remote_written)
            .tally("remote_read", &of.remote_read)
            .number("wakeups", of.wakeups)
            .number("transmit_stalls", of.transmit_stalls.into())
            .number("receive_stalls", of.receive_stalls.into())
            .number("unexpected_most", of.unexpected_most.into())
            .number("canceled", of.canceled.into())
            .number("truncated", of.truncated.into())
    }

    fn endings(&mut self, name: &str, of: &Endings) -> &mut Self {
        self.name(name);
        let Endings { orderly, refused, timed_out, broken, protocol, ours } = of;
        let _ = write!(
            self.0,
            "{{\"orderly\":{orderly},\"refused\":{refused},\"timed_out\":{timed_out},\"broken\":{broken},\
             \"protocol\":{protocol},\"ours\":{ours}}}"
        );
        self
    }

    /// What there is to say of an endpoint.
    pub fn endpoint(&mut self, of: &EndpointStatistics) -> &mut Self {
        self.text("state", of.state.name()).address("local", of.local).address("peer", of.peer);
        if let Some(connected) = of.connected {
            self.number("connected_ms", u64::try_from(connected.as_millis()).unwrap_or(u64::MAX));
        }
        if let Some(reason) = of.reason {
            self.text("reason", reason);
        }
        self.number("transmits_pending", of.transmits_pending as u64)
            .number("receives_posted", of.receives_posted as u64)
            .number("unexpected", of.unexpected as u64)
            .number("unexpected_bytes", of.unexpected_bytes)
            .flag("receive_stalled", of.receive_stalled)
            .traffic(&of.traffic)
    }

    /// What there is to say of a domain.
    pub fn domain(&mut self, of: &DomainStatistics) -> &mut Self {
        self.number("endpoints", of.endpoints as u64)
            .number("connected", of.connected as u64)
            .number("shared_receive_contexts", of.shared_receive_contexts as u64)
            .number("counters", of.counters as u64)
            .number("memory_regions", of.memory_regions as u64)
            .number("connections", of.connections)
            .endings("endings", &of.endings)
            .traffic(&of.traffic)
    }

    /// What there is to say of a completion queue.
    pub fn completion_queue(&mut self, of: &CqStatistics) -> &mut Self {
        self.number("unread", of.unread as u64).number("bindings", of.bindings as u64)
    }

    /// What there is to say of a passive endpoint.
    pub fn listener(&mut self, of: &ListenerStatistics) -> &mut Self {
        self.text("state", if of.listening { "listening" } else { "idle" })
            .address("local", of.local)
            .number("accepted", of.accepted)
            .number("requests", of.requests)
            .number("arriving", of.arriving as u64)
            .number("waiting", of.waiting as u64)
            .number("pauses", of.pauses)
            .endings("dropped", &of.dropped)
    }

    /// What there is to say of an event queue.
    pub fn event_queue(&mut self, of: &EventQueue) -> &mut Self {
        self.number("unread", of.len() as u64)
            .number("endpoints", of.endpoints() as u64)
            .number("passive_endpoints", of.passive_endpoints() as u64)
    }
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        let _ = self.0.write_str("}\n");
    }
}

/// Escapes what would end a JSON string.
struct Escaped<'a>(&'a mut dyn Write);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| matches!(c, '"' | '\\') || c.is_control()) {
            let (plain, special) = rest.split_at(at);
            self.0.write_str(plain)?;
            let mut chars = special.chars();
            match chars.next() {
                Some(c @ ('"' | '\\')) => write!(self.0, "\\{c}")?,
                Some(c) => write!(self.0, "\\u{:04x}", u32::from(c))?,
                None => {}
            }
            rest = chars.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn text_cannot_break_out() {
        let mut out = String::new();
        Object::new(&mut out, "x").text("name", "a\"b\\c\nd\u{7f}é").number("n", 1).flag("f", true);
        assert_eq!(out, "{\"object\":\"x\",\"name\":\"a\\\"b\\\\c\\u000ad\\u007fé\",\"n\":1,\"f\":true}\n");
    }
}

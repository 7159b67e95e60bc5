// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What is said of the live objects: one JSON object a line, within a bound.

use std::fmt::{Display, Write};
use std::net::SocketAddr;

use kofi_core::{Endings, EndpointStatistics, Tally, Traffic};

/// Endpoints that are told of. Of more only the sums are.
const MAX_ENDPOINTS: usize = 4096;

/// The lines.
pub(crate) struct Report {
    text: String,
    endpoints: usize,
    left_out: u64,
}

impl Report {
    pub(super) fn new() -> Self {
        Self { text: String::new(), endpoints: 0, left_out: 0 }
    }

    /// An object, of this kind.
    pub(crate) fn object(&mut self, kind: &str) -> Object<'_> {
        let _ = write!(self.text, "{{\"object\":\"{kind}\"");
        Object(&mut self.text)
    }

    /// An endpoint.
    pub(crate) fn endpoint(&mut self, domain: u64, of: &EndpointStatistics) {
        if self.endpoints == MAX_ENDPOINTS {
            self.left_out += 1;
            return;
        }
        self.endpoints += 1;
        let mut object = self.object("endpoint");
        object.number("fid", of.fid.0).number("domain", domain).text("state", of.state.name());
        object.address("local", of.local).address("peer", of.peer);
        if let Some(connected) = of.connected {
            object.number("connected_ms", u64::try_from(connected.as_millis()).unwrap_or(u64::MAX));
        }
        if let Some(reason) = of.reason {
            object.text("reason", reason);
        }
        object.number("transmits_pending", of.transmits_pending as u64);
        object.number("receives_posted", of.receives_posted as u64);
        object.number("unexpected", of.unexpected as u64);
        object.number("unexpected_bytes", of.unexpected_bytes);
        object.flag("receive_stalled", of.receive_stalled);
        object.traffic(&of.traffic);
    }

    /// The whole text, with its end.
    pub(super) fn finish(mut self) -> String {
        if self.left_out > 0 {
            let left_out = self.left_out;
            self.object("left_out").number("endpoints", left_out);
        }
        // Who reads it knows that nothing is missing.
        self.object("end");
        self.text
    }
}

/// An object in the making; whole when dropped. Names are the caller's, and need no escape.
pub(crate) struct Object<'a>(&'a mut String);

impl Object<'_> {
    fn name(&mut self, name: &str) {
        let _ = write!(self.0, ",\"{name}\":");
    }

    pub(crate) fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.name(name);
        let _ = write!(self.0, "{value}");
        self
    }

    pub(crate) fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.name(name);
        let _ = write!(self.0, "{value}");
        self
    }

    pub(crate) fn text(&mut self, name: &str, value: impl Display) -> &mut Self {
        self.name(name);
        self.0.push('"');
        for c in value.to_string().chars() {
            match c {
                '"' | '\\' => self.0.extend(['\\', c]),
                c if c.is_control() => {
                    let _ = write!(self.0, "\\u{:04x}", u32::from(c));
                }
                c => self.0.push(c),
            }
        }
        self.0.push('"');
        self
    }

    pub(crate) fn address(&mut self, name: &str, value: Option<SocketAddr>) -> &mut Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    fn tally(&mut self, name: &str, value: &Tally) {
        self.name(name);
        let Tally { operations, bytes } = value;
        let _ = write!(self.0, "{{\"operations\":{operations},\"bytes\":{bytes}}}");
    }

    pub(crate) fn traffic(&mut self, of: &Traffic) -> &mut Self {
        self.tally("sent", &of.sent);
        self.tally("received", &of.received);
        self.tally("written", &of.written);
        self.tally("read", &of.read);
        self.tally("remote_written", &of.remote_written);
        self.tally("remote_read", &of.remote_read);
        self.number("wakeups", of.wakeups);
        self.number("transmit_stalls", of.transmit_stalls.into());
        self.number("receive_stalls", of.receive_stalls.into());
        self.number("unexpected_most", of.unexpected_most.into());
        self.number("canceled", of.canceled.into());
        self.number("truncated", of.truncated.into())
    }

    pub(crate) fn endings(&mut self, name: &str, of: &Endings) -> &mut Self {
        self.name(name);
        let Endings { orderly, refused, timed_out, broken, protocol, ours } = of;
        let _ = write!(
            self.0,
            "{{\"orderly\":{orderly},\"refused\":{refused},\"timed_out\":{timed_out},\"broken\":{broken},\
             \"protocol\":{protocol},\"ours\":{ours}}}"
        );
        self
    }
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        self.0.push_str("}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out() {
        let mut report = Report::new();
        report.object("x").text("name", "a\"b\\c\nd\u{7f}é").number("n", 1).flag("f", true);
        let wanted = "{\"object\":\"x\",\"name\":\"a\\\"b\\\\c\\u000ad\\u007fé\",\"n\":1,\"f\":true}\n";
        assert_eq!(report.finish(), format!("{wanted}{{\"object\":\"end\"}}\n"));
    }
}

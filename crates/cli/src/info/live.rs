// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `kofi info --live`: the objects of another process.

use std::fmt;
use std::io::Write;

use serde_json::Value;

use crate::failure::Result;

/// One object of the answer.
struct Object(Value);

impl Object {
    fn kind(&self) -> &str {
        self.text("object")
    }

    fn number(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Operations and bytes.
    fn tally(&self, name: &str) -> (u64, u64) {
        let part = |part| self.0.get(name).and_then(|tally| tally.get(part)).and_then(Value::as_u64);
        (part("operations").unwrap_or_default(), part("bytes").unwrap_or_default())
    }

    fn is_of(&self, kind: &str, owner: &str, fid: u64) -> bool {
        self.kind() == kind && self.number(owner) == fid
    }
}

pub(super) fn show(pid: u32, json: bool) -> Result {
    let answer = kofi::live::query(pid)?;
    let objects = answer.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
    let objects = objects.map_err(|error| format!("the answer of process {pid} is no JSON: {error}"))?;
    let mut out = anstream::stdout().lock();
    if json {
        for object in objects.iter().filter(|object| object["object"] != "end") {
            writeln!(out, "{}", serde_json::to_string(object)?)?;
        }
        return Ok(());
    }
    tree(&mut out, &objects.into_iter().map(Object).collect::<Vec<_>>())
}

/// All of it, each object below the one that it is in.
fn tree(out: &mut impl Write, objects: &[Object]) -> Result {
    let all = |kind: &'static str, owner: &'static str, fid: u64| {
        objects.iter().filter(move |object| object.is_of(kind, owner, fid))
    };
    for object in objects {
        match object.kind() {
            "process" => {
                let (pid, version) = (object.number("pid"), object.text("version"));
                writeln!(out, "process {pid} ({}), kofi {version}", Clean(object.text("program")))?;
            }
            "fabric" => {
                let fid = object.number("fid");
                writeln!(out, "  fabric {fid}: {}, {}", object.text("provider"), object.text("name"))?;
                for queue in all("event_queue", "fabric", fid) {
                    event_queue(out, queue)?;
                }
                for object in all("listener", "fabric", fid) {
                    listener(out, object)?;
                }
                for object in all("domain", "fabric", fid) {
                    domain(out, object)?;
                    let fid = object.number("fid");
                    for queue in all("completion_queue", "domain", fid) {
                        let unread = Count(queue.number("unread"), "unread completion");
                        let users = Count(queue.number("bindings"), "endpoint direction");
                        writeln!(out, "      completion queue: {unread}, {users}")?;
                    }
                    for object in all("endpoint", "domain", fid) {
                        endpoint(out, object)?;
                    }
                }
            }
            "left_out" => {
                writeln!(
                    out,
                    "  and {}, which only the sums tell of",
                    Count(object.number("endpoints"), "endpoint")
                )?;
            }
            _ => {}
        }
    }
    if !objects.iter().any(|object| object.kind() == "fabric") {
        writeln!(out, "  no fabric is open")?;
    }
    Ok(())
}

const BUSY: &str = "busy: others have its lock all the time; ask again";

fn event_queue(out: &mut impl Write, object: &Object) -> Result {
    let fid = object.number("fid");
    if object.flag("busy") {
        return Ok(writeln!(out, "    event queue {fid}: {BUSY}")?);
    }
    let unread = Count(object.number("unread"), "unread event");
    let endpoints = Count(object.number("endpoints"), "endpoint");
    let passive = Count(object.number("passive_endpoints"), "passive endpoint");
    Ok(writeln!(out, "    event queue {fid}: {unread}, {endpoints}, {passive}")?)
}

fn listener(out: &mut impl Write, object: &Object) -> Result {
    let fid = object.number("fid");
    if object.flag("busy") {
        return Ok(writeln!(out, "    listener {fid}: {BUSY}")?);
    }
    let accepted = Count(object.number("accepted"), "connection");
    let requests = Count(object.number("requests"), "request");
    write!(
        out,
        "    listener {fid}: {} at {}, {accepted}, {requests}",
        object.text("state"),
        object.text("local")
    )?;
    for (name, text) in
        [("arriving", "arriving"), ("waiting", "unread"), ("pauses", "pauses for want of descriptors")]
    {
        more(out, object.number(name), text)?;
    }
    parts(out, object, "dropped", "dropped")?;
    Ok(writeln!(out)?)
}

fn domain(out: &mut impl Write, object: &Object) -> Result {
    let fid = object.number("fid");
    write!(out, "    domain {fid}: {}", object.text("name"))?;
    if object.flag("busy") {
        write!(out, ", not all of it is told: {BUSY}")?;
    }
    let endpoints = Count(object.number("endpoints"), "endpoint");
    write!(out, ", {endpoints}, {} connected, ", object.number("connected"))?;
    write!(out, "{} so far", Count(object.number("connections"), "connection"))?;
    for (name, text) in [
        ("memory_regions", "memory region"),
        ("counters", "counter"),
        ("shared_receive_contexts", "shared receive context"),
    ] {
        let number = object.number(name);
        if number > 0 {
            write!(out, ", {}", Count(number, text))?;
        }
    }
    parts(out, object, "endings", "ended")?;
    writeln!(out)?;
    traffic(out, "      ", object)
}

fn endpoint(out: &mut impl Write, object: &Object) -> Result {
    write!(out, "      endpoint {}: {}", object.number("fid"), object.text("state"))?;
    for (name, text) in [("local", ","), ("peer", " with")] {
        let address = object.text(name);
        if !address.is_empty() {
            write!(out, "{text} {address}")?;
        }
    }
    if object.0.get("connected_ms").is_some() {
        let millis = object.number("connected_ms");
        write!(out, ", {}.{} s", millis / 1000, millis % 1000 / 100)?;
    }
    let reason = object.text("reason");
    if !reason.is_empty() {
        write!(out, ": {}", Clean(reason))?;
    }
    writeln!(out)?;
    traffic(out, "        ", object)
}

/// What went over one connection, or all of a domain, and what holds it up.
fn traffic(out: &mut impl Write, indent: &str, object: &Object) -> Result {
    let mut line = Vec::new();
    for (name, text) in [
        ("sent", "sent"),
        ("received", "received"),
        ("written", "written"),
        ("read", "read"),
        ("remote_written", "written by the peer"),
        ("remote_read", "read by the peer"),
    ] {
        let (operations, bytes) = object.tally(name);
        if operations > 0 {
            line.push(format!("{text}: {operations} ({})", Count(bytes, "byte")));
        }
    }
    for (name, text) in [
        ("transmits_pending", "transmits pending"),
        ("receives_posted", "receives posted"),
        ("unexpected", "messages without a receive"),
        ("transmit_stalls", "transmit stalls"),
        ("receive_stalls", "receive stalls"),
        ("canceled", "canceled"),
        ("truncated", "truncated"),
        ("wakeups", "wake-ups"),
    ] {
        let number = object.number(name);
        if number > 0 {
            line.push(format!("{text}: {number}"));
        }
    }
    if object.flag("receive_stalled") {
        line.push("stalled: its next record waits for a receive, or for room in a queue".into());
    }
    if !line.is_empty() {
        writeln!(out, "{indent}{}", line.join(", "))?;
    }
    Ok(())
}

fn more(out: &mut impl Write, number: u64, text: &str) -> Result {
    if number > 0 {
        write!(out, ", {number} {text}")?;
    }
    Ok(())
}

/// Numbers of an object in the object.
fn parts(out: &mut impl Write, object: &Object, name: &str, text: &str) -> Result {
    let Some(Value::Object(parts)) = object.0.get(name) else { return Ok(()) };
    let parts =
        parts.iter().filter_map(|(name, count)| Some((name, count.as_u64().filter(|count| *count > 0)?)));
    let list: Vec<_> = parts.map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
    if !list.is_empty() {
        write!(out, ", {text}: {}", list.join(", "))?;
    }
    Ok(())
}

/// So many of them.
struct Count(u64, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, what) = self;
        write!(f, "{number} {what}{}", if *number == 1 { "" } else { "s" })
    }
}

/// Another process's text, for a terminal.
struct Clean<'a>(&'a str);

impl fmt::Display for Clean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().filter(|c| !c.is_control()).try_for_each(|c| write!(f, "{c}"))
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `kofi info --live`, about this process.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use assert_cmd::Command;
use kofi::{Event, Fabric, Hints};

const TIME: Duration = Duration::from_secs(60);

fn info(arguments: &[&str]) -> std::process::Output {
    let pid = std::process::id().to_string();
    let mut command = Command::cargo_bin("kofi").unwrap();
    command.args(["info", "--live", &pid]).args(arguments).timeout(TIME).output().unwrap()
}

#[test]
fn a_running_process_is_shown() {
    let refused = info(&[]);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains("KOFI_LIVE=1"), "{text}");

    kofi::live::serve().unwrap();
    let empty = info(&[]);
    let text = String::from_utf8(empty.stdout).unwrap();
    assert!(empty.status.success() && text.ends_with("  no fabric is open\n"), "{text}");

    let source = kofi::getinfo(Hints::new().provider("tcp").source(([127, 0, 0, 1], 0))).unwrap().remove(0);
    let fabric = Fabric::open(&source).unwrap();
    let eq = fabric.event_queue(Default::default()).unwrap();
    let listener = fabric.passive_endpoint(&source).unwrap().bind(&eq).unwrap().listen().unwrap();
    let name = listener.name().unwrap();
    let at = name.socket_addr().unwrap();
    let dest = kofi::getinfo(Hints::new().provider("tcp").dest(name.clone())).unwrap().remove(0);
    let domain = fabric.domain(&dest).unwrap();
    let cq = domain.completion_queue(Default::default()).unwrap();
    let client = domain.endpoint(&dest, &eq, &cq).unwrap().connect(b"").unwrap();
    let Event::ConnectionRequest(request) = eq.wait(TIME).unwrap() else { panic!() };
    let server = domain.endpoint_for(&request, &eq, &cq).unwrap().accept(b"").unwrap();
    for _ in 0..2 {
        assert!(matches!(eq.wait(TIME).unwrap(), Event::Connected { .. }));
    }
    client.send(b"kept", 0).unwrap();
    let _ = cq.wait(TIME).unwrap();
    while server.statistics().unwrap().unexpected == 0 {
        cq.progress();
    }

    let local = client.name().unwrap().socket_addr().unwrap();
    let shown = info(&[]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success(), "{text}");
    for part in [
        &format!("process {} (live", std::process::id()),
        ": tcp, 127.0.0.0/8\n",
        ": 0 unread events, 2 endpoints, 1 passive endpoint\n",
        &format!(": listening at {at}, 1 connection, 1 request\n"),
        ": lo, 2 endpoints, 2 connected, 2 connections so far\n",
        "completion queue: 0 unread completions, 4 endpoint directions\n",
        &format!("endpoint {}: connected, {} with {at}, ", client.fid().0, local),
        "sent: 1 (4 bytes)",
        "messages without a receive: 1",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }

    let json = String::from_utf8(info(&["--json"]).stdout).unwrap();
    let objects: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = objects.iter().map(|object| object["object"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "endpoint").count(), 2, "{json}");
    assert!(kinds.iter().all(|kind| *kind != "end"));
    let endpoint = objects.iter().find(|object| object["fid"] == server.fid().0).unwrap();
    assert_eq!((&endpoint["state"], &endpoint["unexpected"]), (&"connected".into(), &1.into()));
}

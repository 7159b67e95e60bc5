// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The `kofi` command, as a user meets it.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::time::Duration;

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use serde_json::Value;

/// A command that is not done by then hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// The environment that has a meaning.
const VARIABLES: [&str; 11] = [
    "FI_TCP_IFACE",
    "FI_TCP_PORT_LOW_RANGE",
    "FI_TCP_PORT_HIGH_RANGE",
    "KOFI_CONNECT_TIMEOUT_MS",
    "KOFI_HANDSHAKE_TIMEOUT_MS",
    "KOFI_DECISION_TIMEOUT_MS",
    "KOFI_SHUTDOWN_TIMEOUT_MS",
    "KOFI_KEEPALIVE_MS",
    "KOFI_PEER_TIMEOUT_MS",
    "KOFI_LIVE",
    "KOFI_LOG",
];

fn kofi(arguments: &[&str]) -> Assert {
    kofi_with(&[], arguments)
}

/// With these variables in the environment, and none of the others.
fn kofi_with(variables: &[(&str, &str)], arguments: &[&str]) -> Assert {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kofi"));
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).args(arguments).timeout(LIMIT).assert()
}

fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn stderr(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

fn json_lines(assert: &Assert) -> Vec<Value> {
    stdout(assert).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A failure is told on stderr in one line.
fn one_line(assert: &Assert) -> String {
    let text = stderr(assert);
    assert!(text.starts_with("kofi: ") && text.lines().count() == 1, "{text:?}");
    text
}

#[test]
fn each_command_has_help_with_examples_and_exit_codes() {
    for command in ["tour", "info", "pingpong"] {
        let help = stdout(&kofi(&[command, "--help"]).success());
        for part in ["Usage:", "Examples:", "Exit codes: 0"] {
            assert!(help.contains(part), "{command}: no {part:?} in\n{help}");
        }
    }
    let help = stdout(&kofi(&["--help"]).success());
    assert!(
        help.contains("Without a command, kofi takes the tour") && help.contains("Exit codes: 0"),
        "{help}"
    );
    for name in VARIABLES {
        let line = format!("\n  {name} ");
        assert!(help.contains(&line), "{name} is not in\n{help}");
    }
    let kofi::TimeLimits { connect, handshake, decision, shutdown, keepalive, peer } =
        kofi::TimeLimits::default();
    for (name, limit) in [
        ("CONNECT_TIMEOUT", connect),
        ("HANDSHAKE_TIMEOUT", handshake),
        ("DECISION_TIMEOUT", decision),
        ("SHUTDOWN_TIMEOUT", shutdown),
        ("KEEPALIVE", keepalive),
        ("PEER_TIMEOUT", peer),
    ] {
        let line = help.lines().find(|line| line.contains(&format!("KOFI_{name}_MS"))).unwrap();
        let default = format!("[{}]", limit.unwrap_or_default().as_millis());
        assert!(line.ends_with(&default), "{line} instead of {default}");
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [
        &["nonsense"][..],
        &["tour", "--bind", "nonsense"],
        &["tour", "--bind", "::1", "--ipv6"],
        &["info", "--caps", "FI_NONSENSE"],
        &["info", "--json", "-v"],
        &["--json", "info", "-v"],
        &["--ipv6", "info"],
        &["--bind", "127.0.0.1", "tour"],
        &["pingpong", "-S", "many"],
        &["pingpong", "-I", "0"],
        &["pingpong", "-e", "rdm"],
        &["pingpong", "--server", "localhost"],
        &["pingpong", "-P", "1"],
    ] {
        assert!(!stderr(&kofi(arguments).code(2)).is_empty());
    }
}

#[test]
fn tour_is_the_default_and_ends_with_a_summary() {
    for arguments in [&[][..], &["tour"]] {
        let text = stdout(&kofi(arguments).success());
        let mut from = 0;
        for title in [
            "Initialization",
            "Server connection set-up",
            "Client connection set-up",
            "Connection finalization",
            "Data transfer",
            "Shutdown",
        ] {
            let found = text[from..].find(&format!("{title}\n"));
            from += found.unwrap_or_else(|| panic!("no {title} after byte {from} of\n{text}"));
        }
        assert!(text.lines().last().unwrap().starts_with("The tour on 127.0.0.1: "), "{text}");
        assert!(!text.contains('\x1b'), "colour where nobody sees it");
    }
}

#[test]
fn tour_tells_calls_events_and_completions_in_order() {
    let lines = json_lines(&kofi(&["--json"]).success());
    let server: Vec<_> = lines.iter().filter(|line| line["side"] == "server").map(what).collect();
    let client: Vec<_> = lines.iter().filter(|line| line["side"] == "client").map(what).collect();
    assert_order(
        &server,
        "fi_getinfo fi_fabric fi_domain fi_passive_ep fi_eq_open fi_pep_bind fi_listen fi_eq_sread FI_CONNREQ \
         fi_cq_open fi_endpoint fi_ep_bind fi_ep_bind fi_enable fi_recv fi_accept fi_eq_sread FI_CONNECTED \
         fi_eq_sread FI_CONNREQ fi_reject fi_cq_sread FI_RECV|FI_MSG fi_send fi_cq_sread FI_SEND|FI_MSG fi_cq_sread \
         FI_RECV|FI_MSG|FI_REMOTE_CQ_DATA FI_RECV|FI_MSG fi_eq_sread FI_SHUTDOWN fi_close fi_close fi_close \
         fi_close fi_close fi_close",
    );
    assert_order(
        &client,
        "fi_getinfo fi_fabric fi_domain fi_eq_open fi_cq_open fi_endpoint fi_ep_bind fi_ep_bind fi_enable fi_recv \
         fi_connect fi_eq_sread FI_CONNECTED fi_endpoint fi_connect fi_eq_sread fi_eq_readerr error fi_close \
         fi_send fi_cq_sread FI_SEND|FI_MSG fi_cq_sread FI_RECV|FI_MSG fi_senddata fi_inject fi_send fi_cq_sread \
         FI_SEND|FI_MSG fi_shutdown fi_eq_sread FI_SHUTDOWN fi_close fi_close fi_close fi_close fi_close",
    );
    // What each gave to the other has arrived.
    let field = |event: &str, name: &str| {
        let line = lines.iter().find(|line| what(line) == event && line.get(name).is_some());
        line.unwrap_or_else(|| panic!("no {event} with {name}"))[name].clone()
    };
    assert_eq!(field("FI_CONNREQ", "data"), "hello, may I come in?");
    assert_eq!(field("FI_CONNECTED", "data"), "welcome");
    assert_eq!(field("error", "err"), "FI_ECONNREFUSED");
    assert_eq!(field("error", "err_data"), "no ticket, no entry");
    assert_eq!(field("FI_RECV|FI_MSG|FI_REMOTE_CQ_DATA", "data"), 0xcafe_babe_u32);
    let shutdowns = lines.iter().filter(|line| what(line) == "FI_SHUTDOWN").count();
    assert_eq!(shutdowns, 2, "FI_SHUTDOWN comes once on each side");
    let summary = lines.last().unwrap();
    assert_eq!((&summary["kind"], &summary["ok"]), (&"summary".into(), &true.into()));
    assert!(summary["seconds"].as_f64().unwrap() > 0.0);
}

/// What a line of the tour is about.
fn what(line: &Value) -> String {
    let name = match line["kind"].as_str().unwrap() {
        "call" | "return" => &line["call"],
        "event" => &line["event"],
        "completion" => &line["flags"],
        "summary" => &line["kind"],
        other => panic!("{other}"),
    };
    name.as_str().unwrap().replace(' ', "")
}

/// All `wanted` are there, in this order; there may be others in between.
fn assert_order(found: &[String], wanted: &str) {
    let mut rest = found.iter();
    for name in wanted.split_whitespace() {
        assert!(rest.any(|line| line == name), "no {name} in its place in {found:?}");
    }
}

#[test]
fn tour_works_where_it_is_told_to() {
    let text = stdout(&kofi(&["tour", "--bind", "127.0.0.1"]).success());
    assert!(text.contains("fi_sockaddr_in://127.0.0.1:"), "{text}");
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        let text = stdout(&kofi(&["tour", "--ipv6"]).success());
        assert!(text.contains("fi_sockaddr_in6://[::1]:"), "{text}");
    }
}

#[test]
fn tour_says_what_is_wrong() {
    // An address for documentation, which no host has.
    let text = one_line(&kofi(&["tour", "--bind", "203.0.113.77"]).code(1));
    assert!(text.contains("fi_getinfo") && text.contains("kofi info"), "{text}");
}

#[test]
fn a_variable_that_makes_no_sense_is_warned_of_once() {
    let wrong = ("KOFI_CONNECT_TIMEOUT_MS", "abc");
    let text = one_line(&kofi_with(&[wrong], &["tour"]).success());
    assert!(text.contains("warning") && text.contains(r#"KOFI_CONNECT_TIMEOUT_MS="abc""#), "{text}");
    assert_eq!(stderr(&kofi_with(&[wrong, ("KOFI_LOG", "off")], &["tour"]).success()), "");
    assert_eq!(stderr(&kofi_with(&[("KOFI_LOG", "")], &["tour"]).success()), "");
    let text = one_line(&kofi_with(&[("KOFI_LOG", "loud")], &["tour"]).success());
    assert!(text.contains(r#"KOFI_LOG="loud""#) && text.contains("debug"), "{text}");
}

#[test]
fn info_lists_as_fi_info_does() {
    let text = stdout(&kofi(&["info", "--node", "127.0.0.1"]).success());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "provider: tcp");
    assert_eq!(lines[2], "    domain: lo");
    assert_eq!(lines[4..], ["    type: FI_EP_MSG", "    protocol: FI_PROTO_SOCK_TCP"]);
    let text = stdout(&kofi(&["info", "-v", "-n", "127.0.0.1", "-P", "5000"]).success());
    assert!(text.starts_with("---\nfi_info:\n    caps: [ FI_MSG"), "{text}");
    assert!(text.contains("    dest_addr: fi_sockaddr_in://127.0.0.1:5000\n"), "{text}");
    let lines = json_lines(&kofi(&["info", "--json", "-n", "127.0.0.1", "-t", "msg"]).success());
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["ep_attr"]["type"], "FI_EP_MSG");
    assert_eq!(lines[0]["fabric_attr"]["prov_name"], "tcp");
}

#[test]
fn info_knows_what_a_misspelt_name_may_mean() {
    let text = stderr(&kofi(&["info", "--type", "FI_EP_RMD"]).code(2));
    assert!(text.contains("did you mean FI_EP_RDM?"), "{text}");
    let text = stderr(&kofi(&["info", "--control-progress", "x"]).code(2));
    assert!(text.contains("there are: FI_PROGRESS_UNSPEC, FI_PROGRESS_AUTO"), "{text}");
}

#[test]
fn json_may_stand_before_the_command() {
    for command in [
        &["info", "-n", "127.0.0.1"][..],
        &["info", "-n", "127.0.0.1", "--why"],
        &["tour"],
        &["pingpong", "-S", "1", "-I", "1"],
    ] {
        let before = json_lines(&kofi(&[&["--json"], command].concat()).success());
        let behind = json_lines(&kofi(&[command, &["--json"]].concat()).success());
        assert!(!before.is_empty() && before.len() == behind.len(), "{command:?}");
    }
    let text = stderr(&kofi(&["--ipv6", "info"]).code(2));
    assert!(text.contains("kofi tour --ipv6"), "{text}");
}

#[test]
fn info_says_what_any_is() {
    let text = stdout(&kofi(&["info", "--source", "-P", "5000"]).success());
    assert!(text.contains("    fabric: any\n    domain: any\n"), "{text}");
    let help = stdout(&kofi(&["info", "--help"]).success());
    let help: Vec<_> = help.split_whitespace().collect();
    assert!(help.join(" ").contains("any: the wildcard address, every interface"), "{help:?}");
}

#[test]
fn info_names_the_hint_that_failed() {
    for (arguments, hint) in [
        (&["--provider", "nonsense"][..], "fabric_attr.prov_name"),
        (&["--type", "FI_EP_SOCK_DGRAM"], "ep_attr.type"),
        (&["--caps", "FI_MSG,FI_COLLECTIVE"], "caps"),
        (&["--domain", "nonsense"], "domain_attr.name"),
        (&["--fabric", "nonsense"], "fabric_attr.name"),
        (&["--inject-size", "1000000"], "tx_attr.inject_size"),
        (&["--protocol", "FI_PROTO_UDP"], "ep_attr.protocol"),
        (&["--cq-data-size", "9"], "domain_attr.cq_data_size"),
        (&["--msg-order", "FI_ORDER_SAR"], "tx_attr.msg_order"),
    ] {
        let with = |more: &[&'static str]| [&["info", "-n", "127.0.0.1"], arguments, more].concat();
        let text = one_line(&kofi(&with(&[])).code(1));
        assert!(text.contains(&format!("wanted {hint} ")), "{hint}: {text}");

        let why = kofi(&with(&["--why"])).code(1);
        let text = stdout(&why);
        assert!(text.contains(&format!("    hint:    {hint}\n")), "{hint}: {text}");
        assert!(text.contains("    to do:   "), "{text}");
        one_line(&why);

        let lines = json_lines(&kofi(&with(&["--why", "--json"])).code(1));
        assert_eq!(lines[0]["matches"], false);
        assert_eq!(lines[0]["refusal"]["hint"], hint);
    }
    let text = stdout(&kofi(&["info", "--why", "-n", "127.0.0.1"]).success());
    assert!(text.contains(": matches\n") && text.ends_with("\nthe only offer matches\n"), "{text}");
}

#[test]
fn info_says_once_why_all_offers_are_refused() {
    let with = |more: &[&'static str]| [&["info", "--why", "-p", "nonsense"], more].concat();
    let offers = json_lines(&kofi(&with(&["--json"])).code(1)).len();
    let text = stdout(&kofi(&with(&[])).code(1));
    assert_eq!(text.lines().count(), 5, "{text}");
    if offers > 1 {
        assert!(text.starts_with(&format!("all {offers} offers of tcp: do not match\n")), "{text}");
    }
}

#[test]
fn info_names_the_variable_that_leaves_no_interface() {
    let nowhere = ("FI_TCP_IFACE", "nosuch");
    for arguments in [&["info"][..], &["info", "--why"], &["info", "--source", "-P", "5000"]] {
        let text = one_line(&kofi_with(&[nowhere], arguments).code(1));
        let (_, known) = text.split_once("FI_TCP_IFACE=nosuch: no such interface (there are: ").unwrap();
        assert!(known.contains("lo"), "{text}");
    }
    let loopback = ("FI_TCP_IFACE", "lo");
    let text = stdout(&kofi_with(&[loopback], &["info", "-n", "127.0.0.1"]).success());
    assert!(text.contains("domain: lo"), "{text}");
    // An address for documentation, which no interface has.
    let text = one_line(&kofi_with(&[loopback], &["info", "--source", "-n", "203.0.113.77"]).code(1));
    assert!(text.contains("FI_TCP_IFACE=lo: ") && text.contains("127.0.0.1"), "{text}");
}

#[test]
fn info_says_that_a_node_is_unknown() {
    for arguments in [&["info", "-n", "nonsense.invalid"][..], &["info", "--why", "-n", "nonsense.invalid"]] {
        let text = one_line(&kofi(arguments).code(1));
        assert!(text.contains("nonsense.invalid"), "{text}");
    }
}

#[test]
fn pingpong_with_itself() {
    let text = stdout(&kofi(&["pingpong", "-c", "-I", "20"]).success());
    let header = "bytes   #sent   #ack     total        time     MB/sec    usec/xfer   Mxfers/sec";
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(header));
    let sizes: Vec<_> = lines.map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(sizes, ["64", "256", "1k", "4k", "64k", "1m"]);
}

#[test]
fn pingpong_takes_the_sizes_that_it_prints() {
    for size in ["64", "1k", "1m"] {
        let text = stdout(&kofi(&["pingpong", "-I", "2", "-S", size]).success());
        assert_eq!(text.lines().nth(1).unwrap().split_whitespace().next(), Some(size));
    }
}

#[test]
fn pingpong_of_all_sizes_as_json() {
    let lines = json_lines(&kofi(&["pingpong", "-c", "-I", "3", "-S", "all", "--json"]).success());
    assert_eq!((lines.len(), &lines[0]["bytes"], &lines[45]["bytes"]), (46, &0.into(), &(6 << 20).into()));
    for line in &lines {
        assert_eq!((&line["sent"], &line["acked"]), (&3.into(), &3.into()));
        assert_eq!(line["total_bytes"].as_u64().unwrap(), 6 * line["bytes"].as_u64().unwrap());
        let latency = &line["latency_usec"];
        assert!(latency["min"].as_f64() <= latency["p50"].as_f64(), "{line}");
        assert!(latency["p50"].as_f64() <= latency["max"].as_f64(), "{line}");
    }
}

#[test]
fn pingpong_says_what_is_wrong() {
    // A port that is taken, and that nobody listens on.
    let taken = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    taken.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let port = taken.local_addr().unwrap().as_socket().unwrap().port().to_string();
    let text = one_line(&kofi(&["pingpong", "-B", &port]).code(1));
    assert!(text.contains("cannot listen") && text.contains("-B"), "{text}");
    let text = one_line(&kofi(&["pingpong", "-P", &port, "127.0.0.1"]).code(1));
    assert!(text.contains("cannot connect") && text.contains("--server"), "{text}");
    let text = one_line(&kofi(&["pingpong", "--server", "-B", "0", "--wait", "1"]).code(1));
    assert!(text.contains("no client came in 1s"), "{text}");
    let text = one_line(&kofi(&["pingpong", "-d", "nonsense"]).code(1));
    assert!(text.contains("domain_attr.name nonsense"), "{text}");
}

#[test]
fn pingpong_refuses_words_that_are_none() {
    use std::io::{Read, Write};
    for (word, why) in [
        // 16 bytes of FI_SOCKADDR_IN that are an IPv6 address; far too many bytes; nothing at all.
        (&[&[0, 0, 0, 16, 2, 0, 0, 0, 10, 0][..], &[0; 14]].concat()[..], "FI_SOCKADDR_IN6"),
        (&[255, 255, 255, 255, 2, 0, 0, 0], "4294967295 bytes"),
        (&[], "the peer closed it"),
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let peer = std::thread::spawn({
            let word = word.to_vec();
            move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(&word).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let _ = stream.read(&mut [0]);
            }
        });
        let text = one_line(&kofi(&["pingpong", "-P", &port, "127.0.0.1"]).code(1));
        assert!(text.contains(why), "{text}");
        peer.join().unwrap();
    }
}

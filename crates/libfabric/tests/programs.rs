// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Programs that were built for stock libfabric, run on this library unchanged: those of Debian's libfabric-bin, and one
//! of ours that calls the library's functions.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{Installed, clean, have, run, text};

fn fi_info(installed: &Installed, arguments: &[&str]) -> Output {
    run(installed.command("fi_info").args(arguments))
}

/// What `fi_info` prints, which has to be a success.
fn listed(installed: &Installed, arguments: &[&str]) -> String {
    let output = fi_info(installed, arguments);
    assert!(output.status.success(), "fi_info {arguments:?}: {output:?}");
    text(&output.stdout)
}

#[test]
fn fi_info_with_all_its_options() {
    if !have("fi_info", "libfabric-bin") {
        return;
    }
    let ours = Installed::new("fi_info");
    assert_eq!(listed(&ours, &["-l"]), "tcp:\n    version: 206.0\n");

    let all = listed(&ours, &[]);
    assert!(all.contains("domain: lo\n") && all.contains("    type: FI_EP_MSG\n"), "{all}");
    for entry in all.split("provider: ").skip(1) {
        assert!(entry.starts_with("tcp\n"), "{entry}");
        assert_eq!(entry.lines().count(), 6, "{entry}");
    }
    for hints in [
        &["-p", "tcp"][..],
        &["-t", "FI_EP_MSG"],
        &["-c", "FI_MSG|FI_RMA"],
        &["-m", "FI_CONTEXT"],
        &["-p", "TCP", "-t", "FI_EP_MSG", "-c", "FI_MSG"],
    ] {
        assert_eq!(listed(&ours, hints), all, "{hints:?}");
    }
    let v4 = listed(&ours, &["-a", "FI_SOCKADDR_IN", "-v"]);
    assert!(v4.contains("FI_SOCKADDR_IN\n") && !v4.contains("FI_SOCKADDR_IN6"), "{v4}");
    let lo = listed(&ours, &["-d", "lo"]);
    assert!(lo.matches("domain: ").count() == lo.matches("domain: lo\n").count(), "{lo}");
    let fabric = lo.lines().find_map(|line| line.trim().strip_prefix("fabric: ")).unwrap();
    assert!(listed(&ours, &["-f", fabric]).contains("domain: lo\n"));
    let dest = listed(&ours, &["-n", "127.0.0.1", "-P", "5000", "-v"]);
    assert!(dest.contains("dest_addr: fi_sockaddr_in://127.0.0.1:5000\n"), "{dest}");
    let source = listed(&ours, &["-s", "127.0.0.1", "-P", "5000", "-v"]);
    assert!(source.contains("src_addr: fi_sockaddr_in://127.0.0.1:"), "{source}");

    let variables = listed(&ours, &["-e"]);
    for name in
        ["FI_PROVIDER", "FI_LOG_LEVEL", "FI_TCP_IFACE", "FI_TCP_PORT_LOW_RANGE", "KOFI_CONNECT_TIMEOUT_MS"]
    {
        assert!(variables.contains(&format!("# {name}: ")), "{name} in\n{variables}");
    }
    let some = listed(&ours, &["-g", "TCP_IFACE"]);
    assert_eq!(some.matches("FI_").count(), 1, "{some}");
    let version = listed(&ours, &["--version"]);
    assert!(version.contains("libfabric: 2.6.0 (kofi "), "{version}");

    const ENODATA: Option<i32> = Some(61);
    for hints in [
        &["-p", "shm"][..],
        &["-t", "FI_EP_RDM"],
        &["-c", "FI_ATOMIC"],
        &["-d", "no such interface"],
        &["-f", "no such fabric"],
        &["-a", "FI_ADDR_STR"],
    ] {
        let output = fi_info(&ours, hints);
        assert_eq!(output.status.code(), ENODATA, "{hints:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        // Nobody has asked for a log.
        assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
    }
}

/// `fi_info -v` has every line that stock's has, in the same order.
#[test]
fn fi_info_in_full_is_stocks() {
    if !have("fi_info", "libfabric-bin") {
        return;
    }
    let ours = Installed::new("fi_info-v");
    let arguments = ["-v", "-p", "tcp", "-t", "FI_EP_MSG", "-a", "FI_SOCKADDR_IN", "-d", "lo"];
    let names = |output: String| -> Vec<String> {
        let record = output.lines().skip(1).take_while(|line| *line != "---");
        record.map(|line| line.split(':').next().unwrap().to_owned()).collect()
    };
    let stock = names(text(&run(clean("fi_info").args(arguments)).stdout));
    let ours = names(listed(&ours, &arguments));
    let mut rest = ours.iter();
    for name in &stock {
        assert!(rest.any(|ours| ours == name), "{name:?} of {stock:?} in {ours:?}");
    }
    let younger: Vec<_> = ours.iter().filter(|name| !stock.contains(name)).map(|name| name.trim()).collect();
    assert_eq!(younger.len(), ours.len() - stock.len());
    assert!(younger.contains(&"max_cntr_value"), "{younger:?}");
}

#[test]
fn environment_chooses_providers_and_explains() {
    if !have("fi_info", "libfabric-bin") {
        return;
    }
    let ours = Installed::new("environment");
    let with = |variables: &[(&str, &str)], arguments: &[&str]| {
        let output = run(ours.command("fi_info").envs(variables.iter().copied()).args(arguments));
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for (list, code) in
        [("tcp", 0), ("tcp,shm", 0), ("^shm", 0), ("TCP", 0), ("shm", 61), ("^tcp", 61), ("^shm,tcp", 61)]
    {
        assert_eq!(with(&[("FI_PROVIDER", list)], &[]).0, Some(code), "{list}");
    }
    let (_, _, log) = with(&[("FI_PROVIDER", "tpc"), ("FI_LOG_LEVEL", "warn")], &[]);
    assert!(log.contains("<warn> FI_PROVIDER: there is no provider \"tpc\" here"), "{log}");
    let (code, _, log) = with(&[("FI_HOOK", "perf"), ("FI_LOG_LEVEL", "warn")], &[]);
    assert_eq!(code, Some(0));
    assert!(log.contains("\"perf\" is ignored"), "{log}");
    let (_, _, log) = with(&[("FI_PROVIDER_PATH", "/opt/providers"), ("FI_LOG_LEVEL", "warn")], &[]);
    assert!(log.contains("\"/opt/providers\" is ignored"), "{log}");
    // Why there is none, for each hint that was not met.
    for (hints, why) in [
        (&["-t", "FI_EP_RDM"][..], "wanted ep_attr.type FI_EP_RDM, tcp offers FI_EP_MSG"),
        (&["-c", "FI_ATOMIC"], "wanted caps FI_ATOMIC, tcp offers"),
        (&["-p", "shm"], "wanted fabric_attr.prov_name shm, there is tcp"),
    ] {
        let (code, _, log) = with(&[("FI_LOG_LEVEL", "info")], hints);
        assert_eq!(code, Some(61));
        assert!(log.contains(why) && log.contains(":core:core:fi_getinfo():"), "{log}");
        // Others have asked for less.
        let (_, _, log) = with(&[("FI_LOG_LEVEL", "info"), ("FI_LOG_SUBSYS", "^core")], hints);
        assert!(!log.contains(why), "{log}");
        let (_, _, log) = with(&[("FI_LOG_LEVEL", "info"), ("FI_LOG_PROV", "tcp")], hints);
        assert!(!log.contains(why), "{log}");
    }
    let (_, full, _) = with(&[("FI_TCP_TX_SIZE", "77"), ("FI_TCP_RX_SIZE", "88")], &["-v"]);
    assert!(full.contains("        size: 77\n") && full.contains("        size: 88\n"), "{full}");
    // What kofi itself tells are lines of the provider.
    let (code, _, log) = with(&[("FI_LOG_LEVEL", "warn"), ("FI_TCP_TX_SIZE", "0")], &[]);
    assert_eq!(code, Some(0));
    assert!(
        log.contains(":tcp:core:") && log.contains("<warn> FI_TCP_TX_SIZE=0 is no number of operations"),
        "{log}"
    );
    let directory = ours.path().join("log");
    fs::create_dir(&directory).unwrap();
    let location = ("FI_LOG_LOCATION", directory.to_str().unwrap());
    let (_, _, log) = with(&[("FI_LOG_LEVEL", "info"), location], &["-t", "FI_EP_RDM"]);
    assert_eq!(log.lines().count(), 1, "{log}");
    let files: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    assert!(fs::read_to_string(&files[0]).unwrap().contains("wanted ep_attr.type"));
}

#[test]
fn fi_strerror_says_what_stocks_does() {
    if !have("fi_strerror", "libfabric-bin") {
        return;
    }
    let ours = Installed::new("fi_strerror");
    for number in ["0", "1", "11", "110", "256", "257", "261", "265", "268", "269", "1000"] {
        let (stock, ours) =
            (clean("fi_strerror").arg(number).output(), ours.command("fi_strerror").arg(number).output());
        assert_eq!(ours.unwrap().stdout, stock.unwrap().stdout, "{number}");
    }
}

/// Builds a C program of this directory against stock's headers; `None` where there are none.
fn build(name: &str, into: &Path) -> Option<String> {
    if !have("cc", "gcc") {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name).with_extension("c");
    let program = into.join(name);
    let output = run(clean("cc").args(["-Wall", "-o"]).arg(&program).arg(&source).args(["-lfabric", "-ldl"]));
    if output.status.success() {
        return Some(program.to_str().unwrap().to_owned());
    }
    let problem = text(&output.stderr);
    let absent = problem.contains("rdma/fabric.h: No such file");
    assert!(absent && std::env::var("KOFI_INTEROP").as_deref() != Ok("require"), "{problem}");
    println!("NOT TESTED: needs libfabric's headers (libfabric-dev)");
    None
}

/// A C program of this directory prints the same on both libraries.
fn prints_the_same(name: &str) {
    let ours = Installed::new(name);
    let Some(program) = build(name, ours.path()) else { return };
    let lines = |command: &mut Command| -> Vec<String> {
        let output = run(command.envs([("FI_LOG_LEVEL", "debug"), ("FI_LOG_PROV", "own")]));
        assert!(output.status.success(), "{output:?}");
        let mut lines: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
        // The log has times in it, and stock's tells of more than what the program has logged.
        let log = text(&output.stderr);
        let own = log.lines().filter(|line| line.contains(":here():42<") || line.contains(":there():43<"));
        lines.extend(own.map(|line| line.split("::").nth(1).unwrap().to_owned()));
        // What is younger than the installed library.
        let younger = ["max_ep_auth_key", "max_group_id", "max_cntr", "max_err_cntr", "max_xpu", "xpu_ctx"];
        lines.retain(|line| !younger.iter().any(|name| line.trim_start().starts_with(name)));
        lines
    };
    let (stock, ours) = (lines(&mut clean(&program)), lines(&mut ours.command(&program)));
    for (stock, ours) in stock.iter().zip(&ours) {
        assert_eq!(ours, stock);
    }
    assert_eq!(ours.len(), stock.len());
}

#[test]
fn functions_print_what_stocks_do() {
    prints_the_same("library");
}

#[test]
fn hints_give_and_refuse_what_stocks_do() {
    prints_the_same("hints");
}

/// `fi_pingpong` between two programs, each on its library.
fn ping_pong(server: fn(&Installed) -> Command, client: fn(&Installed) -> Command, name: &str) {
    if have("fi_pingpong", "libfabric-bin") {
        let ours = Installed::new(name);
        common::ping_pong(|| server(&ours), || client(&ours), &["-p", "tcp", "-e", "msg"]);
    }
}

fn on_ours(ours: &Installed) -> Command {
    ours.command("fi_pingpong")
}

fn on_stock(_: &Installed) -> Command {
    clean("fi_pingpong")
}

#[test]
fn fi_pingpong_both_ends() {
    ping_pong(on_ours, on_ours, "pingpong-both");
}

#[test]
fn fi_pingpong_as_client_of_stock() {
    ping_pong(on_stock, on_ours, "pingpong-client");
}

#[test]
fn fi_pingpong_as_server_of_stock() {
    ping_pong(on_ours, on_stock, "pingpong-server");
}

/// A program and a library of its can have a copy each.
#[test]
fn two_copies_in_one_process() {
    let ours = Installed::new("copies");
    let Some(program) = build("copies", ours.path()) else { return };
    let copies = ["one.so", "other.so"].map(|name| ours.path().join(name));
    for copy in &copies {
        fs::copy(common::library(), copy).unwrap();
    }
    let output = run(clean(&program).args(&copies));
    let said = "hello, 1 threads more\n0 threads more, signals as before\n";
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), (said, Some(0)), "{output:?}");
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `kofi bench`: that it runs, and what it says; never how long anything takes.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::time::Duration;

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use serde_json::Value;

/// A command that is not done by then hangs.
const LIMIT: Duration = Duration::from_secs(120);

fn bench(arguments: &[&str]) -> Assert {
    Command::new(env!("CARGO_BIN_EXE_kofi"))
        .arg("bench")
        .args(arguments)
        .env_remove("FI_TCP_IFACE")
        .timeout(LIMIT)
        .assert()
}

fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

#[test]
fn latency_as_json() {
    let assert = bench(&["--quick", "--only", "latency", "--json", "--no-stock"]).success();
    let report: Value = serde_json::from_str(&stdout(&assert)).unwrap();
    assert_eq!(report["quick"], true);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5 * 3, "median, p99 and p99.9 of five sizes");
    for row in rows {
        assert_eq!(
            (&row["group"], &row["unit"], &row["better"]),
            (&"latency".into(), &"us".into(), &"lower".into())
        );
        for member in ["kofi", "plain", "kofi/plain"] {
            let series = &row[member];
            let get =
                |key: &str| series[key].as_f64().unwrap_or_else(|| panic!("no {key} of {member} in {row}"));
            assert!(0.0 < get("min") && get("min") <= get("median") && get("median") <= get("max"), "{row}");
            assert_eq!(series["rounds"].as_array().unwrap().len(), 3, "{row}");
        }
        assert!(row["stock"].is_null() && row["kofi/stock"].is_null(), "{row}");
        assert!(!row["ways"]["plain"].as_str().unwrap().is_empty(), "{row}");
    }
    let medians =
        rows.iter().filter(|row| row["metric"] == "median").map(|row| row["case"].as_str().unwrap());
    assert_eq!(medians.collect::<Vec<_>>(), ["8 B", "64 B", "4 KiB", "64 KiB", "1 MiB"]);
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = stdout(&bench(&["--help"]).success());
    for part in ["Usage:", "Examples:", "Exit codes: 0", "--only <NAME>"] {
        assert!(help.contains(part), "no {part:?} in\n{help}");
    }
    assert!(!help.contains("--worker"), "{help}");
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [&["--only", "nonsense"][..], &["--no-stock", "--stock-lib", "x"]] {
        let assert = bench(arguments).code(2);
        assert!(!assert.get_output().stderr.is_empty());
    }
}

#[test]
fn a_picture_needs_something_to_draw() {
    let assert = bench(&["--quick", "--only", "idle", "--svg", "unused.svg"]).code(1);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.starts_with("kofi: ") && text.lines().count() == 1, "{text:?}");
}

#[test]
fn a_library_that_is_not_there_is_named() {
    let assert = bench(&["--quick", "--only", "latency", "--stock-lib", "nowhere/libfabric.so"]).code(1);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.contains("nowhere/libfabric.so") && text.lines().count() == 1, "{text:?}");
}

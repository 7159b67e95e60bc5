// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask fuzz`: runs the fuzz targets in `fuzz/`, by cargo-fuzz.
//!
//! libFuzzer and its instrumentation come with the stable toolchain, but as options that only a nightly one takes;
//! RUSTC_BOOTSTRAP lets a stable rustc accept them. Its AddressSanitizer comes with rustup's toolchains. Where it
//! is missing (a distribution's rustc), the targets are built without: core has no unsafe code, so that what they
//! look for are panics, overflows, broken promises and hangs.

use core::fmt;
use core::time::Duration;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{process, sanitize, setup, workspace};

/// The targets' own workspace.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";

/// Building takes no longer, nor does loading the corpus.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long to run each target
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Only this target; more than one may be named
    #[arg(long, value_name = "T")]
    target: Vec<String>,
    /// Run only this input, as a failure report names it, and show what happens
    #[arg(long, value_name = "FILE", requires = "target")]
    input: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let tools = [&setup::CXX, &setup::CARGO_FUZZ];
    setup::provide(&tools);
    if let Some(why) = tools.iter().find_map(|tool| tool.missing()) {
        return Err(why);
    }
    let targets = targets(&options.target)?;
    if let Some(input) = &options.input {
        return targets.iter().try_for_each(|target| process::run(cargo_fuzz(&["run", target])?.arg(input)));
    }
    process::run(&mut cargo_fuzz(&["build"])?)?;
    let found: Vec<String> =
        targets.iter().filter_map(|target| fuzz(target, options.seconds).err()).collect();
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// The targets to run: all there are, or those that were named.
fn targets(named: &[String]) -> Result<Vec<String>, String> {
    let directory = workspace::root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&directory);
    let entries = entries.map_err(|why| format!("cannot list {}: {why}", directory.display()))?;
    let mut all: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    all.sort();
    match named.iter().find(|name| !all.contains(name)) {
        Some(name) => Err(format!("there is no target {name}; there are {}", all.join(", "))),
        None if named.is_empty() => Ok(all),
        None => Ok(named.to_vec()),
    }
}

fn cargo_fuzz(arguments: &[&str]) -> Result<Command, String> {
    let sanitizer = if sanitize::has_runtime()? { "address" } else { "none" };
    let mut cargo = workspace::cargo();
    cargo
        .env("RUSTC_BOOTSTRAP", "1")
        .arg("fuzz")
        .args(arguments)
        .args(["--fuzz-dir", "fuzz", "--sanitizer", sanitizer])
        // Its own directory: other flags would rebuild everything at each change of sides.
        .arg("--target-dir")
        .arg(workspace::target_dir().join("fuzz"));
    Ok(cargo)
}

/// Runs one target and prints what came of it; an error says how to see it again.
fn fuzz(target: &str, seconds: u64) -> Result<(), String> {
    // What is found goes where builds go; what the repository has is only read.
    let found = workspace::target_dir().join("fuzz/corpus").join(target);
    fs::create_dir_all(&found).map_err(|why| format!("cannot make {}: {why}", found.display()))?;
    let path = found.with_extension("log");
    let log = File::create(&path).map_err(|why| format!("cannot write {}: {why}", path.display()))?;
    let mut command = cargo_fuzz(&["run", target])?;
    command.arg(found).arg(Path::new("fuzz/corpus").join(target)).args([
        "--",
        "-print_final_stats=1",
        // Nothing here takes long, or much memory: a peer that can make it so has won.
        "-timeout=20",
        "-malloc_limit_mb=64",
        &format!("-max_total_time={seconds}"),
    ]);
    let ended = process::run_logged(&mut command, &log, Duration::from_secs(seconds) + PATIENCE);
    // What cannot be read is missing from the report.
    let output = fs::read(&path).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    let why = match ended {
        Ok(()) => {
            println!("{target:<10} {}", Summary::of(&output));
            return Ok(());
        }
        Err(why) => why,
    };
    println!("{target:<10} FAILED");
    let lines: Vec<&str> = output.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(100)).for_each(|line| println!("    {line}"));
    Err(match artifact(&output) {
        Some(file) => {
            format!("{target} fails; to see it again: cargo xtask fuzz --target {target} --input {file}")
        }
        None => format!("{target} fails: {why}"),
    })
}

/// Where libFuzzer has put the input that failed, from the root.
fn artifact(output: &str) -> Option<&str> {
    let line = output.lines().find_map(|line| line.split_once("Test unit written to "))?.1;
    Some(line.find("fuzz/artifacts/").map_or(line, |at| &line[at..]))
}

/// What libFuzzer says at its end.
#[derive(PartialEq, Eq, Debug)]
struct Summary<'a> {
    executions: &'a str,
    rate: &'a str,
    features: &'a str,
    inputs: &'a str,
}

impl<'a> Summary<'a> {
    fn of(output: &'a str) -> Self {
        let statistic = |name| {
            let value = output.lines().rev().find_map(|line| line.strip_prefix(name));
            value.map_or("?", str::trim)
        };
        // "#576226 DONE   cov: 198 ft: 459 corp: 57/4307b …"
        let done = output.lines().rev().find(|line| line.starts_with('#') && line.contains(" ft: "));
        let features = done.and_then(|line| line.split_once(" ft: ")?.1.split_whitespace().next());
        Self {
            executions: statistic("stat::number_of_executed_units:"),
            rate: statistic("stat::average_exec_per_sec:"),
            features: features.unwrap_or("?"),
            inputs: statistic("stat::new_units_added:"),
        }
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executions, rate, features, inputs } = self;
        write!(f, "{executions:>10} executions {rate:>7}/s {features:>6} features {inputs:>5} new inputs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_says_is_read() {
        let output = "#2\tINITED cov: 2 ft: 3 corp: 1/1b\n\
            #576226\tDONE   cov: 198 ft: 459 corp: 57/4307b lim: 4096 exec/s: 64025 rss: 340Mb\n\
            Done 576226 runs in 9 second(s)\n\
            stat::number_of_executed_units: 576226\n\
            stat::average_exec_per_sec:     64025\n\
            stat::new_units_added:          12\n";
        let wanted = Summary { executions: "576226", rate: "64025", features: "459", inputs: "12" };
        assert_eq!(Summary::of(output), wanted);
        assert_eq!(Summary::of("").features, "?");
    }

    #[test]
    fn the_input_that_failed_is_named_from_the_root() {
        let output =
            "artifact_prefix='./'; Test unit written to /x/kofi/fuzz/artifacts/cm/crash-1\nBase64: AA==\n";
        assert_eq!(artifact(output), Some("fuzz/artifacts/cm/crash-1"));
        assert_eq!(artifact("nothing"), None);
    }

    #[test]
    fn targets_are_those_of_the_manifest() {
        let manifest = fs::read_to_string(workspace::root().join(MANIFEST)).expect("the targets' manifest");
        let names = manifest.split("[[bin]]\nname = \"").skip(1).filter_map(|rest| rest.split('"').next());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        assert_eq!(targets(&[]).expect("targets"), names);
        assert!(targets(&["x".to_owned()]).is_err());
    }
}

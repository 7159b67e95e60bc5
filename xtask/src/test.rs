// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask test`: every check and every test, one line each, all of them even if one fails.

use core::time::Duration;
use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::setup::{self, Tool};
use crate::{c_tests, fuzz, kernel, process, shuttle, sim, workspace};

/// A step that is not done by then hangs.
const LIMIT: Duration = Duration::from_secs(15 * 60);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many simulator schedules to run from the fixed seeds, and as many again from a fresh one
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    schedules: u32,
    /// Run the second half of the schedules from this seed, instead of from a fresh one
    #[arg(long, value_name = "S")]
    seed: Option<String>,
    /// Install nothing: use the packages that this machine has
    #[arg(long)]
    offline_packages: bool,
    /// Count a step whose tool cannot be had as failed, not as skipped
    #[arg(long)]
    require_all: bool,
}

struct Step {
    name: String,
    needs: &'static [&'static Tool],
    commands: Vec<Command>,
}

enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let start = Instant::now();
    if !options.offline_packages {
        setup::run()?;
    }
    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), 0);
    for mut step in steps(options)? {
        print!("{:<37} ", step.name);
        // A terminal should show what is running; that it cannot is no reason to stop.
        let _ = io::stdout().flush();
        let begun = Instant::now();
        let mut outcome = step.run();
        if let (Outcome::Skipped(why), true) = (&outcome, options.require_all) {
            outcome = Outcome::Failed(why.clone());
        }
        let seconds = begun.elapsed().as_secs_f32();
        match outcome {
            Outcome::Passed => {
                println!("ok       {seconds:6.1} s");
                passed += 1;
            }
            Outcome::Skipped(why) => {
                println!("skipped: {why}");
                skipped += 1;
            }
            Outcome::Failed(why) => {
                println!("FAILED   {seconds:6.1} s\n{why}");
                failed.push(step.name);
            }
        }
    }
    let seconds = start.elapsed().as_secs();
    println!("kofi tests: {passed} steps passed, {} failed, {skipped} skipped in {seconds} s", failed.len());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn steps(options: &Options) -> Result<Vec<Step>, String> {
    let own = env::current_exe().map_err(|why| format!("cannot find xtask's own program: {why}"))?;
    let xtask = |command: &str| {
        let mut run = Command::new(&own);
        run.current_dir(workspace::root()).arg(command);
        run
    };
    let cargo = |arguments: &[&str]| {
        let mut run = workspace::cargo();
        run.args(arguments);
        run
    };
    let step = |name: &str, needs, command| Step { name: name.to_owned(), needs, commands: vec![command] };

    let schedules = Some(options.schedules);
    let seed = options.seed.clone().map_or_else(fresh_seed, Ok)?;
    let simulator = Step {
        name: format!("simulator (seed {seed})"),
        needs: &[],
        commands: vec![
            sim::command(&sim::Options { schedules, fixed: true, ..sim::Options::default() }),
            sim::command(&sim::Options { schedules, from: Some(seed), ..sim::Options::default() }),
        ],
    };
    // These two are no members of the workspace, so nothing else looks at them.
    let shuttle = Step {
        name: "waiting in any order of threads".to_owned(),
        needs: &[&setup::RUSTFMT, &setup::CLIPPY],
        commands: vec![
            cargo(&["fmt", "--manifest-path", shuttle::MANIFEST, "--check"]),
            cargo(
                &[
                    &["clippy", "--all-targets", "--manifest-path", shuttle::MANIFEST][..],
                    &["--", "-D", "warnings"],
                ]
                .concat(),
            ),
            shuttle::command(&shuttle::Options::default()),
        ],
    };
    let fuzz = Step {
        name: "fuzz targets (10 s each)".to_owned(),
        needs: &[&setup::RUSTFMT, &setup::CLIPPY, &setup::CXX, &setup::CARGO_FUZZ],
        commands: vec![
            cargo(&["fmt", "--manifest-path", fuzz::MANIFEST, "--check"]),
            cargo(
                &[
                    &["clippy", "--all-targets", "--manifest-path", fuzz::MANIFEST][..],
                    &["--", "-D", "warnings"],
                ]
                .concat(),
            ),
            cargo(&["test", "--manifest-path", fuzz::MANIFEST]),
            {
                let mut run = xtask("fuzz");
                run.args(["--seconds", "10"]);
                run
            },
        ],
    };
    let packages =
        ["-p", "kofi-cli", "--test", "interop", "-p", "kofi-conformance", "--test", "remote_memory"];
    let mut interop = cargo(&[&["test", "--release"], &packages[..]].concat());
    interop.env("KOFI_INTEROP", "require");
    let packages = ["-p", "kofi-abi", "-p", "kofi-libfabric", "-p", "kofi-plugin"];
    let mut libraries = cargo(&[&["test", "--release", "--no-fail-fast"], &packages[..]].concat());
    libraries.env("KOFI_INTEROP", "require");
    let c_abi = Step {
        name: "C ABI, with stock's programs".to_owned(),
        needs: &[&setup::STOCK_PROGRAMS, &setup::STOCK_HEADERS],
        commands: vec![libraries, {
            let mut run = xtask("install");
            run.arg("--check");
            run
        }],
    };
    let c_programs = |arguments: &[&str]| {
        let mut run = xtask("c-tests");
        run.args(arguments);
        run
    };
    let two_processes = ["programs/deck", "programs/rma"];
    let c_programs = Step {
        name: "C programs, on ours and on stock".to_owned(),
        needs: &[&setup::STOCK_HEADERS],
        commands: vec![
            c_programs(&[]),
            c_programs(&["--stock", "programs/"]),
            c_programs(&[&["--stock-peer"], &two_processes[..]].concat()),
            {
                let mut run = c_programs(&[&["--stock"], &two_processes[..]].concat());
                run.arg("--peer").arg(c_tests::own_directory());
                run
            },
        ],
    };
    // Containers mostly forbid it, also to root: then this part is left out, and that is said.
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
    if process::succeeds(Command::new("unshare").args(["-rn", "true"])) {
        tests.env("KOFI_NETNS", "require");
    } else {
        println!("NOT TESTED: peers behind a black hole, since `unshare -rn` gives no network here");
    }
    // It is no member of the workspace either, and built for no operating system; to look at it, this one does.
    let mut look = cargo(&["clippy", "--manifest-path", kernel::MANIFEST, "--target-dir"]);
    look.arg(workspace::target_dir().join("kernel/look")).args(["--", "-D", "warnings"]);
    look.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Cpanic=abort");
    let kernel_source = Step {
        name: "kernel module's Rust part".to_owned(),
        needs: &[&setup::RUSTFMT, &setup::CLIPPY],
        commands: vec![cargo(&["fmt", "--manifest-path", kernel::MANIFEST, "--check"]), look],
    };
    let mut docs = cargo(&["doc", "--workspace", "--no-deps", "--lib"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");

    Ok(vec![
        step("source tree", &[], xtask("tree")),
        step("format", &[&setup::RUSTFMT], cargo(&["fmt", "--all", "--check"])),
        step(
            "clippy",
            &[&setup::CLIPPY],
            cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]),
        ),
        step("core without an operating system", &[&setup::RUST_SOURCE], xtask("freestanding")),
        step("workspace tests", &[], tests),
        step("futures on tokio and async-io", &[], cargo(&["test", "-p", "kofi", "--all-features"])),
        simulator,
        shuttle,
        fuzz,
        step("stock libfabric", &[&setup::STOCK_PROGRAMS, &setup::STOCK_HEADERS], interop),
        c_abi,
        c_programs,
        step("tour", &[], cargo(&["run", "--release"])),
        kernel_source,
        step("kernel module in virtual machines", &kernel::TOOLS, {
            let mut run = xtask("kernel");
            run.args(["test", "--offline-packages"]);
            run
        }),
        step("documentation", &[], docs),
    ])
}

/// A seed that no run had before; it is printed, and that is enough to run the same schedules again.
fn fresh_seed() -> Result<String, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_err(|_| "the clock is before 1970: set it, or give --seed")?;
    Ok(now.as_nanos().to_string())
}

impl Step {
    fn run(&mut self) -> Outcome {
        if let Some(why) = self.needs.iter().find_map(|tool| tool.missing()) {
            return Outcome::Skipped(why);
        }
        let path = workspace::target_dir().join("xtask.log");
        for command in &mut self.commands {
            let ended = File::create(&path)
                .map_err(|why| format!("cannot write {}: {why}", path.display()))
                .and_then(|log| process::run_logged(command, &log, LIMIT));
            if let Err(why) = ended {
                // Whatever cannot be read is missing from the report, not from the count.
                let output = fs::read(&path).unwrap_or_default();
                return Outcome::Failed(format!("{}\n{why}", String::from_utf8_lossy(&output).trim_end()));
            }
        }
        Outcome::Passed
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask sim`: passes on to the simulator, in release mode.

use std::process::Command;

use crate::{process, workspace};

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// How many schedules to run, each from its own seed [default: the simulator's]
    #[arg(long, value_name = "N")]
    pub(crate) schedules: Option<u32>,
    /// The first schedule's seed [default: one that no run had before]
    #[arg(long, value_name = "S", conflicts_with_all = ["seed", "fixed"])]
    pub(crate) from: Option<String>,
    /// The same seeds every time
    #[arg(long, conflicts_with = "seed")]
    pub(crate) fixed: bool,
    /// Run only the schedule of this seed, as a failure report prints it, and show what happens
    #[arg(long, value_name = "S", conflicts_with = "schedules")]
    pub(crate) seed: Option<String>,
}

/// The command that runs the simulator.
pub(crate) fn command(options: &Options) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(["run", "--quiet", "--release", "-p", "kofi-conformance", "--bin", "kofi-sim", "--"]);
    if let Some(schedules) = options.schedules {
        cargo.arg("--schedules").arg(schedules.to_string());
    }
    if options.fixed {
        cargo.arg("--fixed");
    }
    for (name, seed) in [("--from", &options.from), ("--seed", &options.seed)] {
        if let Some(seed) = seed {
            cargo.arg(name).arg(seed);
        }
    }
    cargo
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    process::run(&mut command(options))
}

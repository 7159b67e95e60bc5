// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask sim`: passes on to the simulator, in release mode.

use std::process::Command;

use crate::{process, workspace};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many schedules to run, each from its own seed [default: the simulator's]
    #[arg(long, value_name = "N")]
    pub(crate) schedules: Option<u32>,
    /// The first schedule's seed, as a failure report prints it [default: the simulator's fixed seeds]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<String>,
}

/// The command that runs the simulator.
pub(crate) fn command(options: &Options) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(["run", "--quiet", "--release", "-p", "kofi-conformance", "--bin", "kofi-sim", "--"]);
    if let Some(schedules) = options.schedules {
        cargo.arg("--schedules").arg(schedules.to_string());
    }
    if let Some(seed) = &options.seed {
        cargo.arg("--seed").arg(seed);
    }
    cargo
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    process::run(&mut command(options))
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask shuttle`: runs the models in `shuttle/`, a workspace of its own.

use std::process::Command;

use crate::{process, workspace};

pub(crate) const MANIFEST: &str = "shuttle/Cargo.toml";

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// How many schedules to run of each scenario, by each of the schedulers [default: 2000]
    #[arg(long, value_name = "N")]
    schedules: Option<u32>,
}

/// The command that runs them.
pub(crate) fn command(options: &Options) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--quiet", "--manifest-path", MANIFEST]);
    if let Some(schedules) = options.schedules {
        cargo.env("KOFI_SHUTTLE_SCHEDULES", schedules.to_string());
    }
    cargo
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    process::run(&mut command(options))
}

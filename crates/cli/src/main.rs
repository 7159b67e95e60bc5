// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The `kofi` command.

mod bench;
mod failure;
mod info;
mod pingpong;
mod tour;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXIT_CODES: &str = "Exit codes: 0 success, 1 failure at run time, 2 wrong usage.";

/// Open Fabrics Interfaces, shown, explained and measured
///
/// Without a command, kofi takes the tour.
#[derive(Parser)]
#[command(name = "kofi", version, args_conflicts_with_subcommands = true, after_help = EXIT_CODES)]
struct Kofi {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    tour: tour::Options,
}

#[derive(Subcommand)]
enum Command {
    Tour(tour::Options),
    Info(Box<info::Options>),
    Pingpong(pingpong::Options),
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let kofi = Kofi::parse();
    let result = match kofi.command {
        None => tour::run(&kofi.tour),
        Some(Command::Tour(options)) => tour::run(&options),
        Some(Command::Info(options)) => info::run(&options),
        Some(Command::Pingpong(options)) => pingpong::run(&options),
        Some(Command::Bench(options)) => bench::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

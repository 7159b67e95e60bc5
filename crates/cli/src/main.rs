// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The `kofi` command.

mod bench;
mod failure;
mod info;
mod log;
mod pingpong;
mod tour;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

const AFTER_HELP: &str = "\
Environment (KOFI_LOG is the command's own, the others are the library's):
  FI_TCP_IFACE               the only network interface to use, such as eth0
  FI_TCP_PORT_LOW_RANGE      with the next: ports to listen on where any may be taken
  FI_TCP_PORT_HIGH_RANGE     the last one of them
  KOFI_CONNECT_TIMEOUT_MS    longest wait for a server's answer to a connection request [10000]
  KOFI_HANDSHAKE_TIMEOUT_MS  longest wait of a server for a client's whole request [10000]
  KOFI_DECISION_TIMEOUT_MS   how long a request may wait to be accepted or rejected [0]
  KOFI_SHUTDOWN_TIMEOUT_MS   how long a shutdown tries to deliver what was sent before [5000]
  KOFI_KEEPALIVE_MS          silence after which a peer is asked for a sign of life [30000]
  KOFI_PEER_TIMEOUT_MS       how long it may leave that, or what it was sent, unanswered [30000]
  KOFI_LIVE                  1: the process shows its objects to kofi info --live [0]
  KOFI_LOG                   what stderr tells: off, error, warn, info, debug or trace [warn]
Times are in milliseconds; 0 is without limit.

Exit codes: 0 success, 1 failure at run time, 2 wrong usage.";

/// Open Fabrics Interfaces, shown, explained and measured
///
/// Without a command, kofi takes the tour.
#[derive(Parser)]
#[command(name = "kofi", version, after_help = AFTER_HELP)]
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

/// Reads the command line. The tour's options may stand alone, but not before a command, with the
/// exception of `--json`, which all commands have.
fn parse() -> Result<Kofi, clap::Error> {
    let mut command = Kofi::command();
    let matches = command.get_matches_mut();
    let conflict = if matches.subcommand_name().is_some() {
        let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let mut tours = command.get_arguments().filter(|arg| !arg.is_global_set());
        tours.find(|arg| given(arg.get_id().as_str())).and_then(|arg| arg.get_long()).map(|long| {
            format!("--{long} is an option of the tour, not of every command: kofi tour --{long}")
        })
    } else {
        None
    };
    if let Some(conflict) = conflict {
        return Err(command.error(ErrorKind::ArgumentConflict, conflict));
    }
    let kofi = Kofi::from_arg_matches(&matches)?;
    match &kofi.command {
        // Clap finds conflicts only among what stands on the same side of the command's name.
        Some(Command::Info(options)) if options.conflict() => {
            let text = "the argument '--json' cannot be used with '--verbose'";
            Err(command.error(ErrorKind::ArgumentConflict, text))
        }
        _ => Ok(kofi),
    }
}

fn main() -> ExitCode {
    let kofi = parse().unwrap_or_else(|error| error.exit());
    log::start();
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

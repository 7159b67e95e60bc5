// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask <command>`: kofi's one entry point for building, testing and checking.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod c_tests;
mod fabtests;
mod freestanding;
mod fuzz;
mod install;
mod kernel;
mod kernel_debug;
mod process;
mod sanitize;
mod setup;
mod shuttle;
mod sim;
mod test;
mod tree;
mod valgrind;
mod workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Builds, tests and checks kofi", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the tests need and this machine lacks (Debian packages, cargo-fuzz)
    Setup,
    /// Set up, then run every check and every test; ends with one summary line
    Test(test::Options),
    /// Run the simulator: the machine that also runs in kofi and in the kernel, over a network made from a seed
    Sim(sim::Options),
    /// Run the C programs of tests/c over our libfabric.so.1, stock's, or any
    CTests(c_tests::Options),
    /// Run libfabric's own test programs (fetched, not part of kofi) over our libfabric.so.1, or stock's
    Fabtests(fabtests::Options),
    /// Let libFuzzer look for bytes of a peer that break something
    Fuzz(fuzz::Options),
    /// Check waiting and waking against a model of threads and system calls, in many orders
    Shuttle(shuttle::Options),
    /// Run the tests with AddressSanitizer
    Sanitize,
    /// Run the tests under valgrind
    Valgrind,
    /// Build libfabric.so.1, the provider for stock libfabric and the command, and install them
    Install(install::Options),
    /// Make a Debian package of the same, beside the distribution's libfabric (cargo-deb)
    Deb,
    /// Build kofi-core as the kernel module uses it: no std, no operating system (x86_64-unknown-none)
    Freestanding,
    /// Build the kernel module, or test it in virtual machines
    #[command(subcommand)]
    Kernel(kernel::Options),
    /// Check the source tree: licence lines, no path of a developer's machine, unsafe code only where allowed
    Tree,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Setup => setup::run(),
        Command::Test(options) => test::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::CTests(options) => c_tests::run(&options),
        Command::Fabtests(options) => fabtests::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Shuttle(options) => shuttle::run(&options),
        Command::Sanitize => sanitize::run(),
        Command::Valgrind => valgrind::run(),
        Command::Install(options) => install::run(&options),
        Command::Deb => install::deb(),
        Command::Freestanding => freestanding::run(),
        Command::Kernel(options) => kernel::run(&options),
        Command::Tree => tree::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask kernel debug`: the kernel module's tests on a kernel that looks for mistakes.
//!
//! The kernel is Debian's source with the options of `kernel/tests/debug.config`: KASAN, lockdep, kmemleak, debug objects, and faults
//! on demand. The Rust part is built for KASAN, too, so that its unsafe code is watched like C. What is built stays in
//! `target/kernel/debug`. How deep the stack gets is measured on a stock kernel, since KASAN makes it deeper.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::kernel::{self, Kernel, Machine, Settings, package};
use crate::setup::{KERNEL_SOURCE, KERNEL_SOURCE_ARCHIVE};
use crate::{process, setup, workspace};

/// All is five to ten times as slow as on a stock kernel.
const MACHINE: Settings = Settings {
    memory: 3072,
    // Parameters that the kernel does not know are the environment of its first program. How fast the time-stamp counter is cannot be
    // measured on a busy machine: then the time of a slow one goes too fast. ACPI's program that tells which interrupt is whose takes
    // longer than it may.
    parameters: "slow=8 clocksource=hpet pci=noacpi kmemleak=on slub_debug=FZPU \
                 rcupdate.rcu_cpu_stall_timeout=120 workqueue.watchdog_thresh=120 watchdog_thresh=60",
    limit: Duration::from_secs(5400),
    scripts: &["vm.sh", "apart.sh", "clients.sh", "debug.sh"],
};

/// For a stock kernel with its stack tracer, whose stacks begin at the same depth each time.
const STACK: Settings = Settings {
    memory: 1024,
    parameters: "randomize_kstack_offset=off",
    limit: Duration::from_secs(400),
    scripts: &["stack.sh", "apart.sh"],
};

/// KASAN's calls for each access, where the kernel has them; stacks and globals of safe code need no red zones.
const KASAN: &str = "-Zsanitizer=kernel-address -Cllvm-args=-asan-mapping-offset=0xdffffc0000000000 \
    -Cllvm-args=-asan-instrumentation-with-call-threshold=0 -Cllvm-args=-asan-stack=0 -Cllvm-args=-asan-globals=0";

/// The directory in the archive.
const SOURCE: &str = "linux-source-6.12";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Install nothing: use the packages that this machine has
    #[arg(long)]
    offline_packages: bool,
    /// Show everything that the machine prints
    #[arg(long)]
    verbose: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    if !options.offline_packages {
        setup::provide(&kernel::TOOLS);
        setup::provide(&[&KERNEL_SOURCE]);
    }
    if let Some(why) = kernel::TOOLS.into_iter().chain([&KERNEL_SOURCE]).find_map(|tool| tool.missing()) {
        return Err(why);
    }
    let stock = Kernel::installed().into_iter().rfind(|kernel| kernel.image.is_file());
    let stock = stock
        .ok_or("no kernel to measure the stack on: none in /lib/modules has headers and an image in /boot")?;
    let kernel = build()?;
    let (mut passed, mut failed) = (0, 0);
    for (kernel, rust, settings) in
        [(stock, kernel::rust_object()?, STACK), (kernel, kernel::build_rust("rust-kasan", KASAN)?, MACHINE)]
    {
        println!("Linux {}", kernel.release);
        let modules = kernel.build(&rust)?;
        let machine = Machine::new(&kernel, &modules, &kernel::peers()?, &settings)?;
        package::install(&machine.root(), &kernel, &modules, &rust)?;
        let log = machine.run(options.verbose)?;
        let (good, bad) = kernel::judge(&log);
        passed += good;
        failed += bad;
    }
    kernel::conclude(passed, failed)
}

/// The kernel, built as far as it is not built yet.
fn build() -> Result<Kernel, String> {
    let place = kernel::target().join("debug");
    let source = unpack(&place)?;
    configure(&source)?;
    println!("building the kernel in {}: long, when it is for the first time", source.display());
    let jobs = thread::available_parallelism().map_or(1, Into::into);
    process::run(make(&source).arg(format!("-j{jobs}")).args(["bzImage", "modules"]))?;
    let release = process::stdout(make(&source).arg("kernelrelease"))
        .ok_or("the kernel's source does not tell its release")?;
    Ok(Kernel {
        release: release.trim().to_owned(),
        image: source.join("arch/x86/boot/bzImage"),
        modules: source.join("drivers/net"),
        headers: source,
    })
}

fn make(source: &Path) -> Command {
    let mut make = Command::new("make");
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").args(["-s", "-C"]).arg(source);
    make
}

/// The source's directory. A tree that is half unpacked is none.
fn unpack(place: &Path) -> Result<PathBuf, String> {
    let source = place.join(SOURCE);
    if source.is_dir() {
        return Ok(source);
    }
    let part = place.join("part");
    let cannot = |why| format!("cannot unpack to {}: {why}", part.display());
    if part.exists() {
        fs::remove_dir_all(&part).map_err(cannot)?;
    }
    fs::create_dir_all(&part).map_err(cannot)?;
    let mut tar = Command::new("tar");
    process::run(tar.args(["-xJf", KERNEL_SOURCE_ARCHIVE, "-C"]).arg(&part))?;
    fs::rename(part.join(SOURCE), &source).map_err(cannot)?;
    Ok(source)
}

/// Makes the configuration, where it is not made of the present options already.
fn configure(source: &Path) -> Result<(), String> {
    let options = workspace::root().join("kernel/tests/debug.config");
    let wanted =
        fs::read_to_string(&options).map_err(|why| format!("cannot read {}: {why}", options.display()))?;
    let (used, config) = (source.join("debug.config"), source.join(".config"));
    if !fs::read_to_string(&used).is_ok_and(|used| used == wanted) || !config.is_file() {
        process::run(
            make(source).arg(format!("KCONFIG_ALLCONFIG={}", options.display())).arg("allnoconfig"),
        )?;
        fs::write(&used, &wanted).map_err(|why| format!("cannot write {}: {why}", used.display()))?;
    }
    let made =
        fs::read_to_string(&config).map_err(|why| format!("cannot read {}: {why}", config.display()))?;
    match lost(&wanted, &made) {
        Some(option) => Err(format!("the kernel does not take {option}: look what it depends on")),
        None => Ok(()),
    }
}

/// An option that did not find its way into the configuration.
fn lost<'a>(wanted: &'a str, made: &str) -> Option<&'a str> {
    wanted.lines().filter(|line| line.starts_with("CONFIG_")).find(|line| {
        let line = match line.strip_suffix("=n") {
            Some(name) => format!("# {name} is not set"),
            None => (*line).to_owned(),
        };
        !made.lines().any(|made| made == line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_lost_are_found() {
        let made = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=m\n";
        assert_eq!(lost("# CONFIG_X=y\nCONFIG_A=y\nCONFIG_B=n\nCONFIG_C=m\n", made), None);
        assert_eq!(lost("CONFIG_A=y\nCONFIG_C=y\n", made), Some("CONFIG_C=y"));
    }
}

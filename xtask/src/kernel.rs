// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask kernel`: builds kofi.ko for kernels whose headers are installed, and tests it in virtual machines.
//!
//! The machines are QEMU's, by software emulation: never by KVM, which can be there and not work. They have a few files in
//! memory and nothing else: the modules, the programs of the tests with their libraries, and busybox.

use core::time::Duration;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::Tool;
use crate::{kernel_debug, process, setup, workspace};

pub(crate) mod package;

/// The Rust part, which is no member of the workspace.
pub(crate) const MANIFEST: &str = "kernel/rust/Cargo.toml";

/// What it needs. Each kernel is a tool of its own: one that cannot be had is no reason not to test on the other.
pub(crate) const TOOLS: [&Tool; 6] = [
    &setup::RUST_SOURCE,
    &setup::STOCK_HEADERS,
    &setup::STOCK_PROGRAMS,
    &setup::KERNEL_BUILD,
    &setup::MACHINE,
    &setup::DKMS,
];

/// Bytes of the stack that one function of the Rust part may take: calls of ours go two such deep at most.
const MOST_STACK: u64 = 4096;

/// What in a kernel's log no test may cause.
const BAD: [&str; 12] = [
    "BUG:",
    "kernel BUG",
    "Oops",
    "WARNING:",
    "Kernel panic",
    "blocked for more than",
    "RUST PANIC",
    "LEAK:",
    "soft lockup",
    // Of debug kernels.
    "INFO: trying to register",
    "INFO: rcu",
    "unreferenced object",
];

#[derive(clap::Subcommand)]
pub(crate) enum Options {
    /// Build kofi.ko
    Build {
        /// Headers of a kernel, 6.1 or later; as often as wanted [every kernel in /lib/modules that has headers]
        #[arg(long, value_name = "DIRECTORY")]
        kdir: Vec<PathBuf>,
    },
    /// Make a directory for DKMS, with the Rust part built: who builds kofi.ko from it needs no Rust
    Dkms {
        /// Where to make it, as kofi-VERSION
        #[arg(long, value_name = "DIRECTORY")]
        out: PathBuf,
    },
    /// Build it, and run the tests on each kernel in a virtual machine
    Test {
        /// Only this kernel, of those in /lib/modules
        #[arg(long, value_name = "RELEASE")]
        kernel: Option<String>,
        /// Install nothing: use the packages that this machine has
        #[arg(long)]
        offline_packages: bool,
        /// Show everything that the machines print
        #[arg(long)]
        verbose: bool,
    },
    /// Build a kernel that looks for mistakes (KASAN, lockdep, kmemleak and others), and run the tests on it; takes an hour at first
    Debug(kernel_debug::Options),
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    match options {
        Options::Build { kdir } => build(kdir),
        Options::Dkms { out } => {
            println!("{}", package::dkms(out, &rust_object()?)?.display());
            Ok(())
        }
        Options::Test { kernel, offline_packages, verbose } => {
            if !offline_packages {
                setup::provide(&TOOLS);
                setup::provide(&[&setup::KERNEL_6_1, &setup::KERNEL_6_12]);
            }
            test(kernel.as_deref(), *verbose)
        }
        Options::Debug(options) => kernel_debug::run(options),
    }
}

/// A kernel that modules can be built for.
pub(crate) struct Kernel {
    pub(crate) release: String,
    pub(crate) headers: PathBuf,
    /// What boots.
    pub(crate) image: PathBuf,
    /// Where its own modules are.
    pub(crate) modules: PathBuf,
}

impl Kernel {
    /// Those of this machine, oldest first.
    pub(crate) fn installed() -> Vec<Self> {
        let mut found: Vec<Self> = fs::read_dir("/lib/modules")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| {
                let release = entry.file_name().to_string_lossy().into_owned();
                let image = PathBuf::from(format!("/boot/vmlinuz-{release}"));
                Self { release, headers: entry.path().join("build"), image, modules: entry.path() }
            })
            .filter(|kernel| kernel.headers.join("Makefile").is_file())
            .collect();
        found.sort_by_key(|kernel| version(&kernel.release));
        found
    }

    /// Builds the modules, in a copy of `kernel/`, since several kernels cannot share one. Gives the directory.
    pub(crate) fn build(&self, rust: &Path) -> Result<PathBuf, String> {
        let directory = target().join(&self.release);
        copy(&workspace::root().join("kernel"), &directory)?;
        let output = self.make(&directory, rust).args(["modules", "KOFI_TESTS=1"]).output();
        let output = output.map_err(|why| format!("cannot run make: {why}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        // One that Debian's headers cannot do without a vmlinux, and no loss.
        let said: Vec<&str> =
            said.lines().filter(|line| !line.starts_with("Skipping BTF generation")).collect();
        if !output.status.success() || !said.is_empty() {
            return Err(format!("kofi.ko for {} does not build cleanly:\n{}", self.release, said.join("\n")));
        }
        Ok(directory)
    }

    /// make in a copy of `kernel/`, with that Rust part.
    fn make(&self, directory: &Path, rust: &Path) -> Command {
        let mut make = Command::new("make");
        // What runs us may be make itself, whose variables are not for this one.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        make.args(["-s", "-C"]).arg(directory);
        make.arg(format!("KDIR={}", self.headers.display()));
        make.arg(format!("KOFI_RUST_OBJECT={}", rust.display()));
        make
    }
}

/// Major and minor number of a release, and all of it.
fn version(release: &str) -> (u32, u32, String) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0), release.to_owned())
}

pub(crate) fn target() -> PathBuf {
    workspace::target_dir().join("kernel")
}

/// The Rust part, which is the same for all kernels.
pub(crate) fn rust_object() -> Result<PathBuf, String> {
    let object = build_rust("rust", "")?;
    check_stack(&object)?;
    Ok(object)
}

/// Builds the Rust part by that name, with these flags besides.
pub(crate) fn build_rust(name: &str, flags: &str) -> Result<PathBuf, String> {
    let target = target();
    fs::create_dir_all(&target).map_err(|why| format!("cannot make {}: {why}", target.display()))?;
    let object = target.join(format!("{name}.o"));
    let mut build = Command::new("sh");
    build.arg(workspace::root().join("kernel/build-rust.sh")).arg(&object).arg(target.join(name));
    process::run(build.env("KOFI_RUST_FLAGS", flags))?;
    Ok(object)
}

/// Refuses functions that take much of a kernel's stack, 16 KiB, of which the network below us needs its part.
fn check_stack(object: &Path) -> Result<(), String> {
    let code = process::stdout(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(object))
        .ok_or_else(|| format!("objdump does not read {}", object.display()))?;
    match deepest(&code) {
        Some((bytes, name)) if bytes > MOST_STACK => Err(format!(
            "{name} takes {bytes} bytes of the stack, over {MOST_STACK}; split it, or use the heap"
        )),
        _ => Ok(()),
    }
}

/// The function with the largest frame, in a disassembly.
fn deepest(code: &str) -> Option<(u64, &str)> {
    let mut name = "";
    let frames = code.lines().filter_map(|line| {
        if let Some((_, rest)) = line.split_once('<').filter(|_| line.ends_with(">:")) {
            name = rest.trim_end_matches(">:");
        }
        let (_, rest) = line.split_once("sub ").filter(|_| line.ends_with(",%rsp"))?;
        let bytes = rest.trim().strip_prefix("$0x")?.strip_suffix(",%rsp")?;
        Some((u64::from_str_radix(bytes, 16).ok()?, name))
    });
    frames.max()
}

/// Copies the files of a directory that are newer than their copies, but for what was built.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let cannot = |why| format!("cannot copy {}: {why}", from.display());
    fs::create_dir_all(to).map_err(cannot)?;
    for entry in fs::read_dir(from).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let (path, place) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            if entry.file_name() != "rust" {
                copy(&path, &place)?;
            }
            continue;
        }
        let age = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
        if age(&place).is_none_or(|copied| age(&path).is_none_or(|written| written > copied)) {
            fs::copy(&path, &place).map_err(cannot)?;
        }
    }
    for entry in fs::read_dir(to).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A source that has gone would get in the way of what has come in its place. modpost writes sources of its own.
        if name.ends_with(".c") && !name.ends_with(".mod.c") && !from.join(&name).exists() {
            fs::remove_file(entry.path()).map_err(cannot)?;
        }
    }
    Ok(())
}

fn build(kdir: &[PathBuf]) -> Result<(), String> {
    let kernels = match kdir {
        [] => Kernel::installed(),
        given => given
            .iter()
            .map(|headers| Kernel {
                release: headers.to_string_lossy().trim_start_matches('/').replace('/', "-"),
                headers: headers.clone(),
                image: PathBuf::new(),
                modules: PathBuf::new(),
            })
            .collect(),
    };
    if kernels.is_empty() {
        return Err("no headers of a kernel in /lib/modules; install them, or give --kdir".to_owned());
    }
    let rust = rust_object()?;
    for kernel in kernels {
        let directory = kernel.build(&rust)?;
        println!("{}", directory.join("kofi.ko").display());
    }
    Ok(())
}

fn test(only: Option<&str>, verbose: bool) -> Result<(), String> {
    if let Some(why) = TOOLS.iter().find_map(|tool| tool.missing()) {
        return Err(why);
    }
    let mut kernels = Kernel::installed();
    kernels.retain(|kernel| kernel.image.is_file() && only.is_none_or(|only| only == kernel.release));
    if kernels.is_empty() {
        return Err("no kernel to test on: none in /lib/modules has headers and an image in /boot".to_owned());
    }
    let rust = rust_object()?;
    let peers = peers()?;
    let (mut passed, mut failed) = (0, 0);
    for kernel in kernels {
        println!("Linux {}", kernel.release);
        let modules = kernel.build(&rust)?;
        let machine = Machine::new(&kernel, &modules, &peers, &STOCK)?;
        package::check_install(&kernel, &modules, &rust)?;
        package::install(&machine.root(), &kernel, &modules, &rust)?;
        let log = machine.run(verbose)?;
        let (good, bad) = judge(&log);
        passed += good;
        failed += bad;
    }
    conclude(passed, failed)
}

pub(crate) fn conclude(passed: u32, failed: u32) -> Result<(), String> {
    println!("kernel tests: {passed} passed, {failed} failed");
    if failed == 0 { Ok(()) } else { Err("kernel tests failed, see above".to_owned()) }
}

/// Programs for user space, the modules' other sides.
pub(crate) fn peers() -> Result<[PathBuf; 3], String> {
    Ok([program("peer", &["-lfabric"])?, program("hostile", &[])?, kofi_peer()?])
}

fn program(name: &str, libraries: &[&str]) -> Result<PathBuf, String> {
    let program = target().join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    cc.arg(workspace::root().join(format!("kernel/tests/{name}.c"))).args(libraries);
    process::run(&mut cc)?;
    Ok(program)
}

/// The same as the peer, of kofi itself.
fn kofi_peer() -> Result<PathBuf, String> {
    process::run(workspace::cargo().args(["build", "--quiet", "-p", "kofi", "--example", "kernel_peer"]))?;
    Ok(workspace::target_dir().join("debug/examples/kernel_peer"))
}

/// Takes the kernel's messages out of the lines of programs that they came in the middle of.
fn untangled(log: &str) -> Vec<String> {
    let (mut lines, mut begun) = (Vec::new(), String::new());
    for line in log.lines() {
        match stamp(line).filter(|&at| at > 0) {
            Some(at) => {
                let (before, message) = line.split_at(at);
                begun.push_str(before);
                lines.push(message.to_owned());
            }
            // A message of its own in between.
            None if !begun.is_empty() && stamp(line) == Some(0) => lines.push(line.to_owned()),
            None => lines.push(core::mem::take(&mut begun) + line),
        }
    }
    lines.extend((!begun.is_empty()).then_some(begun));
    lines
}

/// Where a kernel's message begins in a line: "[   58.267731] ".
fn stamp(line: &str) -> Option<usize> {
    line.match_indices('[').map(|(at, _)| at).find(|&at| {
        let Some((time, _)) = line.get(at + 1..).and_then(|rest| rest.split_once("] ")) else { return false };
        let whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        time.split_once('.').is_some_and(|(seconds, micros)| {
            whole(seconds.trim_start()) && whole(micros) && micros.len() == 6
        })
    })
}

/// Prints a line for each test and each complaint of the kernel. Gives how many passed, and how many failed.
pub(crate) fn judge(log: &str) -> (u32, u32) {
    let (mut passed, mut failed) = (0, 0);
    for line in untangled(log) {
        if let Some((_, test)) = line.split_once("TEST ") {
            println!("  {test}");
            if test.trim_end().ends_with(" ok") { passed += 1 } else { failed += 1 }
        } else if BAD.iter().any(|bad| line.contains(bad))
            || (line.contains("kofi_selftest: line ") && !line.contains("is -12 "))
            || line.starts_with("# ")
        {
            println!("  {line}");
            failed += u32::from(BAD.iter().any(|bad| line.contains(bad)));
        }
    }
    if !log.contains("VM-RESULT: PASS") {
        println!("  the machine did not come to its end, or a command of its script failed");
        log.lines().rev().take(30).collect::<Vec<_>>().iter().rev().for_each(|line| println!("  | {line}"));
        failed += 1;
    }
    (passed, failed)
}

/// How a machine differs from others.
pub(crate) struct Settings {
    /// MiB.
    pub(crate) memory: u32,
    /// Parameters of its kernel.
    pub(crate) parameters: &'static str,
    /// One that is not done by then hangs.
    pub(crate) limit: Duration,
    /// Of kernel/tests: what it runs, and what that runs.
    pub(crate) scripts: &'static [&'static str],
}

/// Modules of the kernel itself that tests need: pairs of interfaces, and the cards that the machine has.
const INTERFACES: [&str; 2] = ["veth", "e1000"];

/// For kernels as they are installed.
const STOCK: Settings = Settings {
    memory: 1024,
    parameters: "",
    limit: Duration::from_secs(400),
    scripts: &["vm.sh", "apart.sh", "clients.sh"],
};

/// A virtual machine that runs scripts of `kernel/tests`, and ends.
pub(crate) struct Machine<'a> {
    directory: PathBuf,
    image: PathBuf,
    settings: &'a Settings,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(
        kernel: &Kernel,
        modules: &Path,
        programs: &[PathBuf],
        settings: &'a Settings,
    ) -> Result<Self, String> {
        let directory = target().join(format!("vm-{}", kernel.release));
        let root = directory.join("root");
        let cannot = |why| format!("cannot make {}: {why}", root.display());
        if root.exists() {
            fs::remove_dir_all(&root).map_err(cannot)?;
        }
        for place in ["bin", "proc", "sys", "dev", "tmp", "t"] {
            fs::create_dir_all(root.join(place)).map_err(cannot)?;
        }
        let tests = workspace::root().join("kernel/tests");
        let into = |from: &Path, to: &str| {
            let place = root.join(to.trim_start_matches('/'));
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent).map_err(cannot)?;
            }
            fs::copy(from, &place).map(drop).map_err(|why| format!("cannot copy {}: {why}", from.display()))
        };
        into(Path::new("/bin/busybox"), "bin/busybox")?;
        into(&tests.join("init.sh"), "init")?;
        for script in settings.scripts {
            into(&tests.join(script), &format!("t/{script}"))?;
        }
        into(&modules.join("kofi.ko"), "t/kofi.ko")?;
        for directory in ["tests", "clients"] {
            for entry in fs::read_dir(modules.join(directory)).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.ends_with(".ko") {
                    into(&entry.path(), &format!("t/{name}"))?;
                }
            }
        }
        for module in INTERFACES {
            // Compressed in some distributions' kernels, and not there in others: the tests do without then.
            let mut find = Command::new("find");
            find.arg(&kernel.modules).args(["-name", &format!("{module}.ko*")]);
            if let Some(path) = process::stdout(&mut find)
                && let Some(path) = path.lines().next()
            {
                let unpack = "case \"$0\" in *.xz) xz -dc \"$0\";; *.zst) zstd -qdc \"$0\";; *) cat \"$0\";; esac > \"$1\"";
                let place = root.join(format!("t/{module}.ko"));
                process::run(Command::new("sh").args(["-c", unpack, path]).arg(place))?;
            }
        }
        // Busybox's ip cannot make pairs of interfaces.
        let found = |name| process::stdout(Command::new("sh").args(["-c", "command -v \"$0\"", name]));
        let others = ["ip", "fi_pingpong"].into_iter().filter_map(found);
        let others: Vec<_> = others.map(|path| PathBuf::from(path.trim())).collect();
        for program in programs.iter().chain(&others) {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            into(program, &format!("t/{name}"))?;
            for library in libraries(program)? {
                into(Path::new(&library), &library)?;
            }
        }
        process::run(Command::new("chmod").arg("+x").arg(root.join("init")))?;
        Ok(Self { directory, image: kernel.image.clone(), settings })
    }

    /// What it has for a file system.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// Gives all that it printed.
    pub(crate) fn run(&self, verbose: bool) -> Result<String, String> {
        let archive = self.directory.join("initramfs");
        let mut pack = Command::new("sh");
        pack.current_dir(self.root())
            .args(["-c", "find . | cpio --quiet -o -H newc | gzip -1 > \"$0\""])
            .arg(&archive);
        process::run(&mut pack)?;
        let path = self.directory.join("log");
        let log = File::create(&path).map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        let mut qemu = Command::new("qemu-system-x86_64");
        let common = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr tsc=reliable";
        qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-nodefaults"])
            .args(["-m", &self.settings.memory.to_string()])
            // Two network cards, with a wire between them.
            .args(["-netdev", "hubport,id=near,hubid=0", "-device", "e1000,netdev=near,romfile="])
            .args(["-netdev", "hubport,id=far,hubid=0", "-device", "e1000,netdev=far,romfile="])
            .args(["-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot", "-kernel"])
            .arg(&self.image)
            .arg("-initrd")
            .arg(&archive)
            .arg("-append")
            .arg(format!("{common} {}", self.settings.parameters));
        // How it ended shows in what it printed.
        let ended = process::run_logged(&mut qemu, &log, self.settings.limit);
        let text = fs::read(&path).map_err(|why| format!("cannot read {}: {why}", path.display()))?;
        let text = String::from_utf8_lossy(&text).replace('\r', "");
        if verbose {
            println!("{text}");
            // What is shown late is of no use.
            let _ = std::io::stdout().flush();
        }
        if let Err(why) = ended {
            println!("  {why}");
        }
        Ok(text)
    }
}

/// The shared libraries that a program loads, and those that libraries load later.
fn libraries(program: &Path) -> Result<Vec<String>, String> {
    let list = process::stdout(Command::new("ldd").arg(program))
        .ok_or_else(|| format!("ldd does not know {}", program.display()))?;
    let mut found: Vec<String> =
        list.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_age() {
        assert!(version("6.1.0-57-amd64") < version("6.12.117+deb12-amd64"));
        assert!(version("6.12.1") < version("7.0"));
    }

    #[test]
    fn the_deepest_function_is_found() {
        let code = "0000 <small>:\n 10:\tsub    $0x20,%rsp\n0100 <large>:\n 110:\tsub    $0x1000,%rsp\n\tret";
        assert_eq!(deepest(code), Some((0x1000, "large")));
        assert_eq!(deepest("0000 <leaf>:\n\tret"), None);
    }

    #[test]
    fn a_log_is_judged() {
        assert_eq!(judge("[ 1.0] x: TEST a ok\nTEST b FAILED\nVM-RESULT: PASS\n"), (1, 1));
        assert_eq!(judge("TEST a ok\nkofi: LEAK: 1 allocations\nVM-RESULT: PASS\n"), (1, 1));
        assert_eq!(judge("TEST a ok\n"), (1, 1));
        let tangled = "TEST a[  822.608695] x: TEST b ok\n[  823.000001] x: y\n ok\nTEST c ok[ 824.000000] z\n\nVM-RESULT: PASS\n";
        assert_eq!(judge(tangled), (3, 0));
    }
}

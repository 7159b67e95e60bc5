// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask c-tests`: the C programs of `tests/c`, compiled against the installed headers of libfabric, over our
//! libfabric.so.1, over stock's, or over any.

use core::time::Duration;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};
use std::{env, thread};

use crate::{process, setup, workspace};

/// Programs end by themselves long before; this is for those that cannot any more.
const LIMIT: Duration = Duration::from_secs(120);
/// How much longer everything may take under valgrind or a sanitizer, as in `common.c`.
const SLOWER: u32 = 20;

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Only programs whose name has this in it, such as `deck`, `programs/` or `bug-2`
    pattern: Vec<String>,
    #[command(flatten)]
    libraries: Libraries,
    /// Look for errors in memory and lost memory, or for races
    #[arg(long, value_enum)]
    under: Option<Under>,
    /// Show the notes of all programs, not only of those that fail
    #[arg(long)]
    notes: bool,
}

/// Over which libraries programs run.
#[derive(clap::Args, Default)]
pub(crate) struct Libraries {
    /// Run over the libfabric.so.1 in this directory, instead of over our own
    #[arg(long, value_name = "DIR", conflicts_with = "stock")]
    library: Option<PathBuf>,
    /// Run over the installed stock libfabric; what that is known to do wrong is said, and is no failure
    #[arg(long)]
    stock: bool,
    /// Programs of two processes run the second one over the libfabric.so.1 in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "stock_peer")]
    peer: Option<PathBuf>,
    /// Programs of two processes run the second one over the installed stock libfabric
    #[arg(long)]
    stock_peer: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Under {
    /// Programs and library, which is built without optimization, as valgrind understands it
    Valgrind,
    /// AddressSanitizer in the programs: it sees the library's allocations, and what it does to the programs' memory
    Address,
    /// ThreadSanitizer in the programs and in our library; needs a Rust toolchain with the source of its library
    Thread,
}

/// Programs of field reports that stock is known to fail, and why.
const STOCK_FAILS: [(&str, &str); 11] = [
    ("bug-04", "the error entry's prov_errno is 0, so its text is \"Success\""),
    ("bug-08", "a request whose endpoint closes without accept or reject is lost memory"),
    ("bug-12", "1.17 keeps honest clients waiting (not 2.x)"),
    ("bug-19", "1.17 lists IPv6 for hints of FI_SOCKADDR_IN (not 2.x)"),
    ("bug-20", "FI_TCP_IFACE is not followed"),
    ("bug-22", "olen is 0; 1.17 ends the connection, too"),
    ("bug-31", "1.17 looks at keys of regions that no peer reaches (not 2.x)"),
    ("bug-32", "a refused close takes parts of the queue down"),
    ("bug-33", "shm takes a live owner's region over"),
    ("bug-36", "shm installs signal handlers"),
    ("bug-37", "fi_eq_readerr writes past the entry of API 1.4"),
];

/// What is not run when everything is slow: it measures time or CPU, or is about quantity.
const NOT_SLOW: [&str; 10] = [
    "late-accept",
    "timeouts",
    "bug-02",
    "bug-08",
    "bug-09",
    "bug-10",
    "bug-12",
    "bug-24",
    "bug-26",
    "bug-28",
];

/// Reports nothing but errors and what nothing points to any more, also of children and of programs that they start.
const VALGRIND: [&str; 8] = [
    "valgrind",
    "--quiet",
    "--error-exitcode=97",
    "--leak-check=full",
    "--show-leak-kinds=definite",
    "--errors-for-leak-kinds=definite",
    "--trace-children=yes",
    "--fair-sched=try",
];

const FLAGS: [&str; 7] = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"];

struct Program {
    /// Such as `programs/deck`.
    name: String,
    source: PathBuf,
    executable: PathBuf,
}

enum Verdict {
    Passed,
    NotApplicable,
    Known(&'static str),
    Failed,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    if options.under == Some(Under::Valgrind) {
        setup::provide(&[&setup::VALGRIND]);
    }
    let needed =
        [Some(&setup::STOCK_HEADERS), (options.under == Some(Under::Valgrind)).then_some(&setup::VALGRIND)];
    if let Some(why) = needed.into_iter().flatten().find_map(|tool| tool.missing()) {
        return Err(why);
    }
    let library = options.libraries.first(options.under)?;
    let peer = options.libraries.second()?;
    let programs = programs(options)?;
    build(&programs, options.under)?;

    let (mut passed, mut failed, mut others) = (0, Vec::new(), 0);
    for program in &programs {
        print!("{:<33} ", program.name);
        // A terminal should show what is running; that it cannot is no reason to stop.
        let _ = io::stdout().flush();
        let begun = Instant::now();
        let (verdict, line, log) = program.run(options, &library, peer.as_deref())?;
        let word = match verdict {
            Verdict::Passed => "ok",
            Verdict::NotApplicable => "n/a",
            Verdict::Known(_) => "known",
            Verdict::Failed => "FAILED",
        };
        println!("{word:<6} {:6.1} s  {line}", begun.elapsed().as_secs_f32());
        match verdict {
            Verdict::Passed => passed += 1,
            Verdict::NotApplicable => others += 1,
            Verdict::Known(why) => {
                println!("    stock: {why}");
                others += 1;
            }
            Verdict::Failed => failed.push(program.name.as_str()),
        }
        if options.notes || matches!(verdict, Verdict::Failed) {
            log.lines().for_each(|line| println!("    {line}"));
        }
    }
    println!(
        "C programs over {}: {passed} passed, {} failed, {others} not applicable or known",
        library.display(),
        failed.len()
    );
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

impl Libraries {
    /// The directory of the libfabric.so.1 under test.
    pub(crate) fn first(&self, under: Option<Under>) -> Result<PathBuf, String> {
        let directory = match &self.library {
            Some(directory) => directory.clone(),
            None if self.stock => stock()?,
            None => own(under)?,
        };
        has_library(directory)
    }

    /// That of the other side, if it is to be another one.
    pub(crate) fn second(&self) -> Result<Option<PathBuf>, String> {
        match &self.peer {
            Some(directory) => has_library(directory.clone()).map(Some),
            None if self.stock_peer => stock().map(Some),
            None => Ok(None),
        }
    }
}

fn has_library(directory: PathBuf) -> Result<PathBuf, String> {
    if directory.join("libfabric.so.1").exists() {
        return Ok(directory);
    }
    Err(format!("there is no libfabric.so.1 in {}", directory.display()))
}

/// Where the installed libfabric.so.1 is.
fn stock() -> Result<PathBuf, String> {
    let libdir = process::stdout(Command::new("pkg-config").args(["--variable=libdir", "libfabric"]));
    has_library(PathBuf::from(libdir.unwrap_or_default().trim()))
}

/// Builds our library, and gives the directory that has it under its name.
fn own(under: Option<Under>) -> Result<PathBuf, String> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--package", "kofi-libfabric"]);
    let mut target = workspace::target_dir();
    if under == Some(Under::Thread) {
        let host = workspace::host()?;
        target = target.join("sanitize-thread");
        cargo
            .env("RUSTC_BOOTSTRAP", "1")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env("RUSTFLAGS", "-Zsanitizer=thread")
            // The standard library's locks have to be seen, too.
            .args(["-Zbuild-std=std,panic_unwind", "--target", &host, "--target-dir"])
            .arg(&target);
        target = target.join(host);
    }
    if under == Some(Under::Valgrind) {
        target = target.join("debug");
    } else {
        cargo.arg("--release");
        target = target.join("release");
    }
    process::run(&mut cargo)?;
    let built = target.join("libfabric.so");
    let directory = target.join("c-tests");
    let link = directory.join("libfabric.so.1");
    let cannot = |why| format!("cannot link {}: {why}", link.display());
    fs::create_dir_all(&directory).map_err(cannot)?;
    if fs::read_link(&link).is_ok_and(|to| to == built) {
        return Ok(directory);
    }
    // An error means that there is none.
    let _ = fs::remove_file(&link);
    symlink(&built, &link).map_err(cannot)?;
    Ok(directory)
}

/// Where our library is under its name, once that was built here.
pub(crate) fn own_directory() -> PathBuf {
    workspace::target_dir().join("release/c-tests")
}

/// Where the executables are.
fn directory(under: Option<Under>) -> PathBuf {
    workspace::target_dir().join(match under {
        None | Some(Under::Valgrind) => "c-tests",
        Some(Under::Address) => "c-tests/address",
        Some(Under::Thread) => "c-tests/thread",
    })
}

/// ThreadSanitizer's runtime, which comes with Rust's compiler.
fn thread_sanitizer() -> Result<PathBuf, String> {
    let directory = workspace::ask_rustc(&["--print", "target-libdir"])?;
    let files = fs::read_dir(directory.trim()).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runtimes = files.filter(|path| path.to_string_lossy().ends_with("_rt.tsan.a"));
    runtimes
        .next()
        .ok_or_else(|| "this Rust toolchain has no ThreadSanitizer; rustup's on Linux do".to_owned())
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Those that the options name, in the order of their names.
fn programs(options: &Options) -> Result<Vec<Program>, String> {
    let slow = options.under.is_some();
    let mut programs = Vec::new();
    for group in ["programs", "scenarios"] {
        let sources = workspace::root().join("tests/c").join(group);
        let cannot = |why| format!("cannot list {}: {why}", sources.display());
        for entry in fs::read_dir(&sources).map_err(cannot)? {
            let source = entry.map_err(cannot)?.path();
            let stem = stem(&source);
            let name = format!("{group}/{stem}");
            let wanted =
                options.pattern.is_empty() || options.pattern.iter().any(|part| name.contains(part.as_str()));
            if wanted && !(slow && NOT_SLOW.iter().any(|part| stem.starts_with(part))) {
                programs.push(Program { name, source, executable: directory(options.under).join(stem) });
            }
        }
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    if programs.is_empty() { Err("no program has such a name".to_owned()) } else { Ok(programs) }
}

fn build(programs: &[Program], under: Option<Under>) -> Result<(), String> {
    let directory = directory(under);
    fs::create_dir_all(&directory).map_err(|why| format!("cannot make {}: {why}", directory.display()))?;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let share = programs.chunks(programs.len().div_ceil(threads).max(1));
        let builders: Vec<_> = share
            .map(|share| scope.spawn(move || share.iter().try_for_each(|program| program.build(under))))
            .collect();
        builders
            .into_iter()
            .try_for_each(|builder| builder.join().map_err(|_| "a compiler thread panicked")?)
    })
}

/// The word and the reason of a line such as `deck PASS it works`; notes begin with `#`.
fn verdict(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(' ')?;
    let (word, why) = rest.split_once(' ')?;
    (name != "#" && ["PASS", "FAIL", "NA"].contains(&word)).then_some((word, why))
}

impl Program {
    fn build(&self, under: Option<Under>) -> Result<(), String> {
        let root = workspace::root().join("tests/c");
        let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified());
        let sources = [&self.source, &root.join("common.c"), &root.join("common.h")];
        let newest = sources.iter().filter_map(|path| changed(path).ok()).max();
        if changed(&self.executable).unwrap_or(SystemTime::UNIX_EPOCH)
            > newest.unwrap_or_else(SystemTime::now)
        {
            return Ok(());
        }
        let compiler = || Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
        let mut parts = vec![self.source.clone(), root.join("common.c")];
        let mut cc = compiler();
        cc.args(FLAGS);
        match under {
            Some(Under::Address) => _ = cc.args(["-fsanitize=address", "-fno-omit-frame-pointer"]),
            Some(Under::Thread) => {
                // The library needs the runtime of Rust's compiler, so the program takes that, too.
                for part in &mut parts {
                    let object = self.executable.with_extension(format!("{}.o", stem(part)));
                    let mut compile = compiler();
                    compile.args(FLAGS).arg("-fsanitize=thread").arg("-c").arg(&*part).arg("-o").arg(&object);
                    process::run(&mut compile)?;
                    *part = object;
                }
                cc.args(["-rdynamic", "-Wl,--whole-archive"]).arg(thread_sanitizer()?);
                cc.args(["-Wl,--no-whole-archive", "-lm", "-lrt"]);
            }
            None | Some(Under::Valgrind) => {}
        }
        cc.arg("-o").arg(&self.executable).args(&parts);
        process::run(cc.args(["-lfabric", "-lpthread", "-ldl"]))
    }

    /// How it ended, its line, and all that it said.
    fn run(
        &self,
        options: &Options,
        library: &Path,
        peer: Option<&Path>,
    ) -> Result<(Verdict, String, String), String> {
        // Of each run its own: several may go on at a time.
        let path = workspace::target_dir().join(format!("c-tests/log-{}", std::process::id()));
        let log = File::create(&path).map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        let slow = options.under.is_some();
        let mut command = if options.under == Some(Under::Valgrind) {
            let mut valgrind = Command::new(VALGRIND[0]);
            valgrind.args(&VALGRIND[1..]).arg(&self.executable);
            valgrind
        } else {
            Command::new(&self.executable)
        };
        command.env("LD_LIBRARY_PATH", library).env("TSAN_OPTIONS", "halt_on_error=1");
        for (name, set) in [("STOCK", options.libraries.stock), ("SLOW", slow)] {
            if set {
                command.env(name, "1");
            }
        }
        if let Some(peer) = peer {
            command.env("PEER", peer);
        }
        let ended = process::run_logged(&mut command, &log, LIMIT * if slow { SLOWER } else { 1 });
        // What cannot be read is missing from the report, and so is the verdict.
        let said = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
        let _ = fs::remove_file(&path);
        let (word, why) = said.lines().rev().find_map(verdict).unwrap_or(("", "no verdict"));
        let scenario = self.name.starts_with("scenarios/");
        let known = STOCK_FAILS.iter().find(|(name, _)| self.name.contains(name));
        let verdict = match (word, &ended, known) {
            ("PASS", Ok(()), _) => Verdict::Passed,
            // What the project's own programs need, our library has.
            ("NA", ..) if scenario || options.libraries.stock => Verdict::NotApplicable,
            ("FAIL", _, Some((_, why))) if options.libraries.stock => Verdict::Known(why),
            _ => Verdict::Failed,
        };
        let mut why = why.to_owned();
        if let (Err(end), true) = (ended, matches!(verdict, Verdict::Failed)) {
            why = format!("{why} ({end})");
        }
        Ok((verdict, why, said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_told_from_notes() {
        assert_eq!(verdict("deck PASS it works"), Some(("PASS", "it works")));
        assert_eq!(verdict("BUG-33 NA no shm"), Some(("NA", "no shm")));
        assert_eq!(verdict("# FAIL is no verdict here"), None);
        assert_eq!(verdict("free(): double free"), None);
    }
}

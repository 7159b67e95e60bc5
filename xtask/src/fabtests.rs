// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask fabtests`: libfabric's own test programs, as far as they are about message endpoints, over our
//! libfabric.so.1 or over stock's. Their source is fetched, or taken from a checkout; none of it is kept here.
//!
//! Their own script is not used: it ends by name whatever on the machine is called `fi_*`.

use core::time::Duration;
use std::env;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::{c_tests, process, setup, workspace};

const SOURCE: &str = "https://github.com/ofiwg/libfabric";

/// A pair of programs has ended by then, also on a busy machine, or hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// How long one may go on whose other side has failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a test answers when the library does not offer what it is about (FI_ENODATA, FI_ENOSYS).
const NOT_OFFERED: [i32; 2] = [61, 38];

/// Programs that run alone, with their arguments.
const ALONE: [&str; 6] = [
    "unit/getinfo_test -p tcp -s 127.0.0.1 127.0.0.1",
    "unit/dom_test -p tcp -n 2",
    "unit/eq_test -p tcp",
    "unit/cq_test -p tcp",
    "unit/mr_test -p tcp",
    "unit/cntr_test -p tcp",
];

/// Programs that run as server and client: those of their script's functional, short and standard lists that can be
/// told to use message endpoints.
const PAIRS: [&str; 35] = [
    "functional/cm_data",
    "functional/cq_data -e msg",
    "functional/msg",
    "functional/msg_epoll",
    "functional/msg_sockets",
    "functional/shared_ctx -e msg",
    "functional/shared_ctx -e msg --no-tx-shared-ctx",
    "functional/shared_ctx -e msg --no-rx-shared-ctx",
    "functional/multi_mr -e msg -V",
    "functional/multi_ep -e msg -v",
    "functional/unexpected_msg -e msg -I 10",
    "functional/recv_cancel -e msg -V",
    "functional/msg_inject -e msg -A inject -v",
    "functional/msg_inject -e msg -N -A inject -v",
    "functional/msg_inject -e msg -A inj_complete -v",
    "functional/msg_inject -e msg -N -A inj_complete -v",
    "functional/bw -e msg -v -T 1",
    "functional/multi_recv -e msg -I 5",
    "functional/multi_recv -e msg",
    "benchmarks/msg_pingpong -I 5",
    "benchmarks/msg_pingpong -I 5 -v",
    "benchmarks/msg_pingpong",
    "benchmarks/msg_pingpong -v",
    "benchmarks/msg_pingpong -k",
    "benchmarks/msg_pingpong -k -v",
    "benchmarks/msg_bw -I 5",
    "benchmarks/msg_bw -I 5 -v",
    "benchmarks/msg_bw",
    "benchmarks/msg_bw -v",
    "benchmarks/rma_bw -e msg -o write -I 5",
    "benchmarks/rma_bw -e msg -o read -I 5",
    "benchmarks/rma_bw -e msg -o writedata -I 5",
    "benchmarks/rma_bw -e msg -o write",
    "benchmarks/rma_bw -e msg -o read",
    "benchmarks/rma_bw -e msg -o writedata",
];

/// What every program is made of besides its own file, and what those of a directory share.
const COMMON: [&str; 6] = [
    "common/shared.c",
    "common/hmem.c",
    "common/hmem_cuda.c",
    "common/hmem_rocr.c",
    "common/hmem_ze.c",
    "common/hmem_neuron.c",
];
const SHARED: [(&str, &str); 2] =
    [("unit/", "unit/common.c"), ("benchmarks/", "benchmarks/benchmark_shared.c")];

/// What their configure script would find on Linux.
const FOUND: [&str; 5] = [
    "-D_GNU_SOURCE",
    "-DHAVE_CLOCK_GETTIME=1",
    "-DHAVE_EPOLL=1",
    "-DHAVE___INT128=1",
    "-DCONFIG_PATH=\"/etc\"",
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only tests whose command has this in it, such as `unit` or `msg_bw`
    pattern: Option<String>,
    /// A checkout of libfabric whose version fits the installed headers; without it that is fetched by git
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    #[command(flatten)]
    libraries: c_tests::Libraries,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    if let Some(why) = setup::STOCK_HEADERS.missing() {
        return Err(why);
    }
    let library = options.libraries.first(None)?;
    let peer = options.libraries.second()?.unwrap_or_else(|| library.clone());
    let source = match &options.source {
        Some(directory) => directory.join("fabtests"),
        None => fetch()?,
    };
    let wanted = |line: &&&str| options.pattern.as_ref().is_none_or(|part| line.contains(part.as_str()));
    let mut counts = [0; 3];
    let mut failed = Vec::new();
    for line in ALONE.iter().chain(&PAIRS).filter(wanted) {
        let begun = Instant::now();
        let outcome = test(line, &source, &library, &peer)?;
        let (index, word) = match &outcome {
            Outcome::Passed => (0, "ok"),
            Outcome::NotOffered => (1, "not offered"),
            Outcome::Failed(_) => (2, "FAILED"),
        };
        counts[index] += 1;
        println!("{line:<52} {word:<11} {:6.1} s", begun.elapsed().as_secs_f32());
        if let Outcome::Failed(why) = outcome {
            println!("{why}");
            failed.push(*line);
        }
    }
    println!(
        "fabtests over {}: {} passed, {} failed, {} not offered",
        library.display(),
        counts[0],
        counts[2],
        counts[1]
    );
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

enum Outcome {
    Passed,
    NotOffered,
    Failed(String),
}

/// Fetches the version that the installed headers are of, once.
fn fetch() -> Result<PathBuf, String> {
    let version = process::stdout(Command::new("pkg-config").args(["--modversion", "libfabric"]));
    let tag = format!("v{}", version.unwrap_or_default().trim());
    let directory = directory().join(format!("libfabric-{tag}"));
    if !directory.join("fabtests/common/shared.c").exists() {
        // What is left of an earlier try.
        let _ = fs::remove_dir_all(&directory);
        println!("fetching {tag} of {SOURCE}");
        let mut git = Command::new("git");
        git.args([
            "clone",
            "--quiet",
            "--depth",
            "1",
            "--branch",
            &tag,
            "-c",
            "advice.detachedHead=false",
            SOURCE,
        ]);
        process::run(git.arg(&directory))?;
    }
    Ok(directory.join("fabtests"))
}

fn directory() -> PathBuf {
    workspace::target_dir().join("fabtests")
}

fn test(line: &str, source: &Path, library: &Path, peer: &Path) -> Result<Outcome, String> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let executable = build(program, source)?;
    let arguments: Vec<&str> = words.collect();
    let start = |library: &Path, name: &str, more: &[&str]| {
        let log = File::create(directory().join(name));
        let log = log.and_then(|log| Ok((log.try_clone()?, log)));
        let (out, errors) = log.map_err(|why| format!("cannot write the log {name}: {why}"))?;
        let mut command = Command::new(&executable);
        command.env("LD_LIBRARY_PATH", library).args(&arguments).args(more);
        command.stdin(Stdio::null()).stdout(out).stderr(errors);
        command.spawn().map_err(|why| format!("cannot run {}: {why}", executable.display()))
    };
    if ALONE.contains(&line) {
        let alone = start(library, "server", &[])?;
        return Ok(outcome(&[("it", ends([alone])[0])]));
    }
    let port = free_port()?;
    let deadline = Instant::now() + LIMIT;
    let common = ["-p", "tcp", "-s", "127.0.0.1"];
    let mut server = start(library, "server", &[&common[..], &["-B", &port.to_string()]].concat())?;
    while !listens(server.id()) && matches!(server.try_wait(), Ok(None)) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    let client = start(peer, "client", &[&common[..], &["-P", &port.to_string(), "127.0.0.1"]].concat())?;
    let [server, client] = ends([server, client]);
    Ok(outcome(&[("server", server), ("client", client)]))
}

fn outcome(ends: &[(&str, Option<i32>)]) -> Outcome {
    if ends.iter().all(|(_, end)| *end == Some(0)) {
        return Outcome::Passed;
    }
    if ends.iter().any(|(_, end)| end.is_some_and(|code| NOT_OFFERED.contains(&code))) {
        return Outcome::NotOffered;
    }
    let mut why = String::new();
    for (name, end) in ends {
        let end =
            end.map_or_else(|| "killed, or did not end".to_owned(), |code| format!("exit status {code}"));
        let log = if *name == "client" { "client" } else { "server" };
        // A log that cannot be read is missing from the report.
        let said = fs::read(directory().join(log)).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rev().take(8).collect::<Vec<_>>();
        why.push_str(&format!("    {name}: {end}\n"));
        last.into_iter().rev().for_each(|line| why.push_str(&format!("        {line}\n")));
    }
    Outcome::Failed(why)
}

/// The exit statuses of those that end by themselves in time. Who is left alone by one that has failed may wait for ever.
fn ends<const N: usize>(mut children: [Child; N]) -> [Option<i32>; N] {
    let mut deadline = Instant::now() + LIMIT;
    let mut codes = [None; N];
    while Instant::now() < deadline && codes.iter().any(Option::is_none) {
        for (code, child) in codes.iter_mut().zip(&mut children).filter(|(code, _)| code.is_none()) {
            if let Ok(Some(status)) = child.try_wait() {
                *code = Some(status.code());
                if !status.success() {
                    deadline = deadline.min(Instant::now() + PATIENCE);
                }
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
    for child in &mut children {
        // An error means that it is gone already, which is what we want.
        let _ = child.kill();
        let _ = child.wait();
    }
    codes.map(Option::flatten)
}

/// A port that nobody listened at a moment ago.
fn free_port() -> Result<u16, String> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|why| format!("cannot find a free port: {why}"))
}

/// Whether a process has a TCP socket that listens, at whatever port, asked without connecting to it.
fn listens(process: u32) -> bool {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    let open: Vec<_> = open.map(|link| link.to_string_lossy().into_owned()).collect();
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let table = fs::read_to_string(table).unwrap_or_default();
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|columns| {
            // 0A is TCP_LISTEN.
            columns.get(3) == Some(&"0A")
                && columns.get(9).is_some_and(|inode| open.contains(&format!("socket:[{inode}]")))
        })
    })
}

/// The executable of a program such as `unit/eq_test`.
fn build(program: &str, source: &Path) -> Result<PathBuf, String> {
    let executable = directory().join(program.replace('/', "-"));
    let main = format!("{program}.c");
    if is_newer(&executable, &source.join(&main)) {
        return Ok(executable);
    }
    let shared = SHARED.iter().filter(|(place, _)| program.starts_with(place)).map(|(_, file)| *file);
    let parts = COMMON.into_iter().chain(shared).chain([main.as_str()]);
    let objects = parts.map(|file| object(file, source)).collect::<Result<Vec<_>, _>>()?;
    let mut link = compiler();
    link.arg("-o").arg(&executable).args(objects);
    process::run(link.args(["-lfabric", "-lpthread", "-ldl", "-lm"]))?;
    Ok(executable)
}

fn object(file: &str, source: &Path) -> Result<PathBuf, String> {
    let path = source.join(file);
    if !path.exists() {
        return Err(format!("there is no {}: is this a checkout of libfabric?", path.display()));
    }
    let directory = directory();
    fs::create_dir_all(&directory).map_err(|why| format!("cannot make {}: {why}", directory.display()))?;
    let object = directory.join(file.replace('/', "-")).with_extension("o");
    if !is_newer(&object, &path) {
        let mut cc = compiler();
        cc.args(["-O2", "-g", "-w"]).args(FOUND).arg("-I").arg(source.join("include"));
        process::run(cc.arg("-c").arg("-o").arg(&object).arg(path))?;
    }
    Ok(object)
}

fn compiler() -> Command {
    Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

fn is_newer(built: &Path, source: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    changed(built).is_some_and(|built| changed(source).is_some_and(|source| source < built))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn who_listens_is_seen() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        assert!(listens(std::process::id()));
        drop(listener);
        assert!(!listens(u32::MAX));
        Ok(())
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Where the library of the package is, built as its tests are, and what tests of libraries need besides.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "all of this is test code; each test uses a part"
)]

use std::env;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A run that is not done by then hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// `libfabric.so`.
pub(crate) fn library() -> PathBuf {
    built("libfabric.so")
}

/// The package's library: cargo builds no cdylib for the tests of its package.
pub(crate) fn built(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let test = env::current_exe().unwrap();
            // target/debug/deps/test
            let directory = test.parent().and_then(Path::parent).unwrap();
            let profile = match directory.file_name().and_then(|name| name.to_str()) {
                Some("debug") => "dev",
                Some(profile) => profile,
                None => panic!("{} is in no directory of cargo's", test.display()),
            };
            let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            build.args(["build", "--package", env!("CARGO_PKG_NAME"), "--profile", profile, "--target-dir"]);
            let output = run(build.arg(directory.parent().unwrap()));
            assert!(output.status.success(), "{}", text(&output.stderr));
            directory.to_owned()
        })
        .join(name)
}

/// A directory with the library under the name by which programs load it; gone with the value.
pub(crate) struct Installed(PathBuf);

impl Installed {
    pub(crate) fn new(name: &str) -> Self {
        Self::of(&library(), "libfabric.so.1", name)
    }

    /// Any library, under any name.
    pub(crate) fn of(library: &Path, as_name: &str, name: &str) -> Self {
        let directory = env::temp_dir().join(format!("kofi-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        symlink(library, directory.join(as_name)).unwrap();
        Self(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A program that loads the library from here, with none of OFI's variables set.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = clean(program);
        command.env("LD_LIBRARY_PATH", &self.0);
        command
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program without any of OFI's variables.
pub(crate) fn clean(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("FI_")) {
        command.env_remove(name);
    }
    command
}

/// Whether a program is there. Where it is not, a test is skipped, unless `KOFI_INTEROP=require`.
pub(crate) fn have(program: &str, package: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return true;
    }
    let require = env::var_os("KOFI_INTEROP").is_some_and(|value| value == "require");
    assert!(!require, "KOFI_INTEROP=require, but {program} is not there: install {package}");
    println!("NOT TESTED: needs {program} ({package})");
    false
}

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The symbols that a library defines and those that it needs, with their versions: `name@version`.
pub(crate) fn symbols(library: &Path) -> (Vec<String>, Vec<String>) {
    let output = run(clean("readelf").args(["--dyn-syms", "--wide"]).arg(library));
    let output = text(&output.stdout);
    // Number, value, size, type, binding, visibility, section, name. The first symbol has no name.
    let rows = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = rows.filter(|row| row.len() >= 8 && row[0].trim_end_matches(':').parse::<u32>().is_ok());
    let (needed, defined): (Vec<_>, Vec<_>) = rows.partition(|row| row[6] == "UND");
    let names = |rows: Vec<Vec<&str>>| rows.iter().map(|row| row[7].to_owned()).collect();
    (names(defined), names(needed))
}

/// A side of a ping-pong that does not outlive the test.
struct Side(Child);

impl Drop for Side {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Side {
    fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(piped.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}")))
    }

    /// Its exit status and what it has printed, once it has ended.
    fn end(&mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        let status = loop {
            match self.0.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if start.elapsed() > LIMIT => {
                    self.0.kill().unwrap();
                    break None;
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let mut output = std::io::read_to_string(self.0.stdout.take().unwrap()).unwrap();
        output += &std::io::read_to_string(self.0.stderr.take().unwrap()).unwrap();
        (status, output)
    }
}

/// `fi_pingpong` with checked data between a server and a client, which may be on different libraries.
pub(crate) fn ping_pong(server: impl Fn() -> Command, client: impl Fn() -> Command, arguments: &[&str]) {
    // Both sides keep a processor busy: pairs that run at once would wait for each other.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let port = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port().to_string();
    let arguments = [arguments, &["-c", "-I", "10"]].concat();
    let mut server = Side::start(server().args(&arguments).args(["-B", &port]));
    let start = Instant::now();
    loop {
        let mut client = client();
        let (status, output) = Side::start(client.args(&arguments).args(["-P", &port, "127.0.0.1"])).end();
        if status == Some(0) {
            // A line for each size.
            assert!(output.lines().count() > 5, "{output}");
            break;
        }
        // It was there before the server was, and failed to connect.
        assert!(server.0.try_wait().unwrap().is_none(), "client: {output}server: {}", server.end().1);
        assert!(start.elapsed() < LIMIT, "{output}");
        thread::sleep(Duration::from_millis(20));
    }
    let (status, output) = server.end();
    assert_eq!(status, Some(0), "{output}");
}

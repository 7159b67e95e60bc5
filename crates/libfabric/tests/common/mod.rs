// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Where the library is that was just built, and what these tests need besides.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "all of this is test code; each test uses a part"
)]

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The library, built as these tests are: cargo builds no cdylib for the tests of its package.
pub(crate) fn library() -> PathBuf {
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
            directory.join("libfabric.so")
        })
        .clone()
}

/// A directory with the library under the name by which programs load it; gone with the value.
pub(crate) struct Installed(PathBuf);

impl Installed {
    pub(crate) fn new(name: &str) -> Self {
        let directory = env::temp_dir().join(format!("kofi-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        symlink(library(), directory.join("libfabric.so.1")).unwrap();
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

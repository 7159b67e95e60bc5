// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Where the workspace is, and how to call cargo in it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;

/// The directory that holds the workspace's Cargo.toml.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The cargo that runs us, in the workspace's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// What the compiler says to that question.
pub(crate) fn ask_rustc(arguments: &[&str]) -> Result<String, String> {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.current_dir(root()).args(arguments);
    process::stdout(&mut rustc).ok_or_else(|| format!("cannot run `{}`", process::line(&rustc)))
}

/// The target that this machine itself is.
pub(crate) fn host() -> Result<String, String> {
    let version = ask_rustc(&["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not tell its host".to_owned())
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask freestanding`: builds kofi-core the way the kernel module does.
//!
//! The precompiled `core` and `alloc` of a hosted target use SSE registers and the red zone, which a kernel cannot
//! have, so both are built from the toolchain's source. That needs a rustc with its library source beside it:
//! rustup's with the `rust-src` component, or Debian's `rustc-web` with `rust-web-src`. Either is driven by the
//! cargo that runs us; RUSTC_BOOTSTRAP lets a stable rustc accept `-Z` options.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{process, workspace};

const TARGET: &str = "x86_64-unknown-none";

/// Flags for code that is linked into a Linux module: addresses are fixed by the module loader, which knows no GOT;
/// no unwind tables; and the hardening that objtool expects (IBT, return thunks, retpolines, call padding).
const RUSTFLAGS: &str = "-Crelocation-model=static -Crelro-level=off -Zplt=yes -Cforce-unwind-tables=no \
    -Zcf-protection=branch -Zfunction-return=thunk-extern -Zretpoline-external-thunk -Cjump-tables=no \
    -Zpatchable-function-entry=16,16";

/// A rustc that has the source of its standard library.
pub(crate) struct Toolchain {
    rustc: PathBuf,
    release: String,
}

impl Toolchain {
    /// The first fit rustc of this machine, or why each is not.
    pub(crate) fn find() -> Result<Self, String> {
        let mut unfit = Vec::new();
        for rustc in ["rustc", "/usr/bin/rustc"] {
            match Self::probe(Path::new(rustc)) {
                Ok(toolchain) => return Ok(toolchain),
                Err(why) => unfit.push(format!("{rustc} {why}")),
            }
        }
        Err(unfit.join("; "))
    }

    fn probe(rustc: &Path) -> Result<Self, String> {
        let ask = |arguments: &[&str]| process::stdout(Command::new(rustc).args(arguments));
        let version = ask(&["-vV"]).ok_or("cannot be run")?;
        let release = version.lines().find_map(|line| line.strip_prefix("release: "));
        let release = release.ok_or("does not tell its version")?.to_owned();
        let wanted = env!("CARGO_PKG_RUST_VERSION");
        if minor(&release) < minor(wanted) {
            return Err(format!("is {release}, kofi needs {wanted} or later"));
        }
        let sysroot = ask(&["--print", "sysroot"]).ok_or("does not tell its sysroot")?;
        let source = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
        if !source.join("Cargo.lock").is_file() {
            return Err(format!("has no library source in {}", source.display()));
        }
        Ok(Self { rustc: rustc.to_owned(), release })
    }
}

/// The number after "1." in a rustc release, 0 where there is none.
fn minor(release: &str) -> u32 {
    release.split('.').nth(1).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// A cargo command that builds for the kernel; its RUSTFLAGS reach the target's crates only, not macros and build scripts.
fn cargo_build(toolchain: &Toolchain) -> Command {
    let mut cargo = workspace::cargo();
    cargo
        // The hosting cargo's library path may name another toolchain's libraries.
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTC", &toolchain.rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", RUSTFLAGS)
        .args(["build", "--release", "--target", TARGET, "-Zbuild-std=core,alloc", "-Zbuild-std-features="])
        // Its own directory: another compiler and other flags would rebuild everything at each change of sides.
        .arg("--target-dir")
        .arg(workspace::target_dir().join("freestanding"));
    cargo
}

pub(crate) fn run() -> Result<(), String> {
    let toolchain = Toolchain::find().map_err(|why| {
        format!(
            "building for {TARGET} needs a rustc with its library source, found none: {why}. \
            Run `cargo xtask setup`, or `rustup component add rust-src`."
        )
    })?;
    process::run(cargo_build(&toolchain).args(["-p", "kofi-core"]))?;
    println!("kofi-core builds for {TARGET} with rustc {}", toolchain.release);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::minor;

    #[test]
    fn a_release_has_a_minor_number() {
        assert_eq!(minor("1.96.0"), 96);
        assert_eq!(minor("1.98.0-nightly"), 98);
        assert!(minor("1.85.0") < minor("1.90"));
        assert_eq!(minor("unknown"), 0);
    }
}

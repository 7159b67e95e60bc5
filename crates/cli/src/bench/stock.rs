// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Stock libfabric, where it is installed: compiles `stock.c` against it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("stock.c");

/// The compiled program, until it is dropped.
pub(super) struct Stock {
    directory: PathBuf,
    pub(super) version: String,
}

impl Stock {
    /// Compiles the program with `library`, or with what the linker finds.
    ///
    /// # Errors
    /// Why it is not available.
    pub(super) fn compile(library: Option<&Path>) -> Result<Self, String> {
        let directory = std::env::temp_dir().join(format!("kofi-bench-{}", std::process::id()));
        let cannot = |what: &Path, error| format!("cannot write {}: {error}", what.display());
        // Nobody else's directory is taken for ours.
        fs::create_dir(&directory).map_err(|error| cannot(&directory, error))?;
        let mut stock = Self { directory, version: String::new() };
        let source = stock.directory.join("stock.c");
        fs::write(&source, SOURCE).map_err(|error| cannot(&source, error))?;
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o"]).arg(stock.program()).arg(&source);
        match library {
            None => cc.arg("-lfabric"),
            Some(library) => {
                let library =
                    library.canonicalize().map_err(|error| format!("{}: {error}", library.display()))?;
                let parent = library.parent().unwrap_or(Path::new("/")).display().to_string();
                cc.arg(&library).arg(format!("-Wl,-rpath,{parent}"))
            }
        };
        let output = cc.output().map_err(|error| format!("no C compiler: cc: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let line = text.lines().find(|line| line.contains("error") || line.contains("cannot find"));
            let line = line.unwrap_or("cc failed").trim();
            return Err(format!("stock.c does not compile ({line}); install libfabric-dev"));
        }
        let output = Command::new(stock.program()).arg("version").output();
        let output = output.map_err(|error| format!("the compiled stock.c does not run: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the compiled stock.c does not run: {}", text.lines().next().unwrap_or("")));
        }
        stock.version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(stock)
    }

    pub(super) fn program(&self) -> PathBuf {
        self.directory.join("stock")
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

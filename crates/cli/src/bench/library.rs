// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Any libfabric, through its C interface: `library.c`, compiled against it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("library.c");
/// What programs that were linked with any libfabric look for.
const SONAME: &str = "libfabric.so.1";

/// The compiled program, until it is dropped.
pub(super) struct Library {
    directory: PathBuf,
    pub(super) version: String,
}

impl Library {
    /// Compiles the program with `library`, or with what the linker finds. `name` tells it from others of this
    /// process.
    ///
    /// # Errors
    /// Why it is not available.
    pub(super) fn compile(name: &str, library: Option<&Path>) -> Result<Self, String> {
        let directory = std::env::temp_dir().join(format!("kofi-bench-{}-{name}", std::process::id()));
        let cannot = |what: &Path, error| format!("cannot write {}: {error}", what.display());
        // Nobody else's directory is taken for ours.
        fs::create_dir(&directory).map_err(|error| cannot(&directory, error))?;
        let mut driver = Self { directory, version: String::new() };
        let source = driver.directory.join("library.c");
        fs::write(&source, SOURCE).map_err(|error| cannot(&source, error))?;
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o"]).arg(driver.program()).arg(&source);
        match library {
            None => cc.arg("-lfabric"),
            Some(library) => {
                let library =
                    library.canonicalize().map_err(|error| format!("{}: {error}", library.display()))?;
                // Whatever its file is called, and whatever lies beside it.
                let link = driver.directory.join(SONAME);
                symlink(library, &link).map_err(|error| cannot(&link, error))?;
                cc.arg(&link).arg(format!("-Wl,-rpath,{}", driver.directory.display()))
            }
        };
        let output = cc.output().map_err(|error| format!("no C compiler: cc: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let line = text.lines().find(|line| line.contains("error") || line.contains("cannot find"));
            let line = line.unwrap_or("cc failed").trim();
            return Err(format!("library.c does not compile ({line}); install libfabric-dev"));
        }
        let output = Command::new(driver.program()).arg("version").output();
        let output = output.map_err(|error| format!("the compiled library.c does not run: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "the compiled library.c does not run: {}",
                text.lines().next().unwrap_or("")
            ));
        }
        driver.version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(driver)
    }

    pub(super) fn program(&self) -> PathBuf {
        self.directory.join("library")
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What users get: a directory for DKMS with the Rust part built, and what `make -C kernel install` installs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Kernel, target};
use crate::{process, workspace};

/// Of `kernel/`, what the module is built from where there is no Rust; and the licence.
const PARTS: [&str; 8] =
    ["Kbuild", "Makefile", "api", "include", "include-private", "shim", "clients", "../LICENSE"];

/// Where the module's clients are, in a kernel's directory of modules.
const CLIENTS: &str = "extra";

/// Makes a directory that DKMS takes. Gives its path, below `out`.
pub(super) fn dkms(out: &Path, rust: &Path) -> Result<PathBuf, String> {
    let directory = out.join(format!("kofi-{}", version()));
    let kernel = workspace::root().join("kernel");
    if directory.exists() {
        let why = |why| format!("cannot remove {}: {why}", directory.display());
        // Nobody's but one of ours.
        if !directory.join("dkms.conf").is_file() {
            return Err(format!(
                "{} is there, and no DKMS directory; give another --out",
                directory.display()
            ));
        }
        fs::remove_dir_all(&directory).map_err(why)?;
    }
    let cannot = |why| format!("cannot write {}: {why}", directory.display());
    fs::create_dir_all(&directory).map_err(cannot)?;
    for part in PARTS {
        process::run(Command::new("cp").arg("-r").arg(kernel.join(part)).arg(&directory))?;
    }
    process::run(Command::new("cp").args([&kernel.join("dkms/symvers.sh"), &directory]))?;
    fs::copy(rust, directory.join("rust.o_shipped")).map_err(cannot)?;
    let conf = fs::read_to_string(kernel.join("dkms/dkms.conf")).map_err(cannot)?;
    fs::write(directory.join("dkms.conf"), conf.replace("@VERSION@", version())).map_err(cannot)?;
    Ok(directory)
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Packages kofi.ko, has DKMS build it without Rust, and puts it into `root` with its clients as an installation would.
pub(crate) fn install(root: &Path, kernel: &Kernel, modules: &Path, rust: &Path) -> Result<(), String> {
    let release = &kernel.release;
    let sources = dkms(&target().join("dkms/src"), rust)?;
    let tree = target().join("dkms/tree");
    fs::create_dir_all(&tree).map_err(|why| format!("cannot make {}: {why}", tree.display()))?;
    let mut build = Command::new("/usr/sbin/dkms");
    // Nothing of ours, and nothing of Rust's.
    build.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("RUSTC", "/bin/false");
    build.arg("build").arg("--force").arg("--dkmstree").arg(&tree).arg("--sourcetree");
    build.arg(sources.parent().unwrap_or(&sources)).args(["-k", release]);
    build.arg("--kernelsourcedir").arg(&kernel.headers).arg(format!("kofi/{}", version()));
    quietly(&mut build)?;
    let built = tree.join(format!("kofi/{}/{release}/x86_64/module", version()));
    let place = root.join("lib/modules").join(release);
    let cannot = |why| format!("cannot fill {}: {why}", place.display());
    for directory in ["updates/dkms", CLIENTS] {
        fs::create_dir_all(place.join(directory)).map_err(cannot)?;
    }
    // Compressed, where the kernel's own modules are.
    let unpack = "for module in \"$0\"/kofi.ko*; do case $module in *.xz) xz -dc;; *.zst) zstd -qdc;; *) cat;; esac \
                  < \"$module\" > \"$1\"; done";
    process::run(Command::new("sh").args(["-c", unpack]).arg(built).arg(place.join("updates/dkms/kofi.ko")))?;
    for client in ["deck_server.ko", "deck_client.ko"] {
        fs::copy(modules.join("clients").join(client), place.join(CLIENTS).join(client)).map_err(cannot)?;
    }
    depmod(root, release)
}

fn depmod(root: &Path, release: &str) -> Result<(), String> {
    let mut depmod = Command::new("depmod");
    depmod.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").arg("-b").arg(root).arg(release);
    quietly(&mut depmod)
}

/// Runs the command; what it says counts only if it fails.
fn quietly(command: &mut Command) -> Result<(), String> {
    let line = process::line(command);
    let output = command.output().map_err(|why| format!("cannot run `{line}`: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [&output.stdout, &output.stderr].map(|part| String::from_utf8_lossy(part));
    Err(format!("`{line}` failed ({}):\n{}{}", output.status, said[0], said[1]))
}

/// `make install` puts the modules where modprobe finds them, and what depends on kofi.ko says so.
pub(super) fn check_install(kernel: &Kernel, modules: &Path, rust: &Path) -> Result<(), String> {
    let root = target().join(format!("installed-{}", kernel.release));
    if root.exists() {
        fs::remove_dir_all(&root).map_err(|why| format!("cannot remove {}: {why}", root.display()))?;
    }
    let mut make = kernel.make(modules, rust);
    make.args(["install", "KOFI_CLIENTS=1"]).arg(format!("INSTALL_MOD_PATH={}", root.display()));
    quietly(&mut make)?;
    let list = root.join("lib/modules").join(&kernel.release).join("modules.dep");
    let found = fs::read_to_string(&list).map_err(|why| format!("cannot read {}: {why}", list.display()))?;
    let depends = |line: &str| {
        let (module, needs) = line.split_once(':').unwrap_or_default();
        module.contains("/deck_server.ko") && needs.contains("/kofi.ko")
    };
    match found.lines().any(depends) {
        true => Ok(()),
        false => Err(format!("{} does not say that deck_server.ko needs kofi.ko:\n{found}", list.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_has_this_version() {
        let module = fs::read_to_string(workspace::root().join("kernel/shim/module.c")).unwrap();
        assert!(module.contains(&format!("MODULE_VERSION(\"{}\");", version())));
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask install`: kofi's libraries and its command, in a tree that `ld` and `pkg-config` find.
//!
//! ```text
//! PREFIX/bin/kofi                     the command
//! PREFIX/lib/libfabric.so.1           the library, with libfabric.so for linking
//! PREFIX/lib/libfabric/libkofi-fi.so  the provider for a stock libfabric (FI_PROVIDER_PATH)
//! PREFIX/lib/pkgconfig/libfabric.pc
//! ```

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{process, setup, workspace};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where the files are to be found; DESTDIR, if it is set, is put in front for writing them
    #[arg(long, value_name = "P", default_value = "/usr/local")]
    prefix: PathBuf,
    /// The directory of the libraries, from the prefix on
    #[arg(long, value_name = "D", default_value = "lib")]
    libdir: PathBuf,
    /// Install into the target directory, and build and run a C program with what is there
    #[arg(long, conflicts_with = "prefix")]
    check: bool,
}

/// Where something is put, and where it will be found.
struct Tree {
    destination: Option<OsString>,
    prefix: PathBuf,
    libdir: PathBuf,
}

impl Tree {
    /// The place for writing what will be at `path`.
    fn place(&self, path: &Path) -> PathBuf {
        match &self.destination {
            Some(destination) => {
                let mut place = destination.clone();
                place.push(path);
                place.into()
            }
            None => path.to_owned(),
        }
    }

    fn lib(&self) -> PathBuf {
        self.prefix.join(&self.libdir)
    }

    /// Puts a built file there; the way to it is made.
    fn file(&self, from: &Path, path: &Path) -> Result<(), String> {
        let place = self.place(path);
        let cannot = |what: &str, why| format!("cannot {what} {}: {why}", place.display());
        if let Some(directory) = place.parent() {
            fs::create_dir_all(directory).map_err(|why| cannot("make the directory of", why))?;
        }
        // A program that has it open keeps what it has: the old file goes, it is not written into.
        remove(&place)?;
        fs::copy(from, &place).map_err(|why| cannot("write", why))?;
        println!("installed {}", place.display());
        Ok(())
    }

    fn text(&self, text: &str, path: &Path) -> Result<(), String> {
        let place = self.place(path);
        let cannot = |why| format!("cannot write {}: {why}", place.display());
        fs::create_dir_all(place.parent().unwrap_or(&place)).map_err(cannot)?;
        fs::write(&place, text).map_err(cannot)?;
        println!("installed {}", place.display());
        Ok(())
    }

    /// Another name for a file in the same directory.
    fn link(&self, to: &str, path: &Path) -> Result<(), String> {
        let place = self.place(path);
        remove(&place)?;
        symlink(to, &place).map_err(|why| format!("cannot link {}: {why}", place.display()))?;
        println!("installed {}", place.display());
        Ok(())
    }
}

fn remove(place: &Path) -> Result<(), String> {
    match fs::remove_file(place) {
        Ok(()) => Ok(()),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(format!("cannot replace {}: {why}", place.display())),
    }
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    if options.check {
        return check();
    }
    let prefix = std::path::absolute(&options.prefix)
        .map_err(|why| format!("the prefix {} cannot be used: {why}", options.prefix.display()))?;
    let destination = env::var_os("DESTDIR").filter(|directory| !directory.is_empty());
    install(&Tree { destination, prefix, libdir: options.libdir.clone() })
}

/// Builds what is installed.
fn build() -> Result<(), String> {
    let packages = ["-p", "kofi-libfabric", "-p", "kofi-plugin", "-p", "kofi-cli"];
    process::run(workspace::cargo().args(["build", "--release", "--locked"]).args(packages))
}

/// `cargo xtask deb`: a Debian package of the same files, which lie beside the distribution's libfabric.
pub(crate) fn deb() -> Result<(), String> {
    setup::provide(&[&setup::CARGO_DEB]);
    build()?;
    process::run(workspace::cargo().args(["deb", "--no-build", "--strip", "-p", "kofi-libfabric"]))
}

fn install(tree: &Tree) -> Result<(), String> {
    build()?;
    let built = workspace::target_dir().join("release");
    let lib = tree.lib();
    tree.file(&built.join("libfabric.so"), &lib.join("libfabric.so.1"))?;
    tree.link("libfabric.so.1", &lib.join("libfabric.so"))?;
    tree.file(&built.join("libkofi_fi.so"), &lib.join("libfabric/libkofi-fi.so"))?;
    tree.text(&pc(&tree.prefix, &tree.libdir), &lib.join("pkgconfig/libfabric.pc"))?;
    tree.file(&built.join("kofi"), &tree.prefix.join("bin/kofi"))
}

/// `libfabric.pc`. Programs ask for a version of libfabric: that whose interfaces these are.
fn pc(prefix: &Path, libdir: &Path) -> String {
    format!(
        "prefix={}\n\
         libdir=${{prefix}}/{}\n\
         \n\
         Name: libfabric\n\
         Description: Open Fabrics Interfaces, by kofi {}; headers are those of any libfabric\n\
         URL: https://ofiwg.github.io/libfabric/\n\
         Version: 2.6.0\n\
         Libs: -L${{libdir}} -lfabric\n\
         Cflags:\n",
        prefix.display(),
        libdir.display(),
        env!("CARGO_PKG_VERSION")
    )
}

/// A C program that says which library it runs on.
const PROGRAM: &str = "#include <stdio.h>
#include <rdma/fabric.h>

int main(void)
{
	struct fi_info *info;
	int ret = fi_getinfo(fi_version(), \"127.0.0.1\", \"5000\", 0, NULL, &info);

	printf(\"%s %s\\n\", fi_tostr(\"\", FI_TYPE_VERSION), ret ? fi_strerror(ret) : info->fabric_attr->prov_name);
	if (!ret)
		fi_freeinfo(info);
	return ret ? 1 : 0;
}
";

/// Installs beside the build, and lets a C compiler find and use it by pkg-config alone.
fn check() -> Result<(), String> {
    let place = workspace::target_dir().join("installed");
    let cannot = |why| format!("cannot use {}: {why}", place.display());
    if place.exists() {
        fs::remove_dir_all(&place).map_err(cannot)?;
    }
    // As packages are made: written below one directory, to be found in another.
    let prefix = PathBuf::from("/opt/kofi");
    let tree = Tree { destination: Some(place.clone().into()), prefix, libdir: "lib".into() };
    install(&tree)?;
    let lib = tree.place(&tree.lib());
    let (source, program) = (place.join("check.c"), place.join("check"));
    fs::write(&source, PROGRAM).map_err(cannot)?;

    let mut ask = Command::new("pkg-config");
    ask.env("PKG_CONFIG_PATH", lib.join("pkgconfig")).env("PKG_CONFIG_SYSROOT_DIR", &place);
    let flags = process::stdout(ask.args(["--cflags", "--libs", "libfabric >= 2.0"])).ok_or_else(|| {
        format!("pkg-config does not find {}", lib.join("pkgconfig/libfabric.pc").display())
    })?;
    let mut compile = Command::new("cc");
    process::run(compile.arg(&source).arg("-o").arg(&program).args(flags.split_whitespace()))?;
    let said = process::stdout(Command::new(&program).env("LD_LIBRARY_PATH", &lib))
        .ok_or_else(|| format!("{} fails", program.display()))?;
    let wanted = format!("2.6.0 (kofi {}) tcp\n", env!("CARGO_PKG_VERSION"));
    if said == wanted {
        println!("a C program, built by pkg-config, runs on it");
        return Ok(());
    }
    Err(format!("a C program on the installed library says {said:?}, not {wanted:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_below_destdir() {
        let tree = |destination: Option<&str>| Tree {
            destination: destination.map(OsString::from),
            prefix: "/usr".into(),
            libdir: "lib64".into(),
        };
        let path = tree(None).lib().join("libfabric.so.1");
        assert_eq!(path, Path::new("/usr/lib64/libfabric.so.1"));
        assert_eq!(tree(None).place(&path), path);
        assert_eq!(tree(Some("/pkg")).place(&path), Path::new("/pkg/usr/lib64/libfabric.so.1"));
    }

    #[test]
    fn pc_has_what_pkg_config_reads() {
        let pc = pc(Path::new("/usr"), Path::new("lib64"));
        assert!(pc.starts_with("prefix=/usr\nlibdir=${prefix}/lib64\n\nName: libfabric\n"), "{pc}");
        assert!(pc.contains("\nLibs: -L${libdir} -lfabric\n"), "{pc}");
    }
}

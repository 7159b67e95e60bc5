// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! A program is linked to this library by any linker, and then needs the same of it as one that was linked to stock's:
//! so each runs on both.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod common;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Installed, clean, have, library, run, symbols, text};

const STOCK: &str = "/usr/lib/x86_64-linux-gnu";

/// The linkers that are there, each with what the C compiler has to be told.
fn linkers() -> Vec<(&'static str, Vec<String>)> {
    let mut linkers = vec![("bfd", vec!["-fuse-ld=bfd".to_owned()])];
    if have("ld.gold", "binutils-gold, or binutils before 2.44") {
        linkers.push(("gold", vec!["-fuse-ld=gold".to_owned()]));
    }
    // That of rustc.
    let sysroot = run(Command::new("rustc").args(["--print", "sysroot"]));
    let lld =
        PathBuf::from(text(&sysroot.stdout).trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld");
    if lld.join("ld.lld").exists() {
        linkers.push(("lld", vec!["-fuse-ld=lld".to_owned(), format!("-B{}", lld.display())]));
    } else if have("ld.lld", "lld") {
        linkers.push(("lld", vec!["-fuse-ld=lld".to_owned()]));
    }
    linkers
}

/// The names of what a library gives to programs that are linked now.
fn defaults(library: &Path) -> BTreeSet<String> {
    let (defined, _) = symbols(library);
    defined.iter().filter_map(|export| Some(export.split_once("@@")?.0.to_owned())).collect()
}

/// The versions of OFI's functions that a program or library needs.
fn needs(program: &Path) -> BTreeSet<String> {
    let (_, needed) = symbols(program);
    needed.into_iter().filter(|symbol| symbol.starts_with("fi_")).collect()
}

/// Links a program to the library in a directory.
fn link(source: &Path, how: &[String], directory: &Path, program: &Path) {
    let mut compile = clean("cc");
    compile.args(["-fno-builtin", "-Wl,--no-as-needed"]).args(how).arg(source).arg("-o").arg(program);
    let output = run(compile.arg("-L").arg(directory).arg("-lfabric"));
    assert!(output.status.success(), "{how:?}: {}", text(&output.stderr));
}

#[test]
fn programs_need_what_they_need_of_stock() {
    if !have("cc", "gcc") || !have("readelf", "binutils") {
        return;
    }
    let ours = Installed::new("linking");
    symlink(library(), ours.path().join("libfabric.so")).unwrap();
    let stock = Path::new(STOCK);
    let with_stock = stock.join("libfabric.so").exists();
    if !with_stock {
        println!("NOT TESTED: stock's library, needs libfabric-dev");
    }
    // What both have; without headers, so that nothing but the library decides.
    let mut names = defaults(&library());
    if with_stock {
        let there = defaults(&stock.join("libfabric.so"));
        names.retain(|name| there.contains(name));
    }
    assert!(names.contains("fi_getinfo") && names.len() > 10, "{names:?}");
    let declarations: String = names.iter().map(|name| format!("extern char {name}[];\n")).collect();
    let places: String = names.iter().map(|name| format!("{name}, ")).collect();
    let source = ours.path().join("all.c");
    let text = format!(
        "{declarations}static char *const all[] = {{{places}}};\n\
         int main(int count, char **words)\n{{\n\t(void)words;\n\treturn all[count - 1] == 0;\n}}\n"
    );
    fs::write(&source, text).unwrap();

    let wanted: BTreeSet<_> = {
        let list = include_str!("exports.txt").lines().filter(|line| line.contains("@@"));
        let of = |line: &str| names.contains(line.split('@').next().unwrap());
        list.filter(|line| of(line)).map(|line| line.replace("@@", "@")).collect()
    };
    for (linker, how) in linkers() {
        let program = ours.path().join(linker);
        link(&source, &how, ours.path(), &program);
        assert_eq!(needs(&program), wanted, "{linker}");
        let status = ours.command(program.to_str().unwrap()).status().unwrap();
        assert!(status.success(), "{linker}: on ours: {status}");
        if !with_stock {
            continue;
        }
        let status = clean(program.to_str().unwrap()).env_remove("LD_LIBRARY_PATH").status().unwrap();
        assert!(status.success(), "{linker}: linked to ours, on stock's: {status}");
        let other = ours.path().join(format!("{linker}-stock"));
        link(&source, &how, stock, &other);
        // Stock's since 1.20 have newer versions by default.
        if needs(&other).contains("fi_getinfo@FABRIC_1.3") {
            assert_eq!(needs(&program), needs(&other), "{linker}");
        }
        let status = ours.command(other.to_str().unwrap()).status().unwrap();
        assert!(status.success(), "{linker}: linked to stock's, on ours: {status}");
    }
}

/// GNU ld cannot link the library itself, so another linker is asked for wherever none was chosen.
#[test]
fn the_library_is_not_linked_by_gnu_ld() {
    if !have("readelf", "binutils") {
        return;
    }
    let output = run(clean("readelf").args(["--string-dump=.comment"]).arg(library()));
    let chosen = env::var("RUSTFLAGS").is_ok_and(|flags| flags.contains("-fuse-ld="));
    assert!(chosen || text(&output.stdout).contains("LLD"), "{}", text(&output.stdout));
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask tree`: rules about the source that neither rustc nor clippy checks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{process, workspace};

/// The only places with unsafe code: system calls and buffers, the C faces and the kernel.
const UNSAFE_ALLOWED: [&str; 11] = [
    "crates/kofi/src/sys",
    "crates/kofi/src/buffer",
    "crates/kofi/src/foreign.rs",
    "crates/abi/",
    "crates/libfabric/",
    "crates/plugin/",
    "kernel/",
    // Of the tests: the allocator that fails on demand, and what is said when that ends the process.
    "crates/conformance/src/allocator.rs",
    "crates/conformance/src/bin/kofi-sim.rs",
    // fork(2), and the allocator that counts.
    "crates/kofi/tests/field_reports/fork.rs",
    "crates/kofi/tests/allocations.rs",
];

/// Files of these kinds start with a licence line.
const LICENSED: [&str; 7] = ["rs", "toml", "sh", "c", "h", "lds", "S"];

/// Where nobody may switch off the lints against `unwrap` and `expect`.
const NO_PANIC: [&str; 2] = ["crates/core/src/", "crates/kofi/src/"];

/// Directories of a developer's machine, in two parts so that this list does not match itself.
const MACHINE: [(&str, &str); 4] = [("/home", "/"), ("/root", "/"), ("/work", "/"), ("/tmp", "/wt")];

pub(crate) fn run() -> Result<(), String> {
    let files = files()?;
    let mut found = Vec::new();
    for path in &files {
        // A file that git still lists may be deleted, and a picture is no text.
        if let Ok(text) = fs::read_to_string(workspace::root().join(path)) {
            check(path, &text, &mut found);
        }
    }
    if found.is_empty() {
        println!("{} files checked", files.len());
        return Ok(());
    }
    found.iter().for_each(|complaint| println!("{complaint}"));
    Err(format!("the source tree breaks {} rules, see above", found.len()))
}

/// All files, relative to the root: git's, or all there are where this is no git checkout.
fn files() -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.current_dir(workspace::root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    // An unpacked archive may lie in another project's checkout that ignores it: then git lists nothing.
    if let Some(list) = process::stdout(&mut git).filter(|list| !list.is_empty()) {
        return Ok(list.split_terminator('\0').map(str::to_owned).collect());
    }
    let (mut files, mut directories) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(directory) = directories.pop() {
        let cannot = |why| format!("cannot list {}: {why}", workspace::root().join(&directory).display());
        for entry in fs::read_dir(workspace::root().join(&directory)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let path = directory.join(entry.file_name());
            if !entry.file_type().map_err(cannot)?.is_dir() {
                files.push(path.to_string_lossy().into_owned());
            } else if entry.file_name() != ".git" && !entry.path().join("CACHEDIR.TAG").exists() {
                directories.push(path);
            }
        }
    }
    Ok(files)
}

/// Adds what is wrong with one file to `found`.
fn check(path: &str, text: &str, found: &mut Vec<String>) {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or("");
    let script = text.starts_with("#!") && !text.starts_with("#![");
    if (script || LICENSED.contains(&extension))
        && !text.lines().take(3).any(|line| line.contains("SPDX-License-Identifier: "))
    {
        found.push(format!("{path}: no SPDX-License-Identifier in its first lines"));
    }
    if path == "crates/core/src/lib.rs" {
        for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
            if !text.lines().any(|line| line == attribute) {
                found.push(format!("{path}: without {attribute}"));
            }
        }
    }
    if path.starts_with("crates/")
        && path.ends_with("/Cargo.toml")
        && !text.contains("[lints]\nworkspace = true")
    {
        found.push(format!("{path}: does not take over the workspace's lints"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        let mut complain = |what: &str| found.push(format!("{path}:{number}: {what}"));
        if names_a_machine(line) {
            complain("names a directory of one machine");
        }
        if extension != "rs" {
            continue;
        }
        let code = line.split("//").next().unwrap_or(line);
        if has_unsafe(code) && !starts_with_any(path, &UNSAFE_ALLOWED) {
            complain("unsafe code outside the places for it (UNSAFE_ALLOWED in xtask/src/tree.rs)");
        }
        let lints = code.contains("clippy::unwrap_used") || code.contains("clippy::expect_used");
        if lints && starts_with_any(path, &NO_PANIC) {
            complain("switches off a lint that keeps panics out");
        }
    }
}

fn starts_with_any(path: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| path.starts_with(prefix))
}

/// Whether the line has an absolute path into a developer's machine (and not just a longer path or an address).
fn names_a_machine(line: &str) -> bool {
    MACHINE.iter().any(|(top, rest)| {
        let directory = format!("{top}{rest}");
        line.match_indices(&directory).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            before.is_none_or(|c| !c.is_alphanumeric() && !"._-~/}*".contains(c))
        })
    })
}

/// Whether the code has the keyword, as opposed to a lint's name or prose.
fn has_unsafe(code: &str) -> bool {
    code.match_indices("unsafe").any(|(at, word)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].trim_start();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
            && ["{", "fn ", "impl", "trait ", "extern ", "("].iter().any(|next| after.starts_with(next))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check(path, text, &mut found);
        found
    }

    #[test]
    fn a_source_file_needs_its_licence_line() {
        assert_eq!(complaints("crates/cli/src/tour.rs", "//! The tour.\n").len(), 1);
        assert_eq!(complaints(".ci/run", "#!/bin/sh\nset -e\n").len(), 1);
        assert!(complaints(".ci/run", "#!/bin/sh\n# SPDX-License-Identifier: BSD-2-Clause\n").is_empty());
        assert!(complaints("README.md", "# kofi\n").is_empty());
    }

    #[test]
    fn unsafe_code_has_its_places() {
        let word = "unsafe";
        for code in ["{ f() }", "fn f() {}", "impl Send for X {}"] {
            let text = format!("// SPDX-License-Identifier: BSD-2-Clause\n{word} {code}\n");
            assert_eq!(complaints("crates/cli/src/tour.rs", &text).len(), 1, "{text}");
            assert!(complaints("crates/kofi/src/sys/socket.rs", &text).is_empty(), "{text}");
        }
        assert!(!has_unsafe("#![forbid(unsafe_code)]"));
        assert!(!has_unsafe("\"no unsafe code\""));
    }

    #[test]
    fn core_keeps_its_promises() {
        let text = "// SPDX-License-Identifier: BSD-2-Clause\n#![no_std]\n";
        assert_eq!(
            complaints("crates/core/src/lib.rs", text),
            ["crates/core/src/lib.rs: without #![forbid(unsafe_code)]"]
        );
        let text = "// SPDX-License-Identifier: BSD-2-Clause\n#[allow(clippy::unwrap_used)]\n";
        assert_eq!(complaints("crates/core/src/queue.rs", text).len(), 1);
        assert!(complaints("crates/cli/src/bench.rs", text).is_empty());
    }

    #[test]
    fn a_path_of_a_machine_is_told_from_others() {
        let home = concat!("/home", "/me/kofi");
        assert!(names_a_machine(home));
        assert!(names_a_machine(&format!("cd {home}")));
        assert!(names_a_machine(&format!("(\"{home}\")")));
        assert!(!names_a_machine(&format!("https://example.org{home}")));
        assert!(!names_a_machine("/tmp/kofi"));
    }
}

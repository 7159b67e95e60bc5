// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The kept corpus without libFuzzer: where that cannot run, this can.

use std::fs;
use std::path::Path;

use kofi_fuzz::{TARGETS, seeds};

fn corpus() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus"))
}

#[test]
fn seeds_are_what_the_captures_give() {
    let write = std::env::var_os("KOFI_SEEDS").is_some_and(|value| value == "write");
    for (target, name, input) in seeds::seeds() {
        let path = corpus().join(target).join(&name);
        if write {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &input).unwrap();
        }
        assert_eq!(fs::read(&path).ok(), Some(input), "{}: run it with KOFI_SEEDS=write", path.display());
    }
}

#[test]
fn the_corpus_passes() {
    for (target, run) in TARGETS {
        let mut inputs = 0;
        for entry in fs::read_dir(corpus().join(target)).unwrap() {
            run(&fs::read(entry.unwrap().path()).unwrap());
            inputs += 1;
        }
        assert!(inputs > 0, "{target} has no corpus");
        // And what every fuzzer begins with.
        run(&[]);
    }
}

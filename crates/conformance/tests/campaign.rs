// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! A few of the random schedules; `kofi-sim` runs as many as there is time for.

use kofi_conformance::{FailingAllocator, campaign};

#[global_allocator]
static ALLOCATOR: FailingAllocator = FailingAllocator;

#[test]
fn fixed_seeds() {
    let mut total = campaign::Tally::default();
    for seed in 1..=400 {
        let tally = std::panic::catch_unwind(|| campaign::run(seed, false));
        match tally {
            Ok(tally) => total.add(&tally),
            Err(_) => {
                // Once more, with a record of what happens.
                campaign::run(seed, true);
                panic!("seed {seed} fails only sometimes");
            }
        }
    }
    assert!(total.connections > 1000 && total.failures > 500, "{total:?}");
    assert!(total.messages > 2000 && total.errors > 2000, "{total:?}");
    assert!(total.shared > 500 && total.parts > 500 && total.cancelled > 100, "{total:?}");
}

#[test]
fn a_seed_decides_everything() {
    for seed in 1000..1020 {
        assert_eq!(campaign::run(seed, false), campaign::run(seed, true));
    }
}

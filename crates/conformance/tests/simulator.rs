// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The suite in the simulator.

use core::time::Duration;

use kofi_conformance::simulator::{Piece, Profile};
use kofi_conformance::{FailingAllocator, Simulator, suite};

#[global_allocator]
static ALLOCATOR: FailingAllocator = FailingAllocator;

fn open() -> Simulator {
    Simulator::new(1)
}

kofi_conformance::conformance!(open);

/// The simulator offers all that cases ask for.
#[test]
fn every_case_applies() {
    let summary = suite::run_all(open);
    assert_eq!((summary.passed, summary.lacking), (suite::CASES.len(), vec![]));
}

/// What holds does not depend on how a network moves bytes.
#[test]
fn every_case_passes_on_rough_networks() {
    let rough = Profile { piece: Piece::Random, ..Profile::default() };
    let narrow = Profile { capacity: 1000, ..rough.clone() };
    let slow = Profile { latency: 100_000..900_000, scheduling: 100..100_000, ..rough.clone() };
    let tiny = Profile { piece: Piece::AtMost(700), ..Profile::default() };
    let lent = Profile { lending: Some(0..200_000), ..rough.clone() };
    for (number, profile) in [rough, narrow, slow, tiny, lent].into_iter().enumerate() {
        for seed in 0..2 {
            for case in suite::CASES {
                // Its steps in time are finer than a slow network is.
                if number == 2 && case.topic == "hostile" {
                    continue;
                }
                let mut world = Simulator::with_profile(100 * seed + 7, profile.clone()).without_trace();
                let outcome =
                    std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| (case.run)(&mut world)));
                assert!(outcome.is_ok(), "{}::{}, seed {seed}, {profile:?}", case.topic, case.name);
            }
        }
    }
}

/// One seed, one course of things.
#[test]
fn a_seed_decides_everything() {
    let course = |seed| {
        let mut world = Simulator::with_profile(seed, Profile { piece: Piece::Random, ..Profile::default() });
        let connection = suite::fixture::Connected::open(&mut world);
        connection.exchange(&mut world, &suite::fixture::pattern(1, 5000));
        connection.close(&mut world);
        suite::fixture::run_for(&mut world, Duration::from_secs(1));
        world.trace().collect::<Vec<_>>().join("\n")
    };
    assert_eq!(course(5), course(5));
    assert_ne!(course(5), course(6));
}

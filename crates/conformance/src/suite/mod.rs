// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The conformance suite: what the object model promises, written once against [`World`].
//!
//! Each case names the decision (D1 …) or the section of `docs/semantics.md` it is about. A case that
//! needs something that a world cannot offer says so, and is counted.

pub mod fixture;

use crate::World;

/// What a case needed and the world does not offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lacking(pub &'static str);

/// How a case that did not fail ended.
pub type Outcome = Result<(), Lacking>;

/// One case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The module it is in.
    pub topic: &'static str,
    /// Its function.
    pub name: &'static str,
    /// Runs it in a fresh world; panics when the world does not conform.
    pub run: fn(&mut dyn World) -> Outcome,
}

macro_rules! suite {
    ($dollar:tt $($topic:ident { $($case:ident)* })*) => {
        $(pub mod $topic;)*

        /// All cases.
        pub const CASES: &[Case] = &[
            $($(Case { topic: stringify!($topic), name: stringify!($case), run: $topic::$case },)*)*
        ];

        /// Makes a `#[test]` of each case: `conformance!(open)` with a function `open` in the same
        /// module that gives a fresh world.
        #[macro_export]
        macro_rules! conformance {
            ($dollar open:ident) => {
                $(mod $topic {
                    $(
                        #[test]
                        fn $case() {
                            $crate::suite::test(stringify!($case), $crate::suite::$topic::$case, super::$dollar open());
                        }
                    )*
                })*
            };
        }
    };
}

suite! { $
    connecting {
        private_data_goes_both_ways
    }
}

/// Runs one case as a test: a case whose needs are not met says so on the standard error stream.
pub fn test(name: &str, case: fn(&mut dyn World) -> Outcome, mut world: impl World) {
    if let Err(Lacking(what)) = case(&mut world) {
        eprintln!("not applicable: {name}: {} has no {what}", world.name());
    }
}

/// How many cases passed, and those that a world could not offer everything for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Cases passed.
    pub passed: usize,
    /// Cases not applicable, and what they needed.
    pub lacking: Vec<(&'static str, &'static str)>,
}

/// Runs all cases, each in a fresh world; panics with the first one that fails.
pub fn run_all<W: World>(mut open: impl FnMut() -> W) -> Summary {
    let mut summary = Summary::default();
    for case in CASES {
        match (case.run)(&mut open()) {
            Ok(()) => summary.passed += 1,
            Err(Lacking(what)) => summary.lacking.push((case.name, what)),
        }
    }
    summary
}

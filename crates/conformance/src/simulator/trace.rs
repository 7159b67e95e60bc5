// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What happened, in a ring: printed when a run fails.

use std::collections::VecDeque;

/// Lines kept.
const LIMIT: usize = 4000;

/// The last things that happened.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    enabled: bool,
    lines: VecDeque<String>,
}

impl Trace {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled, lines: VecDeque::new() }
    }

    pub(crate) fn add(&mut self, now: u64, line: impl FnOnce() -> String) {
        if self.enabled {
            if self.lines.len() == LIMIT {
                self.lines.pop_front();
            }
            self.lines.push_back(format!("{:>14.6} ms  {}", now as f64 / 1e6, line()));
        }
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

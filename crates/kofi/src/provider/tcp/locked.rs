// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The domain's lock: what is to be told of connections is told when it is free.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::thread::panicking;

use super::domain::State;
use crate::notice::Notice;

/// The domain's state, locked.
pub(super) struct Locked<'a> {
    // Freed before the notices are told: fields are dropped in order.
    state: MutexGuard<'a, State>,
    notices: Notices,
}

#[derive(Default)]
struct Notices(Vec<Notice>);

impl<'a> Locked<'a> {
    pub(super) fn new(state: MutexGuard<'a, State>) -> Self {
        Self { state, notices: Notices::default() }
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if panicking() {
            // Nobody else would tell those who sleep.
            self.state.kick();
        }
        if !self.state.notices.is_empty() {
            self.notices.0 = std::mem::take(&mut self.state.notices);
        }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        for notice in self.0.drain(..) {
            notice.tell();
        }
    }
}

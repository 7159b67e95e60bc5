// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Turns: a state that is looked after by whoever is there, and by one at a time.

use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, TryLockError};
use crate::wait::lock;

/// A state that leaves something to be done outside of its lock.
pub(super) trait Leaves {
    type Out;

    fn take_out(&mut self) -> Self::Out;
    fn finish(out: Self::Out);
}

/// The state, and whether it needs to be looked after.
#[derive(Default)]
pub(super) struct Turns<S> {
    state: Mutex<S>,
    /// There may be something to do that nobody has looked for.
    pending: AtomicBool,
}

impl<S: Leaves> Turns<S> {
    /// Does something with the state; and then `run`, if another thread has left its turn meanwhile.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut S) -> T, run: impl Fn(&mut S)) -> T {
        let mut state = lock(&self.state);
        let value = f(&mut state);
        let out = state.take_out();
        drop(state);
        S::finish(out);
        // Between giving the lock back and looking at `pending`, as there is one between setting it and
        // trying the lock: a lock by itself keeps these two in no order.
        fence(Ordering::SeqCst);
        if self.pending.load(Ordering::SeqCst) {
            self.turn(run);
        }
        value
    }

    /// Runs, after this was called at least once more.
    ///
    /// One thread at a time does it; another that comes meanwhile leaves it to that one. It may be
    /// called from wakers, and so under locks of which we know nothing: it never waits.
    pub(super) fn turn(&self, run: impl Fn(&mut S)) {
        self.pending.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while self.pending.load(Ordering::SeqCst) {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // Whoever has the lock looks at `pending` afterwards.
                Err(TryLockError::WouldBlock) => return,
            };
            if self.pending.swap(false, Ordering::SeqCst) {
                run(&mut state);
            }
            let out = state.take_out();
            drop(state);
            S::finish(out);
            fence(Ordering::SeqCst);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The completion queue over TCP: entries in the domain, and who waits for them.

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use kofi_core::attr::{CqAttr, WaitCond};
use kofi_core::{CompletionError, CqId, Domain, Error, OpFlags, OpId, Result};

use super::domain::{Progress, Shared, State};
use super::locked::Locked;
use crate::buffer::Buffers;
use crate::completion_queue::{Completion, CqEntry};
use crate::provider::CompletionQueueOps;
use crate::wait::{Waiter, close_dropped};
use crate::wait_set::{Member, WaitSet};

/// A completion queue.
pub(super) struct TcpCompletionQueue(Arc<CqShared>, #[expect(dead_code, reason = "kept")] Progress);

pub(super) struct CqShared {
    id: CqId,
    domain: Arc<Shared>,
    waiter: Waiter,
    cond: WaitCond,
}

impl CqShared {
    pub(super) fn id(&self) -> CqId {
        self.id
    }

    /// Somebody sleeps until something comes.
    pub(super) fn is_armed(&self) -> bool {
        self.waiter.is_armed()
    }

    pub(super) fn notify(&self, machine: &Domain) {
        if self.is_armed() && machine.cq_len(self.id) > 0 {
            self.waiter.notify();
        }
    }

    fn take(&self, state: &mut State) -> Result<Completion> {
        let (op, done) = state.machine.read_cq(self.id)?;
        Ok(state.hand_out(op, &done, None))
    }

    /// Locks the domain, for a read that does not wait.
    ///
    /// # Errors
    /// -FI_EAGAIN when there is nothing to read, also after a look for more.
    fn lock_or_poll(&self) -> Result<Locked<'_>> {
        let mut state = self.domain.lock();
        if state.machine.cq_len(self.id) == 0 {
            state.poll();
            if state.machine.cq_len(self.id) == 0 {
                return Err(Error::Empty);
            }
        }
        Ok(state)
    }

    fn sread<T>(
        &self,
        threshold: usize,
        timeout: Option<Duration>,
        mut read: impl FnMut(&mut State) -> Result<T>,
    ) -> Result<T> {
        let threshold = if self.cond == WaitCond::Threshold { threshold } else { 0 };
        let waited = self.waiter.sread("fi_cq_sread", timeout, || {
            let mut state = self.domain.lock();
            if threshold > 1 && !state.machine.cq_satisfies(self.id, threshold) {
                return Err(Error::Empty);
            }
            read(&mut state)
        });
        match waited {
            // The wait is over: what is there will do.
            Err(Error::Empty) if threshold > 1 => read(&mut self.domain.lock()),
            other => other,
        }
    }
}

impl TcpCompletionQueue {
    pub(super) fn open(
        domain: &Arc<Shared>,
        progress: Progress,
        attr: &CqAttr,
        wait_set: Option<&WaitSet>,
    ) -> Result<Self> {
        let waiter = domain.waiter("fi_cq_open", attr.wait_obj, wait_set)?;
        let id = domain.lock().machine.open_cq(attr)?;
        let shared = Arc::new(CqShared { id, domain: domain.clone(), waiter, cond: attr.wait_cond });
        let queue = Self(shared.clone(), progress);
        if let Some(set) = wait_set {
            set.add(shared);
        }
        Ok(queue)
    }

    pub(super) fn shared(&self) -> &Arc<CqShared> {
        &self.0
    }

    pub(super) fn belongs_to(&self, domain: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.0.domain, domain)
    }
}

impl CompletionQueueOps for TcpCompletionQueue {
    fn read(&self) -> Result<Completion> {
        self.0.take(&mut *self.0.lock_or_poll()?)
    }

    fn read_entries(&self, most: usize, each: &mut dyn FnMut(CqEntry)) -> Result<usize> {
        self.0.lock_or_poll()?.read_entries(self.0.id, most, each)
    }

    fn progress(&self) {
        self.0.waiter.drive();
    }

    fn read_error(&self) -> Result<Completion> {
        let mut state = self.0.domain.lock();
        let (op, error) = state.machine.read_cq_error(self.0.id)?;
        Ok(state.hand_out(op, &error.completion(), Some(error)))
    }

    fn read_error_entry(&self) -> Result<(CqEntry, CompletionError)> {
        let mut state = self.0.domain.lock();
        let (op, error) = state.machine.read_cq_error(self.0.id)?;
        let entry = state.entry(op, &error.completion());
        state.completions_read();
        Ok((entry, error))
    }

    fn sread(&self, threshold: usize, timeout: Option<Duration>) -> Result<Completion> {
        self.0.sread(threshold, timeout, |state| self.0.take(state))
    }

    fn sread_entries(
        &self,
        most: usize,
        threshold: usize,
        timeout: Option<Duration>,
        each: &mut dyn FnMut(CqEntry),
    ) -> Result<usize> {
        self.0.sread(threshold, timeout, |state| state.read_entries(self.0.id, most, each))
    }

    fn is_ready(&self) -> bool {
        self.0.lock_or_poll().is_ok()
    }

    fn signal(&self) -> Result<()> {
        self.0.waiter.signal("fi_cq_signal")
    }

    fn try_wait(&self) -> Result<()> {
        self.0.waiter.try_wait("fi_trywait", || self.0.is_empty())
    }

    fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.0.waiter.fd("fi_control(FI_GETWAIT)")
    }

    fn close(&self) -> Result<()> {
        let mut state = self.0.domain.lock();
        state.machine.close_cq(self.0.id)?;
        state.settle();
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Member for CqShared {
    fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    fn is_empty(&self) -> bool {
        self.domain.lock().machine.cq_len(self.id) == 0
    }
}

impl Drop for TcpCompletionQueue {
    fn drop(&mut self) {
        // Endpoints hold the queues that they are bound to: it is in use by none.
        close_dropped(|| drop(self.close()));
    }
}

impl State {
    /// A completion that was read, with the memory of its operation, and what is left of a buffer for
    /// several messages that ends with it.
    fn hand_out(
        &mut self,
        op: OpId,
        done: &kofi_core::Completion,
        error: Option<CompletionError>,
    ) -> Completion {
        let own = self.take_memory(op);
        let (buffers, rest) = match done.buffer {
            Some(buffer) => (own, Some(self.take_memory(buffer).into_single())),
            None if done.flags.contains(OpFlags::MULTI_RECV) => (Buffers::default(), Some(own.into_single())),
            None => (own, None),
        };
        self.completions_read();
        Completion {
            context: done.context,
            flags: done.flags,
            len: done.len as usize,
            data: done.flags.contains(OpFlags::REMOTE_CQ_DATA).then_some(done.data),
            buffers,
            offset: done.offset as usize,
            rest,
            error,
        }
    }

    /// A completion that was read, for who knows where the memory is.
    fn entry(&mut self, op: OpId, done: &kofi_core::Completion) -> CqEntry {
        let own = self.take_any_memory(op);
        if let Some(buffer) = done.buffer {
            self.take_any_memory(buffer);
        }
        let received = done.flags.contains(OpFlags::RECV);
        CqEntry {
            context: done.context,
            flags: done.flags,
            len: done.len as usize,
            address: own.filter(|_| received).map_or(0, |buffers| buffers.address()),
            data: done.data,
        }
    }

    fn read_entries(&mut self, cq: CqId, most: usize, each: &mut dyn FnMut(CqEntry)) -> Result<usize> {
        let mut count = 0;
        while count < most {
            match self.machine.read_cq(cq) {
                Ok((op, done)) => {
                    let entry = self.entry(op, &done);
                    each(entry);
                    count += 1;
                }
                Err(error) if count == 0 => return Err(error),
                Err(_) => break,
            }
        }
        self.completions_read();
        Ok(count)
    }

    /// Peers that waited for room go on, or have come to their end.
    fn completions_read(&mut self) {
        if self.machine.has_outputs() {
            self.settle();
        }
    }
}

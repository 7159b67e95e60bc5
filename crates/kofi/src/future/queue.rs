// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The blocking reads of queues as futures.

use std::future::Future;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use kofi_core::{Error, Result};

use super::runtime::Readiness;
use super::{again, runtime, runtime_error};
use crate::completion_queue::{Completion, CompletionQueue};
use crate::event_queue::{Event, EventQueue};

/// Rounds without a result before the task lets others run.
const ROUNDS: u32 = 16;

/// A wait for one queue. Each future has its own: none takes a wake-up away from others.
#[derive(Default)]
struct Wait(Option<Box<dyn Readiness>>);

impl Wait {
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl Fn() -> Result<T>,
        try_wait: impl Fn() -> Result<()>,
        fd: Result<BorrowedFd<'_>>,
    ) -> Poll<Result<T>> {
        let fd = fd?;
        for _ in 0..ROUNDS {
            match read() {
                Err(Error::Empty) => {}
                other => return Poll::Ready(other),
            }
            match try_wait() {
                Ok(()) => {}
                Err(Error::Empty) => continue,
                Err(error) => return Poll::Ready(Err(error)),
            }
            let readiness = match &mut self.0 {
                Some(readiness) => readiness,
                none => {
                    let new = fd.try_clone_to_owned().and_then(runtime::register);
                    none.insert(new.map_err(|error| runtime_error(&error))?)
                }
            };
            match readiness.poll_readable(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(result) => result.map_err(|error| runtime_error(&error))?,
            }
        }
        again(cx)
    }
}

/// [`EventQueue::next_event`].
#[must_use = "a future does nothing before it is polled"]
pub struct NextEvent<'a> {
    queue: &'a EventQueue,
    wait: Wait,
}

impl Future for NextEvent<'_> {
    type Output = Result<Event>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Event>> {
        let Self { queue, wait } = &mut *self;
        wait.poll(cx, || queue.next_unread(), || queue.try_wait(), queue.fd())
    }
}

/// [`CompletionQueue::next_completion`].
#[must_use = "a future does nothing before it is polled"]
pub struct NextCompletion<'a> {
    queue: &'a CompletionQueue,
    wait: Wait,
}

impl Future for NextCompletion<'_> {
    type Output = Result<Completion>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Completion>> {
        let Self { queue, wait } = &mut *self;
        wait.poll(cx, || queue.poll(), || queue.try_wait(), queue.fd())
    }
}

impl EventQueue {
    /// [`wait`](Self::wait) as a future, on a queue that was opened with `WaitObj::Fd` or `Unspec`. Several may
    /// wait on one queue; each event goes to one of them. Dropped, it has read nothing.
    ///
    /// # Errors
    /// -FI_ENOSYS on other queues; what the runtime reports.
    pub fn next_event(&self) -> NextEvent<'_> {
        NextEvent { queue: self, wait: Wait::default() }
    }
}

impl CompletionQueue {
    /// [`wait`](Self::wait) as a future, on a queue that was opened with `WaitObj::Fd` or `Unspec`. Several may
    /// wait on one queue; each completion goes to one of them. Dropped, it has read nothing.
    ///
    /// # Errors
    /// -FI_ENOSYS on other queues; what the runtime reports.
    pub fn next_completion(&self) -> NextCompletion<'_> {
        NextCompletion { queue: self, wait: Wait::default() }
    }
}

macro_rules! debug {
    ($($name:ident)*) => {$(
        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.queue).finish()
            }
        }
    )*};
}

debug! { NextEvent NextCompletion }

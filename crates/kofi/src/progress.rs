// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Automatic progress (`FI_PROGRESS_AUTO`): a thread that drives what feeds queues, for applications
//! that do not call in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use kofi_core::info::DomainAttr;
use kofi_core::{Error, Instant, Progress, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tracing::warn;

use crate::clock::now;
use crate::wait::{Bell, Source, timespec};

/// Wakes the thread of a source whose earliest deadline has changed, and stops it.
pub(crate) struct Alarm {
    bell: Bell,
    stop: AtomicBool,
    /// What the thread sleeps until, in nanoseconds; zero while it is awake and will look anyway.
    until: AtomicU64,
}

impl Alarm {
    pub(crate) fn new(call: &'static str) -> Result<Arc<Self>> {
        let bell = Bell::new(call)?;
        Ok(Arc::new(Self { bell, stop: AtomicBool::new(false), until: AtomicU64::new(0) }))
    }

    /// The source's earliest deadline is this, and there may be something to do at once that its
    /// descriptor does not tell of. Called after anything that another thread does to the source.
    pub(crate) fn note(&self, deadline: Option<Instant>, more: bool) {
        let until = self.until.load(Ordering::SeqCst);
        if (more && until > 0) || deadline.is_some_and(|at| at.nanos() < until) {
            self.bell.ring();
        }
    }
}

/// The thread. Dropped, it is stopped and joined.
pub(crate) struct ProgressThread {
    alarm: Arc<Alarm>,
    thread: Option<JoinHandle<()>>,
}

/// Whether these attributes ask for a thread.
pub(crate) fn wanted(attr: &DomainAttr) -> bool {
    [attr.control_progress, attr.data_progress].contains(&Progress::Auto)
}

impl ProgressThread {
    /// Starts a thread that drives `source`, which tells `alarm` of its deadlines.
    ///
    /// # Errors
    /// -FI_EAGAIN or -FI_ENOMEM when the system has no more threads.
    pub(crate) fn start(call: &'static str, source: Arc<dyn Source>, alarm: Arc<Alarm>) -> Result<Self> {
        let inside = alarm.clone();
        let thread = Builder::new().name("kofi-progress".into()).spawn(move || run(&*source, &inside));
        let thread = thread.map_err(|error| Error::System {
            call,
            errno: kofi_core::Errno::from_raw(error.raw_os_error().unwrap_or_default()),
            detail: "no thread for FI_PROGRESS_AUTO; raise RLIMIT_NPROC, or ask for FI_PROGRESS_MANUAL"
                .into(),
        })?;
        Ok(Self { alarm, thread: Some(thread) })
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        self.alarm.stop.store(true, Ordering::SeqCst);
        self.alarm.bell.ring();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            warn!("the progress thread had panicked");
        }
    }
}

fn run(source: &dyn Source, alarm: &Alarm) {
    // Signals are for the application's threads, whose waits they end.
    if let Err(errno) = nix::sys::signal::SigSet::all().thread_block() {
        warn!(%errno, "the progress thread takes signals");
    }
    while !alarm.stop.load(Ordering::SeqCst) {
        alarm.until.store(0, Ordering::SeqCst);
        alarm.bell.silence();
        if alarm.stop.load(Ordering::SeqCst) {
            return;
        }
        if source.drive() {
            continue;
        }
        // Whoever sets a deadline after this line sees that we sleep, and one set before it is seen here.
        alarm.until.store(u64::MAX, Ordering::SeqCst);
        let deadline = source.deadline();
        alarm.until.store(deadline.map_or(u64::MAX, Instant::nanos), Ordering::SeqCst);
        let timeout = deadline.map(|at| timespec(at.until(now())));
        let mut fds =
            [PollFd::new(&alarm.bell, PollFlags::IN), PollFd::from_borrowed_fd(source.fd(), PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return warn!(%errno, "the progress thread cannot wait, and ends"),
        }
    }
}

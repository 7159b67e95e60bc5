// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Automatic progress (`FI_PROGRESS_AUTO`): a thread that drives what feeds queues, for applications
//! that do not call in.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use kofi_core::info::DomainAttr;
use kofi_core::{Error, Progress, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tracing::warn;

use crate::wait::{Bell, Source};

/// The thread. Dropped, it is stopped and joined.
pub(crate) struct ProgressThread {
    stop: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// Whether these attributes ask for a thread.
pub(crate) fn wanted(attr: &DomainAttr) -> bool {
    [attr.control_progress, attr.data_progress].contains(&Progress::Auto)
}

impl ProgressThread {
    /// Starts a thread that drives `source`.
    ///
    /// # Errors
    /// -FI_EAGAIN or -FI_ENOMEM when the system has no more threads, -FI_EMFILE.
    pub(crate) fn start(call: &'static str, source: Arc<dyn Source>) -> Result<Self> {
        let stop = Arc::new(Bell::new(call)?);
        let inside = stop.clone();
        let thread = Builder::new().name("kofi-progress".into()).spawn(move || run(&*source, &inside));
        let thread = thread.map_err(|error| Error::System {
            call,
            errno: kofi_core::Errno::from_raw(error.raw_os_error().unwrap_or_default()),
            detail: "no thread for FI_PROGRESS_AUTO; raise RLIMIT_NPROC, or ask for FI_PROGRESS_MANUAL"
                .into(),
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        self.stop.ring();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            warn!("the progress thread had panicked");
        }
    }
}

fn run(source: &dyn Source, stop: &Bell) {
    // Signals are for the application's threads, whose waits they end.
    if let Err(errno) = nix::sys::signal::SigSet::all().thread_block() {
        warn!(%errno, "the progress thread takes signals");
    }
    loop {
        // The source's descriptor tells of everything, also of what others left behind.
        let more = source.drive();
        let timeout = more.then(Timespec::default);
        let mut fds =
            [PollFd::new(stop, PollFlags::IN), PollFd::from_borrowed_fd(source.fd(), PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) if fds[0].revents().is_empty() => {}
            Ok(_) => return,
            Err(Errno::INTR) => {}
            Err(errno) => return warn!(%errno, "the progress thread cannot wait, and ends"),
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The wait set (`fi_poll(3)`): one wait for several queues.

use std::time::Duration;

use kofi_core::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use smallvec::SmallVec;

use crate::clock::now;
use crate::fabric::{Child, FabricShared};
use crate::returned::Returned;
use crate::sync::{Arc, AsFd, BorrowedFd, Mutex, Weak};
use crate::wait::{Gathered, Source, Waiter, lock, system, timespec};

/// A queue that was opened with `WaitObj::Set`.
pub(crate) trait Member: Send + Sync {
    fn waiter(&self) -> &Waiter;
    fn is_empty(&self) -> bool;
}

/// A wait set: `fi_wait_open(3)`. Queues are opened into it.
pub struct WaitSet {
    /// Everything that its queues wait for, in one descriptor.
    gathered: Arc<Gathered>,
    members: Mutex<Vec<Weak<dyn Member>>>,
    _child: Child,
}

impl WaitSet {
    pub(crate) fn open(fabric: &Arc<FabricShared>) -> Result<Self> {
        Ok(Self {
            gathered: Arc::new(Gathered::new("fi_wait_open")?),
            members: Mutex::new(Vec::new()),
            _child: fabric.child(|children| &mut children.wait_sets),
        })
    }

    /// What the waiters of its queues put their descriptors into.
    pub(crate) fn gathered(&self) -> &Arc<Gathered> {
        &self.gathered
    }

    pub(crate) fn add(&self, member: Arc<dyn Member>) {
        // Who waits for the set already is woken by this queue, too.
        member.waiter().poll();
        let mut members = lock(&self.members);
        members.retain(|known| known.strong_count() > 0);
        members.push(Arc::downgrade(&member));
    }

    fn members(&self) -> SmallVec<[Arc<dyn Member>; 4]> {
        lock(&self.members).iter().filter_map(Weak::upgrade).collect()
    }

    /// `fi_wait`: waits until one of the queues has something to read.
    ///
    /// # Errors
    /// [`Error::Empty`] (-FI_EAGAIN) after the whole time, or after a signal.
    pub fn wait(&self, timeout: impl Into<Option<Duration>>) -> Result<()> {
        const CALL: &str = "fi_wait";
        let end = timeout.into().map(|timeout: Duration| now().after(timeout));
        loop {
            let idle = match self.try_wait() {
                Err(Error::Empty) if self.members().iter().any(|member| !member.is_empty()) => return Ok(()),
                Err(Error::Empty) => false,
                other => other.map(|()| true)?,
            };
            let over = end.is_some_and(|end| end <= now());
            if over {
                return Err(Error::Empty);
            }
            if idle {
                let mut fds = [PollFd::from_borrowed_fd(self.fd(), PollFlags::IN)];
                match poll(&mut fds, end.map(|end| timespec(end.until(now()))).as_ref()) {
                    Ok(_) => {}
                    Err(Errno::INTR) => return Err(Error::Empty),
                    Err(errno) => return Err(system(CALL, errno)),
                }
            }
        }
    }

    /// `fi_trywait`: whether it is right to sleep on [`fd`](Self::fd) now. Moves everything along
    /// that feeds the set's queues.
    ///
    /// # Errors
    /// [`Error::Empty`] (-FI_EAGAIN): read the queues first.
    pub fn try_wait(&self) -> Result<()> {
        let members = self.members();
        // A domain feeds several queues, and needs to be driven once.
        let mut sources: SmallVec<[Arc<dyn Source>; 4]> = SmallVec::new();
        for source in members.iter().flat_map(|member| member.waiter().sources()) {
            if !sources.iter().any(|known| Arc::as_ptr(known).addr() == Arc::as_ptr(&source).addr()) {
                sources.push(source);
            }
        }
        let agains = || members.iter().fold(0, |sum: u64, member| sum.wrapping_add(member.waiter().agains()));
        let before = agains();
        let mut ready = sources.iter().fold(false, |more, source| source.drive() | more);
        for member in &members {
            ready |= !member.waiter().arm(|| member.is_empty());
        }
        if ready || agains() != before {
            return Err(Error::Empty);
        }
        Ok(())
    }

    /// One descriptor for all queues of the set: after [`try_wait`](Self::try_wait) it is readable
    /// once there is something to read or to do.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.gathered.as_fd()
    }

    /// `fi_close`.
    ///
    /// # Errors
    /// -FI_EBUSY while queues of the set are open; the set is given back.
    pub fn close(self) -> Result<(), Returned<Self>> {
        let result = self.check_close();
        Returned::check(self, result).map(drop)
    }

    /// Whether [`close`](Self::close) would work, for who has no set to give up.
    ///
    /// # Errors
    /// As there.
    pub fn check_close(&self) -> Result<()> {
        let open = || lock(&self.members).iter().filter(|member| member.strong_count() > 0).count();
        let users = match open() {
            0 => 0,
            _ => {
                // Somebody may only have been looking at them.
                crate::live::settled();
                open()
            }
        };
        match users {
            0 => Ok(()),
            users => {
                let users = format!("{users} queue{}", if users == 1 { "" } else { "s" });
                Err(Error::Busy { call: "fi_close", object: "wait set", users })
            }
        }
    }
}

impl std::fmt::Debug for WaitSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitSet").finish_non_exhaustive()
    }
}

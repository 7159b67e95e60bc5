// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The wait set (`fi_poll(3)`): one wait for several queues.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use kofi_core::{Error, Result};
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::io::Errno;

use crate::clock::now;
use crate::fabric::{Child, FabricShared};
use crate::returned::Returned;
use crate::wait::{Waiter, lock, system, timespec};

/// A queue that was opened with `WaitObj::Set`.
pub(crate) trait Member: Send + Sync {
    fn waiter(&self) -> &Waiter;
    fn is_empty(&self) -> bool;
}

/// A wait set: `fi_wait_open(3)`. Queues are opened into it.
pub struct WaitSet {
    all: OwnedFd,
    members: Mutex<Vec<Weak<dyn Member>>>,
    _child: Child,
}

impl WaitSet {
    pub(crate) fn open(fabric: &Arc<FabricShared>) -> Result<Self> {
        let all =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| system("fi_wait_open", errno))?;
        Ok(Self {
            all,
            members: Mutex::new(Vec::new()),
            _child: fabric.child(|children| &mut children.wait_sets),
        })
    }

    pub(crate) fn add(&self, call: &'static str, member: Arc<dyn Member>) -> Result<()> {
        let fd = member.waiter().fd(call)?;
        member.waiter().poll();
        epoll::add(&self.all, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
            .map_err(|errno| system(call, errno))?;
        let mut members = lock(&self.members);
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(&member));
        Ok(())
    }

    /// `fi_wait`: waits until one of the queues has something to read.
    ///
    /// # Errors
    /// [`Error::Empty`] (-FI_EAGAIN) after the whole time, or after a signal.
    pub fn wait(&self, timeout: impl Into<Option<Duration>>) -> Result<()> {
        const CALL: &str = "fi_wait";
        let end = timeout.into().map(|timeout: Duration| now().after(timeout));
        loop {
            let members: Vec<Arc<dyn Member>> =
                lock(&self.members).iter().filter_map(Weak::upgrade).collect();
            let mut idle = true;
            for member in &members {
                match member.waiter().try_wait(CALL, || member.is_empty()) {
                    Err(Error::Empty) if !member.is_empty() => return Ok(()),
                    Err(Error::Empty) => idle = false,
                    other => other?,
                }
            }
            let over = end.is_some_and(|end| end <= now());
            if over {
                return Err(Error::Empty);
            }
            if idle {
                let mut fds = [PollFd::from_borrowed_fd(self.all.as_fd(), PollFlags::IN)];
                match poll(&mut fds, end.map(|end| timespec(end.until(now()))).as_ref()) {
                    Ok(_) => {}
                    Err(Errno::INTR) => return Err(Error::Empty),
                    Err(errno) => return Err(system(CALL, errno)),
                }
            }
        }
    }

    /// `fi_close`.
    ///
    /// # Errors
    /// -FI_EBUSY while queues of the set are open; the set is given back.
    pub fn close(self) -> Result<(), Returned<Self>> {
        let users = lock(&self.members).iter().filter(|member| member.strong_count() > 0).count();
        let result = match users {
            0 => Ok(()),
            users => {
                let users = format!("{users} queues");
                Err(Error::Busy { call: "fi_close", object: "wait set", users })
            }
        };
        Returned::check(self, result).map(drop)
    }
}

impl std::fmt::Debug for WaitSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitSet").finish_non_exhaustive()
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Waiting: how a reader of a queue sleeps until there is something to read, while all that feeds
//! the queue goes on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kofi_core::attr::WaitObj;
use kofi_core::{Error, Instant, Result};
use rustix::event::epoll;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use smallvec::SmallVec;

use crate::clock::now;

/// Something that feeds queues and needs to be driven: a domain, a passive endpoint.
pub(crate) trait Source: Send + Sync {
    /// Does what can be done now. `true`: there is more, call again before sleeping.
    fn drive(&self) -> bool;
    /// Becomes readable when there is something to do.
    fn fd(&self) -> BorrowedFd<'_>;
    /// When there will be something to do in any case.
    fn deadline(&self) -> Option<Instant>;
}

/// Locks, also after a panic of another thread: what a panic leaves is whole, since no machine call
/// is half done to the next one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error of the operating system, in our terms.
pub(crate) fn system(call: &'static str, errno: Errno) -> Error {
    Error::System {
        call,
        errno: kofi_core::Errno::from_raw(errno.raw_os_error()),
        detail: match errno {
            Errno::MFILE => "this process has no file descriptors left; raise RLIMIT_NOFILE".into(),
            Errno::NFILE => "the system has no file descriptors left".into(),
            Errno::ADDRNOTAVAIL => "the address belongs to no interface of this host".into(),
            Errno::ADDRINUSE => "another socket listens there; choose another port, or 0 for any".into(),
            _ => String::new(),
        },
    }
}

/// The waiting side of a queue.
pub(crate) struct Waiter {
    kind: WaitObj,
    /// Readable after [`notify`](Self::notify), while somebody wants to know.
    event: OwnedFd,
    armed: AtomicBool,
    /// All descriptors in one, for those who poll themselves.
    all: Option<OwnedFd>,
    timer: Mutex<Option<OwnedFd>>,
    sources: Mutex<Vec<Weak<dyn Source>>>,
}

impl Waiter {
    pub(crate) fn new(call: &'static str, kind: WaitObj) -> Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| system(call, errno))?;
        let all = match kind {
            WaitObj::Fd | WaitObj::Set => {
                let all = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| system(call, errno))?;
                epoll::add(&all, &event, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
                    .map_err(|errno| system(call, errno))?;
                Some(all)
            }
            WaitObj::None | WaitObj::Unspec => None,
        };
        Ok(Self {
            kind,
            event,
            armed: AtomicBool::new(false),
            all,
            timer: Mutex::new(None),
            sources: Mutex::new(Vec::new()),
        })
    }

    /// Adds what feeds the queue; doing it again changes nothing.
    pub(crate) fn add_source(&self, call: &'static str, source: &Arc<dyn Source>) -> Result<()> {
        let mut sources = lock(&self.sources);
        sources.retain(|known| known.strong_count() > 0);
        if sources.iter().any(|known| known.as_ptr().addr() == Arc::as_ptr(source).addr()) {
            return Ok(());
        }
        if let Some(all) = &self.all {
            match epoll::add(all, source.fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(system(call, errno)),
            }
        }
        sources.push(Arc::downgrade(source));
        Ok(())
    }

    fn sources(&self) -> SmallVec<[Arc<dyn Source>; 4]> {
        lock(&self.sources).iter().filter_map(Weak::upgrade).collect()
    }

    /// Drives all that feeds the queue. `true`: there is more to do.
    pub(crate) fn drive(&self) -> bool {
        self.sources().iter().fold(false, |more, source| source.drive() | more)
    }

    /// Somebody sleeps or polls, and wants to be woken.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::SeqCst)
    }

    /// Wakes who waits, if somebody does. Called after something was put into the queue.
    pub(crate) fn notify(&self) {
        if self.armed.swap(false, Ordering::SeqCst) {
            // Full means that it is readable already.
            let _ = write(&self.event, &1u64.to_ne_bytes());
        }
    }

    fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    fn disarm(&self) {
        self.armed.store(false, Ordering::SeqCst);
        let _ = read(&self.event, &mut [0u8; 8]);
    }

    fn check(&self, call: &'static str) -> Result<()> {
        match self.kind {
            WaitObj::None => Err(Error::Unsupported(call)),
            _ => Ok(()),
        }
    }

    /// A blocking read: `attempt` reads without waiting, and is tried until it gives something other
    /// than "empty", or the time is over. A signal ends the wait, too (decision D3).
    ///
    /// # Errors
    /// -FI_EAGAIN when nothing came, -FI_ENOSYS when the queue was opened without a wait object;
    /// otherwise what `attempt` gives.
    pub(crate) fn sread<T>(
        &self,
        call: &'static str,
        timeout: Option<Duration>,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.check(call)?;
        let end = timeout.map(|timeout| now().after(timeout));
        loop {
            let more = self.drive();
            match attempt() {
                Err(Error::Empty) => {}
                other => return other,
            }
            if more {
                // Whatever is busy does not hold up the clock.
                if end.is_some_and(|end| end <= now()) {
                    return Err(Error::Empty);
                }
                continue;
            }
            let sources = self.sources();
            self.arm();
            match attempt() {
                Err(Error::Empty) => {}
                other => {
                    self.disarm();
                    return other;
                }
            }
            let wake = sources.iter().filter_map(|source| source.deadline()).chain(end).min();
            let interrupted = self.sleep(call, &sources, wake);
            self.disarm();
            if interrupted? {
                return attempt();
            }
            if end.is_some_and(|end| end <= now()) {
                self.drive();
                return attempt();
            }
        }
    }

    /// Sleeps until there is something to do, or the time has come. `true`: a signal came.
    fn sleep(&self, call: &'static str, sources: &[Arc<dyn Source>], until: Option<Instant>) -> Result<bool> {
        let mut fds: SmallVec<[PollFd<'_>; 5]> = SmallVec::new();
        fds.push(PollFd::new(&self.event, PollFlags::IN));
        fds.extend(sources.iter().map(|source| PollFd::from_borrowed_fd(source.fd(), PollFlags::IN)));
        let timeout = until.map(|until| timespec(until.until(now())));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => Ok(false),
            Err(Errno::INTR) => Ok(true),
            Err(errno) => Err(system(call, errno)),
        }
    }

    /// `fi_trywait`: whether it is right to sleep on [`fd`](Self::fd) now.
    ///
    /// # Errors
    /// -FI_EAGAIN when there is something to read or to do first.
    pub(crate) fn try_wait(&self, call: &'static str, is_empty: impl Fn() -> bool) -> Result<()> {
        self.check(call)?;
        let more = self.drive();
        self.disarm();
        self.arm();
        if more || !is_empty() {
            self.disarm();
            return Err(Error::Empty);
        }
        if self.all.is_some() {
            self.set_timer(call, self.deadline())?;
        }
        Ok(())
    }

    /// When something will have to be done in any case.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.sources().iter().filter_map(|source| source.deadline()).min()
    }

    /// The descriptor to poll after [`try_wait`](Self::try_wait).
    pub(crate) fn fd(&self, call: &'static str) -> Result<BorrowedFd<'_>> {
        self.all.as_ref().map(AsFd::as_fd).ok_or(Error::Unsupported(call))
    }

    /// Makes [`fd`](Self::fd) readable at `at`, too.
    fn set_timer(&self, call: &'static str, at: Option<Instant>) -> Result<()> {
        let error = |errno| system(call, errno);
        let mut timer = lock(&self.timer);
        if timer.is_none() && at.is_none() {
            return Ok(());
        }
        if timer.is_none() {
            let new =
                timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
                    .map_err(error)?;
            if let Some(all) = &self.all {
                epoll::add(all, &new, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(error)?;
            }
            *timer = Some(new);
        }
        if let Some(timer) = timer.as_ref() {
            // All zeros switch a timer off; a moment that has passed is as good as a nanosecond from now.
            let value = at.map(|at| at.until(now()).max(Duration::from_nanos(1))).unwrap_or_default();
            let value = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(value) };
            timerfd_settime(timer, TimerfdTimerFlags::empty(), &value).map_err(error)?;
        }
        Ok(())
    }
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

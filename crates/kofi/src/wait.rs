// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Waiting: how a reader of a queue sleeps until there is something to read, while all that feeds
//! the queue goes on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kofi_core::attr::WaitObj;
use kofi_core::{Error, Instant, Result};
use rustix::event::epoll;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
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
    /// Becomes readable when there is something to do, also when that is because of the time.
    fn fd(&self) -> BorrowedFd<'_>;
}

/// A timer that makes a source's descriptor readable. So it wakes also those who slept already when
/// another thread made something due.
pub(crate) struct Alarm {
    timer: OwnedFd,
    /// When it goes off; none once that has been seen.
    at: Option<Instant>,
}

impl Alarm {
    /// An alarm among what `epoll` watches. Its events carry `mark`.
    pub(crate) fn new(call: &'static str, epoll: &OwnedFd, mark: u64) -> Result<Self> {
        let error = |errno| system(call, errno);
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(error)?;
        // Edge triggered: it tells once each time, and is never read.
        let (data, flags) = (epoll::EventData::new_u64(mark), epoll::EventFlags::IN | epoll::EventFlags::ET);
        epoll::add(epoll, &timer, data, flags).map_err(error)?;
        Ok(Self { timer, at: None })
    }

    /// Goes off at `at`, if not before that.
    pub(crate) fn set(&mut self, at: Option<Instant>) {
        let Some(at) = at.filter(|at| self.at.is_none_or(|known| *at < known)) else { return };
        self.at = Some(at);
        // All zeros switch a timer off.
        let it_value = timespec(Duration::from_nanos(at.nanos().max(1)));
        let value = Itimerspec { it_interval: timespec(Duration::ZERO), it_value };
        // It fails for times that make no sense only.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value);
    }

    /// Goes off now: there is something to do that no event tells of.
    pub(crate) fn ring(&mut self) {
        self.set(Some(Instant::from_nanos(0)));
    }

    /// It went off, and whoever noticed does what is due.
    pub(crate) fn seen(&mut self) {
        self.at = None;
    }
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
    /// The next [`notify`](Self::notify) has somebody to wake.
    armed: AtomicBool,
    /// Blocking reads that sleep, or are about to.
    sleepers: AtomicUsize,
    /// Somebody polls the descriptor now and then.
    polled: AtomicBool,
    /// All descriptors in one, for those who poll themselves.
    all: Option<OwnedFd>,
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
            sleepers: AtomicUsize::new(0),
            polled: AtomicBool::new(false),
            all,
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
        drop(sources);
        // Who sleeps already does not know of it.
        self.notify();
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
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.armed.store(true, Ordering::SeqCst);
    }

    fn disarm(&self) {
        self.armed.store(false, Ordering::SeqCst);
        let _ = read(&self.event, &mut [0u8; 8]);
        if self.sleepers.fetch_sub(1, Ordering::SeqCst) > 1 || self.polled.load(Ordering::SeqCst) {
            self.armed.store(true, Ordering::SeqCst);
        }
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
        attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.check(call)?;
        let result = self.wait(call, timeout, attempt);
        if !matches!(result, Err(Error::Empty)) && self.sleepers.load(Ordering::SeqCst) > 0 {
            // One wake-up may have stood for several entries, and for work that is left.
            self.notify();
        }
        result
    }

    fn wait<T>(
        &self,
        call: &'static str,
        timeout: Option<Duration>,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let end = timeout.map(|timeout| now().after(timeout));
        let over = || end.is_some_and(|end| end <= now());
        loop {
            let more = self.drive();
            match attempt() {
                Err(Error::Empty) => {}
                other => return other,
            }
            if more {
                // Whatever is busy does not hold up the clock.
                if over() {
                    return Err(Error::Empty);
                }
                continue;
            }
            self.arm();
            // What comes from here on wakes: entries and sources.
            let sources = self.sources();
            match attempt() {
                Err(Error::Empty) => {}
                other => {
                    self.disarm();
                    return other;
                }
            }
            let interrupted = self.sleep(call, &sources, end);
            self.disarm();
            if interrupted? {
                return attempt();
            }
            if over() {
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
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
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
        let _ = read(&self.event, &mut [0u8; 8]);
        self.poll();
        if more || !is_empty() {
            // Another thread may sleep on what was just read.
            self.notify();
            return Err(Error::Empty);
        }
        Ok(())
    }

    /// Somebody polls the descriptor from now on.
    pub(crate) fn poll(&self) {
        self.polled.store(true, Ordering::SeqCst);
        self.armed.store(true, Ordering::SeqCst);
    }

    /// The descriptor to poll after [`try_wait`](Self::try_wait).
    pub(crate) fn fd(&self, call: &'static str) -> Result<BorrowedFd<'_>> {
        self.all.as_ref().map(AsFd::as_fd).ok_or(Error::Unsupported(call))
    }
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Waiting: how a reader of a queue sleeps until there is something to read, while all that feeds
//! the queue goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::thread::panicking;
use std::time::Duration;

use kofi_core::attr::WaitObj;
use kofi_core::{Error, Instant, Result};
use rustix::event::epoll;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::thread::sched_yield;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use smallvec::SmallVec;

use crate::clock::now;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, AsFd, BorrowedFd, Mutex, MutexGuard, OwnedFd, Weak};

/// Something that feeds queues and needs to be driven: a domain, a passive endpoint.
pub(crate) trait Source: Send + Sync {
    /// Does what can be done now. `true`: there is more, call again before sleeping.
    fn drive(&self) -> bool;
    /// Becomes readable when there is something to do, also when that is because of the time.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Somebody sleeps on the descriptor until [`rise`](Self::rise), and relies on it.
    fn rest(&self) {}
    /// As often as [`rest`](Self::rest).
    fn rise(&self) {}
    /// From now on anybody may sleep on the descriptor, and relies on it.
    fn expose(&self) {}
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

/// Locks. A panic leaves half done what is locked at that moment: calls of it panic from then on, too, instead of
/// going on with it. Only what is dropped while a panic unwinds does, since another one would end the process.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) if panicking() => poisoned.into_inner(),
        Err(_) => broken(),
    }
}

/// The end of a call of an object that a panic has left half done.
#[cold]
pub(crate) fn broken() -> ! {
    panic!(
        "a panic, which is a bug of kofi, has broken this object before; report that one, and open another object"
    )
}

/// Closes what is dropped; if it is broken, it was not to be closed.
pub(crate) fn close_dropped(close: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(close));
}

/// An error of the operating system, in our terms.
pub(crate) fn system(call: &'static str, errno: Errno) -> Error {
    Error::System {
        call,
        errno: kofi_core::Errno::from_raw(errno.raw_os_error()),
        detail: match errno {
            Errno::AFNOSUPPORT => "this host has no such addresses; is IPv6 off?".into(),
            errno => kofi_core::Errno::from_raw(errno.raw_os_error()).advice().into(),
        },
    }
}

/// Readable while it has been rung.
pub(crate) struct Bell {
    fd: OwnedFd,
    rung: Mutex<bool>,
}

impl Bell {
    pub(crate) fn new(call: &'static str) -> Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| system(call, errno))?;
        Ok(Self { fd, rung: Mutex::new(false) })
    }

    pub(crate) fn ring(&self) {
        let mut rung = lock(&self.rung);
        if !*rung {
            // A counter that is at zero takes one more.
            *rung = write(&self.fd, &1u64.to_ne_bytes()).is_ok();
        }
    }

    pub(crate) fn silence(&self) {
        let mut rung = lock(&self.rung);
        if *rung {
            *rung = read(&self.fd, &mut [0u8; 8]).is_err();
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An epoll descriptor for those who poll themselves: all that they have to wait for in one.
pub(crate) struct Gathered(OwnedFd);

impl Gathered {
    pub(crate) fn new(call: &'static str) -> Result<Self> {
        epoll::create(epoll::CreateFlags::CLOEXEC).map(Self).map_err(|errno| system(call, errno))
    }

    /// Adds a descriptor; doing it again changes nothing.
    pub(crate) fn add(&self, call: &'static str, fd: impl AsFd) -> Result<()> {
        match epoll::add(&self.0, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(system(call, errno)),
        }
    }
}

impl AsFd for Gathered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What those who poll a queue's descriptor need.
struct Polled {
    /// The queue's own, or that of its wait set.
    gathered: Arc<Gathered>,
    bell: Bell,
    /// Somebody wants to be woken by the bell. So it is at first: who polls without `fi_trywait` learns of the first
    /// entry, also if that was there before the descriptor was asked for, and finds the descriptor readable until
    /// somebody calls it. Programs for libfabric have come to rely on that.
    armed: AtomicBool,
}

impl Polled {
    fn new(call: &'static str, gathered: Arc<Gathered>) -> Result<Self> {
        let bell = Bell::new(call)?;
        gathered.add(call, &bell)?;
        Ok(Self { gathered, bell, armed: AtomicBool::new(true) })
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        // Closing does not take it out while a forked child has it open, too.
        let _ = epoll::delete(&self.gathered.0, &self.bell);
    }
}

/// Threads in blocking reads. Each has a bell of its own: none can take another's wake-up away.
#[derive(Default)]
struct Sleepers {
    asleep: Vec<Arc<Bell>>,
    spare: Vec<Arc<Bell>>,
}

/// How long a blocking read looks for something before it sleeps: `KOFI_SPIN_US`.
fn spin_budget() -> Duration {
    static BUDGET: OnceLock<Duration> = OnceLock::new();
    *BUDGET.get_or_init(|| {
        let given = std::env::var("KOFI_SPIN_US").ok().and_then(|micros| micros.trim().parse().ok());
        match (given, std::thread::available_parallelism()) {
            (Some(micros), _) => Duration::from_micros(micros),
            // Alone on a processor, one who spins keeps away what it waits for.
            (None, Ok(processors)) if processors.get() > 1 => DEFAULT_SPIN,
            (None, _) => Duration::ZERO,
        }
    })
}

const DEFAULT_SPIN: Duration = Duration::from_micros(20);
/// After so many times in vain nobody spins, until a sleep turns out to be short again.
const SPINS_IN_VAIN: u32 = 3;
/// A sleep is short that takes no more than so many times the budget: falling asleep and waking up
/// takes time, too.
const SHORT_SLEEP: u32 = 4;

/// The waiting side of a queue.
pub(crate) struct Waiter {
    kind: WaitObj,
    /// With `WaitObj::Unspec` from the first [`fd`](Waiter::fd) on: who never asks pays nothing.
    polled: OnceLock<Polled>,
    sleepers: Mutex<Sleepers>,
    /// How many are asleep.
    sleeping: AtomicUsize,
    /// Calls of [`signal`](Self::signal), and whether the last one has not ended a read yet.
    signals: AtomicU64,
    signaled: AtomicBool,
    /// Calls of [`drive_again`](Self::drive_again).
    agains: AtomicU64,
    spins_in_vain: AtomicU32,
    sources: Mutex<Vec<Weak<dyn Source>>>,
}

/// A thread that is about to sleep: whoever puts something into the queue rings its bell from now on.
struct Sleeper<'a> {
    waiter: &'a Waiter,
    bell: Arc<Bell>,
    sources: SmallVec<[Arc<dyn Source>; 4]>,
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.sources.iter().for_each(|source| source.rise());
        let mut sleepers = lock(&self.waiter.sleepers);
        sleepers.asleep.retain(|bell| !Arc::ptr_eq(bell, &self.bell));
        self.waiter.sleeping.fetch_sub(1, Ordering::SeqCst);
        self.bell.silence();
        sleepers.spare.push(self.bell.clone());
    }
}

impl Waiter {
    /// `set` is the descriptor of the wait set that the queue is in, with [`WaitObj::Set`].
    pub(crate) fn new(call: &'static str, kind: WaitObj, set: Option<Arc<Gathered>>) -> Result<Self> {
        let gathered = match kind {
            WaitObj::Fd | WaitObj::PollFd => Some(Arc::new(Gathered::new(call)?)),
            WaitObj::Set => set,
            WaitObj::None | WaitObj::Unspec | WaitObj::MutexCond | WaitObj::Yield => None,
        };
        let mut sleepers = Sleepers::default();
        let polled = match gathered {
            Some(gathered) => OnceLock::from(Polled::new(call, gathered)?),
            None => {
                if !matches!(kind, WaitObj::None | WaitObj::Yield) {
                    // Who has opened the queue can wait on it, however few descriptors are left.
                    sleepers.spare.push(Arc::new(Bell::new(call)?));
                }
                OnceLock::new()
            }
        };
        Ok(Self {
            kind,
            polled,
            sleepers: Mutex::new(sleepers),
            sleeping: AtomicUsize::new(0),
            signals: AtomicU64::new(0),
            signaled: AtomicBool::new(false),
            agains: AtomicU64::new(0),
            spins_in_vain: AtomicU32::new(0),
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
        if let Some(polled) = self.polled.get() {
            source.expose();
            polled.gathered.add(call, source.fd())?;
        }
        sources.push(Arc::downgrade(source));
        drop(sources);
        // Who sleeps already does not know of it.
        self.notify();
        Ok(())
    }

    pub(crate) fn sources(&self) -> SmallVec<[Arc<dyn Source>; 4]> {
        lock(&self.sources).iter().filter_map(Weak::upgrade).collect()
    }

    /// Drives all that feeds the queue. `true`: there is more to do.
    pub(crate) fn drive(&self) -> bool {
        self.sources().iter().fold(false, |more, source| source.drive() | more)
    }

    /// Somebody sleeps or polls, and wants to be woken.
    pub(crate) fn is_armed(&self) -> bool {
        let armed = self.polled.get().is_some_and(|polled| polled.armed.load(Ordering::SeqCst));
        armed || self.sleeping.load(Ordering::SeqCst) > 0
    }

    /// Wakes who waits, if somebody does. Called after something was put into the queue.
    pub(crate) fn notify(&self) {
        if let Some(polled) = self.polled.get()
            && polled.armed.swap(false, Ordering::SeqCst)
        {
            polled.bell.ring();
        }
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            lock(&self.sleepers).asleep.iter().for_each(|bell| bell.ring());
        }
    }

    /// A source can do now what it could not when it was driven, and its descriptor does not tell: whoever has
    /// driven it meanwhile and is about to sleep does it again.
    pub(crate) fn drive_again(&self) {
        self.agains.fetch_add(1, Ordering::SeqCst);
        self.notify();
    }

    /// To be looked at before driving, and once more when one can be woken.
    pub(crate) fn agains(&self) -> u64 {
        self.agains.load(Ordering::SeqCst)
    }

    /// `fi_cq_signal`, and the same for event queues: every blocking read that waits now ends with
    /// -FI_EAGAIN, or else the next one does.
    ///
    /// # Errors
    /// -FI_ENOSYS for a queue without a wait object.
    pub(crate) fn signal(&self, call: &'static str) -> Result<()> {
        self.check(call)?;
        self.signaled.store(true, Ordering::SeqCst);
        self.signals.fetch_add(1, Ordering::SeqCst);
        self.notify();
        Ok(())
    }

    /// Whether a reader that has seen `signals` is to end its wait.
    fn is_signaled(&self, signals: u64) -> bool {
        let unread = self.signaled.load(Ordering::SeqCst) && self.signaled.swap(false, Ordering::SeqCst);
        let new = self.signals.load(Ordering::SeqCst) != signals;
        if new {
            self.signaled.store(false, Ordering::SeqCst);
        }
        unread || new
    }

    fn lie_down(&self, call: &'static str) -> Result<Sleeper<'_>> {
        let mut sleepers = lock(&self.sleepers);
        let bell = match sleepers.spare.pop() {
            Some(bell) => bell,
            None => Arc::new(Bell::new(call)?),
        };
        sleepers.asleep.push(bell.clone());
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        // Sources ring the bell while they are locked.
        drop(sleepers);
        let sources = self.sources();
        sources.iter().for_each(|source| source.rest());
        Ok(Sleeper { waiter: self, bell, sources })
    }

    pub(crate) fn check(&self, call: &'static str) -> Result<()> {
        match self.kind {
            WaitObj::None => Err(Error::Unsupported(call)),
            _ => Ok(()),
        }
    }

    /// A blocking read: `attempt` reads without waiting, and is tried until it gives something other
    /// than "empty", or the time is over. A signal of either kind ends the wait, too (decision D3).
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
        // What is there is read without looking for more, as without waiting.
        match attempt() {
            Err(Error::Empty) => {}
            other => return other,
        }
        let start = now();
        let end = timeout.map(|timeout| start.after(timeout));
        let over = || end.is_some_and(|end| end <= now());
        let signals = self.signals.load(Ordering::SeqCst);
        let mut spin = Spin::new(self, start);
        loop {
            let agains = self.agains();
            let more = self.drive();
            match attempt() {
                Err(Error::Empty) => {}
                other => {
                    spin.found();
                    return other;
                }
            }
            if self.is_signaled(signals) {
                return Err(Error::Empty);
            }
            if more || spin.goes_on() {
                // Whatever is busy does not hold up the clock.
                if over() {
                    return Err(Error::Empty);
                }
                continue;
            }
            // What comes from here on wakes: entries and sources.
            let sleeper = self.lie_down(call)?;
            match attempt() {
                Err(Error::Empty) if self.agains() != agains => continue,
                Err(Error::Empty) => {}
                other => return other,
            }
            if self.is_signaled(signals) {
                return Err(Error::Empty);
            }
            let asleep = now();
            let interrupted = sleep(call, &sleeper.bell, &sleeper.sources, end)?;
            spin.slept(asleep);
            drop(sleeper);
            if interrupted {
                return attempt();
            }
            if over() {
                self.drive();
                return attempt();
            }
        }
    }

    /// `fi_trywait`: whether it is right to sleep on [`fd`](Self::fd) now.
    ///
    /// # Errors
    /// -FI_EAGAIN when there is something to read or to do first.
    pub(crate) fn try_wait(&self, call: &'static str, is_empty: impl Fn() -> bool) -> Result<()> {
        self.check(call)?;
        let agains = self.agains();
        let more = self.drive();
        if !self.arm(is_empty) || more || self.agains() != agains {
            return Err(Error::Empty);
        }
        Ok(())
    }

    /// Somebody polls the descriptor already.
    pub(crate) fn poll(&self) {
        if let Some(polled) = self.polled.get() {
            polled.armed.store(true, Ordering::SeqCst);
        }
    }

    /// Has the bell rung for what comes from now on. `false`: there is something to read, or a signal.
    ///
    /// The bell is left as it is while there is something to read: others may poll it, too.
    pub(crate) fn arm(&self, is_empty: impl Fn() -> bool) -> bool {
        if !is_empty() || self.signaled.swap(false, Ordering::SeqCst) {
            return false;
        }
        let Some(polled) = self.polled.get() else { return true };
        polled.bell.silence();
        polled.armed.store(true, Ordering::SeqCst);
        if is_empty() {
            return true;
        }
        self.notify();
        false
    }

    /// The descriptor to poll after [`try_wait`](Self::try_wait).
    pub(crate) fn fd(&self, call: &'static str) -> Result<BorrowedFd<'_>> {
        match self.polled.get() {
            Some(polled) if self.kind != WaitObj::Set => Ok(polled.gathered.as_fd()),
            None if self.kind == WaitObj::Unspec => Ok(self.chosen(call)?.gathered.as_fd()),
            _ => Err(Error::Unsupported(call)),
        }
    }

    /// The choice for a queue whose application has left it open.
    fn chosen(&self, call: &'static str) -> Result<&Polled> {
        // A source that is added meanwhile finds it, or is found.
        let sources = lock(&self.sources);
        if let Some(polled) = self.polled.get() {
            return Ok(polled);
        }
        let polled = Polled::new(call, Arc::new(Gathered::new(call)?))?;
        for source in sources.iter().filter_map(Weak::upgrade) {
            source.expose();
            polled.gathered.add(call, source.fd())?;
        }
        Ok(self.polled.get_or_init(|| polled))
    }
}

/// Sleeps until there is something to do, or the time has come. `true`: a signal came.
fn sleep(
    call: &'static str,
    bell: &Bell,
    sources: &[Arc<dyn Source>],
    until: Option<Instant>,
) -> Result<bool> {
    let mut fds: SmallVec<[PollFd<'_>; 5]> = SmallVec::new();
    fds.push(PollFd::new(bell, PollFlags::IN));
    fds.extend(sources.iter().map(|source| PollFd::from_borrowed_fd(source.fd(), PollFlags::IN)));
    let timeout = until.map(|until| timespec(until.until(now())));
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) => Ok(false),
        Err(Errno::INTR) => Ok(true),
        Err(errno) => Err(system(call, errno)),
    }
}

/// Looking for something for a while before sleeping: with `WaitObj::Yield` always, otherwise for
/// as long as it is worth it.
struct Spin<'a> {
    waiter: &'a Waiter,
    budget: Duration,
    end: Option<Instant>,
}

impl<'a> Spin<'a> {
    fn new(waiter: &'a Waiter, start: Instant) -> Self {
        let budget = spin_budget();
        let worth = budget > Duration::ZERO && waiter.spins_in_vain.load(Ordering::Relaxed) < SPINS_IN_VAIN;
        Self { waiter, budget, end: worth.then(|| start.after(budget)) }
    }

    /// Nothing was found: whether to look again instead of sleeping.
    fn goes_on(&mut self) -> bool {
        if self.waiter.kind == WaitObj::Yield {
            sched_yield();
            return true;
        }
        match self.end {
            None => false,
            Some(end) if now() < end => {
                std::hint::spin_loop();
                true
            }
            Some(_) => {
                self.end = None;
                self.waiter.spins_in_vain.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    /// A read ends before the thread slept.
    fn found(&self) {
        if self.end.is_some() {
            self.waiter.spins_in_vain.store(0, Ordering::Relaxed);
        }
    }

    fn slept(&self, since: Instant) {
        if now().until(since) <= self.budget * SHORT_SLEEP {
            self.waiter.spins_in_vain.store(0, Ordering::Relaxed);
        }
    }
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

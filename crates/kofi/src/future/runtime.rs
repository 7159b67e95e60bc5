// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Runtimes: who watches descriptors for futures.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use smallvec::SmallVec;

use crate::clock::now;
use crate::wait::Bell;

/// Watches descriptors. Implement it to run on another runtime than those of this module.
pub trait Runtime: Send + Sync + 'static {
    /// Takes a descriptor in, to be watched for reading.
    ///
    /// # Errors
    /// When the runtime cannot do that.
    fn register(&self, fd: OwnedFd) -> io::Result<Box<dyn Readiness>>;
}

/// A descriptor that a runtime watches. Dropped, it is no longer watched.
pub trait Readiness: Send + Sync {
    /// `Pending`: the waker is woken once the descriptor is readable. `Ready`: it was readable at
    /// some time since the last call. That is forgotten with the call; the caller looks what there is
    /// to do, and calls again.
    ///
    /// The last waker counts.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether a task that always finds something to do may go on; else it is woken again, after
    /// others had their turn.
    fn poll_proceed(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Whether the waker of the last `Pending` is still watched for, as seen from this thread.
    fn is_watched(&self) -> bool {
        true
    }
}

/// The runtime of the caller: that of [`block_on`] inside of it, else tokio's where there is one
/// (feature `tokio`), else async-io's (feature `async-io`), else that of [`block_on`].
pub(super) fn register(fd: OwnedFd) -> io::Result<Box<dyn Readiness>> {
    if CURRENT.with_borrow(|current| current.is_some()) {
        return BlockOn.register(fd);
    }
    #[cfg(feature = "tokio")]
    if tokio::runtime::Handle::try_current().is_ok() {
        return Tokio.register(fd);
    }
    #[cfg(feature = "async-io")]
    return AsyncIo.register(fd);
    #[cfg(not(feature = "async-io"))]
    BlockOn.register(fd)
}

/// [tokio](https://docs.rs/tokio), with the runtime that is current when a future is first polled.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug)]
pub struct Tokio;

#[cfg(feature = "tokio")]
impl Runtime for Tokio {
    fn register(&self, fd: OwnedFd) -> io::Result<Box<dyn Readiness>> {
        use std::future::poll_fn;
        use tokio::io::{Interest, unix::AsyncFd};
        use tokio::task::coop;

        struct Watched(AsyncFd<OwnedFd>);

        impl Readiness for Watched {
            fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                // What is done for all is not taken from the budget of the task that happens to do it.
                let ready = poll_fn(|cx| self.0.poll_read_ready(cx).map_ok(|mut guard| guard.clear_ready()));
                pin!(coop::unconstrained(ready)).poll(cx)
            }

            fn poll_proceed(&self, cx: &mut Context<'_>) -> Poll<()> {
                coop::poll_proceed(cx).map(|proceed| proceed.made_progress())
            }
        }

        // Deprecated because it takes descriptors that may be closed under it; this one is its own.
        #[allow(deprecated)]
        let watched = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Box::new(Watched(watched)))
    }
}

/// [async-io](https://docs.rs/async-io): smol, async-std, and every executor that brings no reactor.
#[cfg(feature = "async-io")]
#[derive(Clone, Copy, Debug)]
pub struct AsyncIo;

#[cfg(feature = "async-io")]
impl Runtime for AsyncIo {
    fn register(&self, fd: OwnedFd) -> io::Result<Box<dyn Readiness>> {
        struct Watched(async_io::Async<OwnedFd>);

        impl Readiness for Watched {
            fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.0.poll_readable(cx)
            }
        }

        // It is only polled: that nobody reads or writes it makes it non-blocking enough.
        Ok(Box::new(Watched(async_io::Async::new_nonblocking(fd)?)))
    }
}

/// The runtime of [`block_on`].
#[derive(Clone, Copy, Debug)]
pub struct BlockOn;

impl Runtime for BlockOn {
    fn register(&self, fd: OwnedFd) -> io::Result<Box<dyn Readiness>> {
        struct Watched(Arc<OwnedFd>);

        impl Readiness for Watched {
            fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let entry = Entry { fd: self.0.clone(), waker: cx.waker().clone() };
                let old = CURRENT.with_borrow_mut(|current| {
                    let entries = &mut current.as_mut()?.entries;
                    let known = entries.iter_mut().find(|known| Arc::ptr_eq(&known.fd, &entry.fd));
                    Some(match known {
                        Some(known) => Some(std::mem::replace(known, entry)),
                        None => {
                            entries.push(entry);
                            None
                        }
                    })
                });
                match old {
                    // What a waker drops is dropped outside of the borrow.
                    Some(_) => Poll::Pending,
                    None => Poll::Ready(Err(io::Error::other(
                        "no runtime: use kofi::block_on, or the features tokio or async-io",
                    ))),
                }
            }

            fn is_watched(&self) -> bool {
                CURRENT.with_borrow(|current| {
                    let entries = current.iter().flat_map(|current| &current.entries);
                    entries.into_iter().any(|entry| Arc::ptr_eq(&entry.fd, &self.0))
                })
            }
        }

        Ok(Box::new(Watched(Arc::new(fd))))
    }
}

thread_local! {
    /// What the innermost `block_on` of this thread watches.
    static CURRENT: RefCell<Option<Watching>> = const { RefCell::new(None) };
}

struct Watching {
    entries: Vec<Entry>,
}

struct Entry {
    fd: Arc<OwnedFd>,
    waker: Waker,
}

/// Puts back what an outer `block_on` watched, also after a panic.
struct Outer(Option<Watching>);

impl Outer {
    fn enter() -> Self {
        Self(CURRENT.with_borrow_mut(|current| current.replace(Watching { entries: Vec::new() })))
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        let outer = self.0.take();
        let _inner = CURRENT.with_borrow_mut(|current| std::mem::replace(current, outer));
    }
}

/// Wakes the thread of a `block_on`.
struct Unpark {
    woken: AtomicBool,
    bell: Option<Bell>,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::SeqCst)
            && let Some(bell) = &self.bell
        {
            bell.ring();
        }
    }
}

/// How long the thread looks for something to do before it sleeps.
const SPIN: Duration = Duration::from_micros(20);

/// Of so many polls in a row, one is followed by a look at the descriptors.
const POLLS: u32 = 8;

/// Runs a future to its end on this thread: looks for something to do for a moment, then sleeps in
/// `poll(2)` on the descriptors of all futures of this crate in it.
///
/// ```
/// use kofi::{AsyncEndpoint, AsyncListener, Buf};
///
/// # fn main() -> kofi::Result<()> {
/// kofi::block_on(async {
///     let listener = AsyncListener::bind(([127, 0, 0, 1], 0))?;
///     let client = AsyncEndpoint::connect(listener.name()?, b"hello", None);
///     let server = async { listener.accept().await };
///     # let (client, server) = join(client, server).await;
///     let (client, server) = (client?, server?);
///     client.send(Buf::from(b"message")).await?;
///     assert_eq!(server.recv(vec![0; 64]).await?.into_vec(), b"message");
///     server.shutdown().await
/// })
/// # }
/// # async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
/// #     let (mut a, mut b) = (Box::pin(a), Box::pin(b));
/// #     let (mut one, mut two) = (None, None);
/// #     std::future::poll_fn(|cx| {
/// #         use std::task::Poll;
/// #         if one.is_none() { if let Poll::Ready(v) = a.as_mut().poll(cx) { one = Some(v) } }
/// #         if two.is_none() { if let Poll::Ready(v) = b.as_mut().poll(cx) { two = Some(v) } }
/// #         match (one.is_some(), two.is_some()) {
/// #             (true, true) => Poll::Ready((one.take().unwrap(), two.take().unwrap())),
/// #             _ => Poll::Pending,
/// #         }
/// #     }).await
/// # }
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let _outer = Outer::enter();
    // Without a descriptor to be woken by, the thread looks again from time to time.
    let bell = Bell::new("block_on").ok();
    let unpark = Arc::new(Unpark { woken: AtomicBool::new(true), bell });
    let waker = Waker::from(unpark.clone());
    let mut cx = Context::from_waker(&waker);
    let mut polls = 0u32;
    loop {
        if unpark.woken.swap(false, Ordering::SeqCst) {
            if let Some(bell) = &unpark.bell {
                bell.silence();
            }
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            // A future that always has something to do keeps nobody from being woken.
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS) {
                watch(&unpark, Some(Duration::ZERO));
            }
        }
        let spin = now().after(SPIN);
        while !unpark.woken.load(Ordering::SeqCst) {
            if now() < spin {
                std::hint::spin_loop();
                watch(&unpark, Some(Duration::ZERO));
            } else {
                watch(&unpark, None);
            }
        }
    }
}

/// Wakes the wakers of descriptors that are readable; waits for one, or for `unpark`.
fn watch(unpark: &Unpark, timeout: Option<Duration>) {
    const WITHOUT_BELL: Duration = Duration::from_millis(1);
    let watched: SmallVec<[Arc<OwnedFd>; 4]> = CURRENT.with_borrow(|current| {
        current.iter().flat_map(|current| &current.entries).map(|entry| entry.fd.clone()).collect()
    });
    let mut fds: SmallVec<[PollFd<'_>; 5]> = SmallVec::new();
    fds.extend(watched.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
    let timeout = match &unpark.bell {
        Some(bell) => {
            fds.push(PollFd::new(bell, PollFlags::IN));
            timeout
        }
        None => Some(timeout.unwrap_or(WITHOUT_BELL)),
    };
    let timeout = timeout.map(|time| Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() });
    let failed = match poll(&mut fds, timeout.as_ref()) {
        Ok(0) | Err(Errno::INTR) => return,
        Ok(_) => false,
        // Whoever is woken for nothing finds that out.
        Err(_) => true,
    };
    let is_ready = |fd: &PollFd<'_>, entry: &Entry| {
        fd.as_fd().as_raw_fd() == entry.fd.as_raw_fd() && (failed || !fd.revents().is_empty())
    };
    let ready = |entry: &Entry| fds.iter().any(|fd| is_ready(fd, entry));
    let woken: SmallVec<[Entry; 4]> = CURRENT.with_borrow_mut(|current| {
        let Some(current) = current else { return SmallVec::new() };
        current.entries.extract_if(.., |entry| ready(entry)).collect()
    });
    woken.into_iter().for_each(|entry| entry.waker.wake());
}

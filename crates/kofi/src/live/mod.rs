// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The live objects of a process, shown to others: `kofi info --live PID`.
//!
//! A process that was started with `KOFI_LIVE=1`, or calls [`serve`], answers with all its fabrics,
//! event queues, listeners, domains, completion queues and endpoints, with states, addresses and
//! counts ([`EndpointStatistics`](crate::EndpointStatistics) and the like). It answers its own user and
//! root, nobody else, and tells neither data nor keys. Nothing is changed, and nobody held up: a thread of
//! its own (`kofi-live`) looks at few endpoints at a time, and leaves out what it cannot lock soon.
//!
//! The socket is an abstract Unix socket of the process's network namespace, `kofi-live-PID`: nothing is
//! left behind in any file system, and other containers do not see it. The answer is one JSON object a line.

use std::sync::{Arc, Mutex, MutexGuard, Once, TryLockError, Weak};
use std::time::Duration;

use kofi_core::{Error, Instant, Result};
use rustix::net::SocketAddrUnix;
use tracing::warn;

use crate::clock::now;
use crate::fabric::FabricShared;
use crate::wait::{lock, system};

mod client;
mod report;
mod server;

pub use client::query;
pub(crate) use report::Report;
pub use server::serve;

/// Something that can be looked at.
pub(crate) trait Inspect: Send + Sync {
    /// Says what there is to say. Waits for locks by [`patiently`] only.
    fn inspect(&self, fabric: u64, report: &mut Report);
}

/// All fabrics of the process.
static FABRICS: Mutex<Vec<Weak<FabricShared>>> = Mutex::new(Vec::new());

/// Held while an object is looked at, and by that kept from going away.
static LOOKING: Mutex<()> = Mutex::new(());

/// How long an object's lock is waited for, that others need for their data.
const PATIENCE: Duration = Duration::from_millis(100);
const STEP: Duration = Duration::from_micros(100);

fn name(call: &'static str, pid: u32) -> Result<SocketAddrUnix> {
    let name = format!("kofi-live-{pid}");
    SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(|errno| system(call, errno))
}

/// A fabric has been opened. Those that are gone are forgotten when there is no room for it.
pub(crate) fn opened(fabric: &Arc<FabricShared>) {
    remember(&FABRICS, Arc::downgrade(fabric));
    static ASKED: Once = Once::new();
    ASKED.call_once(|| match std::env::var("KOFI_LIVE").as_deref() {
        Err(_) | Ok("" | "0") => {}
        Ok("1") => {
            if let Err(error) = serve() {
                warn!(%error, "KOFI_LIVE=1: the objects of this process cannot be shown");
            }
        }
        Ok(other) => warn!("KOFI_LIVE={other:?} is neither 0 nor 1; it is ignored"),
    });
}

/// Puts one more into a list of what may be gone one day.
pub(crate) fn remember<T: ?Sized>(list: &Mutex<Vec<Weak<T>>>, new: Weak<T>) {
    let mut list = lock(list);
    if list.len() == list.capacity() {
        list.retain(|known| known.strong_count() > 0);
    }
    list.push(new);
}

/// Waits until nothing is being looked at: what was only kept by that is gone then.
pub(crate) fn settled() {
    drop(lock(&LOOKING));
}

/// Until when it may take to look at an object.
pub(crate) fn patience() -> Instant {
    now().after(PATIENCE)
}

/// Locks, until `end`: `None` when others have the lock all the time. It is never waited for in line,
/// so nobody waits behind us.
pub(crate) fn patiently<T>(mutex: &Mutex<T>, end: Instant) -> Option<MutexGuard<'_, T>> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if end <= now() => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(STEP),
        }
    }
}

fn failed(call: &'static str, errno: kofi_core::Errno, detail: String) -> Error {
    Error::System { call, errno, detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_not_waited_for_without_end() {
        let mutex = Mutex::new(());
        let held = lock(&mutex);
        assert!(patiently(&mutex, patience()).is_none());
        drop(held);
        assert!(patiently(&mutex, patience()).is_some());
        // Without time it is tried once.
        assert!(patiently(&mutex, Instant::from_nanos(0)).is_some());
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What takes the place of kofi's own modules of these names.

pub(crate) mod sync {
    pub(crate) use crate::kernel::fd::{AsFd, BorrowedFd, OwnedFd};
    pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak, atomic};
}

pub(crate) mod clock {
    use kofi_core::Instant;
    use shuttle::sync::atomic::{AtomicU64, Ordering};

    shuttle::lazy_static! {
        static ref MICROS: AtomicU64 = AtomicU64::new(1);
    }

    /// Each look at the clock takes a while: who spins does not do it for long.
    pub(crate) fn now() -> Instant {
        Instant::from_nanos(MICROS.fetch_add(15, Ordering::Relaxed) * 1000)
    }
}

pub(crate) mod fabric {
    use kofi_core::Fid;
    use shuttle::sync::{Arc, Weak};

    pub struct FabricShared;

    pub(crate) struct Child;

    impl FabricShared {
        pub(crate) fn new_fid(&self) -> Fid {
            Fid(1)
        }

        pub(crate) fn add_object(&self, _: Weak<dyn super::live::Inspect>) {}

        pub(crate) fn child(self: &Arc<Self>, _: fn(&mut kofi_core::Fabric) -> &mut usize) -> Child {
            Child
        }
    }
}

/// Nobody looks at the objects here.
pub(crate) mod live {
    use kofi_core::Instant;
    use kofi_core::report::Object;

    use super::sync::{Mutex, MutexGuard};

    pub(crate) trait Inspect: Send + Sync {
        fn inspect(&self, fabric: u64, report: &mut Report);
    }

    pub(crate) struct Report(String);

    impl Report {
        pub(crate) fn object(&mut self, kind: &str) -> Object<'_> {
            Object::new(&mut self.0, kind)
        }
    }

    pub(crate) fn settled() {}

    pub(crate) fn patience() -> Instant {
        super::clock::now()
    }

    pub(crate) fn patiently<T>(mutex: &Mutex<T>, _: Instant) -> Option<MutexGuard<'_, T>> {
        mutex.try_lock().ok()
    }
}

pub(crate) mod connection_request {
    #[derive(Debug)]
    pub struct ConnectionRequest;
}

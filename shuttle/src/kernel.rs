// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The system calls that waiting is made of, over one lock: event counters, timers that go off at once or never,
//! sets of descriptors with level and edge triggering, poll(2). A thread in poll sleeps until something is
//! readable; time does not wake it.

use std::sync::{Arc, Mutex as Cell, Weak};

use shuttle::sync::{Condvar, Mutex};

shuttle::lazy_static! {
    static ref KERNEL: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

/// One system call: others see all of it or nothing.
fn call<T>(f: impl FnOnce() -> T) -> T {
    let _kernel = KERNEL.0.lock().unwrap();
    let value = f();
    KERNEL.1.notify_all();
    value
}

enum Kind {
    /// eventfd(2), and a socket as far as it can be read from.
    Counter(u64),
    Timer {
        fired: bool,
    },
    Epoll(Vec<Interest>),
}

/// What an epoll descriptor watches.
struct Interest {
    target: Weak<Descriptor>,
    data: u64,
    edge: bool,
    /// Edges that were told of.
    seen: u64,
}

pub struct Descriptor {
    kind: Cell<Kind>,
    /// How often something has made it readable.
    edges: Cell<u64>,
}

impl Descriptor {
    fn open(kind: Kind) -> fd::OwnedFd {
        fd::OwnedFd(Arc::new(Self { kind: Cell::new(kind), edges: Cell::new(0) }))
    }

    fn edge(&self) {
        *self.edges.lock().unwrap() += 1;
    }

    fn is_readable(&self) -> bool {
        match &*self.kind.lock().unwrap() {
            Kind::Counter(count) => *count > 0,
            Kind::Timer { fired } => *fired,
            Kind::Epoll(interests) => interests.iter().any(Interest::is_ready),
        }
    }
}

impl Interest {
    fn is_ready(&self) -> bool {
        let Some(target) = self.target.upgrade() else { return false };
        target.is_readable() && (!self.edge || *target.edges.lock().unwrap() > self.seen)
    }
}

pub mod fd {
    use super::{Arc, Descriptor};

    pub struct OwnedFd(pub(super) Arc<Descriptor>);

    #[derive(Clone, Copy)]
    pub struct BorrowedFd<'a>(pub(super) &'a Arc<Descriptor>);

    pub trait AsFd {
        fn as_fd(&self) -> BorrowedFd<'_>;
    }

    impl AsFd for OwnedFd {
        fn as_fd(&self) -> BorrowedFd<'_> {
            BorrowedFd(&self.0)
        }
    }

    impl AsFd for BorrowedFd<'_> {
        fn as_fd(&self) -> BorrowedFd<'_> {
            *self
        }
    }

    impl<T: AsFd> AsFd for &T {
        fn as_fd(&self) -> BorrowedFd<'_> {
            (**self).as_fd()
        }
    }
}

pub mod io {
    use super::fd::AsFd;
    use super::{Kind, call};

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Errno(i32);

    impl Errno {
        pub const INTR: Self = Self(4);
        pub const AGAIN: Self = Self(11);
        pub const EXIST: Self = Self(17);
        pub const NFILE: Self = Self(23);
        pub const MFILE: Self = Self(24);
        pub const AFNOSUPPORT: Self = Self(97);
        pub const ADDRINUSE: Self = Self(98);
        pub const ADDRNOTAVAIL: Self = Self(99);

        pub fn raw_os_error(self) -> i32 {
            self.0
        }
    }

    pub type Result<T> = core::result::Result<T, Errno>;

    pub fn write(fd: impl AsFd, bytes: &[u8]) -> Result<usize> {
        let more = u64::from_ne_bytes(bytes.try_into().unwrap());
        call(|| {
            let descriptor = fd.as_fd().0;
            match &mut *descriptor.kind.lock().unwrap() {
                Kind::Counter(count) => *count += more,
                _ => panic!("no event counter"),
            }
            descriptor.edge();
            Ok(bytes.len())
        })
    }

    pub fn read(fd: impl AsFd, bytes: &mut [u8]) -> Result<usize> {
        call(|| match &mut *fd.as_fd().0.kind.lock().unwrap() {
            Kind::Counter(0) => Err(Errno::AGAIN),
            Kind::Counter(count) => {
                bytes.copy_from_slice(&std::mem::take(count).to_ne_bytes());
                Ok(bytes.len())
            }
            _ => panic!("no event counter"),
        })
    }
}

/// Flags of system calls, which the model needs not know.
macro_rules! flags {
    ($($name:ident { $($flag:ident)* })*) => {$(
        #[derive(Clone, Copy)]
        pub struct $name;

        impl $name {
            $(pub const $flag: Self = Self;)*
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, _: Self) -> Self {
                self
            }
        }
    )*};
}

pub mod event {
    use super::fd::{AsFd, BorrowedFd, OwnedFd};
    use super::{Descriptor, KERNEL, Kind, io};

    flags! { EventfdFlags { CLOEXEC NONBLOCK } PollFlags { IN } }

    pub struct Timespec {
        pub tv_sec: i64,
        pub tv_nsec: i64,
    }

    pub struct PollFd<'a>(BorrowedFd<'a>);

    impl<'a> PollFd<'a> {
        pub fn new(fd: &'a impl AsFd, _: PollFlags) -> Self {
            Self(fd.as_fd())
        }

        pub fn from_borrowed_fd(fd: BorrowedFd<'a>, _: PollFlags) -> Self {
            Self(fd)
        }
    }

    pub fn eventfd(count: u32, _: EventfdFlags) -> io::Result<OwnedFd> {
        Ok(Descriptor::open(Kind::Counter(count.into())))
    }

    pub fn poll(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<usize> {
        let mut kernel = KERNEL.0.lock().unwrap();
        loop {
            let count = fds.iter().filter(|fd| fd.0.0.is_readable()).count();
            if count > 0 {
                return Ok(count);
            }
            match timeout {
                Some(Timespec { tv_sec: 0, tv_nsec: 0 }) => return Ok(0),
                Some(_) => panic!("time does not pass here"),
                None => kernel = KERNEL.1.wait(kernel).unwrap(),
            }
        }
    }

    pub mod epoll {
        use super::super::fd::{AsFd, OwnedFd};
        use super::super::{Arc, Descriptor, Interest, Kind, call, io};

        flags! { CreateFlags { CLOEXEC } }

        #[derive(Clone, Copy, PartialEq)]
        pub struct EventFlags(u32);

        impl EventFlags {
            pub const IN: Self = Self(1);
            pub const ET: Self = Self(2);
        }

        impl core::ops::BitOr for EventFlags {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        pub struct EventData(u64);

        impl EventData {
            pub fn new_u64(data: u64) -> Self {
                Self(data)
            }
        }

        pub fn create(_: CreateFlags) -> io::Result<OwnedFd> {
            Ok(Descriptor::open(Kind::Epoll(Vec::new())))
        }

        fn with<T>(epoll: impl AsFd, f: impl FnOnce(&mut Vec<Interest>) -> T) -> T {
            call(|| match &mut *epoll.as_fd().0.kind.lock().unwrap() {
                Kind::Epoll(interests) => f(interests),
                _ => panic!("no epoll descriptor"),
            })
        }

        pub fn add(epoll: impl AsFd, fd: impl AsFd, data: EventData, flags: EventFlags) -> io::Result<()> {
            let target = Arc::downgrade(fd.as_fd().0);
            with(epoll, |interests| {
                if interests.iter().any(|known| known.target.ptr_eq(&target)) {
                    return Err(io::Errno::EXIST);
                }
                let edge = flags.0 & EventFlags::ET.0 != 0;
                interests.push(Interest { target, data: data.0, edge, seen: 0 });
                Ok(())
            })
        }

        pub fn delete(epoll: impl AsFd, fd: impl AsFd) -> io::Result<()> {
            let target = Arc::downgrade(fd.as_fd().0);
            with(epoll, |interests| interests.retain(|known| !known.target.ptr_eq(&target)));
            Ok(())
        }

        /// epoll_wait(2) that does not wait: the data of what is ready.
        pub fn ready(epoll: impl AsFd) -> Vec<u64> {
            with(epoll, |interests| {
                let ready = interests.iter_mut().filter(|interest| interest.is_ready());
                let told = ready.map(|interest| {
                    if let Some(target) = interest.target.upgrade() {
                        interest.seen = *target.edges.lock().unwrap();
                    }
                    interest.data
                });
                told.collect()
            })
        }
    }
}

pub mod thread {
    pub fn sched_yield() {
        shuttle::thread::yield_now();
    }
}

pub mod time {
    use super::event::Timespec;
    use super::fd::{AsFd, OwnedFd};
    use super::{Descriptor, Kind, call, io};

    flags! { TimerfdFlags { CLOEXEC NONBLOCK } TimerfdTimerFlags { ABSTIME } }

    pub enum TimerfdClockId {
        Monotonic,
    }

    pub struct Itimerspec {
        pub it_interval: Timespec,
        pub it_value: Timespec,
    }

    pub fn timerfd_create(_: TimerfdClockId, _: TimerfdFlags) -> io::Result<OwnedFd> {
        Ok(Descriptor::open(Kind::Timer { fired: false }))
    }

    /// Goes off at once, or in a time that does not come.
    pub fn timerfd_settime(fd: impl AsFd, _: TimerfdTimerFlags, value: &Itimerspec) -> io::Result<()> {
        let due = value.it_value.tv_sec == 0 && value.it_value.tv_nsec == 1;
        call(|| {
            let descriptor = fd.as_fd().0;
            *descriptor.kind.lock().unwrap() = Kind::Timer { fired: due };
            if due {
                descriptor.edge();
            }
            Ok(())
        })
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Which process this is. After fork(2) a child has copies of its parent's objects, with the same sockets behind
//! them: whatever it did with them, closing included, would be done to the parent's connections. So they are refused,
//! for as long as the parent is there; after that one child may go on with them, as daemon(3) wants it.
//!
//! A page that children find empty (`MADV_WIPEONFORK`) tells, at the cost of a load and without a handler. Whether the
//! parent is there is told by a lock on a file of its own (`F_SETLK`): children do not inherit it, the system takes it
//! back as soon as a process ends, and only one child gets it then. Numbers of processes tell none of that.

use core::ptr;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kofi_core::{Errno, Error, Result};

static PAGE: AtomicPtr<Page> = AtomicPtr::new(ptr::null_mut());

/// What a process knows of itself. All zeros in a new one.
#[repr(C)]
struct Page {
    /// Its own name; 0 until something is opened.
    name: AtomicU64,
    /// The descriptor of the file that it has locked, plus 1.
    lock: AtomicI32,
    /// It has waited for a parent that was about to end.
    waited: AtomicBool,
    /// Processes whose objects it goes on with.
    adopted: [AtomicU64; 64],
}

/// Names the process that an object was opened in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Process {
    name: u64,
    lock: Option<Lock>,
}

/// The file that a process has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lock {
    fd: i32,
    /// So that a file which got the number later is told from it.
    inode: u64,
}

/// How long a child waits, once, for a parent that does not seem to go away. Of two processes after fork(2), either may
/// be first.
const PATIENCE: Duration = Duration::from_millis(200);
const STEP: Duration = Duration::from_millis(1);

fn page() -> Option<&'static Page> {
    // SAFETY: null, or a mapping of at least that size, which stays and is nobody else's.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

impl Page {
    /// The file that this process has locked, unless it has no descriptor for it.
    fn lock(&self) -> Option<Lock> {
        if self.lock.load(Ordering::Acquire) == 0 {
            // SAFETY: a name, and a descriptor that is nobody else's.
            let file = unsafe {
                match libc::memfd_create(c"kofi-process".as_ptr(), libc::MFD_CLOEXEC) {
                    fd if fd >= 0 => OwnedFd::from_raw_fd(fd),
                    _ => return None,
                }
            };
            let fd = file.as_raw_fd();
            if !Lock::take(fd) {
                return None;
            }
            // Another thread may have been first; its file stays.
            if self.lock.compare_exchange(0, fd + 1, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                let _ = file.into_raw_fd();
            }
        }
        let fd = self.lock.load(Ordering::Acquire) - 1;
        Some(Lock { fd, inode: inode(fd)? })
    }

    fn has_adopted(&self, name: u64) -> bool {
        self.adopted.iter().any(|adopted| adopted.load(Ordering::Relaxed) == name)
    }

    /// Whether this process is to go on with what another one has opened.
    fn adopt(&self, name: u64, lock: Lock) -> bool {
        if inode(lock.fd) != Some(lock.inode) {
            return false;
        }
        let mut free = Lock::take(lock.fd);
        if !free && !self.waited.swap(true, Ordering::Relaxed) {
            let steps = PATIENCE.as_millis() / STEP.as_millis();
            free = (0..steps).any(|_| {
                std::thread::sleep(STEP);
                Lock::take(lock.fd)
            });
        }
        let into =
            |place: &AtomicU64| match place.compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => true,
                Err(known) => known == name,
            };
        free && self.adopted.iter().any(into)
    }
}

impl Lock {
    /// Whether this process has the lock on that file now.
    fn take(fd: i32) -> bool {
        // SAFETY: all zeros are a `struct flock`: the whole file.
        let mut whole: libc::flock = unsafe { core::mem::zeroed() };
        whole.l_type = libc::F_WRLCK as _;
        whole.l_whence = libc::SEEK_SET as _;
        // SAFETY: such a command with such an argument.
        unsafe { libc::fcntl(fd, libc::F_SETLK, &raw const whole) == 0 }
    }
}

fn inode(fd: i32) -> Option<u64> {
    // SAFETY: all zeros are a `struct stat`, which is written to.
    unsafe {
        let mut status: libc::stat = core::mem::zeroed();
        (libc::fstat(fd, &mut status) == 0).then_some(status.st_ino)
    }
}

impl Process {
    /// This one, for an object of which all others come.
    pub(super) fn enter() -> Self {
        static MAPPED: OnceLock<()> = OnceLock::new();
        MAPPED.get_or_init(map);
        let Some(page) = page() else { return Self { name: 0, lock: None } };
        let lock = page.lock();
        // Numbers of processes are used again, and begin anew in a namespace of their own.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        let name = time ^ u64::from(std::process::id()).rotate_right(16) | 1;
        match page.name.compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Self { name, lock },
            Err(known) => Self { name: known, lock },
        }
    }

    /// The same for an object with a thread, which children do not have.
    pub(super) fn with_thread(self) -> Self {
        Self { lock: None, ..self }
    }

    /// Refuses what another process has opened, as long as that is there.
    ///
    /// # Errors
    /// -FI_EOPBADSTATE.
    #[inline]
    pub(super) fn check(self) -> Result<()> {
        if page().map_or(0, |page| page.name.load(Ordering::Relaxed)) == self.name {
            return Ok(());
        }
        self.check_other()
    }

    #[inline(never)]
    fn check_other(self) -> Result<()> {
        if let (Some(page), Some(lock)) = (page(), self.lock)
            && (page.has_adopted(self.name) || page.adopt(self.name, lock))
        {
            return Ok(());
        }
        Err(Error::WrongState {
            call: "a call",
            object: "object",
            found: "of the parent process, which goes on using it",
            remedy: "open another one in this process",
            errno: Errno::EOPBADSTATE,
        })
    }
}

/// Without the page (no memory, an old kernel) children are not told from their parents.
fn map() {
    const LEN: usize = 4096;
    const { assert!(size_of::<Page>() <= LEN) };
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever there is room.
    let page = unsafe { libc::mmap(ptr::null_mut(), LEN, access, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return;
    }
    // SAFETY: the mapping that has just been made. If it fails, children find the page as it is.
    unsafe { libc::madvise(page, LEN, libc::MADV_WIPEONFORK) };
    PAGE.store(page.cast(), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_told_apart() {
        let process = Process::enter();
        assert!(process.check().is_ok());
        assert_eq!(Process::enter(), process, "what is open would be stale");
        // SAFETY: the child does nothing but look and leave.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let stale = process.check().is_err();
            let own = Process::enter().check().is_ok();
            // SAFETY: leaves without running what is the parent's.
            unsafe { libc::_exit(if stale && own { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: waits for that child.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
        assert!(process.check().is_ok());
    }

    #[test]
    fn who_is_left_goes_on() {
        let mut pipe = [-1; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        let process = Process::enter();
        // SAFETY: the children do nothing but look, tell and leave.
        let opener = unsafe { libc::fork() };
        if opener == 0 {
            let own = Process::enter();
            // SAFETY: as above.
            let left = unsafe { libc::fork() };
            if left == 0 {
                // The one that has opened it may or may not have ended yet.
                let goes_on = own.check().is_ok() && own.check().is_ok();
                let refused = process.check().is_err() && own.with_thread().check().is_err();
                let answer = [u8::from(goes_on), u8::from(refused)];
                // SAFETY: those bytes.
                unsafe { libc::write(pipe[1], answer.as_ptr().cast(), 2) };
            }
            // SAFETY: leaves without running what is the parent's.
            unsafe { libc::_exit(0) };
        }
        let mut answer = [0u8; 2];
        // SAFETY: waits for that child; room for the bytes, which no one writes once both are gone.
        unsafe {
            libc::close(pipe[1]);
            libc::waitpid(opener, ptr::null_mut(), 0);
            assert_eq!(libc::read(pipe[0], answer.as_mut_ptr().cast(), 2), 2);
            libc::close(pipe[0]);
        }
        assert_eq!(answer, [1, 1]);
        assert!(process.check().is_ok());
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What the kernel gives, as `kernel/shim/shim.h` offers it.

mod allocator;
pub(crate) mod lease;
pub(crate) mod lock;
pub(crate) mod net;
pub(crate) mod show;
pub(crate) mod socket;
pub(crate) mod wait;
pub(crate) mod work;

use core::ffi::c_void;

use kofi_core::{Error, Instant, Result};

/// Classes of objects, as `classes` in `shim/memory.c` has them.
#[derive(Clone, Copy)]
pub(crate) enum Class {
    Fabric = 0,
    EventQueue,
    PassiveEndpoint,
    Domain,
    Endpoint,
    CompletionQueue,
    Counter,
    MemoryRegion,
    WaitSet,
    ConnectionRequest,
    // "socket" is counted by the shim.
    SharedReceive = 11,
}

/// Counts an object for the report at the module's end, while it lives.
pub(crate) struct Counted(Class);

impl Counted {
    pub(crate) fn new(class: Class) -> Self {
        // SAFETY: it only counts.
        unsafe { raw::kofi_shim_count(class as u32, 1) };
        Self(class)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // SAFETY: it only counts.
        unsafe { raw::kofi_shim_count(self.0 as u32, -1) };
    }
}

/// The time now, by the clock that waits use, too.
pub(crate) fn now() -> Instant {
    // SAFETY: no condition.
    Instant::from_nanos(unsafe { raw::kofi_shim_now() })
}

/// A number that nobody can guess.
pub(crate) fn random() -> u64 {
    // SAFETY: no condition.
    unsafe { raw::kofi_shim_random() }
}

/// A line for the log.
pub(crate) fn warn(text: &str) {
    // SAFETY: the text is what pointer and length say, and only read.
    unsafe { raw::kofi_shim_warn(text.as_ptr(), text.len()) };
}

/// Writes as much as there is room for.
pub(crate) struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    pub(crate) fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                // Cut in the middle of a character.
                let whole = bytes.get(..error.valid_up_to()).unwrap_or_default();
                core::str::from_utf8(whole).unwrap_or_default()
            }
        }
    }
}

impl<const N: usize> core::fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let count = text.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..count), text.as_bytes().get(..count)) {
            to.copy_from_slice(from);
        }
        self.len += count;
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let mut text = Text::<256>::new();
    // What does not fit is cut off.
    let _ = core::fmt::Write::write_fmt(&mut text, format_args!("{info}"));
    let text = text.as_str();
    // SAFETY: the text is what pointer and length say.
    unsafe { raw::kofi_shim_bug(text.as_ptr(), text.len()) }
}

/// A pointer that C gave for a new object, or that there is no memory for it.
fn made<T>(pointer: *mut T, what: &'static str) -> Result<core::ptr::NonNull<T>> {
    core::ptr::NonNull::new(pointer).ok_or(Error::NoMemory(what))
}

/// The functions themselves.
pub(crate) mod raw {
    use super::c_void;
    use crate::c::{Addr, Memory};
    use core::ffi::{c_char, c_int};

    pub(crate) type Handler = unsafe extern "C" fn(*mut c_void);
    pub(crate) type Walk = unsafe extern "C" fn(*mut c_void, u64, *mut SeqFile) -> u64;
    pub(crate) type Describe = unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> *const c_char;

    /// `struct kvec`.
    #[derive(Clone, Copy, Default, Debug)]
    #[repr(C)]
    pub(crate) struct Piece {
        pub(crate) base: usize,
        pub(crate) len: usize,
    }

    #[derive(Clone, Copy)]
    #[repr(C)]
    pub(crate) struct Interface {
        pub(crate) name: [u8; 16],
        pub(crate) addr: Addr,
        pub(crate) prefix: u32,
        pub(crate) loopback: u32,
    }

    macro_rules! opaque {
        ($($name:ident)*) => {$(
            #[repr(C)]
            pub(crate) struct $name([u8; 0]);
        )*};
    }
    opaque! { Mutex Wait Pump Notifier Lease Sock Net Shown SeqFile }

    unsafe extern "C" {
        pub(crate) fn kofi_shim_alloc(size: usize, align: usize) -> *mut u8;
        pub(crate) fn kofi_shim_free(memory: *mut u8, align: usize);
        pub(crate) fn kofi_shim_count(class: u32, by: c_int);
        pub(crate) fn kofi_shim_flatten(memory: *const Memory, out: *mut Piece, max: u32) -> i64;

        pub(crate) fn kofi_shim_mutex_new(class: u32) -> *mut Mutex;
        pub(crate) fn kofi_shim_mutex_free(mutex: *mut Mutex);
        pub(crate) fn kofi_shim_mutex_lock(mutex: *mut Mutex);
        pub(crate) fn kofi_shim_mutex_unlock(mutex: *mut Mutex);
        pub(crate) fn kofi_shim_wait_new() -> *mut Wait;
        pub(crate) fn kofi_shim_wait_free(wait: *mut Wait);
        pub(crate) fn kofi_shim_wait_seq(wait: *mut Wait) -> u32;
        pub(crate) fn kofi_shim_wait_wake(wait: *mut Wait);
        pub(crate) fn kofi_shim_wait_sleep(
            wait: *mut Wait,
            pump: *mut Pump,
            seq: u32,
            since: u64,
            deadline: u64,
        ) -> c_int;
        pub(crate) fn kofi_shim_wait_quietly(wait: *mut Wait, seq: u32, millis: u32);
        pub(crate) fn kofi_shim_now() -> u64;

        pub(crate) fn kofi_shim_pump_new(run: unsafe extern "C" fn(*mut c_void)) -> *mut Pump;
        pub(crate) fn kofi_shim_pump_drive(pump: *mut Pump, context: *mut c_void);
        pub(crate) fn kofi_shim_pump_free(pump: *mut Pump);
        pub(crate) fn kofi_pump_has_events(pump: *mut Pump) -> bool;
        pub(crate) fn kofi_shim_pump_kick(pump: *mut Pump);
        pub(crate) fn kofi_shim_pump_alarm(pump: *mut Pump, at: u64);
        pub(crate) fn kofi_shim_pump_next(pump: *mut Pump, cookie: *mut u64, events: *mut u32) -> bool;
        pub(crate) fn kofi_shim_notifier_new(
            handler: Handler,
            context: *mut c_void,
            cpu: c_int,
        ) -> *mut Notifier;
        pub(crate) fn kofi_shim_notifier_trigger(notifier: *mut Notifier);
        pub(crate) fn kofi_shim_notifier_is_current(notifier: *mut Notifier) -> bool;
        pub(crate) fn kofi_shim_notifier_stop(notifier: *mut Notifier);
        pub(crate) fn kofi_shim_notifier_free(notifier: *mut Notifier);

        pub(crate) fn kofi_shim_lease_new(pump: *mut Pump, cookie: u64) -> *mut Lease;
        pub(crate) fn kofi_shim_lease_free(lease: *mut Lease);
        pub(crate) fn kofi_shim_lease_give_up(lease: *mut Lease) -> bool;

        pub(crate) fn kofi_shim_sock_new(net: *mut Net, addr: *const Addr, sock: *mut *mut Sock) -> c_int;
        pub(crate) fn kofi_shim_sock_bind(sock: *mut Sock, addr: *const Addr, no_port: bool) -> c_int;
        pub(crate) fn kofi_shim_sock_listen(sock: *mut Sock, backlog: c_int) -> c_int;
        pub(crate) fn kofi_shim_sock_accept(
            listener: *mut Sock,
            sock: *mut *mut Sock,
            local: *mut Addr,
            peer: *mut Addr,
        ) -> c_int;
        pub(crate) fn kofi_shim_sock_connect(sock: *mut Sock, addr: *const Addr) -> c_int;
        pub(crate) fn kofi_shim_sock_connecting(sock: *mut Sock, local: *mut Addr) -> c_int;
        pub(crate) fn kofi_shim_sock_name(sock: *mut Sock, local: *mut Addr) -> c_int;
        pub(crate) fn kofi_shim_sock_send(
            sock: *mut Sock,
            pieces: *mut Piece,
            count: usize,
            len: usize,
            more: bool,
        ) -> isize;
        pub(crate) fn kofi_shim_sock_lend(
            sock: *mut Sock,
            lease: *mut Lease,
            pieces: *const Piece,
            count: usize,
            events: *mut u32,
        ) -> isize;
        pub(crate) fn kofi_shim_sock_recv(
            sock: *mut Sock,
            pieces: *mut Piece,
            count: usize,
            len: usize,
        ) -> isize;
        pub(crate) fn kofi_shim_sock_answers(
            sock: *mut Sock,
            outstanding: *mut u32,
            unanswered: *mut u32,
            heard: *mut u32,
        );
        pub(crate) fn kofi_shim_sock_watch(sock: *mut Sock, pump: *mut Pump, cookie: u64) -> c_int;
        pub(crate) fn kofi_shim_sock_unwatch(sock: *mut Sock);
        pub(crate) fn kofi_shim_sock_broken(sock: *mut Sock) -> bool;
        pub(crate) fn kofi_shim_sock_nudge(sock: *mut Sock);
        pub(crate) fn kofi_shim_sock_abort(sock: *mut Sock);
        pub(crate) fn kofi_shim_sock_finish(sock: *mut Sock);
        pub(crate) fn kofi_shim_sock_close(sock: *mut Sock);

        pub(crate) fn kofi_shim_net_get(net: *mut Net) -> *mut Net;
        pub(crate) fn kofi_shim_net_put(net: *mut Net);
        pub(crate) fn kofi_shim_net_number(net: *const Net) -> u32;
        pub(crate) fn kofi_shim_interfaces(net: *mut Net, out: *mut Interface, max: usize) -> usize;
        pub(crate) fn kofi_shim_route(net: *mut Net, addr: *const Addr, local: *mut Addr) -> c_int;
        pub(crate) fn kofi_shim_random() -> u64;
        pub(crate) fn kofi_shim_limits(millis: *mut u32);

        pub(crate) fn kofi_shim_show(
            parent: *mut Shown,
            name: *const u8,
            len: usize,
            walk: Option<Walk>,
            context: *mut c_void,
        ) -> *mut Shown;
        pub(crate) fn kofi_shim_show_text(file: *mut SeqFile, text: *const u8, len: usize);
        pub(crate) fn kofi_shim_hide(shown: *mut Shown);
        pub(crate) fn kofi_shim_tell_connection(describe: Describe, context: *mut c_void);
        pub(crate) fn kofi_shim_tell_refusal(describe: Describe, context: *mut c_void);

        pub(crate) fn kofi_shim_warn(text: *const u8, len: usize);
        pub(crate) fn kofi_shim_bug(text: *const u8, len: usize) -> !;
        pub(crate) fn kofi_shim_module_get();
        pub(crate) fn kofi_shim_module_put();
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The event queue (`fi_eq(3)`).

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kofi::{ConnectionRequest, EqAttr, Event, EventQueue, Info, OpFlags, PeekedEvent, Reason, Version};
use kofi_core::time::sread_timeout;
use kofi_core::{Error, Fid, Result};

use super::fabric::{FabricClass, Name, Shared};
use super::wait::{Waitable, control};
use super::{Class, Held, Object, absent, bytes, count, free, new_fid, object, place, status, text, wait};
use crate::info;
use crate::sys::*;

pub(super) struct Eq {
    queue: EventQueue,
    wait_obj: fi_wait_obj,
    fabric: Held<FabricClass>,
    shared: Arc<Shared>,
    /// Domains that are bound to it.
    pub(super) domains: AtomicUsize,
    shown: Mutex<Shown>,
}

/// What the application was given and may still look at.
#[derive(Default)]
struct Shown {
    /// Of the last error, until the next event is read.
    err_data: Vec<u8>,
    /// The request that is next, and was looked at (`FI_PEEK`).
    request: Option<ShownRequest>,
}

struct ShownRequest {
    listener: Fid,
    peer: SocketAddr,
    info: *mut fi_info,
    handle: *mut fid,
}

// SAFETY: they are only handed to the application, and freed.
unsafe impl Send for ShownRequest {}

impl Eq {
    pub(super) fn queue(&self) -> &EventQueue {
        &self.queue
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, fid: Fid) -> Option<Name> {
        self.shared.names().get(&fid).cloned()
    }
}

// SAFETY: a `fid_eq` begins with a fid.
unsafe impl Class for Eq {
    type Public = fid_eq;
    const CLASS: usize = FI_CLASS_EQ;
    const NAME: &'static str = "event queue";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops = fi_ops { close: Some(close), control: Some(control::<Eq>), ..absent::FID };
        &TABLE
    }
}

static OPS: fi_ops_eq =
    fi_ops_eq { size: size_of::<fi_ops_eq>(), read, readerr, write, sread, strerror: eq_strerror };

pub(super) unsafe extern "C" fn eq_open(
    fabric: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    const CALL: &str = "fi_eq_open";
    status(|| {
        // SAFETY: the caller's object, its attributes or null, and its place.
        let (fabric, attr, place) =
            unsafe { (object::<FabricClass, _>(CALL, fabric)?, attr.as_ref(), place(CALL, eq)?) };
        // fi_eq(3) wants FI_WRITE of queues that are written to; stock does not, and programs rely on it.
        let mut wanted = EqAttr { flags: OpFlags::WRITE, ..EqAttr::default() };
        let (mut set, mut wait_obj) = (None, FI_WAIT_UNSPEC);
        if let Some(attr) = attr {
            wait_obj = attr.wait_obj;
            // SAFETY: the caller's wait set, if it is to be looked at.
            (wanted.wait_obj, set) = unsafe { wait::wanted(CALL, wait_obj, attr.wait_set)? };
            wanted.size = attr.size;
            wanted.flags |= OpFlags::from_bits_retain(attr.flags);
            wanted.signaling_vector = attr.signaling_vector;
        }
        let shared = fabric.0.clone();
        let queue = match set {
            None => shared.fabric.event_queue(wanted)?,
            Some(set) => shared.fabric.event_queue_in(set, wanted)?,
        };
        let inner = Eq {
            queue,
            wait_obj,
            fabric: Held::new(fabric),
            shared,
            domains: AtomicUsize::new(0),
            shown: Mutex::default(),
        };
        let public = fid_eq { fid: new_fid::<Eq>(context), ops: &OPS };
        Object::give(place, fabric.process, public, inner);
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    const CALL: &str = "fi_close";
    status(|| {
        // SAFETY: the caller's object.
        let eq = unsafe { object::<Eq, _>(CALL, fid)? };
        let domains = eq.domains.load(Ordering::Relaxed);
        if domains > 0 {
            return Err(Error::Busy { call: CALL, object: Eq::NAME, users: format!("{domains} domains") });
        }
        eq.queue.clone().close()?;
        let shown = eq.shown().request.take();
        eq.forget(shown);
        // SAFETY: the caller gives it up.
        unsafe { free::<Eq>(fid) };
        Ok(())
    })
}

impl Waitable for Eq {
    fn wait_obj(&self) -> fi_wait_obj {
        self.wait_obj
    }

    fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.queue.fd()
    }
}

/// Where an event goes.
struct Place {
    event: *mut u32,
    buffer: *mut c_void,
    len: usize,
}

/// What the fixed part of events of connection management has.
const CM: usize = size_of::<fi_eq_cm_entry>();
/// What that of all others has at most.
const ENTRY: usize = size_of::<fi_eq_entry>();

impl Place {
    /// # Errors
    /// -FI_EINVAL without a place.
    fn new(event: *mut u32, buffer: *mut c_void, len: usize) -> Result<Self> {
        if event.is_null() || (buffer.is_null() && len > 0) {
            let problem = "null where the event or its entry is to be stored";
            return Err(Error::Invalid { call: "fi_eq_read", problem });
        }
        Ok(Self { event, buffer, len })
    }

    /// Puts a part of an entry to byte `at`, as far as it has room. Gives the number of bytes.
    fn put(&self, at: usize, from: &[u8]) -> usize {
        let len = from.len().min(self.len.saturating_sub(at));
        // SAFETY: the caller's buffer has `len` bytes.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.buffer.cast::<u8>().wrapping_add(at), len) };
        len
    }

    /// Stores the event. Gives its length.
    fn cm(&self, event: u32, fid: *mut fid, info: *mut fi_info, data: &[u8]) -> usize {
        let entry = fi_eq_cm_entry { fid, info, data: [] };
        // SAFETY: the caller's place, and a buffer in which there is room for the entry: see `check`. It need
        // not be aligned.
        unsafe {
            self.event.write_unaligned(event);
            self.buffer.cast::<fi_eq_cm_entry>().write_unaligned(entry);
        }
        CM + self.put(CM, data)
    }

    /// Stores an event of the application's own.
    fn own(&self, event: u32, entry: &[u8]) -> usize {
        // SAFETY: the caller's place.
        unsafe { self.event.write_unaligned(event) };
        self.put(0, entry)
    }

    /// Whether the fixed part of an entry has room.
    fn check(&self, event: &PeekedEvent) -> Result<()> {
        let need = match event {
            PeekedEvent::Application { entry, .. } => entry.len().min(ENTRY),
            _ => CM,
        };
        if self.len < need {
            return Err(Error::TooSmall { call: "fi_eq_read", have: self.len, need });
        }
        Ok(())
    }
}

impl Object<Eq> {
    fn next(&self, place: &Place, flags: OpFlags, wait: Option<Option<Duration>>) -> Result<usize> {
        if flags.contains(OpFlags::PEEK) {
            let (fid, event) = match wait {
                None => self.queue.peek()?,
                Some(timeout) => self.queue.speek(timeout)?,
            };
            place.check(&event)?;
            return self.show(place, fid, event);
        }
        let check = |event: &PeekedEvent| place.check(event);
        let event = match wait {
            None => self.queue.read_checked(check)?,
            Some(timeout) => self.queue.sread_checked(timeout, check)?,
        };
        self.tell(place, event)
    }

    /// Stores an event that was read.
    fn tell(&self, place: &Place, event: Event) -> Result<usize> {
        // Who has just closed an object finds its events withdrawn, or this.
        let name = |fid| self.name(fid).map(|name| name.fid).ok_or(Error::Empty);
        let null = ptr::null_mut();
        Ok(match event {
            Event::ConnectionRequest(request) => {
                let fid = name(request.listener())?;
                let data = request.data().to_vec();
                place.cm(FI_CONNREQ, fid, self.info_of(request)?, &data)
            }
            Event::Connected { endpoint, data } => place.cm(FI_CONNECTED, name(endpoint)?, null, &data),
            Event::Shutdown { endpoint, .. } => place.cm(FI_SHUTDOWN, name(endpoint)?, null, &[]),
            Event::Application { event, entry, .. } => place.own(event, &entry),
            // These are read by fi_eq_readerr.
            _ => return Err(Error::ErrorAvailable),
        })
    }

    /// Stores an event that stays.
    fn show(&self, place: &Place, fid: Fid, event: PeekedEvent) -> Result<usize> {
        let name = || self.name(fid).ok_or(Error::Empty);
        let null = ptr::null_mut();
        Ok(match event {
            PeekedEvent::ConnectionRequest { local, peer, data, .. } => {
                let Name { fid: listener, listener: offered } = name()?;
                let offered = offered.ok_or(Error::Empty)?;
                let info = self.show_request(fid, local, peer, &offered)?;
                place.cm(FI_CONNREQ, listener, info, &data)
            }
            PeekedEvent::Connected { data } => place.cm(FI_CONNECTED, name()?.fid, null, &data),
            PeekedEvent::Shutdown { .. } => place.cm(FI_SHUTDOWN, name()?.fid, null, &[]),
            PeekedEvent::Application { event, entry } => place.own(event, &entry),
            PeekedEvent::Error { .. } => return Err(Error::ErrorAvailable),
        })
    }

    /// The info of a request that is still in the queue: the same that reading it will give.
    fn show_request(
        &self,
        listener: Fid,
        local: SocketAddr,
        peer: SocketAddr,
        offered: &Info,
    ) -> Result<*mut fi_info> {
        let mut shown = self.shown();
        if let Some(known) = &shown.request
            && (known.listener, known.peer) == (listener, peer)
        {
            return Ok(known.info);
        }
        self.forget(shown.request.take());
        let info = Info { src_addr: Some(local.into()), dest_addr: Some(peer.into()), ..offered.clone() };
        let (info, handle) = self.to_c(&info)?;
        shown.request = Some(ShownRequest { listener, peer, info, handle });
        Ok(info)
    }

    /// The info of a request that was read.
    fn info_of(&self, request: ConnectionRequest) -> Result<*mut fi_info> {
        let peer = request.info().dest_addr.as_ref().and_then(|addr| addr.socket_addr());
        let shown = self
            .shown()
            .request
            .take_if(|shown| shown.listener == request.listener() && Some(shown.peer) == peer);
        let (info, handle) = match shown {
            // It is the application's from here on.
            Some(ShownRequest { info, handle, .. }) => (info, handle),
            // Without memory for the info the request is dropped, and so rejected.
            None => self.to_c(request.info())?,
        };
        // The application may have closed a handle that it was shown: then its request is over.
        let rest = self.shared.requests().put(handle, request);
        drop(rest);
        Ok(info)
    }

    /// The info of a request for the application, and its handle.
    fn to_c(&self, info: &Info) -> Result<(*mut fi_info, *mut fid)> {
        let Some(mut info) = info::write(info) else {
            return Err(Error::NoMemory("the info of a connection request"));
        };
        let handle = self.shared.requests().reserve(self.process, Arc::downgrade(&self.shared));
        // SAFETY: just made.
        unsafe { info.as_mut() }.handle = handle;
        Ok((info.as_ptr(), handle))
    }

    /// A request that was looked at was not read, and never will be.
    fn forget(&self, shown: Option<ShownRequest>) {
        let Some(ShownRequest { info, handle, .. }) = shown else { return };
        // SAFETY: made by `show_request`; who only looks does not get to own it.
        unsafe { info::free(info) };
        // There is no request behind it.
        let none = self.shared.requests().end(handle);
        drop(none);
    }

    fn api_version(&self) -> Version {
        self.fabric.get().api_version()
    }

    fn next_error(&self, place: *mut fi_eq_err_entry, flags: OpFlags) -> Result<()> {
        const CALL: &str = "fi_eq_readerr";
        if place.is_null() {
            return Err(Error::Invalid { call: CALL, problem: "null where the entry is to be stored" });
        }
        let (fid, reason, data) = match flags.contains(OpFlags::PEEK) {
            true => match self.queue.peek_error()? {
                (fid, PeekedEvent::Error { reason, data }) => (fid, reason, data),
                _ => return Err(Error::Empty),
            },
            false => match self.queue.read_error()? {
                Event::Failed { endpoint, reason, data } => (endpoint, reason, data),
                _ => return Err(Error::Empty),
            },
        };
        let about = {
            let names = self.shared.names();
            let fid = names.get(&fid).map_or(ptr::null_mut(), |name| name.fid);
            // SAFETY: what has a name is open, for as long as the names are locked.
            (fid, if fid.is_null() { ptr::null_mut() } else { unsafe { (*fid).context } })
        };
        // SAFETY: the caller's place for an entry of its version.
        unsafe { self.store_error(place, about, reason, data) };
        Ok(())
    }

    /// # Safety
    /// An entry as the application's version knows it can be written there.
    unsafe fn store_error(
        &self,
        place: *mut fi_eq_err_entry,
        about: (*mut fid, *mut c_void),
        reason: Reason,
        data: Vec<u8>,
    ) {
        let errno = reason.errno().raw();
        // fi_eq(3): before 1.5 there was no err_data_size.
        let sized = self.api_version() >= Version::new(1, 5);
        // SAFETY: see above. Fields are written one by one, since an old entry ends before the last.
        unsafe {
            ((*place).fid, (*place).context) = about;
            (*place).data = 0;
            (*place).err = errno;
            (*place).prov_errno = errno;
            let room = if sized { (*place).err_data_size } else { 0 };
            if room > 0 && !(*place).err_data.is_null() {
                let len = data.len().min(room);
                ptr::copy_nonoverlapping(data.as_ptr(), (*place).err_data.cast(), len);
                (*place).err_data_size = len;
                return;
            }
            let mut shown = self.shown();
            shown.err_data = data;
            let (start, len) = (shown.err_data.as_mut_ptr(), shown.err_data.len());
            (*place).err_data = if len == 0 { ptr::null_mut() } else { start.cast() };
            if sized {
                (*place).err_data_size = len;
            }
        }
    }
}

unsafe extern "C" fn read(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    const CALL: &str = "fi_eq_read";
    count(|| {
        // SAFETY: the caller's object.
        let eq = unsafe { object::<Eq, _>(CALL, eq)? };
        let flags = check_flags(CALL, flags)?;
        eq.next(&Place::new(event, buf, len)?, flags, None)
    })
}

unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    count(|| {
        // SAFETY: the caller's object.
        let eq = unsafe { object::<Eq, _>("fi_eq_sread", eq)? };
        let flags = OpFlags::from_bits_retain(flags);
        let timeout = sread_timeout(timeout, flags)?;
        eq.next(&Place::new(event, buf, len)?, flags, Some(timeout))
    })
}

unsafe extern "C" fn readerr(eq: *mut fid_eq, entry: *mut fi_eq_err_entry, flags: u64) -> isize {
    const CALL: &str = "fi_eq_readerr";
    count(|| {
        // SAFETY: the caller's object.
        let eq = unsafe { object::<Eq, _>(CALL, eq)? };
        eq.next_error(entry, check_flags(CALL, flags)?)?;
        Ok(size_of::<fi_eq_err_entry>())
    })
}

fn check_flags(call: &'static str, flags: u64) -> Result<OpFlags> {
    match flags & !FI_PEEK {
        0 => Ok(OpFlags::from_bits_retain(flags)),
        found => Err(Error::BadFlags { call, found, allowed: FI_PEEK }),
    }
}

unsafe extern "C" fn write(eq: *mut fid_eq, event: u32, buf: *const c_void, len: usize, flags: u64) -> isize {
    const CALL: &str = "fi_eq_write";
    /// No object of ours: what such an event is about is in its entry.
    const NOBODY: Fid = Fid(0);
    count(|| {
        // SAFETY: the caller's object and bytes.
        let (eq, entry) = unsafe { (object::<Eq, _>(CALL, eq)?, bytes(CALL, buf, len)?) };
        eq.queue.write(NOBODY, event, entry, OpFlags::from_bits_retain(flags))
    })
}

unsafe extern "C" fn eq_strerror(
    _: *mut fid_eq,
    prov_errno: c_int,
    _: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: the caller's buffer.
    unsafe { text(prov_errno, buf, len) }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The event queue (`fi_eq(3)`), with waiting.

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;

use kofi_core::attr::{EqAttr, WaitObj};
use kofi_core::event_queue::{self as core_eq, Entry, Event};
use kofi_core::flags::OpFlags;
use kofi_core::report::Object;
use kofi_core::{Error, Fid, Result, time};

use crate::c;
use crate::error;
use crate::fabric::{Child, Fabric};
use crate::passive_endpoint::Listener;
use crate::signal::Signal;
use crate::sys::lock::{LockClass, Mutex};
use crate::sys::show::{Show, Shown};
use crate::sys::{Class, Counted};
use crate::text;
use crate::wait_set::{Member, WaitSet};

const NOTIFY_CONNREQ: u32 = 1;
const CONNECTED: u32 = 2;
const SHUTDOWN: u32 = 3;

pub(crate) struct EventQueue {
    pub(crate) fid: Fid,
    pub(crate) fabric: Arc<Fabric>,
    /// A leaf: nothing else is locked, and nothing is called, under this lock.
    queue: Mutex<core_eq::EventQueue>,
    signal: Signal,
    shown: Shown,
    listeners: Mutex<Vec<(Fid, Weak<Listener>)>>,
    /// Data of the error that was read last.
    error_data: Mutex<Vec<u8>>,
    _child: Child,
    _counted: Counted,
}

/// What an event of this kind is in C; none for errors.
fn number(event: &Event) -> (u32, bool) {
    match event {
        Event::ConnectionRequest { .. } => (NOTIFY_CONNREQ, true),
        Event::Connected { .. } => (CONNECTED, true),
        Event::Shutdown { .. } => (SHUTDOWN, true),
        Event::Application { event, .. } => (*event, false),
        Event::Error { .. } => (0, false),
    }
}

fn data(event: &Event) -> &[u8] {
    match event {
        Event::ConnectionRequest { data, .. } | Event::Connected { data } | Event::Error { data, .. } => data,
        Event::Application { entry, .. } => entry,
        Event::Shutdown { .. } => &[],
    }
}

/// Where an event goes.
struct Place<'a> {
    event: &'a mut c::Event,
    buffer: &'a mut [u8],
    /// Bytes of the fixed part of connection events, which C fills.
    cm_size: usize,
}

impl Place<'_> {
    fn check(&self, entry: &Entry) -> Result<()> {
        let (_, is_cm) = number(&entry.event);
        let need = if is_cm { self.cm_size } else { data(&entry.event).len() };
        let have = self.buffer.len();
        if have < need {
            return Err(Error::TooSmall { call: "fi_eq_read", have, need });
        }
        Ok(())
    }

    /// Gives the bytes of the entry.
    fn fill(&mut self, entry: &Entry) -> usize {
        let (event, is_cm) = number(&entry.event);
        let data = data(&entry.event);
        *self.event = c::Event {
            event,
            is_cm: u32::from(is_cm),
            fid: entry.fid.0,
            info: core::ptr::null_mut(),
            data_len: data.len() as u64,
        };
        let start = if is_cm { self.cm_size } else { 0 };
        let room = self.buffer.get_mut(start..).unwrap_or_default();
        let count = data.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..count), data.get(..count)) {
            to.copy_from_slice(from);
        }
        start + count
    }
}

/// What reading a connection request needs, had before it is taken: so that none is lost for want of memory.
struct Spare {
    info: Option<Box<c::Info>>,
    fabric: Arc<Fabric>,
    handle: u64,
}

impl Spare {
    fn new(fabric: &Arc<Fabric>) -> Result<Self> {
        let info = Some(crate::info::boxed()?);
        let handle = fabric.requests.lock().reserve()?;
        Ok(Self { info, fabric: fabric.clone(), handle })
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        // Otherwise a request is in the place.
        if self.info.is_some() {
            self.fabric.requests.lock().release(self.handle);
        }
    }
}

enum Step {
    /// The next event is a request.
    NeedsSpare,
    Done(usize),
    /// Taken out; and whether there was no room for more requests.
    Entry(Entry, bool),
}

impl EventQueue {
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut core_eq::EventQueue) -> T) -> T {
        f(&mut self.queue.lock())
    }

    /// Puts in what `fill` has for the room that there is, and tells who waits.
    pub(crate) fn fill(&self, fill: impl FnOnce(&mut core_eq::EventQueue)) {
        fill(&mut self.queue.lock());
        self.signal.notify();
    }

    pub(crate) fn add_listener(&self, fid: Fid, listener: Weak<Listener>) -> Result<()> {
        let mut listeners = self.listeners.lock();
        listeners.try_reserve(1).map_err(|_| Error::NoMemory("a listener of an event queue"))?;
        listeners.push((fid, listener));
        Ok(())
    }

    pub(crate) fn remove_listener(&self, fid: Fid) {
        self.listeners.lock().retain(|(known, _)| *known != fid);
    }

    /// The listener at that place. Whoever has the last hold on it lets go without our lock.
    fn nth_listener(&self, index: usize) -> Option<Arc<Listener>> {
        self.listeners.lock().get(index).and_then(|(_, found)| found.upgrade())
    }

    /// There is room for requests that wait.
    fn kick_listeners(&self) {
        let count = self.listeners.lock().len();
        // From the end on: those that go meanwhile bring others to places that are still to come.
        (0..count).rev().filter_map(|index| self.nth_listener(index)).for_each(|listener| listener.kick());
    }

    fn listener(&self, fid: Fid) -> Option<Arc<Listener>> {
        self.listeners.lock().iter().find(|(known, _)| *known == fid).and_then(|(_, found)| found.upgrade())
    }

    fn read(&self, place: &mut Place<'_>, peek: bool) -> Result<usize> {
        let mut spare: Option<Spare> = None;
        loop {
            let step: Result<Step> = self.with(|queue| {
                let entry = queue.peek().inspect_err(|error| {
                    if *error == Error::Empty {
                        self.signal.rearm();
                    }
                })?;
                place.check(entry)?;
                if peek {
                    return Ok(Step::Done(place.fill(entry)));
                }
                if matches!(entry.event, Event::ConnectionRequest { .. }) && spare.is_none() {
                    return Ok(Step::NeedsSpare);
                }
                let full = queue.room() == 0;
                Ok(Step::Entry(queue.read()?, full))
            });
            let (entry, full) = match step? {
                Step::Done(count) => return Ok(count),
                Step::NeedsSpare => {
                    spare = Some(Spare::new(&self.fabric)?);
                    continue;
                }
                Step::Entry(entry, full) => (entry, full),
            };
            if full {
                self.kick_listeners();
            }
            let Event::ConnectionRequest { request, local, peer, .. } = &entry.event else {
                return Ok(place.fill(&entry));
            };
            // A listener that has just been closed has taken its requests with it.
            let Some(listener) = self.listener(entry.fid) else { continue };
            let Some(Spare { info: Some(info), handle, .. }) = &mut spare else { continue };
            // An error: it was withdrawn meanwhile.
            if let Ok(request) = listener.take_request(*request, *local, *peer, info) {
                info.handle = *handle;
                self.fabric.requests.lock().put(*handle, request);
                let count = place.fill(&entry);
                let info = spare.as_mut().and_then(|spare| spare.info.take());
                place.event.info = info.map_or(core::ptr::null_mut(), Box::into_raw);
                return Ok(count);
            }
        }
    }

    fn read_error(&self, place: &mut c::EqError, peek: bool) -> Result<()> {
        let room = place.err_data_size;
        let (fid, event) = self.with(|queue| {
            if !peek {
                return queue.read_error().map(|entry| (entry.fid, entry.event));
            }
            let Entry { fid, event } = queue.peek_error()?;
            let Event::Error { reason, data } = event else { return Err(Error::Empty) };
            let mut copy = Vec::new();
            copy.try_reserve_exact(data.len()).map_err(|_| Error::NoMemory("an error's data"))?;
            copy.extend_from_slice(data);
            Ok((*fid, Event::Error { reason: *reason, data: copy }))
        })?;
        let Event::Error { reason, data } = event else { return Err(Error::Empty) };
        let errno = reason.errno().raw();
        (place.fid, place.data, place.err, place.prov_errno) = (fid.0, 0, errno, errno);
        if room > 0 && !place.err_data.is_null() {
            let into = c::room("fi_eq_readerr", place.err_data, room as usize)?;
            let count = data.len().min(into.len());
            if let (Some(to), Some(from)) = (into.get_mut(..count), data.get(..count)) {
                to.copy_from_slice(from);
            }
            place.err_data_size = count as u64;
        } else {
            let mut kept = self.error_data.lock();
            *kept = data;
            place.err_data_size = kept.len() as u64;
            place.err_data = if kept.is_empty() { core::ptr::null_mut() } else { kept.as_mut_ptr().cast() };
        }
        Ok(())
    }
}

impl Member for EventQueue {
    fn is_empty(&self) -> bool {
        self.with(|queue| queue.is_empty())
    }
}

impl Show for EventQueue {
    fn next(&self, from: u64) -> Option<u64> {
        (from == 0).then_some(0)
    }

    fn show(&self, _line: u64, out: &mut dyn Write) {
        self.with(|queue| {
            let mut object = Object::new(out, "event_queue");
            object.number("fid", self.fid.0).number("fabric", self.fabric.id).event_queue(queue);
        });
    }
}

/// Refuses flags outside of `allowed`.
pub(crate) fn check_flags(call: &'static str, flags: u64, allowed: OpFlags) -> Result<OpFlags> {
    match flags & !allowed.bits() {
        0 => Ok(OpFlags::from_bits_retain(flags)),
        found => Err(Error::BadFlags { call, found, allowed: allowed.bits() }),
    }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_eq_open(
    fabric: *const Fabric,
    attr: *const c::QueueAttr,
    eq: *mut *const EventQueue,
) -> c_int {
    const CALL: &str = "fi_eq_open";
    error::result((|| {
        let fabric = Fabric::given(CALL, fabric)?;
        let place = c::place(CALL, eq)?;
        let default = c::QueueAttr::default();
        // SAFETY: null, or the caller's for the call.
        let attr = unsafe { attr.as_ref() }.unwrap_or(&default);
        let set = WaitSet::given(CALL, attr.wait_set, &fabric)?;
        let core_attr = EqAttr {
            size: usize::try_from(attr.size).unwrap_or(usize::MAX),
            flags: OpFlags::from_bits_retain(attr.flags),
            wait_obj: WaitObj::Unspec,
            signaling_vector: attr.signaling_vector,
        };
        let queue = core_eq::EventQueue::open(&core_attr)?;
        let signal = Signal::new(CALL, attr, set.clone())?;
        let object = EventQueue {
            fid: fabric.new_fid(),
            queue: Mutex::new(LockClass::EventQueue, queue)?,
            signal,
            shown: Shown::none(),
            listeners: Mutex::new(LockClass::Leaf, Vec::new())?,
            error_data: Mutex::new(LockClass::Leaf, Vec::new())?,
            _child: fabric.child(|children| &mut children.event_queues),
            fabric,
            _counted: Counted::new(Class::EventQueue),
        };
        let object = c::share(object, "an event queue")?;
        if let Some(set) = set {
            set.add(Arc::downgrade(&object) as Weak<dyn Member>)?;
        }
        // SAFETY: it is in its final place, and hidden before it is closed.
        unsafe {
            object.shown.file(
                &object.fabric.directory,
                format_args!("event_queue-{}", object.fid.0),
                Arc::as_ptr(&object),
            );
        }
        c::give(place, object);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_eq_read(
    eq: *const EventQueue,
    event: *mut c::Event,
    buffer: *mut c_void,
    len: usize,
    cm_size: usize,
    flags: u64,
) -> isize {
    const CALL: &str = "fi_eq_read";
    error::count((|| {
        let queue = c::borrow(CALL, eq)?;
        let mut place = Place { event: c::place(CALL, event)?, buffer: c::room(CALL, buffer, len)?, cm_size };
        let peek = check_flags(CALL, flags, OpFlags::PEEK)?.contains(OpFlags::PEEK);
        queue.read(&mut place, peek)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_eq_sread(
    eq: *const EventQueue,
    event: *mut c::Event,
    buffer: *mut c_void,
    len: usize,
    cm_size: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    const CALL: &str = "fi_eq_sread";
    error::count((|| {
        let queue = c::borrow(CALL, eq)?;
        let mut place = Place { event: c::place(CALL, event)?, buffer: c::room(CALL, buffer, len)?, cm_size };
        let flags = OpFlags::from_bits_retain(flags);
        let timeout = time::sread_timeout(timeout, flags)?;
        queue.signal.sread(CALL, timeout, None, || queue.read(&mut place, flags.contains(OpFlags::PEEK)))
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_eq_readerr(eq: *const EventQueue, place: *mut c::EqError, flags: u64) -> isize {
    const CALL: &str = "fi_eq_readerr";
    error::count((|| {
        let queue = c::borrow(CALL, eq)?;
        let peek = check_flags(CALL, flags, OpFlags::PEEK)?.contains(OpFlags::PEEK);
        queue.read_error(c::place(CALL, place)?, peek).map(|()| 1)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_eq_write(
    eq: *const EventQueue,
    event: u32,
    fid: u64,
    buffer: *const c_void,
    len: usize,
    flags: u64,
) -> isize {
    const CALL: &str = "fi_eq_write";
    error::count((|| {
        let queue = c::borrow(CALL, eq)?;
        let entry = c::bytes(CALL, buffer, len)?;
        let flags = OpFlags::from_bits_retain(flags);
        let written = queue.with(|queue| queue.write(Fid(fid), event, entry, flags))?;
        queue.signal.notify();
        Ok(written)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_eq_strerror(_eq: *const EventQueue, prov_errno: c_int) -> *const c_char {
    text::error(prov_errno)
}

#[unsafe(no_mangle)]
extern "C" fn kofi_eq_close(eq: *const EventQueue) -> c_int {
    error::result((|| {
        let queue = c::borrow("fi_close", eq)?;
        queue.with(|queue| queue.check_close())?;
        queue.signal.check_close("event queue")?;
        queue.signal.stop();
        queue.shown.hide();
        // SAFETY: the caller's handle, which it gives up.
        unsafe { c::take_back(eq) };
        Ok(())
    })())
}

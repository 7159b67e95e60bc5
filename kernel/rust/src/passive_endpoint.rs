// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The passive endpoint (`fi_passive_ep(3)`): a loop around [`kofi_core::PassiveEndpoint`].

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::fmt::Write;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use kofi_core::event_queue::Entry;
use kofi_core::report::Object;
use kofi_core::wire::cm;
use kofi_core::{Errno, Error, Event, Fid, Instant, PassiveEndpoint, RequestId, Result};

use crate::c;
use crate::domain::check_type;
use crate::error::{self, system};
use crate::event_queue::EventQueue;
use crate::fabric::{self, Child, Fabric};
use crate::notice::{self, What};
use crate::requests::{self, Request};
use crate::sys::lock::{LockClass, Mutex};
use crate::sys::show::{Show, Shown};
use crate::sys::socket::Socket;
use crate::sys::work::{Driven, Pump};
use crate::sys::{self, Class, Counted, Text, now};

/// Connections accepted at a time, before others get their turn.
const ACCEPT_BUDGET: usize = 64;
/// Cookie of the listening socket; others carry the index of a connection.
const LISTENER: u64 = u64::MAX;
/// `FI_SOCKADDR_IN6`.
const SOCKADDR_IN6: u32 = 3;

pub(crate) struct Listener {
    // First, since dropping it waits for what it runs.
    pump: Pump,
    shown: Shown,
    fid: Fid,
    fabric: Arc<Fabric>,
    info: Box<c::Info>,
    state: Mutex<Option<State>>,
    _counted: Counted,
}

struct State {
    machine: PassiveEndpoint,
    socket: Option<Socket>,
    /// There may be connections to accept.
    acceptable: bool,
    connections: Vec<Option<Connection>>,
    eq: Option<Arc<EventQueue>>,
    /// Accepting has paused: for a line in the log.
    pause: Option<(Errno, Duration)>,
    _child: Child,
}

/// A connection whose request is arriving or unread.
struct Connection {
    id: RequestId,
    socket: Socket,
    local: SocketAddr,
    peer: SocketAddr,
    /// The pump is told of it.
    watched: bool,
}

impl Listener {
    fn open(fabric: &Arc<Fabric>, info: &c::Info, fid: Fid) -> Result<Arc<Self>> {
        const CALL: &str = "fi_passive_ep";
        check_type(CALL, info)?;
        let socket = match info.src_addr.get() {
            Some(addr) => Some(Socket::bound(&fabric.net, &addr).map_err(|errno| system(CALL, errno))?),
            None if info.src_addr.len == 0 => None,
            None => {
                let problem = "the info's src_addr is no socket address; tcp takes FI_SOCKADDR_IN and _IN6";
                return Err(Error::Invalid { call: CALL, problem });
            }
        };
        let mut copy = crate::info::boxed()?;
        *copy = *info;
        copy.next = core::ptr::null_mut();
        let state = State {
            machine: PassiveEndpoint::new(fabric::limits()),
            socket,
            acceptable: false,
            connections: Vec::new(),
            eq: None,
            pause: None,
            _child: fabric.child(|children| &mut children.passive_endpoints),
        };
        let listener = c::share(
            Self {
                pump: Pump::new::<Self>()?,
                shown: Shown::none(),
                fid,
                fabric: fabric.clone(),
                info: copy,
                state: Mutex::new(LockClass::Listener, Some(state))?,
                _counted: Counted::new(Class::PassiveEndpoint),
            },
            "a passive endpoint",
        )?;
        // SAFETY: it is in its final place, and drops its pump before anything else.
        unsafe { listener.pump.drive(Arc::as_ptr(&listener)) };
        let name = format_args!("listener-{}", fabric.new_fid().0);
        // SAFETY: as above, and hidden before it is closed.
        unsafe { listener.shown.file(&fabric.directory, name, Arc::as_ptr(&listener)) };
        Ok(listener)
    }

    fn with<T>(&self, call: &'static str, f: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let stale = Error::Stale { call, object: "passive endpoint" };
        f(self.state.lock().as_mut().ok_or(stale)?)
    }

    fn wildcard(&self) -> SocketAddr {
        match self.info.addr_format {
            SOCKADDR_IN6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
            _ => (Ipv4Addr::UNSPECIFIED, 0).into(),
        }
    }

    /// There may be room in the event queue again.
    pub(crate) fn kick(&self) {
        self.pump.kick();
    }

    fn bind(self: &Arc<Self>, eq: &Arc<EventQueue>, flags: u64) -> Result<()> {
        self.with("fi_pep_bind", |state| {
            state.machine.bind(Arc::ptr_eq(&eq.fabric, &self.fabric), flags)?;
            eq.add_listener(self.fid, Arc::downgrade(self))?;
            eq.with(|queue| queue.bind_passive());
            state.eq = Some(eq.clone());
            Ok(())
        })
    }

    fn listen(&self) -> Result<()> {
        const CALL: &str = "fi_listen";
        self.with(CALL, |state| {
            let failed = |errno| system(CALL, errno);
            let backlog = state.machine.listen()?;
            let socket = match state.socket.take() {
                Some(socket) => socket,
                None => Socket::bound(&self.fabric.net, &self.wildcard()).map_err(failed)?,
            };
            let socket = state.socket.insert(socket);
            socket.watch(&self.pump, LISTENER).map_err(failed)?;
            if let Err(errno) = socket.listen(backlog) {
                socket.unwatch();
                return Err(failed(errno));
            }
            state.machine.listening();
            state.acceptable = true;
            notice::tell(socket.local().ok(), None, &What::Listening(backlog));
            Ok(())
        })
    }

    /// Hands the transport of a request over, and fills its record in.
    pub(crate) fn take_request(
        &self,
        request: RequestId,
        local: SocketAddr,
        peer: SocketAddr,
        info: &mut c::Info,
    ) -> Result<Request> {
        const STALE: Error = Error::Stale { call: "fi_eq_read", object: "connection request" };
        self.with("fi_eq_read", |state| {
            let taken = state.machine.take_request(request)?;
            let place = state.connections.get_mut(request.index());
            let connection = place.and_then(Option::take).ok_or(STALE)?;
            connection.socket.unwatch();
            // Nobody has looked since its time was over.
            taken.check("fi_eq_read", now()).map_err(|_| STALE)?;
            *info = *self.info;
            (info.src_addr, info.dest_addr) = (local.into(), peer.into());
            if taken.deadline.is_some() {
                // It is to be watched over.
                self.pump.kick();
            }
            Ok(Request::new(connection.socket, local, peer, taken))
        })
    }

    fn close(&self) {
        let Some(state) = self.state.lock().take() else { return };
        let State { machine, socket, mut connections, eq, .. } = state;
        let local = socket.as_ref().and_then(|socket| socket.local().ok());
        // Nobody new comes in, then who waits is told.
        drop(socket);
        if let Some(eq) = eq {
            eq.remove_listener(self.fid);
            eq.with(|queue| queue.unbind_passive(self.fid));
        }
        for (id, asked) in machine.close() {
            let Some(connection) = connections.get_mut(id.index()).and_then(Option::take) else { continue };
            if asked {
                let Connection { socket, local, peer, .. } = connection;
                let _ = requests::reject(socket, local, peer, &[]);
            }
        }
        notice::tell(local, None, &What::ListenerClosed);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}

impl Show for Listener {
    fn next(&self, from: u64) -> Option<u64> {
        (from == 0).then_some(0)
    }

    fn show(&self, _line: u64, out: &mut dyn Write) {
        if let Some(state) = &*self.state.lock() {
            let mut statistics = state.machine.statistics();
            statistics.local = state.socket.as_ref().and_then(|socket| socket.local().ok());
            Object::new(out, "listener").number("fabric", self.fabric.id).listener(&statistics);
        }
    }
}

impl Driven for Listener {
    fn run(&self) {
        let (more, pause) = {
            let mut state = self.state.lock();
            let Some(state) = state.as_mut() else { return };
            (state.drive(self), state.pause.take())
        };
        if more {
            self.pump.kick();
        }
        if let Some((errno, pause)) = pause {
            let mut text = Text::<160>::new();
            let _ = write!(text, "no connections can be accepted ({errno}); trying again from {pause:?} on");
            sys::warn(text.as_str());
        }
    }
}

impl State {
    fn drive(&mut self, listener: &Listener) -> bool {
        let now = now();
        let Some(eq) = self.eq.clone() else { return false };
        let fid = listener.fid;
        self.machine.expire(now, |request| {
            eq.with(|queue| {
                queue.withdraw(|entry| {
                    entry.fid == fid
                        && matches!(&entry.event, Event::ConnectionRequest { request: r, .. } if *r == request)
                });
            });
        });
        let decided = {
            let mut requests = listener.fabric.requests.lock();
            requests.expire(now);
            requests.next_deadline()
        };
        while let Some((cookie, _)) = listener.pump.next() {
            match cookie {
                LISTENER => self.acceptable = true,
                index => self.receive(listener, index as usize, now),
            }
        }
        let more = self.accept(listener, &eq, now);
        while let Some((id, reason)) = self.machine.poll_drop() {
            // The place may be another connection's already.
            if let Some(place) = self.connections.get_mut(id.index())
                && let Some(connection) = place.take_if(|connection| connection.id == id)
            {
                let Connection { socket, local, peer, .. } = connection;
                notice::tell(Some(local), Some(peer), &What::Dropped(reason));
                socket.close(false);
            }
        }
        if let Some(event) = self.machine.poll_request(eq.with(|queue| queue.room())) {
            let tell = |event: &Event| {
                if let Event::ConnectionRequest { local, peer, data, .. } = event {
                    notice::tell(Some(*local), Some(*peer), &What::Requested(data.len()));
                }
            };
            eq.fill(|queue| {
                tell(&event);
                queue.push(Entry { fid, event });
                while let Some(event) = self.machine.poll_request(queue.room()) {
                    tell(&event);
                    queue.push(Entry { fid, event });
                }
            });
        }
        listener.pump.alarm(self.machine.next_deadline().into_iter().chain(decided).min());
        more
    }

    fn accept(&mut self, listener: &Listener, eq: &EventQueue, now: Instant) -> bool {
        for _ in 0..ACCEPT_BUDGET {
            if !self.acceptable || !self.machine.wants_accept(eq.with(|queue| queue.room())) {
                return false;
            }
            let Some(socket) = &self.socket else { return false };
            match socket.accept() {
                Ok((socket, local, peer)) => {
                    if self.connections.try_reserve(1).is_err() {
                        self.pause = self.machine.accept_failed(now).map(|pause| (Errno::ENOMEM, pause));
                        continue;
                    }
                    let Ok(id) = self.machine.accepted(local, peer, now) else { continue };
                    let index = id.index();
                    if self.connections.len() <= index {
                        // At most one longer: places of the machine's table are used in order.
                        self.connections.resize_with(index + 1, || None);
                    }
                    if let Some(place) = self.connections.get_mut(index) {
                        *place = Some(Connection { id, socket, local, peer, watched: false });
                    }
                    self.receive(listener, index, now);
                }
                Err(Errno::EAGAIN) => self.acceptable = false,
                Err(errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)) => {
                    self.pause = self.machine.accept_failed(now).map(|pause| (errno, pause));
                }
                // The connection is gone already; the next one may be fine.
                Err(_) => {}
            }
        }
        true
    }

    /// Reads of a connection what belongs to its request, and not a byte more.
    fn receive(&mut self, listener: &Listener, index: usize, now: Instant) {
        let mut bytes = [0; cm::MAX_LEN];
        while let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) {
            let id = connection.id;
            let wanted = self.machine.wants(id);
            if wanted == 0 {
                return;
            }
            let Some(part) = bytes.get_mut(..wanted) else { return };
            match connection.socket.read(part) {
                Ok(0) => return self.machine.lost(id),
                Ok(count) => self.machine.received(id, part.get(..count).unwrap_or_default(), now),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if connection.watched => return,
                Err(Errno::EAGAIN) => {
                    // Mostly a request comes at once, and the connection need not be watched. What may have come
                    // meanwhile is told of at once.
                    match connection.socket.watch(&listener.pump, index as u64) {
                        Ok(()) => connection.watched = true,
                        Err(_) => return self.machine.lost(id),
                    }
                }
                Err(_) => return self.machine.lost(id),
            }
        }
    }
}

/// A handle's object, to be held on to.
fn hold(call: &'static str, pep: *const Listener) -> Result<Arc<Listener>> {
    c::borrow(call, pep)?;
    // SAFETY: a handle, of an object that is not closed: there is one reference at least for as long as the call takes.
    unsafe {
        Arc::increment_strong_count(pep);
        Ok(Arc::from_raw(pep))
    }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_pep_open(
    fabric: *const Fabric,
    info: *const c::Info,
    fid: u64,
    pep: *mut *const Listener,
) -> c_int {
    const CALL: &str = "fi_passive_ep";
    error::result((|| {
        let fabric = Fabric::given(CALL, fabric)?;
        let place = c::place(CALL, pep)?;
        c::give(place, Listener::open(&fabric, c::borrow(CALL, info)?, Fid(fid))?);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_pep_bind_eq(pep: *const Listener, eq: *const EventQueue, flags: u64) -> c_int {
    const CALL: &str = "fi_pep_bind";
    error::result((|| {
        c::borrow(CALL, eq)?;
        // SAFETY: a handle, of an object that is not closed.
        let queue = unsafe {
            Arc::increment_strong_count(eq);
            Arc::from_raw(eq)
        };
        hold(CALL, pep)?.bind(&queue, flags)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_pep_setname(pep: *const Listener, addr: *const c_void, len: usize) -> c_int {
    const CALL: &str = "fi_setname";
    error::result((|| {
        let pep = c::borrow(CALL, pep)?;
        pep.with(CALL, |state| {
            state.machine.check_set_name()?;
            let addr = c::Addr::from_c(CALL, addr, len)?;
            let addr = addr.ok_or(Error::Invalid { call: CALL, problem: "no address" })?;
            // Without another one it keeps what it has, and never comes to listen anywhere else.
            let socket = Socket::bound(&pep.fabric.net, &addr);
            state.socket = Some(socket.map_err(|errno| system(CALL, errno))?);
            Ok(())
        })
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_pep_getname(pep: *const Listener, addr: *mut c_void, len: *mut usize) -> c_int {
    const CALL: &str = "fi_getname";
    error::result((|| {
        let pep = c::borrow(CALL, pep)?;
        let name = pep.with(CALL, |state| match &state.socket {
            Some(socket) => socket.local().map_err(|errno| system(CALL, errno)),
            None => Ok(pep.wildcard()),
        })?;
        c::Addr::to_c(CALL, name, addr, len)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_pep_set_backlog(pep: *const Listener, backlog: c_int) -> c_int {
    const CALL: &str = "fi_control(FI_BACKLOG)";
    error::result((|| {
        let problem = "a negative backlog";
        let backlog = usize::try_from(backlog).map_err(|_| Error::Invalid { call: CALL, problem })?;
        c::borrow(CALL, pep)?.with(CALL, |state| state.machine.set_backlog(backlog))
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_pep_listen(pep: *const Listener) -> c_int {
    error::result(c::borrow("fi_listen", pep).and_then(Listener::listen))
}

#[unsafe(no_mangle)]
extern "C" fn kofi_pep_reject(
    pep: *const Listener,
    fabric: *const Fabric,
    handle: u64,
    data: *const c_void,
    len: usize,
) -> c_int {
    const CALL: &str = "fi_reject";
    error::result((|| {
        let data = c::bytes(CALL, data, len)?;
        // SAFETY: null, or a handle.
        let fabric = match unsafe { pep.as_ref() } {
            Some(pep) => &*pep.fabric,
            None => c::borrow(CALL, fabric)?,
        };
        requests::reject_handle(&fabric.requests, handle, data)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_pep_close(pep: *const Listener) -> c_int {
    error::result((|| {
        let listener = c::borrow("fi_close", pep)?;
        listener.shown.hide();
        listener.close();
        // SAFETY: the caller's handle, which it gives up.
        unsafe { c::take_back(pep) };
        Ok(())
    })())
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The passive endpoint over TCP: a loop around [`kofi_core::PassiveEndpoint`].

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use kofi_core::event_queue::Entry;
use kofi_core::wire::cm;
use kofi_core::{
    AddrFormat, Address, Error, Event, Fid, Info, Instant, ListenerStatistics, PassiveEndpoint, Progress,
    RequestId, Result, TimeLimits,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use tracing::warn;

use super::{environment, socket};
use crate::clock::now;
use crate::connection_request::{ConnectionRequest, Pending};
use crate::event_queue::{EqShared, EventQueue, Requests};
use crate::fabric::{Child, FabricShared};
use crate::live::{self, Inspect, Report, patiently};
use crate::notice::{self, Hold, Subject, What};
use crate::progress::ProgressThread;
use crate::provider::PassiveEndpointOps;
use crate::wait::{Alarm, Source, close_dropped, lock, system};

/// Connections accepted at a time, before others get their turn.
const ACCEPT_BUDGET: usize = 64;
const EVENTS: usize = 64;
/// Marks of the listening socket and the alarm among events; others carry the index of a connection.
const LISTENER: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;

pub(super) struct TcpPassiveEndpoint(Arc<Listener>, Mutex<Option<ProgressThread>>);

struct Listener {
    fid: Fid,
    fabric: Arc<FabricShared>,
    info: Info,
    epoll: OwnedFd,
    state: Mutex<Option<State>>,
    /// A thread drives the listener.
    auto: bool,
}

struct State {
    machine: PassiveEndpoint,
    socket: Option<OwnedFd>,
    /// What connections are made to, unless that is any address of the host.
    local: Option<SocketAddr>,
    /// There may be connections to accept.
    acceptable: bool,
    connections: Vec<Option<Connection>>,
    eq: Option<Arc<EqShared>>,
    /// Accepting has paused: for a line in the log.
    pause: Option<(Errno, Duration)>,
    /// Requests that were read, and have a limit in time.
    read: Vec<Weak<Pending>>,
    alarm: Alarm,
    _child: Child,
}

/// A connection whose request is arriving or unread.
struct Connection {
    id: RequestId,
    socket: OwnedFd,
    local: SocketAddr,
    peer: SocketAddr,
    /// It is among what the epoll descriptor watches.
    watched: bool,
}

impl TcpPassiveEndpoint {
    pub(super) fn open(fabric: &Arc<FabricShared>, info: &Info) -> Result<Self> {
        const CALL: &str = "fi_passive_ep";
        let addr = match &info.src_addr {
            None => None,
            Some(addr) => Some(addr.socket_addr().ok_or(Error::Invalid {
                call: CALL,
                problem: "the info's src_addr is no socket address; tcp takes FI_SOCKADDR_IN and _IN6",
            })?),
        };
        let socket = addr.map(|addr| socket::bound(CALL, &addr)).transpose()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| system(CALL, errno))?;
        let state = State {
            machine: PassiveEndpoint::new(environment::limits()),
            socket,
            local: None,
            acceptable: false,
            connections: Vec::new(),
            eq: None,
            pause: None,
            read: Vec::new(),
            alarm: Alarm::new(CALL, &epoll, ALARM)?,
            _child: fabric.child(|children| &mut children.passive_endpoints),
        };
        let listener = Arc::new(Listener {
            fid: fabric.new_fid(),
            fabric: fabric.clone(),
            info: info.clone(),
            epoll,
            state: Mutex::new(Some(state)),
            auto: info.domain_attr.control_progress == Progress::Auto,
        });
        fabric.add_object(Arc::downgrade(&listener) as Weak<dyn Inspect>);
        Ok(Self(listener, Mutex::new(None)))
    }
}

impl Listener {
    fn with<T>(&self, call: &'static str, f: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let stale = Error::Stale { call, object: "passive endpoint" };
        let _hold = Hold::new();
        f(lock(&self.state).as_mut().ok_or(stale)?)
    }

    fn wildcard(&self) -> SocketAddr {
        match self.info.addr_format {
            AddrFormat::SockaddrIn6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
            _ => (Ipv4Addr::UNSPECIFIED, 0).into(),
        }
    }
}

impl PassiveEndpointOps for TcpPassiveEndpoint {
    fn fid(&self) -> Fid {
        self.0.fid
    }

    fn bind(&self, eq: &EventQueue, flags: u64) -> Result<()> {
        let listener = &self.0;
        let queue = eq.shared();
        listener.with("fi_pep_bind", |state| {
            state.machine.bind(Arc::ptr_eq(&queue.fabric, &listener.fabric), flags)?;
            queue.with(|queue| queue.bind_passive());
            queue.add_listener(listener.fid, Arc::downgrade(listener) as Weak<dyn Requests>);
            state.eq = Some(queue.clone());
            Ok(())
        })?;
        queue.waiter.add_source("fi_pep_bind", &(listener.clone() as Arc<dyn Source>))
    }

    fn set_name(&self, addr: &Address) -> Result<()> {
        const CALL: &str = "fi_setname";
        self.0.with(CALL, |state| {
            state.machine.check_set_name()?;
            let addr = addr.socket_addr().ok_or(Error::Invalid {
                call: CALL,
                problem: "no socket address; tcp takes FI_SOCKADDR_IN and _IN6",
            })?;
            // Without another one it keeps what it has, and never comes to listen anywhere else.
            state.socket = Some(socket::bound(CALL, &addr)?);
            Ok(())
        })
    }

    fn name(&self) -> Result<Address> {
        self.0.with("fi_getname", |state| match &state.socket {
            Some(socket) => Ok(socket::local(socket).map_err(|errno| system("fi_getname", errno))?.into()),
            None => Ok(self.0.wildcard().into()),
        })
    }

    fn set_backlog(&self, backlog: usize) -> Result<()> {
        self.0.with("fi_control(FI_BACKLOG)", |state| state.machine.set_backlog(backlog))
    }

    fn limits(&self) -> TimeLimits {
        lock(&self.0.state).as_ref().map(|state| state.machine.limits()).unwrap_or_default()
    }

    fn set_limits(&self, limits: TimeLimits) {
        if let Some(state) = lock(&self.0.state).as_mut() {
            state.machine.set_limits(limits);
        }
    }

    fn statistics(&self) -> Result<ListenerStatistics> {
        self.0.with("statistics", |state| Ok(state.statistics()))
    }

    fn listen(&self) -> Result<()> {
        let start = || ProgressThread::start("fi_listen", self.0.clone());
        let thread = self.0.auto.then(start).transpose()?;
        self.0.with("fi_listen", |state| {
            let backlog = state.machine.listen()?;
            let socket = match state.socket.take() {
                Some(socket) => socket,
                None => socket::bound("fi_listen", &self.0.wildcard())?,
            };
            let socket = state.socket.insert(socket);
            socket::start_listening(socket, backlog)?;
            epoll::add(
                &self.0.epoll,
                &*socket,
                EventData::new_u64(LISTENER),
                EventFlags::IN | EventFlags::ET,
            )
            .map_err(|errno| system("fi_listen", errno))?;
            state.local = socket::local(socket).ok().filter(|local| !local.ip().is_unspecified());
            state.machine.listening();
            let local = socket::local(socket).ok();
            notice::tell(Subject { fid: self.0.fid, local, peer: None }, What::Listening(backlog));
            Ok(())
        })?;
        *lock(&self.1) = thread;
        Ok(())
    }

    fn close(&self) {
        let thread = lock(&self.1).take();
        drop(thread);
        let Some(state) = lock(&self.0.state).take() else { return };
        let local = state.statistics().local;
        let State { machine, socket, mut connections, eq, .. } = state;
        // Nobody new comes in, then who waits is told.
        if let Some(socket) = socket {
            socket::close(socket);
        }
        if let Some(eq) = eq {
            eq.remove_listener(self.0.fid);
            eq.with(|queue| queue.unbind_passive(self.0.fid));
        }
        for (id, asked) in machine.close() {
            let Some(connection) = connections.get_mut(id.index()).and_then(Option::take) else { continue };
            if asked {
                let _ = socket::reject(connection.socket, &[]);
            }
        }
        notice::tell(Subject { fid: self.0.fid, local, peer: None }, What::ListenerClosed);
    }
}

impl Drop for TcpPassiveEndpoint {
    fn drop(&mut self) {
        close_dropped(|| self.close());
    }
}

impl Requests for Listener {
    fn take_request(&self, request: RequestId, entry: &Entry) -> Result<ConnectionRequest> {
        let _hold = Hold::new();
        let mut state = lock(&self.state);
        let stale = Error::Stale { call: "fi_eq_read", object: "connection request" };
        let state = state.as_mut().ok_or(stale.clone())?;
        let taken = state.machine.take_request(request)?;
        let connection =
            state.connections.get_mut(request.index()).and_then(Option::take).ok_or(stale.clone())?;
        if connection.watched {
            let _ = epoll::delete(&self.epoll, &connection.socket);
        }
        // Nobody has looked since its time was over.
        taken.check("fi_eq_read", now()).map_err(|_| stale.clone())?;
        let Event::ConnectionRequest { local, peer, data, .. } = &entry.event else { return Err(stale) };
        let info = Info {
            src_addr: Some(Address::from(*local)),
            dest_addr: Some(Address::from(*peer)),
            ..self.info.clone()
        };
        let addresses = (*local, *peer);
        let request = ConnectionRequest::new(
            self.fid,
            info,
            data.clone(),
            addresses,
            taken,
            connection.socket,
            socket::reject,
        );
        if taken.deadline.is_some() {
            state.read.push(Arc::downgrade(request.pending()));
        }
        if self.auto {
            // There is room for another request, and perhaps a limit in time.
            state.alarm.ring();
        }
        Ok(request)
    }
}

impl Source for Listener {
    fn drive(&self) -> bool {
        let _hold = Hold::new();
        let (more, pause) = {
            let mut state = lock(&self.state);
            let Some(state) = state.as_mut() else { return false };
            (state.drive(self), state.pause.take())
        };
        // A subscriber may call us: it finds nothing locked.
        if let Some((errno, pause)) = pause {
            warn!(%errno, ?pause, "no connections can be accepted; trying again from time to time");
        }
        more
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Inspect for Listener {
    fn inspect(&self, fabric: u64, report: &mut Report) {
        let statistics = match patiently(&self.state, live::patience()) {
            Some(state) => match &*state {
                Some(state) => Some(state.statistics()),
                None => return,
            },
            None => None,
        };
        let mut object = report.object("listener");
        object.number("fid", self.fid.0).number("fabric", fabric);
        match statistics {
            Some(statistics) => object.listener(&statistics),
            None => object.flag("busy", true),
        };
    }
}

impl State {
    fn statistics(&self) -> ListenerStatistics {
        let mut statistics = self.machine.statistics();
        statistics.local = self.socket.as_ref().and_then(|socket| socket::local(socket).ok());
        statistics
    }

    fn drive(&mut self, listener: &Listener) -> bool {
        let now = now();
        let Some(eq) = self.eq.clone() else { return false };
        self.machine.expire(now, |request| {
            eq.with(|queue| {
                queue.withdraw(|entry| {
                    entry.fid == listener.fid
                        && matches!(&entry.event, Event::ConnectionRequest { request: r, .. } if *r == request)
                });
            });
        });
        self.read.retain(|pending| match pending.upgrade() {
            Some(pending) if pending.taken.check("fi_accept", now).is_err() => {
                pending.expire();
                false
            }
            pending => pending.is_some(),
        });
        let more = self.poll(&listener.epoll, now);
        let more = self.accept(&listener.epoll, &eq, now) | more;
        while let Some((id, reason)) = self.machine.poll_drop() {
            // The place may be another connection's already.
            if let Some(place) = self.connections.get_mut(id.index())
                && let Some(connection) = place.take_if(|connection| connection.id == id)
            {
                let Connection { socket, local, peer, .. } = connection;
                let subject = Subject { fid: listener.fid, local: Some(local), peer: Some(peer) };
                notice::tell(subject, What::Dropped(reason));
                socket::close(socket);
            }
        }
        if let Some(event) = self.machine.poll_request(eq.with(|queue| queue.room())) {
            let fid = listener.fid;
            let tell = |event: &Event| {
                if let Event::ConnectionRequest { local, peer, data, .. } = event {
                    let subject = Subject { fid, local: Some(*local), peer: Some(*peer) };
                    notice::tell(subject, What::Requested(data.len()));
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
        self.alarm.set(self.deadline());
        more
    }

    /// When there will be something to do in any case.
    fn deadline(&self) -> Option<Instant> {
        let read = self.read.iter().filter_map(|pending| Some(pending.upgrade()?.taken.deadline?.at));
        self.machine.next_deadline().into_iter().chain(read).min()
    }

    /// Takes what has arrived on the connections.
    fn poll(&mut self, epoll: &OwnedFd, now: Instant) -> bool {
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let events: &[epoll::Event] = match epoll::wait(epoll, &mut events, Some(&zero)) {
            Ok((events, _)) => events,
            Err(_) => &[],
        };
        for event in events {
            match event.data.u64() {
                LISTENER => self.acceptable = true,
                ALARM => self.alarm.seen(),
                index => self.receive(epoll, index as usize, now),
            }
        }
        events.len() == EVENTS
    }

    fn accept(&mut self, epoll: &OwnedFd, eq: &EqShared, now: Instant) -> bool {
        for _ in 0..ACCEPT_BUDGET {
            if !self.acceptable || !self.machine.wants_accept(eq.with(|queue| queue.room())) {
                return false;
            }
            let Some(listener) = &self.socket else { return false };
            match socket::accept(listener, self.local) {
                Ok((socket, local, peer)) => {
                    let Ok(id) = self.machine.accepted(local, peer, now) else { continue };
                    let index = id.index();
                    if self.connections.len() <= index {
                        self.connections.resize_with(index + 1, || None);
                    }
                    if let Some(place) = self.connections.get_mut(index) {
                        *place = Some(Connection { id, socket, local, peer, watched: false });
                    }
                    self.receive(epoll, index, now);
                }
                Err(Errno::AGAIN) => self.acceptable = false,
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    self.pause = self.machine.accept_failed(now).map(|pause| (errno, pause));
                }
                // The connection is gone already; the next one may be fine.
                Err(_) => {}
            }
        }
        true
    }

    /// Reads of a connection what belongs to its request, and not a byte more.
    fn receive(&mut self, epoll: &OwnedFd, index: usize, now: Instant) {
        let mut bytes = [0; cm::MAX_LEN];
        while let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) {
            let id = connection.id;
            let wanted = self.machine.wants(id);
            if wanted == 0 {
                return;
            }
            let Some(part) = bytes.get_mut(..wanted) else { return };
            match socket::recv(&connection.socket, part) {
                Ok(0) => return self.machine.lost(id),
                Ok(count) => self.machine.received(id, part.get(..count).unwrap_or_default(), now),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if connection.watched => return,
                Err(Errno::AGAIN) => {
                    // Mostly a request comes at once, and the connection need not be watched.
                    let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
                    match epoll::add(epoll, &connection.socket, EventData::new_u64(index as u64), flags) {
                        // It may have arrived meanwhile: then the event says so.
                        Ok(()) => connection.watched = true,
                        Err(_) => return self.machine.lost(id),
                    }
                }
                Err(_) => return self.machine.lost(id),
            }
        }
    }
}

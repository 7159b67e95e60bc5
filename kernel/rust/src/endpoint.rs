// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The endpoint: calls of the application, under the domain's lock.

use alloc::sync::Arc;
use core::ffi::{c_int, c_void};
use core::net::SocketAddr;

use kofi_core::endpoint::Origin;
use kofi_core::flags::{Caps, OpFlags};
use kofi_core::message::{PostReceive, Send};
use kofi_core::offer::{INJECT_SIZE, QUEUE_SIZE};
use kofi_core::wire::header::{MAX_SEGMENTS, Segment};
use kofi_core::{Domain as Machine, EndpointAttr, EpId, Errno, Error, Fid, OpId, Result, SrxId};

use crate::c;
use crate::completion_queue::CompletionQueue;
use crate::counter::Counter;
use crate::domain::{Domain, Locked, check_type};
use crate::error::{self, system};
use crate::event_queue::{EventQueue, check_flags};
use crate::getinfo;
use crate::memory::Pieces;
use crate::notice::{self, What};
use crate::sys::lock::{LockClass, Mutex};
use crate::sys::socket::Socket;
use crate::sys::{Class, Counted, now};

/// `FI_OPT_ENDPOINT`, `FI_OPT_MIN_MULTI_RECV`, `FI_OPT_CM_DATA_SIZE`.
const OPT_ENDPOINT: c_int = 0;
const OPT_MIN_MULTI_RECV: c_int = 0;
const OPT_CM_DATA_SIZE: c_int = 1;

pub(crate) struct Endpoint {
    domain: Arc<Domain>,
    id: EpId,
    fid: Fid,
    source: Option<SocketAddr>,
    /// The request to be accepted; 0: none, it is to connect.
    handle: u64,
    /// Flags of operations that give none themselves.
    tx_flags: OpFlags,
    rx_flags: OpFlags,
    /// The queue that has room for its events.
    eq: Mutex<Option<Arc<EventQueue>>>,
    _counted: Counted,
}

impl Endpoint {
    fn open(domain: &Arc<Domain>, info: &c::Info, fid: Fid) -> Result<Arc<Self>> {
        const CALL: &str = "fi_endpoint";
        check_type(CALL, info)?;
        let attr = attr(info)?;
        let origin = match info.handle {
            0 => Origin::Active,
            handle => Origin::Request(domain.fabric.requests.lock().look(CALL, handle)?),
        };
        let eq = Mutex::new(LockClass::Leaf, None)?;
        let id = {
            let mut state = domain.lock();
            let id = state.machine.open_endpoint(fid, attr, origin)?;
            if let Err(error) = state.add_endpoint(id) {
                state.close(id);
                return Err(error);
            }
            id
        };
        // Without the lock: where there is no memory, what was put together is dropped, and that closes the endpoint.
        c::share(
            Self {
                domain: domain.clone(),
                id,
                fid,
                source: info.src_addr.get(),
                handle: info.handle,
                tx_flags: OpFlags::from_bits_retain(info.tx.op_flags),
                rx_flags: OpFlags::from_bits_retain(info.rx.op_flags),
                eq,
                _counted: Counted::new(Class::Endpoint),
            },
            "an endpoint",
        )
    }

    fn bind_eq(&self, eq: &Arc<EventQueue>, flags: u64) -> Result<()> {
        let same_fabric = Arc::ptr_eq(&eq.fabric, &self.domain.fabric);
        let mut state = self.domain.lock();
        state.bind_eq(eq)?;
        eq.with(|queue| queue.bind_endpoint())?;
        let bound = state.machine.bind_eq(self.id, eq.fid, same_fabric, OpFlags::from_bits_retain(flags));
        match bound {
            Ok(()) => *self.eq.lock() = Some(eq.clone()),
            // It may be bound already, and have events there.
            Err(_) => eq.with(|queue| queue.cancel_bind()),
        }
        bound
    }

    fn connect(&self, dest: Option<SocketAddr>, data: &[u8]) -> Result<()> {
        let mut state = self.domain.lock();
        let dest = state.machine.connect(self.id, dest, data, now())?;
        notice::tell_endpoint(&state.machine, self.id, &What::Connecting(data.len()));
        match Socket::start_connecting(&self.domain.fabric.net, self.source, &dest) {
            Ok(socket) => state.attach(self.id, socket),
            Err(errno) => state.failed_at_once(self.id, errno),
        }
        Ok(())
    }

    fn accept(&self, data: &[u8]) -> Result<()> {
        const CALL: &str = "fi_accept";
        let mut state = self.domain.lock();
        state.machine.check_accept(self.id, data, now())?;
        let requests = &self.domain.fabric.requests;
        let request = requests.lock().take(CALL, self.handle)?;
        if let Err(error) = state.machine.accept(self.id, request.local, request.peer, data, now()) {
            // It may still be rejected.
            requests.lock().put(self.handle, request);
            return Err(error);
        }
        requests.lock().release(self.handle);
        notice::tell_endpoint(&state.machine, self.id, &What::Accepting(data.len()));
        state.attach(self.id, request.socket);
        Ok(())
    }

    fn name(&self) -> Result<SocketAddr> {
        let local = self.domain.lock().machine.local(self.id)?;
        local.or(self.source).ok_or(Error::WrongState {
            call: "fi_getname",
            object: "endpoint",
            found: "without an address",
            remedy: "give one in the info's src_addr, or connect first",
            errno: Errno::EOPBADSTATE,
        })
    }

    /// Posts an operation on the transmit side.
    fn post(
        &self,
        call: &'static str,
        op: &c::Op,
        known: OpFlags,
        quiet: bool,
        post: impl FnOnce(&mut Machine, EpId, &Send) -> Result<OpId>,
    ) -> Result<()> {
        let flags = flags(op, self.tx_flags, known);
        let mut pieces = Pieces::default();
        let mut state = self.domain.lock();
        state.take_spare(&mut pieces);
        let result = (|| {
            let len = pieces.set(call, &op.memory)?;
            let send = Send {
                len,
                segments: op.memory.count as usize,
                data: flags.contains(OpFlags::REMOTE_CQ_DATA).then_some(op.data),
                flags,
                context: op.context,
                quiet,
            };
            state.reserve_memory()?;
            if flags.contains(OpFlags::INJECT) && len <= INJECT_SIZE as u64 {
                pieces.inject()?;
            }
            let id = post(&mut state.machine, self.id, &send)?;
            state.posted(id);
            state.remember(id, &mut pieces);
            Ok(())
        })();
        state.give_spare(pieces);
        if result.is_ok() {
            state.flush(self.id);
            state.settle_endpoint(self.id);
        }
        result
    }

    fn recv(&self, op: &c::Op) -> Result<()> {
        let mut state = self.domain.lock();
        let waiting = state.machine.plan_read(self.id).is_none() || state.machine.has_unreceived(self.id);
        state.post_receive(op, self.rx_flags, |machine, post| machine.post_receive(self.id, post))?;
        if waiting {
            state.service(self.id);
        }
        Ok(())
    }

    pub(crate) fn bind_srx(&self, domain: &Arc<Domain>, srx: SrxId, flags: u64) -> Result<()> {
        if !Arc::ptr_eq(domain, &self.domain) {
            let problem = "the shared receive context belongs to another domain; open one in the endpoint's";
            return Err(Error::Invalid { call: "fi_ep_bind", problem });
        }
        self.domain.lock().machine.bind_srx(self.id, srx, OpFlags::from_bits_retain(flags))
    }

    fn close(&self) {
        self.domain.close_endpoint(self.id);
        let eq = self.eq.lock().take();
        if let Some(eq) = eq {
            eq.with(|queue| queue.unbind_endpoint(self.fid));
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.close();
    }
}

impl Locked<'_> {
    /// A list whose memory was used before.
    fn take_spare(&mut self, pieces: &mut Pieces) {
        core::mem::swap(&mut self.state.spare, pieces);
    }

    fn give_spare(&mut self, mut pieces: Pieces) {
        pieces.clear();
        self.state.spare = pieces;
    }

    /// Posts a receive, for one endpoint or for those of a context.
    pub(crate) fn post_receive(
        &mut self,
        op: &c::Op,
        defaults: OpFlags,
        post: impl FnOnce(&mut Machine, &PostReceive) -> Result<OpId>,
    ) -> Result<()> {
        let flags = flags(op, defaults, OpFlags::COMPLETION | OpFlags::MULTI_RECV);
        let mut pieces = Pieces::default();
        self.take_spare(&mut pieces);
        let result = (|| {
            let len = pieces.set("fi_recvmsg", &op.memory)?;
            let receive = PostReceive { len, segments: op.memory.count as usize, flags, context: op.context };
            self.reserve_memory()?;
            let id = post(&mut self.machine, &receive)?;
            self.posted(id);
            self.remember(id, &mut pieces);
            Ok(())
        })();
        self.give_spare(pieces);
        result
    }
}

/// The flags of an operation: its own, and of the endpoint's those that its kind knows, where it asks for them.
fn flags(op: &c::Op, defaults: OpFlags, known: OpFlags) -> OpFlags {
    let own = OpFlags::from_bits_retain(op.flags);
    if op.default_flags != 0 { own | (defaults & known) } else { own }
}

/// What the machine is to know of the info, which the application may have changed within what we have.
fn attr(info: &c::Info) -> Result<EndpointAttr> {
    const CALL: &str = "fi_endpoint";
    let invalid = |problem| Err(Error::Invalid { call: CALL, problem });
    // An info that was put together by hand has zeros for "any".
    let or = |value: u64, default: usize| match value {
        0 => default,
        value => usize::try_from(value).unwrap_or(usize::MAX),
    };
    let attr = EndpointAttr {
        caps: Caps::from_bits_retain(info.caps),
        tx_size: or(info.tx.size, QUEUE_SIZE.0),
        rx_size: or(info.rx.size, QUEUE_SIZE.0),
        inject_size: usize::try_from(info.tx.inject_size).unwrap_or(usize::MAX),
        tx_iov_limit: or(info.tx.iov_limit, c::IOV_LIMIT),
        rx_iov_limit: or(info.rx.iov_limit, c::IOV_LIMIT),
        rma_iov_limit: or(info.tx.rma_iov_limit, MAX_SEGMENTS),
        total_buffered_recv: info.rx.total_buffered_recv,
        max_msg_size: or(info.ep.max_msg_size, getinfo::MAX_MSG_SIZE) as u64,
        dest_addr: info.dest_addr.get(),
    };
    let most = QUEUE_SIZE.1;
    if attr.tx_iov_limit.max(attr.rx_iov_limit) > c::IOV_LIMIT {
        return invalid(
            "the info's iov_limit is over 256, which is what the kernel has; split the operations",
        );
    }
    if attr.tx_size.max(attr.rx_size) > most || attr.inject_size > INJECT_SIZE {
        return invalid("the info's size or inject_size is over what getinfo gives");
    }
    Ok(attr)
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_open(
    domain: *const Domain,
    info: *const c::Info,
    fid: u64,
    ep: *mut *const Endpoint,
) -> c_int {
    const CALL: &str = "fi_endpoint";
    error::result((|| {
        let domain = Domain::given(CALL, domain)?;
        let place = c::place(CALL, ep)?;
        c::give(place, Endpoint::open(&domain, c::borrow(CALL, info)?, Fid(fid))?);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_bind_eq(ep: *const Endpoint, eq: *const EventQueue, flags: u64) -> c_int {
    const CALL: &str = "fi_ep_bind";
    error::result((|| {
        c::borrow(CALL, eq)?;
        // SAFETY: a handle, of an object that is not closed.
        let queue = unsafe {
            Arc::increment_strong_count(eq);
            Arc::from_raw(eq)
        };
        c::borrow(CALL, ep)?.bind_eq(&queue, flags)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_bind_cq(ep: *const Endpoint, cq: *const CompletionQueue, flags: u64) -> c_int {
    const CALL: &str = "fi_ep_bind";
    error::result((|| {
        let ep = c::borrow(CALL, ep)?;
        let queue = CompletionQueue::given(CALL, cq)?;
        if !queue.belongs_to(&ep.domain) {
            let problem = "the completion queue belongs to another domain; open one in the endpoint's";
            return Err(Error::Invalid { call: CALL, problem });
        }
        let mut state = ep.domain.lock();
        state.machine.bind_cq(ep.id, queue.id(), OpFlags::from_bits_retain(flags))?;
        state.bind_cq(ep.id, &queue);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_bind_cntr(ep: *const Endpoint, cntr: *const Counter, flags: u64) -> c_int {
    const CALL: &str = "fi_ep_bind";
    error::result((|| {
        let ep = c::borrow(CALL, ep)?;
        c::borrow(CALL, cntr)?;
        // SAFETY: a handle, of an object that is not closed.
        let counter = unsafe {
            Arc::increment_strong_count(cntr);
            Arc::from_raw(cntr)
        };
        if !counter.belongs_to(&ep.domain) {
            let problem = "the counter belongs to another domain; open one in the endpoint's";
            return Err(Error::Invalid { call: CALL, problem });
        }
        let mut state = ep.domain.lock();
        state.machine.bind_cntr(ep.id, counter.id(), OpFlags::from_bits_retain(flags))?;
        state.bind_cntr(ep.id, &counter);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_enable(ep: *const Endpoint) -> c_int {
    error::result((|| {
        let ep = c::borrow("fi_enable", ep)?;
        ep.domain.lock().machine.enable(ep.id)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_connect(
    ep: *const Endpoint,
    addr: *const c_void,
    addrlen: usize,
    data: *const c_void,
    len: usize,
) -> c_int {
    const CALL: &str = "fi_connect";
    error::result((|| {
        let ep = c::borrow(CALL, ep)?;
        ep.connect(c::Addr::from_c(CALL, addr, addrlen)?, c::bytes(CALL, data, len)?)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_accept(ep: *const Endpoint, data: *const c_void, len: usize) -> c_int {
    const CALL: &str = "fi_accept";
    error::result((|| c::borrow(CALL, ep)?.accept(c::bytes(CALL, data, len)?))())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_shutdown(ep: *const Endpoint, flags: u64) -> c_int {
    error::result((|| {
        let ep = c::borrow("fi_shutdown", ep)?;
        let mut state = ep.domain.lock();
        state.machine.shutdown(ep.id, flags, now())?;
        state.service(ep.id);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_getname(ep: *const Endpoint, addr: *mut c_void, len: *mut usize) -> c_int {
    const CALL: &str = "fi_getname";
    error::result((|| c::Addr::to_c(CALL, c::borrow(CALL, ep)?.name()?, addr, len))())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_getpeer(ep: *const Endpoint, addr: *mut c_void, len: *mut usize) -> c_int {
    const CALL: &str = "fi_getpeer";
    error::result((|| {
        let ep = c::borrow(CALL, ep)?;
        let peer = ep.domain.lock().machine.peer(ep.id)?;
        c::Addr::to_c(CALL, peer, addr, len)
    })())
}

/// `fi_getopt`, of endpoints and of shared receive contexts; `min` gives FI_OPT_MIN_MULTI_RECV.
pub(crate) fn get_option(
    level: c_int,
    optname: c_int,
    value: *mut c_void,
    len: *mut usize,
    min: impl FnOnce() -> Result<u64>,
) -> Result<()> {
    const CALL: &str = "fi_getopt";
    let len = c::place(CALL, len)?;
    let found = match (level, optname) {
        (OPT_ENDPOINT, OPT_CM_DATA_SIZE) => kofi_core::wire::cm::MAX_DATA as u64,
        (OPT_ENDPOINT, OPT_MIN_MULTI_RECV) => min()?,
        _ => return Err(system(CALL, Errno::ENOPROTOOPT)),
    };
    // A size_t, which is a u64 here.
    let have = core::mem::replace(len, size_of::<u64>());
    if have < size_of::<u64>() {
        return Err(Error::TooSmall { call: CALL, have, need: size_of::<u64>() });
    }
    c::room(CALL, value, size_of::<u64>())?.copy_from_slice(&found.to_ne_bytes());
    Ok(())
}

/// The same for `fi_setopt`.
pub(crate) fn set_option(
    level: c_int,
    optname: c_int,
    value: *const c_void,
    len: usize,
    set: impl FnOnce(u64) -> Result<()>,
) -> Result<()> {
    const CALL: &str = "fi_setopt";
    if (level, optname) != (OPT_ENDPOINT, OPT_MIN_MULTI_RECV) {
        return Err(system(CALL, Errno::ENOPROTOOPT));
    }
    let problem = "not the length of a size_t";
    let value = c::bytes(CALL, value, len)?;
    let value = value.try_into().map_err(|_| Error::Invalid { call: CALL, problem })?;
    set(u64::from_ne_bytes(value))
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_getopt(
    ep: *const Endpoint,
    level: c_int,
    optname: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    error::result((|| {
        let ep = c::borrow("fi_getopt", ep)?;
        let min = || ep.domain.lock().machine.min_multi_recv(ep.id);
        get_option(level, optname, value, len, min)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_setopt(
    ep: *const Endpoint,
    level: c_int,
    optname: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    error::result((|| {
        let ep = c::borrow("fi_setopt", ep)?;
        set_option(level, optname, value, len, |min| ep.domain.lock().machine.set_min_multi_recv(ep.id, min))
    })())
}

/// Completion levels, and that a completion is wanted.
const LEVELS: OpFlags = OpFlags::COMPLETION
    .union(OpFlags::INJECT_COMPLETE)
    .union(OpFlags::TRANSMIT_COMPLETE)
    .union(OpFlags::DELIVERY_COMPLETE)
    .union(OpFlags::MATCH_COMPLETE);

#[unsafe(no_mangle)]
extern "C" fn kofi_send(ep: *const Endpoint, op: *const c::Op) -> c_int {
    const CALL: &str = "fi_sendmsg";
    error::result((|| {
        let (ep, op) = (c::borrow(CALL, ep)?, c::borrow(CALL, op)?);
        ep.post(CALL, op, LEVELS | OpFlags::INJECT, false, Machine::post_send)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_recv(ep: *const Endpoint, op: *const c::Op) -> c_int {
    const CALL: &str = "fi_recvmsg";
    error::result((|| c::borrow(CALL, ep)?.recv(c::borrow(CALL, op)?))())
}

/// Remote segments of the caller's; as many as fit, and one more if there are too many.
fn remote(call: &'static str, op: &c::Op) -> Result<([Segment; MAX_SEGMENTS + 1], usize)> {
    let mut segments = [const { Segment { addr: 0, len: 0, key: 0 } }; MAX_SEGMENTS + 1];
    let count = op.remote_count as usize;
    if count > 0 && op.remote.is_null() {
        return Err(Error::Invalid { call, problem: "a null pointer with a count" });
    }
    let count = count.min(segments.len());
    for (index, place) in segments.iter_mut().enumerate().take(count) {
        // SAFETY: the caller says that there are so many.
        let c::RmaIov { addr, len, key } = unsafe { op.remote.add(index).read() };
        *place = Segment { addr, len, key };
    }
    Ok((segments, count))
}

#[unsafe(no_mangle)]
extern "C" fn kofi_read(ep: *const Endpoint, op: *const c::Op) -> c_int {
    const CALL: &str = "fi_readmsg";
    error::result((|| {
        let (ep, op) = (c::borrow(CALL, ep)?, c::borrow(CALL, op)?);
        let (segments, count) = remote(CALL, op)?;
        let segments = segments.get(..count).unwrap_or_default();
        ep.post(CALL, op, OpFlags::COMPLETION, false, |machine, ep, read| {
            machine.post_read(ep, read, segments)
        })
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_write(ep: *const Endpoint, op: *const c::Op) -> c_int {
    const CALL: &str = "fi_writemsg";
    error::result((|| {
        let (ep, op) = (c::borrow(CALL, ep)?, c::borrow(CALL, op)?);
        let (segments, count) = remote(CALL, op)?;
        let segments = segments.get(..count).unwrap_or_default();
        let known = LEVELS | OpFlags::INJECT | OpFlags::COMMIT_COMPLETE;
        ep.post(CALL, op, known, false, |machine, ep, write| machine.post_write(ep, write, segments))
    })())
}

/// An operation that injects these bytes, whose list `piece` is.
fn injected(call: &'static str, piece: &crate::sys::raw::Piece, data: u64, flags: u64) -> Result<c::Op> {
    let flags = check_flags(call, flags, OpFlags::REMOTE_CQ_DATA)? | OpFlags::INJECT;
    let memory = c::Memory { kind: c::KVEC, count: 1, segments: core::ptr::from_ref(piece).cast() };
    let (context, remote) = (0, core::ptr::null());
    Ok(c::Op { memory, context, flags: flags.bits(), data, remote, remote_count: 0, default_flags: 0 })
}

#[unsafe(no_mangle)]
extern "C" fn kofi_inject(
    ep: *const Endpoint,
    buffer: *const c_void,
    len: usize,
    data: u64,
    flags: u64,
) -> c_int {
    const CALL: &str = "fi_inject";
    error::result((|| {
        let piece = crate::sys::raw::Piece { base: buffer.addr(), len };
        let op = injected(CALL, &piece, data, flags)?;
        c::borrow(CALL, ep)?.post(CALL, &op, OpFlags::empty(), true, Machine::post_send)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_inject_write(
    ep: *const Endpoint,
    buffer: *const c_void,
    len: usize,
    data: u64,
    flags: u64,
    addr: u64,
    key: u64,
) -> c_int {
    const CALL: &str = "fi_inject_write";
    error::result((|| {
        let piece = crate::sys::raw::Piece { base: buffer.addr(), len };
        let op = injected(CALL, &piece, data, flags)?;
        let remote = [Segment { addr, len: len as u64, key }];
        let post = |machine: &mut Machine, ep, write: &Send| machine.post_write(ep, write, &remote);
        c::borrow(CALL, ep)?.post(CALL, &op, OpFlags::empty(), true, post)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_cancel(ep: *const Endpoint, context: u64) -> c_int {
    error::result((|| {
        let ep = c::borrow("fi_cancel", ep)?;
        let mut state = ep.domain.lock();
        state.machine.cancel(ep.id, context)?;
        // A shutdown may have waited for it.
        state.service(ep.id);
        Ok(())
    })())
}

#[unsafe(no_mangle)]
extern "C" fn kofi_ep_close(ep: *const Endpoint) -> c_int {
    error::result((|| {
        c::borrow("fi_close", ep)?.close();
        // SAFETY: the caller's handle, which it gives up.
        unsafe { c::take_back(ep) };
        Ok(())
    })())
}

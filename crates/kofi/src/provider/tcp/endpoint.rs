// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The endpoint over TCP: calls of the application, under the domain's lock.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kofi_core::message::{PostReceive, Send};
use kofi_core::wire::header::Segment;
use kofi_core::{
    Address, Domain, EndpointStatistics, EpId, Errno, Error, Fid, Info, OpFlags, OpId, Result, TimeLimits,
};

use super::completion_queue::TcpCompletionQueue;
use super::counter::TcpCounter;
use super::domain::{Progress, Shared, State};
use super::shared_receive::TcpSharedReceive;
use super::socket;
use crate::buffer::Buffers;
use crate::buffer_scope::Loans;
use crate::clock::now;
use crate::connection_request::Pending;
use crate::event_queue::{EqShared, EventQueue};
use crate::notice::What;
use crate::provider::{
    CompletionQueueOps, CounterOps, EndpointOps, Message, Receive, Refused, SharedReceiveOps,
};
use crate::wait::{Source, close_dropped, lock};

pub(super) struct TcpEndpoint {
    domain: Arc<Shared>,
    _progress: Progress,
    id: EpId,
    fid: Fid,
    source: Option<SocketAddr>,
    /// The request to be accepted, until it is: its listener watches over it no longer then.
    pending: Mutex<Option<Arc<Pending>>>,
    bound: Mutex<Bound>,
}

/// What the endpoint keeps alive until it closes.
#[derive(Default)]
struct Bound {
    eq: Option<Arc<EqShared>>,
    cqs: Vec<Arc<dyn CompletionQueueOps>>,
    cntrs: Vec<Arc<dyn CounterOps>>,
    srx: Option<Arc<dyn SharedReceiveOps>>,
}

impl TcpEndpoint {
    pub(super) fn new(
        domain: Arc<Shared>,
        progress: Progress,
        id: EpId,
        fid: Fid,
        info: &Info,
        pending: Option<Arc<Pending>>,
    ) -> Self {
        let source = info.src_addr.as_ref().and_then(|addr| addr.socket_addr());
        Self {
            domain,
            _progress: progress,
            id,
            fid,
            source,
            pending: Mutex::new(pending),
            bound: Mutex::default(),
        }
    }
}

impl EndpointOps for TcpEndpoint {
    fn fid(&self) -> Fid {
        self.fid
    }

    fn bind_eq(&self, eq: &EventQueue, flags: OpFlags) -> Result<()> {
        let queue = eq.shared();
        let same_fabric = Arc::ptr_eq(&queue.fabric, &self.domain.fabric);
        {
            let mut state = self.domain.lock();
            queue.with(|queue| queue.bind_endpoint())?;
            if let Err(error) = state.machine.bind_eq(self.id, queue.fid(), same_fabric, flags) {
                // It may be bound to this queue already, and have events there.
                queue.with(|queue| queue.cancel_bind());
                return Err(error);
            }
            state.bind_eq(queue);
        }
        lock(&self.bound).eq = Some(queue.clone());
        queue.waiter.add_source("fi_ep_bind", &(self.domain.clone() as Arc<dyn Source>))
    }

    fn bind_cq(&self, cq: &Arc<dyn CompletionQueueOps>, flags: OpFlags) -> Result<()> {
        let queue = cq.as_any().downcast_ref::<TcpCompletionQueue>();
        let queue = queue.filter(|queue| queue.belongs_to(&self.domain)).ok_or(Error::Invalid {
            call: "fi_ep_bind",
            problem: "the completion queue belongs to another domain; open one in the endpoint's",
        })?;
        let mut state = self.domain.lock();
        state.machine.bind_cq(self.id, queue.shared().id(), flags)?;
        state.bind_cq(self.id, queue.shared());
        drop(state);
        lock(&self.bound).cqs.push(cq.clone());
        Ok(())
    }

    fn bind_cntr(&self, cntr: &Arc<dyn CounterOps>, flags: OpFlags) -> Result<()> {
        let counter = cntr.as_any().downcast_ref::<TcpCounter>().map(TcpCounter::shared);
        let counter = counter.filter(|counter| counter.belongs_to(&self.domain)).ok_or(Error::Invalid {
            call: "fi_ep_bind",
            problem: "the counter belongs to another domain; open one in the endpoint's",
        })?;
        let mut state = self.domain.lock();
        state.machine.bind_cntr(self.id, counter.id(), flags)?;
        state.bind_cntr(self.id, counter);
        drop(state);
        lock(&self.bound).cntrs.push(cntr.clone());
        Ok(())
    }

    fn bind_srx(&self, srx: &Arc<dyn SharedReceiveOps>, flags: OpFlags) -> Result<()> {
        let shared = srx.as_any().downcast_ref::<TcpSharedReceive>();
        let shared = shared.filter(|shared| shared.belongs_to(&self.domain)).ok_or(Error::Invalid {
            call: "fi_ep_bind",
            problem: "the shared receive context belongs to another domain; open one in the endpoint's",
        })?;
        self.domain.lock().machine.bind_srx(self.id, shared.id(), flags)?;
        lock(&self.bound).srx = Some(srx.clone());
        Ok(())
    }

    fn min_multi_recv(&self) -> Result<u64> {
        self.domain.lock().machine.min_multi_recv(self.id)
    }

    fn set_min_multi_recv(&self, min: u64) -> Result<()> {
        self.domain.lock().machine.set_min_multi_recv(self.id, min)
    }

    fn enable(&self) -> Result<()> {
        self.domain.lock().machine.enable(self.id)
    }

    fn connect(&self, dest: Option<&Address>, data: &[u8]) -> Result<()> {
        let dest = match dest {
            None => None,
            Some(addr) => Some(addr.socket_addr().ok_or(Error::Invalid {
                call: "fi_connect",
                problem: "no socket address; tcp takes FI_SOCKADDR_IN and _IN6",
            })?),
        };
        let mut state = self.domain.lock();
        let dest = state.machine.connect(self.id, dest, data, now())?;
        state.notice(self.id, What::Connecting(data.len()));
        state.attach(self.id, socket::start_connecting(self.source, &dest));
        Ok(())
    }

    fn accept(&self, data: &[u8]) -> Result<()> {
        let mut state = self.domain.lock();
        state.machine.check_accept(self.id, data, now())?;
        let Some(pending) = lock(&self.pending).clone() else {
            return Err(Error::Stale { call: "fi_accept", object: "connection request" });
        };
        let socket = pending.take("fi_accept")?;
        if let Err(error) = state.machine.accept(self.id, pending.local, pending.peer, data, now()) {
            pending.put_back(socket);
            return Err(error);
        }
        *lock(&self.pending) = None;
        state.notice(self.id, What::Accepting(data.len()));
        state.attach(self.id, Ok(socket));
        Ok(())
    }

    fn shutdown(&self, flags: u64) -> Result<()> {
        let mut state = self.domain.lock();
        state.machine.shutdown(self.id, flags, now())?;
        state.service(self.id);
        Ok(())
    }

    fn state(&self) -> Result<kofi_core::State> {
        self.domain.lock().machine.state(self.id)
    }

    fn name(&self) -> Result<Address> {
        let local = self.domain.lock().machine.local(self.id)?;
        local.or(self.source).map(Address::from).ok_or(Error::WrongState {
            call: "fi_getname",
            object: "endpoint",
            found: "without an address",
            remedy: "give one in the info's src_addr, or connect first",
            errno: Errno::EOPBADSTATE,
        })
    }

    fn peer(&self) -> Result<Address> {
        self.domain.lock().machine.peer(self.id).map(Address::from)
    }

    fn limits(&self) -> Result<TimeLimits> {
        self.domain.lock().machine.limits(self.id)
    }

    fn set_limits(&self, limits: TimeLimits) -> Result<()> {
        self.domain.lock().set_limits(self.id, limits)
    }

    fn statistics(&self) -> Result<EndpointStatistics> {
        self.domain.lock().statistics(self.id)
    }

    fn send(&self, message: Message) -> Result<(), Refused> {
        self.post(message, Domain::post_send)
    }

    fn inject(&self, bytes: &[u8], data: Option<u64>) -> Result<()> {
        let send = injection(bytes, data);
        let mut state = self.domain.lock();
        let written = match state.inject(self.id, &send, bytes) {
            Ok((_, true)) => {
                state.notify(self.id);
                return Ok(());
            }
            Ok((count, false)) => count,
            Err(error) => {
                state.flush(self.id);
                return Err(error);
            }
        };
        let op = match state.machine.post_send(self.id, &send) {
            Ok(op) => op,
            Err(error) if written == 0 => return Err(error),
            Err(error) => {
                // A part is sent, and there is no memory to know of the rest.
                state.machine.out_of_memory(self.id);
                state.settle_endpoint(self.id);
                return Err(error);
            }
        };
        let buffers = state.spare(bytes);
        if written > 0 {
            // The rest follows behind that.
            state.machine.sent(self.id, written);
        }
        self.posted(&mut state, op, buffers, &send);
        Ok(())
    }

    fn recv(&self, receive: Receive) -> Result<(), Refused> {
        self.receive(receive, Domain::post_receive)
    }

    fn recv_late(&self, receive: Receive) -> Result<(), Refused> {
        self.receive(receive, Domain::post_late_receive)
    }

    fn write(&self, message: Message, remote: &[Segment]) -> Result<(), Refused> {
        self.post(message, |machine, ep, write| machine.post_write(ep, write, remote))
    }

    fn inject_write(&self, bytes: &[u8], data: Option<u64>, remote: Segment) -> Result<()> {
        self.post_copy(bytes, data, |machine, ep, write| machine.post_write(ep, write, &[remote]))
    }

    fn read(&self, receive: Receive, remote: &[Segment]) -> Result<(), Refused> {
        let Receive { mut buffers, flags, context } = receive;
        if !buffers.are_writable() {
            let problem = "shared or static memory cannot be read into; give a vector";
            return Err(Refused { error: Error::Invalid { call: "fi_readmsg", problem }, buffers });
        }
        let message = Message { buffers, data: None, flags, context };
        self.post(message, |machine, ep, read| machine.post_read(ep, read, remote))
    }

    fn cancel(&self, context: u64) -> Result<()> {
        let mut state = self.domain.lock();
        state.machine.cancel(self.id, context)?;
        // A shutdown may have waited for it.
        state.service(self.id);
        Ok(())
    }

    fn end_loans(&self, loans: &Loans) {
        /// Other threads may do what is waited for, of which the descriptor does not tell.
        const LOOK_AGAIN: Duration = Duration::from_millis(10);
        let limit = self.limits().map_or(Some(Duration::ZERO), |limits| limits.shutdown);
        let end = limit.map(|limit| now().after(limit));
        while {
            let more = self.domain.drive();
            let needed = self.domain.lock().end_loans(self.id, loans);
            if needed && end.is_some_and(|end| end <= now()) {
                self.close();
            }
            if needed && !more {
                self.domain.wait(end.map_or(LOOK_AGAIN, |end| end.until(now()).min(LOOK_AGAIN)));
            }
            needed
        } {}
    }

    fn close(&self) {
        self.domain.lock().close(self.id);
        let bound = std::mem::take(&mut *lock(&self.bound));
        if let Some(eq) = bound.eq {
            eq.with(|queue| queue.unbind_endpoint(self.fid));
        }
    }
}

impl TcpEndpoint {
    fn receive(
        &self,
        receive: Receive,
        post: impl FnOnce(&mut Domain, EpId, &PostReceive) -> Result<OpId>,
    ) -> Result<(), Refused> {
        let (receive, buffers) = to_post(receive)?;
        let mut state = self.domain.lock();
        let waiting = state.machine.plan_read(self.id).is_none() || state.machine.has_unreceived(self.id);
        match post(&mut state.machine, self.id, &receive) {
            Err(error) => Err(Refused { error, buffers }),
            Ok(op) => {
                state.remember(op, buffers);
                if waiting {
                    state.receive_posted(self.id);
                }
                Ok(())
            }
        }
    }

    fn post(
        &self,
        message: Message,
        post: impl FnOnce(&mut Domain, EpId, &Send) -> Result<OpId>,
    ) -> Result<(), Refused> {
        let Message { buffers, data, flags, context } = message;
        let send = Send {
            len: buffers.total_len() as u64,
            segments: buffers.count(),
            data,
            flags,
            context,
            quiet: false,
        };
        let mut state = self.domain.lock();
        match post(&mut state.machine, self.id, &send) {
            Err(error) => {
                // fi_msg(3): "all previously delayed calls be flushed when an error is returned".
                state.flush(self.id);
                Err(Refused { error, buffers })
            }
            Ok(op) => {
                self.posted(&mut state, op, buffers, &send);
                Ok(())
            }
        }
    }

    /// Posts a copy of the bytes.
    fn post_copy(
        &self,
        bytes: &[u8],
        data: Option<u64>,
        post: impl FnOnce(&mut Domain, EpId, &Send) -> Result<OpId>,
    ) -> Result<()> {
        let send = injection(bytes, data);
        let mut state = self.domain.lock();
        match post(&mut state.machine, self.id, &send) {
            Err(error) => {
                state.flush(self.id);
                Err(error)
            }
            Ok(op) => {
                let buffers = state.spare(bytes);
                self.posted(&mut state, op, buffers, &send);
                Ok(())
            }
        }
    }

    fn posted(&self, state: &mut State, op: OpId, buffers: Buffers, send: &Send) {
        state.remember(op, buffers);
        state.flush_or_defer(self.id, send.len, send.flags.contains(OpFlags::MORE));
        state.settle_endpoint(self.id);
    }
}

/// A message of which a copy is sent, and no success reported.
fn injection(bytes: &[u8], data: Option<u64>) -> Send {
    let len = bytes.len() as u64;
    Send { len, segments: 1, data, flags: OpFlags::INJECT, context: 0, quiet: true }
}

/// A receive to be posted, and its memory.
pub(super) fn to_post(receive: Receive) -> Result<(PostReceive, Buffers), Refused> {
    let Receive { mut buffers, flags, context } = receive;
    if !buffers.are_writable() {
        let problem = "shared or static memory cannot be received into; give a vector";
        return Err(Refused { error: Error::Invalid { call: "fi_recvmsg", problem }, buffers });
    }
    if flags.contains(OpFlags::MULTI_RECV) {
        buffers.make_divisible();
    }
    let (len, segments) = (buffers.total_len() as u64, buffers.count());
    Ok((PostReceive { len, segments, flags, context }, buffers))
}

impl Drop for TcpEndpoint {
    fn drop(&mut self) {
        close_dropped(|| self.close());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Event, EventQueue, Fabric, Hints, Info, TimeLimits};

    const PATIENCE: Duration = Duration::from_secs(20);

    fn open(hints: Hints) -> (Info, Fabric, EventQueue) {
        let info = crate::getinfo(hints.provider("tcp")).unwrap().remove(0);
        let fabric = Fabric::open(&info).unwrap();
        let eq = fabric.event_queue(Default::default()).unwrap();
        (info, fabric, eq)
    }

    /// A listener looks at every request that is still there each time it is driven: an endpoint may not
    /// keep the one that it has accepted.
    #[test]
    fn an_accepted_request_is_forgotten() {
        let (info, fabric, eq) = open(Hints::new().source(([127, 0, 0, 1], 0)));
        // Only with a limit in time the listener has anything to watch over.
        let limits = TimeLimits { decision: Some(PATIENCE), ..TimeLimits::default() };
        let listener =
            fabric.passive_endpoint(&info).unwrap().bind(&eq).unwrap().limits(limits).listen().unwrap();
        let (client_info, client_fabric, client_eq) = open(Hints::new().dest(listener.name().unwrap()));
        let client = client_fabric.domain(&client_info).unwrap();
        let client_cq = client.completion_queue(Default::default()).unwrap();
        let client = client.endpoint(&client_info, &client_eq, &client_cq).unwrap().connect(b"").unwrap();
        let Event::ConnectionRequest(request) = eq.wait(PATIENCE).unwrap() else { panic!() };
        let pending = Arc::downgrade(request.pending());
        let domain = fabric.domain(&info).unwrap();
        let cq = domain.completion_queue(Default::default()).unwrap();
        let endpoint = domain.endpoint_for(&request, &eq, &cq).unwrap();
        drop(request);
        assert!(pending.upgrade().is_some(), "the endpoint is to accept it");
        let endpoint = endpoint.accept(b"").unwrap();
        assert!(pending.upgrade().is_none(), "it is accepted, and kept nevertheless");
        let Event::Connected { .. } = client_eq.wait(PATIENCE).unwrap() else { panic!() };
        drop((endpoint, client));
    }
}

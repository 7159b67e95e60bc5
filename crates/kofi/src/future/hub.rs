// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The domain of futures: an event queue and a completion queue that nobody else reads, and the
//! distribution of what comes out of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};

use kofi_core::wire::header::Segment as RmaIov;
use kofi_core::{CompletionError, Errno, Error, Fid, Hints, Info, OpFlags, Reason, Result};

use super::runtime::{Readiness, Runtime};
use super::turn::{Leaves, Turns};
use super::{Failed, Received, keep_waker, runtime, runtime_error};
use crate::buffer::Buffers;
use crate::completion_queue::{Completion, CompletionQueue};
use crate::domain::Domain;
use crate::event_queue::{Event, EventQueue};
use crate::fabric::Fabric;
use crate::notice::Hold;
use crate::provider::{EndpointOps, Message, Receive, Refused};
use crate::wait::{Bell, lock};
use crate::wait_set::WaitSet;
use smallvec::SmallVec;

/// What futures on endpoints run in: a domain with its queues.
///
/// [`AsyncListener::bind`](super::AsyncListener::bind) and
/// [`AsyncEndpoint::connect`](super::AsyncEndpoint::connect) open their own. Endpoints that share
/// one, by [`connect`](Self::connect) or
/// [`accept_in`](super::AsyncRequest::accept_in), share descriptors and a lock.
#[derive(Clone)]
pub struct AsyncDomain(pub(super) Arc<Hub>);

impl AsyncDomain {
    /// Opens a fabric, a domain, an event queue and a completion queue for `info`. The runtime is
    /// that of the first future that is polled.
    ///
    /// # Errors
    /// -FI_EMFILE when there are no descriptors left, -FI_ENOMEM.
    pub fn open(info: &Info) -> Result<Self> {
        Hub::open(info, None).map(Self)
    }

    /// The same, on this runtime.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_on(info: &Info, runtime: impl Runtime) -> Result<Self> {
        Hub::open(info, Some(Box::new(runtime))).map(Self)
    }

    /// The domain itself, to register memory in.
    pub fn domain(&self) -> &Domain {
        &self.0.domain
    }

    /// What it was opened with.
    pub fn info(&self) -> &Info {
        &self.0.info
    }

    /// Operations that were posted and have not completed: of futures that are waiting, and of sends
    /// whose future was dropped.
    pub fn pending_operations(&self) -> usize {
        self.0.with(|state| state.ops.len())
    }

    pub(super) fn for_dest(dest: &kofi_core::Address) -> Result<Self> {
        let hints = Hints::new().provider("tcp").dest(dest.clone());
        let info = crate::getinfo(hints)?.into_iter().next().ok_or(Error::Empty)?;
        Self::open(&info)
    }
}

impl std::fmt::Debug for AsyncDomain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncDomain").finish_non_exhaustive()
    }
}

/// Rounds of work before others of the same thread get their turn.
const ROUNDS: u32 = 16;

pub(super) struct Hub {
    state: Turns<State>,
    readiness: OnceLock<std::io::Result<Box<dyn Readiness>>>,
    runtime: Option<Box<dyn Runtime>>,
    waker: Waker,
    /// Has the runtime come back soon.
    bell: Bell,
    pub(super) info: Info,
    pub(super) eq: EventQueue,
    pub(super) cq: CompletionQueue,
    set: WaitSet,
    pub(super) domain: Domain,
    pub(super) fabric: Fabric,
}

/// Looks what there is to do, wherever it is woken.
struct Turn(Weak<Hub>);

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(hub) = self.0.upgrade() {
            hub.turn();
        }
    }
}

impl Hub {
    fn open(info: &Info, runtime: Option<Box<dyn Runtime>>) -> Result<Arc<Self>> {
        let fabric = Fabric::open(info)?;
        let set = fabric.wait_set()?;
        let eq = fabric.event_queue_in(&set, Default::default())?;
        let domain = fabric.domain(info)?;
        let cq = domain.completion_queue_in(&set, Default::default())?;
        let bell = Bell::new("fi_domain")?;
        set.gathered().add("fi_domain", &bell)?;
        Ok(Arc::new_cyclic(|hub| Self {
            state: Turns::default(),
            readiness: OnceLock::new(),
            runtime,
            waker: Waker::from(Arc::new(Turn(hub.clone()))),
            bell,
            info: info.clone(),
            eq,
            cq,
            set,
            domain,
            fabric,
        }))
    }

    /// Does something with the state, and wakes whoever that concerns.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let _hold = Hold::new();
        self.state.with(f, |state| self.run(state))
    }

    /// Whether a task that always finds something to do may go on.
    pub(super) fn poll_proceed(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.readiness.get() {
            Some(Ok(readiness)) => readiness.poll_proceed(cx),
            _ => Poll::Ready(()),
        }
    }

    /// What a future does that finds nothing for it yet: looks what there is to do after `started`,
    /// or when nobody would wake it.
    pub(super) fn look(&self, started: bool) {
        let watched = || matches!(self.readiness.get(), Some(Ok(readiness)) if readiness.is_watched());
        if started || !watched() {
            self.turn();
        }
    }

    /// Does all there is to do, and has the runtime come back when there is more. It never waits.
    fn turn(&self) {
        let _hold = Hold::new();
        self.state.turn(|state| self.run(state));
    }

    fn run(&self, state: &mut State) {
        let readiness = self.readiness.get_or_init(|| {
            let fd = self.set.fd().try_clone_to_owned()?;
            match &self.runtime {
                Some(runtime) => runtime.register(fd),
                None => runtime::register(fd),
            }
        });
        let readiness = match readiness {
            Ok(readiness) => readiness,
            Err(error) => return state.fail(&runtime_error(error)),
        };
        state.failed = None;
        let mut cx = Context::from_waker(&self.waker);
        self.bell.silence();
        for _ in 0..ROUNDS {
            if let Err(error) = self.distribute(state) {
                return state.fail(&error);
            }
            match self.set.try_wait() {
                Ok(()) => {}
                Err(Error::Empty) => continue,
                Err(error) => return state.fail(&error),
            }
            match readiness.poll_readable(&mut cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return state.fail(&runtime_error(&error)),
            }
        }
        // The ring is to come after the runtime watches again.
        loop {
            match readiness.poll_readable(&mut cx) {
                Poll::Pending => return self.bell.ring(),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return state.fail(&runtime_error(&error)),
            }
        }
    }

    /// Gives everybody what has come for them.
    fn distribute(&self, state: &mut State) -> Result<()> {
        loop {
            match self.cq.poll() {
                Ok(completion) => state.completed(completion),
                Err(Error::Empty) => break,
                Err(error) => return Err(error),
            }
        }
        loop {
            match self.eq.next_unread() {
                Ok(event) => state.happened(event),
                Err(Error::Empty) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// What is to be done outside of the lock: wakers to be woken, and wakers to be dropped.
#[derive(Default)]
pub(super) struct Out {
    wake: Vec<Waker>,
    drop: Vec<Waker>,
}

impl Leaves for State {
    type Out = Out;

    fn take_out(&mut self) -> Out {
        std::mem::take(&mut self.out)
    }

    fn finish(out: Out) {
        out.wake.into_iter().for_each(Waker::wake);
        drop(out.drop);
    }
}

#[derive(Default)]
pub(super) struct State {
    endpoints: HashMap<Fid, EndpointState>,
    /// Operations that were posted, by their context.
    ops: HashMap<u64, Op>,
    next_id: u64,
    /// Why nobody would be woken now.
    failed: Option<Error>,
    out: Out,
}

/// Where the result of an operation is put for its future.
pub(super) type Slot<T> = Arc<Mutex<SlotState<T>>>;

pub(super) struct SlotState<T> {
    result: Option<Result<T, Failed>>,
    /// Of a message: where it stands in the order of arrival.
    number: u64,
    waker: Option<Waker>,
}

pub(super) fn slot<T>() -> Slot<T> {
    Arc::new(Mutex::new(SlotState { result: None, number: 0, waker: None }))
}

/// Takes the result, or keeps the waker for when there is one.
pub(super) fn poll_slot<T>(slot: &Slot<T>, cx: &Context<'_>) -> Poll<Result<T, Failed>> {
    let mut state = lock(slot);
    match state.result.take() {
        Some(result) => Poll::Ready(result),
        None => {
            let old = keep_waker(&mut state.waker, cx.waker());
            drop(state);
            drop(old);
            Poll::Pending
        }
    }
}

/// Something to be posted in its turn: a send, or an access to the peer's memory.
pub(super) struct Outgoing {
    pub(super) kind: Kind,
    pub(super) message: Message,
    /// Pieces of the peer's memory.
    pub(super) remote: SmallVec<[RmaIov; 1]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Send,
    Write,
    /// Into the message's buffers.
    Read,
}

impl Outgoing {
    fn post(&mut self, ops: &dyn EndpointOps, context: u64) -> Result<(), Refused> {
        let Self { kind, message, remote } = self;
        let buffers = std::mem::take(&mut message.buffers);
        let (data, flags) = (message.data, message.flags);
        match kind {
            Kind::Send => ops.send(Message { buffers, data, flags, context }),
            Kind::Write => ops.write(Message { buffers, data, flags, context }, remote),
            Kind::Read => ops.read(Receive { buffers, flags, context }, remote),
        }
    }
}

impl Kind {
    fn call(self) -> &'static str {
        match self {
            Self::Send => "fi_send",
            Self::Write => "fi_write",
            Self::Read => "fi_read",
        }
    }
}

enum Op {
    Send(Fid, Kind, Slot<Buffers>),
    Receive {
        ep: Fid,
        /// It was cancelled by us: what its future wanted has come otherwise, or is not wanted.
        cancelled: bool,
        /// Who gets this message, in the operation's memory.
        instead: Option<(Slot<Received>, Arrived)>,
    },
}

/// How the connection of an endpoint stands.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// There is none yet.
    Connecting,
    /// There is one.
    Connected,
    /// There was one.
    Ended(Reason),
    /// None came about; with what the peer gave when it rejected.
    Failed(Reason, Vec<u8>),
}

struct EndpointState {
    ops: Arc<dyn EndpointOps>,
    phase: Phase,
    /// What the peer gave when it accepted.
    data: Vec<u8>,
    /// Sends that wait for the connection or for room.
    unsent: VecDeque<(Outgoing, Slot<Buffers>)>,
    /// `fi_shutdown` is due when all of these are posted.
    shutdown: bool,
    /// Futures that wait for messages, in order.
    readers: VecDeque<Reader>,
    /// Receives that are posted, in order.
    posted: VecDeque<u64>,
    /// Messages that nobody has got, in order of their arrival.
    messages: VecDeque<Arrived>,
    arrivals: u64,
    /// Tasks that wait for the phase to change.
    watchers: Vec<(u64, Waker)>,
}

struct Reader {
    slot: Slot<Received>,
    /// Its receive: not posted, or posted.
    own: Own,
}

enum Own {
    Buffers(Buffers),
    Posted(u64),
}

/// A message that has arrived, perhaps cut.
struct Arrived {
    number: u64,
    result: Result<Received, (CompletionError, Buffers)>,
}

/// What a receive has come to.
fn outcome(completion: Completion) -> Result<Received, (CompletionError, Buffers)> {
    let Completion { len, data, buffers, error, .. } = completion;
    match error {
        None => Ok(Received { buffers, len, data }),
        Some(error) => Err((error, buffers)),
    }
}

impl Arrived {
    /// The message for a receive, in its memory if it fits there.
    fn into_result(self, own: Option<Buffers>) -> Result<Received, Failed> {
        let received =
            self.result.map_err(|(error, buffers)| Failed::from_completion("fi_recv", error, buffers))?;
        match own {
            Some(mut own) if own.total_len() >= received.len => {
                own.copy_from(&received.buffers, received.len);
                Ok(Received { buffers: own, ..received })
            }
            _ => Ok(received),
        }
    }

    /// A message that somebody had got; `None` when what he had got is none.
    fn again(number: u64, result: Result<Received, Failed>) -> Option<Self> {
        let result = match result {
            Ok(received) => Ok(received),
            Err(Failed { completion: Some(error), buffers, .. }) if is_message(&error) => {
                Err((error, buffers))
            }
            Err(_) => return None,
        };
        Some(Self { number, result })
    }
}

/// Whether a receive that failed has used up a message.
fn is_message(error: &CompletionError) -> bool {
    error.errno == Errno::ETRUNC
}

impl State {
    /// Why nobody would be woken now.
    pub(super) fn failed(&self) -> Option<Error> {
        self.failed.clone()
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// An endpoint whose events are to be told from now on.
    pub(super) fn open(&mut self, fid: Fid, ops: Arc<dyn EndpointOps>) {
        let endpoint = EndpointState {
            ops,
            phase: Phase::Connecting,
            data: Vec::new(),
            unsent: VecDeque::new(),
            shutdown: false,
            readers: VecDeque::new(),
            posted: VecDeque::new(),
            messages: VecDeque::new(),
            arrivals: 0,
            watchers: Vec::new(),
        };
        self.endpoints.insert(fid, endpoint);
    }

    /// Forgets an endpoint; what is given is to be dropped outside of the lock.
    pub(super) fn close(&mut self, fid: Fid) -> impl Sized + use<> {
        self.endpoints.remove(&fid)
    }

    pub(super) fn phase(&self, fid: Fid) -> Option<&Phase> {
        self.endpoints.get(&fid).map(|endpoint| &endpoint.phase)
    }

    /// What the peer gave when it accepted.
    pub(super) fn data(&self, fid: Fid) -> Vec<u8> {
        self.endpoints.get(&fid).map(|endpoint| endpoint.data.clone()).unwrap_or_default()
    }

    /// Wakes this task when the phase changes.
    pub(super) fn watch(&mut self, fid: Fid, id: u64, waker: &Waker) {
        self.unwatch(fid, id);
        if let Some(endpoint) = self.endpoints.get_mut(&fid) {
            endpoint.watchers.push((id, waker.clone()));
        }
    }

    pub(super) fn unwatch(&mut self, fid: Fid, id: u64) {
        if let Some(endpoint) = self.endpoints.get_mut(&fid) {
            let old = endpoint.watchers.extract_if(.., |(known, _)| *known == id);
            self.out.drop.extend(old.map(|(_, waker)| waker));
        }
    }

    fn finish<T>(out: &mut Out, slot: &Slot<T>, result: Result<T, Failed>) {
        Self::finish_as(out, slot, 0, result);
    }

    fn finish_as<T>(out: &mut Out, slot: &Slot<T>, number: u64, result: Result<T, Failed>) {
        let mut state = lock(slot);
        state.number = number;
        state.result = Some(result);
        out.wake.extend(state.waker.take());
    }

    /// Nobody would be woken: all who wait are to know.
    fn fail(&mut self, error: &Error) {
        let Self { endpoints, ops, out, .. } = self;
        for endpoint in endpoints.values_mut() {
            for reader in &endpoint.readers {
                out.wake.extend(lock(&reader.slot).waker.take());
            }
            for (_, slot) in &endpoint.unsent {
                out.wake.extend(lock(slot).waker.take());
            }
            out.wake.extend(endpoint.watchers.drain(..).map(|(_, waker)| waker));
        }
        for op in ops.values() {
            if let Op::Send(.., slot) = op {
                out.wake.extend(lock(slot).waker.take());
            }
        }
        self.failed = Some(error.clone());
    }

    // Sends.

    /// Takes what is to be posted when its turn has come.
    pub(super) fn send(&mut self, fid: Fid, outgoing: Outgoing, slot: &Slot<Buffers>) {
        let Some(endpoint) = self.endpoints.get_mut(&fid) else { return };
        endpoint.unsent.push_back((outgoing, slot.clone()));
        self.post_sends(fid);
    }

    pub(super) fn shutdown(&mut self, fid: Fid) {
        if let Some(endpoint) = self.endpoints.get_mut(&fid) {
            endpoint.shutdown = true;
            self.post_sends(fid);
        }
    }

    /// Posts what waits and has room.
    fn post_sends(&mut self, fid: Fid) {
        let Some(endpoint) = self.endpoints.get_mut(&fid) else { return };
        if matches!(endpoint.phase, Phase::Connecting) {
            return;
        }
        while let Some((mut outgoing, slot)) = endpoint.unsent.pop_front() {
            self.next_id += 1;
            let context = self.next_id;
            match outgoing.post(&*endpoint.ops, context) {
                Ok(()) => {
                    self.ops.insert(context, Op::Send(fid, outgoing.kind, slot));
                }
                Err(refused) if refused.error.is_again() => {
                    outgoing.message.buffers = refused.buffers;
                    return endpoint.unsent.push_front((outgoing, slot));
                }
                Err(refused) => Self::finish(&mut self.out, &slot, Err(refused.into())),
            }
        }
        if endpoint.shutdown {
            endpoint.shutdown = false;
            // On a connection that is over there is nothing to do.
            let _ = endpoint.ops.shutdown(0);
        }
    }

    // Receives.

    /// Waits for a message in these buffers.
    pub(super) fn receive(&mut self, fid: Fid, buffers: Buffers, slot: &Slot<Received>) {
        let Some(endpoint) = self.endpoints.get_mut(&fid) else { return };
        match endpoint.messages.pop_front() {
            Some(message) => self.give(slot, message, Some(buffers)),
            None => {
                endpoint.readers.push_back(Reader { slot: slot.clone(), own: Own::Buffers(buffers) });
                self.post_receives(fid);
            }
        }
    }

    /// Posts receives until there is one for each reader.
    fn post_receives(&mut self, fid: Fid) {
        let Some(endpoint) = self.endpoints.get_mut(&fid) else { return };
        let mut at = 0;
        while endpoint.posted.len() < endpoint.readers.len() {
            let Some(reader) = endpoint.readers.get_mut(at) else { return };
            let Own::Buffers(buffers) = &mut reader.own else {
                at += 1;
                continue;
            };
            self.next_id += 1;
            let context = self.next_id;
            let receive = Receive { buffers: std::mem::take(buffers), flags: OpFlags::empty(), context };
            match endpoint.ops.recv(receive) {
                Ok(()) => {
                    reader.own = Own::Posted(context);
                    endpoint.posted.push_back(context);
                    self.ops.insert(context, Op::Receive { ep: fid, cancelled: false, instead: None });
                }
                Err(refused) if refused.error.is_again() => {
                    *buffers = refused.buffers;
                    return;
                }
                Err(refused) => {
                    let reader = endpoint.readers.remove(at);
                    if let Some(reader) = reader {
                        Self::finish(&mut self.out, &reader.slot, Err(refused.into()));
                    }
                }
            }
        }
    }

    fn give(&mut self, slot: &Slot<Received>, message: Arrived, own: Option<Buffers>) {
        Self::finish_as(&mut self.out, slot, message.number, message.into_result(own));
    }

    /// A future that waited for a message was dropped.
    pub(super) fn forget(&mut self, fid: Fid, slot: &Slot<Received>) {
        let (number, result) = {
            let mut state = lock(slot);
            self.out.drop.extend(state.waker.take());
            (state.number, state.result.take())
        };
        if let Some(result) = result {
            // It had its message: that is for somebody else.
            if let Some(message) = Arrived::again(number, result) {
                self.deliver(fid, None, message);
            }
            return;
        }
        let Some(endpoint) = self.endpoints.get_mut(&fid) else { return };
        let at = endpoint.readers.iter().position(|reader| Arc::ptr_eq(&reader.slot, slot));
        if let Some(reader) = at.and_then(|at| endpoint.readers.remove(at)) {
            if let Own::Posted(op) = reader.own {
                self.cancel(fid, op);
            }
            return;
        }
        // It was to have a message as soon as its own memory is back.
        let message = self.ops.values_mut().find_map(|op| match op {
            Op::Receive { instead, .. } => Some(instead.take_if(|(known, _)| Arc::ptr_eq(known, slot))?.1),
            Op::Send(..) => None,
        });
        if let Some(message) = message {
            self.deliver(fid, None, message);
        }
    }

    /// Gives a message that has come with `op` to the reader whose turn it is.
    fn deliver(&mut self, fid: Fid, op: Option<u64>, message: Arrived) {
        let Some(endpoint) = self.endpoints.get_mut(&fid) else { return };
        let Some(Reader { slot, own }) = endpoint.readers.pop_front() else {
            let at = endpoint.messages.partition_point(|known| known.number < message.number);
            return endpoint.messages.insert(at, message);
        };
        let is_op = |own: &Own| matches!(own, Own::Posted(posted) if Some(*posted) == op);
        if is_op(&own) {
            return self.give(&slot, message, None);
        }
        if let Some(owner) = endpoint.readers.iter_mut().find(|reader| is_op(&reader.own)) {
            owner.own = own;
            return self.give(&slot, message, None);
        }
        // It came to a receive that nobody waits for any more.
        match own {
            Own::Buffers(buffers) => self.give(&slot, message, Some(buffers)),
            Own::Posted(own) if self.cancel(fid, own) => {
                if let Some(Op::Receive { instead, .. }) = self.ops.get_mut(&own) {
                    *instead = Some((slot, message));
                }
            }
            // The next message is on its way into this one's own memory.
            Own::Posted(_) => self.give(&slot, message, None),
        }
    }

    /// Takes a posted receive back. `false`: a message has reached it.
    fn cancel(&mut self, fid: Fid, context: u64) -> bool {
        let Some(endpoint) = self.endpoints.get_mut(&fid) else { return false };
        if endpoint.ops.cancel(context).is_err() {
            return false;
        }
        endpoint.posted.retain(|known| *known != context);
        if let Some(Op::Receive { cancelled, .. }) = self.ops.get_mut(&context) {
            *cancelled = true;
        }
        true
    }

    // What comes out of the queues.

    fn completed(&mut self, completion: Completion) {
        let context = completion.context;
        match self.ops.remove(&context) {
            None => {}
            Some(Op::Send(fid, kind, slot)) => {
                let result = match completion.error {
                    None => Ok(completion.buffers),
                    Some(error) => Err(Failed::from_completion(kind.call(), error, completion.buffers)),
                };
                Self::finish(&mut self.out, &slot, result);
                self.post_sends(fid);
            }
            Some(Op::Receive { ep, cancelled: true, instead }) => {
                if let Some((slot, message)) = instead {
                    self.give(&slot, message, Some(completion.buffers));
                }
                self.post_receives(ep);
            }
            Some(Op::Receive { ep, .. }) => {
                let Some(endpoint) = self.endpoints.get_mut(&ep) else { return };
                endpoint.posted.retain(|known| *known != context);
                match outcome(completion) {
                    Err((error, buffers)) if !is_message(&error) => {
                        let posted = |reader: &Reader| matches!(reader.own, Own::Posted(op) if op == context);
                        let at = endpoint.readers.iter().position(posted);
                        if let Some(reader) = at.and_then(|at| endpoint.readers.remove(at)) {
                            let failed = Failed::from_completion("fi_recv", error, buffers);
                            Self::finish(&mut self.out, &reader.slot, Err(failed));
                        }
                    }
                    result => {
                        endpoint.arrivals += 1;
                        let message = Arrived { number: endpoint.arrivals, result };
                        self.deliver(ep, Some(context), message);
                    }
                }
                self.post_receives(ep);
            }
        }
    }

    fn happened(&mut self, event: Event) {
        let (fid, phase) = match event {
            Event::Connected { endpoint, data } => {
                if let Some(endpoint) = self.endpoints.get_mut(&endpoint) {
                    endpoint.data = data;
                }
                (endpoint, Phase::Connected)
            }
            Event::Shutdown { endpoint, reason } => (endpoint, Phase::Ended(reason)),
            Event::Failed { endpoint, reason, data } => (endpoint, Phase::Failed(reason, data)),
            Event::ConnectionRequest(_) | Event::Application { .. } => return,
        };
        let Some(endpoint) = self.endpoints.get_mut(&fid) else { return };
        endpoint.phase = phase;
        self.out.wake.extend(endpoint.watchers.drain(..).map(|(_, waker)| waker));
        self.post_sends(fid);
        self.post_receives(fid);
    }
}

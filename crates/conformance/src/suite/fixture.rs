// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What most cases start from, and how they wait.

use core::time::Duration;

use kofi_core::attr::{CqAttr, EqAttr};
use kofi_core::{EndpointAttr, Errno, Error, OpFlags, Result, SocketAddr, TimeLimits};

use super::{Lacking, Outcome};
use crate::world::{
    Completion, CompletionError, CompletionQueue, Domain, Endpoint, Event, EventError, EventQueue, Fabric,
    Family, Faults, PassiveEndpoint, Process, RawPeers, ReceiveOp, Request, SendOp, World,
};

/// Longer than anything that is not in trouble takes.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough for what should not happen, to have happened.
pub const A_WHILE: Duration = Duration::from_millis(300);

/// What a process has open: one of each.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// The process.
    pub process: Process,
    /// Its fabric.
    pub fabric: Fabric,
    /// Its domain.
    pub domain: Domain,
    /// Its event queue.
    pub eq: EventQueue,
    /// Its completion queue, for both directions.
    pub cq: CompletionQueue,
}

/// A server and a client, and what they have open.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The side that listens.
    pub server: Side,
    /// The side that connects.
    pub client: Side,
    /// The server's passive endpoint.
    pub pep: PassiveEndpoint,
    /// Where it listens.
    pub address: SocketAddr,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub struct Connected {
    /// What it was made with.
    pub pair: Pair,
    /// The accepted endpoint.
    pub server: Endpoint,
    /// The endpoint that connected.
    pub client: Endpoint,
}

/// Succeeds, or fails the case with what was done.
#[track_caller]
pub fn ok<R>(result: Result<R>) -> R {
    result.unwrap_or_else(|error| panic!("{:?}: {error}", error.errno()))
}

/// Fails with exactly this number.
#[track_caller]
pub fn refused<R: core::fmt::Debug>(result: Result<R>, errno: Errno) -> Error {
    match result {
        Ok(found) => panic!("succeeded with {found:?}, wanted {errno:?}"),
        Err(error) => {
            assert_eq!(error.errno(), errno, "{error}");
            error
        }
    }
}

/// Nothing moves between two calls.
///
/// # Errors
/// Where something does.
pub fn holds_still(world: &dyn World) -> Result<(), Lacking> {
    if world.holds_still() { Ok(()) } else { Err(Lacking("standing still between calls")) }
}

/// Peers without endpoints, where there can be any.
///
/// # Errors
/// Where not.
pub fn raw(world: &mut dyn World) -> Result<&mut dyn RawPeers, Lacking> {
    world.raw().ok_or(Lacking("peers without endpoints"))
}

/// The world bears whatever bytes a peer sends, and there can be such peers.
///
/// # Errors
/// Where not.
pub fn hardened(world: &mut dyn World) -> Outcome {
    if !world.bears_anything() {
        return Err(Lacking("promise to bear any bytes"));
    }
    raw(world).map(|_| ())
}

/// Trouble on demand, where it can be had.
///
/// # Errors
/// Where not.
pub fn faults(world: &mut dyn World) -> Result<&mut dyn Faults, Lacking> {
    world.faults().ok_or(Lacking("trouble on demand"))
}

/// Lets the world run until `done`; `false` when that did not happen within `limit`.
pub fn run_until(
    world: &mut dyn World,
    limit: Duration,
    mut done: impl FnMut(&mut dyn World) -> bool,
) -> bool {
    let end = world.now() + limit;
    loop {
        if done(world) {
            return true;
        }
        let now = world.now();
        if now >= end {
            return false;
        }
        world.step(end - now);
    }
}

/// Lets the world run for a while.
pub fn run_for(world: &mut dyn World, limit: Duration) {
    run_until(world, limit, |_| false);
}

/// Repeats a read until there is something.
#[track_caller]
pub fn wait<R>(
    world: &mut dyn World,
    what: &str,
    mut read: impl FnMut(&mut dyn World) -> Result<R>,
) -> Result<R> {
    let mut found = Err(Error::Empty);
    run_until(world, PATIENCE, |world| {
        found = read(world);
        !matches!(&found, Err(error) if error.errno() == Errno::EAGAIN)
    });
    if let Err(error) = &found
        && error.errno() == Errno::EAGAIN
    {
        panic!("waited for {what} for {PATIENCE:?}");
    }
    found
}

/// The next event, which is no error.
#[track_caller]
pub fn event(world: &mut dyn World, eq: EventQueue) -> Event {
    match wait(world, "an event", |world| world.eq_read(eq)) {
        Ok(event) => event,
        Err(error) if error.errno() == Errno::EAVAIL => {
            panic!("an error entry instead of an event: {:?}", world.eq_readerr(eq, OpFlags::empty()))
        }
        Err(error) => panic!("{error}"),
    }
}

/// The next event, which is an error.
#[track_caller]
pub fn event_error(world: &mut dyn World, eq: EventQueue) -> EventError {
    match wait(world, "an error entry", |world| world.eq_read(eq)) {
        Ok(event) => panic!("{event:?} instead of an error entry"),
        Err(error) => assert_eq!(error.errno(), Errno::EAVAIL),
    }
    ok(world.eq_readerr(eq, OpFlags::empty()))
}

/// The next event is a connection request.
#[track_caller]
pub fn request(world: &mut dyn World, eq: EventQueue) -> (Request, Vec<u8>) {
    match event(world, eq) {
        Event::ConnectionRequest { request: Some(request), data, .. } => (request, data),
        other => panic!("{other:?} instead of a connection request"),
    }
}

/// The next event is that this endpoint is connected; gives the private data.
#[track_caller]
pub fn connected(world: &mut dyn World, eq: EventQueue, ep: Endpoint) -> Vec<u8> {
    match event(world, eq) {
        Event::Connected { ep: found, data } if found == ep => data,
        other => panic!("{other:?} instead of FI_CONNECTED of {ep:?}"),
    }
}

/// The next event is that this endpoint is shut down.
#[track_caller]
pub fn shut_down(world: &mut dyn World, eq: EventQueue, ep: Endpoint) {
    match event(world, eq) {
        Event::Shutdown { ep: found, .. } if found == ep => {}
        other => panic!("{other:?} instead of FI_SHUTDOWN of {ep:?}"),
    }
}

/// Nothing is to be read now, and nothing comes for a while.
#[track_caller]
pub fn silent(world: &mut dyn World, eq: EventQueue) {
    let spoke = run_until(
        world,
        A_WHILE,
        |world| !matches!(world.eq_read(eq), Err(error) if error.errno() == Errno::EAGAIN),
    );
    assert!(!spoke, "an event that should not have come");
}

/// The next completion, which is no error.
#[track_caller]
pub fn completion(world: &mut dyn World, cq: CompletionQueue) -> Completion {
    match wait(world, "a completion", |world| world.cq_read(cq)) {
        Ok(done) => done,
        Err(error) if error.errno() == Errno::EAVAIL => {
            panic!("an error instead of a completion: {:?}", world.cq_readerr(cq))
        }
        Err(error) => panic!("{error}"),
    }
}

/// The next completion, which is an error.
#[track_caller]
pub fn completion_error(world: &mut dyn World, cq: CompletionQueue) -> CompletionError {
    match wait(world, "a failed completion", |world| world.cq_read(cq)) {
        Ok(done) => panic!("{done:?} instead of a failed completion"),
        Err(error) => assert_eq!(error.errno(), Errno::EAVAIL),
    }
    ok(world.cq_readerr(cq))
}

/// No completion is there, and none comes for a while.
#[track_caller]
pub fn no_completion(world: &mut dyn World, cq: CompletionQueue) {
    let spoke = run_until(
        world,
        A_WHILE,
        |world| !matches!(world.cq_read(cq), Err(error) if error.errno() == Errno::EAGAIN),
    );
    assert!(!spoke, "a completion that should not have come");
}

/// Bytes that say where they belong.
pub fn pattern(salt: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ salt.wrapping_mul(97)) as u8).collect()
}

impl Side {
    /// A process with one of each.
    pub fn open(world: &mut dyn World) -> Self {
        Self::with_eq(world, &EqAttr::default())
    }

    /// A process with one of each, and a certain event queue.
    pub fn with_eq(world: &mut dyn World, attr: &EqAttr) -> Self {
        let process = world.process();
        let fabric = ok(world.fabric(process));
        let domain = ok(world.domain(fabric));
        let eq = ok(world.eq_open(fabric, attr));
        let cq = ok(world.cq_open(domain, &CqAttr::default()));
        Self { process, fabric, domain, eq, cq }
    }

    /// An address of the process, with port 0.
    pub fn address(&self, world: &mut dyn World) -> SocketAddr {
        world.address(self.process, Family::V4).unwrap_or_else(|| panic!("a process without an address"))
    }

    /// A passive endpoint that listens, and where.
    pub fn listen(&self, world: &mut dyn World) -> (PassiveEndpoint, SocketAddr) {
        let address = self.address(world);
        let pep = ok(world.passive_ep(self.fabric, Some(address)));
        ok(world.pep_bind(pep, self.eq, 0));
        ok(world.listen(pep));
        (pep, ok(world.pep_name(pep)))
    }

    /// An endpoint with all that it needs bound.
    pub fn endpoint(&self, world: &mut dyn World, request: Option<Request>) -> Endpoint {
        let attr = world.endpoint_attr();
        self.endpoint_with(world, &attr, request)
    }

    /// An endpoint of certain attributes with all that it needs bound.
    pub fn endpoint_with(
        &self,
        world: &mut dyn World,
        attr: &EndpointAttr,
        request: Option<Request>,
    ) -> Endpoint {
        let ep = ok(world.endpoint(self.domain, attr, request));
        ok(world.ep_bind_eq(ep, self.eq, OpFlags::empty()));
        ok(world.ep_bind_cq(ep, self.cq, OpFlags::TRANSMIT | OpFlags::RECV));
        ep
    }

    /// Closes everything but endpoints.
    pub fn close(&self, world: &mut dyn World) {
        ok(world.close_cq(self.cq));
        ok(world.close_domain(self.domain));
        ok(world.close_eq(self.eq));
        ok(world.close_fabric(self.fabric));
    }
}

impl Pair {
    /// A server that listens, and a client.
    pub fn open(world: &mut dyn World) -> Self {
        let server = Side::open(world);
        let client = Side::open(world);
        let (pep, address) = server.listen(world);
        Self { server, client, pep, address }
    }

    /// A connection between the two.
    pub fn connect(&self, world: &mut dyn World) -> Connected {
        let attr = world.endpoint_attr();
        self.connect_with(world, &attr, &attr)
    }

    /// A connection between endpoints of certain attributes.
    pub fn connect_with(
        &self,
        world: &mut dyn World,
        server: &EndpointAttr,
        client: &EndpointAttr,
    ) -> Connected {
        let client = self.client.endpoint_with(world, client, None);
        ok(world.connect(client, Some(self.address), &[]));
        let (request, _) = request(world, self.server.eq);
        let server = self.server.endpoint_with(world, server, Some(request));
        self.accept_by(world, client, server)
    }

    /// The client's request is accepted, and both sides are connected.
    #[track_caller]
    pub fn accept(&self, world: &mut dyn World, client: Endpoint, request: Request) -> Connected {
        let server = self.server.endpoint(world, Some(request));
        self.accept_by(world, client, server)
    }

    /// The same by an endpoint that was made for the request.
    #[track_caller]
    pub fn accept_by(&self, world: &mut dyn World, client: Endpoint, server: Endpoint) -> Connected {
        ok(world.accept(server, &[]));
        connected(world, self.server.eq, server);
        connected(world, self.client.eq, client);
        Connected { pair: *self, server, client }
    }

    /// A client that has asked, and its request at the server.
    pub fn ask(&self, world: &mut dyn World, data: &[u8]) -> (Endpoint, Request, Vec<u8>) {
        let client = self.client.endpoint(world, None);
        ok(world.connect(client, Some(self.address), data));
        let (request, data) = request(world, self.server.eq);
        (client, request, data)
    }

    /// Closes everything but endpoints.
    pub fn close(&self, world: &mut dyn World) {
        ok(world.close_pep(self.pep));
        self.server.close(world);
        self.client.close(world);
    }
}

impl Connected {
    /// A connection.
    pub fn open(world: &mut dyn World) -> Self {
        Pair::open(world).connect(world)
    }

    /// One message from the client to the server, and its two completions.
    #[track_caller]
    pub fn exchange(&self, world: &mut dyn World, bytes: &[u8]) {
        ok(world.recv(self.server, ReceiveOp::new(bytes.len().max(1), 71)));
        ok(world.send(self.client, SendOp::new(bytes, 72)));
        let received = completion(world, self.pair.server.cq);
        assert_eq!((received.context, received.len), (71, bytes.len() as u64));
        assert_eq!(received.buffers[0][..bytes.len()], *bytes);
        assert_eq!(completion(world, self.pair.client.cq).context, 72);
    }

    /// The next event of both sides is that it is shut down.
    #[track_caller]
    pub fn both_shut_down(&self, world: &mut dyn World) {
        shut_down(world, self.pair.client.eq, self.client);
        shut_down(world, self.pair.server.eq, self.server);
    }

    /// Closes its endpoints, and nothing else.
    pub fn close_endpoints(&self, world: &mut dyn World) {
        ok(world.close_ep(self.client));
        ok(world.close_ep(self.server));
    }

    /// Closes everything, in the legal order.
    pub fn close(&self, world: &mut dyn World) {
        self.close_endpoints(world);
        self.pair.close(world);
    }
}

/// Limits in time that are all short.
pub fn short_limits() -> TimeLimits {
    let limit = Some(Duration::from_millis(200));
    TimeLimits { connect: limit, handshake: limit, decision: limit, shutdown: limit, ..TimeLimits::default() }
}

/// The case is passed.
pub const PASSED: Outcome = Ok(());

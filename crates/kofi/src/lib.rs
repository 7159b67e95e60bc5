// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Open Fabrics Interfaces in Rust.
//!
//! Messages between processes, by the object model of `libfabric(7)`, and on the wire with libfabric's
//! `tcp` provider (1.8 or later) for message endpoints (`FI_EP_MSG`). No `unsafe` is needed to use it:
//! operations own their memory and give it back with their completion.
//!
//! # A server
//!
//! ```
//! use std::time::Duration;
//!
//! use kofi::{Event, Fabric, Hints, Result};
//!
//! const TIME: Duration = Duration::from_secs(20);
//!
//! fn server(addr: kofi::Address, listening: impl FnOnce(kofi::Address)) -> Result<Vec<u8>> {
//!     let info = kofi::getinfo(Hints::new().provider("tcp").source(addr))?.remove(0);
//!     let fabric = Fabric::open(&info)?;
//!     let eq = fabric.event_queue(Default::default())?;
//!     let listener = fabric.passive_endpoint(&info)?.bind(&eq)?.listen()?;
//!     listening(listener.name()?);
//!     loop {
//!         match eq.wait(TIME)? {
//!             Event::ConnectionRequest(request) if request.data() == b"hello" => {
//!                 let domain = fabric.domain(request.info())?;
//!                 let cq = domain.completion_queue(Default::default())?;
//!                 let endpoint = domain.endpoint_for(&request, &eq, &cq)?;
//!                 endpoint.recv(vec![0; 1024], 1)?;
//!                 let endpoint = endpoint.accept(b"welcome")?;
//!                 let message = cq.wait(TIME)?.into_received()?;
//!                 endpoint.shutdown()?;
//!                 while !matches!(eq.wait(TIME)?, Event::Shutdown { .. }) {}
//!                 return Ok(message);
//!             }
//!             Event::ConnectionRequest(request) => request.reject(b"say hello first")?,
//!             other => println!("{other:?}"),
//!         }
//!     }
//! }
//!
//! fn client(server: kofi::Address, greeting: &[u8]) -> Result<Event> {
//!     let info = kofi::getinfo(Hints::new().provider("tcp").dest(server))?.remove(0);
//!     let fabric = Fabric::open(&info)?;
//!     let eq = fabric.event_queue(Default::default())?;
//!     let domain = fabric.domain(&info)?;
//!     let cq = domain.completion_queue(Default::default())?;
//!     let endpoint = domain.endpoint(&info, &eq, &cq)?.connect(greeting)?;
//!     match eq.wait(TIME)? {
//!         Event::Connected { .. } => {}
//!         failed => return Ok(failed),
//!     }
//!     endpoint.send(b"a message", 1)?;
//!     cq.wait(TIME)?.ok()?;
//!     eq.wait(TIME)
//! }
//!
//! let (address, listening) = std::sync::mpsc::channel();
//! let server = std::thread::spawn(move || {
//!     server(([127, 0, 0, 1], 0).into(), |addr| address.send(addr).unwrap())
//! });
//! let address = listening.recv().unwrap();
//! let Event::Failed { data, .. } = client(address.clone(), b"hey")? else { panic!() };
//! assert_eq!(data, b"say hello first");
//! let Event::Shutdown { .. } = client(address, b"hello")? else { panic!() };
//! assert_eq!(server.join().unwrap()?, b"a message");
//! # Ok::<(), kofi::Error>(())
//! ```
//!
//! `examples/server.rs` serves many clients in one loop, with a [`WaitSet`] over both queues and one
//! [`Domain`] for all endpoints.
//!
//! # From libfabric
//!
//! | C | here |
//! |---|---|
//! | `fi_getinfo` | [`getinfo`], with [`Hints`] or a [`Query`]; [`explain`] says why an offer does not match |
//! | `fi_fabric`, `fi_domain` | [`Fabric::open`], [`Fabric::domain`] |
//! | `fi_eq_open`, `fi_eq_read`, `fi_eq_sread`, `fi_eq_readerr` | [`Fabric::event_queue`], [`EventQueue::read`], [`sread`](EventQueue::sread), [`read_error`](EventQueue::read_error); [`wait`](EventQueue::wait) is the last two in one |
//! | `fi_cq_open`, `fi_cq_read`, … | [`Domain::completion_queue`], [`CompletionQueue`] likewise; [`poll`](CompletionQueue::poll) does not wait |
//! | `fi_passive_ep`, `fi_pep_bind`, `fi_listen` | [`Fabric::passive_endpoint`], [`bind`](PassiveEndpoint::bind), [`listen`](BoundPassiveEndpoint::listen) |
//! | `fi_endpoint`, `fi_ep_bind`, `fi_enable` | [`Domain::endpoint`], or [`Domain::endpoint_for`] a request |
//! | `fi_connect`, `fi_accept`, `fi_reject` | [`Connector::connect`], [`Acceptor::accept`], [`ConnectionRequest::reject`] |
//! | `fi_send`, `fi_recv`, `fi_inject`, … | [`Endpoint`] |
//! | `fi_srx_context` | [`Domain::shared_receive`], [`Queues::shared_receive`] |
//! | `FI_MULTI_RECV` | in [`Receive::flags`]; [`Completion::rest`], [`Buf::reclaim`] |
//! | `fi_wait_open`, `fi_trywait`, `FI_GETWAIT` | [`Fabric::wait_set`], [`EventQueue::try_wait`], [`EventQueue::fd`] |
//! | `fi_close` | dropping the object; `close` tells what it is still used by |
//!
//! A completion's `context` is what its operation was posted with: where endpoints share a queue, let
//! it name the endpoint.
//!
//! # Errors
//!
//! A refused call changes nothing and gives back what it was given: memory in [`Refused`], objects in
//! [`Returned`]; `?` turns both into [`Error`], which has the `FI_E*` number in [`Error::errno`]. What
//! goes wrong later comes as an event ([`Event::Failed`], [`Event::Shutdown`] with its [`Reason`]) or
//! with the completion ([`Completion::error`]).
//!
//! # Environment
//!
//! `FI_TCP_IFACE` names the only interface to use; `FI_TCP_PORT_LOW_RANGE` and `FI_TCP_PORT_HIGH_RANGE`
//! the ports of listeners that ask for any; `FI_TCP_TX_SIZE` and `FI_TCP_RX_SIZE` how many operations a queue
//! holds whose size is not asked for; `KOFI_CONNECT_TIMEOUT_MS`, `KOFI_HANDSHAKE_TIMEOUT_MS`,
//! `KOFI_DECISION_TIMEOUT_MS`, `KOFI_SHUTDOWN_TIMEOUT_MS`, `KOFI_KEEPALIVE_MS` and `KOFI_PEER_TIMEOUT_MS` the
//! [`TimeLimits`].
//!
//! # Diagnosis
//!
//! [`Endpoint::statistics`], [`Domain::statistics`] and [`Listener::statistics`] say what was done and what
//! holds it up. What happens to connections goes to `tracing`, under the target `kofi::connection`: listening,
//! connected, failed and shut down, with the reason, at level info; the steps between at level debug.
//! Subscribers may call kofi. Warnings go there, too. With `KOFI_LIVE=1`, or after [`live::serve`], `kofi info
//! --live` shows the objects of a running process.
//!
//! # What the types forbid
//!
//! To listen without an event queue, or twice:
//!
//! ```compile_fail,E0599
//! # fn f(fabric: kofi::Fabric, info: kofi::Info) -> kofi::Result<()> {
//! let listener = fabric.passive_endpoint(&info)?.listen()?;
//! # Ok(()) }
//! ```
//!
//! To connect an endpoint that was made for a request, or to connect twice:
//!
//! ```compile_fail,E0599
//! # fn f(acceptor: kofi::Acceptor) { let _ =
//! acceptor.connect(b"")
//! # ; }
//! ```
//!
//! ```compile_fail,E0382
//! # fn f(connector: kofi::Connector) {
//! let endpoint = connector.connect(b"");
//! let again = connector.connect(b"");
//! # }
//! ```
//!
//! To accept a request twice, or with an endpoint that is closed (BUG-08 of the field reports, by which
//! the tests are named):
//!
//! ```compile_fail,E0382
//! # fn f(acceptor: kofi::Acceptor) {
//! let endpoint = acceptor.accept(b"");
//! let again = acceptor.accept(b"");
//! # }
//! ```
//!
//! ```compile_fail,E0382
//! # fn f(acceptor: kofi::Acceptor) {
//! drop(acceptor);
//! let late = acceptor.accept(b"");
//! # }
//! ```
//!
//! To look at a request's data after the request (BUG-08):
//!
//! ```compile_fail,E0505
//! # fn f(request: kofi::ConnectionRequest) {
//! let data = request.data();
//! drop(request);
//! println!("{data:?}");
//! # }
//! ```
//!
//! To use what is closed (BUG-32): an endpoint, a listener, a memory region, and a queue after a close that
//! worked; one that was refused gives it back.
//!
//! ```compile_fail,E0382
//! # fn f(endpoint: kofi::Endpoint) {
//! endpoint.close();
//! let late = endpoint.send(b"too late", 0);
//! # }
//! ```
//!
//! ```compile_fail,E0382
//! # fn f(listener: kofi::Listener) {
//! listener.close();
//! let name = listener.name();
//! # }
//! ```
//!
//! ```compile_fail,E0382
//! # fn f(region: kofi::MemoryRegion) {
//! let memory = region.close();
//! let byte = region.read(0, &mut [0]);
//! # }
//! ```
//!
//! ```compile_fail,E0382
//! # fn f(queue: kofi::EventQueue) {
//! let closed = queue.close();
//! let event = queue.read();
//! # }
//! ```
//!
//! To send before connecting:
//!
//! ```compile_fail,E0599
//! # fn f(connector: kofi::Connector) { let _ =
//! connector.send(b"too early", 0)
//! # ; }
//! ```
//!
//! To touch memory while a transfer may:
//!
//! ```compile_fail,E0382
//! # fn f(endpoint: kofi::Endpoint) -> kofi::Result<()> {
//! let buffer = vec![0; 1024];
//! endpoint.recv(buffer, 0)?;
//! println!("{}", buffer[0]);
//! # Ok(()) }
//! ```
//!
//! To lend memory that may go away before the transfer ends ([`Endpoint::scope`] takes memory that
//! cannot):
//!
//! ```compile_fail,E0597
//! # fn f(endpoint: kofi::Endpoint) -> kofi::Result<()> {
//! let buffer = vec![0; 1024];
//! endpoint.send(&buffer[..], 0)?;
//! # Ok(()) }
//! ```
//!
//! # Futures
//!
//! [`AsyncListener`] and [`AsyncEndpoint`] do the same with futures, on any executor: see [`future`].
//!
//! # Waiting and progress
//!
//! Progress is manual (`FI_PROGRESS_MANUAL`): reading a queue, or waiting on it, moves everything
//! along that feeds the queue. There is no thread. A process that waits uses no processor time.
//! Connecting, the handshake at a listener and shutdown have limits in time ([`TimeLimits`]), after
//! which one event says what was wrong; the decision on a request has one if it is set.
//!
//! With [`Hints::progress`]`(`[`Progress::Auto`]`)` each domain and each listener has a thread
//! (`kofi-progress`), which serves peers while the application does something else. It sleeps while
//! there is nothing to do, and is joined when its object closes.

mod buffer;
mod buffer_scope;
mod clock;
mod completion_queue;
mod connection_request;
mod counter;
mod domain;
mod endpoint;
mod event_queue;
mod fabric;
pub mod foreign;
pub mod future;
mod getinfo;
pub mod live;
mod memory_region;
mod notice;
mod passive_endpoint;
mod progress;
pub mod provider;
mod returned;
mod shared_receive;
mod sync;
mod wait;
mod wait_set;

pub use kofi_core::attr::{CqAttr, EqAttr, WaitCond, WaitObj};
pub use kofi_core::flags::{Caps, Mode, MrMode, OpFlags, Order};
pub use kofi_core::hints::{self, Hints};
pub use kofi_core::info::{self, Info};
pub use kofi_core::time::sread_timeout;
pub use kofi_core::wire::WireError;
pub use kofi_core::wire::header::Segment as RmaIov;

pub use kofi_core::{
    AddrFormat, Address, AvType, CompletionError, DomainStatistics, Endings, EndpointStatistics, EpType,
    Errno, Error, Fid, ListenerStatistics, Progress, Protocol, Reason, Refusal, RequestId, Result, SrxAttr,
    State, Tally, Threading, TimeLimits, Traffic, Version,
};

pub use buffer::{Buf, Buffers};
pub use buffer_scope::{Borrowed, Loans, Scope};
pub use completion_queue::{Completion, CompletionQueue, CqEntry};
pub use connection_request::ConnectionRequest;
pub use counter::Counter;
pub use domain::Domain;
pub use endpoint::{Acceptor, Connector, Endpoint, Queues};
pub use event_queue::{Event, EventQueue, PeekedEvent};
pub use fabric::{Fabric, FabricShared};
pub use future::{AsyncDomain, AsyncEndpoint, AsyncListener, block_on};
pub use getinfo::{Outcome, Query, explain, getinfo, matching};
pub use memory_region::MemoryRegion;
pub use passive_endpoint::{BoundPassiveEndpoint, Listener, PassiveEndpoint};
pub use provider::{Message, Receive, Refused, Region};
pub use returned::Returned;
pub use shared_receive::SharedReceive;
pub use wait_set::WaitSet;

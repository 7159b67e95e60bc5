// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Open Fabrics Interfaces in Rust.
//!
//! Messages between processes, by the object model of `libfabric(7)` and on the wire with every
//! program that uses libfabric's `tcp` provider. No `unsafe` is needed to use it: operations own
//! their memory and give it back with their completion.
//!
//! # A server
//!
//! ```
//! use kofi::{Event, EventQueue, Fabric, Hints, Result};
//! # use std::time::Duration;
//!
//! # fn server(client: impl FnOnce(kofi::Address) -> Result<()>) -> Result<()> {
//! let hints = Hints::new().provider("tcp").source(([127, 0, 0, 1], 0));
//! let info = kofi::getinfo(hints)?.remove(0);
//! let fabric = Fabric::open(&info)?;
//! let eq = fabric.event_queue(Default::default())?;
//! let listener = fabric.passive_endpoint(&info)?.bind(&eq)?.listen()?;
//! # client(listener.name()?)?;
//! if let Event::ConnectionRequest(request) = eq.sread(Duration::from_secs(20))? {
//!     let domain = fabric.domain(request.info())?;
//!     let cq = domain.completion_queue(Default::default())?;
//!     let endpoint = domain.endpoint_for(&request, &eq, &cq)?;
//!     endpoint.recv(vec![0; 1024], 1)?;
//!     let endpoint = endpoint.accept(b"welcome")?;
//!     let message = cq.wait(Duration::from_secs(20))?.into_received();
//!     # assert_eq!(message, b"hello");
//!     endpoint.shutdown()?;
//! }
//! # Ok(()) }
//! # fn main() -> Result<()> {
//! #     let mut thread = None;
//! #     server(|addr| {
//! #         thread = Some(std::thread::spawn(move || -> Result<()> {
//! #             let info = kofi::getinfo(Hints::new().dest(addr))?.remove(0);
//! #             let fabric = Fabric::open(&info)?;
//! #             let eq = fabric.event_queue(Default::default())?;
//! #             let domain = fabric.domain(&info)?;
//! #             let cq = domain.completion_queue(Default::default())?;
//! #             let endpoint = domain.endpoint(&info, &eq, &cq)?.connect(b"")?;
//! #             let Event::Connected { data, .. } = eq.sread(Duration::from_secs(20))? else { panic!() };
//! #             assert_eq!(data, b"welcome");
//! #             endpoint.send(b"hello", 1)?;
//! #             assert!(cq.wait(Duration::from_secs(20))?.error.is_none());
//! #             let Event::Shutdown { .. } = eq.sread(Duration::from_secs(20))? else { panic!() };
//! #             Ok(())
//! #         }));
//! #         Ok(())
//! #     })?;
//! #     thread.unwrap().join().unwrap()
//! # }
//! ```
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
//! To lend memory that may go away before the transfer ends:
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
//! along that feeds the queue. There is no thread. A process that waits uses no processor time, and
//! each phase of a connection has a limit in time ([`TimeLimits`]), after which one event says what
//! was wrong.
//!
//! With [`Hints::progress`]`(`[`Progress::Auto`]`)` each domain and each listener has a thread
//! (`kofi-progress`), which serves peers while the application does something else. It sleeps while
//! there is nothing to do, and is joined when its object closes.

mod buffer;
mod clock;
mod completion_queue;
mod connection_request;
mod domain;
mod endpoint;
mod event_queue;
mod fabric;
pub mod future;
mod getinfo;
mod passive_endpoint;
mod progress;
pub mod provider;
mod returned;
mod wait;
mod wait_set;

pub use kofi_core::attr::{CqAttr, EqAttr, WaitObj};
pub use kofi_core::flags::{Caps, Mode, MrMode, OpFlags, Order};
pub use kofi_core::hints::Hints;
pub use kofi_core::info::Info;
pub use kofi_core::time::sread_timeout;

pub use kofi_core::{
    AddrFormat, Address, CompletionError, EpType, Errno, Error, Fid, Progress, Protocol, Reason, Refusal,
    RequestId, Result, State, Threading, TimeLimits, Version,
};

pub use buffer::{Buf, Buffers};
pub use completion_queue::{Completion, CompletionQueue};
pub use connection_request::ConnectionRequest;
pub use domain::Domain;
pub use endpoint::{Acceptor, Connector, Endpoint, Queues};
pub use event_queue::{Event, EventQueue, PeekedEvent};
pub use fabric::{Fabric, FabricShared};
pub use future::{AsyncDomain, AsyncEndpoint, AsyncListener, block_on};
pub use getinfo::{Outcome, Query, explain, getinfo};
pub use passive_endpoint::{BoundPassiveEndpoint, Listener, PassiveEndpoint};
pub use provider::{Message, Receive, Refused};
pub use returned::Returned;
pub use wait_set::WaitSet;

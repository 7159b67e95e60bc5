// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! kofi's core: the object model of the Open Fabrics Interfaces, its connection management, the
//! wire protocol of libfabric's `tcp` provider and the message engine, as machines without I/O.
//!
//! There is no socket here, no clock, no lock, no pointer and no randomness: a driver has those,
//! and feeds the machines. The same machines run in user space, in the kernel and in the simulated
//! network of the conformance suite.
//!
//! * [`Domain`] holds endpoints, completion queues and operations: see its module for the calls a
//!   driver makes and their order;
//! * [`PassiveEndpoint`] turns transport connections into connection requests;
//! * [`EventQueue`] keeps events, bounded, until they are read;
//! * [`memory`] says what of it peers can reach;
//! * [`info`], [`hints`] and [`negotiate()`] describe what a provider offers and an application wants;
//! * [`wire`] is the protocol.
//!
//! A peer's bytes can end its own connection, and do nothing else: everything they can make grow is
//! bounded, and all memory for it is asked for in a way that can fail.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod address;
pub mod attr;
pub mod completion_queue;
pub mod connection;
mod count;
pub mod counter;
pub mod domain;
pub mod endpoint;
pub mod enums;
mod errno;
pub mod error;
pub mod event_queue;
pub mod fabric;
pub mod flags;
pub mod hints;
pub mod info;
pub mod liveness;
pub mod loan;
pub mod memory;
pub mod message;
pub mod multi_receive;
pub mod negotiate;
pub mod notice;
pub mod offer;
mod operation;
pub mod passive_endpoint;
mod print;
mod reason;
mod receive;
pub mod report;
pub mod rma;
pub mod shared_receive;
mod slab;
pub mod statistics;
pub mod time;
mod unexpected;
pub mod version;
pub mod wire;

pub use core::net::SocketAddr;

pub use address::Address;
pub use completion_queue::{Completion, CompletionError, CqId};
pub use counter::{CntrId, Counter};
pub use domain::{Domain, TransportCommand};
pub use endpoint::{EndpointAttr, EpId, Origin, State};
pub use enums::{AddrFormat, AvType, EpType, Progress, Protocol, ResourceMgmt, Threading};
pub use errno::Errno;
pub use error::{Error, Result};
pub use event_queue::{Entry, Event, EventQueue, Fid};
pub use fabric::Fabric;
pub use flags::{Caps, Mode, MrMode, OpFlags, Order};
pub use hints::Hints;
pub use info::Info;
pub use memory::MrId;
pub use negotiate::{Refusal, negotiate, negotiate_into};
pub use operation::OpId;
pub use passive_endpoint::{PassiveEndpoint, RequestId};
pub use reason::Reason;
pub use shared_receive::{SrxAttr, SrxId};
pub use statistics::{DomainStatistics, Endings, EndpointStatistics, ListenerStatistics, Tally, Traffic};
pub use time::{Deadline, Instant, TimeLimits};
pub use version::Version;

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The conformance suite of kofi's object model, and the simulated network it was made in.
//!
//! * [`World`] is the object model as one linear API: what a provider has to offer to be tested;
//! * [`Simulator`] is a world in memory, from a seed: kofi's machines over a network that delays,
//!   splits, fills up, breaks and lies;
//! * [`Tcp`] is the real library over real sockets;
//! * [`allocator`] makes memory scarce inside of the machines.

pub mod allocator;
pub mod campaign;
pub mod simulator;
pub mod suite;
pub mod tcp;
pub mod world;

pub use allocator::FailingAllocator;
pub use simulator::Simulator;
pub use tcp::Tcp;
pub use world::World;

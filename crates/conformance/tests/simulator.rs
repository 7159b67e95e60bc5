// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The suite in the simulator.

use kofi_conformance::{FailingAllocator, Simulator};

#[global_allocator]
static ALLOCATOR: FailingAllocator = FailingAllocator;

fn open() -> Simulator {
    Simulator::new(1)
}

kofi_conformance::conformance!(open);

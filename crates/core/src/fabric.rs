// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The fabric (`fi_fabric(3)`): what is open in it, so that it closes last.

use crate::count::list;
use crate::{Error, Result};

/// Counts of the objects that are open in a fabric.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Fabric {
    /// Domains.
    pub domains: usize,
    /// Passive endpoints.
    pub passive_endpoints: usize,
    /// Event queues.
    pub event_queues: usize,
    /// Wait sets.
    pub wait_sets: usize,
}

impl Fabric {
    /// Whether the fabric can be closed.
    ///
    /// # Errors
    /// -FI_EBUSY while anything is open in it.
    pub fn check_close(&self) -> Result<()> {
        if *self == Self::default() {
            return Ok(());
        }
        let Self { domains, passive_endpoints, event_queues, wait_sets } = self;
        Err(Error::Busy {
            call: "fi_close",
            object: "fabric",
            users: list(&[
                (*domains, "domain"),
                (*passive_endpoints, "passive endpoint"),
                (*event_queues, "event queue"),
                (*wait_sets, "wait set"),
            ]),
        })
    }
}

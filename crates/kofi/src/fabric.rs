// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The fabric (`fi_fabric(3)`): where passive endpoints, event queues and domains are opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use kofi_core::attr::EqAttr;
use kofi_core::info::FabricAttr;
use kofi_core::{Fid, Info, Result};

use crate::domain::Domain;
use crate::event_queue::EventQueue;
use crate::live::{self, Inspect, Report};
use crate::passive_endpoint::PassiveEndpoint;
use crate::provider::{self, FabricOps};
use crate::returned::Returned;
use crate::wait::lock;
use crate::wait_set::WaitSet;

/// A fabric.
#[derive(Clone)]
pub struct Fabric {
    ops: Arc<dyn FabricOps>,
    shared: Arc<FabricShared>,
}

/// What all objects of a fabric know of it; for providers.
pub struct FabricShared {
    fid: Fid,
    attr: FabricAttr,
    children: Mutex<kofi_core::Fabric>,
    /// What can be looked at.
    objects: Mutex<Vec<Weak<dyn Inspect>>>,
}

/// Identities are never used twice in a process, so that objects of two fabrics differ, too.
static NEXT_FID: AtomicU64 = AtomicU64::new(1);

fn next_fid() -> Fid {
    Fid(NEXT_FID.fetch_add(1, Ordering::Relaxed))
}

impl FabricShared {
    pub(crate) fn fid(&self) -> Fid {
        self.fid
    }

    pub(crate) fn new_fid(&self) -> Fid {
        next_fid()
    }

    /// An object of the fabric that can be looked at, for as long as it lives.
    pub(crate) fn add_object(&self, object: Weak<dyn Inspect>) {
        live::remember(&self.objects, object);
    }

    pub(crate) fn objects(&self) -> Vec<Weak<dyn Inspect>> {
        lock(&self.objects).clone()
    }

    pub(crate) fn describe(&self, report: &mut Report) {
        let FabricAttr { name, prov_name, .. } = &self.attr;
        report.object("fabric").number("fid", self.fid.0).text("provider", prov_name).text("name", name);
    }

    /// Counts an object in, until the value is dropped.
    pub(crate) fn child(self: &Arc<Self>, count: fn(&mut kofi_core::Fabric) -> &mut usize) -> Child {
        *count(&mut lock(&self.children)) += 1;
        Child { fabric: self.clone(), count }
    }
}

/// Keeps a fabric from closing.
pub(crate) struct Child {
    fabric: Arc<FabricShared>,
    count: fn(&mut kofi_core::Fabric) -> &mut usize,
}

impl Drop for Child {
    fn drop(&mut self) {
        *(self.count)(&mut lock(&self.fabric.children)) -= 1;
    }
}

impl Fabric {
    /// `fi_fabric`: opens the fabric that `info` names, at its provider.
    ///
    /// # Errors
    /// -FI_ENODEV when there is no such provider.
    pub fn open(info: &Info) -> Result<Self> {
        let provider = provider::find(&info.fabric_attr.prov_name)?;
        let ops = provider.fabric(&info.fabric_attr)?;
        let shared = Arc::new(FabricShared {
            fid: next_fid(),
            attr: info.fabric_attr.clone(),
            children: Mutex::default(),
            objects: Mutex::default(),
        });
        live::opened(&shared);
        Ok(Self { ops, shared })
    }

    /// `fi_eq_open`.
    ///
    /// # Errors
    /// -FI_EINVAL for attributes that make no sense, -FI_ENOMEM, -FI_EMFILE.
    pub fn event_queue(&self, attr: EqAttr) -> Result<EventQueue> {
        EventQueue::open(&self.shared, &attr, None)
    }

    /// `fi_eq_open` into a wait set: `attr.wait_obj` is taken to be `WaitObj::Set`.
    ///
    /// # Errors
    /// As for [`event_queue`](Self::event_queue).
    pub fn event_queue_in(&self, set: &WaitSet, attr: EqAttr) -> Result<EventQueue> {
        let attr = EqAttr { wait_obj: kofi_core::attr::WaitObj::Set, ..attr };
        EventQueue::open(&self.shared, &attr, Some(set))
    }

    /// `fi_wait_open`.
    ///
    /// # Errors
    /// -FI_EMFILE when there are no descriptors left.
    pub fn wait_set(&self) -> Result<WaitSet> {
        WaitSet::open(&self.shared)
    }

    /// `fi_passive_ep`: bound to `info.src_addr` at once.
    ///
    /// # Errors
    /// -FI_EADDRINUSE or -FI_EADDRNOTAVAIL when the address cannot be had, -FI_EINVAL for an info
    /// that is no message endpoint's.
    pub fn passive_endpoint(&self, info: &Info) -> Result<PassiveEndpoint> {
        Ok(PassiveEndpoint::new(self.ops.passive_ep(&self.shared, info)?))
    }

    /// `fi_domain`.
    ///
    /// # Errors
    /// -FI_EMFILE when there are no descriptors left, -FI_ENOMEM.
    pub fn domain(&self, info: &Info) -> Result<Domain> {
        Ok(Domain::new(self.ops.domain(&self.shared, info)?))
    }

    /// `fi_close`.
    ///
    /// # Errors
    /// -FI_EBUSY while anything is open in the fabric; it is given back.
    pub fn close(self) -> Result<(), Returned<Self>> {
        let check = || lock(&self.shared.children).check_close();
        let result = check().or_else(|_| {
            // Somebody may only have been looking at what is in use.
            live::settled();
            check()
        });
        Returned::check(self, result).map(drop)
    }
}

impl std::fmt::Debug for Fabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fabric").finish_non_exhaustive()
    }
}

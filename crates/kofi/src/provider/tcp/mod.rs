// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The `tcp` provider: message endpoints over TCP, wire compatible with libfabric's `tcp`.

use std::sync::Arc;

use kofi_core::info::{FabricAttr, Info};
use kofi_core::{EpType, Error, Result};

use super::{DomainOps, FabricOps, PassiveEndpointOps, Provider};
use crate::fabric::FabricShared;
use crate::getinfo::Query;

mod completion_queue;
mod counter;
mod domain;
mod endpoint;
mod environment;
mod locked;
mod memory_region;
mod offers;
mod passive_endpoint;
mod shared_receive;
mod socket;

/// The provider.
pub(crate) struct Tcp;

impl Provider for Tcp {
    fn name(&self) -> &'static str {
        kofi_core::offer::NAME
    }

    fn offers(&self, query: &Query) -> Result<Vec<Info>> {
        offers::offers(query)
    }

    fn fabric(&self, _attr: &FabricAttr) -> Result<Arc<dyn FabricOps>> {
        Ok(Arc::new(TcpFabric))
    }
}

struct TcpFabric;

impl FabricOps for TcpFabric {
    fn domain(&self, fabric: &Arc<FabricShared>, info: &Info) -> Result<Arc<dyn DomainOps>> {
        Ok(Arc::new(domain::TcpDomain::open(fabric, info)?))
    }

    fn passive_ep(&self, fabric: &Arc<FabricShared>, info: &Info) -> Result<Arc<dyn PassiveEndpointOps>> {
        check_type("fi_passive_ep", info)?;
        Ok(Arc::new(passive_endpoint::TcpPassiveEndpoint::open(fabric, info)?))
    }
}

fn check_type(call: &'static str, info: &Info) -> Result<()> {
    match info.ep_attr.ep_type {
        EpType::Msg => Ok(()),
        _ => {
            Err(Error::Invalid { call, problem: "the info is not for FI_EP_MSG; ask getinfo for that type" })
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The domain, shown to other processes.

use smallvec::SmallVec;

use super::Shared;
use crate::live::{self, Inspect, Report, patiently};

/// Endpoints that are looked at under one lock, to be shown to other processes.
const GLANCE: u32 = 32;

impl Inspect for Shared {
    fn inspect(&self, fabric: u64, report: &mut Report) {
        let end = live::patience();
        let mut sums = None;
        let mut next = Some(0);
        while let Some(first) = next {
            // A few at a time, so that nobody waits for long.
            let Some(state) = patiently(&self.state, end) else { break };
            let sums = sums.get_or_insert_with(|| {
                let queues: Vec<_> =
                    state.machine.cqs().filter_map(|cq| state.machine.cq_statistics(cq)).collect();
                (state.machine.statistics_without_open(), queues)
            });
            let places = state.machine.endpoint_places();
            let last = places.min(first + GLANCE);
            let endpoints = (first..last).filter_map(|index| state.machine.endpoint_at(index));
            let endpoints: SmallVec<[_; GLANCE as usize]> =
                endpoints.filter_map(|ep| state.statistics(ep).ok()).collect();
            drop(state);
            for endpoint in &endpoints {
                sums.0.add(endpoint);
                report.endpoint(self.fid.0, endpoint);
            }
            next = (last < places).then_some(last);
        }
        for queue in sums.iter().flat_map(|(_, queues)| queues) {
            let mut object = report.object("completion_queue");
            object.number("domain", self.fid.0).completion_queue(queue);
        }
        let mut object = report.object("domain");
        object.number("fid", self.fid.0).number("fabric", fabric).text("name", &self.name);
        if next.is_some() {
            object.flag("busy", true);
        }
        if let Some((sums, _)) = &sums {
            object.domain(sums);
        }
    }
}

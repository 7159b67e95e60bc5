// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What is said of the live objects: one JSON object a line, within a bound.

use kofi_core::EndpointStatistics;
use kofi_core::report::Object;

/// Endpoints that are told of. Of more only the sums are.
const MAX_ENDPOINTS: usize = 4096;

/// The lines.
pub(crate) struct Report {
    text: String,
    endpoints: usize,
    left_out: u64,
}

impl Report {
    pub(super) fn new() -> Self {
        Self { text: String::new(), endpoints: 0, left_out: 0 }
    }

    /// An object, of this kind.
    pub(crate) fn object(&mut self, kind: &str) -> Object<'_> {
        Object::new(&mut self.text, kind)
    }

    /// An endpoint.
    pub(crate) fn endpoint(&mut self, domain: u64, of: &EndpointStatistics) {
        if self.endpoints == MAX_ENDPOINTS {
            self.left_out += 1;
            return;
        }
        self.endpoints += 1;
        self.object("endpoint").number("fid", of.fid.0).number("domain", domain).endpoint(of);
    }

    /// The whole text, with its end.
    pub(super) fn finish(mut self) -> String {
        if self.left_out > 0 {
            let left_out = self.left_out;
            self.object("left_out").number("endpoints", left_out);
        }
        // Who reads it knows that nothing is missing.
        self.object("end");
        self.text
    }
}

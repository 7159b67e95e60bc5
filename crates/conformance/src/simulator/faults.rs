// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Trouble on demand.

use kofi_core::SocketAddr;

use super::Simulator;
use super::network::{Piece, Profile};
use crate::allocator;
use crate::world::{Death, Endpoint, Faults};

impl Simulator {
    /// The driver cannot keep what the `nth` read from now on gave it.
    pub fn fail_staging(&mut self, nth: u64) {
        self.fail_staging = nth;
    }

    /// Other manners of the network from now on.
    pub fn set_profile(&mut self, profile: Profile) {
        self.network.profile = profile;
    }
}

impl Faults for Simulator {
    fn no_descriptors_at_accept(&mut self, count: usize) {
        self.no_accept = count;
    }

    fn no_descriptors_at_connect(&mut self, count: usize) {
        self.no_connect = count;
    }

    fn silence(&mut self, address: SocketAddr) {
        self.network.silent.push(address);
    }

    fn die_after(&mut self, ep: Endpoint, bytes: u64, death: Death) {
        if let Some(end) = self.endpoints.get(ep.0).and_then(|endpoint| endpoint.link.end) {
            self.network.die_after(end, bytes, death);
        }
    }

    fn next_connect_dies_after(&mut self, bytes: u64, death: Death) {
        self.network.next_death[0] = Some((bytes, death));
    }

    fn next_accept_dies_after(&mut self, bytes: u64, death: Death) {
        self.network.next_death[1] = Some((bytes, death));
    }

    fn piece(&mut self, bytes: usize) {
        self.network.profile.piece = Piece::AtMost(bytes);
    }

    fn capacity(&mut self, bytes: usize) {
        self.network.profile.capacity = bytes;
    }

    fn fail_allocation(&mut self, nth: u64) -> bool {
        let installed = allocator::installed();
        allocator::fail(nth);
        installed
    }

    fn calm(&mut self) {
        allocator::fail(0);
        let network = &mut self.network;
        network.silent.clear();
        network.next_death = [None; 2];
        network.profile = Profile::default();
        (self.no_accept, self.no_connect, self.fail_staging) = (0, 0, 0);
    }
}

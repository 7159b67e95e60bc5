// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Peers that are no endpoints.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kofi_core::SocketAddr;

use super::Simulator;
use super::network::{End, Found, Owner, Waker};
use crate::world::{Death, Raw, RawListener, RawPeers};

impl Simulator {
    fn add_raw(&mut self, end: End) -> Raw {
        let raw = Raw(self.raws.len() as u32);
        self.raws.push(end);
        self.network.set_owner(end, Owner::Raw(raw));
        self.network.unobserve(end);
        raw
    }

    fn raw_end(&self, raw: Raw) -> End {
        self.raws[raw.0 as usize]
    }
}

impl RawPeers for Simulator {
    fn connect(&mut self, address: SocketAddr) -> Raw {
        let host = match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 1)),
        };
        let end = self.network.connect(SocketAddr::new(host, 0), address, Owner::Nobody);
        self.add_raw(end)
    }

    fn listen(&mut self, address: SocketAddr) -> (RawListener, SocketAddr) {
        let raw = RawListener(self.raw_listeners.len() as u32);
        let bound = self.network.bind(address);
        let address = bound.unwrap_or_else(|errno| panic!("raw listener at {address}: {errno}"));
        let listener = self.network.listen(address, 64, Waker::Raw(raw));
        self.raw_listeners
            .push(listener.unwrap_or_else(|errno| panic!("raw listener at {address}: {errno}")));
        (raw, address)
    }

    fn accept(&mut self, listener: RawListener) -> Option<Raw> {
        let end = self.network.accept(self.raw_listeners[listener.0 as usize])?;
        Some(self.add_raw(end))
    }

    fn write(&mut self, raw: Raw, bytes: &[u8]) {
        let end = self.raw_end(raw);
        if self.network.is_open(end) {
            self.network.put(end, bytes);
        }
    }

    fn read(&mut self, raw: Raw) -> Vec<u8> {
        let end = self.raw_end(raw);
        let mut bytes = Vec::new();
        while let Found::Bytes(_) = self.network.read(end, usize::MAX, &mut bytes) {}
        bytes
    }

    fn ended(&mut self, raw: Raw) -> bool {
        let end = self.raw_end(raw);
        self.network.readable(end) == 0 && self.network.has_ended(end)
    }

    fn finish(&mut self, raw: Raw) {
        let end = self.raw_end(raw);
        if self.network.is_open(end) {
            self.network.finish(end);
        }
    }

    fn close(&mut self, raw: Raw) {
        self.network.close(self.raw_end(raw));
    }

    fn reset(&mut self, raw: Raw) {
        let end = self.raw_end(raw);
        if self.network.is_open(end) {
            self.network.die(end, Death::Reset);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! A network namespace.

use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ptr::NonNull;

use kofi_core::{Errno, Error, Result};

use super::raw;
use crate::c::Addr;

pub(crate) struct Net(NonNull<raw::Net>);

// SAFETY: a reference to a namespace is anybody's.
unsafe impl Send for Net {}
// SAFETY: as above.
unsafe impl Sync for Net {}

/// An address of an interface that is up.
#[derive(Clone, Copy)]
pub(crate) struct Interface {
    name: [u8; 16],
    pub(crate) addr: SocketAddr,
    pub(crate) prefix: u32,
    pub(crate) loopback: bool,
}

impl Interface {
    pub(crate) fn name(&self) -> &str {
        crate::c::text(&self.name)
    }
}

impl Net {
    /// Holds that namespace, or the caller's own.
    pub(crate) fn get(net: *mut raw::Net) -> Result<Self> {
        // SAFETY: null, or a namespace that the caller has a hold on.
        let net = unsafe { raw::kofi_shim_net_get(net) };
        NonNull::new(net).map(Self).ok_or(Error::NoMemory("a network namespace"))
    }

    pub(super) fn raw(&self) -> *mut raw::Net {
        self.0.as_ptr()
    }

    /// Its number, as in /proc/PID/ns/net.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: we hold it.
        unsafe { raw::kofi_shim_net_number(self.raw()) }
    }

    /// Addresses of interfaces that are up.
    pub(crate) fn interfaces(&self) -> Result<Vec<Interface>> {
        const NO_MEMORY: Error = Error::NoMemory("a list of interfaces");
        let empty = raw::Interface { name: [0; 16], addr: Addr::default(), prefix: 0, loopback: 0 };
        let mut places: Vec<raw::Interface> = Vec::new();
        loop {
            // SAFETY: there are as many places as it is told.
            let count = unsafe { raw::kofi_shim_interfaces(self.raw(), places.as_mut_ptr(), places.len()) };
            if count <= places.len() {
                places.truncate(count);
                break;
            }
            places.try_reserve(count).map_err(|_| NO_MEMORY)?;
            places.resize(count, empty);
        }
        let mut found = Vec::new();
        found.try_reserve(places.len()).map_err(|_| NO_MEMORY)?;
        found.extend(places.iter().filter_map(|place| {
            let raw::Interface { name, prefix, .. } = *place;
            let addr = place.addr.get()?;
            Some(Interface { name, addr, prefix, loopback: place.loopback != 0 })
        }));
        Ok(found)
    }

    /// Which of our addresses reaches `dest`; with port 0.
    pub(crate) fn route(&self, dest: SocketAddr) -> Result<SocketAddr, Errno> {
        let mut local = Addr::default();
        // SAFETY: both are there for the call.
        let error = unsafe { raw::kofi_shim_route(self.raw(), &Addr::from(dest), &mut local) };
        if error < 0 {
            return Err(Errno::from_raw(-error));
        }
        local.get().ok_or(Errno::EADDRNOTAVAIL)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { raw::kofi_shim_net_put(self.0.as_ptr()) };
    }
}

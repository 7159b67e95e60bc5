// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Connection requests that were read, and not decided on yet: the fabric's, whoever listened for them.
//!
//! C names them by number, which is looked up here: no pointer of a request that is used up is ever followed.

use alloc::vec::Vec;
use core::net::SocketAddr;

use kofi_core::passive_endpoint::Taken;
use kofi_core::{Error, Instant, Result};

use crate::error::system;
use crate::notice::{self, What};
use crate::sys::socket::Socket;
use crate::sys::{Class, Counted, now};

/// The transport of a request, until accept or reject uses it.
pub(crate) struct Request {
    pub(crate) socket: Socket,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) taken: Taken,
    _counted: Counted,
}

impl Request {
    pub(crate) fn new(socket: Socket, local: SocketAddr, peer: SocketAddr, taken: Taken) -> Self {
        Self { socket, local, peer, taken, _counted: Counted::new(Class::ConnectionRequest) }
    }
}

#[derive(Default)]
struct Slot {
    generation: u32,
    request: Option<Request>,
    /// For a request that is about to be read, or was accepted and may come back.
    reserved: bool,
}

/// The table.
#[derive(Default)]
pub(crate) struct Requests {
    slots: Vec<Slot>,
}

/// A name, for C; never 0.
fn handle(index: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | (index as u64 + 1)
}

impl Requests {
    fn index(handle: u64) -> Option<usize> {
        usize::try_from(handle & u64::from(u32::MAX)).ok()?.checked_sub(1)
    }

    fn slot(&mut self, wanted: u64) -> Option<&mut Slot> {
        let index = Self::index(wanted)?;
        self.slots.get_mut(index).filter(|slot| handle(index, slot.generation) == wanted)
    }

    /// A place for a request that is about to be read.
    pub(crate) fn reserve(&mut self) -> Result<u64> {
        const NO_MEMORY: Error = Error::NoMemory("a connection request");
        let free = self.slots.iter().position(|slot| slot.request.is_none() && !slot.reserved);
        let index = match free {
            Some(index) => index,
            None => {
                self.slots.try_reserve(1).map_err(|_| NO_MEMORY)?;
                self.slots.push(Slot::default());
                self.slots.len() - 1
            }
        };
        let slot = self.slots.get_mut(index).ok_or(NO_MEMORY)?;
        slot.reserved = true;
        slot.generation = slot.generation.wrapping_add(1);
        Ok(handle(index, slot.generation))
    }

    /// Puts a request into its place, also one that comes back because it could not be accepted.
    pub(crate) fn put(&mut self, handle: u64, request: Request) {
        if let Some(slot) = self.slot(handle) {
            slot.reserved = false;
            slot.request = Some(request);
        }
    }

    /// The place is not needed.
    pub(crate) fn release(&mut self, handle: u64) {
        if let Some(slot) = self.slot(handle) {
            slot.reserved = false;
        }
    }

    /// What an endpoint that is to accept the request has to know.
    pub(crate) fn look(&mut self, call: &'static str, handle: u64) -> Result<Taken> {
        let request = self.slot(handle).and_then(|slot| slot.request.as_ref());
        Ok(request.ok_or(Error::Stale { call, object: "connection request" })?.taken)
    }

    /// The request, for whoever asks first. Its place stays reserved, so that it can come back.
    pub(crate) fn take(&mut self, call: &'static str, handle: u64) -> Result<Request> {
        let slot = self.slot(handle).ok_or(Error::Stale { call, object: "connection request" })?;
        let request = slot.request.take().ok_or(Error::Stale { call, object: "connection request" })?;
        slot.reserved = true;
        Ok(request)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.request.is_some()).count()
    }

    /// Drops those whose time for a decision is over.
    pub(crate) fn expire(&mut self, now: Instant) {
        for slot in &mut self.slots {
            let late = slot.request.take_if(|request| request.taken.check("fi_accept", now).is_err());
            if let Some(Request { local, peer, .. }) = late {
                notice::tell(Some(local), Some(peer), &What::Rejected(0));
            }
        }
    }

    /// When the next one is over.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let requests = self.slots.iter().filter_map(|slot| slot.request.as_ref());
        requests.filter_map(|request| Some(request.taken.deadline?.at)).min()
    }

    /// All of them, for the end of the fabric.
    pub(crate) fn drain(&mut self) -> Vec<Request> {
        let mut all = Vec::new();
        for slot in &mut self.slots {
            if let Some(request) = slot.request.take()
                && all.try_reserve(1).is_ok()
            {
                all.push(request);
            }
        }
        all
    }
}

/// `fi_reject`: tells the peer, and ends the connection.
pub(crate) fn reject(socket: Socket, local: SocketAddr, peer: SocketAddr, data: &[u8]) -> Result<()> {
    let message = kofi_core::connection::reject(data)?;
    notice::tell(Some(local), Some(peer), &What::Rejected(data.len()));
    // The message is the first thing on this connection: it fits into the socket's buffer. A peer that is gone needs no answer.
    let _ = socket.write(&message);
    socket.close(false);
    Ok(())
}

/// `fi_reject` by name.
pub(crate) fn reject_handle(
    requests: &crate::sys::lock::Mutex<Requests>,
    handle: u64,
    data: &[u8],
) -> Result<()> {
    const CALL: &str = "fi_reject";
    // Refused before the request is used up.
    kofi_core::connection::reject(data)?;
    let request = {
        let mut requests = requests.lock();
        requests.look(CALL, handle)?.check(CALL, now())?;
        let request = requests.take(CALL, handle)?;
        requests.release(handle);
        request
    };
    reject(request.socket, request.local, request.peer, data).map_err(|error| system(CALL, error.errno()))
}

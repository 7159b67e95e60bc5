// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The connection request: what an `FI_CONNREQ` event brings (`fi_cm(3)`).

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use kofi_core::passive_endpoint::Taken;
use kofi_core::{Error, Fid, Info, Result, SocketAddr};

use crate::clock::now;
use crate::notice::{self, Subject, What};
use crate::wait::lock;

/// A peer that asks for a connection. It is good for one accept or one reject; dropped without
/// either, the peer is rejected with no data.
pub struct ConnectionRequest {
    listener: Fid,
    info: Box<Info>,
    data: Vec<u8>,
    pending: Arc<Pending>,
}

/// The transport of a request, until accept or reject has used it.
pub(crate) struct Pending {
    listener: Fid,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) taken: Taken,
    transport: Mutex<Option<OwnedFd>>,
    reject: fn(OwnedFd, &[u8]) -> Result<()>,
}

impl Pending {
    /// The transport, for whoever asks first.
    pub(crate) fn take(&self, call: &'static str) -> Result<OwnedFd> {
        lock(&self.transport).take().ok_or(Error::Stale { call, object: "connection request" })
    }

    /// The limit for the decision has passed: the peer is let go. A later accept or reject finds that.
    pub(crate) fn expire(&self) {
        let _ = self.take("fi_accept");
    }

    fn rejected(&self, data_len: usize) {
        let subject = Subject { fid: self.listener, local: Some(self.local), peer: Some(self.peer) };
        notice::tell(subject, What::Rejected(data_len));
    }

    /// Gives the transport back after an accept that failed: it may still be rejected.
    pub(crate) fn put_back(&self, transport: OwnedFd) {
        *lock(&self.transport) = Some(transport);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Ok(transport) = self.take("fi_reject") {
            // The peer is told if that is possible; it sees the end of the connection in any case.
            let _ = (self.reject)(transport, &[]);
            self.rejected(0);
        }
    }
}

impl ConnectionRequest {
    pub(crate) fn new(
        listener: Fid,
        info: Info,
        data: Vec<u8>,
        addresses: (SocketAddr, SocketAddr),
        taken: Taken,
        transport: OwnedFd,
        reject: fn(OwnedFd, &[u8]) -> Result<()>,
    ) -> Self {
        let (local, peer) = addresses;
        let pending =
            Pending { listener, local, peer, taken, transport: Mutex::new(Some(transport)), reject };
        Self { listener, info: Box::new(info), data, pending: Arc::new(pending) }
    }

    /// The passive endpoint that it came to.
    pub fn listener(&self) -> Fid {
        self.listener
    }

    /// What to open a domain and an endpoint with: `dest_addr` is the peer's address.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The same, to be changed before an endpoint is made with it: queue sizes, limits of segments,
    /// which directions it uses.
    pub fn info_mut(&mut self) -> &mut Info {
        &mut self.info
    }

    /// What the peer gave when it connected.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    pub(crate) fn pending(&self) -> &Arc<Pending> {
        &self.pending
    }

    /// `fi_reject`: tells the peer, with up to 256 bytes of data.
    ///
    /// # Errors
    /// -FI_EINVAL with too much data, or after an accept; -FI_ETIMEDOUT when the limit for the
    /// decision has passed. The request stays as it was.
    pub fn reject(&self, data: &[u8]) -> Result<()> {
        kofi_core::connection::reject(data)?;
        self.pending.taken.check("fi_reject", now())?;
        (self.pending.reject)(self.pending.take("fi_reject")?, data)?;
        self.pending.rejected(data.len());
        Ok(())
    }
}

impl std::fmt::Debug for ConnectionRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionRequest")
            .field("listener", &self.listener)
            .field("peer", &self.pending.peer)
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! TCP sockets: without delay, and nothing here waits.

use core::ffi::c_int;
use core::net::SocketAddr;
use core::ptr::{NonNull, null_mut};
use core::time::Duration;

use kofi_core::liveness::Answers;
use kofi_core::{Errno, Result};

use super::lease::Lease;
use super::net::Net;
use super::raw::{self, Piece};
use super::work::Pump;
use crate::c::Addr;

/// What can have happened to a socket.
pub(crate) const IN: u32 = 1;
pub(crate) const OUT: u32 = 2;
/// The peer's stream has ended, or the connection broke.
pub(crate) const OVER: u32 = 4;

pub(crate) struct Socket(NonNull<raw::Sock>);

// SAFETY: the kernel's sockets have locks of their own.
unsafe impl Send for Socket {}
// SAFETY: as above.
unsafe impl Sync for Socket {}

/// How far connecting has come.
pub(crate) enum Connecting {
    Done(SocketAddr),
    Pending,
    Failed(Errno),
}

fn check(result: c_int) -> Result<(), Errno> {
    if result < 0 { Err(Errno::from_raw(-result)) } else { Ok(()) }
}

impl Socket {
    /// A socket for connections from or to `addr`.
    fn new(net: &Net, addr: &SocketAddr) -> Result<Self, Errno> {
        let mut sock = null_mut();
        // SAFETY: all are there for the call.
        check(unsafe { raw::kofi_shim_sock_new(net.raw(), &Addr::from(*addr), &mut sock) })?;
        NonNull::new(sock).map(Self).ok_or(Errno::ENOMEM)
    }

    /// A socket bound to `addr`, to listen on.
    pub(crate) fn bound(net: &Net, addr: &SocketAddr) -> Result<Self, Errno> {
        let socket = Self::new(net, addr)?;
        // SAFETY: the socket lives as long as we do; so below.
        check(unsafe { raw::kofi_shim_sock_bind(socket.raw(), &Addr::from(*addr), false) })?;
        Ok(socket)
    }

    pub(crate) fn listen(&self, backlog: usize) -> Result<(), Errno> {
        let backlog = c_int::try_from(backlog).unwrap_or(c_int::MAX);
        // SAFETY: as above.
        check(unsafe { raw::kofi_shim_sock_listen(self.raw(), backlog) })
    }

    /// The next connection, with our address and the peer's.
    pub(crate) fn accept(&self) -> Result<(Self, SocketAddr, SocketAddr), Errno> {
        let (mut sock, mut local, mut peer) = (null_mut(), Addr::default(), Addr::default());
        // SAFETY: as above.
        check(unsafe { raw::kofi_shim_sock_accept(self.raw(), &mut sock, &mut local, &mut peer) })?;
        let socket = NonNull::new(sock).map(Self).ok_or(Errno::ENOMEM)?;
        match (local.get(), peer.get()) {
            (Some(local), Some(peer)) => Ok((socket, local, peer)),
            _ => Err(Errno::ECONNABORTED),
        }
    }

    /// A socket that is being connected from `source`, if given, to `dest`.
    pub(crate) fn start_connecting(
        net: &Net,
        source: Option<SocketAddr>,
        dest: &SocketAddr,
    ) -> Result<Self, Errno> {
        let socket = Self::new(net, dest)?;
        if let Some(source) = source.filter(|source| source.is_ipv4() == dest.is_ipv4()) {
            // SAFETY: as above.
            check(unsafe {
                raw::kofi_shim_sock_bind(socket.raw(), &Addr::from(source), source.port() == 0)
            })?;
        }
        // SAFETY: as above.
        check(unsafe { raw::kofi_shim_sock_connect(socket.raw(), &Addr::from(*dest)) })?;
        Ok(socket)
    }

    pub(crate) fn connecting(&self) -> Connecting {
        let mut local = Addr::default();
        // SAFETY: as above.
        match unsafe { raw::kofi_shim_sock_connecting(self.raw(), &mut local) } {
            0 => Connecting::Pending,
            error @ ..0 => Connecting::Failed(Errno::from_raw(-error)),
            _ => local.get().map_or(Connecting::Failed(Errno::EADDRNOTAVAIL), Connecting::Done),
        }
    }

    /// Its own address.
    pub(crate) fn local(&self) -> Result<SocketAddr, Errno> {
        let mut local = Addr::default();
        // SAFETY: as above.
        check(unsafe { raw::kofi_shim_sock_name(self.raw(), &mut local) })?;
        local.get().ok_or(Errno::EADDRNOTAVAIL)
    }

    /// Writes what it takes of the pieces, `len` bytes. With `more`, something follows at once.
    ///
    /// # Safety
    /// Each piece is memory that may be read.
    pub(crate) unsafe fn send(&self, pieces: &mut [Piece], len: usize, more: bool) -> Result<usize, Errno> {
        // SAFETY: as above, and as the caller says.
        count(unsafe { raw::kofi_shim_sock_send(self.raw(), pieces.as_mut_ptr(), pieces.len(), len, more) })
    }

    /// The same, but TCP reads the pieces where they are, while the lease is out. Gives what has happened to it, whatever was written: if
    /// it is not [`BACK`](super::lease::BACK) it is out now.
    ///
    /// # Safety
    /// Each piece is memory that may be read, and is not given back to its owner while the lease is out.
    pub(crate) unsafe fn lend(&self, lease: &Lease, pieces: &[Piece]) -> (Result<usize, Errno>, u32) {
        let mut events = 0;
        // SAFETY: as above, and as the caller says.
        let sent = unsafe {
            raw::kofi_shim_sock_lend(self.raw(), lease.raw(), pieces.as_ptr(), pieces.len(), &mut events)
        };
        (count(sent), events)
    }

    /// Whether the connection is broken, as far as TCP knows.
    pub(crate) fn is_broken(&self) -> bool {
        // SAFETY: as above.
        unsafe { raw::kofi_shim_sock_broken(self.raw()) }
    }

    /// Has something sent, for network cards that let go of a packet when they send another.
    pub(crate) fn nudge(&self) {
        // SAFETY: as above.
        unsafe { raw::kofi_shim_sock_nudge(self.raw()) };
    }

    /// Reads what there is into the pieces, `len` bytes, in order.
    ///
    /// # Safety
    /// Each piece is memory that may be written.
    pub(crate) unsafe fn recv(&self, pieces: &mut [Piece], len: usize) -> Result<usize, Errno> {
        // SAFETY: as above, and as the caller says.
        count(unsafe { raw::kofi_shim_sock_recv(self.raw(), pieces.as_mut_ptr(), pieces.len(), len) })
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut pieces = [Piece { base: bytes.as_ptr().addr(), len: bytes.len() }];
        // SAFETY: the piece is the slice.
        unsafe { self.send(&mut pieces, bytes.len(), false) }
    }

    pub(crate) fn read(&self, bytes: &mut [u8]) -> Result<usize, Errno> {
        let mut pieces = [Piece { base: bytes.as_mut_ptr().addr(), len: bytes.len() }];
        // SAFETY: the piece is the slice.
        unsafe { self.recv(&mut pieces, bytes.len()) }
    }

    /// Reads and drops what has arrived, within reason. `true`: the peer has ended its stream, or the connection broke.
    pub(crate) fn discard(&self) -> bool {
        let mut waste = [0; 512];
        for _ in 0..2048 {
            match self.read(&mut waste) {
                Ok(1..) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return false,
                Ok(_) | Err(_) => return true,
            }
        }
        false
    }

    /// What TCP knows of the peer's answers.
    pub(crate) fn answers(&self) -> Answers {
        let (mut outstanding, mut unanswered, mut heard) = (0, 0, 0);
        // SAFETY: as above.
        unsafe { raw::kofi_shim_sock_answers(self.raw(), &mut outstanding, &mut unanswered, &mut heard) };
        Answers {
            outstanding: outstanding != 0,
            unanswered: unanswered != 0,
            heard: Duration::from_millis(heard.into()),
        }
    }

    /// Tells `pump` what happens to it from now on, and what it is like now. Only the last one asked is told.
    ///
    /// The pump outlives that: who has it closes the socket, or unwatches it, first.
    pub(crate) fn watch(&self, pump: &Pump, cookie: u64) -> Result<(), Errno> {
        // SAFETY: as above; and see the promise.
        check(unsafe { raw::kofi_shim_sock_watch(self.raw(), pump.raw(), cookie) })
    }

    pub(crate) fn unwatch(&self) {
        // SAFETY: as above.
        unsafe { raw::kofi_shim_sock_unwatch(self.raw()) };
    }

    /// Ends the outgoing stream, after what was sent.
    pub(crate) fn finish(&self) {
        // SAFETY: as above.
        unsafe { raw::kofi_shim_sock_finish(self.raw()) };
    }

    /// Resets the connection, so that the network gives back what was lent to it.
    pub(crate) fn abort(self) {
        // SAFETY: as above.
        unsafe { raw::kofi_shim_sock_abort(self.raw()) };
    }

    /// Ends both directions. Closing a socket with input that was not read makes the kernel throw away output that the peer has not
    /// got yet. So what has arrived is read first, within reason.
    pub(crate) fn close(self, unread: bool) {
        if unread {
            self.discard();
        }
    }

    fn raw(&self) -> *mut raw::Sock {
        self.0.as_ptr()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { raw::kofi_shim_sock_close(self.0.as_ptr()) };
    }
}

fn count(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw(i32::try_from(-result).unwrap_or(0)))
}

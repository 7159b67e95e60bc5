// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! TCP sockets: non-blocking, closed on exec, without delay.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use kofi_core::liveness::Answers;
use kofi_core::{Error, Result, TimeLimits};
use nix::{getsockopt_impl, libc, sockopt_impl};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, SocketType,
    acceptfrom_with, bind, connect, getpeername, getsockname, ipproto, listen, sendmsg, shutdown,
    socket_with, sockopt,
};

use super::environment;
use crate::wait::system;

pub(super) fn errno_of(errno: Errno) -> kofi_core::Errno {
    kofi_core::Errno::from_raw(errno.raw_os_error())
}

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn family(addr: &SocketAddr) -> AddressFamily {
    if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn stream(addr: &SocketAddr) -> rustix::io::Result<OwnedFd> {
    let socket = socket_with(family(addr), SocketType::STREAM, FLAGS, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

/// A socket bound to `addr`, to listen on. A port 0 is taken from the configured range, if there is one.
pub(super) fn bound(call: &'static str, addr: &SocketAddr) -> Result<OwnedFd> {
    let error = |errno| system(call, errno);
    let socket = stream(addr).map_err(error)?;
    match environment::port_range() {
        Some(range) if addr.port() == 0 => bind_in(call, &socket, *addr, &range)?,
        _ => {
            sockopt::set_socket_reuseaddr(&socket, true).map_err(error)?;
            bind(&socket, addr).map_err(error)?;
        }
    }
    Ok(socket)
}

/// Starts at any port of the range, so that processes that start together do not collide at each.
fn bind_in(
    call: &'static str,
    socket: &OwnedFd,
    addr: SocketAddr,
    range: &RangeInclusive<u16>,
) -> Result<()> {
    let error = |errno| system(call, errno);
    let first = fastrand::u16(range.clone());
    // Sockets that may share an address do so until one of them listens: a port that is merely bound
    // looks free to them. So the first lap asks for one that nobody has at all, the second for one
    // that only old connections have.
    for shared in [false, true] {
        sockopt::set_socket_reuseaddr(socket, shared).map_err(error)?;
        for port in (first..=*range.end()).chain(*range.start()..first) {
            match bind(socket, &SocketAddr::new(addr.ip(), port)) {
                Ok(()) => return sockopt::set_socket_reuseaddr(socket, true).map_err(error),
                Err(Errno::ADDRINUSE) => {}
                Err(errno) => return Err(error(errno)),
            }
        }
    }
    Err(Error::System {
        call,
        errno: kofi_core::Errno::EADDRNOTAVAIL,
        detail: format!(
            "all ports of FI_TCP_PORT_LOW_RANGE..HIGH_RANGE, {range:?}, are taken; widen the range"
        ),
    })
}

/// Makes the system queue up to `backlog` connections.
pub(super) fn start_listening(socket: &OwnedFd, backlog: usize) -> Result<()> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    listen(socket, backlog).map_err(|errno| system("fi_listen", errno))
}

/// The next connection, with our address and the peer's. It is without delay as the listener is.
/// `local` is our address where the listener has one, and not all of them.
pub(super) fn accept(
    listener: &OwnedFd,
    local: Option<SocketAddr>,
) -> rustix::io::Result<(OwnedFd, SocketAddr, SocketAddr)> {
    let (socket, peer) = acceptfrom_with(listener, FLAGS)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).ok_or(Errno::CONNABORTED)?;
    let local = match local {
        Some(local) => local,
        None => self::local(&socket)?,
    };
    Ok((socket, local, peer))
}

/// A socket that is being connected from `source`, if given, to `dest`.
pub(super) fn start_connecting(source: Option<SocketAddr>, dest: &SocketAddr) -> rustix::io::Result<OwnedFd> {
    let socket = stream(dest)?;
    // To an address of its own, a host connects from that one.
    let needless = |source: &SocketAddr| source.port() == 0 && source.ip() == dest.ip();
    let source = source.filter(|source| source.is_ipv4() == dest.is_ipv4() && !needless(source));
    if let Some(source) = source {
        if source.port() != 0 {
            sockopt::set_socket_reuseaddr(&socket, true)?;
        } else {
            // A port is then found when the destination is known: far more are free, and it is quick
            // even with many connections that have just ended.
            let no_port = nix::sys::socket::sockopt::IpBindAddressNoPort;
            nix::sys::socket::setsockopt(&socket, no_port, &true)
                .map_err(|errno| Errno::from_raw_os_error(errno as i32))?;
        }
        bind(&socket, &source)?;
    }
    match connect(&socket, dest) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// How far connecting has come.
pub(super) enum Connecting {
    Done(SocketAddr),
    Pending,
    Failed(Errno),
}

pub(super) fn connecting(socket: &OwnedFd) -> Connecting {
    match getpeername(socket).and_then(|_| local(socket)) {
        Ok(local) => Connecting::Done(local),
        Err(Errno::NOTCONN) => match sockopt::socket_error(socket) {
            Ok(Ok(())) => Connecting::Pending,
            Ok(Err(errno)) | Err(errno) => Connecting::Failed(errno),
        },
        Err(errno) => Connecting::Failed(errno),
    }
}

/// The socket's own address.
pub(super) fn local(socket: &OwnedFd) -> rustix::io::Result<SocketAddr> {
    SocketAddr::try_from(getsockname(socket)?).map_err(|_| Errno::AFNOSUPPORT)
}

/// Has the system ask a silent peer for a sign of life, as the limits say; it knows whole seconds only.
///
/// That is for connections with nothing outstanding. `TCP_USER_TIMEOUT` would be for the others, but
/// since Linux 5.11 it also ends those whose peer answers and merely receives nothing (a closed
/// window): see [`answers`] instead.
pub(super) fn keep_alive(socket: &OwnedFd, limits: &TimeLimits) {
    let seconds = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
    let set = || {
        let Some(idle) = limits.keepalive else { return sockopt::set_socket_keepalive(socket, false) };
        sockopt::set_tcp_keepidle(socket, Duration::from_secs(seconds(idle).clamp(1, MAX_KEEPALIVE)))?;
        if let Some(limit) = limits.peer {
            let limit = seconds(limit).max(1);
            let interval = (limit / PROBES).clamp(1, MAX_KEEPALIVE);
            sockopt::set_tcp_keepintvl(socket, Duration::from_secs(interval))?;
            sockopt::set_tcp_keepcnt(socket, limit.div_ceil(interval).min(MAX_PROBES) as u32)?;
        }
        sockopt::set_socket_keepalive(socket, true)
    };
    // A connection works without, too.
    let _ = set();
}

/// Questions that a silent peer may leave unanswered, where whole seconds allow that.
const PROBES: u64 = 5;
/// What `tcp(7)` takes: seconds, and questions.
const MAX_KEEPALIVE: u64 = 32767;
const MAX_PROBES: u64 = 127;

/// The first part of `struct tcp_info`, which all kernels have: eight bytes, then numbers. Any bytes are
/// numbers, and nix sees to it that the system has given all of them.
type TcpInfo = [u32; 26];

sockopt_impl!(
    /// `TCP_INFO`.
    GetTcpInfo,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    TcpInfo
);

/// What the system knows of the peer's answers to what was sent.
pub(super) fn answers(socket: &OwnedFd) -> Option<Answers> {
    let info = nix::sys::socket::getsockopt(socket, GetTcpInfo).ok()?;
    let [_, _, retransmits, probes] = info[0].to_ne_bytes();
    let [backoff, ..] = info[1].to_ne_bytes();
    // tcpi_unacked; tcpi_last_data_recv and tcpi_last_ack_recv, milliseconds ago.
    let (unacked, data, ack) = (info[6], info[13], info[14]);
    Some(Answers {
        // With the window closed nothing is unacknowledged: what waits shows by the probes.
        outstanding: unacked > 0 || retransmits > 0 || probes > 0 || backoff > 0,
        unanswered: retransmits > 0 || probes > 0,
        heard: Duration::from_millis(data.min(ack).into()),
    })
}

/// Which of our addresses the kernel would use to reach `dest`; with port 0.
pub(super) fn route(dest: SocketAddr) -> Result<SocketAddr> {
    let look_up = || {
        let socket = socket_with(family(&dest), SocketType::DGRAM, FLAGS, None)?;
        // No packet is sent by this. Port 0 cannot be connected to.
        let port = if dest.port() == 0 { 9 } else { dest.port() };
        let mut probe = dest;
        probe.set_port(port);
        connect(&socket, &probe)?;
        local(&socket)
    };
    let mut source = look_up().map_err(|errno| Error::System {
        call: "fi_getinfo",
        errno: errno_of(errno),
        detail: format!("this host has no route to {dest}; see ip route"),
    })?;
    source.set_port(0);
    Ok(source)
}

/// Up to so many bytes, copying the pieces of a write together costs less than to list them.
pub(super) const JOIN: usize = 2048;

/// Writes what it can; never a SIGPIPE.
pub(super) fn send(socket: impl AsFd, bytes: &[u8]) -> rustix::io::Result<usize> {
    rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)
}

/// Writes what it can of the pieces; never a SIGPIPE.
pub(super) fn send_all(socket: impl AsFd, pieces: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
    sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
}

/// Reads what there is.
pub(super) fn recv(socket: impl AsFd, bytes: &mut [u8]) -> rustix::io::Result<usize> {
    rustix::net::recv(socket, bytes, RecvFlags::empty()).map(|(count, _)| count)
}

/// Reads what there is, into the pieces in order.
pub(super) fn recv_all(socket: impl AsFd, pieces: &mut [IoSliceMut<'_>]) -> rustix::io::Result<usize> {
    rustix::io::readv(socket, pieces)
}

/// Ends the outgoing stream, after what was sent.
pub(super) fn finish(socket: &OwnedFd) {
    let _ = shutdown(socket, Shutdown::Write);
}

/// Reads and drops what has arrived, within reason. `true`: the peer has ended its stream, or the
/// connection broke. `waste` is scratch memory.
pub(super) fn discard(socket: &OwnedFd, waste: &mut [u8]) -> bool {
    for _ in 0..64 {
        // tcp(7): "the received bytes of data to be discarded, rather than passed back".
        match rustix::net::recv(socket, &mut *waste, RecvFlags::TRUNC) {
            Ok((1.., _)) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return false,
            Ok(_) | Err(_) => return true,
        }
    }
    false
}

/// Ends the connection in both directions, so that the peer knows even while another process has
/// the socket, too. A listening socket stops listening.
///
/// Closing a socket with input that was not read makes the kernel throw away output that the peer
/// has not got yet: see [`discard`].
pub(super) fn close(socket: OwnedFd) {
    let _ = shutdown(&socket, Shutdown::Both);
}

/// `fi_reject`: tells the peer, and ends the connection.
pub(super) fn reject(socket: OwnedFd, data: &[u8]) -> Result<()> {
    let message = kofi_core::connection::reject(data)?;
    // The message is the first thing on this connection: it fits into the socket's buffer. A peer
    // that is gone needs no answer.
    let _ = send(&socket, &message);
    close(socket);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_system_is_told_of_the_limits() -> std::io::Result<()> {
        for addr in [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), (Ipv6Addr::LOCALHOST, 0).into()] {
            let Ok(listener) = TcpListener::bind(addr) else { continue };
            let active = OwnedFd::from(TcpStream::connect(listener.local_addr()?)?);
            let passive = OwnedFd::from(listener.accept()?.0);
            for socket in [&active, &passive] {
                // Idle time and interval in seconds, number of questions.
                for (idle, limit, wanted) in [
                    (30_000, 30_000, (30, 6, 5)),
                    (1, 1, (1, 1, 1)),
                    (1500, 2500, (2, 1, 3)),
                    (u64::MAX, u64::MAX, (MAX_KEEPALIVE, MAX_KEEPALIVE, MAX_PROBES as u32)),
                ] {
                    let limits = TimeLimits {
                        keepalive: Some(Duration::from_millis(idle)),
                        peer: Some(Duration::from_millis(limit)),
                        ..TimeLimits::default()
                    };
                    keep_alive(socket, &limits);
                    assert!(sockopt::socket_keepalive(socket)?);
                    let found = (sockopt::tcp_keepidle(socket)?, sockopt::tcp_keepintvl(socket)?);
                    let found = (found.0.as_secs(), found.1.as_secs(), sockopt::tcp_keepcnt(socket)?);
                    assert_eq!(found, wanted);
                    keep_alive(socket, &TimeLimits { keepalive: None, ..limits });
                    assert!(!sockopt::socket_keepalive(socket)?);
                }
                let answers = answers(socket);
                assert!(answers.is_some_and(|a| !a.outstanding && !a.unanswered), "{answers:?}");
            }
        }
        Ok(())
    }
}

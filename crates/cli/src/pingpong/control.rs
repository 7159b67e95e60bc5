// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The control channel of `fi_pingpong`: a TCP connection on which the server tells where its
//! endpoint listens, and both sides meet before and after the messages of each size.
//!
//! `fi_pingpong` expects each word in one read, so each is sent in one write.

use std::fmt::{self, Display, Formatter};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use kofi::AddrFormat;
use socket2::{Domain, SockRef, Socket, Type};

use super::STEP;
use crate::failure::{Failure, Result};

const SYNC: &[u8; 2] = b"q\0";
const SYNCED: &[u8; 2] = b"a\0";
/// Bytes of a number of messages, in decimal.
const COUNT: usize = 10;
const COUNTED: &[u8; 7] = b"cnt ok\0";
/// `sa_family` of `struct sockaddr_in` and of `sockaddr_in6`.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Which side this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Server,
    Client,
}

impl Display for Role {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "server",
            Self::Client => "client",
        })
    }
}

pub(super) struct Control {
    stream: TcpStream,
    role: Role,
}

/// The control channel failed while `what` was being dealt with.
pub(super) fn failed(what: &str) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        Failure::Run(match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!(
                    "control channel: wanted {what} from the peer, nothing came in {STEP:?}; is it still running?"
                )
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                format!(
                    "control channel: wanted {what}, but the peer closed it; look at the peer's output, and give both \
                 sides the same -I, -S and -c"
                )
            }
            _ => format!("control channel: {what}: {error}"),
        })
    }
}

impl Control {
    /// The server's end: waits for a client.
    pub(super) fn accept(listener: &TcpListener, wait: Option<Duration>) -> Result<Self> {
        SockRef::from(listener).set_read_timeout(wait).map_err(failed("a limit in time"))?;
        let (stream, _) = listener.accept().map_err(|error| match (error.kind(), wait) {
            (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, Some(wait)) => Failure::Run(format!(
                "control channel: no client came in {wait:?}; start one within that time, or raise --wait"
            )),
            _ => failed("a client")(error),
        })?;
        Self::new(stream, Role::Server)
    }

    /// The client's end.
    pub(super) fn connect(host: &str, port: u16, source_port: Option<u16>, ipv6: bool) -> Result<Self> {
        let addresses = (host, port).to_socket_addrs().map_err(|error| {
            Failure::Run(format!("host {host:?} cannot be looked up ({error}); try its address"))
        })?;
        let mut last = format!("host {host:?} has no {} address", if ipv6 { "IPv6" } else { "IP" });
        for address in addresses.filter(|address| address.is_ipv6() || !ipv6) {
            match Self::socket(address, source_port) {
                Ok(stream) => return Self::new(stream, Role::Client),
                Err(error) => {
                    last = format!(
                        "control channel: cannot connect to {address}: {error}; start `kofi pingpong --server` \
                         there, or give the right port with -P"
                    );
                }
            }
        }
        Err(Failure::Run(last))
    }

    /// The client's end, to the other side in this process.
    pub(super) fn connect_to(address: SocketAddr) -> Result<Self> {
        let stream = Self::socket(address, None).map_err(failed("the server's side"))?;
        Self::new(stream, Role::Client)
    }

    fn socket(address: SocketAddr, source_port: Option<u16>) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if let Some(port) = source_port {
            let ip: IpAddr = match address {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            socket.set_reuse_address(true)?;
            socket.bind(&SocketAddr::new(ip, port).into())?;
        }
        socket.connect_timeout(&address.into(), STEP)?;
        Ok(socket.into())
    }

    fn new(stream: TcpStream, role: Role) -> Result<Self> {
        let limits = || {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(STEP))?;
            stream.set_write_timeout(Some(STEP))
        };
        limits().map_err(failed("a limit in time"))?;
        Ok(Self { stream, role })
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// The address that the peer has reached us at.
    pub(super) fn local_ip(&self) -> Result<IpAddr> {
        let address = self.stream.local_addr().map_err(failed("its own address"))?;
        Ok(address.ip().to_canonical())
    }

    /// Tells the client where our endpoint listens.
    pub(super) fn send_name(&mut self, name: SocketAddr) -> Result {
        self.send("the endpoint's address", &encode(name))
    }

    /// Learns where the server's endpoint listens.
    pub(super) fn receive_name(&mut self) -> Result<SocketAddr> {
        const WHAT: &str = "the address of the server's endpoint";
        let [a, b, c, d, format @ ..] = self.receive::<8>(WHAT)?;
        let len = u32::from_be_bytes([a, b, c, d]);
        let format = AddrFormat::from_raw(u32::from_ne_bytes(format));
        let mut name = [0; 28];
        let name = usize::try_from(len).ok().and_then(|len| name.get_mut(..len)).ok_or_else(|| {
            format!(
                "control channel: wanted {WHAT}, FI_SOCKADDR_IN (16 bytes) or FI_SOCKADDR_IN6 (28 bytes), found \
                 {format} with {len} bytes; start the server with -p tcp -e msg"
            )
        })?;
        self.stream.read_exact(name).map_err(failed(WHAT))?;
        decode(format, name).ok_or_else(|| {
            Failure::Run(format!(
                "control channel: wanted {WHAT}, FI_SOCKADDR_IN or FI_SOCKADDR_IN6, found {format} with {len} \
                 bytes; start the server with -p tcp -e msg"
            ))
        })
    }

    /// Both sides are ready for the next size.
    pub(super) fn sync(&mut self) -> Result {
        const WHAT: &str = "the peer's readiness";
        match self.role {
            Role::Client => {
                self.send(WHAT, SYNC)?;
                self.expect(WHAT, SYNCED)
            }
            Role::Server => {
                self.expect(WHAT, SYNC)?;
                self.send(WHAT, SYNCED)
            }
        }
    }

    /// The client tells how many messages it has received; both go on with that number.
    pub(super) fn exchange_count(&mut self, received: u32) -> Result<u64> {
        const WHAT: &str = "the number of messages that the client received";
        match self.role {
            Role::Client => {
                let mut word = [0; COUNT];
                for (place, digit) in word.iter_mut().zip(received.to_string().bytes()) {
                    *place = digit;
                }
                self.send(WHAT, &word)?;
                self.expect(WHAT, COUNTED)?;
                Ok(received.into())
            }
            Role::Server => {
                let word = self.receive::<COUNT>(WHAT)?;
                let text = String::from_utf8_lossy(&word);
                let text = text.trim_end_matches('\0');
                let count = text.parse().map_err(|_| {
                    format!("control channel: wanted {WHAT}, found {text:?}; is the peer a pingpong?")
                })?;
                self.send(WHAT, COUNTED)?;
                Ok(count)
            }
        }
    }

    fn send(&mut self, what: &'static str, word: &[u8]) -> Result {
        self.stream.write_all(word).map_err(failed(what))
    }

    fn receive<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let mut word = [0; N];
        self.stream.read_exact(&mut word).map_err(failed(what))?;
        Ok(word)
    }

    fn expect<const N: usize>(&mut self, what: &'static str, wanted: &[u8; N]) -> Result {
        let found = self.receive::<N>(what)?;
        if found == *wanted {
            return Ok(());
        }
        let (wanted, found) = (String::from_utf8_lossy(wanted), String::from_utf8_lossy(&found));
        Err(Failure::Run(format!(
            "control channel: {what}: wanted {wanted:?}, found {found:?}; give both sides the same -I and -S"
        )))
    }
}

/// An address as `fi_pingpong` tells it: the length, the format, and the C structure.
fn encode(name: SocketAddr) -> Vec<u8> {
    let mut sockaddr = Vec::with_capacity(28);
    let format = match name {
        SocketAddr::V4(name) => {
            sockaddr.extend(AF_INET.to_ne_bytes());
            sockaddr.extend(name.port().to_be_bytes());
            sockaddr.extend(name.ip().octets());
            sockaddr.extend([0; 8]);
            AddrFormat::SockaddrIn
        }
        SocketAddr::V6(name) => {
            sockaddr.extend(AF_INET6.to_ne_bytes());
            sockaddr.extend(name.port().to_be_bytes());
            sockaddr.extend(name.flowinfo().to_be_bytes());
            sockaddr.extend(name.ip().octets());
            sockaddr.extend(name.scope_id().to_ne_bytes());
            AddrFormat::SockaddrIn6
        }
    };
    let mut word = Vec::with_capacity(8 + sockaddr.len());
    word.extend((sockaddr.len() as u32).to_be_bytes());
    word.extend(format.raw().to_ne_bytes());
    word.extend(sockaddr);
    word
}

fn decode(format: AddrFormat, sockaddr: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(sockaddr.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(sockaddr.get(2..4)?.try_into().ok()?);
    match (format, family, sockaddr.len()) {
        (AddrFormat::SockaddrIn, AF_INET, 16) => {
            let ip: [u8; 4] = sockaddr.get(4..8)?.try_into().ok()?;
            Some((ip, port).into())
        }
        (AddrFormat::SockaddrIn6, AF_INET6, 28) => {
            let flow = u32::from_be_bytes(sockaddr.get(4..8)?.try_into().ok()?);
            let ip: [u8; 16] = sockaddr.get(8..24)?.try_into().ok()?;
            let scope = u32::from_ne_bytes(sockaddr.get(24..28)?.try_into().ok()?);
            Some(SocketAddrV6::new(ip.into(), port, flow, scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in ["192.0.2.1:5000", "[2001:db8::1]:5000", "[fe80::1%3]:1"] {
            let name: SocketAddr = name.parse().unwrap();
            let word = encode(name);
            let len = u32::from_be_bytes(word[..4].try_into().unwrap()) as usize;
            assert_eq!(len, word.len() - 8);
            let format = AddrFormat::from_raw(u32::from_ne_bytes(word[4..8].try_into().unwrap()));
            assert_eq!(decode(format, &word[8..]), Some(name));
            assert_eq!(decode(AddrFormat::Str, &word[8..]), None);
            assert_eq!(decode(format, &word[8..word.len() - 1]), None);
        }
        assert_eq!(encode("127.0.0.1:258".parse().unwrap())[10..16], [1, 2, 127, 0, 0, 1]);
    }
}

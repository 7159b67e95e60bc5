// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Something between a client and its server that holds bytes back.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// Forwards one connection.
pub struct Proxy {
    addr: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

struct State {
    /// Bytes that went on to the server.
    forwarded: u64,
    /// Bytes that may.
    allowed: u64,
    /// The connection is cut here.
    cut: bool,
}

impl Proxy {
    pub fn new(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(super::loopback()).unwrap();
        let addr = listener.local_addr().unwrap();
        let state =
            Arc::new((Mutex::new(State { forwarded: 0, allowed: u64::MAX, cut: false }), Condvar::new()));
        let shared = state.clone();
        std::thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(server).unwrap();
            let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || copy(from, to, None));
            copy(client, server, Some(&shared));
        });
        Self { addr, state }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// So many bytes more go to the server, and then none.
    pub fn hold(&self, after: u64) {
        let mut state = self.state.0.lock().unwrap();
        state.allowed = state.forwarded + after;
    }

    /// All bytes go to the server.
    pub fn release(&self) {
        self.state.0.lock().unwrap().allowed = u64::MAX;
        self.state.1.notify_all();
    }

    /// Ends the connection, whatever is held back.
    pub fn cut(&self) {
        self.state.0.lock().unwrap().cut = true;
        self.state.1.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.release();
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, state: Option<&(Mutex<State>, Condvar)>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            let part = match state {
                None => rest.len(),
                Some((state, changed)) => {
                    let held = |state: &mut State| state.forwarded >= state.allowed && !state.cut;
                    let mut state = changed.wait_while(state.lock().unwrap(), held).unwrap();
                    if state.cut {
                        let _ = to.shutdown(Shutdown::Both);
                        let _ = from.shutdown(Shutdown::Both);
                        return;
                    }
                    let part = (state.allowed - state.forwarded).min(rest.len() as u64);
                    state.forwarded += part;
                    part as usize
                }
            };
            if to.write_all(&rest[..part]).is_err() {
                return;
            }
            rest = &rest[part..];
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The other side: asks another process.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use kofi_core::{Errno as FiErrno, Error, Result};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, connect, recv, socket_with};

use super::{failed, name};
use crate::clock::now;
use crate::wait::{system, timespec};

const CALL: &str = "kofi::live::query";
/// Longest wait for the whole answer.
const LIMIT: Duration = Duration::from_secs(10);
/// Longest answer that is taken.
const MAX_LEN: usize = 16 << 20;

/// Asks the process with that id for its live objects: JSON, one object a line, as described in the
/// [module](crate::live). Waits up to 10 s.
///
/// # Errors
/// -FI_ENOENT when there is no such process; -FI_ECONNREFUSED when it shows nothing, with what to do;
/// -FI_EACCES when it is another user's, or another process answers; -FI_ETIMEDOUT.
pub fn query(pid: u32) -> Result<String> {
    let end = now().after(LIMIT);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_err(|errno| system(CALL, errno))?;
    loop {
        match connect(&socket, &name(CALL, pid)?) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            // Many others ask.
            Err(Errno::AGAIN) if now() < end => std::thread::sleep(Duration::from_millis(10)),
            Err(Errno::AGAIN) => return Err(no_answer(pid)),
            Err(Errno::CONNREFUSED) => return Err(not_offered(pid)),
            Err(errno) => return Err(system(CALL, errno)),
        }
    }
    // Anybody may take a name that is free.
    let server = getsockopt(&socket, PeerCredentials)
        .map_err(|errno| system(CALL, Errno::from_raw_os_error(errno as i32)))?;
    if u32::try_from(server.pid()) != Ok(pid) {
        let (other, user) = (server.pid(), server.uid());
        let detail = format!(
            "process {other} of user {user} has taken the name of process {pid}; ask in its own container"
        );
        return Err(failed(CALL, FiErrno::EACCES, detail));
    }
    let mut text = Vec::new();
    let mut part = [0; 65536];
    loop {
        match recv(&socket, &mut part, RecvFlags::empty()) {
            Ok((0, _)) => break,
            Ok((count, _)) if text.len() + count <= MAX_LEN => {
                text.extend_from_slice(part.get(..count).unwrap_or_default());
            }
            Ok(_) => {
                let detail = format!("process {pid} says more than {MAX_LEN} bytes; is it kofi?");
                return Err(failed(CALL, FiErrno::EMSGSIZE, detail));
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(&socket, end.until(now()), pid)?,
            Err(errno) => return Err(system(CALL, errno)),
        }
    }
    if text.is_empty() {
        let detail =
            format!("process {pid} tells only its own user, {}, and root; ask as one of these", server.uid());
        return Err(failed(CALL, FiErrno::EACCES, detail));
    }
    match String::from_utf8(text) {
        Ok(text) if text.ends_with("{\"object\":\"end\"}\n") => Ok(text),
        _ => {
            let detail = format!("the answer of process {pid} is not whole; it may have ended, ask again");
            Err(failed(CALL, FiErrno::EIO, detail))
        }
    }
}

fn wait(socket: &OwnedFd, left: Duration, pid: u32) -> Result<()> {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    match poll(&mut fds, Some(&timespec(left))) {
        _ if left.is_zero() => Err(no_answer(pid)),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(system(CALL, errno)),
    }
}

fn no_answer(pid: u32) -> Error {
    let detail = format!("process {pid} has not answered within {LIMIT:?}; it may be stopped");
    failed(CALL, FiErrno::ETIMEDOUT, detail)
}

fn not_offered(pid: u32) -> Error {
    let Ok(process) = std::fs::metadata(format!("/proc/{pid}")) else {
        return failed(CALL, FiErrno::ENOENT, format!("there is no process {pid}"));
    };
    let detail = format!(
        "process {pid} (user {}) shows no objects: start it with KOFI_LIVE=1, which begins with its first fabric, or have it \
         call kofi::live::serve; it has to be in this container or network namespace",
        process.uid()
    );
    failed(CALL, FiErrno::ECONNREFUSED, detail)
}

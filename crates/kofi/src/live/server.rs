// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The thread that answers.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};
use std::thread::Builder;
use std::time::Duration;

use kofi_core::Result;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, accept_with, bind, listen, send, socket_with,
};
use tracing::warn;

use super::{FABRICS, LOOKING, Report, failed, name};
use crate::clock::now;
use crate::fabric::FabricShared;
use crate::wait::{lock, system, timespec};

/// Who asks and does not read is let go after so long.
const LIMIT: Duration = Duration::from_secs(2);
/// Who asks at the same time waits for his turn.
const BACKLOG: i32 = 16;
/// After a failure to accept, such as for want of descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// The process that answers: a forked child is another one.
static SERVED: Mutex<Option<u32>> = Mutex::new(None);

/// Shows the live objects of this process to its user and to root, from now until it ends. Doing it
/// again changes nothing. What is told is described in the [module](crate::live).
///
/// # Errors
/// -FI_EADDRINUSE when another process has taken the name; -FI_EMFILE; -FI_EAGAIN when the system has no
/// more threads.
pub fn serve() -> Result<()> {
    const CALL: &str = "kofi::live::serve";
    let pid = std::process::id();
    let mut served = lock(&SERVED);
    if *served == Some(pid) {
        return Ok(());
    }
    let error = |errno| system(CALL, errno);
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let socket = socket.map_err(error)?;
    bind(&socket, &name(CALL, pid)?).map_err(|errno| match errno {
        Errno::ADDRINUSE => {
            let detail = format!("another process has taken the name @kofi-live-{pid}; see who by ss -xlp");
            failed(CALL, kofi_core::Errno::EADDRINUSE, detail)
        }
        errno => error(errno),
    })?;
    listen(&socket, BACKLOG).map_err(error)?;
    let thread = Builder::new().name("kofi-live".into()).spawn(move || run(&socket, pid));
    thread.map_err(|error| {
        let errno = kofi_core::Errno::from_raw(error.raw_os_error().unwrap_or_default());
        failed(CALL, errno, "the system has no thread left for it; raise RLIMIT_NPROC".into())
    })?;
    *served = Some(pid);
    Ok(())
}

fn run(socket: &OwnedFd, pid: u32) {
    // Signals are for the application's threads.
    if let Err(errno) = nix::sys::signal::SigSet::all().thread_block() {
        warn!(%errno, "the thread that shows live objects takes signals");
    }
    loop {
        match accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(client) if may_know(&client) => answer(&client, &report(pid)),
            // It finds that it gets no answer.
            Ok(_) => {}
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// The same user, and root.
fn may_know(client: &OwnedFd) -> bool {
    let own = rustix::process::geteuid().as_raw();
    getsockopt(client, PeerCredentials).is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

fn answer(client: &OwnedFd, text: &str) {
    let end = now().after(LIMIT);
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match send(client, rest, SendFlags::NOSIGNAL) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = end.until(now());
                let mut fds = [PollFd::new(client, PollFlags::OUT)];
                if left.is_zero() || poll(&mut fds, Some(&timespec(left))).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
        if end <= now() {
            return;
        }
    }
}

/// Everything that there is.
fn report(pid: u32) -> String {
    let mut report = Report::new();
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
    report
        .object("process")
        .number("pid", pid.into())
        .text("program", program.to_string_lossy())
        .text("version", env!("CARGO_PKG_VERSION"));
    let fabrics: Vec<Arc<FabricShared>> = lock(&FABRICS).iter().filter_map(Weak::upgrade).collect();
    for fabric in fabrics {
        fabric.describe(&mut report);
        for object in fabric.objects() {
            // One at a time, so that who waits for it to be gone does not wait for all.
            let _looking = lock(&LOOKING);
            if let Some(object) = object.upgrade() {
                object.inspect(fabric.fid().0, &mut report);
            }
        }
    }
    report.finish()
}

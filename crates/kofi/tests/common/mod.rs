// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What most tests start from: two sides on the loopback interface, driven by one thread.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

pub mod proxy;
pub mod runtime;

use std::net::SocketAddr;
use std::time::Duration;

use kofi::{
    CompletionQueue, CqAttr, Domain, Endpoint, EqAttr, Event, EventQueue, Fabric, Hints, Info, Listener,
    WaitObj,
};

/// Longer than anything takes that is not in trouble.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

pub struct Side {
    pub info: Info,
    pub fabric: Fabric,
    pub eq: EventQueue,
    pub domain: Domain,
    pub cq: CompletionQueue,
}

pub fn side(info: Info, wait_obj: WaitObj) -> Side {
    let fabric = Fabric::open(&info).unwrap();
    let eq = fabric.event_queue(EqAttr { wait_obj, ..EqAttr::default() }).unwrap();
    let domain = fabric.domain(&info).unwrap();
    let cq = domain.completion_queue(CqAttr { wait_obj, ..CqAttr::default() }).unwrap();
    Side { info, fabric, eq, domain, cq }
}

pub fn server_at(addr: SocketAddr, wait_obj: WaitObj) -> (Side, Listener) {
    let info = kofi::getinfo(Hints::new().provider("tcp").source(addr)).unwrap().remove(0);
    let side = side(info, wait_obj);
    let listener =
        side.fabric.passive_endpoint(&side.info).unwrap().bind(&side.eq).unwrap().listen().unwrap();
    (side, listener)
}

pub fn client_of(listener: &Listener, wait_obj: WaitObj) -> Side {
    let dest = listener.name().unwrap();
    side(kofi::getinfo(Hints::new().provider("tcp").dest(dest)).unwrap().remove(0), wait_obj)
}

pub struct Pair {
    pub server: Side,
    pub listener: Listener,
    pub client: Side,
}

pub fn pair() -> Pair {
    pair_with(WaitObj::Unspec)
}

pub fn pair_with(wait_obj: WaitObj) -> Pair {
    let (server, listener) = server_at(loopback(), wait_obj);
    let client = client_of(&listener, wait_obj);
    Pair { server, listener, client }
}

impl Pair {
    /// A connection: the server's endpoint and the client's.
    pub fn connect(&self) -> (Endpoint, Endpoint) {
        let client =
            self.client.domain.endpoint(&self.client.info, &self.client.eq, &self.client.cq).unwrap();
        let client = client.connect(b"request").unwrap();
        let Event::ConnectionRequest(request) = next(&self.server.eq, &[&self.client.eq]) else {
            panic!("no request")
        };
        assert_eq!(request.data(), b"request");
        let server = self.server.domain.endpoint_for(&request, &self.server.eq, &self.server.cq).unwrap();
        let server = server.accept(b"answer").unwrap();
        let Event::Connected { endpoint, .. } = next(&self.server.eq, &[&self.client.eq]) else {
            panic!("not connected")
        };
        assert_eq!(endpoint, server.fid());
        let Event::Connected { endpoint, data } = next(&self.client.eq, &[&self.server.eq]) else {
            panic!("not connected")
        };
        assert_eq!((endpoint, data.as_slice()), (client.fid(), b"answer".as_slice()));
        (server, client)
    }
}

/// The next event of `eq`, while `others` are kept going.
pub fn next(eq: &EventQueue, others: &[&EventQueue]) -> Event {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        for other in others {
            let _ = other.peek();
        }
        match eq.peek() {
            Ok(_) => return eq.read().unwrap(),
            Err(kofi::Error::ErrorAvailable) => return eq.read_error().unwrap(),
            Err(kofi::Error::Empty) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(std::time::Instant::now() < end, "no event in {PATIENCE:?}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Runs `test` in a process of its own, where nobody else has threads.
pub fn alone(test: &str) -> bool {
    const ALONE: &str = "KOFI_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    assert!(child.args(["--exact", test, "--nocapture"]).env(ALONE, "").status().unwrap().success());
    false
}

/// Processor time of the whole process.
pub fn cpu() -> Duration {
    use nix::sys::time::TimeValLike;
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    Duration::from_micros((usage.user_time() + usage.system_time()).num_microseconds() as u64)
}

/// Says it even when the test passes, whose output is not shown.
pub fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

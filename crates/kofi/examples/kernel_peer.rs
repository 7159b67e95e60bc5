// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The other side of the kernel module's tests (`kernel/tests/selftest/main.c` says what is asked for): `client ADDR`, `server ADDR`.

use std::net::SocketAddr;
use std::time::Duration;

use kofi::{
    CompletionQueue, Domain, Endpoint, Error, Event, EventQueue, Fabric, Hints, Info, MrMode, OpFlags,
};

/// How long anything may take. On a machine that is so many times slower than usual, the environment says so.
fn limit() -> Duration {
    let slow = std::env::var("slow").ok().and_then(|slow| slow.parse().ok());
    Duration::from_secs(20) * slow.unwrap_or(1)
}

const BIG: usize = 1 << 20;
const KEY: u64 = 42;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;
type Test = (&'static str, fn(&Side) -> Result);

fn main() -> Result {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().unwrap_or_default();
    let addr: SocketAddr = arguments.next().unwrap_or_default().parse()?;
    match role.as_str() {
        "client" => client(addr),
        "server" => server(addr),
        _ => Err("usage: kernel_peer client|server ADDR:PORT".into()),
    }
}

fn report(name: &str, result: &Result) {
    match result {
        Ok(()) => println!("TEST {name} ok"),
        Err(error) => println!("# {error}\nTEST {name} FAILED"),
    }
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed + at * 7 + (at >> 8)) as u8).collect()
}

fn check(condition: bool, what: &str) -> Result {
    if condition { Ok(()) } else { Err(what.into()) }
}

/// What a side needs of its fabric.
struct Side {
    info: Info,
    fabric: Fabric,
    eq: EventQueue,
}

impl Side {
    fn open(hints: Hints) -> Result<Self> {
        let info = kofi::getinfo(hints.provider("tcp").mr_mode(MrMode::empty()))?.remove(0);
        let fabric = Fabric::open(&info)?;
        let eq = fabric.event_queue(Default::default())?;
        Ok(Self { info, fabric, eq })
    }

    fn queue(&self, info: &Info) -> Result<(Domain, CompletionQueue)> {
        let domain = self.fabric.domain(info)?;
        let cq = domain.completion_queue(Default::default())?;
        Ok((domain, cq))
    }

    /// Asks for `command`; gives what came with the answer.
    fn connect(&self, command: &str) -> Result<(Endpoint, CompletionQueue, Vec<u8>)> {
        let (domain, cq) = self.queue(&self.info)?;
        let endpoint = domain.endpoint(&self.info, &self.eq, &cq)?.connect(command.as_bytes())?;
        match self.eq.wait(limit())? {
            Event::Connected { data, .. } => Ok((endpoint, cq, data)),
            other => Err(format!("{command}: {other:?}").into()),
        }
    }

    fn ended(&self) -> Result {
        check(matches!(self.eq.wait(limit())?, Event::Shutdown { .. }), "no FI_SHUTDOWN")
    }
}

fn exchange(endpoint: &Endpoint, cq: &CompletionQueue, len: usize) -> Result {
    endpoint.recv(vec![0; BIG], 1)?;
    endpoint.send(pattern(len, len), 2)?;
    for _ in 0..2 {
        let done = cq.wait(limit())?.ok()?;
        if done.is_receive() {
            check(done.into_received()? == pattern(len, len), "the echo differs")?;
        }
    }
    Ok(())
}

fn client(addr: SocketAddr) -> Result {
    let side = Side::open(Hints::new().dest(addr))?;
    let tests: [Test; 5] = [
        ("kofi client echo", |side| {
            let (endpoint, cq, data) = side.connect("echo")?;
            check(data == b"hello", "not hello")?;
            for len in [0, 1, 64, 4095, 65536, 100_000, BIG] {
                exchange(&endpoint, &cq, len)?;
            }
            endpoint.shutdown()?;
            side.ended()
        }),
        ("kofi client rma", |side| {
            let (endpoint, cq, data) = side.connect("rma")?;
            let number = |at: usize| -> Result<u64> {
                Ok(u64::from_ne_bytes(data.get(at..at + 8).ok_or("no region")?.try_into()?))
            };
            let (key, base) = (number(0)?, number(8)?);
            endpoint.write(pattern(9, BIG), base, key, 1)?;
            let _ = cq.wait(limit())?.ok()?;
            endpoint.read(vec![0; BIG], base, key, 2)?;
            check(cq.wait(limit())?.ok()?.into_buffer()[..] == pattern(9, BIG), "memory differs")?;
            exchange(&endpoint, &cq, 1000)?;
            endpoint.shutdown()?;
            side.ended()
        }),
        ("kofi client close", |side| {
            let (endpoint, cq, _) = side.connect("close")?;
            exchange(&endpoint, &cq, 100)?;
            side.ended()
        }),
        ("kofi client reject", |side| rejected(side, "reject")),
        ("kofi client quit", |side| rejected(side, "quit")),
    ];
    for (name, test) in tests {
        let result = test(&side);
        report(name, &result);
        result?;
    }
    Ok(())
}

fn rejected(side: &Side, command: &str) -> Result {
    let (domain, cq) = side.queue(&side.info)?;
    let _endpoint = domain.endpoint(&side.info, &side.eq, &cq)?.connect(command.as_bytes())?;
    match side.eq.wait(limit())? {
        Event::Failed { data, .. } => check(data == b"no thanks", "rejected with other data"),
        other => Err(format!("{other:?}").into()),
    }
}

fn server(addr: SocketAddr) -> Result {
    let side = Side::open(Hints::new().source(addr))?;
    // Apart from the endpoints' queue: the next client may ask before the last one's end was read.
    let requests = side.fabric.event_queue(Default::default())?;
    let _listener = side.fabric.passive_endpoint(&side.info)?.bind(&requests)?.listen()?;
    loop {
        let Event::ConnectionRequest(request) = requests.wait(3 * limit())? else { continue };
        let command = String::from_utf8_lossy(request.data()).into_owned();
        if command == "quit" || command == "reject" {
            request.reject(b"no thanks")?;
            report(&format!("kofi server {command}"), &Ok(()));
            if command == "quit" {
                return Ok(());
            }
            continue;
        }
        let (domain, cq) = side.queue(request.info())?;
        let access = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
        let region = domain.register(vec![0; BIG], access, KEY)?;
        let acceptor = domain.endpoint_for(&request, &side.eq, &cq)?;
        acceptor.recv(vec![0; BIG], 1)?;
        let words = [region.key(), region.address(), BIG as u64];
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let endpoint = acceptor.accept(if command == "rma" { &words } else { b"hello" })?;
        let result = match command.as_str() {
            "take" => take(&side, &cq),
            _ => serve(&side, &endpoint, &cq, command == "close"),
        };
        report(&format!("kofi server {command}"), &result);
        result?;
    }
}

/// One message, and then the end.
fn take(side: &Side, cq: &CompletionQueue) -> Result {
    check(cq.wait(limit())?.ok()?.into_received()? == pattern(5, BIG), "the message differs")?;
    check(matches!(side.eq.wait(limit())?, Event::Connected { .. }), "no FI_CONNECTED")?;
    side.ended()
}

fn serve(side: &Side, endpoint: &Endpoint, cq: &CompletionQueue, close: bool) -> Result {
    loop {
        match cq.wait(Duration::from_millis(1)) {
            Ok(done) if done.error.is_some() => {}
            Ok(done) if done.is_receive() => endpoint.send(done.into_received()?, 2)?,
            Ok(_) if close => endpoint.shutdown()?,
            // The connection may be over by now.
            Ok(_) => drop(endpoint.recv(vec![0; BIG], 1)),
            Err(Error::Empty) => {}
            Err(error) => return Err(error.into()),
        }
        match side.eq.read() {
            Ok(Event::Shutdown { .. }) => return Ok(()),
            Ok(_) | Err(Error::Empty) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

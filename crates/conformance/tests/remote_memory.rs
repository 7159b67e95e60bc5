// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Reads and writes of remote memory between kofi and libfabric: each side in both roles, as the one that
//! connects and the one that listens, as initiator and as target.
//!
//! The other side is `c/remote_memory.c`, compiled here. Without a C compiler or libfabric's headers this
//! is skipped, unless `KOFI_INTEROP=require`.
#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use kofi::{
    Completion, CompletionQueue, Domain, Endpoint, Event, EventQueue, Fabric, Hints, Info, MemoryRegion,
    Message, OpFlags, Receive, RmaIov,
};

const KEY: u64 = 0xabcd;
const REGION: usize = 65536;
const READS: usize = 200;
const READ: usize = 1000;
const LARGE: usize = 60000;
const DATA: u64 = 0x1122_3344_5566_7788;
const LIMIT: Duration = Duration::from_secs(20);

fn byte_at(salt: usize, at: usize) -> u8 {
    (at * 7 + (at >> 8) + salt) as u8
}

fn pattern(salt: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| byte_at(salt, at)).collect()
}

/// The peer, compiled once.
fn peer() -> Option<&'static PathBuf> {
    static PEER: OnceLock<Option<PathBuf>> = OnceLock::new();
    PEER.get_or_init(compile).as_ref()
}

/// The compiled peer; `None` where it cannot be had.
fn compile() -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/remote_memory.c");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("remote_memory");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output =
        Command::new(compiler).args(["-Wall", "-O1", "-o"]).arg(&program).args([source, "-lfabric"]).output();
    let why = match output {
        Ok(output) if output.status.success() => return Some(program),
        Ok(output) => String::from_utf8_lossy(&output.stderr).lines().take(3).collect::<Vec<_>>().join("; "),
        Err(error) => error.to_string(),
    };
    let require = std::env::var_os("KOFI_INTEROP").is_some_and(|value| value == "require");
    assert!(!require, "KOFI_INTEROP=require, but {source} cannot be compiled: {why}");
    println!("skipped: no C compiler or no libfabric (Debian packages gcc, libfabric-dev): {why}");
    None
}

/// The peer's process, which does not outlive the test.
struct Process(Child);

impl Process {
    fn start(program: &PathBuf, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn passed(&mut self) {
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        if let Some(mut out) = self.0.stdout.take() {
            out.read_to_string(&mut text).unwrap();
        }
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}: {text}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What both roles use.
struct Side {
    endpoint: Endpoint,
    cq: CompletionQueue,
    region: MemoryRegion,
}

impl Side {
    #[track_caller]
    fn completion(&self, flags: OpFlags, context: u64) -> Completion {
        let done = self.cq.wait(LIMIT).unwrap();
        assert!(done.error.is_none(), "{done:?}");
        assert_eq!((done.flags, done.context), (flags, context));
        done
    }

    #[track_caller]
    fn done(&self, flags: OpFlags, context: u64) {
        let _ = self.completion(flags, context);
    }

    fn write(&self, remote: &[RmaIov], salt: usize, len: usize, flags: OpFlags) {
        let bytes = pattern(salt, len);
        let (first, second) = bytes.split_at(len / 2);
        let buffers = [first.to_vec(), second.to_vec()].into_iter().collect();
        self.endpoint.writemsg(Message { buffers, flags, context: 1, data: None }, remote).unwrap();
        self.done(OpFlags::RMA | OpFlags::WRITE, 1);
    }

    fn initiate(&self) {
        let endpoint = &self.endpoint;
        let two = [RmaIov { addr: 0x40, len: 10, key: KEY }, RmaIov { addr: 0x80, len: 16, key: KEY }];
        let large = [RmaIov { addr: 1000, len: LARGE as u64, key: KEY }];
        self.write(&two, 1, 26, OpFlags::DELIVERY_COMPLETE);
        endpoint.writedata(pattern(2, 20), DATA, 300, KEY, 2).unwrap();
        self.done(OpFlags::RMA | OpFlags::WRITE, 2);
        let buffers = [vec![0; 1], vec![0; 25]].into_iter().collect();
        endpoint.readmsg(Receive { buffers, context: 3, ..Receive::default() }, &two).unwrap();
        let read = self.completion(OpFlags::RMA | OpFlags::READ, 3);
        assert_eq!(read.into_buffer()[..], pattern(1, 26));
        endpoint.inject_writedata(&pattern(3, 8), 5, 500, KEY).unwrap();
        self.write(&large, 4, LARGE, OpFlags::DELIVERY_COMPLETE);
        self.write(&large, 4, LARGE, OpFlags::TRANSMIT_COMPLETE);
        for at in 0..READS {
            endpoint.read(vec![0; READ], 1000 + at as u64 * 256, KEY, at as u64).unwrap();
        }
        for at in 0..READS {
            let read = self.completion(OpFlags::RMA | OpFlags::READ, at as u64).into_buffer();
            let wanted: Vec<u8> = (0..READ).map(|i| byte_at(4, at * 256 + i)).collect();
            assert!(read[..] == wanted, "read {at}");
        }
        endpoint.send(b"done", 4).unwrap();
        self.done(OpFlags::MSG | OpFlags::SEND, 4);
        let answer = self.completion(OpFlags::MSG | OpFlags::RECV, 100).into_received().unwrap();
        assert_eq!(answer, b"ok");
    }

    fn target(&self) {
        let flags = OpFlags::RMA | OpFlags::REMOTE_WRITE | OpFlags::REMOTE_CQ_DATA;
        let told = self.completion(flags, 0);
        assert_eq!((told.data, told.len), (Some(DATA), 20));
        self.region_is(300, &pattern(2, 20));
        let told = self.completion(flags, 0);
        assert_eq!((told.data, told.len), (Some(5), 8));
        let message = self.completion(OpFlags::MSG | OpFlags::RECV, 100).into_received().unwrap();
        assert_eq!(message, b"done");
        self.region_is(0x40, &pattern(1, 26)[..10]);
        self.region_is(0x80, &pattern(1, 26)[10..]);
        self.region_is(500, &pattern(3, 8));
        self.region_is(1000, &pattern(4, LARGE));
        self.endpoint.send(b"ok", 5).unwrap();
        self.done(OpFlags::MSG | OpFlags::SEND, 5);
    }

    #[track_caller]
    fn region_is(&self, at: usize, wanted: &[u8]) {
        let mut found = vec![0; wanted.len()];
        self.region.read(at, &mut found).unwrap();
        assert!(found == wanted, "memory at {at}");
    }
}

fn open(fabric: &Fabric, info: &Info) -> (Domain, CompletionQueue, MemoryRegion) {
    let domain = fabric.domain(info).unwrap();
    let cq = domain.completion_queue(kofi::CqAttr::default()).unwrap();
    let access = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
    let region = domain.register(vec![0; REGION], access, KEY).unwrap();
    (domain, cq, region)
}

fn ended(eq: &EventQueue) {
    assert!(matches!(eq.sread(LIMIT).unwrap(), Event::Shutdown { .. }));
}

#[test]
fn libfabric_listens() {
    let Some(program) = peer() else { return };
    let mut process = Process::start(program, &["server"]);
    let mut port = String::new();
    let mut out = BufReader::new(process.0.stdout.take().unwrap());
    out.read_line(&mut port).unwrap();
    let Ok(port) = port.trim().parse::<u16>() else {
        process.passed();
        panic!("no port from the peer: {port:?}");
    };
    let info = kofi::getinfo(Hints::new().provider("tcp").dest(([127, 0, 0, 1], port))).unwrap().remove(0);
    let fabric = Fabric::open(&info).unwrap();
    let eq = fabric.event_queue(kofi::EqAttr::default()).unwrap();
    let (domain, cq, region) = open(&fabric, &info);
    let connector = domain.endpoint(&info, &eq, &cq).unwrap();
    connector.recv(vec![0; 16], 100).unwrap();
    let endpoint = connector.connect(b"").unwrap();
    assert!(matches!(eq.sread(LIMIT).unwrap(), Event::Connected { .. }));
    let side = Side { endpoint, cq, region };
    side.initiate();
    side.endpoint.recv(vec![0; 16], 100).unwrap();
    side.target();
    side.endpoint.shutdown().unwrap();
    ended(&eq);
    process.passed();
}

#[test]
fn libfabric_connects() {
    let Some(program) = peer() else { return };
    let info = kofi::getinfo(Hints::new().provider("tcp").source(([127, 0, 0, 1], 0))).unwrap().remove(0);
    let fabric = Fabric::open(&info).unwrap();
    let eq = fabric.event_queue(kofi::EqAttr::default()).unwrap();
    let listener = fabric.passive_endpoint(&info).unwrap().bind(&eq).unwrap().listen().unwrap();
    let port = listener.name().unwrap().socket_addr().unwrap().port().to_string();
    let mut process = Process::start(program, &["client", &port]);
    let Event::ConnectionRequest(request) = eq.sread(LIMIT).unwrap() else { panic!("no request") };
    let (domain, cq, region) = open(&fabric, request.info());
    let acceptor = domain.endpoint_for(&request, &eq, &cq).unwrap();
    acceptor.recv(vec![0; 16], 100).unwrap();
    let endpoint = acceptor.accept(b"").unwrap();
    assert!(matches!(eq.sread(LIMIT).unwrap(), Event::Connected { .. }));
    let side = Side { endpoint, cq, region };
    side.target();
    side.endpoint.recv(vec![0; 16], 100).unwrap();
    side.initiate();
    ended(&eq);
    process.passed();
}

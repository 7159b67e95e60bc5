// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `kofi tour`: the whole life of a connection, call by call, over real sockets.

mod client;
mod server;
mod stage;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use kofi::{
    Address, Caps, Completion, CompletionQueue, EpType, Error, Event, EventQueue, Hints, OpFlags, Query,
    Version,
};

use crate::failure::{Failure, Result};
use stage::{Actor, Arg, Stage};

/// The longest wait, as it is shown: `fi_eq_sread(eq, …, 20000, FI_TIME_MS)`.
const WAIT: Duration = Duration::from_millis(20_000);

// What the two sides say to each other.
const KNOCK: &[u8] = b"hello, may I come in?";
const WELCOME: &[u8] = b"welcome";
const STRANGER: &[u8] = b"I have no ticket";
const NO_TICKET: &[u8] = b"no ticket, no entry";
const QUESTION: &[u8] = b"what does the server say?";
const ANSWER: &[u8] = b"it says hello";
const NOTE: &[u8] = b"this one carries data for your completion";
const NOTE_DATA: u64 = 0xcafe_babe;
const INJECTED: &[u8] = b"this buffer was free at once";
const ROOM: usize = 128;
const BIG: usize = 1 << 20;

/// Show a server and a client from fi_getinfo to fi_close, over real sockets
#[derive(clap::Args)]
#[command(after_help = "\
Both sides run in this process, each in its own thread, and talk over the loopback
interface. Each line is a call, an event (<- FI_CONNREQ) or a completion (<- FI_MSG | FI_RECV).

Examples:
  kofi                        the tour on 127.0.0.1
  kofi tour --ipv6            the same on ::1
  kofi tour --bind 192.0.2.7  on an address of this host
  kofi tour --json            each call, event and completion as a JSON object, for programs

Exit codes: 0 all went as it should, 1 something did not (stderr says what), 2 wrong usage.")]
pub(crate) struct Options {
    /// Print one JSON object a line
    #[arg(long, global = true)]
    json: bool,
    /// Use ::1 instead of 127.0.0.1
    #[arg(long, short = '6')]
    ipv6: bool,
    /// Use this address of this host
    #[arg(long, value_name = "ADDR", conflicts_with = "ipv6")]
    bind: Option<IpAddr>,
}

pub(crate) fn run(options: &Options) -> Result {
    let address = options.bind.unwrap_or(match options.ipv6 {
        false => Ipv4Addr::LOCALHOST.into(),
        true => Ipv6Addr::LOCALHOST.into(),
    });
    let stage = Stage::new(options.json, WAIT);
    let (tell, name) = mpsc::channel();
    let (done, results) = mpsc::channel();
    let server = {
        let (actor, done) = (stage.server(), done.clone());
        move || done.send(server::play(&actor, address, &tell))
    };
    let client = {
        let actor = stage.client();
        move || done.send(client::play(&actor, address, &name))
    };
    // Whoever fails first ends the tour: the other is not waited for, since it may wait itself.
    let _server = thread::Builder::new().name("server".into()).spawn(server).map_err(no_thread)?;
    let _client = thread::Builder::new().name("client".into()).spawn(client).map_err(no_thread)?;
    for _ in 0..2 {
        // Each step has its limit in time, so both will have sent something.
        results.recv().map_err(|_| Failure::Run("a side of the tour ended without a word".into()))??;
    }
    stage.finish(address)
}

fn no_thread(error: std::io::Error) -> Failure {
    Failure::Run(format!("no thread for a side of the tour: {error}"))
}

/// `fi_getinfo` and `fi_fabric` and `fi_domain`: how both sides begin.
fn initialize(
    actor: &Actor,
    address: IpAddr,
    source: bool,
) -> Result<(kofi::Info, kofi::Fabric, kofi::Domain)> {
    let hints = Hints::new().provider("tcp").endpoint_type(EpType::Msg).caps(Caps::MSG);
    let version = Version::new(1, 17);
    let query = Query::new(hints.api_version(version)).node(address.to_string());
    let (query, flags) = match source {
        true => (query.source(), "FI_SOURCE"),
        false => (query, "0"),
    };
    let args = [
        ("version", Arg::name("FI_VERSION(1, 17)")),
        ("node", Arg::Text(address.to_string().into_bytes())),
        ("service", Arg::name("NULL")),
        ("flags", Arg::name(flags)),
        ("hints", Arg::name("{tcp, FI_EP_MSG, FI_MSG}")),
        ("info", Arg::name("&info")),
    ];
    let infos = actor.call("fi_getinfo", &args, || kofi::getinfo(query));
    let mut infos =
        infos.map_err(|failure| failure.hint("`kofi info` lists the addresses that can be used"))?;
    let info = infos.swap_remove(0);
    let args = [
        ("attr", Arg::name("info->fabric_attr")),
        ("fabric", Arg::name("&fabric")),
        ("context", Arg::name("NULL")),
    ];
    let fabric = actor.call("fi_fabric", &args, || kofi::Fabric::open(&info))?;
    let args = [
        ("fabric", Arg::name("fabric")),
        ("info", Arg::name("info")),
        ("domain", Arg::name("&domain")),
        ("context", Arg::name("NULL")),
    ];
    let domain = actor.call("fi_domain", &args, || fabric.domain(&info))?;
    Ok((info, fabric, domain))
}

/// `fi_eq_open` with room for 10 events.
fn open_eq(actor: &Actor, fabric: &kofi::Fabric) -> Result<EventQueue> {
    let args = [
        ("fabric", Arg::name("fabric")),
        ("attr", Arg::name("{10, 0, FI_WAIT_UNSPEC, 0, NULL}")),
        ("eq", Arg::name("&eq")),
        ("context", Arg::name("NULL")),
    ];
    let attr = kofi::EqAttr { size: 10, ..kofi::EqAttr::default() };
    actor.call("fi_eq_open", &args, || fabric.event_queue(attr))
}

fn open_cq(actor: &Actor, domain: &kofi::Domain) -> Result<CompletionQueue> {
    let args = [
        ("domain", Arg::name("domain")),
        ("attr", Arg::name("{FI_CQ_FORMAT_DATA, FI_WAIT_UNSPEC}")),
        ("cq", Arg::name("&cq")),
        ("context", Arg::name("NULL")),
    ];
    actor.call("fi_cq_open", &args, || domain.completion_queue(kofi::CqAttr::default()))
}

/// `fi_ep_bind` to the queues, and `fi_enable`.
fn bind_and_enable(
    actor: &Actor,
    ep: &dyn kofi::provider::EndpointOps,
    name: &'static str,
    eq: &EventQueue,
    cq: &CompletionQueue,
) -> Result {
    let args = |fid: &str, flags: &str| {
        [("ep", Arg::name(name)), ("fid", Arg::name(fid)), ("flags", Arg::name(flags))]
    };
    actor.call("fi_ep_bind", &args("&eq->fid", "0"), || ep.bind_eq(eq, OpFlags::empty()))?;
    let both = OpFlags::TRANSMIT | OpFlags::RECV;
    actor.call("fi_ep_bind", &args("&cq->fid", "FI_TRANSMIT | FI_RECV"), || ep.bind_cq(cq.ops(), both))?;
    actor.call("fi_enable", &[("ep", Arg::name(name))], || ep.enable())
}

/// `fi_recv` of a buffer.
fn receive(actor: &Actor, ep: &dyn kofi::provider::EndpointOps, len: usize, context: u64) -> Result {
    let args = [
        ("ep", Arg::name("ep")),
        ("buf", Arg::name("buf")),
        ("len", Arg::Number(len as u64)),
        ("desc", Arg::name("NULL")),
        ("src_addr", Arg::Number(0)),
        ("context", Arg::Hex(context)),
    ];
    let receive = kofi::Receive { buffers: vec![0; len].into(), flags: OpFlags::empty(), context };
    actor.call("fi_recv", &args, || ep.recv(receive))
}

/// `fi_send` of a message whose completion is read at once.
fn send(actor: &Actor, ep: &dyn kofi::provider::EndpointOps, text: &'static [u8], context: u64) -> Result {
    let args = [
        ("ep", Arg::name("ep")),
        ("buf", Arg::text(text)),
        ("len", Arg::Number(text.len() as u64)),
        ("desc", Arg::name("NULL")),
        ("dest_addr", Arg::Number(0)),
        ("context", Arg::Hex(context)),
    ];
    let message = kofi::Message { buffers: text.into(), context, ..kofi::Message::default() };
    actor.call("fi_send", &args, || ep.send(message))
}

/// Shows that `fi_eq_sread` is going to be called.
fn show_eq_sread(actor: &Actor) -> Result {
    let args = [
        ("eq", Arg::name("eq")),
        ("event", Arg::name("&event")),
        ("buf", Arg::name("&entry")),
        ("len", Arg::name("sizeof(entry)")),
        ("timeout", Arg::Number(WAIT.as_millis() as u64)),
        ("flags", Arg::Number(0)),
    ];
    actor.waits("fi_eq_sread", &args)
}

/// `fi_eq_sread`, as it was shown, for an event that is no error.
fn eq_sread(eq: &EventQueue, wanted: &str) -> Result<Event> {
    match eq.wait(WAIT) {
        Ok(Event::Failed { reason, .. }) => {
            Err(Failure::Run(format!("wanted {wanted}, but the connection failed: {reason}")))
        }
        Err(Error::Empty) => Err(Failure::Run(format!("wanted {wanted}, but nothing came in {WAIT:?}"))),
        other => Ok(other?),
    }
}

fn unexpected<T>(wanted: &str, found: &Event) -> Result<T> {
    Err(Failure::Run(format!("wanted {wanted}, found {found:?}")))
}

/// Shows that `fi_cq_sread` is going to be called.
fn show_cq_sread(actor: &Actor) -> Result {
    let args = [
        ("cq", Arg::name("cq")),
        ("buf", Arg::name("&entry")),
        ("count", Arg::Number(1)),
        ("cond", Arg::name("NULL")),
        ("timeout", Arg::Number(WAIT.as_millis() as u64)),
    ];
    actor.waits("fi_cq_sread", &args)
}

/// `fi_cq_sread`, as it was shown, for the operation with this context, which must have succeeded.
fn cq_sread(cq: &CompletionQueue, wanted: &str, context: u64) -> Result<Completion> {
    let completion = match cq.wait(WAIT) {
        Err(Error::Empty) => {
            return Err(Failure::Run(format!(
                "wanted the completion of {wanted}, but nothing came in {WAIT:?}"
            )));
        }
        other => other?,
    };
    if let Some(error) = completion.error {
        return Err(Failure::Run(format!("{wanted} completed with an error: {}", error.errno)));
    }
    if completion.context != context {
        let found = completion.context;
        return Err(Failure::Run(format!(
            "wanted {wanted} with context {context:#x}, found context {found:#x}"
        )));
    }
    Ok(completion)
}

/// `fi_cq_sread` of a send.
fn sent(actor: &Actor, cq: &CompletionQueue, wanted: &str, context: u64) -> Result {
    show_cq_sread(actor)?;
    let completion = cq_sread(cq, wanted, context)?;
    actor.completion(completion.flags, &[("context", Arg::Hex(context))])
}

/// Shows the completion of a receive, whose bytes must be these.
fn received(actor: &Actor, completion: Completion, expected: &[u8]) -> Result<Option<u64>> {
    let (flags, context, data) = (completion.flags, completion.context, completion.data);
    let bytes = completion.into_received().map_err(|error| Failure::Run(error.to_string()))?;
    if bytes != expected {
        let same = bytes.iter().zip(expected).take_while(|(found, wanted)| found == wanted).count();
        let (found, wanted) = (bytes.len(), expected.len());
        return Err(Failure::Run(format!(
            "wanted a message of {wanted} bytes, found one of {found} that differs from byte {same} on"
        )));
    }
    let mut fields = vec![("context", Arg::Hex(context)), ("len", Arg::Number(bytes.len() as u64))];
    if let Some(data) = data {
        fields.push(("data", Arg::Hex(data)));
    }
    fields.push(match bytes.len() {
        0..=ROOM => ("buf", Arg::Text(bytes)),
        _ => ("buf", Arg::name("as sent")),
    });
    actor.completion(flags, &fields)?;
    Ok(data)
}

/// `fi_cq_sread` of a receive, whose bytes must be these; gives the sender's completion data.
fn receipt(
    actor: &Actor,
    cq: &CompletionQueue,
    wanted: &str,
    context: u64,
    expected: &[u8],
) -> Result<Option<u64>> {
    show_cq_sread(actor)?;
    let completion = cq_sread(cq, wanted, context)?;
    received(actor, completion, expected)
}

/// The bytes of the big message: no two stretches of it are the same.
fn big() -> Vec<u8> {
    (0..BIG).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

/// `fi_close` of one object after the other.
fn close<E: Into<Error>>(actor: &Actor, fid: &'static str, close: impl FnOnce() -> Result<(), E>) -> Result {
    actor.call("fi_close", &[("fid", Arg::name(fid))], close)
}

/// `fi_close` of an object for which it always works.
fn close_now(actor: &Actor, fid: &'static str, close: impl FnOnce()) -> Result {
    actor.call("fi_close", &[("fid", Arg::name(fid))], || {
        close();
        Ok::<_, Error>(())
    })
}

/// Where the listener listens, once it does.
fn listener_name(name: &mpsc::Receiver<Address>) -> Result<Address> {
    name.recv_timeout(WAIT).map_err(|_| Failure::Run("the server did not say where it listens".into()))
}

fn connected_fields(data: &[u8]) -> Vec<(&'static str, Arg)> {
    let mut fields = vec![("fid", Arg::name("ep"))];
    if !data.is_empty() {
        fields.push(("data", Arg::text(data)));
    }
    fields
}

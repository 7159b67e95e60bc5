// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The client's side of the tour.

use std::net::IpAddr;
use std::sync::{Arc, mpsc};

use kofi::provider::EndpointOps;
use kofi::{Address, CompletionQueue, Domain, Error, Event, EventQueue, Info, Message};

use super::stage::{Actor, Arg};
use super::*;
use crate::failure::{Failure, Result};

pub(super) fn play(client: &Actor, address: IpAddr, name: &mpsc::Receiver<Address>) -> Result {
    client.enter(2)?;
    let (info, fabric, domain) = initialize(client, address, false)?;
    client.leave();

    client.enter(4)?;
    let server = listener_name(name)?;
    client.section("Client connection set-up")?;
    let eq = open_eq(client, &fabric)?;
    let cq = open_cq(client, &domain)?;
    let ep = endpoint(client, &domain, &info, "ep", &eq, &cq)?;
    receive(client, &*ep, ROOM, 0xc1)?;
    connect(client, &*ep, "ep", &server, KNOCK)?;
    show_eq_sread(client)?;
    client.leave();
    let event = eq_sread(&eq, "FI_CONNECTED")?;

    client.enter(6)?;
    match &event {
        Event::Connected { endpoint, data } if *endpoint == ep.fid() && data == WELCOME => {
            client.event("FI_CONNECTED", &connected_fields(data))?;
        }
        other => return unexpected("FI_CONNECTED with the server's data", other),
    }
    client.leave();

    client.enter(8)?;
    let stranger = endpoint(client, &domain, &info, "ep2", &eq, &cq)?;
    connect(client, &*stranger, "ep2", &server, STRANGER)?;
    show_eq_sread(client)?;
    client.leave();
    let answer = eq.sread(WAIT);

    client.enter(10)?;
    rejected(client, &eq, stranger, answer)?;

    client.section("Data transfer")?;
    send(client, &*ep, QUESTION, 0xc2)?;
    sent(client, &cq, "the first fi_send", 0xc2)?;
    show_cq_sread(client)?;
    client.leave();
    let completion = cq_sread(&cq, "the first fi_recv", 0xc1)?;

    client.enter(12)?;
    received(client, completion, ANSWER)?;
    let args = [
        ("ep", Arg::name("ep")),
        ("buf", Arg::text(NOTE)),
        ("len", Arg::Number(NOTE.len() as u64)),
        ("desc", Arg::name("NULL")),
        ("data", Arg::Hex(NOTE_DATA)),
        ("dest_addr", Arg::Number(0)),
        ("context", Arg::Hex(0xc3)),
    ];
    let message =
        Message { buffers: NOTE.into(), data: Some(NOTE_DATA), context: 0xc3, ..Message::default() };
    client.call("fi_senddata", &args, || ep.send(message))?;
    sent(client, &cq, "fi_senddata", 0xc3)?;
    let args = [
        ("ep", Arg::name("ep")),
        ("buf", Arg::text(INJECTED)),
        ("len", Arg::Number(INJECTED.len() as u64)),
        ("dest_addr", Arg::Number(0)),
    ];
    client.call("fi_inject", &args, || ep.inject(INJECTED, None))?;
    client.leave();

    client.enter(14)?;
    let args = [
        ("ep", Arg::name("ep")),
        ("buf", Arg::name("buf")),
        ("len", Arg::Number(BIG as u64)),
        ("desc", Arg::name("NULL")),
        ("dest_addr", Arg::Number(0)),
        ("context", Arg::Hex(0xc4)),
    ];
    let message = Message { buffers: big().into(), context: 0xc4, ..Message::default() };
    client.call("fi_send", &args, || ep.send(message))?;
    sent(client, &cq, "the second fi_send", 0xc4)?;
    client.leave();

    client.enter(16)?;
    client.section("Shutdown")?;
    client.call("fi_shutdown", &[("ep", Arg::name("ep")), ("flags", Arg::Number(0))], || ep.shutdown(0))?;
    show_eq_sread(client)?;
    let event = eq_sread(&eq, "FI_SHUTDOWN")?;
    match &event {
        Event::Shutdown { endpoint, reason } if *endpoint == ep.fid() => {
            let reason = Arg::Text(reason.to_string().into());
            client.event("FI_SHUTDOWN", &[("fid", Arg::name("ep")), ("reason", reason)])?;
        }
        other => return unexpected("FI_SHUTDOWN", other),
    }
    client.leave();

    client.enter(18)?;
    close_now(client, "ep", || ep.close())?;
    drop(ep);
    close(client, "cq", || cq.ops().close())?;
    drop(cq);
    close(client, "eq", || eq.close())?;
    close(client, "domain", || domain.close())?;
    close(client, "fabric", || fabric.close())?;
    client.leave();
    Ok(())
}

/// `fi_endpoint`, with its queues, enabled.
fn endpoint(
    client: &Actor,
    domain: &Domain,
    info: &Info,
    name: &'static str,
    eq: &EventQueue,
    cq: &CompletionQueue,
) -> Result<Arc<dyn EndpointOps>> {
    let args = [
        ("domain", Arg::name("domain")),
        ("info", Arg::name("info")),
        ("ep", Arg::name(format_args!("&{name}"))),
        ("context", Arg::name("NULL")),
    ];
    let ep = client.call("fi_endpoint", &args, || domain.ops().endpoint(info))?;
    bind_and_enable(client, &*ep, name, eq, cq)?;
    Ok(ep)
}

fn connect(
    client: &Actor,
    ep: &dyn EndpointOps,
    name: &'static str,
    server: &Address,
    data: &'static [u8],
) -> Result {
    let args = [
        ("ep", Arg::name(name)),
        ("addr", Arg::name(server)),
        ("param", Arg::text(data)),
        ("paramlen", Arg::Number(data.len() as u64)),
    ];
    client.call("fi_connect", &args, || ep.connect(Some(server), data))
}

/// Reads the error entry that a rejected request leaves, and closes its endpoint.
fn rejected(
    client: &Actor,
    eq: &EventQueue,
    ep: Arc<dyn EndpointOps>,
    answer: Result<Event, Error>,
) -> Result {
    match answer {
        Err(error @ Error::ErrorAvailable) => client.returned("fi_eq_sread", &error)?,
        Err(Error::Empty) => {
            return Err(Failure::Run(format!("wanted a rejection, but nothing came in {WAIT:?}")));
        }
        Err(error) => return Err(error.into()),
        Ok(event) => return unexpected("an error entry, since the request was rejected", &event),
    }
    let args = [("eq", Arg::name("eq")), ("buf", Arg::name("&err_entry")), ("flags", Arg::Number(0))];
    match client.call("fi_eq_readerr", &args, || eq.read_error())? {
        Event::Failed { endpoint, reason, data } if endpoint == ep.fid() && data == NO_TICKET => {
            let fields = [
                ("fid", Arg::name("ep2")),
                ("err", Arg::name(format_args!("{:?}", reason.errno()))),
                ("err_data", Arg::text(&data)),
                ("reason", Arg::Text(reason.to_string().into())),
            ];
            client.event("error", &fields)?;
        }
        other => return unexpected("the rejection with the server's data", &other),
    }
    close_now(client, "ep2", || ep.close())
}

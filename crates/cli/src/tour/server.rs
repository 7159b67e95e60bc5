// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The server's side of the tour.

use std::net::IpAddr;
use std::sync::mpsc;

use kofi::{Address, ConnectionRequest, Event, EventQueue};

use super::stage::{Actor, Arg};
use super::*;
use crate::failure::{Failure, Result};

pub(super) fn play(server: &Actor, address: IpAddr, tell: &mpsc::Sender<Address>) -> Result {
    server.enter(1)?;
    server.section("Initialization")?;
    let (info, fabric, domain) = initialize(server, address, true)?;
    server.leave();

    server.enter(3)?;
    server.section("Server connection set-up")?;
    let args = [
        ("fabric", Arg::name("fabric")),
        ("info", Arg::name("info")),
        ("pep", Arg::name("&pep")),
        ("context", Arg::name("NULL")),
    ];
    let pep = server.call("fi_passive_ep", &args, || fabric.passive_endpoint(&info))?;
    let eq = open_eq(server, &fabric)?;
    let args = [("pep", Arg::name("pep")), ("fid", Arg::name("&eq->fid")), ("flags", Arg::Number(0))];
    let pep = server.call("fi_pep_bind", &args, || pep.bind(&eq))?;
    let listener = server.call("fi_listen", &[("pep", Arg::name("pep"))], || pep.listen())?;
    let name = listener.name()?;
    let args = [("fid", Arg::name("&pep->fid")), ("addr", Arg::name(&name))];
    let name = server.call("fi_getname", &args, || listener.name())?;
    tell.send(name).map_err(|_| Failure::Run("the client is gone".into()))?;
    show_eq_sread(server)?;
    server.leave();
    let request = connection_request(&eq)?;

    server.enter(5)?;
    server.section("Connection finalization")?;
    show_request(server, &request, KNOCK)?;
    let cq = open_cq(server, &domain)?;
    let args = [
        ("domain", Arg::name("domain")),
        ("info", Arg::name("entry.info")),
        ("ep", Arg::name("&ep")),
        ("context", Arg::name("NULL")),
    ];
    let ep = server.call("fi_endpoint", &args, || domain.ops().endpoint_for(&request))?;
    bind_and_enable(server, &*ep, "ep", &eq, &cq)?;
    receive(server, &*ep, ROOM, 0x51)?;
    let args = [
        ("ep", Arg::name("ep")),
        ("param", Arg::text(WELCOME)),
        ("paramlen", Arg::Number(WELCOME.len() as u64)),
    ];
    server.call("fi_accept", &args, || ep.accept(WELCOME))?;
    show_eq_sread(server)?;
    let event = eq_sread(&eq, "FI_CONNECTED")?;
    match &event {
        Event::Connected { endpoint, data } if *endpoint == ep.fid() => {
            server.event("FI_CONNECTED", &connected_fields(data))?;
        }
        other => return unexpected("FI_CONNECTED of the accepted endpoint", other),
    }
    server.leave();

    // A second request, which is rejected.
    server.enter(7)?;
    show_eq_sread(server)?;
    server.leave();
    let request = connection_request(&eq)?;

    server.enter(9)?;
    show_request(server, &request, STRANGER)?;
    let args = [
        ("pep", Arg::name("pep")),
        ("handle", Arg::name("entry.info->handle")),
        ("param", Arg::text(NO_TICKET)),
        ("paramlen", Arg::Number(NO_TICKET.len() as u64)),
    ];
    server.call("fi_reject", &args, || request.reject(NO_TICKET))?;
    drop(request);
    server.leave();

    server.enter(11)?;
    receipt(server, &cq, "the first fi_recv", 0x51, QUESTION)?;
    receive(server, &*ep, ROOM, 0x52)?;
    receive(server, &*ep, ROOM, 0x53)?;
    receive(server, &*ep, BIG, 0x54)?;
    send(server, &*ep, ANSWER, 0x55)?;
    sent(server, &cq, "the first fi_send", 0x55)?;
    server.leave();

    server.enter(13)?;
    let data = receipt(server, &cq, "the second fi_recv", 0x52, NOTE)?;
    if data != Some(NOTE_DATA) {
        return Err(Failure::Run(format!("wanted completion data {NOTE_DATA:#x}, found {data:x?}")));
    }
    receipt(server, &cq, "the third fi_recv", 0x53, INJECTED)?;
    show_cq_sread(server)?;
    server.leave();
    let completion = cq_sread(&cq, "the fourth fi_recv", 0x54)?;

    server.enter(15)?;
    received(server, completion, &big())?;
    show_eq_sread(server)?;
    server.leave();
    let event = eq_sread(&eq, "FI_SHUTDOWN")?;

    server.enter(17)?;
    match &event {
        Event::Shutdown { endpoint, reason } if *endpoint == ep.fid() => {
            server.event(
                "FI_SHUTDOWN",
                &[("fid", Arg::name("ep")), ("reason", Arg::Text(reason.to_string().into()))],
            )?;
        }
        other => return unexpected("FI_SHUTDOWN", other),
    }
    close_now(server, "ep", || ep.close())?;
    drop(ep);
    close(server, "cq", || cq.ops().close())?;
    drop(cq);
    close_now(server, "pep", || listener.close())?;
    close(server, "eq", || eq.close())?;
    close(server, "domain", || domain.close())?;
    close(server, "fabric", || fabric.close())?;
    server.leave();
    Ok(())
}

fn connection_request(eq: &EventQueue) -> Result<ConnectionRequest> {
    match eq_sread(eq, "FI_CONNREQ")? {
        Event::ConnectionRequest(request) => Ok(request),
        other => unexpected("FI_CONNREQ", &other),
    }
}

/// Shows a request, which must carry this private data.
fn show_request(server: &Actor, request: &ConnectionRequest, expected: &[u8]) -> Result {
    if request.data() != expected {
        return Err(Failure::Run(format!(
            "wanted a request with {:?}, found {:?}",
            String::from_utf8_lossy(expected),
            String::from_utf8_lossy(request.data())
        )));
    }
    let peer = request.info().dest_addr.as_ref().map_or_else(|| "?".into(), ToString::to_string);
    let fields =
        [("fid", Arg::name("pep")), ("dest_addr", Arg::name(peer)), ("data", Arg::text(request.data()))];
    server.event("FI_CONNREQ", &fields)
}

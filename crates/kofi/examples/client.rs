// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! A client: sends its arguments one by one and shows what comes back. See `server.rs`.

use std::net::SocketAddr;
use std::time::Duration;

use kofi::{Event, Fabric, Hints};

const TIME: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let addr: SocketAddr = arguments.next().as_deref().unwrap_or("127.0.0.1:7471").parse()?;
    let info = kofi::getinfo(Hints::new().provider("tcp").dest(addr))?.remove(0);
    let fabric = Fabric::open(&info)?;
    let eq = fabric.event_queue(Default::default())?;
    let domain = fabric.domain(&info)?;
    let cq = domain.completion_queue(Default::default())?;
    let endpoint = domain.endpoint(&info, &eq, &cq)?.connect(b"hello")?;
    match eq.wait(TIME)? {
        Event::Connected { data, .. } => println!("{}", String::from_utf8_lossy(&data)),
        Event::Failed { reason, data, .. } => {
            return Err(format!("{reason}: {}", String::from_utf8_lossy(&data)).into());
        }
        other => return Err(format!("unexpected: {other:?}").into()),
    }
    for argument in arguments {
        endpoint.recv(vec![0; 1024], 0)?;
        endpoint.send(argument, 0)?;
        loop {
            let done = cq.wait(TIME)?.ok()?;
            if done.is_receive() {
                println!("{}", String::from_utf8_lossy(&done.into_received()?));
                break;
            }
        }
    }
    endpoint.shutdown()?;
    while !matches!(eq.wait(TIME)?, Event::Shutdown { .. }) {}
    Ok(())
}

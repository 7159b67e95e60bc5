// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! A server for many clients in one loop: it sends back what it gets, and rejects who does not greet.
//!
//! ```sh
//! cargo run --example server -- 127.0.0.1:7471 &
//! cargo run --example client -- 127.0.0.1:7471 "some words" and more
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;

use kofi::{Endpoint, Error, Event, Fabric, Fid, Hints};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr: SocketAddr = std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:7471").parse()?;
    let info = kofi::getinfo(Hints::new().provider("tcp").source(addr))?.remove(0);
    let fabric = Fabric::open(&info)?;
    let events = fabric.wait_set()?;
    let eq = fabric.event_queue_in(&events, Default::default())?;
    let domain = fabric.domain(&info)?;
    let cq = domain.completion_queue_in(&events, Default::default())?;
    let listener = fabric.passive_endpoint(&info)?.bind(&eq)?.listen()?;
    println!("listening at {}", listener.name()?);

    // The context of an operation names its endpoint.
    let mut endpoints: HashMap<u64, Endpoint> = HashMap::new();
    loop {
        match events.wait(None) {
            Ok(()) | Err(Error::Empty) => {}
            Err(error) => return Err(error.into()),
        }
        loop {
            match eq.read() {
                Ok(Event::ConnectionRequest(request)) if request.data() == b"hello" => {
                    let endpoint = domain.endpoint_for(&request, &eq, &cq)?;
                    let Fid(context) = endpoint.fid();
                    endpoint.recv(vec![0; 1024], context)?;
                    endpoints.insert(context, endpoint.accept(b"welcome")?);
                }
                Ok(Event::ConnectionRequest(request)) => request.reject(b"say hello first")?,
                Ok(Event::Connected { endpoint, .. }) => println!("{endpoint:?} connected"),
                Ok(Event::Shutdown { endpoint, reason }) => {
                    println!("{endpoint:?}: {reason}");
                    endpoints.remove(&endpoint.0);
                }
                Ok(other) => println!("{other:?}"),
                Err(Error::ErrorAvailable) => println!("{:?}", eq.read_error()?),
                Err(Error::Empty) => break,
                Err(error) => return Err(error.into()),
            }
        }
        while let Ok(done) = cq.poll() {
            let Some(endpoint) = endpoints.get(&done.context) else { continue };
            match (done.is_receive(), &done.error) {
                (true, None) => {
                    let context = done.context;
                    let message = done.into_received()?;
                    endpoint.recv(vec![0; 1024], context)?;
                    endpoint.send(message, context)?;
                }
                (_, Some(error)) => println!("{:?}: {error}", endpoint.fid()),
                (false, None) => {}
            }
        }
    }
}

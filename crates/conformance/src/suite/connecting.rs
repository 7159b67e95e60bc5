// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Connect, accept, reject: from two endpoints to a connection, or to one event that says why not.

use super::Outcome;
use super::fixture::*;
use crate::World;

/// 3.2, 3.3: connect's data comes with FI_CONNREQ, accept's with the FI_CONNECTED of the active side
/// only.
pub fn private_data_goes_both_ways(world: &mut dyn World) -> Outcome {
    let pair = Pair::open(world);
    let (client, request, data) = pair.ask(world, b"may I");
    assert_eq!(data, b"may I");
    let server = pair.server.endpoint(world, Some(request));
    ok(world.accept(server, b"you may"));
    assert_eq!(connected(world, pair.server.eq, server), b"");
    assert_eq!(connected(world, pair.client.eq, client), b"you may");
    let connection = Connected { pair, server, client };
    connection.exchange(world, b"hello");
    connection.close(world);
    PASSED
}

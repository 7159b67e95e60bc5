// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The suite over the real library and real sockets.

use kofi_conformance::Tcp;

fn open() -> Tcp {
    Tcp::default()
}

kofi_conformance::conformance!(open);

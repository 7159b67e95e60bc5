// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The suite over the real library with automatic progress: its threads and the application call into
//! the same objects.

use kofi_conformance::Tcp;

kofi_conformance::conformance!(open);

fn open() -> Tcp {
    Tcp::with_threads()
}

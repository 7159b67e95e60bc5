// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Whom this copy of the code serves: it is linked into `libfabric.so.1` and into the external provider, and a
//! process may have both.

use std::sync::OnceLock;

use crate::layout::InfoLayout;

/// What differs between the two.
#[derive(Clone, Copy, Debug)]
pub struct Face {
    /// The provider's name, as C programs see it. Behind it is always kofi's `tcp`.
    pub provider: &'static str,
    /// How large the structures are that come in: those of the library that allocates them.
    pub layout: InfoLayout,
    /// Whether the library that has loaded us fills in name and version of the provider.
    pub is_plugin: bool,
}

const LIBRARY: Face =
    Face { provider: kofi_core::offer::NAME, layout: InfoLayout::FABRIC_1_10, is_plugin: false };

static FACE: OnceLock<Face> = OnceLock::new();

/// That of this copy: `libfabric.so.1`'s, unless [`set`] says otherwise.
pub fn face() -> &'static Face {
    FACE.get().unwrap_or(&LIBRARY)
}

/// Says whom this copy serves, before anything else is called. The first one counts.
pub fn set(face: Face) {
    // A library that is loaded twice is asked twice, and says the same.
    let _ = FACE.set(face);
}

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! How large structures were for programs built with older headers.
//!
//! Structures only ever grow at their end. A program gives those of its own time, so nothing may be read, and in
//! entries that it provides nothing written, beyond the size that they had then.

use kofi_core::Version;

/// Sizes of `fi_info` and its attributes, bytes, for one version node of the library's symbols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InfoLayout {
    /// `struct fi_info`.
    pub info: usize,
    /// `struct fi_fabric_attr`, as far as it is defined.
    pub fabric_attr: usize,
    /// `struct fi_domain_attr`.
    pub domain_attr: usize,
    /// `struct fi_ep_attr`.
    pub ep_attr: usize,
    /// `struct fi_tx_attr`.
    pub tx_attr: usize,
    /// `struct fi_rx_attr`.
    pub rx_attr: usize,
}

impl InfoLayout {
    /// `FABRIC_1.0`, releases 1.3 and 1.4.
    pub const FABRIC_1_0: Self =
        Self { info: 112, fabric_attr: 28, domain_attr: 120, ep_attr: 80, tx_attr: 72, rx_attr: 64 };
    /// `FABRIC_1.1`, releases 1.5 and 1.6.
    pub const FABRIC_1_1: Self = Self { fabric_attr: 32, domain_attr: 184, ep_attr: 96, ..Self::FABRIC_1_0 };
    /// `FABRIC_1.2`, releases 1.7 and 1.8.
    pub const FABRIC_1_2: Self = Self { info: 120, ..Self::FABRIC_1_1 };
    /// `FABRIC_1.3`, releases 1.9 to 1.19.
    pub const FABRIC_1_3: Self = Self { domain_attr: 192, tx_attr: 80, ..Self::FABRIC_1_2 };
    /// `FABRIC_1.7`, releases 1.20 to 1.22.
    pub const FABRIC_1_7: Self = Self { domain_attr: 200, ..Self::FABRIC_1_3 };
    /// `FABRIC_1.8`, releases 2.0 to 2.4.
    pub const FABRIC_1_8: Self = Self { domain_attr: 208, ..Self::FABRIC_1_7 };
    /// `FABRIC_1.9`, releases 2.5 and 2.6.
    pub const FABRIC_1_9: Self = Self { domain_attr: 224, ..Self::FABRIC_1_8 };
    /// `FABRIC_1.10`, the newest.
    pub const FABRIC_1_10: Self = Self { domain_attr: 232, ep_attr: 104, ..Self::FABRIC_1_9 };

    /// What both have.
    pub fn common(&self, other: &Self) -> Self {
        Self {
            info: self.info.min(other.info),
            fabric_attr: self.fabric_attr.min(other.fabric_attr),
            domain_attr: self.domain_attr.min(other.domain_attr),
            ep_attr: self.ep_attr.min(other.ep_attr),
            tx_attr: self.tx_attr.min(other.tx_attr),
            rx_attr: self.rx_attr.min(other.rx_attr),
        }
    }

    /// That of a release, by what its `fi_version` says. The newest says the same as the one before it, and is taken
    /// for that.
    pub fn of_release(version: Version) -> Self {
        match (version.major, version.minor) {
            (1, ..5) => Self::FABRIC_1_0,
            (1, 5..7) => Self::FABRIC_1_1,
            (1, 7..9) => Self::FABRIC_1_2,
            (1, 9..20) => Self::FABRIC_1_3,
            (1, _) => Self::FABRIC_1_7,
            (2, ..5) => Self::FABRIC_1_8,
            _ => Self::FABRIC_1_9,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr};

    #[test]
    fn the_newest_is_that_of_the_structures() {
        let newest = InfoLayout {
            info: size_of::<fi_info>(),
            fabric_attr: size_of::<fi_fabric_attr>(),
            domain_attr: size_of::<fi_domain_attr>(),
            ep_attr: size_of::<fi_ep_attr>(),
            tx_attr: size_of::<fi_tx_attr>(),
            rx_attr: size_of::<fi_rx_attr>(),
        };
        assert_eq!(InfoLayout::FABRIC_1_10, newest);
    }

    #[test]
    fn what_both_have_is_the_older_one() {
        assert_eq!(InfoLayout::FABRIC_1_10.common(&InfoLayout::FABRIC_1_3), InfoLayout::FABRIC_1_3);
        assert_eq!(InfoLayout::FABRIC_1_0.common(&InfoLayout::FABRIC_1_9), InfoLayout::FABRIC_1_0);
    }

    #[test]
    fn releases_have_the_layout_of_their_newest_symbols() {
        for ((major, minor), layout) in [
            ((1, 3), InfoLayout::FABRIC_1_0),
            ((1, 5), InfoLayout::FABRIC_1_1),
            ((1, 8), InfoLayout::FABRIC_1_2),
            ((1, 17), InfoLayout::FABRIC_1_3),
            ((1, 20), InfoLayout::FABRIC_1_7),
            ((2, 1), InfoLayout::FABRIC_1_8),
            ((2, 6), InfoLayout::FABRIC_1_9),
            ((3, 0), InfoLayout::FABRIC_1_9),
        ] {
            assert_eq!(InfoLayout::of_release(Version::new(major, minor)), layout, "{major}.{minor}");
        }
    }
}

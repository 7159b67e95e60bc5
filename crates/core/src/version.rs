// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Interface and provider versions: `FI_VERSION` of `fi_getinfo(3)`.

use core::fmt;

/// A major and a minor number, ordered by age; C packs them into 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// Upper half of the packed number.
    pub major: u16,
    /// Lower half of the packed number.
    pub minor: u16,
}

impl Version {
    /// `FI_VERSION(major, minor)`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// From the packed number: `FI_MAJOR`, `FI_MINOR`.
    pub const fn from_raw(raw: u32) -> Self {
        Self { major: (raw >> 16) as u16, minor: raw as u16 }
    }

    /// The packed number.
    pub const fn raw(self) -> u32 {
        (self.major as u32) << 16 | self.minor as u32
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn packs_prints_and_orders_as_c_does() {
        let version = Version::new(1, 17);
        assert_eq!(version.raw(), 0x0001_0011);
        assert_eq!(Version::from_raw(version.raw()), version);
        assert_eq!(version.to_string(), "1.17");
        assert!(Version::new(1, 17) < Version::new(1, 20) && Version::new(1, 20) < Version::new(2, 0));
    }
}

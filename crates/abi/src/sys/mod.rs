// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What libfabric's headers declare: structures, tables of operations and constants, under C's names, in the
//! newest layout (library 2.7, API 2.6, x86-64 and every other 64-bit Linux).
//!
//! Structures and tables only ever grow at their end; [`crate::layout`] has the sizes that older programs know.
//! Enumerations are integers here, since C can hand over any number. All slots of a table are there, since
//! programs call most of them unseen; what may be null in C is an `Option`.
#![allow(non_camel_case_types)]
// The manual pages, which each item names, describe fields and values.
#![allow(missing_docs)]

/// Declares C structures, and lists their layout for the test against the headers.
macro_rules! c_structs {
    ($($(#[$doc:meta])* pub struct $name:ident { $(pub $field:ident: $type:ty,)* })*) => {
        $($(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            $(pub $field: $type,)*
        })*

        #[cfg(test)]
        pub(super) const LAYOUT: &[super::tests::Struct] = &[$(super::tests::Struct {
            name: stringify!($name),
            size: size_of::<$name>(),
            fields: &[$((stringify!($field), core::mem::offset_of!($name, $field), {
                // The size of a field, without a value of it.
                const fn of<S, T>(_: fn(&S) -> &T) -> usize {
                    size_of::<T>()
                }
                of(|all: &$name| &all.$field)
            }),)*],
        },)*];
    };
}

/// Declares constants of a type, and lists them for the test against the headers.
macro_rules! constants {
    ($(#[$doc:meta] $type:ident { $($name:ident = $value:expr,)* })*) => {
        $($(#[$doc] pub const $name: $type = $value;)*)*

        #[cfg(test)]
        pub(super) const CONSTANTS: &[(&str, u64)] = &[$($((stringify!($name), $name as u64),)*)*];
    };
}

/// Declares enumerations as integers, with their values, and lists these for [`names`] and the test against the
/// headers.
macro_rules! enums {
    ($($(#[$doc:meta])* $type:ident { $($name:ident = $value:literal,)* })*) => {
        $($(#[$doc])*
        pub type $type = u32;
        $(#[doc = concat!("See [`", stringify!($type), "`].")]
        pub const $name: $type = $value;)*)*

        /// The names of enumerations' values, each list called as its enumeration.
        #[allow(non_upper_case_globals)]
        pub mod names {
            $(#[doc = concat!("Of [`", stringify!($type), "`](super::", stringify!($type), ").")]
            pub const $type: &[(&str, u32)] = &[$((stringify!($name), $value),)*];)*
        }

        #[cfg(test)]
        pub(super) const ENUMS: &[&[(&str, u32)]] = &[$(names::$type,)*];
    };
}

#[cfg(test)]
mod tests;

mod av;
mod cntr;
mod constants;
mod cq;
mod ep;
mod eq;
mod fabric;
mod info;
mod mr;
mod object;
mod op;
mod provider;
mod wait;

pub use av::*;
pub use cntr::*;
pub use constants::*;
pub use cq::*;
pub use ep::*;
pub use eq::*;
pub use fabric::*;
pub use info::*;
pub use libc::iovec;
pub use mr::*;
pub use object::*;
pub use op::*;
pub use provider::*;
pub use wait::*;

/// Address of a peer in an address vector (`fi_av(3)`).
pub type fi_addr_t = u64;

/// Declares types that only pointers to are known.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        $($(#[$doc])*
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        })*
    };
}

opaque! {
    /// Context for operations that an accelerator starts (`FI_XPU`), which no provider of ours has.
    fid_xpu_ctx,
    /// See [`fid_xpu_ctx`].
    fid_xpu_ep,
    /// See [`fid_xpu_ctx`].
    fid_xpu_cq,
    /// See [`fid_xpu_ctx`].
    fid_xpu_cntr,
    /// See [`fid_xpu_ctx`].
    fi_xpu_attr,
}

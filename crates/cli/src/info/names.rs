// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! OFI's names, as people write them.

use std::fmt::Display;
use std::str::FromStr;

use bitflags::Flags;
use kofi::{AddrFormat, Caps, EpType, Mode, MrMode, Order, Progress, Protocol, Threading};

/// Mistakes that may lie between a word and the name that was meant.
const NEAR: usize = 2;

/// A set or an enumeration with names that can be listed.
pub(super) trait Names: FromStr<Err: Display> {
    /// All names, in OFI's order.
    fn all() -> Vec<String>;
}

macro_rules! sets {
    ($($set:ident $prefix:literal)*) => {$(
        impl Names for $set {
            fn all() -> Vec<String> {
                Self::FLAGS.iter().map(|flag| format!("{}{}", $prefix, flag.name())).collect()
            }
        }
    )*};
}

macro_rules! enums {
    ($($name:ident)*) => {$(
        impl Names for $name {
            fn all() -> Vec<String> {
                let values = (0..).map(Self::from_raw).take_while(|value| !matches!(value, Self::Other(_)));
                values.map(|value| value.to_string()).collect()
            }
        }
    )*};
}

sets!(Caps "FI_" Mode "FI_" MrMode "FI_MR_" Order "FI_ORDER_");
enums!(AddrFormat EpType Progress Protocol Threading);

/// Reads names in any case and with or without one of these prefixes; a set takes several.
pub(super) fn named<T: Names>(
    prefixes: &'static [&'static str],
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let text = text.to_uppercase();
        let words = || text.split([',', '|']).map(str::trim);
        let mut failure = None;
        for prefix in prefixes {
            let full: Vec<_> = words().map(|word| with_prefix(prefix, word)).collect();
            match full.join(",").parse() {
                Ok(value) => return Ok(value),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let failure = failure.map_or_else(String::new, |error| error.to_string());
        let names = T::all();
        let tried = |word| prefixes.iter().map(move |prefix| with_prefix(prefix, word));
        let unknown = words().find(|word| !tried(word).any(|full| names.contains(&full)));
        let near = unknown.map(|word| nearest(&names, tried(word))).unwrap_or_default();
        Err(match near.is_empty() {
            false => format!("{failure}; did you mean {}?", near.join(" or ")),
            true => format!("{failure}; there are: {}", names.join(", ")),
        })
    }
}

fn with_prefix(prefix: &str, word: &str) -> String {
    if word.starts_with("FI_") { word.to_owned() } else { format!("{prefix}{word}") }
}

/// The names with the fewest mistakes in them, if those are few.
fn nearest(names: &[String], words: impl Iterator<Item = String> + Clone) -> Vec<String> {
    let mistakes = |name: &String| words.clone().map(|word| strsim::osa_distance(name, &word)).min();
    let fewest = names.iter().filter_map(mistakes).min().filter(|fewest| *fewest <= NEAR);
    names.iter().filter(|name| fewest.is_some() && mistakes(name) == fewest).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_case_and_without_prefix() {
        let caps = named::<Caps>(&["FI_"]);
        assert_eq!(caps("FI_MSG,FI_RMA"), Ok(Caps::MSG | Caps::RMA));
        assert_eq!(caps("msg | rma"), Ok(Caps::MSG | Caps::RMA));
        let format = named::<AddrFormat>(&["FI_", "FI_ADDR_"]);
        assert_eq!(format("sockaddr_in6"), Ok(AddrFormat::SockaddrIn6));
        assert_eq!(format("FI_ADDR_STR"), Ok(AddrFormat::Str));
        assert_eq!(format("str"), Ok(AddrFormat::Str));
        assert_eq!(named::<EpType>(&["FI_EP_"])("msg"), Ok(EpType::Msg));
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_are_known() {
        let ep_type = |text| named::<EpType>(&["FI_EP_"])(text).unwrap_err();
        let meant = "unknown name \"FI_EP_RMD\"; did you mean FI_EP_RDM?";
        assert_eq!((ep_type("FI_EP_RMD"), ep_type("rmd")), (meant.into(), meant.into()));
        assert_eq!(
            ep_type("tcp"),
            "unknown name \"FI_EP_TCP\"; there are: FI_EP_UNSPEC, FI_EP_MSG, FI_EP_DGRAM, FI_EP_RDM, \
             FI_EP_SOCK_STREAM, FI_EP_SOCK_DGRAM"
        );
        let caps = named::<Caps>(&["FI_"])("msg,tagd,foo").unwrap_err();
        assert_eq!(caps, "unknown name \"FI_TAGD\"; did you mean FI_TAGGED?");
        let order = named::<Order>(&["FI_ORDER_"])("rmarar").unwrap_err();
        assert!(order.ends_with("did you mean FI_ORDER_RMA_RAR?"), "{order}");
        let format = named::<AddrFormat>(&["FI_", "FI_ADDR_"])("eff").unwrap_err();
        assert!(format.ends_with("did you mean FI_ADDR_EFA?"), "{format}");
    }

    #[test]
    fn each_listed_name_is_one() {
        fn check<T: Names>(count: usize) {
            let names = T::all();
            assert_eq!(names.len(), count, "{names:?}");
            assert!(names.iter().all(|name| name.parse::<T>().is_ok()), "{names:?}");
        }
        check::<Mode>(Mode::FLAGS.len());
        check::<MrMode>(MrMode::FLAGS.len());
        check::<Order>(Order::FLAGS.len());
        check::<Caps>(Caps::FLAGS.len());
        check::<EpType>(6);
        check::<AddrFormat>(18);
        check::<Protocol>(29);
        check::<Progress>(4);
        check::<Threading>(6);
    }
}

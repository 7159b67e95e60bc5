// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Lists of names that environment variables let in or keep out: `FI_PROVIDER`, `FI_LOG_PROV`, `FI_LOG_SUBSYS`
//! (`fabric(7)`, `fi_getinfo(3)`).

/// `a,b`: only these; `^a,b`: all but these. Letters count in either case.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    names: Option<Vec<String>>,
    is_negated: bool,
}

impl Filter {
    /// Reads a list; none, or an empty one, lets everything in.
    pub fn new(list: Option<&str>) -> Self {
        let Some(list) = list.map(str::trim).filter(|list| !list.is_empty()) else { return Self::default() };
        let (is_negated, list) = match list.strip_prefix('^') {
            Some(list) => (true, list),
            None => (false, list),
        };
        let names = list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        Self { names: Some(names.collect()), is_negated }
    }

    /// Whether it lets this name in.
    pub fn admits(&self, name: &str) -> bool {
        match &self.names {
            Some(names) => names.iter().any(|listed| listed.eq_ignore_ascii_case(name)) != self.is_negated,
            None => true,
        }
    }

    /// The names that are none of these.
    pub fn unknown<'a>(&'a self, known: &'a [&str]) -> impl Iterator<Item = &'a str> {
        let names = self.names.iter().flatten().map(String::as_str);
        names.filter(|name| !known.iter().any(|known| known.eq_ignore_ascii_case(name)))
    }
}

/// Whether a provider's name meets `hints->fabric_attr->prov_name`: names of layers, separated by `;`, and behind
/// them `^name` for what must not be among them (`fi_getinfo(3)`). No provider of ours is layered on another.
pub fn prov_name_admits(wanted: &str, name: &str) -> bool {
    let layers = || wanted.split(';').filter(|layer| !layer.is_empty());
    let is_excluded =
        layers().filter_map(|layer| layer.strip_prefix('^')).any(|no| no.eq_ignore_ascii_case(name));
    let mut wanted = layers().filter(|layer| !layer.starts_with('^'));
    !is_excluded
        && match (wanted.next(), wanted.next()) {
            (None, _) => true,
            (Some(only), None) => only.eq_ignore_ascii_case(name),
            (Some(_), Some(_)) => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_let_in_or_keep_out() {
        for (list, tcp, shm) in [
            (None, true, true),
            (Some(""), true, true),
            (Some("tcp"), true, false),
            (Some("TCP,udp"), true, false),
            (Some("^tcp"), false, true),
            (Some("^tcp,shm"), false, false),
            (Some("^"), true, true),
        ] {
            let filter = Filter::new(list);
            assert_eq!((filter.admits("tcp"), filter.admits("shm")), (tcp, shm), "{list:?}");
        }
        assert!(Filter::new(Some("tcp,tpc")).unknown(&["tcp"]).eq(["tpc"]));
    }

    #[test]
    fn provider_names_of_hints() {
        for (wanted, answer) in [
            ("tcp", true),
            ("TCP", true),
            ("", true),
            ("shm", false),
            ("tcp;ofi_rxm", false),
            ("tcp;^ofi_rxm", true),
            ("^shm", true),
            ("^tcp", false),
            ("tcp;^tcp", false),
        ] {
            assert_eq!(prov_name_admits(wanted, "tcp"), answer, "{wanted}");
        }
    }
}

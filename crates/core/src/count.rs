// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Numbers of things in texts: what there is none of is not named.

use core::fmt;

use alloc::string::String;

use crate::error::text;

/// `1 byte`, `2 bytes`.
pub(crate) struct Of(pub(crate) u64, pub(crate) &'static str);

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        write!(f, "{count} {what}{}", if *count == 1 { "" } else { "s" })
    }
}

/// `1 domain, 2 event queues and 1 wait set`.
struct List<'a>(&'a [(usize, &'static str)]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = || self.0.iter().filter(|(count, _)| *count > 0);
        let all = there().count();
        for (index, (count, what)) in there().enumerate() {
            let before = match index {
                0 => "",
                index if index + 1 == all => " and ",
                _ => ", ",
            };
            write!(f, "{before}{}", Of(*count as u64, what))?;
        }
        Ok(())
    }
}

/// The same as a text, as much of it as there is memory for.
pub(crate) fn list(counts: &[(usize, &'static str)]) -> String {
    text(format_args!("{}", List(counts)))
}

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn one_of_many_none() {
        let text = |a, b, c| list(&[(a, "domain"), (b, "event queue"), (c, "wait set")]);
        assert_eq!(text(1, 0, 0), "1 domain");
        assert_eq!(text(0, 2, 1), "2 event queues and 1 wait set");
        assert_eq!(text(3, 1, 2), "3 domains, 1 event queue and 2 wait sets");
        assert_eq!(text(0, 0, 0), "");
    }
}

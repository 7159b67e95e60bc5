// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Results: for people, and as JSON.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use serde_json::json;

use super::cases::{Better, Group, Metric};
use super::run::Stack;
use crate::failure::Result;

/// All rounds of one number.
#[derive(Clone, Serialize)]
pub(super) struct Series {
    median: f64,
    min: f64,
    max: f64,
    rounds: Vec<f64>,
}

impl Series {
    pub(super) fn new(rounds: Vec<f64>) -> Option<Self> {
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get((sorted.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(lower, upper), min, max, rounds })
    }

    /// Round by round: what ran at about the same time is compared.
    fn over(&self, other: &Self) -> Option<Self> {
        let pairs = self.rounds.iter().zip(&other.rounds).filter(|(_, other)| **other > 0.0);
        Self::new(pairs.map(|(own, other)| own / other).collect())
    }

    pub(super) fn median(&self) -> f64 {
        self.median
    }
}

/// One number, over all stacks.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) group: Group,
    pub(super) case: String,
    pub(super) size: usize,
    pub(super) metric: Metric,
    /// In the order of [`Stack::ALL`].
    pub(super) values: [Option<Series>; Stack::COUNT],
    /// How each was used.
    pub(super) ways: [String; Stack::COUNT],
}

impl Row {
    pub(super) fn of(&self, stack: Stack) -> Option<&Series> {
        let at = Stack::ALL.iter().position(|known| *known == stack)?;
        self.values.get(at)?.as_ref()
    }

    fn ratio(&self, of: Stack, to: Stack) -> Option<Series> {
        self.of(of)?.over(self.of(to)?)
    }
}

/// All that was found.
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    /// What could not be had, and why.
    pub(super) notes: Vec<String>,
    pub(super) quick: bool,
    /// The version of stock libfabric.
    pub(super) stock: Option<String>,
    /// That of the library that `--library` names.
    pub(super) library: Option<String>,
    pub(super) cpus: Option<[usize; 2]>,
}

const LABEL: usize = 33;
/// What is compared; the last two where there is a library.
const RATIOS: [(Stack, Stack); 4] = [
    (Stack::Kofi, Stack::Plain),
    (Stack::Kofi, Stack::Stock),
    (Stack::Library, Stack::Kofi),
    (Stack::Library, Stack::Stock),
];

impl Report {
    pub(super) fn json(&self) -> Result {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "group": row.group,
                    "case": row.case,
                    "metric": row.metric.name,
                    "unit": row.metric.unit,
                    "better": row.metric.better,
                    "kofi": row.of(Stack::Kofi),
                    "plain": row.of(Stack::Plain),
                    "stock": row.of(Stack::Stock),
                    "library": row.of(Stack::Library),
                    "ways": Stack::ALL.iter().zip(&row.ways).map(|(stack, way)| (stack.name(), way)).collect::<BTreeMap<_, _>>(),
                    "kofi/plain": row.ratio(Stack::Kofi, Stack::Plain),
                    "kofi/stock": row.ratio(Stack::Kofi, Stack::Stock),
                    "library/kofi": row.ratio(Stack::Library, Stack::Kofi),
                    "library/stock": row.ratio(Stack::Library, Stack::Stock),
                })
            })
            .collect();
        let report = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "quick": self.quick,
            "stock_version": self.stock,
            "library_version": self.library,
            "processors": self.cpus,
            "rows": rows,
            "notes": self.notes,
        });
        Ok(writeln!(anstream::stdout(), "{}", serde_json::to_string_pretty(&report)?)?)
    }

    pub(super) fn text(&self) -> Result {
        let mut out = anstream::stdout().lock();
        let mut group = None;
        let mut stacks = Stack::ALL.to_vec();
        stacks.retain(|stack| *stack != Stack::Library || self.library.is_some());
        let ratios = match self.library {
            None => &RATIOS[..2],
            Some(_) => &RATIOS[..],
        };
        for row in &self.rows {
            if group.replace(row.group) != Some(row.group) {
                let bold = anstyle::Style::new().bold();
                writeln!(out, "\n{bold}{}{bold:#}", row.group.title())?;
                write!(out, "{:<LABEL$}", "")?;
                for stack in &stacks {
                    write!(out, "{:>10}", stack.name())?;
                }
                write!(out, "  ")?;
                for (of, to) in ratios {
                    write!(out, "{:<22}", format!("{}/{}", of.name(), to.name()))?;
                }
                writeln!(out, "better")?;
            }
            let unit = format!("{} {}, {}", row.case, row.metric.name, row.metric.unit);
            write!(out, "{unit:<LABEL$}")?;
            for &stack in &stacks {
                let text = row.of(stack).map_or_else(|| "-".into(), |series| number(series.median));
                write!(out, "{text:>10}")?;
            }
            write!(out, "  ")?;
            for &(of, to) in ratios {
                write!(out, "{:<22}", ratio(row.ratio(of, to)))?;
            }
            let better = match row.metric.better {
                Better::Lower => "lower",
                Better::Higher => "higher",
            };
            writeln!(out, "{better}")?;
        }
        let stock = match &self.stock {
            Some(version) => format!("stock: libfabric {version}, provider tcp. "),
            None => String::new(),
        };
        let library = match &self.library {
            Some(version) => format!("library: it says libfabric {version}. "),
            None => String::new(),
        };
        writeln!(
            out,
            "\nplain: TCP sockets without a fabric, the same bytes and round trips. {stock}{library}Of several ways to use each (polling,\n\
             blocking; for plain also epoll, and sizes of calls) the best one counts, as tried before.\n\
             Both sides are processes on this host; the stacks take turns. Numbers are medians of all rounds. A ratio\n\
             is the median of the rounds' ratios (least..most): below 1, the first has less of it than the other."
        )?;
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }
}

/// Three digits that count, at least.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn ratio(series: Option<Series>) -> String {
    match series {
        None => "-".into(),
        Some(Series { median, min, max, .. }) => {
            format!("{} ({}..{})", number(median), number(min), number(max))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        let kofi = Series::new(vec![1.0, 20.0, 3.0]).unwrap();
        let plain = Series::new(vec![2.0, 20.0, 2.0]).unwrap();
        let over = kofi.over(&plain).unwrap();
        assert_eq!((over.min, over.median, over.max), (0.5, 1.0, 1.5));
        assert!(kofi.over(&Series::new(vec![0.0; 3]).unwrap()).is_none());
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.1234, 1.234, 12.34, 1234.5].map(number), ["0.123", "1.23", "12.3", "1234"]);
    }
}

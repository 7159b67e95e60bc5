// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `kofi bench`: kofi beside plain sockets and stock libfabric.
//!
//! Each run is a server and a client, as two processes on processors of their own. The stacks take
//! turns, so that a noisy machine harms all alike, and what counts are ratios within a round.

mod cases;
mod library;
mod ours;
mod plain;
mod plot;
mod report;
mod run;
mod worker;

use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::failure::{Failure, Result};
use cases::{Better, Case, Effort, Group, Metric};
use library::Library;
use report::{Report, Row, Series};
use run::{Programs, Stack};
use worker::{Spec, Variant};

/// Measure kofi beside plain sockets and stock libfabric
#[derive(clap::Args)]
#[command(after_help = "\
Each number stands beside the same over plain TCP sockets (the best of polling, blocking and epoll,
with several sizes of calls) and over stock libfabric's tcp provider, where libfabric-dev and cc are
installed. The stacks take turns; a ratio is the median over rounds, with the least and the most.

Examples:
  kofi bench                              everything, in some minutes
  kofi bench --quick                      a first impression, in a minute
  kofi bench --only latency,rate          only these
  kofi bench --quick --json               one JSON object
  kofi bench --svg bench.svg              also draw latency and bandwidth by size
  kofi bench --stock-lib ./libfabric.so.1 beside this build of libfabric
  kofi bench --library ./libfabric.so.1   this libfabric, too: ours, by the C interface, say

Exit codes: 0 done, 1 failure at run time (stderr says what), 2 wrong usage.")]
pub(crate) struct Options {
    /// Fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// Only these groups
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_enum)]
    only: Vec<Group>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Draw latency and bandwidth by size into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The stock libfabric to compare with [the one that cc finds]
    #[arg(long, value_name = "FILE")]
    stock_lib: Option<PathBuf>,
    /// Do not compare with stock libfabric
    #[arg(long, conflicts_with = "stock_lib")]
    no_stock: bool,
    /// Measure this libfabric, too, by the program that measures the stock one
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Be one side of a run
    #[arg(long, hide = true, num_args = 1..)]
    worker: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result {
    if !options.worker.is_empty() {
        return worker::run(&options.worker);
    }
    let groups: Vec<_> = Group::ALL
        .into_iter()
        .filter(|group| options.only.is_empty() || options.only.contains(group))
        .collect();
    let drawn = |group: &Group| matches!(group, Group::Latency | Group::Bandwidth);
    if options.svg.is_some() && !groups.iter().any(drawn) {
        return Err(Failure::Run("--svg draws latency and bandwidth; add one of them to --only".into()));
    }
    let mut notes = Vec::new();
    let stock = match (options.no_stock, &options.stock_lib) {
        (true, _) => None,
        (false, library) => match Library::compile("stock", library.as_deref()) {
            Ok(stock) => Some(stock),
            // Who names a library wants to see it.
            Err(why) if library.is_some() => return Err(Failure::Run(format!("--stock-lib: {why}"))),
            Err(why) => {
                notes.push(format!("stock libfabric is not available: {why}"));
                None
            }
        },
    };
    let library = options.library.as_deref().map(|path| Library::compile("library", Some(path)));
    let library = library.transpose().map_err(|why| Failure::Run(format!("--library: {why}")))?;
    let kofi = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let cpus = processors();
    if cpus.is_none() {
        notes.push("both sides share one processor: latencies are those of its scheduler".into());
    }
    if cfg!(debug_assertions) {
        notes.push("this kofi was built without optimization: use cargo run --release".into());
    }
    let program = |library: &Option<Library>| library.as_ref().map(Library::program);
    let programs = Programs { kofi, stock: program(&stock), library: program(&library), cpus };
    let effort = Effort::new(options.quick, descriptors());
    let cases = effort.cases(&groups);
    let rows = Bench {
        programs: &programs,
        trials: effort.trials,
        bar: bar(&cases, effort.trials, &programs),
        notes: &mut notes,
    }
    .run(&cases)?;
    let report = Report {
        rows,
        notes,
        quick: options.quick,
        stock: stock.as_ref().map(|stock| stock.version.clone()),
        library: library.as_ref().map(|library| library.version.clone()),
        cpus,
    };
    if options.json {
        report.json()?
    } else {
        report.text()?
    }
    if let Some(path) = &options.svg {
        plot::draw(&report, path)?;
    }
    Ok(())
}

/// Two processors that this process may use, the first two apart.
fn processors() -> Option<[usize; 2]> {
    let set = sched_getaffinity(None).ok()?;
    let mut usable = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    let first = usable.next()?;
    Some([first, usable.next()?])
}

/// As many descriptors as this process and its children may have.
fn descriptors() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = getrlimit(Resource::Nofile).current.or(current);
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

fn bar(cases: &[Case], trials: usize, programs: &Programs) -> ProgressBar {
    let trials = |ways: usize| if ways > 1 { ways * trials } else { 0 };
    let runs = |case: &Case| {
        programs.stacks().map(|stack| case.rounds + trials(case.ways(stack).len())).sum::<usize>()
    };
    let runs: usize = cases.iter().map(runs).sum();
    // Nothing is drawn where stderr is no terminal.
    let bar = ProgressBar::new(runs as u64);
    if let Ok(style) = ProgressStyle::with_template("{msg:36} {wide_bar} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar
}

struct Bench<'a> {
    programs: &'a Programs,
    trials: usize,
    bar: ProgressBar,
    notes: &'a mut Vec<String>,
}

impl Bench<'_> {
    fn run(mut self, cases: &[Case]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for case in cases {
            self.bar.set_message(format!("{:?}, {}", case.group, case.name).to_lowercase());
            rows.extend(self.case(case)?);
        }
        self.bar.finish_and_clear();
        Ok(rows)
    }

    /// All rounds of a case.
    fn case(&mut self, case: &Case) -> Result<Vec<Row>> {
        let mut stacks: Vec<_> = self.programs.stacks().collect();
        let mut best = [Variant::default(); Stack::COUNT];
        for (best, stack) in best.iter_mut().zip(Stack::ALL) {
            if stacks.contains(&stack) {
                *best = self.best_variant(case, stack)?;
            }
        }
        let spec = |stack| {
            let variant = best.get(Found::place(stack)).copied().unwrap_or_default();
            Spec { variant, ..case.spec.clone() }
        };
        let mut found = Found::default();
        for _ in 0..case.rounds {
            // One that fails is left out from then on.
            let mut failed = Vec::new();
            for &stack in &stacks {
                match self.numbers(case, stack, &spec(stack)) {
                    Ok(numbers) => found.add(stack, numbers),
                    Err(why) if stack.is_foreign() => failed.push((stack, why)),
                    Err(why) => return Err(Failure::Run(format!("{}: {}: {why}", case.name, stack.name()))),
                }
            }
            for (stack, why) in failed {
                self.notes.push(format!("{:?}, {}: {}: {why}", case.group, case.name, stack.name()));
                stacks.retain(|other| *other != stack);
                found.forget(stack);
            }
            // Who comes first has no advantage of it.
            stacks.rotate_left(1);
        }
        if case.group == Group::Rate {
            self.count_calls(case, &stacks, &spec, &mut found);
        }
        Ok(found.rows(case, best))
    }

    fn numbers(&self, case: &Case, stack: Stack, spec: &Spec) -> Result<Vec<(Metric, f64)>, String> {
        let numbers = self.programs.run(stack, spec, None).and_then(|said| cases::numbers(case, &said));
        self.bar.inc(1);
        numbers
    }

    /// The way to use a stack that is best here and now.
    fn best_variant(&self, case: &Case, stack: Stack) -> Result<Variant> {
        let mut best: Option<(Variant, f64)> = None;
        let variants = case.ways(stack);
        if let [only] = variants.as_slice() {
            return Ok(*only);
        }
        for _ in 0..self.trials {
            for &variant in &variants {
                let spec = Spec { variant, time: case.spec.time / 2, ..case.spec.clone() };
                let numbers = self.numbers(case, stack, &spec);
                let numbers = match numbers {
                    Ok(numbers) => numbers,
                    // It will be said in the first round.
                    Err(_) if stack.is_foreign() => continue,
                    Err(why) => {
                        return Err(Failure::Run(format!(
                            "{}: {}, {variant}: {why}",
                            case.name,
                            stack.name()
                        )));
                    }
                };
                let Some(&(metric, value)) = numbers.first() else { continue };
                let better = best.is_none_or(|(_, best)| match metric.better {
                    Better::Lower => value < best,
                    Better::Higher => value > best,
                });
                if better {
                    best = Some((variant, value));
                }
            }
        }
        Ok(best.map_or_else(Variant::default, |(variant, _)| variant))
    }

    /// System calls of each side, where perf can count them.
    fn count_calls(
        &mut self,
        case: &Case,
        stacks: &[Stack],
        spec: &dyn Fn(Stack) -> Spec,
        found: &mut Found,
    ) {
        if let Some(why) = run::cannot_count() {
            return self.notes.push(format!("system calls of messages are not counted: {why}"));
        }
        let place =
            |side: &str| std::env::temp_dir().join(format!("kofi-bench-{}-{side}", std::process::id()));
        let (server, client) = (place("server"), place("client"));
        for &stack in stacks {
            let counts: [&Path; 2] = [&server, &client];
            let said = self.programs.run(stack, &spec(stack), Some(counts));
            match said.and_then(|said| cases::numbers(case, &said)) {
                Ok(numbers) => found.add(stack, numbers),
                Err(why) => self.notes.push(format!("{}: system calls are not counted: {why}", stack.name())),
            }
        }
        for path in [server, client] {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The numbers of a case, in the order that they were found.
#[derive(Default)]
struct Found(Vec<(Metric, [Vec<f64>; Stack::COUNT])>);

impl Found {
    fn place(stack: Stack) -> usize {
        match stack {
            Stack::Kofi => 0,
            Stack::Plain => 1,
            Stack::Stock => 2,
            Stack::Library => 3,
        }
    }

    fn add(&mut self, stack: Stack, numbers: Vec<(Metric, f64)>) {
        for (metric, value) in numbers {
            let at = match self.0.iter().position(|(known, _)| *known == metric) {
                Some(at) => at,
                None => {
                    self.0.push((metric, Default::default()));
                    self.0.len() - 1
                }
            };
            let rounds = self.0.get_mut(at).and_then(|(_, stacks)| stacks.get_mut(Self::place(stack)));
            if let Some(rounds) = rounds {
                rounds.push(value);
            }
        }
    }

    fn forget(&mut self, stack: Stack) {
        for (_, stacks) in &mut self.0 {
            if let Some(rounds) = stacks.get_mut(Self::place(stack)) {
                rounds.clear();
            }
        }
    }

    fn rows(self, case: &Case, ways: [Variant; Stack::COUNT]) -> Vec<Row> {
        let rows = self.0.into_iter().map(|(metric, stacks)| Row {
            group: case.group,
            case: case.name.clone(),
            size: case.spec.size,
            metric,
            values: stacks.map(Series::new),
            ways: ways.map(|variant| variant.to_string()),
        });
        rows.collect()
    }
}

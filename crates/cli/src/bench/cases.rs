// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What is measured.

use std::time::Duration;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::Value;

use super::run::{Said, Stack};
use super::worker::{Measure, Spec, Variant, Wait};

/// Groups of cases, for --only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Group {
    /// Half a round trip, by size
    Latency,
    /// Bytes per second one way, by size, 64 sends outstanding
    Bandwidth,
    /// Messages of 8 bytes per second, 64 sends outstanding, and system calls for each
    Rate,
    /// Connections per second: made, connected, one message, closed
    Setup,
    /// The same while others are open
    Open,
    /// Memory and processor time of connected endpoints that do nothing
    Idle,
    /// Half a round trip to a server that sleeps
    Wakeup,
    /// Reads and writes of remote memory: one at a time, and bytes per second
    Rma,
}

impl Group {
    pub(super) const ALL: [Self; 8] = [
        Self::Latency,
        Self::Bandwidth,
        Self::Rate,
        Self::Setup,
        Self::Open,
        Self::Idle,
        Self::Wakeup,
        Self::Rma,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Latency => "Latency: ping-pong, half a round trip",
            Self::Bandwidth => "Bandwidth: one way, 64 sends outstanding",
            Self::Rate => "Message rate: 8 bytes one way, 64 sends outstanding",
            Self::Setup => "Connections: endpoint made, connected, one message, closed",
            Self::Open => "Connections one at a time, while others are open",
            Self::Idle => "Idle endpoints: connected, nothing posted, the server sleeps",
            Self::Wakeup => "Wake-up: half a round trip to a server that sleeps",
            Self::Rma => "Remote memory: one at a time, a whole round trip; bandwidth, 64 outstanding",
        }
    }
}

/// Which direction is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Better {
    Lower,
    Higher,
}

/// One number of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
}

/// Something that is run.
pub(super) struct Case {
    pub(super) group: Group,
    pub(super) name: String,
    pub(super) spec: Spec,
    /// Ways to do it with plain sockets, of which the best one counts.
    pub(super) variants: Vec<Variant>,
    /// Ways to do it with a fabric, likewise.
    pub(super) waits: Vec<Wait>,
    /// How often it is run.
    pub(super) rounds: usize,
}

const fn metric(name: &'static str, unit: &'static str, better: Better) -> Metric {
    Metric { name, unit, better }
}

const MEDIAN: Metric = metric("median", "us", Better::Lower);
const P99: Metric = metric("p99", "us", Better::Lower);
const P999: Metric = metric("p99.9", "us", Better::Lower);
const BANDWIDTH: Metric = metric("bandwidth", "MB/s", Better::Higher);
const MESSAGES: Metric = metric("messages", "k/s", Better::Higher);
const CONNECTIONS: Metric = metric("connections", "/s", Better::Higher);
const SENDER_CALLS: Metric = metric("calls, sender", "/msg", Better::Lower);
const RECEIVER_CALLS: Metric = metric("calls, receiver", "/msg", Better::Lower);
const SERVER_MEMORY: Metric = metric("memory, server", "B/ep", Better::Lower);
const CLIENT_MEMORY: Metric = metric("memory, client", "B/ep", Better::Lower);
const IDLE_CPU: Metric = metric("CPU in 5 s", "ms", Better::Lower);

const LATENCY_SIZES: [usize; 5] = [8, 64, 4 << 10, 64 << 10, 1 << 20];
const BANDWIDTH_SIZES: [usize; 7] = [64, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const RMA_BANDWIDTH_SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
const WINDOW: usize = 64;
const HELD: [usize; 3] = [10, 1000, 10_000];
const IDLE: usize = 1000;
/// The time that processor time of idle endpoints is told for.
const IDLE_UNIT: f64 = 5.0;
/// Descriptors that a side needs besides its connections.
const DESCRIPTORS: usize = 200;

/// How much is done.
pub(super) struct Effort {
    pub(super) time: Duration,
    pub(super) rounds: usize,
    /// Runs of each way to use plain sockets, to find the best.
    pub(super) trials: usize,
    pub(super) idle: Duration,
    /// Descriptors that a process may have.
    pub(super) descriptors: usize,
}

impl Case {
    /// Ways to do it, of which the best one counts.
    pub(super) fn ways(&self, stack: Stack) -> Vec<Variant> {
        match stack {
            Stack::Plain => self.variants.clone(),
            Stack::Kofi | Stack::Stock | Stack::Library => {
                self.waits.iter().map(|&wait| Variant { wait, ..Variant::default() }).collect()
            }
        }
    }
}

impl Effort {
    pub(super) fn new(quick: bool, descriptors: usize) -> Self {
        let (millis, rounds, trials, idle) = if quick { (40, 3, 1, 1000) } else { (300, 9, 2, 5000) };
        Self {
            time: Duration::from_millis(millis),
            rounds,
            trials,
            idle: Duration::from_millis(idle),
            descriptors,
        }
    }

    /// All cases of the groups.
    pub(super) fn cases(&self, groups: &[Group]) -> Vec<Case> {
        let few = self.rounds.div_ceil(3);
        groups
            .iter()
            .flat_map(|&group| {
                let spec = |measure| Spec::new(measure, self.time);
                let case = move |name, spec: Spec, variants, rounds| {
                    // Mostly both sides have work all the time, or wait for the other.
                    let waits = match spec.measure {
                        Measure::Stream | Measure::Read | Measure::Write if spec.window > 1 => {
                            vec![Wait::Poll, Wait::Block]
                        }
                        Measure::Connect => vec![Wait::Poll, Wait::Block],
                        _ => vec![Wait::Poll],
                    };
                    Case { group, name, spec, variants, waits, rounds }
                };
                let rounds = self.rounds;
                match group {
                    Group::Latency => Vec::from(LATENCY_SIZES.map(|size| {
                        let spec = Spec { size, ..spec(Measure::Latency) };
                        case(bytes(size), spec, exchange(size), rounds)
                    })),
                    Group::Bandwidth => Vec::from(BANDWIDTH_SIZES.map(|size| {
                        let spec = Spec { size, window: WINDOW, ..spec(Measure::Stream) };
                        case(bytes(size), spec, one_way(size), rounds)
                    })),
                    Group::Rate => {
                        let spec = Spec { window: WINDOW, ..spec(Measure::Stream) };
                        vec![case("8 B".into(), spec, one_way(8), rounds)]
                    }
                    Group::Setup => {
                        Vec::from([(1, "one at a time"), (32, "32 in flight")].map(|(window, name)| {
                            let spec = Spec { window, ..spec(Measure::Connect) };
                            case(name.into(), spec, waits().to_vec(), rounds)
                        }))
                    }
                    Group::Open => Vec::from(HELD.map(|held| {
                        let held = held.min(self.descriptors.saturating_sub(DESCRIPTORS));
                        let spec = Spec { held, ..spec(Measure::Connect) };
                        // Servers that wait in turn need not look at those that are open.
                        case(format!("{held} open"), spec, waits().to_vec(), few)
                    })),
                    Group::Idle => {
                        let held = IDLE.min(self.descriptors.saturating_sub(DESCRIPTORS));
                        let spec = Spec { held, time: self.idle, ..spec(Measure::Idle) };
                        let variant = Variant { wait: Wait::Epoll, ..Variant::default() };
                        vec![case(format!("{held} endpoints"), spec, vec![variant], few)]
                    }
                    Group::Wakeup => {
                        let variants =
                            [Wait::Block, Wait::Epoll].map(|wait| Variant { wait, ..Variant::default() });
                        vec![case("8 B".into(), spec(Measure::Wake), variants.to_vec(), rounds)]
                    }
                    Group::Rma => {
                        let mut cases = Vec::new();
                        for (measure, name) in [(Measure::Read, "read"), (Measure::Write, "write")] {
                            let name = |size| format!("{name} {}", bytes(size));
                            cases.extend(LATENCY_SIZES.map(|size| {
                                case(name(size), Spec { size, ..spec(measure) }, exchange(size), few)
                            }));
                            cases.extend(RMA_BANDWIDTH_SIZES.map(|size| {
                                let spec = Spec { size, window: WINDOW, ..spec(measure) };
                                case(name(size), spec, one_way(size), rounds)
                            }));
                        }
                        cases
                    }
                }
            })
            .collect()
    }
}

fn waits() -> [Variant; 3] {
    [Wait::Poll, Wait::Block, Wait::Epoll].map(|wait| Variant { wait, ..Variant::default() })
}

/// Ways to exchange messages.
fn exchange(size: usize) -> Vec<Variant> {
    let mut variants = waits().to_vec();
    if size >= 64 << 10 {
        let chunks = [64 << 10, 256 << 10].map(|chunk| Variant { chunk, ..Variant::default() });
        variants.extend(chunks.into_iter().filter(|variant| variant.chunk < size));
    }
    variants
}

/// Ways to send one way.
fn one_way(size: usize) -> Vec<Variant> {
    let mut variants = vec![];
    for wait in [Wait::Poll, Wait::Block] {
        let plain = Variant { wait, ..Variant::default() };
        variants.push(plain);
        if size <= 4 << 10 {
            variants.push(Variant { batch: WINDOW, ..plain });
        } else if size >= 256 << 10 {
            variants.push(Variant { chunk: 64 << 10, ..plain });
            variants.push(Variant { chunk: 256 << 10, ..plain });
        }
    }
    variants
}

/// A size as people say it.
pub(super) fn bytes(size: usize) -> String {
    match size {
        0x10_0000.. => format!("{} MiB", size >> 20),
        0x400.. => format!("{} KiB", size >> 10),
        _ => format!("{size} B"),
    }
}

/// The numbers of a case that one run gives.
pub(super) fn numbers(case: &Case, said: &Said) -> Result<Vec<(Metric, f64)>, String> {
    let get = |side: &Option<Value>, key: &str| {
        let value = side.as_ref().and_then(|value| value.get(key)).and_then(Value::as_f64);
        value.ok_or_else(|| format!("wanted a number {key} of a side"))
    };
    Ok(match case.spec.measure {
        Measure::Latency | Measure::Wake => {
            let times = said.client.as_ref().and_then(|client| client.get("nanos")).and_then(Value::as_array);
            let histogram = histogram(times.ok_or("wanted times of round trips")?)?;
            // Half of a round trip, in microseconds.
            let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 2e3;
            vec![(MEDIAN, at(0.5)), (P99, at(0.99)), (P999, at(0.999))]
        }
        Measure::Read | Measure::Write if case.spec.window == 1 => {
            let times = said.client.as_ref().and_then(|client| client.get("nanos")).and_then(Value::as_array);
            let histogram = histogram(times.ok_or("wanted times of reads and writes")?)?;
            let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
            vec![(MEDIAN, at(0.5)), (P99, at(0.99))]
        }
        Measure::Stream | Measure::Read | Measure::Write => {
            let rate = get(&said.client, "count")? / get(&said.client, "seconds")?;
            match (case.group, said.calls) {
                (Group::Bandwidth | Group::Rma, _) => vec![(BANDWIDTH, rate * case.spec.size as f64 / 1e6)],
                (_, None) => vec![(MESSAGES, rate / 1e3)],
                (_, Some([server, client])) => {
                    let count = get(&said.client, "count")?;
                    vec![(SENDER_CALLS, client as f64 / count), (RECEIVER_CALLS, server as f64 / count)]
                }
            }
        }
        Measure::Connect => {
            vec![(CONNECTIONS, get(&said.client, "count")? / get(&said.client, "seconds")?)]
        }
        Measure::Idle => vec![
            (SERVER_MEMORY, get(&said.server, "bytes")?),
            (CLIENT_MEMORY, get(&said.client, "bytes")?),
            (IDLE_CPU, get(&said.idle, "cpu")? * 1e3 * IDLE_UNIT / get(&said.idle, "seconds")?),
        ],
    })
}

fn histogram(times: &[Value]) -> Result<Histogram<u64>, String> {
    // From a nanosecond to a minute, which is longer than any run.
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3)
        .map_err(|error| format!("no histogram of the latency: {error}"))?;
    times.iter().filter_map(Value::as_u64).for_each(|nanos| histogram.saturating_record(nanos));
    if histogram.is_empty() {
        return Err("no round trip was measured".into());
    }
    Ok(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_keep_within_the_descriptors() {
        let cases = Effort::new(true, 1024).cases(&Group::ALL);
        assert!(cases.iter().all(|case| case.spec.held < 1024));
        assert!(cases.iter().all(|case| !case.variants.is_empty() && case.rounds > 0));
        let cases = Effort::new(false, 20_000).cases(&[Group::Open]);
        assert_eq!(cases.iter().map(|case| case.spec.held).collect::<Vec<_>>(), HELD);
    }

    #[test]
    fn latency_is_half_of_a_round_trip() {
        let case = Effort::new(true, 1024).cases(&[Group::Latency]).remove(0);
        let client = serde_json::json!({ "nanos": [2000, 4000, 6000] });
        let said = Said { server: None, client: Some(client), idle: None, calls: None };
        let (metric, median) = numbers(&case, &said).unwrap()[0];
        assert_eq!(metric, MEDIAN);
        assert!((1.99..2.01).contains(&median), "{median}");
    }
}

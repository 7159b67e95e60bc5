// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The table of results, in `fi_pingpong`'s columns.

use std::io::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::TRANSFERS;
use crate::failure::Result;

/// The result for one size.
#[derive(Serialize)]
pub(super) struct Row {
    /// Size of a message.
    bytes: usize,
    /// Messages in each direction.
    pub(super) sent: u32,
    /// Messages that the client received.
    acked: u64,
    /// Bytes in all messages of both directions.
    total_bytes: u64,
    seconds: f64,
    mb_per_second: f64,
    usec_per_transfer: f64,
    mtransfers_per_second: f64,
    /// Half of a round trip, in microseconds.
    latency_usec: Latency,
}

#[derive(Serialize)]
struct Latency {
    min: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

impl Row {
    pub(super) fn new(
        bytes: usize,
        sent: u32,
        acked: u64,
        elapsed: Duration,
        times: &Histogram<u64>,
    ) -> Self {
        let transfers = u64::from(sent) * u64::from(TRANSFERS);
        let total_bytes = bytes as u64 * transfers;
        let usec = elapsed.as_secs_f64() * 1e6;
        let usec_per_transfer = usec / transfers as f64;
        let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            bytes,
            sent,
            acked,
            total_bytes,
            seconds: elapsed.as_secs_f64(),
            mb_per_second: total_bytes as f64 / usec,
            usec_per_transfer,
            mtransfers_per_second: 1.0 / usec_per_transfer,
            latency_usec: Latency {
                min: times.min() as f64 / 1e3,
                p50: at(0.5),
                p90: at(0.9),
                p99: at(0.99),
                max: times.max() as f64 / 1e3,
            },
        }
    }
}

/// Prints rows as they come.
pub(super) struct Report {
    json: bool,
    percentiles: bool,
    header: bool,
}

impl Report {
    pub(super) fn new(json: bool, percentiles: bool) -> Self {
        Self { json, percentiles, header: !json }
    }

    pub(super) fn row(&mut self, row: &Row) -> Result {
        let mut out = anstream::stdout().lock();
        if self.json {
            return Ok(writeln!(out, "{}", serde_json::to_string(row)?)?);
        }
        if std::mem::take(&mut self.header) {
            write!(out, "{:<8}{:<8}{:<9}{:<8}{:>9}", "bytes", "#sent", "#ack", "total", "time")?;
            write!(out, "{:>11}{:>13}{:>13}", "MB/sec", "usec/xfer", "Mxfers/sec")?;
            if self.percentiles {
                write!(out, "{:>10}{:>10}{:>10}{:>10}", "p50", "p90", "p99", "max")?;
            }
            writeln!(out)?;
        }
        let (sign, difference) = match i128::from(row.acked) - i128::from(row.sent) {
            0 => ('=', row.acked),
            more @ 1.. => ('-', more as u64),
            less => ('+', less.unsigned_abs() as u64),
        };
        write!(out, "{:<8}{:<8}", bytes(row.bytes as u64), count(row.sent.into()))?;
        write!(out, "{sign}{:<8}{:<8}", count(difference), bytes(row.total_bytes))?;
        write!(out, "{:>8.2}s{:>11.2}", row.seconds, row.mb_per_second)?;
        write!(out, "{:>13.2}{:>13.2}", row.usec_per_transfer, row.mtransfers_per_second)?;
        if self.percentiles {
            let Latency { p50, p90, p99, max, .. } = row.latency_usec;
            write!(out, "{p50:>10.2}{p90:>10.2}{p99:>10.2}{max:>10.2}")?;
        }
        Ok(writeln!(out)?)
    }
}

/// A number of bytes in three or four characters.
fn bytes(size: u64) -> String {
    let (unit, letter) = match size {
        0x4000_0000.. => (1 << 30, "g"),
        0x10_0000.. => (1 << 20, "m"),
        0x400.. => (1 << 10, "k"),
        _ => (1, ""),
    };
    let whole = size / unit;
    let tenths = size % unit * 10 / unit;
    match (whole < 10, tenths) {
        (false, _) | (true, 0) => format!("{whole}{letter}"),
        (true, tenths) => format!("{whole}.{tenths}{letter}"),
    }
}

/// A number of messages in a few characters.
fn count(count: u64) -> String {
    match count {
        1_000_000_000.. => format!("{}b", count / 1_000_000_000),
        1_000_000.. => format!("{}m", count / 1_000_000),
        1000.. => format!("{}k", count / 1000),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let sizes = [0, 1023, 1024, 1536, 10 << 10, 6 << 20, (3 << 30) - (1 << 29)];
        assert_eq!(sizes.map(bytes), ["0", "1023", "1k", "1.5k", "10k", "6m", "2.5g"]);
        assert_eq!([9, 1000, 2_500_000, 4_000_000_000].map(count), ["9", "1k", "2m", "4b"]);
    }
}

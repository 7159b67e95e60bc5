// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Latency and bandwidth by size, as an SVG picture with logarithmic axes.

use std::path::Path;

use plotters::prelude::*;

use super::cases::{Group, bytes};
use super::report::{Report, Row};
use super::run::Stack;

const SIZE: (u32, u32) = (1200, 520);

/// What is drawn: a group, its number, and what the axis says.
const CHARTS: [(Group, &str, &str); 2] = [
    (Group::Latency, "median", "latency (half a round trip), us: lower is better"),
    (Group::Bandwidth, "bandwidth", "bandwidth, MB/s: higher is better"),
];

/// Writes the picture to `path`.
///
/// # Errors
/// What was wanted and what went wrong.
pub(super) fn draw(report: &Report, path: &Path) -> Result<(), String> {
    let of = |group, metric| {
        let rows = report.rows.iter().filter(move |row| row.group == group && row.metric.name == metric);
        rows.collect::<Vec<_>>()
    };
    let charts: Vec<_> = CHARTS.iter().map(|(group, metric, title)| (of(*group, *metric), *title)).collect();
    let charts: Vec<_> = charts.into_iter().filter(|(rows, _)| !rows.is_empty()).collect();
    if charts.is_empty() {
        return Err("--svg draws latency and bandwidth, and neither was measured; leave --only out".into());
    }
    let cannot = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(|error| cannot(&error))?;
    for (area, (rows, title)) in root.split_evenly((1, charts.len())).iter().zip(&charts) {
        chart(area, rows, title).map_err(|error| cannot(&error))?;
    }
    root.present().map_err(|error| cannot(&error))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn chart(area: &Area<'_>, rows: &[&Row], title: &str) -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let line = |stack: Stack| {
        rows.iter()
            .filter_map(move |row| Some((row.size as f64, row.of(stack)?.median())))
            .collect::<Vec<_>>()
    };
    let all: Vec<_> = Stack::ALL.iter().flat_map(|stack| line(*stack)).collect();
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) =
            values.fold((f64::MAX, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
        low.max(1e-3) / 1.3..high.max(1e-2) * 1.3
    };
    let (x, y) = (range(&mut all.iter().map(|point| point.0)), range(&mut all.iter().map(|point| point.1)));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(x.log_scale().base(2.0), y.log_scale())
        .map_err(|error| said(&error))?;
    chart
        .configure_mesh()
        .x_desc("bytes in a message")
        .x_label_formatter(&|size| bytes(size.round() as usize))
        .y_label_formatter(&|value| if *value < 1.0 { format!("{value:.2}") } else { format!("{value:.0}") })
        .light_line_style(BLACK.mix(0.05))
        .draw()
        .map_err(|error| said(&error))?;
    for (stack, colour) in Stack::ALL.into_iter().zip([RED, BLUE, BLACK, GREEN]) {
        let points = line(stack);
        if points.is_empty() {
            continue;
        }
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))
            .map_err(|error| said(&error))?
            .label(stack.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()
        .map_err(|error| said(&error))
}

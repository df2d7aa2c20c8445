//! Plots the recovery times of one deployment, with a row for each fault.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::statistics::{approximate, median};
use super::svg::{Style, Svg};
use super::{deployment_name, markdown};
use crate::result::Cell;

/// A dot is drawn as a very short line with round ends, so that one path can have many dots.
const STYLE: Style = Style {
    light: "\
        .p{stroke:#0072b2;stroke-width:6;stroke-linecap:round;stroke-opacity:.45}\
        .d{stroke:#d55e00;stroke-width:2}",
    dark: ".p{stroke:#3aa0dc}.d{stroke:#ff7b1c}",
};
const WIDTH: u64 = 960;
const RIGHT: u64 = WIDTH - 40;
/// Where the plot begins, to the right of the names of the faults.
const LEFT: u64 = 230;
const TOP: u64 = 56;
const ROW: u64 = 20;

/// Draws a dot for each recovery time and a stroke for the median of each fault.
pub(super) fn recovery(deployment: &str, cells: &[&Cell]) -> String {
    let mut faults: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| !cell.recovery_ms.is_empty()) {
        faults
            .entry(&cell.fault)
            .or_default()
            .extend(&cell.recovery_ms);
    }
    let mut faults: Vec<_> = faults.into_iter().collect();
    faults.sort_by_cached_key(|(_, times)| Reverse(times.iter().max().copied()));

    let longest = faults
        .iter()
        .flat_map(|(_, times)| times)
        .max()
        .copied()
        .unwrap_or_default();
    let decades = longest.max(10).to_string().len();
    let bottom = TOP + ROW * faults.len() as u64;
    let title = format!("Recovery time, {}", deployment_name(deployment));
    let mut svg = Svg::new(&title, &STYLE);
    svg.text((16, 24), "a", &title);
    svg.text(
        (16, 42),
        "m",
        "time from the end of a fault until every lock was granted again; a dot for each time, \
         with all seeds; the stroke is the median",
    );
    let mut grid = Vec::new();
    for decade in 0..=u32::try_from(decades).expect("a few") {
        let ms = 10_u64.pow(decade);
        let x = x_of(ms, decades);
        grid.push(format!("M{x:.0} {TOP}V{}", bottom + 4));
        let x = format!("{x:.0}").parse().expect("a number");
        svg.text((x, bottom + 18), "c m", &markdown::duration(ms));
    }
    svg.path("g", &grid.concat());
    svg.path("ax", &format!("M{LEFT} {bottom}H{RIGHT}"));
    for (row, (fault, times)) in (0..).zip(&faults) {
        let y = TOP + ROW * row + ROW / 2;
        svg.text((LEFT - 12, y + 4), "e", fault);
        // Dots at the same pixel are drawn once.
        let dots: BTreeSet<String> = times
            .iter()
            .map(|ms| format!("{:.0}", x_of(*ms, decades)))
            .collect();
        let dots: Vec<_> = dots.iter().map(|x| format!("M{x} {y}h.1")).collect();
        svg.path("p", &dots.concat());
        if let Some(median) = median(times) {
            svg.path("d", &format!("M{:.0} {}v12", x_of(median, decades), y - 6));
        }
    }
    svg.text(
        (LEFT, bottom + 40),
        "m",
        "logarithmic: each line is ten times the one before",
    );
    svg.end((WIDTH, bottom + 56))
}

/// The horizontal position of a time on the logarithmic scale.
fn x_of(ms: u64, decades: usize) -> f64 {
    let part = approximate(ms.max(1)).log10() / approximate(decades as u64);
    approximate(LEFT) + part * approximate(RIGHT - LEFT)
}

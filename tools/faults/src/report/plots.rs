//! Recovery against the kind of failure, on one deployment.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::statistics::{approximate, median};
use super::svg::{Style, Svg};
use super::{deployment_name, markdown};
use crate::result::Cell;

/// A dot is a line without length, with round ends.
const STYLE: Style = Style {
    light: ".p{stroke:#0072b2;stroke-width:6;stroke-linecap:round;stroke-opacity:.45}.d{stroke:#d55e00;stroke-width:2}",
    dark: ".p{stroke:#3aa0dc}.d{stroke:#ff7b1c}",
};
const WIDTH: u64 = 960;
const RIGHT: u64 = WIDTH - 40;
/// Where the names of faults end.
const LEFT: u64 = 230;
const TOP: u64 = 56;
const ROW: u64 = 20;

/// A dot for each time after a fault until all locks of a workload were granted again, and the median.
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
        "from the end of a fault until every lock was granted again; a dot for each time, all seeds; the stroke is the median",
    );
    let mut grid = Vec::new();
    for decade in 0..=u32::try_from(decades).expect("a few") {
        let ms = 10_u64.pow(decade);
        let x = at(ms, decades);
        grid.push(format!("M{x:.0} {TOP}V{}", bottom + 4));
        let x = format!("{x:.0}").parse().expect("a number");
        svg.text((x, bottom + 18), "c m", &markdown::duration(ms));
    }
    svg.path("g", &grid.concat());
    svg.path("ax", &format!("M{LEFT} {bottom}H{RIGHT}"));
    for (row, (fault, times)) in (0..).zip(&faults) {
        let y = TOP + ROW * row + ROW / 2;
        svg.text((LEFT - 12, y + 4), "e", fault);
        // Those that touch are one: pixels are enough.
        let dots: BTreeSet<String> = times
            .iter()
            .map(|ms| format!("{:.0}", at(*ms, decades)))
            .collect();
        let dots: Vec<_> = dots.iter().map(|x| format!("M{x} {y}h.1")).collect();
        svg.path("p", &dots.concat());
        if let Some(median) = median(times) {
            svg.path("d", &format!("M{:.0} {}v12", at(median, decades), y - 6));
        }
    }
    svg.text(
        (LEFT, bottom + 40),
        "m",
        "each line ten times the one before",
    );
    svg.end((WIDTH, bottom + 56))
}

fn at(ms: u64, decades: usize) -> f64 {
    let part = approximate(ms.max(1)).log10() / approximate(decades as u64);
    approximate(LEFT) + part * approximate(RIGHT - LEFT)
}

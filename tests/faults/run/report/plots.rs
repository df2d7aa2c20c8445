//! Recovery against the kind of failure, and memory against the number of names.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::facts::{ManyNames, Point};
use super::pages::in_order;
use super::svg::{Style, Svg, width};
use super::{deployment_name, is_peer, markdown};
use crate::result::Cell;

const STYLE: Style = Style {
    light: ".p0{fill:#0072b2}.p1{fill:#d55e00}.p2{fill:#009e73}.p3{fill:#cc79a7}.p0,.p1,.p2,.p3{fill-opacity:.8}\
            .l{stroke:#0072b2;stroke-width:2}",
    dark: ".p0{fill:#3aa0dc}.p1{fill:#ff7b1c}.p2{fill:#23b98f}.p3{fill:#e29ac4}.l{stroke:#3aa0dc}",
};
const WIDTH: u64 = 960;
const RIGHT: u64 = WIDTH - 40;
/// Where the names of faults end.
const LEFT: u64 = 230;

/// One mark for each cell: the longest time after a fault until all its locks were granted again.
pub(super) fn recovery(cells: &[Cell]) -> String {
    let ours = cells.iter().filter(|cell| !is_peer(cell));
    let measured: Vec<_> =
        ours.filter_map(|cell| Some((cell, *cell.recovery_ms.iter().max()?))).collect();
    let deployments = in_order(measured.iter().map(|(cell, _)| cell.deployment.as_str()));
    let mut faults: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (cell, ms) in &measured {
        faults.entry(&cell.fault).or_default().push(*ms);
    }
    let mut faults: Vec<_> = faults.into_iter().collect();
    faults.sort_by_cached_key(|(_, times)| Reverse(times.iter().max().copied()));

    let longest = measured.iter().map(|(_, ms)| *ms).max().unwrap_or_default();
    let decades = longest.max(10).to_string().len();
    let (top, row) = (72, 20);
    let bottom = top + row * u64::try_from(faults.len()).expect("few rows");
    let mut svg = Svg::new("Recovery time", &STYLE);
    svg.text((16, 24), "a", "Recovery time");
    svg.text(
        (16, 42),
        "m",
        "from the end of a fault until every lock was granted again; one mark a cell, its longest",
    );
    legend(&mut svg, &deployments, 60);
    let mut grid = Vec::new();
    for decade in 0..=u32::try_from(decades).expect("a few") {
        let ms = 10_u64.pow(decade);
        let x = log(ms, decades);
        grid.push(format!("M{x:.0} {top}V{}", bottom + 4));
        let x = format!("{x:.0}").parse().expect("a number");
        svg.text((x, bottom + 18), "c m", &markdown::duration(ms));
    }
    svg.path("g", &grid.concat());
    svg.path("ax", &format!("M{LEFT} {bottom}H{RIGHT}"));
    for (y, (fault, _)) in (top + row / 2..).step_by(20).zip(&faults) {
        svg.text((LEFT - 12, y + 4), "e", fault);
    }
    for (cell, ms) in &measured {
        let line =
            faults.iter().position(|(fault, _)| *fault == cell.fault).expect("it was listed");
        let of =
            deployments.iter().position(|name| *name == cell.deployment).expect("it was listed");
        let y = top + row * u64::try_from(line).expect("few rows") + row / 2;
        let y = y - 5 + 3 * u64::try_from(of % 4).expect("few");
        let mark = mark(of, log(*ms, decades), y);
        svg.put(format_args!("<path class=\"p{}\" d=\"{mark}\"/>\n", of % 4));
    }
    svg.text((LEFT, bottom + 40), "m", "each line ten times the one before");
    svg.end((WIDTH, bottom + 56))
}

fn log(ms: u64, decades: usize) -> f64 {
    let part = approximate(ms.max(1)).log10() / approximate(decades as u64);
    approximate(LEFT) + part * approximate(RIGHT - LEFT)
}

fn approximate(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}

/// A form for each deployment, as well as a colour.
fn mark(of: usize, x: f64, y: u64) -> String {
    match of % 4 {
        0 => format!("M{:.0} {y}a4 4 0 1 0 8 0a4 4 0 1 0-8 0", x - 4.0),
        1 => format!("M{:.0} {}h7v7h-7z", x - 3.5, y - 3),
        2 => format!("M{:.0} {}l5-8l5 8z", x - 5.0, y + 4),
        _ => format!("M{:.0} {}l5 5l-5 5l-5-5z", x, y - 5),
    }
}

fn legend(svg: &mut Svg, deployments: &[&str], y: u64) {
    let mut x = 24_u32;
    for (of, name) in deployments.iter().enumerate() {
        let mark = mark(of, f64::from(x), y - 4);
        svg.put(format_args!("<path class=\"p{}\" d=\"{mark}\"/>\n", of % 4));
        let name = deployment_name(name);
        svg.text((u64::from(x) + 10, y), "", &name);
        x += 34 + u32::try_from(width(&name)).expect("a name");
    }
}

/// Memory, descriptors and table entries, while names come and go.
pub(super) fn names(names: &ManyNames) -> String {
    let title =
        format!("Memory while {} names are locked and released", markdown::number(names.names));
    let done = names.series.iter().map(|point| point.names_done).max().unwrap_or(1).max(1);
    let mut svg = Svg::new(&title, &STYLE);
    svg.text((16, 24), "a", &title);
    let x = |at: u64| 80 + at * (RIGHT - 80) / done;
    for Panel { name, top, height, unit, value } in PANELS {
        let values: Vec<_> =
            names.series.iter().map(|point| (x(point.names_done), value(point))).collect();
        let most =
            values.iter().map(|(_, value)| *value).max().unwrap_or_default().div_ceil(unit).max(1);
        svg.text((16, top - 6), "", name);
        svg.path("g", &format!("M80 {top}H{RIGHT}"));
        svg.path("ax", &format!("M80 {}H{RIGHT}", top + height));
        svg.text((72, top + 8), "e m", &markdown::number(most));
        svg.text((72, top + height + 4), "e m", "0");
        let points =
            values.iter().map(|(x, value)| (x, top + height - value * height / (most * unit)));
        let points: Vec<_> = points.map(|(x, y)| format!("{x} {y}")).collect();
        svg.path("l", &points.first().map_or(String::new(), |_| format!("M{}", points.join("L"))));
    }
    for quarter in 0..=4 {
        let at = done * quarter / 4;
        svg.text((x(at), 402), "c m", &markdown::number(at));
    }
    svg.text((u64::midpoint(80, RIGHT), 422), "c m", "names done");
    svg.end((WIDTH, 430))
}

struct Panel {
    name: &'static str,
    top: u64,
    height: u64,
    unit: u64,
    value: fn(&Point) -> u64,
}

const PANELS: [Panel; 3] = [
    Panel {
        name: "resident memory, MiB",
        top: 60,
        height: 160,
        unit: 1024,
        value: |point| point.rss_kib,
    },
    Panel { name: "descriptors", top: 250, height: 50, unit: 1, value: |point| point.descriptors },
    Panel { name: "entries of tables", top: 330, height: 50, unit: 1, value: Point::entries },
];

//! The pages: an index, one for each deployment, one for the other libraries, and one for what the run can find.

mod deployment;
mod index;
mod origin;
mod peers;
mod power;
mod rest;
mod sum;

use super::lessons::Taught;
use super::{Report, again, deployment_name, is_peer, markdown};
use crate::result::{Cell, Overlaps};
use markdown::{code, escaped, number};

const PEERS: &str = "peers.md";
const POWER: &str = "power.md";
const WRITTEN: &str =
    "<!-- Written by tools/faults/publish. What is changed here by hand is lost. -->\n\n";

/// How many sentences a list has, and how many of them one cell; the counts are of all.
#[derive(Clone, Copy)]
struct Most(usize, usize);

const VIOLATIONS: Most = Most(60, 3);
const EXCUSES: Most = Most(12, 1);

/// Names of files, and their text.
pub(super) fn all(report: &Report, taught: &[Taught<'_>]) -> Vec<(String, String)> {
    let mut pages = vec![("README.md".to_owned(), index::page(report))];
    for deployment in report.deployments() {
        let taught: Vec<_> = taught
            .iter()
            .filter(|one| !is_peer(one.cell) && one.cell.deployment == deployment)
            .collect();
        pages.push((
            markdown::page(deployment),
            deployment::page(deployment, report, &taught),
        ));
    }
    if !report.compared.is_empty() {
        let taught: Vec<_> = taught.iter().filter(|one| is_peer(one.cell)).collect();
        pages.push((PEERS.to_owned(), peers::page(report, &taught)));
    }
    if let Some(power) = &report.facts.power {
        pages.push((POWER.to_owned(), power::page(power)));
    }
    pages
}

/// Each once, in the order of the run.
pub(super) fn in_order<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut order = Vec::new();
    for name in names {
        if !order.contains(&name) {
            order.push(name);
        }
    }
    order
}

fn title(deployment: &str) -> String {
    escaped(&deployment_name(deployment))
}

/// `1 excused, 2 invalid`, or 0; what must not be stands out.
fn overlaps(of: Overlaps) -> String {
    let mut parts = Vec::new();
    if of.valid > 0 {
        parts.push(format!("**{} valid**", number(of.valid)));
    }
    for (times, kind) in [(of.excused, "excused"), (of.invalid, "invalid")] {
        if times > 0 {
            parts.push(format!("{} {kind}", number(times)));
        }
    }
    if parts.is_empty() {
        "0".to_owned()
    } else {
        parts.join(", ")
    }
}

/// What must not be stands out.
fn verdict(violations: u64) -> String {
    match violations {
        0 => "none".to_owned(),
        some => format!("**{}**", number(some)),
    }
}

fn longest(times: &[u64]) -> String {
    times
        .iter()
        .max()
        .map_or("–".to_owned(), |ms| markdown::duration(*ms))
}

/// `3 of 4`.
fn of(some: u64, all: u64) -> String {
    format!("{} of {}", number(some), number(all))
}

/// Nothing, if there is nothing to show.
fn section(title: &str, about: &str, shown: &str) -> String {
    let gap = if about.is_empty() { "" } else { "\n\n" };
    match shown.trim_end() {
        "" => String::new(),
        shown => format!("## {title}\n\n{about}{gap}{shown}\n\n"),
    }
}

/// What cells have to say, each with what does its run again; shortened, with the true number.
fn sentences<'a>(
    cells: impl Iterator<Item = &'a Cell>,
    of: impl Fn(&Cell) -> &[String],
    again: impl Fn(&Cell) -> String,
    Most(most, of_a_cell): Most,
) -> String {
    let (mut lines, mut shown, mut total) = (Vec::new(), 0, 0);
    for cell in cells {
        let all = of(cell);
        total += all.len();
        if all.is_empty() || shown >= most {
            continue;
        }
        let name = escaped(&super::name_of(cell));
        lines.push(format!(
            "- {name}, on {}: {}\n",
            escaped(&cell.server),
            code(&again(cell))
        ));
        let kept = &all[..all.len().min(of_a_cell)];
        lines.extend(
            kept.iter()
                .map(|sentence| format!("  - {}\n", escaped(sentence))),
        );
        shown += kept.len();
    }
    let lines = lines.concat();
    if total == shown {
        return lines;
    }
    let (shown, total) = (number(shown as u64), number(total as u64));
    format!("{lines}\n{shown} of {total} are shown; `results.json` has all.\n")
}

/// What a long run was started with, or what does the run of a cell again.
fn again_long(report: &Report) -> impl Fn(&Cell) -> String {
    |cell| {
        let name = format!("long-{}", cell.deployment);
        let part = report
            .facts
            .origin
            .parts
            .iter()
            .find(|part| part.name == name);
        part.map_or_else(|| again(cell), |part| part.command.clone())
    }
}

/// Timelines, each with what one sees.
fn timelines(taught: &[&Taught<'_>]) -> String {
    let shown = taught.iter().map(|Taught { lesson, cell }| {
        let name = escaped(&super::name_of(cell));
        let [first, second] = lesson.says;
        format!(
            "### {name}\n\n{first} {second}\n\n![{name}]({})\n\n",
            lesson.picture()
        )
    });
    shown.collect()
}

//! The pages: an index, one for each deployment, one for the other libraries, and one for the bugs
//! that the run detects.

mod deployment;
mod index;
mod origin;
mod peers;
mod power;
mod rest;
mod sum;

use super::lessons::Example;
use super::{Report, deployment_name, is_peer, markdown, repeat_command};
use crate::result::{Cell, Overlaps};
use markdown::{code, escaped, number};

const PEERS: &str = "peers.md";
const POWER: &str = "power.md";
const GENERATED: &str =
    "<!-- Written by tools/faults/publish. What is changed here by hand is lost. -->\n\n";

/// Limits of a list of sentences. The totals on the pages count the sentences that are not listed
/// as well.
#[derive(Clone, Copy)]
struct Limits {
    /// A cell is left out if this many sentences are listed before it.
    all: usize,
    each_cell: usize,
}

const VIOLATIONS: Limits = Limits {
    all: 60,
    each_cell: 3,
};
const EXCUSES: Limits = Limits {
    all: 12,
    each_cell: 1,
};

/// Returns the file name and the text of each page.
pub(super) fn all(report: &Report, examples: &[Example<'_>]) -> Vec<(String, String)> {
    let mut pages = vec![("README.md".to_owned(), index::page(report))];
    for deployment in report.deployments() {
        let examples: Vec<_> = examples
            .iter()
            .filter(|one| !is_peer(one.cell) && one.cell.deployment == deployment)
            .collect();
        pages.push((
            markdown::page(deployment),
            deployment::page(deployment, report, &examples),
        ));
    }
    if !report.compared.is_empty() {
        let examples: Vec<_> = examples.iter().filter(|one| is_peer(one.cell)).collect();
        pages.push((PEERS.to_owned(), peers::page(report, &examples)));
    }
    if let Some(power) = &report.facts.power {
        pages.push((POWER.to_owned(), power::page(power)));
    }
    pages
}

/// Removes repeated names. The others keep their order.
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

/// `1 excused, 2 invalid`, or `0`. Valid overlaps are violations, so they are bold.
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

/// `none`, or the number of violations in bold.
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
fn out_of(some: u64, all: u64) -> String {
    format!("{} of {}", number(some), number(all))
}

/// A section with a heading. It is empty, without a heading, if the content is empty.
fn section(title: &str, about: &str, content: &str) -> String {
    let gap = if about.is_empty() { "" } else { "\n\n" };
    match content.trim_end() {
        "" => String::new(),
        content => format!("## {title}\n\n{about}{gap}{content}\n\n"),
    }
}

/// Lists sentences of the cells, and for each cell the command that repeats its run. If the limits
/// shorten the list, a last line states the total.
fn sentences<'a>(
    cells: impl Iterator<Item = &'a Cell>,
    of: impl Fn(&Cell) -> &[String],
    repeat_command: impl Fn(&Cell) -> String,
    limits: Limits,
) -> String {
    let (mut lines, mut shown, mut total) = (Vec::new(), 0, 0);
    for cell in cells {
        let all = of(cell);
        total += all.len();
        if all.is_empty() || shown >= limits.all {
            continue;
        }
        let name = escaped(&super::cell_name(cell));
        lines.push(format!(
            "- {name}, on {}: {}\n",
            escaped(&cell.server),
            code(&repeat_command(cell))
        ));
        let kept = &all[..all.len().min(limits.each_cell)];
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

/// Returns the command that started the long run of a cell. If that is not known, returns the usual
/// command for the cell.
fn long_run_command(report: &Report) -> impl Fn(&Cell) -> String {
    |cell| {
        let name = format!("long-{}", cell.deployment);
        let part = report
            .facts
            .origin
            .parts
            .iter()
            .find(|part| part.name == name);
        part.map_or_else(|| repeat_command(cell), |part| part.command.clone())
    }
}

/// The timelines, each with an explanation.
fn timelines(examples: &[&Example<'_>]) -> String {
    let shown = examples.iter().map(|Example { lesson, cell }| {
        let name = escaped(&super::cell_name(cell));
        let [first, second] = lesson.text;
        format!(
            "### {name}\n\n{first} {second}\n\n![{name}]({})\n\n",
            lesson.picture()
        )
    });
    shown.collect()
}

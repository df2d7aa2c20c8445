//! The pages: an index, and one for each deployment and for the other libraries.

mod deployment;
mod index;
mod peers;
mod sum;

use super::facts::Facts;
use super::{deployment_name, is_peer, markdown};
use crate::result::{Cell, Overlaps};

const PEERS: &str = "peers.md";
const WRITTEN: &str = "<!-- Written by the fault run, from results.json. -->\n\n";

/// Names of files, and their text.
pub(super) fn all(cells: &[Cell], facts: &Facts) -> Vec<(String, String)> {
    let mut pages = vec![("README.md".to_owned(), index::page(cells, facts))];
    let ours: Vec<_> = cells.iter().filter(|cell| !is_peer(cell)).collect();
    for deployment in in_order(ours.iter().map(|cell| cell.deployment.as_str())) {
        let cells: Vec<_> =
            ours.iter().copied().filter(|cell| cell.deployment == deployment).collect();
        pages.push((markdown::page(deployment), deployment::page(deployment, &cells, facts)));
    }
    if cells.iter().any(is_peer) {
        pages.push((PEERS.to_owned(), peers::page(cells, facts)));
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
    markdown::escaped(&deployment_name(deployment))
}

/// `0`, or `0, 3 excused, 1 invalid`; what must not be stands out.
fn overlaps(of: Overlaps) -> String {
    let mut parts = vec![match of.valid {
        0 => "0".to_owned(),
        valid => format!("**{} valid**", markdown::number(valid)),
    }];
    for (number, kind) in [(of.excused, "excused"), (of.invalid, "invalid")] {
        if number > 0 {
            parts.push(format!("{} {kind}", markdown::number(number)));
        }
    }
    parts.join(", ")
}

/// How it went, beside the overlaps.
fn verdict(violations: usize) -> String {
    match violations {
        0 => "none".to_owned(),
        some => format!("**{}**", markdown::number(u64::try_from(some).expect("it fits"))),
    }
}

fn longest(times: &[u64]) -> String {
    times.iter().max().map_or("–".to_owned(), |ms| markdown::duration(*ms))
}

/// Nothing, if there is nothing to show.
fn section(title: &str, about: &str, shown: &str) -> String {
    let gap = if about.is_empty() { "" } else { "\n\n" };
    match shown.trim_end() {
        "" => String::new(),
        shown => format!("## {title}\n\n{about}{gap}{shown}\n\n"),
    }
}

/// The sentences of cells, a list for each; not more than so many.
fn sentences(cells: &[&Cell], of: impl Fn(&Cell) -> &[String], most: usize) -> String {
    let said = cells.iter().filter(|cell| !of(cell).is_empty());
    let lists = said.map(|cell| {
        let who = markdown::escaped(&super::name_of(cell));
        let name = markdown::link(&who, &super::picture_of(cell));
        let all = of(cell);
        let mut lines = vec![format!("- {name} (seed {}):\n", cell.seed)];
        let shown = all.iter().take(most);
        lines.extend(shown.map(|sentence| format!("  - {}\n", markdown::escaped(sentence))));
        if all.len() > most {
            let rest = all.len() - most;
            lines.push(format!("  - and {rest} more, in [results.json](results.json)\n"));
        }
        lines.concat()
    });
    lists.collect()
}

//! The matrix of one deployment: faults by workloads.

use super::super::{markdown, picture_of};
use super::{WRITTEN, in_order, longest, overlaps, section, sentences, title};
use crate::report::Facts;
use crate::result::Cell;
use markdown::{count, duration, escaped, link, number, table};

/// Sentences of a cell that are shown.
const SHOWN: usize = 3;

pub(super) fn page(deployment: &str, cells: &[&Cell], facts: &Facts) -> String {
    let violations: usize = cells.iter().map(|cell| cell.violations.len()).sum();
    let servers = in_order(cells.iter().map(|cell| cell.server.as_str())).join(", ");
    let head = format!(
        "# Faults: {}\n\n{WRITTEN}{}, {}, on {}. [What the words mean, and how to read a picture](README.md).\n\n",
        title(deployment),
        count(cells.len(), "run"),
        count(violations, "violation"),
        escaped(&servers)
    );
    let holds = matrix(cells, |cell| {
        let picture = link(&number(cell.operations), &picture_of(cell));
        let failed = if cell.passes() { String::new() } else { failed(cell) };
        format!("{picture}<br>{}{failed}", overlaps(cell.overlaps))
    });
    let times = matrix(cells, |cell| {
        format!("{}<br>{}", duration(cell.longest_wait_ms), longest(&cell.recovery_ms))
    });
    let parts = [
        head,
        section(
            "Grants and overlaps",
            "Grants, with their timeline; below, overlaps of valid holds that nothing excuses. Others are named where \
             there were some. – did not run.",
            &holds,
        ),
        section(
            "Longest wait, and recovery",
            "The longest wait for a lock; below, the longest time from the end of a fault until every lock was \
             granted again.",
            &times,
        ),
        section(
            "Violations",
            "What must not be.",
            &sentences(cells, |cell| &cell.violations, SHOWN),
        ),
        section(
            "What explains the excused overlaps",
            "And all else that the guarantee of the deployment does not exclude.",
            &sentences(cells, |cell| &cell.explained, SHOWN),
        ),
        section(
            "What else was counted",
            "Of all workloads. A timeout is a wait in which others held the lock all the while.",
            &others(cells),
        ),
        super::index::meanings(
            "Faults",
            &facts.faults,
            cells.iter().map(|cell| cell.fault.as_str()),
        ),
    ];
    parts.concat().trim_end().to_owned() + "\n"
}

fn failed(cell: &Cell) -> String {
    format!("<br>**{}**", count(cell.violations.len(), "violation"))
}

fn matrix(cells: &[&Cell], show: impl Fn(&Cell) -> String) -> String {
    let workloads = in_order(cells.iter().map(|cell| cell.workload.as_str()));
    let faults = in_order(cells.iter().map(|cell| cell.fault.as_str()));
    let mut heads = vec!["fault".to_owned()];
    heads.extend(workloads.iter().map(|name| escaped(name)));
    let rows = faults.iter().map(|fault| {
        let cell = |workload: &&str| {
            let cell = cells.iter().find(|cell| cell.fault == *fault && cell.workload == *workload);
            cell.map_or("–".to_owned(), |cell| show(cell))
        };
        let mut row = vec![escaped(fault)];
        row.extend(workloads.iter().map(cell));
        row
    });
    table(&heads, rows)
}

/// What else was counted.
fn others(cells: &[&Cell]) -> String {
    let heads =
        ["fault", "timeouts", "errors, by kind", "writes refused", "out of turn", "keys left"];
    let rows = in_order(cells.iter().map(|cell| cell.fault.as_str())).into_iter().map(|fault| {
        let of: Vec<_> = cells.iter().filter(|cell| cell.fault == fault).collect();
        let sum = |value: fn(&Cell) -> u64| number(of.iter().map(|cell| value(cell)).sum());
        let kinds = of.iter().flat_map(|cell| cell.errors.keys().map(String::as_str));
        let errors = in_order(kinds).into_iter().map(|kind| {
            let times = of.iter().filter_map(|cell| cell.errors.get(kind)).sum();
            format!("{} {}", number(times), escaped(kind))
        });
        vec![
            escaped(fault),
            sum(|cell| cell.timeouts),
            errors.collect::<Vec<_>>().join(", "),
            sum(|cell| cell.refused_writes),
            sum(|cell| cell.out_of_turn),
            number(of.iter().map(|cell| cell.keys_left.len() as u64).sum()),
        ]
    });
    table(&markdown::heads(&heads), rows)
}

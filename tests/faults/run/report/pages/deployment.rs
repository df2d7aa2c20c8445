//! A deployment: what the faults met there, and what came of it.

use super::super::lessons::Taught;
use super::super::{again, markdown, plot_of};
use super::rest::meanings;
use super::sum::Sum;
use super::{
    EXCUSES, VIOLATIONS, WRITTEN, in_order, of, section, sentences, timelines, title, verdict,
};
use crate::report::Report;
use crate::result::Cell;
use markdown::{count, escaped, heads, number, table};

pub(super) fn page(deployment: &str, report: &Report, taught: &[&Taught<'_>]) -> String {
    let cells: Vec<_> = report.matrix.iter().filter(|cell| cell.deployment == deployment).collect();
    let sum: Sum = cells.iter().copied().collect();
    let servers = in_order(cells.iter().map(|cell| cell.server.as_str())).join(", ");
    let name = title(deployment);
    let plot = plot_of(deployment);
    let parts = [
        format!(
            "# Faults: {name}\n\n{WRITTEN}{} with {} ({}), on {}: {} and {}; {}. [What the words mean](README.md).\n\n",
            count(sum.runs(), "program run"),
            count(sum.cells, "cell"),
            count(sum.seeds(), "seed"),
            escaped(&servers),
            count(sum.injections(), "injection"),
            count(sum.operations, "grant"),
            count(sum.violations, "violation"),
        ),
        section(
            "Violations",
            "What must not be.",
            &sentences(violated(&cells), |cell| &cell.violations, again, VIOLATIONS),
        ),
        section(
            "What the faults met",
            "All workloads and seeds together. *Met* counts, of the injections of every cell, those that came while a \
             holder was within reach, while a client waited, and while a renewal was due.",
            &met(&cells, |cell| &cell.fault, "fault"),
        ),
        section(
            "What came of it",
            "*Losses* are holds that ended before their release; one without a cause is a violation. *Told*: the longest \
             time from another client's grant until the holder knew, its own release apart. *Held*: how often a holder \
             asked and heard that it holds the lock while another client had it, and for how long at most. *Excusable*: \
             the share of the time in which locks were held in which another holder would have been excused.",
            &outcome(&cells, |cell| &cell.fault, "fault"),
        ),
        section(
            "Waits and recovery",
            "Recovery is the time from the end of a fault until every lock was granted again: the median, and the longest.",
            &format!("{}![Recovery]({plot})\n", times(&cells)),
        ),
        section("By workload", "All faults and seeds together.", &by_workload(&cells)),
        section("Timelines", "", &timelines(taught)),
        section(
            "What excuses the overlaps",
            "And all else that the guarantee of the deployment does not exclude.",
            &sentences(cells.iter().copied(), |cell| &cell.explained, again, EXCUSES),
        ),
        meanings("Faults", &report.facts.faults, cells.iter().map(|cell| cell.fault.as_str())),
    ];
    parts.concat().trim_end().to_owned() + "\n"
}

fn violated<'a>(cells: &'a [&Cell]) -> impl Iterator<Item = &'a Cell> {
    cells.iter().copied().filter(|cell| !cell.passes())
}

/// A row for each fault, or for each workload.
fn rows(
    cells: &[&Cell],
    by: fn(&Cell) -> &str,
    row: impl Fn(&Sum) -> Vec<String>,
) -> Vec<Vec<String>> {
    let names = in_order(cells.iter().map(|cell| by(cell)));
    let row = |name: &str| {
        let sum: Sum = cells.iter().copied().filter(|cell| by(cell) == name).collect();
        let mut all = vec![escaped(name)];
        all.extend(row(&sum));
        all
    };
    names.into_iter().map(row).collect()
}

fn met(cells: &[&Cell], by: fn(&Cell) -> &str, head: &str) -> String {
    let columns = [
        head,
        "runs",
        "seeds",
        "injections",
        "met a holder",
        "met a waiter",
        "met a renewal",
        "grants",
    ];
    let rows = rows(cells, by, |sum| {
        let met = sum.met;
        vec![
            number(sum.runs()),
            number(sum.seeds()),
            number(sum.injections()),
            of(met.holders, met.injections),
            of(met.waiters, met.injections),
            of(met.renewals, met.injections),
            number(sum.operations),
        ]
    });
    table(&heads(&columns), rows)
}

fn outcome(cells: &[&Cell], by: fn(&Cell) -> &str, head: &str) -> String {
    let columns = [
        head,
        "renewals done / failed / lost",
        "losses with / without cause",
        "two holders: valid / excused / invalid",
        "told",
        "*held*",
        "excusable",
        "violations",
    ];
    let rows = rows(cells, by, |sum| {
        let of_three = |all: [u64; 3]| all.map(number).join(" / ");
        let (renewals, overlaps, losses) = (sum.renewals, sum.overlaps, sum.losses);
        vec![
            of_three([renewals.done, renewals.failed, renewals.lost]),
            [losses.with_cause, losses.without_cause].map(number).join(" / "),
            of_three([overlaps.valid, overlaps.excused, overlaps.invalid]),
            sum.told(),
            sum.said_held(),
            sum.excusable(),
            verdict(sum.violations),
        ]
    });
    table(&heads(&columns), rows)
}

fn times(cells: &[&Cell]) -> String {
    let columns = [
        "fault",
        "longest wait",
        "recovery",
        "timeouts",
        "errors, by kind",
        "writes refused",
        "out of turn",
        "keys left",
    ];
    let rows = rows(
        cells,
        |cell| &cell.fault,
        |sum| {
            let errors = sum
                .errors
                .iter()
                .map(|(kind, times)| format!("{} {}", number(*times), escaped(kind)));
            vec![
                sum.longest_wait(),
                sum.recovery(),
                number(sum.timeouts),
                errors.collect::<Vec<_>>().join(", "),
                number(sum.refused_writes),
                number(sum.out_of_turn),
                number(sum.keys_left),
            ]
        },
    );
    table(&heads(&columns), rows)
}

fn by_workload(cells: &[&Cell]) -> String {
    let columns = [
        "workload",
        "grants",
        "of them brief",
        "beyond a lease",
        "fixed",
        "extended",
        "re-entered",
        "left alone",
    ];
    let holds = rows(
        cells,
        |cell| &cell.workload,
        |sum| {
            let of = sum.holds;
            [of.brief, of.beyond_a_lease, of.fixed, of.extended, of.reentered, of.paused]
                .into_iter()
                .fold(vec![number(sum.operations)], |mut row, value| {
                    row.push(number(value));
                    row
                })
        },
    );
    table(&heads(&columns), holds) + &outcome(cells, |cell| &cell.workload, "workload")
}

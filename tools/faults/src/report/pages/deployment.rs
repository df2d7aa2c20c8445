//! The page of one deployment: what each fault affected, and with which results.

use super::super::lessons::Example;
use super::super::{markdown, plot_file, repeat_command};
use super::rest::meanings;
use super::sum::Sum;
use super::{
    EXCUSES, GENERATED, VIOLATIONS, in_order, out_of, section, sentences, timelines, title, verdict,
};
use crate::report::Report;
use crate::result::Cell;
use markdown::{count, escaped, heads, number, table};

pub(super) fn page(deployment: &str, report: &Report, examples: &[&Example<'_>]) -> String {
    let cells: Vec<_> = report
        .matrix
        .iter()
        .filter(|cell| cell.deployment == deployment)
        .collect();
    let sum: Sum = cells.iter().copied().collect();
    let servers = in_order(cells.iter().map(|cell| cell.server.as_str())).join(", ");
    let name = title(deployment);
    let plot = plot_file(deployment);
    let parts = [
        format!(
            "# Faults: {name}\n\n{GENERATED}{} with {} ({}), on {}: {} and {}; {}. \
             [Definitions](README.md#what-counts-as-an-overlap).\n\n",
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
            "Each breaks a promise of the library.",
            &sentences(
                failed(&cells),
                |cell| &cell.violations,
                repeat_command,
                VIOLATIONS,
            ),
        ),
        section(
            "What the faults affected",
            "All workloads and seeds together. Of the injections of every cell, *met* counts those \
             that came while an affected process held a lock, waited for one, or had a renewal \
             due.",
            &affected(&cells, |cell| &cell.fault, "fault"),
        ),
        section(
            "Results",
            "*Losses* are holds that ended before their release. A loss without a cause is a \
             violation. *Noticed after* is the longest time from another client's grant until the \
             previous holder knew; its own release does not count. *Said held*: how often a holder \
             was told `Held` while another client had the lock, and for how long at most. \
             *Excusable*: the share of the held time in which a second holder would have been \
             excused.",
            &outcome(&cells, |cell| &cell.fault, "fault"),
        ),
        section(
            "Waits and recovery",
            "Recovery is the time from the end of a fault until every lock was granted again: \
             median and longest.",
            &format!("{}![Recovery]({plot})\n", times(&cells)),
        ),
        section(
            "By workload",
            "All faults and seeds together.",
            &by_workload(&cells),
        ),
        section("Timelines", "", &timelines(examples)),
        section(
            "Excused events",
            "Overlaps, and everything else that the guarantee of the deployment permits.",
            &sentences(
                cells.iter().copied(),
                |cell| &cell.explained,
                repeat_command,
                EXCUSES,
            ),
        ),
        meanings(
            "Faults",
            &report.facts.faults,
            cells.iter().map(|cell| cell.fault.as_str()),
        ),
    ];
    parts.concat().trim_end().to_owned() + "\n"
}

fn failed<'a>(cells: &'a [&Cell]) -> impl Iterator<Item = &'a Cell> {
    cells.iter().copied().filter(|cell| !cell.passes())
}

/// One row for each fault or workload, with the sum of its cells. `by` selects which of the two.
fn rows(
    cells: &[&Cell],
    by: fn(&Cell) -> &str,
    row: impl Fn(&Sum) -> Vec<String>,
) -> Vec<Vec<String>> {
    let names = in_order(cells.iter().map(|cell| by(cell)));
    let row = |name: &str| {
        let sum: Sum = cells
            .iter()
            .copied()
            .filter(|cell| by(cell) == name)
            .collect();
        let mut all = vec![escaped(name)];
        all.extend(row(&sum));
        all
    };
    names.into_iter().map(row).collect()
}

fn affected(cells: &[&Cell], by: fn(&Cell) -> &str, head: &str) -> String {
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
            out_of(met.holders, met.injections),
            out_of(met.waiters, met.injections),
            out_of(met.renewals, met.injections),
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
        "noticed after",
        "said held",
        "excusable",
        "violations",
    ];
    let rows = rows(cells, by, |sum| {
        let of_three = |all: [u64; 3]| all.map(number).join(" / ");
        let (renewals, overlaps, losses) = (sum.renewals, sum.overlaps, sum.losses);
        vec![
            of_three([renewals.done, renewals.failed, renewals.lost]),
            [losses.with_cause, losses.without_cause]
                .map(number)
                .join(" / "),
            of_three([overlaps.valid, overlaps.excused, overlaps.invalid]),
            sum.longest_notice(),
            sum.reported_held(),
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
        "brief",
        "beyond a lease",
        "fixed",
        "extended",
        "re-entered",
        "unchecked for a while",
    ];
    let rows = rows(
        cells,
        |cell| &cell.workload,
        |sum| {
            let holds = sum.holds;
            [
                holds.brief,
                holds.beyond_a_lease,
                holds.fixed,
                holds.extended,
                holds.reentered,
                holds.paused,
            ]
            .into_iter()
            .fold(vec![number(sum.operations)], |mut row, value| {
                row.push(number(value));
                row
            })
        },
    );
    table(&heads(&columns), rows) + &outcome(cells, |cell| &cell.workload, "workload")
}

//! The first page. What ran and the results come first, the definitions after that.

use super::super::{OURS, markdown};
use super::rest::meanings;
use super::sum::Sum;
use super::{
    GENERATED, PEERS, POWER, in_order, origin, out_of, overlaps, peers, power, rest, section,
    title, verdict,
};
use crate::report::{Facts, Report};
use markdown::{count, escaped, heads, number, table};

/// How many missing parts the first paragraph names.
const MISSING_IN_HEAD: usize = 3;

pub(super) fn page(report: &Report) -> String {
    let Facts {
        names,
        fuzz,
        power,
        left_out,
        missing,
        faults,
        workloads,
        ..
    } = &report.facts;
    let cells = || report.matrix.iter();
    let parts = [
        head(report),
        section(
            "What ran",
            "A *program run* starts servers and client processes, injects one fault repeatedly, \
             and ends. Each workload of a run is a *cell*. An *injection* is one occurrence of the \
             fault. It counts once for a run, however many cells it affected.",
            &origin::what_ran(report),
        ),
        outcome(report),
        deployments(report),
        comparison(report),
        power.as_ref().map_or(String::new(), |power| {
            let about = format!(
                "Bugs that were put into the library on purpose, and how many of them the run \
                 detected. [All of them]({POWER})."
            );
            section("Bugs that the run detects", &about, &power::by_class(power))
        }),
        rest::long(report),
        names.as_ref().map_or(String::new(), rest::names),
        fuzz.as_ref().map_or(String::new(), rest::fuzz),
        section(
            "What is missing",
            "This report is incomplete.",
            &markdown::list(missing),
        ),
        section(
            "Faults that did not run, and cells without a result",
            "",
            &markdown::list(left_out),
        ),
        DEFINITIONS.to_owned(),
        origin::reproduce(report),
        CORRECTIONS.to_owned(),
        meanings("Faults", faults, cells().map(|cell| cell.fault.as_str())),
        meanings(
            "Workloads",
            workloads,
            cells().map(|cell| cell.workload.as_str()),
        ),
    ];
    parts.concat().trim_end().to_owned() + "\n"
}

fn head(report: &Report) -> String {
    let sum: Sum = report.matrix.iter().chain(&report.facts.long).collect();
    let version = in_order(report.matrix.iter().map(|cell| cell.version.as_str())).join(", ");
    let missing = &report.facts.missing;
    let incomplete = if missing.is_empty() {
        String::new()
    } else {
        let shown: Vec<_> = missing
            .iter()
            .take(MISSING_IN_HEAD)
            .map(|what| escaped(what))
            .collect();
        let rest = if missing.len() > MISSING_IN_HEAD {
            "; [and more](#what-is-missing)"
        } else {
            ""
        };
        format!(
            "**This report is incomplete. It lacks: {}{rest}.**\n\n",
            shown.join("; ")
        )
    };
    format!(
        "# Faults\n\n{GENERATED}{incomplete}For readers who compare lock libraries or need to know \
         what can go wrong.\nThis page shows what happened to locks while servers, networks and \
         processes failed. Other libraries went through the same program.\n\n**{OURS} {}: {} with \
         {}, {} and {}; {}.**\n\n",
        escaped(&version),
        count(sum.runs(), "program run"),
        count(sum.cells, "cell"),
        count(sum.injections(), "injection"),
        count(sum.operations, "grant"),
        count(sum.violations, "violation"),
    )
}

fn outcome(report: &Report) -> String {
    let sum: Sum = report.matrix.iter().chain(&report.facts.long).collect();
    let (met, losses, renewals) = (sum.met, sum.losses, sum.renewals);
    let rows = [
        ("violations", verdict(sum.violations)),
        (
            "injections that met a holder, counted per cell",
            out_of(met.holders, met.injections),
        ),
        (
            "injections that met a waiter",
            out_of(met.waiters, met.injections),
        ),
        (
            "injections that met a renewal",
            out_of(met.renewals, met.injections),
        ),
        (
            "renewals: done, failed, lost",
            [renewals.done, renewals.failed, renewals.lost]
                .map(number)
                .join(", "),
        ),
        (
            "losses: with a cause, without a cause",
            [losses.with_cause, losses.without_cause]
                .map(number)
                .join(", "),
        ),
        ("two holders at once", overlaps(sum.overlaps)),
        (
            "longest time until the previous holder knew",
            sum.longest_notice(),
        ),
        (
            "`Held` reported while another client had the lock: times, longest",
            sum.reported_held(),
        ),
        (
            "share of the held time in which a second holder would have been excused",
            sum.excusable(),
        ),
        ("longest wait", sum.longest_wait()),
        ("recovery after a fault: median, longest", sum.recovery()),
        (
            "keys left when the longest lease had ended",
            number(sum.keys_left),
        ),
    ];
    let rows = rows.map(|(what, value)| vec![what.to_owned(), value]);
    section(
        "Results",
        "This library, in the matrix and the long runs.",
        &table(&heads(&["", ""]), rows),
    )
}

fn deployments(report: &Report) -> String {
    let columns = [
        "deployment",
        "program runs",
        "cells",
        "injections",
        "grants",
        "two holders",
        "losses with / without cause",
        "longest wait",
        "violations",
    ];
    let rows = report.deployments().into_iter().map(|deployment| {
        let sum: Sum = report
            .matrix
            .iter()
            .filter(|cell| cell.deployment == deployment)
            .collect();
        vec![
            markdown::link(&title(deployment), &markdown::page(deployment)),
            number(sum.runs()),
            number(sum.cells),
            number(sum.injections()),
            number(sum.operations),
            overlaps(sum.overlaps),
            [sum.losses.with_cause, sum.losses.without_cause]
                .map(number)
                .join(" / "),
            sum.longest_wait(),
            verdict(sum.violations),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    section(
        "Results by deployment",
        "The matrix. Each page has a row for every fault, the violations with the commands that \
         repeat them, and timelines.",
        &table(&heads(&columns), rows),
    )
}

fn comparison(report: &Report) -> String {
    let compared = peers::compared(&report.compared);
    if compared.is_empty() {
        return String::new();
    }
    let about = format!(
        "The number of seeds in which two processes were told at the same time that they held a \
         lock, excused or not. A dash means that the fault does not apply or did not run. \
         [Intervals, waits, settings and promises]({PEERS})."
    );
    section(
        "Comparison with other libraries",
        &about,
        &peers::at_a_glance(&compared),
    )
}

const DEFINITIONS: &str = "## What counts as an overlap\n\nTwo conflicting holds of one lock at \
    the same time are one of three kinds:\n\n- **Valid**: both holders had been told that they \
    hold the lock, neither deadline had passed, and no event excuses it. This is a violation.\n- \
    **Excused**: the same, after an event that made a server forget the grant: a failover to a \
    replica that had not received it, or a restart without data. [The \
    guarantees](../../guarantees.md) permit such an overlap. It is counted and explained by its \
    event, and one of the two holders must learn of it within the promised time.\n- **Invalid**: \
    one of the two holders knew that its hold was over, or would have seen it from its deadline. \
    Leases exist for this case, so it is only counted.\n\n## How to read a timeline\n\nA timeline \
    shows some seconds of a run. Each lock has one line per process. A bar is a hold of that \
    process: thick while the hold is valid, thin and pale after its deadline, in doubt, or during \
    the release. A thin grey line is a wait. A small tick above a bar is a hand-over from another \
    process. An orange band is the fault. Two valid holds that overlap are red.\n\n";

/// Wrong claims of the previous report.
const CORRECTIONS: &str = "## What the previous report claimed and this one does not\n\nThe \
    previous report claimed 750 runs. There were 120 program runs with 725 cells. Holds lasted 5 \
    to 60 ms and never reached a renewal, so a build that never renewed passed, and so did one \
    that ignored losses. Losing a renewed lock for no reason was not a violation. \u{201c}Told \
    within 136 ms\u{201d} counted the holder's own release. One event excused every overlap of the \
    next seconds. Other libraries ran one seed a cell, for 13 s, with one injection and with other \
    deadlines, and only our client was stopped between checking the lock and writing. Three rows \
    of the table of bad input were edited by hand.\n\n";

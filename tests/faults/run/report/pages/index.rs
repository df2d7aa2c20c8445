//! The first page. A reader looks for what ran and what came of it first, and for the words after that.

use super::super::{OURS, markdown};
use super::rest::meanings;
use super::sum::Sum;
use super::{
    PEERS, POWER, WRITTEN, in_order, of, origin, overlaps, peers, power, rest, section, title,
    verdict,
};
use crate::report::{Facts, Report};
use markdown::{count, escaped, heads, number, table};

/// What is missing, in the first paragraph.
const NAMED: usize = 3;

pub(super) fn page(report: &Report) -> String {
    let Facts { names, fuzz, power, left_out, missing, faults, workloads, .. } = &report.facts;
    let cells = || report.matrix.iter();
    let parts = [
        head(report),
        section(
            "What ran",
            "A *program run* starts servers and client processes, injects one fault again and again, and ends. It has a *cell* \
             for each workload that ran in it. An *injection* is one time that the fault came; it is counted once for a run, \
             however many cells it met.",
            &origin::what_ran(report),
        ),
        outcome(report),
        deployments(report),
        comparison(report),
        power.as_ref().map_or(String::new(), |power| {
            let about = format!(
                "Faults that were put into the library on purpose, and how many of them the run saw. [Each of them]({POWER})."
            );
            section("What the run can find", &about, &power::by_class(power))
        }),
        rest::long(report),
        names.as_ref().map_or(String::new(), rest::names),
        fuzz.as_ref().map_or(String::new(), rest::fuzz),
        section("What is missing", "This report is not complete.", &markdown::list(missing)),
        section("What did not run, or shows nothing", "", &markdown::list(left_out)),
        WORDS.to_owned(),
        origin::again(report),
        BEFORE.to_owned(),
        meanings("Faults", faults, cells().map(|cell| cell.fault.as_str())),
        meanings("Workloads", workloads, cells().map(|cell| cell.workload.as_str())),
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
        let shown: Vec<_> = missing.iter().take(NAMED).map(|what| escaped(what)).collect();
        let rest = if missing.len() > NAMED { "; [and more](#what-is-missing)" } else { "" };
        format!("**This report is incomplete. It lacks: {}{rest}.**\n\n", shown.join("; "))
    };
    format!(
        "# Faults\n\n{WRITTEN}{incomplete}\
         For readers who compare lock libraries, and for everybody who must know what may go wrong.\n\
         It answers what happened to locks while servers, networks and processes failed: with this library, and with \
         others by the same program.\n\n\
         **{OURS} {}: {} with {}, {} and {}; {}.**\n\n",
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
        ("cells' injections that met a holder", of(met.holders, met.injections)),
        ("that met a waiter", of(met.waiters, met.injections)),
        ("that met a renewal", of(met.renewals, met.injections)),
        (
            "renewals done, failed, lost",
            [renewals.done, renewals.failed, renewals.lost].map(number).join(", "),
        ),
        (
            "losses with a cause, without one",
            [losses.with_cause, losses.without_cause].map(number).join(", "),
        ),
        ("two holders at once", overlaps(sum.overlaps)),
        ("longest time until the holder was told", sum.told()),
        ("*held* while another client had the lock: times, longest", sum.said_held()),
        ("time in which another holder would have been excused", sum.excusable()),
        ("longest wait", sum.longest_wait()),
        ("recovery after a fault: median, longest", sum.recovery()),
        ("keys left two leases after the end", number(sum.keys_left)),
    ];
    let rows = rows.map(|(what, value)| vec![what.to_owned(), value]);
    section(
        "What came of it",
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
        let sum: Sum = report.matrix.iter().filter(|cell| cell.deployment == deployment).collect();
        vec![
            markdown::link(&title(deployment), &markdown::page(deployment)),
            number(sum.runs()),
            number(sum.cells),
            number(sum.injections()),
            number(sum.operations),
            overlaps(sum.overlaps),
            [sum.losses.with_cause, sum.losses.without_cause].map(number).join(" / "),
            sum.longest_wait(),
            verdict(sum.violations),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    section(
        "The deployments",
        "The matrix. Each page has a row for every fault, the violations with the commands that do them again, and timelines.",
        &table(&heads(&columns), rows),
    )
}

fn comparison(report: &Report) -> String {
    let compared = peers::compared(&report.compared);
    if compared.is_empty() {
        return String::new();
    }
    let about = format!(
        "In how many of the seeds two processes were told at the same time that they hold a lock, excused or not. – does \
         not apply, or did not run. [Intervals, waits, settings and promises]({PEERS})."
    );
    section("Beside other libraries", &about, &peers::at_a_glance(&compared))
}

const WORDS: &str = "## What counts as an overlap\n\n\
    Two holds of one lock at the same time, which exclude each other, are one of three things:\n\n\
    - **Valid**: both holders had been told that they hold the lock, their deadlines had not passed, and nothing excuses \
    it. It is a violation: a server never gives one lock to two.\n\
    - **Excused**: the same, after an event by which a server forgot what it had granted, as a failover to a replica that \
    had not seen it or a restart without data. [Guarantees](../guarantees.md) does not exclude that: such an overlap is \
    counted, explained by its event, and one of both must be told in the promised time.\n\
    - **Invalid**: one of both holders knew, or saw by its deadline when it asked, that its hold was over. That is what \
    a lease is for, so it is only counted.\n\n\
    ## How to read a timeline\n\n\
    It shows some seconds of a run. Each lock has a line for each process; its bars are the holds of that process. A bar \
    is thick while the hold is valid, and thin and pale when it is past its deadline, in doubt or being released. A thin \
    grey line is a wait, a small tick above a bar a hand-over from another process. An orange band is the fault. Where two \
    valid holds overlap, both are red.\n\n";

const BEFORE: &str = "## What the report before this claimed, and this one does not\n\n\
    The report before this one said 750 runs: they were 120 program runs, with 725 cells. Holds took 5 to 60 ms and never \
    met a renewal, so a build that never renewed, or that ignored losses, passed. A renewed lock that was lost for no \
    reason was no violation. \u{201c}Told within 136 ms\u{201d} counted the holder's own release. One event excused all \
    overlaps of the seconds after it. Other libraries ran once a cell, for 13 s, with one injection and with deadlines \
    other than ours, and only our client was stopped between its look at the lock and its write. Three rows of the table of bad \
    input were replaced by hand.\n\n";

//! The first page. A reader who compares libraries looks for the outcome first, and for the words after it.

use std::collections::BTreeMap;

use super::super::{markdown, picture_of};
use super::sum::Sum;
use super::{PEERS, WRITTEN, in_order, is_peer, longest, overlaps, peers, section, title, verdict};
use crate::report::facts::{Fuzz, ManyNames};
use crate::report::{Facts, OURS};
use crate::result::Cell;
use markdown::{count, duration, escaped, heads, link, number, table};

/// Sentences of a cell that are shown.
const SHOWN: usize = 10;

pub(super) fn page(cells: &[Cell], facts: &Facts) -> String {
    let ours: Vec<_> = cells.iter().filter(|cell| !is_peer(cell)).collect();
    let compared = peers::compared(cells);
    let parts = [
        head(&ours, facts),
        comparison(&compared),
        matrix(&ours),
        words().to_owned(),
        example(&ours, &compared),
        recovery(&ours),
        long(facts),
        facts.names.as_ref().map_or(String::new(), names),
        facts.fuzz.as_ref().map_or(String::new(), fuzz),
        again(facts),
        meanings("Faults", &facts.faults, cells.iter().map(|cell| cell.fault.as_str())),
        meanings("Workloads", &facts.workloads, cells.iter().map(|cell| cell.workload.as_str())),
    ];
    parts.concat().trim_end().to_owned() + "\n"
}

fn head(ours: &[&Cell], facts: &Facts) -> String {
    let sum: Sum = ours.iter().copied().chain(&facts.long).collect();
    let version = in_order(ours.iter().map(|cell| cell.version.as_str())).join(", ");
    let of = |name: fn(&Cell) -> &str| in_order(ours.iter().map(|cell| name(cell))).len();
    let (faults, workloads) = (of(|cell| &cell.fault), of(|cell| &cell.workload));
    let deployments = of(|cell| &cell.deployment);
    let runs = count(sum.cells, "run");
    let kinds =
        [count(faults, "fault"), count(workloads, "workload"), count(deployments, "deployment")]
            .join(" × ");
    let grants = number(sum.operations);
    let rows = [
        ("violations", verdict(sum.violations)),
        ("two valid holders that nothing excuses", number(sum.overlaps.valid)),
        (
            "two valid holders that the deployment's guarantee does not exclude",
            number(sum.overlaps.excused),
        ),
        ("in those, one of both was told", sum.told()),
        ("holds that met one past its deadline or in doubt", number(sum.overlaps.invalid)),
        ("longest wait", duration(sum.longest_wait_ms)),
        ("longest recovery after a fault", longest(&sum.recovery_ms)),
        ("keys left two leases after the end", number(sum.keys_left as u64)),
    ];
    let rows = rows.map(|(what, value)| vec![what.to_owned(), value]);
    format!(
        "# Faults\n\n{WRITTEN}\
         For readers who compare lock libraries, and for everybody who must know what may go wrong.\n\
         It answers what happened to locks while servers, networks and processes failed: with this library, and with others \
         by the same program.\n\n\
         **{OURS} {}, {}: {grants} grants in {runs} ({kinds}).**\n\n{}",
        escaped(&version),
        escaped(&facts.date),
        table(&heads(&["", ""]), rows)
    )
}

fn comparison(compared: &[&Cell]) -> String {
    if !compared.iter().any(|cell| is_peer(cell)) {
        return String::new();
    }
    format!(
        "## Beside other libraries\n\n\
         The same program, faults and servers for all. Each library is checked for what its own documentation promises. \
         Of this library only those runs are counted here that others did as well. [Their settings, and each run]({PEERS}).\n\n{}\
         How often two processes held the lock at once, and both were told so, excused or not. Each number leads to its \
         timeline. – does not apply, or did not run.\n\n{}",
        peers::at_a_glance(compared),
        peers::by_fault(compared)
    )
}

/// Faults by deployments; the pages of the deployments have the workloads.
fn matrix(ours: &[&Cell]) -> String {
    let deployments = in_order(ours.iter().map(|cell| cell.deployment.as_str()));
    let mut columns = vec!["fault".to_owned()];
    columns.extend(
        deployments.iter().map(|name| format!("[{}]({})", title(name), markdown::page(name))),
    );
    let rows = in_order(ours.iter().map(|cell| cell.fault.as_str())).into_iter().map(|fault| {
        let mut row = vec![escaped(fault)];
        row.extend(deployments.iter().map(|deployment| {
            let of = ours
                .iter()
                .copied()
                .filter(|cell| cell.fault == fault && cell.deployment == *deployment);
            let sum: Sum = of.collect();
            let failed = match sum.violations {
                0 => String::new(),
                some => format!("<br>**{}**", count(some, "violation")),
            };
            match sum.cells {
                0 => "–".to_owned(),
                _ => format!(
                    "{} grants<br>{}{failed}",
                    number(sum.operations),
                    overlaps(sum.overlaps)
                ),
            }
        }));
        row
    });
    format!(
        "## This library, fault by fault\n\n\
         Grants of all workloads; below, overlaps of valid holds that nothing excuses, and others where there were some. \
         – did not run. Each deployment has a page with its workloads and a timeline for each run.\n\n{}",
        table(&columns, rows)
    )
}

fn words() -> &'static str {
    "## What counts as an overlap\n\n\
     Two holds of one lock at the same time, which exclude each other, are one of three things:\n\n\
     - **Valid**: both holders had been told that they hold the lock, their deadlines had not passed, and nothing excuses \
     it. It is a violation: a server never gives one lock to two.\n\
     - **Excused**: the same, after an event by which a server forgot what it had granted, as a failover to a replica that had \
     not seen it or a restart without data. [Guarantees](../guarantees.md) does not exclude that: such an overlap is counted, \
     explained by its event, and one of both must be told in the promised time.\n\
     - **Invalid**: one of both holders knew, or saw by its deadline when it asked, that its hold was over. That is what \
     a lease is for, so it is only counted.\n\n"
}

fn example(ours: &[&Cell], compared: &[&Cell]) -> String {
    let told = |cell: &&&Cell| cell.overlaps.valid + cell.overlaps.excused > 0;
    let cell = ours.iter().find(told).or(compared.iter().find(told)).or(ours.first());
    let Some(cell) = cell else { return String::new() };
    let name = escaped(&crate::report::name_of(cell));
    format!(
        "## How to read a picture\n\n\
         Each run has a timeline of some seconds around its first fault. Each lock has a line for each process; its bars are \
         the holds of that process. A bar is thick while the hold is valid, and thin and pale when it is past its deadline, in \
         doubt or being released. A thin grey line is a wait, a small tick above a bar a hand-over from another process. \
         An orange band is the fault. Where two valid holds overlap, both are red.\n\n!{}\n\n",
        link(&name, &picture_of(cell))
    )
}

fn recovery(ours: &[&Cell]) -> String {
    if ours.iter().all(|cell| cell.recovery_ms.is_empty()) {
        return String::new();
    }
    "## Recovery\n\n![From the end of each fault until every lock was granted again](recovery.svg)\n\n".to_owned()
}

fn long(facts: &Facts) -> String {
    if facts.long.is_empty() {
        return String::new();
    }
    let columns = [
        "deployment",
        "workload",
        "length",
        "grants",
        "overlaps",
        "longest wait",
        "longest recovery",
        "violations",
        "seed",
    ];
    let rows = facts.long.iter().map(|cell| {
        vec![
            title(&cell.deployment),
            escaped(&cell.workload),
            duration(cell.seconds * 1000),
            link(&number(cell.operations), &picture_of(cell)),
            overlaps(cell.overlaps),
            duration(cell.longest_wait_ms),
            longest(&cell.recovery_ms),
            verdict(cell.violations.len()),
            cell.seed.to_string(),
        ]
    });
    let all: Vec<_> = facts.long.iter().collect();
    let violated = super::sentences(&all, |cell| &cell.violations, SHOWN);
    section("Long runs, with mixed faults", "", &(table(&heads(&columns), rows) + &violated))
}

fn names(names: &ManyNames) -> String {
    let faults = names
        .faults
        .iter()
        .map(|(fault, times)| format!("{} × {}", number(*times), escaped(fault)));
    let faults = faults.collect::<Vec<_>>().join(", ");
    let faults = if faults.is_empty() { "no faults".to_owned() } else { faults };
    let left = &names.left;
    let done = format!(
        "{} names were locked and released in {:.0} s on {}, {} of them wanted by two clients at once, \
         under {faults} (seed {}).",
        number(names.names),
        names.seconds,
        escaped(&names.server),
        number(names.contended),
        names.seed
    );
    let rest = format!(
        "After the end: {} in the internal tables, {} at the server, {} beside the {} of fenced locks, \
         which must stay. Violations: {}.",
        entries(names.at_rest.entries()),
        count_of(left.channels + left.patterns, "subscription"),
        count_of(left.others_total, "key"),
        count_of(left.fence_counters, "counter"),
        verdict(names.violations.len())
    );
    let picture = "![Memory over the number of names](names.svg)";
    let shown = [markdown::list(&names.violations), picture.to_owned()];
    section("Many names", &format!("{done} {rest}"), shown.join("\n").trim_start())
}

fn entries(of: u64) -> String {
    if of == 1 { "1 entry".to_owned() } else { format!("{} entries", number(of)) }
}

fn count_of(of: u64, one: &str) -> String {
    count(usize::try_from(of).expect("it fits"), one)
}

fn fuzz(fuzz: &Fuzz) -> String {
    let columns =
        ["what was fed", "inputs", "time", "panics", "hangs", "most memory for one input"];
    let rows = fuzz.targets.iter().map(|target| {
        vec![
            escaped(&target.name),
            number(target.inputs),
            format!("{:.0} s", target.seconds),
            number(target.panics),
            number(target.hangs),
            format!("{} KiB", number(target.peak_bytes.div_ceil(1024))),
        ]
    });
    let inputs = number(fuzz.targets.iter().map(|target| target.inputs).sum());
    let table = table(&heads(&columns), rows);
    let (engine, seed) = (escaped(&fuzz.engine), fuzz.seed);
    format!("## Bad input\n\n{inputs} inputs for the parsers ({engine}, seed {seed}).\n\n{table}")
}

fn again(facts: &Facts) -> String {
    let Facts { date, commit, seed, seconds, machine, servers, .. } = facts;
    let servers =
        servers.iter().map(|(server, what)| format!("{}: {}", escaped(server), escaped(what)));
    let rows = [
        ("date", escaped(date)),
        ("commit", markdown::code(commit)),
        ("seed", seed.to_string()),
        ("length of everything", duration(seconds * 1000)),
        (
            "machine",
            format!(
                "{}, {} MiB, Linux {}",
                count(machine.cores, "core"),
                number(machine.memory_mib),
                escaped(&machine.kernel)
            ),
        ),
        ("servers", servers.collect::<Vec<_>>().join("<br>")),
    ];
    let rows = rows.map(|(what, value)| vec![what.to_owned(), value]);
    let command = format!("```sh\n{}\n```", facts.command.replace("```", "'''"));
    let about = format!(
        "{command}\n\nThe schedule of the faults comes from the seed. What the threads of the machine make of it \
         differs from run to run. [results.json](results.json) has every number of these pages, for programs."
    );
    let left_out = markdown::list(&facts.left_out);
    section("Run it again", &about, &table(&heads(&["", ""]), rows))
        + &section("What did not run, and why", "", &left_out)
}

/// What names mean, as far as it is said.
pub(super) fn meanings<'a>(
    head: &str,
    meanings: &BTreeMap<String, String>,
    names: impl Iterator<Item = &'a str>,
) -> String {
    let rows = in_order(names)
        .into_iter()
        .filter_map(|name| meanings.get(name).map(|meaning| vec![escaped(name), escaped(meaning)]));
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let column = head.trim_end_matches('s').to_lowercase();
    format!("## {head}\n\n{}", table(&heads(&[&column, "what is done"]), rows))
}

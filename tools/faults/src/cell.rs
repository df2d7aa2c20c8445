//! What a run has shown, for each workload: what the checker says, and what only the program knows.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use crate::check::{self, Rules};
use crate::elections;
use crate::fault::{self, Fault};
use crate::habit::LARGE;
use crate::history::{self, Event, What};
use crate::peers::Peer;
use crate::report::{self, timeline};
use crate::result::Cell;
use crate::run::{Ran, RunArguments};
use crate::workload::{PERMITS, Workload};

/// What the library is set to, and what it adds for a busy machine.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_millis(500);
/// Within this a waiter hears of a release.
const WOKEN: Duration = Duration::from_millis(250);
/// While it holds one of several locks, a waiter waits for the next one for a second, more or less.
const RIVALRY: Duration = Duration::from_millis(1500);
/// A client learns of a failover.
const LEARNS: Duration = Duration::from_secs(2);
/// After a failover nobody waits for a lease to end, only for a holder: what nobody has is released again.
const AFTER_FAILOVER: Duration = Duration::from_secs(10);

/// What is promised: by our documentation, or by that of a peer.
pub(crate) fn rules(arguments: &RunArguments, history: &[Event]) -> Rules {
    let ours = ours(arguments);
    let Some(peer) = Peer::named(&arguments.library) else {
        return ours;
    };
    let errors = history.iter().filter_map(|event| match &event.what {
        What::Refused { error, .. } | What::Released { error: Some(error) } => Some(error.clone()),
        _ => None,
    });
    Rules {
        // None promises when a waiter is served, and several call a server that is away a time-out.
        idle: Duration::MAX,
        // No documentation has a list of them.
        documented_errors: errors.collect(),
        knows_deadlines: peer.knows_deadlines,
        keeps_deadlines: false,
        told_within: arguments.lease() / 3 + COMMAND_TIMEOUT + LATE,
        tells_losses: peer.tells_losses,
        fair: BTreeSet::new(),
        ..ours
    }
}

fn ours(arguments: &RunArguments) -> Rules {
    let lease = arguments.lease();
    let forgets = fault::all().filter(|fault| fault.forgets_on(arguments.deployment));
    let (emptying, replacing): (Vec<_>, Vec<_>) = forgets.partition(|fault| fault.empties);
    let name = |fault: &Fault| fault.name.to_owned();
    let elections = [elections::NAME.to_owned()];
    let documented = ["Unavailable", "Unknown", "NotDurable", "Lost", "Quorum"];
    let refused = takes_rights(arguments).then_some("Protocol");
    let is_failover = arguments.fault.starts_with("failover");
    // A third of a lease until the next renewal, whose answer may be lost once.
    let by_renewal = lease / 3 + COMMAND_TIMEOUT + LATE;
    // The dead are waited for for a lease, and a failover takes some seconds.
    let after_the_dead = 2 * lease + Duration::from_secs(4);
    let is_role = |fault: &Fault| fault.replaces() && fault.on.contains(&arguments.deployment);
    // What was released comes back with the data of before, until its lease ends.
    let until_gone = if may_have(arguments, "old-data") {
        lease * LARGE
    } else {
        lease
    };
    let changes_roles = match fault::named(&arguments.fault) {
        Some(fault) => is_role(fault),
        None => arguments.fault == "mixed" && fault::all().any(is_role),
    };
    Rules {
        lease,
        permits: PERMITS as usize,
        fair: BTreeSet::from([Workload::Fair.name()]),
        lasting: BTreeSet::from([Workload::Semaphore.name()]),
        may_wedge: if may_have(arguments, "eviction") {
            [Workload::Permits, Workload::Semaphore]
                .map(Workload::name)
                .into()
        } else {
            BTreeSet::new()
        },
        replaced_by: replacing.into_iter().map(name).chain(elections).collect(),
        emptied_by: emptying.into_iter().map(name).collect(),
        // After a failover holds are verified as soon as it is known.
        told_within: if is_failover {
            by_renewal.min(LEARNS + COMMAND_TIMEOUT + LATE)
        } else {
            by_renewal
        },
        idle: WOKEN + LATE,
        rivalry: RIVALRY,
        recovers_within: if is_failover {
            after_the_dead.min(AFTER_FAILOVER)
        } else {
            after_the_dead + until_gone.saturating_sub(lease)
        },
        // Connections are made again, and what was in doubt is given back.
        calm_after: if changes_roles {
            lease + LEARNS + COMMAND_TIMEOUT + LATE
        } else {
            until_gone + COMMAND_TIMEOUT + LATE
        },
        documented_errors: documented
            .into_iter()
            .chain(refused)
            .map(str::to_owned)
            .collect(),
        knows_deadlines: true,
        keeps_deadlines: true,
        tells_losses: true,
    }
}

/// One for each workload that ran.
pub(crate) fn all(arguments: &RunArguments, seed: u64, ran: &Ran, rules: &Rules) -> Vec<Cell> {
    let mut cells = check::check(&ran.history, rules);
    let kept = kept(arguments, &ran.history);
    for cell in &mut cells {
        cell.library.clone_from(&arguments.library);
        cell.version =
            Peer::named(&cell.library).map_or_else(|| version(&ran.history), Peer::version);
        cell.fault.clone_from(&arguments.fault);
        cell.deployment = arguments.deployment.name();
        cell.server.clone_from(&ran.server);
        cell.seed = seed;
        cell.seconds = arguments.seconds;
        if fault::named(&cell.fault).is_some_and(Fault::changes_masters) {
            // Whoever serves in the end does so before the servers agree again.
            cell.recovery_ms = vec![cell.outage_ms];
        }
        let is_ours = |key: &&String| key.contains(&format!("{}:", cell.workload));
        cell.keys_left = ran.keys.iter().filter(is_ours).cloned().collect();
        // Others leave keys that end later, and promise nothing else.
        if cell.is_ours() && !cell.keys_left.is_empty() {
            cell.violations.push(format!(
                "left at the end, after the largest lease: {}",
                cell.keys_left.join(", ")
            ));
        }
        // They are of no workload: each cell says so.
        cell.violations
            .extend(ran.wrong.iter().chain(&kept).cloned());
        if cell.operations == 0 {
            cell.violations
                .push("nothing was granted at all".to_owned());
        }
    }
    cells
}

/// Of each process that could not give back all it had when it ended. Where rights are missing it says so rightly.
fn kept(arguments: &RunArguments, history: &[Event]) -> Vec<String> {
    let kept = history.iter().filter_map(|event| match &event.what {
        What::Ended {
            error: Some(error), ..
        } => Some(format!(
            "process {} ended with what it had: {error}",
            event.process
        )),
        _ => None,
    });
    if takes_rights(arguments) {
        Vec::new()
    } else {
        kept.collect()
    }
}

/// Only where rights or types are taken away may a server refuse: no caller may repeat it.
fn takes_rights(arguments: &RunArguments) -> bool {
    may_have(arguments, "acl")
}

/// Whether this fault may be on in the run.
fn may_have(arguments: &RunArguments, name: &str) -> bool {
    let is_here = |fault: &Fault| fault.on.contains(&arguments.deployment);
    let is_mixed = arguments.fault == "mixed" && fault::named(name).is_some_and(is_here);
    arguments.fault == name || is_mixed
}

fn version(history: &[Event]) -> String {
    let started = history.iter().find_map(|event| match &event.what {
        What::Started { library, .. } => Some(library.clone()),
        _ => None,
    });
    let text = started.unwrap_or_default();
    text.rsplit_once(' ')
        .map_or(text.clone(), |(_, version)| version.to_owned())
}

fn is_of(event: &Event, workload: &str) -> bool {
    event
        .name
        .split_once(':')
        .is_some_and(|(of, _)| of == workload)
}

/// Of a run, in its folder.
pub(crate) const CELLS: &str = "cells.json";

/// Results and pictures.
pub(crate) fn write(cells: &[Cell], ran: &Ran, out: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", out.display());
    let json = serde_json::to_vec_pretty(cells).map_err(|error| error.to_string())?;
    fs::write(out.join(CELLS), json).map_err(told)?;
    let window = timeline::window(&ran.history);
    for cell in cells {
        let is_shown = |event: &&Event| event.name.is_empty() || is_of(event, &cell.workload);
        let shown: Vec<_> = ran.history.iter().filter(is_shown).cloned().collect();
        let file = out.join(report::picture_of(cell));
        fs::create_dir_all(file.parent().expect("a folder")).map_err(told)?;
        fs::write(file, timeline::draw(&shown, cell, window.clone())).map_err(told)?;
    }
    Ok(())
}

/// Beside the results of the same run.
pub(crate) fn write_history(ran: &Ran, seed: u64, out: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", out.display());
    let mut file =
        BufWriter::new(fs::File::create(out.join(format!("history-{seed}.jsonl"))).map_err(told)?);
    ran.history
        .iter()
        .try_for_each(|event| history::write(&mut file, event))
        .map_err(told)
}

//! Makes the cells of a run: the checker's results, completed with what only the program knows.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use crate::check::{self, Rules};
use crate::elections;
use crate::fault::{self, Fault, Needs};
use crate::history::{self, Event, Line, What};
use crate::peers::Peer;
use crate::plan::LARGE;
use crate::report::{self, timeline};
use crate::result::{CELLS, Cell};
use crate::run::{Ran, RunArguments};
use crate::steps;
use crate::workload::{PERMITS, Workload};

/// The command timeout of the clients.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
/// Tolerance for scheduling delays on a busy machine.
const SCHEDULING_DELAY: Duration = Duration::from_millis(500);
/// A waiter is woken within this time of a release.
const WAKE_UP: Duration = Duration::from_millis(250);
/// A waiter that already holds one lock of a multi lock waits about a second for the next one.
const RIVALRY: Duration = Duration::from_millis(1500);
/// A client learns of a failover within this time.
const FAILOVER_DETECTION: Duration = Duration::from_secs(2);
/// A lock with waiters is granted again within this time of a failover. The waiter need not wait
/// for a lease to expire, because clients release the locks whose grant they could not confirm.
const AFTER_FAILOVER: Duration = Duration::from_secs(10);

/// The promises of the library's documentation, as rules for the checker.
pub(crate) fn rules(arguments: &RunArguments, history: &[Event]) -> Rules {
    let our_rules = our_rules(arguments);
    let Some(peer) = Peer::named(&arguments.library) else {
        return our_rules;
    };
    let errors = history.iter().filter_map(|event| match &event.what {
        What::Refused { error, .. } | What::Released { error: Some(error) } => Some(error.clone()),
        _ => None,
    });
    Rules {
        // No peer promises when a waiter is served, and several report an unreachable server as a
        // timeout.
        idle: Duration::MAX,
        // No peer documents its errors, so every error that occurred is allowed.
        documented_errors: errors.collect(),
        knows_deadlines: peer.knows_deadlines,
        keeps_deadlines: false,
        notice_within: arguments.lease() / 3 + COMMAND_TIMEOUT + SCHEDULING_DELAY,
        tells_losses: peer.tells_losses,
        fair: BTreeSet::new(),
        ..our_rules
    }
}

fn our_rules(arguments: &RunArguments) -> Rules {
    let lease = arguments.lease();
    let forgets = fault::all().filter(|fault| fault.forgets_on(arguments.deployment));
    let (emptying, replacing): (Vec<_>, Vec<_>) = forgets.partition(|fault| fault.empties);
    let name = |fault: &Fault| fault.name.to_owned();
    let elections = [elections::NAME.to_owned()];
    let documented = ["Unavailable", "Unknown", "NotDurable", "Lost", "Quorum"];
    let refusal = revokes_permissions(arguments).then_some("Protocol");
    let forgetting = fault::all().filter(|fault| fault.forgets_on(arguments.deployment));
    let mut forgetting = forgetting.map(|fault| fault.name).chain(["eviction"]);
    // The number of permits is gone with the data.
    let no_permits = forgetting
        .any(|name| may_inject(arguments, name))
        .then_some("NoPermits");
    let is_failover = arguments.fault.starts_with("failover");
    // The next renewal is due after at most a third of a lease, and its reply may be lost once.
    let by_renewal = lease / 3 + COMMAND_TIMEOUT + SCHEDULING_DELAY;
    // A dead holder keeps the lock until its lease expires, and a failover takes some seconds.
    let after_a_dead_holder = 2 * lease + Duration::from_secs(4);
    let is_role = |fault: &Fault| fault.replaces() && fault.on.contains(&arguments.deployment);
    // Old data brings back locks that were released since. They stay held until their lease
    // expires, and some leases are large.
    let until_old_data_expires = if may_inject(arguments, "old-data") {
        lease * LARGE
    } else {
        lease
    };
    let changes_roles = match fault::named(&arguments.fault) {
        Some(fault) => is_role(fault),
        None => arguments.fault == "mixed" && fault::all().any(is_role),
    };
    // Clients take nothing from a server that has just become the primary.
    let changes_server =
        |fault: &Fault| fault.forgets_on(arguments.deployment) || fault.needs == Needs::Disk;
    let grace =
        if fault::all().any(|fault| changes_server(fault) && may_inject(arguments, fault.name)) {
            arguments.grace()
        } else {
            Duration::ZERO
        };
    Rules {
        lease,
        permits: PERMITS as usize,
        fair: BTreeSet::from([Workload::Fair.name()]),
        lasting: BTreeSet::from([Workload::Semaphore.name()]),
        may_wedge: if may_inject(arguments, "eviction") {
            [Workload::Permits, Workload::Semaphore]
                .map(Workload::name)
                .into()
        } else {
            BTreeSet::new()
        },
        replaced_by: replacing.into_iter().map(name).chain(elections).collect(),
        emptied_by: emptying.into_iter().map(name).collect(),
        // A client verifies its holds as soon as it learns of a failover.
        notice_within: if is_failover {
            by_renewal.min(FAILOVER_DETECTION + COMMAND_TIMEOUT + SCHEDULING_DELAY)
        } else {
            by_renewal
        },
        idle: WAKE_UP + SCHEDULING_DELAY,
        rivalry: RIVALRY,
        recovers_within: grace
            + if is_failover {
                after_a_dead_holder.min(AFTER_FAILOVER)
            } else {
                after_a_dead_holder + until_old_data_expires.saturating_sub(lease)
            },
        // By then clients have reconnected and released the holds that were in doubt.
        calm_after: grace
            + if changes_roles {
                lease + FAILOVER_DETECTION + COMMAND_TIMEOUT + SCHEDULING_DELAY
            } else {
                until_old_data_expires + COMMAND_TIMEOUT + SCHEDULING_DELAY
            },
        documented_errors: documented
            .into_iter()
            .chain(refusal)
            .chain(no_permits)
            .map(str::to_owned)
            .collect(),
        knows_deadlines: true,
        keeps_deadlines: true,
        tells_losses: true,
    }
}

/// One cell for each workload that ran.
pub(crate) fn all(arguments: &RunArguments, seed: u64, ran: &Ran, rules: &Rules) -> Vec<Cell> {
    let mut cells = check::check(&ran.history, &ran.steps, rules);
    let failed_shutdowns = failed_shutdowns(arguments, &ran.history);
    for cell in &mut cells {
        cell.library.clone_from(&arguments.library);
        cell.version =
            Peer::named(&cell.library).map_or_else(|| version(&ran.history), Peer::version);
        cell.fault.clone_from(&arguments.fault);
        cell.deployment = arguments.deployment.name();
        cell.server.clone_from(&ran.server);
        cell.seed = seed;
        cell.seconds = arguments.seconds;
        let forgetting = check::forgetting(&ran.history, rules);
        steps::check(&ran.steps, &forgetting, cell);
        if fault::named(&cell.fault).is_some_and(Fault::changes_masters) {
            // The new master serves clients before all servers agree again and the fault counts as
            // ended. So the outage is reported instead of the time after the fault.
            cell.recovery_ms = vec![cell.outage_ms];
        }
        let is_ours = |key: &&String| key.contains(&format!("{}:", cell.workload));
        cell.keys_left = ran.keys.iter().filter(is_ours).cloned().collect();
        // Other libraries may leave keys that expire later: they do not promise otherwise.
        if cell.is_ours() && !cell.keys_left.is_empty() {
            cell.violations.push(format!(
                "keys left after the largest lease had expired: {}",
                cell.keys_left.join(", ")
            ));
        }
        // Failures of processes belong to no workload, so every cell lists them.
        cell.violations
            .extend(ran.wrong.iter().chain(&failed_shutdowns).cloned());
        if cell.operations == 0 {
            cell.violations.push("no lock was granted".to_owned());
        }
    }
    cells
}

/// A sentence for each process that could not release everything when it shut down. That is allowed
/// where permissions are revoked.
fn failed_shutdowns(arguments: &RunArguments, history: &[Event]) -> Vec<String> {
    let failed_shutdowns = history.iter().filter_map(|event| match &event.what {
        What::Ended {
            error: Some(error), ..
        } => Some(format!(
            "process {} did not release everything at shutdown: {error}",
            event.process
        )),
        _ => None,
    });
    if revokes_permissions(arguments) {
        Vec::new()
    } else {
        failed_shutdowns.collect()
    }
}

/// Whether the run may revoke permissions. Only then may a server refuse commands, so only then is
/// `Protocol` a documented error.
fn revokes_permissions(arguments: &RunArguments) -> bool {
    may_inject(arguments, "acl")
}

/// Whether the run may inject this fault.
fn may_inject(arguments: &RunArguments, name: &str) -> bool {
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

fn belongs_to(event: &Event, workload: &str) -> bool {
    event
        .name
        .split_once(':')
        .is_some_and(|(of, _)| of == workload)
}

/// Writes the cells, and a timeline for each.
pub(crate) fn write(cells: &[Cell], ran: &Ran, out: &Path) -> Result<(), String> {
    let with_path = |error: std::io::Error| format!("{}: {error}", out.display());
    let json = serde_json::to_vec_pretty(cells).map_err(|error| error.to_string())?;
    fs::write(out.join(CELLS), json).map_err(with_path)?;
    let window = timeline::window(&ran.history);
    for cell in cells {
        let belongs_here =
            |event: &&Event| event.name.is_empty() || belongs_to(event, &cell.workload);
        let events: Vec<_> = ran.history.iter().filter(belongs_here).cloned().collect();
        let file = out.join(report::timeline_file(cell));
        fs::create_dir_all(file.parent().expect("a folder")).map_err(with_path)?;
        fs::write(file, timeline::draw(&events, cell, window.clone())).map_err(with_path)?;
    }
    Ok(())
}

/// Writes the history of the run next to its cells.
pub(crate) fn write_history(ran: &Ran, seed: u64, out: &Path) -> Result<(), String> {
    let with_path = |error: std::io::Error| format!("{}: {error}", out.display());
    let mut file = BufWriter::new(
        fs::File::create(out.join(format!("history-{seed}.jsonl"))).map_err(with_path)?,
    );
    for event in &ran.history {
        history::write(&mut file, event).map_err(with_path)?;
    }
    for step in &ran.steps {
        let step = step.clone();
        history::write(&mut file, &Line::Step { step }).map_err(with_path)?;
    }
    Ok(())
}

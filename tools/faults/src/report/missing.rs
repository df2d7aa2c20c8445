//! What a report lacks that was planned, and what was not planned and why.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum as _;
use serde::Deserialize;

use crate::fault::{self, Needs};
use crate::matrix::NEXT_SEED;
use crate::peers::Peer;
use crate::report::facts::{Facts, Fuzz};
use crate::report::{OURS, Report, deployment_name, name_of};
use crate::result::Cell;
use crate::world::Kind;

/// What the script wrote down at its beginning; lists have commas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Plan {
    pub(crate) commit: String,
    pub(crate) clean: bool,
    /// Seconds since 1970.
    pub(crate) began: u64,
    /// Of each cell.
    pub(crate) seeds: usize,
    pub(crate) peer_seeds: usize,
    pub(crate) peers: String,
    /// `DEPLOYMENT:FAULT,FAULT`, with spaces between deployments.
    pub(crate) peer_runs: String,
    /// What the fuzzer feeds.
    pub(crate) fuzz: String,
}

/// The repository at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Now {
    pub(crate) commit: String,
    /// But for the report.
    pub(crate) is_clean: bool,
}

/// Whether a machine can have it.
type Possible = fn(Needs) -> bool;

type Seeds<'a> = BTreeMap<(&'a str, &'a str, &'a str), BTreeSet<u64>>;

/// A phrase for each thing without which the report is incomplete.
pub(crate) fn missing(
    plan: Option<&Plan>,
    now: &Now,
    report: &Report,
    is_possible: Possible,
) -> Vec<String> {
    let mut missing = origin(plan, now);
    let plan = plan.cloned().unwrap_or(Plan {
        seeds: 1,
        ..Plan::default()
    });
    missing.extend(of_matrix(&plan, &report.matrix, is_possible));
    missing.extend(of_peers(&plan, &report.compared, is_possible));
    let Facts {
        long,
        names,
        fuzz,
        power,
        ..
    } = &report.facts;
    for kind in Kind::value_variants().iter().map(|kind| kind.name()) {
        if !long.iter().any(|cell| cell.deployment == kind) {
            missing.push(format!("the long run on {}", deployment_name(&kind)));
        }
    }
    missing.extend(names.is_none().then(|| "the run of many names".to_owned()));
    missing.extend(of_fuzz(&plan, fuzz.as_ref()));
    missing.extend(power.is_none().then(|| "what the run can find".to_owned()));
    missing
}

fn origin(plan: Option<&Plan>, now: &Now) -> Vec<String> {
    let Some(plan) = plan else {
        return vec!["a note of the commit at the beginning".to_owned()];
    };
    let mut missing = Vec::new();
    if plan.commit != now.commit {
        missing.push(format!(
            "one commit for all: it was {} at the beginning, and is {}",
            plan.commit, now.commit
        ));
    }
    for (is_clean, when) in [(plan.clean, "beginning"), (now.is_clean, "end")] {
        missing.extend((!is_clean).then(|| format!("a clean work tree at the {when}")));
    }
    missing
}

fn of_matrix(plan: &Plan, cells: &[Cell], is_possible: Possible) -> Vec<String> {
    let seeds = seeds(cells);
    let mut missing = Vec::new();
    let mut possible = Vec::new();
    for fault in fault::all() {
        possible.extend(is_possible(fault.needs).then_some(fault));
    }
    for kind in Kind::value_variants() {
        for fault in possible.iter().filter(|fault| fault.on.contains(kind)) {
            missing.extend(lacks(&seeds, (OURS, *kind, fault.name), plan.seeds));
        }
    }
    missing
}

fn of_peers(plan: &Plan, cells: &[Cell], is_possible: Possible) -> Vec<String> {
    if plan.peer_seeds == 0 {
        return vec!["the comparison with other libraries".to_owned()];
    }
    let seeds = seeds(cells);
    let mut missing = Vec::new();
    for runs in plan.peer_runs.split_whitespace() {
        let (name, faults) = runs.split_once(':').unwrap_or((runs, ""));
        let Ok(kind) = Kind::from_str(name, false) else {
            missing.push(format!("the deployment {name}, which is not known"));
            continue;
        };
        let here = |fault: &fault::Fault| fault.on.contains(&kind) && is_possible(fault.needs);
        let is_at_home =
            |library: &&str| Peer::named(library).is_none_or(|peer| peer.places.contains(&kind));
        for library in plan.peers.split(',').filter(is_at_home) {
            for fault in faults.split(',') {
                if fault::named(fault).is_some_and(here) {
                    missing.extend(lacks(&seeds, (library, kind, fault), plan.peer_seeds));
                }
            }
        }
    }
    missing
}

fn seeds(cells: &[Cell]) -> Seeds<'_> {
    let mut seeds = Seeds::new();
    for cell in cells {
        let key = (
            cell.library.as_str(),
            cell.deployment.as_str(),
            cell.fault.as_str(),
        );
        // One that was tried again counts as the seed that it began with.
        let planned = cell.seed.saturating_sub(cell.again * NEXT_SEED);
        seeds.entry(key).or_default().insert(planned);
    }
    seeds
}

fn lacks(seeds: &Seeds<'_>, run: (&str, Kind, &str), planned: usize) -> Option<String> {
    let (library, kind, fault) = run;
    let there = seeds
        .get(&(library, kind.name().as_str(), fault))
        .map_or(0, BTreeSet::len);
    (there < planned).then(|| {
        let deployment = deployment_name(&kind.name());
        format!("{library} under {fault}, {deployment}: {there} of {planned} seeds")
    })
}

fn of_fuzz(plan: &Plan, fuzz: Option<&Fuzz>) -> Vec<String> {
    let Some(fuzz) = fuzz else {
        return vec!["bad input".to_owned()];
    };
    let planned = plan.fuzz.split(',').filter(|name| !name.is_empty());
    let fed = |name: &&str| fuzz.targets.iter().any(|target| target.name == *name);
    planned
        .filter(|name| !fed(name))
        .map(|name| format!("bad input: {name}"))
        .collect()
}

/// What was not planned, or shows nothing; a sentence for each.
pub(crate) fn left_out(
    report: &Report,
    without_result: &[String],
    is_possible: Possible,
) -> Vec<String> {
    let mut left_out = Vec::new();
    for fault in fault::all().filter(|fault| !is_possible(fault.needs)) {
        left_out.push(format!(
            "{}: not possible on this machine ({:?}).",
            fault.name, fault.needs
        ));
    }
    left_out.extend(
        without_result
            .iter()
            .map(|run| format!("{run}: the run left no result.")),
    );
    let parts = &report.facts.origin.parts;
    // What failed may have been done again.
    let is_done = |name: &str| parts.iter().any(|part| part.name == name && part.code < 2);
    for part in parts.iter().filter(|part| !is_done(&part.name)) {
        left_out.push(format!("{} ended with exit code {}.", part.name, part.code));
    }
    left_out.extend(met_nobody(&report.matrix));
    left_out.extend(met_nobody(&report.compared));
    left_out
}

/// Cells of which no seed met a holder.
fn met_nobody(cells: &[Cell]) -> Vec<String> {
    let mut met: BTreeMap<String, bool> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.fault != "none") {
        let came = cell.met.injections > 0;
        *met.entry(name_of(cell)).or_default() |= came && cell.is_a_result();
    }
    let nobody = met.into_iter().filter(|(_, met)| !met);
    nobody
        .map(|(name, _)| {
            format!("{name}: no injection met a holder, so it shows nothing of losses.")
        })
        .collect()
}

//! Lists the planned parts that a report lacks, and what was left out and why.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum as _;
use serde::Deserialize;

use crate::fault::{self, Needs};
use crate::matrix::NEXT_SEED;
use crate::peers::Peer;
use crate::report::facts::{Facts, Fuzz};
use crate::report::{OURS, Report, cell_name, deployment_name};
use crate::result::Cell;
use crate::world::Kind;

/// The plan that `tools/faults/publish` writes when it starts. Lists are separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Plan {
    pub(crate) commit: String,
    pub(crate) clean: bool,
    /// Seconds since 1970.
    pub(crate) began: u64,
    /// Number of seeds for each cell of the matrix.
    pub(crate) seeds: usize,
    /// Number of seeds for each cell of the comparison.
    pub(crate) peer_seeds: usize,
    /// The libraries of the comparison.
    pub(crate) peers: String,
    /// The faults of the comparison: `DEPLOYMENT:FAULT,FAULT`, with spaces between deployments.
    pub(crate) peer_runs: String,
    /// The targets of the fuzzer.
    pub(crate) fuzz: String,
}

/// The state of the repository when the report is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repository {
    pub(crate) commit: String,
    /// Whether nothing but the report has changed.
    pub(crate) is_clean: bool,
}

/// Whether this machine can inject a fault with these needs.
type IsPossible = fn(Needs) -> bool;

/// The seeds that ran, for each library, deployment and fault.
type Seeds<'a> = BTreeMap<(&'a str, &'a str, &'a str), BTreeSet<u64>>;

/// The parts that the report lacks to be complete, a phrase for each.
pub(crate) fn missing(
    plan: Option<&Plan>,
    repository: &Repository,
    report: &Report,
    is_possible: IsPossible,
) -> Vec<String> {
    let mut missing = origin(plan, repository);
    let plan = plan.cloned().unwrap_or(Plan {
        seeds: 1,
        ..Plan::default()
    });
    missing.extend(missing_from_matrix(&plan, &report.matrix, is_possible));
    missing.extend(missing_from_comparison(
        &plan,
        &report.compared,
        is_possible,
    ));
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
    missing.extend(missing_fuzz_targets(&plan, fuzz.as_ref()));
    missing.extend(
        power
            .is_none()
            .then(|| "the bugs that the run detects".to_owned()),
    );
    missing
}

fn origin(plan: Option<&Plan>, repository: &Repository) -> Vec<String> {
    let Some(plan) = plan else {
        return vec!["a record of the commit at the beginning".to_owned()];
    };
    let mut missing = Vec::new();
    if plan.commit != repository.commit {
        missing.push(format!(
            "one commit for all: it was {} at the beginning, and is {}",
            plan.commit, repository.commit
        ));
    }
    for (is_clean, when) in [(plan.clean, "beginning"), (repository.is_clean, "end")] {
        missing.extend((!is_clean).then(|| format!("a clean work tree at the {when}")));
    }
    missing
}

fn missing_from_matrix(plan: &Plan, cells: &[Cell], is_possible: IsPossible) -> Vec<String> {
    let seeds = seeds(cells);
    let mut missing = Vec::new();
    let mut possible = Vec::new();
    for fault in fault::all() {
        possible.extend(is_possible(fault.needs).then_some(fault));
    }
    for kind in Kind::value_variants() {
        for fault in possible.iter().filter(|fault| fault.on.contains(kind)) {
            missing.extend(missing_seeds(&seeds, (OURS, *kind, fault.name), plan.seeds));
        }
    }
    missing
}

fn missing_from_comparison(plan: &Plan, cells: &[Cell], is_possible: IsPossible) -> Vec<String> {
    if plan.peer_seeds == 0 {
        return vec!["the comparison with other libraries".to_owned()];
    }
    let seeds = seeds(cells);
    let mut missing = Vec::new();
    for runs in plan.peer_runs.split_whitespace() {
        let (name, faults) = runs.split_once(':').unwrap_or((runs, ""));
        let Ok(kind) = Kind::from_str(name, false) else {
            missing.push(format!("the unknown deployment {name}"));
            continue;
        };
        let here = |fault: &fault::Fault| fault.on.contains(&kind) && is_possible(fault.needs);
        let supports_kind =
            |library: &&str| Peer::named(library).is_none_or(|peer| peer.places.contains(&kind));
        for library in plan.peers.split(',').filter(supports_kind) {
            for fault in faults.split(',') {
                if fault::named(fault).is_some_and(here) {
                    missing.extend(missing_seeds(
                        &seeds,
                        (library, kind, fault),
                        plan.peer_seeds,
                    ));
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
        // A repeated cell counts for the seed of its first attempt.
        let planned = cell.seed.saturating_sub(cell.again * NEXT_SEED);
        seeds.entry(key).or_default().insert(planned);
    }
    seeds
}

fn missing_seeds(seeds: &Seeds<'_>, run: (&str, Kind, &str), planned: usize) -> Option<String> {
    let (library, kind, fault) = run;
    let found = seeds
        .get(&(library, kind.name().as_str(), fault))
        .map_or(0, BTreeSet::len);
    (found < planned).then(|| {
        let deployment = deployment_name(&kind.name());
        format!("{library} under {fault}, {deployment}: {found} of {planned} seeds")
    })
}

fn missing_fuzz_targets(plan: &Plan, fuzz: Option<&Fuzz>) -> Vec<String> {
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

/// What did not run, or has no useful result, and why. One sentence each.
pub(crate) fn left_out(
    report: &Report,
    without_result: &[String],
    is_possible: IsPossible,
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
    // A part that failed may have been repeated with success. Exit code 1 means violations, so it
    // counts as success here.
    let is_done = |name: &str| parts.iter().any(|part| part.name == name && part.code < 2);
    for part in parts.iter().filter(|part| !is_done(&part.name)) {
        left_out.push(format!("{} ended with exit code {}.", part.name, part.code));
    }
    left_out.extend(cells_without_a_holder(&report.matrix));
    left_out.extend(cells_without_a_holder(&report.compared));
    left_out
}

/// The cells whose fault met no holder with any seed.
fn cells_without_a_holder(cells: &[Cell]) -> Vec<String> {
    let mut met: BTreeMap<String, bool> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.fault != "none") {
        let was_injected = cell.met.injections > 0;
        *met.entry(cell_name(cell)).or_default() |= was_injected && cell.is_a_result();
    }
    let without_a_holder = met.into_iter().filter(|(_, met)| !met);
    without_a_holder
        .map(|(name, _)| {
            format!("{name}: no injection met a holder, so it says nothing about losses.")
        })
        .collect()
}

//! Tries faults. The test of each fault must fail with the fault and pass without it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Result;
use crate::copy::Copy;
use crate::patch::{Judged, Patch, Place, Test};
use crate::run::Outcome;

/// The result of trying a fault.
pub(crate) enum Verdict {
    /// The test failed with this message.
    Found(String),
    Missed,
    /// The trial itself failed, so it shows nothing about the test. The reason.
    Spoiled(String),
}

impl Verdict {
    pub(crate) fn words(self, fault: &str) -> (&'static str, String) {
        match self {
            Verdict::Found(what) => ("found", what),
            Verdict::Missed => ("MISSED", fault.to_owned()),
            Verdict::Spoiled(why) => ("SPOILED", why),
        }
    }
}

/// Two hundred worlds, without optimisation, beside other programs.
const LIMIT_OF_WORLDS: Duration = Duration::from_secs(600);
/// The test of the simulation in which the specification judges alone.
const WORLDS: &str = "the_specification_allows_what_clients_did";
/// With this variable, a conformance test fails only if the specification does not allow what its
/// clients did.
const ALONE: &str = "LEASEHOLD_BY_SPECIFICATION";

/// Tries the faults that have a `step`: the specification alone must find each, and say that.
pub(crate) fn by_specification(root: &Path, patches: &[Patch], names: &[&str]) -> Result<bool> {
    let is_meant = |patch: &&Patch| {
        patch.step.is_some() && (names.is_empty() || names.contains(&patch.name.as_str()))
    };
    let judged: Vec<_> = patches.iter().filter(is_meant).map(judged).collect();
    if judged.is_empty() {
        return Err("no such fault has a step".into());
    }
    let is_said = |patch: &Patch, what: &str| {
        let step = patch.step.as_ref();
        step.is_none_or(|step| what.contains(&step.says))
    };
    try_all(root, &judged.iter().collect::<Vec<_>>(), is_said)
}

/// The fault, to be found by the specification alone.
fn judged(patch: &Patch) -> Patch {
    let mut judged = patch.clone();
    judged.test.env = vec![(ALONE.into(), "1".into())];
    match patch.step.as_ref().map(|step| &step.judged) {
        None | Some(Judged::Own) => {}
        Some(Judged::Test(name)) => {
            judged.test.place = Place::Tests("conformance".into());
            judged.test.name.clone_from(name);
        }
        Some(Judged::Worlds) => {
            judged.test.place = Place::Tests("simulation".into());
            judged.test.name = WORLDS.into();
            judged.limit = LIMIT_OF_WORLDS;
        }
    }
    judged.hangs = false;
    judged
}

/// Tries all faults. True if each was found.
pub(crate) fn run(root: &Path, patches: &[&Patch]) -> Result<bool> {
    try_all(root, patches, |_, _| true)
}

/// Tries all faults. `is_right` says whether the message of the test is the one that is expected.
fn try_all(
    root: &Path,
    patches: &[&Patch],
    is_right: impl Fn(&Patch, &str) -> bool,
) -> Result<bool> {
    let start = Instant::now();
    let copy = Copy::make(root)?;
    let unfit = without_faults(&copy, patches)?;
    let mut wrong = Vec::new();
    // Faults with tests in the same place follow each other, so that common parts are built once.
    let mut patches = patches.to_vec();
    patches
        .sort_by(|one, other| (&one.test.place, &one.name).cmp(&(&other.test.place, &other.name)));
    for patch in &patches {
        let begun = Instant::now();
        let verdict = match unfit.get(&patch.test) {
            Some(why) => Verdict::Spoiled(why.clone()),
            None => verdict(&copy, patch)?,
        };
        let verdict = match verdict {
            Verdict::Found(what) if !is_right(patch, &what) => {
                Verdict::Spoiled(format!("another failure: {what}"))
            }
            verdict => verdict,
        };
        let (word, what) = verdict.words(&patch.fault);
        let test = format!("{} {}", patch.test.place.name(), patch.test.name);
        print_result(
            word,
            begun,
            &format!("{} ({test}): {}", patch.name, short(&what)),
        );
        if word != "found" {
            wrong.push(patch.name.as_str());
        }
    }
    Ok(print_summary(patches.len(), &wrong, start))
}

/// Prints how many faults were found. True if all were.
pub(crate) fn print_summary(all: usize, wrong: &[&str], start: Instant) -> bool {
    println!(
        "{} of {all} faults found, {} s",
        all - wrong.len(),
        start.elapsed().as_secs()
    );
    if !wrong.is_empty() {
        println!("not found: {}", wrong.join(", "));
    }
    wrong.is_empty()
}

/// Runs each test without its fault. Returns the tests that fail, which would show nothing, and the
/// reasons.
fn without_faults(copy: &Copy, patches: &[&Patch]) -> Result<BTreeMap<Test, String>> {
    let mut tests: Vec<_> = patches
        .iter()
        .map(|patch| (&patch.test, patch.limit))
        .collect();
    tests.sort();
    tests.dedup_by_key(|(test, _)| *test);
    let mut programs: BTreeMap<&Place, PathBuf> = BTreeMap::new();
    let mut unfit = BTreeMap::new();
    for (test, limit) in tests {
        let begun = Instant::now();
        let program = match programs.get(&test.place) {
            Some(program) => program.clone(),
            None => copy.build(&test.place)?,
        };
        programs.insert(&test.place, program.clone());
        let log = copy.place.join("without-a-fault.log");
        let why = match copy.run(&program, test, limit, &log)? {
            Outcome::Passed => None,
            Outcome::Failed(what) => Some(format!("the test fails without the fault: {what}")),
            Outcome::Hung => Some("the test does not end in time without the fault".into()),
            Outcome::NotRun => Some("the test does not exist".into()),
        };
        let word = if why.is_some() { "UNFIT" } else { "passes" };
        print_result(
            word,
            begun,
            &format!("{} {} {}", test.place.name(), test.name, env(test)),
        );
        unfit.extend(why.map(|why| (test.clone(), why)));
    }
    Ok(unfit)
}

fn env(test: &Test) -> String {
    let pairs = test
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

/// Applies one fault, runs its test, and reverts the fault.
fn verdict(copy: &Copy, patch: &Patch) -> Result<Verdict> {
    if let Err(fault) = copy.apply(patch) {
        return Ok(Verdict::Spoiled(format!(
            "the patch does not apply: {fault}"
        )));
    }
    let verdict = tried(copy, patch);
    copy.restore(patch)?;
    verdict
}

fn tried(copy: &Copy, patch: &Patch) -> Result<Verdict> {
    let program = match copy.build(&patch.test.place) {
        Ok(program) => program,
        Err(fault) => {
            return Ok(Verdict::Spoiled(format!(
                "the patched library does not compile: {fault}"
            )));
        }
    };
    let log = copy.place.join(format!("{}.log", patch.name));
    Ok(match copy.run(&program, &patch.test, patch.limit, &log)? {
        Outcome::Passed => Verdict::Missed,
        Outcome::Failed(what) if is_of_a_broken_script(&what) => {
            Verdict::Spoiled(format!("the patched script does not run: {what}"))
        }
        Outcome::Failed(what) => Verdict::Found(what),
        Outcome::Hung if patch.hangs => Verdict::Found("the test does not end".into()),
        Outcome::Hung => Verdict::Spoiled("the test does not end in time".into()),
        Outcome::NotRun => Verdict::Spoiled("the test does not exist".into()),
    })
}

/// Whether the test failed because a script has an undefined name or does not compile. Such a patch
/// is invalid, because any test would detect it.
fn is_of_a_broken_script(what: &str) -> bool {
    ["user_script:", "compiling script"]
        .iter()
        .any(|part| what.contains(part))
}

/// Prints the outcome of one trial, with the time that it took.
pub(crate) fn print_result(word: &str, begun: Instant, what: &str) {
    println!("{word:8}{:6.1} s  {what}", begun.elapsed().as_secs_f64());
}

/// The beginning of a message.
pub(crate) fn short(what: &str) -> String {
    let limit = if what.contains('\n') { 2000 } else { 200 };
    what.chars().take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_script_does_not_count_as_a_found_fault() {
        for what in [
            "redis refused the call: ERR user_script:119: Script attempted to access nonexistent \
             global variable 'x'",
            "ERR Error compiling script (new function): user_script:3: '=' expected near 'x'",
        ] {
            assert!(is_of_a_broken_script(what), "{what}");
        }
        assert!(!is_of_a_broken_script(
            "assertion `left == right` failed; left: 1; right: 2"
        ));
    }
}

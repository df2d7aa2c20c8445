//! Tests that the published fault run detects faults. It must report a violation with the fault,
//! and none without it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Result;
use crate::copy::Copy;
use crate::patch::Patch;
use crate::published::{Arguments, FaultRun};
use crate::run::End;
use crate::trial::{Verdict, print_result, print_summary, short};

/// The extra time of a run, in which servers start and clients end.
const EXTRA: Duration = Duration::from_secs(180);

/// The number of concurrent runs.
const PARALLEL: usize = 3;

/// The duration of a published run.
const SECONDS: u64 = 30;

/// A row of the table of faults that the run detects.
#[derive(Debug, Serialize)]
struct Line<'a> {
    name: &'a str,
    class: &'a str,
    fault: &'a str,
    arguments: String,
    found: bool,
    /// The violation, or the reason why none was found.
    said: String,
    seconds: u64,
}

/// The outcome of a run.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// The run reported these violations.
    Violated(Vec<String>),
    /// The run did not finish properly, so it shows nothing. The reason.
    Incomplete(String),
}

/// Tries all faults and writes the outcomes. True if the fault run detected all of them.
pub(crate) fn run(root: &Path, patches: &[&Patch], json: Option<&Path>) -> Result<bool> {
    let start = Instant::now();
    let mut runs = Vec::new();
    for patch in patches {
        let run = patch.fault_run.as_ref();
        runs.push((
            *patch,
            run.ok_or(format!("{} has no fault run", patch.name))?,
        ));
    }
    let copy = Copy::make(root)?;
    let unfit = without_faults(&copy, &runs)?;
    // The next program is built while others run.
    let built = runs.iter().map(|(patch, run)| {
        let built = match run.runs.iter().find_map(|arguments| unfit.get(arguments)) {
            Some(why) => Err(why.clone()),
            None => built_with(&copy, patch),
        };
        (*patch, *run, built)
    });
    let mut lines = in_parallel(built, |(patch, run, built)| {
        tried(&copy, patch, run, &built)
    });
    lines.sort_by_key(|line| (line.class, line.name));
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&lines).map_err(|error| error.to_string())?;
        crate::write(file, &text)?;
    }
    let missed = lines
        .iter()
        .filter(|line| !line.found)
        .map(|line| line.name);
    Ok(print_summary(
        runs.len(),
        &missed.collect::<Vec<_>>(),
        start,
    ))
}

/// Builds the program with the fault.
fn built_with(copy: &Copy, patch: &Patch) -> Result<PathBuf> {
    let program = copy.place.join(format!("{}.program", patch.name));
    copy.apply(patch)
        .map_err(|fault| format!("the patch does not apply: {fault}"))?;
    let built = copy.build_fault_run();
    copy.restore(patch)?;
    let built = built.map_err(|fault| format!("the patched library does not compile: {fault}"))?;
    std::fs::copy(built, &program).map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(program)
}

fn tried<'a>(
    copy: &Copy,
    patch: &'a Patch,
    run: &'a FaultRun,
    built: &Result<PathBuf>,
) -> Line<'a> {
    let begun = Instant::now();
    let (arguments, verdict) = match built {
        Ok(program) => first_to_find(copy, program, &patch.name, run),
        Err(why) => (String::new(), Verdict::Spoiled(why.clone())),
    };
    let (word, said) = verdict.words(&patch.fault);
    print_result(
        word,
        begun,
        &format!("{} ({arguments}): {}", patch.name, short(&said)),
    );
    let (name, class, fault) = (&patch.name, &run.class, &patch.fault);
    let (found, seconds) = (word == "found", begun.elapsed().as_secs());
    Line {
        name,
        class,
        fault,
        arguments,
        found,
        said,
        seconds,
    }
}

/// Performs the runs in turn until one detects the fault. Returns the arguments and the verdict of
/// the last one.
fn first_to_find(copy: &Copy, program: &Path, name: &str, run: &FaultRun) -> (String, Verdict) {
    let mut last = (String::new(), Verdict::Missed);
    for arguments in &run.runs {
        let verdict = judged(run, outcome_of(copy, program, name, arguments));
        last = (arguments.to_string(), verdict);
        if matches!(last.1, Verdict::Found(_)) {
            break;
        }
    }
    last
}

fn judged(run: &FaultRun, outcome: Result<Outcome>) -> Verdict {
    match outcome {
        Err(why) | Ok(Outcome::Incomplete(why)) => Verdict::Spoiled(why),
        Ok(Outcome::Passed) => Verdict::Missed,
        Ok(Outcome::Violated(all)) => match all.iter().find(|one| run.explains(one)) {
            Some(one) => Verdict::Found(one.clone()),
            None => Verdict::Spoiled(format!("only other violations: {}", all.join("; "))),
        },
    }
}

/// Performs each run without the fault, several at once. Returns the arguments of those that do not
/// pass, and the reasons. With a fault, such a run would show nothing.
fn without_faults(
    copy: &Copy,
    runs: &[(&Patch, &FaultRun)],
) -> Result<BTreeMap<Arguments, String>> {
    let built = copy.build_fault_run()?;
    // Copied, because the next build would overwrite the program.
    let program = copy.place.join("without-a-fault.program");
    std::fs::copy(built, &program).map_err(|error| format!("{}: {error}", program.display()))?;
    let runs: BTreeSet<_> = runs.iter().flat_map(|(_, run)| &run.runs).collect();
    let unfit = in_parallel(runs, |arguments| {
        let begun = Instant::now();
        let name = format!("without-a-fault{}", arguments.words().concat());
        let why = match outcome_of(copy, &program, &name, arguments) {
            Ok(Outcome::Passed) => None,
            Ok(Outcome::Violated(all)) => Some(all.join("; ")),
            Ok(Outcome::Incomplete(why)) | Err(why) => Some(why),
        };
        let word = if why.is_some() { "UNFIT" } else { "passes" };
        print_result(word, begun, &arguments.to_string());
        Some((arguments.clone(), format!("without the fault: {}", why?)))
    });
    Ok(unfit.into_iter().flatten().collect())
}

/// Does the work for each item, several at once, and returns the results in any order. Takes the
/// next item from the iterator while others are in work.
fn in_parallel<T, R: Send>(
    all: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let (all, done) = (Mutex::new(all.into_iter()), Mutex::new(Vec::new()));
    let next = || all.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| {
                while let Some(one) = next() {
                    let of_one = work(one);
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(of_one);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn outcome_of(copy: &Copy, program: &Path, name: &str, run: &Arguments) -> Result<Outcome> {
    let out = copy.place.join(format!("{name}.fault-run"));
    std::fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let log = copy.place.join(format!("{name}.fault-run.log"));
    let mut command = Command::new(program);
    command.args(run.words()).arg("--out").arg(&out);
    let end = copy.ended(
        &mut command,
        &[],
        Duration::from_secs(SECONDS) + EXTRA,
        &log,
    )?;
    let said = std::fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    Ok(outcome(&String::from_utf8_lossy(&said), end))
}

fn outcome(said: &str, end: End) -> Outcome {
    let violations = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("VIOLATION: "));
    let violations: Vec<_> = violations.map(str::to_owned).collect();
    match end {
        End::Code(0) if violations.is_empty() => Outcome::Passed,
        End::Code(1) if !violations.is_empty() => Outcome::Violated(violations),
        End::Code(_) | End::Signal => {
            Outcome::Incomplete(said.lines().last().unwrap_or_default().to_owned())
        }
        End::TooLate => Outcome::Incomplete("the run does not end in time".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_of_runs_are_recognised() {
        let said = "plain: 3 grants\n  VIOLATION: a was held\n  VIOLATION: b\nseed 1\n";
        let violated = Outcome::Violated(vec!["a was held".into(), "b".into()]);
        assert_eq!(outcome(said, End::Code(1)), violated);
        assert_eq!(outcome("plain: 3 grants\n", End::Code(0)), Outcome::Passed);
        assert_eq!(
            outcome("x\nno server\n", End::Code(2)),
            Outcome::Incomplete("no server".into())
        );
        for end in [End::Code(101), End::Signal, End::TooLate] {
            assert!(
                matches!(outcome(said, end), Outcome::Incomplete(_)),
                "{end:?}"
            );
        }
    }
}

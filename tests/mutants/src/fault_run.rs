//! The published fault run as a test of faults: it must see a violation, and without the fault none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Result;
use crate::check::is_written;
use crate::copy::Copy;
use crate::patch::Patch;
use crate::run::End;
use crate::trial::{Verdict, say, short, sum, with_the_fault};

/// What a run may take beside the time that it is told: servers that start, clients that end.
const BESIDE: Duration = Duration::from_secs(180);

const SOURCES: &str = "tests/faults/run";
/// Without them a run is another one each time.
const NEEDED: [&str; 5] = ["--fault", "--deployment", "--workload", "--seconds", "--seed"];
const DEPLOYMENTS: [&str; 4] = ["single", "sentinel", "cluster", "five"];
const WORKLOADS: [&str; 9] =
    ["plain", "fair", "read-write", "fenced", "permits", "semaphore", "multi", "string", "quorum"];

/// How the fault run sees a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultRun {
    pub(crate) arguments: Vec<String>,
    pub(crate) seconds: u64,
    /// A part of what the violation says: one of another kind is a side effect, and does not count.
    pub(crate) shows: String,
}

/// What a run came to.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// The violations.
    Violated(Vec<String>),
    /// It says nothing.
    NotHad(String),
}

impl FaultRun {
    pub(crate) fn parse(arguments: &str, shows: String) -> Result<Self> {
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        for pair in arguments.chunks(2) {
            if pair.len() < 2 || !pair[0].starts_with("--") || pair[1].starts_with("--") {
                return Err(format!("no option with its value: {}", pair.join(" ")));
            }
        }
        let mut run = FaultRun { arguments, seconds: 0, shows };
        for needed in NEEDED {
            run.value(needed).ok_or(format!("its fault run has no {needed}"))?;
        }
        let number = |option: &str| {
            let value = run.value(option).unwrap_or_default();
            value.parse::<u64>().map_err(|_| format!("no number: {value}"))
        };
        number("--seed")?;
        run.seconds = number("--seconds")?;
        Ok(run)
    }

    fn value(&self, option: &str) -> Option<&str> {
        let at = self.arguments.iter().position(|word| word == option)?;
        self.arguments.get(at + 1).map(String::as_str)
    }

    /// What is wrong with the arguments.
    pub(crate) fn faults(&self, root: &Path) -> Vec<String> {
        let mut faults = Vec::new();
        let value = |option: &str| self.value(option).unwrap_or_default();
        let fault = value("--fault");
        let is_fault = || is_written(&root.join(SOURCES).join("fault"), &format!("\"{fault}\""));
        if !["none", "mixed"].contains(&fault) && !is_fault() {
            faults.push(format!("no fault {fault} of the fault run"));
        }
        if !DEPLOYMENTS.contains(&value("--deployment")) {
            faults.push(format!("no deployment {}", value("--deployment")));
        }
        let workloads = value("--workload").split(',');
        let unknown = workloads.filter(|workload| !WORKLOADS.contains(workload));
        faults.extend(unknown.map(|workload| format!("no workload {workload}")));
        faults
    }
}

/// Tries them all; whether the fault run saw each.
pub(crate) fn run(root: &Path, patches: &[&Patch]) -> Result<bool> {
    let start = Instant::now();
    let mut runs = Vec::new();
    for patch in patches {
        let run = patch.fault_run.as_ref();
        runs.push((*patch, run.ok_or(format!("{} has no fault run", patch.name))?));
    }
    let copy = Copy::make(root)?;
    let unfit = without_faults(&copy, &runs)?;
    let mut wrong = Vec::new();
    for (patch, run) in &runs {
        let begun = Instant::now();
        let verdict = match unfit.get(&run.arguments) {
            Some(why) => Verdict::Spoiled(why.clone()),
            None => with_the_fault(&copy, patch, || tried(&copy, &patch.name, run))?,
        };
        let (word, what) = verdict.words(&patch.fault);
        say(word, begun, &format!("{}: {}", patch.name, short(&what)));
        if word != "found" {
            wrong.push(patch.name.as_str());
        }
    }
    Ok(sum(runs.len(), &wrong, start))
}

/// Does each run as the repository is. Those with violations show nothing, and why.
fn without_faults(
    copy: &Copy,
    runs: &[(&Patch, &FaultRun)],
) -> Result<BTreeMap<Vec<String>, String>> {
    let program = copy.build_fault_run()?;
    let mut tried: BTreeMap<Vec<String>, Option<String>> = BTreeMap::new();
    for (_, run) in runs {
        if tried.contains_key(&run.arguments) {
            continue;
        }
        let begun = Instant::now();
        let why = match outcome_of(copy, &program, "without-a-fault", run)? {
            Outcome::Passed => None,
            Outcome::Violated(all) => Some(format!("without the fault: {}", all.join("; "))),
            Outcome::NotHad(why) => Some(format!("without the fault: {why}")),
        };
        let word = if why.is_some() { "UNFIT" } else { "passes" };
        say(word, begun, &run.arguments.join(" "));
        tried.insert(run.arguments.clone(), why);
    }
    Ok(tried.into_iter().filter_map(|(run, why)| Some((run, why?))).collect())
}

fn tried(copy: &Copy, name: &str, run: &FaultRun) -> Result<Verdict> {
    let program = match copy.build_fault_run() {
        Ok(program) => program,
        Err(fault) => return Ok(Verdict::Spoiled(format!("it does not compile: {fault}"))),
    };
    Ok(match outcome_of(copy, &program, name, run)? {
        Outcome::Passed => Verdict::Missed,
        Outcome::Violated(all) => match all.iter().find(|one| one.contains(&run.shows)) {
            Some(one) => Verdict::Found(one.clone()),
            None => Verdict::Spoiled(format!("only something else: {}", all.join("; "))),
        },
        Outcome::NotHad(why) => Verdict::Spoiled(why),
    })
}

fn outcome_of(copy: &Copy, program: &PathBuf, name: &str, run: &FaultRun) -> Result<Outcome> {
    let out = copy.place.join(format!("{name}.fault-run"));
    std::fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let log = copy.place.join(format!("{name}.fault-run.log"));
    let mut command = Command::new(program);
    command.args(&run.arguments).arg("--out").arg(&out);
    let end = copy.ended(&mut command, &[], Duration::from_secs(run.seconds) + BESIDE, &log)?;
    let said = std::fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    Ok(outcome(&String::from_utf8_lossy(&said), end))
}

fn outcome(said: &str, end: End) -> Outcome {
    let violations = said.lines().filter_map(|line| line.trim().strip_prefix("VIOLATION: "));
    let violations: Vec<_> = violations.map(str::to_owned).collect();
    match end {
        End::Code(0) if violations.is_empty() => Outcome::Passed,
        End::Code(1) if !violations.is_empty() => Outcome::Violated(violations),
        End::Code(_) | End::Signal => {
            Outcome::NotHad(said.lines().last().unwrap_or_default().to_owned())
        }
        End::TooLate => Outcome::NotHad("it does not end in time".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str =
        "--fault none --deployment single --workload plain,fair --seconds 5 --seed 1";

    #[test]
    fn arguments_are_read() {
        let run = FaultRun::parse(RIGHT, "was held".into()).unwrap();
        assert_eq!((run.seconds, run.value("--workload")), (5, Some("plain,fair")));
        for (from, to, part) in [
            ("--seed 1", "", "has no --seed"),
            ("--seed 1", "--seed", "no option with its value: --seed"),
            ("--fault none", "none --fault", "no option with its value: none --fault"),
            ("--seed 1", "--seed x", "no number: x"),
            ("--seconds 5", "--seconds five", "no number: five"),
        ] {
            let fault = FaultRun::parse(&RIGHT.replace(from, to), "x".into()).unwrap_err();
            assert!(fault.contains(part), "{fault}");
        }
    }

    #[test]
    fn what_the_program_does_not_know_is_told() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let faults = |arguments: &str| {
            FaultRun::parse(arguments, "x".into()).unwrap().faults(&root).join(", ")
        };
        assert_eq!(faults(RIGHT), "");
        assert_eq!(faults(&RIGHT.replace("none", "freeze-client")), "");
        assert_eq!(
            faults(&RIGHT.replace("none", "bad-luck")),
            "no fault bad-luck of the fault run"
        );
        assert_eq!(faults(&RIGHT.replace("single", "double")), "no deployment double");
        assert_eq!(faults(&RIGHT.replace("fair", "unfair")), "no workload unfair");
    }

    #[test]
    fn what_a_run_came_to() {
        let said = "plain: 3 grants\n  VIOLATION: a was held\n  VIOLATION: b\nseed 1\n";
        let violated = Outcome::Violated(vec!["a was held".into(), "b".into()]);
        assert_eq!(outcome(said, End::Code(1)), violated);
        assert_eq!(outcome("plain: 3 grants\n", End::Code(0)), Outcome::Passed);
        assert_eq!(outcome("x\nno server\n", End::Code(2)), Outcome::NotHad("no server".into()));
        for end in [End::Code(101), End::Signal, End::TooLate] {
            assert!(matches!(outcome(said, end), Outcome::NotHad(_)), "{end:?}");
        }
    }
}

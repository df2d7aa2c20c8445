//! How the published fault run detects a fault: its arguments, and the violation.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use crate::Result;
use crate::words::is_written;

const SOURCES: &str = "tools/faults/src";
/// The arguments that must be given, and the only ones. A run with other arguments would show
/// nothing about the published ones.
const NEEDED: [&str; 3] = ["--fault", "--deployment", "--seed"];
const DEPLOYMENTS: [&str; 4] = ["single", "sentinel", "cluster", "five"];

/// The arguments of a published run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arguments(Vec<String>);

/// How the fault run detects a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultRun {
    /// The class of faults of which this is the example.
    pub(crate) class: String,
    /// The arguments of one run, or of several. They are tried in turn until one detects the fault.
    pub(crate) runs: Vec<Arguments>,
    /// A part of the text of each violation that is a consequence of the fault. Other violations do
    /// not count.
    pub(crate) shows: Vec<String>,
}

impl Arguments {
    fn parse(arguments: &str) -> Result<Self> {
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        for pair in arguments.chunks(2) {
            if pair.len() < 2 || !pair[0].starts_with("--") || pair[1].starts_with("--") {
                return Err(format!("not an option with a value: {}", pair.join(" ")));
            }
        }
        let run = Self(arguments);
        for needed in NEEDED {
            run.value(needed)
                .ok_or(format!("its fault run has no {needed}"))?;
        }
        if run.0.len() > 2 * NEEDED.len() {
            return Err(format!("not the arguments of a published run: {run}"));
        }
        let seed = run.value("--seed").unwrap_or_default();
        seed.parse::<u64>()
            .map_err(|_| format!("no number: {seed}"))?;
        Ok(run)
    }

    pub(crate) fn words(&self) -> &[String] {
        &self.0
    }

    fn value(&self, option: &str) -> Option<&str> {
        let at = self.0.iter().position(|word| word == option)?;
        self.0.get(at + 1).map(String::as_str)
    }

    fn faults(&self, root: &Path) -> Vec<String> {
        let mut faults = Vec::new();
        let value = |option: &str| self.value(option).unwrap_or_default();
        let fault = value("--fault");
        let is_fault = || is_written(&root.join(SOURCES).join("fault"), &format!("\"{fault}\""));
        if !["none", "mixed"].contains(&fault) && !is_fault() {
            faults.push(format!("the fault run has no fault {fault}"));
        }
        if !DEPLOYMENTS.contains(&value("--deployment")) {
            faults.push(format!("no deployment {}", value("--deployment")));
        }
        faults
    }
}

impl Display for Arguments {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

impl FaultRun {
    pub(crate) fn parse(runs: &str, class: String, shows: &str) -> Result<Self> {
        let runs = runs.split(" | ").map(Arguments::parse);
        Ok(FaultRun {
            class,
            runs: runs.collect::<Result<_>>()?,
            shows: shows.split(" | ").map(str::to_owned).collect(),
        })
    }

    /// Whether the violation is a consequence of the fault.
    pub(crate) fn explains(&self, violation: &str) -> bool {
        self.shows.iter().any(|part| violation.contains(part))
    }

    /// What is wrong with the arguments.
    pub(crate) fn faults(&self, root: &Path) -> Vec<String> {
        self.runs.iter().flat_map(|run| run.faults(root)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "--fault none --deployment single --seed 1";

    fn parsed(arguments: &str) -> Result<FaultRun> {
        FaultRun::parse(arguments, "lost wake".into(), "was held")
    }

    #[test]
    fn arguments_are_read() {
        let two = parsed(&format!("{RIGHT} | {}", RIGHT.replace("single", "five"))).unwrap();
        let deployments: Vec<_> = two
            .runs
            .iter()
            .map(|run| run.value("--deployment"))
            .collect();
        assert_eq!(deployments, [Some("single"), Some("five")]);
        for (from, to, part) in [
            ("--seed 1", "", "has no --seed"),
            ("--seed 1", "--seed", "not an option with a value: --seed"),
            (
                "--fault none",
                "none --fault",
                "not an option with a value: none --fault",
            ),
            ("--seed 1", "--seed x", "no number: x"),
            (
                "--seed 1",
                "--seed 1 --workers 9",
                "not the arguments of a published run",
            ),
        ] {
            let fault = parsed(&RIGHT.replace(from, to)).unwrap_err();
            assert!(fault.contains(part), "{fault}");
        }
    }

    #[test]
    fn a_violation_counts_if_it_is_a_consequence_of_the_fault() {
        let shows = "was held by | nothing had happened";
        let run = FaultRun::parse(RIGHT, "release of anybody's hold".into(), shows).unwrap();
        assert!(run.explains("a: worker 1 was held by worker 2"));
        assert!(run.explains("a: worker 1 lost it, and nothing had happened since"));
        assert!(!run.explains("a: worker 1 waited, and it was free"));
    }

    #[test]
    fn unknown_arguments_are_reported() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let faults = |arguments: &str| parsed(arguments).unwrap().faults(&root).join(", ");
        assert_eq!(faults(RIGHT), "");
        assert_eq!(faults(&RIGHT.replace("none", "freeze-client")), "");
        assert_eq!(
            faults(&RIGHT.replace("none", "bad-luck")),
            "the fault run has no fault bad-luck"
        );
        assert_eq!(
            faults(&RIGHT.replace("single", "double")),
            "no deployment double"
        );
    }
}

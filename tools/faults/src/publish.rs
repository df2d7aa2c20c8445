//! Writes the report from what `tools/faults/publish` has left: runs, many names, bad input, deliberate faults.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum as _};

use crate::fault;
use crate::peers;
use crate::report::facts::{Fuzz, Library, Machine, Origin, Part, Promise};
use crate::report::missing::{self, Now, Plan};
use crate::report::runs::{Runs, read};
use crate::report::{Facts, Report};
use crate::result::Cell;
use crate::run::is_possible;
use crate::workload::Workload;

#[derive(Args, Clone, Debug)]
pub(crate) struct PublishArguments {
    /// Where the matrix has left its runs, and the script all else.
    #[arg(long, default_value = "target/fault-run")]
    runs: PathBuf,
    /// Where the runs of the comparison are.
    #[arg(long, default_value = "target/fault-run-peers")]
    peers: PathBuf,
    /// Writes what there is, and what is missing.
    #[arg(long)]
    incomplete: bool,
    #[arg(long, default_value = "docs/faults")]
    to: PathBuf,
}

impl PublishArguments {
    pub(crate) fn run(&self) -> Result<(), String> {
        let [matrix, long] =
            [self.below("runs"), self.runs.join("long")].map(|one| Runs::read(&one));
        let (matrix, long, compared) = (matrix?, long?, Runs::read(&below(&self.peers, "runs"))?);
        let plan: Option<Plan> = read(&self.runs.join("published.json"))?;
        let now = now(&self.to)?;
        let mut report = Report {
            facts: self.facts(plan.as_ref(), &now)?,
            matrix: matrix.cells.clone(),
            compared: compared.cells.clone(),
        };
        report.facts.long.clone_from(&long.cells);
        for cell in &mut report.compared {
            if let Some(peer) = peers::Peer::named(&cell.library) {
                cell.version = peer.version();
            }
        }
        let all = [&matrix, &long, &compared];
        let without_result: Vec<_> = all
            .iter()
            .flat_map(|runs| runs.without_result.clone())
            .collect();
        report.facts.left_out = missing::left_out(&report, &without_result, is_possible);
        report.facts.missing = missing::missing(plan.as_ref(), &now, &report, is_possible);
        if !self.incomplete && !report.facts.missing.is_empty() {
            let missing = report.facts.missing.join("\n  ");
            return Err(format!(
                "the report would be incomplete (--incomplete writes it):\n  {missing}"
            ));
        }
        let told = |error: std::io::Error| error.to_string();
        let json = report.to_json().map_err(|error| error.to_string())?;
        fs::write(self.runs.join("results.json"), json).map_err(told)?;
        // Ours of the comparison may have the seeds of the matrix.
        let timeline = |cell: &Cell| {
            if report.matrix.iter().any(|one| std::ptr::eq(one, cell)) {
                matrix.timeline(cell)
            } else {
                compared.timeline(cell)
            }
        };
        report.write(timeline, &self.to).map_err(told)
    }

    fn below(&self, name: &str) -> PathBuf {
        below(&self.runs, name)
    }

    fn facts(&self, plan: Option<&Plan>, now: &Now) -> Result<Facts, String> {
        let ended = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        let origin = Origin {
            commit: now.commit.clone(),
            is_clean: now.is_clean && plan.is_some_and(|plan| plan.clean),
            began: plan.map_or(ended, |plan| plan.began),
            ended,
            parts: parts(&self.runs.join("parts.tsv"))?,
        };
        let faults = fault::all().map(|fault| (fault.name.to_owned(), fault.what.to_owned()));
        let workloads = Workload::value_variants()
            .iter()
            .map(|one| (one.name(), one.what().to_owned()));
        Ok(Facts {
            origin,
            machine: Machine::read(),
            libraries: libraries(),
            faults: faults.collect(),
            workloads: workloads.collect(),
            names: read(&self.runs.join("names.json"))?,
            fuzz: fuzz(&self.runs.join("fuzz"))?,
            power: read(&self.runs.join("power.json"))?,
            ..Facts::default()
        })
    }
}

/// Some runs lie in a folder of their own, below that of all.
fn below(folder: &Path, name: &str) -> PathBuf {
    let below = folder.join(name);
    if below.is_dir() {
        below
    } else {
        folder.to_owned()
    }
}

fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let told = |why: &dyn std::fmt::Display| format!("{program} {}: {why}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| told(&error))?;
    if !output.status.success() {
        return Err(told(&String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The report itself may be written more than once.
fn now(report: &Path) -> Result<Now, String> {
    let but = format!(":(exclude){}", report.display());
    let mut status = vec!["status", "--porcelain", "--", "."];
    // Git knows nothing of other folders.
    status.extend(report.is_relative().then_some(but.as_str()));
    let changed = output("git", &status)?;
    Ok(Now {
        commit: output("git", &["rev-parse", "HEAD"])?,
        is_clean: changed.is_empty(),
    })
}

/// A line for each command: its name, begin, end, exit code, and the command itself, with tabs between.
fn parts(file: &Path) -> Result<Vec<Part>, String> {
    let Ok(text) = fs::read_to_string(file) else {
        return Ok(Vec::new());
    };
    let part = |line: &str| {
        let fields: Vec<_> = line.splitn(5, '\t').collect();
        let [name, began, ended, code, command] = fields[..] else {
            return None;
        };
        Some(Part {
            name: name.to_owned(),
            began: began.parse().ok()?,
            ended: ended.parse().ok()?,
            code: code.parse().ok()?,
            command: command.to_owned(),
        })
    };
    text.lines()
        .map(|line| part(line).ok_or_else(|| format!("{}: {line}", file.display())))
        .collect()
}

/// The fuzzer runs once for each target: a hang ends it.
fn fuzz(folder: &Path) -> Result<Option<Fuzz>, String> {
    let Ok(files) = fs::read_dir(folder) else {
        return Ok(None);
    };
    let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "json")
    });
    files.sort();
    let mut all: Option<Fuzz> = None;
    for file in files {
        let Some(one) = read::<Fuzz>(&file)? else {
            continue;
        };
        match &mut all {
            Some(all) => all.targets.extend(one.targets),
            None => all = Some(one),
        }
    }
    Ok(all)
}

fn libraries() -> Vec<Library> {
    let texts = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    let promise = |says: &str, source: &str| Promise {
        says: says.to_owned(),
        source: source.to_owned(),
    };
    let peers = peers::ALL.iter().map(|peer| {
        let mut settings = texts(peer.settings);
        settings.push(format!("its key: {}", peer.key));
        let workloads: Vec<_> = peer.workloads.iter().map(|one| one.name()).collect();
        settings.push(format!("workloads: {}", workloads.join(", ")));
        let promises = peer
            .promises
            .iter()
            .map(|one| promise(one.says, one.source));
        Library {
            name: peer.name.to_owned(),
            version: peer.version(),
            language: peer.language.to_owned(),
            settings,
            promises: promises.collect(),
        }
    });
    let ours = Library {
        name: "leasehold".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        language: "Rust".to_owned(),
        settings: texts(&[
            "a lease of 3 s, as for all here",
            "every other client looks for free locks once in a minute, and not in a second: a lost wake-up shows",
            "all else is the default",
        ]),
        promises: [
            "One holder at a time while the deployment keeps what it granted.",
            "The guard tells its holder of a loss.",
            "A resource that checks fencing tokens refuses the write of an earlier holder.",
        ]
        .map(|says| promise(says, "docs/guarantees.md"))
        .into(),
    };
    [ours].into_iter().chain(peers).collect()
}

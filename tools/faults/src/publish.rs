//! Writes the report from the results of `tools/faults/publish`: the runs, many names, bad input,
//! deliberate bugs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum as _};

use crate::fault;
use crate::peers;
use crate::report::facts::{Fuzz, Library, Machine, Origin, Part, Promise};
use crate::report::missing::{self, Plan, Repository};
use crate::report::runs::{Runs, read};
use crate::report::{Facts, Report};
use crate::result::Cell;
use crate::run::is_possible;
use crate::workload::Workload;

#[derive(Args, Clone, Debug)]
pub(crate) struct PublishArguments {
    /// The folder with the runs of the matrix and the other results of the script.
    #[arg(long, default_value = "target/fault-run")]
    runs: PathBuf,
    /// The folder with the runs of the comparison.
    #[arg(long, default_value = "target/fault-run-peers")]
    peers: PathBuf,
    /// Write the report even if results are missing. It lists what is missing.
    #[arg(long)]
    incomplete: bool,
    /// The folder of the report.
    #[arg(long, default_value = "docs/dev/faults")]
    to: PathBuf,
}

impl PublishArguments {
    pub(crate) fn run(&self) -> Result<(), String> {
        let [matrix, long] =
            [subfolder(&self.runs, "runs"), self.runs.join("long")].map(|one| Runs::read(&one));
        let (matrix, long, compared) =
            (matrix?, long?, Runs::read(&subfolder(&self.peers, "runs"))?);
        let plan: Option<Plan> = read(&self.runs.join("published.json"))?;
        let repository = repository(&self.to)?;
        let mut report = Report {
            facts: self.facts(plan.as_ref(), &repository)?,
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
        report.facts.missing = missing::missing(plan.as_ref(), &repository, &report, is_possible);
        if !self.incomplete && !report.facts.missing.is_empty() {
            let missing = report.facts.missing.join("\n  ");
            return Err(format!(
                "the report would be incomplete (--incomplete writes it):\n  {missing}"
            ));
        }
        let to_text = |error: std::io::Error| error.to_string();
        let json = report.to_json().map_err(|error| error.to_string())?;
        fs::write(self.runs.join("results.json"), json).map_err(to_text)?;
        // A cell of this library may be in the matrix and, with the same seed, in the comparison.
        // The two cells are equal but have different timelines, so their addresses are compared.
        let timeline = |cell: &Cell| {
            if report.matrix.iter().any(|one| std::ptr::eq(one, cell)) {
                matrix.timeline(cell)
            } else {
                compared.timeline(cell)
            }
        };
        report.write(timeline, &self.to).map_err(to_text)
    }

    fn facts(&self, plan: Option<&Plan>, repository: &Repository) -> Result<Facts, String> {
        let ended = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        let origin = Origin {
            commit: repository.commit.clone(),
            is_clean: repository.is_clean && plan.is_some_and(|plan| plan.clean),
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

/// The subfolder of this name if there is one, and the folder itself otherwise.
fn subfolder(folder: &Path, name: &str) -> PathBuf {
    let below = folder.join(name);
    if below.is_dir() {
        below
    } else {
        folder.to_owned()
    }
}

fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{program} {}: {why}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The state of the repository. Changes to the report itself do not count, so that it can be
/// written more than once.
fn repository(report: &Path) -> Result<Repository, String> {
    let exclude_report = format!(":(exclude){}", report.display());
    let mut status = vec!["status", "--porcelain", "--", "."];
    // An absolute path may be outside the repository, where git refuses to exclude it.
    status.extend(report.is_relative().then_some(exclude_report.as_str()));
    let changed = output("git", &status)?;
    Ok(Repository {
        commit: output("git", &["rev-parse", "HEAD"])?,
        is_clean: changed.is_empty(),
    })
}

/// Reads `parts.tsv`. It has a line for each command: name, begin, end, exit code and command,
/// separated by tabs.
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

/// Merges the results of the fuzzer. It runs once for each target, because a hang ends it.
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
            "a lease of 3 s, as for all libraries here",
            "every second client polls for free locks once a minute instead of once a second, so \
             that a lost wake-up shows",
            "defaults for everything else",
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

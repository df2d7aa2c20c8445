//! Writes the report from what runs have left: results and pictures of the cells, the long runs, names, fuzzing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum as _};
use serde::de::DeserializeOwned;

use crate::fault;
use crate::peers;
use crate::report::facts::{Library, Machine};
use crate::report::{self, Facts};
use crate::result::Cell;
use crate::workload::Workload;
use crate::world::Kind;

/// What runs all of it again.
const COMMAND: &str = "tests/faults/publish";

#[derive(Args, Clone, Debug)]
pub(crate) struct PublishArguments {
    /// Where the matrix has left its runs.
    #[arg(long, default_value = "target/fault-run")]
    runs: PathBuf,
    /// Where the long runs are.
    #[arg(long, default_value = "target/fault-run-long")]
    long: PathBuf,
    /// What `names` has written.
    #[arg(long)]
    names: Option<PathBuf>,
    /// What the fuzzer has written.
    #[arg(long)]
    fuzz: Option<PathBuf>,
    /// Makes pages and plots again from the results that are there, instead.
    #[arg(long)]
    again: bool,
    /// `2026-11-22`.
    #[arg(long, default_value = "")]
    date: String,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value = "docs/faults")]
    to: PathBuf,
}

impl PublishArguments {
    pub(crate) fn run(&self) -> Result<(), String> {
        if self.again {
            return report::from_json(&self.to).map_err(|error| error.to_string());
        }
        let (mut cells, mut long) = (self.cells(&self.runs)?, self.cells(&self.long)?);
        for cell in &mut long {
            "mixed-hour".clone_into(&mut cell.fault);
        }
        sort(&mut cells);
        sort(&mut long);
        let facts = Facts {
            date: self.date.clone(),
            commit: output("git", &["rev-parse", "--short", "HEAD"]),
            command: COMMAND.to_owned(),
            seed: self.seed,
            seconds: length(&cells) + length(&long),
            machine: Machine::read(),
            servers: servers(&cells),
            libraries: libraries(&cells),
            faults: fault::all()
                .map(|fault| (fault.name.to_owned(), fault.what.to_owned()))
                .collect(),
            workloads: Workload::value_variants()
                .iter()
                .map(|one| (one.name(), one.what().to_owned()))
                .collect(),
            left_out: left_out(&cells),
            long,
            names: read(self.names.as_deref())?,
            fuzz: read(self.fuzz.as_deref())?,
        };
        report::write(&cells, &facts, &self.to).map_err(|error| error.to_string())
    }

    /// All cells below a folder; their pictures go to the report.
    fn cells(&self, folder: &Path) -> Result<Vec<Cell>, String> {
        let mut cells = Vec::new();
        let Ok(runs) = fs::read_dir(folder) else { return Ok(cells) };
        for run in runs.flatten().map(|run| run.path()) {
            let Some(of_run): Option<Vec<Cell>> = read(Some(&run.join("cells.json")))? else {
                continue;
            };
            for mut cell in of_run {
                let picture = run.join(report::picture_of(&cell));
                if folder == self.long {
                    "mixed-hour".clone_into(&mut cell.fault);
                }
                if let Some(peer) = peers::Peer::named(&cell.library) {
                    cell.version = peer.version();
                }
                let there = self.to.join(report::picture_of(&cell));
                let told = |error: std::io::Error| format!("{}: {error}", picture.display());
                fs::create_dir_all(there.parent().expect("a folder")).map_err(told)?;
                fs::copy(&picture, there).map_err(told)?;
                cells.push(cell);
            }
        }
        Ok(cells)
    }
}

fn read<T: DeserializeOwned>(file: Option<&Path>) -> Result<Option<T>, String> {
    let Some(file) = file.filter(|file| file.exists()) else { return Ok(None) };
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| told(&error))?;
    serde_json::from_str(&text).map(Some).map_err(|error| told(&error))
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}

/// In the order in which faults and deployments are told of elsewhere.
fn sort(cells: &mut [Cell]) {
    let faults: Vec<_> = fault::all().map(|fault| fault.name).collect();
    let kinds: Vec<_> = Kind::value_variants().iter().map(|kind| kind.name()).collect();
    cells.sort_by_key(|cell| {
        let fault = faults.iter().position(|fault| *fault == cell.fault);
        let kind = kinds.iter().position(|kind| *kind == cell.deployment);
        (!cell.is_ours(), cell.library.clone(), kind, fault, cell.workload.clone())
    });
}

/// Of runs, each of which has several cells.
fn length(cells: &[Cell]) -> u64 {
    let runs =
        cells.iter().map(|cell| ((&cell.library, &cell.deployment, &cell.fault), cell.seconds));
    runs.collect::<BTreeMap<_, _>>().values().sum()
}

fn servers(cells: &[Cell]) -> BTreeMap<String, String> {
    let mut servers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for cell in cells {
        let of = servers.entry(cell.server.clone()).or_default();
        if !of.contains(&cell.deployment) {
            of.push(cell.deployment.clone());
        }
    }
    servers.into_iter().map(|(server, of)| (server, of.join(", "))).collect()
}

fn libraries(cells: &[Cell]) -> BTreeMap<String, Library> {
    let ran = |name: &str| cells.iter().any(|cell| cell.library == name);
    let peers = peers::ALL.iter().filter(|peer| ran(peer.name)).map(|peer| {
        let join = |texts: Vec<&str>| texts.join("; ");
        let library = Library {
            version: format!("{} ({})", peer.version(), peer.language),
            settings: format!("{}; its key: `{}`", join(peer.settings.to_vec()), peer.key),
            promises: join(peer.promises.iter().map(|promise| promise.says).collect()),
            documentation: join(peer.promises.iter().map(|promise| promise.source).collect()),
        };
        (peer.name.to_owned(), library)
    });
    let ours = Library {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: "the defaults, but a lease of 3 s".to_owned(),
        promises: "one holder at a time while the deployment keeps what it granted; a hold that is lost is told by \
                   the guard; a stale holder's write is refused by its fencing token"
            .to_owned(),
        documentation: "docs/guarantees.md".to_owned(),
    };
    peers.chain([("leasehold".to_owned(), ours)]).collect()
}

/// What applies, and has no cell.
fn left_out(cells: &[Cell]) -> Vec<String> {
    let mut left_out = Vec::new();
    for kind in Kind::value_variants() {
        for fault in fault::all().filter(|fault| fault.on.contains(kind)) {
            let ran = |cell: &Cell| {
                cell.is_ours() && cell.deployment == kind.name() && cell.fault == fault.name
            };
            if !cells.iter().any(ran) {
                left_out.push(format!("{} on {} did not run", fault.name, kind.name()));
            }
        }
    }
    left_out
}

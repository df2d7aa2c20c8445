//! What the runs have left in their folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use serde::de::DeserializeOwned;

use crate::cell::CELLS;
use crate::fault;
use crate::report::picture_of;
use crate::result::Cell;
use crate::workload::Workload;
use crate::world::Kind;

/// One start of the program; it has a cell for each workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) library: String,
    pub(crate) deployment: String,
    pub(crate) fault: String,
    pub(crate) seed: u64,
}

impl Run {
    pub(crate) fn of(cell: &Cell) -> Self {
        let Cell {
            library,
            deployment,
            fault,
            seed,
            ..
        } = cell;
        let [library, deployment, fault] = [library, deployment, fault].map(String::clone);
        Run {
            library,
            deployment,
            fault,
            seed: *seed,
        }
    }
}

/// All below one folder.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// In the order of faults and deployments in the report, and then of seeds.
    pub(crate) cells: Vec<Cell>,
    folders: BTreeMap<Run, PathBuf>,
    /// Folders of runs that left nothing.
    pub(crate) without_result: Vec<String>,
}

/// Folders of runs lie in the folder of all, or one below.
const DEPTH: usize = 2;

impl Runs {
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let mut runs = Self::default();
        runs.add(folder, DEPTH)?;
        sort(&mut runs.cells);
        runs.without_result.sort();
        Ok(runs)
    }

    fn add(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let Ok(folders) = fs::read_dir(folder) else {
            return Ok(());
        };
        for folder in folders
            .flatten()
            .map(|one| one.path())
            .filter(|path| path.is_dir())
        {
            match read::<Vec<Cell>>(&folder.join(CELLS))? {
                Some(cells) => {
                    let runs = cells.iter().map(|cell| (Run::of(cell), folder.clone()));
                    self.folders.extend(runs);
                    self.cells.extend(cells);
                }
                None if is_of_a_run(&folder) => {
                    let name = folder.file_name().unwrap_or_default().display().to_string();
                    self.without_result.push(name);
                }
                None if depth > 1 => self.add(&folder, depth - 1)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Where the timeline of a cell lies.
    pub(crate) fn timeline(&self, cell: &Cell) -> Option<PathBuf> {
        Some(self.folders.get(&Run::of(cell))?.join(picture_of(cell)))
    }
}

/// Its log is there, whatever became of it.
fn is_of_a_run(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .map(|file| file.file_name())
        .any(|name| name.to_string_lossy().starts_with("log"))
}

/// Nothing, if the file is not there.
pub(crate) fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, String> {
    if !file.exists() {
        return Ok(None);
    }
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| told(&error))?;
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| told(&error))
}

fn sort(cells: &mut [Cell]) {
    let faults: Vec<_> = fault::all().map(|fault| fault.name).collect();
    let kinds: Vec<_> = Kind::value_variants()
        .iter()
        .map(|kind| kind.name())
        .collect();
    let workloads: Vec<_> = Workload::value_variants()
        .iter()
        .map(|one| one.name())
        .collect();
    cells.sort_by_cached_key(|cell| {
        let kind = kinds.iter().position(|kind| *kind == cell.deployment);
        let fault = faults.iter().position(|fault| *fault == cell.fault);
        let workload = workloads.iter().position(|one| *one == cell.workload);
        (
            !cell.is_ours(),
            cell.library.clone(),
            kind,
            fault,
            cell.seed,
            workload,
        )
    });
}

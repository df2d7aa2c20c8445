//! Reads the results of the runs from their folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use serde::de::DeserializeOwned;

use crate::fault;
use crate::report::timeline_file;
use crate::result::{CELLS, Cell};
use crate::workload::Workload;
use crate::world::Kind;

/// One run of the program. It has a cell for each workload.
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

/// All runs in a folder.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Sorted by library, deployment, fault, seed and workload, in the order of the report.
    pub(crate) cells: Vec<Cell>,
    folders: BTreeMap<Run, PathBuf>,
    /// The folders of runs that left no result.
    pub(crate) without_result: Vec<String>,
}

/// The folders of runs are in the folder itself or in one of its subfolders.
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
                None if is_folder_of_run(&folder) => {
                    let name = folder.file_name().unwrap_or_default().display().to_string();
                    self.without_result.push(name);
                }
                None if depth > 1 => self.add(&folder, depth - 1)?,
                None => {}
            }
        }
        Ok(())
    }

    /// The file with the timeline of a cell.
    pub(crate) fn timeline(&self, cell: &Cell) -> Option<PathBuf> {
        Some(self.folders.get(&Run::of(cell))?.join(timeline_file(cell)))
    }
}

/// Whether this is the folder of a run. Every run has a log, even if it failed.
fn is_folder_of_run(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .map(|file| file.file_name())
        .any(|name| name.to_string_lossy().starts_with("log"))
}

/// Reads a JSON file. Returns `None` if the file does not exist.
pub(crate) fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, String> {
    if !file.exists() {
        return Ok(None);
    }
    let with_path = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| with_path(&error))?;
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| with_path(&error))
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

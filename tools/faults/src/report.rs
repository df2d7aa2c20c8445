//! The published report: pages for people, with a plot for each deployment and a few timelines that teach something.
//!
//! Every cell leaves a timeline beside its result when it has run (`timeline::draw`). The report takes those that its
//! lessons ask for, and writes all else from the cells and the facts. What is too large for the repository, the result
//! of each cell, is written to a file of its own.

pub(crate) mod facts;
mod lessons;
mod markdown;
pub(crate) mod missing;
mod pages;
mod plots;
pub(crate) mod runs;
mod statistics;
mod svg;
pub(crate) mod timeline;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

pub(crate) use facts::Facts;
use lessons::Taught;

use super::result::Cell;

const OURS: &str = "leasehold";
/// Within the folder of the report.
const TIMELINES: &str = "timelines";

/// Everything that is reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) facts: Facts,
    /// Of this library: every fault on every deployment.
    pub(crate) matrix: Vec<Cell>,
    /// Of this library and of others, by the same runs.
    pub(crate) compared: Vec<Cell>,
}

impl Report {
    /// Pages and pictures; `timeline` is where that of a cell lies.
    pub(crate) fn write(
        &self,
        timeline: impl Fn(&Cell) -> Option<PathBuf>,
        folder: &Path,
    ) -> io::Result<()> {
        let taught = self.taught();
        // An earlier report may have had others.
        for old in [folder.join(TIMELINES), folder.to_owned()] {
            remove_files(&old)?;
        }
        fs::create_dir_all(folder.join(TIMELINES))?;
        for Taught { lesson, cell } in &taught {
            let from = timeline(cell).filter(|picture| picture.is_file());
            let lacks = || format!("the timeline of {} is not there", name_of(cell));
            let from = from.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, lacks()))?;
            fs::copy(from, folder.join(lesson.picture()))?;
        }
        for (name, text) in pages::all(self, &taught) {
            fs::write(folder.join(name), text)?;
        }
        for deployment in self.deployments() {
            let cells: Vec<_> = self
                .matrix
                .iter()
                .filter(|cell| cell.deployment == deployment)
                .collect();
            fs::write(
                folder.join(plot_of(deployment)),
                plots::recovery(deployment, &cells),
            )?;
        }
        Ok(())
    }

    /// Every cell, for programs; a changed cell is a changed line.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        let facts = serde_json::to_string_pretty(&self.facts)?;
        let lines = |cells: &[Cell]| {
            let lines = cells
                .iter()
                .map(serde_json::to_string)
                .collect::<Result<Vec<_>, _>>();
            lines.map(|lines| lines.join(",\n"))
        };
        let (matrix, compared) = (lines(&self.matrix)?, lines(&self.compared)?);
        Ok(format!(
            "{{\"facts\": {facts},\n\"matrix\": [\n{matrix}\n],\n\"compared\": [\n{compared}\n]}}\n"
        ))
    }

    fn deployments(&self) -> Vec<&str> {
        pages::in_order(self.matrix.iter().map(|cell| cell.deployment.as_str()))
    }

    fn taught(&self) -> Vec<Taught<'_>> {
        let cells: Vec<_> = self.matrix.iter().chain(&self.compared).collect();
        lessons::choose(&cells)
    }
}

/// Only those of a report; folders and all else stay.
fn remove_files(folder: &Path) -> io::Result<()> {
    let Ok(files) = fs::read_dir(folder) else {
        return Ok(());
    };
    for file in files {
        let path = file?.path();
        let ours = ["md", "svg"];
        if path
            .extension()
            .is_some_and(|extension| ours.iter().any(|one| extension == *one))
        {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Where the timeline of a cell lies, within the folder of its run.
pub(crate) fn picture_of(cell: &Cell) -> PathBuf {
    format!("{}.svg", file_name(&cell.workload)).into()
}

/// The recovery on a deployment, within the folder of the report.
fn plot_of(deployment: &str) -> String {
    format!("{}.svg", file_name(deployment))
}

fn is_peer(cell: &Cell) -> bool {
    cell.library != OURS
}

/// A name as the name of a file: what might mean something to a system, a link or a page is replaced.
fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let name: String = name
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    if name.trim_matches('.').is_empty() {
        "_".to_owned()
    } else {
        name
    }
}

fn deployment_name(deployment: &str) -> String {
    match deployment {
        "single" => "one server",
        "sentinel" => "Sentinel",
        "cluster" => "Cluster",
        "five" => "five independent servers",
        other => other,
    }
    .to_owned()
}

fn name_of(cell: &Cell) -> String {
    let Cell {
        library,
        deployment,
        fault,
        workload,
        ..
    } = cell;
    let deployment = deployment_name(deployment);
    format!("{library}, {workload} under {fault}, {deployment}")
}

/// What does the run of a cell again.
fn again(cell: &Cell) -> String {
    let Cell {
        library,
        deployment,
        fault,
        seconds,
        seed,
        ..
    } = cell;
    let library = if is_peer(cell) {
        format!(" --library {library}")
    } else {
        String::new()
    };
    // Another seed was taken for those workloads alone that had met no holder.
    let workload = if cell.again > 0 {
        format!(" --workload {}", cell.workload)
    } else {
        String::new()
    };
    format!(
        "cargo run --release -p leasehold-faults --{library} --deployment {deployment} --fault {fault}{workload} \
         --seconds {seconds} --seed {seed}"
    )
}

//! The published report: Markdown pages, a plot for each deployment, and a few timelines as
//! examples.
//!
//! Every run draws a timeline for each of its cells (`timeline::draw`). The report copies the
//! timelines that its lessons select, and generates everything else from the cells and the facts.
//! The results of all cells are too large for the repository, so they go to a separate file.

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
use lessons::Example;

use super::result::Cell;

const OURS: &str = "leasehold";
/// The folder of the timelines, within the folder of the report.
const TIMELINES: &str = "timelines";

/// Everything that the pages are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) facts: Facts,
    /// The cells of this library, with every fault on every deployment.
    pub(crate) matrix: Vec<Cell>,
    /// The cells of the comparison: this library and others, with the same faults.
    pub(crate) compared: Vec<Cell>,
}

impl Report {
    /// Writes the pages and pictures to the folder. `timeline` returns the file with the timeline
    /// of a cell.
    pub(crate) fn write(
        &self,
        timeline: impl Fn(&Cell) -> Option<PathBuf>,
        folder: &Path,
    ) -> io::Result<()> {
        let examples = self.examples();
        // An earlier report may have had pages or pictures that this one does not overwrite.
        for old in [folder.join(TIMELINES), folder.to_owned()] {
            remove_files(&old)?;
        }
        fs::create_dir_all(folder.join(TIMELINES))?;
        for Example { lesson, cell } in &examples {
            let from = timeline(cell).filter(|picture| picture.is_file());
            let missing = || format!("the timeline of {} is missing", cell_name(cell));
            let from = from.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing()))?;
            fs::copy(from, folder.join(lesson.picture()))?;
        }
        for (name, text) in pages::all(self, &examples) {
            fs::write(folder.join(name), text)?;
        }
        for deployment in self.deployments() {
            let cells: Vec<_> = self
                .matrix
                .iter()
                .filter(|cell| cell.deployment == deployment)
                .collect();
            fs::write(
                folder.join(plot_file(deployment)),
                plots::recovery(deployment, &cells),
            )?;
        }
        Ok(())
    }

    /// The whole report as JSON. Each cell is one line, so that a diff shows which cells changed.
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

    fn examples(&self) -> Vec<Example<'_>> {
        let cells: Vec<_> = self.matrix.iter().chain(&self.compared).collect();
        lessons::choose(&cells)
    }
}

/// Removes the pages and pictures of a report. Subfolders and other files stay.
fn remove_files(folder: &Path) -> io::Result<()> {
    let Ok(files) = fs::read_dir(folder) else {
        return Ok(());
    };
    for file in files {
        let path = file?.path();
        let extensions = ["md", "svg"];
        if path
            .extension()
            .is_some_and(|extension| extensions.iter().any(|one| extension == *one))
        {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The file with the timeline of a cell, within the folder of its run.
pub(crate) fn timeline_file(cell: &Cell) -> PathBuf {
    format!("{}.svg", file_name(&cell.workload)).into()
}

/// The file with the plot of a deployment's recovery times, within the folder of the report.
fn plot_file(deployment: &str) -> String {
    format!("{}.svg", file_name(deployment))
}

fn is_peer(cell: &Cell) -> bool {
    cell.library != OURS
}

/// Turns a name into a file name. Characters that are special in a file system, a link or a page
/// are replaced.
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

fn cell_name(cell: &Cell) -> String {
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

/// The command that repeats the run of a cell.
fn repeat_command(cell: &Cell) -> String {
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
    // With another seed, only the workloads whose fault had met no holder were repeated.
    let workload = if cell.again > 0 {
        format!(" --workload {}", cell.workload)
    } else {
        String::new()
    };
    format!(
        "cargo run --release -p leasehold-faults --{library} --deployment {deployment} --fault \
         {fault}{workload} --seconds {seconds} --seed {seed}"
    )
}

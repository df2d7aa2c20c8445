//! The published report: pages for people, `results.json` for programs, pictures for both.
//!
//! A picture of a cell is drawn when the cell has run (`timeline::draw`), and lies at `picture_of`. All else is
//! written at the end from the cells and the facts, or later again from `results.json` alone.

pub(crate) mod facts;
mod markdown;
mod pages;
mod plots;
mod svg;
pub(crate) mod timeline;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

pub(crate) use facts::Facts;

use super::result::Cell;

const OURS: &str = "leasehold";
const RESULTS: &str = "results.json";

/// Writes all but the pictures of the cells, which must be there.
pub(crate) fn write(cells: &[Cell], facts: &Facts, folder: &Path) -> io::Result<()> {
    refuse_shared_pictures(cells, facts)?;
    fs::create_dir_all(folder)?;
    for (name, text) in pages::all(cells, facts) {
        fs::write(folder.join(name), text)?;
    }
    fs::write(folder.join("recovery.svg"), plots::recovery(cells))?;
    if let Some(names) = &facts.names {
        fs::write(folder.join("names.svg"), plots::names(names))?;
    }
    fs::write(folder.join(RESULTS), to_json(cells, facts)?)?;
    refuse_dead_links(cells, facts, folder)
}

/// Writes the report again from the `results.json` of the folder.
pub(crate) fn from_json(folder: &Path) -> io::Result<()> {
    let Results { facts, cells } = read(&folder.join(RESULTS))?;
    write(&cells, &facts, folder)
}

/// Where the timeline of a cell lies, within the folder of the report.
pub(crate) fn picture_of(cell: &Cell) -> PathBuf {
    let [library, deployment, fault, workload] =
        [&cell.library, &cell.deployment, &cell.fault, &cell.workload].map(|name| file_name(name));
    if !is_peer(cell) {
        return [deployment, fault, format!("{workload}.svg")].iter().collect();
    }
    let mut name = fault;
    for (part, usual) in [(workload, "plain"), (deployment, "single")] {
        if part != usual {
            name = format!("{name}-{part}");
        }
    }
    ["peers".to_owned(), library, format!("{name}.svg")].iter().collect()
}

fn is_peer(cell: &Cell) -> bool {
    cell.library != OURS
}

/// A name as the name of a file: what might mean something to a system, a link or a page is replaced.
fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let name: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if name.trim_matches('.').is_empty() { "_".to_owned() } else { name }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Results {
    facts: Facts,
    cells: Vec<Cell>,
}

/// One cell a line: a changed cell is a changed line.
fn to_json(cells: &[Cell], facts: &Facts) -> serde_json::Result<String> {
    let facts = serde_json::to_string_pretty(facts)?;
    let cells = cells.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("{{\"facts\": {facts},\n\"cells\": [\n{}\n]}}\n", cells.join(",\n")))
}

fn read(path: &Path) -> io::Result<Results> {
    Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
}

fn refuse_shared_pictures(cells: &[Cell], facts: &Facts) -> io::Result<()> {
    let mut seen = BTreeMap::new();
    for cell in cells.iter().chain(&facts.long) {
        let picture = picture_of(cell);
        if let Some(other) = seen.insert(picture.clone(), name_of(cell)) {
            let (picture, cell) = (picture.display(), name_of(cell));
            return Err(io::Error::other(format!("{other} and {cell} share {picture}")));
        }
    }
    Ok(())
}

fn refuse_dead_links(cells: &[Cell], facts: &Facts, folder: &Path) -> io::Result<()> {
    let pictures: BTreeSet<_> = cells.iter().chain(&facts.long).map(picture_of).collect();
    let missing = pictures.iter().filter(|picture| !folder.join(picture).is_file());
    let missing: Vec<_> = missing.map(|picture| picture.display().to_string()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("pages show what was not drawn: {missing}"),
    ))
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
    let Cell { library, deployment, fault, workload, .. } = cell;
    let deployment = deployment_name(deployment);
    format!("{library}, {workload} under {fault}, {deployment}")
}

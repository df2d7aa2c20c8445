//! Checks of the patches that need no build.

use std::path::Path;

use crate::copy::apply;
use crate::patch::{Patch, Test};
use crate::table;
use crate::words::{is_written, visit};

/// Prints what is wrong with the patches. True if nothing is.
pub(crate) fn check(root: &Path, patches: &[Patch]) -> bool {
    let mut wrong: Vec<_> = patches
        .iter()
        .flat_map(|patch| faults(root, patch))
        .collect();
    wrong.extend(sources_that_name_faults(root));
    match table::is_current(root, patches) {
        Ok(true) => {}
        Ok(false) => wrong.push(format!("{} is not up to date", table::PAGE)),
        Err(fault) => wrong.push(fault),
    }
    for fault in &wrong {
        println!("{fault}");
    }
    println!("{} patches, {} problems", patches.len(), wrong.len());
    wrong.is_empty()
}

/// What is wrong with one patch.
fn faults(root: &Path, patch: &Patch) -> Vec<String> {
    let mut faults = Vec::new();
    let name = &patch.name;
    if let Err(fault) = apply(root, &patch.path, &["--check"]) {
        faults.push(format!("{name} does not apply: {fault}"));
    }
    let folders = ["src/", "transport/src/", "admin/src/"];
    let is_ours = |file: &String| folders.iter().any(|folder| file.starts_with(folder));
    if patch.files.is_empty() || !patch.files.iter().all(is_ours) {
        faults.push(format!(
            "{name}: a fault must be in src, transport/src or admin/src"
        ));
    }
    if !is_written(
        &root.join(patch.test.place.folder()),
        last_name(&patch.test),
    ) {
        faults.push(format!(
            "{name}: no test {} in {}",
            patch.test.name,
            patch.test.place.name()
        ));
    }
    if let Some(run) = &patch.fault_run {
        faults.extend(
            run.faults(root)
                .into_iter()
                .map(|fault| format!("{name}: {fault}")),
        );
    }
    faults
}

/// Packaged sources that mention faults. There must be none, because faults exist only as patches.
fn sources_that_name_faults(root: &Path) -> Vec<String> {
    let mut sources = Vec::new();
    for folder in [
        "src",
        "transport/src",
        "admin/src",
        "engine/src",
        "examples",
        "testbed/src",
    ] {
        visit(&root.join(folder), &mut |path, text| {
            if text.to_lowercase().contains("mutant") {
                sources.push(format!("{} mentions mutants", path.display()));
            }
            false
        });
    }
    sources
}

/// The name of the test's function.
fn last_name(test: &Test) -> &str {
    test.name.rsplit("::").next().unwrap_or_default()
}

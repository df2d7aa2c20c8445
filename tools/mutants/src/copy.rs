//! The copy that faults are put into.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::patch::Patch;
use crate::{Result, output};

pub(crate) struct Copy {
    root: PathBuf,
    pub(crate) tree: PathBuf,
    /// Where it is, what is built of it, and the output of its tests.
    pub(crate) place: PathBuf,
}

impl Copy {
    /// A copy of what is there now, committed or not. Files that are as they were keep their times, so
    /// that nothing is built again for them.
    pub(crate) fn make(root: &Path) -> Result<Self> {
        let place = root.join("target/mutants");
        let copy = Copy {
            root: root.into(),
            tree: place.join("tree"),
            place,
        };
        let wanted = copy.files()?;
        for file in &wanted {
            copy.renew(file)?;
        }
        let wanted: HashSet<_> = wanted.into_iter().collect();
        clear(&copy.tree, Path::new(""), &wanted)?;
        Ok(copy)
    }

    /// Files of the repository that are not ignored, and the versions that it was built with.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let list = [
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ];
        let listed = output(Command::new("git").args(list).current_dir(&self.root))?;
        let listed = listed.split_terminator('\0').chain(["Cargo.lock"]);
        let mut files: Vec<_> = listed.map(PathBuf::from).collect();
        files.retain(|file| self.root.join(file).is_file());
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Makes a file what it is in the repository.
    fn renew(&self, file: &Path) -> Result<()> {
        let (from, to) = (self.root.join(file), self.tree.join(file));
        let told = |error: std::io::Error| format!("{}: {error}", to.display());
        let right = fs::read(&from).map_err(told)?;
        if fs::read(&to).is_ok_and(|there| there == right) {
            return Ok(());
        }
        fs::create_dir_all(to.parent().expect("it is in the tree")).map_err(told)?;
        // Not its time: what was built of another text is older than this.
        fs::copy(&from, &to).map_err(told)?;
        fs::File::open(&to)
            .and_then(|file| file.set_modified(std::time::SystemTime::now()))
            .map_err(told)
    }

    /// Puts a fault in.
    pub(crate) fn apply(&self, patch: &Patch) -> Result<()> {
        apply(&self.tree, &patch.path, &[])
    }

    /// Takes it out again.
    pub(crate) fn restore(&self, patch: &Patch) -> Result<()> {
        patch
            .files
            .iter()
            .try_for_each(|file| self.renew(Path::new(file)))
    }

    /// Dependencies that the repository itself was built with need not be built again. What is built of
    /// this crate is never taken from there, nor ever put there.
    pub(crate) fn seed(&self, target: &Path, from: &str) -> Result<()> {
        let built = std::env::var_os("CARGO_TARGET_DIR");
        let built = built.map_or_else(|| self.root.join("target"), PathBuf::from);
        let (from, to) = (built.join(from), target.join("debug"));
        if to.exists() || !from.exists() {
            return Ok(());
        }
        let own = self.programs()?;
        for part in ["deps", "build", ".fingerprint"] {
            for entry in entries(&from.join(part)).unwrap_or_default() {
                let file = entry.file_name().unwrap_or_default();
                let name = file.to_string_lossy();
                let (name, _) = name.split_once('-').unwrap_or((&name, ""));
                let name = name.strip_prefix("lib").unwrap_or(name);
                if !name.starts_with("leasehold") && !own.contains(name) {
                    copy_all(&entry, &to.join(part).join(file))?;
                }
            }
        }
        Ok(())
    }

    /// What the tests and the examples are called where they are built. The packages begin with `leasehold`.
    fn programs(&self) -> Result<HashSet<String>> {
        let mut names = HashSet::from(["bench", "fault_run", "short", "limits"].map(String::from));
        for folder in ["tests", "examples"] {
            let stems = entries(&self.root.join(folder))?;
            names.extend(
                stems
                    .iter()
                    .filter_map(|path| Some(path.file_stem()?.to_str()?.into())),
            );
        }
        Ok(names)
    }
}

/// Applies a patch to a tree; with `--check` it is only tried.
pub(crate) fn apply(tree: &Path, patch: &Path, options: &[&str]) -> Result<()> {
    let mut git = Command::new("git");
    // The lines around it may have changed a little since.
    git.args(["apply", "-C1", "--recount", "--whitespace=nowarn"])
        .args(options);
    // The copy is no repository, and the one around it is not to be looked for.
    git.arg(patch)
        .current_dir(tree)
        .env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree));
    output(&mut git).map(drop)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = folder.read_dir().map_err(told)?;
    entries
        .map(|entry| Ok(entry.map_err(told)?.path()))
        .collect()
}

/// Removes what is not wanted any more.
fn clear(tree: &Path, folder: &Path, wanted: &HashSet<PathBuf>) -> Result<()> {
    for entry in entries(&tree.join(folder))? {
        let told = |error: std::io::Error| format!("{}: {error}", entry.display());
        let file = folder.join(entry.file_name().unwrap_or_default());
        if entry.is_dir() {
            // Cargo's own, if it is called there without our options.
            if file != Path::new("target") {
                clear(tree, &file, wanted)?;
            }
        } else if !wanted.contains(&file) {
            fs::remove_file(&entry).map_err(told)?;
        }
    }
    Ok(())
}

/// With its times: what is built of what stays newer than it.
fn copy_all(from: &Path, to: &Path) -> Result<()> {
    let told = |error: std::io::Error| format!("{}: {error}", to.display());
    if from.is_dir() {
        fs::create_dir_all(to).map_err(told)?;
        return entries(from)?.iter().try_for_each(|entry| {
            copy_all(entry, &to.join(entry.file_name().unwrap_or_default()))
        });
    }
    fs::create_dir_all(to.parent().unwrap_or(to)).map_err(told)?;
    let time = fs::metadata(from)
        .and_then(|metadata| metadata.modified())
        .map_err(told)?;
    fs::copy(from, to).map_err(told)?;
    fs::File::open(to)
        .and_then(|file| file.set_modified(time))
        .map_err(told)
}

//! The copy of the repository to which faults are applied.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::patch::Patch;
use crate::{Result, git, output};

pub(crate) struct Copy {
    root: PathBuf,
    pub(crate) tree: PathBuf,
    /// The folder of the copy, of its builds, and of the output of its tests.
    pub(crate) place: PathBuf,
}

impl Copy {
    /// Copies the present files, committed or not. Unchanged files keep their times, so that cargo
    /// does not build them again.
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

    /// The files of the repository that git does not ignore, and `Cargo.lock`.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let list = [
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ];
        let listed = git(&self.root, &list)?;
        let listed = listed.split_terminator('\0').chain(["Cargo.lock"]);
        let mut files: Vec<_> = listed.map(PathBuf::from).collect();
        files.retain(|file| self.root.join(file).is_file());
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Copies a file from the repository, if it differs.
    fn renew(&self, file: &Path) -> Result<()> {
        let (from, to) = (self.root.join(file), self.tree.join(file));
        let with_path = |error: std::io::Error| format!("{}: {error}", to.display());
        let right = fs::read(&from).map_err(with_path)?;
        if fs::read(&to).is_ok_and(|there| there == right) {
            return Ok(());
        }
        fs::create_dir_all(to.parent().expect("it is in the tree")).map_err(with_path)?;
        // With the present time, so that cargo notices the change.
        fs::copy(&from, &to).map_err(with_path)?;
        fs::File::open(&to)
            .and_then(|file| file.set_modified(std::time::SystemTime::now()))
            .map_err(with_path)
    }

    /// Applies a fault.
    pub(crate) fn apply(&self, patch: &Patch) -> Result<()> {
        apply(&self.tree, &patch.path, &[])
    }

    /// Reverts a fault.
    pub(crate) fn restore(&self, patch: &Patch) -> Result<()> {
        patch
            .files
            .iter()
            .try_for_each(|file| self.renew(Path::new(file)))
    }

    /// Reuses dependencies that were built for the repository itself. Builds of this crate are
    /// never taken from there, and never written there.
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

    /// The names under which tests and examples are built. Names of packages begin with
    /// `leasehold`.
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

/// Applies a patch to a tree. With `--check`, only checks that it applies.
pub(crate) fn apply(tree: &Path, patch: &Path, options: &[&str]) -> Result<()> {
    let mut git = Command::new("git");
    // The context may have changed slightly since the patch was made.
    git.args(["apply", "-C1", "--recount", "--whitespace=nowarn"])
        .args(options);
    // The copy is not a git repository, and git must not use the one that encloses it.
    git.arg(patch)
        .current_dir(tree)
        .env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree));
    output(&mut git).map(drop)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let with_path = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = folder.read_dir().map_err(with_path)?;
    entries
        .map(|entry| Ok(entry.map_err(with_path)?.path()))
        .collect()
}

/// Removes all files that are not wanted.
fn clear(tree: &Path, folder: &Path, wanted: &HashSet<PathBuf>) -> Result<()> {
    for entry in entries(&tree.join(folder))? {
        let with_path = |error: std::io::Error| format!("{}: {error}", entry.display());
        let file = folder.join(entry.file_name().unwrap_or_default());
        if entry.is_dir() {
            // Cargo makes this folder if somebody calls it in the copy without our options.
            if file != Path::new("target") {
                clear(tree, &file, wanted)?;
            }
        } else if !wanted.contains(&file) {
            fs::remove_file(&entry).map_err(with_path)?;
        }
    }
    Ok(())
}

/// Copies a folder with its times, so that builds stay newer than their sources.
fn copy_all(from: &Path, to: &Path) -> Result<()> {
    let with_path = |error: std::io::Error| format!("{}: {error}", to.display());
    if from.is_dir() {
        fs::create_dir_all(to).map_err(with_path)?;
        return entries(from)?.iter().try_for_each(|entry| {
            copy_all(entry, &to.join(entry.file_name().unwrap_or_default()))
        });
    }
    fs::create_dir_all(to.parent().unwrap_or(to)).map_err(with_path)?;
    let time = fs::metadata(from)
        .and_then(|metadata| metadata.modified())
        .map_err(with_path)?;
    fs::copy(from, to).map_err(with_path)?;
    fs::File::open(to)
        .and_then(|file| file.set_modified(time))
        .map_err(with_path)
}

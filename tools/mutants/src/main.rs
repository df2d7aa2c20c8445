//! Applies deliberate faults to a copy of this repository, one at a time, and checks that a test
//! fails.
//!
//! Each fault is a patch in `tools/mutants`. Its head describes the fault and names the test that
//! must fail (`patch.rs`). The copy is `target/mutants/tree`. Its builds stay in
//! `target/mutants/build`, so that each fault costs one build of this crate. `target/mutants/*.log`
//! contains the output of the tests.
//!
//! ```sh
//! cargo run -p leasehold-mutants -- check       # every patch applies, has its test and its row
//! cargo run -p leasehold-mutants -- compile     # the library compiles with every patch
//! cargo run -p leasehold-mutants -- all         # every fault is found
//! cargo run -p leasehold-mutants -- some 2      # this many, chosen by the hash of the commit
//! cargo run -p leasehold-mutants -- since REVISION  # those in files that have changed since then
//! cargo run -p leasehold-mutants -- one NAME..
//! cargo run -p leasehold-mutants -- fault-run [NAME..]  # by the fault run, as it is published
//! cargo run -p leasehold-mutants -- fault-run --json FILE  # and writes the table of its report
//! cargo run -p leasehold-mutants -- fault-run some 2       # chosen by the hash of the commit
//! cargo run -p leasehold-mutants -- by-specification [NAME..]  # by the history of calls alone
//! cargo run -p leasehold-mutants -- table       # writes the table of docs/dev/mutants.md
//! ```

#![expect(
    clippy::disallowed_methods,
    reason = "it waits for programs, in real time"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod check;
mod choose;
mod compile;
mod copy;
mod fault_run;
mod patch;
mod published;
mod run;
mod table;
mod trial;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use patch::Patch;

/// Errors are texts, because they are only printed.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match command(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("mutants: {fault}");
            ExitCode::from(2)
        }
    }
}

/// Runs a command of this program. True if everything is as it should be.
fn command(words: &[&str]) -> Result<bool> {
    let root = root()?;
    let patches = patch::all(&root.join("tools/mutants"))?;
    match words {
        ["check"] => Ok(check::check(&root, &patches)),
        ["compile"] => compile::compile(&root, &patches),
        ["table"] => table::write(&root, &patches).map(|()| true),
        ["all"] => trial::run(&root, &patches.iter().collect::<Vec<_>>()),
        ["some", number] => trial::run(&root, &some(&root, &patches, number)?),
        ["since", revision] => trial::run(&root, &changed(&root, &patches, revision)?),
        ["one", names @ ..] if !names.is_empty() => trial::run(&root, &named(&patches, names)?),
        ["by-specification", names @ ..] => trial::by_specification(&root, &patches, names),
        ["fault-run"] => fault_run::run(&root, &seen(&patches), None),
        ["fault-run", "--json", file] => {
            fault_run::run(&root, &seen(&patches), Some(Path::new(file)))
        }
        ["fault-run", "some", number] => {
            let seen: Vec<_> = seen(&patches).into_iter().cloned().collect();
            fault_run::run(&root, &some(&root, &seen, number)?, None)
        }
        ["fault-run", names @ ..] => fault_run::run(&root, &named(&patches, names)?, None),
        _ => Err(
            "one of: check, compile, all, some NUMBER, one NAME.., fault-run [NAME..], \
            by-specification [NAME..], table"
                .into(),
        ),
    }
}

/// The faults that the published fault run must detect.
fn seen(patches: &[Patch]) -> Vec<&Patch> {
    patches
        .iter()
        .filter(|patch| patch.fault_run.is_some())
        .collect()
}

/// This many faults, chosen by the hash of the commit.
fn some<'a>(root: &Path, patches: &'a [Patch], number: &str) -> Result<Vec<&'a Patch>> {
    let number = number.parse().map_err(|_| format!("no number: {number}"))?;
    let commit = git(root, &["rev-parse", "HEAD"])?;
    Ok(choose::some(patches, number, commit.trim()))
}

/// The faults in files that have changed since a revision. Their tests may have become blind to
/// them.
fn changed<'a>(root: &Path, patches: &'a [Patch], revision: &str) -> Result<Vec<&'a Patch>> {
    let names = git(root, &["diff", "--name-only", revision, "--"])?;
    let names: Vec<&str> = names.lines().collect();
    let has_changed = |patch: &&Patch| patch.files.iter().any(|file| names.contains(&&**file));
    Ok(patches.iter().filter(has_changed).collect())
}

fn named<'a>(patches: &'a [Patch], names: &[&str]) -> Result<Vec<&'a Patch>> {
    let find = |name: &&str| {
        let found = patches.iter().find(|patch| patch.name == *name);
        found.ok_or_else(|| format!("no such fault: {name}"))
    };
    names.iter().map(find).collect()
}

/// The repository that this program was built from.
fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize()
        .map_err(|error| format!("{}: {error}", root.display()))
}

/// What git says about the repository.
fn git(root: &Path, words: &[&str]) -> Result<String> {
    output(Command::new("git").args(words).current_dir(root))
}

/// Runs a program and returns its output. Fails if the program fails.
fn output(command: &mut Command) -> Result<String> {
    let ran = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if !ran.status.success() {
        return Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&ran.stderr).trim()
        ));
    }
    String::from_utf8(ran.stdout).map_err(|error| format!("{command:?}: {error}"))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

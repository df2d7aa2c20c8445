//! Some runs of the matrix of `docs/faults`, chosen by a seed, with all that is published but their number: the short
//! form of the published run.

use std::process::Command;

use crate::support::server::is_missing;
use crate::testbed::{note, size, turn};

#[test]
fn some_runs_of_the_matrix_have_no_violations() {
    if is_missing() {
        return;
    }
    let _turn = turn();
    let (runs, seed) = (
        size("LEASEHOLD_FAULT_RUNS", 5),
        size("LEASEHOLD_SEED", of_the_commit()),
    );
    let out = std::env::temp_dir().join(format!("leasehold-cells-{}", std::process::id()));
    let run = Command::new(env!("CARGO_BIN_EXE_leasehold-faults"))
        .args(["matrix", "--sample", &runs.to_string(), "--parallel", "2"])
        .args(["--seed", &seed.to_string()])
        .arg("--out")
        .arg(&out)
        .output()
        .expect("the program runs");
    let told = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    note(&told.concat());
    assert!(run.status.success(), "{}: {}", out.display(), told.concat());
    std::fs::remove_dir_all(&out).expect("it is there");
}

/// The first digits of the commit: other runs for the next one, and the same for who looks at this one again.
fn of_the_commit() -> usize {
    let commit = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let commit = commit.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let digits = commit
        .unwrap_or_default()
        .chars()
        .take(7)
        .collect::<String>();
    usize::from_str_radix(&digits, 16).unwrap_or(1)
}

//! A short form of the published fault run. It differs from the published run only in the number of
//! runs.
//!
//! | variable | default | what |
//! | --- | --- | --- |
//! | `LEASEHOLD_FAULT_RUNS` | 5 | runs of the matrix of `docs/dev/faults`, of half a minute each |
//! | `LEASEHOLD_NAMES` | 20000 | names that are locked and released |
//! | `LEASEHOLD_SEED` | from the commit | chooses the runs |
#![expect(clippy::panic, reason = "helpers fail the test with it")]

use std::process::Command;

use leasehold_testbed::{command, is_missing};
use parking_lot::Mutex;

/// Each test needs the machine to itself.
static TURN: Mutex<()> = Mutex::new(());

fn fault_run() -> Command {
    command(env!("CARGO_BIN_EXE_leasehold-faults"))
}

fn size(variable: &str, default: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}: not a number: {text}")),
        Err(_) => default,
    }
}

/// Runs the program. Returns whether it succeeded, and its output.
fn run(command: &mut Command) -> (bool, String) {
    let ended = command.output().expect("the program runs");
    let output =
        [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (ended.status.success(), output.concat())
}

#[test]
#[expect(clippy::print_stderr, reason = "shows the results with --nocapture")]
fn some_runs_of_the_matrix_have_no_violations() {
    if is_missing() {
        return;
    }
    let _turn = TURN.lock();
    let (runs, seed) = (
        size("LEASEHOLD_FAULT_RUNS", 5),
        size("LEASEHOLD_SEED", seed_of_the_commit()),
    );
    let out = std::env::temp_dir().join(format!("leasehold-cells-{}", std::process::id()));
    let (passed, output) = run(fault_run()
        .args(["matrix", "--sample", &runs.to_string(), "--parallel", "2"])
        .args(["--seed", &seed.to_string()])
        .arg("--out")
        .arg(&out));
    eprintln!("{output}");
    assert!(passed, "{}: {output}", out.display());
    std::fs::remove_dir_all(&out).expect("the folder exists");
}

/// A seed from the first digits of the commit. Each commit has its own runs, and always the same
/// ones.
fn seed_of_the_commit() -> usize {
    let commit = command("git").args(["rev-parse", "HEAD"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let digits: String = commit.unwrap_or_default().chars().take(7).collect();
    usize::from_str_radix(&digits, 16).unwrap_or(1)
}

/// A separate process locks the names, so that it measures no memory of other tests.
#[test]
fn names_that_were_locked_and_released_leave_nothing_behind() {
    if is_missing() {
        return;
    }
    let _turn = TURN.lock();
    let names = size("LEASEHOLD_NAMES", 20_000);
    let (passed, output) = run(fault_run()
        .args(["names", "--lease-ms", "3000", "--calm-ms", "50"])
        .args(["--names", &names.to_string()])
        .args(["--round", &(names / 20).max(1).to_string()]));
    assert!(passed, "{output}");
}

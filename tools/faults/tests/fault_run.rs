//! The short form of the published fault run, with all that is published except the number of runs.
//!
//! | variable | default | what |
//! | --- | --- | --- |
//! | `LEASEHOLD_FAULT_RUNS` | 5 | runs of the matrix of `docs/faults`, of half a minute each |
//! | `LEASEHOLD_NAMES` | 20000 | names that are locked and released |
//! | `LEASEHOLD_SEED` | the commit | chooses the runs |
#![expect(clippy::panic, reason = "a test fails by it, also in its helpers")]

use std::process::Command;

use leasehold_testbed::is_missing;
use parking_lot::Mutex;

/// Each test needs the machine to itself.
static TURN: Mutex<()> = Mutex::new(());

fn fault_run() -> Command {
    Command::new(env!("CARGO_BIN_EXE_leasehold-faults"))
}

fn size(variable: &str, default: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}: not a number: {text}")),
        Err(_) => default,
    }
}

/// Runs the program to its end: whether it succeeded, and what it printed.
fn ran(command: &mut Command) -> (bool, String) {
    let run = command.output().expect("the program runs");
    let said = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (run.status.success(), said.concat())
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "with --nocapture, the runs show what they came to"
)]
fn some_runs_of_the_matrix_have_no_violations() {
    if is_missing() {
        return;
    }
    let _turn = TURN.lock();
    let (runs, seed) = (
        size("LEASEHOLD_FAULT_RUNS", 5),
        size("LEASEHOLD_SEED", of_the_commit()),
    );
    let out = std::env::temp_dir().join(format!("leasehold-cells-{}", std::process::id()));
    let (passed, said) = ran(fault_run()
        .args(["matrix", "--sample", &runs.to_string(), "--parallel", "2"])
        .args(["--seed", &seed.to_string()])
        .arg("--out")
        .arg(&out));
    eprintln!("{said}");
    assert!(passed, "{}: {said}", out.display());
    std::fs::remove_dir_all(&out).expect("it is there");
}

/// The first digits of the commit: the next commit has other runs, and this one always the same.
fn of_the_commit() -> usize {
    let commit = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let commit = commit.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let digits: String = commit.unwrap_or_default().chars().take(7).collect();
    usize::from_str_radix(&digits, 16).unwrap_or(1)
}

/// The names are locked by a process of their own: it measures memory without that of other tests.
#[test]
fn names_that_were_locked_and_released_leave_nothing_behind() {
    if is_missing() {
        return;
    }
    let _turn = TURN.lock();
    let names = size("LEASEHOLD_NAMES", 20_000);
    let (passed, said) = ran(fault_run()
        .args(["names", "--lease-ms", "3000", "--calm-ms", "50"])
        .args(["--names", &names.to_string()])
        .args(["--round", &(names / 20).max(1).to_string()]));
    assert!(passed, "{said}");
}

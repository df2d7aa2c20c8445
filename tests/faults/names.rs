//! Very many names, each locked and released once, leave nothing behind: the short form of
//! `leasehold-faults names`, whose process measures memory without that of other tests.

use std::process::Command;

use crate::support::server::is_missing;
use crate::testbed::{size, turn};

#[test]
fn names_that_were_locked_and_released_leave_nothing_behind() {
    if is_missing() {
        return;
    }
    let _turn = turn();
    let names = size("LEASEHOLD_NAMES", 20_000);
    let run = Command::new(env!("CARGO_BIN_EXE_leasehold-faults"))
        .args([
            "names",
            "--lease-ms",
            "3000",
            "--calm-ms",
            "50",
            "--names",
            &names.to_string(),
        ])
        .args(["--round", &(names / 20).max(1).to_string()])
        .output()
        .expect("the program runs");
    let told = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(run.status.success(), "{}", told.concat());
}

//! A tick runs once in the fleet, its claim is kept, and no job runs for too long.

use std::collections::BTreeMap;

use leasehold_testbed::{Server, wait_until};

use crate::LIMIT;
use crate::process::Process;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cron");
const CLAIMS: &str = "example:cron@*:claimed";

fn start(server: &Server, times: &[(&str, u64)]) -> Process {
    let pairs = times
        .iter()
        .flat_map(|(name, time)| [(*name).to_owned(), time.to_string()]);
    let arguments: Vec<String> = pairs.collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let process = Process::start(PROGRAM, server, &arguments);
    process.says("ready");
    process
}

/// The ticks that a process has told of in lines like this.
fn ticks(process: &Process, start: &str) -> Vec<u64> {
    let lines = process.lines();
    let ticks = lines
        .iter()
        .filter_map(|line| line.text.strip_prefix(start)?.parse().ok());
    ticks.collect()
}

#[test]
fn every_tick_runs_once_although_clocks_differ() {
    let server = Server::start();
    let machine = |skew| {
        let times = [("--period", 3000), ("--at-most", 2500)];
        start(
            &server,
            &[&times[..], &[("--work", 20), ("--skew", skew)]].concat(),
        )
    };
    let fleet = [0, 60, 120, 180].map(machine);
    let ran = || {
        let mut ran = BTreeMap::<u64, usize>::new();
        for tick in fleet
            .iter()
            .flat_map(|machine| ticks(machine, "running tick "))
        {
            *ran.entry(tick).or_default() += 1;
        }
        ran
    };
    wait_until("five ticks have run", LIMIT, || ran().len() >= 5);
    let ran = ran();
    assert!(ran.values().all(|&times| times == 1), "{ran:?}");
    let (first, last) = (ran.keys().next().unwrap(), ran.keys().next_back().unwrap());
    let skipped: Vec<_> = (*first..*last)
        .filter(|tick| !ran.contains_key(tick))
        .collect();
    assert!(skipped.is_empty(), "{skipped:?} of {ran:?}");
}

#[test]
fn the_claim_is_kept_although_the_job_was_quick_and_its_process_has_ended() {
    let server = Server::start();
    let mut machine = start(&server, &[("--period", 3000), ("--at-most", 2000)]);
    machine.says("ran tick ");
    machine.signal("-TERM");
    assert!(machine.ended().success());
    let claims = server.command(&["KEYS", CLAIMS]);
    let claim = claims
        .array()
        .first()
        .expect("for those whose clock is behind")
        .text();
    assert!(server.command(&["PTTL", &claim]).int() > 1_800_000);
}

#[test]
fn a_job_that_takes_too_long_is_dropped_and_the_next_tick_runs() {
    let server = Server::start();
    let times = [("--period", 2000), ("--at-most", 400)];
    let mut machine = start(&server, &[&times[..], &[("--work", 600_000)]].concat());
    wait_until("two are dropped", LIMIT, || {
        ticks(&machine, "dropped tick ").len() == 2
    });
    machine.stop();
    assert_eq!(machine.count("ran tick "), 0);
}

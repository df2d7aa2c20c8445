//! Who leads when a leader resigns, dies, or stands still; and how long that takes.

use std::time::Duration;

use leasehold_testbed::{Server, wait_until};

use crate::LIMIT;
use crate::process::{Line, Process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_leader");
const LEASE: Duration = Duration::from_secs(3);

fn candidates(server: &Server, lease: Duration) -> Vec<Process> {
    let lease = lease.as_millis().to_string();
    let candidate = |_| Process::start(PROGRAM, server, &["--lease", &lease]);
    let candidates: Vec<_> = (0..3).map(candidate).collect();
    for candidate in &candidates {
        candidate.says("waiting");
    }
    candidates
}

fn term(line: &Line) -> u64 {
    line.text.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Who has begun to lead in a term above `after`, and when; they are taken out of the candidates.
fn leader(candidates: &mut Vec<Process>, after: u64) -> (Process, Line) {
    let begun = |candidate: &Process| {
        let lines = candidate.lines();
        lines
            .into_iter()
            .find(|line| line.text.starts_with("leading") && term(line) > after)
    };
    let mut found = None;
    wait_until("one leads", LIMIT, || {
        let leads = |at: usize| begun(&candidates[at]).map(|line| (at, line));
        found = (0..candidates.len()).find_map(leads);
        found.is_some()
    });
    let (at, line) = found.unwrap();
    (candidates.remove(at), line)
}

#[test]
fn a_leader_that_resigns_is_followed_at_once() {
    let server = Server::start();
    let mut candidates = candidates(&server, LIMIT);
    let (mut first, began) = leader(&mut candidates, 0);
    first.says("step in term");
    let told = first.signal("-TERM");
    let (_second, next) = leader(&mut candidates, term(&began));
    let vacant = next.at - told;
    println!("SIGTERM to the next leader: {vacant:?}");
    assert!(vacant < LIMIT / 3, "long before the lease ends: {vacant:?}");
    assert!(first.ended().success());
    assert_eq!(first.count("resigned from term"), 1);
    for mut other in candidates {
        other.stop();
        assert_eq!(other.count("leading"), 0, "one at a time");
    }
}

#[test]
fn a_leader_that_dies_is_followed_when_its_lease_ends() {
    let server = Server::start();
    let mut candidates = candidates(&server, LEASE);
    let (mut first, began) = leader(&mut candidates, 0);
    first.says("step in term");
    let killed = first.kill();
    let (_second, next) = leader(&mut candidates, term(&began));
    let vacant = next.at - killed;
    println!("SIGKILL to the next leader: {vacant:?}, with a lease of {LEASE:?}");
    // The waiters know how long the lease is. Only the machine makes it later.
    assert!(vacant < LEASE + Duration::from_secs(10), "{vacant:?}");
}

#[test]
fn a_stopped_leader_notices_its_loss_before_its_next_step() {
    let server = Server::start();
    let mut candidates = candidates(&server, LEASE);
    let (first, began) = leader(&mut candidates, 0);
    first.says("step in term");
    let stopped = first.signal("-STOP");
    let (_second, next) = leader(&mut candidates, term(&began));
    println!(
        "SIGSTOP to the next leader: {:?}, with a lease of {LEASE:?}",
        next.at - stopped
    );
    let before = first.lines().len();
    first.signal("-CONT");
    let deposed = first.says_after(before, "deposed from term");
    assert!(
        deposed
            .text
            .starts_with(&format!("deposed from term {}:", term(&began)))
    );
    // It may have been stopped in the middle of one.
    let steps = first.lines()[before..]
        .iter()
        .filter(|line| line.text.starts_with("step"))
        .count();
    assert!(steps <= 1, "{:#?}", first.lines());
    first.says_after(before, "waiting");
}

//! Many clients, one engine, faults, paused time: seeded worlds and the checks of their history.
//!
//! `LEASEHOLD_SEEDS` says how many seeds are run (default 1000), `LEASEHOLD_FIRST` where they begin,
//! `LEASEHOLD_SEED` runs one and prints every step, with `LEASEHOLD_MUTANT` a mutant of it.
#![expect(
    clippy::disallowed_methods,
    reason = "tests spawn tasks of their own and measure real time"
)]
#![expect(clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::large_futures, reason = "a user's whole life is one future")]
#![expect(clippy::print_stdout, reason = "results and replays are printed")]

mod actor;
mod history;
mod monitor;
mod plan;
mod run;
mod weather;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use leasehold::Mutant;

use run::run;

/// Seeds that once failed, each with what it found. They are always run.
const KEPT: &[(u64, &str)] = &[
    (11, "the order of waking depended on a hash"),
    (65, "a hold that the server had forgotten was taken for valid while its reply was on its way"),
    (774, "a take-over with a shorter lease ended behind the backs of waiting clients"),
    (1297, "two clients passed the lock to and fro while a third one starved"),
];

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number: {text}")))
}

fn replay(seed: u64, mutant: Option<Mutant>) -> String {
    let mutant = mutant.map(|mutant| format!("LEASEHOLD_MUTANT={mutant:?} ")).unwrap_or_default();
    format!(
        "replay: {mutant}LEASEHOLD_SEED={seed} cargo test --features test-util --test simulation one_seed -- --nocapture"
    )
}

fn must_hold(seed: u64) -> u64 {
    let outcome = run(seed, None);
    if let Some(violation) = outcome.violation {
        let last = outcome.trace.len().saturating_sub(40);
        panic!(
            "seed {seed}: {violation}\n{}\n{}",
            outcome.trace[last..].join("\n"),
            replay(seed, None)
        );
    }
    outcome.acquired
}

#[test]
fn one_seed() {
    let Some(seed) = number("LEASEHOLD_SEED") else {
        must_hold(1);
        return;
    };
    let named = std::env::var("LEASEHOLD_MUTANT").ok();
    let mutant = named.map(|name| {
        let known = Mutant::ALL.iter().find(|mutant| format!("{mutant:?}") == name);
        *known.unwrap_or_else(|| panic!("no such mutant: {name}"))
    });
    let outcome = run(seed, mutant);
    println!("{}", outcome.trace.join("\n"));
    assert_eq!(outcome.violation, None, "seed {seed}");
}

#[test]
fn seeds_hold() {
    let first = number("LEASEHOLD_FIRST").unwrap_or(1);
    let seeds = number("LEASEHOLD_SEEDS").unwrap_or(1000);
    let next = AtomicU64::new(first);
    let acquired = AtomicU64::new(0);
    let start = std::time::Instant::now();
    let work = || loop {
        let seed = next.fetch_add(1, SeqCst);
        if seed >= first + seeds {
            return;
        }
        acquired.fetch_add(must_hold(seed), SeqCst);
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let took = start.elapsed().as_secs_f64();
    println!("{seeds} seeds, {} acquisitions, no violation, {took:.1} s", acquired.into_inner());
}

#[test]
fn seeds_that_once_failed_hold() {
    for (seed, _) in KEPT {
        must_hold(*seed);
    }
}

#[test]
fn a_seed_gives_one_history() {
    for seed in [3, 4, 5, 6, 11, 17] {
        let (one, two) = (run(seed, None).trace, run(seed, None).trace);
        let differ = one.iter().zip(&two).position(|(one, two)| one != two);
        assert_eq!(differ, None, "seed {seed}: {:?}", differ.map(|at| (&one[at], &two[at])));
        assert_eq!(one.len(), two.len());
    }
}

/// Seeds within which every mutant must be found.
const MUTANT_SEEDS: u64 = 400;

#[test]
fn every_mutant_is_caught() {
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        let caught =
            (1..=MUTANT_SEEDS).find_map(|seed| Some((seed, run(seed, Some(*mutant)).violation?)));
        match caught {
            Some((seed, violation)) => println!("{mutant:?}: caught by seed {seed}: {violation}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not caught within {MUTANT_SEEDS} seeds: {missed:?}");
}

//! Semaphores, latches and locks of several: seeded worlds of their own.
//!
//! `LEASEHOLD_SEEDS` says how many seeds are run (default 400), `LEASEHOLD_FIRST` where they begin.
//! `LEASEHOLD_SEED` replays one, with `LEASEHOLD_MUTANT` a mutant of it. Seeds go round the sorts:
//! semaphore, permits, latch, several locks, quorum.

mod book;
mod latch;
mod log;
mod multi;
mod permits;
mod plan;
mod player;
mod quorum;
mod totals;
mod user_of_permits;
mod weather;
mod world;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use leasehold::Mutant;

use crate::number;
use plan::{SORTS, Sort};
use world::run;

/// Which mutants which sort must find.
const MUTANTS: &[(Sort, &[Mutant])] = &[
    (
        Sort::Semaphore,
        &[
            Mutant::DeadHoldersKept,
            Mutant::GivenBackTwice,
            Mutant::RepeatIsFresh,
            Mutant::RepliesNotKept,
            Mutant::CancelNotUndone,
            Mutant::UnknownForgotten,
            Mutant::DropForgotten,
            Mutant::NoTimer,
            Mutant::FrontStranded,
        ],
    ),
    (
        Sort::Permits,
        &[
            Mutant::PurgeOne,
            Mutant::RenewalResurrects,
            Mutant::RepeatIsFresh,
            Mutant::RepliesNotKept,
            Mutant::CancelNotUndone,
            Mutant::UnknownForgotten,
            Mutant::DeadlineFromReply,
            Mutant::DropForgotten,
        ],
    ),
    (
        Sort::Latch,
        &[
            Mutant::RepliesNotKept,
            Mutant::MessageIsOpen,
            Mutant::LagIgnored,
            Mutant::NoTimer,
            Mutant::FrontStranded,
        ],
    ),
    (
        Sort::Multi,
        &[
            Mutant::RollbackForgetsFirst,
            Mutant::GivenOrder,
            Mutant::CancelNotUndone,
            Mutant::UnknownIsGranted,
            Mutant::DropForgotten,
        ],
    ),
    (
        Sort::Quorum,
        &[
            Mutant::MinorityIsEnough,
            Mutant::LastDeadline,
            Mutant::DriftIgnored,
            Mutant::RollbackForgetsFirst,
            Mutant::CancelNotUndone,
            Mutant::UnknownForgotten,
        ],
    ),
];

/// Mutants that worlds of plain locks cannot find.
pub(crate) fn own_mutants() -> Vec<Mutant> {
    let first = Mutant::ALL.iter().position(|mutant| *mutant == Mutant::DeadHoldersKept);
    let last = Mutant::ALL.iter().position(|mutant| *mutant == Mutant::DriftIgnored);
    let (first, last) = first.zip(last).expect("both are listed");
    Mutant::ALL[first..=last].to_vec()
}

fn replay_line(seed: u64, mutant: Option<Mutant>) -> String {
    let mutant = mutant.map(|mutant| format!("LEASEHOLD_MUTANT={mutant:?} ")).unwrap_or_default();
    format!(
        "replay: {mutant}LEASEHOLD_SEED={seed} cargo test --features test-util --test simulation synchronizers::replay -- --nocapture"
    )
}

/// Every violation within these seeds, and how many acquisitions there were.
fn survey(seeds: std::ops::Range<u64>) -> (Vec<String>, u64) {
    let next = AtomicU64::new(seeds.start);
    let acquired = AtomicU64::new(0);
    let work = || {
        let mut violations = Vec::new();
        loop {
            let seed = next.fetch_add(1, SeqCst);
            if seed >= seeds.end {
                return violations;
            }
            let outcome = run(seed, None);
            acquired.fetch_add(outcome.acquired, SeqCst);
            if let Some(violation) = outcome.violation {
                let sort = SORTS[usize::try_from(seed % 5).expect("small")];
                let line = replay_line(seed, None);
                violations.push(format!("seed {seed} ({sort:?}): {violation}\n{line}"));
            }
        }
    };
    let violations = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<String>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    });
    (violations, acquired.into_inner())
}

#[test]
fn replay() {
    let seed = number("LEASEHOLD_SEED").unwrap_or(1);
    let outcome = run(seed, crate::mutant_named());
    println!("{}", outcome.trace.join("\n"));
    assert_eq!(outcome.violation, None, "seed {seed}");
}

#[test]
fn seeds_hold() {
    let first = number("LEASEHOLD_FIRST").unwrap_or(1);
    let seeds = number("LEASEHOLD_SEEDS").unwrap_or(400);
    let start = std::time::Instant::now();
    let (violations, acquired) = survey(first..first + seeds);
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
    let took = start.elapsed().as_secs_f64();
    println!("{seeds} seeds, {acquired} acquisitions, no violation, {took:.1} s");
}

#[test]
fn a_seed_gives_one_history() {
    // Every sort under every sky.
    for seed in 25..50 {
        let (one, two) = (run(seed, None).trace, run(seed, None).trace);
        let differ = one.iter().zip(&two).position(|(one, two)| one != two);
        assert_eq!(differ, None, "seed {seed}: {:?}", differ.map(|at| (&one[at], &two[at])));
        assert_eq!(one.len(), two.len());
    }
}

/// Seeds of a sort within which each of its mutants must be found.
const MUTANT_SEEDS: u64 = 60;

#[test]
fn every_mutant_is_caught() {
    let mut missed = Vec::new();
    for (sort, mutants) in MUTANTS {
        let first = SORTS.iter().position(|other| other == sort).expect("one of them") as u64;
        for mutant in *mutants {
            let seeds = (0..MUTANT_SEEDS).map(|number| number * SORTS.len() as u64 + first);
            let mut caught = seeds.map(|seed| (seed, run(seed, Some(*mutant)).violation));
            match caught.find_map(|(seed, violation)| Some((seed, violation?))) {
                Some((seed, violation)) => {
                    println!("{sort:?} {mutant:?}: caught by seed {seed}: {violation}");
                }
                None => missed.push((sort, mutant)),
            }
        }
    }
    assert!(missed.is_empty(), "not caught within {MUTANT_SEEDS} seeds: {missed:?}");
}

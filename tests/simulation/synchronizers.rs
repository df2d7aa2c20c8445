//! Semaphores, latches and locks of several: seeded worlds of their own.
//!
//! `LEASEHOLD_SEEDS` says how many seeds are run (default 400), `LEASEHOLD_FIRST` where they begin.
//! `LEASEHOLD_SEED` replays one. Seeds go round the sorts:
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

use crate::number;
use plan::SORTS;
use world::run;

fn replay_line(seed: u64) -> String {
    format!(
        "replay: LEASEHOLD_SEED={seed} cargo test --features test-util --test simulation synchronizers::replay -- --nocapture"
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
            let outcome = run(seed);
            acquired.fetch_add(outcome.acquired, SeqCst);
            if let Some(violation) = outcome.violation {
                let sort = SORTS[usize::try_from(seed % 5).expect("small")];
                let line = replay_line(seed);
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
    let outcome = run(seed);
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
        let (one, two) = (run(seed).trace, run(seed).trace);
        let differ = one.iter().zip(&two).position(|(one, two)| one != two);
        assert_eq!(differ, None, "seed {seed}: {:?}", differ.map(|at| (&one[at], &two[at])));
        assert_eq!(one.len(), two.len());
    }
}

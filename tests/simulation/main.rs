//! Many clients, one engine, faults, paused time: seeded worlds and the checks of their history.
//!
//! `LEASEHOLD_SEEDS` says how many seeds are run (default 1000), `LEASEHOLD_FIRST` where they begin,
//! `LEASEHOLD_SEED` runs one and prints every step.
//! `LEASEHOLD_KIND` names one kind of lock (`kind.rs`); without it each seed has its own.
//! With `LEASEHOLD_BYTES=1` that one seed is run over byte streams (`way.rs`).
#![expect(
    clippy::disallowed_methods,
    reason = "tests spawn tasks of their own and measure real time"
)]
#![expect(clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "results and replays are printed")]

mod actor;
mod cases;
mod dog;
mod history;
mod kind;
mod line;
mod monitor;
mod plan;
mod rare;
mod run;
mod seen;
mod stalls;
mod synchronizers;
mod target;
mod way;
mod weather;
mod wild;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use kind::Kind;
use plan::Cast;
use run::run;
use way::Way;

/// Seeds that found a fault, each with what it was. They are always run. What a seed means changes
/// with `plan.rs`; the faults themselves are kept as mutants, which must be found for ever.
const KEPT: &[(Kind, u64, &str)] = &[
    (
        Kind::Plain,
        774,
        "a take-over with a shorter lease ended behind the backs of waiting clients",
    ),
    (Kind::Plain, 1297, "two clients passed the lock to and fro while a third one starved"),
    (Kind::Fenced, 7, "each hand-over by a call began a new streak: other clients starved"),
    (Kind::Fenced, 220, "a re-entry confirmed after the lease had ended gave out a lost guard"),
    (Kind::ReadWrite, 8, "a reader that prefers writers stood in the way of one that does not"),
    (Kind::ReadWrite, 1665, "a nested read waited behind readers that waited for its write hold"),
    (Kind::ReadWrite, 21, "lock() gave up at the first lost reply of a nested read"),
];

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number: {text}")))
}

/// The kind that was chosen, or that of the seed.
fn kind_of(seed: u64) -> Kind {
    match std::env::var("LEASEHOLD_KIND") {
        Ok(name) => Kind::named(&name).unwrap_or_else(|| panic!("no such kind: {name}")),
        Err(_) => Kind::of(seed),
    }
}

fn replay(kind: Kind, seed: u64, cast: Cast, way: Way) -> String {
    let bytes = if way == Way::Bytes { "LEASEHOLD_BYTES=1 " } else { "" };
    let wild = if cast == Cast::Wild { "LEASEHOLD_WILD=1 " } else { "" };
    format!(
        "replay: {bytes}{wild}LEASEHOLD_KIND={kind} LEASEHOLD_SEED={seed} cargo test --features test-util --test simulation one_seed -- --nocapture"
    )
}

fn must_hold(kind: Kind, seed: u64, cast: Cast, way: Way) -> u64 {
    let outcome = run(kind, seed, cast, way);
    if let Some(violation) = outcome.violation {
        let last = outcome.trace.len().saturating_sub(40);
        let steps = outcome.trace[last..].join("\n");
        panic!("{kind}, seed {seed}: {violation}\n{steps}\n{}", replay(kind, seed, cast, way));
    }
    outcome.acquired
}

#[test]
fn one_seed() {
    let seed = number("LEASEHOLD_SEED").unwrap_or(1);
    let wild = number("LEASEHOLD_WILD").is_some_and(|wild| wild > 0);
    let cast = if wild { Cast::Wild } else { Cast::Usual };
    let bytes = number("LEASEHOLD_BYTES").is_some_and(|bytes| bytes > 0);
    let way = if bytes { Way::Bytes } else { Way::Calls };
    let outcome = run(kind_of(seed), seed, cast, way);
    println!("{}", outcome.trace.join("\n"));
    assert_eq!(outcome.violation, None, "{}, seed {seed}", kind_of(seed));
}

#[test]
fn seeds_hold() {
    survey(number("LEASEHOLD_SEEDS").unwrap_or(600), Cast::Usual, Way::Calls);
}

#[test]
fn wild_seeds_hold() {
    survey(number("LEASEHOLD_SEEDS").unwrap_or(300), Cast::Wild, Way::Calls);
}

#[test]
fn seeds_hold_over_bytes() {
    survey(number("LEASEHOLD_SEEDS").unwrap_or(300), Cast::Usual, Way::Bytes);
}

#[test]
fn wild_seeds_hold_over_bytes() {
    survey(number("LEASEHOLD_SEEDS").unwrap_or(150), Cast::Wild, Way::Bytes);
}

fn survey(seeds: u64, cast: Cast, way: Way) {
    let first = number("LEASEHOLD_FIRST").unwrap_or(1);
    let next = AtomicU64::new(first);
    let acquired = AtomicU64::new(0);
    let start = std::time::Instant::now();
    let work = || loop {
        let seed = next.fetch_add(1, SeqCst);
        if seed >= first + seeds {
            return;
        }
        acquired.fetch_add(must_hold(kind_of(seed), seed, cast, way), SeqCst);
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
    for (kind, seed, _) in KEPT {
        must_hold(*kind, *seed, Cast::Usual, Way::Calls);
    }
}

#[test]
fn a_seed_gives_one_history() {
    let seeds = [3, 4, 5, 6, 9, 11];
    let runs = seeds.map(|seed| [(seed, Way::Calls), (seed, Way::Bytes)]);
    for kind in Kind::ALL {
        for (seed, way) in runs.into_iter().flatten() {
            let cast = if seed < 6 { Cast::Usual } else { Cast::Wild };
            let trace = || {
                let trace = run(kind, seed, cast, way).trace;
                trace.iter().map(|step| way::nameless(step)).collect::<Vec<_>>()
            };
            let (one, two) = (trace(), trace());
            let differ = one.iter().zip(&two).position(|(one, two)| one != two);
            let steps = differ.map(|at| (&one[at], &two[at]));
            assert_eq!(differ, None, "{kind}, seed {seed}, {way:?}: {steps:?}");
            assert_eq!(one.len(), two.len());
        }
    }
}

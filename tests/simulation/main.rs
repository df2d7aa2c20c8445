//! Many clients, one or several engines, faults, paused time: seeded worlds whose histories are
//! checked. A *plan* is drawn from the seed (`plan.rs`), the *weather* is what goes wrong in a
//! *world*, and each kind is a *workload*: what its users do and what is checked.
//!
//! `LEASEHOLD_SEEDS` is the number of seeds, `LEASEHOLD_FIRST` the first one. `LEASEHOLD_SEED` is
//! the one that `one_seed` runs, printing every step. `LEASEHOLD_KIND` names one kind (`kind.rs`);
//! without it each seed has its own. With `LEASEHOLD_WILD=1` that one seed has wild users, if it is
//! a seed of a lock.
#![expect(
    clippy::disallowed_methods,
    reason = "tests spawn tasks of their own and measure real time"
)]
#![expect(clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "results and replays are printed")]

mod cases;
mod connection;
mod frozen;
mod kind;
mod lasting;
mod latch;
mod ledger;
mod limits;
mod locks;
mod multi;
mod plan;
mod quorum;
mod run;
mod scenes;
mod semaphore;
mod threads;
mod user;
mod watchdog;
mod weather;
mod workload;
mod world;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use leasehold_specification::trace::coverage;

use kind::{Cast, Kind};
use run::run;

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    pub(crate) cast: Cast,
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, seed {}, {:?}", self.kind, self.number, self.cast)
    }
}

impl Seed {
    /// Of the chosen kind, or of the kind that belongs to the number.
    fn new(number: u64, cast: Cast) -> Self {
        let kind = match std::env::var("LEASEHOLD_KIND") {
            Ok(name) => Kind::named(&name).unwrap_or_else(|| panic!("no such kind: {name}")),
            Err(_) => Kind::of(number, cast),
        };
        Seed { kind, number, cast }
    }

    /// How to run it again.
    pub(crate) fn replay(self) -> String {
        let wild = if self.cast == Cast::Wild {
            "LEASEHOLD_WILD=1 "
        } else {
            ""
        };
        let Seed { kind, number, .. } = self;
        format!(
            "replay: {wild}LEASEHOLD_KIND={kind} LEASEHOLD_SEED={number} cargo test --features \
             test-util --test simulation one_seed -- --nocapture"
        )
    }

    /// Fails if anything is found. Returns the number of acquisitions.
    fn must_hold(self) -> u64 {
        let outcome = run(self);
        if let Some(violation) = outcome.violation {
            let last = outcome.trace.len().saturating_sub(40);
            let steps = outcome.trace[last..].join("\n");
            panic!("{self}: {violation}\n{steps}\n{}", self.replay());
        }
        outcome.acquired
    }
}

/// Seeds that once found a fault, each with a description. They are always run. Changes of the
/// draws in `plan.rs` change what a seed means; scenes that must not change are in `cases.rs`.
const KEPT: &[(Kind, u64, &str)] = &[
    (
        Kind::Plain,
        1297,
        "two clients passed the lock to and fro while a third one starved",
    ),
    (
        Kind::Fenced,
        7,
        "each hand-over by a call began a new streak: other clients starved",
    ),
    (
        Kind::Fenced,
        220,
        "a re-entry confirmed after the lease had ended gave out a lost guard",
    ),
    (
        Kind::ReadWrite,
        1665,
        "a nested read waited behind readers that waited for its write hold",
    ),
    (
        Kind::ReadWrite,
        21,
        "lock() gave up at the first lost reply of a nested read",
    ),
];

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} must be a number: {text}")),
    )
}

fn is_set(variable: &str) -> bool {
    number(variable).is_some_and(|number| number > 0)
}

#[test]
fn one_seed() {
    let cast = if is_set("LEASEHOLD_WILD") {
        Cast::Wild
    } else {
        Cast::Usual
    };
    let seed = Seed::new(number("LEASEHOLD_SEED").unwrap_or(1), cast);
    let outcome = run(seed);
    println!("{}", outcome.trace.join("\n"));
    assert_eq!(outcome.violation, None, "{seed}");
}

#[test]
fn seeds_hold() {
    survey(number("LEASEHOLD_SEEDS").unwrap_or(650), Cast::Usual);
}

#[test]
fn wild_seeds_hold() {
    survey(number("LEASEHOLD_SEEDS").unwrap_or(300), Cast::Wild);
}

/// Deliberate faults of the protocol must be found by this alone (`docs/dev/specification.md`).
#[test]
fn the_specification_allows_what_clients_did() {
    let mut walked = BTreeSet::new();
    for number in 1..=number("LEASEHOLD_SEEDS").unwrap_or(200) {
        for cast in [Cast::Usual, Cast::Wild] {
            let seed = Seed::new(number, cast);
            let mut outcome = run(seed);
            assert_eq!(outcome.disallowed, None, "{seed}");
            walked.append(&mut outcome.walked);
        }
    }
    let missing = coverage::of_the_model();
    let missing: BTreeSet<_> = missing.difference(&walked).collect();
    let missing: Vec<String> = missing
        .iter()
        .filter(|(before, after)| {
            ![before, after]
                .iter()
                .any(|moment| *moment == NOT_ON_ONE_THREAD)
        })
        .map(|(before, after)| format!("{before}, then {after}"))
        .filter(|transition| !WALKED_ELSEWHERE.contains(&transition.as_str()))
        .collect();
    assert_eq!(missing, [""; 0], "no world walks these");
}

/// Only a thread that collects renewals while another one releases can send one so late.
const NOT_ON_ONE_THREAD: &str = "sends a renewal while it leaves";
/// By a thousand worlds, by `scenes.rs`, and where there are failovers. Four hundred worlds walk
/// one of them or another: which, changes with every change of what clients send.
const WALKED_ELSEWHERE: [&str; 4] = [
    "is handed over, then finds it gone",
    "is handed over, then is renewed",
    "is renewed, then finds it gone",
    "repeats a release that was answered, then repeats a release that was answered",
];

fn survey(seeds: u64, cast: Cast) {
    let first = number("LEASEHOLD_FIRST").unwrap_or(1);
    let next = AtomicU64::new(first);
    let acquired = AtomicU64::new(0);
    let start = std::time::Instant::now();
    let work = || loop {
        let seed = next.fetch_add(1, SeqCst);
        if seed >= first + seeds {
            return;
        }
        acquired.fetch_add(Seed::new(seed, cast).must_hold(), SeqCst);
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
    println!(
        "{seeds} seeds, {} acquisitions, no violation, {took:.1} s",
        acquired.into_inner()
    );
}

#[test]
fn seeds_that_once_failed_hold() {
    for (kind, number, _) in KEPT {
        let (kind, number) = (*kind, *number);
        Seed {
            kind,
            number,
            cast: Cast::Usual,
        }
        .must_hold();
    }
    // They had wild users: a waiter that returns at the front under a new name, and a queue whose
    // clients all ended.
    for number in [5005, 5032] {
        Seed {
            kind: Kind::Fair,
            number,
            cast: Cast::Wild,
        }
        .must_hold();
    }
}

/// Removes the numbers by which engines and clients differ.
fn nameless(step: &str) -> String {
    let mut parts = step.split("embedded-");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.fold(first, |told, part| told + "embedded" + part)
}

#[test]
fn a_seed_gives_one_history() {
    for kind in Kind::all() {
        // Other kinds in every weather.
        let numbers = if kind.is_lock() {
            vec![3, 4, 5, 6, 9, 11]
        } else {
            (0..5).collect()
        };
        for number in numbers {
            let cast = if number < 6 { Cast::Usual } else { Cast::Wild };
            let seed = Seed { kind, number, cast };
            let trace = || {
                run(seed)
                    .trace
                    .iter()
                    .map(|step| nameless(step))
                    .collect::<Vec<_>>()
            };
            let (one, two) = (trace(), trace());
            let differ = one.iter().zip(&two).position(|(one, two)| one != two);
            let steps = differ.map(|at| (&one[at], &two[at]));
            assert_eq!(differ, None, "{seed}: {steps:?}");
            assert_eq!(one.len(), two.len());
        }
    }
}

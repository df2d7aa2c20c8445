//! Random histories of a correct lock. The checker finds no violation in them, and exactly the one
//! that a test plants.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;

use crate::check::check;
use crate::history::{Doing, Event, Mode, Scope, What};
use crate::result::{Cell, Losses, Renewals};

use super::actors::rules;

const MS: u64 = 1_000_000;
const WORKERS: u32 = 12;
/// The name in which the tests plant a violation.
const PLANTED: &str = "plain:1";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Short,
    /// Longer than the lease, which is renewed.
    Long,
    /// With a larger lease, which is renewed.
    Large,
    /// Longer than its fixed lease.
    RunsOut,
}

/// A lock that serves its waiters in the order of their requests, with random durations.
struct Sequential {
    rng: Rng,
    events: Vec<Event>,
    tokens: i64,
}

/// The time at which a worker asks, its number, and its mode.
type Waiter = (u64, u32, Mode);

impl Sequential {
    fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            events: Vec::new(),
            tokens: 0,
        }
    }

    fn pause(&mut self, below_ms: u64) -> u64 {
        self.rng.u64(MS / 100..below_ms * MS)
    }

    fn push(&mut self, at: u64, worker: u32, name: &str, what: What) {
        let (process, worker) = (1 + worker / 3, worker % 3);
        self.events.push(Event {
            at,
            wall: at,
            process,
            worker,
            name: name.to_owned(),
            what,
        });
    }

    /// Each worker takes the lock this many times.
    fn run(&mut self, name: &str, first_worker: u32, rounds: u32, modes: &[Mode]) {
        let mut waiting: Vec<Waiter> = (first_worker..first_worker + WORKERS)
            .map(|worker| (1 + self.pause(20), worker, self.mode(modes)))
            .collect();
        let mut free_at: Vec<(u64, Mode)> = Vec::new();
        let mut last_grant = 0;
        for _ in 0..rounds * WORKERS {
            waiting.sort_by_key(|(asked, ..)| *asked);
            let mut queue = VecDeque::from(std::mem::take(&mut waiting));
            let Some((asked, worker, mode)) = queue.pop_front() else {
                return;
            };
            waiting.extend(queue);
            let granted = self.next_grant(asked, mode, last_grant, &mut free_at);
            last_grant = granted;
            let released = self.hold(name, (asked, worker, mode), granted);
            free_at.push((released, mode));
            waiting.push((released + self.pause(5), worker, self.mode(modes)));
        }
    }

    fn mode(&mut self, of: &[Mode]) -> Mode {
        of[self.rng.usize(0..of.len())]
    }

    /// When the lock can be granted after the earlier grants.
    fn next_grant(
        &mut self,
        asked: u64,
        mode: Mode,
        last: u64,
        free_at: &mut Vec<(u64, Mode)>,
    ) -> u64 {
        free_at.sort_unstable_by_key(|(at, _)| std::cmp::Reverse(*at));
        // All earlier holds ended before the last grant.
        free_at.truncate(usize::try_from(WORKERS).unwrap());
        let in_the_way = match mode {
            Mode::Exclusive => free_at.first(),
            Mode::Shared => free_at.iter().find(|(_, mode)| *mode == Mode::Exclusive),
            Mode::Permit => free_at.get(rules().permits - 1),
        };
        let free = in_the_way.map_or(0, |(at, _)| *at);
        asked.max(last).max(free) + 1 + self.pause(2)
    }

    /// Writes the events of one hold. Returns the time at which its release is answered.
    fn hold(&mut self, name: &str, (asked, worker, mode): Waiter, granted: u64) -> u64 {
        let kind = self.kind(name);
        let (fixed_ms, renewed_ms) = match kind {
            Kind::RunsOut => (Some(2), None),
            Kind::Large => (None, Some(4_000)),
            Kind::Short | Kind::Long => (None, None),
        };
        let lease = fixed_ms.or(renewed_ms).unwrap_or(1_000) * MS;
        self.push(
            asked,
            worker,
            name,
            What::Asked {
                mode,
                fixed_ms,
                renewed_ms,
            },
        );
        self.tokens += 1;
        let until = Some(granted + lease);
        let token = Some(self.tokens).filter(|_| mode == Mode::Exclusive);
        self.push(
            granted,
            worker,
            name,
            What::Granted {
                until,
                token,
                field: None,
            },
        );
        let mut now = granted;
        match kind {
            Kind::Short => self.confirm(name, worker, &mut now, 3, lease),
            Kind::Long => self.confirm(name, worker, &mut now, 300, lease),
            Kind::Large => self.confirm(name, worker, &mut now, 1_200, lease),
            Kind::RunsOut => now += 3 * MS,
        }
        now += self.pause(3);
        self.push(now, worker, name, What::Releasing);
        now += self.pause(2);
        let error = Some("Lost".to_owned()).filter(|_| kind == Kind::RunsOut);
        self.push(now, worker, name, What::Released { error });
        now
    }

    fn kind(&mut self, name: &str) -> Kind {
        match self.rng.u8(0..20) {
            0 => Kind::Long,
            // Not in the planted name: the hold would be stale there, so a planted grant would not
            // be a valid overlap.
            1 if name != PLANTED => Kind::RunsOut,
            2 => Kind::Large,
            _ => Kind::Short,
        }
    }

    /// Confirms the hold up to three times, at most this far apart.
    fn confirm(&mut self, name: &str, worker: u32, now: &mut u64, apart_ms: u64, lease: u64) {
        for _ in 0..self.rng.u32(0..4) {
            *now += self.pause(apart_ms);
            self.push(
                *now,
                worker,
                name,
                What::Held {
                    until: Some(*now + lease * 9 / 10),
                },
            );
            *now += self.pause(2);
            let what = [Doing::Extended, Doing::Reentered, Doing::Paused][self.rng.usize(0..3)];
            let did = What::Did { what, error: None };
            let wrote = What::Wrote { accepted: true };
            let what = if self.rng.u8(0..5) == 0 { did } else { wrote };
            self.push(*now, worker, name, what);
        }
    }

    fn history(mut self) -> Vec<Event> {
        self.events.sort_by_key(|event| event.at);
        let mut ends = BTreeMap::new();
        for event in &self.events {
            ends.insert(event.process, event.at + 1);
        }
        let ended = ends.into_iter().map(|(process, at)| Event {
            at,
            wall: at,
            process,
            worker: 0,
            name: String::new(),
            what: What::Ended {
                counts: BTreeMap::new(),
                error: None,
            },
        });
        self.events.extend(ended);
        self.events.sort_by_key(|event| event.at);
        self.events
    }
}

fn cells(history: &[Event]) -> Vec<Cell> {
    check(history, &[], &rules())
}

/// A history with all kinds of workloads, each with its own workers.
fn all_kinds(seed: u64, rounds: u32) -> Vec<Event> {
    let mut lock = Sequential::new(seed);
    lock.run("fair:0", 0, rounds, &[Mode::Exclusive]);
    lock.run(
        "read_write:0",
        WORKERS,
        rounds,
        &[Mode::Shared, Mode::Shared, Mode::Exclusive],
    );
    lock.run("permits:0", 2 * WORKERS, rounds, &[Mode::Permit]);
    lock.run("multi:0+1", 3 * WORKERS, rounds, &[Mode::Exclusive]);
    lock.run(PLANTED, 4 * WORKERS, rounds, &[Mode::Exclusive]);
    lock.history()
}

#[test]
fn a_correct_history_has_no_violations() {
    for seed in 0..20 {
        let cells = cells(&all_kinds(seed, 20));
        assert_eq!(cells.len(), 5);
        for cell in cells {
            assert_eq!(cell.operations, u64::from(20 * WORKERS), "seed {seed}");
            assert!(cell.passes(), "seed {seed}: {:#?}", cell.violations);
            let clean = Cell {
                workload: cell.workload.clone(),
                operations: cell.operations,
                longest_wait_ms: cell.longest_wait_ms,
                holds: cell.holds,
                renewals: Renewals {
                    done: cell.renewals.done,
                    ..Renewals::default()
                },
                errors: cell.errors.clone(),
                ..Cell::default()
            };
            assert_eq!(cell, clean, "seed {seed}");
        }
    }
}

#[test]
fn only_the_planted_overlap_is_found() {
    for seed in 0..60 {
        let mut history = all_kinds(seed, 10);
        let planted = plant(&mut history, &mut Rng::with_seed(seed));
        for cell in cells(&history) {
            let expected = u64::from(cell.workload == "plain");
            assert_eq!(cell.overlaps.valid, expected, "seed {seed}: {planted}");
            assert_eq!(
                cell.violations.len() as u64,
                expected,
                "seed {seed}: {:#?}",
                cell.violations
            );
        }
    }
}

#[test]
fn a_planted_loss_is_found_unless_there_is_a_cause() {
    for seed in 0..60 {
        let mut history = all_kinds(seed, 10);
        lose(&mut history, &mut Rng::with_seed(seed));
        let losses = |history: &[Event]| {
            let cells = cells(history);
            let cell = cells
                .into_iter()
                .find(|cell| cell.workload == "plain")
                .expect("it ran");
            (cell.losses, cell.violations.len())
        };
        let lost = Losses::default();
        assert_eq!(
            losses(&history),
            (
                Losses {
                    without_cause: 1,
                    ..lost
                },
                1
            ),
            "seed {seed}"
        );
        let first = history[0].at;
        let (fault, detail) = ("slow".to_owned(), String::new());
        let slow = What::Fault {
            fault,
            on: true,
            detail,
            scope: Scope::default(),
        };
        let name = String::new();
        history.insert(
            0,
            Event {
                at: first,
                wall: first,
                process: 0,
                worker: 0,
                name,
                what: slow,
            },
        );
        assert_eq!(
            losses(&history),
            (
                Losses {
                    with_cause: 1,
                    ..lost
                },
                0
            ),
            "seed {seed}"
        );
    }
}

/// Makes one hold be lost right before it is released.
fn lose(history: &mut Vec<Event>, rng: &mut Rng) {
    let releasing = |event: &Event| event.name == PLANTED && event.what == What::Releasing;
    let indices: Vec<_> = (0..history.len())
        .filter(|index| releasing(&history[*index]))
        .collect();
    let index = indices[rng.usize(0..indices.len())];
    let what = What::Lost {
        reason: "gone".to_owned(),
    };
    history.insert(
        index,
        Event {
            what,
            ..history[index].clone()
        },
    );
}

/// The checker accepts any events, and reports those in an impossible order.
#[test]
fn impossible_histories_are_reported() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let history: Vec<Event> = (0..200)
            .map(|at| nonsense(at * MS * 50, &mut rng))
            .collect();
        let violations = cells(&history).into_iter().flat_map(|cell| cell.violations);
        assert!(
            violations
                .filter(|violation| violation.starts_with("driver: "))
                .count()
                > 10,
            "seed {seed}"
        );
    }
}

fn nonsense(at: u64, rng: &mut Rng) -> Event {
    let until = Some(rng.u64(at / 2..at + 2_000 * MS)).filter(|_| rng.bool());
    let token = Some(rng.i64(0..50)).filter(|_| rng.bool());
    let error = || "unavailable".to_owned();
    let what = match rng.u8(0..14) {
        0 => What::Asked {
            mode: [Mode::Exclusive, Mode::Shared, Mode::Permit][rng.usize(0..3)],
            fixed_ms: Some(rng.u64(100..3_000)).filter(|_| rng.bool()),
            renewed_ms: Some(rng.u64(100..3_000)).filter(|_| rng.bool()),
        },
        1 => What::Granted {
            until,
            token,
            field: None,
        },
        2 => What::Refused {
            error: error(),
            timeout: rng.bool(),
        },
        3 => What::Held { until },
        4 => What::Doubted,
        5 => What::Wrote {
            accepted: rng.bool(),
        },
        6 => What::Lost { reason: error() },
        7 => What::Releasing,
        8 => What::Released {
            error: Some(error()).filter(|_| rng.bool()),
        },
        9 => What::Started {
            pid: 1,
            library: error(),
        },
        10 => What::Ended {
            counts: BTreeMap::new(),
            error: None,
        },
        11 => What::Did {
            what: [Doing::Renewed, Doing::Extended][rng.usize(0..2)],
            error: None,
        },
        _ => What::Fault {
            fault: ["failover", "restart"][rng.usize(0..2)].to_owned(),
            on: rng.bool(),
            detail: error(),
            scope: Scope::default(),
        },
    };
    let name = ["fair:0", "plain:1", "plain:1+2", "plain:2+2", "odd", ""][rng.usize(0..6)];
    let (process, worker) = (rng.u32(0..3), rng.u32(0..2));
    Event {
        at,
        wall: at,
        process,
        worker,
        name: name.to_owned(),
        what,
    }
}

/// Moves one grant to just before the release of the previous hold.
fn plant(history: &mut [Event], rng: &mut Rng) -> String {
    let asked_before = |grant: usize, at: u64| {
        let worker = |event: &Event| (event.process, event.worker);
        let theirs = |event: &&Event| worker(event) == worker(&history[grant]);
        history[..grant]
            .iter()
            .rfind(theirs)
            .is_some_and(|asked| asked.at < at)
    };
    let of_plain = history
        .iter()
        .enumerate()
        .filter(|(_, event)| event.name == PLANTED);
    let mut released = 0;
    let mut possible = Vec::new();
    for (index, event) in of_plain {
        match event.what {
            What::Releasing => released = event.at,
            What::Granted { .. } if asked_before(index, released.saturating_sub(1)) => {
                possible.push((index, released - 1));
            }
            _ => {}
        }
    }
    let (grant, at) = possible[rng.usize(0..possible.len())];
    let planted = format!("{:?} moved to {at}", history[grant]);
    history[grant].at = at;
    history.sort_by_key(|event| event.at);
    planted
}

/// Prints how long the check takes:
/// `cargo test --release -p leasehold-faults --bin leasehold-faults -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn measure_a_hundred_thousand_events() {
    let history = all_kinds(1, 250);
    let start = crate::clock::monotonic();
    let cells = cells(&history);
    let took = crate::clock::monotonic() - start;
    assert!(cells.iter().all(Cell::passes));
    println!("{} events in {} us", history.len(), took / 1_000);
}

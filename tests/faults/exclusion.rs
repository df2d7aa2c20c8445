//! At most one holder at any time across processes, and nobody starves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_testbed::{Borrowed, Outside, Routes, eventually_within, ms};
use parking_lot::Mutex;

use crate::testbed::{at_rest, beside, child, connect, note, size};

const PROCESSES: usize = 4;
const TASKS: usize = 16;
/// All processes contend for at least this time.
const SHORTEST: Duration = Duration::from_secs(6);
/// The longest time between two turns of a process. The machine may stall for a part of it.
const STARVED: Duration = Duration::from_secs(4);
const CHILD: &str = "exclusion::contending_process";

#[test]
fn processes_and_tasks_exclude_each_other_and_all_progress() {
    let acquisitions = size("LEASEHOLD_ACQUISITIONS", 4_000);
    beside(
        Duration::from_secs(20 + acquisitions as u64 / 50),
        async move {
            let server = Borrowed::take();
            let variables = [
                ("LEASEHOLD_CHILD_URL", server.url()),
                ("LEASEHOLD_CHILD_TARGET", acquisitions.to_string()),
            ];
            let started = Instant::now();
            let children: Vec<_> = (0..PROCESSES).map(|_| child(CHILD, &variables)).collect();
            let reports = tokio::task::spawn_blocking(move || {
                children
                    .into_iter()
                    .map(super::testbed::Running::finish)
                    .collect::<Vec<_>>()
            });
            let reports = reports.await.expect("no child fails");
            let reports: Vec<_> = reports.iter().map(|text| report(text)).collect();
            let total: usize = reports.iter().map(|(share, _)| share).sum();
            let took = started.elapsed();
            note(&format!(
                "{total} acquisitions in {took:?}, (share, longest pause): {reports:?}"
            ));
            assert!(total >= acquisitions, "{reports:?}");
            assert!(
                reports.iter().all(|(_, pause)| *pause < STARVED),
                "one starves: {reports:?}"
            );
            let mut outside = Outside::of(&server);
            assert!(!outside.exists("section"), "free at the end");
            assert_eq!(outside.command(&["GET", "inside"]).int(), 0);
        },
    );
}

/// The number of a process's turns, and its longest time without one.
fn report(text: &str) -> (usize, Duration) {
    let line = text
        .lines()
        .find_map(|line| line.split_once("@share "))
        .expect("a report")
        .1;
    let (share, pause) = line.split_once(' ').expect("two numbers");
    (
        share.parse().expect("a number"),
        ms(pause.trim().parse().expect("a number")),
    )
}

/// How regularly a process gets its turn.
struct Turns {
    started: Instant,
    last: Instant,
    longest: Duration,
}

impl Turns {
    fn new() -> Self {
        Turns {
            started: Instant::now(),
            last: Instant::now(),
            longest: Duration::ZERO,
        }
    }

    /// Records a turn. Returns how long ago the first wait began.
    fn take(&mut self) -> Duration {
        let now = Instant::now();
        self.longest = self.longest.max(now - self.last);
        self.last = now;
        now - self.started
    }
}

/// One process of the test above.
#[test]
#[ignore = "a child of another test"]
#[expect(clippy::print_stdout, reason = "its report to the parent")]
fn contending_process() {
    let Ok(url) = std::env::var("LEASEHOLD_CHILD_URL") else {
        return;
    };
    let target = i64::try_from(size("LEASEHOLD_CHILD_TARGET", 0)).expect("a small number");
    beside(Duration::from_secs(600), async move {
        let client = connect(&url).await;
        let mut judge = Routes::to(&url);
        // All start together, because a late process would get no turn.
        judge.command(&["INCR", "ready"]);
        let processes = i64::try_from(PROCESSES).expect("few");
        eventually_within(ms(20_000), "all are ready", async || {
            judge.command(&["GET", "ready"]).int() == processes
        })
        .await;
        let judge = Arc::new(Mutex::new(judge));
        let turns = Arc::new(Mutex::new(Turns::new()));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (lock, judge) = (client.lock("section"), judge.clone());
                let turns = turns.clone();
                tokio::spawn(async move {
                    let mut done = 0;
                    loop {
                        let guard = lock.lock().await.expect("redis is there");
                        let ask = |words: &[&str]| judge.lock().command(words).int();
                        assert_eq!(ask(&["INCR", "inside"]), 1, "two in the section");
                        guard.check().expect("held while inside");
                        let age = turns.lock().take();
                        let count = ask(&["INCR", "count"]);
                        // Others of this process may run while this task is inside.
                        tokio::task::yield_now().await;
                        assert_eq!(ask(&["DECR", "inside"]), 0, "two in the section");
                        guard.unlock().await.expect("held until now");
                        // A fast machine would finish before every process has had a turn.
                        if count > target && age > SHORTEST {
                            return done;
                        }
                        done += 1;
                    }
                })
            })
            .collect();
        let mut share = 0;
        for task in tasks {
            let done: usize = task.await.expect("no task fails");
            assert!(done > 0, "a task never got its turn");
            share += done;
        }
        at_rest(&client, Duration::from_secs(3)).await;
        println!("\n@share {share} {}", turns.lock().longest.as_millis());
    });
}

//! Threads and tasks share permits. A separate counter of those inside is never higher than the
//! number of permits.

use std::cell::Cell;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use crate::contention::LONGEST_WAIT;
use crate::harness::{Harness, NOW};
use crate::observer::Observer;
use crate::redisson::Reply;
use crate::redisson::contention::{Contenders, SemaphoreTally};

pub(crate) const LIMIT: u32 = 3;
pub(crate) const THREADS: Contenders = Contenders {
    threads: 3,
    rounds: 150,
    work: Duration::from_millis(1),
    rest: NOW,
};
const FUTURES: usize = 3;
/// The least number of rounds of a task.
const ROUNDS: u32 = 30;

/// Runs tasks that contend with `threads` until the threads have finished all their rounds.
#[expect(clippy::future_not_send, reason = "one test runs all of them")]
pub(crate) async fn contend<P>(
    harness: &mut Harness,
    threads: Reply<SemaphoreTally>,
    acquire: impl AsyncFn() -> P,
    release: impl AsyncFn(P),
) {
    // Wait until the threads have begun.
    harness.observer.wait_until("EXISTS inside", 1).await;
    let enough = Cell::new(false);
    let (most, longest_wait) = (Cell::new(0), Cell::new(Duration::ZERO));
    let repeat = async |mut redis: Observer| {
        let mut rounds = 0;
        while rounds < ROUNDS || !enough.get() {
            let asked = Instant::now();
            let permit = acquire().await;
            longest_wait.set(longest_wait.get().max(asked.elapsed()));
            most.set(most.get().max(redis.integer("INCR inside").await));
            redis.integer("DECR inside").await;
            release(permit).await;
            rounds += 1;
        }
        rounds
    };
    let mut observers = Vec::new();
    for _ in 0..FUTURES {
        observers.push(Observer::of(&harness.server.url()));
    }
    let futures = join_all(observers.into_iter().map(repeat));
    let (rounds, threads) = tokio::join!(futures, async {
        let threads = threads.await;
        enough.set(true);
        threads
    });
    eprintln!("rust: {rounds:?} rounds, longest wait {longest_wait:?}; java: {threads:?}");
    assert_eq!(threads.violations, 0);
    assert_eq!(threads.rounds, u64::from(THREADS.threads * THREADS.rounds));
    assert_eq!(
        most.get().max(i64::try_from(threads.most).expect("few")),
        i64::from(LIMIT)
    );
    assert!(
        longest_wait.get().max(threads.longest_wait) < LONGEST_WAIT,
        "somebody starved"
    );
    assert_eq!(harness.observer.ask("GET inside").await, ["0"]);
}

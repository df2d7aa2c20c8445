//! Threads and tasks that contend for something with several holders.

use std::cell::Cell;
use std::time::Duration;

use futures::future::join_all;
use leasehold_others::Reply;
use tokio::time::Instant;

use crate::contention::LONGEST_WAIT;
use crate::harness::{Harness, NOW};
use crate::observer::Observer;
use crate::redisson::contention::{Contenders, Report};

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

/// Once the threads have begun, tasks do rounds until the threads have finished all theirs. Also
/// returns the number of rounds of each task.
#[expect(clippy::future_not_send, reason = "one test runs all of them")]
pub(crate) async fn beside(
    harness: &mut Harness,
    threads: Reply<Report>,
    have_begun: &str,
    round: impl AsyncFn(&mut Observer),
) -> (Vec<u32>, Report) {
    let counters = i64::try_from(have_begun.split(' ').count()).expect("few");
    let have_begun = format!("EXISTS {have_begun}");
    harness.observer.wait_until(&have_begun, counters).await;
    let enough = Cell::new(false);
    let repeat = async |mut redis: Observer| {
        let mut rounds = 0;
        while rounds < ROUNDS || !enough.get() {
            round(&mut redis).await;
            rounds += 1;
        }
        rounds
    };
    let observers = (0..FUTURES).map(|_| Observer::of(&harness.server.url()));
    let (rounds, threads) = tokio::join!(join_all(observers.map(repeat)), async {
        let threads = threads.await;
        enough.set(true);
        threads
    });
    eprintln!("rust: {rounds:?} rounds; java: {threads:?}");
    assert_eq!(threads.number("violations"), 0);
    (rounds, threads)
}

/// Tasks and threads share permits. A separate counter of those inside is never higher than the
/// number of permits.
#[expect(clippy::future_not_send, reason = "one test runs all of them")]
pub(crate) async fn contend<P>(
    harness: &mut Harness,
    threads: Reply<Report>,
    acquire: impl AsyncFn() -> P,
    release: impl AsyncFn(P),
) {
    let (most, longest_wait) = (Cell::new(0), Cell::new(Duration::ZERO));
    let round = async |redis: &mut Observer| {
        let asked = Instant::now();
        let permit = acquire().await;
        longest_wait.set(longest_wait.get().max(asked.elapsed()));
        most.set(most.get().max(redis.integer("INCR inside").await));
        redis.integer("DECR inside").await;
        release(permit).await;
    };
    let (_, threads) = beside(harness, threads, "inside", round).await;
    let rounds = u64::from(THREADS.threads * THREADS.rounds);
    assert_eq!(threads.number("rounds"), rounds);
    let theirs = i64::try_from(threads.number("most")).expect("few");
    assert_eq!(most.get().max(theirs), i64::from(LIMIT));
    assert!(
        longest_wait.get().max(threads.longest_wait()) < LONGEST_WAIT,
        "somebody starved"
    );
    assert_eq!(harness.observer.ask("GET inside").await, ["0"]);
}

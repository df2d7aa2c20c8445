//! S5: one client holds the lock, another one waits for it; how long the way from one to the other
//! takes.

use std::time::Duration;

use leasehold::{Client, Lock};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::Failure;
use crate::options::Options;
use crate::report::{Report, count};
use crate::server::Sample;

const KEY: &str = "bench:handoff";
pub(crate) const ROUNDS: usize = 300;
/// A waiter that takes longer than this was never woken.
const WAKE_LIMIT: Duration = Duration::from_secs(30);

pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let (one, other) = (
        Client::connect(options.url()).await?,
        Client::connect(options.url()).await?,
    );
    let (holder, waiter) = (one.lock(KEY), other.lock(KEY));

    let warm = Instant::now() + options.warmup;
    while Instant::now() < warm {
        hand_over(&holder, &waiter, options.hold).await?;
    }
    let begin = Sample::take(&options.addresses()).await?;
    let limit = begin.at + 4 * options.measured;
    let mut latencies = Vec::new();
    while latencies.len() < options.rounds.unwrap_or(ROUNDS) && Instant::now() < limit {
        latencies.push(hand_over(&holder, &waiter, options.hold).await?);
    }
    let end = Sample::take(&options.addresses()).await?;

    let rounds = latencies.len();
    let mut figures = begin.costs_until(&end, count(rounds)).report();
    figures.put("threads_or_tasks", 2);
    figures.put("errors", 0);
    figures.put_rate(rounds, end.at - begin.at);
    figures.put_latencies(latencies);
    Ok(figures)
}

/// One round: from just before the holder's unlock to the return of the waiter's lock.
pub(crate) async fn hand_over(
    holder: &Lock,
    waiter: &Lock,
    hold: Duration,
) -> Result<Duration, Failure> {
    let (guard, waiter) = (holder.lock().await?, waiter.clone());
    let mut waiting = JoinSet::new();
    waiting.spawn(async move {
        let guard = waiter.lock().await?;
        let got = Instant::now();
        guard.unlock().await?;
        Ok::<_, Failure>(got)
    });
    sleep(pause(hold)).await;
    let freed = Instant::now();
    guard.unlock().await?;
    let returned = timeout(WAKE_LIMIT, waiting.join_next()).await;
    let returned = returned.map_err(|_| "the waiter was not woken")?;
    let got = returned.ok_or("no waiter")???;
    Ok(got - freed)
}

/// How long the lock is held: up to a millisecond longer than this.
pub(crate) fn pause(hold: Duration) -> Duration {
    hold + Duration::from_micros(fastrand::u64(..1000))
}

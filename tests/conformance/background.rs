//! The background task with many names at once. Only the embedded engine has the switches for these
//! tests.

mod heartbeats;
mod polls;
mod renewals;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use futures::future::join_all;
use leasehold::test_util::{Delay, Faults, LinkControl};
use leasehold::{Client, EmbeddedRedis, Lease, LockGuard};
use tokio::time::{Instant, sleep};

/// Holds in one renewal, and names in one safety poll.
const BATCH: usize = 500;
/// Longer than any of these tests.
const LONG: Lease = Lease::Fixed(Duration::from_secs(600));

/// Sets how long a call takes from now on, there and back.
fn set_round_trip(link: &LinkControl, time: Duration) {
    let half = Delay::fixed(time / 2);
    link.set_faults(
        Faults {
            request: half,
            reply: half,
            ..Faults::default()
        },
        1,
    );
}

fn runs(redis: &EmbeddedRedis, script: &str) -> u64 {
    redis.scripts_run().get(script).copied().unwrap_or(0)
}

/// The most runs of these scripts in less than `time`. If a call takes so long there and back, so
/// many are in flight at once.
async fn most_at_once(
    redis: &EmbeddedRedis,
    scripts: &[&str],
    time: Duration,
    goes_on: impl AsyncFn() -> bool,
) -> u64 {
    let (mut counts, mut most) = (VecDeque::new(), 0);
    while goes_on().await {
        let (now, all) = (
            Instant::now(),
            scripts.iter().map(|script| runs(redis, script)),
        );
        counts.push_back((now, all.sum::<u64>()));
        counts.retain(|(since, _)| now.duration_since(*since) < time);
        most = most.max(counts[counts.len() - 1].1 - counts[0].1);
        sleep(Duration::from_millis(1)).await;
    }
    most
}

fn name(number: usize) -> String {
    format!("n{number:04}")
}

async fn take_all(client: &Client, numbers: Range<usize>, lease: Lease) -> Vec<LockGuard> {
    join_all(numbers.map(async |number| {
        let lock = client.lock(name(number));
        lock.try_lock_now(lease).await.unwrap()
    }))
    .await
}

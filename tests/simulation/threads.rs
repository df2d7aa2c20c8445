//! Threads of one client, in real time: what the simulation with its one thread cannot do.
//!
//! `LEASEHOLD_SECONDS` is how long they work (2). With `--nocapture` it shows which transitions
//! they walk.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{EmbeddedRedis, Lease};
use leasehold_testbed::Histories;
use tokio::time::{Instant, sleep};

use crate::number;
use crate::plan::{ms, name_of};

/// By how many milliseconds clocks may differ: real ones, read on a busy machine.
const NOISE: u32 = 5;
const TASKS: usize = 48;
const NAMES: usize = 40;
/// Renewals are due all the time, and so are releases.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_specification_allows_what_threads_do() {
    let (redis, histories) = (EmbeddedRedis::new(), Histories::default());
    let seconds = number("LEASEHOLD_SECONDS").unwrap_or(2);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut tasks = Vec::new();
    for client in 0..2 {
        let builder = redis
            .builder()
            .lease(ms(100))
            .harness(histories.of_client(0));
        let client = Arc::new((builder.connect().await.expect("a client"), client));
        for task in 0..TASKS {
            let client = client.clone();
            tasks.push(tokio::spawn(async move {
                let (client, number) = &*client;
                let mut rng = fastrand::Rng::with_seed((task * 2 + number) as u64);
                while Instant::now() < end {
                    let lock = client.lock(name_of(rng.usize(..NAMES)));
                    if let Ok(guard) = lock.try_lock(ms(50), Lease::Renewed).await {
                        sleep(Duration::from_micros(rng.u64(..60_000))).await;
                        drop(guard);
                    }
                }
            }));
        }
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let verdict = histories.verdict(NOISE);
    assert_eq!(verdict.disallowed(), None);
    assert!(verdict.grants > 100, "{}", verdict.grants);
    println!("{} grants, {:#?}", verdict.grants, verdict.walked);
}

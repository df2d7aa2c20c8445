//! `bench`: measures acquisitions and releases on this server.

use std::time::Duration;

use leasehold::{Client, Error, Lease, Lock};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::arguments::{BenchArguments, ServerArguments};
use crate::exit::Failure;
use crate::found::lock;
use crate::output::{Rows, Tone, complain, say, say_json};
use crate::server::close;

/// A waiter that waits for longer than this makes the measurement fail.
const WAIT: Duration = Duration::from_secs(30);

/// One part of the measurement.
#[derive(Debug, Serialize)]
struct Part {
    what: &'static str,
    rounds: usize,
    /// Rounds of an acquisition and a release.
    per_second: f64,
    acquire_ms: Percentiles,
    release_ms: Percentiles,
}

#[derive(Debug, Serialize)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

/// Durations of rounds.
#[derive(Debug, Default)]
struct Times {
    acquire: Vec<Duration>,
    release: Vec<Duration>,
}

/// Returns the exit code.
pub(crate) async fn bench(asked: &BenchArguments, server: &ServerArguments) -> Result<u8, Failure> {
    let client = server.connect().await?;
    let parts = parts(&client, asked).await;
    close(&client).await;
    let parts = parts?;
    if asked.json {
        say_json(&parts)?;
        return Ok(0);
    }
    let titles = [
        "",
        "ROUNDS",
        "PER SECOND",
        "ACQUIRE p50",
        "p90",
        "p99",
        "MAX",
        "RELEASE p50",
        "p99",
    ];
    let mut rows = Rows::new(&titles);
    for part in &parts {
        let (acquire, release) = (&part.acquire_ms, &part.release_ms);
        let plain = |text: String| (text, Tone::Plain);
        let ms = |span: f64| plain(format!("{span:.2} ms"));
        rows.add([
            plain(part.what.to_owned()),
            plain(part.rounds.to_string()),
            (format!("{:.0}", part.per_second), Tone::Good),
            ms(acquire.p50),
            ms(acquire.p90),
            ms(acquire.p99),
            ms(acquire.max),
            ms(release.p50),
            ms(release.p99),
        ]);
    }
    say(&rows.text())?;
    if cfg!(debug_assertions) {
        complain("this program was built without optimisation");
    }
    Ok(0)
}

async fn parts(client: &Client, asked: &BenchArguments) -> Result<Vec<Part>, Error> {
    // The client's id makes the names unique.
    let name = |number: u32| format!("leasehold-bench:{}:{number}", client.id());
    let named = |number| lock(client, asked.kind, &name(number));
    let apart = (0..asked.workers).map(named).collect();
    let together = (0..asked.workers).map(|_| named(0)).collect();
    // Warm up: the server caches the scripts at the first calls.
    rounds(named(0), Instant::now() + asked.time / 20).await?;
    Ok(vec![
        part("one after the other", vec![named(0)], asked.time).await?,
        part("side by side", apart, asked.time).await?,
        part("all want one lock", together, asked.time).await?,
    ])
}

async fn part(what: &'static str, locks: Vec<Lock>, time: Duration) -> Result<Part, Error> {
    let began = Instant::now();
    let mut workers: JoinSet<Result<Times, Error>> = locks
        .into_iter()
        .map(|lock| rounds(lock, began + time))
        .collect();
    let mut times = Times::default();
    while let Some(done) = workers.join_next().await {
        let done = done.unwrap_or(Err(Error::Closed))?;
        times.acquire.extend(done.acquire);
        times.release.extend(done.release);
    }
    let rounds = times.acquire.len();
    let per_second = lossy(rounds) / began.elapsed().as_secs_f64();
    let (acquire_ms, release_ms) = (percentiles(times.acquire), percentiles(times.release));
    Ok(Part {
        what,
        rounds,
        per_second,
        acquire_ms,
        release_ms,
    })
}

/// Runs rounds one after the other until `end`, and at least one.
async fn rounds(lock: Lock, end: Instant) -> Result<Times, Error> {
    let mut times = Times::default();
    loop {
        let began = Instant::now();
        let guard = lock.try_lock(WAIT, Lease::Renewed).await?;
        times.acquire.push(began.elapsed());
        let began = Instant::now();
        guard.unlock().await?;
        times.release.push(began.elapsed());
        if Instant::now() >= end {
            return Ok(times);
        }
    }
}

fn percentiles(mut times: Vec<Duration>) -> Percentiles {
    times.sort_unstable();
    // Percentiles need at least one round.
    let at = |percent: usize| {
        let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(index).copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    Percentiles {
        p50: at(50),
        p90: at(90),
        p99: at(99),
        max: at(100),
    }
}

fn lossy(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let times = (1..=200).rev().map(Duration::from_millis).collect();
        let Percentiles { p50, p90, p99, max } = percentiles(times);
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-6, "{found}");
        near(p50, 101.0);
        near(p90, 181.0);
        near(p99, 199.0);
        near(max, 200.0);
    }
}

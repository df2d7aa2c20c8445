//! A job that runs once in a fleet, whose clocks differ: with the two times of Java's `ShedLock`.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin cron -- \
//!     --period 60000 --at-least 10000 --at-most 50000
//! ```
//!
//! - `--at-least` (`lockAtLeastFor`): the lock is kept so long although the job was quicker, and although its
//!   process has ended. Longer than the clocks differ, and than a process may be late.
//! - `--at-most` (`lockAtMostFor`): a job that runs longer is dropped. Shorter than the period.
//!
//! `ShedLock` keeps the lock of a dead process until `lockAtMostFor`. Here it is free after `--at-least`, or
//! five seconds after the last renewal.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::time::{Duration, SystemTime};

use leasehold::{Error, Lock, LossReason};
use leasehold_examples::{Failure, Terminated, client, millis};
use tokio::time::sleep;

/// A job that goes on for longer than `--at-least` keeps its lock, which is renewed every third of this.
const LEASE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut terminated = Terminated::listen()?;
    let period = millis("--period", 60_000)?;
    let at_least = millis("--at-least", 10_000)?;
    let at_most = millis("--at-most", 50_000)?;
    let (work, skew) = (millis("--work", 0)?, millis("--skew", 0)?);
    if period.is_zero() || at_least >= period || at_most >= period {
        return Err("--at-least and --at-most must be shorter than --period".into());
    }
    let client = client()?.connect().await?;
    let lock = client.lock("example:cron").with_lease(LEASE);
    println!("ready");
    loop {
        let (tick, next) = next_tick(period, skew)?;
        tokio::select! {
            () = sleep(next) => {}
            () = terminated.wait() => break,
        }
        // Others have forgotten the tick when the lock is free again: a process that is late does not begin.
        let (_, left) = next_tick(period, skew)?;
        if period.saturating_sub(left) > at_least / 4 {
            println!("late for tick {tick}");
            continue;
        }
        let job = async {
            println!("running tick {tick}");
            sleep(work).await;
        };
        match once(&lock, at_least, at_most, job).await {
            Ok(Ran::Here) => println!("ran tick {tick}"),
            Ok(Ran::TooLong) => println!("dropped tick {tick}"),
            Ok(Ran::Elsewhere) => println!("tick {tick} is another's"),
            Err(error) => println!("tick {tick} failed: {error}"),
        }
    }
    Ok(client.shutdown(Duration::from_secs(5)).await?)
}

/// The number of the next tick, and how long it is until then, by a clock that is `skew` ahead.
#[expect(
    clippy::disallowed_methods,
    reason = "a schedule is one of the wall clock"
)]
fn next_tick(period: Duration, skew: Duration) -> Result<(u128, Duration), Failure> {
    let now = (SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + skew).as_millis();
    let tick = now / period.as_millis() + 1;
    Ok((
        tick,
        Duration::from_millis(u64::try_from(tick * period.as_millis() - now)?),
    ))
}

enum Ran {
    Here,
    /// Dropped after `at_most`.
    TooLong,
    Elsewhere,
}

/// Runs `job` if nobody has begun it within `at_least`, and no longer than `at_most`.
async fn once(
    lock: &Lock,
    at_least: Duration,
    at_most: Duration,
    job: impl Future<Output = ()>,
) -> Result<Ran, Error> {
    let tick = lock
        .acquire()
        .wait(Duration::ZERO)
        .max_hold(at_most)
        .unlock_not_before(at_least);
    match tick.run(async |_guard| job.await).await {
        Ok(()) => Ok(Ran::Here),
        Err(error) if error.is_busy() => Ok(Ran::Elsewhere),
        Err(Error::Lost {
            reason: LossReason::MaxHold,
            ..
        }) => Ok(Ran::TooLong),
        Err(error) => Err(error),
    }
}

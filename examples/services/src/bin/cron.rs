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
//! ten seconds after the last extension.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::time::{Duration, SystemTime};

use leasehold::{Error, Lease, Lock, LockGuard};
use leasehold_examples::{Failure, Terminated, client, millis};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// A job that goes on for longer than `--at-least` has its lock extended by this time, again and again.
const EXTENSION: Duration = Duration::from_secs(10);

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
    let lock = client.lock("example:cron");
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
#[expect(clippy::disallowed_methods, reason = "a schedule is one of the wall clock")]
fn next_tick(period: Duration, skew: Duration) -> Result<(u128, Duration), Failure> {
    let now = (SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + skew).as_millis();
    let tick = now / period.as_millis() + 1;
    Ok((tick, Duration::from_millis(u64::try_from(tick * period.as_millis() - now)?)))
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
    let start = Instant::now();
    let guard = match lock.try_lock_now(Lease::fixed(at_least)).await {
        Err(error) if error.is_timeout() => return Ok(Ran::Elsewhere),
        acquired => acquired?,
    };
    let mut extended = false;
    let done = tokio::select! {
        done = guard.run(timeout_at(start + at_most, job)) => done?,
        failed = keep(&guard, &mut extended) => return Err(failed),
    };
    if start.elapsed() >= at_least {
        guard.unlock().await?;
    } else if extended {
        sleep_until(start + at_least).await;
        guard.unlock().await?;
    } else {
        guard.forget(); // its lease goes on, whatever becomes of this process
    }
    Ok(if done.is_ok() { Ran::Here } else { Ran::TooLong })
}

/// Extends the lock before it ends; returns why it cannot. A lease never gets shorter, so it begins with the
/// shorter of the two times.
async fn keep(guard: &LockGuard, extended: &mut bool) -> Error {
    loop {
        sleep(guard.remaining() * 2 / 3).await;
        match guard.extend(EXTENSION).await {
            Ok(()) => *extended = true,
            Err(error) if error.is_retryable() => {}
            Err(error) => return error,
        }
    }
}

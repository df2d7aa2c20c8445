//! A job that runs once in a fleet whose clocks differ.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin cron -- \
//!   --period 60000 --at-most 50000
//! ```
//!
//! - The crate `leasehold-once` claims each tick by its scheduled time, which is the same on every
//!   machine. The claim stays although the job was quick, and although its process has ended.
//! - `--at-most`: a job that runs longer is dropped. Shorter than the period.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::time::{Duration, SystemTime};

use leasehold_examples::{Failure, Terminated, client, millis};
use leasehold_once::{Once, Ran};
use tokio::time::{sleep, timeout};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut terminated = Terminated::listen()?;
    let period = millis("--period", 60_000)?;
    let at_most = millis("--at-most", 50_000)?;
    let (work, skew) = (millis("--work", 0)?, millis("--skew", 0)?);
    if at_most >= period {
        return Err("--at-most must be shorter than --period".into());
    }
    let client = client()?.connect().await?;
    let once = Once::new(&client, "example:cron");
    println!("ready");
    loop {
        let (tick, next) = next_tick(period, skew)?;
        tokio::select! {
            () = sleep(next) => {}
            () = terminated.wait() => break,
        }
        let time = SystemTime::UNIX_EPOCH + period * tick;
        let job = async || {
            println!("running tick {tick}");
            timeout(at_most, sleep(work)).await
        };
        match once.at_most(time, job).await {
            Ok(Ran::Here(Ok(()))) => println!("ran tick {tick}"),
            Ok(Ran::Here(Err(_))) => println!("dropped tick {tick}"),
            Ok(Ran::Elsewhere) => println!("tick {tick} is another's"),
            Ok(Ran::Missed) => println!("missed tick {tick}"),
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
fn next_tick(period: Duration, skew: Duration) -> Result<(u32, Duration), Failure> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + skew;
    let tick = u32::try_from(now.as_millis() / period.as_millis() + 1)?;
    Ok((tick, (period * tick).saturating_sub(now)))
}

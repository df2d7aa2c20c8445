//! One leader among any number of processes, each ready to follow.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin leader -- --lease 3000
//! ```
//!
//! The leader holds a fenced lock with a renewed lease; its token is the number of its term. A
//! leader that ends in order is followed at once; one that dies, or stands still, when its lease
//! ends. A former leader finds out before it takes another step, and stands for election again.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::time::Duration;

use leasehold::{Error, FencedGuard};
use leasehold_examples::{Failure, Terminated, client};
use tokio::time::interval;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut terminated = Terminated::listen()?;
    let client = client()?.connect().await?;
    let lock = client.fenced_lock("example:leader");
    loop {
        println!("waiting");
        // Waits through outages too. If the process is to end, the place among the waiters is given
        // up.
        let guard = tokio::select! {
            guard = lock.lock() => guard?,
            () = terminated.wait() => break,
        };
        let term = guard.token();
        println!("leading in term {term}");
        let led = tokio::select! {
            led = guard.run(lead(&guard)) => led.and_then(|steps| steps),
            () = terminated.wait() => {
                guard.unlock().await?;
                println!("resigned from term {term}");
                break;
            }
        };
        match led {
            Err(Error::Lost { reason, .. }) => println!("deposed from term {term}: {reason}"),
            Err(error) => return Err(error.into()),
            Ok(never) => match never {},
        }
    }
    Ok(client.shutdown(Duration::from_secs(5)).await?)
}

enum Never {}

/// What only the leader does. What it changes should check the term too: see `docs/fencing.md`.
async fn lead(guard: &FencedGuard) -> Result<Never, Error> {
    let mut steps = interval(Duration::from_millis(20));
    loop {
        steps.tick().await;
        guard.check()?;
        println!("step in term {}", guard.token());
    }
}

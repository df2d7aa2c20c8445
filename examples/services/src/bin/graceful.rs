//! A service that a SIGTERM ends in time, with nothing left locked.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin graceful
//! ```
//!
//! `POST /orders/3/ship?work=2000` ships an order under its lock. Beside the requests a long job
//! runs in steps, under a lock of its own. On SIGTERM:
//!
//! 1. no connection is accepted any more, the job ends with its step and gives its lock back;
//! 2. requests may go on for `--grace` milliseconds;
//! 3. what is left is ended: `shutdown` releases every lock, and `run` drops the work whose lock is
//!    gone.
//!
//! Kubernetes sends SIGKILL `terminationGracePeriodSeconds` (30 by default) after SIGTERM: all this
//! must have ended by then.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::post;
use leasehold::{Client, Error, Lease};
use leasehold_examples::{Failure, Terminated, client, millis};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// For the releases, behind the grace of the requests.
const SETTLE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut terminated = Terminated::listen()?;
    let grace = millis("--grace", 20_000)?;
    let client = client()?.connect().await?;
    let (stop, stopping) = watch::channel(());

    let service = Router::new()
        .route("/orders/{order}/ship", post(ship))
        .with_state(client.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    let told = until_told(stopping.clone());
    let serving = axum::serve(listener, service)
        .with_graceful_shutdown(told)
        .into_future();
    let mut all = pin!(async { tokio::join!(serving, job(&client, stopping)) });
    tokio::select! {
        (served, worked) = &mut all => {
            return Ok(served.and(worked.map_err(std::io::Error::other))?);
        }
        () = terminated.wait() => println!("terminating"),
    }
    drop(stop);
    match timeout(grace, &mut all).await {
        Ok((served, worked)) => {
            served?;
            worked?;
            println!("all is done");
        }
        Err(_) => println!("the grace is over"),
    }
    client.shutdown(SETTLE).await?;
    println!("nothing is locked");
    Ok(())
}

async fn until_told(mut stopping: watch::Receiver<()>) {
    // An error: the sender is gone, which is the sign.
    drop(stopping.changed().await);
}

async fn ship(
    State(client): State<Client>,
    Path(order): Path<u32>,
    Query(query): Query<HashMap<String, u64>>,
) -> Result<String, (StatusCode, String)> {
    let work = Duration::from_millis(query.get("work").copied().unwrap_or(0));
    let lock = client.lock(format!("orders:{order}"));
    let shipped = lock.run(Duration::ZERO, Lease::Renewed, async |_guard| {
        println!("shipping {order}");
        sleep(work).await;
    });
    match shipped.await {
        Ok(()) => Ok(format!("{order} is shipped\n")),
        Err(error) if error.is_busy() => Err((StatusCode::LOCKED, error.to_string())),
        Err(error) => Err((StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    }
}

/// A job in steps, each of which can be the last: the next process goes on where this one stopped.
async fn job(client: &Client, stopping: watch::Receiver<()>) -> Result<(), Error> {
    let lock = client.lock("job:reindex");
    let mut told = pin!(until_told(stopping.clone()));
    let guard = tokio::select! {
        guard = lock.lock() => guard?,
        () = &mut told => return Ok(()),
    };
    println!("the job begins");
    while stopping.has_changed().is_ok() {
        guard.check()?;
        sleep(Duration::from_millis(50)).await; // a step, and where it ended is written down
    }
    guard.unlock().await?;
    println!("the job is given back");
    Ok(())
}

//! A service that tells what its locks do: metrics for Prometheus at `/metrics`, and events in its
//! log.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin exporting -- \
//!   --workers 4 --orders 100
//! curl http://127.0.0.1:9000/metrics
//! ```
//!
//! Each worker ships its orders one after the other, each under the lock of its customer, and
//! writes every fourth into a ledger, under a fair lock. After the last order it can still be
//! scraped; SIGTERM ends it. `RUST_LOG` chooses what is logged: `leasehold=debug` has a line for
//! each acquisition, hold and release as well.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use leasehold::{Client, Error, Lease};
use leasehold_examples::{Failure, Terminated, client, millis, option};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Seconds. Without them the exporter makes summaries, which cannot be added up over processes.
const DURATIONS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0,
];
const CALLS: [f64; 6] = [0.0, 1.0, 2.0, 3.0, 5.0, 10.0];
/// How often old samples are put into the histograms.
const UPKEEP: Duration = Duration::from_secs(5);
/// An outage of Redis is no reason to end.
const AFTER_AN_ERROR: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
struct Work {
    /// `None`: until SIGTERM.
    orders: Option<u64>,
    customers: u64,
    takes: Duration,
    wait: Duration,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut terminated = Terminated::listen()?;
    log();
    // Before the client: what it tells earlier is lost.
    let metrics = exporter()?;
    let locks = client()?.metric_name(until_the_colon).connect().await?;
    let work = Work {
        orders: option("--orders")?,
        customers: option("--customers")?.unwrap_or(10),
        takes: millis("--work", 5)?,
        wait: millis("--wait", 10_000)?,
    };
    let address: String = option("--listen")?.unwrap_or_else(|| "127.0.0.1:9000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("metrics at {}", listener.local_addr()?);
    let workers = option("--workers")?.unwrap_or(4);
    tokio::select! {
        served = serve(listener, metrics) => served?,
        worked = all(&locks, workers, &work) => worked?,
        () = terminated.wait() => {}
    }
    Ok(locks.shutdown(Duration::from_secs(5)).await?)
}

fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
}

fn exporter() -> Result<PrometheusHandle, Failure> {
    let builder = PrometheusBuilder::new()
        .set_buckets(&DURATIONS)?
        .set_buckets_for_metric(Matcher::Full("leasehold_acquire_calls".to_owned()), &CALLS)?;
    Ok(builder.install_recorder()?)
}

/// The label of a lock: `customer:17` is one of few hundreds, `customer` one of two.
fn until_the_colon(name: &str) -> Option<String> {
    name.split(':').next().map(str::to_owned)
}

async fn serve(listener: TcpListener, metrics: PrometheusHandle) -> Result<(), Failure> {
    let rendered = metrics.clone();
    let routes = Router::new().route("/metrics", get(async move || rendered.render()));
    let upkeep = async {
        loop {
            tokio::time::sleep(UPKEEP).await;
            metrics.run_upkeep();
        }
    };
    tokio::select! {
        served = axum::serve(listener, routes) => Ok(served?),
        () = upkeep => Ok(()),
    }
}

/// Does not end before SIGTERM: what was counted is to be read.
async fn all(locks: &Client, workers: u64, work: &Work) -> Result<(), Failure> {
    let mut running = JoinSet::new();
    for worker in 0..workers {
        running.spawn(ship_all(locks.clone(), worker, work.clone()));
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    println!("all orders are shipped");
    std::future::pending().await
}

async fn ship_all(locks: Client, worker: u64, work: Work) -> Result<(), Error> {
    let mut order = 0;
    while work.orders.is_none_or(|orders| order < orders) {
        match ship(&locks, worker + order, &work).await {
            Ok(()) => {}
            Err(Error::Timeout { .. }) => tracing::info!(order, "the customer is busy: later"),
            Err(Error::Lost { .. }) => tracing::warn!(order, "the lock was lost: to be looked at"),
            Err(error) if error.is_retryable() => {
                tracing::warn!(order, %error, "later");
                tokio::time::sleep(AFTER_AN_ERROR).await;
            }
            Err(error) => return Err(error),
        }
        order += 1;
    }
    Ok(())
}

async fn ship(locks: &Client, number: u64, work: &Work) -> Result<(), Error> {
    let customer = locks.lock(format!("customer:{}", number % work.customers));
    let shipping = async |_guard| tokio::time::sleep(work.takes).await;
    customer.run(work.wait, Lease::Renewed, shipping).await?;
    if number.is_multiple_of(4) {
        let ledger = locks.fair_lock("ledger");
        ledger
            .run(work.wait, Lease::Renewed, async |_guard| ())
            .await?;
    }
    Ok(())
}

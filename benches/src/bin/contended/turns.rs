//! Clients that always want one plain lock: what a turn costs the server, and how even the turns
//! are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use leasehold::Client;
use leasehold_testbed::{Outside, Server, info_line};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::server_cost::{ServerCost, server};

const SECTION: Duration = Duration::from_micros(500);
/// Before this, most clients have not had a turn.
const BEGIN: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(8);

pub(crate) const COLUMNS: &str = "| clients | commands a turn | bytes to the AOF a turn | bytes to \
    a replica a turn | CPU of the server a turn, µs | turns a second | fewest and most turns of a \
    client |";

#[expect(clippy::cast_precision_loss, reason = "few, and rounded in the end")]
pub(crate) async fn row(size: usize) -> Result<String, Failure> {
    let server = server();
    let of = format!("127.0.0.1 {}", server.port());
    let replica = Server::start_with(&["--replicaof", &of]);
    let mut outside = Outside::of(&server);
    while sent_to_replicas(&mut outside)? == 0 {
        sleep(Duration::from_millis(20)).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let mut turns = Vec::new();
    let mut tasks = JoinSet::new();
    for _ in 0..size {
        let client = Client::connect(&server.url()).await?;
        let (over, mine) = (over.clone(), Arc::new(AtomicU64::new(0)));
        turns.push(mine.clone());
        tasks.spawn(async move {
            let lock = client.lock("x");
            while !over.load(Relaxed) {
                let guard = lock.lock().await?;
                mine.fetch_add(1, Relaxed);
                sleep_exactly(SECTION).await;
                guard.unlock().await?;
            }
            Ok::<_, leasehold::Error>(())
        });
    }
    sleep(BEGIN).await;
    let counts = || turns.iter().map(|turns| turns.load(Relaxed));
    let (from, sent) = (
        counts().collect::<Vec<_>>(),
        sent_to_replicas(&mut outside)?,
    );
    let (began, before) = (Instant::now(), ServerCost::of(&mut outside)?);
    sleep(MEASURED).await;
    let cost = ServerCost::of(&mut outside)?.since(before);
    let sent = sent_to_replicas(&mut outside)? - sent;
    let took = began.elapsed();
    let each: Vec<u64> = counts().zip(from).map(|(now, then)| now - then).collect();
    over.store(true, Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    drop(replica);
    let total = each.iter().sum::<u64>() as f64;
    Ok(format!(
        "| {size} | {:.1} | {:.0} | {:.0} | {:.0} | {:.0} | {} and {} |",
        cost.commands as f64 / total,
        cost.written as f64 / total,
        sent as f64 / total,
        cost.cpu * 1e6 / total,
        total / took.as_secs_f64(),
        each.iter().min().ok_or("no client")?,
        each.iter().max().ok_or("no client")?,
    ))
}

/// Tokio's timers count whole milliseconds.
async fn sleep_exactly(span: Duration) {
    let until = Instant::now() + span;
    while Instant::now() < until {
        tokio::task::yield_now().await;
    }
}

/// Zero before a replica is connected.
fn sent_to_replicas(outside: &mut Outside) -> Result<u64, Failure> {
    let info = outside.command(&["INFO", "replication"]).text();
    let online = info.contains("state=online");
    let offset = info_line(&info, "master_repl_offset").ok_or("no offset")?;
    Ok(if online { offset.parse()? } else { 0 })
}

//! S6 and S7: ten thousand locks held, and ten thousand tasks that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{Client, LockGuard};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::Failure;
use crate::options::Options;
use crate::report::{Report, count};
use crate::server::{Probe, Sample};

/// Tasks that take or release many locks between them.
const WORKERS: usize = 64;
/// How long the waiters are watched while nothing happens.
const IDLE: Duration = Duration::from_secs(3);
/// A waiter that takes longer than this counts as stuck.
const WAKE_LIMIT: Duration = Duration::from_secs(60);

/// S6: what it costs, in a second, to keep `n` locks by renewal.
pub(crate) async fn held(options: &Options) -> Result<Report, Failure> {
    let client = Client::connect(options.url()).await?;
    client.lock("bench:first").lock().await?.unlock().await?; // connections and scripts are there
    let before = Sample::take(&options.addresses()).await?;

    let start = Instant::now();
    let guards = lock_all(&client, options.n).await?;
    let acquired = start.elapsed();
    sleep(options.warmup).await;
    let begin = Sample::take(&options.addresses()).await?;
    sleep(options.measured).await;
    let end = Sample::take(&options.addresses()).await?;
    let grown = end.resident() - before.resident();
    let still_held = Probe::open(options.address()).await?.ask("DBSIZE").await?;
    let start = Instant::now();
    let errors = unlock_all(guards).await;

    let span = end.at - begin.at;
    let items = count(options.n);
    let mut figures = begin.costs_until(&end, span.as_secs_f64()).report();
    figures.put("threads_or_tasks", options.n);
    figures.put("ops", options.n);
    figures.put("seconds", span.as_secs_f64());
    figures.put("acquire_all_s", acquired.as_secs_f64());
    figures.put("release_all_s", start.elapsed().as_secs_f64());
    figures.put("rss_per_item", grown / items);
    figures.put(
        "redis_mem_per_item",
        (end.memory() - before.memory()) / items,
    );
    figures.put("still_held", still_held);
    figures.put("errors", errors);
    Ok(figures)
}

/// S7: `n` tasks wait for `n` locks of another client, which then releases them all.
pub(crate) async fn awaited(options: &Options) -> Result<Report, Failure> {
    let (one, other) = (
        Client::connect(options.url()).await?,
        Client::connect(options.url()).await?,
    );
    let guards = lock_all(&one, options.n).await?;
    let before = Sample::take(&options.addresses()).await?;
    let freed = Arc::new(AtomicBool::new(false));
    let mut waiters = JoinSet::new();
    for item in 0..options.n {
        waiters.spawn(wait_for(other.clone(), item, freed.clone()));
    }
    sleep(options.warmup).await; // every waiter settles
    let idle = Sample::take(&options.addresses()).await?;
    let grown = idle.resident() - before.resident();
    sleep(IDLE).await;

    let begin = Sample::take(&options.addresses()).await?;
    freed.store(true, Ordering::SeqCst);
    let mut errors = unlock_all(guards).await;
    let released = begin.at.elapsed();
    let (mut latencies, mut theirs, mut early) = (Vec::new(), Vec::new(), 0_usize);
    let limit = Instant::now() + WAKE_LIMIT;
    while let Ok(Some(waiter)) = timeout_at(limit, waiters.join_next()).await {
        match waiter? {
            Ok(woken) => {
                early += usize::from(woken.too_early);
                latencies.push(woken.at.saturating_duration_since(begin.at));
                theirs.push(woken.guard);
            }
            Err(_) => errors += 1,
        }
    }
    let end = Sample::take(&options.addresses()).await?;

    let rest = idle.costs_until(&begin, (begin.at - idle.at).as_secs_f64());
    let last = latencies.iter().max().copied().unwrap_or_default();
    let mut figures = begin.costs_until(&end, count(options.n)).report();
    figures.put_rate(options.n, last);
    figures.put_latencies(latencies);
    figures.put("threads_or_tasks", options.n);
    figures.put("errors", errors);
    figures.put("stuck_tasks", waiters.len());
    figures.put("early", early);
    figures.put("release_all_s", released.as_secs_f64());
    figures.put("rss_per_item", grown / count(options.n));
    figures.put("idle_redis_commands_per_s", rest.commands);
    figures.put("idle_redis_cpu_us_per_s", rest.redis_cpu_us);
    figures.put("idle_client_cpu_us_per_s", rest.client_cpu_us);
    unlock_all(theirs).await;
    Ok(figures)
}

/// A waiter of S7 that has got its lock.
struct Woken {
    at: Instant,
    /// It got the lock before anybody released it.
    too_early: bool,
    guard: LockGuard,
}

async fn wait_for(client: Client, item: usize, freed: Arc<AtomicBool>) -> Result<Woken, Failure> {
    let guard = client.lock(key(item)).lock().await?;
    Ok(Woken {
        at: Instant::now(),
        too_early: !freed.load(Ordering::SeqCst),
        guard,
    })
}

pub(crate) async fn lock_all(client: &Client, n: usize) -> Result<Vec<LockGuard>, Failure> {
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let client = client.clone();
        workers.spawn(async move {
            let mut guards = Vec::new();
            for item in (worker..n).step_by(WORKERS) {
                guards.push(client.lock(key(item)).lock().await?);
            }
            Ok::<_, Failure>(guards)
        });
    }
    let mut guards = Vec::with_capacity(n);
    while let Some(worker) = workers.join_next().await {
        guards.extend(worker??);
    }
    Ok(guards)
}

/// Returns how many could not be released.
pub(crate) async fn unlock_all(guards: Vec<LockGuard>) -> usize {
    let mut parts: Vec<Vec<LockGuard>> = (0..WORKERS).map(|_| Vec::new()).collect();
    for (index, guard) in guards.into_iter().enumerate() {
        parts[index % WORKERS].push(guard);
    }
    let mut workers = JoinSet::new();
    for part in parts {
        workers.spawn(async move {
            let mut errors = 0;
            for guard in part {
                errors += usize::from(guard.unlock().await.is_err());
            }
            errors
        });
    }
    workers.join_all().await.into_iter().sum()
}

pub(crate) fn key(item: usize) -> String {
    format!("bench:many:{item}")
}

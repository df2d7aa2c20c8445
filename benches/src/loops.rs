//! S1 to S4: tasks that lock and unlock in a loop, on a key of their own or all on one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{Client, Lock, LockGuard};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::Failure;
use crate::options::Options;
use crate::report::{Report, count};
use crate::server::{Probe, Sample};

/// How long after the end a task may still be waiting before it counts as stuck.
const GRACE: Duration = Duration::from_secs(15);

/// Every task has a key of its own; the latency is that of lock and unlock together.
pub(crate) async fn own_keys(options: &Options, tasks: usize) -> Result<Report, Failure> {
    let builder = Client::builder(options.url());
    let builder = if options.described {
        builder.describe_holds()
    } else {
        builder
    };
    let client = builder.connect().await?;
    wait_for_start(options.start_at).await;
    let watch = Arc::new(Watch::default());
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let lock = client.lock(format!("bench:{}:{task}", options.proc));
        running.spawn(pairs(lock, watch.clone()));
    }
    let mut figures = measure(options, &watch, running).await?;
    figures.put("threads_or_tasks", tasks);
    Ok(figures)
}

/// All tasks share one key; the latency is that of the acquire.
pub(crate) async fn one_key(options: &Options) -> Result<Report, Failure> {
    let client = Client::connect(options.url()).await?;
    wait_for_start(options.start_at).await;
    let watch = Arc::new(Watch::default());
    let mut running = JoinSet::new();
    for task in 0..options.tasks {
        let lock = match options.scenario.as_str() {
            "S8" | "S8x" => client.fair_lock("bench:shared"),
            _ if options.fenced => client.fenced_lock("bench:shared").into(),
            _ => client.lock("bench:shared"),
        };
        let probe = if options.verify {
            Some(Probe::open(options.address()).await?)
        } else {
            None
        };
        running.spawn(turns(lock, task + 1, probe, watch.clone()));
    }
    let mut figures = measure(options, &watch, running).await?;
    figures.put("threads_or_tasks", options.tasks);
    figures.put("violations", watch.violations.load(Ordering::SeqCst));
    figures.put("switches", watch.switches.load(Ordering::SeqCst));
    Ok(figures)
}

/// What the tasks of a run share.
#[derive(Debug, Default)]
struct Watch {
    measuring: AtomicBool,
    stopped: AtomicBool,
    errors: AtomicUsize,
    /// Tasks between lock and unlock of the shared key.
    inside: AtomicUsize,
    /// The task that was inside last.
    last: AtomicUsize,
    switches: AtomicUsize,
    violations: AtomicUsize,
}

impl Watch {
    fn is_measuring(&self) -> bool {
        self.measuring.load(Ordering::SeqCst)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Then the tasks stop.
    async fn measure_for(&self, span: Duration) {
        self.measuring.store(true, Ordering::SeqCst);
        sleep(span).await;
        self.measuring.store(false, Ordering::SeqCst);
        self.stopped.store(true, Ordering::SeqCst);
    }

    #[expect(
        clippy::print_stderr,
        reason = "the first error is shown, the others are counted"
    )]
    fn failed(&self, error: &dyn std::fmt::Display) {
        if self.errors.fetch_add(1, Ordering::SeqCst) == 0 {
            eprintln!("{error}");
        }
    }

    fn enter(&self) {
        if self.inside.fetch_add(1, Ordering::SeqCst) != 0 {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The lock, or a short pause after an error.
async fn take(lock: &Lock, watch: &Watch) -> Option<LockGuard> {
    match lock.lock().await {
        Ok(guard) => Some(guard),
        Err(error) => {
            watch.failed(&error);
            sleep(Duration::from_millis(1)).await;
            None
        }
    }
}

async fn pairs(lock: Lock, watch: Arc<Watch>) -> Vec<Duration> {
    let mut latencies = Vec::new();
    while !watch.is_stopped() {
        let start = Instant::now();
        let Some(guard) = take(&lock, &watch).await else {
            continue;
        };
        if let Err(error) = guard.unlock().await {
            watch.failed(&error);
        }
        if watch.is_measuring() {
            latencies.push(start.elapsed());
        }
    }
    latencies
}

async fn turns(
    lock: Lock,
    me: usize,
    mut probe: Option<Probe>,
    watch: Arc<Watch>,
) -> Vec<Duration> {
    let mut latencies = Vec::new();
    while !watch.is_stopped() {
        let start = Instant::now();
        let Some(guard) = take(&lock, &watch).await else {
            continue;
        };
        let latency = start.elapsed();
        watch.enter();
        if let Some(probe) = &mut probe
            && !matches!(probe.ask("INCR probe").await, Ok(1))
        {
            watch.violations.fetch_add(1, Ordering::SeqCst);
        }
        let last = watch.last.swap(me, Ordering::SeqCst);
        if watch.is_measuring() {
            watch
                .switches
                .fetch_add(usize::from(last != me), Ordering::SeqCst);
            latencies.push(latency);
        }
        if let Some(probe) = &mut probe
            && let Err(error) = probe.ask("DECR probe").await
        {
            watch.failed(&error);
        }
        watch.leave();
        if let Err(error) = guard.unlock().await {
            watch.failed(&error);
        }
    }
    latencies
}

/// A task for each of these locks; what each pair took while it was measured. A pair that fails is
/// an error.
pub(crate) async fn pairs_of(
    locks: impl Iterator<Item = Lock>,
    options: &Options,
) -> Result<Vec<Duration>, Failure> {
    let watch = Arc::new(Watch::default());
    let mut running = JoinSet::new();
    for lock in locks {
        running.spawn(pairs(lock, watch.clone()));
    }
    sleep(options.warmup).await;
    watch.measure_for(options.measured).await;
    let tasks = timeout_at(Instant::now() + GRACE, running.join_all()).await;
    let tasks = tasks.map_err(|_| "a task is stuck")?;
    match watch.errors.load(Ordering::SeqCst) {
        0 => Ok(tasks.concat()),
        errors => Err(format!("{errors} pairs failed").into()),
    }
}

/// Lets the tasks warm up, measures, stops them and adds up what they did.
async fn measure(
    options: &Options,
    watch: &Watch,
    mut running: JoinSet<Vec<Duration>>,
) -> Result<Report, Failure> {
    sleep(options.warmup).await;
    let begin = Sample::take(&options.addresses()).await?;
    watch.measure_for(options.measured).await;
    let end = Sample::take(&options.addresses()).await?;

    let mut latencies = Vec::new();
    let mut shares = Vec::new();
    let limit = Instant::now() + GRACE;
    while let Ok(Some(task)) = timeout_at(limit, running.join_next()).await {
        let own = task?;
        shares.push(own.len());
        latencies.extend(own);
    }
    let mut figures = begin.costs_until(&end, count(latencies.len())).report();
    figures.put("idle_cores", begin.idle_cores_until(&end));
    figures.put("errors", watch.errors.load(Ordering::SeqCst));
    figures.put("stuck_tasks", running.len());
    figures.put("min_share", shares.iter().copied().min().unwrap_or(0));
    figures.put("max_share", shares.iter().copied().max().unwrap_or(0));
    figures.put_rate(latencies.len(), end.at - begin.at);
    figures.put_latencies(latencies);
    Ok(figures)
}

/// Two processes that are started one after the other begin together.
async fn wait_for_start(start_at: Option<u64>) {
    let start = Duration::from_millis(start_at.unwrap_or(0));
    sleep(start.saturating_sub(unix_time())).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "processes compare moments by the wall clock"
)]
pub(crate) fn unix_time() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

//! Instances of a real scheduler with one schedule: a tick each second.

use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use apalis_core::error::BoxDynError;
use apalis_core::task::Task;
use apalis_core::worker::builder::WorkerBuilder;
use apalis_cron::timezone::Utc;
use apalis_cron::{CronScheduler, Schedule, Tick};
use leasehold::EmbeddedRedis;
use leasehold_once::{OnceLayer, Ran, job};
use leasehold_testbed::eventually;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_cron_scheduler::JobScheduler;
use tower_layer::Layer as _;
use tower_service::Service;

use crate::{now, once};

/// How often each tick ran, in seconds since 1970.
type Runs = Arc<Mutex<BTreeMap<u64, u32>>>;

const INSTANCES: usize = 3;
const TICKS: usize = 3;

fn note(runs: &Runs, seconds: u64) {
    *runs.lock().expect("no panic").entry(seconds).or_default() += 1;
}

/// Waits for some ticks, and checks that each ran once.
async fn each_ran_once(runs: &Runs) {
    let enough = async || runs.lock().expect("no panic").len() > TICKS;
    eventually("some ticks", enough).await;
    let runs = runs.lock().expect("no panic").clone();
    assert!(runs.values().all(|times| *times == 1), "{runs:?}");
    let (first, last) = (runs.keys().min(), runs.keys().max());
    println!("{} ticks from {first:?} to {last:?}", runs.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_of_tokio_cron_scheduler_runs_in_one_instance() {
    let redis = EmbeddedRedis::new();
    let (runs, refused) = (Runs::default(), Runs::default());
    let mut schedulers = Vec::new();
    for _ in 0..INSTANCES {
        let (once, runs, refused) = (once(&redis.client()), runs.clone(), refused.clone());
        let each_second = job("* * * * * *", move |tick| {
            let (once, runs, refused) = (once.clone(), runs.clone(), refused.clone());
            async move {
                let since = tick.duration_since(SystemTime::UNIX_EPOCH).expect("later");
                assert_eq!(since.subsec_nanos(), 0, "the scheduled time");
                let work = async || note(&runs, since.as_secs());
                match once.at_most(tick, work).await.expect("asked") {
                    Ran::Here(()) => {}
                    Ran::Elsewhere => note(&refused, since.as_secs()),
                    Ran::Missed => unreachable!("its clock is right"),
                }
            }
        });
        let scheduler = JobScheduler::new().await.expect("a scheduler");
        scheduler
            .add(each_second.expect("a job"))
            .await
            .expect("added");
        scheduler.start().await.expect("started");
        schedulers.push(scheduler);
    }
    each_ran_once(&runs).await;
    let refused: u32 = refused.lock().expect("no panic").values().sum();
    assert!(refused > 0, "the others came too");
    for mut scheduler in schedulers {
        scheduler.shutdown().await.expect("stopped");
    }
    assert!(job("every day", |_tick| async {}).is_err());
}

/// Each second.
#[derive(Clone, Debug)]
struct EachSecond;

impl Schedule<Utc> for EachSecond {
    fn next_tick(&mut self, _: &Utc) -> Option<Tick> {
        let since = now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Tick::new(since.as_secs() + 1))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_of_apalis_runs_in_one_instance() {
    for layer in [OnceLayer::at_most, OnceLayer::at_least] {
        let redis = EmbeddedRedis::new();
        let (runs, mut workers) = (Runs::default(), JoinSet::new());
        for number in 0..INSTANCES {
            let (client, runs) = (redis.client(), runs.clone());
            let handle = move |tick: Tick| {
                let runs = runs.clone();
                async move {
                    note(&runs, tick.get_timestamp());
                    sleep(Duration::from_millis(20)).await;
                    Ok::<_, BoxDynError>(())
                }
            };
            let worker = WorkerBuilder::new(format!("instance-{number}"))
                .backend(CronScheduler::new(EachSecond))
                .layer(layer(once(&client)))
                .build(handle);
            workers.spawn(worker.run());
        }
        each_ran_once(&runs).await;
        workers.shutdown().await;
    }
}

/// A handler that never ends its first run. Each call needs a service that was ready.
#[derive(Debug)]
struct StuckOnce {
    is_ready: bool,
    calls: Arc<AtomicU32>,
}

impl Clone for StuckOnce {
    fn clone(&self) -> Self {
        let (is_ready, calls) = (false, self.calls.clone());
        StuckOnce { is_ready, calls }
    }
}

impl Service<Task<Tick>> for StuckOnce {
    type Response = u32;
    type Error = BoxDynError;
    type Future = Pin<Box<dyn Future<Output = Result<u32, BoxDynError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxDynError>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Task<Tick>) -> Self::Future {
        assert!(mem::take(&mut self.is_ready), "called before it was ready");
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        Box::pin(async move {
            if call == 1 {
                pending::<()>().await;
            }
            Ok(call)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_of_apalis_begins_again_if_its_lock_is_lost() {
    let redis = EmbeddedRedis::new();
    let inner = StuckOnce {
        is_ready: false,
        calls: Arc::default(),
    };
    let mut worker = OnceLayer::at_least(once(&redis.client())).layer(inner);
    poll_fn(|context| worker.poll_ready(context))
        .await
        .expect("ready");
    let lose = async {
        sleep(Duration::from_millis(100)).await;
        assert!(redis.lose("job@run"));
    };
    let (ran, ()) = tokio::join!(worker.call(Task::new(Tick::new(7))), lose);
    assert_eq!(ran.expect("ran"), Ran::Here(2));
    poll_fn(|context| worker.poll_ready(context))
        .await
        .expect("ready");
    let again = worker.call(Task::new(Tick::new(7))).await;
    assert_eq!(again.expect("refused"), Ran::Elsewhere);
    // A tick of 1970 is far from any clock.
    let mut worker = OnceLayer::at_most(once(&redis.client())).layer(worker);
    poll_fn(|context| worker.poll_ready(context))
        .await
        .expect("ready");
    let missed = worker.call(Task::new(Tick::new(7))).await;
    assert_eq!(missed.expect("refused"), Ran::Missed);
}

//! The parts of S11 that its clients play, each in a process of its own.

use std::time::Duration;

use leasehold::{Client, LockGuard};
use tokio::io::{AsyncBufReadExt as _, BufReader, Stdin, stdin};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::Failure;
use crate::loops::{self, unix_time};
use crate::many::{key, lock_all, unlock_all};
use crate::options::Options;
use crate::report::Report;

/// Between two pairs whose latency is measured while names are held.
const PAUSE: Duration = Duration::from_millis(1);
/// How often a client looks whether all of its waiters wait. It counts them each time.
const LOOK: Duration = Duration::from_millis(200);
/// Waiters that take longer than this are stuck.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug)]
enum Part {
    Holds,
    Waits,
    Pairs,
}

impl Part {
    fn of(name: &str) -> Result<Part, Failure> {
        match name {
            "holds" => Ok(Part::Holds),
            "waits" => Ok(Part::Waits),
            "pairs" => Ok(Part::Pairs),
            other => Err(format!("--part is one of holds, waits, pairs, not {other}").into()),
        }
    }
}

pub(super) async fn run(options: &Options, part: &str) -> Result<Report, Failure> {
    let part = Part::of(part)?;
    let mut parent = Parent(BufReader::new(stdin()));
    let builder = Client::builder(options.url());
    let builder = match options.lease {
        Some(lease) => builder.lease(lease),
        None => builder,
    };
    let client = builder.connect().await?;
    // All connections and scripts are there before anything is measured.
    client.lock("bench:first").lock().await?.unlock().await?;
    parent.reached("connected").await?;
    match part {
        Part::Holds => hold(options, &client, &mut parent).await,
        Part::Waits => wait(options, &client, &mut parent).await,
        Part::Pairs => pairs(options, &client, &mut parent).await,
    }
}

/// The program that started this one.
struct Parent(BufReader<Stdin>);

impl Parent {
    /// Says so, and goes on when it may.
    #[expect(clippy::print_stdout, reason = "it is read there")]
    async fn reached(&mut self, stage: &str) -> Result<(), Failure> {
        println!("{stage}");
        let mut line = String::new();
        match self.0.read_line(&mut line).await? {
            0 => Err("the program that started this client has ended".into()),
            _ => Ok(()),
        }
    }
}

/// Holds `n` names. Then, for `seconds`, takes a further one again and again.
async fn hold(options: &Options, client: &Client, parent: &mut Parent) -> Result<Report, Failure> {
    let start = Instant::now();
    let guards = lock_all(client, options.n).await?;
    let acquired = start.elapsed();
    parent.reached("holding").await?;
    let further = client.lock("bench:further");
    let (mut latencies, end) = (Vec::new(), Instant::now() + options.measured);
    while Instant::now() < end {
        let start = Instant::now();
        further.lock().await?.unlock().await?;
        latencies.push(start.elapsed());
        sleep(PAUSE).await;
    }
    let lost = client.stats().lost;
    let (released_at, start) = (unix_time(), Instant::now());
    let errors = unlock_all(guards).await;

    let mut figures = Report::default();
    figures.put_latencies_of("pair_", latencies);
    figures.put("acquire_all_s", acquired.as_secs_f64());
    figures.put("release_all_s", start.elapsed().as_secs_f64());
    figures.put("released_at_us", released_at.as_secs_f64() * 1e6);
    figures.put("lost", lost);
    figures.put("errors", errors);
    Ok(figures)
}

/// `n` tasks wait for `names`. A task that shares its name unlocks at once, for the next one.
async fn wait(options: &Options, client: &Client, parent: &mut Parent) -> Result<Report, Failure> {
    let names = options.names.map_or(options.n, usize::from);
    let mut waiters = JoinSet::new();
    for task in 0..options.n {
        let lock = client.lock(key(task % names));
        let is_shared = names < options.n;
        waiters.spawn(async move {
            let guard = lock.lock().await?;
            let at = unix_time();
            let mut kept: Option<LockGuard> = None;
            if is_shared {
                guard.unlock().await?;
            } else {
                kept = Some(guard);
            }
            Ok::<_, Failure>((at, kept))
        });
    }
    let all_wait = || {
        let stats = client.stats();
        stats.waiting >= options.n as u64 && stats.subscriptions >= names as u64
    };
    timeout(WAIT_LIMIT, async {
        while !all_wait() {
            sleep(LOOK).await;
        }
    })
    .await
    .map_err(|_| format!("they do not all wait: {}", client.stats()))?;
    parent.reached("waiting").await?;

    let (mut last, mut guards) = (Duration::ZERO, Vec::new());
    let all = async {
        while let Some(waiter) = waiters.join_next().await {
            let (at, guard) = waiter??;
            last = last.max(at);
            guards.extend(guard);
        }
        Ok::<_, Failure>(())
    };
    timeout(WAIT_LIMIT, all)
        .await
        .map_err(|_| format!("waiters are stuck: {}", client.stats()))??;
    let mut figures = Report::default();
    figures.put("last_at_us", last.as_secs_f64() * 1e6);
    figures.put(
        "cancelled_as_unpolled",
        client.stats().cancelled_as_unpolled,
    );
    unlock_all(guards).await;
    Ok(figures)
}

/// `n` tasks lock and unlock, each a name of its own, or all of them one.
async fn pairs(options: &Options, client: &Client, parent: &mut Parent) -> Result<Report, Failure> {
    let names = options.names.map_or(options.n, usize::from);
    let lock = |task: usize| match names {
        1 => client.lock("bench:shared"),
        _ => client.lock(format!("bench:{}:{}", options.proc, task % names)),
    };
    let latencies = loops::pairs_of((0..options.n).map(lock), options).await?;
    // A process that has ended has no CPU time and no memory.
    parent.reached("done").await?;
    let latencies: Vec<_> = latencies.iter().map(Duration::as_secs_f64).collect();
    let mut figures = Report::default();
    figures.put("latencies_s", latencies);
    Ok(figures)
}

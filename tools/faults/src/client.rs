//! A client process: runs workers that take locks, work while they hold them, and record the
//! results.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use clap::Args;
use leasehold::{Client, ClientBuilder};
use leasehold_specification::trace::Recorder;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::clock;
use crate::history::What;
use crate::log::Log;
use crate::orders::{Orders, Span};
use crate::plan::{Times, WorkerKind};
use crate::process::Usage;
use crate::resource::Resource;
use crate::stalls::Stalls;
use crate::worker::{Connects, Worker, kind};
use crate::workload::Workload;

/// The longest interval that the library accepts. It is longer than any wait, so the safety poll
/// never runs.
const NO_SAFETY_POLL: Duration = Duration::from_secs(60);
/// Pause between two attempts to connect or to prepare.
const PAUSE: Duration = Duration::from_millis(100);
const SAMPLED_EVERY: Duration = Duration::from_secs(1);
const THREADS: usize = 2;
const SHUTDOWN: Duration = Duration::from_secs(10);

#[derive(Args, Clone, Debug)]
pub(crate) struct ClientArguments {
    /// URL of the deployment, or the URLs of five independent servers.
    #[arg(long, value_delimiter = ' ')]
    pub(crate) urls: Vec<String>,
    /// Number of this process in the history.
    #[arg(long)]
    pub(crate) process: u32,
    /// Workers of each workload.
    #[arg(long)]
    pub(crate) workers: u32,
    #[arg(long, value_delimiter = ',')]
    pub(crate) workloads: Vec<Workload>,
    /// For how long nothing is taken from a server that has just become the primary.
    #[arg(long)]
    pub(crate) grace_ms: Option<u64>,
    /// Whether one worker of each workload connects anew for each acquisition.
    #[arg(long, action = clap::ArgAction::Set, default_value_t = false)]
    pub(crate) newcomers: bool,
    #[arg(long)]
    pub(crate) lease_ms: u64,
    #[arg(long)]
    pub(crate) wait_ms: u64,
    /// How long a quick worker holds a lock.
    #[arg(long)]
    pub(crate) hold_ms: Span,
    /// How long a long hold lasts.
    #[arg(long)]
    pub(crate) long_ms: Span,
    /// How long a worker rests between two acquisitions.
    #[arg(long)]
    pub(crate) think_ms: Span,
    /// Time between two checks of the guard.
    #[arg(long)]
    pub(crate) step_ms: u64,
    #[arg(long)]
    pub(crate) seed: u64,
    /// Address of the resource.
    #[arg(long)]
    pub(crate) resource: SocketAddr,
}

pub(crate) fn main(arguments: ClientArguments) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let ended = runtime.block_on(run(arguments));
    // Do not wait for tasks that are still blocked.
    runtime.shutdown_background();
    ended
}

async fn run(arguments: ClientArguments) -> Result<(), String> {
    let log = Log::of(arguments.process);
    let clients = connected(&arguments, &log).await;
    let resource = Resource::connect(arguments.resource)
        .await
        .map_err(|error| error.to_string())?;
    let (resource, orders) = (Arc::new(resource), Arc::<Orders>::default());
    let library = format!("leasehold {}", env!("CARGO_PKG_VERSION"));
    log.write(
        0,
        "",
        What::Started {
            pid: std::process::id(),
            library,
        },
    );

    let obeying = tokio::spawn(obey(orders.clone()));
    let sampling = tokio::spawn(sample(log.clone()));
    let stalls = Stalls::record({
        let log = log.clone();
        move |what| log.write(0, "", what)
    });
    let times = Times {
        lease: Duration::from_millis(arguments.lease_ms),
        wait: Duration::from_millis(arguments.wait_ms),
        hold: arguments.hold_ms,
        long: arguments.long_ms,
        step: Duration::from_millis(arguments.step_ms),
    };
    let (mut numbers, mut working) = (0.., Vec::new());
    for workload in &arguments.workloads {
        let targets = workload.targets(&clients);
        for target in &targets {
            until_done(|| target.prepare()).await;
        }
        for index in 0..arguments.workers {
            let number: u32 = numbers.next().expect("few workers");
            let newcomer = (arguments.newcomers && index == 0)
                .then(|| newcomer(&arguments, *workload, number, &log));
            let seed = arguments.seed ^ u64::from(arguments.process) << 32 ^ u64::from(number);
            let worker = Worker {
                number,
                kind: WorkerKind::of(index + arguments.process),
                targets: targets.clone(),
                newcomer,
                times,
                think: arguments.think_ms,
                random: fastrand::Rng::with_seed(seed),
                resource: resource.clone(),
                orders: orders.clone(),
                log: log.clone(),
                id: format!("{}.{number}", arguments.process),
            };
            working.push(tokio::spawn(worker.work()));
        }
    }
    for worker in working {
        worker
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
    }
    sampling.abort();
    drop(stalls);
    obeying.abort();
    let (counts, mut error) = (counts(&clients), None);
    for client in clients {
        error = client
            .shutdown(SHUTDOWN)
            .await
            .err()
            .map(|error| kind(&error))
            .or(error);
    }
    log.write(0, "", What::Ended { counts, error });
    Ok(())
}

/// A client of each independent server.
async fn connected(arguments: &ClientArguments, log: &Log) -> Vec<Client> {
    let mut clients = Vec::new();
    for (server, url) in arguments.urls.iter().enumerate() {
        let builder = builder(arguments, log, url, server, server);
        clients.push(until_done(|| builder.clone().connect()).await);
    }
    clients
}

/// The number of a worker's first client. Those of other workers and processes are at least 10,000
/// apart.
fn first_newcomer(process: u32, worker: u32) -> usize {
    usize::try_from((process * 100 + worker + 1) * 10_000).expect("few processes")
}

/// Connects anew for each acquisition of a worker.
fn newcomer(arguments: &ClientArguments, workload: Workload, worker: u32, log: &Log) -> Connects {
    let (arguments, log) = (arguments.clone(), log.clone());
    let mut client = first_newcomer(arguments.process, worker);
    Box::new(move || {
        let builder = builder(&arguments, &log, &arguments.urls[0], client, 0);
        client += 1;
        Box::pin(async move {
            let connected = builder.connect().await.ok()?;
            Some(workload.targets(&[connected]))
        })
    })
}

/// The settings of one of the clients of this process, to one of the independent servers.
fn builder(
    arguments: &ClientArguments,
    log: &Log,
    url: &str,
    client: usize,
    server: usize,
) -> ClientBuilder {
    let builder = Client::builder(url)
        .lease(Duration::from_millis(arguments.lease_ms))
        .harness(steps(log, arguments.process, client, server));
    let builder = match arguments.grace_ms {
        Some(grace) => builder.failover_grace(Duration::from_millis(grace)),
        None => builder,
    };
    // Every other process has no safety poll. With a poll each second, a lost message would delay a
    // waiter too little for the checker to notice.
    if arguments.process.is_multiple_of(2) {
        builder.safety_poll(NO_SAFETY_POLL)
    } else {
        builder
    }
}

/// Writes what a client sends, and on which deadlines it relies.
fn steps(log: &Log, process: u32, client: usize, server: usize) -> Arc<Recorder> {
    let [client, server] = [client, server].map(|it| u32::try_from(it).expect("five servers"));
    // Each client counts its calls by itself.
    let client = process * 8 + client;
    let log = log.clone();
    let write = move |step| log.write_step(step);
    Arc::new(Recorder::new((client, server), clock::zero(), write))
}

/// Repeats the call until it succeeds, like a service that is restarted until Redis is available.
async fn until_done<T, F>(mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, leasehold::Error>>,
{
    loop {
        match call().await {
            Ok(done) => return done,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn counts(clients: &[Client]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (name, count) in clients.iter().flat_map(|client| client.stats().iter()) {
        *counts.entry(name.to_owned()).or_default() += count;
    }
    counts
}

/// Reads orders from standard input, one per line: `stop`, `freeze-before-write UNTIL`, `block MS`,
/// `hog`. The end of the input means `stop`.
async fn obey(orders: Arc<Orders>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["stop"] => break,
            ["freeze-before-write", until] => {
                orders
                    .freeze_before_write
                    .store(until.parse().expect("a time in nanoseconds"), SeqCst);
            }
            ["block", millis] => {
                let span = Duration::from_millis(millis.parse().expect("a number of milliseconds"));
                for _ in 0..THREADS {
                    tokio::spawn(async move { block(span) });
                }
            }
            ["hog"] => drop(tokio::task::spawn_blocking(hog)),
            _ => panic!("unknown order: {line}"),
        }
    }
    orders.stop.store(true, SeqCst);
}

#[expect(
    clippy::disallowed_methods,
    reason = "simulates a careless caller that blocks a thread of the runtime"
)]
fn block(span: Duration) {
    std::thread::sleep(span);
}

/// Allocates memory until the process is killed.
fn hog() {
    let mut kept = Vec::new();
    loop {
        kept.push(vec![1_u8; 1 << 20]);
    }
}

async fn sample(log: Log) {
    let mut ticks = tokio::time::interval(SAMPLED_EVERY);
    loop {
        ticks.tick().await;
        if let Ok(Usage {
            rss_kib,
            descriptors,
            threads,
        }) = Usage::of(std::process::id())
        {
            log.write(
                0,
                "",
                What::Sample {
                    rss_kib,
                    descriptors,
                    threads,
                },
            );
        }
    }
}

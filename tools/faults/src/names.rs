//! Locks and releases very many names once each, under mild faults, and checks that nothing is left
//! of them.
//!
//! The load runs in its own process ([`load`]). This process starts the server and the proxy
//! between the two, and injects the faults ([`faults`]). It inspects the data that the server keeps
//! ([`traces`]) and lists what is wrong ([`verdict`]).
#![expect(
    clippy::disallowed_methods,
    reason = "this process blocks threads, in real time"
)]

mod faults;
mod load;
mod losses;
mod traces;
mod verdict;
mod visit;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use leasehold_testbed::{Proxy, Server};
use serde::Serialize;

use faults::Schedule;
use load::{Message, Sample, Size, Totals};
use traces::{Footprint, Traces};

pub(crate) use load::{Options as LoadOptions, run as load};

/// A load that prints nothing for this long counts as stuck.
const SILENCE: Duration = Duration::from_secs(120);

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// Mean time from the end of one fault to the next; the actual time is between half and twice
    /// as much
    #[arg(long, default_value_t = 300)]
    calm_ms: u64,
    /// Seed of the faults and of the load. Default: random, and printed
    #[arg(long)]
    seed: Option<u64>,
    /// File for the results, as JSON
    #[arg(long)]
    out: Option<PathBuf>,
}

/// The results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Outcome {
    /// One sentence for each problem.
    pub(crate) violations: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) server: String,
    pub(crate) lease_ms: u64,
    pub(crate) names_wanted: u64,
    /// Time from the first name to the last one.
    pub(crate) seconds: f64,
    pub(crate) names_per_second: u64,
    /// Script calls of the library per second.
    pub(crate) calls_per_second: u64,
    /// How often each fault was injected.
    pub(crate) faults: BTreeMap<String, u64>,
    #[serde(flatten)]
    totals: Totals,
    /// Time from the last name until the clients were idle.
    pub(crate) rest_seconds: f64,
    at_rest: Point,
    left: Traces,
    series: Vec<Point>,
}

/// A sample of the load and of the server.
#[derive(Clone, Debug, Default, Serialize)]
struct Point {
    #[serde(flatten)]
    load: Sample,
    server: Footprint,
}

impl Outcome {
    pub(crate) fn passes(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, seconds, rate) = (self.totals.names, self.seconds, self.names_per_second);
        let faults: u64 = self.faults.values().sum();
        writeln!(
            f,
            "{names} names in {seconds:.1} s ({rate} a second), {faults} faults"
        )?;
        if let [first, .., last] = &self.series[..] {
            let [first, last] = [first, last].map(|point| point.load.usage);
            writeln!(f, "before {first:?}, at last {last:?}")?;
        }
        let (rest, left) = (self.rest_seconds, &self.left);
        writeln!(f, "at rest after {rest:.1} s; left: {left:?}")?;
        if self.totals.lost_in_stalls > 0 {
            let lost = self.totals.lost_in_stalls;
            writeln!(f, "{lost} holds were lost while the machine stalled")?;
        }
        for violation in &self.violations {
            writeln!(f, "VIOLATION: {violation}")?;
        }
        write!(f, "seed {}, {}", self.seed, self.server)
    }
}

/// Runs the load under faults, and writes the results.
pub(crate) fn run(options: &Options) -> Outcome {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let server = Server::start();
    let schedule = Schedule {
        seed,
        calm_ms: options.calm_ms,
    };
    let mut outcome = watch(&server, &options.size, &schedule);
    outcome
        .violations
        .extend(verdict::violations(&outcome, &options.size));
    if let Some(out) = &options.out {
        let json = serde_json::to_vec_pretty(&outcome).expect("plain data");
        std::fs::write(out, json).expect("the folder of `--out` exists");
    }
    outcome
}

fn watch(server: &Server, size: &Size, schedule: &Schedule) -> Outcome {
    let proxy = Proxy::start(server.address());
    let mut outcome = Outcome {
        seed: schedule.seed,
        server: traces::version(server),
        lease_ms: size.lease_ms,
        names_wanted: size.names,
        ..Outcome::default()
    };
    let mut load = LoadProcess::start(&proxy.url(), size, schedule.seed);
    // The load sends its first sample once its clients are connected. Faults may begin only then.
    if !outcome.receive_sample(&load, server) {
        return outcome;
    }
    thread::scope(|scope| {
        let (keep_going, end) = mpsc::channel::<()>();
        let proxy = &proxy;
        let injecting = scope.spawn(move || faults::inject(server, proxy, schedule, &end));
        while outcome.receive_sample(&load, server) {}
        drop(keep_going);
        outcome.faults = injecting.join().expect("no panic");
    });
    if outcome.violations.is_empty() {
        outcome.receive_end(&mut load, server, size);
    }
    outcome
}

impl Outcome {
    /// Receives a message of the load. False if no more samples will follow.
    fn receive_sample(&mut self, load: &LoadProcess, server: &Server) -> bool {
        match load.receive() {
            Some(Message::Sample(sample)) => {
                self.series.push(Point {
                    load: sample,
                    server: Footprint::of(server),
                });
                return true;
            }
            Some(Message::Loaded(totals)) => self.loaded(totals),
            other => self
                .violations
                .push(unexpected("the last name", other.as_ref())),
        }
        false
    }

    fn loaded(&mut self, totals: Totals) {
        let ms = self.series.last().map_or(1, |point| point.load.ms.max(1));
        let calls = totals.counters.get("calls").copied().unwrap_or_default();
        self.seconds = seconds(ms);
        self.names_per_second = totals.names * 1_000 / ms;
        self.calls_per_second = calls * 1_000 / ms;
        self.totals = totals;
    }

    /// Receives the messages after the last name, and looks at the data that the server has kept.
    fn receive_end(&mut self, load: &mut LoadProcess, server: &Server, size: &Size) {
        let since = Instant::now();
        match load.receive() {
            Some(Message::Idle(sample)) => {
                self.rest_seconds = seconds(sample.ms) - self.seconds;
                let server = Footprint::of(server);
                self.at_rest = Point {
                    load: sample,
                    server,
                };
            }
            other => {
                return self
                    .violations
                    .push(unexpected("idle clients", other.as_ref()));
            }
        }
        self.left = Traces::after_waiting(server, since, size.rest());
        drop(load.input.take());
        match load.receive() {
            Some(Message::Closed { error: None }) => {}
            Some(Message::Closed { error: Some(error) }) => {
                self.violations
                    .push(format!("the shutdown of a client failed: {error}"));
            }
            other => self
                .violations
                .push(unexpected("the shutdown", other.as_ref())),
        }
    }
}

fn unexpected(expected: &str, message: Option<&Message>) -> String {
    match message {
        None => {
            format!("expected {expected}, but the load ended or printed nothing for {SILENCE:?}")
        }
        Some(message) => format!("expected {expected}, but the load sent {message:?}"),
    }
}

fn seconds(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}

/// The process of the load. It ends when its input ends. Dropping this value kills it.
struct LoadProcess {
    process: Child,
    input: Option<ChildStdin>,
    output: Receiver<Message>,
}

impl LoadProcess {
    fn start(url: &str, size: &Size, seed: u64) -> Self {
        let number = |option: &str, value: u64| [option.to_owned(), value.to_string()];
        let this = std::env::current_exe().expect("its own path");
        let mut process = Command::new(this)
            .args(["names-load", "--url", url])
            .args(number("--seed", seed))
            .args(number("--names", size.names))
            .args(number("--round", size.round))
            .args(number("--tasks", size.tasks))
            .args(number("--lease-ms", size.lease_ms))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts itself");
        let input = process.stdin.take();
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("a line of the load");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        LoadProcess {
            process,
            input,
            output,
        }
    }

    /// The next message. `None` if the load has ended or is stuck.
    fn receive(&self) -> Option<Message> {
        self.output.recv_timeout(SILENCE).ok()
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

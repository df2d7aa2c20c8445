//! Very many names, each locked and released once, under mild faults: nothing is left of them.
//!
//! The load runs in a process of its own ([`load`]). This one has the server, the proxy between both, and the
//! faults ([`faults`]); it looks at what the server keeps ([`traces`]) and says what must not be ([`verdict`]).
#![expect(
    clippy::disallowed_methods,
    reason = "this side blocks threads, in real time"
)]

mod faults;
mod load;
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
use load::{Sample, Size, Told, Totals};
use traces::{Footprint, Traces};

pub(crate) use load::{Options as LoadOptions, run as load};

/// A load that tells nothing for so long stands still.
const SILENCE: Duration = Duration::from_secs(120);

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// From the end of one fault to the next: half of this to twice as much
    #[arg(long, default_value_t = 300)]
    calm_ms: u64,
    /// Of the faults and of the load. Default: any, and told
    #[arg(long)]
    seed: Option<u64>,
    /// Where what was seen is written, as JSON
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What a run has shown.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Outcome {
    /// What must not be, each in a sentence.
    pub(crate) violations: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) server: String,
    pub(crate) lease_ms: u64,
    pub(crate) names_wanted: u64,
    /// From the first name to the last one.
    pub(crate) seconds: f64,
    pub(crate) names_per_second: u64,
    /// Script calls of the library.
    pub(crate) calls_per_second: u64,
    /// How often each fault came.
    pub(crate) faults: BTreeMap<String, u64>,
    #[serde(flatten)]
    totals: Totals,
    /// From the last name until all was at rest.
    pub(crate) rest_seconds: f64,
    at_rest: Point,
    left: Traces,
    series: Vec<Point>,
}

/// A sample of both sides.
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
        for violation in &self.violations {
            writeln!(f, "VIOLATION: {violation}")?;
        }
        write!(f, "seed {}, {}", self.seed, self.server)
    }
}

/// Runs it, and writes what was seen.
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
        std::fs::write(out, json).expect("the folder of `--out` is there");
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
    // The first sample says that its clients are connected: from then on there may be faults.
    if !outcome.hear_load(&load, server) {
        return outcome;
    }
    thread::scope(|scope| {
        let (goes_on, end) = mpsc::channel();
        let proxy = &proxy;
        let injecting = scope.spawn(move || faults::inject(server, proxy, schedule, &end));
        while outcome.hear_load(&load, server) {}
        drop(goes_on);
        outcome.faults = injecting.join().expect("no panic");
    });
    if outcome.violations.is_empty() {
        outcome.hear_rest(&mut load, server, size);
    }
    outcome
}

impl Outcome {
    /// Hears a line of the load; false if no other is to come.
    fn hear_load(&mut self, load: &LoadProcess, server: &Server) -> bool {
        match load.told() {
            Some(Told::Sample(sample)) => {
                self.series.push(Point {
                    load: sample,
                    server: Footprint::of(server),
                });
                return true;
            }
            Some(Told::Loaded(totals)) => self.loaded(totals),
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

    fn hear_rest(&mut self, load: &mut LoadProcess, server: &Server, size: &Size) {
        let since = Instant::now();
        match load.told() {
            Some(Told::Rested(sample)) => {
                self.rest_seconds = seconds(sample.ms) - self.seconds;
                let server = Footprint::of(server);
                self.at_rest = Point {
                    load: sample,
                    server,
                };
            }
            other => return self.violations.push(unexpected("the rest", other.as_ref())),
        }
        self.left = Traces::of_those_that_stay(server, since, size.rest());
        drop(load.input.take());
        match load.told() {
            Some(Told::Closed { error: None }) => {}
            Some(Told::Closed { error: Some(error) }) => {
                self.violations
                    .push(format!("the shutdown of a client failed: {error}"));
            }
            other => self
                .violations
                .push(unexpected("the shutdown", other.as_ref())),
        }
    }
}

fn unexpected(wanted: &str, told: Option<&Told>) -> String {
    match told {
        None => format!("before {wanted} the load ended, or told nothing for {SILENCE:?}"),
        Some(told) => format!("instead of {wanted} the load told {told:?}"),
    }
}

fn seconds(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}

/// The process of the load. It ends with its input, or is killed here.
struct LoadProcess {
    process: Child,
    input: Option<ChildStdin>,
    output: Receiver<Told>,
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
        let (teller, output) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let told = serde_json::from_str(&line).expect("a line of the load");
                if teller.send(told).is_err() {
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

    /// Nothing if it ended or stands still.
    fn told(&self) -> Option<Told> {
        self.output.recv_timeout(SILENCE).ok()
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

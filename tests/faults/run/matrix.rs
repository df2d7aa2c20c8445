//! Every fault on every deployment, some runs beside each other, each in a process of its own.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use clap::{Args, ValueEnum as _};

use crate::fault;
use crate::peers::{self, Peer};
use crate::result::Cell;
use crate::run::is_possible;
use crate::world::Kind;

const OURS: &str = "leasehold";

#[derive(Args, Clone, Debug)]
pub(crate) struct MatrixArguments {
    /// All, if nothing is said.
    #[arg(long, value_enum, value_delimiter = ',')]
    deployment: Vec<Kind>,
    /// All that apply, if nothing is said; `mixed` and `none` are faults, too.
    #[arg(long, value_delimiter = ',')]
    fault: Vec<String>,
    /// This one, if nothing is said; `all` is this one and its peers.
    #[arg(long, value_delimiter = ',', default_value = OURS)]
    library: Vec<String>,
    /// Of each run.
    #[arg(long, default_value_t = 13)]
    seconds: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many of all these runs, chosen by the seed.
    #[arg(long)]
    sample: Option<usize>,
    /// Runs beside each other.
    #[arg(long, default_value_t = 2)]
    parallel: usize,
    #[arg(long, default_value = "target/fault-run")]
    pub(crate) out: PathBuf,
}

#[derive(Debug)]
struct Job {
    library: String,
    deployment: Kind,
    fault: String,
}

impl MatrixArguments {
    fn libraries(&self) -> Vec<String> {
        if self.library != ["all"] {
            return self.library.clone();
        }
        let peers = peers::ALL.iter().map(|peer| peer.name.to_owned());
        [OURS.to_owned()].into_iter().chain(peers).collect()
    }

    fn jobs(&self) -> VecDeque<Job> {
        let kinds = Kind::value_variants().iter().copied();
        let kinds: Vec<_> = kinds
            .filter(|kind| self.deployment.is_empty() || self.deployment.contains(kind))
            .collect();
        let mut jobs = VecDeque::new();
        for library in self.libraries() {
            for &deployment in &kinds {
                if Peer::named(&library).is_some_and(|peer| !peer.places.contains(&deployment)) {
                    continue;
                }
                let here = fault::all()
                    .filter(|fault| fault.on.contains(&deployment) && is_possible(fault.needs))
                    .map(|fault| fault.name.to_owned());
                let faults: Vec<_> = if self.fault.is_empty() {
                    here.collect()
                } else {
                    let general = ["mixed", "none"].map(str::to_owned);
                    let here: Vec<_> = here.chain(general).collect();
                    self.fault.iter().filter(|fault| here.contains(fault)).cloned().collect()
                };
                for fault in faults {
                    jobs.push_back(Job { library: library.clone(), deployment, fault });
                }
            }
        }
        self.sampled(jobs)
    }

    fn sampled(&self, mut jobs: VecDeque<Job>) -> VecDeque<Job> {
        if let Some(sample) = self.sample {
            fastrand::Rng::with_seed(self.seed).shuffle(jobs.make_contiguous());
            jobs.truncate(sample);
        }
        jobs
    }

    /// Runs all of them. The cells, in the order of the report.
    pub(crate) fn run(&self) -> Result<Vec<Cell>, String> {
        let jobs = self.jobs();
        let (all, started) = (jobs.len(), Instant::now());
        let (jobs, done) = (Mutex::new(jobs.into_iter().enumerate()), Mutex::new(Vec::new()));
        let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
        thread::scope(|scope| {
            for _ in 0..self.parallel {
                scope.spawn(|| {
                    while let Some((number, job)) = next() {
                        let cells = self.one(number, &job);
                        tell(number, all, &job, &cells);
                        done.lock().unwrap_or_else(PoisonError::into_inner).push((number, cells));
                    }
                });
            }
        });
        println!("{all} runs in {} s", started.elapsed().as_secs());
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(number, _)| *number);
        let mut cells = Vec::new();
        for (_, of_one) in done {
            cells.extend(of_one?);
        }
        Ok(cells)
    }

    fn one(&self, number: usize, job: &Job) -> Result<Vec<Cell>, String> {
        let out = self.out.join(format!("{}-{}-{}", job.library, job.deployment.name(), job.fault));
        fs::create_dir_all(&out).map_err(|error| error.to_string())?;
        let log = out.join("log");
        let file = fs::File::create(&log).map_err(|error| error.to_string())?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let cells = out.join("cells.json");
        drop(fs::remove_file(&cells));
        let status = Command::new(own)
            .args(["--library", &job.library, "--fault", &job.fault])
            .args(["--deployment", &job.deployment.name()])
            .args(["--seconds", &self.seconds.to_string()])
            .args(["--seed", &(self.seed + number as u64).to_string()])
            .arg("--out")
            .arg(&out)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .status()
            .map_err(|error| error.to_string())?;
        let text = fs::read_to_string(&cells).map_err(|_| {
            let log = fs::read_to_string(&log).unwrap_or_default();
            format!("{job:?}: {status}: {log}")
        })?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }
}

fn tell(number: usize, all: usize, job: &Job, cells: &Result<Vec<Cell>, String>) {
    let what =
        format!("{}/{all} {} {} {}", number + 1, job.library, job.deployment.name(), job.fault);
    match cells {
        Err(error) => println!("{what}: FAILED: {error}"),
        Ok(cells) => {
            let operations: u64 = cells.iter().map(|cell| cell.operations).sum();
            let wrong: usize = cells.iter().map(|cell| cell.violations.len()).sum();
            println!("{what}: {operations} grants, {wrong} violations");
            for cell in cells {
                for violation in cell.violations.iter().take(3) {
                    println!("    {}: {violation}", cell.workload);
                }
            }
        }
    }
}

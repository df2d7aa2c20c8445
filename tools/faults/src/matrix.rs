//! Runs every fault on every deployment. Several runs go on at the same time, each in its own
//! process.
//!
//! A cell whose fault met no holder proves nothing about losses. Its workload is run again with
//! another seed.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use clap::{Args, ValueEnum as _};

use crate::fault;
use crate::peers::{self, Peer};
use crate::result::{CELLS, Cell};
use crate::run::{SECONDS, is_possible};
use crate::world::Kind;

const OURS: &str = "leasehold";
/// The most attempts, the first one included, to have the fault of a cell meet a holder.
const MAX_ATTEMPTS: u64 = 5;
/// The difference between the seeds of two attempts of one cell.
pub(crate) const NEXT_SEED: u64 = 1000;

#[derive(Args, Clone, Debug)]
pub(crate) struct MatrixArguments {
    /// The deployments to run on. Default: all.
    #[arg(long, value_enum, value_delimiter = ',')]
    deployment: Vec<Kind>,
    /// The faults to inject; `mixed` and `none` are possible as well. Default: all faults that
    /// apply.
    #[arg(long, value_delimiter = ',')]
    fault: Vec<String>,
    /// The libraries to test; `all` is leasehold and its peers.
    #[arg(long, value_delimiter = ',', default_value = OURS)]
    library: Vec<String>,
    /// Length of each run.
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds, counted up from the first one. Each run is repeated with every seed.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Server programs: the first seed runs on the first one, and so on, in turn. Default: the
    /// server of the tests.
    #[arg(long, value_delimiter = ',')]
    server: Vec<String>,
    /// Run only this many of all these runs. The seed chooses them.
    #[arg(long)]
    sample: Option<usize>,
    /// Number of runs at the same time.
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
    seed: u64,
    server: Option<String>,
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
        let mut servers = self.server.iter().cycle();
        for seed in self.seed..self.seed + self.seeds {
            let server = servers.next().cloned();
            for &deployment in &kinds {
                for fault in self.faults_of(deployment) {
                    for library in self.libraries() {
                        let peer = Peer::named(&library);
                        if peer.is_none_or(|peer| peer.places.contains(&deployment)) {
                            let (fault, server) = (fault.clone(), server.clone());
                            jobs.push_back(Job {
                                library,
                                deployment,
                                fault,
                                seed,
                                server,
                            });
                        }
                    }
                }
            }
        }
        self.sampled(jobs)
    }

    fn faults_of(&self, deployment: Kind) -> Vec<String> {
        let here = fault::all()
            .filter(|fault| fault.on.contains(&deployment) && is_possible(fault.needs))
            .map(|fault| fault.name.to_owned());
        if self.fault.is_empty() {
            return here.collect();
        }
        let here: Vec<_> = here.chain(["mixed", "none"].map(str::to_owned)).collect();
        self.fault
            .iter()
            .filter(|fault| here.contains(fault))
            .cloned()
            .collect()
    }

    fn sampled(&self, mut jobs: VecDeque<Job>) -> VecDeque<Job> {
        if let Some(sample) = self.sample {
            fastrand::Rng::with_seed(self.seed).shuffle(jobs.make_contiguous());
            jobs.truncate(sample);
        }
        jobs
    }

    /// Runs all jobs. Returns the cells in the order of the jobs.
    pub(crate) fn run(&self) -> Result<Vec<Cell>, String> {
        let jobs = self.jobs();
        let (all, started) = (jobs.len(), Instant::now());
        let (jobs, done) = (
            Mutex::new(jobs.into_iter().enumerate()),
            Mutex::new(Vec::new()),
        );
        let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
        thread::scope(|scope| {
            for _ in 0..self.parallel {
                scope.spawn(|| {
                    while let Some((number, job)) = next() {
                        let cells = self.run_until_a_holder_is_met(&job);
                        print_outcome(number, all, &job, &cells);
                        done.lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push((number, cells));
                    }
                });
            }
        });
        println!("{all} runs in {} s", started.elapsed().as_secs());
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(number, _)| *number);
        let mut cells = Vec::new();
        for (_, of_one_job) in done {
            cells.extend(of_one_job?);
        }
        Ok(cells)
    }

    /// Runs the job, and repeats the workloads whose fault met no holder.
    fn run_until_a_holder_is_met(&self, job: &Job) -> Result<Vec<Cell>, String> {
        let name = format!(
            "{}-{}-{}-{}",
            job.library,
            job.deployment.name(),
            job.fault,
            job.seed
        );
        let out = self.out.join(name);
        fs::create_dir_all(&out).map_err(|error| error.to_string())?;
        let mut cells = self.run_once(job, job.seed, &[], &out)?;
        for again in 1..MAX_ATTEMPTS {
            let (met, missed): (Vec<_>, Vec<_>) = cells.into_iter().partition(Cell::is_a_result);
            cells = met;
            if missed.is_empty() {
                break;
            }
            let workloads: Vec<_> = missed.iter().map(|cell| cell.workload.clone()).collect();
            let seed = job.seed + again * NEXT_SEED;
            for mut cell in self.run_once(job, seed, &workloads, &out)? {
                cell.again = again;
                // The repetition replaces the earlier cell, but must not hide its violations.
                let before = missed.iter().filter(|one| one.workload == cell.workload);
                cell.violations
                    .extend(before.flat_map(|one| one.violations.clone()));
                cells.push(cell);
            }
        }
        let json = serde_json::to_vec_pretty(&cells).map_err(|error| error.to_string())?;
        fs::write(out.join(CELLS), json).map_err(|error| error.to_string())?;
        Ok(cells)
    }

    fn run_once(
        &self,
        job: &Job,
        seed: u64,
        workloads: &[String],
        out: &Path,
    ) -> Result<Vec<Cell>, String> {
        let log = out.join(format!("log-{seed}"));
        let file = fs::File::create(&log).map_err(|error| error.to_string())?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let cells = out.join(CELLS);
        drop(fs::remove_file(&cells));
        let mut run = Command::new(own);
        run.args(["--library", &job.library, "--fault", &job.fault])
            .args(["--deployment", &job.deployment.name()])
            .args([
                "--seconds",
                &self.seconds.to_string(),
                "--seed",
                &seed.to_string(),
            ])
            .arg("--out")
            .arg(out);
        if !workloads.is_empty() {
            run.args(["--workload", &workloads.join(",")]);
        }
        if let Some(server) = &job.server {
            run.env("LEASEHOLD_SERVER", server);
        }
        let status = run
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .status();
        let status = status.map_err(|error| error.to_string())?;
        let text = fs::read_to_string(&cells).map_err(|_| {
            let log = fs::read_to_string(&log).unwrap_or_default();
            format!("{job:?}: {status}: {log}")
        })?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }
}

fn print_outcome(number: usize, all: usize, job: &Job, cells: &Result<Vec<Cell>, String>) {
    let Job {
        library,
        deployment,
        fault,
        seed,
        ..
    } = job;
    let what = format!(
        "{}/{all} {library} {} {fault}, seed {seed}",
        number + 1,
        deployment.name()
    );
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

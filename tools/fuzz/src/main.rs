//! Fuzzes leasehold: `cargo run --release -p leasehold-fuzz -- --target all --seconds 60 --seed 1`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use leasehold_fuzz::{Failure, Limit, Plan, TARGETS, Tally, Target, Verdict, Watch, judge, target};
use serde::Serialize;

/// An input that runs for longer counts as hanging.
const INPUT_MAX: Duration = Duration::from_secs(20);

/// Runs leasehold with bad input, and counts the failures.
#[derive(Clone, Debug, Parser)]
struct Options {
    /// `all`, or names of targets separated by commas.
    #[arg(long, default_value = "all")]
    target: String,
    /// How many seconds each target runs.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How many inputs each target gets, instead of a time.
    #[arg(long)]
    inputs: Option<u64>,
    /// The seed of the inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file to write the counts to.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Run only the input with this number.
    #[arg(long)]
    number: Option<u64>,
    /// Run only the input in this file.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Write the input with this number, or each input that fails, to this folder.
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// The published result of a run.
#[derive(Debug, Serialize)]
struct Report {
    targets: Vec<Counts>,
    seed: u64,
    engine: &'static str,
    overflow_checks: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Counts {
    name: &'static str,
    inputs: u64,
    seconds: f64,
    panics: usize,
    hangs: usize,
    corpus: usize,
    peak_bytes: u64,
}

impl Counts {
    fn of(plan: &Plan, tally: &Tally) -> Self {
        let hung = |failure: &&Failure| matches!(failure.verdict, Verdict::Hung(_));
        let hangs = tally.failures.iter().filter(hung).count();
        Counts {
            name: plan.target.name,
            inputs: tally.inputs,
            seconds: tally.time.as_secs_f64(),
            panics: tally.failures.len() - hangs,
            hangs,
            corpus: plan.corpus(),
            peak_bytes: tally.peak_bytes,
        }
    }
}

impl Options {
    fn targets(&self) -> Result<Vec<&'static Target>, String> {
        if self.target == "all" {
            return Ok(TARGETS.iter().collect());
        }
        let known = |name| target(name).ok_or_else(|| format!("there is no target `{name}`"));
        self.target.split(',').map(known).collect()
    }

    fn limit(&self) -> Limit {
        let time = Limit::Time(Duration::from_secs(self.seconds));
        self.inputs.map_or(time, Limit::Inputs)
    }

    fn keep(&self, plan: &Plan, number: u64) -> Result<(), String> {
        let Some(folder) = &self.keep else {
            return Ok(());
        };
        let file = folder.join(format!("{}-{}-{number}", plan.target.name, self.seed));
        let kept = fs::create_dir_all(folder).and_then(|()| fs::write(&file, plan.input(number)));
        kept.map_err(|error| format!("{}: {error}", file.display()))
    }

    fn report(&self, targets: &[Counts]) -> Result<(), String> {
        let report = Report {
            targets: targets.to_vec(),
            seed: self.seed,
            engine: "leasehold-fuzz: random bytes and changed corpus, by seed",
            overflow_checks: cfg!(debug_assertions),
        };
        let Some(path) = &self.json else {
            return Ok(());
        };
        let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }
}

fn replay(target: &Target, seed: u64, number: u64) -> String {
    let name = target.name;
    format!(
        "cargo run --release -p leasehold-fuzz -- --target {name} --seed {seed} --number {number}"
    )
}

/// Runs one input and prints how it ended.
#[expect(clippy::print_stdout, reason = "its user reads it")]
fn one(target: &Target, input: &[u8]) -> bool {
    let verdict = judge(target, input);
    println!("{}: {} bytes: {verdict:?}", target.name, input.len());
    matches!(verdict, Verdict::Fine(_))
}

#[expect(clippy::print_stdout, reason = "its user reads it")]
fn run(options: &Options) -> Result<bool, String> {
    let targets = options.targets()?;
    let plan = |target| Plan::new(target, options.seed).map_err(|error| error.to_string());
    if let Some(file) = &options.file {
        let input = fs::read(file).map_err(|error| error.to_string())?;
        return Ok(targets.iter().all(|target| one(target, &input)));
    }
    if let Some(number) = options.number {
        let plan = plan(targets[0])?;
        options.keep(&plan, number)?;
        return Ok(one(plan.target, &plan.input(number)));
    }
    let done = Arc::new(Mutex::new(Vec::<Counts>::new()));
    let mut all_fine = true;
    for target in targets {
        let plan = plan(target)?;
        let watch = Arc::new(Watch::default());
        let (own, counted) = (options.clone(), done.clone());
        let corpus = plan.corpus();
        watch.over(INPUT_MAX, move |number| {
            println!(
                "{}: hangs for {INPUT_MAX:?}\n  {}",
                target.name,
                replay(target, own.seed, number)
            );
            let mut counts = counted
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let (name, inputs) = (target.name, number + 1);
            let zero = Counts {
                name,
                inputs,
                seconds: 0.0,
                panics: 0,
                hangs: 1,
                corpus,
                peak_bytes: 0,
            };
            counts.push(zero);
            drop(own.report(&counts));
            std::process::exit(2);
        });
        let tally = plan.run(options.limit(), &watch, |failure| {
            println!(
                "{}: {:?}\n  {}",
                target.name,
                failure.verdict,
                replay(target, options.seed, failure.number)
            );
            drop(options.keep(&plan, failure.number));
        });
        let counts = Counts::of(&plan, &tally);
        println!("{counts:?}");
        all_fine &= tally.failures.is_empty();
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.push(counts);
        options.report(&done)?;
    }
    Ok(all_fine)
}

#[expect(clippy::print_stderr, reason = "its user reads it")]
fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

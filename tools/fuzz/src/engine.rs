//! Runs inputs one after the other, and aborts if an input does not end.
//!
//! Target, seed, number and corpus determine an input. It consists of random bytes, or is an entry
//! of the corpus with some changes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::targets::Target;
use crate::verdict::{Verdict, judge};

/// The greatest length of a random input.
const RANDOM_MAX: usize = 512;
/// The greatest length of a changed input.
const CHANGED_MAX: usize = 8192;

/// The inputs of one target.
#[derive(Debug)]
pub struct Plan {
    /// What gets the inputs.
    pub target: &'static Target,
    seed: u64,
    corpus: Vec<Vec<u8>>,
}

/// When a run is over.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Stop after this time.
    Time(Duration),
    /// Stop after this many inputs.
    Inputs(u64),
}

/// An input that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its number in the plan.
    pub number: u64,
    /// How it ended.
    pub verdict: Verdict,
}

/// What a run has shown.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many inputs were run.
    pub inputs: u64,
    /// How long that took.
    pub time: Duration,
    /// The most that one input had allocated at once, in bytes.
    pub peak_bytes: u64,
    /// The inputs that broke a promise.
    pub failures: Vec<Failure>,
}

/// Which input runs, for a thread that watches over it.
#[derive(Debug, Default)]
pub struct Watch {
    number: AtomicU64,
    begun: AtomicU64,
}

impl Plan {
    /// The inputs of `target` by `seed`.
    ///
    /// # Errors
    ///
    /// The corpus cannot be read.
    pub fn new(target: &'static Target, seed: u64) -> io::Result<Self> {
        let corpus = read_corpus(&corpus_folder(target.name))?;
        Ok(Plan {
            target,
            seed,
            corpus,
        })
    }

    /// How many entries the corpus has.
    pub fn corpus(&self) -> usize {
        self.corpus.len()
    }

    /// The input with this number. The first are the corpus as it is.
    pub fn input(&self, number: u64) -> Vec<u8> {
        if let Some(entry) = usize::try_from(number)
            .ok()
            .and_then(|at| self.corpus.get(at))
        {
            return entry.clone();
        }
        let name = self.target.name.bytes().fold(0, |sum: u64, letter| {
            sum.wrapping_mul(31).wrapping_add(letter.into())
        });
        let mixed = self.seed ^ name.rotate_left(32) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut rng = Rng::with_seed(mixed);
        if self.corpus.is_empty() || rng.u8(..4) == 0 {
            let length = rng.usize(..=RANDOM_MAX);
            return std::iter::repeat_with(|| random_byte(&mut rng))
                .take(length)
                .collect();
        }
        let mut input = self.corpus[rng.usize(..self.corpus.len())].clone();
        for _ in 0..=rng.usize(..8) {
            change(&mut rng, &mut input, &self.corpus);
        }
        input.truncate(CHANGED_MAX);
        input
    }

    /// Runs inputs until `limit`, and tells `failed` of each that broke a promise.
    pub fn run(&self, limit: Limit, watch: &Watch, mut failed: impl FnMut(&Failure)) -> Tally {
        let begun = now();
        let mut tally = Tally::default();
        loop {
            tally.time = begun.elapsed();
            let is_over = match limit {
                Limit::Time(limit) => tally.time >= limit,
                Limit::Inputs(limit) => tally.inputs >= limit,
            };
            if is_over {
                return tally;
            }
            let number = tally.inputs;
            let input = self.input(number);
            watch.begins(number);
            let verdict = judge(self.target, &input);
            watch.ends();
            tally.inputs += 1;
            match verdict {
                Verdict::Fine(peak) => tally.peak_bytes = tally.peak_bytes.max(peak),
                verdict => {
                    let failure = Failure { number, verdict };
                    failed(&failure);
                    tally.failures.push(failure);
                }
            }
        }
    }
}

impl Watch {
    fn begins(&self, number: u64) {
        self.number.store(number, Ordering::SeqCst);
        self.begun.store(clock_ms(), Ordering::SeqCst);
    }

    fn ends(&self) {
        self.begun.store(0, Ordering::SeqCst);
    }

    /// Calls `stuck` with the number of an input that has run for longer than `limit`.
    pub fn over(self: &Arc<Self>, limit: Duration, stuck: impl FnOnce(u64) + Send + 'static) {
        let watch = self.clone();
        thread::spawn(move || {
            loop {
                thread::park_timeout(limit / 10);
                let begun = watch.begun.load(Ordering::SeqCst);
                if begun != 0 && u128::from(clock_ms() - begun) > limit.as_millis() {
                    return stuck(watch.number.load(Ordering::SeqCst));
                }
            }
        });
    }
}

/// The folder with the corpus of a target.
fn corpus_folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}

fn read_corpus(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut files = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.sort();
    files.iter().map(fs::read).collect()
}

/// A random byte. Often a small number or a letter, because choices are read from those.
fn random_byte(rng: &mut Rng) -> u8 {
    match rng.u8(..8) {
        0..3 => rng.u8(..8),
        3..5 => rng.u8(b' '..=b'~'),
        _ => rng.u8(..),
    }
}

fn change(rng: &mut Rng, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = rng.usize(..=input.len());
    let end = (at + rng.usize(..=16)).min(input.len());
    match rng.u8(..7) {
        0 if at < input.len() => input[at] ^= 1 << rng.u8(..8),
        1 if at < input.len() => input[at] = random_byte(rng),
        2 => input.insert(at, random_byte(rng)),
        3 => drop(input.drain(at..end)),
        4 => drop(input.splice(at..at, input[at..end].to_vec())),
        5 => {
            let other = &corpus[rng.usize(..corpus.len())];
            let from = rng.usize(..=other.len());
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => input[at..end].fill_with(|| random_byte(rng)),
    }
}

#[expect(clippy::disallowed_methods, reason = "how long the machine took")]
fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since the first call, plus 1.
fn clock_ms() -> u64 {
    static FIRST: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(now);
    u64::try_from(FIRST.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
}

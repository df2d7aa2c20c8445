//! Random sequences on both sides, made shorter when they differ.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use leasehold_testbed::{Server, is_missing};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::compare::{Pair, Step};
use crate::generate::steps;
use crate::scripts::headers;

/// A difference must occur again. One that is caused by time does not: by an expiry between the two
/// replies, or by two scores that are the same millisecond on one side only.
const TRIES: usize = 20;

/// How long a sequence that differs is made shorter.
const LONGEST_SEARCH_MS: u32 = 60_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().expect(name))
}

fn run(server: &Server, steps: &[Step]) -> Result<(), String> {
    let clock = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let clock = clock.expect("a runtime");
    let _entered = clock.enter();
    let mut pair = Pair::new(server);
    for step in steps {
        clock.block_on(tokio::time::sleep(step.pause));
        let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
        pair.step(&words, step.numbers)?;
    }
    pair.compare_all()
}

fn agrees(server: &Server, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut difference = String::new();
    for _ in 0..TRIES {
        match run(server, steps) {
            Ok(()) => return Ok(()),
            Err(text) => difference = text,
        }
    }
    Err(TestCaseError::fail(difference))
}

/// A script by its name: its text is long.
fn shown(step: &Step) -> String {
    let mut words = step.words.clone();
    for word in &mut words {
        if let Some(header) = headers().iter().find(|header| header.text == word) {
            *word = format!("<{}>", header.name);
        }
    }
    format!("after {:?}: {words:?}", step.pause)
}

#[test]
fn random_sequences_agree() {
    if is_missing() {
        return;
    }
    let cases = number("LEASEHOLD_CASES").unwrap_or(40);
    let seed = number("LEASEHOLD_SEED").unwrap_or_else(rand_seed);
    let server = Server::start();
    let config = Config {
        cases: u32::try_from(cases).unwrap_or(u32::MAX),
        failure_persistence: None,
        max_shrink_time: LONGEST_SEARCH_MS,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let outcome =
        TestRunner::new_with_rng(config, rng).run(&steps(), |steps| agrees(&server, &steps));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(difference, steps)) => {
            let lines: Vec<String> = steps.iter().map(shown).collect();
            panic!("LEASEHOLD_SEED={seed}\n{}\n{difference}", lines.join("\n"));
        }
        Err(other) => panic!("LEASEHOLD_SEED={seed}: {other}"),
    }
}

fn rand_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

//! Random sequences on both sides, made shorter when they differ.

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::compare::{Pair, Step};
use crate::generate::steps;
use crate::support::server::Server;

/// A difference must show again: an expiry between the two sides' answers does not.
const TRIES: usize = 3;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

fn run(server: &Server, steps: &[Step]) -> Result<(), String> {
    let mut pair = Pair::new(server);
    for step in steps {
        std::thread::sleep(step.pause);
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

#[test]
fn random_sequences_agree() {
    let cases = number("LEASEHOLD_CASES").unwrap_or(40);
    let seed = number("LEASEHOLD_SEED").unwrap_or_else(rand_seed);
    let server = Server::start();
    let config = Config {
        cases: u32::try_from(cases).unwrap_or(u32::MAX),
        failure_persistence: None,
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
            let lines: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
            panic!("LEASEHOLD_SEED={seed}\n{}\n{difference}", lines.join("\n"));
        }
        Err(other) => panic!("LEASEHOLD_SEED={seed}: {other}"),
    }
}

fn rand_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| u64::from(time.subsec_nanos()))
}

//! Rust and Java write one ledger and lose no entry.

use std::fs;
use std::path::Path;

use leasehold::blocking::Client;
use leasehold_testbed::{Server, command, wait_until};

use crate::LIMIT;
use crate::process::Process;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mixed");
const ENTRIES: usize = 20;

fn java(server: &Server, ledger: &str) -> Process {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let jars = package.join("../../tests/redisson/target/deps");
    assert!(
        jars.is_dir(),
        "no Redisson in {}: see tests/run",
        jars.display()
    );
    let mut java = command("java");
    java.arg("-cp")
        .arg(jars.join("*"))
        .arg(package.join("java/Ledger.java"));
    Process::spawn(java.args([&server.url(), ledger, &ENTRIES.to_string()]))
}

#[test]
fn rust_and_java_lose_no_entry() {
    let server = Server::start();
    let file = server.folder().join("ledger.txt");
    fs::write(&file, "").unwrap();
    let ledger = file.to_str().unwrap();
    let entries = ENTRIES.to_string();
    let rust = || {
        Process::start(
            PROGRAM,
            &server,
            &["--ledger", ledger, "--entries", &entries],
        )
    };
    // A JVM takes a while to start: all four are to be there when the first of them writes.
    let gate = Client::connect(leasehold::Client::connect(&server.url())).unwrap();
    let held = gate
        .block_on(gate.fair_lock("example:ledger").lock())
        .unwrap();
    let mut writers = [java(&server, ledger), java(&server, ledger), rust(), rust()];
    let waiting = || {
        server
            .command(&["LLEN", "redisson_lock_queue:{example:ledger}"])
            .int()
    };
    wait_until("all of them wait", LIMIT, || waiting() == 4);
    gate.block_on(held.unlock()).unwrap();
    for writer in &mut writers {
        assert!(writer.ended().success(), "{:#?}", writer.lines());
    }
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = text
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .collect();
    let numbers = lines.iter().map(|line| line[0].parse::<usize>().unwrap());
    assert!(numbers.eq(1..=4 * ENTRIES), "{text}");
    let of = |language| lines.iter().filter(|line| line[1] == language).count();
    assert_eq!((of("rust"), of("java")), (2 * ENTRIES, 2 * ENTRIES));
    let changes = lines
        .windows(2)
        .filter(|pair| pair[0][1] != pair[1][1])
        .count();
    println!(
        "{changes} changes between Rust and Java in {} entries",
        4 * ENTRIES
    );
    assert!(changes > 0, "{text}");
}

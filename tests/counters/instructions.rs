//! Instructions of this program, counted by valgrind.

use leasehold_testbed::command;

use crate::operation::Operation;

const SHORT: u32 = 200;
const LONG: u32 = 600;

/// Of one operation: what a longer run has more than a shorter one, so without the start and the
/// end of the program.
pub(crate) fn of(operation: Operation, url: &str) -> f64 {
    let [short, long] = [SHORT, LONG].map(|times| run(operation, times, url));
    (long - short) / f64::from(LONG - SHORT)
}

fn run(operation: Operation, times: u32, url: &str) -> f64 {
    let program = std::env::current_exe().expect("this program");
    let ended = command("valgrind")
        .args([
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
        ])
        .arg(program)
        .args(["run", operation.name(), &times.to_string(), url])
        .output()
        .expect("valgrind, which counts instructions, is installed");
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{told}");
    let refs = told.lines().find(|line| line.contains("refs:"));
    let number = refs.and_then(|line| line.rsplit(' ').next()?.replace(',', "").parse().ok());
    number.expect("a count")
}

//! Measures Leasehold with the scenarios that are used for other lock libraries too.
//!
//! ```text
//! cargo build --release -p leasehold-bench
//! target/release/bench --scenario S3 --tasks 32 --url redis://127.0.0.1:6379
//! ```
//!
//! Prints one line of JSON. A scenario empties nothing: give it a Redis of its own.
//!
//! | scenario | what is done | what is measured |
//! | --- | --- | --- |
//! | S1, S2 | 1 or `--tasks` tasks lock and unlock, a key each | latency and rate of the pair |
//! | S3, S4 | `--tasks` tasks share one key; S4 is meant for two processes at once | the acquire |
//! | S8, S8x | as S3 and S4, with the fair lock | the acquire |
//! | S5 | one client unlocks while another one waits | from the unlock to the waiter's return |
//! | S1-bare, S5-bare | the same with scripts of a simple lock, and without a lock library | the same |
//! | S6 | `--n` locks are kept by renewal | what that costs in a second |
//! | S7 | `--n` tasks wait for `--n` held keys, then all are released | until all have theirs |
//! | S9 | S2 against clusters of 1, 2 and 3 masters, in turns | the rate, and what bounds it |
//! | S10 | a client near the server and one 1, 5 and 20 ms away share a lock | waking the far one, and its share of the turns |
//! | S11 | names are held and waited for, and processes lock and unlock: more and more of them | commands, bytes, CPU, memory, latency |
//!
//! | option | default | meaning |
//! | --- | --- | --- |
//! | `--warmup`, `--seconds` | 3, 5 | how long it runs before and while it is measured |
//! | `--rounds`, `--hold-ms` | 300, 5 | S5: how often, and how long the lock is held |
//! | `--rounds`, `--docs` | 5, none | S9: how often, and the folder of the pages that get its table and its plot |
//! | `--rounds`, `--docs` | 3, none | S10, S11: the same |
//! | `--min`, `--max` | 1, 100000 | S11: the least and the greatest size; there are at most 64 processes |
//! | `--table` | all | S11: one of held, one-name, names, processes |
//! | `--lease` | 30 | S11: seconds, of the names held |
//! | `--threads` | one per core | worker threads; 1 is a runtime on the calling thread |
//! | `--start-at` | now | Unix time in ms at which S1 to S4 begin |
//! | `--verify` | false | S3, S4: mutual exclusion is checked in Redis as well |
//! | `--described` | false | S1, S2: every hold says who holds it |
//! | `--url` | `redis://127.0.0.1:7399` | S2, S9: also of a cluster, with all its masters. S9 and S10 start their own without it, S11 always |
//! | `--peer`, `--proc` | ours, none | copied into the output |

mod bare;
mod far;
mod growth;
mod handover;
mod loops;
mod machine;
mod many;
mod options;
mod page;
mod plot;
mod report;
mod scaling;
mod server;
mod spread;
mod study;
mod table;
use std::process::ExitCode;

use options::Options;
use report::Report;
use tokio::runtime::{Builder, Runtime};

/// Whatever ends a scenario; its text goes into the output as `failed`.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the result is what it prints"
)]
fn main() -> ExitCode {
    let prepared = Options::parse(std::env::args().skip(1))
        .and_then(|options| Ok((runtime(options.threads)?, options)));
    let (runtime, options) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let mut report = Report::of(&options);
    match runtime.block_on(run(&options)) {
        Ok(figures) => report.extend(figures),
        Err(error) => report.put("failed", error.to_string()),
    }
    println!("{report}");
    ExitCode::SUCCESS
}

fn runtime(threads: Option<usize>) -> Result<Runtime, Failure> {
    let mut builder = match threads {
        Some(1) => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if let Some(threads) = threads.filter(|threads| *threads > 1) {
        builder.worker_threads(threads);
    }
    Ok(builder.enable_all().build()?)
}

async fn run(options: &Options) -> Result<Report, Failure> {
    match options.scenario.as_str() {
        "S1-bare" => bare::pairs(options).await,
        "S5-bare" => bare::hand_over(options).await,
        "S1" => loops::own_keys(options, 1).await,
        "S2" => loops::own_keys(options, options.tasks).await,
        "S3" | "S4" | "S8" | "S8x" => loops::one_key(options).await,
        "S5" => handover::run(options).await,
        "S6" => many::held(options).await,
        "S7" => many::awaited(options).await,
        "S9" => scaling::run(options).await,
        "S10" => growth::distance(options).await,
        "S11" => growth::run(options).await,
        other => Err(format!("scenario {other} is not supported").into()),
    }
}

//! Pairs of lock and unlock, for a profiler that counts instructions: two runs of different length,
//! and the difference.
//!
//! ```text
//! valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null \
//!   pairs S1|S2 PAIRS [URL]
//! ```

#[path = "../pairs.rs"]
mod pairs;

use pairs::{Failure, Pairs};

#[expect(clippy::print_stdout, reason = "the result is what it prints")]
fn main() -> Result<(), Failure> {
    let pairs = Pairs::prepare()?;
    pairs.run()?;
    println!("pairs={}", pairs.number());
    Ok(())
}

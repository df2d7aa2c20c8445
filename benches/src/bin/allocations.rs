//! What pairs of lock and unlock allocate.
//!
//! ```text
//! allocations S1|S2 PAIRS [URL]
//! ```

#[path = "../pairs.rs"]
mod pairs;

use pairs::{Failure, Pairs};

#[expect(clippy::print_stdout, reason = "the result is what it prints")]
fn main() -> Result<(), Failure> {
    let pairs = Pairs::prepare()?;
    let mut done = Ok(());
    let counted = allocation_counter::measure(|| done = pairs.run());
    done?;
    println!(
        "pairs={} allocations={}",
        pairs.number(),
        counted.count_total
    );
    Ok(())
}

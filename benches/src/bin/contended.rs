//! What one contended lock costs the server.
//!
//! ```text
//! cargo run --release -p leasehold-bench --bin contended -- turns 2 8 32 64
//! cargo run --release -p leasehold-bench --bin contended -- lost-queue 500 2000 5000
//! ```
//!
//! It starts servers of its own, and prints a table.

#[path = "contended/lost_queue.rs"]
mod lost_queue;
#[path = "contended/server_cost.rs"]
mod server_cost;
#[path = "contended/turns.rs"]
mod turns;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let Some((what, numbers)) = arguments.split_first() else {
        return Err("expected: lost-queue NUMBER.. or turns NUMBER..".into());
    };
    let numbers: Vec<usize> = numbers
        .iter()
        .map(|number| number.parse())
        .collect::<Result<_, _>>()?;
    match what.as_str() {
        "turns" => table(turns::COLUMNS, turns::row, &numbers).await,
        "lost-queue" => table(lost_queue::COLUMNS, lost_queue::row, &numbers).await,
        other => Err(format!("nothing is measured by the name {other}").into()),
    }
}

#[expect(clippy::print_stdout, reason = "the result is what it prints")]
async fn table(
    columns: &str,
    row: impl AsyncFn(usize) -> Result<String, Failure>,
    sizes: &[usize],
) -> Result<(), Failure> {
    println!("{columns}");
    println!("|{}", " --- |".repeat(columns.matches(" | ").count() + 1));
    for size in sizes {
        println!("{}", row(*size).await?);
    }
    Ok(())
}

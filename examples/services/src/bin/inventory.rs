//! A stock in a database that a seller who was paused for too long cannot change.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin inventory -- \
//!     --database "host=127.0.0.1 user=shop dbname=shop" --sell 2 --item 7
//! ```
//!
//! `--database` takes what tokio-postgres takes, or `sqlite:FILE`. The lock lets one seller at a
//! time read the stock, think, and write what is left. The row keeps the highest token that has
//! touched it, so a writer whose lock was lost after its last look at the guard is refused.
//! `docs/fencing.md` explains the statements.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::path::Path;
use std::time::Duration;

use leasehold::{FencingToken, Lease};
use leasehold_examples::{Failure, client, millis, option, required};
use rusqlite::{Connection, params};
use tokio::runtime::Handle;
use tokio_postgres::NoTls;

// SQLite numbers parameters as they first appear: there `$2` must not come before `$1`.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS stock (
    item  BIGINT PRIMARY KEY,
    count BIGINT NOT NULL,
    fence BIGINT NOT NULL DEFAULT 0
)";
const FILL: &str = "INSERT INTO stock (item, count) VALUES ($1, $2)";
/// Shuts all earlier holders out, and then reads: what is read cannot change behind our back.
const FENCE: &str = "UPDATE stock SET fence = $1 WHERE item = $2 AND fence <= $1 RETURNING count";
/// Changes nothing if a later holder has been here.
const WRITE: &str = "UPDATE stock SET fence = $1, count = $2 WHERE item = $3 AND fence <= $1";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let item: i64 = required("--item")?;
    let mut stock = Stock::open(&required::<String>("--database")?).await?;
    if let Some(count) = option::<i64>("--fill")? {
        stock.fill(item, count).await?;
        println!("there are {count}");
        return Ok(());
    }
    let wanted: i64 = required("--sell")?;
    let think = millis("--think", 0)?;
    let client = client()?.connect().await?;
    let lock = client.fenced_lock(format!("example:stock:{item}"));

    let guard = lock
        .try_lock(Duration::from_secs(30), Lease::Renewed)
        .await?;
    let token = guard.token();
    let count = stock
        .fence(item, token)
        .await?
        .ok_or("no such item, or a later seller is here")?;
    if count < wanted {
        return Err(format!("only {count} are left").into());
    }
    guard.check()?; // the last look; the process may stand still right behind it
    println!("read {count} with token {token}");
    pause(think);
    if !stock.write(item, count - wanted, token).await? {
        return Err(format!("token {token} is stale: nothing is sold").into());
    }
    println!("sold {wanted}, {} are left", count - wanted);
    guard.unlock().await?;
    Ok(client.shutdown(Duration::from_secs(5)).await?)
}

/// As a garbage collection, or a machine that swaps: not even this task notices.
#[expect(clippy::disallowed_methods, reason = "the thread is to stand still")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

enum Stock {
    Postgres(tokio_postgres::Client),
    Sqlite(Connection),
}

impl Stock {
    async fn open(database: &str) -> Result<Self, Failure> {
        if let Some(file) = database.strip_prefix("sqlite:") {
            let connection = Connection::open(Path::new(file))?;
            connection.busy_timeout(Duration::from_secs(10))?;
            connection.execute_batch(TABLE)?;
            return Ok(Stock::Sqlite(connection));
        }
        let (client, connection) = tokio_postgres::connect(database, NoTls).await?;
        // It ends with the client; what went wrong comes as the error of a query.
        drop(Handle::current().spawn(connection));
        client.batch_execute(TABLE).await?;
        Ok(Stock::Postgres(client))
    }

    async fn fill(&mut self, item: i64, count: i64) -> Result<(), Failure> {
        match self {
            Stock::Postgres(client) => drop(client.execute(FILL, &[&item, &count]).await?),
            Stock::Sqlite(connection) => drop(connection.execute(FILL, params![item, count])?),
        }
        Ok(())
    }

    async fn fence(&mut self, item: i64, token: FencingToken) -> Result<Option<i64>, Failure> {
        let token = token.value();
        match self {
            Stock::Postgres(client) => {
                let row = client.query_opt(FENCE, &[&token, &item]).await?;
                Ok(row.map(|row| row.get(0)))
            }
            Stock::Sqlite(connection) => {
                let mut statement = connection.prepare(FENCE)?;
                let mut rows = statement.query(params![token, item])?;
                Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
            }
        }
    }

    /// False if a later holder has been here.
    async fn write(&mut self, item: i64, count: i64, token: FencingToken) -> Result<bool, Failure> {
        let token = token.value();
        Ok(match self {
            Stock::Postgres(client) => client.execute(WRITE, &[&token, &count, &item]).await? == 1,
            Stock::Sqlite(connection) => {
                connection.execute(WRITE, params![token, count, item])? == 1
            }
        })
    }
}

//! A row in a database that a holder which was paused for too long cannot change.
//!
//! ```text
//! cargo run -p leasehold-examples --example fenced_sql
//! ```
//!
//! The row keeps the highest token that has touched it; each statement looks at it and changes the
//! row in one step. The same statements work on any SQL database. `docs/fencing.md` explains them.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::time::Duration;

use leasehold::{EmbeddedRedis, FencingToken, Lease};
use rusqlite::{Connection, params};
use tokio::time::sleep;

const LOCK: &str = "example:account:7";
const LEASE: Duration = Duration::from_millis(300);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = EmbeddedRedis::new();
    let (slow, quick) = (redis.client(), redis.client());
    let accounts = Accounts::new()?;

    let stale = slow
        .fenced_lock(LOCK)
        .try_lock_now(Lease::Fixed(LEASE))
        .await?;
    let old = stale.token();
    let seen = accounts.fence(7, old)?.expect("nobody was here before");
    println!("the slow one holds token {old}, reads {seen}, and stands still");
    sleep(LEASE * 2).await;

    let guard = quick.fenced_lock(LOCK).lock().await?;
    let new = guard.token();
    let balance = accounts.fence(7, new)?.expect("the latest token");
    assert!(accounts.set_balance(7, balance + 50, new)?);
    println!(
        "the quick one holds token {new}, reads {balance} and writes {}",
        balance + 50
    );
    guard.unlock().await?;

    // It was past its last `check` when it was stopped. Without the token the 50 would be gone.
    assert!(
        !accounts.set_balance(7, seen + 10, old)?,
        "a stale holder has written"
    );
    println!(
        "the slow one writes {} with token {old}: refused",
        seen + 10
    );

    // The lock again, a new token, and everything from the beginning.
    let guard = slow.fenced_lock(LOCK).lock().await?;
    let newest = guard.token();
    let balance = accounts.fence(7, newest)?.expect("the latest token");
    assert!(accounts.set_balance(7, balance + 10, newest)?);
    assert_eq!(accounts.fence(7, newest)?, Some(160));
    println!("the slow one begins again with token {newest}: 160");
    guard.unlock().await?;
    Ok(())
}

struct Accounts(Connection);

impl Accounts {
    fn new() -> rusqlite::Result<Self> {
        let database = Connection::open_in_memory()?;
        database.execute_batch(
            "CREATE TABLE account (
                 id      INTEGER PRIMARY KEY,
                 balance INTEGER NOT NULL,
                 fence   INTEGER NOT NULL DEFAULT 0
             );
             INSERT INTO account (id, balance) VALUES (7, 100);",
        )?;
        Ok(Accounts(database))
    }

    /// Shuts all earlier holders out, and then reads: what is read cannot change behind our back.
    fn fence(&self, id: u32, token: FencingToken) -> rusqlite::Result<Option<i64>> {
        let sql = "UPDATE account SET fence = ?1 WHERE id = ?2 AND fence <= ?1 RETURNING balance";
        let mut rows = self.0.prepare(sql)?;
        let mut rows = rows.query(params![token.value(), id])?;
        rows.next()?.map(|row| row.get(0)).transpose()
    }

    /// False if a later holder has been here.
    fn set_balance(&self, id: u32, balance: i64, token: FencingToken) -> rusqlite::Result<bool> {
        let sql = "UPDATE account SET balance = ?3, fence = ?1 WHERE id = ?2 AND fence <= ?1";
        Ok(self.0.execute(sql, params![token.value(), id, balance])? == 1)
    }
}

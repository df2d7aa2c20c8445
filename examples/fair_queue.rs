//! A fair lock serves its waiters in the order in which they came, over all processes.
//!
//! ```text
//! cargo run --example fair_queue
//! ```
//!
//! Watch that the two tills take turns as their customers came, and that a look at the lock shows
//! how many wait.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::time::Duration;

use leasehold::{Client, EmbeddedRedis, Error};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

const NAME: &str = "example:fair:printer";
const CUSTOMERS: usize = 6;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let redis = EmbeddedRedis::new();
    // A customer without a heartbeat for this long loses the place. The default is 2 s.
    let till = async || {
        redis
            .builder()
            .fair_claim(Duration::from_secs(30))
            .connect()
            .await
    };
    let tills = [till().await?, till().await?];
    let printing = tills[0].fair_lock(NAME).lock().await?;

    let mut customers = JoinSet::new();
    let (done, mut served) = mpsc::unbounded_channel();
    for customer in 0..CUSTOMERS {
        let (lock, done) = (tills[customer % 2].fair_lock(NAME), done.clone());
        customers.spawn(async move {
            let guard = lock.lock().await?;
            println!("customer {customer} prints at till {}", customer % 2);
            done.send(customer).expect("the example listens to the end");
            guard.unlock().await
        });
        // The next customer comes when this customer is in the queue.
        while waiting(&tills[0]).await? <= customer {
            sleep(Duration::from_millis(10)).await;
        }
    }
    printing.unlock().await?;

    for customer in 0..CUSTOMERS {
        assert_eq!(served.recv().await, Some(customer), "a customer was passed");
    }
    Ok(())
}

/// How many customers are in the queue, at all tills.
async fn waiting(client: &Client) -> Result<usize, Error> {
    Ok(client.fair_lock(NAME).waiters().await?.queue.len())
}

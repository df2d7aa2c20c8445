//! Webhooks of many customers, sent by several processes: to each customer in order, and one at a
//! time.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin webhooks -- \
//!     --customers 3 --events 5 --connections 2 --receiver 127.0.0.1:7000
//! ```
//!
//! - A fenced lock for each customer keeps the order: its holder alone sends to that customer.
//! - A fenced value for each customer is the number of its last event that arrived. A process that
//!   was paused for longer than its lease cannot set it back.
//! - A semaphore limits the connections of all processes.
//!
//! On SIGTERM each task finishes the attempt under way, writes it down and releases its lock, so
//! the next process sends the next event. A process that dies between an attempt and its record
//! sends that event again. So each request carries its number, and the receiver must ignore a
//! number that it has seen.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::time::Duration;

use leasehold::{Client, Error, FencedLock, FencingToken, Semaphore};
use leasehold_examples::{
    Failure, FencedError, FencedValue, Terminated, client, option, required, server, visit,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How long a receiver may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// The pauses between attempts double, from the first to the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut terminated = Terminated::listen()?;
    let client = client()?.connect().await?;
    let (stop, stopping) = watch::channel(false);
    let mut senders = JoinSet::new();
    for customer in 1..=required::<u32>("--customers")? {
        let sender = Sender::new(&client, customer, stopping.clone()).await?;
        senders.spawn(sender.work());
    }
    drop(stopping);
    let mut ended = Ok(());
    loop {
        tokio::select! {
            sender = senders.join_next() => match sender {
                Some(sender) => ended = ended.and(sender?),
                None => break,
            },
            () = terminated.wait() => {
                println!("terminating");
                stop.send_replace(true);
            }
        }
    }
    client.shutdown(Duration::from_secs(5)).await?;
    ended
}

/// Sends the events of one customer.
struct Sender {
    customer: u32,
    /// The events are numbered from 1. A real service reads them from its outbox.
    events: u32,
    receiver: String,
    lock: FencedLock,
    arrived: FencedValue,
    connections: Semaphore,
    stopping: watch::Receiver<bool>,
}

impl Sender {
    async fn new(
        client: &Client,
        customer: u32,
        stopping: watch::Receiver<bool>,
    ) -> Result<Self, Failure> {
        let limit = option("--connections")?.unwrap_or(10);
        let arrived = format!("example:webhooks:{customer}:arrived");
        Ok(Sender {
            customer,
            events: required("--events")?,
            receiver: required("--receiver")?,
            lock: client.fenced_lock(format!("example:webhooks:{customer}")),
            arrived: FencedValue::open(&server()?, &arrived).await?,
            connections: client
                .semaphore("example:webhooks:connections")
                .with_limit(limit),
            stopping,
        })
    }

    /// Ends when all events have arrived, or the process is to end.
    async fn work(self) -> Result<(), Failure> {
        let mut stopping = self.stopping.clone();
        loop {
            let guard = tokio::select! {
                guard = self.lock.lock() => guard?,
                () = stopped(&mut stopping) => return Ok(()),
            };
            let sending = Box::pin(self.send_all(guard.token())); // large: on the heap
            let Err(failure) = guard.try_run(sending).await else {
                guard.unlock().await?; // the next process sends from now on
                return Ok(());
            };
            // Another process may send now: wait for the lock again.
            let is_lost = |error: &Error| matches!(error, Error::Lost { .. });
            let is_over = match failure.downcast_ref::<FencedError>() {
                Some(FencedError::Stale(_)) => true,
                Some(FencedError::Redis(error)) => error.is_io_error(),
                None => (failure.downcast_ref::<Error>())
                    .is_some_and(|error| is_lost(error) || error.is_retryable()),
            };
            if !is_over {
                return Err(failure);
            }
            self.says(failure);
        }
    }

    /// Sends what has not arrived yet, until the process is to end.
    async fn send_all(&self, token: FencingToken) -> Result<(), Failure> {
        // Fences: no earlier holder changes the number that is read here.
        let mut arrived = match &*self.arrived.get(token).await? {
            "" => 0,
            number => number.parse::<u32>()?,
        };
        let mut stopping = self.stopping.clone();
        let mut pause = PAUSES.0;
        while arrived < self.events && !*stopping.borrow() {
            if self.attempt(arrived + 1).await? {
                arrived += 1;
                self.arrived.set(token, &arrived.to_string()).await?;
                self.says(format!("event {arrived} has arrived"));
                pause = PAUSES.0;
            } else {
                tokio::select! {
                    () = sleep(pause) => pause = (2 * pause).min(PAUSES.1),
                    () = stopped(&mut stopping) => {}
                }
            }
        }
        Ok(())
    }

    /// True if the event has arrived.
    async fn attempt(&self, event: u32) -> Result<bool, Error> {
        let mut stopping = self.stopping.clone();
        let connection = tokio::select! {
            connection = self.connections.acquire(1) => connection?,
            () = stopped(&mut stopping) => return Ok(false),
        };
        let request = format!("{}/{event}", self.customer);
        let sent = timeout(ATTEMPT, visit(&self.receiver, &request));
        let failure = match connection.run(sent).await {
            Ok(Ok(Ok(()))) => return Ok(true), // dropping the permit gives it back
            Ok(Ok(Err(refused))) => refused.to_string(),
            Ok(Err(late)) => late.to_string(),
            // The permit, not the lock: the next attempt takes another one.
            Err(lost) => lost.to_string(),
        };
        self.says(format!("event {event} has failed: {failure}"));
        Ok(false)
    }

    fn says(&self, text: impl std::fmt::Display) {
        println!("customer {}: {text}", self.customer);
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error: the sender is gone, which is the sign as well.
    drop(stopping.wait_for(|stop| *stop).await);
}

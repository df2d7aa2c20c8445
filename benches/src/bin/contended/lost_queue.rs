//! Many wait for a fair lock, and its queue is lost: until all are in it again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::Client;
use leasehold_testbed::{Connection, Outside, Reply, Server};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::server_cost::{ServerCost, server};

const QUEUE: &str = "redisson_lock_queue:{x}";
const DEADLINES: &str = "redisson_lock_timeout:{x}";
/// The waiters are theirs in turn.
const CLIENTS: usize = 2;
/// The longest, so that no place is lost meanwhile on a busy machine.
const CLAIM: Duration = Duration::from_secs(60);
/// All know their places by then.
const SETTLE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

pub(crate) const COLUMNS: &str = "| waiters | commands a waiter | bytes written a waiter | CPU of \
    the server, s | longest PING, ms | all back after, s | out of order |";

#[expect(clippy::cast_precision_loss, reason = "few, and rounded in the end")]
pub(crate) async fn row(size: usize) -> Result<String, Failure> {
    let server = server();
    let mut outside = Outside::of(&server);
    let holder = Client::connect(&server.url()).await?;
    let guard = holder.fair_lock("x").lock().await?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let builder = Client::builder(&server.url()).fair_claim(CLAIM);
        clients.push(builder.connect().await?);
    }
    let mut waiters = JoinSet::new();
    for number in 0..size {
        let lock = clients[number % CLIENTS].fair_lock("x");
        waiters.spawn(async move { lock.lock().await.map(drop) });
    }
    all_wait(&mut outside, size).await;
    sleep(SETTLE).await;
    let line = queue(&mut outside);
    let pings = Pings::of(&server);
    outside.reset_stats();
    let (began, before) = (Instant::now(), ServerCost::of(&mut outside)?);
    outside.command(&["DEL", QUEUE, DEADLINES]);
    all_wait(&mut outside, size).await;
    let (took, cost) = (began.elapsed(), ServerCost::of(&mut outside)?.since(before));
    let longest = pings.longest();
    let again = queue(&mut outside);
    let each = |total: u64| total as f64 / size as f64;
    // With the server, everything that is left has gone.
    drop((server, waiters, guard));
    Ok(format!(
        "| {size} | {:.1} | {:.0} | {:.2} | {:.1} | {:.1} | {} |",
        each(cost.commands),
        each(cost.written),
        cost.cpu,
        longest.as_secs_f64() * 1000.0,
        took.as_secs_f64(),
        out_of_order(&line, &again),
    ))
}

async fn all_wait(outside: &mut Outside, size: usize) {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    while outside.command(&["LLEN", QUEUE]).int() < size {
        sleep(LOOK).await;
    }
}

fn queue(outside: &mut Outside) -> Vec<String> {
    let owners = outside.command(&["LRANGE", QUEUE, "0", "-1"]);
    owners.array().iter().map(Reply::text).collect()
}

/// How many come before another of the same client that was ahead of them.
fn out_of_order(line: &[String], again: &[String]) -> usize {
    let places: BTreeMap<_, _> = line.iter().zip(0..).collect::<BTreeMap<_, usize>>();
    let mut last = BTreeMap::new();
    let mut wrong = 0;
    for owner in again {
        let client = owner.rsplit_once(':').map(|(client, _)| client);
        let place = places.get(owner).copied();
        wrong += usize::from(last.insert(client, place).flatten() > place);
    }
    wrong
}

/// Another client of the server, which asks it all the time whether it is there.
struct Pings {
    ended: Arc<AtomicBool>,
    asking: thread::JoinHandle<Duration>,
}

impl Pings {
    fn of(server: &Server) -> Self {
        let (ended, mut connection) = (Arc::new(AtomicBool::new(false)), server.connection());
        let until = ended.clone();
        let asking = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !until.load(Ordering::Relaxed) {
                longest = longest.max(ping(&mut connection));
                thread::park_timeout(Duration::from_millis(1));
            }
            longest
        });
        Pings { ended, asking }
    }

    fn longest(self) -> Duration {
        self.ended.store(true, Ordering::Relaxed);
        self.asking.join().unwrap_or_default()
    }
}

fn ping(connection: &mut Connection) -> Duration {
    let sent = Instant::now();
    let answered = connection.command(&["PING"]);
    answered.map_or(Duration::MAX, |_| sent.elapsed())
}

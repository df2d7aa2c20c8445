//! Waiters that no message wakes: by the setting, or because the server has no Pub/Sub.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use leasehold::settings::Wake;
use leasehold::{Client, EmbeddedRedis, LockGuard};
use leasehold_testbed::{Bed, KINDS, SOON, eventually, ms, timed, waiting};
use tokio::task::JoinHandle;

use crate::memory_server::{connect, encoded, to_the_connection};

/// The polls in the end, several times.
const LONGEST: u64 = 200;

async fn polling(bed: &Bed) -> Client {
    let builder = bed.builder().wake(Wake::Poll).safety_poll(ms(LONGEST));
    builder.connect().await.unwrap()
}

/// Waits until the waiters have asked several times.
async fn until_polled(client: &Client, waiters: u64) {
    let before = client.stats().calls;
    eventually("polls", async || {
        client.stats().calls >= before + 3 * waiters
    })
    .await;
}

fn nobody_listens(bed: &Bed, client: &Client) {
    let stats = client.stats();
    assert_eq!((stats.subscriptions, stats.listeners), (0, 0));
    assert_eq!(bed.channels(), [""; 0]);
}

pub(crate) async fn waiters_of_every_kind_poll(bed: Bed) {
    for kind in KINDS.iter().filter(|kind| kind.exclusive) {
        let (one, other) = (polling(&bed).await, polling(&bed).await);
        let guard = kind.lock(&one, kind.name).lock().await.unwrap();
        let lock = kind.lock(&other, kind.name);
        let taking = tokio::spawn(async move { lock.lock().await?.unlock().await });
        until_polled(&other, 1).await;
        nobody_listens(&bed, &other);
        guard.unlock().await.unwrap();
        let (taken, after) = timed("granted", taking).await;
        taken.unwrap().unwrap();
        assert!(
            after <= bed.late(LONGEST + kind.late_ms()),
            "{}: {after:?}",
            kind.name
        );
        nobody_listens(&bed, &one);
    }
}

pub(crate) async fn waiters_for_permits_and_latches_poll(bed: Bed) {
    let (one, other) = (polling(&bed).await, polling(&bed).await);
    let (here, there) = (one.semaphore("s"), other.semaphore("s"));
    here.try_set_permits(1).await.unwrap();
    let permit = here.acquire(1).await.unwrap();
    let latch = one.count_down_latch("l");
    latch.try_set_count(1).await.unwrap();
    let opening = other.count_down_latch("l");
    let taking = tokio::spawn(async move { there.acquire(1).await?.release().await });
    let awaiting = tokio::spawn(async move { opening.wait(SOON).await });
    waiting(&other, 2).await;
    until_polled(&other, 2).await;
    nobody_listens(&bed, &other);
    permit.release().await.unwrap();
    latch.count_down().await.unwrap();
    timed("granted", taking).await.0.unwrap().unwrap();
    timed("open", awaiting).await.0.unwrap().unwrap();
    nobody_listens(&bed, &other);
}

/// A waiter of a fair lock keeps its place while it polls.
pub(crate) async fn polling_waiters_of_a_fair_lock_are_served_in_order(bed: Bed) {
    let (one, other) = (polling(&bed).await, polling(&bed).await);
    let guard = one.fair_lock("f").lock().await.unwrap();
    let mut takings = Vec::new();
    let order = Arc::new(AtomicU64::new(0));
    for (client, number) in [(&other, 0), (&one, 1), (&other, 2), (&one, 3)] {
        let (lock, order) = (client.fair_lock("f"), order.clone());
        takings.push(tokio::spawn(async move {
            let guard = lock.lock().await?;
            assert_eq!(order.fetch_add(1, SeqCst), number);
            guard.unlock().await
        }));
        let queue = || bed.command(&["LLEN", "redisson_lock_queue:{f}"]);
        eventually("in the queue", async || queue() == (number + 1).to_string()).await;
    }
    // Longer than a place lasts without a heartbeat.
    tokio::time::sleep(ms(2_500)).await;
    guard.unlock().await.unwrap();
    for taking in takings {
        timed("granted", taking).await.0.unwrap().unwrap();
    }
}

/// A server without Pub/Sub, like some proxies.
#[derive(Clone, Default)]
struct Mute {
    engine: EmbeddedRedis,
    asked_to_subscribe: Arc<AtomicU64>,
}

impl Mute {
    async fn client(&self) -> Client {
        let server = self.clone();
        let dial = move |_: &str| {
            let server = server.clone();
            Ok(connect(move |words| server.answer(words)).0)
        };
        let builder = Client::builder("redis://mute").dial_by(dial);
        builder.safety_poll(ms(LONGEST)).connect().await.unwrap()
    }

    fn answer(&self, words: &[String]) -> String {
        if words[0].contains("SUBSCRIBE") {
            self.asked_to_subscribe
                .fetch_add(u64::from(words[0] == "SUBSCRIBE"), SeqCst);
            return "-ERR unknown command 'SUBSCRIBE'\r\n".to_owned();
        }
        let run = || encoded(self.engine.command(words));
        to_the_connection(words).unwrap_or_else(run)
    }
}

fn wait_for(client: &Client, name: &str) -> JoinHandle<LockGuard> {
    let lock = client.lock(name);
    tokio::spawn(async move { lock.lock().await.unwrap() })
}

/// A held lock makes a client listen for forced releases, too.
#[tokio::test(start_paused = true)]
async fn without_pubsub_waiters_poll_and_nothing_is_refused_again() {
    let server = Mute::default();
    let (one, other) = (server.client().await, server.client().await);
    let guard = one.lock("a").lock().await.unwrap();
    let taking = wait_for(&other, "a");
    waiting(&other, 1).await;
    tokio::time::sleep(ms(5_000)).await;
    let refused = server.asked_to_subscribe.load(SeqCst);
    assert_eq!(refused, 2, "one of each client");
    guard.unlock().await.unwrap();
    let taken = timed("granted", taking).await.0.unwrap();
    let taking = wait_for(&one, "a");
    waiting(&one, 1).await;
    tokio::time::sleep(ms(5_000)).await;
    taken.unlock().await.unwrap();
    timed("granted", taking)
        .await
        .0
        .unwrap()
        .unlock()
        .await
        .unwrap();
    assert_eq!(server.asked_to_subscribe.load(SeqCst), refused);
}

//! A client moves to another primary while one of its threads is about to note a hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use leasehold::history::{Event, History, What};
use leasehold::settings::Failover;
use leasehold::test_util::Reply;
use leasehold::{Client, EmbeddedRedis, HoldState, Lease, LockGuard};
use leasehold_testbed::{eventually, ms, timed, waiting};

/// Once it is armed, the primary fails over where a hold of `x` begins, and the thread goes on when the client has told
/// the new primary what it holds.
#[derive(Clone)]
struct Stall {
    redis: EmbeddedRedis,
    armed: Arc<AtomicBool>,
}

impl Stall {
    fn begins(&self, event: &Event) {
        let begins = matches!(&event.what, What::Trusted { key, .. } if **key == *"x");
        if begins && self.armed.swap(false, SeqCst) {
            let former = self.primary();
            self.redis.fail_over();
            while self.primary() == former {
                thread::sleep(ms(1));
            }
            self.redis.set_replicas(1);
        }
    }

    /// The one whose grace was the last to end.
    fn primary(&self) -> Reply {
        let marker = ["HGET", "leasehold_reclaim", "marker"];
        self.redis.command(&marker).unwrap()
    }

    async fn client(&self) -> Client {
        let stall = self.clone();
        let history = History::new(move |event| stall.begins(&event));
        let builder = self.redis.builder().lease(ms(3000)).history(history);
        let reclaim = Failover::Reclaim { replicas: 1 };
        builder.failover(reclaim).connect().await.unwrap()
    }
}

/// A client with a session, and a primary whose replicas lack what is written from now on.
async fn stall() -> (Stall, Client) {
    let stall = Stall {
        redis: EmbeddedRedis::new(),
        armed: Arc::default(),
    };
    let client = stall.client().await;
    let before = client.lock("before").lock().await.unwrap();
    before.unlock().await.unwrap();
    stall.redis.set_replicas(0);
    (stall, client)
}

/// Others may be let in from now on.
async fn holds(stall: &Stall, client: &Client, guard: LockGuard) {
    assert!(!stall.armed.load(SeqCst), "it has failed over");
    let is_there = async || stall.redis.command(&["EXISTS", "x"]).unwrap() == Reply::Int(1);
    assert!(is_there().await, "{:?}", guard.state());
    eventually("certain", async || guard.state() == HoldState::Held).await;
    assert_eq!(client.stats().holds, 1);
    guard.unlock().await.unwrap();
    eventually("released", async || !is_there().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_grant_that_the_client_has_not_told_of_is_taken_again() {
    for wait in [ms(0), ms(5000)] {
        let (stall, client) = stall().await;
        stall.armed.store(true, SeqCst);
        let lock = client.lock("x");
        let guard = loop {
            match timed("answered", lock.try_lock(wait, Lease::Renewed))
                .await
                .0
            {
                Ok(guard) => break guard,
                // Whoever does not wait is told that the primary has changed.
                Err(error) => assert!(error.is_retryable() && wait.is_zero(), "{error}"),
            }
        };
        holds(&stall, &client, guard).await;
        assert_eq!(client.stats().lost, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_that_is_handed_over_and_not_told_of_is_taken_again() {
    let (stall, client) = stall().await;
    let lock = client.lock("x");
    let first = lock.lock().await.unwrap();
    let next = tokio::spawn(async move { lock.lock().await });
    waiting(&client, 1).await;
    stall.armed.store(true, SeqCst);
    tokio::spawn(first.unlock()).await.unwrap().unwrap();
    let taken = timed("taken", next).await.0.unwrap();
    holds(&stall, &client, taken.unwrap()).await;
}

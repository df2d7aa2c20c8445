//! Futures that are polled late, and waiters whose runtime is blocked.

use std::pin::pin;
use std::time::Duration;

use leasehold::settings::LocalHandover;
use leasehold::{Client, Error, Lease, Lock};
use leasehold_testbed::{Borrowed, Deployment, Outside, eventually_within, ms};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::testbed::{alone, assert_protocol, builder, connect, runtime, turn};

const LIMIT: Duration = Duration::from_secs(20);

/// Unlocks a guard and polls the future after it was cancelled as unpolled. Returns what it
/// reports.
async fn unlocked_late(spoil: &[&str]) -> Result<(), Error> {
    let server = Deployment::start();
    let client = connect(&server.url()).await;
    let guard = client.lock("n").lock().await.expect("free");
    Outside::of(&server).command(spoil);
    let mut unlock = pin!(guard.unlock());
    eventually_within(LIMIT, "cancelled", async || {
        client.stats().cancelled_as_unpolled == 1
    })
    .await;
    unlock.as_mut().await
}

/// Once, the result was `Ok`.
#[test]
fn an_unlock_polled_late_reports_that_the_hold_was_gone() {
    alone(LIMIT, async {
        let outcome = unlocked_late(&["DEL", "n"]).await;
        assert!(matches!(outcome, Err(Error::Lost { .. })), "{outcome:?}");
        let outcome = unlocked_late(&["PING"]).await;
        assert!(outcome.is_ok(), "{outcome:?}");
    });
}

/// Once, the result was `Ok`, and the key stayed.
#[test]
fn an_unlock_polled_late_reports_that_it_was_refused() {
    alone(LIMIT, async {
        let outcome = unlocked_late(&["ACL", "SETUSER", "default", "-hdel"]).await;
        assert_protocol("unlock", outcome, "can't run this command");
    });
}

/// Once, the result was `Ok`, and the key stayed.
#[test]
fn a_shutdown_reports_a_refused_release() {
    alone(LIMIT, async {
        for drop_it_first in [false, true] {
            let server = Deployment::start();
            let client = connect(&server.url()).await;
            let mut guard = Some(client.lock("n").lock().await.expect("free"));
            let mut outside = Outside::of(&server);
            outside.command(&["ACL", "SETUSER", "default", "-hdel"]);
            if drop_it_first {
                guard = None;
                eventually_within(LIMIT, "refused", async || {
                    client.stats().releases_failed == 1
                })
                .await;
            }
            let outcome = client.shutdown(LIMIT).await;
            assert!(matches!(outcome, Err(Error::Unknown { .. })), "{outcome:?}");
            assert!(outside.exists("n"));
            drop(guard);
        }
    });
}

/// A runtime that nobody drives once its task waits for the lock.
fn waits_on_a_still_runtime<F: Future<Output: Send> + Send + 'static>(
    client: &Client,
    waiter: F,
) -> (Runtime, tokio::task::JoinHandle<F::Output>) {
    let still = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let waiting = still.spawn(waiter);
    still.block_on(eventually_within(LIMIT, "queued", async || {
        client.stats().waiting == 1
    }));
    (still, waiting)
}

/// Once, the contender of a polling lock had a timer that nobody drove, and the other waiters of
/// its client never got a free lock.
#[test]
fn a_front_on_a_still_runtime_does_not_keep_the_others_from_a_free_lock() {
    let _turn = turn();
    let server = Borrowed::take();
    let runtime = runtime(2);
    let makes: [fn(&Client) -> Lock; 3] = [
        |client| client.lock("n"),
        |client| client.spin_lock("n"),
        |client| client.string_lock("n"),
    ];
    for make in makes {
        let (client, other) = runtime
            .block_on(async { (connect(&server.url()).await, connect(&server.url()).await) });
        let (lock, held): (Lock, Lock) = (make(&client), make(&other));
        let guard = runtime.block_on(held.lock()).expect("free");
        let front = lock.clone();
        let still = waits_on_a_still_runtime(&client, async move { front.lock().await.map(drop) });
        runtime.block_on(async {
            guard.unlock().await.expect("held");
            drop(lock.try_lock(LIMIT, Lease::Renewed).await.expect("free"));
        });
        drop(still);
    }
}

/// Once, the waiter got a lost guard with `Ok`.
#[test]
fn a_hold_whose_lease_ended_before_it_was_picked_up_is_not_granted() {
    let _turn = turn();
    let server = Borrowed::take();
    let runtime = runtime(2);
    // The lease ends before a waiter on a blocked runtime is cancelled. The long streak hands the
    // lock over however long it was held.
    let streak = LocalHandover::Streak {
        count: 256,
        time: LIMIT,
    };
    let settings = builder(&server.url()).lease(ms(600)).local_handover(streak);
    let client = runtime.block_on(settings.connect());
    let client = client.expect("the server answers");
    let lock = client.lock("n");
    let guard = runtime.block_on(lock.lock()).expect("free");
    let ended = guard.ended();
    let (still, waiting) = waits_on_a_still_runtime(&client, async move {
        lock.lock().await.expect("the lock is free").deadline()
    });
    runtime.block_on(async {
        // A hold with a renewal in flight is not handed over. The next renewal is not due for a
        // while.
        let renewed = client.stats().renewed;
        eventually_within(LIMIT, "renewed", async || client.stats().renewed > renewed).await;
        guard.unlock().await.expect("held");
        ended.await;
        eventually_within(LIMIT, "what was handed over is lost", async || {
            client.stats().lost == 1
        })
        .await;
    });
    let goes_on = Instant::now();
    let deadline = still.block_on(waiting).expect("no panic");
    assert!(deadline > goes_on, "its lease had ended");
}

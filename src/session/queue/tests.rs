//! A waker may drop its future at once, which then leaves the queue that is just being changed.
#![expect(
    clippy::disallowed_methods,
    reason = "a contender is a task of its own"
)]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::pin::Pin;

use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use std::time::Duration;

use super::*;
use crate::client_id::ClientId;
use crate::clock::{Clock, Counts};
use crate::lease::LossReason;
use crate::protocol::kind::Kind;
use crate::session::core::Session;
use crate::session::deadline::{Clocks, HoldIdentity};
use crate::session::tests::inline_waker::{does_not_hang, poll_and_drop_when_woken};
use crate::settings::LocalHandover;
use crate::{Client, EmbeddedRedis, Error, Lease, Lock, LockGuard};

/// Longer than any of these tests.
const LONG: Duration = Duration::from_secs(60);
/// Long enough for everything that is in flight to arrive.
const MOMENT: Duration = Duration::from_millis(5);

type Taking = Pin<Box<dyn Future<Output = Result<LockGuard, Error>> + Send>>;

fn taking(lock: Lock, lease: Lease) -> Taking {
    Box::pin(async move { lock.try_lock(LONG, lease).await })
}

/// Runs a test on one thread under paused time. If the thread deadlocks, it is left behind.
fn without_hanging(what: &str, test: impl AsyncFnOnce() + Send + 'static) {
    does_not_hang(what, move || {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(test());
    });
}

/// Waits in a future that its own waker drops.
async fn waits(client: &Client, mut future: impl Future + Send + Unpin + 'static) {
    assert!(
        timeout(MOMENT, &mut future).await.is_err(),
        "it has to wait"
    );
    poll_and_drop_when_woken(async move { drop(future.await) });
    assert_ne!(client.stats().waiting, 0);
}

/// Two waiters that leave when they are signalled. The waiter behind them gets the lock.
async fn wait_and_go(client: &Client, make: fn(&Client) -> Lock, lease: Lease) {
    waits(client, taking(make(client), lease)).await;
    waits(client, taking(make(client), lease)).await;
}

async fn free_in_the_end(client: &Client, lock: Lock) {
    sleep(MOMENT).await;
    assert_eq!(client.stats().waiting, 0);
    lock.try_lock(Duration::from_secs(1), Lease::Renewed)
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
    sleep(LONG).await;
    assert_eq!((client.stats().local_queues, client.stats().holds), (0, 0));
}

fn plain(client: &Client) -> Lock {
    client.lock("x")
}

const KINDS: [fn(&Client) -> Lock; 4] = [
    plain,
    |client| client.fair_lock("x"),
    |client| client.spin_lock("x"),
    |client| client.read_write_lock("x").write().clone(),
];

#[test]
fn a_waiter_that_leaves_during_its_hand_over_blocks_nobody() {
    for make in KINDS {
        for lease in [Lease::Renewed, Lease::Fixed(LONG)] {
            without_hanging("a hand-over", async move || {
                let streak = LocalHandover::Streak {
                    count: 9,
                    time: LONG,
                };
                let client = EmbeddedRedis::new().builder().local_handover(streak);
                let client = client.connect().await.unwrap();
                let guard = make(&client).try_lock(LONG, lease).await.unwrap();
                wait_and_go(&client, make, lease).await;
                drop(guard);
                free_in_the_end(&client, make(&client)).await;
            });
        }
    }
}

#[test]
fn a_waiter_that_leaves_while_it_becomes_the_contender_after_a_release_blocks_nobody() {
    for make in KINDS {
        without_hanging("a release", async move || {
            let redis = EmbeddedRedis::new();
            let client = redis
                .builder()
                .local_handover(LocalHandover::Off)
                .connect()
                .await;
            let client = client.unwrap();
            let guard = make(&client).lock().await.unwrap();
            wait_and_go(&client, make, Lease::Renewed).await;
            guard.unlock().await.unwrap();
            free_in_the_end(&client, make(&client)).await;
        });
    }
}

#[test]
fn a_waiter_that_leaves_while_it_becomes_the_contender_blocks_nobody() {
    for make in KINDS {
        without_hanging("the contender leaves", async move || {
            let redis = EmbeddedRedis::new();
            let (client, elsewhere) = (redis.client(), redis.client());
            let guard = make(&elsewhere).lock().await.unwrap();
            let mut contender = taking(make(&client), Lease::Renewed);
            assert!(timeout(MOMENT, &mut contender).await.is_err());
            wait_and_go(&client, make, Lease::Renewed).await;
            drop(contender);
            guard.unlock().await.unwrap();
            free_in_the_end(&client, make(&client)).await;
        });
    }
}

#[test]
fn a_waiter_that_leaves_while_all_are_woken_blocks_nobody() {
    for make in KINDS {
        without_hanging("a shutdown", async move || {
            let redis = EmbeddedRedis::new();
            let (client, elsewhere) = (redis.client(), redis.client());
            let _held = make(&elsewhere).lock().await.unwrap();
            wait_and_go(&client, make, Lease::Renewed).await;
            waits(&client, taking(make(&client), Lease::Renewed)).await;
            client.shutdown(LONG).await.unwrap();
            assert_eq!(client.stats().waiting, 0);
        });
    }
}

/// The safety poll finds that the key is gone.
#[test]
fn a_contender_that_leaves_while_it_is_woken_blocks_nobody() {
    without_hanging("a poll", async || {
        let redis = EmbeddedRedis::new();
        let (client, elsewhere) = (redis.client(), redis.client());
        let held = elsewhere.lock("x").lock().await.unwrap();
        wait_and_go(&client, plain, Lease::Renewed).await;
        assert!(redis.lose("x"));
        sleep(Duration::from_secs(3)).await;
        drop(held);
        free_in_the_end(&client, plain(&client)).await;
    });
}

#[test]
fn a_waiter_that_leaves_while_a_latch_opens_blocks_nobody() {
    without_hanging("a latch opens", async || {
        let redis = EmbeddedRedis::new();
        let (client, elsewhere) = (redis.client(), redis.client());
        let opens = elsewhere.count_down_latch("l");
        opens.try_set_count(1).await.unwrap();
        let latch = client.count_down_latch("l");
        let contender = tokio::spawn(async move { latch.wait(LONG).await });
        sleep(MOMENT).await;
        for _ in 0..2 {
            let latch = client.count_down_latch("l");
            waits(&client, Box::pin(async move { latch.wait(LONG).await })).await;
        }
        opens.count_down().await.unwrap();
        contender.await.unwrap().unwrap();
        assert_eq!(client.stats().waiting, 0);
    });
}

fn a_hold(resource: &Arc<Resource>) -> Arc<Hold> {
    let clock = Clock::new(Counts::TimerTime);
    let (resource, field) = (resource.clone(), Arc::from("client:1"));
    let identity = HoldIdentity {
        resource,
        field,
        client: ClientId::random(),
    };
    Arc::new(Hold::new(1, identity, TERMS, &clock, clock.now()))
}

const TERMS: HoldTerms = HoldTerms {
    lease: LONG,
    renewed: true,
    max_hold: None,
    clocks: Clocks::OfOne,
};

/// After a grant that was worthless, a waiter waits as another field. A message to the first may be
/// late.
#[test]
fn a_message_counts_only_for_the_field_that_it_names() {
    let waiter = Waiter::new(TERMS, Instant::now());
    let now = Clock::new(Counts::TimerTime).now();
    for field in ["client:4000000000000000012", "client:4000000000000000002"] {
        waiter.record_place(&Arc::from(field), now, Some(0));
    }
    let told = |field| {
        waiter.record_handover(field, Some(LONG));
        waiter
            .take_handover("client:4000000000000000002", 0)
            .is_some()
    };
    assert!(!told("client:4000000000000000012"));
    assert!(told("client:4000000000000000002"));
}

/// Two threads: one reports that the hold was granted, the other that it is lost.
#[test]
fn a_grant_and_a_loss_in_any_order_leave_the_queue_free() {
    let resource = Arc::new(Resource::new(Kind::Lock, "", "x").unwrap());
    for round in 0..2000 {
        let queues = LocalQueues::new(Streak {
            count: 9,
            time: LONG,
        });
        let waiter = || Waiter::new(TERMS, Instant::now());
        let (contender, hold) = (waiter(), a_hold(&resource));
        queues.enter(&resource, &contender);
        let (granted, lost) = (fastrand::usize(..3000), fastrand::usize(..3000));
        let spin = |times| (0..times).for_each(|_| std::hint::spin_loop());
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                start.wait();
                spin(granted);
                queues.granted(&resource, &contender, (&hold, Instant::now()), Yielded::Not);
            });
            start.wait();
            spin(lost);
            hold.lose(LossReason::Gone);
            queues.vacate(&hold, Audience::NOBODY);
        });
        let next = waiter();
        queues.enter(&resource, &next);
        assert!(
            matches!(next.take_signal(), WaiterSignal::Contend { .. }),
            "round {round}"
        );
    }
}

/// Whatever the cause, a queue that waits for a hold that is over continues within two sweeps.
#[test]
fn a_queue_whose_hold_ended_without_leaving_it_is_repaired() {
    without_hanging("a wedged queue", async || {
        let redis = EmbeddedRedis::new();
        let client = redis.client();
        let ends: [fn(&Session, &Arc<Hold>); 2] = [
            |session, hold| {
                hold.lose(LossReason::Gone);
                session.core.hold_table.disarm(hold);
            },
            // Nobody renews the hold, and nobody notices the end of its lease.
            |session, hold| session.core.hold_table.disarm(hold),
        ];
        for end in ends {
            let guard = plain(&client)
                .try_lock(LONG, Lease::Fixed(MOMENT * 2))
                .await
                .unwrap();
            let hold = client.session().core.hold_table.holds().pop().unwrap();
            end(client.session(), &hold);
            let second = Duration::from_secs(1);
            let next = plain(&client).try_lock(second * 2, Lease::Renewed).await;
            next.expect("repaired").unlock().await.unwrap();
            drop(guard);
        }
    });
}

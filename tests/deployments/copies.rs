//! Grants that some replicas have and others lack when one of the others is promoted.

use std::time::Duration;

use leasehold::settings::Durability;
use leasehold::{Client, Ended, Error, HoldState, Lease, LossReason};
use leasehold_testbed::{
    LIMIT, Reply, Sentinels, Watch, assert_lost, eventually, release, take_and_release,
};
use tokio::time::timeout;

/// No renewal is due within a test.
const LONG: Duration = Duration::from_secs(300);

async fn connect(sentinels: &Sentinels, replicas: u32) -> Client {
    let within = Duration::from_millis(500);
    let builder = Client::builder(&sentinels.url())
        .lease(LONG)
        .connect_timeout(LIMIT);
    let builder = builder.durability(Durability::replicas(replicas).within(within));
    let client = builder.connect().await.expect("connects");
    // A new replica acknowledges nothing for a moment.
    eventually("grants are copied", async || {
        let guard = client.lock("warm").try_lock(LIMIT, Lease::Renewed).await;
        guard.is_ok_and(|guard| {
            drop(guard);
            true
        })
    })
    .await;
    client
}

/// A known complaint: one replica acknowledged, another was promoted, and nobody noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_the_promoted_replica_lacks_is_lost_and_fenced() {
    let down_after = Duration::from_secs(1);
    let mut sentinels = Sentinels::start_with(&Watch {
        down_after,
        ..Watch::default()
    });
    let [client, rival] = [connect(&sentinels, 1).await, connect(&sentinels, 1).await];
    // Both replicas have this token.
    take_and_release(&client.fenced_lock("n").into()).await;
    eventually("all settled", async || client.stats().releases_pending == 0).await;
    sentinels.until_in_step();
    let master = sentinels.current_master();
    let [copies, lacks] = [(master + 1) % 3, (master + 2) % 3];
    sentinels.pause(lacks);
    // It has no connections, so nothing waits for it there.
    sentinels
        .server(master)
        .command(&["CLIENT", "KILL", "TYPE", "replica"]);
    sentinels.until_in_step();
    let guard = client
        .fenced_lock("n")
        .lock()
        .await
        .expect("free, and copied by one");
    assert_eq!(sentinels.server(copies).command(&["EXISTS", "n"]).int(), 1);
    assert_eq!(guard.state(), HoldState::Held);

    sentinels.kill(copies);
    sentinels.kill(master);
    sentinels.resume(lacks);
    assert_eq!(sentinels.until_replaced(master), lacks);
    let ended = timeout(LIMIT, guard.ended()).await.expect("lost");
    assert_eq!(ended, Ended::Lost(LossReason::Gone));
    // No replica is left to copy anything.
    drop(rival);
    let rival = Client::builder(&sentinels.url()).connect_timeout(LIMIT);
    let rival = rival.connect().await.expect("connects");
    let lock = rival.fenced_lock("n");
    let equal = lock.try_lock(LIMIT, Lease::Renewed).await.expect("free");
    assert_ne!(equal.owner(), guard.owner());
    assert_eq!(
        equal.token(),
        guard.token(),
        "the token was lost as well: of other work"
    );
    equal.unlock().await.expect("held");
    let newer = lock.try_lock(LIMIT, Lease::Renewed).await.expect("free");
    assert!(
        newer.token() > guard.token(),
        "a resource refuses the old one"
    );
    newer.unlock().await.expect("held");
    let refused = guard.unlock().await.expect_err("lost");
    assert_lost(&refused, LossReason::Gone);
}

/// A known complaint: too few replicas block every acquisition and leave counts behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_replica_refuses_grants_if_all_must_acknowledge() {
    // Nobody is elected during the test.
    let sentinels = Sentinels::start_with(&Watch {
        down_after: LONG,
        ..Watch::default()
    });
    let client = connect(&sentinels, 2).await;
    let plain = Client::builder(&sentinels.url())
        .connect_timeout(LIMIT)
        .connect()
        .await;
    let plain = plain.expect("connects");
    let held = client
        .lock("held")
        .lock()
        .await
        .expect("free, and copied by both");
    let master = sentinels.server(sentinels.current_master());
    let still = sentinels.replica();
    sentinels.pause(still);
    for lock in [
        client.lock("n"),
        client.fair_lock("n"),
        client.fenced_lock("n").into(),
    ] {
        let refused = lock
            .try_lock_now(Lease::Renewed)
            .await
            .expect_err("one copy");
        let counts = matches!(
            refused,
            Error::NotDurable {
                wanted: 2,
                acknowledged: 1,
                ..
            }
        );
        assert!(
            counts && refused.is_retryable() && !refused.may_be_held(),
            "{refused:?}"
        );
        eventually("no key left", async || {
            master.command(&["EXISTS", "n"]).int() == 0 && client.stats().releases_pending == 0
        })
        .await;
        // A client that does not ask for copies is not affected.
        release(plain.lock("n").try_lock(LIMIT, Lease::Renewed).await).await;
    }
    let keys: Vec<_> = master
        .command(&["KEYS", "*"])
        .array()
        .iter()
        .map(Reply::text)
        .collect();
    let left = keys
        .iter()
        .filter(|key| !["held", "warm"].contains(&key.as_str()));
    let left: Vec<_> = left.filter(|key| !key.contains("token")).collect();
    assert!(left.is_empty(), "{left:?}");
    sentinels.resume(still);
    eventually("it is granted again", async || {
        match client.lock("n").try_lock(LIMIT, Lease::Renewed).await {
            Ok(guard) => guard.unlock().await.is_ok(),
            Err(_) => false,
        }
    })
    .await;
    held.unlock().await.expect("held all the time");
}

//! A client of this crate: the whole way from a lock to the engine and back.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{EmbeddedRedis, settle};
use crate::test_util::Direction::{Replies, Requests};
use crate::test_util::{ConnectionControl, Faults, LinkControl, Restart};
use crate::{Client, Lease};

async fn client(redis: &EmbeddedRedis) -> (Client, LinkControl) {
    let client = redis.builder().connect().await.expect("a client");
    (client, redis.links().pop().expect("its switches"))
}

#[tokio::test(start_paused = true)]
async fn lock_passes_from_one_client_to_another() {
    let redis = EmbeddedRedis::new();
    let ((ours, control), (theirs, _)) = (client(&redis).await, client(&redis).await);
    assert_eq!(control.connections().len(), 3);
    assert_eq!(redis.links().len(), 2);
    let guard = ours.lock("orders").lock().await.expect("free");
    assert!(
        theirs
            .lock("orders")
            .try_lock_now(Lease::Renewed)
            .await
            .is_err()
    );
    let other = theirs.lock("orders");
    let waiting = async {
        let taken = timeout(Duration::from_millis(200), other.lock()).await;
        taken
            .expect("woken by a message")
            .expect("free")
            .unlock()
            .await
            .expect("held");
    };
    let letting_go = async {
        sleep(Duration::from_millis(100)).await;
        // On the channel of the lock, and on two of the client that waits.
        assert_eq!(redis.listeners().len(), 3);
        guard.unlock().await.expect("held");
    };
    tokio::join!(waiting, letting_go);
    assert!(redis.scripts_run()["lock_acquire"] > 0);
    ours.shutdown(Duration::from_secs(1)).await.expect("done");
    theirs.shutdown(Duration::from_secs(1)).await.expect("done");
    drop((ours, theirs, other));
    settle().await;
    assert!(redis.links().is_empty() && redis.listeners().is_empty());
    assert!(redis.dump().is_empty() && control.connections().is_empty());
}

#[tokio::test(start_paused = true)]
async fn hold_survives_broken_connections_and_a_restart() {
    let redis = EmbeddedRedis::new();
    let (ours, control) = client(&redis).await;
    let guard = ours.lock("orders").lock().await.expect("free");
    control.cut();
    sleep(Duration::from_secs(2)).await;
    control.heal();
    sleep(Duration::from_secs(2)).await;
    assert!(control.connections().iter().all(ConnectionControl::is_open));
    redis.restart(Restart::WithData);
    // Longer than its lease: it was renewed.
    sleep(Duration::from_secs(120)).await;
    control
        .connections()
        .iter()
        .for_each(|one| one.half_open(Replies));
    sleep(Duration::from_secs(120)).await;
    guard.unlock().await.expect("held all the time");
}

/// A cut after any part of any call: the guard unlocks, and the lock is free.
#[tokio::test(start_paused = true)]
async fn lock_and_unlock_whatever_byte_is_the_last() {
    // Close to one another where calls are made, far apart within the texts of scripts.
    let cuts = (0..600).step_by(7).chain((600..12_000).step_by(371));
    for (cut, direction) in cuts.flat_map(|cut| [(cut, Requests), (cut, Replies)]) {
        let redis = EmbeddedRedis::new();
        let (ours, control) = client(&redis).await;
        control.set_faults(
            Faults {
                chunk_max: 20,
                ..Faults::default()
            },
            cut,
        );
        for connection in control.connections() {
            connection.cut_after(direction, cut);
        }
        let ended = timeout(Duration::from_secs(60), async {
            let guard = ours.lock("orders").lock().await.expect("a hold");
            guard.unlock().await.expect("held");
        });
        ended.await.expect("in time");
        sleep(Duration::from_secs(10)).await;
        assert!(redis.dump().is_empty(), "{direction:?}, cut at {cut}");
    }
}

//! Holds that end without being released, and who learns about it.

use std::time::Duration;

use leasehold::test_util::{Delay, Faults};
use leasehold::{Ended, HoldState, Lease, LossReason};
use leasehold_testbed::{
    Bed, KINDS, Kind, On, Place, assert_lost, eventually, ms, task, timed, until_certain,
};
use tokio::time::{Instant, sleep};

use crate::faulty_connection::FaultyConnection;

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) async fn a_fixed_lease_ends_without_a_release(bed: Bed) {
    let (client, rival) = (bed.client().await, bed.client_without_polls().await);
    let start = Instant::now();
    let guard = client
        .lock("x")
        .try_lock_now(Lease::Fixed(ms(600)))
        .await
        .unwrap();
    if bed.is_embedded() {
        // On a server, the machine may stall before the call is sent.
        assert!(guard.deadline() <= start + ms(600));
    }
    let (next, _) = timed("expired", rival.lock("x").lock()).await;
    let took = start.elapsed();
    assert_eq!(guard.state(), HoldState::Lost);
    assert!(took > ms(500) && took < ms(600) + bed.late(200), "{took:?}");
    assert_eq!(
        timed("lost", guard.ended()).await.0,
        Ended::Lost(LossReason::Expired)
    );
    let late = guard.unlock().await.unwrap_err();
    assert_lost(&late, LossReason::Expired);
    next.unwrap().check().unwrap();
}

pub(crate) async fn a_deleted_key_is_noticed(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(600)).await;
    let guard = client.lock("x").lock().await.unwrap();
    bed.command(&["DEL", "x"]);
    let (ended, took) = timed("lost", guard.ended()).await;
    assert_eq!(ended, Ended::Lost(LossReason::Gone));
    assert!(took < bed.late(400), "within a renewal tick: {took:?}");
    eventually("it is counted", async || client.stats().lost == 1).await;
    let late = guard.unlock().await.unwrap_err();
    assert_lost(&late, LossReason::Gone);
}

pub(crate) async fn a_lost_lock_is_not_resurrected(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    let guard = client.lock("x").lock().await.unwrap();
    bed.command(&["DEL", "x"]);
    timed("lost", guard.ended()).await;
    sleep(bed.lease(500)).await;
    assert!(!bed.exists("x"));
    assert_eq!(guard.state(), HoldState::Lost);
}

pub(crate) async fn a_lock_taken_by_another_is_reported_lost(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    let guard = client.lock("x").lock().await.unwrap();
    bed.command(&["DEL", "x"]);
    bed.command(&["HSET", "x", "somebody:1", "1"]);
    bed.command(&["PEXPIRE", "x", "5000"]);
    assert_eq!(
        timed("lost", guard.ended()).await.0,
        Ended::Lost(LossReason::Gone)
    );
    drop(guard);
    sleep(bed.span(50)).await;
    assert_eq!(bed.count("x", "somebody:1"), 1);
}

pub(crate) async fn a_renewal_extends_only_what_is_ours(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(600)).await;
    let guards = [
        client.lock("x").lock().await.unwrap(),
        client.lock("y").lock().await.unwrap(),
    ];
    bed.command(&["DEL", "x"]);
    bed.command(&["HSET", "x", "somebody:1", "1"]);
    bed.command(&["PEXPIRE", "x", "60000"]);
    timed("one is lost", guards[0].ended()).await;
    let left = bed.left("x");
    assert!(left > 50_000, "the other's lease is as it was: {left}");
    sleep(bed.lease(700)).await;
    until_certain(&guards[1]).await; // The others of the batch are renewed.
}

pub(crate) async fn a_late_unlock_touches_nobody(bed: Bed) {
    let (client, rival) = (bed.client().await, bed.client().await);
    let guard = client.lock("x").lock().await.unwrap();
    bed.command(&["DEL", "x"]);
    let next = rival.lock("x").lock().await.unwrap();
    let late = guard.unlock().await.unwrap_err();
    assert_lost(&late, LossReason::Gone);
    assert_eq!(bed.count("x", next.owner()), 1);
    next.unlock().await.unwrap();
}

pub(crate) async fn a_key_of_another_type_is_a_loss(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    let guards = [
        client.lock("x").lock().await.unwrap(),
        client.lock("y").lock().await.unwrap(),
    ];
    bed.command(&["SET", "x", "a string"]);
    assert_eq!(
        timed("lost", guards[0].ended()).await.0,
        Ended::Lost(LossReason::Gone)
    );
    sleep(bed.lease(400)).await;
    until_certain(&guards[1]).await; // Its neighbour in the batch is not harmed.
    assert_eq!(bed.command(&["GET", "x"]), "a string");
}

/// Makes all keys of a lock permanent, as an operator does to protect a holder.
fn persist(bed: &Bed, kind: &Kind) {
    for key in kind.keys(kind.name) {
        bed.command(&["PERSIST", &key]);
    }
}

fn is_permanent(bed: &Bed, kind: &Kind) -> bool {
    let keys = kind.keys(kind.name);
    keys.iter().filter(|key| bed.left(key) == -1).count() >= kind.need()
}

/// A client that has reconnected verifies its holds, and renews those that it renews anyway.
pub(crate) async fn a_permanent_key_stays_with_its_holder(bed: Bed) {
    let other = bed.client().await;
    for lease in [Lease::Fixed(HOUR), Lease::Renewed] {
        let (client, line) = FaultyConnection::with(&bed, |builder| builder).await;
        let mut held = Vec::new();
        for kind in &KINDS {
            let guard = kind.lock(&client, kind.name).try_lock_now(lease).await;
            held.push((kind, guard.unwrap()));
            persist(&bed, kind);
        }
        let before = client.stats().renewed;
        line.reconnect();
        eventually("all are verified", async || {
            let stats = client.stats();
            stats.renewed - before >= stats.holds
        })
        .await;
        for (kind, guard) in held {
            let what = kind.name;
            until_certain(&guard).await;
            assert!(is_permanent(&bed, kind), "{what}: verified");
            // In a cluster, the connection of this node may be cut after the others have verified
            // as many holds.
            eventually("extended", async || guard.extend(2 * HOUR).await.is_ok()).await;
            assert!(is_permanent(&bed, kind), "{what}: extended");
            if kind.reentrant {
                let inner = guard.reenter().await.unwrap();
                assert!(is_permanent(&bed, kind), "{what}: re-entered");
                inner.unlock().await.unwrap();
            }
            let rival = if kind.exclusive {
                kind.lock(&other, what)
            } else {
                other.read_write_lock(what).write().clone()
            };
            let refused = rival.try_lock_now(Lease::Renewed).await;
            assert!(refused.is_err_and(|error| error.is_timeout()), "{what}");
            guard.unlock().await.unwrap();
            for key in kind.keys(what) {
                bed.until_gone(&key).await;
            }
        }
    }
}

/// The request for a renewal arrives when the lease is over and somebody else has the lock. Only
/// the engine has such lines.
#[test]
fn a_renewal_that_comes_late_prolongs_nothing_of_others() {
    for kind in KINDS.iter().filter(|kind| kind.exclusive) {
        task(On::Engine, async |bed: Bed| {
            let Place::Embedded(engine) = &bed.place else {
                unreachable!("it was asked for")
            };
            let (far, other) = (bed.client_with_lease(ms(900)).await, bed.client().await);
            let guard = kind.lock(&far, "x").lock().await.unwrap();
            let late = Faults {
                request: Delay::fixed(ms(800)),
                ..Faults::default()
            };
            // The lines of the client that came first.
            engine.links()[0].set_faults(late, 1);
            // A third of the lease later the renewal is sent. It arrives 200 ms after the end of
            // the lease.
            timed("lost", guard.ended()).await;
            sleep(ms(100)).await;
            let next = kind.lock(&other, "x").try_lock_now(Lease::Renewed).await;
            let next = next.unwrap();
            sleep(ms(2000)).await;
            assert_eq!(next.state(), HoldState::Held, "{}", kind.name);
            next.unlock().await.unwrap();
        });
    }
}

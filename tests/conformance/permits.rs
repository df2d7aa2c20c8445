//! Behaviour of permits with ids and leases that Redisson's tests define, and permits whose holder
//! died, lost them or got no reply.

use std::time::Duration;

use futures::future::try_join_all;
use leasehold::{
    Client, Ended, Error, ExpirablePermit, Lease, LossReason, PermitExpirableSemaphore,
};
use leasehold_testbed::{Bed, eventually, ms, timed};
use tokio::time::sleep;

use crate::faulty_connection::FaultyConnection;
use crate::semaphores::in_vain;

/// An id that was never given out.
const UNKNOWN: &str = "00112233445566778899aabbccddeeff";
/// The score by which Redisson marks a permit that does not expire.
const NEVER: &str = "922337203685477";

async fn set(client: &Client, permits: u32) -> PermitExpirableSemaphore {
    let semaphore = client.permit_expirable_semaphore("p");
    assert!(semaphore.try_set_permits(permits).await.unwrap());
    semaphore
}

/// Available, held, and all.
async fn counts(semaphore: &PermitExpirableSemaphore) -> (i64, i64, i64) {
    let available = semaphore.available().await.unwrap();
    (
        available,
        semaphore.acquired().await.unwrap(),
        semaphore.permits().await.unwrap(),
    )
}

fn ids(permits: &[ExpirablePermit]) -> Vec<String> {
    permits
        .iter()
        .flat_map(ExpirablePermit::ids)
        .map(ToOwned::to_owned)
        .collect()
}

/// Leaves the permits to their leases, and returns their ids.
fn forgotten(permits: Vec<ExpirablePermit>) -> Vec<String> {
    let ids = ids(&permits);
    permits.into_iter().for_each(ExpirablePermit::forget);
    ids
}

fn borrowed(ids: &[String]) -> Vec<&str> {
    ids.iter().map(String::as_str).collect()
}

fn not_owner<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::NotOwner { .. }))
}

pub(crate) async fn a_prefix_names_both_keys(bed: Bed) {
    let client = bed.builder().key_prefix("app:").connect().await.unwrap();
    let semaphore = set(&client, 2).await;
    let held = semaphore.acquire(1, Lease::Renewed).await.unwrap();
    assert_eq!(bed.command(&["GET", "app:p"]), "1");
    assert_eq!(bed.number(&["ZCARD", "{app:p}:timeout"]), 1);
    held.release().await.unwrap();
    assert_eq!(counts(&semaphore).await, (2, 0, 2));
}

pub(crate) async fn a_lease_can_be_changed_by_id(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, 1).await;
    let longer = bed.lease(900);
    assert!(!semaphore.update_lease(UNKNOWN, longer).await.unwrap());
    let held = semaphore
        .acquire(1, Lease::Fixed(bed.lease(300)))
        .await
        .unwrap();
    let id = forgotten(vec![held]).remove(0);
    assert!(semaphore.update_lease(&id, longer).await.unwrap());
    let left = semaphore.remaining_lease(&id).await.unwrap().unwrap();
    assert!(left > bed.lease(400) && left <= longer, "{left:?}");
    sleep(bed.lease(350)).await;
    assert_eq!(
        semaphore.available().await.unwrap(),
        0,
        "by the old lease it would be back"
    );
    assert!(
        semaphore.update_lease(&id, bed.span(20)).await.unwrap(),
        "shorter, too"
    );
    let back = async || semaphore.available().await.unwrap() == 1;
    eventually("given back", back).await;
    assert!(!semaphore.update_lease(&id, longer).await.unwrap());
    let bad = semaphore.update_lease(&id, Duration::ZERO).await;
    assert!(matches!(bad, Err(Error::Config(_))));
}

pub(crate) async fn a_missing_semaphore_has_none(bed: Bed) {
    let client = bed.client().await;
    let semaphore = client.permit_expirable_semaphore("p");
    assert_eq!(counts(&semaphore).await, (0, 0, 0));
    assert_eq!(bed.number(&["DBSIZE"]), 0);
}

pub(crate) async fn counts_follow_the_leases(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, 5).await;
    assert_eq!(counts(&semaphore).await, (5, 0, 5));
    let lease = bed.lease(400);
    let brief = try_join_all((0..3).map(|_| semaphore.acquire(1, Lease::Fixed(lease))))
        .await
        .unwrap();
    let long = semaphore.acquire(1, Lease::Renewed).await.unwrap();
    assert_eq!(counts(&semaphore).await, (1, 4, 5));
    sleep(lease).await;
    assert_eq!(counts(&semaphore).await, (4, 1, 5));
    assert!(brief.iter().all(|permit| permit.check().is_err()));
    long.release().await.unwrap();
    assert_eq!(counts(&semaphore).await, (5, 0, 5));
}

pub(crate) async fn a_semaphore_that_expires_leaves_no_key(bed: Bed) {
    let client = bed.client().await;
    let semaphore = client.permit_expirable_semaphore("p");
    let life = bed.lease(300);
    assert!(
        !semaphore.expire_after(life).await.unwrap(),
        "there is none"
    );
    semaphore.try_set_permits(2).await.unwrap();
    let before = semaphore.acquire(1, Lease::Renewed).await.unwrap();
    assert!(semaphore.expire_after(life).await.unwrap());
    let after = semaphore.acquire(1, Lease::Renewed).await.unwrap();
    timed("expired", bed.until_gone("p")).await;
    timed("its permits, too", bed.until_gone("{p}:timeout")).await;
    for permit in [before, after] {
        assert!(matches!(permit.release().await, Err(Error::Lost { .. })));
    }
    assert_eq!(bed.number(&["EXISTS", "p", "{p}:timeout"]), 0);

    // The same if no permit is held when the expiry is set.
    semaphore.try_set_permits(2).await.unwrap();
    assert!(semaphore.expire_after(life).await.unwrap());
    let held = semaphore.acquire(1, Lease::Renewed).await.unwrap();
    timed("expired", bed.until_gone("p")).await;
    timed("its permit, too", bed.until_gone("{p}:timeout")).await;
    drop(held);
}

pub(crate) async fn the_number_of_permits_can_be_changed(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, 10).await;
    assert!(!semaphore.try_set_permits(15).await.unwrap());
    let held = try_join_all((0..3).map(|_| semaphore.acquire(1, Lease::Renewed)))
        .await
        .unwrap();
    assert_eq!(semaphore.set_permits(15).await.unwrap(), 12);
    assert_eq!(semaphore.set_permits(5).await.unwrap(), 2);
    assert_eq!(semaphore.set_permits(1).await.unwrap(), -2);
    assert_eq!(counts(&semaphore).await, (-2, 3, 1));
    drop(held);
    eventually("one is left", async || {
        semaphore.available().await.unwrap() == 1
    })
    .await;
    semaphore.add_permits(4).await.unwrap();
    assert_eq!(counts(&semaphore).await, (5, 0, 5));
    semaphore.add_permits(-6).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), -1);
    let fresh = client.permit_expirable_semaphore("fresh");
    assert_eq!(fresh.set_permits(4).await.unwrap(), 4);
}

pub(crate) async fn several_at_once_are_all_or_none(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, 5).await;
    let three = semaphore
        .try_acquire(3, Duration::ZERO, Lease::Renewed)
        .await
        .unwrap();
    let names: std::collections::BTreeSet<&str> = three.ids().collect();
    assert!(
        names.len() == 3 && names.iter().all(|id| id.len() == 32),
        "{names:?}"
    );
    bed.in_vain(async || {
        semaphore
            .try_acquire(3, Duration::ZERO, Lease::Renewed)
            .await
    })
    .await;
    assert_eq!(counts(&semaphore).await, (2, 3, 5));
    let two = semaphore
        .try_acquire(2, Duration::ZERO, Lease::Fixed(ms(9000)))
        .await
        .unwrap();
    // One by one, by id.
    let ids = forgotten(vec![three]);
    semaphore.release(&ids[0]).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 1);
    semaphore.release_all(&borrowed(&ids[1..])).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 3);
    assert!(
        not_owner(&semaphore.release_all(&borrowed(&ids)).await),
        "released before"
    );
    two.release().await.unwrap();
    assert_eq!(counts(&semaphore).await, (5, 0, 5));
    for permits in [0, 100_000] {
        let bad = semaphore
            .try_acquire(permits, Duration::ZERO, Lease::Renewed)
            .await;
        assert!(matches!(bad, Err(Error::Config(_))), "{permits}");
    }
}

pub(crate) async fn an_unknown_or_expired_id_releases_nothing(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, 3).await;
    assert!(not_owner(&semaphore.release(UNKNOWN).await));
    let lease = bed.span(100);
    let brief = semaphore.acquire(1, Lease::Fixed(lease)).await.unwrap();
    let expired = brief.id().to_owned();
    sleep(lease).await;
    // By its guard and by its id.
    assert!(matches!(brief.release().await, Err(Error::Lost { .. })));
    assert!(not_owner(&semaphore.release(&expired).await));
    assert_eq!(counts(&semaphore).await, (3, 0, 3));
    for bad in ["", "00", &UNKNOWN.to_uppercase(), &format!("{UNKNOWN}00")] {
        assert!(
            matches!(semaphore.release(bad).await, Err(Error::Config(_))),
            "{bad}"
        );
    }
    assert!(matches!(
        semaphore.release_all(&[]).await,
        Err(Error::Config(_))
    ));
}

pub(crate) async fn one_bad_id_and_none_is_released(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, 4).await;
    let live = try_join_all([
        semaphore.acquire(1, Lease::Fixed(ms(60_000))),
        semaphore.acquire(1, Lease::Fixed(ms(60_000))),
    ]);
    let live = forgotten(live.await.unwrap());
    let lease = bed.span(100);
    let expired = forgotten(vec![
        semaphore.acquire(1, Lease::Fixed(lease)).await.unwrap(),
    ])
    .remove(0);
    sleep(lease).await;
    for bad in [UNKNOWN, &expired] {
        let outcome = semaphore.release_all(&[&live[0], bad, &live[1]]).await;
        assert!(not_owner(&outcome), "{outcome:?}");
        assert_eq!(counts(&semaphore).await, (2, 2, 4));
    }
    semaphore.release_all(&borrowed(&live)).await.unwrap();
    assert_eq!(counts(&semaphore).await, (4, 0, 4));
}

pub(crate) async fn the_next_call_brings_expired_permits_back(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, 10).await;
    let lease = bed.lease(200);
    let brief = semaphore
        .try_acquire(8, Duration::ZERO, Lease::Fixed(lease))
        .await
        .unwrap();
    let live = forgotten(vec![
        semaphore
            .acquire(1, Lease::Fixed(ms(60_000)))
            .await
            .unwrap(),
    ])
    .remove(0);
    brief.forget();
    sleep(lease).await;
    assert_eq!(bed.command(&["GET", "p"]), "1", "nobody has looked");
    // Whichever call comes next: a release or an acquisition.
    semaphore.release(&live).await.unwrap();
    assert_eq!(bed.command(&["GET", "p"]), "10");
    let brief = semaphore
        .try_acquire(10, Duration::ZERO, Lease::Fixed(lease))
        .await
        .unwrap();
    brief.forget();
    sleep(lease).await;
    let all = semaphore
        .try_acquire(10, Duration::ZERO, Lease::Fixed(lease))
        .await
        .unwrap();
    assert_eq!(counts(&semaphore).await, (0, 10, 10));
    drop(all);
}

pub(crate) async fn the_remaining_lease_of_a_permit_is_reported(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, 2).await;
    let held = semaphore
        .acquire(1, Lease::Fixed(ms(60_000)))
        .await
        .unwrap();
    let left = semaphore.remaining_lease(held.id()).await.unwrap().unwrap();
    assert!(left > ms(50_000) && left <= ms(60_000), "{left:?}");
    assert_eq!(semaphore.remaining_lease(UNKNOWN).await.unwrap(), None);
    let id = held.id().to_owned();
    held.release().await.unwrap();
    assert_eq!(semaphore.remaining_lease(&id).await.unwrap(), None);
    assert!(matches!(
        semaphore.remaining_lease("x").await,
        Err(Error::Config(_))
    ));
}

pub(crate) async fn a_permit_that_never_expires_is_left_alone(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, 1).await;
    // The form of a Redisson acquisition without a lease. This id is the same text in both
    // encodings.
    let (member, id) = ("permit-of-a-java", "7065726d69742d6f662d612d6a617661");
    bed.command(&["ZADD", "{p}:timeout", NEVER, member]);
    bed.command(&["DECR", "p"]);
    assert_eq!(counts(&semaphore).await, (0, 1, 1));
    assert_eq!(
        semaphore.remaining_lease(id).await.unwrap(),
        Some(Duration::MAX)
    );
    in_vain(async || semaphore.try_acquire(1, bed.span(30), Lease::Renewed).await).await;
    assert_eq!(semaphore.set_permits(1).await.unwrap(), 0);
    assert_eq!(bed.command(&["ZSCORE", "{p}:timeout", member]), NEVER);
    let mut wait = Box::pin(semaphore.acquire(1, Lease::Renewed));
    let released = async {
        sleep(ms(20)).await;
        semaphore.release(id).await.unwrap();
    };
    let (next, ()) = tokio::join!(timed("released", &mut wait), released);
    next.0.unwrap().release().await.unwrap();
    assert_eq!(counts(&semaphore).await, (1, 0, 1));
}

pub(crate) async fn a_stolen_permit_is_reported_lost(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    let semaphore = set(&client, 1).await;
    let held = semaphore.acquire(1, Lease::Renewed).await.unwrap();
    semaphore.release(held.id()).await.unwrap();
    let (ended, _) = timed("lost", held.ended()).await;
    assert_eq!(ended, Ended::Lost(LossReason::Gone));
    assert!(matches!(held.release().await, Err(Error::Lost { .. })));
    assert_eq!(counts(&semaphore).await, (1, 0, 1), "given back once");
}

pub(crate) async fn a_call_whose_reply_was_lost_counts_once(bed: Bed) {
    let known = bed.client().await.permit_expirable_semaphore("{p}known");
    known.try_set_permits(1).await.unwrap();
    known
        .acquire(1, Lease::Renewed)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    known.add_permits(1).await.unwrap();

    let (client, line) =
        FaultyConnection::with(&bed, |builder| builder.command_timeout(ms(9000))).await;
    let semaphore = set(&client, 4).await;
    let cut_when = async |expected: &str| {
        let done = async || bed.command(&["GET", "p"]) == expected;
        eventually("it is done", done).await;
        line.reconnect();
    };
    line.lose_replies();
    let (done, ()) = tokio::join!(semaphore.add_permits(3), cut_when("7"));
    done.unwrap();
    line.lose_replies();
    let take = semaphore.try_acquire(5, ms(9000), Lease::Renewed);
    let (done, ()) = tokio::join!(take, cut_when("2"));
    let five = done.unwrap();
    assert_eq!(counts(&semaphore).await, (2, 5, 7));
    line.lose_replies();
    let (done, ()) = tokio::join!(five.release(), cut_when("7"));
    done.unwrap();
    assert_eq!(counts(&semaphore).await, (7, 0, 7));
}

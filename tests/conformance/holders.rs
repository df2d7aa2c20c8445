//! Holders of semaphore permits: dead, notified, counted once.

use leasehold::{Ended, Error, LossReason};
use leasehold_testbed::{Bed, eventually, ms, timed};
use tokio::time::{Instant, sleep};

use crate::faulty_connection::FaultyConnection;
use crate::limits::{Of, for_both};
use crate::semaphores::set;

pub(crate) async fn permits_of_a_dead_client_come_back(bed: Bed) {
    for_both(&bed, async |of, waiter, bed| {
        let lease = bed.lease(400);
        let (mortal, line) = FaultyConnection::with_lease(bed, lease).await;
        of.set(&mortal, 3).await;
        let held = of.take(&mortal, None, 2, None).await.unwrap();
        line.die();
        let start = Instant::now();
        let (all, took) = timed("granted", of.take(waiter, None, 3, None)).await;
        assert!(held.is_lost(), "the dead one believes no longer");
        // The holder renewed at most a third of its lease before it died.
        assert!(start.elapsed() >= lease / 2, "{of:?}: {took:?}");
        if bed.is_embedded() {
            let late = match of {
                // The poll comes within 1.2 s.
                Of::Plain => ms(1300),
                // A refusal tells when the first lease ends.
                Of::Expirable => ms(20),
            };
            assert!(took < lease + late, "{of:?}: {took:?}");
        }
        drop((held, all));
        let are_back = async || of.available(waiter).await == 3;
        eventually("all three back", are_back).await;
    })
    .await;
}

pub(crate) async fn a_stolen_permit_is_reported_lost(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    let semaphore = set(&client, "s", 1).await;
    let held = semaphore.acquire(1).await.unwrap();
    let guard = held.guard().unwrap();
    assert_eq!(
        bed.number(&["ZREM", "leasehold_semaphore:{s}", guard.owner()]),
        1
    );
    let (ended, _) = timed("lost", guard.ended()).await;
    assert_eq!(ended, Ended::Lost(LossReason::Gone));
    assert!(matches!(held.release().await, Err(Error::Lost { .. })));
    assert_eq!(
        semaphore.available().await.unwrap(),
        0,
        "whoever took it has it"
    );
}

/// With and without braces, a name has the same hash tag.
pub(crate) async fn a_name_in_braces_has_holds_of_its_own(bed: Bed) {
    let lease = bed.lease(300);
    let client = bed.client_with_lease(lease).await;
    let plain = set(&client, "x", 3).await;
    let held = plain.acquire(1).await.unwrap();
    // The new semaphore has no holds and must not end those of the other.
    let tagged = set(&client, "{x}", 5).await;
    let (mortal, line) = FaultyConnection::with_lease(&bed, lease).await;
    let dead = mortal.semaphore("{x}").acquire(2).await.unwrap();
    line.die();
    eventually("those of the dead come back", async || {
        assert_eq!(plain.available().await.unwrap(), 2, "not to the other one");
        tagged.available().await.unwrap() == 5
    })
    .await;
    held.release().await.unwrap();
    assert_eq!(plain.available().await.unwrap(), 3);
    drop(dead);
}

pub(crate) async fn a_forgotten_permit_comes_back_by_no_lease(bed: Bed) {
    let lease = bed.span(200);
    let client = bed.client_with_lease(lease).await;
    let semaphore = set(&client, "s", 1).await;
    semaphore.acquire(1).await.unwrap().forget();
    sleep(2 * lease).await;
    assert_eq!(semaphore.available().await.unwrap(), 0);
    semaphore.add_permits(1).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 1);
}

/// Loads the scripts, so that a call whose reply is lost was executed.
async fn scripts_known(bed: &Bed) {
    let known = bed.client().await.semaphore("{s}known");
    known.try_set_permits(1).await.unwrap();
    known.acquire(1).await.unwrap().release().await.unwrap();
    known.add_permits(1).await.unwrap();
    known.drain().await.unwrap();
}

pub(crate) async fn a_change_whose_reply_was_lost_counts_once(bed: Bed) {
    scripts_known(&bed).await;
    let (client, line) =
        FaultyConnection::with(&bed, |builder| builder.command_timeout(ms(9000))).await;
    let semaphore = client.semaphore("s");
    let held = || bed.command(&["GET", "s"]);
    let cut_when = async |expected: &str| {
        eventually("it is done", async || held() == expected).await;
        line.reconnect();
    };
    line.lose_replies();
    let (done, ()) = tokio::join!(semaphore.try_set_permits(4), cut_when("4"));
    assert!(done.unwrap(), "the first one did it");
    line.lose_replies();
    let (done, ()) = tokio::join!(semaphore.add_permits(3), cut_when("7"));
    done.unwrap();
    line.lose_replies();
    let (done, ()) = tokio::join!(semaphore.add_permits(1), cut_when("8"));
    done.unwrap();
    line.lose_replies();
    // Before the lease of the first hold would end.
    let take = timed("found", semaphore.acquire(5));
    let (done, ()) = tokio::join!(take, cut_when("3"));
    let five = done.0.unwrap();
    line.lose_replies();
    let (done, ()) = tokio::join!(five.release(), cut_when("8"));
    done.unwrap();
    line.lose_replies();
    let (done, ()) = tokio::join!(semaphore.drain(), cut_when("0"));
    assert_eq!(done.unwrap(), 8);
    assert_eq!(held(), "0");
    assert!(!bed.exists("leasehold_semaphore:{s}"));
}

pub(crate) async fn a_cancelled_acquisition_gives_back_what_it_took(bed: Bed) {
    scripts_known(&bed).await;
    let (client, line) =
        FaultyConnection::with(&bed, |builder| builder.command_timeout(ms(9000))).await;
    let semaphore = set(&client, "s", 5).await;
    line.lose_replies();
    tokio::select! {
        taken = semaphore.acquire(3) => panic!("no reply came: {taken:?}"),
        () = eventually("taken", async || bed.command(&["GET", "s"]) == "2") => {}
    }
    line.reconnect();
    eventually("undone", async || bed.command(&["GET", "s"]) == "5").await;
    eventually("off the books", async || {
        !bed.exists("leasehold_semaphore:{s}")
    })
    .await;
}

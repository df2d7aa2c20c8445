//! Quorums with an even number of members: more than half are a majority, and the others are spare.

use std::time::Duration;

use leasehold::{Client, Error, Lease, Lock, LockGuard};
use leasehold_testbed::{Bed, eventually, holds, ms, timed};

const LONG: Lease = Lease::Fixed(Duration::from_secs(600));
const ONCE: Duration = Duration::ZERO;

fn names(members: usize) -> Vec<String> {
    (0..members).map(|at| format!("q:{at}")).collect()
}

fn quorum(client: &Client, members: usize) -> Lock {
    Lock::quorum(names(members).iter().map(|name| client.string_lock(name)))
}

/// How many members may fail.
fn spare(members: usize) -> usize {
    members - (members / 2 + 1)
}

fn delete(bed: &Bed, names: &[String]) {
    for name in names {
        bed.command(&["DEL", name]);
    }
}

/// Retries until all members hold the lock. A busy server may be left out of a grant. While its
/// release is to come, it looks as if it took part.
async fn held_by_all(bed: &Bed, client: &Client, members: usize) -> LockGuard {
    let lock = quorum(client, members);
    let settled = async || client.stats().releases_pending == 0;
    loop {
        let guard = timed("a majority", lock.try_lock(ms(5000), LONG))
            .await
            .0
            .unwrap();
        eventually("settled", settled).await;
        if names(members).iter().all(|name| bed.exists(name)) {
            return guard;
        }
        guard.unlock().await.unwrap();
        eventually("settled", settled).await;
    }
}

pub(crate) async fn more_refusals_than_are_spare_end_the_wait(bed: Bed) {
    let client = bed.client().await;
    for members in 1..=6 {
        for bad in 0..=members {
            let names = names(members);
            for name in &names[..bad] {
                bed.command(&["LPUSH", name, "no lock"]);
            }
            let what = format!("{bad} of {members} refuse");
            let (taken, _) = timed(&what, quorum(&client, members).lock()).await;
            if bad <= spare(members) {
                taken.expect(&what).unlock().await.unwrap();
            } else {
                let error = taken.unwrap_err();
                assert!(matches!(error, Error::Protocol { .. }), "{what}: {error}");
            }
            let settled = async || client.stats().releases_pending == 0;
            eventually("settled", settled).await;
            delete(&bed, &names);
        }
    }
}

pub(crate) async fn half_of_the_members_are_no_majority(bed: Bed) {
    let (client, rival) = (bed.client().await, bed.client().await);
    for members in [2, 4, 6] {
        let lock = quorum(&client, members);
        let mut theirs = Vec::new();
        for name in &names(members)[..=spare(members)] {
            theirs.push(rival.string_lock(name).lock().await.unwrap());
        }
        assert_eq!(theirs.len(), members / 2);
        assert!(lock.is_locked().await.unwrap(), "{members}");
        bed.in_vain(async || lock.try_lock(ONCE, LONG).await).await;
        theirs.pop().expect("half of them").unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap(), "{members}");
        let guard = timed("the others", lock.try_lock(ms(5000), LONG))
            .await
            .0
            .unwrap();
        // Each remaining member is needed.
        bed.command(&["DEL", &names(members)[members - 1]]);
        let error = guard.extend(ms(600_000)).await.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{members}: {error}");
        assert!(guard.check().is_err(), "{members}");
        assert!(guard.unlock().await.is_err(), "{members}");
        for guard in theirs {
            guard.unlock().await.unwrap();
        }
        let free = async || !names(members).iter().any(|name| bed.exists(name));
        eventually("no key left", free).await;
    }
}

pub(crate) async fn spare_members_may_be_lost_and_no_more(bed: Bed) {
    let client = bed.client().await;
    for members in [2, 4, 6] {
        let names = names(members);
        for lost in 0..=spare(members) + 1 {
            let what = format!("{lost} of {members} are lost");
            let guard = held_by_all(&bed, &client, members).await;
            delete(&bed, &names[..lost]);
            let extended = guard.extend(ms(600_000)).await;
            let enough = lost <= spare(members);
            assert_eq!(extended.is_ok(), enough, "{what}: {extended:?}");
            assert_eq!(guard.check().is_ok(), enough, "{what}");
            assert_eq!(guard.unlock().await.is_ok(), enough, "{what}");
            let settled = async || client.stats().releases_pending == 0;
            eventually("settled", settled).await;
            // The release itself notices the loss, too.
            let guard = held_by_all(&bed, &client, members).await;
            delete(&bed, &names[..lost]);
            assert_eq!(guard.unlock().await.is_ok(), enough, "{what}, unseen");
            eventually("settled", settled).await;
            delete(&bed, &names);
        }
    }
}

/// Between two rounds it has a place in no queue.
pub(crate) async fn who_waits_for_a_quorum_is_counted(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = quorum(&one, 3).lock().await.unwrap();
    let lock = quorum(&other, 3);
    let waiter = tokio::spawn(async move { lock.lock().await });
    eventually("counted", async || other.stats().waiting == 3).await;
    guard.unlock().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(other.stats().waiting, 0);
    guard.unlock().await.unwrap();
}

/// A re-entry may leave out members that it does not need.
pub(crate) async fn a_majority_says_how_often_it_is_held(bed: Bed) {
    let client = bed.client().await;
    let members = names(3);
    let quorum = Lock::quorum(members.iter().map(|name| client.lock(name)));
    for (counts, agreed) in [
        ([1, 2, 2], 2),
        ([2, 1, 2], 2),
        ([2, 1, 1], 1),
        ([0, 1, 2], 1),
    ] {
        delete(&bed, &members);
        for (name, count) in members.iter().zip(counts).filter(|(_, count)| *count > 0) {
            bed.command(&["HSET", name, "somebody:1", &count.to_string()]);
            bed.command(&["PEXPIRE", name, "60000"]);
        }
        assert_eq!(holds(&quorum).await.unwrap(), agreed, "{counts:?}");
    }
}

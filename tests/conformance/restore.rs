//! A hold of a string lock that is restored by its owner, as of another program.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use leasehold::{Client, ConfigError, Ended, Error, Lease, Lock, LockGuard, LossReason};
use leasehold_testbed::{Bed, KINDS, SOON, connected, eventually, forget, ms, release, timed};
use tokio::runtime::Handle;

async fn is_nobodys(lock: &Lock, text: &str, what: &str) {
    let refused = lock.restore(text).await;
    assert!(
        matches!(refused, Err(Error::NotOwner { .. })),
        "{what}: {refused:?}"
    );
}

async fn all_is_released(client: &Client) {
    eventually("all released", async || {
        client.stats().releases_pending == 0
    })
    .await;
}

pub(crate) async fn a_hold_with_a_live_guard_is_not_restored_again(bed: Bed) {
    let client = bed.client().await;
    let lock = client.string_lock("x");
    let owner = forget(lock.lock().await.unwrap());
    let guard = lock.restore(&owner).await.unwrap();
    let again = lock.restore(&owner).await.unwrap_err();
    assert!(matches!(again, Error::AlreadyHeld { .. }), "{again}");
    guard.check().unwrap();
    assert!(lock.is_locked().await.unwrap());
    guard.unlock().await.unwrap();
}

/// The entries of a hash are no owners.
pub(crate) async fn a_text_that_is_no_owners_changes_nothing(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    let calls = client.stats().calls;
    for kind in KINDS.iter().filter(|kind| kind.name != "string") {
        let guard = kind.lock(&elsewhere, kind.name).lock().await.unwrap();
        let lock = kind.lock(&client, kind.name);
        for text in ["mode", "", "somebody:1:write", guard.owner()] {
            let refused = lock.restore(text).await.unwrap_err();
            let told = if kind.is_single() {
                matches!(refused, Error::Config(ConfigError::Setting { .. }))
            } else {
                matches!(refused, Error::Config(ConfigError::Several { .. }))
            };
            assert!(told, "{} {text}: {refused}", kind.name);
        }
        guard.unlock().await.unwrap();
    }
    assert_eq!(client.stats().calls, calls);
    let guard = elsewhere.string_lock("x").lock().await.unwrap();
    is_nobodys(&client.string_lock("x"), "somebody", "another").await;
    all_is_released(&client).await;
    guard.check().unwrap();
    assert_eq!(bed.command(&["GET", "x"]), guard.owner());
    guard.unlock().await.unwrap();
}

pub(crate) async fn an_owner_text_may_be_anything_within_its_limit(bed: Bed) {
    let client = bed.client().await;
    let long = "n".repeat(64 * 1024);
    for text in ["", " ", "a b\n\"c\"", "mode", "é😀", "1e400", "-1", &long] {
        bed.command(&["SET", "x", text, "PX", "60000"]);
        let lock = client.string_lock("x");
        bed.in_vain(async || lock.try_lock_now(Lease::Fixed(ms(1000))).await)
            .await;
        assert!(lock.is_locked().await.unwrap());
        let holder = lock.holder().await.unwrap().unwrap();
        assert_eq!((&*holder.owner, holder.holds), (text, 1));
        assert!(matches!(
            lock.restore("other").await,
            Err(Error::NotOwner { .. })
        ));
        let guard = lock.restore(text).await.unwrap();
        assert_eq!(guard.owner(), text);
        assert!(lock.is_locked().await.unwrap());
        guard.unlock().await.unwrap();
        assert!(!bed.exists("x"), "{text}");
    }
    let calls = client.stats().calls;
    let refused = client
        .string_lock("x")
        .restore(&format!("{long}n"))
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Config(_)), "{refused}");
    assert_eq!(client.stats().calls, calls);
}

/// How a hold ends while Redis does not reply.
#[derive(Clone, Copy, Debug)]
enum End {
    Dropped,
    UnlockUnderWay,
    UnlockCancelled,
    UnlockUnanswered,
    RestoreCancelled,
    HeldTooLong,
}

pub(crate) async fn a_hold_under_release_is_given_to_nobody(bed: Bed) {
    // The connection must outlast the time in which all processes of a deployment are stopped.
    let hasty = connected(bed.builder().command_timeout(ms(1000))).await;
    let ends = [End::Dropped, End::UnlockUnderWay, End::UnlockCancelled];
    let others = [
        End::UnlockUnanswered,
        End::RestoreCancelled,
        End::HeldTooLong,
    ];
    for end in ends.into_iter().chain(others) {
        let what = format!("{end:?}");
        let lock = hasty.string_lock("x");
        let longest = if let End::HeldTooLong = end {
            // Not over before the servers stand still.
            ms(2000)
        } else {
            Duration::from_secs(3600)
        };
        let guard = lock.acquire().max_hold(longest).await.unwrap();
        let text = guard.owner().to_owned();
        bed.pause();
        let mut under_way = None;
        let mut lost = None;
        match end {
            End::Dropped => drop(guard),
            End::UnlockUnderWay => under_way = Some(guard.unlock()),
            End::UnlockCancelled => drop(guard.unlock()),
            End::UnlockUnanswered => {
                let unanswered = guard.unlock().await.unwrap_err();
                assert!(
                    matches!(unanswered, Error::Unknown { .. }),
                    "{what}: {unanswered}"
                );
            }
            End::RestoreCancelled => {
                guard.forget();
                let restored = lock.restore(&text).now_or_never();
                assert!(restored.is_none(), "{what}: {restored:?}");
            }
            End::HeldTooLong => {
                eventually("lost", async || hasty.stats().holds == 0).await;
                let ended = timed("lost", guard.ended()).await.0;
                assert_eq!(ended, Ended::Lost(LossReason::MaxHold));
                lost = Some(guard);
            }
        }
        is_nobodys(&lock, &text, &what).await;
        bed.resume();
        if let Some(unlock) = under_way {
            drop(timed("unlocked", unlock).await);
        }
        all_is_released(&hasty).await;
        bed.until_gone("x").await;
        drop(lost);
        assert_eq!(hasty.stats().holds, 0, "{what}");
    }
}

pub(crate) async fn a_hold_taken_by_a_cancelled_restore_is_given_to_nobody(bed: Bed) {
    // If the connection does not survive the pause, a release is repeated for as long as a late
    // call could take the lock: for this lease.
    let (hasty, other) = (bed.client_with_lease(SOON).await, bed.client().await);
    let lock = hasty.string_lock("x");
    let owner = forget(lock.lock().await.unwrap());
    // Load the script first, because nobody would send it after the future is dropped.
    lock.restore(&owner).await.unwrap().forget();
    bed.pause();
    // Sent without a reply.
    let unanswered = tokio::time::timeout(bed.span(50), lock.restore(&owner)).await;
    assert!(unanswered.is_err());
    bed.resume();
    all_is_released(&hasty).await;
    bed.until_gone("x").await;
    for client in [&hasty, &other] {
        is_nobodys(&client.string_lock("x"), &owner, "released").await;
    }
}

pub(crate) async fn only_one_of_many_restores_of_one_text_succeeds(bed: Bed) {
    let client = bed.client().await;
    let lock = client.string_lock("x");
    for many in [2, 10] {
        let owner = forget(lock.lock().await.unwrap());
        let restoring = (0..many).map(|_| {
            let (lock, owner) = (lock.clone(), owner.clone());
            tokio::spawn(async move { lock.restore(&owner).await })
        });
        let mut winners = Vec::new();
        for restoring in restoring.collect::<Vec<_>>() {
            match timed("ended", restoring).await.0.unwrap() {
                Ok(guard) => winners.push(guard),
                Err(error) => {
                    assert!(
                        matches!(error, Error::AlreadyHeld { .. }),
                        "{many}: {error}"
                    );
                }
            }
        }
        let [winner] = <[LockGuard; 1]>::try_from(winners).expect("one of them");
        winner.check().unwrap();
        assert_eq!(bed.command(&["GET", "x"]), winner.owner());
        winner.unlock().await.unwrap();
        all_is_released(&client).await;
        assert_eq!(bed.number(&["DBSIZE"]), 0, "{many}");
    }
}

pub(crate) async fn only_one_of_several_threads_restores_one_text(bed: Bed) {
    let (client, runtime) = (bed.client().await, Handle::current());
    let lock = client.string_lock("x");
    let owner = forget(lock.lock().await.unwrap());
    for round in 0..250 {
        let (ready, all) = (AtomicUsize::new(0), 2);
        // The first poll of each checks whether it may restore, on its own thread.
        let restoring = std::thread::scope(|threads| {
            let polling = [&lock; 2].map(|lock| {
                let (ready, runtime, owner) = (&ready, &runtime, &*owner);
                threads.spawn(move || {
                    let _runtime = runtime.enter();
                    let mut restoring = Box::pin(lock.restore(owner));
                    ready.fetch_add(1, SeqCst);
                    // A barrier would wake one thread much later than the other.
                    while ready.load(SeqCst) < all {
                        std::thread::yield_now();
                    }
                    match restoring.as_mut().now_or_never() {
                        Some(done) => Err(done),
                        None => Ok(restoring),
                    }
                })
            });
            polling.map(|polling| polling.join().unwrap())
        });
        let done = join_all(restoring.map(async |restoring| match restoring {
            Ok(restoring) => restoring.await,
            Err(done) => done,
        }));
        let mut winners = Vec::new();
        for done in done.await {
            match done {
                Ok(guard) => winners.push(guard),
                Err(Error::AlreadyHeld { .. }) => {}
                Err(error) => panic!("in round {round}: {error}"),
            }
        }
        let [winner] = <[LockGuard; 1]>::try_from(winners).expect("one of them");
        winner.forget();
    }
    release(lock.restore(&owner).await).await;
}

pub(crate) async fn a_text_that_is_used_again_can_be_restored_again(bed: Bed) {
    let client = bed.client().await;
    let lock = client.string_lock("x");
    let mut lost = Vec::new();
    for round in 0..12 {
        bed.command(&["SET", "x", "job-17", "PX", "60000"]);
        let guard = lock.restore("job-17").await.unwrap();
        match round % 4 {
            0 => guard.unlock().await.unwrap(),
            1 => {
                drop(guard);
                all_is_released(&client).await;
            }
            2 => {
                bed.command(&["DEL", "x"]);
                guard.extend(ms(60_000)).await.unwrap_err();
                // Kept on purpose: a guard of a lost hold must not be in the way.
                lost.push(guard);
            }
            _ => {
                guard.forget();
                release(lock.restore("job-17").await).await;
            }
        }
        assert!(!bed.exists("x"), "round {round}");
    }
}

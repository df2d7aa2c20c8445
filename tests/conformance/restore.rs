//! A hold that is handed on as text, and restored by one of those who have the text.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use leasehold::{Client, ConfigError, Ended, Error, Lease, Lock, LockGuard, LossReason, Owner};
use leasehold_testbed::{
    Bed, KINDS, Kind, SOON, connected, eventually, ms, release, timed, waiting,
};
use tokio::runtime::Handle;

/// All kinds that can be handed on as text.
fn texted() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.is_single())
}

/// The kinds whose hold gets a fresh field when it is taken over.
fn with_fields() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.has_fields())
}

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

pub(crate) async fn other_futures_of_the_owner_re_enter_what_was_restored(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    for kind in KINDS
        .iter()
        .filter(|kind| kind.exclusive && kind.reentrant && kind.is_single())
    {
        let held = kind.lock(&elsewhere, kind.name).lock().await.unwrap();
        let text = held.hand_on().unwrap();
        let lock = kind.lock(&client, kind.name).owned_by(&Owner::new());
        let waits = lock.clone();
        let waits = tokio::spawn(async move { waits.lock().await });
        waiting(&client, 1).await;
        let restored = lock.restore(&text).await.unwrap();
        let inner = timed(kind.name, waits).await.0.unwrap().unwrap();
        assert_eq!(
            (inner.owner(), inner.hold_count()),
            (restored.owner(), 2),
            "{}",
            kind.name
        );
        restored.unlock().await.unwrap();
        inner.check().unwrap();
        assert!(lock.is_locked().await.unwrap());
        inner.unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap());
    }
}

pub(crate) async fn a_hold_with_a_live_guard_is_not_restored_again(bed: Bed) {
    let client = bed.client().await;
    for kind in texted() {
        let lock = kind.lock(&client, kind.name);
        let text = lock.lock().await.unwrap().hand_on().unwrap();
        let guard = lock.restore(&text).await.unwrap();
        let again = lock.restore(&text).await.unwrap_err();
        let told = match again {
            Error::NotOwner { .. } => kind.has_fields(),
            Error::AlreadyHeld { .. } => !kind.has_fields(),
            _ => false,
        };
        assert!(told, "{}: {again}", kind.name);
        guard.check().unwrap();
        assert!(lock.is_locked().await.unwrap(), "{}", kind.name);
        guard.unlock().await.unwrap();
    }
}

/// Other entries of the hash are no owner's text, and one side of a lock accepts no text of the
/// other.
pub(crate) async fn a_text_that_is_no_owners_changes_nothing(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    let (held, lock) = (elsewhere.read_write_lock("x"), client.read_write_lock("x"));
    let read = held.read().lock().await.unwrap();
    let (reader, calls) = (read.owner().to_owned(), client.stats().calls);
    for text in ["mode", "", "somebody:1:write", &reader] {
        for lock in [lock.write(), lock.read(), &client.lock("x")] {
            let refused = lock.restore(text).await.unwrap_err();
            let told = matches!(refused, Error::Config(ConfigError::HandOnText { .. }));
            assert!(told, "{text}: {refused}");
        }
    }
    assert_eq!(client.stats().calls, calls);
    let text = read.hand_on().unwrap();
    let before = bed.list(&["HGETALL", "x"]);
    is_nobodys(lock.write(), &text, "a reader's").await;
    eventually("no undo", async || client.stats().releases_pending == 0).await;
    assert_eq!(bed.list(&["HGETALL", "x"]), before);
    release(lock.read().restore(&text).await).await;
    let text = held.write().lock().await.unwrap().hand_on().unwrap();
    is_nobodys(lock.read(), &text, "a writer's").await;
    release(lock.write().restore(&text).await).await;
    assert!(!bed.exists("x"));
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

/// Only the text of a string lock is known while its guard lives.
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
                assert_eq!(*guard.hand_on().unwrap(), *text);
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
    // If the connection does not survive the pause, a release is repeated for as long as a late call could take the lock:
    // for this lease.
    let (hasty, other) = (bed.client_with_lease(SOON).await, bed.client().await);
    for kind in with_fields() {
        let lock = kind.lock(&hasty, kind.name);
        // Load the script first, because nobody would send it after the future is dropped.
        let text = lock.lock().await.unwrap().hand_on().unwrap();
        let text = lock.restore(&text).await.unwrap().hand_on().unwrap();
        bed.pause();
        // Sent without a reply.
        let unanswered = tokio::time::timeout(bed.span(50), lock.restore(&text)).await;
        assert!(unanswered.is_err(), "{}", kind.name);
        bed.resume();
        all_is_released(&hasty).await;
        bed.until_gone(kind.name).await;
        for client in [&hasty, &other] {
            is_nobodys(&kind.lock(client, kind.name), &text, kind.name).await;
        }
    }
}

pub(crate) async fn a_hold_that_was_handed_over_can_be_handed_on_at_once(bed: Bed) {
    let (client, elsewhere) = (bed.client_with_long_streaks().await, bed.client().await);
    for name in ["lock", "spin", "write"] {
        let kind = texted().find(|kind| kind.name == name).unwrap();
        let lock = kind.lock(&client, name);
        let guard = lock.lock().await.unwrap();
        let owner = guard.owner().to_owned();
        let mut taking = Box::pin(lock.lock());
        assert!(taking.as_mut().now_or_never().is_none());
        waiting(&client, 1).await;
        guard.unlock().now_or_never().unwrap().unwrap();
        let next = timed(name, taking).await.0.unwrap();
        assert_eq!(next.owner(), owner);
        let text = next.hand_on().unwrap();
        let restored = kind.lock(&elsewhere, name).restore(&text).await.unwrap();
        restored.unlock().await.unwrap();
        assert!(!bed.exists(name), "{name}");
    }
}

pub(crate) async fn only_one_of_many_restores_of_one_text_succeeds(bed: Bed) {
    let clients = [bed.client().await, bed.client().await, bed.client().await];
    for (kind, many) in with_fields().flat_map(|kind| [(kind, 2), (kind, 10)]) {
        let what = format!("{} of {many}", kind.name);
        let text = kind
            .lock(&clients[0], "x")
            .lock()
            .await
            .unwrap()
            .hand_on()
            .unwrap();
        let restoring: Vec<_> = (0..many)
            .map(|number| {
                let (lock, text) = (kind.lock(&clients[number % 3], "x"), text.clone());
                tokio::spawn(async move { lock.restore(&text).await })
            })
            .collect();
        let mut winners = Vec::new();
        for restoring in restoring {
            match timed("ended", restoring).await.0.unwrap() {
                Ok(guard) => winners.push(guard),
                Err(error) => assert!(matches!(error, Error::NotOwner { .. }), "{what}: {error}"),
            }
        }
        let [winner] = <[LockGuard; 1]>::try_from(winners).expect(&what);
        winner.check().unwrap();
        assert_eq!(bed.count("x", winner.owner()), 1, "{what}");
        winner.unlock().await.unwrap();
        for client in &clients {
            all_is_released(client).await;
        }
        bed.command(&["DEL", "redisson_lock_token:{x}"]);
        assert_eq!(bed.number(&["DBSIZE"]), 0, "{what}");
    }
}

pub(crate) async fn only_one_of_several_threads_restores_one_text(bed: Bed) {
    let (client, runtime) = (bed.client().await, Handle::current());
    for (lock, has_fields) in [(client.lock("x"), true), (client.string_lock("y"), false)] {
        let mut text = lock.lock().await.unwrap().hand_on().unwrap();
        for round in 0..250 {
            let (ready, all) = (AtomicUsize::new(0), 2);
            // The first poll of each checks whether it may restore, on its own thread.
            let restoring = std::thread::scope(|threads| {
                let polling = [&lock; 2].map(|lock| {
                    let (ready, runtime, text) = (&ready, &runtime, &*text);
                    threads.spawn(move || {
                        let _runtime = runtime.enter();
                        let mut restoring = Box::pin(lock.restore(text));
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
                    Err(Error::NotOwner { .. }) if has_fields => {}
                    Err(Error::AlreadyHeld { .. }) if !has_fields => {}
                    Err(error) => panic!("in round {round}: {error}"),
                }
            }
            let [winner] = <[LockGuard; 1]>::try_from(winners).expect("one of them");
            text = winner.hand_on().unwrap();
        }
        lock.restore(&text).await.unwrap().unlock().await.unwrap();
    }
}

pub(crate) async fn a_handed_on_hold_is_not_given_to_waiters(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    for kind in texted().filter(|kind| kind.exclusive) {
        let guard = kind.lock(&client, kind.name).lock().await.unwrap();
        let waits = [&client, &elsewhere].map(|client| {
            let lock = kind.lock(client, kind.name);
            tokio::spawn(async move { lock.lock().await?.unlock().await })
        });
        waiting(&client, 1).await;
        waiting(&elsewhere, 1).await;
        let text = guard.hand_on().unwrap();
        let restored = kind
            .lock(&elsewhere, kind.name)
            .restore(&text)
            .await
            .unwrap();
        assert!(
            waits.iter().all(|waits| !waits.is_finished()),
            "{}",
            kind.name
        );
        restored.check().unwrap();
        restored.unlock().await.unwrap();
        for waits in waits {
            timed(kind.name, waits).await.0.unwrap().unwrap();
        }
    }
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

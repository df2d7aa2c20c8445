//! A hold that is given back to whoever knows its owner text.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use leasehold::{Client, Error, Lease, LockGuard, LossReason, Owner};
use tokio::runtime::Handle;

use crate::sorts::{SORTS, Sort};
use crate::world::{World, eventually, ms, soon, waiting};

/// All that have an owner text.
fn texted() -> impl Iterator<Item = &'static Sort> {
    SORTS.iter().filter(|sort| sort.is_single())
}

/// No kind of lock under this name takes the text.
async fn is_nobodys(client: &Client, name: &str, text: &str, what: &str) {
    for sort in texted() {
        let refused = sort.lock(client, name).restore(text).await;
        assert!(
            matches!(refused, Err(Error::NotOwner { .. })),
            "{what}, {}: {refused:?}",
            sort.name
        );
    }
}

async fn all_is_released(client: &Client) {
    eventually("all is released", async || client.stats().releases_pending == 0).await;
}

pub(crate) async fn other_futures_of_the_owner_re_enter_what_was_restored(world: World) {
    let (client, elsewhere) = (world.client().await, world.client().await);
    for sort in SORTS.iter().filter(|sort| sort.exclusive && sort.reentrant && sort.is_single()) {
        let held = sort.lock(&elsewhere, sort.name).lock().await.unwrap();
        let text = held.owner().to_owned();
        held.forget();
        let owner = Owner::new();
        let mut waits = sort.lock(&client, sort.name).owned_by(&owner);
        let waits = tokio::spawn(async move { waits.lock().await });
        waiting(&client, 1).await;
        let mut lock = sort.lock(&client, sort.name).owned_by(&owner);
        let restored = lock.restore(&text).await.unwrap();
        let inner = soon(sort.name, waits).await.0.unwrap().unwrap();
        assert_eq!((inner.owner(), inner.hold_count()), (&*text, 2), "{}", sort.name);
        restored.unlock().await.unwrap();
        inner.check().unwrap();
        assert!(lock.is_held().await.unwrap());
        inner.unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap());
    }
}

pub(crate) async fn who_holds_it_already_restores_nothing_twice(world: World) {
    let client = world.client().await;
    for sort in texted() {
        let mut lock = sort.lock(&client, sort.name);
        let guard = lock.lock().await.unwrap();
        let again = lock.restore(guard.owner()).await.unwrap_err();
        assert!(matches!(again, Error::AlreadyHeld { .. }), "{}: {again}", sort.name);
        guard.check().unwrap();
        assert!(lock.is_held().await.unwrap(), "{}", sort.name);
        guard.unlock().await.unwrap();
    }
}

/// What a hash has beside its owners is nobody's text, and a side of a lock takes none of the other.
pub(crate) async fn a_text_that_is_no_owners_changes_nothing(world: World) {
    let (client, elsewhere) = (world.client().await, world.client().await);
    let mut held = elsewhere.read_write_lock("x");
    let (read, write) = (held.read().lock().await.unwrap(), "somebody:1:write");
    let reader = read.owner().to_owned();
    let before = world.list(&["HGETALL", "x"]);
    let mut lock = client.read_write_lock("x");
    for text in ["mode", "", write, &reader] {
        let refused = lock.write().restore(text).await.unwrap_err();
        assert!(matches!(refused, Error::NotOwner { .. }), "{text}: {refused}");
    }
    for text in ["mode", "", write] {
        let refused = lock.read().restore(text).await.unwrap_err();
        assert!(matches!(refused, Error::NotOwner { .. }), "{text}: {refused}");
        let refused = client.lock("x").restore(text).await.unwrap_err();
        assert!(matches!(refused, Error::NotOwner { .. }), "{text}: {refused}");
    }
    assert_eq!(client.stats().releases_pending, 0);
    assert_eq!(world.list(&["HGETALL", "x"]), before);
    read.unlock().await.unwrap();
    let write = held.write().lock().await.unwrap();
    let writer = write.owner().to_owned();
    let refused = lock.read().restore(&writer).await.unwrap_err();
    assert!(matches!(refused, Error::NotOwner { .. }), "{refused}");
    write.check().unwrap();
    write.unlock().await.unwrap();
}

pub(crate) async fn an_owner_text_may_be_anything_within_its_limit(world: World) {
    let client = world.client().await;
    let long = "n".repeat(64 * 1024);
    for text in ["", " ", "a b\n\"c\"", "mode", "é😀", "1e400", "-1", &long] {
        world.command(&["SET", "x", text, "PX", "60000"]);
        let mut lock = client.string_lock("x");
        assert!(lock.try_lock(Duration::ZERO, ms(1000)).await.unwrap_err().is_timeout());
        assert!(lock.is_locked().await.unwrap());
        let holder = lock.holder().await.unwrap().unwrap();
        assert_eq!((&*holder.owner, holder.holds), (text, 1));
        assert!(matches!(lock.restore("other").await, Err(Error::NotOwner { .. })));
        let guard = lock.restore(text).await.unwrap();
        assert_eq!(guard.owner(), text);
        assert!(lock.is_held().await.unwrap());
        guard.unlock().await.unwrap();
        assert!(!world.exists("x"), "{text}");
    }
    let calls = client.stats().calls;
    let refused = client.string_lock("x").restore(&format!("{long}n")).await.unwrap_err();
    assert!(matches!(refused, Error::Config(_)), "{refused}");
    assert_eq!(client.stats().calls, calls);
}

/// How a hold ends while Redis does not answer.
#[derive(Clone, Copy, Debug)]
enum End {
    Dropped,
    UnlockUnderWay,
    UnlockCancelled,
    UnlockUnanswered,
    RestoreCancelled,
    HeldTooLong,
}

pub(crate) async fn what_is_being_released_is_given_to_nobody(world: World) {
    let hasty = world.builder().command_timeout(ms(100)).connect().await.unwrap();
    for (sort, end) in texted().flat_map(|sort| {
        let ends = [End::Dropped, End::UnlockUnderWay, End::UnlockCancelled];
        let others = [End::UnlockUnanswered, End::RestoreCancelled, End::HeldTooLong];
        ends.into_iter().chain(others).map(move |end| (sort, end))
    }) {
        let what = format!("{} {end:?}", sort.name);
        let mut lock = sort.lock(&hasty, sort.name);
        let longest = if let End::HeldTooLong = end { ms(300) } else { Duration::from_hours(1) };
        let guard = lock.acquire().max_hold(longest).await.unwrap();
        let text = guard.owner().to_owned();
        world.pause();
        let mut under_way = None;
        let mut lost = None;
        match end {
            End::Dropped => drop(guard),
            End::UnlockUnderWay => {
                let mut unlock = Box::pin(guard.unlock());
                assert!(unlock.as_mut().now_or_never().is_none());
                under_way = Some(unlock);
            }
            End::UnlockCancelled => assert!(guard.unlock().now_or_never().is_none()),
            End::UnlockUnanswered => {
                let unanswered = guard.unlock().await.unwrap_err();
                assert!(matches!(unanswered, Error::Unknown { .. }), "{what}: {unanswered}");
            }
            End::RestoreCancelled => {
                guard.forget();
                assert!(lock.restore(&text).now_or_never().is_none());
            }
            End::HeldTooLong => {
                eventually("it is lost", async || hasty.stats().holds == 0).await;
                assert_eq!(soon("it is told", guard.lost()).await.0, LossReason::MaxHold);
                lost = Some(guard);
            }
        }
        is_nobodys(&hasty, sort.name, &text, &what).await;
        world.resume();
        if let Some(unlock) = under_way {
            drop(soon("unlocked", unlock).await);
        }
        all_is_released(&hasty).await;
        world.until_gone(sort.name).await;
        drop(lost);
        assert_eq!(hasty.stats().holds, 0, "{what}");
    }
}

pub(crate) async fn what_is_being_handed_over_is_given_to_nobody(world: World) {
    let client = world.client_with_long_streaks().await;
    let long = Duration::from_mins(10);
    for sort in texted().filter(|sort| sort.exclusive && !sort.name.ends_with("fair")) {
        for abandoned in [false, true] {
            let (mut lock, mut next) =
                (sort.lock(&client, sort.name), sort.lock(&client, sort.name));
            let guard = lock.try_lock(Duration::ZERO, long).await.unwrap();
            let text = guard.owner().to_owned();
            let mut taking = Box::pin(next.try_lock(long, long));
            assert!(taking.as_mut().now_or_never().is_none());
            waiting(&client, 1).await;
            // No call: the next one has not looked yet.
            guard.unlock().now_or_never().unwrap().unwrap();
            is_nobodys(&client, sort.name, &text, sort.name).await;
            if abandoned {
                drop(taking);
            } else {
                let next = soon(sort.name, taking).await.0.unwrap();
                let over = lock.restore(&text).await.unwrap_err();
                assert!(matches!(over, Error::NotOwner { .. }), "{}: {over}", sort.name);
                next.check().unwrap();
                next.extend(long).await.unwrap();
                next.unlock().await.unwrap();
            }
            all_is_released(&client).await;
            assert!(!world.exists(sort.name), "{}", sort.name);
        }
    }
}

pub(crate) async fn what_was_handed_over_can_be_given_away_at_once(world: World) {
    let client = world.client_with_long_streaks().await;
    for name in ["lock", "spin", "write"] {
        let sort = texted().find(|sort| sort.name == name).unwrap();
        let (mut lock, mut next) = (sort.lock(&client, name), sort.lock(&client, name));
        let guard = lock.lock().await.unwrap();
        let text = guard.owner().to_owned();
        let mut taking = Box::pin(next.lock());
        assert!(taking.as_mut().now_or_never().is_none());
        waiting(&client, 1).await;
        guard.unlock().now_or_never().unwrap().unwrap();
        let held = lock.restore(&text).await.unwrap_err();
        assert!(matches!(held, Error::AlreadyHeld { .. }), "{name}: {held}");
        let next = soon(name, taking).await.0.unwrap();
        assert_eq!(next.owner(), text);
        next.forget();
        lock.restore(&text).await.unwrap().unlock().await.unwrap();
        assert!(!world.exists(name), "{name}");
    }
}

pub(crate) async fn of_those_that_restore_one_text_at_once_one_has_it(world: World) {
    let (client, runtime) = (world.client().await, Handle::current());
    let guard = client.lock("x").try_lock(Duration::ZERO, Lease::Renewed).await.unwrap();
    let text = guard.owner().to_owned();
    guard.forget();
    for round in 0..500 {
        let mut locks = [client.lock("x"), client.lock("x")];
        let (ready, all) = (AtomicUsize::new(0), locks.len());
        // The first poll of each looks whether it may, on a thread of its own.
        let restoring = std::thread::scope(|threads| {
            let polling = locks.each_mut().map(|lock| {
                let (ready, runtime, text) = (&ready, &runtime, &*text);
                threads.spawn(move || {
                    let _runtime = runtime.enter();
                    let mut restoring = Box::pin(lock.restore(text));
                    ready.fetch_add(1, SeqCst);
                    // A barrier would wake one of them much later than the other.
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
        let mut winners: Vec<LockGuard> = Vec::new();
        for restoring in restoring {
            let done = match restoring {
                Ok(restoring) => restoring.await,
                Err(done) => done,
            };
            match done {
                Ok(guard) => winners.push(guard),
                Err(error) => assert!(matches!(error, Error::AlreadyHeld { .. }), "{error}"),
            }
        }
        assert_eq!(winners.len(), 1, "in round {round}");
        // It is there for the next round at once.
        winners.into_iter().for_each(LockGuard::forget);
    }
}

pub(crate) async fn a_text_that_is_used_again_can_be_restored_again(world: World) {
    let client = world.client().await;
    let mut lock = client.string_lock("x");
    let mut lost = Vec::new();
    for round in 0..12 {
        world.command(&["SET", "x", "job-17", "PX", "60000"]);
        let guard = lock.restore("job-17").await.unwrap();
        match round % 4 {
            0 => guard.unlock().await.unwrap(),
            1 => {
                drop(guard);
                all_is_released(&client).await;
            }
            2 => {
                world.command(&["DEL", "x"]);
                guard.extend(ms(60_000)).await.unwrap_err();
                // Kept: a guard of a lost hold is in nobody's way.
                lost.push(guard);
            }
            _ => {
                guard.forget();
                lock.restore("job-17").await.unwrap().unlock().await.unwrap();
            }
        }
        assert!(!world.exists("x"), "round {round}");
    }
}

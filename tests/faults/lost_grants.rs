//! Lost replies for every kind of lock: what the server did is found again or undone.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease};
use leasehold_testbed::{KINDS, Kind, Reply, eventually_within, forget, holds, ms, within};

use crate::lost_replies::Testbed;
use crate::testbed::alone;

const LIMIT: Duration = Duration::from_secs(120);
/// Longer than any undo may take.
const LONG: Duration = ms(20_000);
/// The time from the end of a fault until its effects are gone: an undo without a reply is repeated
/// after a command timeout. The rest is for a machine that stalls, and ends long before a lease
/// does.
const HEALED: Duration = ms(8_000);

/// Plays one scene for each kind, on its own server.
fn for_each_kind(scene: &impl AsyncFn(&Kind, &mut Testbed)) {
    for kind in &KINDS {
        alone(LIMIT, async {
            let mut testbed = Testbed::new().await;
            // Load the scripts, so that a call is one round trip.
            for client in [&testbed.client, &testbed.rival] {
                let guard = kind.lock(client, "n").lock().await.expect("free");
                guard.unlock().await.expect("held");
            }
            scene(kind, &mut testbed).await;
            eventually_within(HEALED, "no key left", async || {
                nothing_is_left(&mut testbed)
            })
            .await;
        });
    }
}

fn nothing_is_left(testbed: &mut Testbed) -> bool {
    only(testbed, &[])
}

/// True if there are no keys except these and the counters of tokens.
fn only(testbed: &mut Testbed, expected: &[String]) -> bool {
    let keys = testbed.outside.command(&["KEYS", "*"]);
    let mut keys: Vec<_> = keys.array().iter().map(Reply::text).collect();
    keys.retain(|key| !key.starts_with("redisson_lock_token:"));
    keys.sort();
    keys == expected
}

fn are_there(testbed: &mut Testbed, kind: &Kind) -> bool {
    kind.keys("n")
        .iter()
        .filter(|key| testbed.outside.exists(key))
        .count()
        >= kind.need()
}

/// True if the lock is granted. Of several locks, any one may be first.
fn is_granted(testbed: &mut Testbed, kind: &Kind) -> bool {
    kind.keys("n").iter().any(|key| testbed.outside.exists(key))
}

/// A quorum gives back what it may have, and reports that nobody answered.
fn assert_unknown<T: Debug>(kind: &Kind, outcome: &Result<T, Error>) {
    let told = match outcome {
        Err(error @ Error::Unknown { .. }) => error.may_be_held() && !kind.quorum,
        Err(Error::Quorum { obtained: 0, .. }) => true,
        _ => false,
    };
    assert!(told, "{}: {outcome:?}", kind.name);
}

/// The rival gets the lock and keeps it, undisturbed by late calls.
async fn rival_takes(testbed: &mut Testbed, kind: &Kind) {
    let lock = kind.lock(&testbed.rival, "n");
    let guard = within(LIMIT, "the rival's turn", lock.lock())
        .await
        .expect("free");
    let end = Instant::now() + ms(400);
    eventually_within(LIMIT, "repetitions pass by", async || {
        guard.check().expect("not released by anybody else");
        assert!(are_there(testbed, kind), "{}", kind.name);
        Instant::now() > end
    })
    .await;
    guard.unlock().await.expect("nobody else released it");
}

#[test]
fn a_lost_grant_of_any_kind_is_unknown_and_undone() {
    for_each_kind(&async |kind, testbed| {
        testbed.proxy.swallow_replies();
        let outcome = kind
            .lock(&testbed.client, "n")
            .try_lock(ms(200), Lease::Fixed(LONG))
            .await;
        assert_unknown(kind, &outcome);
        testbed.proxy.pass();
        eventually_within(HEALED, "undone", async || nothing_is_left(testbed)).await;
        rival_takes(testbed, kind).await;
    });
}

#[test]
fn a_lost_grant_of_any_sort_that_is_dropped_is_undone() {
    for_each_kind(&async |kind, testbed| {
        testbed.proxy.swallow_replies();
        let lock = kind.lock(&testbed.client, "n");
        let taking = tokio::spawn(async move { lock.lock().await.map(drop) });
        eventually_within(LIMIT, "redis granted the first", async || {
            is_granted(testbed, kind)
        })
        .await;
        taking.abort();
        testbed.proxy.pass();
        eventually_within(HEALED, "undone", async || nothing_is_left(testbed)).await;
        rival_takes(testbed, kind).await;
    });
}

#[test]
fn a_patient_acquisition_of_any_sort_gets_its_lost_grant_back() {
    for_each_kind(&async |kind, testbed| {
        testbed.proxy.swallow_replies();
        let lock = kind.lock(&testbed.client, "n");
        let taking = tokio::spawn(async move { lock.lock().await });
        eventually_within(LIMIT, "redis granted the first", async || {
            is_granted(testbed, kind)
        })
        .await;
        testbed.proxy.pass();
        let taken = within(LIMIT, "the grant", taking).await.expect("no panic");
        let guard = taken.unwrap_or_else(|error| panic!("{}: {error:?}", kind.name));
        assert_eq!(guard.hold_count(), 1);
        assert!(are_there(testbed, kind));
        if let Some(token) = guard.token() {
            let issued = testbed
                .outside
                .command(&["GET", "redisson_lock_token:{n}"])
                .int();
            assert_eq!(
                token.value(),
                issued,
                "a repeated call is told its own token"
            );
        }
        guard.unlock().await.expect("held");
        eventually_within(HEALED, "free", async || nothing_is_left(testbed)).await;
    });
}

#[test]
fn a_lost_re_entry_of_any_sort_leaves_the_outer_hold() {
    for_each_kind(&async |kind, testbed| {
        if !kind.reentrant {
            return;
        }
        let lock = kind.lock(&testbed.client, "n");
        let outer = lock.try_lock_now(Lease::Fixed(LONG)).await.expect("free");
        testbed.proxy.swallow_replies();
        let again = lock
            .acquire()
            .within(&outer)
            .wait(ms(200))
            .lease(Lease::Fixed(LONG));
        assert_unknown(kind, &again.await);
        outer.check().expect("the outer hold is not touched");
        assert_eq!(outer.hold_count(), 1, "{}", kind.name);
        testbed.proxy.pass();
        within(HEALED, "redis is told", async {
            while holds(&lock).await.ok() != Some(1) {
                tokio::task::yield_now().await;
            }
        })
        .await;
        outer.unlock().await.expect("held all the time");
    });
}

#[test]
fn a_lost_release_of_any_kind_is_repeated_and_harms_nobody() {
    for_each_kind(&async |kind, testbed| {
        let guard = kind
            .lock(&testbed.client, "n")
            .try_lock_now(Lease::Fixed(LONG))
            .await
            .expect("free");
        testbed.proxy.swallow_replies();
        let releasing = tokio::spawn(guard.unlock());
        eventually_within(LIMIT, "released", async || nothing_is_left(testbed)).await;
        // While the release is repeated.
        rival_takes(testbed, kind).await;
        testbed.proxy.pass();
        let outcome = within(LIMIT, "an answer", releasing)
            .await
            .expect("no panic");
        let told = matches!(outcome, Ok(()) | Err(Error::Unknown { .. }));
        assert!(told, "{}: {outcome:?}", kind.name);
    });
}

#[test]
fn a_lost_restore_is_unknown_and_undone() {
    alone(LIMIT, async {
        let mut testbed = Testbed::new().await;
        let (giver, taker) = (
            testbed.rival.string_lock("n"),
            testbed.client.string_lock("n"),
        );
        let owner = forget(giver.lock().await.expect("free"));
        // Load the script.
        taker.restore(&owner).await.expect("still there").forget();
        testbed.proxy.swallow_replies();
        let outcome = taker.restore(&owner).await;
        let told = matches!(&outcome, Err(error @ Error::Unknown { .. }) if error.may_be_held());
        assert!(told, "{outcome:?}");
        testbed.proxy.pass();
        let undone = async || nothing_is_left(&mut testbed);
        eventually_within(HEALED, "undone", undone).await;
        let late = giver.restore(&owner).await;
        assert!(matches!(late, Err(Error::NotOwner { .. })), "{late:?}");
    });
}

#[test]
fn a_lost_refusal_of_any_sort_leaves_the_holder_alone() {
    for_each_kind(&async |kind, testbed| {
        if !kind.exclusive {
            return;
        }
        let guard = kind.lock(&testbed.rival, "n").lock().await.expect("free");
        testbed.proxy.swallow_replies();
        let lock = kind.lock(&testbed.client, "n");
        let outcome = lock.try_lock(ms(300), Lease::Fixed(LONG)).await;
        assert!(outcome.is_err(), "{}", kind.name);
        testbed.proxy.pass();
        eventually_within(HEALED, "no key left", async || {
            only(testbed, &kind.keys("n"))
        })
        .await;
        guard.check().expect("the holder is not touched");
        assert!(are_there(testbed, kind));
        // A patient waiter is still served exactly once.
        testbed.proxy.swallow_replies();
        let taking = tokio::spawn(async move { lock.lock().await });
        eventually_within(LIMIT, "queued", async || testbed.client.stats().waiting > 0).await;
        guard.unlock().await.expect("held");
        testbed.proxy.pass();
        let guard = within(LIMIT, "granted", taking)
            .await
            .expect("no panic")
            .expect("re-entered");
        assert_eq!(guard.hold_count(), 1);
        guard.unlock().await.expect("held");
    });
}

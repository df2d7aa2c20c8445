//! Releases whose replies are lost: each ends one hold, once, and no other.

use std::time::Instant;

use leasehold::{Error, Lease, Lock};
use leasehold_testbed::{eventually_within, ms, within};

use crate::lost_replies::{AT_ONCE, HEALED, LEASE, LIMIT, Testbed};
use crate::testbed::{SILENCE, alone, assert_unknown, at_rest, beside, hold};

#[test]
fn a_release_whose_reply_is_lost_stays_unknown_when_the_line_goes_down() {
    beside(LIMIT, async {
        let testbed = Testbed::new().await;
        let guard = hold(&testbed.client, "n").await;
        testbed.proxy.swallow_replies();
        let releasing = tokio::spawn(guard.unlock());
        let mut outside = testbed.outside;
        eventually_within(LIMIT, "released", async || !outside.exists("n")).await;
        testbed.proxy.refuse();
        testbed.proxy.cut();
        assert_unknown(
            within(HEALED, "an answer", releasing)
                .await
                .expect("no panic"),
        );
        testbed.proxy.pass();
        at_rest(&testbed.client, LEASE + HEALED).await;
    });
}

#[test]
fn an_inner_release_whose_reply_is_lost_does_not_free_the_outer_hold() {
    beside(LIMIT, async {
        let mut testbed = Testbed::new().await;
        let lock = testbed.client.lock("n");
        let outer = lock
            .try_lock_now(Lease::Fixed(ms(20_000)))
            .await
            .expect("free");
        let owner = outer.owner().to_owned();
        let inner = outer.reenter().await.expect("re-entered");
        testbed.proxy.swallow_replies();
        assert_unknown(within(HEALED, "an answer", inner.unlock()).await);
        outer.check().expect("the outer hold is not touched");
        testbed.proxy.pass();
        eventually_within(HEALED, "the count is right", async || {
            testbed.outside.holds("n") == [(owner.clone(), 1)]
        })
        .await;
        let end = Instant::now() + ms(300);
        eventually_within(LIMIT, "repetitions pass by", async || {
            assert_eq!(testbed.outside.holds("n"), [(owner.clone(), 1)]);
            Instant::now() > end
        })
        .await;
        outer.unlock().await.expect("held all the time");
        at_rest(&testbed.client, HEALED).await;
    });
}

#[test]
fn a_release_whose_first_reply_is_lost_is_ok_once() {
    alone(LIMIT, async {
        // Long timeouts, so that the call is not given up before the connection is back.
        let mut testbed = Testbed::with(|client| client.command_timeout(SILENCE)).await;
        let guard = hold(&testbed.client, "n").await;
        testbed.proxy.swallow_replies();
        let releasing = tokio::spawn(guard.unlock());
        eventually_within(LIMIT, "released", async || !testbed.outside.exists("n")).await;
        // Another owner takes the lock before the repetition comes.
        let other = hold(&testbed.rival, "n").await;
        testbed.proxy.pass();
        let outcome = within(HEALED, "the release", releasing)
            .await
            .expect("no panic");
        outcome.expect("the first of the two did it");
        assert_eq!(testbed.outside.holds("n"), [(other.owner().to_owned(), 1)]);
        other.unlock().await.expect("not touched by the repetition");
        at_rest(&testbed.client, HEALED).await;
    });
}

#[test]
fn a_release_on_a_line_that_was_just_cut_is_ok() {
    alone(LIMIT, async {
        let testbed = Testbed::new().await;
        // Only a few, because the pause before a reconnect grows if connections do not last.
        for round in 0..5 {
            let guard = hold(&testbed.client, "n").await;
            testbed.proxy.cut();
            let outcome = within(HEALED, "the release", guard.unlock()).await;
            outcome.unwrap_or_else(|error| panic!("round {round}: {error:?}"));
        }
        at_rest(&testbed.client, LEASE + HEALED).await;
    });
}

#[test]
fn a_release_without_any_reply_is_unknown_and_releases_nobody_else() {
    beside(LIMIT, async {
        let mut testbed = Testbed::new().await;
        let guard = hold(&testbed.client, "n").await;
        testbed.proxy.swallow_replies();
        // The call does not wait for the end of the lease.
        assert_unknown(within(HEALED, "an answer", guard.unlock()).await);
        // The release was executed: the rival takes over while the client still repeats it.
        testbed.rival_takes("n", AT_ONCE).await;
        let guard = hold(&testbed.rival, "n").await;
        testbed.proxy.pass();
        at_rest(&testbed.client, LEASE + HEALED).await;
        assert_eq!(testbed.outside.holds("n"), [(guard.owner().to_owned(), 1)]);
        guard.unlock().await.expect("held");
    });
}

#[test]
fn a_release_that_never_arrived_is_repeated_until_it_does() {
    beside(LIMIT, async {
        let mut testbed = Testbed::new().await;
        let lock = testbed.client.lock("n");
        let guard = lock
            .try_lock_now(Lease::Fixed(ms(20_000)))
            .await
            .expect("free");
        testbed.proxy.half_open();
        let outcome = within(HEALED, "an answer", guard.unlock()).await;
        let told = matches!(
            outcome,
            Err(Error::Unknown { .. } | Error::Unavailable { .. })
        );
        assert!(told, "{outcome:?}");
        assert!(testbed.outside.exists("n"), "the lease goes on");
        testbed.proxy.pass();
        eventually_within(HEALED, "released", async || !testbed.outside.exists("n")).await;
        at_rest(&testbed.client, HEALED).await;
    });
}

#[test]
fn a_dropped_guard_is_released_when_the_line_is_back() {
    beside(LIMIT, async {
        let mut testbed = Testbed::new().await;
        let lock = testbed.client.lock("n");
        let guard = lock
            .try_lock_now(Lease::Fixed(ms(20_000)))
            .await
            .expect("free");
        testbed.proxy.half_open();
        drop(guard);
        assert!(testbed.outside.exists("n"));
        testbed.proxy.pass();
        eventually_within(HEALED, "released", async || !testbed.outside.exists("n")).await;
        at_rest(&testbed.client, HEALED).await;
    });
}

#[test]
fn releases_do_not_wait_for_undos_that_are_repeated() {
    alone(LIMIT, async {
        let mut testbed = Testbed::new().await;
        // More than the releases in flight at once. Their undos are repeated for a lease, because
        // an acquisition in an old socket may still come.
        let many = 400;
        let crowd = || -> Vec<_> {
            let locks = (0..many).map(|number| testbed.client.lock(format!("n{number}")));
            let take = async |lock: Lock| {
                let guard = lock
                    .try_lock(LIMIT, Lease::Fixed(LIMIT))
                    .await
                    .expect("asked again");
                guard.unlock().await.expect("held");
            };
            locks.map(|lock| tokio::spawn(take(lock))).collect()
        };
        // Load the script that takes several locks.
        for one in crowd() {
            within(LIMIT, "all free", one).await.expect("no panic");
        }
        testbed.proxy.swallow_replies();
        let taking = crowd();
        eventually_within(LIMIT, "redis granted all", async || {
            testbed.outside.keys() == many
        })
        .await;
        testbed.proxy.pass();
        for one in taking {
            within(LIMIT, "the second answer", one)
                .await
                .expect("no panic");
        }
        let guard = hold(&testbed.client, "x").await;
        assert!(testbed.outside.exists("x"));
        drop(guard);
        eventually_within(ms(5_000), "released", async || !testbed.outside.exists("x")).await;
        // And the release of `x`, if its reply is still in flight.
        let pending = testbed.client.stats().releases_pending;
        assert!(
            (400..=401).contains(&pending),
            "{pending}: all are repeated yet"
        );
    });
}

//! Releases whose replies are lost: each ends one hold, once, and no other.

use std::time::Instant;

use leasehold::{Error, Lease};
use leasehold_testbed::{eventually_within, ms, within};

use crate::lost_replies::{HEALED, LIMIT, Testbed};
use crate::testbed::{assert_unknown, at_rest, beside};

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

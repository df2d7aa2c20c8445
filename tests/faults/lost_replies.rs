//! Lost replies: nothing is held twice, nothing is held forever, and no hold of another owner ends.
//!
//! The client under test uses a proxy that swallows, delays and cuts. Redis is watched and
//! contended for directly.

use std::time::{Duration, Instant};

use leasehold::{Client, ClientBuilder, Error, HoldState, Lease, LossReason};
use leasehold_testbed::{Borrowed, Line, Outside, eventually_within, lost, ms, release, within};

use crate::testbed::{
    GIVEN_UP, LATE, SILENCE, alone, assert_unknown, at_rest, beside, brisk, connect, hold, note,
    seed,
};

pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const LEASE: Duration = ms(3_000);
/// The time from the end of a fault until its effects are gone: a reconnect and a repetition. The
/// rest is for a machine that stalls, and ends before a lease does.
pub(crate) const HEALED: Duration = ms(2_700);
/// A free lock is taken before a lease could have ended.
pub(crate) const AT_ONCE: Duration = ms(2_000);

pub(crate) struct Testbed {
    pub(crate) server: Borrowed,
    pub(crate) proxy: Line,
    /// Through the proxy.
    pub(crate) client: Client,
    /// Directly.
    pub(crate) rival: Client,
    pub(crate) outside: Outside,
}

impl Testbed {
    pub(crate) async fn new() -> Self {
        Self::with(|client| client).await
    }

    /// With other settings for the client under test.
    pub(crate) async fn with(settings: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        let server = Borrowed::take();
        let proxy = server.line();
        let builder = settings(brisk(proxy.url()).lease(LEASE));
        let client = builder.connect().await.expect("connects");
        let rival = connect(&server.url()).await;
        let outside = Outside::of(&server);
        // Load all scripts on the server of the name, so that a call is one round trip.
        for client in [&client, &rival] {
            let lock = client.lock("{n}:warm");
            let outer = lock.lock().await.expect("free");
            release(outer.reenter().await).await;
            outer.unlock().await.expect("held");
        }
        Testbed {
            server,
            proxy,
            client,
            rival,
            outside,
        }
    }

    /// The rival gets the lock within `limit`, keeps it while the other client settles, and is not
    /// disturbed.
    pub(crate) async fn rival_takes(&mut self, name: &str, limit: Duration) {
        let lock = self.rival.lock(name);
        let guard = within(limit, "the rival's turn", lock.lock())
            .await
            .expect("free");
        let owner = guard.owner().to_owned();
        let end = Instant::now() + ms(600);
        eventually_within(LIMIT, "repetitions pass by", async || {
            assert_eq!(self.outside.holds(name), [(owner.clone(), 1)]);
            Instant::now() > end
        })
        .await;
        guard.unlock().await.expect("nobody else released it");
    }
}

#[test]
fn an_acquisition_whose_reply_is_lost_is_unknown_and_undone() {
    beside(LIMIT, async {
        let mut testbed = Testbed::with(|client| client.command_timeout(SILENCE)).await;
        testbed.proxy.swallow_replies();
        let lock = testbed.client.lock("n");
        let started = Instant::now();
        let outcome = lock.try_lock(ms(200), Lease::Fixed(ms(20_000))).await;
        assert!(started.elapsed() < GIVEN_UP, "{:?}", started.elapsed());
        assert!(
            outcome.as_ref().is_err_and(Error::may_be_held),
            "{outcome:?}"
        );
        assert_unknown(outcome);
        testbed.proxy.pass();
        eventually_within(HEALED, "undone", async || !testbed.outside.exists("n")).await;
        testbed.rival_takes("n", AT_ONCE).await;
        // The undo is repeated for a lease: nothing may come later.
        assert!(testbed.client.stats().holds == 0);
    });
}

#[test]
fn an_acquisition_whose_reply_is_lost_stays_unknown_when_the_line_goes_down() {
    beside(LIMIT, async {
        let mut testbed = Testbed::new().await;
        testbed.proxy.swallow_replies();
        let lock = testbed.client.lock("n");
        let taking =
            tokio::spawn(async move { lock.try_lock(ms(3_000), Lease::Fixed(ms(20_000))).await });
        eventually_within(LIMIT, "granted", async || testbed.outside.exists("n")).await;
        testbed.proxy.refuse();
        testbed.proxy.cut();
        // The later calls were certainly not executed, but the first one was.
        assert_unknown(
            within(ms(5_000), "an answer", taking)
                .await
                .expect("no panic"),
        );
        assert!(testbed.outside.exists("n"));
        testbed.proxy.pass();
        eventually_within(HEALED, "undone", async || !testbed.outside.exists("n")).await;
        testbed.rival_takes("n", AT_ONCE).await;
    });
}

#[test]
fn an_acquisition_that_never_arrived_is_unknown_and_leaves_nothing() {
    beside(LIMIT, async {
        let mut testbed = Testbed::new().await;
        testbed.proxy.swallow_requests();
        let lock = testbed.client.lock("n");
        assert_unknown(lock.try_lock(ms(200), Lease::Fixed(LEASE)).await);
        assert!(!testbed.outside.exists("n"));
        testbed.proxy.pass();
        testbed.rival_takes("n", AT_ONCE).await;
        at_rest(&testbed.client, LEASE + HEALED).await;
        assert_eq!(testbed.outside.keys(), 0);
    });
}

#[test]
fn a_patient_acquisition_gets_its_lost_grant_back() {
    beside(LIMIT, async {
        let mut testbed = Testbed::new().await;
        testbed.proxy.swallow_replies();
        let lock = testbed.client.lock("n");
        let taking = tokio::spawn(async move { lock.lock().await });
        eventually_within(LIMIT, "granted", async || testbed.outside.exists("n")).await;
        let granted = testbed.outside.holds("n");
        testbed.proxy.pass();
        let guard = within(HEALED, "the grant", taking)
            .await
            .expect("no panic")
            .expect("re-entered");
        assert_eq!(testbed.outside.holds("n"), granted, "the same field, once");
        assert_eq!(granted, [(guard.owner().to_owned(), 1)]);
        guard.unlock().await.expect("held");
        assert_eq!(testbed.outside.keys(), 0);
        // An attempt of the lost connection might come late, so the undo continues for a lease.
        at_rest(&testbed.client, LEASE + HEALED).await;
        assert_eq!(testbed.outside.keys(), 0);
    });
}

#[test]
fn a_slow_grant_counts_from_when_it_was_asked_for() {
    beside(LIMIT, async {
        let testbed = Testbed::with(|client| client.command_timeout(SILENCE)).await;
        testbed.proxy.delay_replies(ms(200));
        let lock = testbed.client.lock("n");
        let asked = tokio::time::Instant::now();
        let guard = lock
            .try_lock(LIMIT, Lease::Fixed(LEASE))
            .await
            .expect("free");
        assert!(asked.elapsed() >= ms(200));
        // Redis counts from when it ran the script, which is soon after the call was sent.
        assert!(
            guard.deadline() < asked + LEASE,
            "{:?}",
            guard.deadline() - asked
        );
        testbed.proxy.flow();
        within(LIMIT, "lost", lost(&guard)).await;
    });
}

#[test]
fn an_acquisition_cut_off_before_its_reply_is_neither_lost_nor_doubled() {
    alone(LIMIT, async {
        let mut testbed = Testbed::new().await;
        for round in 0..10 {
            testbed.proxy.delay_replies(ms(30));
            let lock = testbed.client.lock("n");
            let taking = tokio::spawn(async move { lock.lock().await });
            eventually_within(LIMIT, "granted", async || testbed.outside.exists("n")).await;
            testbed.proxy.pass();
            let guard = within(HEALED, "the grant", taking).await.expect("no panic");
            let guard = guard.expect("re-entered");
            assert_eq!(
                testbed.outside.holds("n"),
                [(guard.owner().to_owned(), 1)],
                "round {round}"
            );
            guard.unlock().await.expect("held");
            assert!(!testbed.outside.exists("n"));
        }
        at_rest(&testbed.client, LEASE + HEALED).await;
        assert_eq!(testbed.outside.keys(), 0);
    });
}

#[test]
fn a_dropped_acquisition_whose_reply_is_lost_is_undone() {
    beside(LIMIT, async {
        let mut testbed = Testbed::new().await;
        testbed.proxy.swallow_replies();
        let lock = testbed.client.lock("n");
        let taking = tokio::spawn(async move { lock.lock().await.map(drop) });
        eventually_within(LIMIT, "granted", async || testbed.outside.exists("n")).await;
        taking.abort();
        testbed.proxy.pass();
        eventually_within(HEALED, "undone", async || !testbed.outside.exists("n")).await;
        testbed.rival_takes("n", AT_ONCE).await;
    });
}

#[test]
fn a_re_entry_whose_reply_is_lost_leaves_the_outer_hold() {
    beside(LIMIT, async {
        let mut testbed = Testbed::new().await;
        let lock = testbed.client.lock("n");
        let outer = lock
            .try_lock_now(Lease::Fixed(ms(20_000)))
            .await
            .expect("free");
        let owner = outer.owner().to_owned();
        testbed.proxy.swallow_replies();
        let again = lock
            .acquire()
            .within(&outer)
            .wait(ms(200))
            .lease(Lease::Fixed(ms(20_000)));
        assert_unknown(again.await);
        outer.check().expect("the outer hold is not touched");
        assert_eq!(outer.hold_count(), 1);
        testbed.proxy.pass();
        eventually_within(HEALED, "the count is right", async || {
            testbed.outside.holds("n") == [(owner.clone(), 1)]
        })
        .await;
        outer.unlock().await.expect("held all the time");
        assert!(!testbed.outside.exists("n"));
        at_rest(&testbed.client, HEALED).await;
    });
}

#[test]
fn renewals_without_replies_make_a_hold_uncertain_then_lost_and_then_free() {
    for applied in [true, false] {
        beside(LIMIT, async {
            // Neither a call nor a connection times out before the lease ends.
            let mut testbed =
                Testbed::with(|client| client.command_timeout(SILENCE).connect_timeout(SILENCE))
                    .await;
            let guard = hold(&testbed.client, "n").await;
            if applied {
                testbed.proxy.swallow_replies();
            } else {
                testbed.proxy.half_open();
            }
            let cut = Instant::now();
            eventually_within(LEASE, "uncertain", async || {
                guard.state() == HoldState::Uncertain
            })
            .await;
            guard.check().expect("nobody else can have it yet");
            assert!(testbed.outside.exists("n"));
            let lost = tokio::spawn(lost(&guard));
            let reason = within(LIMIT, "lost", lost).await.expect("no panic");
            let after = cut.elapsed();
            assert_eq!(reason, LossReason::Expired);
            // Before a renewal that was due then could have timed out.
            assert!(after < LEASE + LATE, "{after:?}");
            // The guard knows first, by a margin of 2.5 ms: if we look in time. Where calls get
            // through, the client releases what is lost, and may be quicker than this look.
            let there = testbed.outside.exists("n") || applied;
            let late = guard.deadline().elapsed();
            assert!(
                there || late > ms(2),
                "redis ended it first, {late:?} after the deadline"
            );
            // Never longer than another lease, whatever happened to the renewals.
            let started = Instant::now();
            eventually_within(LEASE + HEALED, "free", async || {
                !testbed.outside.exists("n")
            })
            .await;
            note(&format!(
                "applied {applied}: lost {after:?}, free {:?} later",
                started.elapsed()
            ));
            testbed.proxy.pass();
            testbed.rival_takes("n", AT_ONCE).await;
            assert_eq!(guard.state(), HoldState::Lost, "for ever");
            let outcome = guard.unlock().await;
            let expired = Error::Lost {
                name: "n".into(),
                reason: LossReason::Expired,
            };
            assert_eq!(
                format!("{outcome:?}"),
                format!("{:?}", Err::<(), _>(expired))
            );
            at_rest(&testbed.client, LEASE + HEALED).await;
        });
    }
}

#[test]
fn a_short_outage_of_renewals_costs_nothing() {
    beside(LIMIT, async {
        let lease = LEASE * 2;
        let mut testbed = Testbed::with(|client| client.lease(lease)).await;
        let guard = hold(&testbed.client, "n").await;
        for _ in 0..3 {
            testbed.proxy.half_open();
            eventually_within(lease, "uncertain", async || {
                guard.state() == HoldState::Uncertain
            })
            .await;
            testbed.proxy.pass();
            eventually_within(lease, "held", async || guard.state() == HoldState::Held).await;
            assert_eq!(testbed.outside.holds("n"), [(guard.owner().to_owned(), 1)]);
        }
        guard.unlock().await.expect("held all the time");
        at_rest(&testbed.client, HEALED).await;
    });
}

/// Replies that come after their callers have left must not reach another caller.
#[test]
fn a_late_reply_is_nobody_elses() {
    let seed = seed("a_late_reply");
    alone(LIMIT, async move {
        let testbed = Testbed::new().await;
        let end = Instant::now() + ms(5_000);
        let tasks: Vec<_> = (0..8_u64)
            .map(|task| {
                let mut random = fastrand::Rng::with_seed(seed ^ task);
                let name = format!("n{task}");
                let (mine, theirs) = (testbed.client.lock(&name), testbed.rival.lock(&name));
                let (mut outside, rival) = (Outside::of(&testbed.server), testbed.rival.clone());
                tokio::spawn(async move {
                    let mut granted = 0;
                    while Instant::now() < end {
                        // Half of the time another owner holds the lock, and then no reply may
                        // grant it.
                        let other = random
                            .bool()
                            .then(|| theirs.try_lock(ms(2_000), Lease::Fixed(LEASE)));
                        let other = match other {
                            Some(other) => other.await.ok(),
                            None => None,
                        };
                        let taken = mine
                            .try_lock(ms(random.u64(0..600)), Lease::Fixed(LEASE))
                            .await;
                        if let Ok(guard) = &taken {
                            let holds = outside.holds(&name);
                            let late = guard.check().is_err();
                            let ours = holds == [(guard.owner().to_owned(), 1)];
                            assert!(ours || late, "{name}: {guard:?}, {holds:?}");
                            granted += 1;
                        }
                        if let Some(other) = &other {
                            let late = other.check().is_err();
                            assert!(taken.is_err() || late, "{name}: two at once, {taken:?}");
                        }
                        drop((taken, other));
                    }
                    drop(rival);
                    granted
                })
            })
            .collect();
        let mut random = fastrand::Rng::with_seed(seed);
        while Instant::now() < end {
            testbed.proxy.delay_replies(ms(random.u64(0..500)));
            tokio::time::sleep(ms(random.u64(50..400))).await;
            testbed.proxy.delay_replies(Duration::ZERO);
            tokio::time::sleep(ms(random.u64(50..400))).await;
        }
        let mut granted = 0;
        for task in tasks {
            granted += task.await.expect("no panic");
        }
        note(&format!(
            "late replies: {granted} grants, all right; {:?}",
            testbed.client.stats()
        ));
        assert!(granted > 0);
        at_rest(&testbed.client, LEASE * 2 + HEALED).await;
    });
}

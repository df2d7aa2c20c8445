//! Calls of a broken connection that the server still runs, long after the calls sent behind them:
//! what they take is given back. Only the embedded engine has the switch.

use std::time::Duration;

use leasehold::settings::LocalHandover;
use leasehold::test_util::{ConnectionControl, Delay, Direction, Faults, LinkControl};
use leasehold::{Client, EmbeddedRedis, Ended, Lease, LockGuard, LossReason};
use leasehold_testbed::{Bed, connected, eventually, ms, release, waiting};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// How long after a connection broke the server runs the calls that were in flight.
pub(crate) const LATE: Duration = ms(12_000);
/// Longer than any of these tests, so that a hold left behind is noticed.
const LONG: Duration = ms(600_000);
/// The longest time between two repetitions of an undo.
const UNDONE: Duration = ms(7000);
/// A broken connection loses the call in flight or runs it late. Among these seeds, both happen.
pub(crate) const SEEDS: std::ops::Range<u64> = 0..8;

/// An engine, and a second client whose link is watched.
pub(crate) struct Testbed {
    pub(crate) redis: EmbeddedRedis,
    pub(crate) rival: Client,
    pub(crate) client: Client,
    pub(crate) link: LinkControl,
    seed: u64,
}

impl Testbed {
    pub(crate) fn new(seed: u64) -> Self {
        let redis = Bed::engine();
        let (rival, client) = (redis.client(), redis.client());
        let link = redis.links().pop().unwrap();
        Testbed {
            redis,
            rival,
            client,
            link,
            seed,
        }
    }

    /// From now on a call takes this long to arrive. If the connection breaks then, the call may
    /// run late.
    pub(crate) fn slow(&self, request: Duration) {
        let (request, late) = (Delay::fixed(request), Delay::fixed(LATE));
        let faults = Faults {
            request,
            late_after_cut: 1.0,
            late,
            ..Faults::default()
        };
        self.link.set_faults(faults, self.seed);
    }

    /// Breaks the connection while exactly one call is in flight.
    pub(crate) async fn breaks(&self) -> Instant {
        eventually("a call is on its way", async || {
            calls_on_their_way(&self.link) == 1
        })
        .await;
        self.link.cut();
        self.link.heal();
        Instant::now()
    }

    pub(crate) fn is_fast_again(&self) {
        self.link.set_faults(Faults::default(), self.seed);
    }

    /// How many acquisitions the server has run.
    pub(crate) fn asked(&self) -> u64 {
        let runs = self.redis.scripts_run();
        ["lock_acquire", "fair_acquire"]
            .iter()
            .filter_map(|script| runs.get(script))
            .sum()
    }

    /// Whether the late call ran, with nobody asking any more. Asserts that it has left nothing at
    /// `end`.
    async fn came_late(&self, what: &str, end: Instant) -> bool {
        let asked = self.asked();
        sleep_until(end).await;
        let left: Vec<_> = self.redis.dump().into_keys().collect();
        assert!(
            left.is_empty(),
            "{what}, seed {}: {}",
            self.seed,
            left.len()
        );
        self.asked() > asked
    }
}

/// How many calls of a client have been sent and have not arrived.
pub(crate) fn calls_on_their_way(link: &LinkControl) -> usize {
    let open = link
        .connections()
        .into_iter()
        .filter(ConnectionControl::is_open);
    let calls = open.map(|one| {
        let bytes = one.in_flight(Direction::Requests);
        bytes.windows(6).filter(|part| part == b"\r\nEVAL").count()
    });
    calls.sum()
}

/// The undo finds the place of an earlier call, which says nothing about a later one.
#[tokio::test(start_paused = true)]
async fn a_late_call_of_a_waiter_that_left_its_line_takes_nothing() {
    let mut came = 0;
    for seed in SEEDS {
        let testbed = Testbed::new(seed);
        let guard = testbed.rival.fair_lock("x").lock().await.unwrap();
        let lock = testbed.client.fair_lock("x");
        let waiter =
            tokio::spawn(async move { lock.try_lock(LONG, Lease::Fixed(LONG)).await.map(drop) });
        waiting(&testbed.client, 1).await;
        let told = || {
            let heard = testbed.redis.listeners().into_keys();
            heard
                .into_iter()
                .find(|channel| channel.starts_with("redisson_lock__channel:{x}:"))
        };
        eventually("listening", async || told().is_some()).await;
        sleep(ms(10)).await;
        testbed.slow(ms(30));
        testbed
            .redis
            .command(&["PUBLISH", &told().unwrap(), "0"])
            .unwrap();
        let broken = testbed.breaks().await;
        testbed.is_fast_again();
        waiter.abort();
        sleep(ms(100)).await;
        guard.unlock().await.unwrap();
        sleep(ms(100)).await;
        came += u32::from(testbed.came_late("in line", broken + LATE + UNDONE).await);
    }
    assert!((1..8).contains(&came), "{came} came late");
}

/// Ends a hold without a release by its guard.
async fn lose(testbed: &Testbed, guard: &LockGuard, reason: LossReason) {
    match reason {
        LossReason::Gone => {
            testbed.redis.command(&["DEL", "x"]).unwrap();
            guard.extend(LONG).await.unwrap_err();
        }
        LossReason::Closed => {
            let client = testbed.client.clone();
            tokio::spawn(async move { client.shutdown(LONG).await });
            assert_eq!(guard.ended().await, Ended::Lost(reason));
        }
        _ => assert_eq!(guard.ended().await, Ended::Lost(reason)),
    }
}

/// The undo of a lost hold finds the field of the second call, which says nothing about the first.
#[tokio::test(start_paused = true)]
async fn a_late_call_of_a_lost_hold_takes_nothing() {
    use LossReason::{Closed, Expired, Gone, MaxHold};
    for reason in [Gone, MaxHold, Expired, Closed] {
        let mut came = 0;
        for seed in SEEDS {
            let testbed = Testbed::new(seed);
            testbed.slow(ms(30));
            let lock = testbed.client.lock("x");
            let lease = if reason == Expired { ms(10_000) } else { LONG };
            let taking = async {
                let taking = lock.acquire().wait(LONG).lease(Lease::Fixed(lease));
                if reason == MaxHold {
                    taking.max_hold(ms(3000)).await
                } else {
                    taking.await
                }
            };
            let broken = async {
                let broken = testbed.breaks().await;
                testbed.is_fast_again();
                broken
            };
            let (guard, broken) = tokio::join!(taking, broken);
            let guard = guard.unwrap();
            lose(&testbed, &guard, reason.clone()).await;
            let what = format!("{reason:?}");
            came += u32::from(testbed.came_late(&what, broken + LATE + UNDONE).await);
        }
        assert!((1..8).contains(&came), "{reason:?}: {came} came late");
    }
}

/// The undo of a worthless grant finds that grant, which says nothing about the call before.
#[tokio::test(start_paused = true)]
async fn a_late_call_before_a_grant_that_came_too_late_takes_nothing() {
    let mut came = 0;
    for seed in SEEDS {
        let redis = Bed::engine();
        let rival = redis.client();
        let patient = redis
            .builder()
            .command_timeout(ms(10_000))
            .connect_timeout(ms(10_000));
        let client = patient.safety_poll(ms(60_000)).connect().await.unwrap();
        let link = redis.links().pop().unwrap();
        let testbed = Testbed {
            redis,
            rival,
            client,
            link,
            seed,
        };
        let lease = ms(2500);
        testbed.slow(ms(3000));
        let lock = testbed.client.lock("x");
        let taking = lock.try_lock(LONG, Lease::Fixed(lease));
        let broken = async {
            let broken = testbed.breaks().await;
            let connected = || testbed.client.stats().reconnects >= 2;
            let sent = async || connected() && calls_on_their_way(&testbed.link) == 1;
            eventually("the second one is on its way", sent).await;
            testbed.is_fast_again();
            broken
        };
        let (guard, broken) = tokio::join!(taking, broken);
        assert!(
            broken.elapsed() > lease,
            "it was worth nothing: {:?}",
            broken.elapsed()
        );
        guard.unwrap().unlock().await.unwrap();
        came += u32::from(testbed.came_late("too late", broken + LATE + UNDONE).await);
    }
    assert!((1..8).contains(&came), "{came} came late");
}

/// Once, with a round trip above 25 ms, a wait that ended with a call in flight was always unknown
/// and undone.
#[tokio::test(start_paused = true)]
async fn a_slow_line_leaves_no_doubt_when_a_wait_ends() {
    for trip in [24, 28, 60, 150, 300] {
        for first in 1..40 {
            let redis = Bed::engine();
            let (rival, client) = (redis.client(), redis.client());
            let link = redis.links().pop().unwrap();
            let way = Delay::fixed(ms(trip) / 2);
            link.set_faults(
                Faults {
                    request: way,
                    reply: way,
                    ..Faults::default()
                },
                1,
            );
            let rivals = rival.lock("held").lock().await.unwrap();
            for wait in [first, 7, 20, trip + 1, 3 * trip] {
                assert_eq!(
                    client.stats().releases_queued,
                    0,
                    "nothing had to be undone"
                );
                let error = client
                    .lock("held")
                    .try_lock(ms(wait), Lease::Renewed)
                    .await
                    .unwrap_err();
                assert!(error.is_timeout(), "{trip} ms, {wait} ms: {error}");
                let guard = client
                    .lock("free")
                    .try_lock(ms(wait), Lease::Renewed)
                    .await
                    .unwrap();
                guard.unlock().await.unwrap();
            }
            // The last wait was long enough to be listed beside the lock.
            assert!(client.stats().releases_queued <= 1);
            rivals.unlock().await.unwrap();
        }
    }
}

/// Of two calls without a reply, the first is in doubt for longer, although its connection is gone.
#[tokio::test(start_paused = true)]
async fn the_older_of_two_calls_in_doubt_counts() {
    for fair in [false, true] {
        let mut came = 0;
        for seed in SEEDS {
            let testbed = Testbed::new(seed);
            testbed.slow(ms(30));
            let lock = if fair {
                testbed.client.fair_lock("x")
            } else {
                testbed.client.lock("x")
            };
            let taking =
                tokio::spawn(
                    async move { lock.try_lock(LONG, Lease::Fixed(LONG)).await.map(drop) },
                );
            let broken = testbed.breaks().await;
            let asked = testbed.asked();
            let sent = Faults {
                request: Delay::fixed(ms(20)),
                ..Faults::default()
            };
            testbed.link.set_faults(sent, seed);
            let connected = || testbed.client.stats().reconnects >= 2;
            let second = async || connected() && calls_on_their_way(&testbed.link) == 1;
            eventually("the second one is on the new line", second).await;
            // Its reply comes after its timeout, and the third call is executed as well.
            let late = Faults {
                reply: Delay::fixed(ms(1500)),
                ..Faults::default()
            };
            testbed.link.set_faults(late, seed);
            eventually("two of them are in doubt", async || {
                testbed.asked() > asked + 1
            })
            .await;
            taking.abort();
            testbed.is_fast_again();
            let free = async || testbed.redis.dump().is_empty();
            eventually("what is seen of it is undone", free).await;
            let what = if fair { "fair" } else { "plain" };
            came += u32::from(testbed.came_late(what, broken + LATE + UNDONE).await);
        }
        assert!((1..8).contains(&came), "{came} came late");
    }
}

/// Leaving the queue settles what is there at that time, but not what a late call takes afterwards.
#[tokio::test(start_paused = true)]
async fn a_late_call_of_a_waiter_that_timed_out_takes_nothing() {
    let mut came = 0;
    for seed in SEEDS {
        let testbed = Testbed::new(seed);
        let guard = testbed.rival.fair_lock("x").lock().await.unwrap();
        testbed.slow(ms(30));
        let lock = testbed.client.fair_lock("x");
        let taking = lock.try_lock(ms(3000), Lease::Fixed(LONG));
        let broken = async {
            let broken = testbed.breaks().await;
            testbed.is_fast_again();
            broken
        };
        let (taken, broken) = tokio::join!(taking, broken);
        assert!(
            taken.unwrap_err().is_timeout(),
            "its last question was answered"
        );
        guard.unlock().await.unwrap();
        came += u32::from(testbed.came_late("timed out", broken + LATE + UNDONE).await);
    }
    assert!((1..8).contains(&came), "{came} came late");
}

/// Otherwise the next local waiter would get the field of a call that may still run.
#[tokio::test(start_paused = true)]
async fn a_hold_that_was_in_doubt_is_not_handed_over() {
    let mut came = 0;
    for seed in SEEDS {
        let testbed = Testbed::new(seed);
        testbed.slow(ms(30));
        let lock = testbed.client.lock("x");
        let broken = async {
            let broken = testbed.breaks().await;
            testbed.is_fast_again();
            broken
        };
        let wanted = Lease::RenewedFor(LONG);
        let (guard, broken) = tokio::join!(lock.try_lock(LONG, wanted), broken);
        let guard = guard.unwrap();
        let next = testbed.client.lock("x");
        let next = tokio::spawn(async move { next.try_lock(LONG, wanted).await });
        waiting(&testbed.client, 1).await;
        guard.unlock().await.unwrap();
        let next = next.await.unwrap().unwrap();
        assert_eq!(testbed.client.stats().handed_over, 0);
        next.unlock().await.unwrap();
        came += u32::from(
            testbed
                .came_late("handed over", broken + LATE + UNDONE)
                .await,
        );
    }
    assert!((1..8).contains(&came), "{came} came late");
}

/// A re-entry or an inner release in flight could be executed for the next owner of the field.
#[tokio::test(start_paused = true)]
async fn a_hold_with_calls_that_are_not_settled_is_not_handed_over() {
    for case in ["on the wire", "in doubt", "made up for", "settled"] {
        let testbed = Testbed::new(0);
        let streak = LocalHandover::Streak {
            count: 9,
            time: LONG,
        };
        let client = connected(testbed.redis.builder().local_handover(streak)).await;
        let link = testbed.redis.links().pop().unwrap();
        let guard = client.lock("x").lock().await.unwrap();
        let next = client.lock("x");
        let next = tokio::spawn(async move { next.lock().await });
        waiting(&client, 1).await;
        let mut lowering = None;
        match case {
            "on the wire" => {
                // The call is sent, and its reply has not arrived.
                let mut inner = Box::pin(guard.reenter().await.unwrap().unlock());
                assert!(futures::poll!(inner.as_mut()).is_pending());
                lowering = Some(inner);
            }
            "settled" => guard.reenter().await.unwrap().unlock().await.unwrap(),
            _ => {
                link.mute();
                let again = timeout(ms(20), guard.reenter()).await;
                assert!(again.is_err(), "no answer");
            }
        }
        if case == "made up for" {
            link.heal();
            eventually("lowered", async || client.stats().releases_pending == 0).await;
        }
        drop(guard);
        link.heal();
        let next = next.await.unwrap().unwrap();
        assert_eq!(
            client.stats().handed_over,
            u64::from(case == "settled"),
            "{case}"
        );
        assert_eq!(next.hold_count(), 1);
        if let Some(lowering) = lowering {
            lowering.await.unwrap();
        }
        next.check().unwrap();
        next.unlock().await.unwrap();
    }
}

/// A hold whose renewal is on its way.
async fn held_under_a_renewal(request: Duration) -> (Testbed, LockGuard) {
    let mut testbed = Testbed::new(0);
    let streak = LocalHandover::Streak {
        count: 9,
        time: LONG,
    };
    let builder = testbed.redis.builder().local_handover(streak);
    // No poll is in flight instead of the renewal.
    let builder = builder.safety_poll(ms(60_000));
    testbed.client = builder.connect().await.unwrap();
    testbed.link = testbed.redis.links().pop().unwrap();
    let begin = Instant::now();
    let guard = testbed.client.lock("x").lock().await.unwrap();
    sleep_until(begin + ms(9_500)).await;
    testbed.slow(request);
    eventually("a renewal is on its way", async || {
        calls_on_their_way(&testbed.link) == 1
    })
    .await;
    testbed.is_fast_again();
    assert!(!testbed.redis.scripts_run().contains_key("lock_renew"));
    (testbed, guard)
}

/// The renewal was sent for the hold before, but what it finds is true of the field.
#[tokio::test(start_paused = true)]
async fn a_renewal_of_the_hold_before_finds_that_its_field_is_gone() {
    let (testbed, first) = held_under_a_renewal(ms(50)).await;
    let owner = first.owner().to_owned();
    let lock = testbed.client.lock("x");
    let mut unpolled = Box::pin(lock.lock());
    assert!(timeout(ms(1), unpolled.as_mut()).await.is_err(), "held");
    let last = testbed.client.lock("x");
    let last = tokio::spawn(async move { last.lock().await.unwrap() });
    waiting(&testbed.client, 2).await;
    drop(testbed.redis.command(&["DEL", "x"]));
    first.unlock().await.unwrap();
    // The next waiter has it by now, and is passed over.
    let last = last.await.unwrap();
    assert_ne!(last.owner(), owner, "what is gone was handed over");
}

/// Leases that end while their grants are in flight, picked up, handed over or released.
#[tokio::test(start_paused = true)]
async fn leases_about_as_long_as_a_reply_takes_wedge_no_name() {
    const NAMES: usize = 40;
    let lease = Lease::Fixed(ms(10));
    let redis = Bed::engine();
    let client = redis.client();
    let link = redis.links().pop().unwrap();
    let reply = Delay::between(Duration::from_micros(6500), ms(9));
    link.set_faults(
        Faults {
            reply,
            ..Faults::default()
        },
        1,
    );
    let end = Instant::now() + ms(2000);
    let takers = (0..NAMES * 3).map(|number| {
        let lock = client.lock(format!("n{}", number % NAMES));
        tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(number as u64);
            while Instant::now() < end {
                let Ok(guard) = lock.try_lock(ms(random.u64(0..100)), lease).await else {
                    continue;
                };
                sleep(Duration::from_micros(random.u64(0..12_000))).await;
                if random.bool() {
                    drop(guard.unlock().await);
                }
            }
        })
    });
    for taker in takers.collect::<Vec<_>>() {
        taker.await.unwrap();
    }
    link.set_faults(Faults::default(), 1);
    for number in 0..NAMES {
        let lock = client.lock(format!("n{number}"));
        release(lock.try_lock(ms(1000), lease).await).await;
    }
    assert!(client.stats().lost > 0, "some leases ended first");
}

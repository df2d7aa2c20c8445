//! Replies that never come: nothing is held twice, nothing is held for ever, nobody else's hold ends.
//!
//! The client under test goes through a proxy that swallows, delays and cuts; Redis is watched and
//! contended for directly.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{Client, Error, HoldState, LocalHandover, LockGuard, LossReason};
use parking_lot::Mutex;

use crate::bed::{
    Outside, alone, assert_unknown, at_rest, beside, brisk, connect, hold, ms, note, seed, size,
    until, within,
};
use crate::support::proxy::Proxy;
use crate::support::server::Server;

const LIMIT: Duration = Duration::from_secs(30);
const LEASE: Duration = ms(1_500);
/// From the end of a fault to the end of what it left: a reconnect and a repetition.
pub(crate) const HEALED: Duration = ms(1_500);

pub(crate) struct Bed {
    pub(crate) server: Server,
    pub(crate) proxy: Proxy,
    /// Through the proxy.
    pub(crate) client: Client,
    /// Directly.
    pub(crate) rival: Client,
    pub(crate) outside: Outside,
}

impl Bed {
    pub(crate) async fn new() -> Self {
        let server = Server::start();
        let proxy = Proxy::start(server.address());
        let client = brisk(&proxy.url()).lease(LEASE).connect().await.expect("connects");
        let rival = connect(&server.url()).await;
        let outside = Outside::of(&server);
        // All scripts are known to the server: a call is one round trip.
        for client in [&client, &rival] {
            let mut lock = client.lock("warm");
            let outer = lock.lock().await.expect("free");
            lock.lock().await.expect("its own").unlock().await.expect("held");
            outer.unlock().await.expect("held");
        }
        Bed { server, proxy, client, rival, outside }
    }

    /// The rival gets the lock within `limit`, keeps it while the other client settles, and is not
    /// disturbed.
    async fn rival_takes(&mut self, name: &str, limit: Duration) {
        let mut lock = self.rival.lock(name);
        let guard = within("the rival's turn", limit, lock.lock()).await.expect("free");
        let owner = guard.owner().to_owned();
        let end = Instant::now() + ms(600);
        until("repetitions pass by", LIMIT, || {
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
        let mut bed = Bed::new().await;
        bed.proxy.swallow_replies();
        let mut lock = bed.client.lock("n");
        let started = Instant::now();
        let outcome = lock.try_lock(ms(200), ms(20_000)).await;
        assert!(started.elapsed() < ms(250), "{:?}", started.elapsed());
        assert!(outcome.as_ref().is_err_and(Error::may_be_held), "{outcome:?}");
        assert_unknown(outcome);
        bed.proxy.pass();
        until("it is undone", HEALED, || !bed.outside.exists("n")).await;
        bed.rival_takes("n", ms(200)).await;
        // The undo is repeated for a lease: nothing may come later.
        assert!(bed.client.stats().holds == 0);
    });
}

#[test]
fn an_acquisition_whose_reply_is_lost_stays_unknown_when_the_line_goes_down() {
    beside(LIMIT, async {
        let mut bed = Bed::new().await;
        bed.proxy.swallow_replies();
        let mut lock = bed.client.lock("n");
        let taking = tokio::spawn(async move { lock.try_lock(ms(1_000), ms(20_000)).await });
        until("redis granted it", LIMIT, || bed.outside.exists("n")).await;
        bed.proxy.refuse();
        bed.proxy.cut();
        // The later calls were certainly not applied, but the first was.
        assert_unknown(within("an answer", ms(1_100), taking).await.expect("no panic"));
        assert!(bed.outside.exists("n"));
        bed.proxy.pass();
        until("it is undone", HEALED, || !bed.outside.exists("n")).await;
        bed.rival_takes("n", ms(200)).await;
    });
}

#[test]
fn a_release_whose_reply_is_lost_stays_unknown_when_the_line_goes_down() {
    beside(LIMIT, async {
        let bed = Bed::new().await;
        let guard = hold(&bed.client, "n").await;
        bed.proxy.swallow_replies();
        let releasing = tokio::spawn(guard.unlock());
        let mut outside = bed.outside;
        until("redis released it", LIMIT, || !outside.exists("n")).await;
        bed.proxy.refuse();
        bed.proxy.cut();
        assert_unknown(within("an answer", ms(1_500), releasing).await.expect("no panic"));
        bed.proxy.pass();
        at_rest(&bed.client, LEASE + HEALED).await;
    });
}

#[test]
fn an_acquisition_that_never_arrived_is_unknown_and_leaves_nothing() {
    beside(LIMIT, async {
        let mut bed = Bed::new().await;
        bed.proxy.swallow_requests();
        let mut lock = bed.client.lock("n");
        assert_unknown(lock.try_lock(ms(200), LEASE).await);
        assert!(!bed.outside.exists("n"));
        bed.proxy.pass();
        bed.rival_takes("n", ms(200)).await;
        at_rest(&bed.client, LEASE + HEALED).await;
        assert_eq!(bed.outside.keys(), 0);
    });
}

#[test]
fn a_patient_acquisition_gets_its_lost_grant_back() {
    beside(LIMIT, async {
        let mut bed = Bed::new().await;
        bed.proxy.swallow_replies();
        let mut lock = bed.client.lock("n");
        let taking = tokio::spawn(async move { lock.lock().await });
        until("redis granted it", LIMIT, || bed.outside.exists("n")).await;
        let granted = bed.outside.holds("n");
        bed.proxy.pass();
        let guard = within("the grant", HEALED, taking).await.expect("no panic").expect("its own");
        assert_eq!(bed.outside.holds("n"), granted, "the same field, once");
        assert_eq!(granted, [(guard.owner().to_owned(), 1)]);
        guard.unlock().await.expect("held");
        assert_eq!(bed.outside.keys(), 0);
        // An attempt of the lost connection might come late: the undo goes on for a lease.
        at_rest(&bed.client, LEASE + HEALED).await;
        assert_eq!(bed.outside.keys(), 0);
    });
}

#[test]
fn a_slow_grant_counts_from_when_it_was_asked_for() {
    beside(LIMIT, async {
        let bed = Bed::new().await;
        bed.proxy.delay_replies(ms(200));
        let mut lock = bed.client.lock("n");
        let asked = tokio::time::Instant::now();
        let guard = lock.try_lock(ms(1_000), LEASE).await.expect("free");
        assert!(asked.elapsed() >= ms(200));
        // Redis counts from when it ran the script, which is soon after it was asked.
        assert!(guard.deadline() < asked + LEASE, "{:?}", guard.deadline() - asked);
        bed.proxy.flow();
        within("lost", LEASE, guard.lost()).await;
    });
}

#[test]
fn an_acquisition_cut_off_before_its_reply_is_neither_lost_nor_doubled() {
    alone(LIMIT, async {
        let mut bed = Bed::new().await;
        for round in 0..10 {
            bed.proxy.delay_replies(ms(30));
            let mut lock = bed.client.lock("n");
            let taking = tokio::spawn(async move { lock.lock().await });
            until("redis granted it", LIMIT, || bed.outside.exists("n")).await;
            bed.proxy.pass();
            let guard = within("the grant", HEALED, taking).await.expect("no panic");
            let guard = guard.expect("its own");
            assert_eq!(bed.outside.holds("n"), [(guard.owner().to_owned(), 1)], "round {round}");
            guard.unlock().await.expect("held");
            assert!(!bed.outside.exists("n"));
        }
        at_rest(&bed.client, LEASE + HEALED).await;
        assert_eq!(bed.outside.keys(), 0);
    });
}

#[test]
fn a_dropped_acquisition_whose_reply_is_lost_is_undone() {
    beside(LIMIT, async {
        let mut bed = Bed::new().await;
        bed.proxy.swallow_replies();
        let mut lock = bed.client.lock("n");
        let taking = tokio::spawn(async move { lock.lock().await.map(drop) });
        until("redis granted it", LIMIT, || bed.outside.exists("n")).await;
        taking.abort();
        bed.proxy.pass();
        until("it is undone", HEALED, || !bed.outside.exists("n")).await;
        bed.rival_takes("n", ms(200)).await;
    });
}

#[test]
fn a_re_entry_whose_reply_is_lost_leaves_the_outer_hold() {
    beside(LIMIT, async {
        let mut bed = Bed::new().await;
        let mut lock = bed.client.lock("n");
        let outer = lock.try_lock(Duration::ZERO, ms(20_000)).await.expect("free");
        let owner = outer.owner().to_owned();
        bed.proxy.swallow_replies();
        assert_unknown(lock.try_lock(ms(200), ms(20_000)).await);
        outer.check().expect("the outer hold is not touched");
        assert_eq!(outer.hold_count(), 1);
        bed.proxy.pass();
        until("the count is right", HEALED, || bed.outside.holds("n") == [(owner.clone(), 1)])
            .await;
        outer.unlock().await.expect("held all the time");
        assert!(!bed.outside.exists("n"));
        at_rest(&bed.client, HEALED).await;
    });
}

#[test]
fn an_inner_release_whose_reply_is_lost_does_not_free_the_outer_hold() {
    beside(LIMIT, async {
        let mut bed = Bed::new().await;
        let mut lock = bed.client.lock("n");
        let outer = lock.try_lock(Duration::ZERO, ms(20_000)).await.expect("free");
        let owner = outer.owner().to_owned();
        let inner = lock.lock().await.expect("its own");
        bed.proxy.swallow_replies();
        assert_unknown(within("an answer", ms(1_000), inner.unlock()).await);
        outer.check().expect("the outer hold is not touched");
        bed.proxy.pass();
        until("the count is right", HEALED, || bed.outside.holds("n") == [(owner.clone(), 1)])
            .await;
        let end = Instant::now() + ms(300);
        until("repetitions pass by", LIMIT, || {
            assert_eq!(bed.outside.holds("n"), [(owner.clone(), 1)]);
            Instant::now() > end
        })
        .await;
        outer.unlock().await.expect("held all the time");
        at_rest(&bed.client, HEALED).await;
    });
}

#[test]
fn a_release_whose_first_reply_is_lost_is_ok_once() {
    alone(LIMIT, async {
        let mut bed = Bed::new().await;
        let guard = hold(&bed.client, "n").await;
        bed.proxy.swallow_replies();
        let releasing = tokio::spawn(guard.unlock());
        until("redis released it", LIMIT, || !bed.outside.exists("n")).await;
        // Somebody else has it before the repetition comes.
        let other = hold(&bed.rival, "n").await;
        bed.proxy.pass();
        let outcome = within("the release", HEALED, releasing).await.expect("no panic");
        outcome.expect("the first of the two did it");
        assert_eq!(bed.outside.holds("n"), [(other.owner().to_owned(), 1)]);
        other.unlock().await.expect("not touched by the repetition");
        at_rest(&bed.client, HEALED).await;
    });
}

#[test]
fn a_release_on_a_line_that_was_just_cut_is_ok() {
    alone(LIMIT, async {
        let bed = Bed::new().await;
        // Not many: the pause before a connection is made again grows if they do not last.
        for round in 0..5 {
            let guard = hold(&bed.client, "n").await;
            bed.proxy.cut();
            let outcome = within("the release", HEALED, guard.unlock()).await;
            outcome.unwrap_or_else(|error| panic!("round {round}: {error:?}"));
        }
        at_rest(&bed.client, LEASE + HEALED).await;
    });
}

#[test]
fn a_release_without_any_reply_is_unknown_and_releases_nobody_else() {
    beside(LIMIT, async {
        let mut bed = Bed::new().await;
        let guard = hold(&bed.client, "n").await;
        bed.proxy.swallow_replies();
        let started = Instant::now();
        assert_unknown(within("an answer", ms(1_000), guard.unlock()).await);
        assert!(started.elapsed() < ms(900), "{:?}", started.elapsed());
        // It was applied: the rival takes over while the client goes on repeating.
        bed.rival_takes("n", ms(200)).await;
        let guard = hold(&bed.rival, "n").await;
        bed.proxy.pass();
        at_rest(&bed.client, LEASE + HEALED).await;
        assert_eq!(bed.outside.holds("n"), [(guard.owner().to_owned(), 1)]);
        guard.unlock().await.expect("held");
    });
}

#[test]
fn a_release_that_never_arrived_is_repeated_until_it_does() {
    beside(LIMIT, async {
        let mut bed = Bed::new().await;
        let mut lock = bed.client.lock("n");
        let guard = lock.try_lock(Duration::ZERO, ms(20_000)).await.expect("free");
        bed.proxy.half_open();
        let outcome = within("an answer", ms(1_500), guard.unlock()).await;
        let told = matches!(outcome, Err(Error::Unknown { .. } | Error::Unavailable { .. }));
        assert!(told, "{outcome:?}");
        assert!(bed.outside.exists("n"), "the lease goes on");
        bed.proxy.pass();
        until("it is released", HEALED, || !bed.outside.exists("n")).await;
        at_rest(&bed.client, HEALED).await;
    });
}

#[test]
fn a_dropped_guard_is_released_when_the_line_is_back() {
    beside(LIMIT, async {
        let mut bed = Bed::new().await;
        let mut lock = bed.client.lock("n");
        let guard = lock.try_lock(Duration::ZERO, ms(20_000)).await.expect("free");
        bed.proxy.half_open();
        drop(guard);
        assert!(bed.outside.exists("n"));
        bed.proxy.pass();
        until("it is released", HEALED, || !bed.outside.exists("n")).await;
        at_rest(&bed.client, HEALED).await;
    });
}

#[test]
fn renewals_without_replies_make_a_hold_uncertain_then_lost_and_then_free() {
    for applied in [true, false] {
        beside(LIMIT, async {
            let mut bed = Bed::new().await;
            let guard = hold(&bed.client, "n").await;
            if applied {
                bed.proxy.swallow_replies();
            } else {
                bed.proxy.half_open();
            }
            let cut = Instant::now();
            until("uncertain", LEASE, || guard.state() == HoldState::Uncertain).await;
            guard.check().expect("nobody else can have it yet");
            assert!(bed.outside.exists("n"));
            let lost = tokio::spawn(guard.lost());
            let reason = within("lost", LEASE, lost).await.expect("no panic");
            let after = cut.elapsed();
            assert_eq!(reason, LossReason::Expired);
            assert!(after < LEASE + ms(50), "{after:?}");
            // The guard knows first, by a margin of 2.5 ms: if we look in time. Where calls get
            // through, the client releases what is lost, and may be quicker than this look.
            let there = bed.outside.exists("n") || applied;
            let late = guard.deadline().elapsed();
            assert!(there || late > ms(2), "redis ended it first, {late:?} after the deadline");
            // Never longer than another lease, whatever became of the renewals.
            let started = Instant::now();
            until("free", LEASE + ms(200), || !bed.outside.exists("n")).await;
            note(&format!("applied {applied}: lost {after:?}, free {:?} later", started.elapsed()));
            bed.proxy.pass();
            bed.rival_takes("n", ms(200)).await;
            assert_eq!(guard.state(), HoldState::Lost, "for ever");
            let outcome = guard.unlock().await;
            let expired = Error::Lost { name: "n".into(), reason: LossReason::Expired };
            assert_eq!(format!("{outcome:?}"), format!("{:?}", Err::<(), _>(expired)));
            at_rest(&bed.client, LEASE + HEALED).await;
        });
    }
}

#[test]
fn a_short_outage_of_renewals_costs_nothing() {
    beside(LIMIT, async {
        let mut bed = Bed::new().await;
        let guard = hold(&bed.client, "n").await;
        for _ in 0..3 {
            bed.proxy.half_open();
            until("uncertain", LEASE, || guard.state() == HoldState::Uncertain).await;
            bed.proxy.pass();
            until("held", LEASE, || guard.state() == HoldState::Held).await;
            assert_eq!(bed.outside.holds("n"), [(guard.owner().to_owned(), 1)]);
        }
        guard.unlock().await.expect("held all the time");
        at_rest(&bed.client, HEALED).await;
    });
}

/// Replies that come after their callers have gone must not reach anybody else.
#[test]
fn a_late_reply_is_nobody_elses() {
    let seed = seed("a_late_reply");
    alone(LIMIT, async move {
        let bed = Bed::new().await;
        let end = Instant::now() + ms(5_000);
        let tasks: Vec<_> = (0..8_u64)
            .map(|task| {
                let mut random = fastrand::Rng::with_seed(seed ^ task);
                let name = format!("n{task}");
                let (mut mine, mut theirs) = (bed.client.lock(&name), bed.rival.lock(&name));
                let (mut outside, rival) = (Outside::of(&bed.server), bed.rival.clone());
                tokio::spawn(async move {
                    let mut granted = 0;
                    while Instant::now() < end {
                        // Half of the time somebody else holds it: then no reply may grant it.
                        let other = random.bool().then(|| theirs.try_lock(ms(2_000), LEASE));
                        let other = match other {
                            Some(other) => other.await.ok(),
                            None => None,
                        };
                        let taken = mine.try_lock(ms(random.u64(0..600)), LEASE).await;
                        if let Ok(guard) = &taken {
                            let late = guard.check().is_err();
                            let holds = outside.holds(&name);
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
            bed.proxy.delay_replies(ms(random.u64(0..500)));
            tokio::time::sleep(ms(random.u64(50..400))).await;
            bed.proxy.delay_replies(Duration::ZERO);
            tokio::time::sleep(ms(random.u64(50..400))).await;
        }
        let mut granted = 0;
        for task in tasks {
            granted += task.await.expect("no panic");
        }
        note(&format!("late replies: {granted} grants, all right; {:?}", bed.client.stats()));
        assert!(granted > 0);
        at_rest(&bed.client, LEASE * 2 + HEALED).await;
    });
}

#[test]
fn a_hand_over_whose_reply_is_lost_is_never_two_holds() {
    alone(LIMIT, async {
        for fixed in [false, true] {
            let server = Server::start();
            let proxy = Proxy::start(server.address());
            let client = brisk(&proxy.url())
                .lease(LEASE)
                .local_handover(LocalHandover::Streak { count: 1_000, time: LIMIT })
                .connect()
                .await
                .expect("connects");
            let rival = connect(&server.url()).await;
            let mut outside = Outside::of(&server);
            let lease = move || -> leasehold::Lease {
                if fixed { LEASE.into() } else { leasehold::Lease::Renewed }
            };
            // Once without a fault: the scripts are known then.
            for lose in [false, true] {
                let mut first = client.lock("n");
                let mut second = client.lock("n");
                let guard = first.try_lock(ms(1_000), lease()).await.expect("free");
                let next = tokio::spawn(async move { second.try_lock(LIMIT, lease()).await });
                until("the next waits", LIMIT, || client.stats().waiting == 1).await;
                if lose {
                    proxy.swallow_replies();
                }
                drop(guard);
                let mut other = rival.lock("n");
                let theirs = tokio::spawn(async move { other.try_lock(LIMIT, LEASE).await });
                let (mut most, end) = (0, Instant::now() + ms(700));
                until("the take-over is lost", LIMIT, || {
                    most = most.max(outside.holds("n").len());
                    Instant::now() > end
                })
                .await;
                proxy.pass();
                // Both get it, one after the other.
                let (next, theirs) = (spans(next), spans(theirs));
                let (next, theirs) = tokio::join!(next, theirs);
                assert!(most <= 1, "two holds at once");
                assert!(disjoint(&[next, theirs]), "{next:?} {theirs:?}");
                until("free", LEASE + HEALED, || !outside.exists("n")).await;
                at_rest(&client, LEASE + HEALED).await;
            }
        }
    });
}

/// From when to when somebody believed to hold the lock.
type Span = (Instant, Instant);

async fn spans(taking: tokio::task::JoinHandle<Result<LockGuard, Error>>) -> Option<Span> {
    let guard = within("a turn", LIMIT, taking).await.expect("no panic").ok()?;
    let from = Instant::now();
    tokio::time::sleep(ms(20)).await;
    let until = if guard.check().is_ok() { Instant::now() } else { guard.deadline().into_std() };
    drop(guard);
    Some((from, until.max(from)))
}

fn disjoint(spans: &[Option<Span>]) -> bool {
    let mut spans: Vec<Span> = spans.iter().copied().flatten().collect();
    spans.sort_unstable();
    spans.windows(2).all(|pair| pair[0].1 <= pair[1].0)
}

/// Several clients, each behind a line of its own that misbehaves at random; all that anybody
/// believed is compared at the end, on one clock.
#[test]
fn no_two_guards_believe_at_once_whatever_the_lines_do() {
    let seconds = size("LEASEHOLD_CHAOS_SECONDS", 12);
    let seed = seed("no_two_guards");
    let limit = Duration::from_secs(seconds as u64) + LIMIT;
    alone(limit, async move {
        let server = Server::start();
        let end = Instant::now() + Duration::from_secs(seconds as u64);
        let spans = Arc::new(Mutex::new(Vec::new()));
        let (mut tasks, mut clients, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        for line in 0..3_u64 {
            let proxy = Arc::new(Proxy::start(server.address()));
            let client = brisk(&proxy.url()).command_timeout(ms(100)).lease(ms(400)).connect();
            let client = client.await.expect("connects");
            for task in 0..6 {
                let random = fastrand::Rng::with_seed(seed ^ (line << 32) ^ task);
                tasks.push(tokio::spawn(contend(client.clone(), random, spans.clone(), end)));
            }
            let random = fastrand::Rng::with_seed(seed.wrapping_add(line));
            tasks.push(tokio::spawn(misbehave(proxy.clone(), random, end)));
            clients.push(client);
            lines.push(proxy);
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        for line in &lines {
            line.pass();
        }
        let mut outside = Outside::of(&server);
        until("free at the end", ms(5_000), || outside.keys() == 0).await;
        for client in &clients {
            at_rest(client, ms(5_000)).await;
        }
        let spans: Vec<Option<Span>> = spans.lock().iter().copied().map(Some).collect();
        let stats: Vec<_> = clients.iter().map(Client::stats).collect();
        note(&format!("{} sections; {stats:#?}", spans.len()));
        assert!(spans.len() > seconds * 5, "hardly anybody got in: {}", spans.len());
        assert!(disjoint(&spans), "two at once; seed {seed}");
    });
}

async fn contend(
    client: Client,
    mut random: fastrand::Rng,
    spans: Arc<Mutex<Vec<Span>>>,
    end: Instant,
) {
    let mut lock = client.lock("n");
    while Instant::now() < end {
        let wait = ms(random.u64(0..300));
        let taken = if random.bool() {
            lock.try_lock(wait, leasehold::Lease::Renewed).await
        } else {
            lock.try_lock(wait, ms(random.u64(20..300))).await
        };
        let Ok(guard) = taken else {
            tokio::time::sleep(ms(random.u64(0..20))).await;
            continue;
        };
        let from = Instant::now();
        if guard.check().is_err() {
            continue;
        }
        let stay = if random.u8(0..20) == 0 { random.u64(0..600) } else { random.u64(0..4) };
        tokio::time::sleep(ms(stay)).await;
        // What the guard vouches for: until now, or until its deadline passed.
        let to = if guard.check().is_ok() { Instant::now() } else { guard.deadline().into_std() };
        spans.lock().push((from, to.max(from)));
        if random.bool() {
            drop(guard);
        } else {
            // Lost, unknown and unavailable are all to be expected here.
            drop(guard.unlock().await);
        }
    }
}

async fn misbehave(line: Arc<Proxy>, mut random: fastrand::Rng, end: Instant) {
    while Instant::now() < end {
        tokio::time::sleep(ms(random.u64(50..800))).await;
        let fault = random.u8(0..6);
        match fault {
            0 => line.swallow_replies(),
            1 => line.swallow_requests(),
            2 => line.half_open(),
            3 => line.cut(),
            4 => line.delay_replies(ms(random.u64(1..150))),
            _ => {
                line.refuse();
                line.cut();
            }
        }
        tokio::time::sleep(ms(random.u64(1..250))).await;
        // A stream with a piece missing is nothing that a network does: such a connection ends.
        if fault > 2 && random.bool() { line.flow() } else { line.pass() }
    }
}

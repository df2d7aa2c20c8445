//! A hold lasts as long as it should and no longer, and its holder learns of a loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leasehold::{
    Client, Error, ExpirablePermit, Lease, LockGuard, LossReason, SemaphorePermit, Stats,
};
use leasehold_testbed::{
    Borrowed, KINDS, Outside, Proxy, Server, assert_lost, connected, eventually_within, lost, ms,
    until_certain, until_stats, within,
};

use crate::testbed::{
    GIVEN_UP, LATE, SILENCE, alone, at_rest, beside, block_on, brisk, builder, connect, cut_after,
    hold, note, runtime, seed, size, turn,
};

const LIMIT: Duration = Duration::from_secs(60);
const LEASE: Duration = ms(6_000);
/// A renewal is due every third of the lease. The rest is for its round trip, and ends before the
/// next one is due.
const TICK: Duration = ms(2_000 + 1_900);

/// The shortest remaining lease of many keys, and the number of missing keys.
const SHORTEST: &str = "
local least, gone = 1e9, 0
for i = 0, ARGV[1] - 1 do
  local left = redis.call('pttl', 'n' .. i)
  if left < 0 then gone = gone + 1 elseif left < least then least = left end
end
return {least, gone}";

#[test]
fn blocked_workers_cost_nobody_a_lock() {
    let _turn = turn();
    let holds = size("LEASEHOLD_HOLDS", 2_000);
    // What is left of the lease at a renewal is enough even for a machine that stalls for a moment.
    let lease = ms(5_000);
    let time = lease * u32::try_from(size("LEASEHOLD_LEASES", 3)).expect("not too many");
    let server = Server::start();
    let callers = runtime(2);
    block_on(LIMIT + time, async {
        let mut outside = Outside::of(&server);
        let url = server.url();
        let taking = callers.spawn(async move {
            let client = connected(builder(&url).lease(lease)).await;
            let locks = (0..holds).map(|number| {
                let lock = client.lock(format!("n{number}"));
                async move { lock.lock().await.expect("free") }
            });
            let guards = futures::future::join_all(locks).await;
            (client, guards)
        });
        let (client, guards) = within(LIMIT, "all held", taking).await.expect("no panic");
        // Both workers at the same time: for 60 ms of every 100 ms, nothing of the caller runs.
        let (start, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        for _ in 0..2 {
            let stop = stop.clone();
            callers.spawn(async move {
                while !stop.load(Relaxed) {
                    while start.elapsed().subsec_millis() % 100 < 60 {
                        std::hint::spin_loop();
                    }
                    let rest = 100 - start.elapsed().subsec_millis() % 100;
                    tokio::time::sleep(ms(rest.into())).await;
                }
            });
        }
        let (mut shortest, mut samples, count) = (i64::MAX, 0, holds.to_string());
        eventually_within(time + lease, "several leases", async || {
            let sample = outside.command(&["EVAL", SHORTEST, "0", &count]);
            assert_eq!(sample.array()[1].int(), 0, "a key is gone: {sample:?}");
            shortest = shortest.min(sample.array()[0].int());
            samples += 1;
            start.elapsed() > time
        })
        .await;
        stop.store(true, Relaxed);
        let stats = client.stats();
        note(&format!(
            "{holds} holds, {samples} samples: never below {shortest} ms; {stats:?}"
        ));
        assert!(shortest >= 1_250, "down to {shortest} ms of {lease:?}");
        assert_eq!(stats.lost, 0);
        assert!(guards.iter().all(|guard| guard.check().is_ok()));
        drop(guards);
        eventually_within(ms(5_000), "all free", async || outside.keys() == 0).await;
        at_rest(&client, ms(5_000)).await;
    });
    callers.shutdown_timeout(ms(500));
}

#[test]
fn a_deleted_hold_is_lost_within_a_renewal_and_never_comes_back() {
    beside(LIMIT, async {
        let server = Borrowed::take();
        let client = connected(brisk(&server.url()).lease(LEASE)).await;
        let rival = connect(&server.url()).await;
        let mut outside = Outside::of(&server);
        let seed = seed("a_deleted_hold");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut longest = Duration::ZERO;
        for round in 0..4 {
            let guard = hold(&client, "n").await;
            let kept = hold(&client, "kept").await;
            let (started, pause) = (Instant::now(), ms(random.u64(0..2_000)));
            eventually_within(LIMIT, "some time", async || started.elapsed() > pause).await;
            let deleted = Instant::now();
            assert_eq!(outside.command(&["DEL", "n"]).int(), 1);
            // In every other round, another owner takes the lock immediately.
            let theirs = if round % 2 == 0 {
                None
            } else {
                Some(hold(&rival, "n").await)
            };
            let expected: Vec<_> = theirs
                .iter()
                .map(|theirs| (theirs.owner().to_owned(), 1))
                .collect();
            let lost = tokio::spawn(lost(&guard));
            eventually_within(LIMIT, "several renewals", async || {
                assert_eq!(outside.holds("n"), expected, "resurrected");
                lost.is_finished() && deleted.elapsed() > LEASE
            })
            .await;
            assert_eq!(lost.await.expect("no panic"), LossReason::Gone);
            kept.check().expect("the other hold is not touched");
            longest = longest.max(lost_after(&client, &mut outside).await);
            let outcome = guard.unlock().await;
            assert!(matches!(outcome, Err(Error::Lost { .. })), "{outcome:?}");
            if let Some(theirs) = theirs {
                theirs.unlock().await.expect("not touched");
            }
            kept.unlock().await.expect("held");
        }
        note(&format!(
            "a deleted hold was lost after at most {longest:?}"
        ));
        at_rest(&client, LIMIT).await;
    });
}

/// How long it takes from a deletion until the guard reports it.
async fn lost_after(client: &Client, outside: &mut Outside) -> Duration {
    let guard = hold(client, "measured").await;
    outside.command(&["DEL", "measured"]);
    let deleted = Instant::now();
    assert_eq!(within(TICK, "lost", lost(&guard)).await, LossReason::Gone);
    deleted.elapsed()
}

#[test]
fn a_flushed_server_is_noticed_within_a_renewal() {
    beside(LIMIT, async {
        let server = Borrowed::take();
        let client = connected(brisk(&server.url()).lease(LEASE)).await;
        let mut outside = Outside::of(&server);
        let mut guards = Vec::new();
        for number in 0..200 {
            guards.push(hold(&client, &format!("n{number}")).await);
        }
        outside.command(&["FLUSHALL"]);
        let flushed = Instant::now();
        let losses = guards.iter().map(lost);
        let reasons = within(TICK, "all are lost", futures::future::join_all(losses)).await;
        assert!(
            reasons.iter().all(|reason| *reason == LossReason::Gone),
            "{reasons:?}"
        );
        note(&format!(
            "200 holds flushed: all told after {:?}",
            flushed.elapsed()
        ));
        assert_eq!(outside.keys(), 0);
        drop(guards);
        at_rest(&client, LIMIT).await;
    });
}

#[test]
fn a_server_that_comes_back_empty_is_noticed() {
    alone(LIMIT, async {
        let mut server = Server::start();
        let client = connected(brisk(&server.url()).lease(LEASE)).await;
        for _ in 0..3 {
            let guard = hold(&client, "n").await;
            let deadline = guard.deadline();
            server.restart();
            let up = Instant::now();
            let reason = within(LEASE + LATE, "lost", lost(&guard)).await;
            let gone = reason == LossReason::Gone;
            assert!(
                gone || tokio::time::Instant::now() >= deadline,
                "{reason:?}"
            );
            note(&format!(
                "restarted empty: {reason:?} {:?} after",
                up.elapsed()
            ));
            let mut outside = Outside::of(&server);
            let end = Instant::now() + ms(700);
            eventually_within(LIMIT, "renewals pass by", async || {
                assert!(!outside.exists("n"), "resurrected");
                Instant::now() > end
            })
            .await;
            drop(guard);
        }
        at_rest(&client, LIMIT).await;
    });
}

/// Holds of every kind, under names with this prefix.
struct OfEachKind {
    guards: Vec<(&'static str, LockGuard)>,
    permits: SemaphorePermit,
    expirable: ExpirablePermit,
}

impl OfEachKind {
    async fn take(client: &Client, prefix: &str) -> Self {
        let mut guards = Vec::new();
        for kind in &KINDS {
            let lock = kind.lock(client, &format!("{prefix}:{}", kind.name));
            guards.push((kind.name, lock.lock().await.expect("free")));
        }
        let semaphore = client.semaphore(format!("{prefix}:semaphore"));
        let expirable = client.permit_expirable_semaphore(format!("{prefix}:permit"));
        let permits = semaphore.with_limit(2).acquire(2).await;
        let expirable = expirable.with_limit(2).acquire(2, Lease::Renewed).await;
        OfEachKind {
            guards,
            permits: permits.expect("free"),
            expirable: expirable.expect("free"),
        }
    }

    fn guards(&self) -> impl Iterator<Item = (&'static str, &LockGuard)> {
        let locks = self.guards.iter().map(|(kind, guard)| (*kind, guard));
        let permits = self.permits.guard().expect("there are permits");
        locks.chain([("semaphore", permits), ("permit", &*self.expirable)])
    }

    async fn release(self) {
        for (kind, guard) in self.guards {
            guard.unlock().await.expect(kind);
        }
        self.permits.release().await.expect("semaphore");
        self.expirable.release().await.expect("permit");
    }
}

/// Deletes all keys with this prefix, those of the semaphores of this library included.
const DELETE: &str = "
for _, key in ipairs(redis.call('keys', '*' .. ARGV[1] .. ':*')) do redis.call('del', key) end";

/// Without waiting for renewals, which are due in twenty minutes. The server stays the same, so its identity tells nothing.
#[test]
fn after_a_reconnect_all_holds_are_verified_at_once() {
    alone(LIMIT, async {
        let server = Server::start();
        let client = connected(brisk(&server.url()).lease(ms(3_600_000))).await;
        let mut outside = Outside::of(&server);
        for _ in 0..3 {
            let kept = OfEachKind::take(&client, "kept").await;
            let gone = OfEachKind::take(&client, "gone").await;
            outside.command(&["EVAL", DELETE, "0", "gone"]);
            outside.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            for (kind, guard) in gone.guards() {
                let reason = within(LIMIT, kind, lost(guard)).await;
                assert_eq!(reason, LossReason::Gone, "{kind}");
            }
            // Each kind is asked about by a call of its own, so the last answer may not be there yet.
            for (_, guard) in kept.guards() {
                until_certain(guard).await;
            }
            kept.release().await;
        }
        at_rest(&client, LIMIT).await;
    });
}

/// A write could shorten the lease, or give one to a key without an expiry.
#[test]
fn a_fixed_lease_is_verified_without_a_write() {
    alone(LIMIT, async {
        let server = Server::start();
        let client = connected(brisk(&server.url())).await;
        let mut outside = Outside::of(&server);
        let lease = Lease::Fixed(ms(3_600_000));
        let jobs = client.permit_expirable_semaphore("jobs").with_limit(2);
        let permit = jobs.acquire(2, lease).await.expect("there are enough");
        let mut guards = Vec::new();
        for kind in &KINDS {
            let guard = kind.lock(&client, kind.name).try_lock_now(lease).await;
            guards.push((kind.name, guard.expect("free")));
        }
        outside.reset_stats();
        outside.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let all = |stats: &Stats| stats.renewed >= stats.holds;
        until_stats(&client, LIMIT, "all are verified", all).await;
        assert_eq!(outside.calls("pexpire") + outside.calls("zadd"), 0);
        permit.release().await.expect("held");
        for (_, guard) in guards {
            until_certain(&guard).await;
            guard.unlock().await.expect("held");
        }
        at_rest(&client, LIMIT).await;
    });
}

#[test]
fn a_dead_server_ends_holds_at_their_deadline() {
    alone(LIMIT, async {
        let mut server = Server::start();
        let proxy = Proxy::start(server.address());
        for cut in [false, true] {
            let url = if cut { proxy.url() } else { server.url() };
            // The lease ends long before a renewal in flight is given up.
            let client = builder(&url)
                .command_timeout(SILENCE)
                .lease(ms(600))
                .connect()
                .await;
            let client = client.expect("connects");
            let guard = hold(&client, "n").await;
            let fault = Instant::now();
            if cut {
                proxy.half_open();
            } else {
                server.kill();
            }
            let reason = within(GIVEN_UP, "lost", lost(&guard)).await;
            assert_eq!(reason, LossReason::Expired);
            let (late, after) = (guard.deadline().elapsed(), fault.elapsed());
            note(&format!(
                "cut {cut}: lost {after:?} after, {late:?} past the deadline"
            ));
            assert!(after < GIVEN_UP, "{after:?}");
            if !cut {
                server.restart();
            }
            drop(guard);
        }
    });
}

#[test]
fn work_stops_when_the_lock_is_lost() {
    beside(LIMIT, async {
        let server = Borrowed::take();
        let client = connected(brisk(&server.url()).lease(LEASE)).await;
        let guard = hold(&client, "n").await;
        let mut outside = Outside::of(&server);
        let dropped = Arc::new(AtomicBool::new(false));
        let mark = dropped.clone();
        let run = guard.run(async move {
            let _mark = Mark(mark);
            std::future::pending::<()>().await;
        });
        let delete = async { outside.command(&["DEL", "n"]) };
        let (outcome, _) = tokio::join!(within(TICK, "stopped", run), delete);
        assert_lost(&outcome.unwrap_err(), LossReason::Gone);
        assert!(dropped.load(Relaxed));
    });
}

struct Mark(Arc<AtomicBool>);

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_leaked_guard_is_ended_by_its_longest_hold() {
    beside(LIMIT, async {
        let server = Borrowed::take();
        // How much is left of the last renewed lease when the hold ends.
        let client = connected(brisk(&server.url()).lease(LATE * 2)).await;
        let mut outside = Outside::of(&server);
        let lock = client.lock("n");
        let (longest, started) = (ms(4_000), Instant::now());
        let guard = lock.acquire().max_hold(longest).await.expect("free");
        let lost = lost(&guard);
        std::mem::forget(guard);
        let reason = within(longest + LATE, "lost", lost).await;
        assert_eq!(reason, LossReason::MaxHold);
        assert!(
            started.elapsed() + ms(10) >= longest,
            "{:?}",
            started.elapsed()
        );
        assert!(client.stats().renewed > 0, "it was not forgotten before");
        eventually_within(LATE, "free", async || !outside.exists("n")).await;
    });
}

#[test]
fn fixed_leases_end_by_themselves_and_are_never_renewed() {
    beside(LIMIT, async {
        let server = Borrowed::take();
        // Renewed holds of this client are renewed once before the fixed lease ends, and last
        // longer.
        let (fixed, renewed) = (ms(4_000), LATE * 2);
        let client = connected(brisk(&server.url()).lease(renewed)).await;
        let mut outside = Outside::of(&server);
        let lock = client.lock("n");
        let started = Instant::now();
        let guard = lock.try_lock_now(Lease::Fixed(fixed)).await.expect("free");
        assert_eq!(
            within(fixed + LATE, "lost", lost(&guard)).await,
            LossReason::Expired
        );
        assert!(
            started.elapsed() + ms(100) >= fixed,
            "{:?}",
            started.elapsed()
        );
        eventually_within(LATE, "free", async || !outside.exists("n")).await;
        assert!(started.elapsed() < renewed, "{:?}", started.elapsed());
        assert_eq!(client.stats().renewed, 0);
        // A renewed lease on the same name has its full length immediately.
        let guard = lock.try_lock_now(Lease::Renewed).await.expect("free");
        assert!(outside.pttl("n") > 5_000, "{}", outside.pttl("n"));
        guard.unlock().await.expect("held");
        at_rest(&client, LIMIT).await;
    });
}

#[test]
fn quick_rounds_leave_no_key_and_no_entry() {
    let rounds = size("LEASEHOLD_ROUNDS", 10_000);
    let seed = seed("quick_rounds");
    alone(LIMIT + ms(rounds as u64), async move {
        let server = Borrowed::take();
        // No hold ends by its lease and no reply counts as lost, even if the machine stalls.
        let lease = ms(5_000);
        let client = builder(&server.url())
            .lease(lease)
            .command_timeout(SILENCE)
            .connect()
            .await;
        let client = client.expect("connects");
        let mut outside = Outside::of(&server);
        let tasks: Vec<_> = (0..16)
            .map(|task| {
                let random = fastrand::Rng::with_seed(seed ^ task);
                tokio::spawn(quick(client.clone(), random, rounds / 16))
            })
            .collect();
        let started = Instant::now();
        for task in tasks {
            task.await.expect("no panic");
        }
        let took = started.elapsed();
        at_rest(&client, ms(5_000)).await;
        eventually_within(ms(4_500), "no key is left", async || outside.keys() == 0).await;
        // A renewal that comes too late would show now.
        let end = Instant::now() + lease;
        eventually_within(LIMIT, "a lease", async || {
            assert_eq!(outside.keys(), 0, "a key came back");
            Instant::now() > end
        })
        .await;
        let stats = client.stats();
        note(&format!("{rounds} rounds in {took:?}: {stats:?}"));
        assert_eq!(
            (stats.holds, stats.releases_pending, stats.releases_failed),
            (0, 0, 0)
        );
        eventually_within(ms(10_000), "no subscription is kept", async || {
            client.stats().subscriptions == 0
        })
        .await;
    });
}

async fn quick(client: Client, mut random: fastrand::Rng, rounds: usize) {
    for _ in 0..rounds {
        let lock = client.lock(format!("n{}", random.u8(0..32)));
        let moment = Duration::from_micros(random.u64(0..600));
        match random.u8(0..6) {
            0 => drop(cut_after(moment, lock.lock()).await),
            1 => drop(cut_after(moment, lock.try_lock(ms(5), Lease::Fixed(ms(900)))).await),
            2 => drop(lock.lock().await.expect("redis is there")),
            3 => {
                let guard = lock.lock().await.expect("redis is there");
                drop(cut_after(moment, guard.unlock()).await);
            }
            4 => {
                let outer = lock.lock().await.expect("redis is there");
                drop(cut_after(moment, outer.reenter()).await);
                outer.unlock().await.expect("held");
            }
            _ => lock
                .lock()
                .await
                .expect("redis is there")
                .unlock()
                .await
                .expect("held"),
        }
    }
}

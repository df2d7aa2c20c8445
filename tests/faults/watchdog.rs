//! A hold lasts as long as it should and no longer, and its holder learns of a loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leasehold::{Client, ExpirablePermit, Lease, LockGuard, LossReason, SemaphorePermit, Stats};
use leasehold_testbed::{
    KINDS, Outside, Proxy, Server, connected, eventually_within, lost, ms, until_certain,
    until_stats, within,
};

use crate::testbed::{
    GIVEN_UP, SILENCE, alone, at_rest, block_on, brisk, builder, hold, note, runtime, size, turn,
};

const LIMIT: Duration = Duration::from_secs(60);

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

/// Without waiting for renewals, which are due in twenty minutes. The server stays the same, so its
/// identity tells nothing.
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
            // Each kind is asked about by a call of its own, so the last answer may not be there
            // yet.
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

//! Two threads end something at the same moment: a shutdown while guards are dropped, two guards of
//! one hold.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use leasehold::{Client, Lease, LockGuard};
use leasehold_testbed::{Borrowed, Outside, eventually_within, forget};

use crate::testbed::{alone, connect, note, size};

const LIMIT: Duration = Duration::from_secs(30);

/// Guards of one client in each round.
const GUARDS: usize = 10;

/// How a guard ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Drop,
    Unlock,
    /// While a task of the same client waits for the lock.
    DropBesideAWaiter,
    UnlockBesideAWaiter,
    /// Forgotten and restored.
    Restore,
}

const WAYS: [Way; 5] = [
    Way::Drop,
    Way::Unlock,
    Way::DropBesideAWaiter,
    Way::UnlockBesideAWaiter,
    Way::Restore,
];

const REMOVE: &str =
    "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0";

/// At `ac8ccd1`, 34 to 250 of 1,500 holds stayed until their leases ended, although the shutdown
/// returned `Ok`.
#[test]
fn a_shutdown_beside_guards_that_go_leaves_nothing() {
    alone(10 * LIMIT, async {
        let server = Borrowed::take();
        let mut outside = Outside::of(&server);
        let rounds = size("LEASEHOLD_SHUTDOWNS", 40);
        for way in WAYS {
            for round in 0..rounds {
                let client = connect(&server.url()).await;
                let guards = guards(&client, way).await;
                let (names, owners): (Vec<_>, Vec<_>) = guards
                    .iter()
                    .map(|one| (one.name().to_owned(), one.owner().to_owned()))
                    .unzip();
                let ending = going(&client, guards, way);
                for _ in 0..fastrand::u32(0..300) {
                    std::hint::spin_loop();
                }
                client.shutdown(LIMIT).await.expect("redis confirms all");
                // A hold that was not restored keeps its owner.
                let forgotten = |outside: &mut Outside, (name, owner): (&String, &String)| {
                    way == Way::Restore
                        && outside.command(&["EVAL", REMOVE, "1", name, owner]).int() == 1
                };
                let kept = names.iter().zip(&owners);
                let kept = kept.filter(|one| forgotten(&mut outside, *one)).count();
                // The counters of tokens stay.
                let left = outside.keys() - outside.keys_like("redisson_lock_token:*");
                ending.join().expect("no panic");
                assert_eq!(
                    left, 0,
                    "{way:?}, round {round} of {rounds}, beside {kept} forgotten"
                );
            }
        }
        note(&format!(
            "{} guards each of {WAYS:?}: nothing left",
            rounds * GUARDS
        ));
    });
}

async fn guards(client: &Client, way: Way) -> Vec<LockGuard> {
    let mut guards = Vec::with_capacity(GUARDS);
    for number in 0..GUARDS {
        // One kind is handed over without a call, the other is not.
        let lock = match number % 2 {
            _ if way == Way::Restore => client.string_lock(format!("n{number}")),
            0 => client.lock(format!("n{number}")),
            _ => client.fenced_lock(format!("n{number}")).into(),
        };
        guards.push(lock.lock().await.expect("free"));
        if matches!(way, Way::DropBesideAWaiter | Way::UnlockBesideAWaiter) {
            tokio::spawn(async move { lock.lock().await.map(drop) });
        }
    }
    let waiters = client.stats().waiting;
    if matches!(way, Way::DropBesideAWaiter | Way::UnlockBesideAWaiter) {
        eventually_within(LIMIT, "all queued", async || {
            client.stats().waiting == GUARDS as u64
        })
        .await;
    } else {
        assert_eq!(waiters, 0);
    }
    guards
}

/// Ends the guards one after another on another thread.
fn going(client: &Client, guards: Vec<LockGuard>, way: Way) -> std::thread::JoinHandle<()> {
    let (client, runtime) = (client.clone(), tokio::runtime::Handle::current());
    let (mut guards, mut forgotten) = (guards, Vec::new());
    if way == Way::Restore {
        let forgetting = guards.drain(..);
        forgotten.extend(forgetting.map(|one| (one.name().to_owned(), forget(one))));
    }
    std::thread::spawn(move || {
        for guard in guards {
            match way {
                // Also without being polled.
                Way::Unlock | Way::UnlockBesideAWaiter if fastrand::bool() => drop(guard.unlock()),
                Way::Unlock | Way::UnlockBesideAWaiter => {
                    let _lost_or_not = runtime.block_on(guard.unlock());
                }
                Way::Drop | Way::DropBesideAWaiter | Way::Restore => drop(guard),
            }
        }
        for (name, owner) in forgotten {
            let _closed_or_not = runtime.block_on(client.string_lock(&name).restore(&owner));
        }
    })
}

/// At `ac8ccd1`, 21 of 20,000 unlocks reported that the lock was lost.
#[test]
fn two_guards_of_one_hold_may_go_at_once() {
    alone(10 * LIMIT, async {
        let server = Borrowed::take();
        let client = connect(&server.url()).await;
        let rounds = size("LEASEHOLD_ROUNDS", 10_000) / 5;
        let lock = client.lock("n");
        for round in 0..rounds {
            let outer = lock
                .try_lock(LIMIT, Lease::Fixed(Duration::from_secs(60)))
                .await
                .expect("free");
            let inner = outer.reenter().await.expect("held");
            let start = Arc::new(Barrier::new(2));
            let end = |guard: LockGuard| {
                let (start, runtime) = (start.clone(), tokio::runtime::Handle::current());
                tokio::task::spawn_blocking(move || {
                    start.wait();
                    runtime.block_on(guard.unlock())
                })
            };
            let (one, other) = tokio::join!(end(outer), end(inner));
            one.expect("no panic")
                .unwrap_or_else(|error| panic!("round {round}: {error}"));
            other
                .expect("no panic")
                .unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    });
}

//! A search on a server that refuses keys that the caller of a script has not declared. Only an
//! engine in memory has the switch.

use leasehold::test_util::{Profile, Undeclared};
use leasehold::{Client, EmbeddedRedis, Lease, LockGuard};
use leasehold_admin::{Admin, LockInfo};
use leasehold_testbed::{KINDS, ms};
use tokio::time::sleep;

const STRICT: Profile = Profile {
    name: "strict",
    undeclared: Undeclared::Refused("ERR undeclared"),
    without_keys: Some("ERR no keys"),
    ..Profile::REDIS
};

async fn on(profile: Profile) -> (EmbeddedRedis, Client) {
    let engine = EmbeddedRedis::with_profile(profile);
    let client = engine.builder().connect().await.unwrap();
    (engine, client)
}

async fn reader(client: &Client, lease: Lease) -> LockGuard {
    let lock = client.read_write_lock("rw");
    lock.read().try_lock_now(lease).await.unwrap()
}

fn known(lock: &LockInfo) -> String {
    let LockInfo {
        key,
        kind,
        queue,
        available,
        count,
        ..
    } = lock;
    let leases: Vec<_> = lock.holders.iter().map(|holder| holder.lease).collect();
    format!(
        "{key} {kind} {queue} {available:?} {count:?} {:?} {leases:?}",
        lock.lease
    )
}

#[tokio::test(start_paused = true)]
async fn a_search_finds_the_same_locks() {
    let mut lists = Vec::new();
    for profile in [Profile::REDIS, STRICT] {
        let (engine, client) = on(profile).await;
        let mut guards = Vec::new();
        for kind in KINDS {
            guards.push(
                kind.lock(&client, &format!("a:{}", kind.name))
                    .lock()
                    .await
                    .unwrap(),
            );
        }
        for lease in [1000, 20_000, 90_000] {
            reader(&client, Lease::Fixed(ms(lease))).await.forget();
        }
        let semaphore = client.semaphore("tagged:{s}");
        semaphore.try_set_permits(3).await.unwrap();
        let permits = semaphore.acquire(2).await.unwrap();
        // Data, some of it with names that no lock with several keys has.
        for (name, value) in [("data", "x"), ("a}b", "1"), ("number", "7")] {
            engine.command(&["SET", name, value]).unwrap();
        }
        engine.command(&["HSET", "}{", "field", "value"]).unwrap();
        sleep(ms(2000)).await;
        let found = Admin::new(&client).locks("*").await.unwrap();
        lists.push(found.iter().map(known).collect::<Vec<_>>());
        drop((guards, permits));
    }
    assert_eq!(lists[0], lists[1]);
    assert!(lists[0].len() > KINDS.len(), "{:?}", lists[0]);
}

/// A server that refuses scripts without keys has said so in the handshake.
#[tokio::test(start_paused = true)]
async fn a_search_that_was_refused_is_not_tried_again() {
    let lenient = Profile {
        without_keys: None,
        ..STRICT
    };
    for (profile, calls) in [(STRICT, [1, 1]), (lenient, [2, 1])] {
        let (_engine, client) = on(profile).await;
        let guard = client.lock("x").lock().await.unwrap();
        let mut scripts = Vec::new();
        for _ in 0..2 {
            let before = client.stats().calls;
            assert_eq!(Admin::new(&client).locks("*").await.unwrap().len(), 1);
            scripts.push(client.stats().calls - before);
        }
        assert_eq!(scripts, calls);
        guard.unlock().await.unwrap();
    }
}

/// A preflight asks before a search needs to know.
#[tokio::test(start_paused = true)]
async fn a_preflight_says_that_keys_must_be_declared() {
    let lenient = Profile {
        without_keys: None,
        ..STRICT
    };
    for (profile, says) in [(Profile::REDIS, false), (lenient, true), (STRICT, true)] {
        let (_engine, client) = on(profile).await;
        let report = Admin::new(&client).preflight().await.unwrap().to_string();
        assert_eq!(report.contains("declared keys only"), says, "{report}");
        let before = client.stats().calls;
        Admin::new(&client).locks("*").await.unwrap();
        let expected = u64::from(!says);
        assert_eq!(
            client.stats().calls - before,
            expected,
            "the search by a script"
        );
    }
}

//! A server that refuses keys that the caller of a script has not declared. Only an engine in
//! memory has the switch.

use std::collections::BTreeMap;

use leasehold::test_util::{Profile, Reply, Undeclared};
use leasehold::{Client, EmbeddedRedis, Lease, LockGuard};
use leasehold_testbed::ms;
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

fn exists(engine: &EmbeddedRedis) -> bool {
    engine.dump().contains_key(&b"rw"[..])
}

#[tokio::test(start_paused = true)]
async fn readers_that_died_are_forgotten() {
    // Fewer than one release looks at, and more.
    for dead in [3, 60] {
        let (engine, client) = on(STRICT).await;
        let living = reader(&client, Lease::Renewed).await;
        for _ in 0..dead {
            reader(&client, Lease::Fixed(ms(1000))).await.forget();
        }
        sleep(ms(60_000)).await;
        living.unlock().await.unwrap();
        assert!(!exists(&engine), "{dead} readers died");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_beside_living_readers_asks_once_more() {
    for others in [1, 60] {
        let (engine, client) = on(STRICT).await;
        let mut guards = Vec::new();
        for _ in 0..others {
            guards.push(reader(&client, Lease::Renewed).await);
        }
        let leaving = reader(&client, Lease::Renewed).await;
        leaving.unlock().await.unwrap();
        let expected = BTreeMap::from([("read_release", 1), ("read_tidy", 1)]);
        let mut runs = engine.scripts_run();
        runs.retain(|name, _| expected.contains_key(name));
        assert_eq!(runs, expected, "{others} others");
        let lock = client.read_write_lock("rw");
        let refused = lock.write().try_lock_now(Lease::Renewed).await;
        assert!(refused.unwrap_err().is_timeout(), "{others} others");
    }
}

/// The next writer waits no longer than for the longest lease that is left.
#[tokio::test(start_paused = true)]
async fn a_release_leaves_the_lock_to_the_leases_of_the_others() {
    let (engine, client) = on(STRICT).await;
    reader(&client, Lease::Fixed(ms(2000))).await.forget();
    let leaving = reader(&client, Lease::Fixed(ms(90_000))).await;
    leaving.unlock().await.unwrap();
    assert_eq!(engine.command(&["PTTL", "rw"]), Ok(Reply::Int(2000)));
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_leaves_the_lock_to_readers_that_live() {
    for lives in [true, false] {
        let (engine, client) = on(STRICT).await;
        let lock = client.read_write_lock("rw");
        let (reads, writes) = (lock.read().clone(), lock.write().clone());
        let writing = writes.try_lock_now(Lease::Renewed).await.unwrap();
        let lease = if lives { ms(90_000) } else { ms(2000) };
        let nested = async || reads.try_lock_now(Lease::Fixed(lease)).await.unwrap();
        writing
            .run(async { nested().await.forget() })
            .await
            .unwrap();
        sleep(ms(5000)).await;
        writing.unlock().await.unwrap();
        assert_eq!(exists(&engine), lives);
    }
}

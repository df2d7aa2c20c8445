//! What `client.locks` finds among keys of every sort.

use std::time::Duration;

use futures::future::try_join_all;
use leasehold::LockKind;

use crate::world::{World, eventually};

/// An owner as a thread of Redisson's is one.
const THREAD: &str = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11:57";

pub(crate) async fn a_reader_whose_lease_ended_is_not_listed(world: World) {
    let client = world.client().await;
    let mut live = client.read_write_lock("rw");
    let live = live.read().lock().await.unwrap();
    let mut brief = client.read_write_lock("rw");
    let lease = world.span(50);
    brief.read().try_lock(Duration::ZERO, lease).await.unwrap().forget();
    let holders = async || {
        let found = client.locks("rw").await.unwrap();
        found[0].holders.iter().map(|holder| holder.owner.clone()).collect::<Vec<_>>()
    };
    eventually("its lease ends", async || holders().await == [live.owner()]).await;
    // A thread that nested, in Redisson's form; the outer hold of it is over.
    world.command(&["HSET", "rw", THREAD, "2"]);
    world.command(&["SET", &format!("{{rw}}:{THREAD}:rwlock_timeout:2"), "1", "PX", "60000"]);
    assert_eq!(holders().await.len(), 2);
    live.unlock().await.unwrap();
}

pub(crate) async fn other_keys_are_left_out_and_in_nobodys_way(world: World) {
    let client = world.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    // Where the queue of a fair lock of that name would be.
    world.command(&["SET", "redisson_lock_queue:{x}", "no list"]);
    let owner = guard.owner().to_owned();
    for key in ["list", "set", "zset", "stream"] {
        let words: &[&str] = match key {
            "list" => &["LPUSH", key, &owner],
            "set" => &["SET", key, "text"],
            "zset" => &["ZADD", key, "1", &owner],
            _ => &["HSET", key, "field", "1", &owner, "1"],
        };
        world.command(words);
    }
    let many: Vec<_> = (0..200).map(|number| format!("{number}")).collect();
    let mut words = vec!["HSET", "hash"];
    words.extend(many.iter().flat_map(|field| [field.as_str(), "1"]));
    world.command(&words);
    // A name that is no text, of data and of a lock.
    let odd =
        format!("redis.call('set', '\\255', '\\254') redis.call('hset', 'y\\255', '{owner}', 1)");
    world.command(&["EVAL", &odd, "0"]);
    let found = client.locks("*").await.unwrap();
    let seen: Vec<_> = found.iter().map(|lock| (&*lock.key, lock.kind, lock.queue)).collect();
    assert_eq!(seen, [("x", LockKind::Lock, 0), ("y\u{fffd}", LockKind::Lock, 0)]);
    guard.unlock().await.unwrap();
}

pub(crate) async fn patterns_and_prefixes_are_told_apart(world: World) {
    let odd = world.builder().key_prefix("a*[b]?\\^:").connect().await.unwrap();
    let plain = world.client().await;
    let names = ["one", "two", "t*", "[t]wo"];
    let mut ours: Vec<_> = names.iter().map(|name| odd.lock(name)).collect();
    let held = try_join_all(ours.iter_mut().map(leasehold::Lock::lock)).await.unwrap();
    // It fits the prefix if that is taken for a pattern.
    let other = plain.lock("axxb?\\^:one").lock().await.unwrap();
    let found = async |pattern: &str| -> Vec<String> {
        let found = odd.locks(pattern).await.unwrap();
        found.iter().map(|lock| lock.key.trim_start_matches("a*[b]?\\^:").to_owned()).collect()
    };
    assert_eq!(found("*").await, ["[t]wo", "one", "t*", "two"]);
    assert_eq!(found("t*").await, ["t*", "two"]);
    assert_eq!(found("t\\*").await, ["t*"]);
    assert_eq!(found("[ot]?[eo]").await, ["one", "two"]);
    assert_eq!(found("").await, [""; 0]);
    drop((held, other));
}

pub(crate) async fn thousands_of_locks_are_each_listed_once(world: World) {
    const MANY: usize = 3000;
    let client = world.client().await;
    for number in 0..MANY {
        world.command(&["HSET", &format!("lock:{number:04}"), THREAD, "2"]);
        world.command(&["SET", &format!("data:{number:04}"), "x"]);
    }
    let before = client.stats().calls;
    let found = client.locks("lock:*").await.unwrap();
    assert_eq!(found.len(), MANY);
    assert!(found.windows(2).all(|pair| pair[0].key < pair[1].key));
    assert!(found.iter().all(|lock| lock.holders[0].holds == 2 && lock.lease.is_none()));
    let calls = client.stats().calls - before;
    assert!(calls <= 30, "500 keys each: {calls}");
    assert!(!found.is_truncated());
}

pub(crate) async fn a_list_is_cut_off_beyond_ten_thousand_locks(world: World) {
    const MOST: usize = 10_000;
    let client = world.client().await;
    let fill = format!("for i = 1, {MOST} do redis.call('hset', 'lock:' .. i, '{THREAD}', 1) end");
    world.command(&["EVAL", &fill, "0"]);
    let found = client.locks("lock:*").await.unwrap();
    assert_eq!(found.len(), MOST);
    assert!(!found.is_truncated());
    world.command(&["HSET", "lock:0", THREAD, "1"]);
    let found = client.locks("lock:*").await.unwrap();
    assert_eq!(found.len(), MOST);
    assert!(found.is_truncated());
}

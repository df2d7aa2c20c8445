//! What a search finds among keys of every kind.

use std::time::Duration;

use futures::future::try_join_all;
use leasehold::{Error, Guard, Lease, Lock, LockGuard};
use leasehold_admin::{Admin, LockInfo, LockKind};
use leasehold_testbed::{Bed, connected, eventually};
use tokio::task::JoinSet;

const ONCE: Duration = Duration::ZERO;
/// An owner in the form of a Redisson thread.
const THREAD: &str = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11:57";

const fn seconds(span: u64) -> Duration {
    Duration::from_secs(span)
}

/// The lease that was given a few seconds ago, provided it was a multiple of twenty seconds.
fn given(left: Option<Duration>) -> Option<u128> {
    left.map(|left| left.as_millis().div_ceil(20_000) * 20)
}

/// Owner, holds and lease of each holder.
fn holders(lock: &LockInfo) -> Vec<(&str, u64, Option<u128>)> {
    let holders = lock.holders.iter();
    let mut holders: Vec<_> = holders
        .map(|holder| (&*holder.owner, holder.holds, given(holder.lease)))
        .collect();
    holders.sort_unstable();
    holders
}

/// A key that expires with one of the thread's nested read holds.
fn read_by_thread(bed: &Bed, hold: u64, lease: Duration) {
    let key = format!("{{rw}}:{THREAD}:rwlock_timeout:{hold}");
    bed.command(&["SET", &key, "1", "PX", &lease.as_millis().to_string()]);
}

pub(crate) async fn a_reader_whose_lease_ended_is_not_listed(bed: Bed) {
    let client = bed.client().await;
    let live = client.read_write_lock("rw");
    let live = live.read().lock().await.unwrap();
    let brief = client.read_write_lock("rw");
    let lease = bed.span(50);
    brief
        .read()
        .try_lock(seconds(9), Lease::Fixed(lease))
        .await
        .unwrap()
        .forget();
    let holders = async || {
        let found = Admin::new(&client).locks("rw").await.unwrap();
        found[0]
            .holders
            .iter()
            .map(|holder| holder.owner.clone())
            .collect::<Vec<_>>()
    };
    eventually("its lease ends", async || holders().await == [live.owner()]).await;
    // A nested thread in Redisson's form, whose outer hold has expired.
    bed.command(&["HSET", "rw", THREAD, "2"]);
    read_by_thread(&bed, 2, seconds(60));
    assert_eq!(holders().await.len(), 2);
    live.unlock().await.unwrap();
}

pub(crate) async fn each_reader_is_listed_with_its_own_lease(bed: Bed) {
    let client = bed.client().await;
    let (long, short) = (client.read_write_lock("rw"), client.read_write_lock("rw"));
    let long = long
        .read()
        .try_lock(ONCE, Lease::Fixed(seconds(100)))
        .await
        .unwrap();
    let short = short
        .read()
        .try_lock(ONCE, Lease::Fixed(seconds(20)))
        .await
        .unwrap();
    // A thread with three nested holds, of which the second lasts longest.
    bed.command(&["HSET", "rw", THREAD, "3"]);
    for (hold, lease) in [(1, 40), (2, 80), (3, 60)] {
        read_by_thread(&bed, hold, seconds(lease));
    }
    let found = Admin::new(&client).locks("rw").await.unwrap();
    let mut expected = [
        (long.owner(), 1, Some(100)),
        (short.owner(), 1, Some(20)),
        (THREAD, 3, Some(80)),
    ];
    expected.sort_unstable();
    assert_eq!(holders(&found[0]), expected);
    assert_eq!(given(found[0].lease), Some(100));
    // The lock itself reports one reader, with the longest lease.
    let seen = client
        .read_write_lock("rw")
        .read()
        .holder()
        .await
        .unwrap()
        .unwrap();
    assert!(expected.iter().any(|(owner, ..)| *owner == seen.owner));
    assert_eq!(given(seen.lease), Some(100));
    // The living hold is neither the first nor the last.
    for hold in [1, 3] {
        bed.command(&["DEL", &format!("{{rw}}:{THREAD}:rwlock_timeout:{hold}")]);
    }
    assert_eq!(
        holders(&Admin::new(&client).locks("rw").await.unwrap()[0]),
        expected
    );
    // No expiry is the longest one.
    bed.command(&["PERSIST", &format!("{{rw}}:{THREAD}:rwlock_timeout:2")]);
    read_by_thread(&bed, 3, seconds(60));
    for found in &mut expected {
        if found.0 == THREAD {
            found.2 = None;
        }
    }
    assert_eq!(
        holders(&Admin::new(&client).locks("rw").await.unwrap()[0]),
        expected
    );
    short.unlock().await.unwrap();
    long.unlock().await.unwrap();
}

pub(crate) async fn a_writers_own_read_is_listed_with_its_own_lease(bed: Bed) {
    let client = bed.client().await;
    let rw = client.read_write_lock("rw");
    let write = rw
        .write()
        .try_lock(ONCE, Lease::Fixed(seconds(100)))
        .await
        .unwrap();
    let reading = rw.read().acquire().lease(Lease::Fixed(seconds(40)));
    let read = reading.within(&write).await.unwrap();
    // A read without a key that says how long it lasts.
    bed.command(&["HSET", "rw", THREAD, "1"]);
    let found = Admin::new(&client).locks("rw").await.unwrap();
    let mut expected = [
        (write.owner(), 1, Some(100)),
        (read.owner(), 1, Some(40)),
        (THREAD, 1, Some(100)),
    ];
    expected.sort_unstable();
    assert_eq!(found[0].kind, LockKind::Write);
    assert_eq!(holders(&found[0]), expected);
    read.unlock().await.unwrap();
    write.unlock().await.unwrap();
}

pub(crate) async fn a_count_that_is_no_readers_is_not_followed(bed: Bed) {
    let client = bed.client().await;
    let guard = client.read_write_lock("rw").read().lock().await.unwrap();
    for count in ["1000000000000000000", "1e300", "inf", "nan", "-1", "many"] {
        bed.command(&["HSET", "rw", THREAD, count]);
        let found = Admin::new(&client).locks("rw").await.unwrap();
        let owners: Vec<_> = found[0]
            .holders
            .iter()
            .map(|holder| &*holder.owner)
            .collect();
        assert_eq!(owners, [guard.owner()], "{count}");
    }
    guard.unlock().await.unwrap();
}

/// A hold with a lease in seconds.
async fn held<G: Guard>(lock: &Lock<G>, lease: u64) -> G {
    let lease = Lease::Fixed(seconds(lease));
    lock.try_lock(ONCE, lease).await.unwrap()
}

/// Two guards of one hold.
async fn held_twice(lock: &Lock, lease: u64) -> [LockGuard; 2] {
    let outer = held(lock, lease).await;
    let again = lock.acquire().lease(Lease::Fixed(seconds(lease)));
    let inner = again.within(&outer).await.unwrap();
    [outer, inner]
}

pub(crate) async fn every_kind_is_listed_as_what_it_is(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    let plain = held_twice(&client.lock("list:plain"), 20).await;
    let fair = held(&client.fair_lock("list:fair"), 40).await;
    let fenced: Lock = client.fenced_lock("list:fenced").into();
    let fenced = held_twice(&fenced, 60).await;
    let spin = held(&client.spin_lock("list:spin"), 80).await;
    let alone = held(&client.lock("list:alone").non_reentrant(), 100).await;
    let both = client.read_write_lock("list:write");
    let write = held_twice(both.write(), 120).await;
    let (one, two) = (
        client.read_write_lock("list:read"),
        other.read_write_lock("list:read"),
    );
    let reads = [held(one.read(), 140).await, held(two.read(), 160).await];
    let string = held(&client.string_lock("list:string"), 180).await;
    let mut queue = JoinSet::new();
    for _ in 0..3 {
        let waiter = other.fair_lock("list:fair");
        queue.spawn(async move { waiter.lock().await });
    }
    let places = || bed.number(&["LLEN", "redisson_lock_queue:{list:fair}"]);
    eventually("three stand in line", async || places() == 3).await;

    let found = Admin::new(&client).locks("list:*").await.unwrap();
    let seen: Vec<_> = found
        .iter()
        .map(|lock| (&*lock.key, lock.kind, lock.queue, holders(lock)))
        .collect();
    let mut readers = reads.each_ref().map(LockGuard::owner);
    let leases = if readers.is_sorted() {
        [140, 160]
    } else {
        [160, 140]
    };
    readers.sort_unstable();
    let one = |owner, holds, lease| vec![(owner, holds, Some(lease))];
    let expected = [
        ("list:alone", LockKind::Lock, 0, one(alone.owner(), 1, 100)),
        ("list:fair", LockKind::Fair, 3, one(fair.owner(), 1, 40)),
        (
            "list:fenced",
            LockKind::Fenced,
            0,
            one(fenced[0].owner(), 2, 60),
        ),
        (
            "list:plain",
            LockKind::Lock,
            0,
            one(plain[0].owner(), 2, 20),
        ),
        (
            "list:read",
            LockKind::Read,
            0,
            vec![
                (readers[0], 1, Some(leases[0])),
                (readers[1], 1, Some(leases[1])),
            ],
        ),
        ("list:spin", LockKind::Lock, 0, one(spin.owner(), 1, 80)),
        (
            "list:string",
            LockKind::String,
            0,
            one(string.owner(), 1, 180),
        ),
        (
            "list:write",
            LockKind::Write,
            0,
            one(write[0].owner(), 2, 120),
        ),
    ];
    assert_eq!(seen, expected);
    assert!(!found.is_truncated());
}

pub(crate) async fn semaphores_and_latches_in_use_are_listed(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    let semaphore = client.semaphore("semaphore").with_purpose("nightly");
    semaphore.try_set_permits(5).await.unwrap();
    let expirable = client.permit_expirable_semaphore("{permits}");
    expirable.try_set_permits(3).await.unwrap();
    let latch = client.count_down_latch("latch");
    latch.try_set_count(2).await.unwrap();
    bed.command(&["SET", "data", "7"]);
    // They look like any other number while nobody uses them.
    assert!(Admin::new(&client).locks("*").await.unwrap().is_empty());

    let two = semaphore.acquire(2).await.unwrap();
    let one = other.semaphore("semaphore").acquire(1).await.unwrap();
    let id = expirable
        .acquire(1, Lease::Fixed(seconds(100)))
        .await
        .unwrap();
    let waiter = other.count_down_latch("latch");
    let waiting = tokio::spawn(async move { waiter.wait(Duration::MAX).await });
    eventually("the latch is listed", async || {
        Admin::new(&client).locks("latch").await.unwrap().len() == 1
    })
    .await;
    let found = Admin::new(&client).locks("*").await.unwrap();
    let seen: Vec<_> = found
        .iter()
        .map(|lock| (&*lock.key, lock.kind, lock.available, lock.count))
        .collect();
    assert_eq!(
        seen,
        [
            ("latch", LockKind::Latch, None, Some(2)),
            ("semaphore", LockKind::Semaphore, Some(2), None),
            ("{permits}", LockKind::Permits, Some(2), None),
        ]
    );
    assert_eq!((found[0].listening, found[0].lease), (Some(1), None));
    let owner = |permit: &leasehold::SemaphorePermit| permit.guard().unwrap().owner().to_owned();
    let mut expected = [(owner(&two), 2), (owner(&one), 1)];
    expected.sort_unstable();
    let holders = found[1].holders.iter();
    let mut holders: Vec<_> = holders
        .map(|holder| (holder.owner.clone(), holder.holds))
        .collect();
    holders.sort_unstable();
    assert_eq!(holders, expected);
    assert_eq!(given(found[2].lease), Some(100));
    assert_eq!(found[2].holders[0].owner, id.id());
    eventually("the purpose is listed", async || {
        let found = Admin::new(&client).locks("semaphore").await.unwrap();
        let of_two = found[0].holders.iter().find(|holder| holder.holds == 2);
        of_two.unwrap().purpose.as_deref() == Some("nightly")
    })
    .await;

    latch.count_down().await.unwrap();
    latch.count_down().await.unwrap();
    waiting.await.unwrap().unwrap();
    two.release().await.unwrap();
    one.release().await.unwrap();
    id.release().await.unwrap();
    eventually("nothing is in use", async || {
        Admin::new(&client).locks("*").await.unwrap().is_empty()
    })
    .await;
}

pub(crate) async fn other_keys_are_left_out_and_in_nobodys_way(bed: Bed) {
    let client = bed.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    // At the key of the queue that a fair lock of that name would have.
    bed.command(&["SET", "redisson_lock_queue:{x}", "no list"]);
    let owner = guard.owner().to_owned();
    for key in ["list", "set", "zset", "stream"] {
        let words: &[&str] = match key {
            "list" => &["LPUSH", key, &owner],
            "set" => &["SET", key, "text"],
            "zset" => &["ZADD", key, "1", &owner],
            _ => &["HSET", key, "field", "1", &owner, "1"],
        };
        bed.command(words);
    }
    let many: Vec<_> = (0..200).map(|number| format!("{number}")).collect();
    let mut words = vec!["HSET", "hash"];
    words.extend(many.iter().flat_map(|field| [field.as_str(), "1"]));
    bed.command(&words);
    let found = Admin::new(&client).locks("*").await.unwrap();
    let seen: Vec<_> = found
        .iter()
        .map(|lock| (&*lock.key, lock.kind, lock.queue))
        .collect();
    assert_eq!(seen, [("x", LockKind::Lock, 0)]);
    guard.unlock().await.unwrap();
}

/// Names of locks in hashes, and of data, with the same tag.
fn odd_names(bed: &Bed) {
    let odd = format!(
        "redis.call('set', KEYS[1] .. '\\255', '\\254')
         redis.call('hset', KEYS[1] .. 'y\\254', '{THREAD}', 1)
         redis.call('hset', KEYS[1] .. 'y\\255', '{THREAD}', 1)
         redis.call('hset', KEYS[1] .. '\\195\\169', '{THREAD}', 1)"
    );
    bed.command(&["EVAL", &odd, "1", "{odd}"]);
}

pub(crate) async fn names_that_are_no_text_are_listed(bed: Bed) {
    let client = bed.client().await;
    odd_names(&bed);
    let found = Admin::new(&client).locks("*").await.unwrap();
    let seen: Vec<_> = found
        .iter()
        .map(|lock| (&*lock.key, lock.key_bytes(), lock.kind))
        .collect();
    let expected = [
        ("{odd}y\u{fffd}", &b"{odd}y\xfe"[..], LockKind::Lock),
        ("{odd}y\u{fffd}", b"{odd}y\xff", LockKind::Lock),
        ("{odd}é", "{odd}é".as_bytes(), LockKind::Lock),
    ];
    assert_eq!(seen, expected);
}

pub(crate) async fn a_lock_whose_name_is_no_text_is_freed_by_force(bed: Bed) {
    let client = bed.client().await;
    odd_names(&bed);
    let key = b"{odd}y\xff";
    let found = Admin::new(&client).lock_at(key).await.unwrap().unwrap();
    assert_eq!((found.key_bytes(), found.kind), (&key[..], LockKind::Lock));
    assert_eq!(holders(&found), [(THREAD, 1, None)]);
    let refused = Admin::new(&client).force_unlock_at(key, "another").await;
    assert!(
        matches!(refused, Err(Error::NotOwner { .. })),
        "{refused:?}"
    );
    assert!(
        Admin::new(&client)
            .force_unlock_at(key, THREAD)
            .await
            .unwrap()
    );
    assert!(
        !Admin::new(&client)
            .force_unlock_at(key, THREAD)
            .await
            .unwrap()
    );
    assert_eq!(Admin::new(&client).lock_at(key).await.unwrap(), None);
    assert!(
        Admin::new(&client)
            .lock_at(b"{odd}y\xfe")
            .await
            .unwrap()
            .is_some()
    );
    // Neither the name nor the text of this string is UTF-8.
    let key = b"{odd}\xff";
    let found = Admin::new(&client).lock_at(key).await.unwrap().unwrap();
    assert_eq!(found.kind, LockKind::Foreign);
    assert_eq!(found.holders[0].owner, "\u{fffd}");
    let refused = Admin::new(&client).force_unlock_at(key, "\u{fffd}").await;
    assert!(
        matches!(refused, Err(Error::NotOwner { .. })),
        "{refused:?}"
    );
    assert!(Admin::new(&client).force_unlock_at(key, "").await.unwrap());
    assert_eq!(Admin::new(&client).lock_at(key).await.unwrap(), None);
    let refused = Admin::new(&client)
        .force_unlock_at("{odd}é".as_bytes(), THREAD)
        .await;
    assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    assert!(
        Admin::new(&client)
            .lock_at("{odd}é".as_bytes())
            .await
            .unwrap()
            .is_some()
    );
}

pub(crate) async fn one_key_is_looked_at_as_a_search_lists_it(bed: Bed) {
    let client = bed.client().await;
    let plain = held(&client.lock("list:plain"), 20).await;
    let read = client.read_write_lock("list:read");
    let read = held(read.read(), 40).await;
    let string = held(&client.string_lock("list:string"), 60).await;
    let semaphore = client.semaphore("list:semaphore").with_limit(3);
    let permit = semaphore.acquire(1).await.unwrap();
    bed.command(&["SET", "data", "any text"]);
    bed.command(&["LPUSH", "queue", "a"]);
    for name in ["list:plain", "list:read", "list:string", "list:semaphore"] {
        let found = Admin::new(&client)
            .lock_at(name.as_bytes())
            .await
            .unwrap()
            .unwrap();
        let listed = &Admin::new(&client).locks(name).await.unwrap()[0];
        assert_eq!(found.kind, listed.kind, "{name}");
        assert_eq!((&*found.key, found.available), (name, listed.available));
        assert_eq!(holders(&found), holders(listed), "{name}");
    }
    assert_eq!(Admin::new(&client).lock_at(b"list:*").await.unwrap(), None);
    let data = Admin::new(&client).lock_at(b"data").await.unwrap().unwrap();
    assert_eq!(
        (data.kind, &*data.holders[0].owner),
        (LockKind::Foreign, "any text")
    );
    let refused = Admin::new(&client).lock_at(b"queue").await;
    assert!(
        matches!(refused, Err(Error::Protocol { .. })),
        "{refused:?}"
    );
    plain.unlock().await.unwrap();
    read.unlock().await.unwrap();
    string.unlock().await.unwrap();
    permit.release().await.unwrap();
}

pub(crate) async fn an_idle_semaphore_is_listed_if_it_has_a_limit(bed: Bed) {
    let client = bed.client().await;
    let declared = client.semaphore("declared").with_limit(3);
    declared.acquire(2).await.unwrap().release().await.unwrap();
    let expirable = client
        .permit_expirable_semaphore("{expirable}")
        .with_limit(4);
    assert_eq!(expirable.set_permits(4).await.unwrap(), 4);
    client.semaphore("plain").set_permits(5).await.unwrap();
    let set = client.semaphore("set").with_limit(6);
    assert_eq!(set.set_permits(6).await.unwrap(), 6);
    let found = Admin::new(&client).locks("*").await.unwrap();
    let seen: Vec<_> = found
        .iter()
        .map(|lock| (&*lock.key, lock.kind, lock.available, lock.limit))
        .collect();
    let idle = |name, number| {
        (
            name,
            LockKind::Semaphore,
            Some(i64::from(number)),
            Some(number),
        )
    };
    assert_eq!(
        seen,
        [idle("declared", 3), idle("set", 6), idle("{expirable}", 4)]
    );
    assert!(found.iter().all(|lock| lock.holders.is_empty()));
    // Without its number, the limit is that of no semaphore. Another program may have written it.
    bed.command(&["DEL", "declared"]);
    bed.command(&["SET", "leasehold_limit:{set}", "many"]);
    bed.command(&["DEL", "leasehold_limit::{expirable}"]);
    bed.command(&["LPUSH", "leasehold_limit::{expirable}", "1"]);
    assert!(Admin::new(&client).locks("*").await.unwrap().is_empty());
}

pub(crate) async fn a_prefix_is_not_taken_as_a_pattern(bed: Bed) {
    let odd = connected(bed.builder().key_prefix("a*[b]?\\^:")).await;
    let plain = bed.client().await;
    let names = ["one", "two", "t*", "[t]wo"];
    let ours: Vec<_> = names.iter().map(|name| odd.lock(name)).collect();
    let held = try_join_all(ours.iter().map(Lock::lock)).await.unwrap();
    // Matches the prefix if that is mistaken for a pattern.
    let other = plain.lock("axxb?\\^:one").lock().await.unwrap();
    let found = async |pattern: &str| -> Vec<String> {
        let found = Admin::new(&odd).locks(pattern).await.unwrap();
        found
            .iter()
            .map(|lock| lock.key.trim_start_matches("a*[b]?\\^:").to_owned())
            .collect()
    };
    assert_eq!(found("*").await, ["[t]wo", "one", "t*", "two"]);
    assert_eq!(found("t*").await, ["t*", "two"]);
    assert_eq!(found("t\\*").await, ["t*"]);
    assert_eq!(found("[ot]?[eo]").await, ["one", "two"]);
    assert_eq!(found("").await, [""; 0]);
    drop((held, other));
}

const MANY: usize = 3000;

fn fill(bed: &Bed, name: &str, words: &[&str]) {
    for number in 0..MANY {
        let key = format!("{name}:{number:04}");
        bed.command(&[&[words[0], &key], &words[1..]].concat());
    }
}

pub(crate) async fn thousands_of_locks_are_each_listed_once(bed: Bed) {
    let client = bed.client().await;
    fill(&bed, "lock", &["HSET", THREAD, "2"]);
    fill(&bed, "data", &["SET", "x"]);
    let found = Admin::new(&client).locks("lock:*").await.unwrap();
    assert_eq!(found.len(), MANY);
    assert!(found.windows(2).all(|pair| pair[0].key < pair[1].key));
    assert!(
        found
            .iter()
            .all(|lock| lock.holders[0].holds == 2 && lock.lease.is_none())
    );
    assert!(!found.is_truncated());
}

pub(crate) async fn one_call_looks_at_hundreds_of_keys(bed: Bed) {
    let client = bed.client().await;
    fill(&bed, "lock", &["HSET", THREAD, "2"]);
    fill(&bed, "data", &["SET", "x"]);
    let before = client.stats().calls;
    assert_eq!(
        Admin::new(&client).locks("lock:*").await.unwrap().len(),
        MANY
    );
    let calls = client.stats().calls - before;
    assert!(calls <= 30, "500 keys each: {calls}");
}

pub(crate) async fn a_list_is_cut_off_beyond_ten_thousand_locks(bed: Bed) {
    const MOST: usize = 10_000;
    let client = bed.client().await;
    for number in 1..=MOST {
        bed.command(&["HSET", &format!("lock:{number}"), THREAD, "1"]);
    }
    let found = Admin::new(&client).locks("lock:*").await.unwrap();
    assert_eq!(found.len(), MOST);
    assert!(!found.is_truncated());
    bed.command(&["HSET", "lock:0", THREAD, "1"]);
    let found = Admin::new(&client).locks("lock:*").await.unwrap();
    assert_eq!(found.len(), MOST);
    assert!(found.is_truncated());
}

pub(crate) async fn held_locks_are_listed(bed: Bed) {
    let client = bed.client().await;
    let (plain, fair) = (client.lock("list:plain"), client.fair_lock("list:fair"));
    let (string, rw) = (
        client.string_lock("list:s"),
        client.read_write_lock("list:rw"),
    );
    let _plain = plain.lock().await.unwrap();
    let _fair = fair.lock().await.unwrap();
    let _string = string.lock().await.unwrap();
    let _read = rw.read().lock().await.unwrap();
    bed.command(&["SET", "list:data", "x"]);
    let found = Admin::new(&client).locks("list:*").await.unwrap();
    let seen: Vec<_> = found
        .iter()
        .map(|lock| format!("{} {}", lock.key, lock.kind))
        .collect();
    assert_eq!(
        seen,
        [
            "list:fair fair",
            "list:plain lock",
            "list:rw read",
            "list:s string"
        ]
    );
    assert!(!found.is_truncated());
}

pub(crate) async fn a_crowd_of_readers_is_listed(bed: Bed) {
    let client = bed.client().await;
    let reading = client.read_write_lock("list:rw");
    let mut guards = Vec::new();
    for _ in 0..100 {
        guards.push(reading.read().lock().await.unwrap());
    }
    let fields: Vec<_> = (0..100).map(|field| format!("field{field}")).collect();
    for field in &fields {
        bed.command(&["HSET", "list:data", field, "1"]);
    }
    let found = Admin::new(&client).locks("list:*").await.unwrap();
    let seen: Vec<_> = found.iter().map(|lock| (&*lock.key, lock.kind)).collect();
    assert_eq!(seen, [("list:rw", LockKind::Read)]);
    assert_eq!(found[0].holders.len(), 100);
}

pub(crate) async fn a_closed_client_and_a_dead_server_are_reported(mut bed: Bed) {
    let client = bed.client().await;
    client.shutdown(seconds(1)).await.unwrap();
    let admin = Admin::new(&client);
    assert!(matches!(admin.locks("*").await, Err(Error::Closed)));
    assert!(matches!(admin.lock_at(b"x").await, Err(Error::Closed)));
    assert!(matches!(admin.lock_at(b"\xff").await, Err(Error::Closed)));
    assert!(matches!(admin.connections().await, Err(Error::Closed)));

    let client = connected(bed.builder().command_timeout(bed.span(50))).await;
    let admin = Admin::new(&client);
    bed.fail();
    for error in [
        admin.locks("*").await.unwrap_err(),
        admin.lock_at(b"x").await.unwrap_err(),
        admin.lock_at(b"\xff").await.unwrap_err(),
    ] {
        let expected = matches!(error, Error::Unavailable { .. } | Error::Unknown { .. });
        assert!(expected && error.is_retryable(), "{error:?}");
    }
}

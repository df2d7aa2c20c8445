//! More readers of one lock than a release checks: how long the lock lasts, and when it is free.

use std::time::Duration;

use leasehold::{Client, Lease, LockGuard};
use leasehold_testbed::{Bed, eventually, release, timed};

use crate::read_write::{listens, nothing_is_left, read, writer};

const MANY: u32 = 30;

/// The keys that keep the read holds alive, one for each.
fn lives(bed: &Bed) -> Vec<String> {
    bed.list(&["KEYS", "{x}:*:rwlock_timeout:1"])
}

fn longest_life(bed: &Bed) -> i64 {
    lives(bed)
        .iter()
        .map(|key| bed.left(key))
        .max()
        .unwrap_or(0)
}

fn fields(bed: &Bed) -> i64 {
    bed.number(&["HLEN", "x"])
}

async fn readers(client: &Client, lease: Duration) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for _ in 0..MANY {
        guards.push(read(client, Lease::Fixed(lease)).await.unwrap());
    }
    guards
}

async fn dead_readers(bed: &Bed, client: &Client) {
    readers(client, bed.lease(200))
        .await
        .into_iter()
        .for_each(LockGuard::forget);
    eventually("one of them all lives", async || lives(bed).len() == 1).await;
    assert_eq!(fields(bed), i64::from(MANY) + 2);
}

pub(crate) async fn a_release_never_ends_the_lease_of_another_reader(bed: Bed) {
    let client = bed.client().await;
    let shortest = bed.span(5000);
    let mut guards = Vec::new();
    for number in 1..=MANY {
        guards.push(
            read(&client, Lease::Fixed(shortest * number))
                .await
                .unwrap(),
        );
    }
    fastrand::shuffle(&mut guards);
    while let Some(guard) = guards.pop() {
        guard.unlock().await.unwrap();
        // In this order, because both only decrease.
        let (left, longest) = (bed.left("x"), longest_life(&bed));
        assert!(
            guards.is_empty() || left >= longest,
            "{left} of {longest} ms"
        );
    }
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_long_lease_goes_with_its_reader(bed: Bed) {
    let client = bed.client().await;
    let (short, long) = (bed.span(5000), bed.span(500_000));
    let guards = readers(&client, short).await;
    release(read(&client, Lease::Fixed(long)).await).await;
    let (left, longest) = (bed.left("x"), longest_life(&bed));
    assert!(
        (longest..=2 * longest).contains(&left),
        "{left} ms, the longest has {longest} ms"
    );
    drop(guards);
    nothing_is_left(&bed).await;
}

pub(crate) async fn the_last_one_alive_frees_the_lock_among_dead_ones(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client_without_polls().await);
    let living = read(&client, Lease::Fixed(bed.span(50_000))).await.unwrap();
    dead_readers(&bed, &client).await;
    let writing = writer(&other);
    listens(&other).await;
    living.unlock().await.unwrap();
    let guard = timed("granted", writing).await.0.unwrap().unwrap();
    guard.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

pub(crate) async fn dead_ones_leave_while_others_go_on_reading(bed: Bed) {
    let client = bed.client().await;
    let living = read(&client, Lease::Fixed(bed.span(50_000))).await.unwrap();
    dead_readers(&bed, &client).await;
    eventually("only the living one is left", async || {
        let lease = Lease::Fixed(bed.span(50_000));
        read(&client, lease).await.unwrap().unlock().await.unwrap();
        fields(&bed) == 2
    })
    .await;
    living.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

/// Both of its keys, as an operator protects it. Releases of others take it for dead neither way.
pub(crate) async fn a_reader_whose_keys_are_permanent_is_alive(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    let lease = Lease::Fixed(Duration::from_secs(3600));
    let reader = read(&client, lease).await.unwrap();
    let [own] = <[String; 1]>::try_from(lives(&bed)).expect("one reader");
    for key in ["x", &own] {
        bed.command(&["PERSIST", key]);
    }
    let beside = read(&other, lease).await.unwrap();
    assert_eq!(bed.left("x"), -1, "another one came");
    beside.unlock().await.unwrap();
    assert_eq!((bed.left("x"), bed.left(&own)), (-1, -1), "it has left");
    let writes = other.read_write_lock("x");
    let refused = writes.write().try_lock_now(Lease::Renewed).await;
    assert!(refused.is_err_and(|error| error.is_timeout()));
    reader.extend(Duration::from_secs(7200)).await.unwrap();
    assert_eq!((bed.left("x"), bed.left(&own)), (-1, -1), "extended");
    reader.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

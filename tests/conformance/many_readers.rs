//! More readers of one lock than a release looks at: how long it lives, and when it is free.

use std::time::Duration;

use leasehold::{Client, Lease, LockGuard};
use leasehold_testbed::eventually;

use crate::backend::{Backend, soon};
use crate::read_write::{listens, nothing_is_left, read, writer};

const MANY: u32 = 30;

/// What keeps the read holds alive, one for each.
fn lives(backend: &Backend) -> Vec<String> {
    backend.list(&["KEYS", "{x}:*:rwlock_timeout:1"])
}

fn longest_life(backend: &Backend) -> i64 {
    lives(backend)
        .iter()
        .map(|key| backend.left(key))
        .max()
        .unwrap_or(0)
}

fn fields(backend: &Backend) -> i64 {
    backend.number(&["HLEN", "x"])
}

async fn readers(client: &Client, lease: Duration) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for _ in 0..MANY {
        guards.push(read(client, Lease::Fixed(lease)).await.unwrap());
    }
    guards
}

async fn dead_readers(backend: &Backend, client: &Client) {
    readers(client, backend.lease(200))
        .await
        .into_iter()
        .for_each(LockGuard::forget);
    eventually("one of them all lives", async || lives(backend).len() == 1).await;
    assert_eq!(fields(backend), i64::from(MANY) + 2);
}

pub(crate) async fn a_release_never_ends_the_lease_of_another_reader(backend: Backend) {
    let client = backend.client().await;
    let shortest = backend.span(5000);
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
        // In this order: both only fall.
        let (left, longest) = (backend.left("x"), longest_life(&backend));
        assert!(
            guards.is_empty() || left >= longest,
            "{left} of {longest} ms"
        );
    }
    nothing_is_left(&backend).await;
}

pub(crate) async fn a_long_lease_goes_with_its_reader(backend: Backend) {
    let client = backend.client().await;
    let (short, long) = (backend.span(5000), backend.span(500_000));
    let guards = readers(&client, short).await;
    read(&client, Lease::Fixed(long))
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
    let (left, longest) = (backend.left("x"), longest_life(&backend));
    assert!(
        (longest..=2 * longest).contains(&left),
        "{left} ms, the longest has {longest} ms"
    );
    drop(guards);
    nothing_is_left(&backend).await;
}

pub(crate) async fn the_last_one_alive_frees_the_lock_among_dead_ones(backend: Backend) {
    let (client, other) = (backend.client().await, backend.client_without_polls().await);
    let living = read(&client, Lease::Fixed(backend.span(50_000)))
        .await
        .unwrap();
    dead_readers(&backend, &client).await;
    let writing = writer(&other);
    listens(&other).await;
    living.unlock().await.unwrap();
    let guard = soon("when it is told", writing).await.0.unwrap().unwrap();
    guard.unlock().await.unwrap();
    nothing_is_left(&backend).await;
}

pub(crate) async fn dead_ones_leave_while_others_go_on_reading(backend: Backend) {
    let client = backend.client().await;
    let living = read(&client, Lease::Fixed(backend.span(50_000)))
        .await
        .unwrap();
    dead_readers(&backend, &client).await;
    eventually("only the living one is left", async || {
        let lease = Lease::Fixed(backend.span(50_000));
        read(&client, lease).await.unwrap().unlock().await.unwrap();
        fields(&backend) == 2
    })
    .await;
    living.unlock().await.unwrap();
    nothing_is_left(&backend).await;
}

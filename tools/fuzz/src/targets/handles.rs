//! Texts that callers pass: owners of forgotten holds, ids of permits, patterns.

use arbitrary::{Result, Unstructured};
use leasehold::{Client, EmbeddedRedis, Error, Lease, Lock};
use leasehold_admin::Admin;

use crate::choices::{changed, pieces, rest};
use crate::world::{NOW, paused, secs, within};

const PIECES: [&str; 11] = [
    " ",
    "0b4e4b9c-9a1f-4a3c-9a0b-0123456789ab",
    ":1",
    ":write",
    ":",
    "0123456789abcdef0123456789abcdef",
    "0123456789ABCDEF",
    "\n",
    "\0",
    "ü",
    "nil",
];

const LEASE: Lease = Lease::Fixed(secs(3600));

/// The kind whose owner restores a hold.
const STRING: u8 = 6;

fn lock(client: &Client, kind: u8, name: &str) -> Lock {
    match kind {
        0 => client.lock(name),
        1 => client.fair_lock(name),
        2 => client.fenced_lock(name).into(),
        3 => client.spin_lock(name),
        4 => client.read_write_lock(name).write().clone(),
        5 => client.read_write_lock(name).read().clone(),
        STRING => client.string_lock(name),
        _ => Lock::multi([name, "other"].map(|name| client.lock(name))),
    }
}

/// `real` itself, a similar text, or any other text.
fn text(u: &mut Unstructured<'_>, real: &str) -> Result<String> {
    match u.int_in_range(0..=7)? {
        0 => Ok(real.to_owned()),
        1 => pieces(u, &PIECES, 5),
        2 => rest(u),
        _ => changed(u, real),
    }
}

#[expect(clippy::panic, reason = "a broken promise ends the input")]
async fn restore(u: &mut Unstructured<'_>, client: &Client, kind: u8) -> Result<()> {
    let lock = lock(client, kind, "h");
    let Ok(guard) = lock.try_lock(NOW, LEASE).await else {
        panic!("it is free")
    };
    let owner = guard.owner().to_owned();
    guard.forget();
    let given = text(u, &owner)?;
    let restores = kind == STRING && given == owner;
    match within(secs(5), "restore", lock.restore(&given)).await {
        Ok(guard) => {
            assert!(restores, "{given:?} passed for {owner:?}");
            let unlocked = within(secs(5), "unlock", guard.unlock()).await;
            assert!(unlocked.is_ok(), "{unlocked:?}");
        }
        Err(Error::Config(_) | Error::NotOwner { .. }) => {
            assert!(!restores, "{owner:?} was refused");
            let kept = lock.holder().await.ok().flatten();
            assert!(kept.is_some(), "the hold of {owner} is gone");
        }
        Err(other) => panic!("{given:?}: {other:?}"),
    }
    Ok(())
}

#[expect(clippy::panic, reason = "a broken promise ends the input")]
async fn permits(u: &mut Unstructured<'_>, client: &Client) -> Result<()> {
    let permits = client.permit_expirable_semaphore("p");
    let set = permits.try_set_permits(2).await;
    assert!(matches!(set, Ok(true)), "{set:?}");
    let Ok(permit) = permits.try_acquire(1, NOW, LEASE).await else {
        panic!("it is free")
    };
    let real = permit.id().to_owned();
    permit.forget();
    let given = text(u, &real)?;
    let is_real = *given == *real;
    let choice = u.int_in_range(0..=3)?;
    let found = match choice {
        0 => within(secs(5), "release", permits.release(&given))
            .await
            .map(|()| true),
        1 => within(secs(5), "release_all", permits.release_all(&[&given]))
            .await
            .map(|()| true),
        2 => within(secs(5), "remaining", permits.remaining_lease(&given))
            .await
            .map(|left| left.is_some()),
        _ => {
            within(
                secs(5),
                "update_lease",
                permits.update_lease(&given, secs(7)),
            )
            .await
        }
    };
    match found {
        Ok(found) => assert_eq!(found, is_real, "{given:?} for {real:?}, {choice}"),
        Err(Error::Config(_) | Error::NotOwner { .. }) => assert!(!is_real, "{real} was refused"),
        Err(other) => panic!("{given:?}: {other:?}"),
    }
    let left = permits.available().await;
    let expected = if is_real && choice < 2 { 2 } else { 1 };
    assert!(
        left.as_ref().is_ok_and(|left| *left == expected),
        "{left:?} after {given:?}"
    );
    Ok(())
}

/// Other programs have written to the key of a lock. Leasehold must not trust any of their values.
async fn foreign(u: &mut Unstructured<'_>, redis: &EmbeddedRedis, client: &Client) -> Result<()> {
    let kind = u.int_in_range(0..=7)?;
    let (field, value) = (
        pieces(u, &PIECES, 4)?,
        pieces(u, &["1", "-1", "x", "9", "read"], 3)?,
    );
    let command = match u.int_in_range(0..=4)? {
        0 => vec!["SET", "h", &value],
        1 => vec!["HSET", "h", &field, &value],
        2 => vec!["HSET", "h", "mode", &field, &field, &value],
        3 => vec!["RPUSH", "h", &field, &value],
        _ => vec!["ZADD", "h", "1", &field],
    };
    drop(redis.command(&command));
    let lock = lock(client, kind, "h");
    let wait = secs(1);
    drop(within(secs(9), "try_lock", lock.try_lock(wait, LEASE)).await);
    drop(within(secs(9), "holder", lock.holder()).await);
    drop(within(secs(9), "remaining_lease", lock.remaining_lease()).await);
    drop(within(secs(9), "restore", lock.restore(&field)).await);
    drop(within(secs(9), "locks", Admin::new(client).locks("*")).await);
    drop(within(secs(9), "force_unlock", lock.force_unlock("a test")).await);
    Ok(())
}

pub(super) fn run(u: &mut Unstructured<'_>) -> Result<()> {
    paused(async {
        let redis = EmbeddedRedis::new();
        let client = redis.client();
        match u.int_in_range(0..=4)? {
            0 => permits(u, &client).await,
            1 => foreign(u, &redis, &client).await,
            _ => {
                let kind = u.int_in_range(0..=7)?;
                restore(u, &client, kind).await
            }
        }
    })
}

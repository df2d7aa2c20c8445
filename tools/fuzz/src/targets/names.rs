//! A valid name is locked and unlocked, whatever characters it contains. An invalid one is refused
//! before anything is sent.

use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};
use leasehold::{Client, EmbeddedRedis, Error, Lease, Lock};
use leasehold_admin::Admin;

use crate::choices::pieces;
use crate::world::{NOW, paused, secs, within};

const PIECES: [&str; 24] = [
    "a",
    "orders",
    ":",
    "42",
    "{",
    "}",
    "{}",
    "{tag}",
    "}{",
    "\0",
    "\n",
    "\r\n",
    " ",
    "*",
    "?",
    "[",
    "]",
    "\\",
    "ü",
    "\u{202e}",
    "\u{fffd}",
    "😀",
    "redisson_lock_queue:{a}",
    "%",
];

/// Whether a name is valid by the documented rules: 1 to 1024 bytes with the prefix, and braces
/// only as a hash tag.
#[expect(clippy::fn_params_excessive_bools, reason = "what is known of a name")]
fn is_good(prefix: &str, name: &str, is_string: bool) -> bool {
    let key = format!("{prefix}{name}");
    let is_tagged = || match key.split_once('{') {
        None => !key.contains('}'),
        Some((before, rest)) => !before.contains('}') && rest.find('}').is_some_and(|end| end > 0),
    };
    !name.is_empty() && key.len() <= 1024 && (is_string || is_tagged())
}

/// A lock, and whether it uses the string format.
fn lock(client: &Client, kind: u8, name: &str) -> (Lock, bool) {
    let lock = match kind {
        0 => client.lock(name),
        1 => client.fair_lock(name),
        2 => client.fenced_lock(name).into(),
        3 => client.spin_lock(name),
        4 => client.lock(name).non_reentrant(),
        5 => client.read_write_lock(name).write().clone(),
        6 => client.read_write_lock(name).read().clone(),
        7 => return (client.string_lock(name), true),
        _ => return (Lock::quorum([client.string_lock(name)]), true),
    };
    (lock, false)
}

/// The commands that the engine has received so far.
fn asked(redis: &EmbeddedRedis) -> (BTreeMap<String, u64>, BTreeMap<&'static str, u64>) {
    (redis.commands_run(), redis.scripts_run())
}

async fn lock_and_unlock(what: &str, lock: &Lock) -> std::result::Result<(), Error> {
    let guard = within(secs(5), what, lock.try_lock(NOW, Lease::Fixed(secs(60)))).await?;
    guard.check()?;
    within(secs(5), what, guard.unlock()).await
}

async fn others(client: &Client, choice: u8, name: &str) -> std::result::Result<(), Error> {
    match choice {
        0 => {
            let semaphore = client.semaphore(name);
            semaphore.try_set_permits(1).await?;
            semaphore.try_acquire(1, NOW).await?.forget();
            semaphore.add_permits(1).await
        }
        1 => {
            let permits = client.permit_expirable_semaphore(name);
            permits.try_set_permits(1).await?;
            let permit = permits.try_acquire(1, NOW, Lease::Fixed(secs(60))).await?;
            let id = permit.id().to_owned();
            permit.forget();
            permits.release(&id).await
        }
        2 => {
            let latch = client.count_down_latch(name);
            latch.try_set_count(1).await?;
            latch.count_down().await?;
            latch.wait(NOW).await
        }
        _ => {
            let lock = client.lock(name);
            lock.is_locked().await?;
            lock.holder().await?;
            lock.force_unlock("a test").await.map(drop)
        }
    }
}

#[expect(clippy::fn_params_excessive_bools, reason = "what is known of a name")]
fn judge(
    redis: &EmbeddedRedis,
    what: &str,
    is_good: bool,
    outcome: &std::result::Result<(), Error>,
) {
    match outcome {
        Ok(()) => assert!(is_good, "{what}: a bad name was taken"),
        Err(error) => {
            assert!(!is_good, "{what}: a good name was refused: {error:?}");
            assert!(matches!(error, Error::Config(_)), "{what}: {error:?}");
            assert!(
                error.to_string().len() < 1000,
                "{what}: the error quotes all of it"
            );
            assert!(asked(redis).1.is_empty(), "{what}: something was sent");
        }
    }
}

pub(super) fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let prefix = if u.ratio(1, 2)? {
        String::new()
    } else {
        pieces(u, &PIECES, 4)?
    };
    let (choice, kind) = (u.int_in_range(0..=3)?, u.int_in_range(0..=8)?);
    let other = u.int_in_range(0..=4)?;
    let mut names = Vec::new();
    for _ in 0..if choice == 0 {
        u.int_in_range(0..=5)?
    } else {
        1
    } {
        names.push(pieces(u, &PIECES, 6)?);
    }
    paused(async {
        let redis = EmbeddedRedis::new();
        let connected = redis.builder().key_prefix(&prefix).connect().await;
        let Ok(client) = connected else {
            assert!(prefix.len() > 256, "a good prefix was refused");
            return;
        };
        assert!(prefix.len() <= 256, "a long prefix was taken");
        if choice == 0 {
            let are_good = names.iter().all(|name| is_good(&prefix, name, false));
            let mut different = names.clone();
            different.sort();
            different.dedup();
            let are_good = are_good && different.len() == names.len() && !names.is_empty();
            let outcome = lock_and_unlock(
                "multi",
                &Lock::multi(names.iter().map(|name| client.lock(name))),
            )
            .await;
            judge(&redis, "multi", are_good, &outcome);
        } else if choice == 1 {
            let outcome = within(secs(5), "others", others(&client, other, &names[0])).await;
            judge(
                &redis,
                "others",
                is_good(&prefix, &names[0], false),
                &outcome,
            );
        } else {
            let (lock, is_string) = lock(&client, kind, &names[0]);
            let outcome = lock_and_unlock("lock", &lock).await;
            judge(
                &redis,
                "lock",
                is_good(&prefix, &names[0], is_string),
                &outcome,
            );
            let is_left = |key: &Vec<u8>| !key.starts_with(b"redisson_lock_token");
            assert!(!redis.dump().keys().any(is_left), "something is left");
        }
        // Any text is a valid pattern.
        let admin = Admin::new(&client);
        let pattern = names.first().map_or("", |name| name);
        let listed = within(secs(5), "locks", admin.locks(pattern)).await;
        assert!(
            listed.is_ok_and(|list| !list.is_truncated()),
            "a pattern was refused"
        );
    });
    Ok(())
}

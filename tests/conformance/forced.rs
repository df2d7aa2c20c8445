//! Holds that are ended by force. Their leases are fixed and long, so only a message ends them in
//! time.

use std::time::Duration;

use leasehold::{Client, Ended, Error, HoldState, Lease, Lock, LockGuard, LossReason};
use leasehold_testbed::{Bed, KINDS, SOON, eventually, ms, timed, until_listed};
use tokio::time::sleep;

use crate::for_each_kind::for_each_kind;

const HOUR: Lease = Lease::Fixed(Duration::from_secs(3600));
/// An owner of a client that is gone.
const STRANGER: &str = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11:7";

fn channel(client: &Client) -> String {
    format!("leasehold_client:{{{}}}", client.id())
}

/// Waits until a client hears of its holds. It holds something meanwhile.
async fn hears(bed: &Bed, client: &Client) {
    let channel = channel(client);
    eventually("it listens", async || bed.channels().contains(&channel)).await;
}

/// Waits until a hold is lost, which its holder must not find out by itself. Who ended it, and why.
async fn forced_by(guard: &LockGuard) -> (String, String) {
    match timed("lost", guard.ended()).await.0 {
        Ended::Lost(LossReason::Forced(release)) => (release.by.clone(), release.reason.clone()),
        other => panic!("{other:?}"),
    }
}

/// What that is, if this client has no name.
fn by(client: &Client, reason: &str) -> (String, String) {
    (client.id(), reason.to_owned())
}

pub(crate) async fn its_holder_is_told_at_once(bed: Bed) {
    let (client, other) = (&bed.client().await, &bed.client().await);
    for_each_kind(async |kind| {
        let guard = kind
            .lock(client, kind.name)
            .try_lock_now(HOUR)
            .await
            .unwrap();
        hears(&bed, client).await;
        let freed = kind.lock(other, kind.name).force_unlock("it hangs").await;
        assert!(freed.unwrap());
        assert_eq!(
            forced_by(&guard).await,
            by(other, "it hangs"),
            "{}",
            kind.name
        );
        assert_eq!(guard.state(), HoldState::Lost);
        let told = guard.unlock().await.unwrap_err().to_string();
        let expected = format!("it was forced open by {}: it hangs", other.id());
        assert!(told.contains(&expected), "{told}");
    })
    .await;
    assert_eq!(other.stats().lost, 0);
}

/// Else it would end up in the middle of the holder's log, or on its terminal.
pub(crate) async fn a_reason_is_short_and_printable(bed: Bed) {
    let client = bed.client().await;
    let guard = client.lock("x").try_lock_now(HOUR).await.unwrap();
    let jobs = client.permit_expirable_semaphore("jobs").with_limit(1);
    let permit = jobs.acquire(1, HOUR).await.unwrap();
    let semaphore = client.semaphore("rooms").with_limit(1);
    let room = semaphore.acquire(1).await.unwrap();
    let (owner, calls) = (room.guard().unwrap().owner(), client.stats().calls);
    for bad in ["", "two\nlines", "\u{1b}[31mred", &"x".repeat(257)] {
        let refused = [
            client.lock("x").force_unlock(bad).await,
            client.lock("x").force_unlock_of(guard.owner(), bad).await,
            jobs.force_release_of(permit.id(), bad).await,
            semaphore.force_release_of(owner, bad).await,
        ];
        for refused in refused {
            let told = refused.unwrap_err().to_string();
            assert!(
                told.starts_with("reason is out of range: given=`"),
                "{told}"
            );
        }
    }
    assert_eq!(client.stats().calls, calls, "nothing was sent");
    let longest = "x".repeat(256);
    assert!(client.lock("x").force_unlock(&longest).await.unwrap());
}

/// Another hold under the key was meant, of this client or of another one that has its first
/// digits.
pub(crate) async fn what_a_message_said_is_forgotten_with_the_answer(bed: Bed) {
    let client = bed.client().await;
    let guard = client.lock("x").try_lock_now(HOUR).await.unwrap();
    hears(&bed, &client).await;
    let message = "\0forced ann@pod-7\nit hangs\nx";
    bed.command(&["PUBLISH", &channel(&client), message]);
    eventually("asked", async || client.stats().renewed > 0).await;
    bed.command(&["DEL", "x"]);
    let lost = guard.extend(Duration::from_secs(3600)).await.unwrap_err();
    assert!(
        matches!(
            lost,
            Error::Lost {
                reason: LossReason::Gone,
                ..
            }
        ),
        "{lost:?}"
    );
}

pub(crate) async fn a_message_alone_ends_nothing(bed: Bed) {
    let client = bed.client().await;
    let (named, other) = (client.lock("x"), client.lock("y"));
    let guard = named.try_lock_now(HOUR).await.unwrap();
    let beside = other.try_lock_now(HOUR).await.unwrap();
    hears(&bed, &client).await;
    for message in [
        "\0forced ann\nit hangs\nx",
        "\0forced ann\nit hangs\nz",
        "\0forced ann\nit hangs\n",
        "\0forced ann\n\u{1b}\nx",
        "\0forced x",
        "\0forced ",
        "\0forced",
        "x",
        "",
        "0",
    ] {
        // As the scripts publish it: to a channel of no slot.
        bed.command(&["PUBLISH", &channel(&client), message]);
    }
    eventually("asked about one", async || client.stats().renewed > 0).await;
    assert_eq!(client.stats().renewed, 1);
    for guard in [&guard, &beside] {
        guard.check().unwrap();
        assert_eq!(guard.state(), HoldState::Held);
    }
    assert!(bed.left("x") > 3_000_000, "the lease is as it was");
}

/// Under paused time, a hold lasts exactly as long as the test says.
pub(crate) async fn short_holds_pay_nothing(bed: Bed) {
    let client = bed.client().await;
    let channel = channel(&client);
    for _ in 0..if bed.is_embedded() { 50 } else { 5 } {
        let guard = client.lock("x").lock().await.unwrap();
        sleep(ms(400)).await;
        guard.unlock().await.unwrap();
        // A server's machine may stall.
        assert!(!bed.is_embedded() || !bed.channels().contains(&channel));
    }
    let _guard = client.lock("x").lock().await.unwrap();
    hears(&bed, &client).await;
}

pub(crate) async fn only_the_given_owner_is_forced(bed: Bed) {
    let (client, other) = (&bed.client().await, &bed.client().await);
    for_each_kind(async |kind| {
        if !kind.is_single() {
            let refused = kind
                .lock(other, kind.name)
                .force_unlock_of(STRANGER, "a test")
                .await;
            assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
            return;
        }
        let lock = kind.lock(other, kind.name);
        let writes = kind.name.starts_with("write");
        let owner = |text: &str| format!("{text}{}", if writes { ":write" } else { "" });
        assert!(
            !lock
                .force_unlock_of(&owner(STRANGER), "a test")
                .await
                .unwrap()
        );
        let guard = kind
            .lock(client, kind.name)
            .try_lock_now(HOUR)
            .await
            .unwrap();
        hears(&bed, client).await;
        let refused = lock.force_unlock_of(&owner(STRANGER), "a test").await;
        assert!(
            matches!(refused, Err(Error::NotOwner { .. })),
            "{refused:?}"
        );
        guard.check().unwrap();
        assert!(lock.force_unlock_of(guard.owner(), "a test").await.unwrap());
        assert!(!lock.is_locked().await.unwrap());
        assert_eq!(forced_by(&guard).await, by(other, "a test"));
        assert!(!lock.force_unlock_of(guard.owner(), "a test").await.unwrap());
    })
    .await;
}

pub(crate) async fn the_other_readers_go_on(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    let read = |client: &Client| Lock::clone(client.read_write_lock("x").read());
    let guard = read(&client).try_lock_now(HOUR).await.unwrap();
    let beside = read(&client).try_lock_now(HOUR).await.unwrap();
    let elsewhere = read(&other).try_lock_now(HOUR).await.unwrap();
    hears(&bed, &client).await;
    assert!(
        read(&other)
            .force_unlock_of(guard.owner(), "a test")
            .await
            .unwrap()
    );
    assert_eq!(forced_by(&guard).await, by(&other, "a test"));
    let writer = other.read_write_lock("x");
    for reader in [&beside, &elsewhere] {
        reader.check().unwrap();
        let refused = writer.write().try_lock_now(Lease::Renewed).await;
        assert!(refused.is_err_and(|error| error.is_timeout()));
        assert!(
            read(&other)
                .force_unlock_of(reader.owner(), "a test")
                .await
                .unwrap()
        );
    }
    let taken = timed("free", writer.write().lock()).await.0;
    // A writer is no reader.
    assert!(
        !read(&other)
            .force_unlock_of(STRANGER, "a test")
            .await
            .unwrap()
    );
    taken.unwrap().unlock().await.unwrap();
    assert_eq!(bed.number(&["DBSIZE"]), 0, "nothing of the readers is left");
}

pub(crate) async fn permits_of_an_owner_come_back(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    // The next renewal is far away.
    let jobs = client
        .semaphore("jobs")
        .with_lease(Duration::from_secs(3600));
    let seen = other.semaphore("jobs");
    assert!(jobs.try_set_permits(5).await.unwrap());
    let two = jobs.acquire(2).await.unwrap();
    let three = jobs.acquire(3).await.unwrap();
    let owner = two.guard().unwrap().owner().to_owned();
    hears(&bed, &client).await;
    assert!(seen.force_release_of(&owner, "a test").await.unwrap());
    assert!(
        !seen.force_release_of(&owner, "a test").await.unwrap(),
        "only once"
    );
    assert_eq!(seen.available().await.unwrap(), 2);
    let told = forced_by(two.guard().unwrap()).await;
    assert_eq!(told, by(&other, "a test"));
    three.guard().unwrap().check().unwrap();
    for bad in ["", "x", STRANGER] {
        let refused = seen.force_release_of(bad, "a test").await;
        assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    }
}

pub(crate) async fn a_permit_that_is_released_by_its_id_is_lost_at_once(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    let jobs = client.permit_expirable_semaphore("jobs").with_limit(5);
    let fixed = jobs.acquire(1, HOUR).await.unwrap();
    let renewed = jobs.clone().with_lease(Duration::from_secs(3600));
    let renewed = renewed.acquire(1, Lease::Renewed).await.unwrap();
    let jobs = other.permit_expirable_semaphore("jobs").with_limit(5);
    let spared = jobs.acquire(1, HOUR).await.unwrap();
    // It listens to this channel last.
    hears(&bed, &client).await;
    jobs.release(fixed.id()).await.unwrap();
    let told = forced_by(&fixed).await;
    assert_eq!(told, by(&other, "it was released by its id"));
    for is_held in [true, false] {
        let released = jobs.force_release_of(renewed.id(), "it hangs").await;
        assert_eq!(released.unwrap(), is_held);
    }
    assert_eq!(forced_by(&renewed).await, by(&other, "it hangs"));
    spared.check().unwrap();
    spared.release().await.unwrap();
}

pub(crate) async fn an_owner_that_no_lock_has_is_refused(bed: Bed) {
    let client = bed.client().await;
    let guard = client.read_write_lock("x").write().lock().await.unwrap();
    let sides = client.read_write_lock("x");
    for (lock, owner) in [
        (client.lock("x"), ""),
        (client.lock("x"), "mode"),
        (sides.read().clone(), "mode"),
        (sides.read().clone(), guard.owner()),
        (sides.write().clone(), STRANGER),
    ] {
        let refused = lock.force_unlock_of(owner, "a test").await;
        assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    }
    guard.unlock().await.unwrap();
}

/// Names that read like messages which give a lock to a waiter.
pub(crate) async fn a_name_is_never_read_as_a_grant(bed: Bed) {
    // There no client hears for its waiters.
    if bed.is_cluster() {
        return;
    }
    let (holder, third) = (&bed.client().await, &bed.client().await);
    // Each question would have another number.
    let client = &bed.client_without_polls().await;
    let plain = holder.lock("x").lock().await.unwrap();
    let fair = holder.fair_lock("y").lock().await.unwrap();
    let listed = || bed.list(&["HGETALL", "x"]).swap_remove(1);
    let takes = || {
        let lock = client.lock("x");
        tokio::spawn(async move { lock.try_lock(SOON, Lease::Renewed).await })
    };
    let is_listed = async || listed().matches(';').count() == 3;
    let mut waiter = until_listed(takes, is_listed).await;
    let lock = client.fair_lock("y");
    let mut in_line = tokio::spawn(async move { lock.lock().await });
    let queued = || bed.list(&["LRANGE", "redisson_lock_queue:{y}", "0", "-1"]);
    eventually("it waits", async || queued().len() == 1).await;
    let entry = listed();
    let mut parts = entry.split(';').nth(2).unwrap().splitn(3, ':');
    let (question, field) = (parts.next().unwrap(), parts.nth(1).unwrap());
    let channel = "redisson_lock__channel:";
    for name in [
        format!("\0granted {question} 60000 {field} {channel}{{x}}"),
        format!("\0for 60000 {channel}{{y}}:{}", queued().concat()),
    ] {
        let mut told = async |kind: &str, guard: &LockGuard| {
            tokio::select! {
                biased;
                _ = &mut waiter => panic!("it believes the name of a {kind}"),
                _ = &mut in_line => panic!("it believes the name of a {kind}"),
                told = forced_by(guard) => assert_eq!(told.1, "a test", "{kind}"),
            }
        };
        for kind in KINDS.iter().filter(|kind| kind.is_single()) {
            let guard = kind.lock(client, &name).try_lock_now(HOUR).await.unwrap();
            assert!(
                kind.lock(third, &name)
                    .force_unlock("a test")
                    .await
                    .unwrap()
            );
            told(kind.name, &guard).await;
        }
        let jobs = client.semaphore(&*name).with_limit(1);
        let jobs = jobs.with_lease(Duration::from_secs(3600));
        let permit = jobs.acquire(1).await.unwrap();
        let guard = permit.guard().unwrap();
        let seen = third.semaphore(&*name);
        assert!(
            seen.force_release_of(guard.owner(), "a test")
                .await
                .unwrap()
        );
        told("semaphore", guard).await;
        bed.command(&["DEL", &name]);
        let jobs = client.permit_expirable_semaphore(&*name).with_limit(1);
        let permit = jobs.acquire(1, HOUR).await.unwrap();
        let seen = third.permit_expirable_semaphore(&*name);
        assert!(seen.force_release_of(permit.id(), "a test").await.unwrap());
        told("permit", &permit).await;
        bed.command(&["DEL", &name]);
    }
    plain.check().unwrap();
    fair.check().unwrap();
    plain.unlock().await.unwrap();
    fair.unlock().await.unwrap();
    for waiter in [waiter, in_line] {
        let guard = timed("granted", waiter).await.0.unwrap().unwrap();
        guard.unlock().await.unwrap();
    }
}

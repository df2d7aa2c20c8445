//! The rights listed in `docs/operations.md` are sufficient, and all of them are needed.

use std::time::Duration;

use leasehold::{Client, Error, Lease, Lock};
use leasehold_admin::Admin;
use leasehold_testbed::{Outside, Reply, Server, eventually_within, forget, ms, rule};

use crate::testbed::beside;

const LIMIT: Duration = Duration::from_secs(20);
/// Sent when connecting; a refusal is ignored.
const OPTIONAL: &[&str] = &["client", "client|setinfo", "info"];

/// The commands, keys and channels that were refused.
fn refused(outside: &mut Outside) -> Vec<String> {
    let log = outside.command(&["ACL", "LOG"]);
    let objects = log.array().iter().map(|entry| {
        let entry = entry.array();
        let is_object = |part: &Reply| matches!(part, Reply::Bulk(name) if name == b"object");
        let at = entry.iter().position(is_object).expect("an object");
        entry[at + 1].text()
    });
    objects
        .filter(|object| !OPTIONAL.contains(&object.as_str()))
        .collect()
}

/// Everything that a client can do with plain locks.
async fn everything(a: &Client, b: &Client, outside: &mut Outside) -> Result<(), Error> {
    let (held, wanted) = (a.lock("orders:1"), b.lock("orders:1"));
    let outer = held.lock().await?;
    let inner = held
        .acquire()
        .within(&outer)
        .lease(Lease::Fixed(ms(9000)))
        .await?;
    inner.unlock().await?;
    outer.extend(ms(2000)).await?;
    assert!(wanted.is_locked().await?);
    // Another client waits, its holder is renewed, and the waiter is woken.
    let unlock = async {
        eventually_within(LIMIT, "it waits, and we renew", async || {
            b.stats().listeners == 1 && a.stats().renewed > 0
        })
        .await;
        eventually_within(LIMIT, "polled", async || b.stats().polls > 0).await;
        outer.unlock().await
    };
    let (taken, unlocked) = tokio::join!(wanted.lock(), unlock);
    unlocked?;
    // Another waiter of the same client takes over with its own lease.
    let next = b.lock("orders:1");
    let (taken_over, unlocked) =
        tokio::join!(next.try_lock(ms(5000), Lease::Fixed(ms(5000))), async {
            taken?.unlock().await
        });
    unlocked?;
    taken_over?.unlock().await?;
    let hour = Lease::Fixed(Duration::from_secs(3600));
    let forced = a.lock("orders:2").try_lock(ms(0), hour).await?;
    eventually_within(LIMIT, "it hears of a forced release", async || {
        let listed = outside.command(&["PUBSUB", "CHANNELS", "leasehold_client:*"]);
        !listed.array().is_empty()
    })
    .await;
    assert!(
        b.lock("orders:2")
            .force_unlock_of(forced.owner(), "a test")
            .await?
    );
    forced.ended().await;
    Ok(())
}

/// Another client waits for a lock and gets it.
async fn contend(
    (holder, held): (&Client, &Lock),
    (waiter, wanted): (&Client, &Lock),
) -> Result<(), Error> {
    let outer = held.lock().await?;
    outer.extend(ms(500)).await?;
    outer.reenter().await?.unlock().await?;
    assert!(wanted.is_locked().await?);
    let unlock = async {
        let renewed = holder.stats().renewed;
        eventually_within(LIMIT, "it waits, and the holder is renewed", async || {
            waiter.stats().waiting > 0 && holder.stats().renewed > renewed
        })
        .await;
        outer.unlock().await
    };
    let (taken, unlocked) = tokio::join!(wanted.lock(), unlock);
    unlocked?;
    taken?.unlock().await?;
    let forced = held.lock().await?;
    assert!(wanted.force_unlock("a test").await?);
    drop(forced);
    Ok(())
}

/// The call is allowed and takes nothing. On a busy machine the last reply may come too late to
/// count.
fn in_vain<T>(taken: Result<T, Error>) {
    assert!(
        matches!(&taken, Err(error) if error.is_retryable()),
        "{:?}",
        taken.err()
    );
}

/// Two fair waiters whose places are removed, before a waiting Java client.
async fn lose_the_place(a: &Client, b: &Client, outside: &mut Outside) -> Result<(), Error> {
    let held = a.fair_lock("orders:line").lock().await?;
    let wanted = b.fair_lock("orders:line");
    let (queue, deadlines) = (
        "redisson_lock_queue:{orders:line}",
        "redisson_lock_timeout:{orders:line}",
    );
    let disturb = async {
        // The waiters know that they have places.
        eventually_within(LIMIT, "in the queue", async || {
            b.stats().listeners == 2 && outside.command(&["LLEN", queue]).int() == 2
        })
        .await;
        let looked = outside.calls("lrange");
        outside.command(&["RPUSH", queue, "java:1"]);
        outside.command(&["ZADD", deadlines, "99999999999999", "java:1"]);
        eventually_within(LIMIT, "places kept", async || {
            outside.calls("lrange") > looked
        })
        .await;
        // One goes to the front, and the other one behind it.
        for (place, put_back) in [("0", "lpush"), ("1", "linsert")] {
            let before = outside.calls(put_back);
            let owner = outside.command(&["LINDEX", queue, place]).text();
            outside.command(&["LREM", queue, "0", &owner]);
            outside.command(&["ZREM", deadlines, &owner]);
            eventually_within(LIMIT, "back", async || outside.calls(put_back) > before).await;
        }
        outside.command(&["LREM", queue, "0", "java:1"]);
        outside.command(&["ZREM", deadlines, "java:1"]);
        held.unlock().await
    };
    let take = async || wanted.lock().await?.unlock().await;
    let (one, other, unlocked) = tokio::join!(take(), take(), disturb);
    unlocked.and(one).and(other)?;
    // A waiter that gives up.
    let held = a.fair_lock("orders:line").lock().await?;
    in_vain(wanted.try_lock(ms(100), Lease::Renewed).await);
    held.unlock().await
}

async fn count(a: &Client, b: &Client) -> Result<(), Error> {
    let (ours, theirs) = (a.semaphore("orders:s"), b.semaphore("orders:s"));
    assert!(ours.try_set_permits(1).await?);
    let permit = ours.acquire(1).await?;
    let owner = permit.guard().map(|guard| guard.owner().to_owned());
    assert!(
        theirs
            .force_release_of(&owner.unwrap_or_default(), "a test")
            .await?
    );
    let permit = ours.acquire(1).await?;
    in_vain(theirs.try_acquire(1, ms(500)).await);
    assert_eq!(theirs.available().await?, 0);
    permit.forget();
    ours.add_permits(2).await?;
    assert_eq!(ours.drain().await?, 2);
    theirs.add_permits(1).await?;
    let life = Duration::from_secs(60);
    let brief = a.semaphore("orders:brief");
    assert!(brief.try_set_permits_for(1, life).await?);
    brief.acquire(1).await?.release().await?;
    let tagged = b.semaphore("{orders:7}:slots");
    assert!(tagged.try_set_permits(1).await?);
    tagged.acquire(1).await?.release().await?;
    for name in ["orders:limited", "{orders:7}:slots"] {
        let limited = a.semaphore(name).with_limit(2);
        limited.acquire(2).await?.release().await?;
    }

    let (ours, theirs) = (
        a.permit_expirable_semaphore("orders:p"),
        b.permit_expirable_semaphore("orders:p"),
    );
    assert!(ours.try_set_permits(1).await?);
    let permit = ours.acquire(1, Lease::Renewed).await?;
    in_vain(theirs.try_acquire(1, ms(500), Lease::Renewed).await);
    assert!(ours.update_lease(permit.id(), ms(9000)).await?);
    assert!(theirs.remaining_lease(permit.id()).await?.is_some());
    permit.release().await?;
    assert_eq!(theirs.set_permits(3).await?, 3);
    assert_eq!(theirs.permits().await?, 3);
    assert!(ours.expire_after(life).await?);

    let (ours, theirs) = (
        a.count_down_latch("orders:l"),
        b.count_down_latch("orders:l"),
    );
    assert!(ours.try_set_count(2).await?);
    in_vain(theirs.wait(ms(50)).await);
    assert_eq!(ours.count_down().await?, 1);
    assert_eq!(theirs.count().await?, 1);
    assert!(ours.delete().await?);
    theirs.wait(ms(0)).await
}

/// A hold with a purpose, after a described hold that has ended.
async fn tell(a: &Client, b: &Client) -> Result<(), Error> {
    let (ours, theirs) = (a.lock("orders:told"), b.lock("orders:told"));
    for purpose in ["first", "second"] {
        let guard = ours.acquire().purpose(purpose).await?;
        while theirs
            .holder()
            .await?
            .and_then(|holder| holder.purpose)
            .as_deref()
            != Some(purpose)
        {
            tokio::time::sleep(ms(1)).await;
        }
        guard.unlock().await?;
    }
    Ok(())
}

/// Everything that a client can do with the other kinds.
async fn every_kind(a: &Client, b: &Client, outside: &mut Outside) -> Result<(), Error> {
    let kinds: [fn(&Client) -> Lock; 6] = [
        |client| client.fair_lock("orders:fair"),
        |client| client.fenced_lock("orders:fenced").into(),
        |client| client.lock("orders:plain"),
        |client| client.spin_lock("orders:spin"),
        |client| client.string_lock("orders:string"),
        |client| Lock::multi(["orders:one", "orders:two"].map(|name| client.lock(name))),
    ];
    for kind in kinds {
        contend((a, &kind(a)), (b, &kind(b))).await?;
    }
    lose_the_place(a, b, outside).await?;
    let guard = a.fenced_lock("orders:fenced").lock().await?;
    let string = a.string_lock("orders:string");
    let owner = forget(string.lock().await?);
    string.restore(&owner).await?.unlock().await?;
    let (ours, theirs) = (
        a.read_write_lock("orders:rw"),
        b.read_write_lock("orders:rw"),
    );
    contend((b, theirs.write()), (a, ours.write())).await?;
    // So many that a release does not check all of them.
    let mut crowd = Vec::new();
    for _ in 0..20 {
        crowd.push(ours.read().lock().await?);
    }
    for reading in crowd {
        reading.unlock().await?;
    }
    let (one, other) = (ours.read().lock().await?, theirs.read().lock().await?);
    one.unlock().await?;
    in_vain(ours.write().try_lock(ms(500), Lease::Renewed).await);
    other.unlock().await?;
    count(a, b).await?;
    tell(a, b).await?;
    let found = Admin::new(b).locks("orders:*").await?;
    assert!(
        found.iter().any(|lock| lock.key == "orders:fenced"),
        "{found:?}"
    );
    guard.unlock().await
}

/// Asserts that each right of a rule was used.
async fn all_used(rule: &[&str], outside: &mut Outside) {
    for right in rule.iter().filter_map(|word| word.strip_prefix('+')) {
        // Redis 6.2 counts all subcommands of CLIENT together.
        let command = right.split('|').next().unwrap_or_default();
        // Channels are unsubscribed after some seconds without waiters.
        let mut used = || outside.calls(right) + outside.calls(command) > 0;
        eventually_within(LIMIT, right, async || used()).await;
    }
}

#[test]
fn the_documented_rights_are_enough_and_all_are_used() {
    beside(LIMIT, async {
        let server = Server::start();
        let mut outside = Outside::of(&server);
        let rule = rule("locks");
        assert!(matches!(outside.command(&rule), Reply::Status(_)));
        let url = server.url().replace("redis://", "redis://locks:secret@");
        let client = || {
            Client::builder(&url)
                .lease(ms(3000))
                .safety_poll(ms(100))
                .connect()
        };
        let (a, b) = (
            client().await.expect("connects"),
            client().await.expect("connects"),
        );

        everything(&a, &b, &mut outside).await.expect("permitted");
        all_used(&rule, &mut outside).await;
        assert_eq!(refused(&mut outside), Vec::<String>::new());
        assert_eq!(b.stats().acquired_after_waiting, 2);
    });
}

#[test]
fn the_documented_rights_of_all_kinds_are_enough_and_all_are_used() {
    beside(LIMIT * 2, async {
        let server = Server::start();
        let mut outside = Outside::of(&server);
        let rule = rule("kinds");
        assert!(matches!(outside.command(&rule), Reply::Status(_)));
        let url = server.url().replace("redis://", "redis://kinds:secret@");
        let builder = || Client::builder(&url).lease(ms(3000)).safety_poll(ms(100));
        let builder = || builder().fair_claim(Duration::from_secs(60));
        let client = || builder().describe_holds().connect();
        let (a, b) = (
            client().await.expect("connects"),
            client().await.expect("connects"),
        );

        Box::pin(every_kind(&a, &b, &mut outside))
            .await
            .expect("permitted");
        all_used(&rule, &mut outside).await;
        assert_eq!(refused(&mut outside), Vec::<String>::new());
        // Without the rights, a search fails as a whole.
        outside.command(&["SET", "data", "x"]);
        let error = Admin::new(&a).locks("*").await.unwrap_err();
        assert!(matches!(&error, Error::Protocol { .. }), "{error}");
    });
}

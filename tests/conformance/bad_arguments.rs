//! Every call with a bad argument, on a closed client and without a server. One table lists all
//! calls, so that a new call is added once.

use std::fmt::Debug;
use std::time::Duration;

use leasehold::settings::LocalHandover;
use leasehold::{Client, ConfigError, Error, Lease, Lock};
use leasehold_testbed::{Bed, connected, eventually, ms, take_and_release};

const ID: &str = "0123456789abcdef0123456789abcdef";
const NOW: Duration = Duration::ZERO;

/// The calls that failed, and their errors.
#[derive(Default)]
struct Told(Vec<(String, Error)>);

impl Told {
    fn note<T: Debug>(&mut self, call: &str, outcome: Result<T, Error>) {
        self.0.push((call.to_owned(), outcome.expect_err(call)));
    }

    fn all(&self, expected: impl Fn(&Error) -> bool) {
        for (call, error) in &self.0 {
            assert!(expected(error), "{call}: {error:?}");
        }
    }
}

/// Every kind of lock, alone and as a member.
fn locks(client: &Client, name: &str) -> Vec<(&'static str, Lock)> {
    let (read, write) = client.read_write_lock(name).split();
    vec![
        ("lock", client.lock(name)),
        ("non-reentrant", client.lock(name).non_reentrant()),
        ("fair", client.fair_lock(name)),
        ("fenced", client.fenced_lock(name).into()),
        ("spin", client.spin_lock(name)),
        ("read", read),
        ("write", write),
        (
            "multi",
            Lock::multi([name, "fine"].map(|name| client.lock(name))),
        ),
        (
            "mixed",
            Lock::multi([client.lock("!fine"), client.fair_lock(name)]),
        ),
        ("string", client.string_lock(name)),
        ("red", Lock::quorum([client.string_lock(name)])),
    ]
}

/// Whether a kind accepts a name. Only locks with a single key accept some names.
fn may_be_called(kind: &str, name: &str) -> bool {
    ["string", "red"].contains(&kind) && name.contains('}')
}

async fn wait_for_ever(told: &mut Told, client: &Client, name: &str) {
    for (kind, lock) in locks(client, name) {
        if may_be_called(kind, name) {
            continue;
        }
        told.note(&format!("{kind}.lock"), lock.lock().await);
        told.note(
            &format!("{kind}.acquire"),
            lock.acquire().lease(Lease::Fixed(ms(1000))).await,
        );
        told.note(
            &format!("{kind}.try_lock"),
            lock.try_lock(Duration::MAX, Lease::Renewed).await,
        );
    }
    let semaphore = client.semaphore(name);
    told.note("semaphore.acquire", semaphore.acquire(1).await);
    let permits = client.permit_expirable_semaphore(name);
    told.note("permits.acquire", permits.acquire(1, Lease::Renewed).await);
    told.note(
        "latch.wait",
        client.count_down_latch(name).wait(Duration::MAX).await,
    );
}

async fn ask(told: &mut Told, client: &Client, name: &str) {
    for (kind, lock) in locks(client, name) {
        if may_be_called(kind, name) {
            continue;
        }
        for wait in [NOW, Duration::from_nanos(1), ms(20)] {
            told.note(
                &format!("{kind}.try_lock"),
                lock.try_lock(wait, Lease::Renewed).await,
            );
            told.note(&format!("{kind}.acquire"), lock.acquire().wait(wait).await);
            told.note(
                &format!("{kind}.run"),
                lock.run(wait, Lease::Fixed(ms(1000)), async |_| ()).await,
            );
        }
        told.note(&format!("{kind}.is_locked"), lock.is_locked().await);
        told.note(
            &format!("{kind}.remaining_lease"),
            lock.remaining_lease().await,
        );
        told.note(&format!("{kind}.holder"), lock.holder().await);
        told.note(
            &format!("{kind}.force_unlock"),
            lock.force_unlock("a test").await,
        );
    }
    ask_semaphores(told, client, name).await;
    let latch = client.count_down_latch(name);
    told.note("latch.try_set_count", latch.try_set_count(1).await);
    told.note("latch.count_down", latch.count_down().await);
    told.note("latch.count", latch.count().await);
    told.note("latch.wait", latch.wait(NOW).await);
    told.note("latch.wait", latch.wait(ms(20)).await);
    told.note("latch.delete", latch.delete().await);
    told.note("kept", client.kept(name).await);
    told.note("keep", client.keep(name, "value", ms(1000)).await);
}

async fn ask_semaphores(told: &mut Told, client: &Client, name: &str) {
    let semaphore = client.semaphore(name);
    told.note(
        "semaphore.try_set_permits",
        semaphore.try_set_permits(1).await,
    );
    told.note(
        "semaphore.try_set_permits_for",
        semaphore.try_set_permits_for(1, ms(1000)).await,
    );
    told.note("semaphore.try_acquire", semaphore.try_acquire(1, NOW).await);
    told.note(
        "semaphore.try_acquire",
        semaphore.try_acquire(1, ms(20)).await,
    );
    told.note("semaphore.add_permits", semaphore.add_permits(1).await);
    told.note("semaphore.add_permits", semaphore.add_permits(-1).await);
    told.note("semaphore.drain", semaphore.drain().await);
    told.note("semaphore.available", semaphore.available().await);
    let permits = client.permit_expirable_semaphore(name);
    told.note("permits.try_set_permits", permits.try_set_permits(1).await);
    told.note("permits.set_permits", permits.set_permits(1).await);
    told.note("permits.add_permits", permits.add_permits(-1).await);
    told.note("permits.expire_after", permits.expire_after(ms(1000)).await);
    told.note(
        "permits.try_acquire",
        permits.try_acquire(1, NOW, Lease::Fixed(ms(1000))).await,
    );
    told.note(
        "permits.try_acquire",
        permits.try_acquire(2, ms(20), Lease::Fixed(ms(1000))).await,
    );
    told.note("permits.release", permits.release(ID).await);
    told.note("permits.release_all", permits.release_all(&[ID, ID]).await);
    told.note("permits.remaining_lease", permits.remaining_lease(ID).await);
    told.note(
        "permits.update_lease",
        permits.update_lease(ID, ms(1000)).await,
    );
    told.note("permits.available", permits.available().await);
    told.note("permits.acquired", permits.acquired().await);
    told.note("permits.permits", permits.permits().await);
}

/// Calls that may know the answer without Redis.
async fn ask_here(told: &mut Told, client: &Client, name: &str) {
    let semaphore = client.semaphore(name);
    told.note("semaphore.acquire none", semaphore.acquire(0).await);
    told.note("semaphore.add_permits none", semaphore.add_permits(0).await);
}

/// Asserts that nothing was sent and nobody waits.
fn untouched(client: &Client) {
    let stats = client.stats();
    assert_eq!(
        (
            stats.calls,
            stats.local_queues,
            stats.waiting,
            stats.subscriptions
        ),
        (0, 0, 0, 0)
    );
}

pub(crate) async fn a_bad_name_is_refused(bed: Bed) {
    let client = bed.client().await;
    for name in ["", &"n".repeat(1025), "a}b"] {
        let mut told = Told::default();
        wait_for_ever(&mut told, &client, name).await;
        ask(&mut told, &client, name).await;
        ask_here(&mut told, &client, name).await;
        if !may_be_called("string", name) {
            let lock = client.string_lock(name);
            told.note("string.restore", lock.restore("a:1").await);
        }
        told.all(|error| matches!(error, Error::Config(ConfigError::Name { .. })));
    }
    untouched(&client);
}

pub(crate) async fn a_bad_prefix_is_named(bed: Bed) {
    let client = bed.builder().key_prefix("a}").connect().await.unwrap();
    let refused = client.lock("b").lock().await.unwrap_err().to_string();
    assert!(
        refused.contains("a}") && refused.contains("closing brace"),
        "{refused}"
    );
    // A lock with only one key may have any name.
    take_and_release(&client.string_lock("b")).await;
}

pub(crate) async fn one_bad_member_refuses_all(bed: Bed) {
    let client = bed.client().await;
    let others = [bed.another(), bed.another()];
    let (two, three) = (others[0].client().await, others[1].client().await);
    let quorum = Lock::quorum([client.lock("a"), two.lock("a"), three.lock("")]);
    let nested = Lock::multi([client.fair_lock("b"), client.lock("")]);
    for lock in [
        quorum,
        Lock::multi([client.lock("!a"), nested]),
        Lock::multi([client.lock("a"), Lock::multi(Vec::<Lock>::new())]),
    ] {
        let mut told = Told::default();
        told.note("try_lock", lock.try_lock(NOW, Lease::Renewed).await);
        told.note("lock", lock.lock().await);
        told.note("is_locked", lock.is_locked().await);
        told.note("force_unlock", lock.force_unlock("a test").await);
        told.all(|error| matches!(error, Error::Config(_)));
    }
    for client in [&client, &two, &three] {
        untouched(client);
    }
}

pub(crate) async fn a_bad_lease_is_refused(bed: Bed) {
    let client = bed.client().await;
    let nanosecond = Duration::from_nanos(1);
    for lease in [
        NOW,
        nanosecond,
        ms(10).saturating_sub(nanosecond),
        Lease::MAX + ms(1),
        Duration::MAX,
    ] {
        let mut told = Told::default();
        for (kind, lock) in locks(&client, "x") {
            told.note(kind, lock.try_lock(ms(20), Lease::Fixed(lease)).await);
            told.note(kind, lock.try_lock(NOW, Lease::Fixed(lease)).await);
            told.note(kind, lock.acquire().lease(Lease::Fixed(lease)).await);
            told.note(kind, lock.acquire().max_hold(lease).await);
            told.note(kind, lock.run(NOW, Lease::Fixed(lease), async |_| ()).await);
        }
        let semaphore = client.semaphore("s");
        told.note("a life", semaphore.try_set_permits_for(1, lease).await);
        let permits = client.permit_expirable_semaphore("p");
        told.note("a life", permits.expire_after(lease).await);
        told.note("a permit", permits.acquire(1, Lease::Fixed(lease)).await);
        told.note(
            "a permit",
            permits.try_acquire(1, NOW, Lease::Fixed(lease)).await,
        );
        told.note(
            "permits",
            permits.try_acquire(2, NOW, Lease::Fixed(lease)).await,
        );
        told.note("a permit by id", permits.update_lease(ID, lease).await);
        let limits = "10ms to 31536000s";
        told.all(|error| {
            matches!(
                error,
                Error::Config(ConfigError::OutOfRange { allowed, .. }) if allowed == limits
            )
        });
    }
    untouched(&client);
    let guard = client.lock("x").lock().await.unwrap();
    let calls = client.stats().calls;
    for lease in [NOW, ms(9), Duration::MAX] {
        assert!(matches!(guard.extend(lease).await, Err(Error::Config(_))));
    }
    assert_eq!(client.stats().calls, calls);
}

pub(crate) async fn a_bad_number_is_refused(bed: Bed) {
    let client = bed.client().await;
    let mut told = Told::default();
    let most = i64::from(u32::MAX);
    for number in [i64::MIN, -most - 1, most + 1, i64::MAX] {
        told.note(
            "semaphore.add",
            client.semaphore("s").add_permits(number).await,
        );
        told.note(
            "permits.add",
            client
                .permit_expirable_semaphore("p")
                .add_permits(number)
                .await,
        );
    }
    let permits = client.permit_expirable_semaphore("p");
    for number in [0, 1025, u32::MAX] {
        told.note(
            "permits.try_acquire",
            permits
                .try_acquire(number, NOW, Lease::Fixed(ms(100)))
                .await,
        );
    }
    told.note(
        "permits.release",
        permits.release_all(&vec![ID; 1025]).await,
    );
    told.all(|error| matches!(error, Error::Config(ConfigError::OutOfRange { .. })));
    let mut told = Told::default();
    for id in ["", "x", &ID[1..], &ID.to_uppercase(), &format!("{ID}0")] {
        told.note("permits.release", permits.release(id).await);
        told.note("permits.remaining_lease", permits.remaining_lease(id).await);
        told.note(
            "permits.update_lease",
            permits.update_lease(id, ms(100)).await,
        );
    }
    told.note("permits.release", permits.release_all(&[]).await);
    told.all(|error| matches!(error, Error::Config(ConfigError::PermitId)));
    untouched(&client);
}

pub(crate) async fn the_greatest_numbers_are_right(bed: Bed) {
    let client = bed.client().await;
    let most = i64::from(u32::MAX);
    let semaphore = client.semaphore("s");
    assert!(semaphore.try_set_permits(u32::MAX).await.unwrap());
    semaphore.add_permits(most).await.unwrap();
    semaphore.try_acquire(u32::MAX, NOW).await.unwrap().forget();
    assert_eq!(semaphore.drain().await.unwrap(), most);
    semaphore.add_permits(-most).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), -most);
    let permits = client.permit_expirable_semaphore("p");
    assert_eq!(permits.set_permits(u32::MAX).await.unwrap(), most);
    permits.add_permits(-most).await.unwrap();
    assert_eq!(permits.permits().await.unwrap(), 0);
    let latch = client.count_down_latch("l");
    assert!(latch.try_set_count(u32::MAX).await.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), most - 1);
}

pub(crate) async fn the_greatest_spans_are_taken(bed: Bed) {
    let for_ever = LocalHandover::Streak {
        count: u32::MAX,
        time: Duration::MAX,
    };
    let client = connected(bed.builder().local_handover(for_ever).lease(Lease::MAX)).await;
    for (kind, lock) in locks(&client, "x") {
        let guard = lock
            .acquire()
            .wait(Duration::MAX)
            .max_hold(Lease::MAX)
            .await
            .expect(kind);
        guard.extend(Lease::MAX).await.expect(kind);
        guard.unlock().await.expect(kind);
        bed.command(&["DEL", "x"]);
    }
    client.shutdown(Duration::MAX).await.unwrap();
}

pub(crate) async fn a_closed_client_refuses(bed: Bed) {
    let client = bed.client().await;
    client.shutdown(ms(1000)).await.unwrap();
    let calls = client.stats().calls;
    let mut told = Told::default();
    wait_for_ever(&mut told, &client, "x").await;
    ask(&mut told, &client, "x").await;
    let lock = client.string_lock("restored");
    told.note("string.restore", lock.restore("a:1").await);
    told.all(|error| matches!(error, Error::Closed));
    assert_eq!(client.stats().calls, calls);
}

pub(crate) async fn a_dead_server_is_reported_by_every_call(mut bed: Bed) {
    let client = connected(bed.builder().command_timeout(ms(100))).await;
    bed.fail();
    let mut told = Told::default();
    ask(&mut told, &client, "x").await;
    let lock = client.string_lock("restored");
    told.note("string.restore", lock.restore("a:1").await);
    told.all(|error| {
        let expected = matches!(
            error,
            Error::Unavailable { .. } | Error::Unknown { .. } | Error::Quorum { .. }
        );
        expected && error.is_retryable()
    });
}

pub(crate) async fn an_odd_name_is_a_name(bed: Bed) {
    let longest = "ä".repeat(512);
    let (one, other) = (bed.client().await, bed.client().await);
    let odd = [
        " ", "a\nb\r\n", "a\0b", "{t}: ü", "*", "[x]?\\", "mode", ":", "{a}{b", &longest,
    ];
    for name in odd {
        for ((kind, lock), (_, wanted)) in locks(&one, name).into_iter().zip(locks(&other, name)) {
            if kind == "read" {
                continue;
            }
            let what = format!("{kind} {name:?}");
            let guard = lock.lock().await.expect(&what);
            let release = async {
                let calls = other.stats().calls;
                eventually("refused again", async || other.stats().calls > calls).await;
                guard.unlock().await
            };
            let (taken, released) = tokio::join!(wanted.lock(), release);
            released.expect(&what);
            taken.expect(&what).unlock().await.expect(&what);
        }
    }
}

//! What the types promise to code that stores, sends and shares them.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use leasehold::inspect::{Holder, Waiters};
use leasehold::settings::LocalHandover;
use leasehold::{
    Client, ClientBuilder, ConfigError, CountDownLatch, EmbeddedRedis, Ended, Error,
    ExpirablePermit, FencedGuard, FencedLock, FencingToken, HoldState, Lease, Lock, LockGuard,
    LossReason, PermitExpirableSemaphore, ReadWriteLock, Semaphore, SemaphorePermit, Stats,
};

fn may_go_anywhere<T: Send + Sync + Debug + 'static>() {}

fn may_be_sent<T: Send>(value: T) -> T {
    value
}

#[test]
fn every_type_may_be_sent_shared_and_printed() {
    may_go_anywhere::<Client>();
    may_go_anywhere::<ClientBuilder>();
    may_go_anywhere::<EmbeddedRedis>();
    may_go_anywhere::<Error>();
    may_go_anywhere::<(Lock, LockGuard, Ended)>();
    may_go_anywhere::<(FencedLock, FencedGuard)>();
    may_go_anywhere::<Stats>();
    may_go_anywhere::<ReadWriteLock>();
    may_go_anywhere::<(Semaphore, SemaphorePermit)>();
    may_go_anywhere::<(PermitExpirableSemaphore, ExpirablePermit)>();
    may_go_anywhere::<CountDownLatch>();
    may_go_anywhere::<(Holder, Waiters)>();
    may_go_anywhere::<(Lease, HoldState, LossReason, FencingToken)>();
    may_go_anywhere::<(ConfigError, LocalHandover)>();
}

#[tokio::test(start_paused = true)]
async fn every_future_may_be_sent() {
    let client = EmbeddedRedis::new().client();
    let lock = client.lock("x");
    let guard = may_be_sent(lock.lock()).await.expect("free");
    drop(may_be_sent(guard.ended()));
    may_be_sent(guard.run(async {})).await.expect("held");
    may_be_sent(guard.extend(Duration::from_secs(1)))
        .await
        .expect("held");
    may_be_sent(guard.unlock()).await.expect("held");
    let wait = Duration::from_secs(1);
    may_be_sent(lock.try_lock(wait, Lease::Fixed(wait)))
        .await
        .expect("free")
        .forget();
    drop(may_be_sent(lock.is_locked()));
    drop(may_be_sent(lock.acquire().wait(wait).into_future()));
    let ran = may_be_sent(lock.run(Duration::ZERO, Lease::Fixed(wait), async |_| 7)).await;
    assert!(ran.expect_err("it was forgotten").is_timeout());
    drop(may_be_sent(client.string_lock("y").restore("a:1")));
    drop(may_be_sent(client.ping()));
    let semaphore = client.semaphore("s");
    drop(may_be_sent(semaphore.acquire(1)));
    drop(may_be_sent(semaphore.drain()));
    let permits = client.permit_expirable_semaphore("p");
    drop(may_be_sent(permits.acquire(1, Lease::Renewed)));
    drop(may_be_sent(permits.release_all(&[])));
    drop(may_be_sent(client.count_down_latch("l").wait(wait)));
    may_be_sent(client.shutdown(wait))
        .await
        .expect("it settles");
}

#[tokio::test(start_paused = true)]
async fn a_wait_fits_where_it_is_stored() {
    let client = EmbeddedRedis::new().client();
    let lock = client.lock("x");
    // Ten thousand waiting tasks take forty megabytes. More would be noticed.
    assert!(
        size_of_val(&lock.lock()) <= 4096,
        "{}",
        size_of_val(&lock.lock())
    );
}

/// Each call documents what its caller must know. `docs/` and the tests say whether it is true.
#[test]
fn every_call_says_what_it_costs_leaves_and_fails_with() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let folders = [
        "",
        "client",
        "lock",
        "lock/guard",
        "lock/multi",
        "permits",
        "semaphore",
    ];
    let files = folders.map(|folder| sources.join(folder).read_dir().expect("sources"));
    let mut calls = 0;
    for file in files.into_iter().flatten() {
        let path = file.expect("an entry").path();
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        let mut said = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("pub async fn ") {
                calls += 1;
                for section in ["# Redis cost", "# Cancel safety", "# Errors"] {
                    assert!(
                        said.contains(section),
                        "{name} in {} has no {section}",
                        path.display()
                    );
                }
            }
            if line.starts_with("///") {
                said.push_str(line);
            } else if !line.starts_with('#') {
                said.clear();
            }
        }
    }
    assert!(calls > 40, "the sources are looked at: {calls}");
}

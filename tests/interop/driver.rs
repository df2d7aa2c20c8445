//! Tests the Java driver itself: every command once, with the real Redisson alone. The other tests
//! rely on its replies.

use std::time::Duration;

use leasehold_testbed::{Borrowed, Server};

use crate::observer::Observer;
use crate::redisson::contention::Contenders;
use crate::redisson::{Redisson, Timeouts};

const NOW: Duration = Duration::ZERO;
const MOMENT: Duration = Duration::from_millis(50);
/// Redisson throws if it cannot subscribe within the wait, as on a busy machine.
const WAIT: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);
const CROWD: Contenders = Contenders {
    threads: 3,
    rounds: 20,
    work: Duration::from_millis(1),
    rest: NOW,
};

async fn alone() -> (Borrowed, Redisson) {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), None).await;
    (server, java)
}

#[tokio::test]
async fn driver_takes_every_kind_of_lock() {
    let (_server, java) = alone().await;
    let exclusive = [
        "lock",
        "nonreentrant",
        "fair",
        "nonreentrantfair",
        "fenced",
        "spin",
        "write",
    ];
    for kind in exclusive {
        let lock = format!("{kind}:shop:{kind}");
        java.lock("a", &lock, Some(LEASE)).await;
        assert!(java.is_locked(&lock).await, "{lock}");
        assert!(java.is_held("a", &lock).await, "{lock}");
        assert!(!java.is_held("b", &lock).await, "{lock}");
        assert_eq!(java.hold_count("a", &lock).await, 1, "{lock}");
        assert!((1..=10_000).contains(&java.ttl(&lock).await), "{lock}");
        assert!(!java.try_lock("b", &lock, NOW, None).await, "{lock}");
        let refused = java.unlock("b", &lock).await.expect_err(&lock);
        assert!(
            refused.0.starts_with("IllegalMonitorStateException"),
            "{lock}: {refused:?}"
        );

        let again = java.lock_or_throw("a", &lock).await;
        assert_eq!(
            again.is_err(),
            kind.starts_with("nonreentrant"),
            "{lock}: {again:?}"
        );
        assert_eq!(
            java.hold_count("a", &lock).await,
            1 + u64::from(again.is_ok()),
            "{lock}"
        );
        assert!(java.force_unlock(&lock).await, "{lock}");
        assert_eq!(java.ttl(&lock).await, -2, "{lock}");
    }
}

#[tokio::test]
async fn driver_shares_the_read_side() {
    let (_server, java) = alone().await;
    java.lock("a", "read:stock", None).await;
    assert!(java.try_lock("b", "read:stock", NOW, Some(LEASE)).await);
    assert!(!java.try_lock("c", "write:stock", WAIT, None).await);
    java.unlock("a", "read:stock").await.expect("unlock");
    let waits = java.lock("c", "write:stock", None);
    java.until_parked("c").await;
    java.unlock("b", "read:stock").await.expect("unlock");
    waits.await;
    assert!(!java.is_locked("read:stock").await);
}

#[tokio::test]
async fn driver_takes_several_locks_at_once() {
    let (_server, java) = alone().await;
    java.lock("a", "multi:x+y+z", None).await;
    assert!(java.is_held("a", "multi:x+y+z").await);
    for member in ["lock:x", "lock:y", "lock:z"] {
        assert!(java.is_held("a", member).await, "{member}");
    }
    assert!(!java.try_lock("b", "multi:w+z", NOW, None).await);
    assert!(!java.is_locked("lock:w").await);
    java.unlock("a", "multi:x+y+z").await.expect("unlock");
    assert!(java.try_lock("b", "multi:w+z", NOW, None).await);
}

#[tokio::test]
async fn driver_takes_a_lock_on_several_servers() {
    let servers = [Server::start(), Server::start(), Server::start()];
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let java = Redisson::start(&urls.join(";"), None).await;
    java.lock("a", "at:1:lock:x", None).await;
    assert!(java.try_lock("b", "red:x", NOW, None).await, "two of three");
    for (server, thread) in [(0, "b"), (1, "a"), (2, "b")] {
        assert!(
            java.is_held(thread, &format!("at:{server}:lock:x")).await,
            "{server}"
        );
        let owner = java.owner_on(server, thread).await;
        assert_eq!(
            servers[server].command(&["HKEYS", "x"]).array()[0].text(),
            owner
        );
    }
    java.lock("a", "at:1:lock:y", None).await;
    java.lock("a", "at:2:lock:y", None).await;
    assert!(
        !java.try_lock("b", "red:y", NOW, None).await,
        "one of three"
    );
    assert!(!java.is_locked("at:0:lock:y").await);
}

#[tokio::test]
async fn driver_reports_tokens() {
    let (_server, java) = alone().await;
    assert_eq!(java.token("ledger").await, 0);
    assert_eq!(java.lock_token("a", "ledger", None).await, 1);
    assert_eq!(java.lock_token("a", "ledger", Some(LEASE)).await, 2);
    assert_eq!(java.try_lock_token("b", "ledger", WAIT, None).await, None);
    assert!(java.force_unlock("fenced:ledger").await);
    assert_eq!(
        java.try_lock_token("b", "ledger", WAIT, Some(LEASE)).await,
        Some(3)
    );
    assert_eq!(java.token("ledger").await, 3);
}

#[tokio::test]
async fn driver_uses_semaphores() {
    let (_server, java) = alone().await;
    assert!(java.semaphore_set("slots", 3).await);
    assert!(!java.semaphore_set("slots", 5).await);
    java.semaphore_acquire("a", "slots", 2).await;
    assert_eq!(java.semaphore_available("slots").await, 1);
    assert!(!java.semaphore_try_acquire("b", "slots", 2, NOW).await);
    let waits = java.semaphore_try_acquire("b", "slots", 2, LEASE);
    java.semaphore_release("slots", 1).await;
    assert!(waits.await);
    java.semaphore_add("slots", 4).await;
    assert_eq!(java.semaphore_drain("slots").await, 4);
    java.semaphore_add("slots", -2).await;
    assert_eq!(java.semaphore_available("slots").await, -2);
}

#[tokio::test]
async fn driver_uses_permits_that_expire() {
    let (_server, java) = alone().await;
    assert!(java.permit_set("seats", 2).await);
    assert!(!java.permit_set("seats", 3).await);
    let first = java.permit_acquire("a", "seats", None).await;
    let second = java.permit_acquire("a", "seats", Some(LEASE)).await;
    assert!(
        first.len() == 32 && second.len() == 32 && first != second,
        "{first} {second}"
    );
    assert_eq!(
        java.permit_try_acquire("b", "seats", WAIT, None).await,
        None
    );
    assert_eq!(java.permit_available("seats").await, 0);
    assert_eq!(java.permit_acquired("seats").await, 2);
    assert_eq!(java.permit_total("seats").await, 2);

    java.permit_release("seats", &first).await.expect("held");
    java.permit_release("seats", &first)
        .await
        .expect_err("it is not held any more");
    assert!(!java.permit_try_release("seats", &first).await);
    assert!(java.permit_try_release("seats", &second).await);
    assert!(
        java.permit_try_acquire("b", "seats", NOW, Some(LEASE))
            .await
            .is_some()
    );
}

#[tokio::test]
async fn driver_waits_for_latches() {
    let (_server, java) = alone().await;
    assert!(java.latch_set("started", 2).await);
    assert!(!java.latch_set("started", 1).await);
    assert!(!java.latch_wait("a", "started", Some(WAIT)).await);
    let waits = [
        java.latch_wait("a", "started", None),
        java.latch_wait("b", "started", Some(LEASE)),
    ];
    java.latch_count_down("started").await;
    assert_eq!(java.latch_count("started").await, 1);
    java.latch_count_down("started").await;
    for waits in waits {
        assert!(waits.await);
    }
    assert_eq!(java.latch_count("started").await, 0);
    assert!(!java.latch_delete("started").await);
    assert!(java.latch_set("started", 1).await);
    assert!(java.latch_delete("started").await);
}

#[tokio::test]
async fn driver_contends_for_every_kind_of_lock() {
    let (server, java) = alone().await;
    let mut observer = Observer::of(&server.url());
    let exclusive = [
        "lock:a",
        "nonreentrant:b",
        "fair:c",
        "nonreentrantfair:d",
        "fenced:e",
        "spin:f",
        "write:g",
        "multi:h+i",
    ];
    for lock in exclusive {
        let tally = java.contend_lock(CROWD, lock, lock).await;
        assert_eq!(
            (tally.rounds, tally.violations, tally.switches),
            (60, 0, 1),
            "{lock}"
        );
        assert!(tally.longest_wait > NOW, "{lock}");
        assert_eq!(observer.ask(&format!("GET {lock}")).await, ["0"]);
        assert_eq!(observer.ask(&format!("GET {lock}:last")).await, ["java"]);
    }
    // The stored token is higher than any that this lock has given out.
    observer.ask("SET fenced:e:token 1000").await;
    let tally = java.contend_lock(CROWD, "fenced:e", "fenced:e").await;
    assert_eq!(tally.violations, 1, "the first token is too low");
    // Readers are inside together, which counts as a violation here.
    let readers = java.contend_lock(CROWD, "read:g", "readers").await;
    assert!(readers.violations > 0, "{readers:?}");
    let report = java.contend(2, 3, "lock:a", "brief").await;
    assert!(report.contains("rounds=6 violations=0"), "{report}");
}

#[tokio::test]
async fn driver_contends_for_both_sides() {
    let (server, java) = alone().await;
    let mut observer = Observer::of(&server.url());
    let tally = java.contend_read_write(CROWD, "stock", "inside", 30).await;
    assert_eq!((tally.reads + tally.writes, tally.violations), (60, 0));
    assert!(
        tally.reads > 0 && tally.writes > 0 && tally.longest_wait > NOW,
        "{tally:?}"
    );
    let only_reads = java.contend_read_write(CROWD, "stock", "inside", 0).await;
    assert_eq!((only_reads.reads, only_reads.writes), (60, 0));
    assert!((2..=3).contains(&only_reads.most_readers), "{only_reads:?}");
    assert_eq!(
        observer.ask("MGET inside:readers inside:writers").await,
        ["0", "0"]
    );

    // Pretends that a reader without a lock is inside all the time.
    observer.ask("SET inside:readers 1").await;
    let only_writes = java.contend_read_write(CROWD, "stock", "inside", 100).await;
    assert_eq!((only_writes.writes, only_writes.violations), (60, 60));
}

#[tokio::test]
async fn driver_contends_for_permits() {
    let (server, java) = alone().await;
    let mut observer = Observer::of(&server.url());
    assert!(java.semaphore_set("slots", 2).await);
    let tally = java.contend_semaphore(CROWD, "slots", "inside", 2).await;
    assert_eq!((tally.rounds, tally.violations, tally.most), (60, 0, 2));
    assert!(tally.longest_wait > NOW, "{tally:?}");
    assert_eq!(observer.ask("GET inside").await, ["0"]);
    assert_eq!(java.semaphore_available("slots").await, 2);
    assert!(java.permit_set("seats", 2).await);
    let tally = java.contend_permits(CROWD, "seats", "inside", 2).await;
    assert_eq!((tally.rounds, tally.violations, tally.most), (60, 0, 2));
    assert_eq!(java.permit_available("seats").await, 2);
    let stricter = java.contend_semaphore(CROWD, "slots", "inside", 1).await;
    assert!(stricter.violations > 0, "{stricter:?}");
}

#[tokio::test]
async fn driver_enters_a_fair_lock_in_order() {
    let server = Borrowed::take();
    let timeouts = Timeouts {
        watchdog: Some(LEASE),
        fair_wait: Some(LEASE),
    };
    let java = Redisson::start_with(&server.url(), timeouts).await;
    let mut observer = Observer::of(&server.url());

    // Asked first, because a thread that waits for the lock answers no other request.
    let first = java.owner("c").await;
    java.lock("door", "fair:queue", None).await;
    let mut entering = Vec::new();
    for (queued, thread) in (1..).zip(["c", "a", "b"]) {
        entering.push(java.enter_fair(thread, "queue", "entered", MOMENT, None));
        observer
            .wait_until("LLEN redisson_lock_queue:{queue}", queued)
            .await;
    }
    // The first waiter may wait for the rest of the lease and for its own time, both 10 s.
    let deadline = format!("ZSCORE redisson_lock_timeout:{{queue}} {first}");
    let now: i64 = observer.ask("TIME").await[0].parse().expect("seconds");
    let left = observer.integer(&deadline).await / 1000 - now;
    assert!((15..=21).contains(&left), "{left} s");

    assert!(
        !java
            .enter_fair("d", "queue", "entered", MOMENT, Some(WAIT))
            .await
    );
    java.unlock("door", "fair:queue").await.expect("unlock");
    for entered in entering {
        assert!(entered.await);
    }
    assert_eq!(observer.ask("LRANGE entered 0 -1").await, ["c", "a", "b"]);
    assert!(!java.is_locked("fair:queue").await);
}

#[tokio::test]
async fn driver_leaves_locks_behind_when_it_is_shut_down() {
    let (server, java) = alone().await;
    java.lock("a", "lock:kept", Some(LEASE)).await;
    java.shutdown().await;
    let mut observer = Observer::of(&server.url());
    assert_eq!(observer.integer("EXISTS kept").await, 1);
}

//! Stored replies of changes that must take effect once: how many there are, and what a late copy
//! finds.

use futures::FutureExt;
use futures::future::join_all;
use leasehold::Client;
use leasehold::test_util::{Delay, Faults};
use leasehold_testbed::{Bed, eventually, ms};
use tokio::time::{sleep, sleep_until};

use crate::delayed_commands::{LATE, SEEDS, Testbed};

fn replies(bed: &Bed) -> usize {
    bed.list(&["KEYS", "leasehold_reply:*"]).len()
}

/// Concurrent calls about one name have a key each, and later calls reuse those keys.
pub(crate) async fn a_thousand_changes_keep_a_handful_of_replies(bed: Bed) {
    let client = bed.client().await;
    let (latch, semaphore) = (client.count_down_latch("l"), client.semaphore("s"));
    let permits = client.permit_expirable_semaphore("p");
    latch.try_set_count(2000).await.unwrap();
    for _ in 0..1000 {
        semaphore.add_permits(1).await.unwrap();
    }
    assert_eq!(
        (bed.command(&["GET", "s"]), replies(&bed)),
        ("1000".into(), 2)
    );
    for _ in 0..250 {
        let (added, counted) = tokio::join!(
            join_all((0..4).map(|_| permits.add_permits(1))),
            join_all((0..4).map(|_| latch.count_down()))
        );
        assert!(added.iter().all(Result::is_ok) && counted.iter().all(Result::is_ok));
    }
    assert_eq!(bed.command(&["GET", "p"]), "1000");
    assert_eq!(latch.count().await.unwrap(), 1000);
    assert!(replies(&bed) <= 1 + 8 + 8, "{}", replies(&bed));
}

/// The key of a dropped call is reused by the next one, and each of the two is executed.
pub(crate) async fn a_dropped_change_keeps_no_key_for_itself(bed: Bed) {
    let client = bed.client().await;
    let semaphore = client.semaphore("s");
    semaphore.add_permits(1).await.unwrap();
    for _ in 0..100 {
        // Sent, with nobody waiting for the reply.
        drop(semaphore.add_permits(1).now_or_never());
        semaphore.add_permits(1).await.unwrap();
    }
    // A call dropped at its first poll is sent by this crate's own connections. `fred` may not have
    // started it.
    if std::env::var_os("LEASEHOLD_CONNECTION").is_none() {
        eventually("all are done", async || bed.command(&["GET", "s"]) == "201").await;
    }
    assert_eq!(replies(&bed), 1);
}

/// The changes, and the number after each change and the two that follow were executed once.
const CHANGES: [(&str, &str); 5] = [
    ("release", "3"),
    ("add", "3"),
    ("drain", "2"),
    ("set", "nil"),
    ("count down", "1"),
];

async fn prepare(client: &Client, what: &str) {
    match what {
        "drain" => client.semaphore("n").add_permits(7).await.unwrap(),
        "count down" => drop(client.count_down_latch("n").try_set_count(4).await.unwrap()),
        _ => {}
    }
}

async fn change(client: &Client, what: &str) {
    match what {
        "release" => client.semaphore("n").add_permits(1).await.unwrap(),
        "add" => client
            .permit_expirable_semaphore("n")
            .add_permits(1)
            .await
            .unwrap(),
        "drain" => drop(client.semaphore("n").drain().await.unwrap()),
        "set" => assert!(client.count_down_latch("n").try_set_count(2).await.unwrap()),
        _ => drop(client.count_down_latch("n").count_down().await.unwrap()),
    }
}

/// Two more changes, which reuse the key of the first one's reply.
async fn change_again(client: &Client, what: &str) {
    for _ in 0..2 {
        match what {
            "drain" => client.semaphore("n").add_permits(1).await.unwrap(),
            "set" => drop(client.count_down_latch("n").count_down().await.unwrap()),
            _ => change(client, what).await,
        }
    }
}

/// A call was repeated after its connection broke. Its first copy comes when its reply is no longer
/// stored.
#[tokio::test(start_paused = true)]
async fn a_late_copy_of_a_change_counts_once() {
    for (what, number) in CHANGES {
        let mut came = 0;
        for seed in SEEDS {
            let testbed = Testbed::new(seed);
            let run = || {
                let runs = testbed.redis.scripts_run();
                let changes = [
                    "semaphore_add",
                    "semaphore_drain",
                    "count_set",
                    "latch_count_down",
                ];
                changes
                    .iter()
                    .filter_map(|script| runs.get(script))
                    .sum::<u64>()
            };
            prepare(&testbed.client, what).await;
            testbed.slow(ms(30));
            let broken = async {
                let broken = testbed.breaks().await;
                testbed.is_fast_again();
                broken
            };
            let ((), broken) = tokio::join!(change(&testbed.client, what), broken);
            change_again(&testbed.client, what).await;
            let before = run();
            sleep_until(broken + LATE + ms(100)).await;
            came += run() - before;
            let bed = Bed::of(&testbed.redis);
            assert_eq!(bed.command(&["GET", "n"]), number, "{what}, seed {seed}");
        }
        assert!((1..8).contains(&came), "{what}: {came} came late");
    }
}

/// A call that was dropped before it ran is overtaken by a call with a later number.
#[tokio::test(start_paused = true)]
async fn a_dropped_change_that_comes_late_is_done_once_at_most() {
    for seed in SEEDS {
        let testbed = Testbed::new(seed);
        let semaphore = testbed.client.semaphore("n");
        testbed.slow(ms(30));
        let dropped = tokio::time::timeout(ms(10), semaphore.add_permits(100)).await;
        assert!(dropped.is_err(), "it is on its way");
        testbed.link.cut();
        testbed.link.heal();
        let faults = Faults {
            request: Delay::fixed(ms(1)),
            ..Faults::default()
        };
        testbed.link.set_faults(faults, seed);
        for _ in 0..3 {
            semaphore.add_permits(1).await.unwrap();
        }
        sleep(LATE).await;
        let bed = Bed::of(&testbed.redis);
        let permits = bed.number(&["GET", "n"]);
        assert!([3, 103].contains(&permits), "seed {seed}: {permits}");
        assert_eq!(replies(&bed), 1);
    }
}

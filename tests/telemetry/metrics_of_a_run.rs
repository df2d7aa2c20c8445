//! Runs a fixed sequence of operations on the embedded engine and on a server. The metrics must
//! report exactly those operations.

use std::time::Duration;

use leasehold::settings::LocalHandover;
use leasehold::{Client, ClientBuilder, EmbeddedRedis, Ended, Error, Lease, LossReason};
use leasehold_testbed::{Server, connected, eventually, take_and_release};

use crate::recorded::{Exporter, Recorded};

const LEASE: Duration = Duration::from_millis(600);
const SOON: Duration = Duration::from_secs(10);

/// Where the sequence runs, and how to make a client lose a lock there.
struct Place {
    builder: ClientBuilder,
    take_away: Box<dyn Fn(&str) + Send>,
}

fn embedded() -> Place {
    let redis = EmbeddedRedis::new();
    let builder = redis.builder();
    Place {
        builder,
        take_away: Box::new(move |name| assert!(redis.lose(name))),
    }
}

/// Runs the sequence. Returns the client's own statistics at the end, and the metrics.
async fn run(place: Place) -> (leasehold::Stats, Recorded) {
    let exporter = Exporter::start().await;
    let Place { builder, take_away } = place;
    // The default streak is over on a machine that stalls for a moment.
    let streak = LocalHandover::Streak {
        count: 9,
        time: SOON,
    };
    let builder = builder.lease(LEASE).local_handover(streak);
    let client = builder.connect().await.expect("it connects");

    // Three acquisitions that find the lock free, and release it.
    for _ in 0..3 {
        take_and_release(&client.lock("free")).await;
    }

    // One wait that times out, and one that is dropped.
    let guard = client.lock("held").lock().await.unwrap();
    let short = Duration::from_millis(20);
    let refused = client.lock("held").try_lock(short, Lease::Renewed).await;
    assert!(matches!(refused, Err(Error::Timeout { .. })), "{refused:?}");
    let lock = client.lock("held");
    let dropped = tokio::time::timeout(short, lock.lock()).await;
    assert!(dropped.is_err());

    // Two waiters: one gets the lock and hands it over to the other.
    let [first, second] = [(); 2].map(|()| {
        let lock = client.lock("held");
        tokio::spawn(async move { lock.lock().await })
    });
    eventually("both queued", async || client.stats().waiting == 2).await;
    let during = exporter.take();
    assert_eq!(during.number("leasehold_acquire_active{kind=lock}"), 2);
    assert_eq!(during.number("leasehold_hold_active{kind=lock}"), 1);
    guard.unlock().await.unwrap();
    first.await.unwrap().unwrap().unlock().await.unwrap();
    let guard = second.await.unwrap().unwrap();

    // Renewed, and then lost.
    let renewed = client.stats().renewed;
    eventually("renewed twice", async || {
        client.stats().renewed >= renewed + 2
    })
    .await;
    take_away("held");
    let ended = tokio::time::timeout(SOON, guard.ended())
        .await
        .expect("ended");
    assert_eq!(ended, Ended::Lost(LossReason::Gone));
    drop(guard);

    // A fixed lease of another kind that ends.
    let guard = client
        .fair_lock("fixed")
        .try_lock_now(Lease::Fixed(LEASE / 2))
        .await
        .unwrap();
    assert_eq!(guard.ended().await, Ended::Lost(LossReason::Expired));
    drop(guard);

    eventually("all settled", async || {
        let stats = client.stats();
        stats.releases_pending == 0 && stats.holds == 0 && stats.waiting == 0
    })
    .await;
    client.clone().shutdown(SOON).await.unwrap();
    let stats = client.stats();

    let mut all = exporter.take();
    for (name, number) in during.numbers {
        // Gauges show the present value.
        if !name.contains("_active") {
            *all.numbers.entry(name).or_default() += number;
        }
    }
    for (name, values) in during.histograms {
        all.histograms.entry(name).or_default().extend(values);
    }
    (stats, all)
}

fn check(stats: &leasehold::Stats, all: &Recorded) {
    let of = |name: &str| all.of(name);
    let expected = |names: &[(&str, u64)]| {
        names
            .iter()
            .map(|(name, number)| ((*name).to_owned(), *number))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("leasehold_acquire_duration_seconds"),
        expected(&[
            (
                "leasehold_acquire_duration_seconds{kind=fair,outcome=acquired}",
                1
            ),
            (
                "leasehold_acquire_duration_seconds{kind=lock,outcome=acquired}",
                6
            ),
            (
                "leasehold_acquire_duration_seconds{kind=lock,outcome=dropped}",
                1
            ),
            (
                "leasehold_acquire_duration_seconds{kind=lock,outcome=timeout}",
                1
            ),
        ])
    );
    assert_eq!(
        of("leasehold_hold_duration_seconds"),
        expected(&[
            ("leasehold_hold_duration_seconds{kind=fair,end=expired}", 1),
            ("leasehold_hold_duration_seconds{kind=lock,end=gone}", 1),
            ("leasehold_hold_duration_seconds{kind=lock,end=released}", 5),
        ])
    );
    assert_eq!(
        of("leasehold_losses_total"),
        expected(&[
            ("leasehold_losses_total{kind=fair,reason=expired}", 1),
            ("leasehold_losses_total{kind=lock,reason=gone}", 1),
        ])
    );
    // The hold that was handed over within the client was not released.
    assert_eq!(
        of("leasehold_release_duration_seconds"),
        expected(&[(
            "leasehold_release_duration_seconds{kind=lock,outcome=released}",
            5 - stats.handed_over
        )])
    );
    assert_eq!(
        all.count("leasehold_renewal_lag_seconds{kind=lock}") as u64,
        stats.renewed
    );
    assert_eq!(all.count("leasehold_acquire_calls{kind=lock}"), 8);
    // Gauges are back at zero.
    assert_eq!(of("leasehold_acquire_active"), []);
    assert_eq!(of("leasehold_hold_active"), []);
    // The counters equal the client's own statistics.
    for (name, number) in stats.iter() {
        let metric = all.number(&format!("leasehold_{name}_total"));
        match name {
            "reconnects" | "subscriptions" | "listeners" | "local_queues" | "waiting" | "holds"
            | "releases_pending" => {}
            _ => assert_eq!(metric, number, "{name}"),
        }
    }
    assert_eq!(
        (stats.acquired_at_once, stats.acquired_after_waiting),
        (5, 2)
    );
    assert!(stats.handed_over > 0);
    assert_eq!((stats.timed_out, stats.lost), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn metrics_count_every_operation_on_the_embedded_engine() {
    let (stats, all) = Box::pin(run(embedded())).await;
    check(&stats, &all);
}

#[tokio::test]
async fn metrics_count_every_operation_on_a_server() {
    let server = Server::start();
    let builder = Client::builder(&server.url());
    let take_away = Box::new(move |name: &str| {
        assert_eq!(server.command(&["DEL", name]).int(), 1);
    });
    let (stats, all) = Box::pin(run(Place { builder, take_away })).await;
    check(&stats, &all);
}

#[tokio::test(start_paused = true)]
async fn a_name_becomes_a_label_only_through_the_users_function() {
    let exporter = Exporter::start().await;
    let redis = EmbeddedRedis::new();
    let of_orders = |name: &str| name.starts_with("orders:").then(|| "orders".to_owned());
    let client = connected(redis.builder().metric_name(of_orders)).await;
    for name in ["orders:1", "orders:2", "users:1"] {
        take_and_release(&client.lock(name)).await;
    }
    assert_eq!(
        exporter.take().of("leasehold_acquire_duration_seconds"),
        [
            (
                "leasehold_acquire_duration_seconds{kind=lock,outcome=acquired,name=orders}"
                    .to_owned(),
                2
            ),
            (
                "leasehold_acquire_duration_seconds{kind=lock,outcome=acquired}".to_owned(),
                1
            ),
        ]
    );
}

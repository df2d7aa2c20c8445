//! What is under way for long shows before it ends: a leaked guard, a wait behind it, a lost
//! connection.

use std::time::Duration;

use leasehold::{Client, ClientBuilder, EmbeddedRedis, Error, Lease};
use leasehold_admin::Admin;
use leasehold_testbed::connected;
use tokio::time::sleep;

use crate::recorded::Exporter;

const MINUTE: Duration = Duration::from_secs(60);
/// The gauges are set about once a second.
const TICK: Duration = Duration::from_secs(2);

/// A client whose series are of this test alone: the gauges are those of the whole process, and
/// other tests run in it.
async fn of_its_own(builder: ClientBuilder, label: &'static str) -> Client {
    connected(builder.metric_name(move |_| Some(label.to_owned()))).await
}

fn series(metric: &str, label: &str) -> String {
    format!("leasehold_{metric}_oldest_seconds{{kind=lock,name={label}}}")
}

fn is_about(age: f64, expected: Duration) {
    let expected = expected.as_secs_f64();
    assert!(
        (expected - TICK.as_secs_f64()..=expected).contains(&age),
        "{age} s, not {expected} s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leaked_guard_and_the_wait_behind_it_show_within_a_minute() {
    let exporter = Exporter::start().await;
    let client = of_its_own(EmbeddedRedis::new().builder(), "leaked").await;
    std::mem::forget(client.lock("orders:42").lock().await.unwrap());
    sleep(MINUTE / 2).await;
    let waiting = tokio::spawn({
        let lock = client.lock("orders:42");
        async move { lock.lock().await }
    });
    sleep(MINUTE / 2).await;
    let recorded = exporter.take();
    is_about(recorded.age(&series("hold", "leaked")), MINUTE);
    is_about(recorded.age(&series("acquire", "leaked")), MINUTE / 2);
    // Before the next test has the exporter.
    waiting.abort();
    waiting.await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn the_age_is_that_of_the_oldest_hold_of_all_clients_and_ends_with_it() {
    let exporter = Exporter::start().await;
    let redis = EmbeddedRedis::new();
    let first = of_its_own(redis.builder(), "shared").await;
    let second = of_its_own(redis.builder(), "shared").await;
    let old = first.lock("a").lock().await.unwrap();
    sleep(MINUTE).await;
    let young = second.lock("b").lock().await.unwrap();
    sleep(MINUTE).await;
    is_about(exporter.take().age(&series("hold", "shared")), MINUTE * 2);

    old.unlock().await.unwrap();
    sleep(TICK).await;
    let left = exporter.take().age(&series("hold", "shared"));
    is_about(left, MINUTE + TICK);

    // Let the gauge have a value, so that the zero must have been set. The guard of the lost hold
    // is still there.
    sleep(TICK).await;
    assert!(redis.lose("b"));
    young.ended().await;
    sleep(TICK).await;
    assert!(exporter.take().age(&series("hold", "shared")).abs() < f64::EPSILON);
    drop(young);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_shows_until_it_is_back_or_the_client_ends() {
    let exporter = Exporter::start().await;
    let redis = EmbeddedRedis::new();
    let client = connected(redis.builder()).await;
    // Other tests of this process have outages of other engines.
    let server = Admin::new(&client)
        .preflight()
        .await
        .unwrap()
        .servers()
        .next()
        .unwrap()
        .server;
    let series = format!("leasehold_disconnected_seconds{{server={server}}}");
    let outage = || exporter.take().age(&series);
    sleep(TICK).await;
    assert!(outage().abs() < f64::EPSILON, "it is connected");

    redis.cut();
    sleep(MINUTE).await;
    is_about(outage(), MINUTE);
    sleep(TICK).await;
    redis.heal();
    // The next attempt may come half a minute later.
    sleep(MINUTE).await;
    assert!(outage().abs() < f64::EPSILON, "it is connected again");

    redis.cut();
    sleep(MINUTE).await;
    client.shutdown(TICK).await.ok();
    drop(client);
    sleep(TICK).await;
    assert!(outage().abs() < f64::EPSILON, "the client has ended");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_asked_for_once_is_busy_and_an_outage_is_a_failure() {
    let exporter = Exporter::start().await;
    let redis = EmbeddedRedis::new();
    let client = of_its_own(redis.builder(), "busy").await;
    let guard = client.lock("a").lock().await.unwrap();
    let lock = client.lock("a");
    lock.try_lock_now(Lease::Renewed).await.unwrap_err();
    lock.try_lock(TICK, Lease::Renewed).await.unwrap_err();
    redis.cut();
    let refused = client.lock("b").try_lock(TICK, Lease::Renewed).await;
    assert!(
        matches!(
            refused,
            Err(Error::Unavailable { .. } | Error::Unknown { .. })
        ),
        "{refused:?}"
    );
    let recorded = exporter.take();
    let of = |outcome: &str| {
        let labels = format!("kind=lock,outcome={outcome},name=busy");
        recorded.count(&format!("leasehold_acquire_duration_seconds{{{labels}}}"))
    };
    assert_eq!((of("acquired"), of("busy"), of("timeout")), (1, 1, 1));
    assert_eq!(recorded.number("leasehold_acquire_failures_total"), 1);
    drop(guard);
}

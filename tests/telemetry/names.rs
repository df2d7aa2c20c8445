//! The names that Prometheus scrapes.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::EmbeddedRedis;
use leasehold_testbed::take_and_release;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::runtime::Builder;

/// The exposition of a client that took and released one lock.
fn scraped(builder: PrometheusBuilder) -> String {
    let recorder = builder.set_buckets(&[1.0]).unwrap().build_recorder();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(async {
        let label = |_: &str| Some("names".to_owned());
        let redis = EmbeddedRedis::new();
        let client = redis.builder().metric_name(label).connect().await.unwrap();
        take_and_release(&client.lock("a")).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    });
    recorder.handle().render()
}

fn names(scraped: &str) -> BTreeSet<&str> {
    let lines = scraped.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split([' ', '{']).next())
        .collect()
}

/// An exporter may append units and `_total` to names that lack them. Names that have them stay as
/// they are, so the dashboard and the alerts fit both.
#[test]
fn metrics_have_one_name_however_the_exporter_is_set() {
    let (plain, recommended) = (
        scraped(PrometheusBuilder::new()),
        scraped(PrometheusBuilder::new().with_recommended_naming(true)),
    );
    let names = names(&plain);
    assert_eq!(names, self::names(&recommended));
    for name in [
        "leasehold_acquire_duration_seconds_bucket",
        "leasehold_hold_oldest_seconds",
        "leasehold_lost_total",
    ] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
}

/// An increase is seen only from a first value on, and the first loss must be one.
#[test]
fn counters_of_losses_begin_at_zero() {
    let scraped = scraped(PrometheusBuilder::new());
    for reason in ["expired", "gone", "forced", "max_hold", "closed"] {
        let is_it = |line: &&str| {
            line.starts_with("leasehold_losses_total{")
                && line.contains(&format!("reason=\"{reason}\""))
                && line.contains("name=\"names\"")
        };
        let series: Vec<_> = scraped.lines().filter(is_it).collect();
        assert!(
            matches!(series[..], [line] if line.ends_with(" 0")),
            "{reason}: {series:?}"
        );
    }
}

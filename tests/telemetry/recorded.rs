//! Metrics as an exporter sees them. They are process-wide, so one test at a time records them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::sync::{Mutex, MutexGuard};

/// The exclusive exporter of one test, until it is dropped.
pub(crate) struct Exporter {
    snapshotter: MutexGuard<'static, Snapshotter>,
    /// A snapshot contains only the change of a gauge since the previous one.
    gauges: RefCell<BTreeMap<String, f64>>,
}

static RECORDER: LazyLock<Mutex<Snapshotter>> = LazyLock::new(|| {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().expect("there is no other");
    Mutex::new(snapshotter)
});

/// By name with labels, such as `leasehold_losses_total{kind=lock,reason=gone}`: a number, or the
/// number of values of a histogram.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) numbers: BTreeMap<String, u64>,
    pub(crate) histograms: BTreeMap<String, Vec<f64>>,
    /// The gauges in seconds that were set since the last call, and not to zero.
    pub(crate) ages: BTreeMap<String, f64>,
}

impl Exporter {
    /// Call this before the clients are made.
    pub(crate) async fn start() -> Self {
        let snapshotter = RECORDER.lock().await;
        // Discard what an earlier test recorded.
        drop(snapshotter.snapshot());
        Exporter {
            snapshotter,
            gauges: RefCell::default(),
        }
    }

    /// What was recorded since the last call. Gauges keep their value.
    pub(crate) fn take(&self) -> Recorded {
        let mut recorded = Recorded::default();
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let (kind, key) = key.into_parts();
            let labels: Vec<_> = key
                .labels()
                .map(|label| format!("{}={}", label.key(), label.value()))
                .collect();
            let name = match &labels[..] {
                [] => key.name().to_owned(),
                labels => format!("{}{{{}}}", key.name(), labels.join(",")),
            };
            match value {
                DebugValue::Counter(0) => {}
                DebugValue::Counter(number) => drop(recorded.numbers.insert(name, number)),
                DebugValue::Gauge(age) if key.name().ends_with("_seconds") => {
                    if age.into_inner() > 0.0 {
                        recorded.ages.insert(name, age.into_inner());
                    }
                }
                DebugValue::Gauge(number) => {
                    assert_eq!(kind, MetricKind::Gauge);
                    let mut gauges = self.gauges.borrow_mut();
                    let gauge = gauges.entry(name.clone()).or_default();
                    *gauge += number.into_inner();
                    let number = *gauge;
                    assert!(number >= 0.0 && number.fract() == 0.0, "{name} is {number}");
                    if number > 0.0 {
                        let whole = format!("{number:.0}").parse().expect("a whole number");
                        recorded.numbers.insert(name, whole);
                    }
                }
                DebugValue::Histogram(values) if values.is_empty() => {}
                DebugValue::Histogram(values) => {
                    let values = values.into_iter().map(|value| *value).collect();
                    recorded.histograms.insert(name, values);
                }
            }
        }
        recorded
    }
}

impl Recorded {
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.numbers.get(name).copied().unwrap_or(0)
    }

    /// Zero if it was not set since the last call.
    pub(crate) fn age(&self, name: &str) -> f64 {
        self.ages.get(name).copied().unwrap_or(0.0)
    }

    /// The number of values.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.histograms.get(name).map_or(0, Vec::len)
    }

    /// The series of a metric with labels, each with its number of values or its number.
    pub(crate) fn of(&self, metric: &str) -> Vec<(String, u64)> {
        let is_it = |name: &str| name.split('{').next() == Some(metric);
        let numbers = self
            .numbers
            .iter()
            .map(|(name, number)| (name.clone(), *number));
        let counts = self
            .histograms
            .iter()
            .map(|(name, all)| (name.clone(), all.len() as u64));
        numbers
            .chain(counts)
            .filter(|(name, _)| is_it(name))
            .collect()
    }
}

//! Metrics as an exporter has them: of all threads, so of one test at a time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::sync::{Mutex, MutexGuard};

/// The only test that is told to; gone with this.
pub(crate) struct Exporter {
    snapshotter: MutexGuard<'static, Snapshotter>,
    /// A snapshot has what a gauge has changed by since the one before.
    gauges: RefCell<BTreeMap<String, f64>>,
}

static RECORDER: LazyLock<Mutex<Snapshotter>> = LazyLock::new(|| {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().expect("there is no other");
    Mutex::new(snapshotter)
});

/// By the name with its labels, as `leasehold.losses{kind=lock,reason=gone}`: a number, or how many values a histogram
/// has.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) numbers: BTreeMap<String, u64>,
    pub(crate) histograms: BTreeMap<String, Vec<f64>>,
}

impl Exporter {
    /// Before the clients are made.
    pub(crate) async fn start() -> Self {
        let snapshotter = RECORDER.lock().await;
        // What an earlier test left.
        drop(snapshotter.snapshot());
        Exporter {
            snapshotter,
            gauges: RefCell::default(),
        }
    }

    /// What was recorded since it was asked last. Gauges stay.
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

    /// How many values.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.histograms.get(name).map_or(0, Vec::len)
    }

    /// The names of a metric, with labels, and how many values or which number each has.
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

//! The line of JSON that a run prints.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::options::Options;

#[derive(Debug, Default)]
pub(crate) struct Report(Map<String, Value>);

impl Report {
    /// What tells one run from another.
    pub(crate) fn of(options: &Options) -> Report {
        let mut report = Report::default();
        report.put("peer", options.peer.as_str());
        report.put("version", env!("CARGO_PKG_VERSION"));
        report.put("scenario", options.scenario.as_str());
        report.put("proc", options.proc.as_str());
        report
    }

    pub(crate) fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    pub(crate) fn extend(&mut self, other: Report) {
        self.0.extend(other.0);
    }

    /// A figure that was put.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    /// How many operations there were in how long.
    pub(crate) fn put_rate(&mut self, operations: usize, span: Duration) {
        self.put("ops", operations);
        self.put("seconds", span.as_secs_f64());
        self.put("ops_per_s", count(operations) / span.as_secs_f64());
    }

    pub(crate) fn put_latencies(&mut self, mut latencies: Vec<Duration>) {
        latencies.sort_unstable();
        if latencies.is_empty() {
            return;
        }
        for (name, per_mille) in [
            ("p50_us", 500),
            ("p99_us", 990),
            ("p999_us", 999),
            ("max_us", 1000),
        ] {
            self.put(name, percentile(&latencies, per_mille).as_secs_f64() * 1e6);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Value::from(self.0.clone()).to_string())
    }
}

/// Of sorted values, of which there is at least one.
pub(crate) fn percentile(sorted: &[Duration], per_mille: usize) -> Duration {
    sorted[(sorted.len() - 1) * per_mille / 1000]
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

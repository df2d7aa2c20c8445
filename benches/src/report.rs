//! The line of JSON that a run prints.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::Failure;
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

    /// The line that another process printed. A run that failed is an error.
    pub(crate) fn parse(line: &str) -> Result<Report, Failure> {
        let figures: Map<_, _> = serde_json::from_str(line)?;
        match figures.get("failed") {
            Some(failed) => Err(format!("a client failed: {failed}").into()),
            None => Ok(Report(figures)),
        }
    }

    pub(crate) fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The same, with names that begin so.
    pub(crate) fn extend_as(&mut self, prefix: &str, other: Report) {
        let named = other.0.into_iter();
        self.0
            .extend(named.map(|(name, value)| (format!("{prefix}{name}"), value)));
    }

    pub(crate) fn extend(&mut self, other: Report) {
        self.0.extend(other.0);
    }

    /// A figure that was put.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    /// A list of seconds that was put.
    pub(crate) fn durations(&self, name: &str) -> Result<Vec<Duration>, Failure> {
        let missing = || format!("no {name} in a report");
        let list = self.0.get(name).and_then(Value::as_array);
        let seconds = list.ok_or_else(missing)?.iter().map(Value::as_f64);
        let seconds: Option<Vec<_>> = seconds.collect();
        let seconds = seconds.ok_or_else(missing)?;
        Ok(seconds.into_iter().map(Duration::from_secs_f64).collect())
    }

    /// All figures that were put.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (&str, f64)> {
        let of = |(name, value): (_, &Value)| Some((name, value.as_f64()?));
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value))
            .filter_map(of)
    }

    /// How many operations there were in how long.
    pub(crate) fn put_rate(&mut self, operations: usize, span: Duration) {
        self.put("ops", operations);
        self.put("seconds", span.as_secs_f64());
        self.put("ops_per_s", count(operations) / span.as_secs_f64());
    }

    pub(crate) fn put_latencies(&mut self, latencies: Vec<Duration>) {
        self.put_latencies_of("", latencies);
    }

    /// The same, with names that begin so.
    pub(crate) fn put_latencies_of(&mut self, what: &str, mut latencies: Vec<Duration>) {
        latencies.sort_unstable();
        let Some(last) = latencies.len().checked_sub(1) else {
            return;
        };
        for (name, per_mille) in [
            ("p50_us", 500),
            ("p99_us", 990),
            ("p999_us", 999),
            ("max_us", 1000),
        ] {
            let latency = latencies[last * per_mille / 1000];
            self.put(&format!("{what}{name}"), latency.as_secs_f64() * 1e6);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Value::from(self.0.clone()).to_string())
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

//! Metrics, through the facade `metrics`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Label, SharedString, counter, gauge, histogram};

use super::metric::{
    ALL, CALLS, FAILOVERS, FAILURES, HELD, HOLD, LAG, LOSSES, Metric, RECONNECTS, RELEASE, Shape,
    WAIT, WAITING,
};
use super::subject::{AcquisitionSummary, Subject};
use crate::lease::LossReason;
use crate::sync::call_out;

type MapName = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Maps a lock's name to its label; without a function there is no label.
#[derive(Clone, Default)]
pub(crate) struct NameLabel(Option<Arc<MapName>>);

impl fmt::Debug for NameLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "by a function"
        } else {
            "none"
        })
    }
}

impl NameLabel {
    pub(crate) fn by(map: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        NameLabel(Some(Arc::new(map)))
    }

    pub(super) fn of(&self, name: &str) -> Option<Arc<str>> {
        let map = self.0.as_ref()?;
        call_out(|| map(name))?.map(Arc::from)
    }
}

/// Describes the metrics to the exporter; `stats` are the counters with their help.
///
/// This also creates the counters without labels. If a counter appeared with its first event, its
/// increase would not be visible.
pub(crate) fn describe(stats: &[(&'static str, &'static str)]) {
    for Metric {
        name,
        shape,
        unit,
        help,
        labels,
    } in ALL
    {
        match shape {
            Shape::Counter => metrics::describe_counter!(*name, *unit, *help),
            Shape::Gauge => metrics::describe_gauge!(*name, *unit, *help),
            Shape::Histogram => metrics::describe_histogram!(*name, *unit, *help),
        }
        if *shape == Shape::Counter && labels.is_empty() {
            counter!(*name).increment(0);
        }
    }
    for (name, help) in stats {
        metrics::describe_counter!(*name, metrics::Unit::Count, *help);
        counter!(*name).increment(0);
    }
}

fn labels(subject: &Subject, other: Option<(&'static str, &'static str)>) -> Vec<Label> {
    labels_of(subject.kind, subject.label.as_ref(), other)
}

pub(super) fn labels_of(
    kind: &'static str,
    name: Option<&Arc<str>>,
    other: Option<(&'static str, &'static str)>,
) -> Vec<Label> {
    let mut labels = Vec::with_capacity(3);
    labels.push(Label::from_static_parts("kind", kind));
    labels.extend(other.map(|(key, value)| Label::from_static_parts(key, value)));
    if let Some(name) = name {
        labels.push(Label::new("name", SharedString::from(name.clone())));
    }
    labels
}

pub(super) fn waiting(subject: &Subject, more: f64) {
    gauge!(WAITING, labels(subject, None)).increment(more);
}

/// Creates the counters of losses at zero. If such a counter appeared with the first loss, its
/// increase would not be visible, and an alert on the increase would miss that loss.
pub(super) fn may_be_lost(subject: &Subject) {
    for reason in LossReason::NAMES {
        let reason = Some(("reason", *reason));
        counter!(LOSSES, labels(subject, reason)).increment(0);
    }
}

/// An acquisition failed for another reason than that the lock was held.
pub(super) fn failed() {
    counter!(FAILURES).increment(1);
}

pub(super) fn acquired(subject: &Subject, summary: &AcquisitionSummary) {
    let AcquisitionSummary {
        outcome,
        wait,
        calls,
        ..
    } = summary;
    histogram!(WAIT, labels(subject, Some(("outcome", outcome)))).record(*wait);
    histogram!(CALLS, labels(subject, None)).record(f64::from(*calls));
}

pub(super) fn held(subject: &Subject, more: f64) {
    gauge!(HELD, labels(subject, None)).increment(more);
}

pub(super) fn record_hold(subject: &Subject, span: Duration, end: &'static str) {
    histogram!(HOLD, labels(subject, Some(("end", end)))).record(span);
}

pub(super) fn renewed(subject: &Subject, lag: Duration) {
    histogram!(LAG, labels(subject, None)).record(lag);
}

pub(super) fn lost(subject: &Subject, reason: &'static str) {
    counter!(LOSSES, labels(subject, Some(("reason", reason)))).increment(1);
}

pub(super) fn released(subject: &Subject, span: Duration, outcome: &'static str) {
    histogram!(RELEASE, labels(subject, Some(("outcome", outcome)))).record(span);
}

pub(super) fn failed_over() {
    counter!(FAILOVERS).increment(1);
}

pub(super) fn reconnected() {
    counter!(RECONNECTS).increment(1);
}

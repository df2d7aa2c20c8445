//! No metrics.

use std::time::Duration;

use super::subject::{AcquisitionSummary, Subject};

pub(super) fn waiting(_: &Subject, _: f64) {}

pub(super) fn failed() {}

pub(super) fn acquired(_: &Subject, _: &AcquisitionSummary) {}

pub(super) fn held(_: &Subject, _: f64) {}

pub(super) fn record_hold(_: &Subject, _: Duration, _: &'static str) {}

pub(super) fn renewed(_: &Subject, _: Duration) {}

pub(super) fn lost(_: &Subject, _: &'static str) {}

pub(super) fn released(_: &Subject, _: Duration, _: &'static str) {}

pub(super) fn failed_over() {}

pub(super) fn reconnected() {}

//! The lock that a metric or span is about.
#![cfg_attr(
    not(feature = "tracing"),
    expect(dead_code, reason = "only spans have all of it")
)]

use std::sync::Arc;
use std::time::Duration;

/// The lock that an event is about.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) kind: &'static str,
    pub(super) name: Arc<str>,
    /// The label that the user's function returned.
    #[cfg(feature = "metrics")]
    pub(super) label: Option<Arc<str>>,
}

/// The outcome of an acquisition.
#[derive(Debug)]
pub(super) struct AcquisitionSummary {
    pub(super) outcome: &'static str,
    pub(super) wait: Duration,
    pub(super) calls: u32,
    pub(super) wakes: u32,
    pub(super) handed_over: bool,
}

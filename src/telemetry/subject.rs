//! What metrics and spans are about.

use std::sync::Arc;
use std::time::Duration;

/// The lock that an event is about.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) kind: &'static str,
    #[cfg(feature = "tracing")]
    pub(super) name: Arc<str>,
    /// Made by the function that the builder was given.
    #[cfg(feature = "metrics")]
    pub(super) label: Option<Arc<str>>,
}

/// The outcome of an acquisition.
#[derive(Debug)]
pub(super) struct Acquired {
    pub(super) outcome: &'static str,
    pub(super) wait: Duration,
    pub(super) calls: u32,
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "spans have it"))]
    pub(super) wakes: u32,
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "spans have it"))]
    pub(super) handed_over: bool,
}

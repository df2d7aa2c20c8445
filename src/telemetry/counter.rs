//! A counter of `Stats`, which is also a metric.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[cfg(feature = "metrics")]
use crate::sync::call_out;
use crate::sync::no_lock_is_held;

#[derive(Debug)]
pub(crate) struct Counter {
    value: AtomicU64,
    #[cfg(feature = "metrics")]
    metric: &'static str,
}

impl Counter {
    #[cfg_attr(
        not(feature = "metrics"),
        expect(unused_variables, reason = "it has no name then")
    )]
    pub(crate) const fn new(metric: &'static str) -> Self {
        Counter {
            value: AtomicU64::new(0),
            #[cfg(feature = "metrics")]
            metric,
        }
    }

    pub(crate) fn add(&self, number: u64) {
        self.value.fetch_add(number, Relaxed);
        no_lock_is_held();
        #[cfg(feature = "metrics")]
        if super::recorder::is_listened() {
            call_out(|| metrics::counter!(self.metric).increment(number));
        }
    }

    pub(crate) fn value(&self) -> u64 {
        self.value.load(Relaxed)
    }
}

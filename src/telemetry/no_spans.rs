//! Neither spans nor events.
#![expect(clippy::unused_self, reason = "the same calls as with the feature")]

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::subject::{AcquisitionSummary, Subject};

#[derive(Debug)]
pub(super) struct AcquireSpan;

#[derive(Debug)]
pub(super) struct HoldSpan;

#[derive(Debug, Default)]
pub(super) struct ReleaseSpan(AtomicBool);

pub(crate) fn is_listened() -> bool {
    false
}

impl AcquireSpan {
    pub(super) fn begin(_: &Subject) -> Self {
        AcquireSpan
    }

    pub(super) fn end(&self, _: &AcquisitionSummary) {}
}

pub(super) fn around<F: Future>(_: Option<&AcquireSpan>, work: F) -> F {
    work
}

impl HoldSpan {
    pub(super) fn begin(_: &Subject) -> Self {
        HoldSpan
    }

    pub(super) fn end(&self, _: u32, _: &'static str) {}

    pub(super) fn release(&self, _: &Subject) -> ReleaseSpan {
        ReleaseSpan::default()
    }

    pub(super) fn uncertain(&self, _: &Subject) {}

    pub(super) fn certain(&self, _: &Subject) {}

    pub(super) fn lost(&self, _: &Subject, _: &'static str) {}
}

impl ReleaseSpan {
    /// False if the span had already ended.
    pub(super) fn end(&self, _: Option<&'static str>) -> bool {
        !self.0.swap(true, Relaxed)
    }
}

pub(super) fn gave_up(_: &Subject) {}

pub(super) fn left_behind(_: u64, _: &str) {}

pub(super) fn failed_over() {}

pub(super) fn connection_lost(_: &dyn Display, _: &dyn Display) {}

pub(super) fn reconnected(_: &dyn Display) {}

//! Neither tracers nor exporters: nothing is stored, and nothing is done.
#![expect(clippy::unused_self, reason = "the same calls as with the features")]

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::lease::{Ended, LossReason};

#[derive(Clone, Debug, Default)]
pub(crate) struct Telemetry {}

#[derive(Debug)]
pub(crate) struct Acquisition;

#[derive(Debug, Default)]
pub(crate) struct Holding(());

impl Telemetry {
    pub(crate) fn acquisition(&self, _: &'static str, _: &Arc<str>) -> Acquisition {
        Acquisition
    }

    pub(crate) fn failed_over(&self) {}

    pub(crate) fn gave_up(&self, _: &'static str, _: &Arc<str>) {}
}

impl Acquisition {
    pub(crate) fn begins(&self) {}

    pub(crate) fn around<F: Future>(&self, work: F) -> F {
        work
    }

    pub(crate) fn asks(&self) {}

    pub(crate) fn is_woken(&self) {}

    pub(crate) fn is_handed_over(&self) {}

    pub(crate) fn ends(&self, _: Option<&Error>) {}
}

impl Holding {
    pub(crate) fn begins(&self, _: &Telemetry, _: &'static str, _: &Arc<str>) {}

    pub(crate) fn is_renewed(&self, _: Duration) {}

    pub(crate) fn is_uncertain(&self) {}

    pub(crate) fn is_certain(&self) {}

    pub(crate) fn is_lost(&self, _: LossReason) {}

    pub(crate) fn ends(&self, _: Ended) {}

    pub(crate) fn passes_on(&self) {}

    pub(crate) fn is_released(&self, _: Option<&Error>) {}
}

pub(crate) fn connection_lost(_: &dyn Display, _: &dyn Display) {}

pub(crate) fn reconnected(_: &dyn Display) {}

//! No history.
#![expect(clippy::unused_self, reason = "the same calls as with the feature")]

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::transport::{Call, CallError, Value};

#[derive(Clone, Debug, Default)]
pub(crate) struct History;

pub(crate) struct Told;

#[derive(Debug, Default)]
pub(crate) struct OfHold(());

impl History {
    pub(crate) fn sends(&self, _: &Call) -> Told {
        Told
    }

    pub(crate) fn told_of_grant(&self, _: (&Arc<str>, &Arc<str>), _: (Moment, Duration)) {}

    pub(crate) fn restores(&self, _: &Arc<str>, _: &Arc<str>) {}
}

impl Told {
    pub(crate) fn answered(&self, _: &Result<Value, CallError>) {}
}

impl OfHold {
    pub(crate) fn begins(&self, _: &History) {}

    pub(crate) fn trusted(&self, _: u64, _: (&Arc<str>, &Arc<str>), _: (Moment, Moment)) {}

    pub(crate) fn handed_on(&self, _: &Arc<str>, _: &Arc<str>) {}
}

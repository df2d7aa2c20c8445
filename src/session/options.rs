//! What a caller asks for, and the terms of a hold that follow.

use std::sync::Arc;
use std::time::Duration;

use super::attendance::Patience;
use super::hold::{Clocks, Hold, HoldTerms};
use super::lock_settings::in_range;
use super::wait::Wait;
use crate::error::ConfigError;
use crate::lease::Lease;

/// What a caller asks for, of one lock or of several.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) wait: Wait,
    pub(crate) lease: Lease,
    /// Mostly none. Small, as every acquisition has them.
    pub(crate) ends: Option<Box<Ends>>,
    /// The lock is one of a quorum, whose servers have clocks of their own.
    pub(crate) of_quorum: bool,
    /// How late its caller may be: of a lock of several, as late as the caller of them all.
    pub(crate) patience: Patience,
    /// Holds of the guards that were shown, and of the sections around the call.
    pub(crate) shown: Arc<[Arc<Hold>]>,
    /// What it is for, for people.
    pub(crate) purpose: Option<Arc<str>>,
}

/// When a hold is to end, beside its lease.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    pub(crate) max_hold: Option<Duration>,
    pub(crate) unlock_not_before: Option<Duration>,
}

impl Options {
    pub(crate) fn new(wait: Wait, lease: Lease) -> Self {
        let (ends, shown, purpose) = (None, Arc::default(), None);
        Options {
            wait,
            lease,
            ends,
            of_quorum: false,
            patience: Patience::FIRST,
            shown,
            purpose,
        }
    }

    pub(crate) fn unlock_not_before(&self) -> Option<Duration> {
        self.ends.as_ref()?.unlock_not_before
    }

    /// The terms for Redis and the watchdog, of a lock whose renewed holds have that lease.
    pub(crate) fn terms(&self, of_lock: Duration) -> Result<HoldTerms, ConfigError> {
        let max_hold = self.ends.as_ref().and_then(|ends| ends.max_hold);
        let max_hold = max_hold
            .map(|span| Lease::checked("max_hold", span))
            .transpose()?;
        let (lease, renewed) = self.lease.terms(of_lock)?;
        // A hold with a fixed lease is over by itself.
        let longest = if renewed { Lease::MAX } else { lease };
        let unlock_not_before = self
            .unlock_not_before()
            .map(|span| lingering(span, longest))
            .transpose()?;
        let clocks = if self.of_quorum {
            Clocks::OfSeveral
        } else {
            Clocks::OfOne
        };
        Ok(HoldTerms {
            lease,
            unlock_not_before,
            renewed,
            max_hold,
            clocks,
        })
    }
}

/// Checks for how long a lock is to stay locked.
fn lingering(span: Duration, longest: Duration) -> Result<Duration, ConfigError> {
    in_range("unlock_not_before", span, &(Lease::MIN..=longest))?;
    Lease::checked("unlock_not_before", span)
}

//! What a caller asks for, and the hold's terms that follow from it.

use std::sync::Arc;
use std::time::Duration;

use super::attendance::Patience;
use super::hold::{Clocks, Hold, HoldTerms};
use super::wait::Wait;
use crate::error::ConfigError;
use crate::lease::Lease;
use crate::protocol::description::TEXT_MAX;

/// What a caller asks for, about one lock or several.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) wait: Wait,
    pub(crate) lease: Lease,
    pub(crate) max_hold: Option<Duration>,
    /// The lock is a member of a quorum, whose servers have independent clocks.
    pub(crate) of_quorum: bool,
    /// How late the caller may poll. The members of a multi lock use the patience of the whole.
    pub(crate) patience: Patience,
    /// Holds of the guards that the caller presented, and of the sections around the call.
    pub(crate) shown: Arc<[Arc<Hold>]>,
    /// A text that tells people what the lock is for.
    pub(crate) purpose: Option<Arc<str>>,
}

impl Options {
    pub(crate) fn new(wait: Wait, lease: Lease) -> Self {
        let (shown, purpose) = (Arc::default(), None);
        Options {
            wait,
            lease,
            max_hold: None,
            of_quorum: false,
            patience: Patience::FIRST,
            shown,
            purpose,
        }
    }

    /// Adds holds that outlive the acquisition.
    pub(crate) fn shows(&mut self, holds: Vec<Arc<Hold>>) {
        if !holds.is_empty() {
            self.shown = self.shown.iter().cloned().chain(holds).collect();
        }
    }

    /// The terms for Redis and the watchdog. `of_lock` is the lease of the lock's renewed holds.
    pub(crate) fn terms(&self, of_lock: Duration) -> Result<HoldTerms, ConfigError> {
        let max_hold = self
            .max_hold
            .map(|span| Lease::checked("max_hold", span))
            .transpose()?;
        let (lease, renewed) = self.lease.terms(of_lock)?;
        let clocks = if self.of_quorum {
            Clocks::OfSeveral
        } else {
            Clocks::OfOne
        };
        Ok(HoldTerms {
            lease,
            renewed,
            max_hold,
            clocks,
        })
    }
}

/// Checks the purpose of a hold.
pub(crate) fn checked_purpose(purpose: String) -> Result<Arc<str>, ConfigError> {
    checked_text("purpose", &purpose)?;
    Ok(Arc::from(purpose))
}

/// Checks a text that other clients show to people.
pub(crate) fn checked_text(what: &'static str, text: &str) -> Result<(), ConfigError> {
    let fits = (1..=TEXT_MAX).contains(&text.len());
    if fits && !text.chars().any(char::is_control) {
        return Ok(());
    }
    let start = text.chars().take(64);
    let given: String = start.flat_map(char::escape_debug).collect();
    let allowed = format!("1 to {TEXT_MAX} bytes without control characters");
    Err(ConfigError::out_of_range(what, given, allowed))
}

//! What a caller asks for, and the hold's terms that follow from it.

use std::sync::Arc;
use std::time::Duration;

use super::attendance::Patience;
use super::hold::{Clocks, Hold, HoldTerms, Span};
use super::lock_settings::in_range;
use super::wait::Wait;
use crate::error::ConfigError;
use crate::lease::Lease;
use crate::protocol::description::TEXT_MAX;

/// What a caller asks for, about one lock or several.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) wait: Wait,
    pub(crate) lease: Lease,
    /// Usually none. Boxed, because every acquisition has this field.
    pub(crate) ends: Option<Box<Ends>>,
    /// The lock is a member of a quorum, whose servers have independent clocks.
    pub(crate) of_quorum: bool,
    /// How late the caller may poll. The members of a multi lock use the patience of the whole.
    pub(crate) patience: Patience,
    /// Holds of the guards that the caller presented, and of the sections around the call.
    pub(crate) shown: Arc<[Arc<Hold>]>,
    /// A text that tells people what the lock is for.
    pub(crate) purpose: Option<Arc<str>>,
}

/// When a hold must end, apart from its lease.
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

    /// Adds holds that outlive the acquisition.
    pub(crate) fn shows(&mut self, holds: Vec<Arc<Hold>>) {
        if !holds.is_empty() {
            self.shown = self.shown.iter().cloned().chain(holds).collect();
        }
    }

    pub(crate) fn unlock_not_before(&self) -> Option<Duration> {
        self.ends.as_ref()?.unlock_not_before
    }

    /// The terms for Redis and the watchdog. `of_lock` is the lease of the lock's renewed holds.
    pub(crate) fn terms(&self, of_lock: Duration) -> Result<HoldTerms, ConfigError> {
        let max_hold = self.ends.as_ref().and_then(|ends| ends.max_hold);
        let max_hold = max_hold
            .map(|span| Lease::checked("max_hold", span))
            .transpose()?;
        let (lease, renewed) = self.lease.terms(of_lock)?;
        // Nobody renews a fixed lease, so the lock cannot stay locked for longer than that.
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
            lease: Span::of(lease),
            unlock_not_before: unlock_not_before.map(Span::of),
            renewed,
            max_hold: max_hold.map(Span::of),
            clocks,
        })
    }
}

/// Checks `unlock_not_before`, which is limited by the longest possible lease.
fn lingering(span: Duration, longest: Duration) -> Result<Duration, ConfigError> {
    in_range("unlock_not_before", span, &(Lease::MIN..=longest))?;
    Lease::checked("unlock_not_before", span)
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

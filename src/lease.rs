//! How long a hold lasts, and in which state it is.

use std::fmt;
use std::time::Duration;

use crate::config::ConfigError;

/// How long Redis keeps a hold without hearing from its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Lease {
    /// The client's lease (30 s unless set otherwise), renewed in the background while the guard
    /// lives.
    #[default]
    Renewed,
    /// Exactly this long; the hold ends by itself even if the guard is still alive.
    Fixed(Duration),
}

impl Lease {
    /// The shortest lease: below it the margin for clocks would eat most of it.
    pub const MIN: Duration = Duration::from_millis(10);
    /// The longest lease: a year.
    pub const MAX: Duration = Duration::from_hours(365 * 24);

    /// Checks a lease that a caller gave.
    pub(crate) fn checked(what: &'static str, lease: Duration) -> Result<Duration, ConfigError> {
        if (Self::MIN..=Self::MAX).contains(&lease) {
            // Redis counts whole milliseconds; a part of one would make us believe in more.
            return Ok(Duration::from_millis(
                u64::try_from(lease.as_millis()).expect("BUG: a year fits"),
            ));
        }
        Err(ConfigError::OutOfRange {
            what,
            given: format!("{lease:?}"),
            allowed: format!("{:?} to {:?}", Self::MIN, Self::MAX),
        })
    }
}

impl From<Duration> for Lease {
    fn from(lease: Duration) -> Self {
        Lease::Fixed(lease)
    }
}

/// What a guard knows of its lock, without asking Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// The lock is held at least until the deadline.
    Held,
    /// Renewal is failing; the deadline has not passed, so nobody else can hold the lock yet.
    Uncertain,
    /// The lock is gone; others may hold it.
    Lost,
}

/// Why a hold ended before it was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The local deadline passed: a fixed lease ended, or renewal failed for a whole lease.
    Expired,
    /// Redis no longer has our hold: forced, deleted, evicted, restarted empty, failed over.
    Gone,
    /// The `max_hold` of the acquisition ended.
    MaxHold,
    /// The client was shut down.
    Closed,
    /// The guard was forgotten or turned into a handle: the hold is not this guard's any more.
    HandedOn,
}

impl LossReason {
    /// Every reason, for the labels of an exporter.
    pub const ALL: &'static [LossReason] = &[
        LossReason::Expired,
        LossReason::Gone,
        LossReason::MaxHold,
        LossReason::Closed,
        LossReason::HandedOn,
    ];

    /// A short name that never changes, for labels and logs: `expired`, `gone`, `max_hold`, `closed`
    /// or `handed_on`. [`Display`](fmt::Display) is for people.
    pub fn as_str(self) -> &'static str {
        match self {
            LossReason::Expired => "expired",
            LossReason::Gone => "gone",
            LossReason::MaxHold => "max_hold",
            LossReason::Closed => "closed",
            LossReason::HandedOn => "handed_on",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::Expired => "its lease ended",
            LossReason::Gone => "redis no longer has it",
            LossReason::MaxHold => "its longest holding time ended",
            LossReason::Closed => "the client was shut down",
            LossReason::HandedOn => "its guard gave it away",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_is_listed_under_a_name_of_its_own() {
        // A reason that is new must be put here, and into the list.
        let number = |reason: &LossReason| match reason {
            LossReason::Expired => 0,
            LossReason::Gone => 1,
            LossReason::MaxHold => 2,
            LossReason::Closed => 3,
            LossReason::HandedOn => 4,
        };
        assert!(LossReason::ALL.iter().map(number).eq(0..5));
        let names: BTreeSet<_> = LossReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(names.len(), LossReason::ALL.len());
    }
}

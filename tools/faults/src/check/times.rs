//! Times in nanoseconds, and their text for people.

use std::time::Duration;

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn millis(nanos: u64) -> u64 {
    nanos / 1_000_000
}

/// A time span. Both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Span {
    pub(super) fn contains(self, at: u64) -> bool {
        self.from <= at && at <= self.to
    }

    pub(super) fn common(self, other: Self) -> Option<Self> {
        let (from, to) = (self.from.max(other.from), self.to.min(other.to));
        (from <= to).then_some(Self { from, to })
    }

    pub(super) fn length(self) -> u64 {
        self.to - self.from
    }

    /// Sorts the spans, and joins those that are at most `apart` from each other.
    pub(super) fn united(mut spans: Vec<Self>, apart: u64) -> Vec<Self> {
        spans.sort_unstable_by_key(|span| span.from);
        let mut united: Vec<Self> = Vec::new();
        for span in spans {
            match united.last_mut() {
                Some(last) if span.from <= last.to.saturating_add(apart) => {
                    last.to = last.to.max(span.to);
                }
                _ => united.push(span),
            }
        }
        united
    }
}

/// Formats times relative to the start of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: u64,
}

impl Clock {
    pub(super) fn starting(start: u64) -> Self {
        Self { start }
    }

    pub(super) fn format(self, at: u64) -> String {
        format_length(at.saturating_sub(self.start))
    }
}

pub(super) fn format_length(nanos: u64) -> String {
    format!("{}.{:03} ms", nanos / 1_000_000, nanos / 1_000 % 1_000)
}

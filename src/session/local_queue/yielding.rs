//! Yielding: after this client had a lock it lets others go first, for as long as that is of use.

use std::time::Duration;

use tokio::time::Instant;

use crate::session::jittered;

/// How long a client lets others go first: a few round trips.
pub(crate) const YIELD: Duration = Duration::from_millis(1);
/// How long subscribers that did not take the lock count as idle, at first and at most. A client
/// keeps the subscription of a hot name for a while after its last waiter. Or it was just slow: so the
/// time doubles each time they do not take it.
const IDLE_FIRST: Duration = Duration::from_millis(4);
pub(super) const IDLE_MAX: Duration = Duration::from_millis(100);

/// Clients that poll receive no message. If one of them was met within this time, it goes first.
pub(super) const POLLERS_REMEMBERED: Duration = Duration::from_secs(10);
/// They go first for as long as this client had the lock, and at most for this, about as long as
/// they pause.
pub(super) const POLLERS_YIELD_MAX: Duration = Duration::from_millis(100);

/// Subscribers of other clients that did not take the lock when they could go first.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleSubscribers {
    pub(super) number: i64,
    /// No waiter yields to them until then.
    pub(super) until: Instant,
    span: Duration,
}

impl IdleSubscribers {
    pub(super) fn after(before: Option<IdleSubscribers>, number: i64) -> Self {
        let span = before.map_or(IDLE_FIRST, |idle| (idle.span * 2).min(IDLE_MAX));
        IdleSubscribers { number, until: Instant::now() + span, span }
    }
}

/// Yielding after this client had the lock, so that it goes round among all clients that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Yield {
    /// Do not ask before that.
    pub(crate) until: Instant,
    /// Clients that received the message of the release; each of them goes first once.
    pub(crate) others: i64,
}

impl Yield {
    pub(super) fn to_others(others: i64) -> Option<Self> {
        (others > 0).then(|| Yield { until: Instant::now() + jittered(YIELD), others })
    }
}

/// Did the contender let other clients go first, and did they?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yielded {
    Not,
    InVain,
    ForOthers,
    /// No other client could: it took its hold over, and the streak goes on.
    TookOver,
}

//! Politeness: this client lets others go first after its turn, for as long as it is of use.

use std::time::Duration;

use tokio::time::Instant;

use crate::session::jittered;

/// How long a client lets others go first: a few round trips.
pub(crate) const REST: Duration = Duration::from_millis(1);
/// How long subscribers that did not take their turn are taken for idle ones (a client keeps the
/// subscription of a hot name for a while after its last waiter), at first and at most: they may
/// just have been slow, so it doubles each time they leave their turn.
const IDLE_FIRST: Duration = Duration::from_millis(4);
pub(super) const IDLE_MAX: Duration = Duration::from_millis(100);

/// Those who ask again instead of listening are told of nothing: they are let first if one of them
/// was met as short a time ago as this.
pub(super) const ASKERS_REMEMBERED: Duration = Duration::from_secs(10);
/// And for as long as this client's turn took, at most about as long as they pause.
pub(super) const ASKERS_REST_MAX: Duration = Duration::from_millis(100);

/// Subscribers elsewhere that did not take their turn when they were let first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) told: i64,
    /// They are not waited for until then.
    pub(super) until: Instant,
    span: Duration,
}

impl Idle {
    pub(super) fn after(before: Option<Idle>, told: i64) -> Self {
        let span = before.map_or(IDLE_FIRST, |idle| (idle.span * 2).min(IDLE_MAX));
        Idle { told, until: Instant::now() + span, span }
    }
}

/// Politeness after a turn of this client, so that the turn goes round among all that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Do not ask before that.
    pub(crate) until: Instant,
    /// Clients that were told of the release; each of them shall have a turn before ours.
    pub(crate) others: i64,
}

impl Rest {
    pub(super) fn for_others(others: i64) -> Option<Self> {
        (others > 0).then(|| Rest { until: Instant::now() + jittered(REST), others })
    }
}

/// Did the front let others go first, and did they?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rested {
    Not,
    InVain,
    ForOthers,
    /// Nobody could: it took its hold over, and the streak goes on.
    TookOver,
}

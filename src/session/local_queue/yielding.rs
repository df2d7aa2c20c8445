//! Yielding: after its turn, this client lets other clients go first.
//!
//! The client does not know how far away the others are, so it yields for a random time: often short, now and then long
//! enough for the farthest. If nobody used a yield, the turn after it is many times as long, so that only a bounded share of
//! the time is given away.

use std::time::Duration;

use tokio::time::Instant;

use crate::protocol::kind::WaitMode;
use crate::session::jittered;

/// The shortest yield: a few round trips of a nearby client.
pub(crate) const SHORTEST: Duration = Duration::from_micros(500);
/// The longest yield is `SHORTEST` doubled so often, 128 ms: a round trip of a client that is far away.
const DOUBLINGS: u32 = 8;
/// If nobody has the lock for so long, the next ones may take it that otherwise let others go first.
const ROUND: Duration = Duration::from_millis(64);
/// After a yield that nobody used although all were notified, a turn lasts at least this many times as long: the others do
/// not want the lock now. A client keeps the subscription of a hot name for a while after its last waiter, so it may be
/// notified without waiting.
const TURN_AMONG_IDLE: u32 = 16;
/// The same after any yield to clients that poll. They may want the lock and not have asked.
const TURN_AMONG_POLLERS: u32 = 4;
/// Polling clients receive no message. After one was met, others are expected for this long.
const POLLERS_REMEMBERED: Duration = Duration::from_secs(30);

/// The turns of this client at one lock.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Before this instant, other clients are not let go first.
    until: Option<Instant>,
    /// For locks whose waiters poll: when the contender last got the lock after another client had it.
    met_poller: Option<Instant>,
}

impl Turns {
    /// The contender got the lock.
    pub(super) fn granted(&mut self, yielded: Yielded, waits: WaitMode) {
        match yielded {
            Yielded::ForOthers if waits.listens() => self.until = None,
            Yielded::ForOthers => self.met_poller = Some(Instant::now()),
            Yielded::Not | Yielded::InVain => {}
        }
    }

    /// Lets others go first, if this turn is over: so many that were notified, or one that polls and was met not long ago.
    pub(super) fn yields_to(&mut self, notified: i64) -> Option<Yield> {
        let now = Instant::now();
        if self.until.is_some_and(|until| now < until) {
            return None;
        }
        let (yielding, turn) = if notified > 0 {
            (Yield::to_listening(notified), TURN_AMONG_IDLE)
        } else if self.remembers_pollers(now) {
            (Yield::to_poller(), TURN_AMONG_POLLERS)
        } else {
            return None;
        };
        self.until = Some(yielding.until + turn * yielding.span);
        Some(yielding)
    }

    pub(super) fn remembers_pollers(&self, now: Instant) -> bool {
        self.met_poller
            .is_some_and(|met| now < met + POLLERS_REMEMBERED)
    }
}

/// Lets other clients go first, each of them once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Yield {
    /// Do not ask before this instant.
    pub(crate) until: Instant,
    /// The time given to each of them.
    span: Duration,
    others: i64,
}

impl Yield {
    pub(super) fn to(others: i64, span: Duration) -> Self {
        Yield {
            until: Instant::now() + jittered(span),
            span,
            others,
        }
    }

    /// Lets others go first to whom no release gives the lock, but who hear of it.
    ///
    /// All clients of this library yield then, and the first whose yield ends takes the lock. Each chooses the length at
    /// random: half of the yields last [`SHORTEST`], a quarter twice as long, an eighth four times, and so on. So all are
    /// long at once now and then, and a client that is slow or far away gets in; the others seldom lose much time.
    pub(crate) fn to_listening(others: i64) -> Self {
        let doublings = fastrand::u32(1..).trailing_zeros();
        Yield::to(others, SHORTEST * (1 << doublings.min(DOUBLINGS)))
    }

    /// Lets a client go first that polls: for the longest pause between two questions, and no less, or it would now and
    /// then ask before and after the yield only.
    pub(super) fn to_poller() -> Self {
        let span = SHORTEST * (1 << DOUBLINGS);
        Yield {
            until: Instant::now() + span,
            ..Yield::to(1, span)
        }
    }

    /// Lets those go first that came before, for so many messages to all. Each time, a list of waiters is served.
    pub(crate) fn to_rounds(number: u32) -> Self {
        Yield::to(number.into(), ROUND * number.min(16))
    }

    /// One of the other clients has had the lock. False if it was the last.
    pub(crate) fn goes_on(&mut self) -> bool {
        *self = Yield::to(self.others - 1, self.span);
        self.others > 0
    }
}

/// Who may ask for a lock after a hold of this client, besides its own waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeFor {
    /// So many subscribers of other clients received the message.
    Others(i64),
    /// Waiters are listed, and those that are not have the turn.
    Unlisted,
}

impl FreeFor {
    pub(crate) const NOBODY: FreeFor = FreeFor::Others(0);
}

/// Whether the contender let other clients go first, and whether they did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yielded {
    Not,
    InVain,
    ForOthers,
}

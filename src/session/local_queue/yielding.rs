//! Yielding: after its turn, this client lets other clients go first.
//!
//! The client does not know how far away the others are, only whether one of them took the lock in
//! the meantime. So the next yield is twice as long if nobody did, and a little shorter if somebody
//! did. The next turn is several times as long as the yield, so that only a bounded share of the
//! time is given away.

use std::time::Duration;

use tokio::time::Instant;

use crate::protocol::kind::WaitMode;
use crate::session::jittered;

/// The shortest yield: a few round trips of a nearby client.
pub(crate) const SHORTEST: Duration = Duration::from_micros(500);
/// The longest yield: a round trip of a client that is far away.
const LONGEST: Duration = Duration::from_millis(128);
/// If nobody has the lock for so long, the next ones may take it that otherwise let others go first.
const ROUND: Duration = Duration::from_millis(64);
/// A turn lasts at least this many times as long as the yield before it.
const TURN: u32 = 4;
/// The same after a yield that nobody used although all were notified: the others do not want the
/// lock now. A client keeps the subscription of a hot name for a while after its last waiter, so it
/// may be notified without waiting.
const TURN_AMONG_IDLE: u32 = 16;
/// Polling clients receive no message. After one was met, others are expected for this long.
const POLLERS_REMEMBERED: Duration = Duration::from_secs(10);

/// The turns of this client at one lock. None before its first turn after another client's.
#[derive(Debug, Default)]
pub(super) struct Turns(Option<Box<LastTurn>>);

#[derive(Debug)]
struct LastTurn {
    /// Before this instant, other clients are not let go first.
    until: Instant,
    /// How long the next yield is.
    yields_for: Duration,
    /// For locks whose waiters poll: when the contender last got the lock after another client had
    /// it.
    met_poller: Option<Instant>,
}

impl Turns {
    /// The contender got the lock.
    pub(super) fn granted(&mut self, yielded: Yielded, waits: WaitMode) {
        let times = match yielded {
            Yielded::Not => return,
            Yielded::InVain if waits.listens() => TURN_AMONG_IDLE,
            Yielded::InVain | Yielded::ForOthers => TURN,
        };
        let now = Instant::now();
        let turn = self
            .0
            .get_or_insert_with(|| Box::new(LastTurn::beginning(now)));
        turn.until = now + times * turn.yields_for;
        if yielded == Yielded::InVain {
            turn.yields_for = (turn.yields_for * 2).min(LONGEST);
            return;
        }
        turn.yields_for = (turn.yields_for * 7 / 8).max(SHORTEST);
        if !waits.listens() {
            turn.met_poller = Some(now);
        }
    }

    /// Lets this many other clients go first, if this turn is over.
    pub(super) fn yields_to(&self, others: i64) -> Option<Yield> {
        let Some(turn) = &self.0 else {
            return Some(Yield::to(others, SHORTEST));
        };
        (Instant::now() >= turn.until).then(|| Yield::to(others, turn.yields_for))
    }

    pub(super) fn remembers_pollers(&self, now: Instant) -> bool {
        let met = self.0.as_ref().and_then(|turn| turn.met_poller);
        met.is_some_and(|met| now < met + POLLERS_REMEMBERED)
    }
}

impl LastTurn {
    fn beginning(now: Instant) -> Self {
        LastTurn {
            until: now,
            yields_for: SHORTEST,
            met_poller: None,
        }
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

    /// Lets those go first to whom no release gives the lock. They have a turn now and then, but ask more slowly: a thread of
    /// Redisson takes several times as long, and one that is far away much longer.
    ///
    /// All clients of this library yield then, and the first whose yield ends takes the lock. Each chooses the length at
    /// random: half of the yields last [`SHORTEST`], a quarter twice as long, an eighth four times, and so on up to
    /// [`LONGEST`]. So all are long at once now and then, and a slow client gets in; the others seldom lose much time.
    pub(crate) fn to_unlisted() -> Self {
        let doublings = fastrand::u32(1..).trailing_zeros();
        Yield::to(1, SHORTEST * (1 << doublings.min(8)))
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

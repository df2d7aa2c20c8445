//! One waiting future, as its queue and its listener see it: its signal and its place in Redis.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Moment;
use crate::protocol::calls::Queueing;
use crate::protocol::kind::WaitMode;
use crate::protocol::lock::HandedOver;
use crate::session::deadline::HoldTerms;
use crate::session::hold::Hold;
use crate::sync::{Mutex, Notify};
use crate::timer::jittered;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// What a waiter is to do next.
pub(crate) enum WaiterSignal {
    /// Keep waiting: others are ahead.
    None,
    /// Contend: ask Redis.
    Contend {
        /// After letting other clients go first.
        yielding: Option<Box<Yield>>,
        /// Others of this client wait, so this one will wait, too.
        crowded: bool,
    },
    /// This hold was handed over without a call, and belongs to the waiter.
    HandedOver(Arc<Hold>),
    /// The latch is open.
    Open,
}

/// One waiting future.
pub(crate) struct Waiter {
    /// Increasing in the order in which waiters come.
    pub(crate) id: u64,
    pub(crate) terms: HoldTerms,
    signal: Mutex<WaiterSignal>,
    /// When the wait began.
    pub(crate) since: Instant,
    /// The waiter's place in Redis. Boxed, because only the waiter that asks Redis has one.
    ticket: Mutex<Option<Box<Ticket>>>,
    /// True if the last call found a key without an expiry. Passed on to the waiters behind.
    no_expiry: AtomicBool,
    /// When the waiter's own timer should wake it.
    due: Mutex<Option<Instant>>,
    /// Something may have changed in Redis.
    woken: AtomicBool,
    notify: Notify,
}

/// A place in Redis: in the queue of a fair lock, or in the holder's field of a plain lock.
#[derive(Clone, Debug)]
struct Ticket {
    field: Arc<str>,
    /// When the call that last refreshed the place was sent.
    refreshed: Moment,
    /// The servers before the call that asked for this place, if a message that the lock was
    /// handed over can only mean this place. In a queue it is the first call, and no other asked
    /// for a place. For a plain lock it is the last one, and the message names its number.
    handover_provable_since: Option<ConnectionEpoch>,
    /// Zero in a queue, where the waiter has a channel of its own.
    attempt: u64,
    /// The lease that such a message named.
    handed_over: Option<Duration>,
}

/// How often other servers may have begun to send messages, see
/// [`Subscriptions::connection_epoch`].
///
/// [`Subscriptions::connection_epoch`]:
/// crate::session::subscriptions::Subscriptions::connection_epoch
pub(crate) type ConnectionEpoch = u64;

/// What a message has said of a release that handed the lock over to a waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handover {
    /// The lease began no earlier.
    pub(crate) since: Moment,
    pub(crate) lease: Duration,
}

impl Waiter {
    pub(crate) fn new(terms: HoldTerms, since: Instant) -> Arc<Self> {
        let signal = Mutex::new(WaiterSignal::None);
        Arc::new(Waiter {
            id: NEXT.fetch_add(1, Relaxed),
            terms,
            signal,
            since,
            ticket: Mutex::new(None),
            no_expiry: AtomicBool::new(false),
            due: Mutex::new(None),
            woken: AtomicBool::new(false),
            notify: Notify::new(),
        })
    }

    /// The waiter has a place in a queue in Redis. `refreshed` is when the call that last refreshed
    /// it was sent. `handover_provable_since` is set if it is the first that asked for a place.
    pub(crate) fn record_place(
        &self,
        field: &Arc<str>,
        refreshed: Moment,
        handover_provable_since: Option<ConnectionEpoch>,
    ) {
        let mut ticket = self.ticket.lock();
        match &mut *ticket {
            Some(ticket) if ticket.field == *field => {
                ticket.refreshed = ticket.refreshed.max(refreshed);
            }
            _ => {
                *ticket = Some(Box::new(Ticket {
                    field: field.clone(),
                    refreshed,
                    handover_provable_since,
                    attempt: 0,
                    handed_over: None,
                }));
            }
        }
    }

    /// The waiter is about to ask for a place in the holder's field. Returns the number of this
    /// attempt.
    pub(crate) fn next_attempt_number(&self, field: &Arc<str>, now: Moment) -> u64 {
        let mut ticket = self.ticket.lock();
        let attempt = 1 + ticket.as_ref().map_or(0, |ticket| ticket.attempt);
        let asked = Ticket {
            field: field.clone(),
            refreshed: now,
            handover_provable_since: None,
            attempt,
            handed_over: None,
        };
        match &mut *ticket {
            Some(ticket) => **ticket = asked,
            None => *ticket = Some(Box::new(asked)),
        }
        attempt
    }

    /// The last attempt was refused, so a message that names it was sent later.
    pub(crate) fn record_refusal(&self, sent: Moment, since: Option<ConnectionEpoch>) {
        if let Some(ticket) = &mut *self.ticket.lock() {
            (ticket.refreshed, ticket.handover_provable_since) = (sent, since);
        }
    }

    /// A message says that a release has handed a lock over to this waiter, or to another one. True
    /// if it means this waiter, perhaps by an attempt that is not its last.
    pub(crate) fn on_handed_over(&self, handed: &HandedOver<'_>) -> bool {
        let mut ticket = self.ticket.lock();
        let is_of_field = |ticket: &&mut Ticket| *ticket.field == *handed.field;
        let Some(ticket) = ticket.as_deref_mut().filter(is_of_field) else {
            return false;
        };
        if ticket.attempt == handed.attempt {
            ticket.handed_over = Some(handed.lease);
        }
        true
    }

    /// How to ask for a place. If a place that was refreshed in time is gone, it was removed by
    /// mistake: a Redisson client that gets the lock moves the deadlines of all others. Then this
    /// waiter may ask for the front of the queue again.
    pub(crate) fn queueing(&self, claim: Duration, now: Moment) -> Queueing {
        let is_fresh = |ticket: &Ticket| now.saturating_duration_since(ticket.refreshed) < claim;
        match &*self.ticket.lock() {
            Some(ticket) if ticket.handover_provable_since.is_some() => Queueing::Keep,
            Some(ticket) if is_fresh(ticket) => Queueing::AtTheFront,
            _ => Queueing::AtTheEnd,
        }
    }

    /// The place is gone, and the field may ask for another. A message that comes from now on may
    /// mean the first.
    pub(crate) fn record_lost_place(&self) {
        if let Some(ticket) = &mut *self.ticket.lock() {
            ticket.handover_provable_since = None;
        }
    }

    /// Releases hand the lock over to this waiter too, so it need not know to whom else they do.
    pub(crate) fn may_be_listed(&self) -> bool {
        let ticket = self.ticket.lock();
        ticket.as_ref().is_some_and(|ticket| ticket.attempt > 0)
    }

    /// A message to this field came. It may say for how long a release has handed the lock over to
    /// it. The waiter may have another field by now.
    pub(crate) fn record_handover(&self, field: &str, lease: Option<Duration>) {
        let mut ticket = self.ticket.lock();
        if let Some(ticket) = ticket.as_mut().filter(|ticket| *ticket.field == *field) {
            ticket.handed_over = lease;
        }
    }

    /// A message has said that a release handed the lock over to the waiter.
    pub(crate) fn has_handover(&self) -> bool {
        let ticket = self.ticket.lock();
        ticket
            .as_ref()
            .is_some_and(|ticket| ticket.handed_over.is_some())
    }

    /// The handover of this field that a message has named, once, if it can be believed.
    pub(crate) fn take_handover(&self, field: &str, servers: ConnectionEpoch) -> Option<Handover> {
        let mut ticket = self.ticket.lock();
        let ticket = ticket.as_mut()?;
        let is_this_place =
            *ticket.field == *field && ticket.handover_provable_since == Some(servers);
        let lease = ticket.handed_over.take().filter(|_| is_this_place)?;
        let since = ticket.refreshed;
        Some(Handover { since, lease })
    }

    pub(super) fn field_in_redis_queue(&self) -> Option<Arc<str>> {
        self.ticket
            .lock()
            .as_ref()
            .map(|ticket| ticket.field.clone())
    }

    /// The previous contender got no answer but *held*. What it learned about the key stays true
    /// until a later call says otherwise.
    pub(super) fn learns_from(&self, contender: &Waiter) {
        self.learns(&contender.no_expiry);
    }

    /// The last call has found a key without an expiry, or with one.
    pub(super) fn learns(&self, no_expiry: &AtomicBool) {
        self.no_expiry.store(no_expiry.load(Relaxed), Relaxed);
    }

    pub(super) fn met_no_expiry(&self) -> bool {
        self.no_expiry.load(Relaxed)
    }

    /// Tells the waiter to ask again. Several wakes count as one.
    pub(crate) fn wake(&self) {
        self.woken.store(true, Release);
        self.notify.notify_one();
    }

    /// Forgets earlier wakes, because the call that is about to be sent sees what they were about.
    pub(crate) fn forget_wakes(&self) {
        self.woken.store(false, Release);
    }

    /// Resolves when the waiter was woken or signalled.
    pub(crate) async fn changed(&self) {
        self.notify.notified().await;
    }

    /// The waiter's own timer fires at `due`.
    pub(crate) fn sleeps_until(&self, due: Option<Instant>) {
        *self.due.lock() = due;
    }

    /// True once, if the waiter's timer should have fired before `then`: its runtime is stalled.
    pub(super) fn overslept(&self, then: Instant) -> bool {
        self.due.lock().take_if(|due| *due < then).is_some()
    }

    /// True once for each wake.
    pub(crate) fn take_wake(&self) -> bool {
        self.woken.swap(false, AcqRel)
    }

    /// Takes the signal that came since the last look.
    pub(crate) fn take_signal(&self) -> WaiterSignal {
        std::mem::replace(&mut *self.signal.lock(), WaiterSignal::None)
    }

    /// Sets the signal for the next notification. A queued waiter cannot have an earlier hold
    /// waiting for it.
    pub(super) fn set_signal(&self, signal: WaiterSignal) {
        let before = std::mem::replace(&mut *self.signal.lock(), signal);
        debug_assert!(
            !matches!(before, WaiterSignal::HandedOver(_)),
            "signalled twice"
        );
    }

    /// Lets the waiter look at its signal. Not under a lock, because wakers are foreign code.
    pub(super) fn notify(&self) {
        self.notify.notify_one();
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

// Yielding: after its turn, this client lets other clients go first.
//
// The client does not know how far away the others are, so it yields for a random time: often
// short, now and then long enough for the farthest. If nobody used a yield, the turn after it is
// many times as long, so that only a bounded share of the time is given away.

/// The shortest yield: a few round trips of a nearby client.
pub(crate) const SHORTEST: Duration = Duration::from_micros(500);
/// The longest yield is `SHORTEST` doubled so often, 128 ms: a round trip of a client that is far
/// away.
const DOUBLINGS: u32 = 8;
/// If nobody has the lock for so long, the next ones may take it that otherwise let others go
/// first.
const ROUND: Duration = Duration::from_millis(64);
/// After a yield that nobody used although all were notified, a turn lasts at least this many times
/// as long: the others do not want the lock now. A client keeps the subscription of a hot name for
/// a while after its last waiter, so it may be notified without waiting.
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
    /// For locks whose waiters poll: when the contender last got the lock after another client had
    /// it.
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

    /// Lets others go first, if this turn is over: so many that were notified, or one that polls
    /// and was met not long ago.
    pub(super) fn yields_to(&mut self, notified: i64) -> Option<Yield> {
        if self.until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let (yielding, turn) = if notified > 0 {
            (Yield::to_listening(notified), TURN_AMONG_IDLE)
        } else if self.remembers_pollers() {
            (Yield::to_poller(), TURN_AMONG_POLLERS)
        } else {
            return None;
        };
        self.until = Some(yielding.until + turn * yielding.span);
        Some(yielding)
    }

    pub(super) fn remembers_pollers(&self) -> bool {
        self.met_poller
            .is_some_and(|met| met.elapsed() < POLLERS_REMEMBERED)
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
    /// All clients of this library yield then, and the first whose yield ends takes the lock. Each
    /// chooses the length at random: half of the yields last [`SHORTEST`], a quarter twice as long,
    /// an eighth four times, and so on. So all are long at once now and then, and a client that is
    /// slow or far away gets in; the others seldom lose much time.
    pub(crate) fn to_listening(others: i64) -> Self {
        let doublings = fastrand::u32(1..).trailing_zeros();
        Yield::to(others, SHORTEST * (1 << doublings.min(DOUBLINGS)))
    }

    /// Lets a client go first that polls: for the longest pause between two questions, and no less,
    /// or it would now and then ask before and after the yield only.
    pub(super) fn to_poller() -> Self {
        let span = SHORTEST * (1 << DOUBLINGS);
        Yield {
            until: Instant::now() + span,
            ..Yield::to(1, span)
        }
    }

    /// Lets those go first that came before, for so many messages to all. Each time, a list of
    /// waiters is served.
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
pub(crate) enum Audience {
    /// So many subscribers of other clients received the message.
    Others(i64),
    /// Waiters are listed, and those that are not have the turn.
    Unlisted,
}

impl Audience {
    pub(crate) const NOBODY: Audience = Audience::Others(0);
}

/// Whether the contender let other clients go first, and whether they did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yielded {
    Not,
    InVain,
    ForOthers,
}

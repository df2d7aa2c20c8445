//! Releases and undos that nobody waits for: from drops, cancelled attempts, lost replies.
//!
//! # Invariants
//!
//! - **Q1** What is posted is repeated until Redis confirms it, or until the lease it is about is
//!   surely over.
//! - **Q2** An answer confirms an undo only if the lane kept its connection since the attempt was
//!   sent, or if it is *released* and one call alone can have taken what was released; else an
//!   attempt may be executed later, and the undo is repeated for one lease after the first answer.
//! - **Q3** A session does not end while an attempt or a guard that goes may yet post something: whoever
//!   sends an acquisition owes before it asks whether the session is closed, and who ends a hold owes
//!   before the hold says so.
//!
//! # Bounds
//!
//! There is at most one chore for each live guard and each future inside `acquire`, and for one lease
//! longer the undos of those that were in doubt (Q2). At most [`AT_ONCE`] of their calls are on the
//! wire, of each lane. A chore that pauses has none: however many undos are repeated, they hold up no release.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until};

use super::Session;
use super::ending::Ending;
use super::hold::{Doubt, Hold};
use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::place::Place;
use crate::protocol::replies::{self, Released};
use crate::protocol::{Call, Value, counts};
use crate::stats::count;
use crate::transport::{CallError, Lane};

/// Calls on the wire at once.
const AT_ONCE: usize = 256;
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Beyond two leases without any answer there is nothing left to release.
const GIVE_UP_SLACK: Duration = Duration::from_secs(10);

/// Something to settle in the background.
#[derive(Debug)]
pub(crate) enum Chore {
    /// Lower the count of a hold to the guards that live; an open call of the hold until then.
    Lower(Arc<Hold>),
    /// End a hold whose last guard is gone, then let the next local waiter in.
    Release(Arc<Hold>),
    /// Take permits of a semaphore off the books.
    Keep(Arc<Hold>),
    /// End what a hold may have left behind, when nothing about it is in doubt.
    End { hold: Arc<Hold>, ending: Ending },
    /// End whatever an attempt may have taken.
    Undo { place: Arc<Place>, field: Arc<str>, doubt: Doubt, ending: Ending },
}

#[derive(Debug)]
pub(crate) struct Releases {
    sender: mpsc::UnboundedSender<Chore>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<Chore>>>,
    pending: AtomicU64,
    /// A chore has one while its call is on the wire. One lane that stalls does not stop the other.
    caller_slots: Semaphore,
    background_slots: Semaphore,
    debts: Arc<Debts>,
    /// Until when something may stand whose release was refused.
    left_until: Mutex<Option<Instant>>,
}

/// What may yet be posted.
#[derive(Debug, Default)]
struct Debts {
    owing: AtomicU64,
    paid: Notify,
}

/// Something may have to be posted; dropped when it was, or when there is nothing to post.
#[derive(Debug)]
pub(crate) struct Owing(Arc<Debts>);

impl Drop for Owing {
    fn drop(&mut self) {
        self.0.owing.fetch_sub(1, SeqCst);
        self.0.paid.notify_one();
    }
}

impl Releases {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Releases {
            sender,
            receiver: Mutex::new(Some(receiver)),
            pending: AtomicU64::new(0),
            caller_slots: Semaphore::new(AT_ONCE),
            background_slots: Semaphore::new(AT_ONCE),
            debts: Arc::default(),
            left_until: Mutex::default(),
        }
    }

    /// Takes a chore over. Needs no runtime; after the end of the session it does nothing.
    pub(crate) fn post(&self, chore: Chore) {
        self.pending.fetch_add(1, Relaxed);
        if self.sender.send(chore).is_err() {
            self.pending.fetch_sub(1, Relaxed);
        }
    }

    /// Keeps the session from ending (Q3).
    pub(crate) fn owe(&self) -> Owing {
        self.debts.owing.fetch_add(1, SeqCst);
        Owing(self.debts.clone())
    }

    /// A release was given up while its lease may last.
    fn left(&self, until: Instant) {
        let mut left = self.left_until.lock();
        *left = left.max(Some(until));
    }

    /// Does something stand whose release was refused?
    pub(crate) fn has_left(&self) -> bool {
        self.left_until.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Leave to have a call on the wire.
    async fn slot(&self, lane: Lane) -> SemaphorePermit<'_> {
        let slots = match lane {
            Lane::Caller => &self.caller_slots,
            Lane::Background => &self.background_slots,
        };
        slots.acquire().await.expect("BUG: it is never closed")
    }

    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Relaxed)
    }
}

/// Settles chores until the session is stopping, then what is left of them.
pub(crate) async fn run(session: &Session) {
    let Some(mut queue) = session.releases.receiver.lock().take() else { return };
    let mut working = FuturesUnordered::new();
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            chore = queue.recv() => {
                if let Some(chore) = chore {
                    working.push(settle(session, chore));
                }
            }
            Some(()) = working.next() => {
                session.releases.pending.fetch_sub(1, Relaxed);
            }
            () = session.stopping(), if !stopping => stopping = true,
            () = session.releases.debts.paid.notified(), if stopping => {}
        }
        // In this order: what is owed is posted first and then not owed any more.
        let owing = session.releases.debts.owing.load(SeqCst);
        if stopping && owing == 0 && working.is_empty() && queue.is_empty() {
            return;
        }
    }
}

async fn settle(session: &Session, chore: Chore) {
    count(&session.counters.releases_queued);
    match chore {
        Chore::Lower(hold) => {
            lower(session, &hold).await;
            hold.call_settled();
        }
        Chore::Release(hold) => {
            let sent_before = hold.release_sent();
            let told = end(session, &hold.place, &hold.field, hold.longest_lease(), None, || {
                // Redis is out of reach: the next waiter may as well watch for itself.
                session.rooms.vacate(&hold, 0);
            });
            let told = match told.await {
                End::Free { told } => told,
                End::Gone { in_doubt, sent } => {
                    // An earlier release did it, unless the lease was over.
                    if !(in_doubt || sent_before) || sent >= hold.deadline() {
                        hold.release_failed(Error::lost(&hold.place.name, LossReason::Gone));
                    }
                    0
                }
                End::Failed(error) => {
                    let lease = hold.longest_lease();
                    hold.release_failed(Error::from_call(&hold.place.name, lease, error));
                    0
                }
            };
            session.released(&hold, told);
        }
        Chore::Keep(hold) => keep(session, &hold).await,
        Chore::End { hold, ending: _ending } => {
            end(session, &hold.place, &hold.field, hold.longest_lease(), None, || {}).await;
        }
        Chore::Undo { place, field, doubt, ending: _ending } => {
            end(session, &place, &field, doubt.lease, Some(doubt), || {}).await;
        }
    }
}

/// One call of a chore, as soon as there is a slot for it.
async fn send(session: &Session, lane: Lane, call: Call) -> Result<Value, CallError> {
    let _slot = session.releases.slot(lane).await;
    session.call_unmeasured(lane, call).await
}

/// Lowers the count until Redis confirms it. It is a nicety for other clients: the last release
/// does not depend on it.
async fn lower(session: &Session, hold: &Arc<Hold>) {
    let mut pause = PAUSE_FIRST;
    loop {
        let slot = session.releases.slot(Lane::Caller).await;
        // Only now: guards may have gone while it waited.
        let guards = hold.guards();
        if guards == 0 || !hold.is_live() {
            // The field with its old count goes to no other owner.
            hold.call_in_doubt();
            return;
        }
        let call = session.release_call(&hold.place, &hold.field, guards);
        let outage = session.wakes.outage();
        // The caller's lane: behind re-entries that were sent before.
        let reply = session.call_unmeasured(Lane::Caller, call).await;
        drop(slot);
        match reply {
            Ok(reply) => {
                if matches!(replies::released(reply), Ok(Released::Absent)) {
                    // Unless its last guard went meanwhile.
                    session.lose(hold, LossReason::Gone);
                }
                return;
            }
            Err(CallError::Refused(_) | CallError::Closed) => {
                hold.call_in_doubt();
                count(&session.counters.releases_failed);
                return;
            }
            Err(CallError::NotApplied(_) | CallError::Unknown(_)) => {
                outage.over_within(super::jittered(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

/// Takes permits off the books, until that is confirmed or their lease is over.
async fn keep(session: &Session, hold: &Hold) {
    let give_up = Instant::now() + hold.longest_lease();
    let mut pause = PAUSE_FIRST;
    loop {
        let outage = session.wakes.outage();
        let call = counts::keep(&hold.place, &hold.field);
        match send(session, Lane::Background, call).await {
            Ok(_) | Err(CallError::Closed) => return,
            Err(error) => {
                if matches!(error, CallError::Refused(_)) || Instant::now() >= give_up {
                    count(&session.counters.releases_failed);
                    return;
                }
                outage.over_within(super::jittered(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

/// How a release of the background ended.
enum End {
    /// Released; so many subscribers were told.
    Free { told: i64 },
    /// The call that was sent then found nothing; perhaps an earlier one did it.
    Gone { in_doubt: bool, sent: Instant },
    /// Given up.
    Failed(CallError),
}

/// Releases a field until that is confirmed (Q1, Q2).
async fn end(
    session: &Session,
    place: &Place,
    field: &Arc<str>,
    lease: Duration,
    doubt: Option<Doubt>,
    mut unreachable: impl FnMut(),
) -> End {
    let lane = if doubt.is_some() { Lane::Caller } else { Lane::Background };
    let give_up = Instant::now() + 2 * lease + GIVE_UP_SLACK;
    let mut answered_since = None;
    let mut in_doubt = false;
    let mut pause = PAUSE_FIRST;
    loop {
        let outage = session.wakes.outage();
        let call = session.release_call(place, field, 0);
        let sent = Instant::now();
        let reply = send(session, lane, call).await;
        let now = Instant::now();
        match reply.and_then(|value| replies::released(value).map_err(Into::into)) {
            Ok(released) => {
                let settled = doubt.is_none_or(|doubt| {
                    session.transport.epoch(lane) == doubt.epoch
                        || doubt.once && matches!(released, Released::Free { .. })
                        || now >= *answered_since.get_or_insert(now) + doubt.lease
                });
                if settled {
                    return match released {
                        Released::Free { told } => End::Free { told },
                        Released::StillHeld | Released::Absent => End::Gone { in_doubt, sent },
                    };
                }
                // The last repetition comes when a late attempt's lease is surely over.
                let over = doubt.zip(answered_since).map(|(doubt, since)| since + doubt.lease);
                let next = now + super::jittered(pause);
                sleep_until(over.map_or(next, |over| next.min(over))).await;
            }
            Err(CallError::Closed) => return End::Failed(CallError::Closed),
            Err(error) => {
                unreachable();
                in_doubt |= matches!(error, CallError::Unknown(_));
                // Of another type it is not what an attempt took.
                if matches!(&error, CallError::Refused(fault) if doubt.is_some() && fault.is_wrong_type())
                {
                    return End::Gone { in_doubt, sent };
                }
                if matches!(error, CallError::Refused(_)) || now >= give_up {
                    count(&session.counters.releases_failed);
                    // Of another type it is not ours any more.
                    if matches!(&error, CallError::Refused(fault) if !fault.is_wrong_type()) {
                        session.releases.left(now + lease);
                    }
                    return End::Failed(if in_doubt { error.in_doubt() } else { error });
                }
                outage.over_within(super::jittered(pause)).await;
            }
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

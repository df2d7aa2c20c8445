//! One waiting future, as its room and its listener know it: what it is told, and what it has in Redis.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::atomic::{Ordering::AcqRel, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Rest;
use crate::protocol::calls::Queueing;
use crate::session::hold::{Hold, Terms};
use crate::session::tenancy::Tenancy;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// What a waiter is told.
pub(crate) enum Turn {
    /// Others are ahead.
    Wait,
    /// It is the front: ask Redis, after letting other clients go first.
    Front(Option<Rest>),
    /// The front may turn the field of the hold before into its own, in one call.
    TakeOver(Arc<Hold>),
    /// The lock is its own, handed over without a call.
    Granted(Tenancy),
    /// Its `Owner` holds the lock already.
    Reenter,
    /// What was waited for has come, for all who waited.
    Open,
}

/// One waiting future, as the room knows it.
pub(crate) struct Waiter {
    /// In the order in which they came.
    pub(super) id: u64,
    pub(super) terms: Terms,
    turn: Mutex<Turn>,
    /// Since when it waits.
    pub(super) since: Instant,
    /// Its place in a queue in Redis.
    ticket: Mutex<Option<Ticket>>,
    /// What it met when it last asked has no expiry: also for those who wait behind it.
    no_expiry: Arc<AtomicBool>,
    /// When a timer of its own is to let it go on.
    due: Mutex<Option<Instant>>,
    /// Something may have changed in Redis.
    woken: AtomicBool,
    notify: Notify,
}

/// A place in a queue in Redis.
#[derive(Clone, Debug)]
struct Ticket {
    field: Arc<str>,
    /// When the call was sent that last kept it.
    kept: Instant,
}

impl Waiter {
    pub(crate) fn new(terms: Terms, no_expiry: Arc<AtomicBool>) -> Arc<Self> {
        let turn = Mutex::new(Turn::Wait);
        Arc::new(Waiter {
            id: NEXT.fetch_add(1, Relaxed),
            terms,
            turn,
            since: Instant::now(),
            ticket: Mutex::new(None),
            no_expiry,
            due: Mutex::new(None),
            woken: AtomicBool::new(false),
            notify: Notify::new(),
        })
    }

    /// It has a place in a queue in Redis; the call that kept it was sent then.
    pub(crate) fn in_line(&self, field: &Arc<str>, kept: Instant) {
        *self.ticket.lock() = Some(Ticket { field: field.clone(), kept });
    }

    /// How to ask for a place. One that was kept in time and is gone was taken off by mistake: a
    /// client of Redisson that is granted moves the deadlines of all others.
    pub(crate) fn queueing(&self, claim: Duration) -> Queueing {
        let kept = |ticket: &Ticket| ticket.kept.elapsed() < claim;
        match &*self.ticket.lock() {
            Some(ticket) if kept(ticket) => Queueing::AtTheFront,
            _ => Queueing::AtTheEnd,
        }
    }

    pub(super) fn field_in_line(&self) -> Option<Arc<str>> {
        self.ticket.lock().as_ref().map(|ticket| ticket.field.clone())
    }

    /// The front before it asked in vain; what it met is there until it is seen otherwise.
    pub(super) fn knows_from(&self, front: &Waiter) {
        self.no_expiry.store(front.met_no_expiry(), Relaxed);
    }

    pub(super) fn met_no_expiry(&self) -> bool {
        self.no_expiry.load(Relaxed)
    }

    /// Tells the waiter to ask again. Coalesces.
    pub(crate) fn wake(&self) {
        self.woken.store(true, Release);
        self.notify.notify_one();
    }

    /// Forgets wakes that came before the call that is about to be sent: it will see for itself.
    pub(crate) fn forget_wakes(&self) {
        self.woken.store(false, Release);
    }

    /// Resolves when the waiter was woken or told something.
    pub(crate) async fn changed(&self) {
        self.notify.notified().await;
    }

    /// It sleeps until then.
    pub(crate) fn sleeps_until(&self, due: Option<Instant>) {
        *self.due.lock() = due;
    }

    /// True once, if it should not have slept until then: its timer is its runtime's.
    pub(super) fn overslept(&self, then: Instant) -> bool {
        self.due.lock().take_if(|due| *due < then).is_some()
    }

    /// True once for each wake.
    pub(crate) fn take_wake(&self) -> bool {
        self.woken.swap(false, AcqRel)
    }

    /// What it was told since it last asked.
    pub(crate) fn take_turn(&self) -> Turn {
        std::mem::replace(&mut *self.turn.lock(), Turn::Wait)
    }

    /// Takes back a hold that it was to take over and has not looked at yet.
    pub(super) fn recall(&self) -> Option<Arc<Hold>> {
        let mut turn = self.turn.lock();
        match std::mem::replace(&mut *turn, Turn::Wait) {
            Turn::TakeOver(hold) => Some(hold),
            other => {
                *turn = other;
                None
            }
        }
    }

    /// Its `Owner` holds the lock. What it was told before and has not looked at may be an obligation,
    /// which goes first.
    pub(crate) fn call_in(&self) {
        let mut turn = self.turn.lock();
        if !matches!(*turn, Turn::Granted(_) | Turn::TakeOver(_)) {
            *turn = Turn::Reenter;
        }
        drop(turn);
        self.notify.notify_one();
    }

    /// It asks from now on, unless its `Owner` got the lock: then it is to look at that.
    pub(super) fn leads(&self, rest: Option<Rest>) {
        let mut turn = self.turn.lock();
        if !matches!(*turn, Turn::Reenter) {
            *turn = Turn::Front(rest);
        }
    }

    /// What it is to look at when it is notified. It was told of nothing that it must pay for before:
    /// it stood in a queue until now.
    pub(super) fn set_turn(&self, turn: Turn) {
        let before = std::mem::replace(&mut *self.turn.lock(), turn);
        debug_assert!(!matches!(before, Turn::Granted(_) | Turn::TakeOver(_)), "told twice");
    }

    /// Lets it look at what it was told. Not under a lock: wakers are code of others.
    pub(super) fn notify(&self) {
        self.notify.notify_one();
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("id", &self.id).finish_non_exhaustive()
    }
}

//! One waiting future, as its queue and its listener know it: its signal, and its place in Redis.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::atomic::{Ordering::AcqRel, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

use tokio::time::Instant;

use super::Yield;
use crate::protocol::calls::Queueing;
use crate::session::hold::{Hold, HoldTerms};
use crate::sync::{Mutex, Notify};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// What a waiter is told to do.
pub(crate) enum WaiterSignal {
    /// Others are ahead.
    None,
    /// It is the contender: ask Redis, after letting other clients go first.
    Contend(Option<Yield>),
    /// This hold is its own, handed over without a call.
    Granted(Arc<Hold>),
    /// Its `Owner` holds the lock already: look again.
    LookAgain,
    /// The latch is open.
    Open,
}

/// One waiting future.
pub(crate) struct Waiter {
    /// In the order in which they came.
    pub(super) id: u64,
    pub(crate) terms: HoldTerms,
    signal: Mutex<WaiterSignal>,
    /// Since when it waits.
    pub(super) since: Instant,
    /// Its place in a queue in Redis.
    ticket: Mutex<Option<Ticket>>,
    /// The key that it met when it last asked has no expiry: so it does for the waiters behind it.
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
    pub(crate) fn new(terms: HoldTerms, no_expiry: Arc<AtomicBool>) -> Arc<Self> {
        let signal = Mutex::new(WaiterSignal::None);
        Arc::new(Waiter {
            id: NEXT.fetch_add(1, Relaxed),
            terms,
            signal,
            since: Instant::now(),
            ticket: Mutex::new(None),
            no_expiry,
            due: Mutex::new(None),
            woken: AtomicBool::new(false),
            notify: Notify::new(),
        })
    }

    /// It has a place in a queue in Redis; the call that kept it was sent then.
    pub(crate) fn has_place(&self, field: &Arc<str>, kept: Instant) {
        *self.ticket.lock() = Some(Ticket {
            field: field.clone(),
            kept,
        });
    }

    /// How to ask for a place. A place that was kept in time and is gone was taken off by mistake: a
    /// client of Redisson that is granted moves the deadlines of all others.
    pub(crate) fn queueing(&self, claim: Duration) -> Queueing {
        let kept = |ticket: &Ticket| ticket.kept.elapsed() < claim;
        match &*self.ticket.lock() {
            Some(ticket) if kept(ticket) => Queueing::AtTheFront,
            _ => Queueing::AtTheEnd,
        }
    }

    pub(super) fn field_in_redis_queue(&self) -> Option<Arc<str>> {
        self.ticket
            .lock()
            .as_ref()
            .map(|ticket| ticket.field.clone())
    }

    /// The contender before it asked in vain; the key that it met is there until it is seen otherwise.
    pub(super) fn learns_from(&self, contender: &Waiter) {
        self.no_expiry.store(contender.met_no_expiry(), Relaxed);
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

    /// Resolves when the waiter was woken or signalled.
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

    /// The signal since it last looked.
    pub(crate) fn take_signal(&self) -> WaiterSignal {
        std::mem::replace(&mut *self.signal.lock(), WaiterSignal::None)
    }

    /// Its `Owner` holds the lock. A signal that it has not looked at may be an obligation, which goes
    /// first.
    pub(crate) fn call_in(&self) {
        let mut signal = self.signal.lock();
        if !matches!(*signal, WaiterSignal::Granted(_)) {
            *signal = WaiterSignal::LookAgain;
        }
        drop(signal);
        self.notify.notify_one();
    }

    /// It contends from now on, unless its `Owner` got the lock: then it is to look at that.
    pub(super) fn contends(&self, yielding: Option<Yield>) {
        let mut signal = self.signal.lock();
        if !matches!(*signal, WaiterSignal::LookAgain) {
            *signal = WaiterSignal::Contend(yielding);
        }
    }

    /// What it is to look at when it is notified. It has no obligation from before: it was queued until now.
    pub(super) fn set_signal(&self, signal: WaiterSignal) {
        let before = std::mem::replace(&mut *self.signal.lock(), signal);
        debug_assert!(
            !matches!(before, WaiterSignal::Granted(_)),
            "signalled twice"
        );
    }

    /// Lets it look at its signal. Not under a lock: wakers are code of others.
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

//! A future that nobody polls holds nobody up.
//!
//! What an acquisition or a release of a caller has under way, a place among the waiters, a call on
//! the wire, a grant that is not picked up, is an obligation that only its future can settle. Callers
//! keep futures without polling them (`select!` in a loop, a stream that is not drained), so each such
//! future is *attended*: if it was woken and is not polled, the session drops it in the caller's place,
//! which settles everything as any drop does, and the next waiter goes on.
//!
//! ```text
//!            polled: Pending                 woken, not polled for a look
//!   ready ───────────────────▶ ready ───────────────────────────────────▶ passed over
//!     │ polled: Ready            │ the caller drops it                        │ polled again
//!     ▼                          ▼                                            ▼
//!    done                      dropped                             the caller begins again
//! ```
//!
//! # Invariants
//!
//! - **T1** Whoever polls takes the future out of its slot meanwhile, so nothing is locked while code
//!   of others runs, and nobody drops what is being polled.
//! - **T2** A future is passed over only if it was woken, and not polled between two looks that are
//!   [`LOOK`] apart. A background that stood still has looked only once: where it shares the caller's
//!   runtime (on the embedded engine), the caller has had its turn in between. On a server it has a
//!   thread of its own, so that a caller's runtime that is blocked for longer is passed over.
//!
//! # Locking
//!
//! A slot or the list of the woken, never both; neither while a future is polled or dropped, or a
//! waker called.
//!
//! # Bounds
//!
//! One entry for each future that was woken within the last two looks.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::Session;
use crate::stats::count;

/// A future that was woken and is not polled is passed over within this.
pub(crate) const UNATTENDED_MAX: Duration = Duration::from_millis(100);
/// Between two looks; it takes two, and a look may be late.
const LOOK: Duration = Duration::from_millis(40);
const _: () = assert!(LOOK.as_millis() * 2 < UNATTENDED_MAX.as_millis());

/// The futures of one client that were woken and may not be polled.
#[derive(Debug, Default)]
pub(crate) struct Attendance {
    woken: Mutex<Vec<Weak<dyn Woken>>>,
    newcomer: Notify,
}

/// It was not polled in time, and what it had under way was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassedOver;

/// An attended future; dropped, it drops what is in it.
pub(crate) struct Attended<F: Future>(Arc<Shared<F>>);

struct Shared<F: Future> {
    slot: Mutex<Slot<F>>,
    /// The task of the caller.
    caller: AtomicWaker,
    attendance: Arc<Attendance>,
    /// Woken since it was last polled.
    woken: AtomicBool,
    /// In the list of the woken.
    listed: AtomicBool,
    polls: AtomicU32,
}

enum Slot<F> {
    Ready(Pin<Box<F>>),
    /// Somebody polls it, and puts it back.
    Polled,
    /// Dropped while it was polled: not to be put back.
    Dropped,
    PassedOver,
    Done,
}

/// What a look needs of an attended future.
trait Woken: Send + Sync + std::fmt::Debug {
    /// How often it was polled, if it was woken since.
    fn waits_since(&self) -> Option<u32>;
    /// Drops what is in it.
    fn pass_over(&self) -> bool;
    /// It is not in the list any more; it is put there again if it was woken meanwhile.
    fn unlist(self: Arc<Self>);
}

impl Attendance {
    /// Polls `work` for the caller; if the caller stops polling, `work` is dropped.
    ///
    /// No `async fn`: those keep room for their arguments for as long as they live.
    pub(crate) fn attend<F>(self: &Arc<Self>, work: F) -> Attended<F>
    where
        F: Future + Send + 'static,
    {
        Attended::new(self, work)
    }

    /// As [`attend`](Attendance::attend), for what is under way before the caller polls at all.
    pub(crate) fn attend_now<F>(self: &Arc<Self>, work: F) -> Attended<F>
    where
        F: Future + Send + 'static,
    {
        let attended = Attended::new(self, work);
        attended.0.wake_by_ref();
        attended
    }

    fn list(&self, woken: Weak<dyn Woken>) {
        let mut list = self.woken.lock();
        list.push(woken);
        let first = list.len() == 1;
        drop(list);
        if first {
            self.newcomer.notify_one();
        }
    }
}

impl<F: Future + Send + 'static> Attended<F> {
    fn new(attendance: &Arc<Attendance>, work: F) -> Self {
        Attended(Arc::new(Shared {
            slot: Mutex::new(Slot::Ready(Box::pin(work))),
            caller: AtomicWaker::new(),
            attendance: attendance.clone(),
            woken: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            polls: AtomicU32::new(0),
        }))
    }
}

impl<F: Future + Send + 'static> Future for Attended<F> {
    type Output = Result<F::Output, PassedOver>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = &self.0;
        shared.caller.register(context.waker());
        shared.polls.fetch_add(1, SeqCst);
        shared.woken.store(false, SeqCst);
        let mut future = match shared.swap(Slot::Polled) {
            Slot::Ready(future) => future,
            Slot::PassedOver => {
                drop(shared.swap(Slot::Done));
                return Poll::Ready(Err(PassedOver));
            }
            Slot::Polled | Slot::Dropped | Slot::Done => panic_polled_again(),
        };
        let waker = Waker::from(shared.clone());
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => {
                drop(shared.swap(Slot::Done));
                Poll::Ready(Ok(done))
            }
            Poll::Pending => {
                shared.put_back(future);
                Poll::Pending
            }
        }
    }
}

#[expect(clippy::panic, reason = "as every future that is polled after its end")]
fn panic_polled_again() -> ! {
    panic!("BUG: polled again after its end")
}

impl<F: Future> Drop for Attended<F> {
    fn drop(&mut self) {
        let before = self.0.swap(Slot::Dropped);
        drop(before);
    }
}

impl<F: Future> Shared<F> {
    fn swap(&self, slot: Slot<F>) -> Slot<F> {
        std::mem::replace(&mut *self.slot.lock(), slot)
    }

    /// What was dropped meanwhile (by a waker that was called inside) ends here.
    fn put_back(&self, future: Pin<Box<F>>) {
        let mut slot = self.slot.lock();
        if matches!(*slot, Slot::Polled) {
            *slot = Slot::Ready(future);
            return;
        }
        drop(slot);
        drop(future);
    }
}

impl<F: Future + Send + 'static> Wake for Shared<F> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, SeqCst);
        if !self.listed.swap(true, SeqCst) {
            let weak: Weak<Self> = Arc::downgrade(self);
            self.attendance.list(weak);
        }
        self.caller.wake();
    }
}

impl<F: Future + Send + 'static> Woken for Shared<F> {
    fn waits_since(&self) -> Option<u32> {
        let polls = self.polls.load(SeqCst);
        self.woken.load(SeqCst).then_some(polls)
    }

    fn pass_over(&self) -> bool {
        let future = {
            let mut slot = self.slot.lock();
            match std::mem::replace(&mut *slot, Slot::PassedOver) {
                Slot::Ready(future) => future,
                other => {
                    *slot = other;
                    return false;
                }
            }
        };
        // Whatever is under way is settled as by any drop.
        drop(future);
        true
    }

    fn unlist(self: Arc<Self>) {
        self.listed.store(false, SeqCst);
        if self.woken.load(SeqCst) && !self.listed.swap(true, SeqCst) {
            let weak: Weak<Self> = Arc::downgrade(&self);
            self.attendance.list(weak);
        }
    }
}

impl<F: Future> std::fmt::Debug for Shared<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attended").field("polls", &self.polls).finish_non_exhaustive()
    }
}

/// Looks again and again, until it is dropped.
pub(crate) async fn run(session: &Session) {
    let attendance = &session.attendance;
    let mut seen: Vec<(Weak<dyn Woken>, u32)> = Vec::new();
    loop {
        if seen.is_empty() && attendance.woken.lock().is_empty() {
            attendance.newcomer.notified().await;
        }
        sleep(LOOK).await;
        let mut still = Vec::new();
        for (entry, polls_then) in seen.drain(..) {
            let Some(woken) = entry.upgrade() else { continue };
            match woken.waits_since() {
                Some(polls) if polls != polls_then => still.push((entry, polls)),
                Some(_) => {
                    if woken.pass_over() {
                        count(&session.counters.passed_over);
                    }
                }
                None => woken.unlist(),
            }
        }
        seen = still;
        let newcomers = std::mem::take(&mut *attendance.woken.lock());
        let waits = |entry: Weak<dyn Woken>| {
            let woken = entry.upgrade()?;
            let polls = woken.waits_since();
            if polls.is_none() {
                woken.unlist();
            }
            Some((entry, polls?))
        };
        seen.extend(newcomers.into_iter().filter_map(waits));
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests;

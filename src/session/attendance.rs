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
//! - **T1** A poll takes the future out of its slot meanwhile, so nothing is locked while code
//!   of others runs, and nobody drops what is being polled.
//! - **T2** A future is passed over only if it was woken, and not polled between two looks that are
//!   [`LOOK`] apart.
//! - **T3** A runtime that is overloaded polls everybody late; to pass its waiters over one after the
//!   other would let nobody in. So a look sends a *canary* to the runtime that polled the future, a task
//!   that does nothing: the future is passed over when the canary was polled and the future was not, or
//!   [`STALLED_MAX`] later. A look that is late itself counts as the first.
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
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Session;
use super::wait::Wait;
use crate::stats::count;

/// A future that was woken and is not polled is passed over within this.
pub(crate) const UNATTENDED_MAX: Duration = Duration::from_millis(100);
/// Between two looks; it takes two, and a look may be late.
const LOOK: Duration = Duration::from_millis(40);
const _: () = assert!(LOOK.as_millis() * 2 < UNATTENDED_MAX.as_millis());

/// A runtime that polls nothing at all is waited for as long as this. Twice as long each time that a
/// caller was passed over and came back: its runtime is slow, and it would never get in.
const STALLED_MAX: Duration = Duration::from_secs(1);
const STALLED_MOST: Duration = Duration::from_secs(8);

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
    /// Where it was polled first, if that is a runtime of tokio.
    runtime: OnceLock<Handle>,
    /// How long its runtime may run nothing at all.
    stalled_max: Duration,
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
    fn stalled_max(&self) -> Duration;
    /// Lets the runtime that polled it run something that is queued behind it.
    fn send_canary(&self) -> Canary;
    /// Drops what is in it.
    fn pass_over(&self) -> bool;
    /// It is not in the list any more; it is put there again if it was woken meanwhile.
    fn unlist(self: Arc<Self>);
}

impl Attendance {
    /// Polls `work` for the caller; if the caller stops polling, `work` is dropped. It is for a caller
    /// that was passed over so often before.
    ///
    /// No `async fn`: those keep room for their arguments for as long as they live.
    fn attend<F>(self: &Arc<Self>, passed_over: u32, work: F) -> Attended<F>
    where
        F: Future + Send + 'static,
    {
        Attended::new(self, passed_over, work)
    }

    /// Does `work` for a caller; one that was passed over and polls again begins again, unless its wait is
    /// over: then nothing.
    pub(crate) async fn attend_until_over<W>(
        self: &Arc<Self>,
        wait: Wait,
        work: impl Fn() -> W,
    ) -> Option<W::Output>
    where
        W: Future + Send + 'static,
    {
        let mut passed_over = 0;
        loop {
            match self.attend(passed_over, work()).await {
                Ok(done) => return Some(done),
                // One question is asked again: nobody has seen its answer.
                Err(PassedOver) if wait != Wait::Once && wait.is_over() => return None,
                Err(PassedOver) => passed_over += 1,
            }
        }
    }

    /// As [`attend`](Attendance::attend), for what is under way before the caller polls at all.
    pub(crate) fn attend_now<F>(self: &Arc<Self>, work: F) -> Attended<F>
    where
        F: Future + Send + 'static,
    {
        let attended = Attended::new(self, 0, work);
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
    fn new(attendance: &Arc<Attendance>, passed_over: u32, work: F) -> Self {
        let stalled_max = STALLED_MAX.saturating_mul(2_u32.saturating_pow(passed_over));
        Attended(Arc::new(Shared {
            stalled_max: stalled_max.min(STALLED_MOST),
            slot: Mutex::new(Slot::Ready(Box::pin(work))),
            caller: AtomicWaker::new(),
            runtime: OnceLock::new(),
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
        if shared.polls.load(SeqCst) == 0
            && let Ok(runtime) = Handle::try_current()
        {
            shared.runtime.get_or_init(|| runtime);
        }
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

    fn stalled_max(&self) -> Duration {
        self.stalled_max
    }

    fn send_canary(&self) -> Canary {
        Canary::sent_to(self.runtime.get())
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

/// Has a runtime run anything since?
#[derive(Debug)]
struct Canary(Arc<AtomicBool>);

impl Canary {
    fn sent_to(runtime: Option<&Handle>) -> Self {
        let was_polled = Arc::new(AtomicBool::new(runtime.is_none()));
        let flight = Flight(was_polled.clone());
        if let Some(runtime) = runtime {
            drop(runtime.spawn(async move { drop(flight) }));
        }
        Canary(was_polled)
    }

    fn was_polled(&self) -> bool {
        self.0.load(SeqCst)
    }
}

/// Dropped when it is polled, or with a runtime that has ended.
struct Flight(Arc<AtomicBool>);

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A future that was woken, as the last look found it.
#[derive(Debug)]
struct Seen {
    entry: Weak<dyn Woken>,
    polls: u32,
    since: Instant,
    canary: Canary,
}

/// What a further look finds.
enum Again {
    Settled,
    Waits(Seen),
    PassedOver,
}

impl Seen {
    /// Nothing, if it was polled meanwhile.
    fn first(entry: Weak<dyn Woken>) -> Option<Self> {
        let woken = entry.upgrade()?;
        let Some(polls) = woken.waits_since() else {
            woken.unlist();
            return None;
        };
        let canary = woken.send_canary();
        Some(Seen { entry, polls, since: Instant::now(), canary })
    }

    fn again(self) -> Again {
        let Some(woken) = self.entry.upgrade() else { return Again::Settled };
        if woken.waits_since() != Some(self.polls) {
            return Seen::first(self.entry).map_or(Again::Settled, Again::Waits);
        }
        if !self.canary.was_polled() && self.since.elapsed() < woken.stalled_max() {
            return Again::Waits(self);
        }
        if woken.pass_over() { Again::PassedOver } else { Again::Settled }
    }
}

/// Looks again and again, until it is dropped.
pub(crate) async fn run(session: &Session) {
    let attendance = &session.attendance;
    let mut seen: Vec<Seen> = Vec::new();
    loop {
        if seen.is_empty() && attendance.woken.lock().is_empty() {
            attendance.newcomer.notified().await;
        }
        let due = Instant::now() + LOOK;
        sleep_until(due).await;
        let late = due.elapsed() >= LOOK;
        let mut waiting = Vec::new();
        for before in seen.drain(..) {
            if late {
                waiting.extend(Seen::first(before.entry));
                continue;
            }
            match before.again() {
                Again::Settled => {}
                Again::Waits(seen) => waiting.push(seen),
                Again::PassedOver => count(&session.counters.passed_over),
            }
        }
        let newcomers = std::mem::take(&mut *attendance.woken.lock());
        waiting.extend(newcomers.into_iter().filter_map(Seen::first));
        seen = waiting;
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests;

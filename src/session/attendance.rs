//! Gives up what a caller's future has under way if the caller does not poll it.
//!
//! A future may have a place among the waiters, a call on the wire, or a grant that nobody has picked up. Only
//! the future itself can settle that, and callers keep futures without polling them: `select!` in a loop, a
//! stream that is not drained. So the session *attends* each of them. If one was woken and is not polled, the
//! session drops what is in it, which settles everything as any drop does, and the next waiter goes on. A caller
//! that polls again begins again, with twice the time.
//!
//! ```text
//!            polled: Pending             woken, not polled for its patience
//!   ready ───────────────────▶ ready ───────────────────────────────────▶ passed over
//!     │ polled: Ready            │ the caller drops it                        │ polled again
//!     ▼                          ▼                                            ▼
//!    gone                       gone             the caller begins again, with twice the patience
//! ```
//!
//! # Invariants
//!
//! - **ATTEND-1** A poll takes the future out of its slot meanwhile, so nothing is locked while code
//!   of others runs, and nobody drops what is being polled.
//! - **ATTEND-2** After a future was woken, the session looks at it every [`LOOK`], until it was polled or is passed over.
//! - **ATTEND-3** The age of a future is the number of looks since the first one that found it woken. A poll sets it back.
//!   When it reaches the [`Patience`] of the future, the future is passed over. A late look counts as one look, so
//!   that a process that stood still passes nobody over.
//! - **ATTEND-4** An overloaded runtime polls all its futures late. If they were passed over one after the other, nobody
//!   would get in. So the first look sends a *canary* to the runtime of the future, a task that does nothing. Until
//!   the canary has run, it takes [`STALLED_LOOKS`] looks to age by one.
//! - **ATTEND-5** Each time a caller was passed over, its patience doubles, whatever made it late. So it gets on however
//!   late it polls, and its patience is at most twice as long as it once was late.
//!
//! # Locking
//!
//! The state of a future or the list of the woken, never both; neither while a future is polled or dropped, or a
//! waker called.
//!
//! # Bounds
//!
//! One entry for each future that was woken within the last two looks.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::wait::Wait;
use crate::error::Error;
use crate::stats::{Counters, count};
use crate::sync::{Mutex, Notify, call_out};

/// A future that was woken and is not polled is passed over within this.
pub(crate) const UNATTENDED_MAX: Duration = Duration::from_millis(100);
/// Between two looks; it takes two, and a look may be late.
const LOOK: Duration = Duration::from_millis(40);
const _: () = assert!(LOOK.as_millis() * 2 < UNATTENDED_MAX.as_millis());

/// A future on a runtime that runs nothing ages so much more slowly: it has a second at first.
const STALLED_LOOKS: u64 = 25;

/// How many looks may find a future woken and not polled before it is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience(u64);

impl Patience {
    /// What nobody was late with yet.
    pub(crate) const FIRST: Patience = Patience(1);

    /// At least so long.
    pub(crate) fn lasting(span: Duration) -> Self {
        Patience(u64::try_from(span.as_millis().div_ceil(LOOK.as_millis())).unwrap_or(u64::MAX))
    }

    #[must_use]
    pub(crate) fn doubled(self) -> Self {
        Patience(self.0.saturating_mul(2))
    }

    /// In parts of a look.
    fn age_max(self) -> u64 {
        self.0.saturating_mul(STALLED_LOOKS)
    }
}

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
    state: Mutex<State<F>>,
    /// The task of the caller.
    caller: AtomicWaker,
    /// Where it was polled first, if that is a runtime of tokio.
    runtime: OnceLock<Handle>,
    patience: Patience,
    attendance: Arc<Attendance>,
}

struct State<F> {
    slot: Slot<F>,
    /// Woken since it was last polled.
    woken: bool,
    /// It is looked at, or in the list of what is looked at next.
    listed: bool,
    /// In parts of a look; none before the first look that finds it woken.
    age: Option<u64>,
}

enum Slot<F> {
    Ready(Pin<Box<F>>),
    /// Somebody polls it, and puts it back.
    Polled,
    PassedOver,
    /// Done or dropped: not to be put back.
    Gone,
}

/// What a look needs of an attended future.
trait Woken: Send + Sync + std::fmt::Debug {
    /// Looks at it, as much later than before as `parts` of a look; drops what is in it if its time is over.
    fn look(&self, parts: u64) -> Look;
    /// Lets the runtime that polled it run something that is queued behind it.
    fn send_canary(&self) -> Option<JoinHandle<()>>;
}

/// What a look finds.
enum Look {
    /// It was not seen woken before.
    First,
    Waits,
    /// It was polled, or is gone.
    Settled,
    PassedOver,
}

impl Attendance {
    /// Does `work` for a caller. One that was passed over and polls again begins again, with twice the patience,
    /// unless its wait is over: then it is `timed_out`, and the error says why.
    ///
    /// No `async fn`: those keep room for their arguments for as long as they live.
    pub(crate) fn attend_until_over<T, W>(
        self: &Arc<Self>,
        (wait, mut patience): (Wait, Patience),
        work: impl Fn(Patience) -> W,
        timed_out: impl Fn() -> Error,
    ) -> impl Future<Output = Result<T, Error>>
    where
        W: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let mut times = 0;
        async move {
            let mut done = loop {
                if let Ok(done) = Attended::new(self, patience, work(patience)).await {
                    break done;
                }
                (times, patience) = (times + 1, patience.doubled());
                // One question is asked again: nobody has seen its answer.
                if wait != Wait::Once && wait.is_over() {
                    break Err(timed_out());
                }
            };
            if let Err(Error::Timeout { passed_over, .. }) = &mut done {
                *passed_over = times;
            }
            done
        }
    }

    /// Attends what is under way before the caller polls at all.
    pub(crate) fn attend_now<F>(self: &Arc<Self>, work: F) -> Attended<F>
    where
        F: Future + Send + 'static,
    {
        let attended = Attended::new(self, Patience::FIRST, work);
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
    fn new(attendance: &Arc<Attendance>, patience: Patience, work: F) -> Self {
        let slot = Slot::Ready(Box::pin(work));
        let state = State {
            slot,
            woken: false,
            listed: false,
            age: None,
        };
        Attended(Arc::new(Shared {
            state: Mutex::new(state),
            caller: AtomicWaker::new(),
            runtime: OnceLock::new(),
            patience,
            attendance: attendance.clone(),
        }))
    }
}

impl<F: Future + Send + 'static> Future for Attended<F> {
    type Output = Result<F::Output, PassedOver>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = &self.0;
        shared.caller.register(context.waker());
        if shared.runtime.get().is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            shared.runtime.get_or_init(|| runtime);
        }
        let mut future = match shared.begin_poll() {
            Slot::Ready(future) => future,
            Slot::PassedOver => {
                drop(shared.replace(Slot::Gone));
                return Poll::Ready(Err(PassedOver));
            }
            Slot::Polled | Slot::Gone => panic_polled_again(),
        };
        let waker = Waker::from(shared.clone());
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => {
                drop(shared.replace(Slot::Gone));
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
        let before = self.0.replace(Slot::Gone);
        drop(before);
    }
}

impl<F: Future> Shared<F> {
    fn replace(&self, slot: Slot<F>) -> Slot<F> {
        std::mem::replace(&mut self.state.lock().slot, slot)
    }

    /// What was woken until now is seen by the poll.
    fn begin_poll(&self) -> Slot<F> {
        let mut state = self.state.lock();
        (state.woken, state.age) = (false, None);
        std::mem::replace(&mut state.slot, Slot::Polled)
    }

    /// What was dropped meanwhile (by a waker that was called inside) ends here.
    fn put_back(&self, future: Pin<Box<F>>) {
        let mut state = self.state.lock();
        if matches!(state.slot, Slot::Polled) {
            state.slot = Slot::Ready(future);
            return;
        }
        drop(state);
        drop(future);
    }
}

impl<F: Future + Send + 'static> Wake for Shared<F> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.woken = true;
        let listed = std::mem::replace(&mut state.listed, true);
        drop(state);
        if !listed {
            let weak: Weak<Self> = Arc::downgrade(self);
            self.attendance.list(weak);
        }
        call_out(|| self.caller.wake());
    }
}

impl<F: Future + Send + 'static> Woken for Shared<F> {
    fn look(&self, parts: u64) -> Look {
        let mut state = self.state.lock();
        if !state.woken || matches!(state.slot, Slot::PassedOver | Slot::Gone) {
            state.listed = false;
            return Look::Settled;
        }
        let age = match (&state.slot, state.age) {
            // The poll that is under way may see what woke it. If not, its age begins at the next look.
            (Slot::Polled, _) => None,
            (_, None) => Some(0),
            (_, Some(age)) => Some(age + parts),
        };
        let is_first = state.age.is_none();
        state.age = age;
        if age.is_none_or(|age| age < self.patience.age_max()) {
            return if is_first { Look::First } else { Look::Waits };
        }
        let work = std::mem::replace(&mut state.slot, Slot::PassedOver);
        drop(state);
        // Whatever is under way is settled as by any drop.
        drop(work);
        Look::PassedOver
    }

    fn send_canary(&self) -> Option<JoinHandle<()>> {
        self.runtime.get().map(|runtime| runtime.spawn(async {}))
    }
}

impl<F: Future> std::fmt::Debug for Shared<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attended")
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// A future that was woken, as the last look found it.
#[derive(Debug)]
struct Seen {
    future: Weak<dyn Woken>,
    /// Has its runtime run anything since?
    canary: Option<JoinHandle<()>>,
}

/// Looks again and again, until it is dropped.
pub(crate) async fn run(attendance: &Attendance, counters: &Counters) {
    let mut seen: Vec<Seen> = Vec::new();
    loop {
        if seen.is_empty() && attendance.woken.lock().is_empty() {
            attendance.newcomer.notified().await;
        }
        sleep(LOOK).await;
        let newcomers = std::mem::take(&mut *attendance.woken.lock());
        seen.extend(newcomers.into_iter().map(|future| Seen {
            future,
            canary: None,
        }));
        seen.retain_mut(|one| {
            let Some(future) = one.future.upgrade() else {
                return false;
            };
            let runs = one.canary.as_ref().is_none_or(JoinHandle::is_finished);
            match future.look(if runs { STALLED_LOOKS } else { 1 }) {
                Look::First => {
                    one.canary = future.send_canary();
                    true
                }
                Look::Waits => true,
                Look::Settled => false,
                Look::PassedOver => {
                    count(&counters.passed_over);
                    false
                }
            }
        });
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests;

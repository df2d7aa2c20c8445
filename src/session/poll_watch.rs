//! Cancels the work of a caller's future that was woken and is not polled.
//!
//! A future may have a place among the waiters, a call on the wire, or a grant that nobody has
//! picked up. Only the future itself can settle those, but callers keep futures without polling
//! them: `select!` in a loop, or a stream that is not drained. So the session *watches* each
//! future. If a future was woken and is not polled in time, the session drops the work inside it.
//! That cleans up as any drop does, and the next waiter goes on. If the caller polls again, the
//! work starts over with twice the time.
//!
//! ```text
//!            polled: Pending             woken, not polled for its limit
//!   ready ───────────────────▶ ready ───────────────────────────────────▶ cancelled
//!     │ polled: Ready            │ the caller drops it                        │ polled again
//!     ▼                          ▼                                            ▼
//!    gone                       gone             the caller begins again, with twice the limit
//! ```
//!
//! # Invariants
//!
//! - **POLL-WATCH-1** A poll takes the work out of its slot and puts it back afterwards. So no lock
//!   is held while foreign code runs, and nobody drops work that is being polled.
//! - **POLL-WATCH-2** After a future was woken, the session looks at it every [`LOOK`], until it is
//!   polled or cancelled.
//! - **POLL-WATCH-3** The age of a future is the number of looks since the first one that found it
//!   woken. A poll resets the age. A future whose age reaches its [`PollLimit`] is cancelled. A
//!   late look counts as one look, so a process that was stopped cancels nobody.
//! - **POLL-WATCH-4** An overloaded runtime polls all its futures late. If they were cancelled one
//!   after the other, none of them would ever get the lock. So the first look sends a *canary*, a
//!   task that does nothing, to the runtime of the future. Until the canary has run, the future
//!   needs [`STALLED_LOOKS`] looks to age by one.
//! - **POLL-WATCH-5** Each time a caller is cancelled, its limit doubles, whatever made it late.
//!   So it succeeds however late it polls, and its limit is at most twice its longest delay.
//!
//! # Locking
//!
//! The state of one future, then the list of woken futures. Neither is locked while a future is
//! polled or dropped, or while a waker is called.
//!
//! # Bounds
//!
//! One entry for each future that was woken within the last two looks, and one pointer for each
//! that came and went since the last one.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::runtime::Handle;
use tokio::task;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::error::Error;
use crate::lease::Lease;
use crate::stats::{Counters, count};
use crate::sync::{Mutex, Notify, call_out};
use crate::timer::sleep;

/// A future that was woken and is not polled is cancelled within this time.
pub(crate) const POLL_WITHIN: Duration = Duration::from_millis(100);
/// The time between two looks. Cancelling takes two looks, and a look may be late.
const LOOK: Duration = Duration::from_millis(40);
const _: () = assert!(LOOK.as_millis() * 2 < POLL_WITHIN.as_millis());

/// How much more slowly a future ages while its runtime runs nothing: it has one second at first.
const STALLED_LOOKS: u64 = 25;

/// How many looks may find a future woken and not polled before it is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PollLimit(u64);

impl PollLimit {
    /// The limit of a caller that was never late.
    pub(crate) const FIRST: PollLimit = PollLimit(1);

    /// The limit that lasts at least for `span`.
    pub(crate) fn lasting(span: Duration) -> Self {
        PollLimit(u64::try_from(span.as_millis().div_ceil(LOOK.as_millis())).unwrap_or(u64::MAX))
    }

    #[must_use]
    pub(crate) fn doubled(self) -> Self {
        PollLimit(self.0.saturating_mul(2))
    }

    /// In fractions of a look.
    fn age_max(self) -> u64 {
        self.0.saturating_mul(STALLED_LOOKS)
    }
}

/// The futures of one client that were woken and may not be polled.
#[derive(Debug, Default)]
pub(crate) struct PollWatch {
    woken: Mutex<WokenList>,
    newcomer: Notify,
}

/// The futures that were woken since the last look.
#[derive(Debug, Default)]
struct WokenList {
    /// Counts the looks. Each empties the list.
    look: u64,
    /// Empty where a future has gone.
    places: Vec<Option<Weak<dyn Woken>>>,
    /// Nobody looks until a newcomer is notified.
    sleeps: bool,
}

/// The place of a future in the list of one look.
type PlaceInList = (u64, usize);

/// The future was not polled in time, and its work was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CancelledAsUnpolled;

/// A future that the session watches. Dropping it drops the work inside.
pub(crate) struct Watched<F: Future>(Arc<WatchedFuture<F>>);

struct WatchedFuture<F: Future> {
    state: Mutex<PollState<F>>,
    /// The task of the caller.
    caller: AtomicWaker,
    /// The tokio runtime that polled it first, if any.
    runtime: OnceLock<Handle>,
    poll_limit: PollLimit,
    poll_watch: Arc<PollWatch>,
}

struct PollState<F> {
    slot: WorkSlot<F>,
    /// Woken since it was last polled.
    woken: bool,
    /// The session looks at it, or will from the next look on.
    listed: Option<PlaceInList>,
    /// In fractions of a look; none before the first look that finds it woken.
    age: Option<u64>,
}

enum WorkSlot<F> {
    Ready(Pin<Box<F>>),
    /// Being polled. The poll puts the future back.
    Polled,
    Cancelled,
    /// Done or dropped: the future must not be put back.
    Gone,
}

/// The part of a watched future that a look needs.
trait Woken: Send + Sync + std::fmt::Debug {
    /// Adds `parts` of a look to the age of the future, and drops its work if its limit is used
    /// up.
    fn look(&self, parts: u64) -> Look;
    /// Spawns a task that does nothing on the future's runtime. It runs only if that runtime makes
    /// progress.
    fn send_canary(&self) -> Option<JoinHandle<()>>;
}

/// The result of a look.
enum Look {
    /// The first look that finds the future woken.
    First,
    Waits,
    /// The future was polled, or is gone.
    Settled,
    Cancelled,
}

impl PollWatch {
    /// Does `work` for a caller. If the caller is cancelled and polls again, the work starts over
    /// with twice the limit. If the wait is over by then, the result is the `timed_out` error,
    /// which counts how often the work was cancelled.
    ///
    /// Not an `async fn`, because its future would keep space for the arguments for as long as it
    /// lives.
    pub(crate) fn run_until_over<T, W>(
        self: &Arc<Self>,
        (wait, mut poll_limit): (Wait, PollLimit),
        work: impl Fn(PollLimit) -> W,
        timed_out: impl Fn() -> Error,
    ) -> impl Future<Output = Result<T, Error>>
    where
        W: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let mut times = 0;
        async move {
            let mut done = loop {
                if let Ok(done) = Watched::new(self, poll_limit, work(poll_limit)).await {
                    break done;
                }
                (times, poll_limit) = (times + 1, poll_limit.doubled());
                // A wait of zero asks again, because nobody has seen the answer to its question.
                if wait != Wait::Once && wait.is_over() {
                    break Err(timed_out());
                }
            };
            if let Err(Error::Timeout {
                cancelled_as_unpolled,
                ..
            }) = &mut done
            {
                *cancelled_as_unpolled = times;
            }
            done
        }
    }

    /// Watches `work` at once, before the caller's first poll.
    pub(crate) fn run_now<F>(self: &Arc<Self>, work: F) -> Watched<F>
    where
        F: Future + Send + 'static,
    {
        let watched = Watched::new(self, PollLimit::FIRST, work);
        watched.0.wake_by_ref();
        watched
    }

    /// True with the place if nobody looks: notify the newcomer once nothing is locked.
    fn list(&self, woken: Weak<dyn Woken>) -> (PlaceInList, bool) {
        let mut list = self.woken.lock();
        let place = (list.look, list.places.len());
        list.places.push(Some(woken));
        (place, std::mem::take(&mut list.sleeps))
    }

    /// The future is gone. Most come and go between two looks.
    fn unlist(&self, (look, place): PlaceInList) {
        let mut list = self.woken.lock();
        if list.look != look {
            return;
        }
        let gone = list.places[place].take();
        while list.places.pop_if(|last| last.is_none()).is_some() {}
        drop(list);
        drop(gone);
    }

    /// The futures that were woken since the last look. `None` if there are none: then the next one
    /// notifies.
    fn take_woken(&self) -> Option<Vec<Weak<dyn Woken>>> {
        let mut list = self.woken.lock();
        list.look += 1;
        list.sleeps = list.places.is_empty();
        let woken = std::mem::take(&mut list.places);
        (!list.sleeps).then(|| woken.into_iter().flatten().collect())
    }
}

impl<F: Future + Send + 'static> Watched<F> {
    fn new(poll_watch: &Arc<PollWatch>, poll_limit: PollLimit, work: F) -> Self {
        let slot = WorkSlot::Ready(Box::pin(work));
        let state = PollState {
            slot,
            woken: false,
            listed: None,
            age: None,
        };
        Watched(Arc::new(WatchedFuture {
            state: Mutex::new(state),
            caller: AtomicWaker::new(),
            runtime: OnceLock::new(),
            poll_limit,
            poll_watch: poll_watch.clone(),
        }))
    }
}

impl<F: Future + Send + 'static> Future for Watched<F> {
    type Output = Result<F::Output, CancelledAsUnpolled>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = &self.0;
        shared.caller.register(context.waker());
        if shared.runtime.get().is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            shared.runtime.get_or_init(|| runtime);
        }
        let mut future = match shared.begin_poll() {
            WorkSlot::Ready(future) => future,
            WorkSlot::Cancelled => {
                drop(shared.end());
                return Poll::Ready(Err(CancelledAsUnpolled));
            }
            WorkSlot::Polled | WorkSlot::Gone => panic_polled_again(),
        };
        let waker = Waker::from(shared.clone());
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => {
                drop(shared.end());
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

impl<F: Future> Drop for Watched<F> {
    fn drop(&mut self) {
        let before = self.0.end();
        drop(before);
    }
}

impl<F: Future> WatchedFuture<F> {
    /// Returns the work, to be dropped outside the lock.
    fn end(&self) -> WorkSlot<F> {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.slot, WorkSlot::Gone);
        let listed = state.listed.take();
        drop(state);
        if let Some(place) = listed {
            self.poll_watch.unlist(place);
        }
        before
    }

    /// This poll sees every wake-up until now.
    fn begin_poll(&self) -> WorkSlot<F> {
        let mut state = self.state.lock();
        (state.woken, state.age) = (false, None);
        std::mem::replace(&mut state.slot, WorkSlot::Polled)
    }

    /// A waker that the poll called may have dropped the future. Then its work is dropped here,
    /// outside the lock.
    fn put_back(&self, future: Pin<Box<F>>) {
        let mut state = self.state.lock();
        if matches!(state.slot, WorkSlot::Polled) {
            state.slot = WorkSlot::Ready(future);
            return;
        }
        drop(state);
        drop(future);
    }
}

impl<F: Future + Send + 'static> Wake for WatchedFuture<F> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.woken = true;
        let mut nobody_looks = false;
        if state.listed.is_none() && !matches!(state.slot, WorkSlot::Gone) {
            let weak: Weak<Self> = Arc::downgrade(self);
            let (place, sleeps) = self.poll_watch.list(weak);
            (state.listed, nobody_looks) = (Some(place), sleeps);
        }
        drop(state);
        if nobody_looks {
            self.poll_watch.newcomer.notify_one();
        }
        call_out(|| self.caller.wake());
    }
}

impl<F: Future + Send + 'static> Woken for WatchedFuture<F> {
    fn look(&self, parts: u64) -> Look {
        let mut state = self.state.lock();
        if !state.woken || matches!(state.slot, WorkSlot::Cancelled | WorkSlot::Gone) {
            state.listed = None;
            return Look::Settled;
        }
        let age = match (&state.slot, state.age) {
            // The current poll may handle this wake-up. If it does not, the age begins at the next
            // look.
            (WorkSlot::Polled, _) => None,
            (_, None) => Some(0),
            (_, Some(age)) => Some(age + parts),
        };
        let is_first = state.age.is_none();
        state.age = age;
        if age.is_none_or(|age| age < self.poll_limit.age_max()) {
            return if is_first { Look::First } else { Look::Waits };
        }
        let work = std::mem::replace(&mut state.slot, WorkSlot::Cancelled);
        drop(state);
        // The drop cleans up what is under way, and must run outside the lock.
        drop(work);
        Look::Cancelled
    }

    fn send_canary(&self) -> Option<JoinHandle<()>> {
        self.runtime.get().map(|runtime| runtime.spawn(async {}))
    }
}

impl<F: Future> std::fmt::Debug for WatchedFuture<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched")
            .field("poll_limit", &self.poll_limit)
            .finish_non_exhaustive()
    }
}

/// A future that was woken, as the last look found it.
#[derive(Debug)]
struct WokenFuture {
    future: Weak<dyn Woken>,
    /// Tells whether the future's runtime has run anything since the first look.
    canary: Option<JoinHandle<()>>,
}

/// Looks at woken futures, until it is dropped.
pub(crate) async fn run(poll_watch: &PollWatch, counters: &Counters) {
    let mut seen: Vec<WokenFuture> = Vec::new();
    loop {
        let newcomers = poll_watch.take_woken();
        if newcomers.is_none() && seen.is_empty() {
            poll_watch.newcomer.notified().await;
        }
        let newcomers = newcomers.into_iter().flatten();
        seen.extend(newcomers.map(|future| WokenFuture {
            future,
            canary: None,
        }));
        seen.retain_mut(|listed| {
            let Some(future) = listed.future.upgrade() else {
                return false;
            };
            let runs = listed.canary.as_ref().is_none_or(JoinHandle::is_finished);
            match future.look(if runs { STALLED_LOOKS } else { 1 }) {
                Look::First => {
                    listed.canary = future.send_canary();
                    true
                }
                Look::Waits => true,
                Look::Settled => false,
                Look::Cancelled => {
                    count(&counters.cancelled_as_unpolled);
                    false
                }
            }
        });
        sleep(LOOK).await;
    }
}

// How long a caller waits for a lock.

/// How long a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Ask once, and do not wait.
    Once,
    Until(Instant),
    Forever,
}

impl Wait {
    /// There is no time for another call.
    pub(crate) fn is_over(self) -> bool {
        match self {
            Wait::Once => true,
            Wait::Until(deadline) => Instant::now() >= deadline,
            Wait::Forever => false,
        }
    }

    pub(crate) fn deadline(self) -> Option<Instant> {
        if let Wait::Until(deadline) = self {
            Some(deadline)
        } else {
            None
        }
    }
}

impl From<Duration> for Wait {
    /// The wait begins now. Zero means one call. More than a timer can count means forever.
    fn from(wait: Duration) -> Self {
        if wait.is_zero() {
            return Wait::Once;
        }
        // Tokio's timers reach only about two years.
        if wait > Lease::MAX {
            Wait::Forever
        } else {
            Wait::Until(Instant::now() + wait)
        }
    }
}

// Who calls: a task, or a thread that runs no task.

/// The work that waits as one while a call of it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    Task(task::Id),
    /// `block_on` runs its future outside of all tasks.
    Thread(ThreadId),
}

impl Caller {
    pub(crate) fn current() -> Self {
        task::try_id().map_or_else(|| Caller::Thread(thread::current().id()), Caller::Task)
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests;

//! When futures are passed over. The background task of a client looks at them, mostly under paused
//! time.
#![expect(
    clippy::disallowed_methods,
    reason = "tests spawn tasks, and block a worker"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use futures_util::poll;
use tokio::time::{Instant, advance, sleep};

use super::*;
use crate::session::tests::inline_waker::{does_not_hang, poll_and_drop_when_woken};
use crate::{Client, EmbeddedRedis};

const MOMENT: Duration = Duration::from_millis(1);
/// A little less than the time between two looks.
const A_LITTLE_LESS: Duration = Duration::from_millis(35);
const LONG: Duration = Duration::from_secs(60);

/// A test future that completes on command, reports its drop, and can be woken.
#[derive(Clone, Default)]
struct Work(Arc<(Notify, AtomicBool, AtomicBool)>);

struct Dropped(Work);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.0.2.store(true, SeqCst);
    }
}

impl Work {
    fn future(&self) -> impl Future<Output = ()> + Send + use<> {
        let dropped = Dropped(self.clone());
        async move {
            let state = &dropped.0.0;
            while !state.1.load(SeqCst) {
                state.0.notified().await;
            }
        }
    }

    fn wake(&self) {
        self.0.0.notify_one();
    }

    fn finish(&self) {
        self.0.1.store(true, SeqCst);
        self.wake();
    }

    fn is_dropped(&self) -> bool {
        self.0.2.load(SeqCst)
    }
}

/// A client, the futures that it attends, and the work of one of them.
struct Testbed {
    client: Client,
    poll_watch: Arc<PollWatch>,
    work: Work,
}

impl Testbed {
    fn new() -> Self {
        let client = EmbeddedRedis::new().client();
        let poll_watch = client.session().poll_watch.clone();
        Testbed {
            client,
            poll_watch,
            work: Work::default(),
        }
    }

    fn attend<F: Future + Send + 'static>(&self, work: F) -> Watched<F> {
        Watched::new(&self.poll_watch, PollLimit::FIRST, work)
    }

    /// An attended future that was polled once.
    fn attended(&self) -> Pin<Box<dyn Kept>> {
        let mut attended = Box::pin(self.attend(self.work.future()));
        assert!(poll_once(&mut attended).is_pending());
        attended
    }

    fn passed_over(&self) -> u64 {
        self.client.stats().cancelled_as_unpolled
    }

    fn is_idle(&self) -> bool {
        self.poll_watch.woken.lock().places.is_empty()
    }
}

/// A kept future, and the number of its entries in lists.
trait Kept: Future<Output = Result<(), CancelledAsUnpolled>> + Send {
    fn entries(&self) -> usize;
}

impl<F: Future<Output = ()> + Send + 'static> Kept for Watched<F> {
    fn entries(&self) -> usize {
        Arc::weak_count(&self.0)
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The caller is slow but present: each look finds that the future was polled since the previous
/// one.
#[tokio::test(start_paused = true)]
async fn a_future_polled_between_two_looks_is_not_passed_over() {
    let testbed = Testbed::new();
    let mut kept = testbed.attended();
    for _ in 0..50 {
        testbed.work.wake();
        sleep(A_LITTLE_LESS).await;
        assert!(poll_once(&mut kept).is_pending());
        // Woken again immediately, so it stays in the list.
        testbed.work.wake();
        sleep(2 * MOMENT).await;
    }
    assert_eq!(testbed.passed_over(), 0);
    assert!(!testbed.work.is_dropped());
}

/// The process was stopped: the look is as late as the caller, which gets its turn before the next
/// look.
#[tokio::test(start_paused = true)]
async fn a_late_look_passes_over_no_future_that_could_not_be_polled() {
    for woken_before in [MOMENT, A_LITTLE_LESS] {
        let testbed = Testbed::new();
        let mut kept = testbed.attended();
        sleep(MOMENT).await;
        testbed.work.wake();
        sleep(woken_before).await;
        advance(LONG).await;
        // The look that was due has happened.
        for _ in 0..10 {
            task::yield_now().await;
        }
        assert!(poll_once(&mut kept).is_pending(), "it had no turn since");
        sleep(LONG).await;
        assert_eq!(testbed.passed_over(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn idle_and_dropped_futures_leave_no_entry() {
    let testbed = Testbed::new();
    let mut idle = testbed.attended();
    for _ in 0..3 {
        testbed.work.wake();
        testbed.work.wake();
        assert!(poll_once(&mut idle).is_pending());
        assert_eq!(idle.entries(), 1, "once in the list");
        sleep(2 * POLL_WITHIN).await;
        assert_eq!((idle.entries(), testbed.is_idle()), (0, true));
        // A look saw the future before it was polled.
        testbed.work.wake();
        sleep(LOOK + 5 * MOMENT).await;
        assert!(poll_once(&mut idle).is_pending());
        sleep(2 * POLL_WITHIN).await;
        assert_eq!((idle.entries(), testbed.is_idle()), (0, true));
    }
    let crowd: Vec<_> = (0..100)
        .map(|_| testbed.poll_watch.run_now(Work::default().future()))
        .collect();
    assert_eq!(testbed.poll_watch.woken.lock().places.len(), 100);
    drop(crowd);
    sleep(2 * POLL_WITHIN).await;
    assert!(testbed.is_idle());
    testbed.work.wake();
    sleep(2 * POLL_WITHIN).await;
    assert_eq!(
        (idle.entries(), testbed.is_idle(), testbed.passed_over()),
        (0, true, 1)
    );
}

/// A waker may drop its future before it returns.
#[tokio::test(start_paused = true)]
async fn a_future_dropped_by_its_own_waker_blocks_nobody() {
    let testbed = Testbed::new();
    let kept = testbed.attended();
    poll_and_drop_when_woken(async move { assert_eq!(kept.await, Ok(())) });
    let work = testbed.work.clone();
    does_not_hang("woken", move || work.wake());
    assert!(testbed.work.is_dropped());
    sleep(2 * POLL_WITHIN).await;
    assert_eq!((testbed.passed_over(), testbed.is_idle()), (0, true));
}

/// A waker that the poll calls drops the future: its work is dropped all the same.
#[tokio::test(start_paused = true)]
async fn a_future_dropped_while_it_is_polled_is_not_put_back() {
    let testbed = Testbed::new();
    let attended = testbed.attend(testbed.work.future());
    let shared = attended.0.clone();
    let WorkSlot::Ready(future) = shared.begin_poll() else {
        panic!("it is new")
    };
    drop(attended);
    assert!(!testbed.work.is_dropped(), "whoever polls it has it");
    shared.put_back(future);
    assert!(testbed.work.is_dropped());
    assert!(matches!(shared.state.lock().slot, WorkSlot::Gone));
}

/// Once, it was never looked at again, and would have blocked others forever.
#[tokio::test(start_paused = true)]
async fn a_future_polled_for_longer_than_a_look_is_looked_at_again() {
    let testbed = Testbed::new();
    let kept = testbed.attend(testbed.work.future());
    let WorkSlot::Ready(future) = kept.0.begin_poll() else {
        panic!("it is new")
    };
    for _ in 0..10 {
        testbed.work.wake();
        kept.0.wake_by_ref();
        sleep(LOOK).await;
        assert!(!testbed.work.is_dropped(), "whoever polls it has it");
    }
    kept.0.put_back(future);
    let begun = Instant::now();
    while !testbed.work.is_dropped() {
        assert!(begun.elapsed() <= POLL_WITHIN, "it is attended as before");
        sleep(MOMENT).await;
    }
    assert!(
        begun.elapsed() >= LOOK,
        "it has its turn: {:?}",
        begun.elapsed()
    );
    assert_eq!(
        (kept.await, testbed.passed_over()),
        (Err(CancelledAsUnpolled), 1)
    );
    // It is not forgotten either if nothing wakes it until it is put back.
    let (work, poll_watch) = (Work::default(), &testbed.poll_watch);
    let later = Watched::new(poll_watch, PollLimit::FIRST, work.future());
    let WorkSlot::Ready(future) = later.0.begin_poll() else {
        panic!("it is new")
    };
    later.0.wake_by_ref();
    sleep(3 * LOOK).await;
    later.0.put_back(future);
    sleep(POLL_WITHIN).await;
    assert!(work.is_dropped());
}

/// Polls a waiter before and after the only worker of its runtime is blocked.
fn polled_by_a_worker_that_sleeps(
    until: impl FnOnce(&Testbed),
) -> (Result<(), CancelledAsUnpolled>, u64) {
    let session_runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let callers = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let testbed = session_runtime.block_on(async { Testbed::new() });
    let (attended, (begun, has_begun)) = (
        testbed.attend(testbed.work.future()),
        std::sync::mpsc::channel(),
    );
    let waiter = callers.spawn(async move {
        let mut attended = attended;
        assert!(poll!(&mut attended).is_pending());
        begun.send(()).unwrap();
        attended.await
    });
    has_begun.recv().unwrap();
    let (blocked, is_blocked) = std::sync::mpsc::channel();
    let (end, is_over) = std::sync::mpsc::channel::<()>();
    callers.spawn(async move {
        blocked.send(()).unwrap();
        is_over.recv().unwrap();
    });
    is_blocked.recv().unwrap();
    testbed.work.finish();
    until(&testbed);
    end.send(()).unwrap();
    let done = session_runtime.block_on(waiter).unwrap();
    (done, testbed.passed_over())
}

#[test]
fn a_runtime_that_is_slow_for_everybody_loses_no_turn() {
    let slow = |_: &Testbed| thread::sleep(Duration::from_millis(400));
    assert_eq!(polled_by_a_worker_that_sleeps(slow), (Ok(()), 0));
}

#[test]
fn a_runtime_that_stands_still_is_not_waited_for() {
    // However long it takes: if the whole machine stalls, nobody is passed over for that.
    let stands_still = |testbed: &Testbed| {
        let end = std::time::Instant::now() + LONG;
        while testbed.passed_over() == 0 && std::time::Instant::now() < end {
            thread::sleep(MOMENT);
        }
    };
    assert_eq!(
        polled_by_a_worker_that_sleeps(stands_still),
        (Err(CancelledAsUnpolled), 1)
    );
}

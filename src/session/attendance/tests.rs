//! Who is passed over, and when: clients whose background task looks, mostly under paused time.
#![expect(
    clippy::disallowed_methods,
    reason = "tests spawn tasks, and block a worker"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use futures::poll;
use tokio::time::{Instant, advance, sleep};

use super::*;
use crate::transport::tests::inline_waker::{does_not_hang, poll_and_drop_when_woken};
use crate::{Client, EmbeddedRedis};

const MOMENT: Duration = Duration::from_millis(1);
/// Than what lies between two looks.
const A_LITTLE_LESS: Duration = Duration::from_millis(35);
const LONG: Duration = Duration::from_secs(60);

/// Work that ends when it is told to, says when it is dropped, and can be woken.
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

/// A client, what it attends to, and the work of one such future.
struct Testbed {
    client: Client,
    attendance: Arc<Attendance>,
    work: Work,
}

impl Testbed {
    fn new() -> Self {
        let client = EmbeddedRedis::new().client();
        let attendance = client.session().attendance.clone();
        Testbed {
            client,
            attendance,
            work: Work::default(),
        }
    }

    fn attend<F: Future + Send + 'static>(&self, work: F) -> Attended<F> {
        Attended::new(&self.attendance, Patience::FIRST, work)
    }

    /// Attended, and polled once.
    fn attended(&self) -> Pin<Box<dyn Kept>> {
        let mut attended = Box::pin(self.attend(self.work.future()));
        assert!(poll_once(&mut attended).is_pending());
        attended
    }

    fn passed_over(&self) -> u64 {
        self.client.stats().passed_over
    }

    fn is_idle(&self) -> bool {
        self.attendance.woken.lock().is_empty()
    }
}

/// A future that is kept, and how many entries in lists it has.
trait Kept: Future<Output = Result<(), PassedOver>> + Send {
    fn entries(&self) -> usize;
}

impl<F: Future<Output = ()> + Send + 'static> Kept for Attended<F> {
    fn entries(&self) -> usize {
        Arc::weak_count(&self.0)
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn who_is_polled_when_it_is_woken_is_never_passed_over() {
    let testbed = Testbed::new();
    let task = tokio::spawn(testbed.attended());
    // At all distances to the looks, also many times between two of them.
    for span in (0..200).chain([0; 200]) {
        testbed.work.wake();
        sleep(Duration::from_millis(span)).await;
    }
    testbed.work.finish();
    assert_eq!(task.await.unwrap(), Ok(()));
    assert_eq!(testbed.passed_over(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_is_not_woken_may_wait_for_ever() {
    let testbed = Testbed::new();
    let mut kept = testbed.attended();
    sleep(LONG).await;
    assert!(!testbed.work.is_dropped());
    testbed.work.finish();
    assert_eq!(poll_once(&mut kept), Poll::Ready(Ok(())));
    assert_eq!(testbed.passed_over(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_is_woken_and_not_polled_is_passed_over_in_time_and_is_told() {
    // Whenever it is woken between two looks at others.
    for offset in 0..80 {
        let testbed = Testbed::new();
        let mut kept = testbed.attended();
        let other = Work::default();
        let others = tokio::spawn(testbed.attend(other.future()));
        sleep(MOMENT).await;
        other.wake();
        sleep(Duration::from_millis(offset)).await;
        testbed.work.wake();
        let woken = Instant::now();
        while !testbed.work.is_dropped() {
            assert!(
                woken.elapsed() <= UNATTENDED_MAX,
                "woken {offset} ms after another one"
            );
            sleep(MOMENT).await;
        }
        assert!(woken.elapsed() >= LOOK, "{:?}", woken.elapsed());
        assert_eq!(testbed.passed_over(), 1);
        // Whatever comes later changes nothing.
        testbed.work.finish();
        assert_eq!(poll!(&mut kept), Poll::Ready(Err(PassedOver)));
        other.finish();
        assert_eq!(others.await.unwrap(), Ok(()));
        assert_eq!(testbed.passed_over(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_begins_before_the_first_poll_is_passed_over_without_one() {
    let testbed = Testbed::new();
    let kept = testbed.attendance.attend_now(testbed.work.future());
    let never_polled = testbed.attend(Work::default().future());
    sleep(UNATTENDED_MAX).await;
    assert!(testbed.work.is_dropped());
    assert_eq!((kept.await, testbed.passed_over()), (Err(PassedOver), 1));
    drop(never_polled);
}

/// Its caller is slow, and there: each look finds that it was polled since the one before.
#[tokio::test(start_paused = true)]
async fn who_is_polled_between_two_looks_is_not_passed_over() {
    let testbed = Testbed::new();
    let mut kept = testbed.attended();
    for _ in 0..50 {
        testbed.work.wake();
        sleep(A_LITTLE_LESS).await;
        assert!(poll_once(&mut kept).is_pending());
        // Woken again at once: it stays in the list.
        testbed.work.wake();
        sleep(2 * MOMENT).await;
    }
    assert_eq!(testbed.passed_over(), 0);
    assert!(!testbed.work.is_dropped());
}

/// A process that stood still: the look is as late as the caller, which gets its turn before the next.
#[tokio::test(start_paused = true)]
async fn a_late_look_passes_nobody_over_that_had_no_turn() {
    for woken_before in [MOMENT, A_LITTLE_LESS] {
        let testbed = Testbed::new();
        let mut kept = testbed.attended();
        sleep(MOMENT).await;
        testbed.work.wake();
        sleep(woken_before).await;
        advance(LONG).await;
        // The look that was due has been made.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(poll_once(&mut kept).is_pending(), "it had no turn since");
        sleep(LONG).await;
        assert_eq!(testbed.passed_over(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_who_is_idle_or_gone() {
    let testbed = Testbed::new();
    let mut idle = testbed.attended();
    for _ in 0..3 {
        testbed.work.wake();
        testbed.work.wake();
        assert!(poll_once(&mut idle).is_pending());
        assert_eq!(idle.entries(), 1, "once in the list");
        sleep(2 * UNATTENDED_MAX).await;
        assert_eq!((idle.entries(), testbed.is_idle()), (0, true));
        // A look saw it before it was polled.
        testbed.work.wake();
        sleep(LOOK + 5 * MOMENT).await;
        assert!(poll_once(&mut idle).is_pending());
        sleep(2 * UNATTENDED_MAX).await;
        assert_eq!((idle.entries(), testbed.is_idle()), (0, true));
    }
    let crowd: Vec<_> = (0..100)
        .map(|_| testbed.attendance.attend_now(Work::default().future()))
        .collect();
    assert_eq!(testbed.attendance.woken.lock().len(), 100);
    drop(crowd);
    sleep(2 * UNATTENDED_MAX).await;
    assert!(testbed.is_idle());
    testbed.work.wake();
    sleep(2 * UNATTENDED_MAX).await;
    assert_eq!(
        (idle.entries(), testbed.is_idle(), testbed.passed_over()),
        (0, true, 1)
    );
}

/// A waker may drop its future before it returns.
#[tokio::test(start_paused = true)]
async fn who_is_dropped_by_its_own_waker_waits_for_nobody() {
    let testbed = Testbed::new();
    let kept = testbed.attended();
    poll_and_drop_when_woken(async move { assert_eq!(kept.await, Ok(())) });
    let work = testbed.work.clone();
    does_not_hang("it is woken", move || work.wake());
    assert!(testbed.work.is_dropped());
    sleep(2 * UNATTENDED_MAX).await;
    assert_eq!((testbed.passed_over(), testbed.is_idle()), (0, true));
}

/// Dropped while it is polled, by a waker that is called inside: what is in it ends all the same.
#[tokio::test(start_paused = true)]
async fn who_is_dropped_while_it_is_polled_is_not_put_back() {
    let testbed = Testbed::new();
    let attended = testbed.attend(testbed.work.future());
    let shared = attended.0.clone();
    let Slot::Ready(future) = shared.begin_poll() else {
        panic!("it is new")
    };
    drop(attended);
    assert!(!testbed.work.is_dropped(), "whoever polls it has it");
    shared.put_back(future);
    assert!(testbed.work.is_dropped());
    assert!(matches!(shared.state.lock().slot, Slot::Gone));
}

/// It was never looked at again: kept without a poll, it would have held up others for ever.
#[tokio::test(start_paused = true)]
async fn who_is_polled_for_longer_than_looks_take_is_looked_at_again() {
    let testbed = Testbed::new();
    let kept = testbed.attend(testbed.work.future());
    let Slot::Ready(future) = kept.0.begin_poll() else {
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
        assert!(
            begun.elapsed() <= UNATTENDED_MAX,
            "it is attended as before"
        );
        sleep(MOMENT).await;
    }
    assert!(
        begun.elapsed() >= LOOK,
        "it has its turn: {:?}",
        begun.elapsed()
    );
    assert_eq!((kept.await, testbed.passed_over()), (Err(PassedOver), 1));
    // Nor is it forgotten if nothing woke it until it was put back.
    let (work, attendance) = (Work::default(), &testbed.attendance);
    let later = Attended::new(attendance, Patience::FIRST, work.future());
    let Slot::Ready(future) = later.0.begin_poll() else {
        panic!("it is new")
    };
    later.0.wake_by_ref();
    sleep(3 * LOOK).await;
    later.0.put_back(future);
    sleep(UNATTENDED_MAX).await;
    assert!(work.is_dropped());
}

/// As long as it was late once, it may be late again: whatever its pace, it gets on, and nobody waits for it longer.
#[tokio::test(start_paused = true)]
async fn who_comes_back_is_allowed_twice_as_long() {
    let testbed = Testbed::new();
    let started = Arc::new(Mutex::new(Vec::new()));
    let work = |_| {
        let work = Work::default();
        started.lock().push(work.clone());
        let future = work.future();
        async move {
            future.await;
            Ok::<_, Error>(())
        }
    };
    let attendance = testbed.attendance.clone();
    let limits = (Wait::Forever, Patience::FIRST);
    let attended = attendance.attend_until_over(limits, work, || Error::Closed);
    let mut attended = Box::pin(attended);
    for times in 0..12 {
        assert!(poll_once(&mut attended).is_pending());
        let work = started.lock().last().unwrap().clone();
        assert_eq!(started.lock().len(), times + 1, "it began again");
        work.wake();
        let woken = Instant::now();
        while !work.is_dropped() {
            sleep(MOMENT).await;
        }
        let allowed = LOOK * 2_u32.pow(u32::try_from(times).unwrap());
        assert!(woken.elapsed() >= allowed, "{times}: {:?}", woken.elapsed());
        assert!(
            woken.elapsed() <= allowed + LOOK + MOMENT,
            "{times}: {:?}",
            woken.elapsed()
        );
    }
    assert_eq!(testbed.passed_over(), 12);
    // Each poll begins the time anew, while it goes on.
    assert!(poll_once(&mut attended).is_pending());
    for _ in 0..5 {
        let work = started.lock().last().unwrap().clone();
        work.wake();
        sleep(LOOK * 4000).await;
        assert!(poll_once(&mut attended).is_pending());
    }
    let work = started.lock().last().unwrap().clone();
    work.finish();
    assert!(matches!(poll_once(&mut attended), Poll::Ready(Ok(()))));
    assert_eq!((started.lock().len(), testbed.passed_over()), (13, 12));
}

/// A waiter is polled before and after the only worker of its runtime stands still.
fn polled_by_a_worker_that_sleeps(until: impl FnOnce(&Testbed)) -> (Result<(), PassedOver>, u64) {
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
    let slow = |_: &Testbed| std::thread::sleep(Duration::from_millis(400));
    assert_eq!(polled_by_a_worker_that_sleeps(slow), (Ok(()), 0));
}

#[test]
fn a_runtime_that_stands_still_is_not_waited_for() {
    // However long it takes: where the machine stands still as well, nobody is passed over for that.
    let stands_still = |testbed: &Testbed| {
        let end = std::time::Instant::now() + LONG;
        while testbed.passed_over() == 0 && std::time::Instant::now() < end {
            std::thread::sleep(MOMENT);
        }
    };
    assert_eq!(
        polled_by_a_worker_that_sleeps(stands_still),
        (Err(PassedOver), 1)
    );
}

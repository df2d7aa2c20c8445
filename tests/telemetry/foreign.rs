//! Foreign code that the client calls: a recorder, a subscriber, the user's function for labels, a
//! waker. Here, each either calls the client again by every method that locks one of its mutexes,
//! or panics.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::FutureExt;
use leasehold::settings::LocalHandover;
use leasehold::test_util::Direction;
use leasehold::{Client, EmbeddedRedis, Ended, Lease, Lock, LockGuard};
use leasehold_testbed::release;
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn};
use metrics::{Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

const LONG: Duration = Duration::from_secs(60);
/// In real time. It is long because the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(600);
/// Long enough for all messages on their way to arrive.
const MOMENT: Duration = Duration::from_millis(5);

/// What the foreign code does when it is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    CallsTheClient,
    Panics,
}

thread_local! {
    /// How often the foreign code was called.
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static DOES: Cell<Option<Does>> = const { Cell::new(None) };
    static REACHED: RefCell<Option<(Client, Vec<LockGuard>)>> = const { RefCell::new(None) };
}

/// How often the foreign code itself asks for locks. Each time causes further calls of it.
const ASKS_FOR_LOCKS: usize = 200;

fn is_called() {
    // The calls of the client below lead here again: ignore those.
    let Some(does) = DOES.take() else { return };
    let number = CALLS.replace(CALLS.get() + 1);
    if does == Does::Panics {
        DOES.set(Some(does));
        panic!("foreign code");
    }
    let reached = REACHED.take();
    if let Some((client, guards)) = &reached {
        call_the_client(client, guards, number);
    }
    REACHED.set(reached);
    DOES.set(Some(does));
}

fn call_the_client(client: &Client, guards: &[LockGuard], number: usize) {
    let _ = client.stats();
    for guard in guards {
        let (state, left, holds) = (guard.state(), guard.remaining(), guard.hold_count());
        let ended = guard.ended().now_or_never();
        assert_ne!(
            ended,
            Some(Ended::Forgotten),
            "{state:?} for {left:?}, {holds} times"
        );
    }
    if number < ASKS_FOR_LOCKS {
        for make in KINDS {
            let lock = make(client, "x");
            drop(lock.try_lock_now(Lease::Renewed).now_or_never());
            drop(lock.try_lock(LONG, Lease::Renewed).now_or_never());
            let lock = make(client, "other");
            drop(lock.try_lock(LONG, Lease::Renewed).now_or_never());
        }
    }
}

const KINDS: [fn(&Client, &str) -> Lock; 4] = [
    |client, name| client.lock(name),
    |client, name| client.fair_lock(name),
    |client, name| client.read_write_lock(name).write().clone(),
    |client, name| client.read_write_lock(name).read().clone(),
];

struct Foreign;

impl CounterFn for Foreign {
    fn increment(&self, _: u64) {
        is_called();
    }

    fn absolute(&self, _: u64) {
        is_called();
    }
}

impl GaugeFn for Foreign {
    fn increment(&self, _: f64) {
        is_called();
    }

    fn decrement(&self, _: f64) {
        is_called();
    }

    fn set(&self, _: f64) {
        is_called();
    }
}

impl HistogramFn for Foreign {
    fn record(&self, _: f64) {
        is_called();
    }
}

impl Recorder for Foreign {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        is_called();
    }

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        is_called();
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        is_called();
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        is_called();
        Counter::from_arc(Arc::new(Foreign))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        is_called();
        Gauge::from_arc(Arc::new(Foreign))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        is_called();
        Histogram::from_arc(Arc::new(Foreign))
    }
}

impl Subscriber for Foreign {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        is_called();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {
        is_called();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {
        is_called();
    }

    fn event(&self, _: &Event<'_>) {
        is_called();
    }

    // These two are called within a poll of the caller's future, so their panics would reach the
    // caller.
    fn enter(&self, _: &Id) {
        if DOES.get() == Some(Does::CallsTheClient) {
            is_called();
        }
    }

    fn exit(&self, _: &Id) {
        if DOES.get() == Some(Does::CallsTheClient) {
            is_called();
        }
    }
}

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        is_called();
    }
}

/// Polls once, with a waker that is foreign code.
fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::new(Foreign))))
}

/// Locks of each kind are held, waited for, handed over, lost, uncertain, and certain again.
async fn a_run(does: Does) {
    let redis = EmbeddedRedis::new();
    let streak = LocalHandover::Streak {
        count: 9,
        time: LONG,
    };
    let builder = redis.builder().local_handover(streak).metric_name(|name| {
        is_called();
        Some(name.to_owned())
    });
    let client = builder.connect().await.unwrap();
    let kept = vec![client.lock("kept").lock().await.unwrap()];
    REACHED.set(Some((client.clone(), kept)));
    DOES.set(Some(does));
    for make in KINDS {
        let lock = make(&client, "x");
        let guard = lock.lock().await.unwrap();
        // The first is handed the lock and takes it again, the second is dropped while it waits,
        // and the third gives up.
        let [next, leaver, late] = ["x"; 3].map(|name| make(&client, name));
        let (mut next, mut leaver) = (pin!(next.lock()), Box::pin(leaver.lock()));
        // Not awaited with this waker, because the runtime would call it when the timer fires.
        let mut ended = Box::pin(guard.ended());
        assert!(poll_once(next.as_mut()).is_pending());
        assert!(poll_once(leaver.as_mut()).is_pending());
        assert!(poll_once(ended.as_mut()).is_pending());
        late.try_lock(MOMENT, Lease::Renewed).await.map(drop).ok();
        drop(guard);
        drop(ended);
        let next = timeout(LONG, next).await.expect("granted").unwrap();
        drop(leaver);
        let again = timeout(LONG, next.reenter()).await.expect("re-entered");
        let link = redis.links().pop().unwrap();
        link.connections()
            .iter()
            .for_each(|connection| connection.half_open(Direction::Requests));
        sleep(Duration::from_secs(22)).await;
        link.heal();
        sleep(Duration::from_secs(5)).await;
        again.unwrap().unlock().await.unwrap();
        assert!(redis.lose("x"));
        sleep(LONG).await;
        next.unlock().await.unwrap_err();
    }
    // By now the foreign code has long stopped asking for locks.
    sleep(LONG).await;
    DOES.set(None);
    assert!(CALLS.get() > 200, "{}", CALLS.get());
    for make in KINDS {
        for name in ["x", "other"] {
            let lock = make(&client, name);
            release(lock.try_lock(LONG, Lease::Renewed).await).await;
        }
    }
    drop(REACHED.take());
    client.shutdown(LONG).await.unwrap();
    assert_eq!(client.stats().holds, 0);
}

/// Runs on a separate thread, so that a deadlock fails the test instead of blocking it.
fn ends(does: Does) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _recorder = metrics::set_default_local_recorder(&Foreign);
        let _subscriber = tracing::subscriber::set_default(Foreign);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(a_run(does));
        done.send(()).unwrap();
    });
    let ended = ended.recv_timeout(DEADLINE);
    assert_ne!(ended, Err(mpsc::RecvTimeoutError::Timeout), "a deadlock");
    thread.join().unwrap();
}

#[test]
fn foreign_code_may_call_the_client() {
    ends(Does::CallsTheClient);
}

#[test]
fn a_panic_in_foreign_code_harms_nothing() {
    ends(Does::Panics);
}

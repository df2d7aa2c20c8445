//! Random schedules of the threads that share a connection: callers, the driver, subscribers and
//! the supervisor. Only with `--cfg shuttle`. docs/testing.md says how to run and replay it.
//!
//! The crate has no unsafe code, so there are no data races, and a thread sanitizer would find
//! nothing. What can go wrong is the order of steps that are correct by themselves: a missing
//! wake-up, or a call that is answered twice.
//!
//! `loom` tries all orders. Those are too many for a ledger, an outbox, a decoder and five threads,
//! so `loom` would need an extract, which may differ from the code. `shuttle` runs the real code,
//! on random schedules.
//!
//! Its limits: a schedule that was never drawn is not tested. Atomics are sequentially consistent.
//! Threads switch only at the locks and atomics of `sync.rs`, at `step`, and where they wait. The
//! channels of tokio are assumed to be correct. The model plays the supervisor, with the same order
//! of steps, because the real supervisor needs a clock and runtimes.
//!
//! # What is checked
//!
//! - No call waits forever. In `calls_are_answered`, no clock helps.
//! - Each call has one outcome, and it is true. It is a reply if the server ran the call, and *not
//!   applied* only if the server never ran it. When a connection ends, it is *unknown* only if the
//!   kernel had taken the whole call. No call runs twice.
//! - Nothing is written after `Connection::end` (CONNECTION-2). Calls of one thread run in their
//!   order (LEDGER-1), and the undo of a dropped call runs after it (LEDGER-3).
//! - When a call ends with its connection, the epoch has already risen. No caller gets a connection
//!   of an earlier epoch (SLOT-1).
//! - After a node got another target, no caller gets a connection to an earlier one, nothing is
//!   written to an earlier one, and all calls on it have ended (`switch.rs`).
//! - A confirmed channel stays subscribed until it is unsubscribed or the connection is lost
//!   (REGISTRY-2). At the end, the server has the subscriptions of the registry (REGISTRY-1,
//!   REGISTRY-3).
//!
//! # What it finds
//!
//! Faults that were planted by hand, and the number of the schedule of one seed that found each: a
//! random schedule (r), or one with few interruptions (f). Two of these faults were real: the one
//! of `drained`, and the one of a confirmation from another connection.
//!
//! | fault | schedules |
//! | --- | --- |
//! | `push` wakes the driver only if two wait | 5 f |
//! | the driver registers its waker after it has written | 46 r |
//! | `write_now` leaves a rest and does not wake the driver | 1 r |
//! | `write_now` relies on the task that holds the outbox | 17 r |
//! | `receive` does not wake the driver for a call that is sent again | 77 r |
//! | `receive` does not wait for a writer that has yet to count the taken bytes | 40 r |
//! | `write` forgets a flush that is pending | 9 r |
//! | `end` leaves the writer | 2 r |
//! | `end` reads `taken`, and takes the writer later | 15 r |
//! | `end` says *not applied* of a call whose last byte was taken | 2 r |
//! | `expire` reads `taken`, and locks the outbox later | 73 r |
//! | `drained` is not notified by a confirmation | 258 r |
//! | `drained` is not notified when the last call was abandoned | 361 r |
//! | the epoch rises after the end | 1 r |
//! | the epoch rises before the slot is locked | 38 r |
//! | a confirmation counts whichever order it is for | 2 r |
//! | a confirmation counts whichever connection it is of | 248 r |
//! | `unsubscribe` pushes when its lock is given back | 391 f |
//! | `lost` keeps what was confirmed | 70 r |
//! | a subscription is dropped with its connection | 1 r |
//! | a slot takes connections of any generation | 11 r |
//! | a slot learns its generation when its lock is given back | 52 r |
//! | a registry takes connections of any generation | 8 r |
//! | a switch leaves the connection for messages | 2 r |

mod calls;
mod channels;
mod socket;
mod switch;

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use shuttle::future::{JoinHandle, block_on};
use shuttle::rand::Rng as _;
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};

use self::socket::Socket;
use super::*;
use crate::connection::{Carries, Connection, driver};
use crate::control::Deaf;
use crate::node::ConnectionSlot;
use crate::protocol::Protocol;
use crate::stream::{Reader, Writer};
use crate::subscriptions::SubscriptionRegistry;
use crate::sync::shuttled::step;

/// How many schedules of each kind a test tries.
const SCHEDULES: usize = 2_000;

/// How often a schedule of the second kind interrupts a thread that could run on.
const INTERRUPTIONS: usize = 4;

/// Tries many schedules. If one fails, the message says how to replay it.
fn check(test: &str, scenario: fn()) {
    let variable = |name| std::env::var(name).ok();
    if let Some(schedule) = variable("LEASEHOLD_SCHEDULE") {
        let schedule = ReplayScheduler::new_from_encoded(&schedule);
        shuttle::Runner::new(schedule, config()).run(scenario);
        return;
    }
    let schedules = variable("LEASEHOLD_SCHEDULES");
    let schedules = schedules.map_or(SCHEDULES, |text| text.parse().expect("a number"));
    let seed = variable("LEASEHOLD_SEED").map(|text| text.parse().expect("a number"));
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    try_all(
        test,
        "random",
        seed,
        RandomScheduler::new_from_seed(seed, schedules),
        scenario,
    );
    let few = PctScheduler::new_from_seed(seed, INTERRUPTIONS, schedules);
    try_all(test, "with few interruptions", seed, few, scenario);
}

#[expect(clippy::print_stdout, reason = "how to try it again")]
fn try_all(test: &str, kind: &str, seed: u64, scheduler: impl Scheduler + 'static, scenario: fn()) {
    let tried = Arc::new(AtomicUsize::new(0));
    let counter = tried.clone();
    let run = move || {
        shuttle::Runner::new(scheduler, config()).run(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            scenario();
        })
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    let tried = tried.load(Ordering::Relaxed);
    println!("{test}, {kind}: {tried} schedules of seed {seed}");
    if let Err(panic) = outcome {
        println!(
            "the last one failed. Again: LEASEHOLD_SEED={seed}, or this one alone: \
             LEASEHOLD_SCHEDULE=… with the text above, and\n\
             RUSTFLAGS=\"--cfg shuttle\" cargo test --lib --no-default-features \
             --target-dir target/shuttle -- {test}"
        );
        std::panic::resume_unwind(panic);
    }
}

fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = 256 * 1024;
    // Fail on a busy loop, too.
    config.max_steps = shuttle::MaxSteps::FailAfter(20_000);
    config.silence_warnings = true;
    config
}

/// A random number below `below`. It is part of the schedule.
fn draw(below: usize) -> usize {
    shuttle::rand::thread_rng().gen_range(0..below)
}

/// Lets other threads run for a while.
fn pause() {
    for _ in 0..draw(12) {
        step();
    }
}

fn join(threads: Vec<shuttle::thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Polls a task only when it was woken. Shuttle polls twice for each wake-up, which would hide a
/// missing one.
async fn if_woken<T>(task: impl Future<Output = T>) -> T {
    let bell = Arc::new(Bell {
        rung: AtomicBool::new(true),
        task: Mutex::new(None),
    });
    let waker = Waker::from(bell.clone());
    let mut task = std::pin::pin!(task);
    std::future::poll_fn(|cx| {
        *bell.task.lock() = Some(cx.waker().clone());
        if !bell.rung.swap(false, Ordering::SeqCst) {
            return Poll::Pending;
        }
        task.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

struct Bell {
    rung: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        self.task.lock().clone().inspect(Waker::wake_by_ref);
    }
}

/// A connection, its driver and its server.
struct Made {
    connection: Arc<Connection>,
    socket: Socket,
    driver: JoinHandle<Fault>,
    server: JoinHandle<()>,
}

impl Made {
    fn new(registry: &Arc<SubscriptionRegistry>) -> Self {
        let (socket, reader, writer, server) = Socket::new();
        let connection = Arc::new(Connection::new(
            writer,
            Protocol::default(),
            &Arc::default(),
            Carries::Calls,
        ));
        let inbox = bytes::BytesMut::new();
        let driver = driver::drive(
            connection.clone(),
            reader,
            inbox,
            registry.clone(),
            Arc::new(Deaf),
        );
        let driver = shuttle::future::spawn(if_woken(driver));
        Made {
            connection,
            socket,
            driver,
            server,
        }
    }

    /// Ends the connection like the supervisor, without waiting for the driver.
    fn end(&self, text: &str, registry: &SubscriptionRegistry) {
        self.connection.end(&Fault(text.into()), registry);
        self.socket.seal();
        self.driver.abort();
    }

    /// Waits until the server has run every command that arrived.
    fn settle(self) {
        drop(block_on(self.driver));
        let left = self.connection.backlog();
        assert_eq!(
            (left.waiting, left.in_flight),
            (0, 0),
            "a request is left after the end"
        );
        self.socket.finish();
        block_on(self.server).unwrap();
    }

    /// Closes the connection as the supervisor does when the transport is closed. In most cases it
    /// waits for replies.
    fn close(&self, registry: &SubscriptionRegistry) {
        self.connection.close(registry);
        if draw(4) > 0 {
            block_on(self.connection.drained());
        }
        self.end(CLOSED, registry);
    }
}

const LOST: &str = "lost";
const CLOSED: &str = "the client was closed";

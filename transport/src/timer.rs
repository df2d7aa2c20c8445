//! Timers for futures that any executor may poll, and what the current runtime has.
//!
//! A timer of tokio belongs to the runtime of the thread that makes it, and follows its paused
//! time. A thread without a runtime, or with one that has no timers, gets a timer of the library: a
//! thread of its own drives it for the rest of the process. A runtime of a client would not do,
//! because it may be shut down, or nobody may drive it.
//!
//! All timers of `leasehold` come from this module, and those of this crate that a caller polls
//! (`tests/architecture`).

use std::cell::Cell;
use std::future::pending;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::LazyLock;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::time::{Sleep, Timeout};

use crate::process::Process;
use crate::sync::{Mutex, call_out};
use crate::task::AbortOnDrop;

pub use tokio::time::{Duration, Instant};

/// Like tokio's `sleep`, on any thread.
pub fn sleep(span: Duration) -> Sleep {
    with_timers(|| tokio::time::sleep(span))
}

/// Like tokio's `sleep_until`, on any thread.
pub fn sleep_until(at: Instant) -> Sleep {
    with_timers(|| tokio::time::sleep_until(at))
}

/// Like tokio's `timeout`, on any thread.
pub fn timeout<F: IntoFuture>(span: Duration, work: F) -> Timeout<F::IntoFuture> {
    with_timers(|| tokio::time::timeout(span, work))
}

/// Like tokio's `timeout_at`, on any thread.
pub fn timeout_at<F: IntoFuture>(at: Instant, work: F) -> Timeout<F::IntoFuture> {
    with_timers(|| tokio::time::timeout_at(at, work))
}

/// Sleeps until `at`, or forever if there is none.
pub async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

/// Between 80 % and 120 % of `span`, so that clients do not act in step.
pub fn jittered(span: Duration) -> Duration {
    span.mul_f64(0.8 + 0.4 * fastrand::f64())
}

/// Names what the runtime of this thread lacks for sockets. `None` if it has all.
///
/// tokio answers only by a panic, which is caught here. The panic hook prints it, with tokio's own
/// advice.
pub fn lacks() -> Option<&'static str> {
    if !has_timers() {
        return Some("timers");
    }
    // A socket that is never used. Without one, there is nothing to be found out.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    socket.set_nonblocking(true).ok()?;
    let registers = call_out(|| drop(tokio::net::UdpSocket::from_std(socket)));
    registers.is_none().then_some("I/O")
}

/// Whether the runtime of this thread has timers.
pub fn has_timers() -> bool {
    call_out(|| drop(tokio::time::sleep(Duration::ZERO))).is_some()
}

/// What an error says of a missing reply, after the rest of its text. Nothing, if the runtime that
/// reads the replies runs a task within this time.
pub async fn why_silent(runtime: &Handle, limit: Duration) -> &'static str {
    // tokio polls the sockets before it runs a task again that has yielded.
    let mut task = AbortOnDrop(runtime.spawn(tokio::task::yield_now()));
    match timeout(limit, &mut task.0).await {
        Ok(Ok(())) => "",
        _ => ": the runtime in which the client was made does not run",
    }
}

thread_local! {
    /// Set if a runtime on this thread had no timers. Not asked again, because the answer is a
    /// panic.
    static LACKS_TIMERS: Cell<bool> = const { Cell::new(false) };
}

fn with_timers<T>(make: impl FnOnce() -> T) -> T {
    if Handle::try_current().is_ok() && !LACKS_TIMERS.get() {
        if has_timers() {
            return make();
        }
        LACKS_TIMERS.set(true);
    }
    let own = own();
    let _entered = own.enter();
    make()
}

/// The runtime of the library's timers, on its own thread. A fork starts another one, because it
/// has no such thread.
fn own() -> Handle {
    static OWN: LazyLock<Mutex<Option<(Process, Handle)>>> = LazyLock::new(Mutex::default);
    let mut own = OWN.lock();
    if let Some((process, runtime)) = &*own
        && process.is_this()
    {
        return runtime.clone();
    }
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime for timers");
    let handle = runtime.handle().clone();
    let drive = move || runtime.block_on(pending::<()>());
    let thread = thread::Builder::new().name("leasehold-timer".into());
    thread.spawn(drive).expect("a thread for timers");
    *own = Some((Process::this(), handle.clone()));
    handle
}

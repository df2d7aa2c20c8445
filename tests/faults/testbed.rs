//! Shared by all tests here: turns, limits, a view of Redis from outside, child processes, seeds.

use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};
use std::process::{Child, Stdio};
use std::task::Poll;
use std::time::Duration;

use leasehold::{Client, ClientBuilder, Error, LockGuard, Stats};
use leasehold_testbed::{ms, this_program, until_stats};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Tests that measure time or inspect the whole process run alone. All others run at the same time.
static TURNS: RwLock<()> = RwLock::new(());

/// Runs a test at the same time as others. It fails if it takes longer than `limit`.
pub(crate) fn beside(limit: Duration, test: impl Future<Output = ()>) {
    let _turn: RwLockReadGuard<'_, ()> = TURNS.read();
    block_on(limit, test);
}

/// Runs a test alone on the machine.
pub(crate) fn alone(limit: Duration, test: impl Future<Output = ()>) {
    let _turn = turn();
    block_on(limit, test);
}

/// For a test with its own runtime: it runs alone while it has this guard.
pub(crate) fn turn() -> RwLockWriteGuard<'static, ()> {
    TURNS.write()
}

/// Runs a part of a test that has its turn.
pub(crate) fn block_on(limit: Duration, test: impl Future<Output = ()>) {
    let runtime = runtime(2);
    let test = Box::pin(test);
    let done = runtime.block_on(async { tokio::time::timeout(limit, test).await });
    runtime.shutdown_timeout(ms(200));
    assert!(done.is_ok(), "the test hangs: not done within {limit:?}");
}

pub(crate) fn runtime(workers: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// A size that the environment may override.
pub(crate) fn size(variable: &str, default: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}: not a number: {text}")),
        Err(_) => default,
    }
}

#[expect(
    clippy::print_stderr,
    reason = "numbers for the report, shown with --nocapture"
)]
pub(crate) fn note(text: &str) {
    eprintln!("note: {text}");
}

/// The delay that a stalled machine may add, several times over. Faults show themselves later than
/// this.
pub(crate) const LATE: Duration = ms(5_000);

/// A client builder with generous timeouts, because the machine may stall while the client
/// connects.
pub(crate) fn builder(url: &str) -> ClientBuilder {
    Client::builder(url).connect_timeout(SILENCE)
}

/// A `command_timeout` that no passing test waits for.
pub(crate) const SILENCE: Duration = Duration::from_secs(20);
/// With [`SILENCE`], no silent connection is given up before this: first, two PINGs one second
/// apart get no reply.
pub(crate) const GIVEN_UP: Duration = ms(2_000);

/// Short limits, so that faults are noticed within a test.
pub(crate) fn brisk(url: &str) -> ClientBuilder {
    builder(url)
        .command_timeout(ms(300))
        .connect_timeout(ms(3_000))
        .safety_poll(ms(300))
}

/// A client that does not take a late reply for a lost one.
pub(crate) async fn connect(url: &str) -> Client {
    builder(url)
        .command_timeout(LATE)
        .connect()
        .await
        .expect("the server answers")
}

/// Waits until the client's counters show no work.
pub(crate) async fn at_rest(client: &Client, limit: Duration) {
    let rests = |stats: &Stats| is_idle(stats) && stats.local_queues == 0;
    until_stats(client, limit, "it is at rest", rests).await;
}

/// Like [`at_rest`], but local queues may still exist. A queue may yield to other clients until the
/// next sweep, or remember for ten seconds that it met some.
pub(crate) async fn idle(client: &Client, limit: Duration) {
    until_stats(client, limit, "it is idle", is_idle).await;
}

fn is_idle(stats: &Stats) -> bool {
    let left = [
        stats.waiting,
        stats.listeners,
        stats.holds,
        stats.releases_pending,
    ];
    left == [0; 4]
}

pub(crate) fn assert_unknown<T: Debug>(outcome: Result<T, Error>) {
    match outcome {
        Err(Error::Unknown { .. }) => {}
        other => panic!("expected Unknown: {other:?}"),
    }
}

pub(crate) fn assert_unavailable<T: Debug>(what: &str, outcome: Result<T, Error>, part: &str) {
    match outcome {
        Err(Error::Unavailable { cause, .. }) if cause.to_string().contains(part) => {}
        other => panic!("{what}: expected Unavailable with `{part}`: {other:?}"),
    }
}

pub(crate) fn assert_protocol<T: Debug>(what: &str, outcome: Result<T, Error>, part: &str) {
    match outcome {
        Err(Error::Protocol { detail, .. }) if detail.contains(part) => {}
        other => panic!("{what}: expected Protocol with `{part}`: {other:?}"),
    }
}

/// Polls a future `polls` times and drops it after `linger`, or as soon as nothing has woken it for
/// a while. Returns its outcome if it completed before.
///
/// While the future lingers, its call is answered and nobody takes the reply.
pub(crate) async fn cut_after_polls<F: Future>(
    polls: usize,
    linger: Duration,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    let polling = future.as_mut();
    let polled = poll_times(polling, &mut left);
    let done = tokio::time::timeout(ms(30), polled).await.ok().flatten();
    if done.is_none() && !linger.is_zero() {
        tokio::time::sleep(linger).await;
    }
    done
}

/// Resolves when the future completes, or after `left` polls.
async fn poll_times<F: Future>(mut future: Pin<&mut F>, left: &mut usize) -> Option<F::Output> {
    std::future::poll_fn(move |cx| {
        if *left == 0 {
            return Poll::Ready(None);
        }
        *left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if *left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// This binary, run as another process with one ignored test.
pub(crate) fn child(role: &str, variables: &[(&str, String)]) -> Running {
    let process = this_program(role)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("our own binary runs");
    Running(process)
}

/// A child; killed when dropped.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Running {
    /// SIGKILL, like from the out-of-memory killer.
    pub(crate) fn kill(mut self) {
        self.0.kill().expect("running");
        self.0.wait().expect("it was started");
    }

    /// Returns the output; panics if the child failed.
    pub(crate) fn finish(mut self) -> String {
        let mut text = String::new();
        let mut errors = String::new();
        if let Some(mut pipe) = self.0.stdout.take() {
            std::io::Read::read_to_string(&mut pipe, &mut text).expect("utf-8");
        }
        if let Some(mut pipe) = self.0.stderr.take() {
            std::io::Read::read_to_string(&mut pipe, &mut errors).expect("utf-8");
        }
        let status = self.0.wait().expect("it was started");
        assert!(status.success(), "a child failed:\n{text}\n{errors}");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The number of the library's threads in this process.
pub(crate) fn threads() -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
        .filter(|name| name.trim() == "leasehold")
        .count()
}

/// Takes a free lock by another client.
pub(crate) async fn hold(client: &Client, name: &str) -> LockGuard {
    client.lock(name).lock().await.expect("free")
}

//! The background task of a client, and the thread it may run on.

use std::convert::Infallible;
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::calls::life::End;
use super::holds::release::cleanup;
use super::holds::{descriptions, forced, watchdog};
use super::{Session, attendance, heartbeat, safety_poll};
use crate::sync::Mutex;

/// Runs a session until it is stopped and its releases are settled, then closes its connections.
pub(crate) async fn serve(session: Arc<Session>) {
    // Cleanups come last: thousands of them would use up the cooperative budget of a poll. The
    // tasks before them do little at a time.
    let end = tokio::select! {
        biased;
        () = watchdog::run(&session.holds) => End::Unsettled,
        () = attendance::run(&session.attendance, &session.calls.counters) => End::Unsettled,
        () = heartbeat::run(&session.holds) => End::Unsettled,
        () = safety_poll::run(&session.holds) => End::Unsettled,
        () = safety_poll::sweep(&session.holds) => End::Unsettled,
        () = descriptions::run(&session.holds) => End::Unsettled,
        () = forced::run(&session.holds) => End::Unsettled,
        () = session.calls.life.out_of_time() => End::Unsettled,
        end = cleanup::run(&session.holds) => end,
    };
    session.calls.transport.close().await;
    session.calls.life.end(end);
}

/// A thread with its own runtime, so that a busy caller cannot delay a renewal.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) runtime: Handle,
    start: oneshot::Sender<Arc<Session>>,
    running: Running,
}

/// A thread that serves a session.
#[derive(Debug)]
pub(crate) struct Running {
    id: ThreadId,
    /// Carries nothing. Closed when the thread ends.
    ended: Mutex<mpsc::Receiver<Infallible>>,
}

impl Thread {
    /// Starts the thread. It ends with its session, or when it is dropped without one.
    pub(crate) fn spawn() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (start, session) = oneshot::channel();
        let (runs, ended) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("leasehold".into())
            .spawn(move || {
                let _runs = runs;
                runtime.block_on(async {
                    if let Ok(session) = session.await {
                        serve(session).await;
                    }
                });
            })?;
        let (id, ended) = (thread.thread().id(), Mutex::new(ended));
        Ok(Thread {
            runtime: handle,
            start,
            running: Running { id, ended },
        })
    }

    pub(crate) fn serve(self, session: Arc<Session>) -> Running {
        // The thread waits for the session, so it cannot be gone.
        drop(self.start.send(session));
        self.running
    }
}

impl Running {
    /// Blocks until the thread has ended. False if that takes longer than `limit`, or if this is
    /// the thread.
    pub(crate) fn ends_within(&mut self, limit: Duration) -> bool {
        let is_another = thread::current().id() != self.id;
        is_another
            && self.ended.get_mut().recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Disconnected)
    }
}

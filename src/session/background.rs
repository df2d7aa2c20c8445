//! The background task of a client, and the thread it may run on.

use std::sync::Arc;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::calls::life::End;
use super::holds::release::cleanup;
use super::holds::{descriptions, recent_releases, watchdog};
use super::{Session, attendance, heartbeat, safety_poll};

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
        () = recent_releases::run(&session.holds) => End::Unsettled,
        () = descriptions::run(&session.holds) => End::Unsettled,
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
}

impl Thread {
    /// Starts the thread. It ends with its session, or when it is dropped without one.
    pub(crate) fn spawn() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (start, session) = oneshot::channel();
        std::thread::Builder::new()
            .name("leasehold".into())
            .spawn(move || {
                runtime.block_on(async {
                    if let Ok(session) = session.await {
                        serve(session).await;
                    }
                });
            })?;
        Ok(Thread {
            runtime: handle,
            start,
        })
    }

    pub(crate) fn serve(self, session: Arc<Session>) {
        // The thread waits for the session, so it cannot be gone.
        drop(self.start.send(session));
    }
}

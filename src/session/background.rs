//! The one background task of a client, and where it runs.

use std::sync::Arc;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::calls::life::End;
use super::holds::release::cleanup;
use super::holds::{descriptions, recent_releases, watchdog};
use super::{Session, attendance, heartbeat, safety_poll};

/// Runs a session until it is stopped and settled, then closes its connections.
pub(crate) async fn serve(session: Arc<Session>) {
    // A poll has a budget, which thousands of cleanups would use up. They come last: what is in front of
    // them does little at a time.
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

/// A thread with a runtime of its own, so that a busy caller cannot delay a renewal.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) runtime: Handle,
    start: oneshot::Sender<Arc<Session>>,
}

impl Thread {
    /// Starts the thread; it ends when its session has, or when it is not given one.
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
        // The thread waits for it; it cannot be gone.
        drop(self.start.send(session));
    }
}

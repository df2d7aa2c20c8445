//! The one background task of a client, and where it runs.

use std::sync::Arc;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::release::cleanup;
use super::{
    Session, Stage, attendance, descriptions, heartbeat, recent_releases, safety_poll, watchdog,
};

/// Runs a session until it is stopped and settled, then closes its connections.
pub(crate) async fn serve(session: Arc<Session>) {
    // A poll has a budget, which thousands of cleanups would use up. They come last: what is in front of
    // them does little at a time.
    let settled = tokio::select! {
        biased;
        () = watchdog::run(&session) => false,
        () = attendance::run(&session) => false,
        () = heartbeat::run(&session) => false,
        () = safety_poll::run(&session) => false,
        () = safety_poll::sweep(&session) => false,
        () = recent_releases::run(&session) => false,
        () = descriptions::run(&session) => false,
        () = session.out_of_time() => false,
        () = cleanup::run(&session) => !session.cleanups.may_have_left_holds(),
    };
    session.transport.close().await;
    session.stage.send_replace(Stage::Ended { settled });
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

//! The one background task of a client, and where it runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::{Session, Stage, beat, poll, releases, watchdog};

/// After the last handle is gone, this long is spent on releases that Redis does not confirm.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Runs a session until it is stopped and settled, then closes its connections.
pub(crate) async fn serve(session: Arc<Session>) {
    let drained = async {
        session.stopping().await;
        tokio::time::sleep(DRAIN_MAX).await;
    };
    tokio::select! {
        biased;
        () = releases::run(&session) => {}
        () = watchdog::run(&session) => {}
        () = beat::run(&session) => {}
        () = poll::run(&session) => {}
        () = poll::sweep(&session) => {}
        () = drained => {}
    }
    session.transport.close().await;
    session.stage.send_replace(Stage::Ended);
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
        std::thread::Builder::new().name("leasehold".into()).spawn(move || {
            runtime.block_on(async {
                if let Ok(session) = session.await {
                    serve(session).await;
                }
            });
        })?;
        Ok(Thread { runtime: handle, start })
    }

    pub(crate) fn serve(self, session: Arc<Session>) {
        // The thread waits for it; it cannot be gone.
        drop(self.start.send(session));
    }
}

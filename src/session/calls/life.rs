//! The life cycle of a client: running, stopping, ended.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::Error;
use crate::session::sleep_until_some;
use crate::transport::Process;

/// Unconfirmed releases are retried for at least this long after a stop, and longer only while
/// somebody waits for them.
const DRAIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Life {
    /// The process that made the client.
    process: Process,
    closed: AtomicBool,
    stage: watch::Sender<Stage>,
}

/// In the order in which a client goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Queued releases are settled, at most until this instant. Then the connections are closed.
    Stopping {
        until: Instant,
    },
    /// Nothing runs any more.
    Ended(End),
}

/// How a client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything that the client took is released.
    Settled,
    /// Some holds may stay in Redis until their leases end.
    Unsettled,
}

impl Life {
    pub(crate) fn new() -> Self {
        Life {
            process: Process::this(),
            closed: AtomicBool::new(false),
            stage: watch::Sender::new(Stage::Running),
        }
    }

    /// An error in a fork of the process that made the client. Ask before waiting for another
    /// thread, which a fork does not have. The transport itself refuses calls in a fork.
    pub(crate) fn is_ours(&self) -> Result<(), Error> {
        if self.process.is_this() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Refuses new work from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, SeqCst);
    }

    /// Lets the background task settle its queue and end: for [`DRAIN`], or until `limit` if that
    /// is later.
    pub(crate) fn stop(&self, limit: Option<Instant>) {
        let drained = Instant::now() + DRAIN;
        self.stage.send_if_modified(|stage| {
            let before = match *stage {
                Stage::Running => None,
                Stage::Stopping { until } => Some(until),
                Stage::Ended(_) => return false,
            };
            // The longest limit counts. A stop without a limit means that nobody waits any more.
            let waited_for = |limit: Instant| limit.max(drained).max(before.unwrap_or(limit));
            let until = limit.map_or(drained, waited_for);
            *stage = Stage::Stopping { until };
            true
        });
    }

    /// Called when nothing runs any more.
    pub(crate) fn end(&self, how: End) {
        self.stage.send_replace(Stage::Ended(how));
    }

    /// Returns when the client is being shut down.
    pub(crate) async fn stopping(&self) {
        self.reached(|stage| *stage != Stage::Running).await;
    }

    /// Returns when nothing of the client runs any more.
    pub(crate) async fn ended(&self) -> End {
        match self.reached(|stage| matches!(stage, Stage::Ended(_))).await {
            Some(Stage::Ended(how)) => how,
            _ => End::Unsettled,
        }
    }

    /// Returns when the time for queued releases is over. A later stop may move that instant.
    pub(crate) async fn out_of_time(&self) {
        let mut stage = self.stage.subscribe();
        loop {
            let until = match *stage.borrow_and_update() {
                Stage::Stopping { until } => Some(until),
                Stage::Running | Stage::Ended(_) => None,
            };
            tokio::select! {
                biased;
                // This cannot fail: the sender lives in `self`.
                _ = stage.changed() => {}
                () = sleep_until_some(until) => return,
            }
        }
    }

    async fn reached(&self, options: impl FnMut(&Stage) -> bool) -> Option<Stage> {
        // `wait_for` cannot fail either.
        let mut stage = self.stage.subscribe();
        stage.wait_for(options).await.ok().map(|stage| *stage)
    }
}

//! Where a client is between its start and its end.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::Error;
use crate::process::Process;
use crate::session::sleep_until_some;

/// This long at least is spent on releases that Redis does not confirm; longer only while somebody waits for them.
const DRAIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Life {
    /// Which made it.
    process: Process,
    closed: AtomicBool,
    stage: watch::Sender<Stage>,
}

/// In order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Queued releases are settled, until then at most; then the connections are closed.
    Stopping {
        until: Instant,
    },
    /// Nothing runs any more.
    Ended(End),
}

/// How a client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All that it took is released.
    Settled,
    /// Something may be left to the end of its lease.
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

    /// An error in a fork of the process that made the client. To be asked before it waits for what another thread
    /// does; calls are refused by the transport.
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

    /// Lets the background task settle what is queued and end: for [`DRAIN`], or until `limit` if that is later.
    pub(crate) fn stop(&self, limit: Option<Instant>) {
        let drained = Instant::now() + DRAIN;
        self.stage.send_if_modified(|stage| {
            let before = match *stage {
                Stage::Running => None,
                Stage::Stopping { until } => Some(until),
                Stage::Ended(_) => return false,
            };
            // The longest of several counts; without a limit nobody waits for it any more.
            let waited_for = |limit: Instant| limit.max(drained).max(before.unwrap_or(limit));
            let until = limit.map_or(drained, waited_for);
            *stage = Stage::Stopping { until };
            true
        });
    }

    /// Nothing runs any more.
    pub(crate) fn end(&self, how: End) {
        self.stage.send_replace(Stage::Ended(how));
    }

    /// Until it is shut down.
    pub(crate) async fn stopping(&self) {
        self.reached(|stage| *stage != Stage::Running).await;
    }

    /// Until nothing of it runs any more.
    pub(crate) async fn ended(&self) -> End {
        match self.reached(|stage| matches!(stage, Stage::Ended(_))).await {
            Some(Stage::Ended(how)) => how,
            _ => End::Unsettled,
        }
    }

    /// Until the time for what is queued is over, which may be moved meanwhile.
    pub(crate) async fn out_of_time(&self) {
        let mut stage = self.stage.subscribe();
        loop {
            let until = match *stage.borrow_and_update() {
                Stage::Stopping { until } => Some(until),
                Stage::Running | Stage::Ended(_) => None,
            };
            tokio::select! {
                biased;
                // An error would mean that the sender is gone, which we hold.
                _ = stage.changed() => {}
                () = sleep_until_some(until) => return,
            }
        }
    }

    async fn reached(&self, options: impl FnMut(&Stage) -> bool) -> Option<Stage> {
        // The same for an error here.
        let mut stage = self.stage.subscribe();
        stage.wait_for(options).await.ok().map(|stage| *stage)
    }
}

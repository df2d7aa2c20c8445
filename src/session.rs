//! What one client keeps alive: local queues, subscriptions, the watchdog, pending releases, and
//! the transport below them.
//!
//! Public handles (client, lock, guard) share one [`Handle`]. When the last of them is dropped, the
//! session settles the releases that are queued and ends. One background task serves all of it over
//! a connection of its own. The task runs on its own thread or, on the embedded engine, in the
//! caller's runtime.

pub(crate) mod acquire;
mod attempt;
pub(crate) mod background;
pub(crate) mod calls;
mod cleanup;
pub(crate) mod cleanup_queue;
pub(crate) mod core;
mod deadline;
mod fair;
pub(crate) mod hold;
mod hold_table;
mod in_flight_release;
pub(crate) mod poll_watch;
mod queue;
pub(crate) mod reentry;
mod release;
pub(crate) mod request;
pub(crate) mod retry;
pub(crate) mod settings;
pub(crate) mod share;
mod subscriptions;
mod waiter;
mod watchdog;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::time::Instant;

use self::core::{Contention, Core, Descriptions, Handle, Session};
use crate::client_id::ClientId;
use crate::error::Error;
use crate::lease::{Lease, LossReason};
use crate::stats::{Counters, Stats};
use crate::timer;
use crate::transport::Transport;

use background::Reported;
use calls::{Calls, ClientEnd, Life, MadeIn, ReplyKeys};
use cleanup_queue::Cleanups;
use queue::LocalQueues;
use settings::Settings;

/// How long the drop of the last handle waits for releases that are queued: for the reply of a
/// server that is far away, and not noticeably for a caller that is polled by a runtime.
const FLUSH: Duration = Duration::from_millis(100);

/// So many keys are named if their releases are not confirmed by then.
const NAMED: usize = 3;

impl Drop for Handle {
    /// Blocks for up to [`FLUSH`] if releases are queued: the program may be about to end, and the
    /// thread that sends them with it. In a fork, there is no such thread.
    fn drop(&mut self) {
        let Session { calls, core, .. } = &*self.session;
        calls.life.close();
        calls.life.stop(None);
        let Some(thread) = &mut self.thread else {
            return;
        };
        if core.cleanups.queued() > 0
            && calls.life.check_process().is_ok()
            && !thread.ends_within(FLUSH)
            && let left @ 1.. = core.cleanups.queued()
        {
            let keys = core.hold_table.first_keys_under_release(NAMED);
            crate::telemetry::left_behind(left, &keys.join(", "));
        }
    }
}

/// The parts from which a session is built.
pub(crate) struct SessionParts {
    pub(crate) transport: Transport,
    pub(crate) reported: Reported,
    pub(crate) counters: Arc<Counters>,
    pub(crate) settings: Settings,
    pub(crate) client_id: ClientId,
    pub(crate) made_in: MadeIn,
}

impl Session {
    pub(crate) fn new(parts: SessionParts) -> Arc<Self> {
        let reported = parts.reported;
        let streak = parts.settings.streak;
        let calls = Arc::new(Calls {
            transport: parts.transport,
            settings: parts.settings,
            counters: parts.counters,
            outages: reported.outages,
            reply_times: reported.reply_times,
            life: Life::new(),
            made_in: parts.made_in,
            client_id: parts.client_id,
            client_text: parts.client_id.to_string().into(),
            next_id: AtomicU64::new(1),
            reply_keys: ReplyKeys::default(),
        });
        let core = Core {
            calls: calls.clone(),
            hold_table: reported.hold_table,
            queues: LocalQueues::new(streak),
            subscriptions: reported.subscriptions,
            cleanups: Cleanups::new(),
            descriptions: Descriptions::default(),
            client_channel: reported.client_channel,
            quorum_waiters: Arc::default(),
            contention: Contention::default(),
        };
        let poll_watch = Arc::default();
        Arc::new(Session {
            calls,
            core,
            poll_watch,
        })
    }

    /// Refuses new work, wakes all waiters, marks all holds as lost and releases them, and ends the
    /// background task.
    pub(crate) async fn shutdown(&self, deadline: Duration) -> Result<(), Error> {
        let (life, core) = (&self.calls.life, &self.core);
        life.check_process()?;
        life.close();
        core.queues.wake_all();
        self.calls.outages.end();
        for hold in core.hold_table.holds() {
            core.lose(&hold, LossReason::Closed);
        }
        // Tokio's timers reach only about two years.
        let limit = Instant::now() + deadline.min(Lease::MAX);
        life.stop(Some(limit));
        if timer::timeout_at(limit, life.ended()).await == Ok(ClientEnd::Settled) {
            return Ok(());
        }
        let open = core.cleanups.queued();
        let text = if open == 0 && core.cleanups.may_have_left_holds() {
            "a release was refused".to_owned()
        } else {
            let why = self.calls.why_silent().await;
            format!("not confirmed within {deadline:?}: releases=`{open}`{why}")
        };
        let cause = crate::error::Cause::new(text);
        Err(Error::Unknown {
            name: Arc::from("shutdown"),
            lease: self.calls.settings.lease,
            cause,
        })
    }

    pub(crate) fn stats(&self) -> Stats {
        let (calls, core) = (&self.calls, &self.core);
        Stats {
            reconnects: calls.transport.reconnects(),
            subscriptions: core.subscriptions.live() as u64,
            listeners: core.subscriptions.listening() as u64,
            local_queues: core.queues.len() as u64,
            waiting: (core.queues.waiting() + Arc::strong_count(&core.quorum_waiters) - 1) as u64,
            holds: core.hold_table.len() as u64,
            releases_pending: core.cleanups.queued(),
            ..calls.counters.snapshot()
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "embedded")]
    pub(super) mod inline_waker;
}

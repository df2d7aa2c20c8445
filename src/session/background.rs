//! The background task of a client, and the thread it may run on.

use std::fmt::Display;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::lease::LossReason;
use crate::protocol::existence;
use crate::protocol::forced::{self, ToClient, channels};
use crate::protocol::resource::Resource;
use crate::session::calls::{Calls, ClientEnd, Outages, ReplyTimes};
use crate::session::core::{Core, Running, Session};
use crate::session::hold_table::HoldTable;
use crate::session::subscriptions::{ClientChannel, Subscriptions};
use crate::session::{cleanup, core, fair, poll_watch, watchdog};
use crate::stats::{Counters, count};
use crate::sync::Mutex;
use crate::telemetry::{self, Gauges, Telemetry};
use crate::timer::{Instant, jittered, sleep, timeout};
use crate::transport::{CallError, Lane, Missed, TransportEvents};

/// Runs a session until it is stopped and its releases are settled, then closes its connections.
pub(crate) async fn serve(session: Arc<Session>) {
    // Cleanups come last: thousands of them would use up the cooperative budget of a poll. The
    // tasks before them do little at a time.
    let end = tokio::select! {
        biased;
        () = watchdog::run(&session.core) => ClientEnd::Unsettled,
        () = poll_watch::run(&session.poll_watch, &session.calls.counters) => ClientEnd::Unsettled,
        () = fair::run(&session.core) => ClientEnd::Unsettled,
        () = safety_poll(&session.core) => ClientEnd::Unsettled,
        () = sweep(&session.core) => ClientEnd::Unsettled,
        () = core::send_descriptions(&session.core) => ClientEnd::Unsettled,
        () = listen_for_client(&session.core) => ClientEnd::Unsettled,
        () = session.calls.life.out_of_time() => ClientEnd::Unsettled,
        end = cleanup::run(&session.core) => end,
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

/// The pause between two looks at the holds. A hold that lasts for twice as long is seen at two of
/// them.
const LOOK: Duration = Duration::from_millis(500);

/// The pause after the server has refused the channel to this user, who may get the right later.
const REFUSED: Duration = Duration::from_secs(60);

/// Listens once it is worth it, until it is dropped.
async fn listen_for_client(core: &Core) {
    let (calls, of_client) = (&core.calls, &core.client_channel);
    // Holds with lower ids were there at the last look.
    let mut next_id = 0;
    loop {
        let is_wanted = tokio::select! {
            biased;
            () = of_client.is_wanted.notified() => true,
            () = sleep(LOOK) => false,
        };
        let is_worth_it = is_wanted || core.hold_table.has_older_than(next_id);
        next_id = calls.next_id();
        if !is_worth_it || calls.polls_only() {
            continue;
        }
        // Of an earlier connection.
        let _ = of_client.refused.notified().now_or_never();
        match listen(calls).await {
            Ok(()) => {
                of_client.is_heard.store(true, Relaxed);
                of_client.refused.notified().await;
                of_client.is_heard.store(false, Relaxed);
            }
            Err(CallError::Refused(_)) if !calls.polls_only() => {}
            Err(_) => continue,
        }
        sleep(REFUSED).await;
    }
}

/// The channels belong to no key: scripts on keys of all slots publish to them.
async fn listen(calls: &Calls) -> Result<(), CallError> {
    let channels = channels(calls.client_id());
    for channel in &channels {
        let listens = calls.transport.subscribe(channel, "").await;
        if listens.is_err() {
            // Otherwise each new connection would ask for it, though nobody hears the answer.
            for channel in &channels {
                calls.transport.unsubscribe(channel);
            }
            return listens;
        }
    }
    Ok(())
}

// Passes the transport's events to the parts of the session that need them.

/// The parts of a session that handle the transport's events. They are made before the session and
/// the transport.
#[derive(Clone)]
pub(crate) struct Reported {
    pub(super) subscriptions: Arc<Subscriptions>,
    pub(super) hold_table: Arc<HoldTable>,
    pub(super) reply_times: Arc<ReplyTimes>,
    pub(super) outages: Arc<Outages>,
    pub(super) client_channel: Arc<ClientChannel>,
    telemetry: Telemetry,
}

impl Reported {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        let (subscriptions, hold_table) =
            (Subscriptions::new(counters), Arc::new(HoldTable::new()));
        Reported {
            subscriptions,
            hold_table,
            reply_times: Arc::default(),
            outages: Arc::default(),
            client_channel: Arc::default(),
            telemetry: Telemetry::default(),
        }
    }
}

impl TransportEvents for Reported {
    fn message(&self, channel: &str, payload: &[u8]) {
        if !forced::is_of_a_client(channel) {
            return self.subscriptions.on_message(channel, payload);
        }
        match forced::to_client(payload) {
            Some(ToClient::HandedOver(channel, to)) => {
                self.subscriptions.on_handed_over(channel, &to);
            }
            Some(ToClient::ForWaiter(channel, message)) => {
                self.subscriptions.on_message(channel, message.as_bytes());
            }
            Some(ToClient::Forced(key, release)) => {
                self.hold_table.ask_again(key, &Arc::new(release));
            }
            None => {}
        }
    }

    fn greeted(&self, after: Duration) {
        self.reply_times.came_after(after);
    }

    fn disconnected(&self, server: &dyn Display, why: &dyn Display) {
        self.subscriptions.advance_connection_epoch();
        telemetry::connection_lost(server, why);
    }

    fn out_of_reach(&self, concerns: &dyn Fn(&str) -> bool) {
        drop(self.hold_table.doubts(concerns));
    }

    fn reconnected(&self, server: &dyn Display) {
        telemetry::reconnected(server);
    }

    fn missed(&self, what: Missed<'_>) {
        self.subscriptions.advance_connection_epoch();
        self.subscriptions.on_missed(what);
    }

    fn refused(&self, channel: &str) {
        if forced::is_of_a_client(channel) {
            self.client_channel.on_refused();
        } else {
            self.subscriptions.on_refused(channel);
        }
    }

    fn restored(&self, lane: Lane, concerns: &dyn Fn(&str) -> bool) {
        self.subscriptions.advance_connection_epoch();
        self.outages.end();
        if lane == Lane::Background {
            self.hold_table.verify_at_once(concerns);
        }
    }

    fn primary_changed(&self, concerns: &dyn Fn(&str) -> bool) {
        self.subscriptions.advance_connection_epoch();
        self.telemetry.failed_over();
        self.hold_table.must_verify(concerns);
    }
}

// The safety poll limits how long a lost message can delay a waiter.
//
// About once a second, one call asks which of the keys that this client waits for are missing.
// While all locks are held, none is missing. If one is, its waiter is woken. Ten thousand
// waited-for names cost twenty calls a second, and in a cluster ten thousand. A waiter whose lock
// has its own safety poll also asks for itself.

/// Keys in one call.
const BATCH: usize = 500;

/// How often unused subscriptions and local queues are removed.
const SWEEP: Duration = Duration::from_secs(1);

/// A shorter suspension of the machine between two looks does not reset timers.
const SUSPENSION_MIN: Duration = Duration::from_millis(100);

/// Removes what nobody uses any more, until it is dropped. Also notices that the machine was
/// suspended, because timers do not fire earlier for that, and reports what only time changes.
async fn sweep(core: &Core) {
    // Not the current value: holds may have been taken before this task ran for the first time.
    let mut suspended = Duration::ZERO;
    let transport = &core.calls.transport;
    let mut gauges = Gauges::new(|| transport.server());
    loop {
        sleep(SWEEP).await;
        gauges.set(|| transport.is_connected());
        let before = std::mem::replace(&mut suspended, core.calls.settings.clock.suspended());
        if suspended > before + SUSPENSION_MIN {
            core.hold_table.set_timers_again();
        }
        core.subscriptions.sweep(&core.calls.transport);
        core.queues.sweep();
        for hold in core.queues.stale_holds(core.calls.now()) {
            core.end_stale(&hold);
        }
        if let Some(then) = Instant::now().checked_sub(SWEEP) {
            core.queues.wake_overslept(then);
        }
    }
}

/// Polls until it is dropped.
async fn safety_poll(core: &Core) {
    let every = core.calls.settings.safety_poll;
    let mut checks = FuturesUnordered::new();
    loop {
        let pause = sleep(jittered(every));
        tokio::pin!(pause);
        loop {
            tokio::select! {
                biased;
                () = &mut pause => break,
                Some(_) = checks.next() => {}
            }
        }
        let resources = core.queues.waited_for();
        // All batches at once, and none beyond the next poll, so that a node that does not reply
        // delays no other.
        let batches = resources.chunks(core.calls.keys_at_once(BATCH));
        let batches = batches.map(<[_]>::to_vec);
        checks.extend(batches.map(|batch| timeout(every, check(core, batch))));
    }
}

/// Asks with one call which keys are gone.
async fn check(core: &Core, resources: Vec<Arc<Resource>>) {
    // Remember the holds before asking. The key of a hold that is older than the call must exist;
    // the key of a younger one may not have existed yet.
    let holders: Vec<_> = resources
        .iter()
        .map(|resource| core.queues.holder(resource.queue_name()))
        .collect();
    let keys = resources
        .iter()
        .map(|resource| resource.key.clone())
        .collect();
    count(&core.calls.counters.polls);
    let reply = core
        .calls
        .call(Lane::Background, existence::keys_exist(keys))
        .await;
    if matches!(reply, Err(CallError::Refused(_))) && resources.len() > 1 {
        // Perhaps because of the slots of the keys.
        let (one, other) = resources.split_at(resources.len() / 2);
        let halves = [one, other].map(|half| Box::pin(check(core, half.to_vec())));
        drop(join_all(halves).await);
        return;
    }
    let missing = reply
        .ok()
        .and_then(|value| existence::missing(value, resources.len()).ok());
    // A poll that fails is followed by another.
    for at in missing.unwrap_or_default() {
        let holder = core.queues.nudge(resources[at].queue_name());
        // The key of this client's own hold is gone. Without this, its waiters would wait for the
        // next renewal.
        if let (Some(hold), Some(before)) = (holder, &holders[at])
            && Arc::ptr_eq(&hold, before)
        {
            core.lose(&hold, LossReason::Gone);
        }
    }
}

#[cfg(all(test, feature = "test-util"))]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::{EmbeddedRedis, HoldState};

    /// One connection may reach the new primary before the loss of another one is noticed.
    #[tokio::test(start_paused = true)]
    async fn a_hold_is_uncertain_until_a_new_primary_has_confirmed_it() {
        let client = EmbeddedRedis::new().client();
        let guard = client.lock("n").lock().await.expect("free");
        let session = client.session();
        let reported = Reported {
            hold_table: session.core.hold_table.clone(),
            ..Reported::new(session.calls.counters.clone())
        };
        reported.primary_changed(&|key| key != "n");
        assert_eq!(guard.state(), HoldState::Held, "it concerns other keys");
        reported.primary_changed(&|key| key == "n");
        assert_eq!(guard.state(), HoldState::Uncertain);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(
            (guard.state(), client.stats().renewed),
            (HoldState::Held, 1)
        );
    }
}

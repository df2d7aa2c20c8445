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
use crate::session::calls::{Calls, End, Outages, ReplyTimes};
use crate::session::core::{Holds, Running, Session};
use crate::session::hold_table::Watchdog;
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
        () = watchdog::run(&session.holds) => End::Unsettled,
        () = poll_watch::run(&session.attendance, &session.calls.counters) => End::Unsettled,
        () = fair::run(&session.holds) => End::Unsettled,
        () = safety_poll(&session.holds) => End::Unsettled,
        () = sweep(&session.holds) => End::Unsettled,
        () = core::send_descriptions(&session.holds) => End::Unsettled,
        () = listen_for_client(&session.holds) => End::Unsettled,
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

/// The pause between two looks at the holds. A hold that lasts for twice as long is seen at two of them.
const LOOK: Duration = Duration::from_millis(500);

/// The pause after the server has refused the channel to this user, who may get the right later.
const REFUSED: Duration = Duration::from_secs(60);

/// Listens once it is worth it, until it is dropped.
async fn listen_for_client(holds: &Holds) {
    let (calls, of_client) = (&holds.calls, &holds.client_channel);
    // Holds with lower ids were there at the last look.
    let mut next_id = 0;
    loop {
        let is_wanted = tokio::select! {
            biased;
            () = of_client.is_wanted.notified() => true,
            () = sleep(LOOK) => false,
        };
        let is_worth_it = is_wanted || holds.watchdog.has_older_than(next_id);
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

// FROM session::events
// Passes the transport's events to the parts of the session that need them.

/// The parts of a session that handle the transport's events. They are made before the session and
/// the transport.
#[derive(Clone)]
pub(crate) struct Reported {
    pub(super) subscriptions: Arc<Subscriptions>,
    pub(super) watchdog: Arc<Watchdog>,
    pub(super) reply_times: Arc<ReplyTimes>,
    pub(super) outages: Arc<Outages>,
    pub(super) client_channel: Arc<ClientChannel>,
    telemetry: Telemetry,
}

impl Reported {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        let (subscriptions, watchdog) = (Subscriptions::new(counters), Arc::new(Watchdog::new()));
        Reported {
            subscriptions,
            watchdog,
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
            return self.subscriptions.message(channel, payload);
        }
        match forced::to_client(payload) {
            Some(ToClient::Given(channel, given)) => self.subscriptions.given(channel, &given),
            Some(ToClient::ForWaiter(channel, message)) => {
                self.subscriptions.message(channel, message.as_bytes());
            }
            Some(ToClient::Forced(key, release)) => {
                self.watchdog.ask_again(key, &Arc::new(release));
            }
            None => {}
        }
    }

    fn greeted(&self, after: Duration) {
        self.reply_times.came_after(after);
    }

    fn disconnected(&self, server: &dyn Display, why: &dyn Display) {
        self.subscriptions.servers_may_change();
        telemetry::connection_lost(server, why);
    }

    fn out_of_reach(&self, concerns: &dyn Fn(&str) -> bool) {
        drop(self.watchdog.doubts(concerns));
    }

    fn reconnected(&self, server: &dyn Display) {
        telemetry::reconnected(server);
    }

    fn missed(&self, what: Missed<'_>) {
        self.subscriptions.servers_may_change();
        self.subscriptions.missed(what);
    }

    fn refused(&self, channel: &str) {
        if forced::is_of_a_client(channel) {
            self.client_channel.is_refused();
        } else {
            self.subscriptions.refused(channel);
        }
    }

    fn restored(&self, lane: Lane, concerns: &dyn Fn(&str) -> bool) {
        self.subscriptions.servers_may_change();
        self.outages.end();
        if lane == Lane::Background {
            self.watchdog.verify_at_once(concerns);
        }
    }

    fn primary_changed(&self, concerns: &dyn Fn(&str) -> bool) {
        self.subscriptions.servers_may_change();
        self.telemetry.failed_over();
        self.watchdog.must_verify(concerns);
    }
}

// FROM session::safety_poll
// The safety poll limits how long a lost message can delay a waiter.
//
// About once a second, one call asks which of the keys that this client waits for are missing.
// While all locks are held, none is missing. If one is, its waiter is woken. Ten thousand
// waited-for names cost twenty calls a second, and in a cluster ten thousand. A waiter whose lock has its own safety poll also
// asks for itself.

/// Keys in one call.
const BATCH: usize = 500;

/// How often unused subscriptions and local queues are removed.
const SWEEP: Duration = Duration::from_secs(1);

/// A shorter suspension of the machine between two looks does not reset timers.
const SUSPENSION_MIN: Duration = Duration::from_millis(100);

/// Removes what nobody uses any more, until it is dropped. Also notices that the machine was
/// suspended, because timers do not fire earlier for that, and reports what only time changes.
async fn sweep(holds: &Holds) {
    // Not the current value: holds may have been taken before this task ran for the first time.
    let mut suspended = Duration::ZERO;
    let transport = &holds.calls.transport;
    let mut gauges = Gauges::new(|| transport.server());
    loop {
        sleep(SWEEP).await;
        gauges.set(|| transport.is_connected());
        let before = std::mem::replace(&mut suspended, holds.calls.settings.clock.suspended());
        if suspended > before + SUSPENSION_MIN {
            holds.watchdog.set_timers_again();
        }
        holds.subscriptions.sweep(&holds.calls.transport);
        holds.queues.sweep();
        for hold in holds.queues.stale_holds(holds.calls.now()) {
            holds.end_stale(&hold);
        }
        if let Some(then) = Instant::now().checked_sub(SWEEP) {
            holds.queues.wake_overslept(then);
        }
    }
}

/// Polls until it is dropped.
async fn safety_poll(holds: &Holds) {
    let every = holds.calls.settings.safety_poll;
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
        let resources = holds.queues.waited_for();
        // All batches at once, and none beyond the next poll, so that a node that does not reply
        // delays no other.
        let batches = resources.chunks(holds.calls.keys_at_once(BATCH));
        let batches = batches.map(<[_]>::to_vec);
        checks.extend(batches.map(|batch| timeout(every, check(holds, batch))));
    }
}

/// Asks with one call which keys are gone.
async fn check(holds: &Holds, resources: Vec<Arc<Resource>>) {
    // Remember the holds before asking. The key of a hold that is older than the call must exist;
    // the key of a younger one may not have existed yet.
    let holders: Vec<_> = resources
        .iter()
        .map(|resource| holds.queues.holder(&resource.queue_name()))
        .collect();
    let keys = resources
        .iter()
        .map(|resource| resource.key.clone())
        .collect();
    count(&holds.calls.counters.polls);
    let reply = holds
        .calls
        .call(Lane::Background, existence::keys_exist(keys))
        .await;
    if matches!(reply, Err(CallError::Refused(_))) && resources.len() > 1 {
        // Perhaps because of the slots of the keys.
        let (one, other) = resources.split_at(resources.len() / 2);
        let halves = [one, other].map(|half| Box::pin(check(holds, half.to_vec())));
        drop(join_all(halves).await);
        return;
    }
    let missing = reply
        .ok()
        .and_then(|value| existence::missing(value, resources.len()).ok());
    // A poll that fails is followed by another.
    for at in missing.unwrap_or_default() {
        let holder = holds.queues.nudge(&resources[at].queue_name());
        // The key of this client's own hold is gone. Without this, its waiters would wait for the
        // next renewal.
        if let (Some(hold), Some(before)) = (holder, &holders[at])
            && Arc::ptr_eq(&hold, before)
        {
            holds.lose(&hold, LossReason::Gone);
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
            watchdog: session.holds.watchdog.clone(),
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

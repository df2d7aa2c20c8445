//! The safety poll limits how long a lost message can delay a waiter.
//!
//! About once a second, one call asks which of the keys that this client waits for are missing.
//! While all locks are held, none is missing. If one is, its waiter is woken. Ten thousand
//! waited-for names cost twenty calls a second, and in a cluster ten thousand. A waiter whose lock has its own safety poll also
//! asks for itself.

use super::holds::Holds;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use super::jittered;
use crate::lease::LossReason;
use crate::protocol::existence;
use crate::protocol::resource::Resource;
use crate::stats::count;
use crate::telemetry::Gauges;
use crate::timer::{Instant, sleep, timeout};
use crate::transport::{CallError, Lane};

/// Keys in one call.
const BATCH: usize = 500;

/// How often unused subscriptions and local queues are removed.
const SWEEP: Duration = Duration::from_secs(1);

/// A shorter suspension of the machine between two looks does not reset timers.
const SUSPENSION_MIN: Duration = Duration::from_millis(100);

/// Removes what nobody uses any more, until it is dropped. Also notices that the machine was
/// suspended, because timers do not fire earlier for that, and reports what only time changes.
pub(crate) async fn sweep(holds: &Holds) {
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
pub(crate) async fn run(holds: &Holds) {
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

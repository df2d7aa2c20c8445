//! The safety poll: what a lost message can cost at most.
//!
//! About once a second one call asks which of the keys that this client waits for are missing. None
//! is while all are held; where one is, its waiter is woken. Ten thousand waited-for names cost twenty
//! calls a second, whatever became of them. A waiter of a lock with a safety poll of its own asks for itself as well.

use super::holds::Holds;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep, timeout};

use super::jittered;
use crate::lease::LossReason;
use crate::protocol::existence;
use crate::protocol::resource::Resource;
use crate::stats::count;
use crate::transport::{Group, Lane};

/// Keys in one call.
const BATCH: usize = 500;

/// How often subscriptions and local queues that nobody uses any more are ended.
const SWEEP: Duration = Duration::from_secs(1);

/// How long the machine must have been suspended between two looks for its timers to be set again.
const SUSPENSION_MIN: Duration = Duration::from_millis(100);

/// Ends what nobody uses any more, until it is dropped. Notices that the machine was suspended: timers
/// do not fire sooner for that.
pub(crate) async fn sweep(holds: &Holds) {
    // Not what it is by now: holds may have been taken before this ran for the first time.
    let mut suspended = Duration::ZERO;
    loop {
        sleep(SWEEP).await;
        let before = std::mem::replace(&mut suspended, holds.calls.settings.clock.suspended());
        if suspended > before + SUSPENSION_MIN {
            holds.watchdog.set_timers_again();
        }
        holds.subscriptions.sweep(&holds.calls.transport);
        holds.queues.sweep();
        for hold in holds.queues.held_in_vain(holds.calls.settings.clock.now()) {
            holds.ends_in_vain(&hold);
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
        for (group, all) in holds
            .calls
            .transport
            .grouped(resources, |resource| &resource.key)
        {
            // Side by side, and not beyond the next poll: a node that does not answer holds up no other.
            let batches = all.chunks(BATCH).map(<[_]>::to_vec);
            checks.extend(batches.map(|batch| timeout(every, check(holds, group, batch))));
        }
    }
}

/// Finds the keys that are gone: one call, however many those are.
async fn check(holds: &Holds, group: Group, resources: Vec<Arc<Resource>>) {
    // A hold that is older than the question must be there; a younger one may not have been.
    let holders: Vec<_> = resources
        .iter()
        .map(|resource| holds.queues.holder(&resource.queue_name))
        .collect();
    let keys = resources
        .iter()
        .map(|resource| resource.key.clone())
        .collect();
    count(&holds.calls.counters.polls);
    let reply = holds
        .calls
        .call_group(group, Lane::Background, existence::keys_exist(keys))
        .await;
    let missing = reply
        .ok()
        .and_then(|value| existence::missing(value, resources.len()).ok());
    // A poll that fails is followed by another one.
    for at in missing.unwrap_or_default() {
        let holder = holds.queues.nudge(&resources[at].queue_name);
        // The key of our own hold is gone: its waiters would wait for the next renewal.
        if let (Some(hold), Some(before)) = (holder, &holders[at])
            && Arc::ptr_eq(&hold, before)
        {
            holds.lose(&hold, LossReason::Gone);
        }
    }
}

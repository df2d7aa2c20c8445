//! Renews holds in batches.
//!
//! A batch that fails does not affect the others. A batch that is refused is halved until the hold
//! that causes it is found: with 500 holds, after nine more round trips. If there is no such hold,
//! the server accepts keys of one slot only, and later batches have such keys.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use crate::clock::Moment;
use crate::lease::LossReason;
use crate::protocol::resource::Resource;
use crate::protocol::{self, replies};
use crate::session::calls::Calls;
use crate::session::core::Core;
use crate::session::hold::{Duty, Hold, VERIFICATION};
use crate::stats::count;
use crate::timer::{Instant, jittered, timeout_at};
use crate::transport::{CallError, Epoch, Fault, Lane};

/// Redis entries renewed by one call. Such a call keeps Redis busy for a few milliseconds at most.
const BATCH: usize = 500;

/// Serves the table until it is dropped.
pub(crate) async fn run(core: &Core) {
    let mut renewals = FuturesUnordered::new();
    loop {
        let now = Instant::now();
        let mut to_renew = Vec::new();
        for hold in core.hold_table.take_due(now) {
            match hold.duty(&hold.read_clock()) {
                Duty::Renew(lease) => to_renew.push(ToRenew { hold, lease }),
                Duty::Wait(_) => core.hold_table.arm(&hold, None),
                Duty::End(reason) => core.lose(&hold, reason),
                Duty::None => {}
            }
        }
        let batches = batches(&core.calls, to_renew).into_iter();
        renewals.extend(batches.map(|batch| renew(core, batch)));
        let next = core.hold_table.next();
        tokio::select! {
            biased;
            () = crate::timer::sleep_until_some(next) => {}
            () = core.hold_table.poke.notified() => {}
            Some(_) = renewals.next() => {}
        }
    }
}

/// A hold and the lease to ask for.
pub(super) struct ToRenew {
    pub(super) hold: Arc<Hold>,
    pub(super) lease: Duration,
}

/// Something that a renewal can ask about.
pub(super) trait Renewable {
    fn resource(&self) -> &Resource;
    fn field(&self) -> &Arc<str>;
    fn lease(&self) -> Duration;

    fn script(&self) -> &'static str {
        protocol::renewal_of(self.resource().kind).sha1()
    }
}

impl Renewable for ToRenew {
    fn resource(&self) -> &Resource {
        &self.hold.resource
    }

    fn field(&self) -> &Arc<str> {
        &self.hold.field
    }

    fn lease(&self) -> Duration {
        self.lease
    }
}

/// Splits fields into batches, one call each: of the same lease, and of kinds that share a script.
/// A field with more entries than a batch gets its own.
pub(super) fn batches<T: Renewable>(calls: &Calls, mut fields: Vec<T>) -> Vec<Vec<T>> {
    let most = calls.keys_at_once(BATCH);
    let common = |renewal: &T| (renewal.script(), renewal.lease());
    fields.sort_by_cached_key(common);
    let mut batches: Vec<Vec<T>> = Vec::new();
    let (mut last, mut entries) = (None, 0);
    for renewal in fields {
        let (in_common, number) = (
            common(&renewal),
            renewal.resource().entries(renewal.field()),
        );
        entries += number;
        match batches.last_mut() {
            Some(batch) if last == Some(in_common) && entries <= most => batch.push(renewal),
            _ => {
                (last, entries) = (Some(in_common), number);
                batches.push(vec![renewal]);
            }
        }
    }
    batches
}

/// Sends one batch and applies the result to each hold. True if the server has answered for all of
/// them.
pub(super) async fn renew(core: &Core, batch: Vec<ToRenew>) -> bool {
    let (calls, first, lease) = (&core.calls, batch[0].hold.resource.clone(), batch[0].lease);
    let renewals: Vec<(&Resource, _)> = batch
        .iter()
        .map(|renewal| (&*renewal.hold.resource, &renewal.hold.field))
        .collect();
    let now = calls.now();
    let shortest = batch
        .iter()
        .map(|renewal| time_for(calls, renewal, now))
        .min();
    // A renewal that takes a third of what is left of the lease leaves time for another one.
    let limit = Instant::now() + shortest.unwrap_or_default() / 3;
    let sent = calls.now();
    let before = calls.epoch_if_durable(Lane::Background, &first.key);
    let call = protocol::renew(first.kind, lease, &renewals);
    let call = calls.call(Lane::Background, call);
    let reply = match timeout_at(limit, call).await {
        Ok(Ok(value)) => replies::renewed(value, batch.len()).map_err(Into::into),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(CallError::Unknown(Fault("no answer".into()))),
    };
    match reply {
        Ok(answers) => {
            let mut there = Vec::new();
            for (renewal, is_there) in batch.into_iter().zip(answers) {
                if is_there {
                    there.push(renewal);
                } else {
                    // A missing hold is lost, however many servers have a copy of that.
                    core.lose_field_of(&renewal.hold);
                }
            }
            confirm(core, there, (sent, limit), before).await;
            true
        }
        // One key of another type fails the whole script. Search for it by halves, both at once:
        // asking for holds one after another could take so long that the others lose their leases.
        Err(CallError::Refused(_)) if batch.len() > 1 => {
            let mut half = batch;
            let other_half = half.split_off(half.len() / 2);
            let halves = [half, other_half].map(|half| Box::pin(renew(core, half)));
            let are_answered = !join_all(halves).await.contains(&false);
            if are_answered {
                // Refused together, and accepted one by one: their slots are the reason.
                calls.transport.note_one_slot_only();
            }
            are_answered
        }
        Err(CallError::Refused(fault)) if fault.is_wrong_type() => {
            for renewal in &batch {
                core.lose(&renewal.hold, LossReason::Gone);
            }
            false
        }
        Err(_) => {
            postpone_all(core, &batch);
            false
        }
    }
}

/// These holds were renewed by a call sent at `sent`. They count as confirmed if there are enough
/// copies before `limit`.
async fn confirm(
    core: &Core,
    renewed: Vec<ToRenew>,
    (sent, limit): (Moment, Instant),
    before: Option<Epoch>,
) {
    let Some(first) = renewed.first() else { return };
    let copied = core
        .calls
        .made_durable(Lane::Background, &first.hold.resource.key, before);
    let is_copied = matches!(timeout_at(limit, copied).await, Ok(Ok(())));
    for renewal in &renewed {
        if is_copied {
            let harness = &core.calls.settings.telemetry.harness;
            renewal.hold.renewed(harness, sent, renewal.lease);
            core.hold_table.arm(&renewal.hold, None);
            // Only now, so that who reads the count finds the hold with its longer lease and its
            // next duty.
            count(&core.calls.counters.renewed);
            core.descriptions.say(&renewal.hold);
        } else {
            postpone(core, renewal);
        }
    }
}

/// How long a renewal may be repeated before the lease ends.
fn time_for(calls: &Calls, renewal: &ToRenew, now: Moment) -> Duration {
    let longest = if renewal.lease == VERIFICATION {
        calls.settings.command_timeout
    } else {
        renewal.lease
    };
    longest.min(renewal.hold.lease_left(now))
}

fn postpone_all(core: &Core, batch: &[ToRenew]) {
    for renewal in batch {
        postpone(core, renewal);
    }
}

/// A renewal failed: try again soon, as long as the deadline has not passed.
fn postpone(core: &Core, renewal: &ToRenew) {
    count(&core.calls.counters.renewals_failed);
    renewal.hold.mark_uncertain();
    let pause = (time_for(&core.calls, renewal, core.calls.now()) / 30)
        .clamp(Duration::from_millis(2), Duration::from_millis(500));
    core.hold_table
        .arm(&renewal.hold, Some(Instant::now() + jittered(pause)));
}

//! The fair lock: a lock, a list of waiting owners, and the time until which each of them keeps its
//! place.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{AcquireArgs, Force, HeardBy, KindCalls, NewField, Queueing};
use super::calls::{joined_field, ms};
use super::replies::span;
use super::resource::Resource;
use super::script::scripts;
use super::{Arg, Call, Field, Publish, Unexpected, Value, lock};

scripts! {
    ACQUIRE = "fair_acquire" from "shared/clock.lua" "fair/queue.lua" "fair/acquire.lua", takes;
    FORCE_RELEASE = "fair_force_release" from "shared/clock.lua" "shared/tell_clients.lua"
        "fair/queue.lua" "fair/force_release.lua";
    HEARTBEAT = "fair_heartbeat" from "shared/clock.lua" "fair/queue.lua" "shared/full_server.lua"
        "fair/heartbeat.lua";
    RELEASE = "fair_release" from "shared/clock.lua" "fair/queue.lua" "fair/release.lua";
}

pub(super) static CALLS: KindCalls = KindCalls {
    field,
    acquire,
    release,
    force_release,
    ..lock::CALLS
};

/// Numbers of fields in the queue have 19 digits, so that the scripts can tell this crate's owners
/// from Redisson's. They are odd if no release may give the lock to them. The first digit says who
/// hears that their turn has come.
const HEARD_BY_OWNER: u64 = 4_000_000_000_000_000_000;
const HEARD_BY_CLIENT: u64 = 5_000_000_000_000_000_000;

/// A waiter that goes back to the front names so many waiters of its client, or all that came
/// before it.
pub(crate) const NAMED: usize = 8;

fn field(new_field: NewField<'_>) -> Field {
    let first = match new_field.heard_by {
        HeardBy::Owner => HEARD_BY_OWNER,
        HeardBy::Client => HEARD_BY_CLIENT,
    };
    let number = first + 2 * new_field.number + u64::from(new_field.must_ask);
    joined_field(new_field.client, number, "")
}

fn acquire(resource: &Resource, publish: Publish, args: &AcquireArgs<'_>) -> Call {
    let queueing = match args.queueing {
        Queueing::Not | Queueing::InHolderField { .. } => 0,
        Queueing::First => 1,
        Queueing::AtTheEnd => 2,
        Queueing::AtTheFront => 3,
        Queueing::Keep => 4,
    };
    let place = [ms(args.claim), Arg::Int(queueing)];
    let behind = args.behind.iter().cloned().map(Arg::Text);
    let publish = resource.publish_args(publish).into_iter();
    let args = publish
        .chain(args.owner_and_lease())
        .chain(place)
        .chain(behind);
    Call::new(&ACQUIRE, resource.keys(), args)
}

fn release(resource: &Resource, publish: Publish, count: u32, field: &Field) -> Call {
    if count > 0 {
        // Lowering a count is the same as for any hash lock.
        return lock::release(resource, publish, count, field);
    }
    Call::new(
        &RELEASE,
        resource.keys(),
        resource.release_args(publish, field),
    )
}

fn force_release(resource: &Resource, publish: Publish, force: Force<'_>) -> Call {
    Call::new(
        &FORCE_RELEASE,
        resource.keys(),
        resource.force_args(publish, force),
    )
}

/// Keeps the places of these waiters in the queue.
pub(crate) fn heartbeat(
    resource: &Resource,
    publish: Publish,
    claim: Duration,
    fields: impl Iterator<Item = Arc<str>>,
) -> Call {
    let publish = resource.publish_args(publish).into_iter();
    Call::new(
        &HEARTBEAT,
        resource.keys(),
        publish.chain([ms(claim)]).chain(fields.map(Arg::Text)),
    )
}

/// For how long a release has given the lock to the waiter on whose channel this message came.
/// `None` if the message only says that it is this waiter's turn.
pub(crate) fn lease_handed_over(message: &[u8]) -> Option<Duration> {
    let millis: u64 = str::from_utf8(message).ok()?.parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}

/// The state of a place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuePosition {
    Gone,
    Waiting,
    /// The waiter is next, and the lock is free.
    Next,
}

/// The reply of [`heartbeat`]: when the holder's lease or the next waiter's place ends, if known,
/// and the state of each place.
pub(crate) fn positions(
    reply: Value,
    waiters: usize,
) -> Result<(Option<Duration>, Vec<QueuePosition>), Unexpected> {
    let Value::Array(parts) = &reply else {
        return Err(Unexpected(reply));
    };
    let position = |part: &Value| match part {
        Value::Int(0) => Some(QueuePosition::Gone),
        Value::Int(1) => Some(QueuePosition::Waiting),
        Value::Int(2) => Some(QueuePosition::Next),
        _ => None,
    };
    match parts.split_first() {
        Some((Value::Int(left), positions)) if positions.len() == waiters => {
            let positions = positions.iter().map(position).collect::<Option<_>>();
            positions
                .map(|positions| (span(*left), positions))
                .ok_or(Unexpected(reply))
        }
        _ => Err(Unexpected(reply)),
    }
}

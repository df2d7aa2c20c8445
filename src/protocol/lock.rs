//! The re-entrant lock: a hash at the name, with a count for each owner. The spin lock and the
//! non-reentrant lock are the same on the wire.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{AcquireArgs, Force, KindCalls, Queueing, ms, plain_field};
use super::resource::Resource;
use super::script::scripts;
use super::{Arg, Call, Field, Keys, Publish};

scripts! {
    ACQUIRE = "lock_acquire" from "lock/acquire.lua" "shared/may.lua" "waiters/listening.lua"
        "lock/waiters.lua" "lock/list.lua", takes;
    FORCE_RELEASE = "lock_force_release" from "shared/tell_clients.lua" "lock/force_release.lua";
    INSPECT = "lock_inspect" from "shared/clock.lua" "shared/may.lua" "description/described.lua"
        "lock/inspect.lua", reads_undeclared_keys;
    REENTER = "lock_reenter" from "shared/lease.lua" "lock/reenter.lua";
    RELEASE = "lock_release" from "lock/release.lua" "shared/may.lua" "waiters/listening.lua"
        "lock/waiters.lua" "lock/pass_on.lua";
    RENEW = "lock_renew" from "shared/lease.lua" "lock/renew.lua";
}

/// Other kinds use those of these calls that are the same for them.
pub(super) static CALLS: KindCalls = KindCalls {
    field: plain_field,
    acquire,
    reenter,
    release,
    force_release,
    inspect: &INSPECT,
    renewal: &RENEW,
    renewal_keys,
};

fn acquire(resource: &Resource, _publish: Publish, args: &AcquireArgs<'_>) -> Call {
    let mut call = Call::new(&ACQUIRE, resource.keys(), args.owner_and_lease());
    if let Queueing::InHolderField { attempt } = args.queueing {
        let lease = args.lease.min(args.claim).as_millis();
        call.args
            .push(Arg::Text(Arc::from(format!("{attempt}:{lease}"))));
        call.args.push(Arg::Text(resource.channel().clone()));
    }
    call
}

/// The longest list in a holder's field.
pub(crate) const LISTED: u32 = 8;

/// The message that a release has handed the lock over to a waiter, for those that cannot be
/// listed.
pub(crate) const HANDED_TO_ANOTHER: &[u8] = b"1";

/// A release has handed the lock over to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandedOver<'a> {
    pub(crate) field: &'a str,
    /// The number of the attempt by which the waiter is known.
    pub(crate) attempt: u64,
    pub(crate) lease: Duration,
}

/// Reads what follows the word of a [message to a client](super::forced::ToClient): the channel of
/// the lock, and who has it now.
pub(super) fn handed_over(text: &str) -> Option<(&str, HandedOver<'_>)> {
    let mut parts = text.splitn(4, ' ');
    let mut number = || parts.next()?.parse().ok();
    let (attempt, lease_ms) = (number()?, number()?);
    let (field, channel) = (parts.next()?, parts.next()?);
    let lease = Duration::from_millis(lease_ms);
    let handed_over = HandedOver {
        field,
        attempt,
        lease,
    };
    Some((channel, handed_over))
}

fn reenter(resource: &Resource, field: &Field, lease: Duration, count: u32) -> Call {
    let args = [field.clone().into(), ms(lease), Arg::Int(count.into())];
    Call::new(&REENTER, resource.only_key(), args)
}

pub(super) fn release(resource: &Resource, publish: Publish, count: u32, field: &Field) -> Call {
    let [channel, command] = resource.publish_args(publish);
    let args = [
        channel,
        command,
        Arg::Int(count.into()),
        field.clone().into(),
    ];
    Call::new(&RELEASE, resource.only_key(), args)
}

/// Lets a release give the lock to a waiter. `own` of those that listen are of the caller's client,
/// so nobody is passed over with them.
pub(crate) fn looks_for_waiters(release: &mut Call, own: i64) {
    release.args.push(Arg::Int(own));
}

fn force_release(resource: &Resource, publish: Publish, force: Force<'_>) -> Call {
    Call::new(
        &FORCE_RELEASE,
        resource.only_key(),
        resource.force_args(publish, force),
    )
}

fn renewal_keys(resource: &Resource, _field: &str) -> Keys {
    resource.only_key().into_iter().collect()
}

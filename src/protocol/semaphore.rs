//! The semaphore: the number of available permits at the name, and the holds in a sorted set that
//! only this crate uses.

use std::sync::Arc;

use super::calls::{AcquireArgs, Force, KindCalls, NewField, joined_field, renew};
use super::counter::{ReplyKey, keys_with_reply};
use super::resource::Resource;
use super::script::{Script, scripts};
use super::{Arg, Call, Field, Keys, Publish, Unexpected, Value, lock};
use crate::client_id::is_uuid;

scripts! {
    ACQUIRE = "semaphore_acquire" from "shared/clock.lua" "shared/give_back.lua"
        "semaphore/holds.lua" "shared/limit.lua" "semaphore/acquire.lua", takes;
    ADD = "semaphore_add" from "shared/full_server.lua" "shared/replies.lua" "semaphore/add.lua";
    AVAILABLE = "semaphore_available" from "shared/clock.lua" "shared/give_back.lua"
        "semaphore/holds.lua" "semaphore/available.lua";
    COUNT = "semaphore_count" from "shared/clock.lua" "shared/give_back.lua" "semaphore/holds.lua"
        "semaphore/count.lua";
    DRAIN = "semaphore_drain" from "shared/clock.lua" "shared/give_back.lua" "semaphore/holds.lua"
        "shared/replies.lua" "semaphore/drain.lua", takes;
    FORCE_RELEASE = "semaphore_force_release" from "shared/give_back.lua" "shared/tell_clients.lua"
        "semaphore/holds.lua" "semaphore/force_release.lua";
    KEEP = "semaphore_keep" from "semaphore/keep.lua";
    RELEASE = "semaphore_release" from "shared/clock.lua" "shared/give_back.lua"
        "semaphore/holds.lua" "semaphore/release.lua";
    RENEW = "semaphore_renew" from "shared/clock.lua" "shared/full_server.lua"
        "semaphore/renew.lua";
    RESIZE = "semaphore_resize" from "shared/clock.lua" "shared/give_back.lua" "semaphore/holds.lua"
        "shared/full_server.lua" "semaphore/resize.lua";
}

/// The calls that remain from [`lock`] are never made, because permits are not handed over.
pub(super) static CALLS: KindCalls = KindCalls {
    field,
    acquire,
    reenter: |resource, field, lease, _holds| renew(&CALLS, lease, &[(resource, field)]),
    release,
    renewal: &RENEW,
    renewal_keys: holds_key,
    ..lock::CALLS
};

fn field(new_field: NewField<'_>) -> Field {
    let NewField {
        client,
        number,
        permits,
        ..
    } = new_field;
    joined_field(client, number, &format!(":{permits}"))
}

/// The number of permits of a hold.
pub fn permits_of(field: &str) -> Option<u32> {
    let (owner, permits) = field.rsplit_once(':')?;
    let (client, number) = owner.split_once(':')?;
    (is_uuid(client) && number.parse::<u64>().is_ok())
        .then(|| permits.parse().ok())
        .flatten()
}

fn acquire(resource: &Resource, publish: Publish, args: &AcquireArgs<'_>) -> Call {
    acquire_by(&ACQUIRE, resource, publish, args)
}

/// The limit's key is only sent with a limit, and for several permits, which may exceed a limit
/// that others declare.
pub(super) fn acquire_by(
    script: &'static Script,
    resource: &Resource,
    publish: Publish,
    args: &AcquireArgs<'_>,
) -> Call {
    let names_limit = args.limit.is_some() || args.permits > 1;
    let keys = resource
        .keys()
        .chain(names_limit.then(|| resource.limit_key()));
    let limit = args.limit.map(|limit| Arg::Int(limit.into()));
    let publish = resource.publish_args(publish).into_iter();
    let args = publish.chain(args.owner_and_lease()).chain(limit);
    Call::new(script, keys, args)
}

/// The keys of a semaphore, and that of its limit.
pub(super) fn keys_with_limit(resource: &Resource) -> impl Iterator<Item = Arc<str>> {
    resource.keys().chain([resource.limit_key()])
}

fn release(resource: &Resource, publish: Publish, _count: u32, field: &Field) -> Call {
    Call::new(
        &RELEASE,
        resource.keys(),
        resource.release_args(publish, field),
    )
}

pub(super) fn holds_key(resource: &Resource, _field: &str) -> Keys {
    [resource.extra_keys[0].clone()].into_iter().collect()
}

/// Adds permits, or removes some. Creates a semaphore that does not exist.
pub(crate) fn add(
    resource: &Resource,
    publish: Publish,
    permits: i64,
    (reply, [request, kept]): ReplyKey,
) -> Call {
    let publish = resource.publish_args(publish).into_iter();
    let args = publish.chain([Arg::Int(permits), request, kept]);
    Call::new(&ADD, keys_with_reply(resource, reply), args)
}

pub(crate) fn drain(resource: &Resource, publish: Publish, (reply, kept): ReplyKey) -> Call {
    let args = resource.publish_args(publish).into_iter().chain(kept);
    Call::new(&DRAIN, keys_with_reply(resource, reply), args)
}

pub(crate) fn available(resource: &Resource, publish: Publish) -> Call {
    Call::new(&AVAILABLE, resource.keys(), resource.publish_args(publish))
}

/// The numbers of available and of held permits.
pub(crate) fn count(resource: &Resource, publish: Publish) -> Call {
    Call::new(&COUNT, resource.keys(), resource.publish_args(publish))
}

/// The reply of [`count`].
pub(crate) fn available_and_held(reply: Value) -> Result<(i64, i64), Unexpected> {
    match &reply {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(available), Value::Int(held)] => Ok((*available, *held)),
            _ => Err(Unexpected(reply)),
        },
        _ => Err(Unexpected(reply)),
    }
}

/// What a new total is, if no limit was applied before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Total {
    Number = 0,
    /// A limit that the caller declares.
    Limit = 1,
}

/// Sets the total number of permits, held ones included. It replaces the limit that was applied
/// last.
pub(crate) fn resize(resource: &Resource, publish: Publish, permits: i64, total: Total) -> Call {
    let total = [Arg::Int(permits), Arg::Int(total as i64)];
    let args = resource.publish_args(publish).into_iter().chain(total);
    Call::new(&RESIZE, keys_with_limit(resource), args)
}

/// Gives the permits of an owner back, which must be given.
pub(crate) fn force_release(resource: &Resource, publish: Publish, force: Force<'_>) -> Call {
    Call::new(
        &FORCE_RELEASE,
        resource.keys(),
        resource.force_args(publish, force),
    )
}

/// Forgets a hold, so that its permits never come back by the end of a lease.
pub(crate) fn keep(resource: &Resource, field: &Field) -> Call {
    Call::new(&KEEP, holds_key(resource, field), [field.clone().into()])
}

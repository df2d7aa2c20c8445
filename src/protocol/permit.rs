//! The permit-expirable semaphore: the number of available permits at the name, and the id of each
//! held permit in a sorted set that Redisson reads too.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{AcquireArgs, KindCalls, NewField, ms, renew};
use super::resource::Resource;
use super::script::scripts;
use super::semaphore::{self, Total, holds_key, keys_with_limit};
use super::{Arg, Call, Field, Publish};

scripts! {
    ACQUIRE = "permit_acquire" from "shared/clock.lua" "shared/give_back.lua" "permit/holds.lua"
        "shared/limit.lua" "permit/acquire.lua", takes;
    COUNT = "permit_count" from "shared/clock.lua" "shared/give_back.lua" "permit/holds.lua"
        "permit/count.lua";
    EXPIRE = "permit_expire" from "permit/expire.lua";
    LEASE = "permit_lease" from "shared/clock.lua" "shared/give_back.lua" "permit/holds.lua"
        "permit/lease.lua";
    RELEASE = "permit_release" from "shared/clock.lua" "shared/give_back.lua" "permit/holds.lua"
        "permit/tell_holders.lua" "permit/release.lua";
    RENEW = "permit_renew" from "shared/clock.lua" "shared/give_back.lua" "permit/holds.lua"
        "shared/full_server.lua" "permit/renew.lua";
    RESIZE = "permit_resize" from "shared/clock.lua" "shared/give_back.lua" "permit/holds.lua"
        "shared/full_server.lua" "permit/resize.lua";
    UPDATE = "permit_update" from "shared/clock.lua" "shared/give_back.lua" "permit/holds.lua"
        "permit/update.lua";
}

pub(super) static CALLS: KindCalls = KindCalls {
    field,
    acquire,
    reenter: |resource, field, lease, _holds| renew(&CALLS, lease, &[(resource, field)]),
    release,
    renewal: &RENEW,
    ..semaphore::CALLS
};

/// The length of the id of a permit: 16 bytes in hex.
pub(crate) const ID_LENGTH: usize = 32;

/// The ids of one acquisition are consecutive. The next acquisition gets another number.
fn field(new_field: NewField<'_>) -> Field {
    let NewField {
        client_id,
        number,
        permits,
        ..
    } = new_field;
    let first = client_id.as_u128() ^ (u128::from(number) << 32);
    let id = |id| format!("{:032x}", first ^ u128::from(id));
    Arc::from((0..permits).map(id).collect::<String>())
}

fn acquire(resource: &Resource, publish: Publish, args: &AcquireArgs<'_>) -> Call {
    semaphore::acquire_by(&ACQUIRE, resource, publish, args)
}

/// Releases those permits that are still held.
fn release(resource: &Resource, publish: Publish, _count: u32, ids: &Field) -> Call {
    release_by(resource, publish, ids, "")
}

/// Releases permits by their ids, all or none, with a [note](super::forced::note) for the holders.
pub(crate) fn release_by(resource: &Resource, publish: Publish, ids: &Field, note: &str) -> Call {
    let args = resource.release_args(publish, ids);
    let args = args.into_iter().chain([note.into()]);
    Call::new(&RELEASE, resource.keys(), args)
}

/// The numbers of available and of held permits.
pub(crate) fn count(resource: &Resource, publish: Publish) -> Call {
    Call::new(&COUNT, resource.keys(), resource.publish_args(publish))
}

/// Sets the total number of permits, held ones included. It replaces the limit that was applied
/// last.
pub(crate) fn resize(resource: &Resource, publish: Publish, permits: i64, total: Total) -> Call {
    let total = [Arg::Int(permits), Arg::Int(total as i64)];
    let args = resource.publish_args(publish).into_iter().chain(total);
    Call::new(&RESIZE, keys_with_limit(resource), args)
}

/// Makes a semaphore and all its permits expire after `life`.
pub(crate) fn expire(resource: &Resource, life: Duration) -> Call {
    Call::new(&EXPIRE, keys_with_limit(resource), [ms(life)])
}

pub(crate) fn lease_of(resource: &Resource, id: &Field) -> Call {
    Call::new(&LEASE, holds_key(resource, id), [id.clone().into()])
}

/// Gives a permit another lease, longer or shorter.
pub(crate) fn update_lease(resource: &Resource, id: &Field, lease: Duration) -> Call {
    Call::new(
        &UPDATE,
        holds_key(resource, id),
        [id.clone().into(), ms(lease)],
    )
}

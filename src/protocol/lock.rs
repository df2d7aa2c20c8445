//! The re-entrant lock: a hash at the name, with a count for each owner. The spin lock and the
//! non-reentrant lock are the same on the wire.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{AcquireArgs, Calls, call, ms, plain_field};
use super::resource::Resource;
use super::script::scripts;
use super::{Arg, Call, Field, Publish};

scripts! {
    ACQUIRE = "lock_acquire" from "lock/acquire.lua";
    FORCE_RELEASE = "lock_force_release" from "shared/tell_clients.lua" "lock/force_release.lua";
    INSPECT = "lock_inspect" from "shared/clock.lua" "shared/may.lua" "description/described.lua" "lock/inspect.lua", reads_undeclared_keys;
    LINGER = "lock_linger" from "lock/linger.lua";
    REENTER = "lock_reenter" from "shared/lease.lua" "lock/reenter.lua";
    RELEASE = "lock_release" from "lock/release.lua";
    RENEW = "lock_renew" from "shared/lease.lua" "lock/renew.lua";
    TAKE_OVER = "lock_take_over" from "shared/lease.lua" "lock/take_over.lua";
}

/// Other kinds use those of these calls that are the same for them.
pub(super) static CALLS: Calls = Calls {
    field: plain_field,
    acquire,
    reenter,
    take_over,
    release,
    linger: Some(linger),
    force_release,
    inspect: &INSPECT,
    renewal: &RENEW,
    renewal_keys,
};

fn acquire(resource: &Resource, _publish: Publish, args: &AcquireArgs<'_>) -> Call {
    call(&ACQUIRE, resource.keys(), args.owner_and_lease())
}

fn reenter(resource: &Resource, field: &Field, lease: Duration, holds: u32) -> Call {
    let args = vec![field.clone().into(), ms(lease), Arg::Int(holds.into())];
    call(&REENTER, resource.only_key(), args)
}

fn take_over(resource: &Resource, from: &Field, owner: &Field, lease: Duration) -> Call {
    let args = vec![from.clone().into(), owner.clone().into(), ms(lease)];
    call(&TAKE_OVER, resource.only_key(), args)
}

pub(super) fn release(resource: &Resource, publish: Publish, holds: u32, field: &Field) -> Call {
    let counted = vec![Arg::Int(holds.into()), field.clone().into()];
    call(
        &RELEASE,
        resource.only_key(),
        [resource.publish_args(publish), counted].concat(),
    )
}

fn linger(resource: &Resource, publish: Publish, field: &Field, rest: Duration) -> Call {
    let args = [resource.release_args(publish, field), vec![ms(rest)]].concat();
    call(&LINGER, resource.only_key(), args)
}

fn force_release(resource: &Resource, publish: Publish, owner: Option<&str>) -> Call {
    call(
        &FORCE_RELEASE,
        resource.only_key(),
        resource.force_args(publish, owner),
    )
}

fn renewal_keys(resource: &Resource, _field: &str) -> Vec<Arc<str>> {
    resource.only_key()
}
